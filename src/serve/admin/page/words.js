// Numbers, times and reasons as a person says them.

/** Bytes that make about one token, as the proxy estimates it. */
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

/** Large numbers in short: 1.2 k, 403.6 M. */
export function short(n) {
  if (n < 0) return `\u2212${short(-n)}`;
  if (!n || n < 1000) return String(n ?? 0);
  const units = ["k", "M", "G", "T"];
  let value = n / 1000;
  let unit = 0;
  while (value >= 999.95 && unit < units.length - 1) (value /= 1000), (unit += 1);
  return `${value.toFixed(1)}\u202f${units[unit]}`;
}

/** The estimated balance of input that was not sent: net, so it may be more that was sent. */
export function unsent(tokens) {
  return `about ${short(Math.abs(tokens ?? 0))} tokens ${tokens < 0 ? "added to what the agent sent" : "not sent to the model"}`;
}

/** The same as a large fact: value, label, and its explanation. */
export function unsentFact(tokens) {
  const label = tokens < 0 ? "were added to what the agent sent" : "the model did not have to read";
  return [`about ${short(Math.abs(tokens ?? 0))} tokens`, label, `${count(tokens)} tokens at four bytes each: what the agent sent, less all that went upstream. From a cache they would have cost a tenth or less.`];
}

export function plural(n, one, many = `${one}s`) {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** All of a leg's input: new, read from a cache, written to one. */
export function allInput(tokens) {
  return (tokens?.input ?? 0) + (tokens?.cache_read ?? 0) + (tokens?.cache_write ?? 0);
}

export function tokensOf(n) {
  return Math.round((n ?? 0) / BYTES_PER_TOKEN);
}

/** `$12.40`, with as many decimals as given; nothing is `$0.00` without a sign. */
export function dollars(amount, decimals = 2) {
  const value = Math.abs(amount ?? 0);
  if (value < 0.5 / 10 ** decimals) return "$0.00";
  const digits = { minimumFractionDigits: decimals, maximumFractionDigits: decimals };
  return `${amount < 0 ? "\u2212" : ""}$${value.toLocaleString("en-US", digits)}`;
}

/** Decimals with which all of these amounts can be compared: four if the largest is below ten cents. */
export function decimalsOf(amounts) {
  return Math.max(0, ...amounts.map((amount) => Math.abs(amount ?? 0))) < 0.1 ? 4 : 2;
}

/** An amount in a sentence: `$12.40`, and below ten cents `1.3 cents`. */
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

/** The first characters of an id; UUIDs of version 7 begin alike, so their end is what tells them apart. */
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
  cancelled: "the agent left",
  truncated: "cut off upstream",
  upstream_error: "error upstream",
  in_band_error: "error in the answer",
  refused: "refused by baton",
};

export function outcome(row) {
  if (row.open) return "under way";
  return OUTCOMES[row.outcome] ?? row.outcome ?? "";
}

export function failed(row) {
  return !row.open && (row.status >= 400 || (row.outcome && row.outcome !== "complete"));
}

/** Who asked for a handoff and who wrote it, unless the model did both. */
const ORIGINS = {
  oneshot: "asked for in the chat, written by the model",
  bundle: "asked for in the chat, selected from the history",
  local: "asked for in the chat, written without a model",
  person: "written by the user",
  auto: "made at the context threshold",
  api: "asked for through the API",
};

export function begun(handoff) {
  return ORIGINS[handoff.origin] ?? null;
}

/** Why a message or a stretch of a request was changed. */
export const WHY = {
  cut: "Before a handoff: the model sees the carry-over prompt in place of all this.",
  pair: "A hidden pair: the model's own call of session_handoff or session_recall with its answer. The agent never sees it; the model must.",
  inserted: "A text of baton's own, inserted after this message for the model.",
  note: "A command that baton answered by itself, or its answer: never in the model's view.",
  thinking: "The provider refused this thinking, since something before it has changed. It was left out, here and in later requests until the next cut.",
  unescaped: "The model had written something that looks like a marker of baton. The agent got it escaped; the model gets it back unchanged.",
  tool: "A tool of baton's was added to the list of tools.",
  ask_again: "The model's hidden call was answered or refused, and the model continued, invisibly to the agent.",
  reference: "A reference to an item of baton's own, which the provider does not know.",
  previous: "The earlier response that this one continues has another id upstream.",
  provider_history: "Members that have the provider hold the agent's history, or describe that history. They were left out, since the model sees another one.",
  draft: "The model was requested to write the document of a handoff. The agent sees neither this nor the answer.",
  preamble: "What the agent's harness sends first. It is kept in front of the carry-over prompt.",
};

/** The same, of one message that stands on both sides. */
const WHY_EDITED = {
  cut: "The message at the cut: what follows the sentinel in it is sent, what precedes it is not.",
  pair: "The model's own call of session_handoff or session_recall, or its answer, was restored at its place. The agent never saw it.",
};

export function whyEdited(why) {
  return WHY_EDITED[why] ?? WHY[why] ?? why;
}

/** What a message's state means for its side. */
export function stateWords(message, side) {
  if (side === "sent" && message.why === "preamble") return "preamble";
  if (message.state === "cut") return "left out";
  if (message.state === "changed") return "edited";
  if (message.state !== "new") return null;
  if (message.why === "cut") return "carry-over";
  if (message.why === "tool") return "baton's tool";
  if (message.why === "ask_again") return "asked again";
  if (message.why === "draft") return "asked for a draft";
  if (message.why === "pair") return "hidden pair";
  return side === "sent" ? "added" : "new";
}

const KINDS = { tool_use: "call", tool_result: "result", tools: "tools" };

export function kindWord(kind) {
  return KINDS[kind] ?? kind;
}
