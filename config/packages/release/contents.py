"""What stands beside the binary in each package: licences, completions, manual pages and the list of components."""

import os
import re
import shutil

from .common import PACKAGES, ROOT, ReleaseError, host, report, repository, run, runs_here, version
from .tools import cargo_tool

SHELLS = {"bash": "baton.bash", "zsh": "_baton", "fish": "baton.fish"}
PROSE = ["CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"]
# What the README says to those who have a clone, and what it says to those who have a package.
OF_A_CLONE = [
    (r"No version is published yet\. In a clone .*?:\n", "With `baton` on your `PATH`:\n"),
    (r"cargo run --release --locked -- ", "baton "),
    (r"The first build .*?\. (?=\[`try`\])", ""),
    (r"\./target/release/baton ", "baton "),
    (r"`cargo install --path \. --locked` .*?\.\n", ""),
]
# Examples that people install: hooks of agents, and the client of Agent Mail. The .deb has them by Cargo.toml.
EXAMPLES = ["hooks", "agent-mail"]


def write_shell_files(binaries, folder):
    """Completions and manual pages, by a binary that this machine runs. They are the same for each target."""
    mine = [binary for target, binary in binaries.items() if runs_here(target)]
    program = [mine[0]] if mine else ["cargo", "run", "--quiet", "--locked", "--"]
    folder = fresh(folder)
    (folder / "completions").mkdir()
    for shell, name in SHELLS.items():
        (folder / "completions" / name).write_text(run([*program, "completions", shell], cwd=ROOT))
    run([*program, "man", folder / "man"], cwd=ROOT)
    return folder


def write_licences(file, without):
    """The licences of all crates in the binary, with their texts; `without` them, a line that says so."""
    if without:
        file.write_text("Left out: these packages are for a trial, and not to be published.\n")
        return file
    report("collecting licences")
    config = ["--config", PACKAGES / "about.toml", "--output-file", file]
    tool = [cargo_tool("cargo-about"), "generate", "--locked", "--offline", "--fail"]
    run(["cargo", "fetch", "--locked", "--quiet"], cwd=ROOT)
    run([*tool, *config, PACKAGES / "licences.hbs"], cwd=ROOT)
    return file


def write_sbom(file):
    """The components of the binary, as CycloneDX JSON. The tool writes a file beside each Cargo.toml of the workspace."""
    report("listing components")
    name = "baton-sbom"
    command = ["cyclonedx", "--format", "json", "--target", host(), "--override-filename", name, "--no-build-deps"]
    try:
        run([cargo_tool("cargo-cyclonedx"), *command], cwd=ROOT)
        shutil.copyfile(ROOT / f"{name}.json", file)
    finally:
        for crate in [ROOT, ROOT / "src/core", ROOT / "src/state", ROOT / "src/serve", ROOT / "tests/strict"]:
            (crate / f"{name}.json").unlink(missing_ok=True)
    return file


def fresh(folder):
    """The folder, made anew."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    return folder


def packaged_readme():
    """The README for those who have a package: without the commands of a clone, and without links to files of one.

    Raises ReleaseError where the README lacks something of `OF_A_CLONE`.
    """
    text = (ROOT / "README.md").read_text()
    for pattern, instead in OF_A_CLONE:
        text, count = re.subn(pattern, instead, text, flags=re.DOTALL)
        if not count:
            raise ReleaseError(f"README.md has nothing like `{pattern}`, which packages replace (config/packages/release/contents.py)")
    link = r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?:|#)([^)]*)\)"
    if address := repository():
        return re.sub(link, rf"\1[\2]({address}/raw/v{version()}/\3)", text)
    # Without an address, an image is its description.
    return re.sub(link, r"\2", text)


def copy_examples(folder):
    """The examples in `examples/` of a folder."""
    for name in EXAMPLES:
        shutil.copytree(ROOT / "examples" / name, folder / "examples" / name, ignore=shutil.ignore_patterns("__pycache__"))


def write_wheel_data(folder):
    """What a wheel installs besides the program: `share/baton/examples`. maturin finds it by pyproject.toml."""
    copy_examples(fresh(folder) / "data" / "share" / "baton")
