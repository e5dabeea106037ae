// The Google Gen AI SDK: chats, which keep the history themselves.

import assert from "node:assert/strict";
import { CONFIG, MODEL, all, judgeGemini } from "./gemini.mjs";

await judgeGemini("Google, chats", (client) => {
  const chat = client.chats.create({ model: MODEL, config: CONFIG });
  let message = [];
  return {
    add: (parts) => {
      message = parts;
    },
    async send(stream) {
      const before = chat.getHistory(true).length;
      const responses = stream ? await all(await chat.sendMessageStream({ message })) : [await chat.sendMessage({ message })];
      const after = chat.getHistory(true).length;
      assert.ok(after > before, "the chat holds the turn for invalid and forgets it");
      return responses;
    },
  };
});
