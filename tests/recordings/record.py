#!/usr/bin/env python3
"""Records what real agents send while they work, with what really happened beside it. README.md says how."""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import agents
import front
import work

HERE = os.path.dirname(os.path.abspath(__file__))
SHIMS = ["python3", "python", "pytest", "npm", "node", "make", "cargo", "ruff"]
FOLDER = "/home/dev/project"
LINE_ENDS = """\
export PATH="$RECORDING/shims:$PATH"
trap 'code=$?; printf "%s\\037%s\\036" "$code" "$BASH_EXECUTION_STRING" >> "$RECORDING/ended"' EXIT
"""


def calls(agent, step):
    kind, *rest = step
    if kind == "both":
        return [call for one in rest for call in calls(agent, one)]
    return getattr(agent, f"{kind}_call")(*rest)


def set_up(place):
    for path, text in work.PROJECT.items():
        file = os.path.join(place, "project", path)
        os.makedirs(os.path.dirname(file), exist_ok=True)
        with open(file, "w") as out:
            out.write(text)
    project = os.path.join(place, "project")
    for words in (["init", "-qb", "main"], ["config", "user.email", "dev@example.com"], ["config", "user.name", "dev"],
                  ["add", "-A"], ["commit", "-qm", "Begin"]):
        subprocess.run(["git", "-C", project, *words], check=True)
    os.makedirs(os.path.join(project, "build"))
    shims = os.path.join(place, "shims")
    os.makedirs(shims)
    with open(os.path.join(HERE, "shim.py")) as file:
        shim = f"#!{sys.executable}\n" + file.read()
    for name in SHIMS:
        if shutil.which(name):
            with open(os.path.join(shims, name), "w") as file:
                file.write(shim)
            os.chmod(file.name, 0o755)
    with open(os.path.join(place, "line_ends.sh"), "w") as file:
        file.write(LINE_ENDS)
    return project


def environment(place, agent, path):
    programs = ":".join(path)
    path = ":".join([os.path.join(place, "shims"), *path, os.environ["PATH"]])
    home = os.path.join(place, "home")
    # A login shell makes its own path.
    agent.put(".bash_profile", f'export PATH="{path}"\n')
    return {
        "PATH": path, "HOME": home, "TERM": "dumb", "LANG": "C.UTF-8", "SHELL": "/bin/bash", "NO_PROXY": "127.0.0.1",
        "CARGO_HOME": os.environ.get("CARGO_HOME", os.path.expanduser("~/.cargo")),
        "RUSTUP_HOME": os.environ.get("RUSTUP_HOME", os.path.expanduser("~/.rustup")),
        "RECORDING": place, "RECORDING_PROGRAMS": programs, "RECORDING_CODE": HERE, "BASH_ENV": os.path.join(place, "line_ends.sh"),
        "CLAUDE_ENV_FILE": os.path.join(place, "line_ends.sh"), "PYTHONDONTWRITEBYTECODE": "1", **agent.environment(),
    }


def script(agent, most=None):
    """The model's replies, the prompts, and the steps by their numbers: at most so many for each prompt."""
    prompts = [(text, steps[:most]) for text, steps in work.PROMPTS]
    if agent.one_prompt:
        prompts = [(prompts[0][0], [step for _, steps in prompts for step in steps])]
    replies, numbered = [], {}
    for _, steps in prompts:
        for step in (one for step in steps for one in agent.steps(step)):
            made = calls(agent, step)
            if made:
                number = len(numbered) + 1
                numbered[number] = step
                named = [{"name": name, "arguments": arguments} for name, arguments in made]
                replies.append({"text": f"Step {number}.", "calls": named})
        replies.append({"text": "That is done."})
    return replies, [text for text, _ in prompts], numbered


