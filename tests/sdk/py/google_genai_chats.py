"""The Google Gen AI SDK: chats, which keep the history themselves."""

from gemini import CONFIG, MODEL, Gemini
from judge import judge


class GoogleChats(Gemini):
    def __init__(self, headers):
        super().__init__(headers)
        self.chat = self.client.chats.create(model=MODEL, config=CONFIG)
        self.pending = []

    def add(self, parts):
        self.pending = parts

    def send(self, stream):
        before = len(self.chat.get_history(curated=True))
        if stream:
            responses = list(self.chat.send_message_stream(self.pending))
        else:
            responses = [self.chat.send_message(self.pending)]
        after = len(self.chat.get_history(curated=True))
        assert after > before, "the chat holds the turn for invalid and forgets it"
        return responses


judge(GoogleChats)
