// What the AI SDK's scripts share: its own agent loop, with each provider package.

import { generateText, isStepCount, jsonSchema, streamText, tool } from "ai";
import { RESULT, SCHEMA, TOOL, TOOL_TEXT, judgeLoop } from "./judge.mjs";

const tools = {
  [TOOL]: tool({ description: TOOL_TEXT, inputSchema: jsonSchema(SCHEMA), execute: async () => RESULT }),
};

function block(part) {
  if (part.type === "reasoning") return [["thinking", part.text]];
  if (part.type === "text") return [["text", part.text]];
  return part.type === "tool-call" ? [["call", part.toolName, part.input]] : [];
}

function answer(step) {
  return {
    raw: step.content,
    blocks: step.content.flatMap(block),
    stop: step.finishReason,
    input: step.usage.inputTokens,
    output: step.usage.outputTokens,
  };
}

/** Judges a provider package; `model(headers)` makes its model, `options` are the provider's own. */
export const judgeAiSdk = (name, { model, options = {}, ...described }) =>
  judgeLoop(name, {
    stops: { call: "tool-calls", end: "stop" },
    async loop(headers, prompt, stream) {
      const request = { model: model(headers), prompt, tools, stopWhen: isStepCount(40), maxRetries: 0, providerOptions: options };
      if (!stream) return (await generateText(request)).steps.map(answer);
      const running = streamText({ ...request, onError: ({ error }) => { throw error; } });
      return (await running.steps).map(answer);
    },
    ...described,
  });