def record(Kind, provider, path, keep, homes=None, most=None, pause=0):
    place = tempfile.mkdtemp(prefix="recording-")
    project = set_up(place)
    agent = Kind(project, os.path.join(place, "home"))
    replies, prompts, numbered = script(agent, most)
    file = os.path.join(place, "script.json")
    with open(file, "w") as out:
        json.dump(replies, out)
    upstream = subprocess.Popen([provider, "--listen", "127.0.0.1:0", "--script", file, "--log", os.path.join(place, "provider.jsonl")], stdout=subprocess.PIPE, text=True)
    host, port = upstream.stdout.readline().split("//")[1].strip().rstrip("/").split(":")
    said = []
    threading.Thread(target=lambda: said.extend(upstream.stdout), daemon=True).start()
    kept = front.Front((host, int(port)), project)
    agent.base = kept.url
    agent.prepare()
    env = environment(place, agent, path)
    start = front.tree(project)
    for number, text in enumerate(prompts, 1):
        kept.prompt = number
        time.sleep(pause if number > 1 else 0)
        words = agent.first(text) if number == 1 else agent.next(text)
        done = subprocess.run(words, cwd=project, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=400)
        print(f"{agent.name}: prompt {number}: exit {done.returncode}, {len(kept.kept)} requests", flush=True)
        if done.returncode:
            print(done.stdout[-800:], done.stderr[-800:])
    upstream.terminate()
    if homes:
        shutil.rmtree(project)
        shutil.copytree(place, os.path.join(homes, agent.name), symlinks=True, ignore=shutil.ignore_patterns("node_modules"))
        with open(os.path.join(homes, agent.name, "place"), "w") as out:
            out.write(place)
        shutil.rmtree(place, ignore_errors=True)
        return
    complaints = [line for line in said if line.startswith("  ")]
    print(f"{agent.name}: {len(complaints)} complaints of the provider", *complaints[:5], sep="\n")
    version = subprocess.run([agent.first("")[0], "--version"], env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    version = re.search(r"\d+\.\d+\.\d+", version.stdout + version.stderr)
    truth = truths(agent, kept.kept, start, numbered)
    truth = cleaned_texts(truth, place)
    truth["version"] = version.group(0) if version else "?"
    body = cleaned(kept.kept[-1]["body"], place)
    if keep:
        with open(os.path.join(keep, f"{agent.name}.json"), "w") as out:
            json.dump({"kept": kept.kept, "place": place, "script": replies}, out)
    for name, value in ((f"{agent.name}.json", body), (f"{agent.name}.truth.json", truth)):
        with open(os.path.join(HERE, name), "w") as out:
            out.write(spread(value))
    shutil.rmtree(place, ignore_errors=True)


def plain(line):
    return re.sub(r"[\\'\"\s]+", "", line)


def last_step(body):
    """The number of the step that the model called last."""
    said = re.findall(r'"Step (\d+)\.', json.dumps(front.turns(body)))
    return int(said[-1]) if said else 0


def truths(agent, kept, start, numbered):
    """What really happened, step by step: only what is new in each."""
    out, before = [], {"files": start, "ran": 0, "ended": 0, "step": 0, "tree": None, "git": None}
    for request in kept:
        number = last_step(request["body"])
        if number == before["step"]:
            continue
        entry = {"step": number, "prompt": request["prompt"]}
        fresh = request["ended"][before["ended"]:]
        step = numbered[number]
        for step in step[1:] if step[0] == "both" else [step]:
            kind = step[0]
            if kind in ("todo", "update"):
                entry["todos"] = step[1]
            if kind == "create":
                entry["todos"] = [(text, "pending") for text, _ in step[1]]
            if kind == "ask":
                entry["asked"] = step[1]
            for _, arguments in calls(agent, step):
                given = arguments if isinstance(arguments, dict) else {}
                line = given.get("command") or given.get("cmd") or (step[1] if kind == "shell" else None)
                if line is not None:
                    # Gemini CLI runs what stands in such a line by itself.
                    inner = line.removeprefix("bash -c ")
                    ends = [code for code, text in fresh if plain(inner) in plain(text)]
                    entry.setdefault("lines", []).append({"line": line, "exit": ends[-1] if ends else None})
        ran = request["ran"][before["ran"]:]
        ended = [run for run in ran if run["exit"] is not None]
        begun = [run for run in ran if run["exit"] is None and not any(run["words"] == one["words"] for one in ended)]
        tree = front.digest(request["files"])
        if ended or begun:
            entry["ran"] = [{key: value for key, value in run.items() if (key, value) != ("tree", tree)}
                            for run in begun + ended]
        changed = {path: request["files"].get(path) for path in {*request["files"], *before["files"]}
                   if request["files"].get(path) != before["files"].get(path)}
        if changed:
            entry["files"] = dict(sorted(changed.items()))
        if tree != before["tree"]:
            entry["tree"] = tree
        git = [request["branch"], request["head"][:12]]
        if git != before["git"]:
            entry["git"] = git
        out.append(entry)
        before = {"tree": tree, "git": git, "files": request["files"], "ran": len(request["ran"]), "ended": len(request["ended"]), "step": number}
    return {"agent": agent.name, "wire": agent.wire, "folder": FOLDER, "from_prompt": agent.from_prompt, "start": start,
            "steps": out}


WHEREABOUTS = re.compile(r"^.*(?:orking directory|Working Directory|<cwd>|Current branch|in the directory).*$", re.M)


def cleaned_texts(value, place):
    """Without the folder of this run."""
    text = json.dumps(value).replace(os.path.join(place, "project"), FOLDER)
    return json.loads(text)


def cleaned(body, place):
    """Without what is long, of this machine, or of one run. Of results both ends stay, where agents tell how they ended."""
    known = {}

    def named(match):
        return known.setdefault(match.group(0), f"00000000-0000-7000-8000-{len(known):012}")

    def numbered(match):
        return known.setdefault(match.group(0), f"{match.group(1)}_{len(known)}")

    def text(value):
        value = value.replace(os.path.join(place, "project"), FOLDER).replace(os.path.join(place, "home"), "/home/dev")
        value = value.replace(place, "/home/dev/work")
        value = re.sub(r"\b(toolu|call|fc|ctc|msg|rs|fco|ctco)_[0-9a-zA-Z-]{12,}", numbered, value)
        value = re.sub(r"tmp-recording-[\w-]+?-project", "home-dev-project", value)
        value = re.sub(r"[^\s\"'`:()]*/(?:site-packages|node_modules|rustlib)/", "/usr/lib/", value)
        return re.sub(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", named, value)

    def short(value):
        if len(value) <= 400:
            return value
        more = [line for line in WHEREABOUTS.findall(value[240:]) if len(line) < 200]
        return value[:240] + "\n…\n" + "\n".join(more[:3])

    def walk(value, inside):
        if isinstance(value, dict):
            return {key: walk(one, inside or key in RESULT_KEYS or one_is_call(value)) for key, one in value.items()
                    if key not in DROPPED and not (key in {"id", "status"} and value.get("type") in ITEMS) and not (value.get("type") == "additional_tools" and key == "tools")}
        if isinstance(value, list):
            return [walk(one, inside) for one in value]
        if isinstance(value, str):
            value = text(value)
            return (value if len(value) <= 320 else f"{value[:150]}\n…\n{value[-160:]}") if inside else short(value)
        return value

    kept = {key: value for key, value in body.items() if key in KEPT}
    return walk(kept, False)


RESULT_KEYS = {"tool_calls", "functionCall", "functionResponse", "arguments", "input_json"}
DROPPED = {"annotations", "logprobs", "phase", "cache_control", "client_metadata", "thoughtSignature", "encrypted_content"}
ITEMS = {"message", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output"}
KEPT = {"model", "system", "messages", "input", "contents", "systemInstruction", "instructions", "stream"}


def one_is_call(value):
    return value.get("type") in {"tool_use", "tool_result"} or value.get("role") == "tool" \
        or str(value.get("type", "")).startswith(("function_call", "custom_tool_call"))


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def spread(value):
    """JSON with one turn or step a line."""
    lines = []
    for key, one in value.items():
        if isinstance(one, list) and one and key in {"messages", "input", "contents", "steps"}:
            rows = ",\n  ".join(compact(row) for row in one)
            lines.append(f' "{key}": [\n  {rows}\n ]')
        else:
            lines.append(f' "{key}": {compact(one)}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--provider", required=True, help="the built example strict_provider")
    parser.add_argument("--path", action="append", default=[], help="a folder with the agents' programs")
    parser.add_argument("--keep", help="a folder for the whole requests")
    parser.add_argument("--homes", help="a folder for the home folders; no recording is written, homes.py makes one of each")
    parser.add_argument("--steps", type=int, help="at most so many of each prompt")
    parser.add_argument("--pause", type=float, default=0, help="seconds before each further prompt")
    parser.add_argument("agents", nargs="*", help="by name; all without one")
    given = parser.parse_args()
    for Kind in agents.ALL:
        if not given.agents or Kind.name in given.agents:
            record(Kind, os.path.abspath(given.provider), [os.path.abspath(path) for path in given.path], given.keep, given.homes, given.steps, given.pause)


if __name__ == "__main__":
    main()
