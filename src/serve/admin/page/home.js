// Home view: the newest conversations with their charts, handoffs, failures, and commands that connect an agent.

import * as api from "./api.js";
import { sketch } from "./chart.js";
import { copyButton, facts, h, line, patch, set } from "./dom.js";
import { found } from "./exchanges.js";
import { cards } from "./handoff.js";
import { ago, bytes, count, percent, plural, unsentFact, wireName } from "./words.js";

/** Number of conversations, handoffs and failures on the home page. */
const TALKS = 5;
const LATEST = 6;
const FAILURES = 5;
/** Number of newest exchanges in a conversation's chart. */
const ROWS = 150;

/** First words of the user in the session of `baton demo`, and the reasons of its handoffs in order. */
export const DEMO_TITLE = "Work through docs/plan.md: 4 tasks, one after the other, without asking me in between.";
export const DEMO_REASONS = ["task 1 is done: survey the storage layer", "task 2 is done: put a trait in front of it", "task 3 is done: write the SQLite store"];
/** Requests of that session: the received size, then the sent sizes, in hundreds of bytes. */
export const DEMO = [
  [14, 26], [52, 64], [108, 119], [114, 125], [119, 130], [155, 166], [218, 229, 42], [300, 111], [387, 198],
  [393, 204], [398, 209], [464, 275], [564, 375, 44], [620, 84], [671, 135], [678, 142], [683, 147],
  [727, 192], [781, 245, 45], [900, 148], [1003, 251], [1010, 257], [1015, 262], [1085, 332], [1187, 434],
];

export async function home(ctx) {
  const node = h("div", { class: "view" });
  const charts = new Map();
  const load = async () => {
    const options = { signal: ctx.signal };
    const [status, talks, latest, failed] = await Promise.all([
      api.json("/api/status", options),
      api.json(api.path(["conversations"], { limit: TALKS }), options),
      api.json(api.path(["handoffs"], { limit: LATEST }), options),
      api.json(api.path(["exchanges"], { filter: "error", limit: FAILURES }), options),
    ]);
    const newest = talks.conversations ?? [];
    await Promise.all(newest.map((it) => chartOf(it, charts, options)));
    draw(node, { status, newest, charts, latest: latest.handoffs ?? [], failed: failed.exchanges ?? [], ctx });
  };
  await load();
  let pause;
  const event = (name) => {
    if (name !== "exchange") return;
    clearTimeout(pause);
    pause = setTimeout(() => load().catch(() => null), 400);
  };
  return { node, title: null, event, refresh: load };
}

/** Reads the exchanges of a conversation's chart, unless nothing is new. */
async function chartOf(it, charts, options) {
  const is = `${it.exchanges} ${it.last_ms}`;
  if (charts.get(it.key)?.is === is) return;
  const { exchanges = [] } = await api.json(api.path(["exchanges"], { conversation: it.key, limit: ROWS }), options);
  charts.set(it.key, { is, rows: exchanges.reverse() });
}

/** Card of a conversation with its chart. */
function talk(it, rows, ctx) {
  const words = [it.client ? line(it.client) : null, line(it.model ?? "") || wireName(it.wire), plural(it.exchanges, "exchange"), it.handoffs ? plural(it.handoffs, "handoff") : null, ago(it.last_ms), rows.length < it.exchanges ? `the newest ${rows.length} shown` : null];
  return h("a", { class: "talk-card", href: `#/c/${encodeURIComponent(it.key)}`, "data-item": true, "data-at": `c${it.key}` },
    h("b", null, ctx.nameOf(it.key)),
    h("span", { class: "dim num small" }, words.filter(Boolean).join(" · "), it.failures ? [" · ", h("span", { class: "bad" }, plural(it.failures, "failure"))] : null),
    sketch(rows));
}

