"""The Ollama client: chat, streamed and not."""

import ollama
from judge import RESULT, SCHEMA, TOOL, TOOL_TEXT, URL, Agent, Answer, dumped, judge

TOOLS = [{"type": "function", "function": {"name": TOOL, "description": TOOL_TEXT, "parameters": SCHEMA}}]


class Ollama(Agent):
    joined = True
    stops = {"call": "stop", "end": "stop", "lost": "stop"}
    retries = False

    def __init__(self, headers):
        self.client = ollama.Client(host=f"{URL}/u/ollama", headers=headers, timeout=60)
        self.messages = [{"role": "system", "content": "You work step by step."}]

    def say(self, text):
        self.messages.append({"role": "user", "content": text})

    def ask(self, stream):
        made = self.client.chat("qwen3.5", messages=self.messages, tools=TOOLS, stream=stream, think=False)
        chunks = list(made) if stream else [made]
        assert [chunk.done for chunk in chunks] == [False] * (len(chunks) - 1) + [True], "one end, at the end"
        text = "".join(chunk.message.content or "" for chunk in chunks)
        calls = [call for chunk in chunks for call in chunk.message.tool_calls or []]
        message = {"role": "assistant", "content": text}
        if calls:
            message["tool_calls"] = [call.model_dump(exclude_none=True) for call in calls]
        self.messages.append(message)
        blocks = [("text", text)] + [("call", c.function.name, dict(c.function.arguments)) for c in calls]
        raw, last = "".join(map(dumped, chunks)), chunks[-1]
        return Answer(raw, blocks, calls, last.done_reason, last.prompt_eval_count, last.eval_count)

    def give(self, calls):
        for call in calls:
            self.messages.append({"role": "tool", "tool_name": call.function.name, "content": RESULT})


judge(Ollama)
