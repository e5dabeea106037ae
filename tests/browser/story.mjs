// A conversation in the form of the API: an agent's growing history with a cut after every task. Invented, but
// consistent: sizes, states and bodies agree with each other.

const PREAMBLE = "<system-reminder>\n# CLAUDE.md\nlinkshort is a URL shortener in Rust.\n- `cargo test` must pass before a task counts as done.\n</system-reminder>";
const WISH = "Work through docs/plan.md: tasks one after the other, without asking me in between. Next: task 1: survey the storage layer.";
const TASKS = [
  ["survey the storage layer", "src/store", "All reads and writes go through `Links` in src/store/mod.rs. Four callers hold its lock over an await."],
  ["put a trait in front of it", "src/store", "`trait Store` has get, put, delete and scan, all async. `FileStore` implements it."],
  ["write the SQLite store", "src/store/sqlite", "`SqliteStore` passes the same tests as `FileStore`. One writer thread, WAL."],
  ["move the old file over", "src/migrate", "`linkshort migrate` copies links.json in batches of 500 and can be run twice."],
  ["serve redirects from a cache", "src/http", "A bounded cache in front of `Store::get`, emptied by put and delete."],
];
const FILES = ["mod.rs", "codec.rs", "index.rs", "lock.rs", "batch.rs", "tests.rs"];
const LINES = [
  "    let entry = self.index.get(key).ok_or(Error::Missing)?;",
  "    if entry.expires_ms < now_ms {",
  "        return Err(Error::Expired { key: key.to_owned() });",
  "    }",
  "/// Writes behind the batch that is open; the caller waits for its commit.",
  "pub async fn put(&self, link: &Link) -> Result<Receipt, Error> {",
  "    batch.push(link.encode(&self.codec)?);",
];

export const handoffId = (n) => `0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e${(0x10 + n).toString(16)}`;
export const exchangeId = (n, talk = 1) => `0199a3c2-0000-7000-8000-${String(talk).padStart(4, "0")}${String(n).padStart(8, "0")}`;
const SEAL = "Jd8yX2bq0m3cVn6rT5wZ1A";

const text = (value) => ({ kind: "text", text: value });
const size = (message) => new TextEncoder().encode(JSON.stringify(message.parts)).length + 24;

function listing(path, bytes) {
  let out = `     1\t//! ${path}\n`;
  for (let n = 2; out.length < bytes; n += 1) out += `${String(n).padStart(6)}\t${LINES[(n * 5 + path.length) % LINES.length]}\n`;
  return out;
}

function step(folder, at) {
  const file = `${folder}/${FILES[at % FILES.length]}`;
  const [name, input, result] = [
    ["read_file", { path: file }, listing(file, 3500 + 1700 * (at % 4))],
    ["edit_file", { path: file, old_text: listing(file, 700), new_text: listing(file, 900) }, `${file} changed, 1 place.`],
    ["run", { command: "cargo test" }, "running 37 tests\n" + "test store::tests::put_then_get ... ok\n".repeat(37) + "\ntest result: ok. 37 passed; 0 failed\n"],
  ][at % 3];
  const id = `toolu_${folder.length}${at}`;
  return [
    { role: "assistant", kind: "mixed", parts: [{ kind: "thinking", json: { type: "thinking", thinking: "What is there already?" } }, text(`Next: ${name.replace("_", " ")} in ${folder}.`), { kind: "tool_use", json: { type: "tool_use", id, name, input } }] },
    { role: "user", kind: "tool_result", parts: [{ kind: "tool_result", json: { type: "tool_result", tool_use_id: id, content: result } }] },
  ];
}

function firstLine(message) {
  const part = message.parts.find((it) => it.kind !== "thinking") ?? message.parts[0];
  const value = part.text ?? part.json.content ?? `${part.json.name} ${JSON.stringify(part.json.input)}`;
  return value.split("\n")[0].slice(0, 160);
}

const gist = (message, i, state, why = null) => ({ i, role: message.role, kind: message.kind, bytes: size(message), first_line: firstLine(message), state, why });

const SYSTEM = { role: "system", kind: "text", parts: [text("You are an agent that works through plans. Keep your answers short.")] };
const tool = (name, told) => ({ role: "tools", kind: "tools", name, parts: [text(told), { kind: "tools", json: { type: "object", properties: { path: { type: "string" } } } }] });
const OWN = tool("session_handoff", "Call this when a task is finished and another one follows.\nThe carry-over prompt is all that is known from then on.");

/** The parts besides the messages: the system prompt and the tools, the last of which is baton's. */
export const ENVELOPE = [SYSTEM, tool("read_file", "Reads a file."), tool("edit_file", "Edits a file."), tool("run", "Runs a command."), OWN];
const envelope = (own) => ENVELOPE.slice(0, own ? undefined : -1).map((it, i) => {
  const row = gist(it, i, it === OWN ? "new" : "kept", it === OWN ? "tool" : null);
  return { ...row, first_line: it.name ? `${it.name}  ${row.first_line}` : row.first_line };
});

