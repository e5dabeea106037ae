// One conversation: the chart, and its exchanges, newest first.

import * as api from "./api.js";
import { Chart } from "./chart.js";
import { h, lazily, line, put } from "./dom.js";
import { brief, bytes, clock, count, failed, millis, outcome, plural, percent, short, tokensOf, wireName } from "./words.js";

/** Rows made before they are scrolled to; as many as there were, when they are drawn again. */
const ROWS = 120;
/** A burst of exchanges is shown as one change. */
const PAUSE = 250;

export async function conversation(ctx, key) {
  const said = await api.json(api.path(["conversations", key]), { signal: ctx.signal });
  const view = new Conversation(ctx, key, said);
  ctx.rows.set(key, view.rows);
  return { node: view.node, title: view.title(), event: (name, data) => view.event(name, data), refresh: () => view.reload(), up: "#/" };
}

class Conversation {
  constructor(ctx, key, said) {
    Object.assign(this, { ctx, key });
    this.begun = new Map();
    this.chart = new Chart({ open: (row) => (location.hash = `#/e/${encodeURIComponent(row.id)}`) });
    this.head = h("header", { class: "head-of-view" });
    this.facts = h("div", { class: "facts" });
    this.table = h("section", { class: "timeline" });
    this.node = h("div", { class: "view" }, this.head, this.facts, this.chart.node, this.table);
    this.take(said);
  }

  take(said) {
    this.about = said.conversation ?? {};
    this.rows = said.exchanges ?? [];
    this.handoffs = [...(said.handoffs ?? [])].sort((a, b) => a.at_ms - b.at_ms);
    this.draw();
  }

  title() {
    return line(this.about.title) || "Untitled conversation";
  }

  draw() {
    const { about, rows } = this;
    const models = [...new Set(rows.map((row) => row.model).filter(Boolean))];
    const received = rows.reduce((sum, row) => sum + (row.received_bytes ?? 0), 0);
    const sent = rows.reduce((sum, row) => sum + (row.sent_bytes ?? []).reduce((a, b) => a + b, 0), 0);
    this.head.replaceChildren(
      h("p", { class: "crumbs" }, h("a", { href: "#/" }, "Conversations")),
      h("h1", { dir: "auto" }, this.title()),
      h("p", { class: "dim" }, [wireName(about.wire), models.length ? line(models.join(", ")) : line(about.model ?? ""), brief(about.key ?? this.key)].filter(Boolean).join(" · ")),
    );
    const fact = (value, label, more) => h("div", { class: "fact", title: more ?? null }, h("b", { class: "num" }, value), h("span", null, label));
    this.facts.replaceChildren(
      fact(count(rows.length), rows.length === 1 ? "exchange" : "exchanges"),
      fact(count(this.handoffs.length), this.handoffs.length === 1 ? "handoff" : "handoffs"),
      fact(bytes(received), "sent by the agent"),
      fact(bytes(sent), `went on (${percent(sent, received)})`),
      fact(`≈ ${short(about.saved_tokens ?? tokensOf(received - sent))}`, "tokens saved", `${count(about.saved_tokens)} tokens, at four bytes each`),
    );
    this.chart.show(rows, this.handoffs);
    this.drawTable();
  }

