"""The OpenAI SDK: responses with their whole history in each request, streamed and not, and input_tokens."""

import json

import openai
from judge import RESULT, SCHEMA, TOOL, TOOL_TEXT, URL, Agent, Answer, dumped, judge

TOOLS = [{"type": "function", "name": TOOL, "description": TOOL_TEXT, "parameters": SCHEMA, "strict": False}]

# What the SDK adds to the items by itself, and the API refuses.
PARSED = {"__all__": {"parsed_arguments": True, "content": {"__all__": {"parsed"}}}}


class OpenAIResponses(Agent):
    thinks = True
    stops = {"call": "completed", "end": "completed", "lost": "completed"}

    def __init__(self, headers):
        self.client = openai.OpenAI(api_key="test", base_url=f"{URL}/v1", default_headers=headers, timeout=60)
        self.items = []
        self.fixed = {
            "model": "gpt-5.4",
            "instructions": "You work step by step.",
            "tools": TOOLS,
            "reasoning": {"effort": "low", "summary": "auto"},
        }

    def say(self, text):
        self.items.append({"role": "user", "content": text})

    def ask(self, stream):
        request = {"input": self.items, "store": False, "include": ["reasoning.encrypted_content"], **self.fixed}
        if stream:
            with self.client.responses.stream(**request) as events:
                response = events.get_final_response()
        else:
            response = self.client.responses.create(**request)
        ids = [item.id for item in response.output]
        assert len(set(ids)) == len(ids), f"an item's id stands twice: {ids}"
        self.items += response.model_dump(mode="json", exclude_none=True, exclude={"output": PARSED})["output"]
        return self.answer(response)

    def give(self, calls):
        for call in calls:
            self.items.append({"type": "function_call_output", "call_id": call.call_id, "output": RESULT})

    def count(self):
        return self.client.responses.input_tokens.count(input=self.items, **self.fixed).input_tokens

    def answer(self, response):
        blocks = []
        for item in response.output:
            if item.type == "reasoning":
                blocks.append(("thinking", "".join(part.text for part in item.summary)))
            elif item.type == "message":
                blocks += [("text", part.text) for part in item.content]
            else:
                blocks.append(("call", item.name, json.loads(item.arguments)))
        calls = [item for item in response.output if item.type == "function_call"]
        usage = response.usage
        assert usage.total_tokens == usage.input_tokens + usage.output_tokens
        return Answer(dumped(response), blocks, calls, response.status, usage.input_tokens, usage.output_tokens)


if __name__ == "__main__":
    judge(OpenAIResponses)
