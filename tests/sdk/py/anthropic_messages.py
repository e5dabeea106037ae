"""The Anthropic SDK: messages, streamed and not, and count_tokens."""

import anthropic
from judge import RESULT, SCHEMA, TOOL, TOOL_TEXT, URL, Agent, Answer, dumped, judge

TOOLS = [{"name": TOOL, "description": TOOL_TEXT, "input_schema": SCHEMA}]


class Anthropic(Agent):
    thinks = True

    def __init__(self, headers):
        self.client = anthropic.Anthropic(api_key="test", base_url=URL, default_headers=headers, timeout=60)
        self.messages = []
        self.fixed = {"model": "claude-sonnet-5-5", "system": "You work step by step.", "tools": TOOLS}

    def say(self, text):
        self.messages.append({"role": "user", "content": text})

    def ask(self, stream):
        request = {"max_tokens": 4096, "messages": self.messages, **self.fixed}
        if stream:
            with self.client.messages.stream(**request) as events:
                message = events.get_final_message()
        else:
            message = self.client.messages.create(**request)
        self.messages.append({"role": "assistant", "content": message.content})
        return self.answer(message)

    def give(self, calls):
        results = [{"type": "tool_result", "tool_use_id": call.id, "content": RESULT} for call in calls]
        self.messages.append({"role": "user", "content": results})

    def count(self):
        return self.client.messages.count_tokens(messages=self.messages, **self.fixed).input_tokens

    def answer(self, message):
        blocks = []
        for block in message.content:
            if block.type == "thinking":
                assert block.signature, "thinking without its signature"
                blocks.append(("thinking", block.thinking))
            elif block.type == "text":
                blocks.append(("text", block.text))
            else:
                blocks.append(("call", block.name, block.input))
        calls = [block for block in message.content if block.type == "tool_use"]
        usage = message.usage
        size = usage.input_tokens + usage.cache_creation_input_tokens + usage.cache_read_input_tokens
        return Answer(dumped(message), blocks, calls, message.stop_reason, size, usage.output_tokens)


judge(Anthropic)
