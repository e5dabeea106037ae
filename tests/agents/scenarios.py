"""What each agent has to live through. A scenario returns nothing, or a figure for the table; what does not hold it raises."""

import os
import re
import signal
import time

from stage import Stage, check, results, texts

# In the first prompt alone: a request that has it was not cut.
FIRST = "first-context-4711"


def directive(agent, tasks, steps=1, extra=""):
    return f"#task {tasks} steps={steps} {extra} tool={agent.tool}"


def first_prompt(agent, tasks, **more):
    return f"Work on {FIRST}.\n{directive(agent, tasks, **more)}"


def with_tools(stage):
    return [row for row in stage.requests() if stage.agent.tool in row["tools"]]


def assert_cut(row, what):
    check(FIRST not in texts(row), f"{what}: the first context is in the model's view")


def handed_over(stage, task):
    """Requests of a task that a handoff began."""
    return [row for row in with_tools(stage) if f"#task {task}/" in texts(row)]


def chain(agent, programs):
    """Three tasks with the agent's own tool; two handoffs."""
    with Scene(agent, programs) as stage:
        output = stage.run(first_prompt(agent, "1/3", steps=2))
        check("All 3 tasks done" in output, "the third task is not done")
        for task in (2, 3):
            rows = handed_over(stage, task)
            check(len(rows) >= 3, f"task {task} has {len(rows)} requests")
            for row in rows:
                assert_cut(row, f"task {task}")
            check(results(rows[0]) == 0, f"task {task} begins with results of the one before")
        return meter(output)


def meter(output):
    """The input tokens that the agent reports for its last answer, where it prints them."""
    found = re.findall(r'"(?:input_tokens|prompt_tokens|promptTokenCount|input)"\s*:\s*(\d+)', output)
    return int(found[-1]) if found else None


def mixed(agent, programs):
    """A handoff beside a call of the agent's own tool, in one answer."""
    with Scene(agent, programs) as stage:
        output = stage.run(first_prompt(agent, "1/2", steps=2, extra="mixed"))
        check("All 2 tasks done" in output, "the second task is not done")
        rows = handed_over(stage, 2)
        check(rows, "the handoff did not take effect")
        for row in rows:
            assert_cut(row, "the second task")


def resume(agent, programs, between=None):
    """A second process of the agent goes on with the session after a handoff."""
    with Scene(agent, programs) as stage:
        stage.run(first_prompt(agent, "1/2", steps=agent.steps))
        seen = len(stage.requests())
        if between:
            between(stage)
        stage.run(f"Go on.\n{directive(agent, '1/1')}", again=True)
        rows = [row for row in stage.requests()[seen:] if agent.tool in row["tools"]]
        check(rows, "nothing was sent after it")
        for row in rows:
            assert_cut(row, "the resumed session")


def restart(agent, programs):
    """baton is killed after a handoff, and starts again; then the session goes on."""

    def again(stage):
        stage.kill_baton()
        stage.start_baton()

    resume(agent, programs, between=again)


def command(agent, programs):
    """`::handoff` in the chat."""
    with Scene(agent, programs) as stage:
        hand_over(stage)
        seen = len(stage.requests())
        stage.run(f"Go on.\n{directive(agent, '1/1')}", again=True)
        row = with_tools_since(stage, seen)[0]
        check("<handoff-context>" in texts(row), "the document is not in the model's view")
        check(results(row) == 0, "results from before the handoff are in the model's view")


def hand_over(stage):
    stage.run(first_prompt(stage.agent, "1/1", steps=stage.agent.steps))
    output = stage.run("::handoff the rest", again=True)
    check("handed over" in output, f"the command was not answered: {output[-200:]}")


def with_tools_since(stage, seen):
    rows = [row for row in stage.requests()[seen:] if stage.agent.tool in row["tools"]]
    check(rows, "nothing was sent after it")
    return rows


