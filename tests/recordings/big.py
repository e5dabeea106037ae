#!/usr/bin/env python3
"""Writes a home folder with a gigabyte of sessions in Claude Code's form, to measure `baton try` with.

    big.py FOLDER [MEGABYTES]
    HOME=FOLDER /usr/bin/time -v target/release/baton try
"""

import json
import random
import sys
import time
from pathlib import Path

WORDS = "the parser reads a line and the test of it fails where the table has no row for that name so mend it first".split()


def session(number, megabytes, seeded):
    at = 1_795_000_000 - number * 40_000
    whole, written = 30_000, 0
    for n in range(10**6):
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
        text = " ".join(seeded.choices(WORDS, k=seeded.randint(50, 1500)))
        base = {"sessionId": f"s{number}", "timestamp": stamp, "cwd": "/src"}
        if n % 40 == 0:
            at += seeded.choice([60, 900, 7200])
            yield {**base, "type": "user", "message": {"role": "user", "content": f"Never touch `migrations/`. Mend part {n}."}}
        new = len(text) // 4
        usage = {"input_tokens": 3, "cache_creation_input_tokens": new, "cache_read_input_tokens": whole, "output_tokens": 300}
        call = {"type": "tool_use", "id": f"t{number}_{n}", "name": "Read", "input": {"file_path": f"/src/{n % 50}.rs"}}
        yield {**base, "type": "assistant", "message": {"id": f"m{number}_{n}", "role": "assistant", "model": "claude-opus-5-5", "content": [call], "usage": usage}}
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": text}
        yield {**base, "type": "user", "message": {"role": "user", "content": [result]}, "toolUseResult": {"file": {"content": text}}}
        whole, written, at = whole + new, written + 2 * len(text) + 900, at + 20
        if whole > 180_000:
            whole = 30_000
        if written > megabytes << 20:
            return


def main():
    folder, megabytes = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1024
    seeded, each = random.Random(1), 5
    for number in range(megabytes // each):
        path = folder / ".claude" / "projects" / f"p{number % 9}" / f"{number}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w") as out:
            out.writelines(json.dumps(line) + "\n" for line in session(number, each, seeded))


if __name__ == "__main__":
    main()
