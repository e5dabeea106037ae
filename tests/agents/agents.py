"""How each agent is installed, pointed at a proxy and started."""

import json
import os
import subprocess
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import meters

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
INSTALLED = ROOT / "target" / "agents"

# Nothing of the machine's own settings reaches an agent.
KEPT = ("PATH", "LANG", "TMPDIR", "TERM")


@dataclass
class Agent:
    """What the scenarios need to know of an agent. `command` and `home` are functions of the proxy's URL."""

    key: str
    program: str
    # The agent's own tool that the scripted model calls, and arguments for it.
    tool: str
    arguments: object
    # The variables and the arguments of a session, given the URL and the home folder.
    variables: object
    command: object
    home: object = None
    # Scenario: why it cannot be done.
    impossible: dict = field(default_factory=dict)
    # Scenario: what is known not to hold yet.
    open: dict = field(default_factory=dict)
    # Arguments of a session on a terminal, and what it draws when it can be typed to.
    screen: tuple = ()
    ready: str = ""
    # What is typed in front of a prompt.
    lead: str = ""
    # Arguments that open a session again on a terminal, given the home folder, where only that resumes it.
    reopen: object = None
    # The keys that stop an answer, one after the other.
    stop: bytes = b"\x1b"
    # How long the second leg's answer runs before that.
    pause: float = 0.4
    # The command for the agent's own compaction, and the keys that confirm it.
    compact: str = "/compact"
    confirm: bytes = b""
    # The input tokens that the agent has recorded for each answer, given the stage (see meters.py).
    meter: object = None
    # It takes the input tokens from the start of a message, which is sent before there is a second request.
    reads_start: bool = False
    # Calls of its own tool in the part of a session that is resumed.
    steps: int = 1
    name: str = ""
    package: str = ""
    version: str = ""

    def folder(self):
        return INSTALLED / f"{self.key}-{self.version}"

    def install(self, node):
        """Installs it under target/, once for each version."""
        install(self.folder(), f"{self.package}@{self.version}")
        self.path = f"{node}:{self.folder() / 'node_modules' / '.bin'}"


class NotInstalled(Exception):
    """npm has no such package, or not all that it needs."""


def install(folder, package):
    done = folder / ".installed"
    if done.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    command = ["npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--loglevel=error", package]
    ran = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if ran.returncode != 0:
        raise NotInstalled(f"{package} does not install: {reason(ran.stderr)}")
    done.touch()


def reason(errors):
    """What npm says of an error, without its own log."""
    lines = [line.removeprefix("npm error ") for line in errors.splitlines()]
    return " ".join(" ".join(line for line in lines if "complete log" not in line).split())[:300]


def newest(package):
    ran = subprocess.run(["npm", "view", package, "version"], capture_output=True, text=True)
    if ran.returncode != 0:
        raise NotInstalled(f"{package} is not found: {reason(ran.stderr)}")
    return ran.stdout.strip()


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def claude_home(_url, home):
    trusted = {str(home.parent / "work"): {"hasTrustDialogAccepted": True}}
    known = {"hasCompletedOnboarding": True, "theme": "dark", "customApiKeyResponses": {"approved": ["sk-test"]}, "projects": trusted}
    write(home / ".claude.json", json.dumps(known))


def codex_home(url, home):
    work = home.parent / "work"
    write(
        home / ".codex" / "config.toml",
        f'model_provider = "local"\n[model_providers.local]\nname = "local"\nbase_url = "{url}/v1"\nenv_key = "LOCAL_KEY"\n'
        'wire_api = "responses"\n[analytics]\nenabled = false\n'
        f'[projects."{work}"]\ntrust_level = "trusted"\n',
    )


def pi_home(url, home):
    write(home / ".pi" / "agent" / "models.json", json.dumps({"providers": {"anthropic": {"baseUrl": url}}}))
    # Otherwise it finds a session as short as this one too small for a compaction.
    write(home / ".pi" / "agent" / "settings.json", json.dumps({"compaction": {"keepRecentTokens": 1}}))


