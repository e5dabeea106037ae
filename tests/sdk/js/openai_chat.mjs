// The OpenAI SDK: chat completions, streamed and not.

import OpenAI from "openai";
import { RESULT, SCHEMA, TOOL, TOOL_TEXT, URL, judge } from "./judge.mjs";

const TOOLS = [{ type: "function", function: { name: TOOL, description: TOOL_TEXT, parameters: SCHEMA } }];

await judge("OpenAI, chat", {
  joined: true,
  stops: { call: "tool_calls", end: "stop", lost: "stop" },
  start(headers) {
    const client = new OpenAI({ apiKey: "test", baseURL: `${URL}/v1`, defaultHeaders: headers, timeout: 60_000 });
    const messages = [{ role: "system", content: "You work step by step." }];
    return {
      say(text) {
        messages.push({ role: "user", content: text });
      },
      async ask(stream) {
        const request = { model: "gpt-5.4", messages, tools: TOOLS };
        const completion = stream
          ? await client.chat.completions
              .stream({ ...request, stream_options: { include_usage: true } })
              .finalChatCompletion()
          : await client.chat.completions.create(request);
        const [{ message, finish_reason }] = completion.choices;
        const { parsed, ...plain } = message;
        messages.push(plain);
        const calls = message.tool_calls ?? [];
        return {
          raw: completion,
          blocks: [
            ["text", message.content ?? ""],
            ...calls.map((call) => ["call", call.function.name, JSON.parse(call.function.arguments)]),
          ],
          calls,
          stop: finish_reason,
          input: completion.usage.prompt_tokens,
          output: completion.usage.completion_tokens,
        };
      },
      give(calls) {
        for (const { id } of calls) messages.push({ role: "tool", tool_call_id: id, content: RESULT });
      },
    };
  },
});
