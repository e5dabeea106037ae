"""Flows that only some agents have, most of them on a terminal. Each returns nothing, or words for the table."""

import copy
import json
import os
import signal
import sys
import time
from datetime import datetime, timedelta, timezone

from scenarios import FIRST, RULE, Scene, assert_cut, directive, first_prompt, go_on, hand_over, handed_over, hands_over, looks, over, since, with_tools
from stage import Late, check, results, texts, with_quotes

SHIFT_TAB = b"\x1b[Z"
# Text of a finished task, larger than the windows below.
BULK = "The work of a task that is over. " * 5000
# What Claude Code states of a session, in the user's place.
STATED = ("Primary working directory", "INSTRUCTION-4712", "Today's date is")


def says(text):
    return {"text": text}


def shell(line, n=0):
    arguments = {"command": line, "description": f"look {n}"}
    return {"text": f"I look, {n}.", "calls": [{"name": "Bash", "arguments": arguments}]}


def loads(tool):
    """A reply that has a deferred tool of Claude Code's offered."""
    return {"text": "I load.", "calls": [{"name": "ToolSearch", "arguments": {"query": f"select:{tool}", "max_results": 5}}]}


def turn(stage, line):
    """Types a line on the agent's screen, and waits for the end of the turn."""
    seen = len(stage.requests())
    stage.submit(line)
    stage.wait_for(lambda: over(stage, seen), f"the turn of `{line}` does not end")
    stage.shown.settle()


def said_by(stage, words):
    """The requests of the agent's loop whose carry-over prompt is this."""
    rows = [row for row in since(stage, 0) if words in texts(row)]
    check(rows, f"`{words}` is in no request")
    return rows


def write_instructions(stage):
    (stage.work / "CLAUDE.md").write_text("INSTRUCTION-4712: answer briefly.\n")


def compacted(agent, programs):
    """A handoff after the agent's own compaction keeps its environment and instructions."""
    script = [looks(agent, 0), hands_over(0), says("One is done."), says("<summary>Step 0 is done.</summary>")]
    script += [looks(agent, 1), hands_over(1), says("Two are done.")]
    with Scene(agent, programs, script=script) as stage:
        write_instructions(stage)
        stage.screen()
        turn(stage, f"Work on {FIRST}.")
        stage.submit("/compact")
        stage.shown.settle(3)
        turn(stage, "Go on after the summary.")
        for row in said_by(stage, "Go on with step 1."):
            assert_cut(row, "after the summary")
            check("session is being continued" not in texts(row), "the summary is in the model's view")
            for stated in STATED:
                check(stated in texts(row), f"{stated} is lost")


def plan_accepted(agent, programs):
    """After an accepted plan and a handoff, the model is not told that plan mode is active."""
    plan = {"text": "A plan.", "calls": [{"name": "ExitPlanMode", "arguments": {"plan": "Do it."}}]}
    script = [loads("ExitPlanMode"), shell("echo found", 0), plan, looks(agent, 1), hands_over(1), looks(agent, 2), says("It is done.")]
    with Scene(agent, programs, script=script) as stage:
        screen = stage.screen(("--permission-mode", "plan"))
        stage.submit(f"Plan it: {FIRST}.")
        stage.wait_for(lambda: "Exit plan mode?" in screen.text(), "no plan is shown")
        screen.settle()
        screen.press(b"\r")
        stage.wait_for(lambda: over(stage), "the plan is not carried out")
        first = since(stage, 0)[0]
        check("Plan mode is active" in texts(first), "the session does not begin in plan mode")
        for row in said_by(stage, "Go on with step 1."):
            check("Plan mode is active" not in texts(row), "plan mode is active again")
            check("MUST NOT make any edits" not in texts(row), "edits are forbidden")


def plan_entered(agent, programs):
    """Plan mode that is entered in mid-session is known after a handoff."""
    script = [looks(agent, 0), says("One is done."), shell("ls", 1), hands_over(1), says("A plan.")]
    with Scene(agent, programs, script=script) as stage:
        screen = stage.screen()
        turn(stage, f"Work on {FIRST}.")
        for _ in range(2):
            screen.press(SHIFT_TAB)
            time.sleep(0.5)
        turn(stage, "Plan the next step.")
        for row in said_by(stage, "Go on with step 1."):
            check("Plan mode is active" in texts(row), "plan mode is forgotten")


