"""What every SDK has to see when it talks through the proxy: five tasks in a row, handed over four times.

A script beside this file drives one SDK on one wire. It subclasses `Agent` and calls `judge`. The provider
behind the proxy is the strict one with its autopilot, so each answer is known beforehand, word for word.
"""

import json
import os
import re

URL = os.environ["BATON_URL"]
TASKS, STEPS = 5, 2
TOOL = "read_file"
TOOL_TEXT = "Read lines of a file"
SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "lines": {"type": "integer"}},
    "required": ["path", "lines"],
}
# Longer than the tool that the first handoff brings.
RESULT = "fn main() {}\n" * 99
THOUGHT = "What does the task ask for next? — “step by step”."
FORBIDDEN = "session_handoff"

ID = r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}"
LINE = r"\*Handed over: task \d+ done\. From here on the model knows only what follows\.\*"
SENTINEL = rf"\[\[handoff-resume:{ID}\]\]\n{LINE}\n\n(?P<prompt>.*?)\n\[\[/handoff-resume:[\w-]{{22}}\]\]"
ASIDE = rf"\[\[handoff-aside:{ID}\]\]"


class Answer:
    """One final message: `blocks` are ("thinking", text), ("text", text) and ("call", name, arguments)."""

    def __init__(self, raw, blocks, calls, stop, input, output):
        self.raw, self.blocks, self.calls, self.stop = raw, blocks, calls, stop
        self.input, self.output = input, output


class Agent:
    """An agent loop on one SDK. Subclasses say how to ask, and how to answer calls."""

    joined = False  # The wire has one string of text, in which the sentinel stands with the rest.
    gap = "\n\n"  # What surrounds a sentinel.
    thinks = False  # The model's thinking reaches the agent.
    stops = {"call": "tool_use", "end": "end_turn", "lost": "pause_turn"}
    retries = True  # The SDK tries an overloaded provider again by itself.
    modes = (True, False)  # Streaming, and not.
    counts_all = True  # The API counts system and tools, too.

    def __init__(self, headers):
        raise NotImplementedError

    def say(self, text):
        """Adds a user message to the history."""
        raise NotImplementedError

    def ask(self, stream):
        """Sends the history, adds what comes back to it, and returns it as an `Answer`."""
        raise NotImplementedError

    def give(self, calls):
        """Adds the results of calls to the history."""
        raise NotImplementedError

    def count(self):
        """The size of the history in tokens, where the API counts them."""
        return None


def prompt(task, kind):
    """The carry-over prompt after task `task`."""
    flag = "" if kind == "plain" else f" {kind}"
    return (
        f"Task {task} of {TASKS} is done. Findings so far: naïve “quotes”, 漢字, 🦀, C:\\tmp\\x, "
        f'{{"json": [1]}}.\nGo on with the next one:\n#task {task + 1}/{TASKS} steps={STEPS}{flag}\n'
        "Work step by step."
    )


def expected(kind, thinks):
    """The blocks of each answer, in order."""

    def leg(*blocks):
        return ([("thinking", THOUGHT)] if thinks else []) + list(blocks)

    answers, open = [], []
    for task in range(1, TASKS + 1):
        last = task == TASKS
        for step in range(1, STEPS + 1):
            text = f"Task {task}, step {step} of {STEPS}."
            if kind == "mixed" and step == STEPS and not last:
                text = "The last step, and the handoff beside it."
            call = ("call", TOOL, {"path": "src/lib.rs", "lines": step})
            answers.append(open + leg(("text", text), call))
            open = []
        if last:
            answers.append(leg(("text", f"All {TASKS} tasks done.")))
        elif kind == "mixed":
            open = leg(("text", f"Task {task} is done."))
        elif kind == "refuse":
            open = leg(("text", "Handing over, badly."), ("aside",))
            open += leg(("text", f"Task {task} is done; handing over."))
        else:
            open = leg(("text", f"Task {task} is done; handing over."))
        if not last:
            open.append(("sentinel", prompt(task, kind)))
    return answers


def read(agent, blocks):
    """The blocks with the proxy's own marks separated from the model's text."""
    out = []
    for block in blocks:
        if block[0] == "text":
            out += marks(agent, block[1])
        else:
            out.append(block)
    return out


def marks(agent, text):
    mark = rf"{agent.gap}(?:{SENTINEL}|{ASIDE}){agent.gap}"
    out, at = [], 0
    for found in re.finditer(mark, text, re.DOTALL):
        out.append(("text", text[at : found.start()]))
        out.append(("sentinel", found["prompt"]) if found["prompt"] else ("aside",))
        at = found.end()
    out.append(("text", text[at:]))
    if not agent.joined:
        assert len(out) == 1 or out[0][1] == out[-1][1] == "", f"a mark shares its block: {text!r}"
    return [piece for piece in out if piece != ("text", "")]


