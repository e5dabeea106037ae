// The Google Gen AI SDK: generateContent and generateContentStream, the history kept by the agent.

import { CONFIG, MODEL, all, judgeGemini, partsOf } from "./gemini.mjs";

await judgeGemini("Google, models", (client) => {
  const contents = [];
  return {
    add: (parts) => contents.push({ role: "user", parts }),
    async send(stream) {
      const request = { model: MODEL, contents, config: CONFIG };
      const responses = stream
        ? await all(await client.models.generateContentStream(request))
        : [await client.models.generateContent(request)];
      contents.push({ role: "model", parts: responses.flatMap(partsOf) });
      return responses;
    },
    count: async () => (await client.models.countTokens({ model: MODEL, contents })).totalTokens,
  };
});