def interjected(agent, programs):
    """A rule that is typed while the agent works holds after two handoffs."""
    script = [shell("sleep 4", 0), hands_over(0), looks(agent, 1), hands_over(1), says("Two are done.")]
    with Scene(agent, programs, script=script) as stage:
        stage.screen()
        stage.submit(f"Work on {FIRST}.")
        stage.wait_for(lambda: stage.replies(), "the model does not answer")
        time.sleep(1.5)
        stage.shown.type(RULE)
        stage.wait_for(lambda: over(stage), "the turn does not end")
        for step in (0, 1):
            for row in said_by(stage, f"Go on with step {step}."):
                check(f"- {RULE}\n" in with_quotes(row), f"the rule is lost after handoff {step + 1}")


def model_changed(agent, programs):
    """After `/model` and a handoff the model is told its present name."""
    script = [looks(agent, 0), hands_over(0), says("One is done."), looks(agent, 1), hands_over(1), says("Two are done.")]
    with Scene(agent, programs, script=script) as stage:
        stage.screen()
        turn(stage, f"Work on {FIRST}.")
        stage.shown.type("/model claude-opus-4-5")
        stage.shown.settle(2)
        stage.shown.press(b"\r")
        stage.shown.settle()
        turn(stage, "Go on with the other model.")
        for row in said_by(stage, "Go on with step 1."):
            check("Opus 4.5" in texts(row), "the present model is not named")
            check("Sonnet 4.5" not in texts(row), "the model before is named")


def part_replaced(agent, programs):
    """The rest of a system message stays."""
    script = [looks(agent, 0), hands_over(0), says("One is done."), looks(agent, 1), hands_over(1), says("Two are done.")]
    with Scene(agent, programs, script=script) as stage:
        stage.screen(("--model", "claude-opus-5-5"))
        turn(stage, f"Work on {FIRST}.")
        stage.shown.type("/model claude-sonnet-5-5")
        stage.shown.settle(2)
        stage.shown.press(b"\r")
        stage.shown.settle()
        turn(stage, "Go on with the other model.")
        for row in said_by(stage, "Go on with step 1."):
            told = "\n".join(text for turn in row["turns"] for text in turn["texts"])
            check("named Sonnet 5.5" in told, "the present model is not named")
            check("named Opus 5.5" not in told, "the model before is named")
            check("Primary working directory" in told, "the environment is lost")


def subdirectory(agent, programs):
    """The CLAUDE.md of a subdirectory, which is attached once, is known after a handoff."""

    def script(work):
        read = {"name": "Read", "arguments": {"file_path": str(work / "sub" / "x.txt")}}
        return [{"text": "I read.", "calls": [read]}, hands_over(0), looks(agent, 1), says("It is done.")]

    with Scene(agent, programs, script=script) as stage:
        below = stage.work / "sub"
        below.mkdir()
        (below / "CLAUDE.md").write_text("NESTED-RULE: no tabs here.\n")
        (below / "x.txt").write_text("x\n")
        stage.screen()
        turn(stage, f"Work on {FIRST}.")
        for row in said_by(stage, "Go on with step 0."):
            check("NESTED-RULE" in texts(row), "the instructions of the subdirectory are lost")


def todos(agent, programs):
    """Open to-dos, with their numbers, survive two handoffs."""

    def creates(subject):
        return {"name": "TaskCreate", "arguments": {"subject": subject, "description": subject, "activeForm": subject}}

    done = {"text": "Done.", "calls": [{"name": "TaskUpdate", "arguments": {"taskId": "1", "status": "completed"}}]}
    script = [loads("TaskCreate,TaskUpdate"), {"text": "I list.", "calls": [creates("Mend the reader"), creates("Mend the page")]}, hands_over(0)]
    script += [done, hands_over(1), looks(agent, 2), hands_over(2), says("Three are done.")]
    with Scene(agent, programs, script=script) as stage:
        stage.screen()
        turn(stage, f"Work on {FIRST}.")
        for step in (1, 2):
            for row in said_by(stage, f"Go on with step {step}."):
                check("[pending] #2 Mend the page" in with_quotes(row), f"the to-do is lost after handoff {step + 1}")
                check("Mend the reader" not in with_quotes(row), "a finished to-do is carried as open")


