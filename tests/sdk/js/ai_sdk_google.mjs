// The AI SDK on the Gemini wire.

import { createGoogle } from "@ai-sdk/google";
import { judgeAiSdk } from "./ai_sdk.mjs";
import { URL } from "./judge.mjs";

await judgeAiSdk("AI SDK, Google", {
  joined: true,
  thinks: true,
  options: { google: { thinkingConfig: { includeThoughts: true } } },
  model: (headers) => createGoogle({ apiKey: "test", baseURL: `${URL}/v1beta`, headers })("gemini-3.8-flash"),
});
