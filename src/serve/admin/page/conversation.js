// View of a conversation: its chart, and its exchanges, newest first.

import * as api from "./api.js";
import { chain } from "./chain.js";
import { Chart, sideCalls } from "./chart.js";
import { facts, h, line, patch, put, set } from "./dom.js";
import { did, didText } from "./did.js";
import { notice } from "./draft.js";
import { conversationBill } from "./savings.js";
import { allInput, brief, bytes, clock, count, failed, millis, outcome, percent, plural, short, unsentFact, wireName } from "./words.js";

/** Rows made at first, and each time that the end of the table comes into view. */
const ROWS = 120;
/** Number of handoffs that are not folded. */
const LAST_HANDOFFS = 3;
/** Milliseconds to wait for more events, so that a burst of exchanges is drawn once. */
const PAUSE = 250;

export async function conversation(ctx, key) {
  const said = await api.json(api.path(["conversations", key]), { signal: ctx.signal });
  const view = new Conversation(ctx, key, said);
  ctx.rows.set(key, view.rows);
  return { node: view.node, title: view.title(), settled: view.bill.load(), event: (name, data) => view.event(name, data), refresh: () => view.reload(), shown: () => view.chart.draw(), place: () => ({ shown: view.shown, beside: view.beside }), up: "#/" };
}

class Conversation {
  constructor(ctx, key, said) {
    Object.assign(this, { ctx, key });
    this.begun = new Map();
    this.shown = ctx.place?.shown ?? ROWS;
    /** Whether the table shows side calls. */
    this.beside = ctx.place?.beside ?? false;
    this.chart = new Chart({ open: (row) => (location.hash = `#/e/${encodeURIComponent(row.id)}`) });
    this.name = h("h1", { dir: "auto" });
    this.what = h("p", { class: "dim" });
    this.bill = conversationBill(ctx, key);
    this.draft = h("div", null);
    this.facts = h("div", { class: "facts" });
    this.budgets = h("div", { class: "budgets" });
    this.body = h("div", { class: "rows", role: "rowgroup" });
    this.chain = h("ol", { class: "chain" });
    this.earlier = h("ol", { class: "chain" });
    this.earlierFold = h("details", { hidden: true }, h("summary", null, ""), this.earlier);
    this.handed = h("section", { class: "handed", hidden: true }, h("h2", null, "Handoffs"), this.earlierFold, this.chain);
    this.node = h("div", { class: "view" },
      h("header", { class: "head-of-view" }, this.name, this.what),
      this.draft, this.facts, this.budgets, this.chart.node, this.bill.node, this.handed, this.table());
    this.take(said);
  }

  /** Creates the table, which makes more rows when its end comes into view. */
  table() {
    const names = ["#", "time", "what happened", "agent sent → model saw", "tokens in · out", "duration"];
    const head = h("div", { role: "rowgroup" }, h("div", { class: "row names", role: "row" }, names.map((name) => h("span", { role: "columnheader" }, name))));
    const label = "Exchanges, newest first, with the figures of the chart";
    const end = h("div", { class: "more", "aria-hidden": "true" });
    const more = () => {
      if (this.shown >= this.rows.length) return;
      this.shown += ROWS;
      this.drawTable();
    };
    new IntersectionObserver((seen) => seen.some((it) => it.isIntersecting) && more(), { rootMargin: "600px" }).observe(end);
    const flip = () => ((this.beside = !this.beside), this.drawTable());
    this.fold = h("button", { type: "button", class: "copy", hidden: true, title: "Requests outside the conversation, such as titles, summaries and token counts. Failed ones are always shown", onclick: flip });
    return h("section", { class: "timeline" }, h("div", { class: "title-line" }, h("h2", null, "Exchanges"), this.fold), h("div", { role: "table", "aria-label": label }, head, this.body), end);
  }