def commands(agent, programs):
    """Commands that are typed while the agent works take effect, and the model sees none of them."""
    script = [shell("sleep 4", 0), shell("sleep 4; true", 1), says("The leg goes on."), says("Next.")]
    with Scene(agent, programs, script=script, config='[draft]\nmethod = "local"\n') as stage:
        stage.screen()
        stage.submit(f"Work on {FIRST}.")
        for n, line in enumerate(("::pin Never touch the API.", "::handoff the exporter")):
            stage.wait_for(lambda n=n: len(stage.replies()) > n, "the model does not answer")
            time.sleep(1.5)
            stage.shown.type(line)
        stage.wait_for(lambda: over(stage), "the turn does not end")
        stage.shown.settle()
        turn(stage, "Go on.")
        for row in stage.requests():
            check("::pin" not in texts(row) and "::handoff" not in texts(row), "a command is in the model's view")
        last = since(stage, 0)[-1]
        check("Never touch the API." in texts(last), "nothing was pinned")
        check("Goal: the exporter" in texts(last), "nothing was handed over")


def status(agent, programs):
    """`::handoff status` after much finished work makes no agent compact its session."""
    work = [{**looks(agent, n), "text": BULK} for n in range(2)]
    script = [work[0], hands_over(0), work[1], hands_over(1), says("Two are done."), says("An answer.")]
    with Scene(agent, programs, script=script) as stage:
        small_window(agent, stage)
        stage.run(f"Work on {FIRST}.")
        seen = len(stage.requests())
        stage.run("::handoff status", again=True)
        stage.run("A question.", again=True)
        rows = stage.requests()[seen:]
        check(len(rows) == 1, f"{len(rows)} requests for one question")
        check("Go on with step 1." in texts(rows[0]), "the carry-over prompt is lost")
        assert_cut(rows[0], "the question")


def small_window(agent, stage):
    """Has the agent compact from about 70,000 tokens on."""
    if agent.key == "codex":
        file = stage.home / ".codex" / "config.toml"
        file.write_text("model_auto_compact_token_limit = 60000\n" + file.read_text())
    elif agent.key == "pi":
        file = stage.home / ".pi" / "agent" / "settings.json"
        file.write_text('{"compaction": {"reserveTokens": 130000, "keepRecentTokens": 1}}')
    else:
        stage.more = {"GOOSE_CONTEXT_LIMIT": "70000"}


def undone(agent, programs):
    """After an undo the agent's compaction has the whole transcript, without commands and baton's replies."""
    with Scene(agent, programs) as stage:
        hand_over(stage, "the exporter")
        stage.run("Another question.", again=True)
        stage.run("::handoff undo", again=True)
        seen = len(stage.requests())
        if agent.key == "goose":
            stage.run("/compact", again=True)
        else:
            screen = stage.screen(("--continue",), ready="Another")
            stage.submit("/compact")
            screen.settle(2)
        rows = [row for row in stage.requests()[seen:] if not row["tools"]]
        check(rows, "no summary was requested")
        summary = "\n".join(text for turn in rows[0]["turns"] for text in turn["texts"])
        # goose has its transcript there.
        summary += json.dumps(rows[0]["system"], ensure_ascii=False)
        check(FIRST in summary, "the work before the handoff is lost")
        for words in ("<handoff-context>", "::handoff", "handoff-resume:", "baton:"):
            check(words not in summary, f"{words} is in the summary's request")


def resumed(agent, programs):
    """A session that was interrupted in a later leg and resumed stays cut."""
    with Scene(agent, programs, delay_ms=80) as stage:
        process = stage.launch(f"{directive(agent, '1/2', steps=1)} {FIRST}")
        stage.wait_for(lambda: handed_over(stage, 2), "no handoff before the interrupt")
        time.sleep(agent.pause)
        os.killpg(process.pid, signal.SIGINT)
        stage.finish(process, may_fail=True)
        seen = len(stage.requests())
        stage.run(go_on(agent), again=True)
        rows = since(stage, seen)
        check(len(rows) > 1, "the session does not call its tool")
        for row in rows:
            assert_cut(row, "the resumed session")


def quoted(agent, programs):
    """A command in the quotes that the agent puts around an argument is known."""
    with Scene(agent, programs) as stage:
        stage.run(first_prompt(agent, "1/1", steps=0))
        seen = len(stage.requests())
        output = stage.run("", arguments=["run", "--format", "json", "--auto", "--continue", "::handoff status"])
        check("the model sees the whole history" in output, f"the command was not answered: {output[-200:]}")
        check(len(stage.requests()) == seen, "the command reached the model")


