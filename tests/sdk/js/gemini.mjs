// What the scripts for the Google Gen AI SDK share.

import assert from "node:assert/strict";
import { GoogleGenAI } from "@google/genai";
import { RESULT, SCHEMA, TOOL, TOOL_TEXT, URL, judge } from "./judge.mjs";

export const MODEL = "gemini-3.8-flash";
export const CONFIG = {
  systemInstruction: "You work step by step.",
  tools: [{ functionDeclarations: [{ name: TOOL, description: TOOL_TEXT, parametersJsonSchema: SCHEMA }] }],
  thinkingConfig: { includeThoughts: true },
};

export const partsOf = (response) => (response.candidates ?? []).flatMap(({ content }) => content?.parts ?? []);

export async function all(stream) {
  const out = [];
  for await (const response of stream) out.push(response);
  return out;
}

function blocksOf(parts) {
  const blocks = [];
  for (const part of parts) {
    const kind = part.functionCall ? "call" : part.thought ? "thinking" : "text";
    if (kind === "call") blocks.push([kind, part.functionCall.name, part.functionCall.args]);
    else if (blocks.at(-1)?.[0] === kind) blocks.at(-1)[1] += part.text;
    else blocks.push([kind, part.text]);
  }
  return blocks;
}

/** Judges a way to talk: `start(client)` gives `add(parts)`, and `send(stream)` for all that comes back. */
export const judgeGemini = (name, start) =>
  judge(name, {
    joined: true,
    thinks: true,
    stops: { call: "STOP", end: "STOP", lost: "STOP" },
    retries: false,
    countsAll: false,
    start(headers) {
      const httpOptions = { baseUrl: URL, headers, timeout: 60_000 };
      const agent = start(new GoogleGenAI({ apiKey: "test", httpOptions }));
      return {
        count: agent.count,
        say: (text) => agent.add([{ text }]),
        give: (calls) =>
          agent.add(calls.map(({ id, name }) => ({ functionResponse: { id, name, response: { output: RESULT } } }))),
        async ask(stream) {
          const responses = await agent.send(stream);
          const ids = new Set(responses.map(({ responseId }) => responseId));
          assert.equal(ids.size, 1, `the response's id changes: ${[...ids]}`);
          const reasons = responses.flatMap(({ candidates }) => candidates.flatMap((c) => c.finishReason ?? []));
          assert.equal(reasons.length, 1, `one end, not ${reasons}`);
          const parts = responses.flatMap(partsOf);
          const usage = responses.at(-1).usageMetadata;
          const output = (usage.candidatesTokenCount ?? 0) + (usage.thoughtsTokenCount ?? 0);
          assert.equal(usage.totalTokenCount, usage.promptTokenCount + output);
          return {
            raw: responses,
            blocks: blocksOf(parts),
            calls: parts.flatMap(({ functionCall }) => functionCall ?? []),
            stop: reasons[0],
            input: usage.promptTokenCount,
            output,
          };
        },
      };
    },
  });