def undo(agent, programs):
    """`::handoff undo` brings the first context back."""
    with Scene(agent, programs) as stage:
        hand_over(stage)
        stage.run("::handoff undo", again=True)
        seen = len(stage.requests())
        stage.run(f"Go on.\n{directive(agent, '1/1')}", again=True)
        row = with_tools_since(stage, seen)[0]
        check(FIRST in texts(row) and results(row) >= agent.steps, "the first context is not back")


def compaction(agent, programs):
    """The agent's own compaction after a handoff: only the present task is summarised."""
    with Scene(agent, programs) as stage:
        stage.run(first_prompt(agent, "1/2", steps=agent.steps))
        seen = len(stage.requests())
        stage.run(agent.compact, again=True)
        for row in stage.requests()[seen:]:
            assert_cut(row, "the compaction")
        check(len(stage.requests()) > seen, "nothing was compacted")
        seen = len(stage.requests())
        stage.run(f"Go on.\n{directive(agent, '1/1')}", again=True)
        with_tools_since(stage, seen)


def interrupt(agent, programs):
    """SIGINT in the middle of a later leg; then the session goes on."""
    with Scene(agent, programs, delay_ms=120) as stage:
        process = stage.launch(first_prompt(agent, "1/3", steps=2))
        until = time.monotonic() + 60
        while not handed_over(stage, 2) and process.poll() is None and time.monotonic() < until:
            time.sleep(0.02)
        check(handed_over(stage, 2), "no handoff before the interrupt")
        time.sleep(0.4)
        os.killpg(process.pid, signal.SIGINT)
        stage.finish(process, may_fail=True)
        seen = len(stage.requests())
        output = stage.run(f"Go on.\n{directive(agent, '1/1')}", again=True)
        check("All 1 tasks done" in output, "the session does not go on")
        # An agent may drop the whole turn that was interrupted, and the handoff with it.
        rows = with_tools_since(stage, seen)
        return "cut" if all(FIRST not in texts(row) for row in rows) else "turn dropped"


def recall(agent, programs):
    """After a handoff the model searches what was cut."""
    script = [
        {"text": "I look.", "calls": [{"name": agent.tool, "arguments": agent.arguments}]},
        {"text": "Handing over.", "calls": [{"name": "session_handoff", "arguments": {"prompt": "Go on with the search."}}]},
        {"calls": [{"name": "session_recall", "arguments": {"query": FIRST}}]},
        {"text": "The search is done."},
    ]
    with Scene(agent, programs, script=script) as stage:
        output = stage.run(f"Work on {FIRST}.")
        check("The search is done" in output, "the last answer did not arrive")
        last = with_tools(stage)[-1]
        check("session_recall" in [call for turn in last["turns"] for call in turn["calls"]], "the model does not see its own search")
        check(FIRST in "\n".join(result for turn in last["turns"] for result in turn["results"]), "the search found nothing")


def nudge(agent, programs):
    """The model is notified that its context is full; the agent sees nothing of it."""
    notice = "This notice comes from the session's proxy"
    with Scene(agent, programs, config="[handoff]\nnudge_tokens = 1000\n") as stage:
        stage.run(first_prompt(agent, "1/1", steps=3))
        check(any(notice in texts(row) for row in with_tools(stage)), "the model was not notified")
        check(notice not in stage.output, "the notice reached the agent")


class Scene(Stage):
    """A stage that judges at the end what holds in every scenario."""

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        try:
            if kind is None:
                self.judge()
        finally:
            if kind is not None and os.environ.get("KEEP"):
                print(f"kept: {self.folder}")
                self.processes, folder = [], self.processes
                for process in folder:
                    process.kill()
            else:
                self.close()


SCENARIOS = {
    "chain": chain,
    "mixed": mixed,
    "resume": resume,
    "restart": restart,
    "command": command,
    "undo": undo,
    "compaction": compaction,
    "interrupt": interrupt,
    "recall": recall,
    "nudge": nudge,
}