def gemini_home(_url, home):
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
        "general": {"disableAutoUpdate": True, "enableAutoUpdate": False},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        # It lists its two skills in an order that may differ between two processes, and with it its tools.
        "skills": {"disabled": ["antigravity-support"]},
    }
    write(home / ".gemini" / "settings.json", json.dumps(settings))


def goose_home(_url, home):
    write(
        home / ".config" / "goose" / "config.yaml",
        "extensions:\n  developer:\n    enabled: true\n    name: developer\n    type: builtin\n    bundled: true\n    timeout: 300\n",
    )


def opencode_home(url, home):
    options = {"apiKey": "sk-test", "baseURL": f"{url}/v1"}
    config = {
        "autoupdate": False,
        "share": "disabled",
        "model": "anthropic/claude-sonnet-4-5",
        "provider": {"anthropic": {"options": options}},
    }
    write(home / ".config" / "opencode" / "opencode.json", json.dumps(config))


def cline_home(url, home):
    settings = {"apiKey": "sk-test", "model": "claude-sonnet-4-5", "baseUrl": f"{url}/v1"}
    entry = {"settings": {"provider": "anthropic", **settings}, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}
    file = home / ".cline" / "data" / "settings" / "providers.json"
    write(file, json.dumps({"version": 1, "providers": {"anthropic": entry}}))


