"""The OpenAI SDK: responses that the server keeps, each naming the one before (`previous_response_id`)."""

from judge import judge
from openai_responses import OpenAIResponses


class HeldResponses(OpenAIResponses):
    # A count does not say whether its response would be stored. One that is has no recall, whose words are two tokens longer.
    counts_all = False

    def __init__(self, headers):
        super().__init__(headers)
        self.previous = None

    def ask(self, stream):
        request = {"input": self.items, "store": True, **self.fixed}
        if self.previous:
            request["previous_response_id"] = self.previous
        if stream:
            with self.client.responses.stream(**request) as events:
                response = events.get_final_response()
        else:
            response = self.client.responses.create(**request)
        assert response.previous_response_id == self.previous, "the response goes on from another one"
        self.previous, self.items = response.id, []
        return self.answer(response)

    def count(self):
        request = {"previous_response_id": self.previous} if self.previous else {}
        return self.client.responses.input_tokens.count(input=self.items, **request, **self.fixed).input_tokens


judge(HeldResponses)
