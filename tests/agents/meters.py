"""What each agent has recorded of its context: the input tokens of each answer, in order."""

import json


def lines(stage, *patterns):
    """The JSON lines of the files in the home folder that match."""
    files = sorted(file for pattern in patterns for file in stage.home.glob(pattern))
    for file in files:
        yield from parsed(file.read_text(errors="replace"))


def parsed(text):
    for line in text.splitlines():
        if line.startswith("{"):
            try:
                yield json.loads(line)
            except ValueError:
                continue


def last_of_each(pairs):
    """The last figure of each message: agents write a message again as it grows."""
    return list(dict(pairs).values())


def claude(stage):
    messages = [row["message"] for row in lines(stage, ".claude/projects/*/*.jsonl") if row.get("type") == "assistant"]
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return last_of_each((message["id"], sum(message["usage"][name] for name in names)) for message in messages)


def codex(stage):
    counts = [row["payload"]["info"] for row in lines(stage, ".codex/sessions/**/*.jsonl") if row["payload"].get("type") == "token_count"]
    return [info["last_token_usage"]["input_tokens"] for info in counts if info]


def pi(stage):
    messages = [row.get("message", {}) for row in lines(stage, ".pi/agent/sessions/*/*.jsonl")]
    usages = [message["usage"] for message in messages if message.get("role") == "assistant"]
    return [usage["input"] + usage["cacheRead"] + usage["cacheWrite"] for usage in usages]


def goose(stage):
    """Its log of requests, of which 0 is the newest."""
    files = stage.home.glob(".local/state/goose/logs/llm_request.*.jsonl")
    newest_last = sorted(files, key=lambda file: -int(file.name.split(".")[1]))
    rows = [[row["usage"] for row in parsed(file.read_text()) if row.get("usage")] for file in newest_last]
    return [usages[-1]["input_tokens"] for usages in rows if usages]


def gemini(stage):
    messages = [row for row in lines(stage, ".gemini/tmp/*/chats/*.jsonl") if row.get("tokens")]
    return last_of_each((message["id"], message["tokens"]["input"]) for message in messages)


def qwen(stage):
    rows = [row["usageMetadata"] for row in lines(stage, ".qwen/projects/*/chats/*.jsonl") if row.get("usageMetadata")]
    return [usage["promptTokenCount"] for usage in rows]


def opencode(stage):
    steps = [row["part"]["tokens"] for row in parsed(stage.output) if row.get("type") == "step_finish"]
    return [tokens["input"] + tokens["cache"]["read"] + tokens["cache"]["write"] for tokens in steps]


def cline(stage):
    events = [row["event"] for row in parsed(stage.output) if row.get("type") == "agent_event"]
    return [event["inputTokens"] for event in events if event["type"] == "usage"]