  take(said) {
    this.about = said.conversation ?? {};
    this.rows = said.exchanges ?? [];
    this.handoffs = [...(said.handoffs ?? [])].sort((a, b) => a.at_ms - b.at_ms);
    this.active = said.active ?? null;
    this.limits = said.limits ?? {};
    set(this.draft, said.draft ? notice(said.draft) : null);
    this.draw();
  }

  title() {
    return line(this.about.title) || "Untitled conversation";
  }

  draw() {
    const { about, rows } = this;
    const models = [...new Set(rows.map((row) => row.model).filter(Boolean))];
    const sum = (of) => rows.reduce((total, row) => total + (of(row) ?? 0), 0);
    // The server's sums include exchanges that are not in the list. Rows that came since then are only here.
    const all = rows.length >= (about.exchanges ?? 0);
    const exchanges = all ? rows.length : about.exchanges;
    // Requests that baton answered itself were not sent, so they do not count.
    const received = all ? sum((row) => (row.sent_bytes?.length ? row.received_bytes : 0)) : about.received_bytes;
    const sent = all ? sum((row) => (row.sent_bytes ?? []).reduce((a, b) => a + b, 0)) : about.sent_bytes;
    const unsent = all ? sum((row) => row.unsent_tokens) : about.unsent_tokens;
    // As in the lists: one that is left at the agent's exit takes no effect here.
    const handoffs = all ? sum((row) => row.fired?.length) : about.handoffs;
    say(this.name, this.title());
    say(this.what, [wireName(about.wire), models.length ? line(models.join(", ")) : line(about.model ?? ""), about.client ? line(about.client) : null, brief(about.key ?? this.key)].filter(Boolean).join(" · "));
    facts(this.facts, [
      [count(exchanges), exchanges === 1 ? "exchange" : "exchanges"],
      [count(handoffs), handoffs === 1 ? "handoff" : "handoffs"],
      [bytes(received), "sent by the agent"],
      [bytes(sent), `sent to the model (${percent(sent, received)})`],
      unsentFact(unsent),
    ]);
    set(this.budgets, budgetBars(rows));
    this.chart.show(rows, this.handoffs, this.limits);
    this.handed.hidden = !this.handoffs.length;
    const prefix = this.ctx.prefix();
    const steps = chain(this.handoffs, rows, this.active, prefix && `${prefix}handoff undo`);
    const folded = Math.max(0, steps.length - LAST_HANDOFFS);
    this.earlierFold.hidden = !folded;
    say(this.earlierFold.querySelector("summary"), plural(folded, "earlier handoff"));
    patch(this.earlier, steps.slice(0, folded));
    patch(this.chain, steps.slice(folded));
    this.drawTable();
  }

  drawTable() {
    for (const row of this.rows) this.begun.delete(row.id);
    const most = this.rows.reduce((most, row) => Math.max(most, row.received_bytes ?? 0, ...(row.sent_bytes ?? [])), 1);
    const number = new Map(this.handoffs.map((handoff, at) => [handoff.id, at + 1]));
    const byId = new Map(this.handoffs.map((handoff) => [handoff.id, handoff]));
    const items = [...this.begun.values()].reverse().map((it) => ({ key: `b${it.id}`, is: "", make: () => underWay(it) }));
    const beside = sideCalls(this.rows.filter((row) => !row.open && !failed(row)));
    this.fold.hidden = !beside.size;
    say(this.fold, `${this.beside ? "Hide" : "Show"} ${plural(beside.size, "side call")}`);
    for (let n = this.rows.length; n > Math.max(0, this.rows.length - this.shown); n -= 1) {
      const row = this.rows[n - 1];
      if (beside.has(row.id) && !this.beside) continue;
      for (const id of [...(row.fired ?? [])].reverse()) {
        items.push({ key: `h${id}`, is: `${number.get(id)} ${byId.has(id)}`, make: () => handoffRow(id, number.get(id), byId.get(id)) });
      }
      // In a run of exchanges with the same cut, only the oldest one names it.
      let before = n - 2;
      while (beside.has(this.rows[before]?.id)) before -= 1;
      const begins = row.pinned && !beside.has(row.id) && row.pinned !== this.rows[before]?.pinned;
      items.push({ key: row.id, is: `${n} ${row.open} ${number.get(row.pinned)} ${begins}`, make: () => exchangeRow(row, n, begins ? number : null, this.ctx.prefix()) });
    }
    // Bars are relative to the largest size, which is set here, so that a new maximum changes no row.
    this.body.style.setProperty("--most", most);
    patch(this.body, items);
  }

