#!/usr/bin/env python3
"""Makes the session files of `homes/` from the home folders of real agents that have run before the strict provider.

    homes.py NAME HOME PROVIDER_LOG    writes homes/NAME/…, the paths as below HOME, and homes/NAME/truth.json

The home folders are those of `record.py --homes FOLDER`. What is not ours, or of one machine, is left out: instructions of the
agents, ids, folders. Databases become SQL. `truth.json` has what the provider counted.
"""

import json
import re
import sqlite3
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
LONG = 160
PATTERNS = [
    ".claude/projects/**/*.jsonl", ".codex/sessions/**/*.jsonl", ".gemini/tmp/*/chats/*.jsonl", ".qwen/projects/*/chats/*.jsonl",
    ".pi/agent/sessions/**/*.jsonl", ".local/share/opencode/opencode.db", ".local/share/goose/sessions/sessions.db",
    ".cline/data/sessions/**/*.messages.json",
]  # fmt: skip
# Entries that say nothing of calls, or hold the agents' own instructions.
DROPPED = {
    "attachment", "api-request", "api-request-shape", "api-request-blob", "atis-latch", "tools-used", "mode", "last-prompt",
    "queue-operation", "world_state", "thinking_level_change", "system",
}  # fmt: skip
EVENTS = {"token_count"}
KEYS = {"base_instructions", "tools", "toolsAdded", "resultDisplay", "toolUseResult", "toolCallResult", "snapshot", "summary",
        "internal_chat_message_metadata_passthrough", "sections", "description", "gitBranch", "permissionDecision"}  # fmt: skip
TABLES = {
    "opencode.db": {"message": "id session_id time_created data", "part": "id message_id data"},
    "sessions.db": {
        "sessions": "id working_dir accumulated_input_tokens accumulated_output_tokens input_tokens model_config_json",
        "messages": "id message_id session_id role content_json created_timestamp",
    },
}


def ours(entry):
    kind = entry.get("type")
    payload, message = entry.get("payload") or {}, entry.get("message") or {}
    if kind in DROPPED or "$set" in entry or message.get("role") == "system" or payload.get("role") == "developer":
        return False
    return kind != "event_msg" or payload.get("type") in EVENTS


class Cleaner:
    def __init__(self, place):
        self.place, self.known = str(place), {}

    def text(self, value):
        value = value.replace(f"{self.place}/project", "/home/dev/project").replace(f"{self.place}/work", "/home/dev/project")
        value = value.replace(self.place, "/home/dev")
        value = re.sub(r"tmp-[\w-]+?-(project|work)\b", "home-dev-project", value)
        value = re.sub(r"[^\s\"'`:()]*/(?:site-packages|node_modules|rustlib)/", "/usr/lib/", value)
        return value if len(value) <= LONG else f"{value[:LONG - 60]}\n…\n{value[-50:]}"

    def walk(self, value):
        if isinstance(value, dict):
            return {key: self.walk(one) for key, one in value.items() if key not in KEYS}
        if isinstance(value, list):
            return [self.walk(one) for one in value]
        return self.text(value) if isinstance(value, str) else value

    def json(self, text):
        return json.dumps(self.walk(json.loads(text)), ensure_ascii=False, separators=(",", ":"))


def lines(file, cleaner):
    for line in file.read_text().splitlines():
        if line.startswith("{") and ours(json.loads(line)):
            yield cleaner.json(line)


def sql(file, cleaner):
    database = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
    for table, columns in TABLES[file.name].items():
        columns = columns.split()
        yield f"CREATE TABLE {table} ({', '.join(columns)});"
        for row in database.execute(f"SELECT {', '.join(columns)} FROM {table} ORDER BY 1"):
            cells = [cell if not isinstance(cell, str) else cleaner.json(cell) if cell[:1] in "[{" else cleaner.text(cell) for cell in row]
            if '"type":"snapshot"' in str(cells[-1]) or '"step-start"' in str(cells[-1]) or '"type":"patch"' in str(cells[-1]):
                continue
            quoted = ["NULL" if cell is None else str(cell) if not isinstance(cell, str) else "'" + cell.replace("'", "''") + "'" for cell in cells]
            yield f"INSERT INTO {table} VALUES ({', '.join(quoted)});"


def truth(log):
    rows = [json.loads(line) for line in Path(log).read_text().splitlines()]
    offered = {row["number"]: bool(row["tools"]) for row in rows if row.get("generates")}
    replies = [row for row in rows if "reply_to" in row and offered.get(row["reply_to"])]
    return {"calls": len(replies), "input": sum(row["input_tokens"] for row in replies), "output": sum(row["output_tokens"] for row in replies)}


def main():
    name, home, log = sys.argv[1:]
    home = Path(home)
    place = home.parent / "place"
    cleaner = Cleaner(place.read_text() if place.exists() else home.parent)
    into = HERE / "homes" / name
    for pattern in PATTERNS:
        for file in sorted(home.glob(pattern)):
            text = {".jsonl": lines, ".db": sql}.get(file.suffix, lambda file, cleaner: [cleaner.json(file.read_text())])(file, cleaner)
            path = into / re.sub(r"tmp-[\w-]+?-(project|work)\b", "home-dev-project", str(file.relative_to(home)))
            path = path.with_suffix(".sql") if file.suffix == ".db" else path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join(text) + "\n")
    (into / "truth.json").write_text(json.dumps(truth(log)) + "\n")


if __name__ == "__main__":
    main()