  drawTable() {
    const focused = document.activeElement?.closest?.("[data-row]")?.dataset.row;
    const body = h("div", { class: "rows", role: "rowgroup" });
    for (const row of this.rows) this.begun.delete(row.id);
    const made = this.table.querySelectorAll(".exchange").length;
    const newest = [...this.begun.values()].reverse().map((it) => underWay(it));
    const most = this.rows.reduce((most, row) => Math.max(most, row.received_bytes ?? 0, ...(row.sent_bytes ?? [])), 1);
    const number = new Map(this.handoffs.map((handoff, at) => [handoff.id, at + 1]));
    const byId = new Map(this.handoffs.map((handoff) => [handoff.id, handoff]));
    const rows = this.rows;
    put(body, newest);
    lazily(body, rows.length, (at) => {
      const n = rows.length - at;
      const row = rows[n - 1];
      const fired = (row.fired ?? []).map((id) => handoffRow(id, number.get(id), byId.get(id)));
      return [fired.reverse(), exchangeRow(row, n, most, number)];
    }, Math.max(ROWS, made));
    const names = ["#", "time", "what happened", "messages", "context: received → sent", "tokens in · out", "took"];
    const head = h("div", { class: "row names", role: "row" }, names.map((name) => h("span", { role: "columnheader" }, name)));
    const label = "Exchanges, newest first: the numbers of the chart";
    this.table.replaceChildren(h("h2", null, "Exchanges"), h("div", { role: "table", "aria-label": label }, head, body));
    if (focused) this.table.querySelector(`[data-row="${CSS.escape(focused)}"] a`)?.focus({ preventScroll: true });
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

  /** Sums and handoffs are the proxy's: asked for anew, but never for a request that has only begun. */
  async catchUp() {
    if (this.ctx.signal.aborted) return;
    if (!this.unread) return this.drawTable();
    this.unread = false;
    const fired = this.rows.flatMap((row) => row.fired ?? []);
    const known = new Set(this.handoffs.map((handoff) => handoff.id));
    if (fired.some((id) => !known.has(id)) || this.rows.length < 50) return this.reload();
    this.about.saved_tokens = null;
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
  return h("div", { class: "row begun", role: "row" }, h("span", { role: "cell" }, h("span", { class: "pulse" })), h("span", { role: "cell", class: "dim" }, clock(it.at_ms)), h("span", { role: "cell", class: "dim" }, "under way"));
}

function handoffRow(id, n, handoff) {
  const reason = line(handoff?.reason ?? handoff?.first_line ?? "");
  return h("div", { class: "row handoff-row", role: "row" },
    h("span", { role: "cell", class: "badge" }, n ?? "·"),
    h("span", { role: "cell" },
      h("a", { href: `#/h/${encodeURIComponent(id)}`, "data-item": true }, `Handoff ${n ?? brief(id)}`), reason ? ` · ${reason}` : ""),
    h("span", { role: "cell", class: "num dim" }, handoff ? `prompt ${bytes(handoff.prompt_bytes)}` : ""));
}

function exchangeRow(row, n, most, number) {
  const sent = row.sent_bytes ?? [];
  const last = sent.at(-1);
  const cells = [
    h("a", { href: `#/e/${encodeURIComponent(row.id)}`, class: "num", "data-item": true, "aria-label": `Exchange ${n}` }, n),
    h("time", { class: "dim num", datetime: new Date(row.at_ms).toISOString() }, clock(row.at_ms)),
    h("span", { class: "tags" }, tags(row, number)),
    h("span", { class: "num" }, arrow(row.received_messages, row.sent_messages?.at(-1))),
    h("span", { class: "sizes" }, h("span", { class: "num" }, arrow(bytes(row.received_bytes), last === undefined ? null : bytes(last))), bar(row.received_bytes, last, most)),
    h("span", { class: "num dim" }, tokens(row)),
    h("span", { class: "num dim", title: `first byte ${millis(row.first_byte_ms)}, ${millis(row.added_ms)} of it ours` }, millis(row.total_ms)),
  ];
  const open = (event) => event.target.closest("a") || getSelection().toString() || (location.hash = `#/e/${encodeURIComponent(row.id)}`);
  return h("div", { class: "row exchange", role: "row", "data-row": row.id, onclick: open }, cells.map((cell) => h("span", { role: "cell" }, cell)));
}

function arrow(from, to) {
  if (to === null || to === undefined) return String(from ?? "–");
  return from === to ? String(from) : [String(from ?? "–"), h("span", { class: "dim" }, " → "), h("b", null, to)];
}

function bar(received, sent, most) {
  const outer = h("span", { class: "bar", "aria-hidden": "true" });
  const inner = h("span", { class: "bar-sent" });
  outer.style.setProperty("--received", `${(100 * (received ?? 0)) / most}%`);
  outer.style.setProperty("--sent", `${(100 * (sent ?? 0)) / most}%`);
  return put(outer, inner);
}

function tokens(row) {
  const legs = row.tokens ?? [];
  if (!legs.length) return "–";
  const last = legs.at(-1);
  const input = (last.input ?? 0) + (last.cache_read ?? 0) + (last.cache_write ?? 0);
  return `${short(input)} · ${short(legs.reduce((sum, leg) => sum + (leg.output ?? 0), 0))}`;
}

/** What is worth a word about an exchange. */
export function tags(row, number = new Map()) {
  const out = [];
  const tag = (text, kind = "", title = null) => out.push(h("span", { class: `tag ${kind}`, title }, text));
  if (row.open) tag("under way", "new");
  if (failed(row)) tag([row.status || null, outcome(row)].filter(Boolean).join(" "), "bad");
  if (row.fired?.length) tag(row.fired.length > 1 ? `${row.fired.length} handoffs` : "hands off", "new", "The model called session_handoff in this exchange");
  if (row.pinned) tag(number.get(row.pinned) ? `cut at ${number.get(row.pinned)}` : "cut", "", "Sent on from its active handoff");
  if (row.unpinned) tag("marker gone", "warn", "The conversation has a handoff, but this transcript no longer holds its sentinel: sent whole");
  const why = new Set((row.changes ?? []).map((change) => change.why));
  if (why.has("pair")) tag("hidden pair", "", "A call that the agent never saw was put back in its place");
  if (row.refused_calls) tag(plural(row.refused_calls, "refused call"), "warn");
  if (row.retries) tag(plural(row.retries, "retry", "retries"), "warn");
  if (row.broken_up) tag("marker broken up", "", "The model wrote something that looks like a marker");
  if (row.partial) tag("partly kept", "warn", "The journal could not keep all of it");
  if (!out.length && !row.tooled) tag(row.wire ? "passed on" : "relayed", "quiet", "Without the tool");
  return out;
}