  event(name, data) {
    if (data?.conversation !== this.key) return;
    if (name === "begun") {
      this.begun.set(data.id, data);
    } else if (name === "exchange") {
      this.begun.delete(data.id);
      const at = this.rows.findIndex((row) => row.id === data.id);
      if (at >= 0) this.rows[at] = data;
      else this.rows.push(data);
      this.unread = true;
    }
    clearTimeout(this.pause);
    this.pause = setTimeout(() => this.catchUp(), PAUSE);
  }

  /** Draws what the events brought. Reads sums and handoffs from the server, but not for a request that has only begun. */
  async catchUp() {
    if (this.ctx.signal.aborted) return;
    if (!this.unread) return this.drawTable();
    this.unread = false;
    const fired = this.rows.flatMap((row) => row.fired ?? []);
    const known = new Set(this.handoffs.map((handoff) => handoff.id));
    // Only the server knows which handoff is in effect after an undo.
    if (this.rows.at(-1)?.undo || fired.some((id) => !known.has(id))) return this.reload();
    this.draw();
  }

  async reload() {
    try {
      const said = await api.json(api.path(["conversations", this.key]), { signal: this.ctx.signal });
      this.take(said);
      this.ctx.rows.set(this.key, this.rows);
    } catch (error) {
      if (error.name !== "AbortError") this.draw();
    }
  }
}

function underWay(it) {
  return h("div", { class: "row begun", role: "row" }, h("span", { role: "cell" }, h("span", { class: "pulse" })), h("span", { role: "cell", class: "dim" }, clock(it.at_ms)), h("span", { role: "cell" }, h("a", { href: `#/e/${encodeURIComponent(it.id)}`, "data-item": true }, "in progress")));
}

function handoffRow(id, n, handoff) {
  const reason = [handoff?.reason, handoff?.first_line].filter(Boolean).map(line).join(" · ");
  return h("div", { class: "row handoff-row", role: "row", "data-at": `h${id}` },
    h("span", { role: "cell", class: "badge" }, n ?? "·"),
    h("span", { role: "cell" },
      h("a", { href: `#/h/${encodeURIComponent(id)}`, "data-item": true }, `Handoff ${n ?? brief(id)}`), reason ? ` · ${reason}` : ""),
    h("span", { role: "cell", class: "num dim" }, handoff ? `prompt ${bytes(handoff.prompt_bytes)}` : ""));
}

function exchangeRow(row, n, number, prefix) {
  const sent = row.sent_bytes ?? [];
  const last = sent.at(-1);
  const failures = (row.statuses ?? []).map((status, leg) => (row.open || (status && status < 400) ? null : `request ${leg + 1}: ${status ?? (row.partial ? "not recorded" : "no response")}`)).filter(Boolean);
  const cells = [
    h("a", { href: `#/e/${encodeURIComponent(row.id)}`, class: "num", "data-item": true, "aria-label": `Exchange ${n}` }, n),
    h("time", { class: "dim num", datetime: new Date(row.at_ms).toISOString() }, clock(row.at_ms)),
    h("span", { class: "what", title: [didText(row, prefix), row.answer?.text, ...failures].filter(Boolean).join("\n") || null }, h("span", { class: "did" }, did(row, prefix)), h("span", { class: "tags" }, tags(row, number))),
    h("span", { class: "sizes", title: `${row.received_messages ?? 0} → ${row.sent_messages?.at(-1) ?? "–"} messages` }, h("span", { class: "num" }, arrow(bytes(row.received_bytes), last === undefined ? null : bytes(last))), bar(row.received_bytes, last)),
    h("span", { class: "num dim" }, tokens(row)),
    h("span", { class: "num dim", title: `first byte ${millis(row.first_byte_ms)}, ${millis(row.added_ms)} added by baton` }, millis(row.total_ms)),
  ];
  const open = (event) => event.target.closest("a") || getSelection().toString() || (location.hash = `#/e/${encodeURIComponent(row.id)}`);
  return h("div", { class: "row exchange", role: "row", "data-row": row.id, "data-at": row.id, onclick: open }, cells.map((cell) => h("span", { role: "cell" }, cell)));
}

