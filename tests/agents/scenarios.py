"""The scenarios of each agent. A scenario returns nothing, or a figure for the table; it raises where a check fails."""

import json
import time

from stage import Late, Stage, check, results, texts, with_quotes

# In the first prompt alone: a request that has it was not cut.
FIRST = "first-context-4711"
HIDDEN = {"session_handoff", "session_recall"}


def directive(agent, tasks, steps=1, extra=""):
    return f"#task {tasks} steps={steps} {extra} tool={agent.tool}"


def first_prompt(agent, tasks, **more):
    return f"Work on {FIRST}.\n{directive(agent, tasks, **more)}"


def with_tools(stage, seen=0):
    """The requests of the agent's own loop: baton's tool and the one that the model calls are on offer."""
    wanted = {stage.agent.tool, "session_handoff"}
    return [row for row in stage.requests()[seen:] if wanted <= set(row["tools"])]


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


def meter(agent, programs):
    """The input tokens that the agent records for each answer are those of its last request."""
    with Scene(agent, programs) as stage:
        stage.run(first_prompt(agent, "1/2", steps=1))
        recorded = agent.meter(stage)
        legs = answers(stage)
        last, first = [answer[-1] for answer in legs], [answer[0] for answer in legs]
        check(any(len(answer) > 1 for answer in legs), "no answer has two requests behind it")
        if agent.reads_start:
            check(recorded == first, f"it has recorded {recorded}, and not {first}")
            return "late"
        check(recorded == last, f"it has recorded {recorded}, and not {last}")


def answers(stage):
    """The input tokens of the requests for each answer to the agent: after a hidden call alone there is one more."""
    found, open_answer = [], False
    replies = stage.replies()
    for row in with_tools(stage):
        reply = replies[row["number"]]
        if not open_answer:
            found.append([])
        found[-1].append(reply["input_tokens"])
        open_answer = bool(reply["calls"]) and set(reply["calls"]) <= HIDDEN
    return found


def mixed(agent, programs):
    """A handoff and a call of the agent's own tool, in one answer."""
    with Scene(agent, programs) as stage:
        output = stage.run(first_prompt(agent, "1/2", steps=2, extra="mixed"))
        check("All 2 tasks done" in output, "the second task is not done")
        rows = handed_over(stage, 2)
        check(rows, "the handoff did not take effect")
        for row in rows:
            assert_cut(row, "the second task")


def opening(agent):
    """A first prompt, and a script where the model needs one, for a handoff and `agent.steps` calls after it."""
    if agent.steps:
        return f"{directive(agent, '1/2', steps=agent.steps)} {FIRST}", None
    carry_over = f"Go on with the next one.\n{directive(agent, '1/1', steps=0)}"
    return f"Work on {FIRST}.", [
        {"text": "I look.", "calls": [{"name": agent.tool, "arguments": agent.arguments}]},
        {"text": "Handing over.", "calls": [{"name": "session_handoff", "arguments": {"prompt": carry_over}}]},
    ]


def resume(agent, programs, between=None):
    """A second process of the agent continues the session after a handoff."""
    prompt, script = opening(agent)
    with Scene(agent, programs, script=script) as stage:
        stage.run(prompt)
        seen = len(stage.requests())
        if between:
            between(stage)
        stage.run(go_on(agent), again=True)
        for row in since(stage, seen):
            assert_cut(row, "the resumed session")


def go_on(agent):
    return f"{directive(agent, '1/1')} please"


def since(stage, seen):
    rows = with_tools(stage, seen)
    check(rows, "nothing was sent after it")
    return rows


def restart(agent, programs):
    """baton is killed after a handoff, and starts again; then the session continues."""

    def again(stage):
        stage.kill_baton()
        stage.start_baton()

    resume(agent, programs, between=again)


GOAL = "implement the importer next"


def command(agent, programs):
    """`::handoff GOAL` in the chat, by each method: the goal is the first line that the model then reads."""
    for method in ("oneshot", "bundle", "local"):
        with Scene(agent, programs, config=f'[draft]\nmethod = "{method}"\n') as stage:
            hand_over(stage, GOAL)
            seen = len(stage.requests())
            stage.run(go_on(agent), again=True)
            row = since(stage, seen)[0]
            _, opened, document = texts(row).partition("<handoff-context>\n")
            check(opened, f"{method}: the document is not in the model's view")
            first = document.split("\n")[0]
            check(first == f"Goal: {GOAL}", f"{method}: the model reads {first!r} first")
            check(results(row) == 0, f"{method}: results from before the handoff are in the model's view")


def hand_over(stage, goal="the rest"):
    stage.run(first_prompt(stage.agent, "1/1", steps=stage.agent.steps))
    output = stage.run(f"::handoff {goal}", again=True)
    # On a screen the beginning may have scrolled away.
    check("handed over" in output or "handoff-resume:" in output, f"the command was not answered: {output[-200:]}")


