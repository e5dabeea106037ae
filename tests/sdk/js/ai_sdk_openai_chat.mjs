// The AI SDK on the chat completions wire.

import { createOpenAI } from "@ai-sdk/openai";
import { judgeAiSdk } from "./ai_sdk.mjs";
import { URL } from "./judge.mjs";

await judgeAiSdk("AI SDK, OpenAI chat", {
  joined: true,
  model: (headers) => createOpenAI({ apiKey: "test", baseURL: `${URL}/v1`, headers }).chat("gpt-5.4"),
});
