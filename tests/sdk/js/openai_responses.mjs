// The OpenAI SDK: responses with their whole history in each request, streamed and not, and inputTokens.

import assert from "node:assert/strict";
import OpenAI from "openai";
import { RESULT, SCHEMA, TOOL, TOOL_TEXT, URL, judge } from "./judge.mjs";

export const FIXED = {
  model: "gpt-5.4",
  instructions: "You work step by step.",
  tools: [{ type: "function", name: TOOL, description: TOOL_TEXT, parameters: SCHEMA, strict: false }],
  reasoning: { effort: "low", summary: "auto" },
};

export function block(item) {
  if (item.type === "reasoning") return [["thinking", item.summary.map(({ text }) => text).join("")]];
  if (item.type === "message") return item.content.map(({ text }) => ["text", text]);
  return [["call", item.name, JSON.parse(item.arguments)]];
}

/** An item without what the SDK adds to it by itself. */
function plain({ parsed_arguments, ...item }) {
  return item.content ? { ...item, content: item.content.map(({ parsed, ...part }) => part) } : item;
}

await judge("OpenAI, responses", {
  thinks: true,
  stops: { call: "completed", end: "completed", lost: "completed" },
  start(headers) {
    const client = new OpenAI({ apiKey: "test", baseURL: `${URL}/v1`, defaultHeaders: headers, timeout: 60_000 });
    const input = [];
    return {
      say(text) {
        input.push({ role: "user", content: text });
      },
      async ask(stream) {
        const request = { input, store: false, include: ["reasoning.encrypted_content"], ...FIXED };
        const response = stream
          ? await client.responses.stream(request).finalResponse()
          : await client.responses.create(request);
        const ids = response.output.map(({ id }) => id);
        assert.equal(new Set(ids).size, ids.length, `an item's id stands twice: ${ids}`);
        input.push(...response.output.map(plain));
        return {
          raw: response,
          blocks: response.output.flatMap(block),
          calls: response.output.filter(({ type }) => type === "function_call"),
          stop: response.status,
          input: response.usage.input_tokens,
          output: response.usage.output_tokens,
        };
      },
      give(calls) {
        for (const { call_id } of calls) input.push({ type: "function_call_output", call_id, output: RESULT });
      },
      async count() {
        return (await client.responses.inputTokens.count({ input, ...FIXED })).input_tokens;
      },
    };
  },
});
