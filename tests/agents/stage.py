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
from pathlib import Path

from agents import environment

# A run that takes longer has hung.
SECONDS = 120


class Failed(Exception):
    """What did not hold, in words for the table's footnotes."""


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
    raise Failed(f"{what} does not listen")


class Stage:
    def __init__(self, agent, programs, config="", script=None, delay_ms=0):
        self.agent, self.programs = agent, programs
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

    def kill_baton(self):
        self.baton.kill()
        self.baton.wait()

    def launch(self, prompt, again=False):
        agent = self.agent
        command = [agent.program, *agent.command(prompt, again)]
        variables = environment(agent, self.url, self.home)
        command[0] = shutil.which(agent.program, path=variables["PATH"]) or agent.program
        self.ran = (self.folder / "agent.out").open("w+b")
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self.ran, stderr=subprocess.STDOUT,
            cwd=self.work, env=variables, start_new_session=True,
        )  # fmt: skip

    def finish(self, process, may_fail=False):
        """Waits for the agent; what it printed is kept and judged."""
        try:
            code = process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise Failed(f"the agent did not end within {SECONDS} s: {self.tail()}") from None
        output = self.printed()
        self.output += output
        check(code == 0 or may_fail, f"the agent ended with {code}: {output[-300:]}")
        return output

    def printed(self):
        self.ran.flush()
        return (self.folder / "agent.out").read_text(errors="replace")

    def tail(self):
        return self.printed()[-300:]

    def run(self, prompt, again=False):
        return self.finish(self.launch(prompt, again))

    def requests(self):
        """Requests to the model that offer tools, as the provider got them: no titles, counts or summaries."""
        if not self.log.exists():
            return []
        lines = self.log.read_text().splitlines()
        rows = [json.loads(line) for line in lines]
        return [row for row in rows if row["generates"]]

    def judge(self):
        """What holds in every scenario."""
        complaints = [c["text"] for row in self.requests() for c in row["complaints"] if c["rule"] not in self.programs.known(self.agent)]
        check(not complaints, f"the provider complains: {complaints[:2]}")
        check("session_handoff" not in self.output and "session_recall" not in self.output, "a hidden call is in what the agent printed")
        files = [file for file in self.home.rglob("*") if file.is_file() and file.stat().st_size < 5_000_000]
        for file in files:
            text = file.read_bytes()
            hidden = re.search(rb'"(name|toolName|tool)"\s*:\s*"session_(handoff|recall)"', text)
            check(not hidden, f"a hidden call is in the agent's file {file.relative_to(self.home)}")

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()
        self.end_daemons()
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


def texts(row):
    return "\n".join(text for turn in row["turns"] for text in turn["texts"] + turn["results"] if turn["role"] != "system")


def results(row):
    return sum(len(turn["results"]) for turn in row["turns"])
