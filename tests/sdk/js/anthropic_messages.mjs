// The Anthropic SDK: messages, streamed and not, and countTokens.

import Anthropic from "@anthropic-ai/sdk";
import { RESULT, SCHEMA, TOOL, TOOL_TEXT, URL, judge } from "./judge.mjs";

const TOOLS = [{ name: TOOL, description: TOOL_TEXT, input_schema: SCHEMA }];
const FIXED = { model: "claude-sonnet-5-5", system: "You work step by step.", tools: TOOLS };

function block(block) {
  if (block.type === "thinking") {
    if (!block.signature) throw new Error("thinking without its signature");
    return ["thinking", block.thinking];
  }
  return block.type === "text" ? ["text", block.text] : ["call", block.name, block.input];
}

await judge("Anthropic", {
  thinks: true,
  start(headers) {
    const client = new Anthropic({ apiKey: "test", baseURL: URL, defaultHeaders: headers, timeout: 60_000 });
    const messages = [];
    return {
      say(text) {
        messages.push({ role: "user", content: text });
      },
      async ask(stream) {
        const request = { max_tokens: 4096, messages, ...FIXED };
        const message = stream
          ? await client.messages.stream(request).finalMessage()
          : await client.messages.create(request);
        messages.push({ role: "assistant", content: message.content });
        const { usage } = message;
        return {
          raw: message,
          blocks: message.content.map(block),
          calls: message.content.filter(({ type }) => type === "tool_use"),
          stop: message.stop_reason,
          input: usage.input_tokens + usage.cache_creation_input_tokens + usage.cache_read_input_tokens,
          output: usage.output_tokens,
        };
      },
      give(calls) {
        const results = calls.map(({ id }) => ({ type: "tool_result", tool_use_id: id, content: RESULT }));
        messages.push({ role: "user", content: results });
      },
      async count() {
        return (await client.messages.countTokens({ messages, ...FIXED })).input_tokens;
      },
    };
  },
});