/** The whole conversation: `{conversation, rows, details, messages, handoffs, bodies}`. */
export function tell({ tasks = 4, turns = 7, talk = 1, key = "claude-code:6f1c2a", at = Date.now() - 55 * 60_000, prompt, title, wire = "anthropic", model = "claude-sonnet-4-5" } = {}) {
  const story = { rows: [], details: new Map(), messages: new Map(), handoffs: [], bodies: new Map() };
  const history = [{ role: "user", kind: "text", parts: [text(PREAMBLE), text(title ?? WISH)] }];
  let cut = null; // {at: index of the message with the sentinel, opening}
  let n = 0;
  const task = (n) => Math.ceil(n / turns);
  const ask = (fires) => {
    n += 1;
    const id = exchangeId(n, talk);
    const legs = [send()];
    const received = history.map((m, i) => gist(m, i, ...stateOf(i)));
    const pinned = cut?.id ?? null;
    if (fires) {
      handOver(fires);
      legs.push(send());
      const now = history.slice(0, -1);
      story.messages.set(id, { received: now, sent: legs.map((leg) => leg.full) });
    } else {
      story.messages.set(id, { received: [...history], sent: legs.map((leg) => leg.full) });
    }
    note(id, received, legs, pinned, fires);
  };
  const stateOf = (i) => (!cut || i > cut.at ? ["kept"] : ["cut", "cut"]);
  const send = () => {
    const full = cut ? [cut.opening, ...history.slice(cut.at + 1)] : [...history];
    return { full, list: full.map((m, i) => gist(m, i, ...(cut && i === 0 ? ["new", "cut"] : ["kept"]))) };
  };
  const handOver = (task) => {
    const id = handoffId(task + 10 * (talk - 1));
    const done = TASKS.slice(0, task).map(([name, , found], i) => `${i + 1}. ${name}: ${found}`);
    const next = TASKS[task % TASKS.length];
    const carried = prompt ?? `Goal: take linkshort off its single JSON file, following docs/plan.md. The HTTP API must not change; \`cargo test\` must pass after every task.\n\nDone:\n${done.join("\n")}\n\nNext: task ${task + 1}: ${next[0]}. Start with ${next[1]}/mod.rs.`;
    const parent = story.handoffs.at(-1)?.id ?? null;
    story.handoffs.push({ id, conversation: key, at_ms: at + n * 70_000, wire, model, parent, reason: `task ${task} is done: ${TASKS[task - 1][0]}`, prompt_bytes: new TextEncoder().encode(carried).length, first_line: carried.split("\n")[0].slice(0, 160), archived: false, resume_line: `[[handoff-resume:${id}]]`, history_bytes: 24_000, exchange: exchangeId(n, talk), prompt: carried, lineage: [...story.handoffs.map((it) => it.id), id] });
    history.push({ role: "assistant", kind: "text", parts: [text(`Task ${task} is done: ${TASKS[task - 1][0]}.`), text(`\n\n[[handoff-resume:${id}]]\n${carried}\n[[/handoff-resume:${id}.${SEAL}]]\n\n`)] });
    cut = { id, at: history.length - 1, opening: { role: "user", kind: "text", parts: [text(PREAMBLE), text(carried)] } };
  };
  const note = (id, received, legs, pinned, fires) => {
    const total = (list) => list.reduce((sum, m) => sum + m.bytes, 2100);
    const sentBytes = legs.map((leg) => total(leg.list));
    const receivedBytes = total(received);
    const fired = fires ? [cut.id] : [];
    const row = {
      id, conversation: key, at_ms: at + n * 70_000, wire, upstream: wire, route: "POST /v1/messages", model, status: 200, outcome: "complete", streamed: true, tooled: true, pinned, lost_sentinel: false, fired,
      legs: legs.length, retries: 0, refused_calls: 0, escaped_sentinels: 0, received_bytes: receivedBytes, sent_bytes: sentBytes, response_bytes: 900 + 37 * n, received_messages: received.length, sent_messages: legs.map((leg) => leg.list.length),
      tokens: sentBytes.map((b) => ({ input: 310, cache_read: Math.round(b / 5), cache_write: 480, output: 140 + 3 * n })), statuses: legs.map(() => 200), first_byte_ms: 812.4 + 13 * n, total_ms: 4100.2 + 97 * n, added_ms: 0.41,
      answer: n === 3 ? { text: "All is well.\nSo be it." } : { text: "Next.", calls: [step(TASKS[(task(n) - 1) % TASKS.length][1], n - 1)[0].parts.at(-1).json].map(({ name, input }) => ({ name, argument: input.command ?? input.path })) }, user_line: null,
      changes: legs.flatMap((_, leg) => [{ leg, why: "tool", removed: 0, added: 2104 }, ...(pinned || leg > 0 ? [{ leg, why: "cut", removed: receivedBytes - sentBytes[leg], added: 900, handoff: leg > 0 ? cut.id : pinned }] : [])]), partial: false, open: false,
    };
    row.tokens_sum = row.tokens.reduce((sum, leg) => Object.fromEntries(Object.keys(sum).map((key) => [key, sum[key] + leg[key]])));
    row.unsent_tokens = Math.round((receivedBytes - sentBytes.reduce((sum, b) => sum + b, 0)) / 4);
    story.rows.push(row);
    const notes = ["The tool session_handoff was added to the tools."];
    if (pinned) notes.push(`The transcript was cut at handoff ${pinned}: ${plural(received.filter((m) => m.state === "cut").length)} before it stayed behind, and its carry-over prompt stands in their place.`);
    if (fires) notes.push(`The model called session_handoff: baton wrote handoff ${cut.id} down, showed its sentinel to the agent, and asked the model again with the carry-over prompt alone.`);
    story.details.set(id, {
      exchange: row,
      headers: { received: [["host", "127.0.0.1:8787"], ["anthropic-version", "2023-06-01"], ["x-api-key", "[redacted]"], ["content-type", "application/json"], ["user-agent", "claude-cli/2.0.31"]], response: [["content-type", "text/event-stream"], ["x-baton-exchange", id]] },
      received: { messages: received, envelope: envelope(false) },
      legs: legs.map((leg, at) => ({ n: at, at_ms: row.at_ms, answered_ms: 812 + 13 * n, ended_ms: 3900 + 97 * n, sent: { url: "https://api.anthropic.com/v1/messages", headers: [["accept-encoding", "identity"], ["x-api-key", "[redacted:credential]"]], messages: leg.list, envelope: envelope(true), envelope_changes: [{ key: "tools", what: "session_handoff was added at the end" }] }, received_states: received.map((m) => (at > 0 ? "cut" : m.state)), received_whys: received.map((m) => (at > 0 ? "cut" : m.why)), response: { status: 200, bytes: 1200, stop: fires && at === 0 ? "handoff" : "tool_use", usage: row.tokens[at], truncated: false } })),
      shown: { bytes: row.response_bytes, truncated: false },
      handoffs: story.handoffs.filter((it) => fired.includes(it.id)),
      notes,
    });
    story.bodies.set(id, { shown: stream(fires ? `Task ${fires} is done.\n\n[[handoff-resume:${cut.id}]]\n${story.handoffs.at(-1).prompt}\n` : "Next: read file."), response: legs.map((_, leg) => (fires && leg === 0 ? stream(`Task ${fires} is done.`, { prompt: story.handoffs.at(-1).prompt }) : stream("Next: read file."))) });
  };
  for (let task = 1; task <= tasks; task += 1) {
    for (let turn = 0; turn < turns; turn += 1) {
      ask(turn === 0 && task > 1 ? task - 1 : 0);
      history.push(...step(TASKS[(task - 1) % TASKS.length][1], turn));
    }
  }
  const sum = (key) => story.rows.reduce((total, row) => total + [row[key]].flat().reduce((a, b) => a + b, 0), 0);
  const last = story.rows.at(-1);
  story.conversation = { key, title: title ?? WISH, wire, model, exchanges: story.rows.length, handoffs: story.handoffs.length, first_ms: story.rows[0].at_ms, last_ms: last.at_ms, received_bytes: sum("received_bytes"), sent_bytes: sum("sent_bytes"), unsent_tokens: sum("unsent_tokens") };
  return story;
}

