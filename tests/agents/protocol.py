#!/usr/bin/env python3
"""Holds baton to the contract that Claude Code states for gateways, which `claude` serves at GET /protocol.

    tests/agents/protocol.py                           the version that tests/agents/run has installed
    tests/agents/protocol.py CLAUDE --baton BATON      another one

Its gateway needs a database, so the contract is read from the program file itself.
Exits with 1 if the contract asks for something that baton does not do, or if its wording is another.
"""

import argparse
import http.client
import http.server
import json
import mmap
import os
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import agents as known  # noqa: E402
from stage import free_port, wait_for_port  # noqa: E402

BEGINS = b"# Claude Code gateway protocol"
ENDS = b"Claude Code settings reference, OTLP spec."

# What the contract says, in its words; a newer version that drops or changes one is to be read again.
WORDS = [
    "pass body fields and `anthropic-beta` values to your upstream unchanged",
    "Don't buffer SSE on the `stream: true` path.",
    "adds an `anthropic-beta` value and a top-level `safeguards` field",
    "reads `safeguard_results` from the reply. Pass all three through unchanged.",
    "relay that `error.message`, the client's recovery (auto-compact etc.) keys on it.",
    "`POST /v1/messages` and `POST /v1/messages/count_tokens`",
]

BETAS = "claude-code-20250219,a-beta-nobody-knows-2027-01-01"
MEMBERS = {
    "safeguards": {"mode": "auto", "list": [1, {"a": None}]},
    "a_member_nobody_knows": {"x": [1.0, "y"]},
    "tags": {"team": "t"},
}
TOO_LONG = "prompt is too long: 210000 tokens > 200000 maximum"


def contract(program):
    """The contract's text, with escapes and line breaks undone."""
    with open(program, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as bytes_:
        begins = bytes_.find(BEGINS)
        ends = bytes_.find(ENDS, begins)
        if begins < 0 or ends < 0:
            sys.exit(f"{program} has no contract of this name")
        text = bytes_[begins:ends].decode("utf-8", "replace")
    return " ".join(text.replace("\\`", "`").split())


def forwarded(text):
    """The headers that a gateway must forward."""
    sentence = re.search(r"\*\*Headers\.\*\* Forward (.*?);", text)
    return re.findall(r"`([^`]+)`", sentence[1]) if sentence else []


class Upstream(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    seen, answer = [], None

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        Upstream.seen.append((self.path, self.headers, json.loads(body)))
        status, headers, reply = Upstream.answer
        reply = json.dumps(reply).encode()
        self.send_response(status)
        for name, value in {"content-type": "application/json", "content-length": len(reply), **headers}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(reply)


def reply(more):
    text = {"type": "text", "text": "Done."}
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-5-5", "content": [text],
        "stop_reason": "end_turn", "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}, **more,
    }


def ask(port, path, headers):
    tools = [{"name": "Read", "input_schema": {"type": "object"}}]
    body = {"model": "claude-opus-5-5", "max_tokens": 100, "messages": [{"role": "user", "content": "Hi."}], "tools": tools, **MEMBERS}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("POST", path, json.dumps(body), headers)
    answer = connection.getresponse()
    return answer.status, answer.headers, json.loads(answer.read())


def checks(port, names):
    """What does not hold, in words."""
    headers = {name.replace("*", "timeout"): f"value of {name}" for name in names}
    headers |= {
        "content-type": "application/json", "accept": "application/json", "accept-encoding": "identity",
        "anthropic-beta": BETAS, "anthropic-version": "2023-06-01", "x-api-key": "sk-test", "x-app": "cli",
    }
    Upstream.answer = (200, {}, reply({"safeguard_results": {"verdict": "ok"}}))
    status, _, answered = ask(port, "/v1/messages?beta=true", headers)
    path, got, body = Upstream.seen[-1]
    if (status, answered.get("safeguard_results")) != (200, {"verdict": "ok"}):
        yield f"safeguard_results is not passed on: {status} {answered}"
    if path != "/v1/messages?beta=true":
        yield f"the query is not kept: {path}"
    for name, value in headers.items():
        if got.get(name) != value:
            yield f"the header {name} arrives as {got.get(name)!r}, not {value!r}"
    for name, value in MEMBERS.items():
        if body.get(name) != value:
            yield f"the member {name} arrives as {body.get(name)!r}"
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": TOO_LONG}}
    for given in [(400, {}, error), (413, {}, error), (401, {"x-should-retry": "false"}, error), (429, {"retry-after": "37"}, error), (529, {}, error)]:
        Upstream.answer = given
        status, got, answered = ask(port, "/v1/messages?beta=true", headers)
        if (status, answered) != (given[0], error) or any(got.get(name) != value for name, value in given[1].items()):
            yield f"the error {given} arrives as {status} {answered}"
    Upstream.answer = (200, {}, {"input_tokens": 7})
    status, _, answered = ask(port, "/v1/messages/count_tokens?beta=true", headers)
    if (status, answered) != (200, {"input_tokens": 7}) or Upstream.seen[-1][2].get("safeguards") != MEMBERS["safeguards"]:
        yield f"count_tokens: {status} {answered}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("claude", type=Path, nargs="?", help="its program file")
    parser.add_argument("--baton", type=Path, default=known.ROOT / "target" / "debug" / "baton")
    given = parser.parse_args()
    if not given.claude:
        agent = next(agent for agent in known.load()[1] if agent.key == "claude")
        files = agent.folder().glob("node_modules/@anthropic-ai/claude-code*/**/claude*")
        given.claude = max(filter(Path.is_file, files), key=lambda file: file.stat().st_size)
    text = contract(given.claude)
    names = forwarded(text)
    found = [f"the contract no longer says: {words}" for words in WORDS if words not in text]
    found += [] if names else ["the contract names no headers"]
    upstream = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    threading.Thread(target=upstream.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        config = Path(folder) / "baton.toml"
        config.write_text(
            f"server.listen = '127.0.0.1:{port}'\nadmin.listen = '127.0.0.1:0'\n"
            f"upstreams.anthropic.base_url = 'http://127.0.0.1:{upstream.server_port}'\n"
        )
        command = [given.baton, "serve", "--config", config, "--state-dir", Path(folder) / "state"]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("BATON_")}
        proxy = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for_port(port, proxy, "baton")
            found += checks(port, names)
        finally:
            proxy.terminate()
            proxy.wait(30)
    print("\n".join(found) or f"ok: {len(text)} characters of contract, {len(names)} headers: {', '.join(names)}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
