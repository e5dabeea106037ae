"""What the scripts for the Google Gen AI SDK share."""

from google import genai
from google.genai import types
from judge import RESULT, SCHEMA, TOOL, TOOL_TEXT, URL, Agent, Answer, dumped

MODEL = "gemini-3.8-flash"
DECLARATION = types.FunctionDeclaration(name=TOOL, description=TOOL_TEXT, parameters_json_schema=SCHEMA)
CONFIG = types.GenerateContentConfig(
    system_instruction="You work step by step.",
    tools=[types.Tool(function_declarations=[DECLARATION])],
    thinking_config=types.ThinkingConfig(include_thoughts=True),
    automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
)


def response_parts(response):
    return [part for candidate in response.candidates or [] for part in candidate.content.parts or []]


class Gemini(Agent):
    joined = True
    thinks = True
    stops = {"call": "STOP", "end": "STOP", "lost": "STOP"}
    retries = False
    counts_all = False

    def __init__(self, headers):
        options = types.HttpOptions(base_url=URL, headers=headers, timeout=60_000)
        self.client = genai.Client(api_key="test", http_options=options)

    def add(self, parts):
        """Adds a user message of these parts."""
        raise NotImplementedError

    def send(self, stream):
        """Sends the history; all that comes back, in order."""
        raise NotImplementedError

    def say(self, text):
        self.add([types.Part(text=text)])

    def give(self, calls):
        made = [types.FunctionResponse(id=call.id, name=call.name, response={"output": RESULT}) for call in calls]
        self.add([types.Part(function_response=response) for response in made])

    def ask(self, stream):
        responses = self.send(stream)
        ids = {response.response_id for response in responses}
        assert len(ids) == 1, f"the response's id changes: {ids}"
        blocks, calls = [], []
        for part in (part for response in responses for part in response_parts(response)):
            kind = "call" if part.function_call else "thinking" if part.thought else "text"
            if kind == "call":
                calls.append(part.function_call)
                blocks.append((kind, part.function_call.name, part.function_call.args))
            elif blocks and blocks[-1][0] == kind:
                blocks[-1] = (kind, blocks[-1][1] + part.text)
            else:
                blocks.append((kind, part.text))
        reasons = [c.finish_reason.value for r in responses for c in r.candidates if c.finish_reason]
        assert len(reasons) == 1, f"one end, not {reasons}"
        usage = responses[-1].usage_metadata
        output = (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0)
        assert usage.total_token_count == usage.prompt_token_count + output
        raw = "".join(dumped(response) for response in responses)
        return Answer(raw, blocks, calls, reasons[0], usage.prompt_token_count, output)