# A server of the Model Context Protocol with one tool, on standard input and output.
SERVER = """
import json, sys
TOOL = {"name": "look", "description": "Looks", "inputSchema": {"type": "object", "properties": {}}}
ANSWERS = {
    "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "probe", "version": "1"}},
    "tools/list": {"tools": [TOOL]},
    "tools/call": {"content": [{"type": "text", "text": "SEEN-BY-THE-SERVER"}]},
}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        answer = {"jsonrpc": "2.0", "id": asked["id"], "result": ANSWERS.get(asked["method"], {})}
        print(json.dumps(answer), flush=True)
"""


def servers(agent, programs):
    """Results of an MCP server are cut."""
    look = {"name": "mcp__probe__look", "arguments": {}}
    over_with_it = hands_over(0)
    over_with_it["calls"].insert(0, look)
    again = {"text": "Again.", "calls": [look]}
    script = [loads("mcp__probe__look"), {"text": "I look.", "calls": [look]}, over_with_it, says("One is done."), again, says("It is done.")]
    with Scene(agent, programs, script=script) as stage:
        (stage.folder / "server.py").write_text(SERVER)
        server = {"command": sys.executable, "args": [str(stage.folder / "server.py")]}
        (stage.folder / "mcp.json").write_text(json.dumps({"mcpServers": {"probe": server}}))
        more = ["--mcp-config", str(stage.folder / "mcp.json"), "--allowedTools", "Bash,mcp__probe__look"]
        output = stage.run("", arguments=[*agent.command(f"Work on {FIRST}.", False), *more])
        check("It is done." in output, f"the work is not done: {output[-300:]}")
        rows = said_by(stage, "Go on with step 0.")
        for row in rows:
            assert_cut(row, "after the handoff")
        check(texts(rows[-1]).count("SEEN-BY-THE-SERVER") == 1, "the server's results are not those of the leg")


def schema(agent, programs):
    """A session resumed with an output schema stays cut, and a handoff leaves no trace in the output."""
    script = [looks(agent, 0), hands_over(0), says("One is done."), looks(agent, 1)]
    script += [{"calls": hands_over(1)["calls"]}, says('{"answer": "done"}')]
    with Scene(agent, programs, script=script) as stage:
        stage.run(f"Work on {FIRST}.")
        seen = len(stage.requests())
        shape = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"], "additionalProperties": False}
        (stage.folder / "schema.json").write_text(json.dumps(shape))
        arguments = agent.command("Answer.", True)
        arguments[3:3] = ["--output-schema", str(stage.folder / "schema.json"), "--output-last-message", str(stage.folder / "last")]
        stage.run("", arguments=arguments)
        last = (stage.folder / "last").read_text()
        check(last == '{"answer": "done"}', f"the last message is {last}")
        for row in stage.requests()[seen:]:
            check("Go on with step 0." in texts(row), "the carry-over prompt is lost")
            assert_cut(row, "with the schema")


def plan_edited(agent, programs):
    """A plan edited in the editor ends plan mode."""
    plan = {"text": "A plan.", "calls": [{"name": "ExitPlanMode", "arguments": {"plan": "Do it."}}]}
    # The plan is in a file that the harness names to the model. Without it no editor opens.
    finds = "grep -rhoE '/[^ \"\\\\]*/plans/[a-z0-9-]+[.]md' ~/.claude/projects | head -1"
    writes = f"until f=$({finds}); [ \"$f\" ]; do sleep 0.1; done; mkdir -p ${{f%/*}}; echo 'Do it.' > $f"
    script = [loads("ExitPlanMode"), shell(writes, 0), plan, looks(agent, 1), hands_over(1), looks(agent, 2), says("It is done.")]
    with Scene(agent, programs, script=script) as stage:
        editor, started = stage.folder / "editor", stage.folder / "started"
        editor.write_text(f'#!/bin/sh\n: > "{started}"\necho "EDITED-BY-THE-USER" >> "$1"\n')
        editor.chmod(0o755)
        stage.more = {"EDITOR": str(editor), "VISUAL": str(editor)}
        screen = stage.screen(("--permission-mode", "plan"))
        stage.submit(f"Plan it: {FIRST}.")
        stage.wait_for(lambda: "ready to execute" in screen.text(), "no plan is shown")
        screen.settle()
        stage.press_until(b"\x07", started.exists, "the editor does not start")
        stage.wait_for(lambda: "EDITED-BY-THE-USER" in screen.text(), "what was edited is not shown")
        screen.settle()
        seen = len(stage.requests())
        stage.press_until(b"\r", lambda: len(stage.requests()) > seen, "the plan is not accepted")
        stage.wait_for(lambda: over(stage), "the plan is not carried out")
        check(any("EDITED-BY-THE-USER" in texts(row) for row in stage.requests()), "the model does not see what was edited")
        for row in said_by(stage, "Go on with step 1."):
            check("Plan mode is active" not in texts(row), "plan mode is active again")