function arrow(from, to) {
  if (to === null || to === undefined) return String(from ?? "–");
  return from === to ? String(from) : [String(from ?? "–"), h("span", { class: "dim" }, " → "), h("b", null, to)];
}

function bar(received, sent) {
  const outer = h("span", { class: "bar", "aria-hidden": "true" });
  outer.style.setProperty("--received", received ?? 0);
  outer.style.setProperty("--sent", sent ?? 0);
  return put(outer, h("span", { class: "bar-sent" }));
}

/** Owners of budgets. */
const BUDGETS = { session: "This session", day: "This day", directory: "This directory", plan: "Window of the subscription" };

/** Bars of the budgets, by the newest request that has any. */
function budgetBars(rows) {
  const newest = rows.findLast((row) => row.budgets?.length);
  return (newest?.budgets ?? []).map((budget) => {
    const used = budget.spent / budget.limit;
    const opens = used >= 1 && budget.opens_ms ? `, opens again at ${clock(budget.opens_ms)}` : "";
    const said = `${amount(budget.unit, budget.spent)} of ${amount(budget.unit, budget.limit)}${UNITS[budget.unit] ?? ""}${used >= 1 ? " · used up" : ""}${opens}`;
    const name = BUDGETS[budget.of] ?? line(budget.of);
    const meter = h("span", { class: "budget-bar", role: "meter", "aria-label": name, "aria-valuemin": 0, "aria-valuemax": budget.limit, "aria-valuenow": Math.min(budget.spent, budget.limit), "aria-valuetext": said });
    meter.style.setProperty("--used", Math.min(1, used));
    return h("div", { class: `budget ${used >= 1 ? "over" : used >= 0.8 ? "near" : ""}` }, h("span", null, name), meter, h("span", { class: "num dim" }, said));
  });
}

/** Words for units that are not in the number. */
const UNITS = { tokens: " tokens", calls: " model calls", minutes: " minutes" };

function amount(unit, number) {
  if (unit === "dollars") return `$${number.toFixed(2)}`;
  return unit === "share" ? percent(number, 1) : short(Math.floor(number));
}

/** Tokens of all legs together. */
function tokens(row) {
  const sum = row.tokens_sum;
  return sum ? `${short(allInput(sum))} · ${short(sum.output)}` : "–";
}

/** Sets a node's text, unless it is unchanged. */
function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Outcomes of a notice about a full context. */
const NUDGES = {
  told: ["nudged", "new", "baton told the model how full its context is, and asked it to finish its step and hand off"],
  followed: ["nudge followed", "", "The model handed off after it was told how full its context is"],
  not_written: ["nudge not stored", "warn", "The notice could not be stored, so the model was not told how full its context is"],
  auto_failed: ["automatic handoff failed", "warn", "The context was full enough for an automatic handoff, but its draft failed"],
  large_cut: ["nudging stopped", "warn", "The context right after the handoff is over the threshold"],
  would_tell: ["shadow: notice", "new", "Shadow mode: baton would have told the model here how full its context is"],
  would_hand_over: ["shadow: handoff", "new", "Shadow mode: baton would have made an automatic handoff here"],
  would_follow_plan: ["shadow: plan", "new", "Shadow mode: baton would have handed off here, after an accepted plan"],
  would_cut_free: ["shadow: free cut", "new", "Shadow mode: baton would have handed off here, because the cut costs nothing"],
  close_handoffs: ["nudging stopped", "warn", "Two handoffs followed each other closely"],
};