AGENTS = [
    Agent(
        key="claude",
        program="claude",
        tool="Bash",
        arguments={"command": "echo found", "description": "look"},
        variables=lambda url: {
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "sk-test",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "IS_SANDBOX": "1",
        },
        command=lambda prompt, again: [
            *(["--continue"] if again else []),
            *["-p", prompt, "--allowedTools", "Bash,Read", "--output-format", "stream-json", "--verbose"],
            *["--model", "claude-sonnet-4-5"],
        ],
        home=claude_home,
        screen=("--model", "claude-sonnet-4-5", "--allowedTools", "Bash,Read"),
        ready="❯",
        meter=meters.claude,
    ),
    Agent(
        key="codex",
        program="codex",
        tool="exec",  # Free text: JavaScript.
        arguments="text(\"found\")",
        variables=lambda url: {"LOCAL_KEY": "sk-test"},
        home=codex_home,
        command=lambda prompt, again: [
            *["exec", *(["resume", "--last"] if again else [])],
            *["--skip-git-repo-check", "--json", "--dangerously-bypass-approvals-and-sandbox", prompt],
        ],
        screen=("--dangerously-bypass-approvals-and-sandbox",),
        ready="Ask Codex",
        meter=meters.codex,
    ),
    Agent(
        key="pi",
        program="pi",
        tool="bash",
        arguments={"command": "echo found"},
        variables=lambda url: {"ANTHROPIC_API_KEY": "sk-test", "PI_OFFLINE": "1", "PI_TELEMETRY": "0"},
        home=pi_home,
        command=lambda prompt, again: [
            *["--mode", "json", "-p", *(["--continue"] if again else [])],
            *["--provider", "anthropic", "--model", "claude-sonnet-4-5", prompt],
        ],
        # Behind its compaction it keeps thinking that was made for another beginning, which the provider refuses.
        screen=("--provider", "anthropic", "--model", "claude-sonnet-4-5", "--thinking", "off"),
        ready=r"\(auto\)",
        meter=meters.pi,
    ),
    Agent(
        key="goose",
        program="goose",
        tool="shell",
        arguments={"command": "echo found"},
        variables=lambda url: {
            "GOOSE_PROVIDER": "anthropic",
            "GOOSE_MODEL": "claude-sonnet-4-5",
            "ANTHROPIC_HOST": url,
            "ANTHROPIC_API_KEY": "sk-test",
            "GOOSE_MODE": "auto",
            "GOOSE_DISABLE_KEYRING": "1",
            "GOOSE_TELEMETRY_ENABLED": "false",
        },
        home=goose_home,
        command=lambda prompt, again: ["run", "-t", prompt, "--name", "s1", *(["--resume"] if again else [])],
        screen=("session",),
        ready="\U0001fabf",
        stop=b"\x03",
        confirm=b"\r",
        meter=meters.goose,
        reads_start=True,
    ),
    Agent(
        key="gemini",
        program="gemini",
        tool="run_shell_command",
        arguments={"command": "echo found", "description": "look"},
        variables=lambda url: {
            "GEMINI_API_KEY": "test",
            "GOOGLE_GEMINI_BASE_URL": url,
            "GEMINI_CLI_NO_RELAUNCH": "true",
        },
        home=gemini_home,
        steps=0,  # Its `--resume` sends each function response twice, which the provider refuses, without baton too.
        command=lambda prompt, again: [
            *(["--resume", "latest"] if again else []),
            *["--skip-trust", "-y", "-o", "stream-json", "-m", "gemini-2.5-pro", "-p", prompt],
        ],
        screen=("--skip-trust", "-y", "-m", "gemini-2.5-pro"),
        ready="Type your message",
        compact="/compress",
        meter=meters.gemini,
    ),
    Agent(
        key="qwen",
        program="qwen",
        tool="run_shell_command",
        impossible={"rules": "its memory agent, which has the same tools, takes replies of the script."},
        arguments={"command": "echo found", "description": "look", "is_background": False},
        variables=lambda url: {
            "OPENAI_API_KEY": "sk-test",
            "OPENAI_BASE_URL": f"{url}/v1",
            "OPENAI_MODEL": "qwen3-coder-plus",
            "QWEN_CODE_NO_RELAUNCH": "true",
        },
        command=lambda prompt, again: [
            *["--auth-type", "openai", "-m", "qwen3-coder-plus", "-y", "-o", "stream-json"],
            *[*(["--continue"] if again else []), "-p", prompt],
        ],
        screen=("--auth-type", "openai", "-m", "qwen3-coder-plus", "-y"),
        ready="Type your message",
        compact="/compress",
        meter=meters.qwen,
    ),
    Agent(
        key="opencode",
        program="opencode",
        tool="bash",
        arguments={"command": "echo found", "description": "look"},
        variables=lambda url: {
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        },
        home=opencode_home,
        # It puts an argument that has a blank between quotes.
        command=lambda prompt, again: [
            *["run", "--format", "json", "--auto", *(["--continue"] if again else [])],
            *prompt.split(" "),
        ],
        ready="Ask anything",
        stop=b"\x1b\x1b",
        pause=0.7,  # Stopped where a text has begun and is empty, it keeps a blank, which the provider refuses, without baton too.
        meter=meters.opencode,
    ),
    Agent(
        key="cline",
        program="cline",
        tool="run_commands",
        arguments={"commands": ["echo found"]},
        variables=lambda url: {"CLINE_SESSION_BACKEND_MODE": "local"},
        home=cline_home,
        command=lambda prompt, again: [
            *["--json", "-P", "anthropic", "-m", "claude-sonnet-4-5", "-t", "120", prompt],
        ],
        screen=("--tui", "-P", "anthropic", "-m", "claude-sonnet-4-5"),
        ready="Auto-approve all",
        lead=" " * 40,  # It loses the first ones while it starts.
        reopen=lambda home: ["--id", next((home / ".cline/data/sessions").iterdir()).name],
        meter=meters.cline,
    ),
]

def load():
    """The agents with their versions, and the version of node."""
    with (HERE / "versions.toml").open("rb") as file:
        versions = tomllib.load(file)
    for agent in AGENTS:
        known = versions[agent.key]
        agent.name, agent.package, agent.version = known["name"], known["package"], known["version"]
    return versions, AGENTS


def environment(agent, url, home):
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    return {
        **kept,
        **agent.variables(url),
        "HOME": str(home),
        "CODEX_HOME": str(home / ".codex"),
        "PATH": f"{agent.path}:{kept.get('PATH', '')}",
        "NO_PROXY": "127.0.0.1,localhost",
    }
