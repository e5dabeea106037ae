"""The OpenAI SDK: chat completions, streamed and not."""

import json

import openai
from judge import RESULT, SCHEMA, TOOL, TOOL_TEXT, URL, Agent, Answer, dumped, judge

TOOLS = [{"type": "function", "function": {"name": TOOL, "description": TOOL_TEXT, "parameters": SCHEMA}}]


class OpenAIChat(Agent):
    joined = True
    stops = {"call": "tool_calls", "end": "stop", "lost": "stop"}

    def __init__(self, headers):
        self.client = openai.OpenAI(api_key="test", base_url=f"{URL}/v1", default_headers=headers, timeout=60)
        self.messages = [{"role": "system", "content": "You work step by step."}]

    def say(self, text):
        self.messages.append({"role": "user", "content": text})

    def ask(self, stream):
        request = {"model": "gpt-5.4", "messages": self.messages, "tools": TOOLS}
        if stream:
            options = {"include_usage": True}
            with self.client.chat.completions.stream(**request, stream_options=options) as events:
                for _ in events:
                    pass
                completion = events.get_final_completion()
        else:
            completion = self.client.chat.completions.create(**request)
        message = completion.choices[0].message
        self.messages.append(message.model_dump(exclude_none=True, exclude={"parsed"}))
        calls = message.tool_calls or []
        blocks = [("text", message.content or "")]
        blocks += [("call", call.function.name, json.loads(call.function.arguments)) for call in calls]
        usage, stop = completion.usage, completion.choices[0].finish_reason
        assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
        return Answer(dumped(completion), blocks, calls, stop, usage.prompt_tokens, usage.completion_tokens)

    def give(self, calls):
        for call in calls:
            self.messages.append({"role": "tool", "tool_call_id": call.id, "content": RESULT})


judge(OpenAIChat)
