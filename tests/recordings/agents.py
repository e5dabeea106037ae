"""How each agent is started offline, what its tools are called, and how they are called with a step of the work."""

import json
import os


class Agent:
    """One agent on one wire."""

    wire = "anthropic"
    # It resends its history wrongly where it goes on in another process.
    one_prompt = False
    shell, read, write, edit = "bash", "read", "write", "edit"
    path, old, new = "path", "oldText", "newText"

    # It resends something else in another process: what was sent until then is not what stands in the last request.
    from_prompt = 1
    # Its tools ask for absolute paths.
    absolute = False

    def __init__(self, project, home):
        self.project, self.home, self.base = project, home, ""

    def file(self, path):
        return os.path.join(self.project, path) if self.absolute else path

    def put(self, path, text):
        path = os.path.join(self.home, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)

    def prepare(self):
        pass

    def environment(self):
        return {}

    def first(self, prompt):
        raise NotImplementedError

    def next(self, prompt):
        return self.first(prompt)

    def steps(self, step):
        """A step as those of this agent."""
        return [step]

    # The steps: each a list of calls, or none where the agent has no such tool.
    def shell_call(self, line):
        return [(self.shell, {"command": line})]

    def read_call(self, path):
        return [(self.read, {self.path: self.file(path)})]

    def write_call(self, path, text, _new):
        return [(self.write, {self.path: self.file(path), "content": text})]

    def edit_call(self, path, old, new):
        return [(self.edit, {self.path: self.file(path), self.old: old, self.new: new})]

    def delete_call(self, _path):
        return []

    def todo_call(self, _items):
        return []

    def ask_call(self, _question, _choices):
        return []

    def background_call(self, _line):
        return []

    def timeout_call(self, _line):
        return []


class ClaudeCode(Agent):
    name, shell, read, write, edit = "claude_code", "Bash", "Read", "Write", "Edit"
    path, old, new, absolute = "file_path", "old_string", "new_string", True

    def environment(self):
        off = ["DISABLE_AUTOUPDATER", "DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING", "IS_SANDBOX"]
        return {"ANTHROPIC_BASE_URL": self.base, "ANTHROPIC_API_KEY": "sk-test", **{name: "1" for name in off}}

    def first(self, prompt):
        return ["claude", "-p", prompt, "--model", "claude-sonnet-4-5", "--dangerously-skip-permissions",
                "--disallowedTools", "Bash(make lint:*)", "--output-format", "stream-json", "--verbose"]

    def next(self, prompt):
        return [*self.first(prompt), "--continue"]

    def shell_call(self, line):
        return [("Bash", {"command": line, "description": "Run a command"})]

    def steps(self, step):
        # Its shell stays where a command went. A few commands are run from there, the others from where it was.
        if step[0] == "shell" and step[1].startswith("cd app") and ";" not in step[1]:
            return [step, ("shell", f"cd {self.project}")]
        if step[0] == "shell" and step[1].startswith("set -o pipefail"):
            return [step, ("shell", f"cd {self.project}")]
        if step[0] != "todo":
            return [step]
        begin = [] if hasattr(self, "listed") else [("load",), ("create", step[1])]
        self.listed = True
        return [*begin, ("update", step[1])]

    def load_call(self):
        return [("ToolSearch", {"query": "select:TaskCreate,TaskUpdate,TaskList", "max_results": 5})]

    def create_call(self, items):
        return [("TaskCreate", {"subject": text, "description": text}) for text, _ in items]

    def update_call(self, items):
        return [("TaskUpdate", {"taskId": str(i), "status": state}) for i, (_, state) in enumerate(items, 1)]

    def background_call(self, line):
        return [("Bash", {"command": line, "description": "Run a command", "run_in_background": True})]

    def timeout_call(self, line):
        return [("Bash", {"command": line, "description": "Run a command", "timeout": 1500})]


