"""Stands between an agent and a provider: keeps each request of the agent's loop, with what the work folder was then."""

import gzip
import hashlib
import http.client
import json
import os
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# What tests and builds leave, and nobody takes for the work; git does not track it either.
LEFT_BEHIND = {".git", "__pycache__", ".pytest_cache", "target", "node_modules", "build", "Cargo.lock"}


def tree(root):
    """The files of the work: path -> digest of the contents."""
    found = {}
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in LEFT_BEHIND]
        for name in names:
            path = os.path.join(folder, name)
            if name not in LEFT_BEHIND and os.path.isfile(path):
                with open(path, "rb") as file:
                    found[os.path.relpath(path, root)] = hashlib.sha256(file.read()).hexdigest()[:12]
    return found


def digest(files):
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()[:12]


def git(root, *words):
    done = subprocess.run(["git", "-C", root, *words], capture_output=True, text=True)
    return done.stdout.strip()


def turns(body):
    """The list that a transcript stands in, on any wire."""
    return body.get("messages") or body.get("input") or body.get("contents") or []


def offers_tools(body):
    listed = body.get("tools") or []
    added = [item for item in turns(body) if isinstance(item, dict) and item.get("type") == "additional_tools"]
    return bool(listed or added)


class Front:
    """The server, and what came."""

    def __init__(self, upstream, root):
        self.upstream, self.root = upstream, root
        self.kept, self.prompt, self.lock = [], 0, threading.Lock()
        front = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                self.pass_on(b"")

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                front.keep(self.path, self.headers, body)
                self.pass_on(body)

            def pass_on(self, body):
                if self.headers.get("upgrade"):
                    self.send_response(426)
                    self.send_header("content-length", "0")
                    return self.end_headers()
                there = http.client.HTTPConnection(*front.upstream, timeout=600)
                drop = {"host", "connection", "content-length", "accept-encoding"}
                headers = {name: value for name, value in self.headers.items() if name.lower() not in drop}
                there.request(self.command, self.path, body or None, headers)
                answer = there.getresponse()
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in {"transfer-encoding", "connection", "content-length"}:
                        self.send_header(name, value)
                self.send_header("connection", "close")
                self.end_headers()
                self.close_connection = True
                while piece := answer.read1(65536):
                    self.wfile.write(piece)
                    self.wfile.flush()

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def keep(self, path, headers, body):
        if headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        try:
            body = json.loads(body)
        except ValueError:
            return
        if not offers_tools(body) or "count_tokens" in path:
            return
        files = tree(self.root)
        with self.lock:
            self.kept.append(
                {
                    "path": path,
                    "body": body,
                    "prompt": self.prompt,
                    "files": files,
                    "branch": git(self.root, "branch", "--show-current"),
                    "head": git(self.root, "rev-parse", "HEAD"),
                    "ran": lines(os.path.join(os.path.dirname(self.root), "ran.jsonl")),
                    "ended": ended(os.path.join(os.path.dirname(self.root), "ended")),
                }
            )


def lines(path):
    if not os.path.exists(path):
        return []
    with open(path) as file:
        return [json.loads(line) for line in file if line.endswith("\n")]


def ended(path):
    """The lines that shells ran, with their exit codes."""
    if not os.path.exists(path):
        return []
    with open(path, errors="replace") as file:
        records = file.read().split("\x1e")[:-1]
    return [(int(record.split("\x1f")[0]), record.split("\x1f", 1)[1]) for record in records]
