"""Moves the code of a binary, so that what a request runs lies side by side in memory.

LLVM's BOLT counts how often each block runs while the benchmark sends requests, then moves blocks and functions. Nothing else
changes. docs/dev/performance.md has what is gained.
"""

import json
import os
import shutil

from .common import CACHE, ROOT, build_time, report, run
from .contents import fresh
from .tools import newest, python_tool

# The counts for ARM64 would have to come from such a machine.
TARGET = "x86_64-unknown-linux-musl"
# How to link a binary that BOLT can move: with its relocations, which zig does not keep. BOLT writes its counts when the process
# ends, from DT_FINI if there is such an entry. In a static binary musl never reads that, only the list in .fini_array.
LINKING = {
    "CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_LINKER": "cc",
    "RUSTFLAGS": "-Clink-self-contained=yes -Clink-arg=-Wl,--emit-relocs -Clink-arg=-Wl,-fini,none",
}
HOOK = "-runtime-lib-init-hook=init_array"
ORDER = ["-reorder-blocks=ext-tsp", "-reorder-functions=cdsort", "-split-functions", "-split-all-cold", "-split-eh"]


def keep_symbols(profile):
    """Arguments of cargo, since BOLT needs the symbols."""
    keys = [f"profile.{profile}.strip", f"profile.{profile}.package.baton-llm.strip"]
    return [word for key in keys for word in ("--config", f'{key}="none"')]


def lay_out(binary):
    """Moves the code of a binary that was linked by `LINKING`, in place, and removes its symbols."""
    work = fresh(CACHE / "layout")
    # The assembly of the cryptography library stays where it is.
    bolt = [newest("llvm-bolt"), binary, "-skip-funcs=ring_core_.*", "--no-huge-pages"]
    report("  counting how often its code runs")
    counting, counts, moved = work / "counting", work / "counts", work / "moved"
    run([*bolt, "-o", counting, "-instrument", HOOK, f"--instrumentation-file={work / 'run'}", "--instrumentation-file-append-pid"])
    send_requests(counting)
    run([newest("merge-fdata"), "-o", counts, *work.glob("run.*.fdata")])
    report("  moving its code")
    run([*bolt, "-o", moved, f"-data={counts}", *ORDER])
    # Cargo keeps another link to this file, for its next build. GNU's strip breaks what BOLT writes.
    binary.unlink()
    run([newest("llvm-strip"), "-o", binary, moved])


def send_requests(program):
    """Runs the benchmark with a binary. How the benchmark itself is optimized makes no difference to the counts."""
    lines = run(["cargo", "build", "--bench", "end_to_end", "--locked", "--message-format=json"], cwd=ROOT).splitlines()
    messages = [json.loads(line) for line in lines if line.startswith("{")]
    [bench] = [one["executable"] for one in messages if one.get("executable") and one["target"]["name"] == "end_to_end"]
    for part in ["requests", "streams"]:
        run([bench, "--only", part, "--quick", "--baton", program])


def put_into_wheel(wheel, binary):
    """Replaces the binary in a wheel."""
    folder = fresh(CACHE / "layout" / "wheel")
    tool = [python_tool("wheel")]
    run([*tool, "unpack", "--dest", folder, wheel])
    [inside] = folder.glob("*/*.data/scripts/baton")
    shutil.copy2(binary, inside)
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(build_time())}
    run([*tool, "pack", "--dest-dir", wheel.parent, *folder.iterdir()], env=environment)
