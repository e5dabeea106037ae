"""Compiles the binary. maturin does it, since the wheel is made in the same step; zig compiles C, and links, for any target."""

import os
import shutil

from . import layout
from .common import CACHE, PACKAGES, ROOT, ReleaseError, host, report, run
from .contents import write_wheel_data
from .tools import python_tool

# A static binary runs with any C library, so that its wheel carries the tags of both.
STATIC_TAGS = ["manylinux2014", "musllinux_1_1"]
# Above the size of any release so far; what grows past it has got a dependency that nobody looked at.
MOST_BYTES = 40 * 1024 * 1024


def compile(target, profile, out, laid_out):
    """Writes the wheel into `out`, and returns the path of the binary; `laid_out`, with its code moved."""
    report(f"compiling {target} ({profile})")
    write_wheel_data(CACHE / "wheel-data")
    command = [python_tool("maturin"), "build", "--locked", "--profile", profile, "--target", target, "--out", out]
    if target.endswith("-musl"):
        command += ["--zig", "--compatibility", *STATIC_TAGS]
    elif target.endswith("-linux-gnu"):
        # Linked with this machine's C library: a wheel for machines like it.
        command += ["--compatibility", "linux"]
    linking = {}
    if laid_out:
        command += layout.keep_symbols(profile)
        linking = layout.LINKING
    venv = python_tool("python").parent
    if shutil.which("rustup") and target != host():
        run(["rustup", "target", "add", target])
    run(command, cwd=PACKAGES, env={**os.environ, **linking, "PATH": f"{venv}:{os.environ['PATH']}"})
    binary = ROOT / "target" / target / profile / "baton"
    if laid_out:
        layout.lay_out(binary)
        [wheel] = out.glob(f"*_{target.split('-')[0]}*.whl")
        layout.put_into_wheel(wheel, binary)
    return checked(binary, target)


def checked(binary, target):
    """Refuses a binary that is large, or that is to be static and is not."""
    size = binary.stat().st_size
    if size > MOST_BYTES:
        raise ReleaseError(f"{binary} has {size} bytes, and {MOST_BYTES} are allowed")
    if target.endswith("-musl") and b"ld-musl" in binary.read_bytes():
        raise ReleaseError(f"{binary} is not static: it names an interpreter")
    report(f"  {size / 1e6:.1f} MB")
    return binary