def same(what, seen, wanted):
    assert seen == wanted, f"{what}:\n  saw    {seen!r}\n  wanted {wanted!r}"


def chain(make, run, kind, stream, chunk, fault="", counts=False):
    """Five tasks in one agent loop; the answers' sizes."""
    headers = {"x-judge-run": run, "x-judge-kind": kind, "x-judge-chunk": str(chunk), "x-judge-fault": fault}
    agent = make(headers)
    flag = "" if kind == "plain" else f" [{kind}]"
    agent.say(f"Run {run}. Please do this:\n#task 1/{TASKS} steps={STEPS}{flag}")
    wanted, sizes, at = expected(kind, agent.thinks), [], 0
    counted, handed = None, False
    while at < len(wanted):
        where = f"run {run} ({kind}, {'stream' if stream else 'whole'}, {chunk} bytes, {fault}), answer {at + 1}"
        before, counted = counted, agent.count() if counts else None
        if before is not None:
            same(f"{where}, count shrinks ({before} to {counted})", counted < before, handed)
        answer = agent.ask(stream)
        seen = read(agent, answer.blocks)
        lost = fault == "lost" and seen and seen[-1][0] == "sentinel"
        if lost:
            # The next leg never came: what stands so far, and the rest with the next request.
            cut = next(n for n, block in enumerate(wanted[at]) if block[0] == "sentinel") + 1
            same(where, seen, wanted[at][:cut])
            wanted.insert(at + 1, wanted[at][cut:])
            fault = ""
        else:
            same(where, seen, wanted[at])
        assert FORBIDDEN not in answer.raw, f"{where}: the hidden call reached the agent: {answer.raw}"
        stop = "lost" if lost else "call" if answer.calls else "end"
        same(f"{where}, stop reason", answer.stop, agent.stops[stop])
        handed = any(block[0] == "sentinel" for block in seen)
        if counted is not None and agent.counts_all and not handed:
            same(f"{where}, counted beforehand", counted, answer.input)
        if sizes and not lost and not any("lost" == size[2] for size in sizes[-1:]):
            less = answer.input < sizes[-1][0]
            same(f"{where}, input shrinks ({sizes[-1][0]} to {answer.input})", less, handed)
        sizes.append((answer.input, answer.output, stop))
        if answer.calls:
            agent.give(answer.calls)
        elif lost and agent.stops["lost"] != "pause_turn":
            agent.say("Go on.")
        at += 1
    return sizes


def unknown(make, stream):
    """An unknown handoff: the proxy itself answers, and the SDK takes that for a model's answer."""
    agent = make({"x-judge-run": "00", "x-judge-kind": "plain", "x-judge-chunk": "0", "x-judge-fault": ""})
    agent.say("[[handoff-resume:0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11]]\nGo on.")
    answer = agent.ask(stream)
    where = f"an unknown handoff, {'stream' if stream else 'whole'}"
    same(f"{where}, blocks", [block[0] for block in answer.blocks], ["text"])
    assert answer.blocks[0][1].startswith("baton: "), f"{where}: {answer.blocks}"
    same(f"{where}, stop reason", answer.stop, agent.stops["end"])
    assert answer.input > 0 and answer.output > 0, f"{where}, usage: {answer.input}, {answer.output}"


def judge(make):
    """All runs for one SDK."""
    runs = 0

    def next_run():
        nonlocal runs
        runs += 1
        return f"{runs:02}"

    for stream in make.modes:
        unknown(make, stream)
    for kind in ("plain", "mixed", "refuse"):
        outputs = None
        for stream in make.modes:
            first = None
            for chunk in (0, 1, 7) if stream else (0, 7):
                sizes = chain(make, next_run(), kind, stream, chunk, counts=chunk == 0)
                # What an SDK resends may differ with how it got it.
                first = first or sizes
                same(f"{kind}, {chunk} bytes: usage", sizes, first)
            outputs = outputs or [size[1] for size in first]
            same(f"{kind}: output, streamed or not", [size[1] for size in first], outputs)
    for stream in make.modes:
        for fault in ("first", "leg2", "lost"):
            if fault != "first" or make.retries:
                chain(make, next_run(), "plain", stream, 0, fault)
    print(f"{make.__name__}: {runs} runs of {TASKS} tasks")


def dumped(model):
    """What an SDK's object holds, as text, to search in."""
    return json.dumps(model.model_dump(mode="json"), ensure_ascii=False)
