"""Installs what was built from its files into fresh folders, as a user would, and runs `baton demo` from there."""

import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from pathlib import Path

from .common import IMAGE_NAMES, NPM_NAMES, ReleaseError, host, report, run, runs_here, version
from .tools import python_tool


def run_all(out):
    """Each package for this machine that is in the folder; the others are named."""
    with tempfile.TemporaryDirectory(prefix="baton-trial-") as scratch:
        tried = [trial(out, Path(scratch)) for trial in (archive, wheel, npm, deb, image, checksums)]
    foreign(out)
    if not any(tried):
        raise ReleaseError("nothing of what was built runs on this machine: --try needs its target")


def demo(command, folder, **options):
    """Runs the demo, with a home of its own; it has to show its handoffs."""
    home = folder / "home"
    home.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "HOME": str(home), **options.pop("env", {})}
    shown = run([*command, "demo"], cwd=home, env=environment, **options)
    if "handoffs" not in shown:
        raise ReleaseError(f"{command}: the demo shows no handoff:\n{shown}")


def mine(out, pattern):
    """The file for this machine of a kind; `None`, and a line that says so, where there is none."""
    found = sorted(out.glob(pattern))
    if not found:
        report(f"not tried: no {pattern} was built")
    return found[0] if found else None


# What is in the folder of examples in each package.
HOOK, MAIL = "examples/hooks/codex-notify.sh", "examples/agent-mail/agent_mail.py"


def has_examples(file, folder):
    """Whether a package that was unpacked has the examples, which run as programs."""
    for name in [HOOK, MAIL]:
        if not os.access(folder / name, os.X_OK):
            raise ReleaseError(f"{file.name} has no program {name}")


def cpu():
    return host().split("-")[0]


def archive(out, scratch):
    if not (file := mine(out, f"baton-{cpu()}-*.tar.gz")):
        return False
    folder = scratch / "archive"
    with tarfile.open(file) as tar:
        tar.extractall(folder, filter="data")
    [top] = folder.iterdir()
    for name in ["man/baton.1", "completions/_baton", "THIRD-PARTY-LICENCES.txt", "LICENSE-MIT"]:
        if not (top / name).is_file():
            raise ReleaseError(f"{file.name} has no {name}")
    has_examples(file, top)
    demo([top / "baton"], folder)
    report(f"ok: {file.name}: baton demo")
    return True


def wheel(out, scratch):
    if not (file := mine(out, f"baton_llm-*{cpu()}*.whl")):
        return False
    folder = scratch / "wheel"
    caches = {"UV_CACHE_DIR": str(folder / "cache"), "UV_TOOL_DIR": str(folder / "tools")}
    demo([python_tool("uvx"), "--from", file, "baton"], folder, env=caches)
    with zipfile.ZipFile(file) as zipped:
        zipped.extractall(folder / "unpacked")
    [data] = (folder / "unpacked").glob("*.data/data/share/baton")
    for name in [HOOK, MAIL]:
        if not (data / name).is_file():
            raise ReleaseError(f"{file.name} has no {name}")
    report(f"ok: uvx --from ./{file.name} baton demo")
    return True


def npm(out, scratch):
    names = {target: names for target, names in NPM_NAMES.items() if runs_here(target)}
    system, kind = next(iter(names.values()))
    carrier = mine(out, f"baton-llm-{system}-{kind}-*.tgz")
    if not carrier:
        return False
    launcher = out / f"baton-llm-{version()}.tgz"
    folder = scratch / "npm"
    with tarfile.open(launcher) as tar:
        tar.extractall(folder / "unpacked", filter="data")
    has_examples(launcher, folder / "unpacked" / "package")
    packages = ["--package", launcher, "--package", carrier]
    demo(["npx", "--yes", "--cache", folder / "cache", *packages, "baton"], folder)
    report(f"ok: npx --package ./{launcher.name} --package ./{carrier.name} baton demo")
    return True


