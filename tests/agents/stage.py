"""A provider, baton and one agent, each a process of its own on 127.0.0.1."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

from agents import environment
from screen import Screen

# A run that takes longer has hung.
SECONDS = 120


class Failed(Exception):
    """A failed check, in words for the table's footnotes."""


class Late(Failed):
    """Something did not happen in time: a loaded machine may be the cause."""


def check(holds, what):
    if not holds:
        raise Failed(what)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def wait_for_port(port, process, what):
    until = time.monotonic() + 30
    while time.monotonic() < until:
        if process.poll() is not None:
            raise Failed(f"{what} ended with {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise Late(f"{what} does not listen")


class Stage:
    def __init__(self, agent, programs, config="", script=None, delay_ms=0):
        self.agent, self.programs, self.shown = agent, programs, None
        # Further variables of the agent's.
        self.more = {}
        self.folder = Path(tempfile.mkdtemp(prefix="baton-agent-"))
        self.home, self.work = self.folder / "home", self.folder / "work"
        self.home.mkdir()
        self.work.mkdir()
        subprocess.run(["git", "init", "-q"], cwd=self.work, check=True)
        (self.work / "README").write_text("A test.\n")
        self.log, self.output, self.processes = self.folder / "requests.jsonl", "", []
        self.provider_port, self.port, self.admin = free_port(), free_port(), free_port()
        self.start_provider(script, delay_ms)
        base = f"http://127.0.0.1:{self.provider_port}"
        urls = {"anthropic": base, "openai": base, "gemini": base}
        upstreams = "\n".join(f'[upstreams.{name}]\nbase_url = "{url}"' for name, url in urls.items())
        (self.folder / "baton.toml").write_text(f"{config}\n{upstreams}\n")
        self.start_baton()
        if agent.home:
            agent.home(self.url, self.home)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def spawn(self, command, name):
        log = (self.folder / f"{name}.log").open("ab")
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder)
        self.processes.append(process)
        return process

    def start_provider(self, script, delay_ms):
        command = [self.programs.provider, "--listen", f"127.0.0.1:{self.provider_port}", "--log", self.log]
        if script is not None:
            script = script(self.work) if callable(script) else script
            (self.folder / "script.json").write_text(json.dumps(script))
            command += ["--script", self.folder / "script.json"]
        command += ["--delay-ms", str(delay_ms)]
        self.provider = self.spawn(command, "provider")
        wait_for_port(self.provider_port, self.provider, "the provider")

    def start_baton(self):
        state = self.folder / "state"
        command = [self.programs.baton, "serve", "--config", self.folder / "baton.toml", "--state-dir", state]
        command += ["--listen", f"127.0.0.1:{self.port}", "--admin", f"127.0.0.1:{self.admin}"]
        self.baton = self.spawn(command, "baton")
        wait_for_port(self.port, self.baton, "baton")

    def inspect(self, path):
        """What the inspector's API has at a path."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/api/{path}", timeout=10) as answer:
            return json.load(answer)

    def kill_baton(self):
        self.baton.kill()
        self.baton.wait()

    def launch(self, prompt, again=False, arguments=None):
        agent = self.agent
        command = [agent.program, *(arguments or agent.command(prompt, again))]
        variables = self.variables(command)
        self.ran = (self.folder / "agent.out").open("w+b")
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self.ran, stderr=subprocess.STDOUT,
            cwd=self.work, env=variables, start_new_session=True,
        )  # fmt: skip

    def variables(self, command):
        """The agent's variables; its program becomes a path."""
        variables = environment(self.agent, self.url, self.home) | self.more
        command[0] = shutil.which(command[0], path=variables["PATH"]) or command[0]
        return variables

    def screen(self, more=(), ready=None):
        """The agent on a terminal, ready to be typed to: it shows what its row says, or this."""
        if self.shown:
            self.shown.close()
        command = [self.agent.program, *self.agent.screen, *more]
        variables = self.variables(command) | {"TERM": "xterm-256color"}
        self.shown = Screen(command, cwd=self.work, env=variables)
        self.wait_for(lambda: re.search(ready or self.agent.ready, self.shown.text()), "the screen is not ready")
        self.shown.settle()
        return self.shown

    def submit(self, line, confirm=b""):
        """Types a line, and waits for the request that it makes."""
        seen = len(self.requests())
        self.shown.press(b"\x15")  # What an interrupt has put back into the input goes.
        self.shown.type(line if line.startswith("/") else self.agent.lead + line)
        if confirm:
            time.sleep(1)
            self.shown.press(confirm)
        what = f"`{line.split()[0]}` makes no request: {self.shown.text()[-200:]}"
        self.press_again(b"\r", lambda: len(self.requests()) > seen, what, 30)

    def press_until(self, keys, holds, what):
        self.shown.press(keys)
        self.press_again(keys, holds, what)

    def press_again(self, keys, holds, what, seconds=60):
        """Waits until something holds, and presses keys every 8 s: a screen may not have listened yet."""
        began = time.monotonic()

        def reached():
            nonlocal began
            if time.monotonic() - began > 8:
                began = time.monotonic()
                self.shown.press(keys)
            return holds()

        self.wait_for(reached, what, seconds)

    def wait_for(self, holds, what, seconds=60):
        until = time.monotonic() + seconds
        while not (found := holds()):
            if time.monotonic() > until:
                raise Late(what)
            time.sleep(0.02)
        return found

    def finish(self, process, may_fail=False):
        """Waits for the agent; what it printed is kept and judged."""
        try:
            code = process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise Late(f"the agent did not end within {SECONDS} s: {self.tail()}") from None
        output = self.printed()
        self.output += output
        check(code == 0 or may_fail, f"the agent ended with {code}: {output[-300:]}")
        return output

    def printed(self):
        self.ran.flush()
        return (self.folder / "agent.out").read_text(errors="replace")

    def tail(self):
        return self.printed()[-300:]

    def run(self, prompt, again=False, arguments=None):
        """Runs the agent with a prompt, or with these arguments, and returns what it prints."""
        if again and self.agent.reopen:
            return self.run_on_screen(prompt)
        return self.finish(self.launch(prompt, again, arguments))

    def run_on_screen(self, prompt):
        screen = self.screen(self.agent.reopen(self.home))
        shown = len(screen.text())
        screen.type(prompt if prompt.startswith(":") else self.agent.lead + prompt)
        time.sleep(3)  # A command to baton may make no request.
        screen.settle(2)
        output = screen.text()[shown:]
        self.output += output
        return output

    def logged(self):
        if not self.log.exists():
            return []
        lines = self.log.read_text().split("\n")[:-1]  # The last one may be half written.
        return [json.loads(line) for line in lines]

    def requests(self):
        """Requests to the model as the provider got them: no counts."""
        return [row for row in self.logged() if row.get("generates")]

    def replies(self):
        """What the model called in each reply, and the tokens that it reported, by the request's number."""
        return {row["reply_to"]: row for row in self.logged() if "reply_to" in row}

    def judge(self):
        """What holds in every scenario."""
        known = self.programs.known(self.agent)
        complaints = [c["text"] for row in self.requests() for c in row["complaints"] if c["rule"] not in known | own_rules(row)]
        check(not complaints, f"the provider complains: {complaints[:2]}")
        printed = self.output + (self.shown.text() if self.shown else "")
        if self.shown:
            check(self.shown.process.poll() is None, "the agent has ended")
        check(not re.search(r"session_(handoff|recall)", LEFT_OUT.sub("", printed)), "a hidden call is in what the agent printed")
        # Unlike `rglob`, this allows for a running agent that deletes folders meanwhile.
        for file in (Path(folder) / name for folder, _, names in os.walk(self.home) for name in names):
            hidden = re.search(rb'"(name|toolName|tool)"\s*:\s*"session_(handoff|recall)"', small_file(file))
            check(not hidden, f"a hidden call is in the agent's file {file.relative_to(self.home)}")

    def close(self):
        if self.shown:
            self.shown.close()
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()
        self.end_daemons()
        if os.environ.get("KEEP"):
            print(f"kept: {self.folder}")
        else:
            shutil.rmtree(self.folder, ignore_errors=True)

    def end_daemons(self):
        """Ends what an agent left running with this stage's home folder, and nothing else."""
        marker = f"HOME={self.home}".encode()
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if marker in (entry / "environ").read_bytes().split(b"\0"):
                    os.kill(int(entry.name), signal.SIGKILL)
            except OSError:
                continue


def small_file(path):
    """The bytes of a file; none of a large one, or of one that the agent has deleted meanwhile."""
    try:
        return path.read_bytes() if path.is_file() and path.stat().st_size < 5_000_000 else b""
    except FileNotFoundError:
        return b""


def own_rules(row):
    """Rules that agents break in side requests with the same transcript and no tools, without baton, too."""
    return set() if row["tools"] else {"UnknownTool", "ToolsChanged", "ReasoningPrefix"}


# The line of a carry-over prompt that names the tool which finds what was cut.
LEFT_OUT = re.compile(r"session_recall\s+finds\s+them")
# What baton appends to a carry-over prompt: it quotes the user.
CARRIED = re.compile(r"<carried-over>\n.*?</carried-over>", re.S)


def texts(row):
    """What the model reads of a request, without the user's words that a carry-over prompt quotes."""
    return CARRIED.sub("", with_quotes(row))


def with_quotes(row):
    return "\n".join(text for turn in row["turns"] for text in turn["texts"] + turn["results"] if turn["role"] != "system")


def results(row):
    return sum(len(turn["results"]) for turn in row["turns"])
