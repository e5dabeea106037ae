"""The Google Gen AI SDK: models.generate_content and generate_content_stream, the history kept by the agent."""

from gemini import CONFIG, MODEL, Gemini, response_parts
from google.genai import types
from judge import judge


class GoogleModels(Gemini):
    def __init__(self, headers):
        super().__init__(headers)
        self.contents = []

    def add(self, parts):
        self.contents.append(types.Content(role="user", parts=parts))

    def send(self, stream):
        request = {"model": MODEL, "contents": self.contents, "config": CONFIG}
        if stream:
            responses = list(self.client.models.generate_content_stream(**request))
        else:
            responses = [self.client.models.generate_content(**request)]
        parts = [part for response in responses for part in response_parts(response)]
        self.contents.append(types.Content(role="model", parts=parts))
        return responses

    def count(self):
        return self.client.models.count_tokens(model=MODEL, contents=self.contents).total_tokens


judge(GoogleModels)
