"""The packages that carry a compiled binary, each a function that writes into the release's folder."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from .archives import folder_entries, sha256, write_tar_gz
from .common import IMAGE_NAMES, NPM_NAMES, PACKAGES, ROOT, ReleaseError, manifest, npm_carrier, report, repository, run, version
from .contents import PROSE, copy_examples, fresh, packaged_readme
from .tools import cargo_tool, needed


@dataclass
class Build:
    """What a package is made of."""

    target: str
    binary: Path
    # Completions and manual pages.
    shell_files: Path
    # The licences of what is in the binary.
    licences: Path
    # Where the packages go.
    out: Path


def archive(build):
    """`baton-TARGET.tar.gz`: what cargo-binstall and the Homebrew formula fetch."""
    name = f"baton-{build.target}"
    staged = fresh(build.out.parent / "archive")
    copy_examples(staged)
    entries = folder_entries(build.shell_files, name) | folder_entries(staged, name)
    entries[f"{name}/baton"] = (build.binary.read_bytes(), 0o755)
    for file in [*(ROOT / prose for prose in PROSE), build.licences]:
        entries[f"{name}/{file.name}"] = (file.read_bytes(), 0o644)
    entries[f"{name}/README.md"] = (packaged_readme().encode(), 0o644)
    return write_tar_gz(build.out / f"{name}.tar.gz", entries)


def npm(build):
    """`baton-llm-OS-CPU`, with the binary, and `baton-llm`, which depends on those that are built and starts the right one."""
    system, cpu = NPM_NAMES[build.target]
    name = npm_carrier(build.target)
    folder = fresh(build.out.parent / "npm" / name)
    (folder / "bin").mkdir()
    shutil.copy2(build.binary, folder / "bin" / "baton")
    shutil.copy2(build.licences, folder)
    described = {"name": name, "os": [system], "cpu": [cpu], "files": ["bin", build.licences.name], "preferUnplugged": True}
    return packed(folder, described, f"The binary of baton-llm for {system} {cpu}.", build.out)


def npm_launcher(out):
    """The npm package that users name."""
    folder = fresh(out.parent / "npm" / "baton-llm")
    (folder / "bin").mkdir()
    shutil.copy2(PACKAGES / "npm" / "baton.js", folder / "bin" / "baton.js")
    copy_examples(folder)
    # npm passes over an optional package that does not exist, and the launcher would have no binary there.
    carriers = sorted(name for name in {npm_carrier(target) for target in NPM_NAMES} if (out / f"{name}-{version()}.tgz").exists())
    described = {
        "name": "baton-llm",
        "bin": {"baton": "bin/baton.js"},
        "files": ["bin", "examples"],
        "engines": {"node": ">=18"},
        "optionalDependencies": dict.fromkeys(carriers, version()),
    }
    return packed(folder, described, packaged_readme(), out)


def packed(folder, described, readme, out):
    package = manifest()["package"]
    common = {"version": version(), "description": package["description"], "license": "(MIT OR Apache-2.0)"}
    if address := repository():
        common["repository"] = {"type": "git", "url": address}
    (folder / "package.json").write_text(json.dumps({**described, **common}, indent=2) + "\n")
    (folder / "README.md").write_text(readme)
    run([needed("npm"), "pack", "--silent", "--pack-destination", out], cwd=folder)
    return out / f"{described['name']}-{version()}.tgz"


def deb(build):
    """The Debian package, by what Cargo.toml says under `package.metadata.deb`."""
    staged = fresh(ROOT / "target" / "packaging" / "deb")
    shutil.copytree(build.shell_files, staged, dirs_exist_ok=True)
    shutil.copy2(build.licences, staged)
    (staged / "README.md").write_text(packaged_readme())
    target = ["--target", build.target, "--profile", build.binary.parent.name]
    run([cargo_tool("cargo-deb"), "--no-build", "--no-strip", *target, "--output", build.out], cwd=ROOT)
    [found] = [file for file in build.out.glob("*.deb") if deb_cpu(build.target) in file.name]
    return found


def deb_cpu(target):
    return IMAGE_NAMES[target.split("-")[0]]


def image(build):
    """`baton-image-CPU.tar`, for `docker load`, by whichever builder there is; `None` where there is none."""
    cpu = IMAGE_NAMES[build.target.split("-")[0]]
    file = build.out / f"baton-image-{cpu}.tar"
    context = fresh(ROOT / "target" / "packaging" / "image")
    for source in [PACKAGES / "image" / "Dockerfile", PACKAGES / "image" / "baton.toml", build.binary]:
        shutil.copy2(source, context)
    (context / "state").mkdir()
    tag = f"baton-llm:{version()}"
    file.unlink(missing_ok=True)
    platform = ["--platform", f"linux/{cpu}", "--tag", tag]
    if shutil.which("buildah"):
        # Docker's format: the other one has no health check.
        options = ["--format", "docker", "--storage-driver", "vfs", "--isolation", "chroot"]
        run(["buildah", "build", *options[:2], *options[4:], *platform, context])
        run(["buildah", "push", tag, f"docker-archive:{file}:{tag}"])
    elif answers(["docker", "version"]):
        run(["docker", "build", *platform, context])
        run(["docker", "save", "--output", file, tag])
    else:
        report("  no image: neither buildah nor a Docker engine is here")
        return None
    return file


def answers(command):
    try:
        run(command)
    except (ReleaseError, OSError):
        return False
    return True


def formula(archives, out):
    """The Homebrew formula. Where Cargo.toml has no `repository` it points to the files themselves, to be tried."""
    home = repository()
    base = f"{home}/releases/download/v{version()}" if home else out.resolve().as_uri()
    systems = {"linux": "on_linux", "darwin": "on_macos"}
    cpus = {"x64": "on_intel", "arm64": "on_arm"}
    blocks = []
    for target, file in archives.items():
        system, cpu = NPM_NAMES[target]
        lines = [f'url "{base}/{file.name}"', f'sha256 "{sha256(file)}"']
        body = "\n".join(f"      {line}" for line in lines)
        blocks.append(f"  {systems[system]} do\n    {cpus[cpu]} do\n{body}\n    end\n  end")
    text = (PACKAGES / "formula.rb").read_text()
    values = {
        "description": manifest()["package"]["description"],
        "homepage": home or base,
        "version": version(),
        "platforms": "\n\n".join(blocks),
    }
    text = text.removeprefix(text.splitlines(keepends=True)[0])
    for name, value in values.items():
        text = text.replace("{" + name + "}", value)
    (out / "baton-llm.rb").write_text(text)