def deb(out, scratch):
    file = mine(out, f"*_{IMAGE_NAMES[cpu()]}.deb")
    if not file or not shutil.which("dpkg-deb"):
        return False
    folder = scratch / "deb"
    run(["dpkg-deb", "--extract", file, folder])
    for name in ["usr/share/man/man1/baton.1.gz", "usr/share/bash-completion/completions/baton"]:
        if not (folder / name).is_file():
            raise ReleaseError(f"{file.name} has no /{name}")
    has_examples(file, folder / "usr/share/doc/baton-llm")
    demo([folder / "usr/bin/baton"], folder)
    fields = run(["dpkg-deb", "--field", file, "Version", "Depends"]).split("\n")
    report(f"ok: {file.name} ({'; '.join(fields[:2])}): baton demo")
    return True


MOST_IMAGE_BYTES = 40_000_000


def image(out, scratch):
    """Unpacks the layers, and runs the entry point in them as the image's user, where this process may do so."""
    file = mine(out, f"baton-image-{IMAGE_NAMES[cpu()]}.tar")
    if not file:
        return False
    if file.stat().st_size > MOST_IMAGE_BYTES:
        raise ReleaseError(f"{file.name} has {file.stat().st_size} bytes, and {MOST_IMAGE_BYTES} are allowed")
    folder, root = scratch / "image", scratch / "root"
    with tarfile.open(file) as tar:
        tar.extractall(folder, filter="data")
    [described] = json.loads((folder / "manifest.json").read_text())
    config = json.loads((folder / described["Config"]).read_text())["config"]
    if config["User"] != "65532:65532" or "Healthcheck" not in config:
        raise ReleaseError(f"{file.name}: {config}")
    for layer in described["Layers"]:
        with tarfile.open(folder / layer) as tar:
            tar.extractall(root, filter="fully_trusted" if os.geteuid() == 0 else "data")
    if os.geteuid() != 0:
        report(f"not run: {file.name} (only root may change its root folder)")
        return False
    served(root, config)
    report(f"ok: {file.name}: serves and is healthy as 65532:65532")
    return True


def served(root, config):
    """Starts the entry point in the image's root folder, and asks its health check until that succeeds."""
    in_root = ["chroot", "--userspec", config["User"], root]
    environment = dict(pair.split("=", 1) for pair in config["Env"])
    # Free ports: those of the image may be in use on this machine.
    environment |= {"BATON_SERVER__LISTEN": "127.0.0.1:0", "BATON_ADMIN__LISTEN": "127.0.0.1:0"}
    quiet = {"env": environment, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    server = subprocess.Popen([shutil.which("chroot"), *in_root[1:], *config["Entrypoint"], *config["Cmd"]], **quiet)
    try:
        check = [shutil.which("chroot"), *in_root[1:], *config["Healthcheck"]["Test"][1:]]
        for _ in range(50):
            if subprocess.run(check, **quiet).returncode == 0:
                return
            if server.poll() is not None:
                raise ReleaseError(f"the image does not serve: {server.stderr.read()}")
            try:
                server.wait(0.2)
            except subprocess.TimeoutExpired:
                pass
        raise ReleaseError("the image does not become healthy")
    finally:
        server.terminate()
        server.wait()


def checksums(out, _scratch):
    run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=out)
    report("ok: SHA256SUMS")
    return False


def foreign(out):
    """Binaries of other processors: their version, where an emulator is here."""
    for file in sorted(out.glob("baton-*.tar.gz")):
        processor = file.name.split("-")[1]
        if processor == cpu():
            continue
        emulator = shutil.which(f"qemu-{processor}") or shutil.which(f"qemu-{processor}-static")
        if not emulator:
            report(f"not tried: {file.name} (no qemu-{processor})")
            continue
        with tempfile.TemporaryDirectory() as folder, tarfile.open(file) as tar:
            tar.extractall(folder, filter="data")
            [top] = Path(folder).iterdir()
            demo([emulator, top / "baton"], Path(folder))
            report(f"ok: {file.name}: baton demo ({Path(emulator).name})")
