// View of the exchanges of all conversations, with a filter. The home page lists the failures among them.

import * as api from "./api.js";
import { tags } from "./conversation.js";
import { did } from "./did.js";
import { h, line, patch, set } from "./dom.js";
import { allInput, clock, millis, plural, short } from "./words.js";

const MOST = 200;
/** Milliseconds to wait for more events, so that a burst of exchanges is drawn once. */
const PAUSE = 400;

/** Example terms, for users who have not read the documentation. */
const EXAMPLES = ["error", "handoff", "command", "tool:Bash", "model:opus*", "since:1h", "cost>0.5", "retried", "!error"];

export async function exchanges(ctx, _, query) {
  const filter = query.get("filter") ?? "";
  const input = h("input", { type: "search", id: "filter", "aria-label": "Filter", "aria-describedby": "filter-said", spellcheck: "false", autocomplete: "off", placeholder: "error tool:Bash since:1h cost>0.5" });
  input.value = filter;
  const go = (text) => (location.hash = text.trim() ? `#/x?filter=${encodeURIComponent(text.trim())}` : "#/x");
  const form = h("form", { class: "filter", role: "search", onsubmit: (event) => (event.preventDefault(), go(input.value)) }, input, h("button", null, "Filter"));
  const examples = h("p", { class: "links" }, EXAMPLES.map((it) => h("button", { type: "button", class: "copy", onclick: () => go(`${input.value} ${it}`) }, it)));
  const said = h("p", { id: "filter-said", class: "dim", role: "status" });
  const list = h("div", { class: "found-list" });
  const load = async () => {
    try {
      const { exchanges: rows } = await api.json(api.path(["exchanges"], { filter: filter || null, limit: MOST }), { signal: ctx.signal });
      const none = filter === "error" ? "No failures." : filter ? "No exchange matches this filter." : "No exchanges yet.";
      set(said, rows.length === MOST ? `The newest ${MOST}` : rows.length ? plural(rows.length, "exchange") : none);
      patch(list, rows.map((row) => ({ key: row.id, is: `${row.open}`, make: () => found(row, ctx) })));
    } catch (error) {
      if (error.code !== "bad_filter") throw error;
      const at = Math.max(0, (error.position ?? 1) - 1);
      const [before, wrong] = [filter.slice(0, at), filter.slice(at)];
      set(said, h("span", { class: "mono" }, line(before), h("mark", { class: "wrong" }, line(wrong) || "⟨end⟩")), h("br"), h("span", { class: "bad" }, line(error.message)));
      patch(list, []);
    }
  };
  await load();
  let pause;
  const event = (name) => {
    if (name !== "exchange") return;
    clearTimeout(pause);
    pause = setTimeout(() => load().catch(() => null), PAUSE);
  };
  const node = h("div", { class: "view" },
    h("header", { class: "head-of-view" }, h("h1", null, filter === "error" ? "Failures" : "Exchanges"), form, examples, said),
    list);
  return { node, title: filter ? `Exchanges: ${filter}` : "Exchanges", up: "#/", event, refresh: load };
}

/** An exchange in a list over all conversations. */
export function found(row, ctx) {
  const title = row.conversation ? ctx.nameOf(row.conversation) : [row.upstream, row.route].filter(Boolean).map(line).join(" · ") || "no conversation";
  const sum = row.tokens_sum;
  return h("a", { class: "found-row", href: `#/e/${encodeURIComponent(row.id)}`, "data-item": true, "data-at": row.id },
    h("time", { class: "dim num", datetime: new Date(row.at_ms).toISOString() }, clock(row.at_ms)),
    h("span", { class: "found-what" }, h("span", { class: "did" }, did(row, ctx.prefix())), h("span", { class: "dim small" }, title)),
    h("span", { class: "tags" }, tags(row, null)),
    h("span", { class: "num dim small" }, sum ? [`${short(allInput(sum))} in · ${short(sum.output)} out`, h("br")] : null, millis(row.total_ms)));
}