def sent_now(agent, programs):
    """A rule sent at once (`ctrl+x ctrl+s`) holds."""
    script = [shell("sleep 20", 0), looks(agent, 1), hands_over(1), says("It is done.")]
    with Scene(agent, programs, script=script) as stage:
        stage.screen()
        stage.submit(f"Work on {FIRST}.")
        stage.wait_for(lambda: stage.replies(), "the model does not answer")
        time.sleep(1.5)
        stage.shown.type(RULE)
        time.sleep(1)
        began = time.monotonic()
        stage.shown.press(b"\x18\x13")
        stage.wait_for(lambda: len(stage.replies()) > 1, "the message is not sent")
        check(time.monotonic() - began < 15, "the message waited for the call")
        stage.wait_for(lambda: over(stage), "the turn does not end")
        for row in said_by(stage, "Go on with step 1."):
            check(f"- {RULE}\n" in with_quotes(row), "the rule is lost")


def model_entered(agent, programs):
    """So is plan mode that the model entered."""
    enter = {"text": "I plan.", "calls": [{"name": "EnterPlanMode", "arguments": {}}]}
    script = [loads("EnterPlanMode"), enter, hands_over(0), says("A plan.")]
    with Scene(agent, programs, script=script) as stage:
        screen = stage.screen()
        stage.submit(f"Work on {FIRST}.")
        stage.wait_for(lambda: "Enter plan mode?" in screen.text() or over(stage), "it does not ask")
        screen.settle()
        screen.press(b"\r")
        stage.wait_for(lambda: over(stage), "the turn does not end")
        for row in said_by(stage, "Go on with step 0."):
            check("plan mode" in texts(row).lower(), "plan mode is forgotten")


def delegated(agent, programs):
    """A sub-agent and its parent are cut separately, and the report has no sentinel."""
    child = {"name": "delegate", "arguments": {"instructions": "Look at CHILD-4713."}}
    script = [{"text": "I delegate.", "calls": [child]}, looks(agent, 0), hands_over(0), says("The child is done."), hands_over(1), says("Two are done.")]
    with Scene(agent, programs, script=script) as stage:
        stage.run(f"Work on {FIRST}.")
        legs = [row for row in said_by(stage, "Go on with step 0.") if FIRST not in texts(row)]
        check(legs and all("CHILD-4713" not in texts(row) for row in legs), "the sub-agent was not cut")
        for row in said_by(stage, "Go on with step 1."):
            assert_cut(row, "the parent")
        told = [row for row in stage.requests() if FIRST in texts(row) and "The child is done." in texts(row)]
        check(told, "the parent has no report")
        for row in told:
            check("handoff-resume" not in texts(row), "the report has the sentinel")


def braked(agent, programs):
    """The brake ends the turn of a model that repeats a failing call; `::go` continues it without loss."""
    again = {"text": "I look again.", "calls": [{"name": agent.tool, "arguments": fails(agent)}]}
    # The program of Codex's tool might change files, so only its failures count.
    count = 6 if agent.key == "codex" else 4
    script = [again] * count + [says("It is done.")]
    # gemini-cli resumes such a session wrongly, and cline none without a screen: they stay open.
    resumes = agent.steps and not agent.reopen
    with Scene(agent, programs, script=script, config="[brake]\nno_progress = true\n") as stage:
        if resumes:
            output = stage.run(f"Work on {FIRST}.")
        else:
            screen = stage.screen()
            stage.submit(f"Work on {FIRST}.")
            stage.wait_for(lambda: "::go" in screen.text(), "the turn is not ended")
            screen.settle()
            output = screen.text()
        check("stopped: " in output and "::go" in output, f"the turn was not ended: {output[-300:]}")
        rows = with_tools(stage)
        check(len(rows) == count, f"{len(rows)} requests before the end")
        seen = len(stage.requests())
        if resumes:
            stage.run("::go", again=True)
        else:
            stage.submit("::go")
            stage.wait_for(lambda: over(stage, seen), "it does not go on")
        row = since(stage, seen)[0]
        check(FIRST in texts(row) and results(row) == count, f"work is lost: {results(row)} results")
        check("::go" not in texts(row) and "baton: " not in texts(row), "the stop is in the model's view")