class Codex(Agent):
    name, wire, shell = "codex", "openai_responses", "exec_command"
    model = "gpt-5.1-codex"

    def prepare(self):
        self.put(".codex/config.toml", f'''model = "{self.model}"
model_provider = "local"
[model_providers.local]
name = "local"
base_url = "{self.base}/v1"
env_key = "LOCAL_KEY"
wire_api = "responses"
[analytics]
enabled = false
''')

    def environment(self):
        return {"LOCAL_KEY": "test", "CODEX_HOME": os.path.join(self.home, ".codex")}

    def first(self, prompt):
        return ["codex", "exec", "--skip-git-repo-check", "--json", "--dangerously-bypass-approvals-and-sandbox", prompt]

    def next(self, prompt):
        return ["codex", "exec", "resume", "--last", "--skip-git-repo-check", "--json",
                "--dangerously-bypass-approvals-and-sandbox", prompt]

    def shell_call(self, line):
        return [("exec_command", {"cmd": line, "yield_time_ms": 20000})]

    def read_call(self, path):
        return self.shell_call(f"cat {path}")

    def patch(self, text):
        return self.shell_call(f"apply_patch <<'PATCH'\n*** Begin Patch\n{text}*** End Patch\nPATCH")

    def write_call(self, path, text, new):
        added = "".join(f"+{line}\n" for line in text.splitlines())
        if new:
            return self.patch(f"*** Add File: {path}\n{added}")
        return self.shell_call(f"printf '%s' '{text}' > {path}")

    def edit_call(self, path, old, new):
        taken = "".join(f"-{line}\n" for line in old.splitlines())
        put = "".join(f"+{line}\n" for line in new.splitlines())
        return self.patch(f"*** Update File: {path}\n@@\n{taken}{put}")

    def delete_call(self, path):
        return self.patch(f"*** Delete File: {path}\n")

    def ask_call(self, question, choices):
        options = [{"label": one, "description": one} for one in choices]
        return [("request_user_input", {"questions": [{"id": "form", "header": "Form", "question": question, "options": options}]})]

    def background_call(self, line):
        return [("exec_command", {"cmd": line, "yield_time_ms": 300})]

    def timeout_call(self, line):
        return [("exec_command", {"cmd": line, "yield_time_ms": 1000})]


class CodexExec(Codex):
    """With its newest models Codex has one tool, which takes a program."""

    name, model = "codex_exec", "gpt-6.1-sol"

    def shell_call(self, line):
        return [("exec", f"const result = await tools.exec_command({json.dumps({'cmd': line})});\ntext(result);\n")]

    background_call = timeout_call = lambda self, _line: []

    def patch(self, text):
        patch = f"*** Begin Patch\n{text}*** End Patch\n"
        return [("exec", f"text(await tools.apply_patch({json.dumps(patch)}));\n")]

    def todo_call(self, items):
        plan = [{"step": text, "status": state} for text, state in items]
        return [("exec", f"text(await tools.update_plan({json.dumps({'plan': plan})}));\n")]


class Pi(Agent):
    name = "pi"

    def prepare(self):
        self.put(".pi/agent/models.json", json.dumps({"providers": {"anthropic": {"baseUrl": self.base}}}))

    def environment(self):
        return {"ANTHROPIC_API_KEY": "sk-test", "PI_OFFLINE": "1", "PI_TELEMETRY": "0"}

    def first(self, prompt):
        return ["pi", "--mode", "json", "-p", "--provider", "anthropic", "--model", "claude-sonnet-4-5", prompt]

    def next(self, prompt):
        return [*self.first(prompt)[:-1], "--continue", prompt]

    def edit_call(self, path, old, new):
        return [("edit", {"path": path, "edits": [{"oldText": old, "newText": new}]})]

    def timeout_call(self, line):
        return [("bash", {"command": line, "timeout": 1})]


class OpenCode(Agent):
    name, path, old, new = "opencode", "filePath", "oldString", "newString"

    def prepare(self):
        provider = {"anthropic": {"options": {"baseURL": f"{self.base}/v1", "apiKey": "sk-test"}}}
        rules = {"bash": {"*": "allow", "make lint*": "deny"}, "external_directory": "allow"}
        self.put(".config/opencode/opencode.json", json.dumps({"provider": provider, "permission": rules, "autoupdate": False, "share": "disabled"}))

    def first(self, prompt):
        return ["opencode", "run", "-m", "anthropic/claude-sonnet-4-5", prompt]

    def next(self, prompt):
        return [*self.first(prompt)[:-1], "-c", prompt]

    def shell_call(self, line):
        return [("bash", {"command": line})]

    def todo_call(self, items):
        return [("todowrite", {"todos": [{"id": str(i), "content": text, "status": state, "priority": "high"} for i, (text, state) in enumerate(items)]})]

    def timeout_call(self, line):
        return [("bash", {"command": line, "timeout": 1500})]


