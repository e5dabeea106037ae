"""The tools of a build: from PyPI and crates.io, in versions that are written down, under target/packaging."""

import hashlib
import os
import re
import shutil
import sys
from pathlib import Path

from .common import CACHE, PACKAGES, ReleaseError, report, run

CARGO_TOOLS = {"cargo-about": "0.9.3", "cargo-cyclonedx": "0.5.9", "cargo-deb": "3.8.0"}
FEATURES = {"cargo-about": ["--features", "cli"]}
# cargo-about compares texts for minutes without optimisation; the others run for a second, and what counts is how long they
# compile.
OPTIMISED = {"cargo-about"}
QUICK = {
    "CARGO_PROFILE_RELEASE_OPT_LEVEL": "0",
    "CARGO_PROFILE_RELEASE_LTO": "off",
    "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "256",
}


def python_tool(name):
    """The path of a program that requirements.txt names."""
    folder, wanted = CACHE / "venv", PACKAGES / "requirements.txt"
    stamp, digest = folder / "installed", hashlib.sha256(wanted.read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text() != digest:
        report("installing the tools of requirements.txt")
        shutil.rmtree(folder, ignore_errors=True)
        run([sys.executable, "-m", "venv", folder])
        pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run([*pip, "-r", wanted])
        stamp.write_text(digest)
    return folder / "bin" / name


def cargo_tool(name):
    """The path of a cargo subcommand, compiled once."""
    version = CARGO_TOOLS[name]
    folder = CACHE / f"{name}-{version}"
    program = folder / "bin" / name
    if not program.exists():
        report(f"compiling {name} {version}")
        command = ["cargo", "install", f"{name}@{version}", "--locked", "--root", folder, "--quiet", *FEATURES.get(name, [])]
        profile = {} if name in OPTIMISED else QUICK
        run(command, env={**os.environ, **profile, "CARGO_TARGET_DIR": str(CACHE / "tools")})
    return program


def needed(*names):
    """The first of these programs that is on the PATH."""
    for name in names:
        if found := shutil.which(name):
            return found
    raise ReleaseError(f"{' or '.join(names)} is not on the PATH")


def newest(name):
    """A program of LLVM, of the newest release on the PATH. Debian's packages have the release in the name."""
    found = {}
    for folder in os.get_exec_path():
        for file in Path(folder).glob(f"{name}*"):
            if match := re.fullmatch(re.escape(name) + r"(?:-(\d+))?", file.name):
                found.setdefault(int(match[1] or 0), file)
    if not found:
        raise ReleaseError(f"{name} is not on the PATH (on Debian: apt-get install bolt-22 llvm-22), and --without-layout does not need it")
    return found[max(found)]