def fails(agent):
    """Arguments of a call that fails each time."""
    if agent.key == "codex":  # Its tool runs JavaScript.
        return "text(await tools.exec_command({cmd: 'cat missing.txt'}))"
    return json.loads(json.dumps(agent.arguments).replace("echo found", "cat missing.txt"))


def told(agent, programs):
    """A draft shows its progress and one report, without tags; one that fails ends with its reason."""
    script = [looks(agent, 0), says("One is done."), says("## Goal\nThe exporter."), looks(agent, 1), says("Two are done."), says("")]
    with Scene(agent, programs, script=script) as stage:
        screen = stage.screen()
        turn(stage, f"Work on {FIRST}.")
        for reply, outcome in (("the exporter", "handed over"), ("the importer", "no handoff was made")):
            stage.submit(f"::handoff --force {reply}")
            stage.wait_for(lambda outcome=outcome: outcome in screen.text(), f"`{outcome}` is not on the screen")
            screen.settle()
            shown = screen.text()
            check("a handoff is being written." in shown, "the progress is not on the screen")
            check("handoff-context>" not in shown and "carried-over>" not in shown, "tags are on the screen")
            check(("handoff-note" in shown) == (reply == "the importer"), "the notes are wrong")
            if reply == "the exporter":
                turn(stage, "Go on.")
        for row in stage.requests():
            check("being written" not in texts(row) and "handed over (" not in texts(row), "a report is in the model's view")


def retitled(agent, programs):
    """A request for a title has no command in it."""
    with Scene(agent, programs, script=[looks(agent, 0), says("One is done."), says("Two are done.")]) as stage:
        screen = stage.screen()
        turn(stage, f"Work on {FIRST}.")
        seen = len(stage.requests())
        screen.type("::handoff status")
        screen.settle(4)
        turn(stage, "Go on.")
        check("the model sees the whole history" in screen.text(), "the command was not answered")
        rows = stage.requests()[seen:]
        for row in rows:
            check("::handoff" not in texts(row), "a command is in the model's view")
        check(any("(a command)" in texts(row) for row in rows), "no title was requested")


def aborted(agent, programs):
    """After Esc in a later leg and an undo, no thinking of the other history is sent."""
    script = [looks(agent, 0), hands_over(0), says("The second leg goes on. " * 40), looks(agent, 1), says("A."), says("B."), says("C.")]
    with Scene(agent, programs, script=[{**reply, "thinking": "What is next?"} for reply in script], delay_ms=80) as stage:
        screen = stage.screen(("--thinking", "low"))
        stage.submit(f"Work on {FIRST}.")
        said = stage.wait_for(lambda: [row for row in stage.requests() if "Go on with step 0." in texts(row)], "no handoff")
        assert_cut(said[-1], "the second leg")
        time.sleep(agent.pause)
        screen.press(agent.stop)
        screen.settle()
        turn(stage, "A question.")
        for row in since(stage, 3):
            assert_cut(row, "after the abort")
        screen.type("::handoff undo")
        screen.settle(3)
        seen = len(stage.requests())
        turn(stage, "Another question.")
        check(FIRST in texts(since(stage, seen)[0]), "the first context is not back")


def rewound(agent, programs):
    """After `/rewind` to between two handoffs, the first one counts."""
    script = [looks(agent, 0), hands_over(0), says("One is done."), looks(agent, 1), hands_over(1), says("Two are done."), says("Three.")]
    with Scene(agent, programs, script=script) as stage:
        screen = stage.screen()
        turn(stage, f"Work on {FIRST}.")
        turn(stage, "Go on with the second.")
        screen.type("/rewind")
        for key, shown in ((b"\x1b[A", "(current)"), (b"\r", "Enter to continue"), (b"\r", "Never mind")):
            stage.wait_for(lambda shown=shown: shown in screen.text(), f"`{shown}` is not on the screen")
            time.sleep(2)  # The dialog may not listen yet.
            screen.press(key)
        for _ in range(6):  # The message is put into the input again, some time later.
            time.sleep(1)
            screen.press(b"\x7f" * 40)
        seen = len(stage.requests())
        turn(stage, "Another way.")
        row = since(stage, seen)[0]
        assert_cut(row, "after the rewind")
        check("Go on with step 0." in texts(row) and "Go on with step 1." not in texts(row), "another handoff counts")
        check("Go on with the second." not in texts(row), "nothing was rewound")


