"""Paths, the version, and how programs are run."""

import functools
import os
import subprocess
import sys
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ROOT / "config" / "packages"
# The tools of a build, and what it compiles, stay here.
CACHE = ROOT / "target" / "packaging"

# What Rust calls a machine, and what the packages call it.
NPM_NAMES = {
    "x86_64-unknown-linux-musl": ("linux", "x64"),
    "x86_64-unknown-linux-gnu": ("linux", "x64"),
    "aarch64-unknown-linux-musl": ("linux", "arm64"),
    "x86_64-apple-darwin": ("darwin", "x64"),
    "aarch64-apple-darwin": ("darwin", "arm64"),
}
IMAGE_NAMES = {"x86_64": "amd64", "aarch64": "arm64"}


class ReleaseError(Exception):
    """Something that ends the build, in words for whoever ran it."""


@functools.cache
def manifest():
    return tomllib.loads((ROOT / "Cargo.toml").read_text())


def repository():
    """Where the project is, or `None` before that is decided."""
    return manifest()["workspace"]["package"].get("repository")


def npm_carrier(target):
    """The npm package that has the binary for a target."""
    return "-".join([manifest()["package"]["name"], *NPM_NAMES[target]])


def version():
    return manifest()["workspace"]["package"]["version"]


@functools.cache
def build_time():
    """Seconds since the epoch: the time of each file in a package, so that the same commit gives the same bytes."""
    if "SOURCE_DATE_EPOCH" in os.environ:
        return int(os.environ["SOURCE_DATE_EPOCH"])
    command = ["git", "-C", ROOT, "log", "-1", "--format=%ct"]
    done = subprocess.run(command, capture_output=True, text=True)
    return int(done.stdout) if done.returncode == 0 else int(time.time())


def report(text):
    """A line of progress, on standard error."""
    print(text, file=sys.stderr, flush=True)


def run(command, **options):
    """Runs a program; its output is shown where it fails."""
    command = [str(word) for word in command]
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    if done.returncode != 0:
        raise ReleaseError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout.strip()}")
    return done.stdout


def host():
    """The target of this machine, as rustc names it."""
    lines = run(["rustc", "-vV"]).splitlines()
    return next(line.removeprefix("host: ") for line in lines if line.startswith("host: "))


def runs_here(target):
    """Whether this machine runs binaries of a target."""
    mine, other = host().split("-"), target.split("-")
    return mine[0] == other[0] and mine[2] == other[2]