const plural = (n) => `${n} message${n === 1 ? "" : "s"}`;

/** A reply as a stream of the Anthropic wire. */
function stream(said, call) {
  const events = [{ type: "content_block_start", index: 0, content_block: { type: "text", text: "" } }];
  for (const word of said.match(/\S+\s*|\s+/g) ?? []) events.push({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text: word } });
  if (call) {
    events.push({ type: "content_block_start", index: 1, content_block: { type: "tool_use", id: "toolu_h", name: "session_handoff", input: {} } });
    events.push({ type: "content_block_delta", index: 1, delta: { type: "input_json_delta", partial_json: JSON.stringify(call) } });
  }
  return events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join("");
}

/** An exchange of more than four megabytes: many messages, of which two are a megabyte each. */
export function heavy({ messages = 3000, talk = 9, key = "heavy" } = {}) {
  const story = tell({ tasks: 1, turns: 2, talk, key, title: "An agent that reads whole logs" });
  const id = story.rows.at(-1).id;
  const detail = story.details.get(id);
  const huge = (i) => i === 10 || i === 1500;
  const all = Array.from({ length: messages }, (_, i) => ({ role: i % 2 ? "assistant" : "user", kind: "text", parts: [text(huge(i) ? "0123456789abcdef\n".repeat(65_000) : `message ${i}: ${"log line ".repeat(80)}`)] }));
  detail.received.messages = all.map((m, i) => gist(m, i, i < 1400 ? "cut" : "kept", i < 1400 ? "cut" : null));
  const sent = [{ role: "user", kind: "text", parts: [text("Goal: read the rest of the log.")] }, ...all.slice(1400)];
  detail.legs[0].sent.messages = sent.map((m, i) => gist(m, i, i ? "kept" : "new", i ? null : "cut"));
  detail.exchange.received_bytes = detail.received.messages.reduce((sum, m) => sum + m.bytes, 0);
  story.messages.set(id, { received: all, sent: [sent] });
  return { ...story, id };
}
