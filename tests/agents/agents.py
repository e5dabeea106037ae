"""How each agent is installed, pointed at a proxy and started without a screen."""

import json
import os
import subprocess
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

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
    # Scenario: why it cannot be done without a screen.
    impossible: dict = field(default_factory=dict)
    # The agent's own compaction: arguments of a run that compacts.
    compact: object = None
    # Calls of its own tool before a session is resumed.
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


def install(folder, package):
    done = folder / ".installed"
    if done.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    command = ["npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--loglevel=error", package]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    done.touch()


def newest(package):
    asked = subprocess.run(["npm", "view", package, "version"], check=True, capture_output=True, text=True)
    return asked.stdout.strip()


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def codex_home(url, home):
    write(
        home / ".codex" / "config.toml",
        f'model_provider = "local"\n[model_providers.local]\nname = "local"\nbase_url = "{url}/v1"\nenv_key = "LOCAL_KEY"\n'
        'wire_api = "responses"\n[analytics]\nenabled = false\n',
    )


def pi_home(url, home):
    write(home / ".pi" / "agent" / "models.json", json.dumps({"providers": {"anthropic": {"baseUrl": url}}}))


def gemini_home(_url, home):
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
        "general": {"disableAutoUpdate": True, "enableAutoUpdate": False},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
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


NO_SCREEN = "only with a screen"

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
        compact="/compact",
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
        impossible={"compaction": "`codex exec` has no command for it"},
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
        impossible={"compaction": NO_SCREEN},
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
        impossible={"compaction": NO_SCREEN},
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
        impossible={"compaction": NO_SCREEN},
    ),
    Agent(
        key="qwen",
        program="qwen",
        tool="run_shell_command",
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
        impossible={"compaction": NO_SCREEN},
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
        command=lambda prompt, again: ["run", "--format", "json", "--auto", *(["--continue"] if again else []), prompt],
        impossible={"compaction": NO_SCREEN},
    ),
    Agent(
        key="cline",
        program="cline",
        tool="execute_command",
        arguments={"command": "echo found", "requires_approval": False},
        variables=lambda url: {"CLINE_SESSION_BACKEND_MODE": "local"},
        command=lambda prompt, again: [
            *["--json", "-P", "openai-compatible", "-m", "mock-model", "-k", "sk-test", "-t", "120", prompt],
        ],
    ),
]

NO_RESUME = "resuming needs a screen"


def load():
    """The agents with their versions, and the version of node."""
    with (HERE / "versions.toml").open("rb") as file:
        versions = tomllib.load(file)
    for agent in AGENTS:
        known = versions[agent.key]
        agent.name, agent.package, agent.version = known["name"], known["package"], known["version"]
    cline = next(agent for agent in AGENTS if agent.key == "cline")
    for scenario in ("resume", "restart", "command", "undo", "compaction", "interrupt"):
        cline.impossible[scenario] = NO_RESUME
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
