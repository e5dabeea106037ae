// The AI SDK on the Anthropic wire.

import { createAnthropic } from "@ai-sdk/anthropic";
import { judgeAiSdk } from "./ai_sdk.mjs";
import { URL } from "./judge.mjs";

await judgeAiSdk("AI SDK, Anthropic", {
  thinks: true,
  model: (headers) => createAnthropic({ apiKey: "test", baseURL: `${URL}/v1`, headers })("claude-sonnet-5-5"),
});