def undo(agent, programs):
    """`::handoff undo` brings the first context back."""
    with Scene(agent, programs) as stage:
        hand_over(stage)
        stage.run("::handoff undo", again=True)
        seen = len(stage.requests())
        stage.run(go_on(agent), again=True)
        row = since(stage, seen)[0]
        check(FIRST in texts(row) and results(row) >= stage.agent.steps, "the first context is not back")


def compaction(agent, programs):
    """The agent's own compaction after a handoff, on its screen: only the present task is summarised."""
    prompt, script = opening(agent)
    with Scene(agent, programs, script=script) as stage:
        screen = stage.screen()
        stage.submit(prompt)
        stage.wait_for(lambda: over(stage), "the first turn does not end")
        screen.settle()
        seen = len(stage.requests())
        stage.submit(agent.compact, confirm=agent.confirm)
        screen.settle(2)
        rows = stage.requests()[seen:]
        for row in rows:
            assert_cut(row, "the compaction")
        seen += len(rows)
        stage.submit(go_on(agent))
        stage.wait_for(lambda: over(stage, seen), "the session does not go on")


def over(stage, seen=0):
    """Whether a turn has ended since: the model was asked by the agent's loop, and called nothing."""
    replies = stage.replies()
    rows = with_tools(stage, seen)
    last = replies.get(rows[-1]["number"]) if rows else None
    return last is not None and not last["calls"]


def interrupt(agent, programs):
    """Esc in the middle of a later leg, on the agent's screen; then the session continues."""
    with Scene(agent, programs, delay_ms=80) as stage:
        screen = stage.screen()
        stage.submit(f"{directive(agent, '1/3', steps=2)} {FIRST}")
        stage.wait_for(lambda: handed_over(stage, 2), "no handoff before the interrupt")
        time.sleep(agent.pause)
        for key in agent.stop:
            screen.press(bytes([key]))
            time.sleep(0.2)
        screen.settle()
        if handed_over(stage, 3):
            raise Late("the answer was not interrupted")
        return goes_on(stage)


def goes_on(stage):
    """Whether the session is still cut. An agent may drop the turn that was interrupted, and the handoff with it."""
    seen = len(stage.requests())
    stage.submit(go_on(stage.agent))
    stage.wait_for(lambda: over(stage, seen), "the session does not go on")
    return None if all(FIRST not in texts(row) for row in since(stage, seen)) else "turn dropped"


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


RULE = "Never touch migrations/."


def looks(agent, n):
    """A reply that calls the agent's tool: agents stop a model that repeats itself."""
    text = json.dumps(agent.arguments).replace("found", f"found {n}")
    return {"text": f"I look, {n}.", "calls": [{"name": agent.tool, "arguments": json.loads(text)}]}


def hands_over(n):
    prompt = {"prompt": f"Go on with step {n}."}
    return {"text": f"Handing over, {n}.", "calls": [{"name": "session_handoff", "arguments": prompt}]}


def rules(agent, programs):
    """A rule of the first message stands behind the cut of five handoffs whose prompts lack it; `::unpin` ends that."""

    script = [reply for n in range(5) for reply in (looks(agent, n), hands_over(n))]
    # No call is left behind the last cut: gemini-cli resumes with such results twice.
    script += [{"text": "Five are done."}, hands_over(5), {"text": "Six are done."}]
    with Scene(agent, programs, script=script) as stage:
        output = stage.run(f"Work on {FIRST}. {RULE}")
        check("Five are done" in output, "the fifth handoff is not reached")
        for n in range(5):
            rows = [row for row in with_tools(stage) if f"Go on with step {n}." in texts(row)]
            check(rows, f"nothing was sent after handoff {n + 1}")
            for row in rows:
                assert_cut(row, f"handoff {n + 1}")
                check(RULE in with_quotes(row), f"the rule is lost after handoff {n + 1}")
        check(carried_rules(stage) == [("in_prompt", RULE)], f"the receipt says {carried_rules(stage)}")
        check(RULE in stage.run("::pins", again=True), "the rule is not listed")
        stage.run("::unpin 1", again=True)
        seen = len(stage.requests())
        stage.run("Go on, please.", again=True)
        last = since(stage, seen)[-1]
        check("Go on with step 5." in texts(last), "the sixth handoff is not reached")
        check(f"- {RULE}\n" not in with_quotes(last), "the rule was unpinned, and is carried")
        check(carried_rules(stage) == [], f"the receipt says {carried_rules(stage)}")


def carried_rules(stage):
    """The rules that the newest handoff carried, as the inspector shows them."""
    newest = stage.inspect("handoffs")["handoffs"][0]
    items = stage.inspect(f"handoffs/{newest['id']}")["handoff"]["carried"]
    return [(item["state"], item["text"]) for item in items if item["kind"] == "rule"]


class Scene(Stage):
    """A stage that at the end checks what must hold in every scenario."""

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        try:
            if kind is None:
                self.judge()
        finally:
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
    "meter": meter,
    "rules": rules,
}