function draw(node, { status, newest, charts, latest, failed, ctx }) {
  const off = status.journal?.enabled === false;
  if (!status.conversations && !status.journal?.exchanges) {
    set(node,
      h("header", { class: "head-of-view" }, h("h1", null, "No traffic yet"),
        h("p", { class: "lead" }, "Start an agent through baton. Your keys and subscriptions stay where they are, and the agent's requests appear on this page live.")),
      off ? journalOff() : null, recipes(status, example()));
    return;
  }
  if (!node.querySelector(".facts")) {
    set(node,
      h("header", { class: "head-of-view" }, h("h1", null, "What the models really saw")),
      h("div", { class: "facts" }),
      off ? journalOff() : null,
      h("section", { class: "newest" }, h("h2", null, "Newest conversations"), h("div", { class: "talks" })),
      h("section", { class: "latest" }, h("h2", null, "Latest handoffs"), h("div", { class: "cards" })),
      h("section", { class: "failures" }, h("h2", null, "Failures"), h("div", { class: "found-list" }), h("p", { class: "dim" })),
      h("details", { class: "point-here" }, h("summary", null, "Connect another agent"), recipes(status)));
  }
  // The server's sums over all conversations, because the lists are bounded.
  facts(node.querySelector(".facts"), [
    [count(status.conversations), status.conversations === 1 ? "conversation" : "conversations"],
    [count(status.handoffs), status.handoffs === 1 ? "handoff" : "handoffs"],
    [bytes(status.received_bytes), "sent by agents"],
    [bytes(status.sent_bytes), `sent to models (${percent(status.sent_bytes, status.received_bytes)})`],
    unsentFact(status.unsent_tokens ?? 0),
  ]);
  node.querySelector(".newest").hidden = !newest.length;
  patch(node.querySelector(".talks"), newest.map((it) => {
    const { is, rows } = charts.get(it.key);
    return { key: it.key, is: `${is} ${ago(it.last_ms)} ${it.failures} ${ctx.titleOf(it.key)}`, make: () => talk(it, rows, ctx) };
  }));
  node.querySelector(".latest").hidden = !latest.length;
  patch(node.querySelector(".cards"), cards(latest, ctx));
  const failures = node.querySelector(".failures");
  const list = failures.querySelector(".found-list");
  list.hidden = !failed.length;
  patch(list, failed.map((row) => ({ key: row.id, is: "", make: () => found(row, ctx) })));
  const more = status.failures > failed.length ? h("a", { href: "#/x?filter=error" }, `All ${count(status.failures)} failures`) : null;
  set(failures.querySelector("p"), failed.length ? more : "No failures.");
}

function journalOff() {
  return h("p", { class: "banner warn" }, "The journal is off (journal.enabled = false): exchanges are not recorded, and this page stays empty.");
}

/** Base URL of the data listener for an agent on this machine or on the network. */
export function baseUrl(listener) {
  const named = String(listener || "127.0.0.1:8787");
  const url = named.includes("://") ? named : `http://${named}`;
  const here = location.hostname.includes(":") ? `[${location.hostname.replace(/[[\]]/g, "")}]` : location.hostname;
  return url.replace(/\/+$/, "").replace(/\/\/(0\.0\.0\.0|\[::\])(?=:|$)/, `//${here}`);
}

/** The demo's conversation as an example for an empty page: its list entry, its chart and its handoffs. */
function example() {
  const rows = DEMO.map(([received, ...sent]) => ({ tooled: true, received_bytes: 100 * received, sent_bytes: sent.map((size) => 100 * size), fired: sent.slice(1) }));
  const handoffs = rows.flatMap((row, at) => (row.fired.length ? [{ ...row, n: at + 1 }] : []));
  const step = (row, at) => h("li", { class: "step" },
    h("span", { class: "badge" }, at + 1),
    h("span", { class: "step-about" },
      h("span", null, DEMO_REASONS[at]),
      h("span", { class: "dim small num" }, `request ${row.n} · the agent sent ${bytes(row.received_bytes)}, after the handoff the model saw ${bytes(row.sent_bytes.at(-1))}`)));
  return h("figure", { class: "talk-card" },
    h("figcaption", null, h("span", { class: "tag" }, "Example: the session of the demo"), " ", h("b", null, DEMO_TITLE)),
    h("span", { class: "dim num small" }, `data of baton demo, none of yours · ${plural(rows.length, "request")}, ${plural(handoffs.length, "handoff")} at task ends`),
    sketch(rows),
    h("ol", { class: "chain" }, handoffs.map(step)));
}

/** Commands that connect an agent, with an example after the first. */
function recipes(status, shown = null) {
  if (status.read_only) return h("section", { class: "recipes" }, h("p", { class: "dim" }, "No proxy is running. Start one with ", h("code", null, "baton serve"), ", or together with an agent with ", h("code", null, "baton run claude"), "."), shown);
  const url = baseUrl(status.data_listener);
  const recipe = (who, text, heading = "h3") => h("div", { class: "recipe" }, h(heading, null, who), h("div", { class: "copy-line" }, h("code", null, text), copyButton(() => text)));
  return h("section", { class: "recipes" },
    recipe("Claude Code, with one command", "baton run claude", "h2"),
    shown,
    recipe("The demo in the terminal, without an agent, a key or a network", "baton demo", "h2"),
    h("h2", null, "Or set an agent's base URL"),
    recipe("Claude Code and other clients of the Anthropic Messages API", `ANTHROPIC_BASE_URL=${url} claude`),
    recipe("Clients of the OpenAI API", `OPENAI_BASE_URL=${url}/v1`),
    recipe("Codex", `codex -c 'openai_base_url="${url}/v1"'`),
    recipe("gemini-cli", `GOOGLE_GEMINI_BASE_URL=${url} gemini`));
}
