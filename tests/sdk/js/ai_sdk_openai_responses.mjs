// The AI SDK on the responses wire, which keeps responses on the server and refers to their items by id.

import { createOpenAI } from "@ai-sdk/openai";
import { judgeAiSdk } from "./ai_sdk.mjs";
import { URL } from "./judge.mjs";

await judgeAiSdk("AI SDK, OpenAI responses", {
  thinks: true,
  options: { openai: { reasoningSummary: "auto" } },
  model: (headers) => createOpenAI({ apiKey: "test", baseURL: `${URL}/v1`, headers }).responses("gpt-5.4"),
});