class GeminiCli(Agent):
    name, wire, one_prompt = "gemini_cli", "gemini", True
    shell, read, write, edit = "run_shell_command", "read_file", "write_file", "replace"
    path, old, new = "file_path", "old_string", "new_string"

    def prepare(self):
        self.put(".gemini/settings.json", json.dumps({"security": {"auth": {"selectedType": "gemini-api-key"}}, "model": {"disableLoopDetection": True}}))

    def environment(self):
        return {"GEMINI_API_KEY": "test", "GOOGLE_GEMINI_BASE_URL": self.base, "GEMINI_CLI_TRUST_WORKSPACE": "true", "GEMINI_CLI_NO_RELAUNCH": "true"}

    def first(self, prompt):
        return ["gemini", "--skip-trust", "-y", "-m", "gemini-2.5-pro", "-p", prompt]

    def next(self, prompt):
        return [*self.first(prompt), "--resume", "latest"]

    def edit_call(self, path, old, new):
        return [("replace", {"file_path": self.file(path), "instruction": "Mend it.", "old_string": old, "new_string": new})]

    def todo_call(self, items):
        return [("write_todos", {"todos": [{"description": text, "status": state} for text, state in items]})]

    def background_call(self, line):
        return [("run_shell_command", {"command": line, "is_background": True})]


class QwenCode(Agent):
    name, wire = "qwen_code", "openai_chat"
    shell, read, write, edit = "run_shell_command", "read_file", "write_file", "edit"
    path, old, new, absolute = "file_path", "old_string", "new_string", True

    def environment(self):
        return {"OPENAI_API_KEY": "sk-test", "OPENAI_BASE_URL": f"{self.base}/v1", "OPENAI_MODEL": "qwen3-coder-plus"}

    def first(self, prompt):
        return ["qwen", "-y", "--auth-type", "openai", "-p", prompt]

    def next(self, prompt):
        return [*self.first(prompt), "--continue"]

    def shell_call(self, line):
        return [("run_shell_command", {"command": line, "is_background": False})]

    def prepare(self):
        self.put(".qwen/settings.json", json.dumps({"memory": {"enableManagedAutoMemory": False, "enableManagedAutoDream": False}}))

    def steps(self, step):
        if step[0] != "todo" or hasattr(self, "loaded"):
            return [step]
        self.loaded = True
        return [("load",), step]

    def load_call(self):
        return [("tool_search", {"query": "todo list", "max_results": 5})]

    def todo_call(self, items):
        todos = [{"id": str(i), "content": text, "status": state} for i, (text, state) in enumerate(items)]
        return [("tool_call", {"name": "todo_write", "arguments": {"todos": todos}})]

    def background_call(self, line):
        return [("run_shell_command", {"command": line, "is_background": True})]

    def timeout_call(self, line):
        return [("run_shell_command", {"command": line, "is_background": False, "timeout": 1500})]


class Goose(Agent):
    name, wire, shell, write, edit = "goose", "openai_responses", "shell", "write", "edit"

    old, new, one_prompt = "before", "after", True

    def environment(self):
        return {"GOOSE_PROVIDER": "openai", "GOOSE_MODEL": "gpt-5.1", "OPENAI_HOST": self.base, "OPENAI_API_KEY": "sk-test",
                "GOOSE_MODE": "auto", "GOOSE_DISABLE_KEYRING": "1", "GOOSE_TELEMETRY_ENABLED": "false"}

    def first(self, prompt):
        return ["goose", "run", "-n", "work", "-t", prompt]

    def next(self, prompt):
        return ["goose", "run", "-n", "work", "--resume", "-t", prompt]

    def read_call(self, path):
        return self.shell_call(f"cat {path}")

    def todo_call(self, items):
        marks = {"completed": "x", "in_progress": "-", "pending": " "}
        return [("todo__todo_write", {"content": "\n".join(f"- [{marks[state]}] {text}" for text, state in items)})]


class GooseResumed(Goose):
    """Calls without output are missing when it goes on in another process."""

    name, one_prompt, from_prompt = "goose_resumed", False, 3


ALL = [ClaudeCode, Codex, CodexExec, Pi, OpenCode, GeminiCli, QwenCode, Goose, GooseResumed]
