// Wording of numbers, times and reasons.

/** Estimated bytes per token, as in the proxy. */
const BYTES_PER_TOKEN = 4;

export function bytes(n) {
  if (n === null || n === undefined) return "–";
  if (n < 1024) return `${n} B`;
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let value = n / 1024;
  let unit = 0;
  while (value >= 1023.5 && unit < units.length - 1) (value /= 1024), (unit += 1);
  return `${value < 9.95 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

export function count(n) {
  return (n ?? 0).toLocaleString("en-US");
}

/** Shortens large numbers: 1.2 k, 403.6 M. */
export function short(n) {
  if (n < 0) return `\u2212${short(-n)}`;
  if (!n || n < 1000) return String(n ?? 0);
  const units = ["k", "M", "G", "T"];
  let value = n / 1000;
  let unit = 0;
  while (value >= 999.95 && unit < units.length - 1) (value /= 1000), (unit += 1);
  return `${value.toFixed(1)}\u202f${units[unit]}`;
}

/** Formats estimated tokens that were not sent. A negative number means that baton added some. */
export function unsent(tokens) {
  return `about ${short(Math.abs(tokens ?? 0))} tokens ${tokens < 0 ? "added by baton" : "not sent to the model"}`;
}

/** Formats them as a fact in large type: value, label and explanation. */
export function unsentFact(tokens) {
  const label = tokens < 0 ? "added by baton" : "not sent to the model";
  return [`about ${short(Math.abs(tokens ?? 0))} tokens`, label, `${count(tokens)} tokens, at four bytes each: the bytes that the agent sent, minus all bytes sent upstream. Read from a cache, they would have cost a tenth or less.`];
}

export function plural(n, one, many = `${one}s`) {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** Total input of a leg: new, read from a cache, and written to one. */
export function allInput(tokens) {
  return (tokens?.input ?? 0) + (tokens?.cache_read ?? 0) + (tokens?.cache_write ?? 0);
}

export function tokensOf(n) {
  return Math.round((n ?? 0) / BYTES_PER_TOKEN);
}

/** Formats an amount such as `$12.40`. Zero is `$0.00` without a sign. */
export function dollars(amount, decimals = 2) {
  const value = Math.abs(amount ?? 0);
  if (value < 0.5 / 10 ** decimals) return "$0.00";
  const digits = { minimumFractionDigits: decimals, maximumFractionDigits: decimals };
  return `${amount < 0 ? "\u2212" : ""}$${value.toLocaleString("en-US", digits)}`;
}

/** Number of decimals for comparing amounts: four if the largest is below ten cents, otherwise two. */
export function decimalsOf(amounts) {
  return Math.max(0, ...amounts.map((amount) => Math.abs(amount ?? 0))) < 0.1 ? 4 : 2;
}

/** Formats an amount for a sentence: `$12.40`, and below ten cents `1.3 cents`. */
export function money(amount) {
  const value = Math.abs(amount ?? 0);
  if (value >= 0.1) return dollars(value);
  if (value === 0) return "$0.00";
  return value < 0.0005 ? "under 0.1 cents" : `${(100 * value).toFixed(1)} cents`;
}

export function millis(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1) return `${Math.round(ms * 1000)} µs`;
  if (ms < 1000) return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
  const seconds = ms / 1000;
  return seconds < 60 ? `${seconds.toFixed(1)} s` : `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
}

export function ago(ms, now = Date.now()) {
  const seconds = Math.max(0, Math.round((now - ms) / 1000));
  if (seconds < 5) return "now";
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

export function clock(ms) {
  const at = new Date(ms);
  const time = at.toLocaleTimeString("en-GB");
  return at.toDateString() === new Date().toDateString() ? time : `${at.toLocaleDateString("en-CA")} ${time}`;
}

export function percent(part, whole) {
  return whole ? `${Math.round((100 * part) / whole)} %` : "–";
}

/** Shortens an id to its end, because UUIDs of version 7 begin alike. */
export function brief(id) {
  const text = String(id ?? "");
  return text.length > 14 ? `…${text.slice(-8)}` : text;
}

const WIRES = {
  anthropic: "Anthropic",
  openai_chat: "OpenAI Chat",
  openai_responses: "OpenAI Responses",
  gemini: "Gemini",
  ollama: "Ollama",
};

export function wireName(wire) {
  return WIRES[wire] ?? wire ?? "relayed";
}

const OUTCOMES = {
  complete: "complete",
  cancelled: "cancelled by the agent",
  truncated: "truncated upstream",
  stopped: "stopped with the proxy",
  upstream_error: "upstream error",
  in_band_error: "error in the response",
  leg_lost: "ended without its next request",
  refused: "refused by baton",
};

export function outcome(row) {
  if (row.open) return "in progress";
  return OUTCOMES[row.outcome] ?? row.outcome ?? "";
}

export function failed(row) {
  return !row.open && (row.status >= 400 || (row.outcome && row.outcome !== "complete"));
}

/** Origins of handoffs, except for those that the model requested and wrote itself. */
const ORIGINS = {
  oneshot: "requested in chat, written by the model",
  bundle: "requested in chat, selected from the history",
  local: "written without a model",
  person: "written by the user",
  auto: "automatic, at the context threshold",
  api: "requested through the API",
};

export function begun(handoff) {
  return ORIGINS[handoff.origin] ?? null;
}

/** Reasons for changes of messages. */
export const WHY = {
  cut: "History before a handoff: the model sees the carry-over prompt instead.",
  pair: "A hidden pair: the model's call of session_handoff or session_recall and its result. The agent never sees it, but the model needs it.",
  inserted: "A notice for the model, which baton inserted after this message.",
  note: "A chat command that baton answered, or its answer. The model sees neither.",
  thinking: "The provider rejected this thinking, because something before it has changed. baton leaves it out, here and in later requests, until the next cut.",
  unescaped: "The model wrote text that looks like one of baton's markers. The agent received it escaped, and the model gets it back unchanged.",
  tool: "A tool that baton added to the list.",
  ask_again: "baton answered or refused the model's hidden call, and the model continued. The agent saw none of it.",
  reference: "A reference to an item that baton created, which the provider does not know.",
  previous: "The previous response has a different id upstream.",
  provider_history: "Fields that ask the provider to store the agent's history, or that describe it. baton left them out, because the model sees a different history.",
  draft: "baton asked the model to write the document of a handoff. The agent sees neither this request nor the response.",
  preamble: "Instructions that the agent's harness sends first. baton keeps them before the carry-over prompt.",
};

/** Reasons for changes of a message that is on both sides. */
const WHY_EDITED = {
  cut: "The message at the cut. Only its part after the sentinel is sent.",
  pair: "baton restored the model's call of session_handoff or session_recall, or its result. The agent never saw it.",
};

export function whyEdited(why) {
  return WHY_EDITED[why] ?? WHY[why] ?? why;
}

/** Tag for a message's state on its side. */
export function stateWords(message, side) {
  if (side === "sent" && message.why === "preamble") return "preamble";
  if (message.state === "cut") return "left out";
  if (message.state === "changed") return "edited";
  if (message.state !== "new") return null;
  if (message.why === "cut") return "carry-over";
  if (message.why === "tool") return "baton's tool";
  if (message.why === "ask_again") return "continued";
  if (message.why === "draft") return "draft request";
  if (message.why === "pair") return "hidden pair";
  return side === "sent" ? "added" : "new";
}

const KINDS = { tool_use: "call", tool_result: "result", tools: "tools" };

export function kindWord(kind) {
  return KINDS[kind] ?? kind;
}
