// Readable parts of a response body: streams and complete replies of all wires. The page shows unrecognised bodies as they
// are.

/** Returns parts of `{kind, text, name}` in order, or null if nothing was recognised. */
export function readReply(body) {
  const reply = new Reply();
  for (const event of events(body)) reply.take(event);
  return reply.parts.length ? reply.parts : null;
}

function events(body) {
  const whole = parse(body);
  if (whole !== undefined) return Array.isArray(whole) ? whole : [whole];
  const lines = body.split(/\r?\n/).map((line) => (line.startsWith("data:") ? line.slice(5) : line));
  return lines.map((line) => (/^\s*\{/.test(line) ? parse(line) : undefined)).filter(Boolean);
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Types of Responses items that call one of the agent's tools. */
const CALLS = ["function_call", "custom_tool_call"];

class Reply {
  parts = [];
  open = null;

  /** Appends to the open part, or begins another. `key` distinguishes parts of one kind. */
  add(kind, text, key = null, name = null) {
    const same = this.open && this.open.kind === kind && this.open.key === key && !name;
    if (!same) {
      if (!text && !name) return;
      this.open = { kind, key, name, text: "" };
      this.parts.push(this.open);
    }
    this.open.text += text ?? "";
  }

  take(event) {
    if (event?.error) return this.add("error", JSON.stringify(event.error, null, 2));
    this.anthropic(event);
    this.chat(event);
    this.responses(event);
    this.gemini(event);
    this.ollama(event);
  }

  anthropic(e) {
    if (e.type === "content_block_start") this.block(e.content_block, e.index);
    if (e.type === "content_block_delta") {
      const d = e.delta ?? {};
      if (d.type === "text_delta") this.add("text", d.text, e.index);
      if (d.type === "thinking_delta") this.add("thinking", d.thinking, e.index);
      if (d.type === "input_json_delta") this.add("call", d.partial_json, e.index);
    }
    if (e.type === "message" && Array.isArray(e.content)) for (const [at, block] of e.content.entries()) this.block(block, at, true);
  }

  block(block, key, whole = false) {
    if (block?.type === "text") this.add("text", block.text, key);
    if (block?.type === "thinking") this.add("thinking", block.thinking, key);
    if (block?.type === "tool_use") this.add("call", whole ? JSON.stringify(block.input, null, 2) : "", key, block.name);
  }

  chat(e) {
    for (const choice of Array.isArray(e.choices) ? e.choices : []) {
      const d = choice.delta ?? choice.message ?? {};
      if (d.reasoning_content ?? d.reasoning) this.add("thinking", d.reasoning_content ?? d.reasoning);
      if (typeof d.content === "string") this.add("text", d.content);
      for (const call of d.tool_calls ?? []) this.add("call", call.function?.arguments, call.index ?? call.id, call.function?.name);
    }
  }

  responses(e) {
    const key = e.output_index;
    if (e.type === "response.output_text.delta" || e.type === "response.refusal.delta") this.add("text", e.delta, key);
    if (e.type === "response.reasoning_summary_text.delta" || e.type === "response.reasoning_text.delta") this.add("thinking", e.delta, key);
    if (e.type === "response.output_item.added" && CALLS.includes(e.item?.type)) this.add("call", "", key, e.item.name);
    if (e.type === "response.function_call_arguments.delta" || e.type === "response.custom_tool_call_input.delta") this.add("call", e.delta, key);
    if (e.object === "response" && Array.isArray(e.output)) for (const [at, item] of e.output.entries()) this.item(item, at);
  }

  /** Adds an item of a complete response. */
  item(item, key) {
    if (CALLS.includes(item.type)) this.add("call", item.arguments ?? item.input, key, item.name);
    const kind = item.type === "reasoning" ? "thinking" : "text";
    for (const part of [item.content, item.summary].filter(Array.isArray).flat()) this.add(kind, part.text ?? part.refusal, key);
  }

  ollama(e) {
    if (typeof e.done !== "boolean") return;
    if (e.message?.thinking) this.add("thinking", e.message.thinking);
    if (e.message?.content) this.add("text", e.message.content);
    for (const call of e.message?.tool_calls ?? []) this.add("call", JSON.stringify(call.function?.arguments, null, 2), null, call.function?.name);
  }

  gemini(e) {
    // Code Assist nests the response one level deeper.
    const candidates = e.candidates ?? e.response?.candidates;
    for (const candidate of Array.isArray(candidates) ? candidates : []) {
      for (const part of candidate.content?.parts ?? []) {
        if (typeof part.text === "string") this.add(part.thought ? "thinking" : "text", part.text);
        if (part.functionCall) this.add("call", JSON.stringify(part.functionCall.args, null, 2), null, part.functionCall.name);
      }
    }
  }
}