/** Outcomes of an undo. */
const UNDOS = {
  undone: ["handoff undone", "new", "The model sees the history before the handoff again, and everything after it"],
  taken_back: ["undo reverted", "new", "The model sees the handoff again"],
  refused: ["undo refused", "warn", "The answer gives the reason"],
};

/** Returns the tags of an exchange. */
export function tags(row, number = new Map()) {
  const out = [];
  const tag = (text, kind = "", title = null) => out.push(h("span", { class: `tag ${kind}`, title }, text));
  if (row.open) tag("in progress", "new");
  // With the provider's error message, the status is enough.
  if (failed(row)) tag([row.status || null, row.answer?.error && row.status >= 400 ? null : outcome(row)].filter(Boolean).join(" "), "bad", outcome(row));
  const cut = number?.get(row.pinned);
  if (row.fired?.length) tag(row.fired.length > 1 ? `${row.fired.length} handoffs` : "hands off", "new", "A handoff took effect in this exchange");
  if (row.missing_items) tag(`${row.missing_items} missing`, "", "Items that the carry-over prompt omitted: the user's rules, open to-dos and evidence");
  if (row.pinned && number) tag(cut ? `cut at ${cut}` : "cut", "", "Sent from its active handoff onwards");
  if (row.lost_sentinel) tag("sentinel lost", "warn", "The conversation has a handoff, but this transcript no longer contains its sentinel, so it was sent whole");
  const why = new Set((row.changes ?? []).map((change) => change.why));
  if (why.has("pair")) tag("hidden pair", "", "baton restored a call that the agent never saw");
  if (row.recalls?.length) tag(plural(row.recalls.length, "recall"), "", `The model searched the history before the cut: ${row.recalls.join(", ").replaceAll("_", " ")}`);
  if (row.refused_calls) tag(plural(row.refused_calls, "refused call"), "warn");
  if (row.retries) tag(plural(row.retries, "retry", "retries"), "warn");
  for (const nudge of row.nudges ?? []) {
    const [text, kind, title] = NUDGES[nudge] ?? [line(nudge), "", null];
    tag(text, kind, title);
  }
  if (row.brake) tag(`brake: ${row.brake.replaceAll("_", " ")}`, row.brake.startsWith("stopped") ? "warn" : "", "The brake acted on this request because of a budget, a repetition or a command");
  if (row.provider_limit) tag("provider's limit", "warn", row.provider_limit.opens_ms ? `The provider accepts requests again at ${clock(row.provider_limit.opens_ms)}` : "The provider does not say when it accepts requests again");
  if (row.thinking_retry) tag(row.thinking_retry === "accepted" ? "thinking left out" : "thinking refused", "warn", "The provider rejected the request's thinking, so baton sent the request again without it");
  if (row.dropped_thinking) tag(`${plural(row.dropped_thinking, "thinking block")} dropped`, "warn", "The provider dropped thinking from the model's input");
  if (row.served?.some((leg) => leg?.cache_miss)) tag("cache miss", "", "The provider's cache did not serve the request. Open the exchange for the reason");
  if (row.undo) tag(...(UNDOS[row.undo] ?? [line(row.undo)]));
  if (row.escaped_sentinels) tag("marker escaped", "", "The model wrote text that looks like one of baton's markers");
  if (row.partial) tag("partly recorded", "warn", "The journal could not store the whole exchange");
  if (!out.length && !row.tooled && !row.answer) tag(row.wire ? "forwarded" : "relayed", "quiet", row.untooled ? `Without the tool: ${line(row.untooled).replaceAll("_", " ")}` : "Without the tool");
  if (row.client) tag(line(row.client), "quiet", "The client that sent the request");
  return out;
}
