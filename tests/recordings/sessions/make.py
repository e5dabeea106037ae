#!/usr/bin/env python3
"""Writes the synthetic sessions of this folder, and converts the recorded ones. README.md says how they were chosen.

    python3 tests/recordings/sessions/make.py
"""
import json
import pathlib
import random

HERE = pathlib.Path(__file__).parent
MINUTE = 60_000
HOUR = 60 * MINUTE


def calls(seed, count, new, output=(150, 900), pause=(8_000, 90_000)):
    """Calls of an agent at work: each follows the one before within a minute and a half."""
    chance = random.Random(seed)
    return [
        {
            "pause_ms": chance.randint(*pause),
            "new": chance.randint(*new),
            "output": chance.randint(*output),
        }
        for _ in range(count)
    ]


def after(pause_ms, stretch):
    """The same calls, the first of them after a pause."""
    stretch[0]["pause_ms"] = pause_ms
    return stretch


def asking(model, stretch):
    stretch[0]["model"] = model
    return stretch


def stretches(seed, count, length, new, pause):
    chance = random.Random(seed)
    out = calls(seed, chance.randint(*length), new)
    for n in range(1, count):
        out += after(chance.randint(*pause), calls(seed * 100 + n, chance.randint(*length), new))
    return out


OPUS, SONNET, HAIKU = "claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5"
GPT, GEMINI, DEEPSEEK = "gpt-6.1-sol", "gemini-4-argon", "deepseek-v4-pro"
STEP = (600, 2_400)

SESSIONS = {
    "01-question": (OPUS, 967_000, calls(1, 6, STEP)),
    "02-short-task": (OPUS, 967_000, calls(2, 30, STEP)),
    "03-task": (SONNET, 967_000, calls(3, 80, STEP)),
    "04-long-task": (OPUS, 967_000, calls(4, 180, STEP)),
    "05-very-long-task": (OPUS, 967_000, calls(5, 520, STEP)),
    "06-window-of-200k": (SONNET, 167_000, calls(6, 340, STEP)),
    "07-ends-before-a-pause": (OPUS, 967_000, calls(7, 110, STEP)),
    "08-one-question-after-a-pause": (OPUS, 967_000, calls(8, 110, STEP) + after(90 * MINUTE, calls(80, 1, STEP))),
    "09-two-questions-after-a-night": (SONNET, 967_000, calls(9, 90, STEP) + after(11 * HOUR, calls(90, 2, STEP))),
    "10-a-day-with-pauses": (OPUS, 967_000, stretches(10, 7, (25, 55), STEP, (12 * MINUTE, 3 * HOUR))),
    "11-many-short-pauses": (OPUS, 967_000, stretches(11, 22, (3, 10), STEP, (6 * MINUTE, 40 * MINUTE))),
    "12-pauses-within-the-lifetime": (OPUS, 967_000, stretches(12, 20, (4, 9), STEP, (2 * MINUTE, 4 * MINUTE))),
    "13-a-week": (SONNET, 967_000, stretches(13, 5, (60, 110), STEP, (14 * HOUR, 18 * HOUR))),
    "14-large-results": (OPUS, 967_000, calls(14, 60, (2_000, 16_000))),
    "15-plans-with-opus-builds-with-sonnet": (
        OPUS, 967_000,
        calls(15, 70, STEP) + asking(SONNET, calls(150, 90, STEP)) + asking(OPUS, calls(151, 30, STEP))),
    "16-gpt-above-272k": (GPT, 945_000, calls(16, 300, STEP)),
    "17-gpt-with-pauses": (GPT, 945_000, stretches(17, 6, (30, 60), STEP, (45 * MINUTE, 4 * HOUR))),
    "18-haiku-above-100k": (HAIKU, 967_000, calls(18, 140, STEP)),
    "19-gemini-with-pauses": (GEMINI, 500_000, stretches(19, 6, (20, 50), STEP, (10 * MINUTE, 2 * HOUR))),
    "20-deepseek-over-night": (DEEPSEEK, 100_000, stretches(20, 3, (40, 60), STEP, (9 * HOUR, 12 * HOUR))),
    "21-short-task-resumed": (OPUS, 967_000, calls(21, 25, STEP) + after(2 * HOUR, calls(210, 20, STEP))),
}


def write(name, session):
    lines = ",\n".join("    " + json.dumps(call) for call in session.pop("calls"))
    head = json.dumps(session, indent=2).rstrip("}\n")
    (HERE / f"{name}.json").write_text(f'{head},\n  "calls": [\n{lines}\n  ]\n}}\n')


def recorded(file, name, limit):
    """Real agents before the strict provider: every request's tokens as they were counted, the history as the agent sent it."""
    source = json.loads((HERE.parent / "bill" / file).read_text())
    ratio, prefix, whole, out = None, None, None, []
    for exchange in source["exchanges"]:
        first = exchange["requests"][0]
        tokens = first["tokens"]
        total = tokens["input"] + tokens["cache_read"] + tokens["cache_write"]
        if ratio is None:
            ratio = total / first["bytes"]
            prefix = round(exchange["fixed_bytes"] * ratio)
            whole = prefix
        size = round(exchange["received_bytes"] * ratio)
        call = {"pause_ms": 20_000, "new": max(size - whole, 1), "output": exchange["requests"][-1]["tokens"]["output"]}
        if exchange["fired"]:
            call["handoff"] = True
        whole = max(whole, size)
        out.append(call)
    write(name, {"name": name, "model": source["model"], "prefix": prefix, "limit": limit, "calls": out})


for name, (model, limit, all_calls) in SESSIONS.items():
    write(name, {"name": name, "model": model, "prefix": 21_000, "limit": limit, "calls": all_calls})
recorded("claude_code.json", "30-recorded-claude-code", 967_000)
recorded("codex.json", "31-recorded-codex", 945_000)
recorded("gemini_cli.json", "32-recorded-gemini-cli", 500_000)