def next_day(agent, programs):
    """A session that is resumed on another day states that day after a handoff."""
    script = [looks(agent, 0), hands_over(0), says("One is done."), looks(agent, 1), hands_over(1), says("Two are done.")]
    with Scene(agent, programs, script=script) as stage:
        for hours, zone in ((-10, "Pacific/Honolulu"), (14, "Pacific/Kiritimati")):
            day = (datetime.now(timezone.utc) + timedelta(hours=hours)).date()
            stage.more = {"TZ": zone}
            stage.run(f"Work on {FIRST}." if hours < 0 else "Go on.", again=hours > 0)
            for row in said_by(stage, f"Go on with step {int(hours > 0)}."):
                check(f"{day}" in texts(row), f"the day {day} is not stated")
                check(hours < 0 or f"{day - timedelta(days=1)}" not in texts(row), "the day before is stated")


def restored(agent, programs):
    """After `/restore` of a checkpoint after a handoff the session stays cut."""

    def script(work):
        write = {"name": "write_file", "arguments": {"file_path": str(work / "new.txt"), "content": "new"}}
        return [looks(agent, 0), hands_over(0), {"text": "I write.", "calls": [write]}, says("Written."), says("It goes on."), says("On.")]

    with Scene(agent, programs, script=script) as stage:
        file = stage.home / ".gemini" / "settings.json"
        settings = json.loads(file.read_text())
        settings["general"]["checkpointing"] = {"enabled": True}
        file.write_text(json.dumps(settings))
        # It keeps a checkpoint only of a call that it asks for.
        stage.agent = copy.copy(agent)
        stage.agent.screen = tuple(part for part in agent.screen if part != "-y")
        screen = stage.screen()
        stage.submit(f"Work on {FIRST}.")
        while not over(stage):
            stage.wait_for(lambda: over(stage) or "Allow once" in screen.text(), "the call is not asked for")
            time.sleep(1.5)
            screen.press(b"\r")
        screen.settle()
        points = [point for point in stage.home.glob(".gemini/**/checkpoints/*.json")]
        check(points, "there is no checkpoint")
        (stage.work / "new.txt").unlink()
        screen.type(f"/restore {points[0].stem}")
        screen.settle(4)
        check((stage.work / "new.txt").exists(), "the call was not repeated")
        seen = len(stage.requests())
        stage.submit("Go on.")
        for row in since(stage, seen):
            assert_cut(row, "after the restore")
            check("Go on with step 0." in texts(row), "the carry-over prompt is lost")


# A flow, and the agents that have it.
FLOWS = {
    "compacted": (compacted, "claude"),
    "plan accepted": (plan_accepted, "claude"),
    "plan entered": (plan_entered, "claude"),
    "model entered": (model_entered, "claude"),
    "interjected": (interjected, "claude"),
    "commands": (commands, "claude"),
    "model changed": (model_changed, "claude"),
    "part replaced": (part_replaced, "claude"),
    "subdirectory": (subdirectory, "claude"),
    "todos": (todos, "claude"),
    "servers": (servers, "claude"),
    "schema": (schema, "codex"),
    "plan edited": (plan_edited, "claude"),
    "sent now": (sent_now, "claude"),
    "delegated": (delegated, "goose"),
    "status": (status, "codex", "pi", "goose"),
    "undone": (undone, "opencode", "goose"),
    "resumed": (resumed, "goose"),
    "quoted": (quoted, "opencode"),
    "told": (told, "claude", "pi", "opencode"),
    "retitled": (retitled, "codex"),
    "aborted": (aborted, "pi"),
    "rewound": (rewound, "claude"),
    "next day": (next_day, "claude"),
    "restored": (restored, "gemini"),
    "braked": (braked, "claude", "codex", "gemini", "opencode", "pi", "goose", "qwen", "cline"),
}


def of(agent):
    return {name: flow for name, (flow, *keys) in FLOWS.items() if agent.key in keys}
