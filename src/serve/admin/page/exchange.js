// View of an exchange: each leg's received and sent messages side by side, and the responses.

import * as api from "./api.js";
import { tags } from "./conversation.js";
import { diff } from "./diff.js";
import { command } from "./did.js";
import { copyButton, h, line, put, say, set } from "./dom.js";
import { handoffLink, long, readable } from "./parts.js";
import { readReply } from "./reply.js";
import { allInput, brief, bytes, clock, count, millis, plural, unsent, unsentFact, wireName } from "./words.js";

export async function exchange(ctx, id, query) {
  const said = await api.json(api.path(["exchanges", id]), { signal: ctx.signal });
  const row = said.exchange ?? {};
  const up = row.conversation ? `#/c/${encodeURIComponent(row.conversation)}` : "#/";
  const near = new Neighbours(ctx, row);
  const look = new Look(query, ctx.place);
  const parts = tabs(said, row, look);
  const node = h("div", { class: "view wide-view" }, head(row, up, near, parts), summary(said, row), notes(said, row, ctx.prefix()), row.open ? underWay(ctx, row) : null, parts.node);
  const event = (name, data) => name === "exchange" && data.id === id && ctx.reopen();
  const place = () => ({ tab: parts.tab(), leg: look.leg, opened: [...look.opened] });
  return { node, title: `Exchange ${brief(id)}`, up, event, place, settled: look.settled(), refresh: () => row.open && ctx.reopen(), step: (by) => near.step(by, parts.tab()) };
}

/** Milliseconds between requests for a response in progress. */
const LIVE_EVERY = 600;

/** Shows a response in progress, until the exchange has ended and is shown as a whole. */
function underWay(ctx, row) {
  const box = h("div", { class: "answer-body", "aria-live": "off" }, h("p", { class: "dim" }, h("span", { class: "pulse" }), " The response appears here as it arrives."));
  let seen = "";
  const load = async () => {
    if (ctx.signal.aborted) return;
    try {
      const { open, parts } = await api.json(api.path(["exchanges", row.id, "live"]), { signal: ctx.signal });
      if (!open) return ctx.reopen();
      const now = JSON.stringify(parts);
      if (parts.length && now !== seen) set(box, parts.map((part) => h("section", { class: `part ${part.kind === "call" ? "tool_use" : part.kind}` }, h("div", { class: "part-head" }, h("span", null, part.kind === "call" ? `call · ${line(part.name ?? "")}` : part.kind)), long(part.text))));
      seen = now;
    } catch (error) {
      if (error.name === "AbortError") return;
    }
    setTimeout(load, LIVE_EVERY);
  };
  load();
  return h("section", { class: "live-answer", "aria-label": "Response so far" }, h("h2", null, "Response so far"), box);
}

/** Search hit to show in an exchange, and the messages that are open in it, possibly from an earlier visit. */
class Look {
  constructor(query, place) {
    const number = (name) => (query.get(name) === null ? null : Number(query.get(name)));
    this.side = query.get("side");
    this.of = query.get("of");
    this.leg = place?.leg ?? number("leg");
    this.tab = query.get("tab");
    this.i = number("i");
    const words = (query.get("q") ?? "").trim().split(/\s+/).filter(Boolean);
    this.text = words.length ? new RegExp(words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("\\s+"), "giu") : null;
    this.back = place;
    this.opened = new Set(place?.opened ?? []);
    this.loads = [];
    this.found = false;
  }

  /** Whether this message is the search hit. */
  isAt(side, of, i) {
    return this.side === side && this.of === of && this.i === i;
  }

  /** Pattern to mark in a message or in a response. */
  textAt(side, of, i = null) {
    return this.isAt(side, of, i) ? this.text : null;
  }

  /** Scrolls to the first mark in a loaded node, unless one was shown before or an earlier position is restored. */
  show(node) {
    const mark = node.querySelector("mark.found");
    if (!mark || this.found || this.back) return;
    this.found = true;
    const inside = mark.closest("pre");
    if (inside) inside.scrollTop = Math.max(0, mark.offsetTop - inside.offsetTop - inside.clientHeight / 3);
    mark.scrollIntoView({ block: "center" });
  }

  /** Resolves when all open messages are loaded. */
  settled() {
    return Promise.resolve().then(() => Promise.allSettled(this.loads));
  }
}

/** Neighbouring exchanges, read when they are first needed. */
class Neighbours {
  constructor(ctx, row) {
    Object.assign(this, { ctx, row });
  }

  /** Index of an exchange in its conversation, or -1 while that is unknown. */
  at(id = this.row.id) {
    return (this.ctx.rows.get(this.row.conversation) ?? []).findIndex((row) => row.id === id);
  }

  async load() {
    const key = this.row.conversation;
    if (!key) return;
    const said = await api.json(api.path(["conversations", key]), { signal: this.ctx.signal });
    this.ctx.rows.set(key, said.exchanges ?? []);
    this.title = line(said.conversation?.title);
  }

  /** Moves by a number of exchanges, and keeps the tab. */
  async step(by, tab) {
    const key = this.row.conversation;
    if (!key) return;
    // Keys may come faster than views, so they count from the page's next address.
    const target = decodeURIComponent(/^#\/e\/([^?]+)/.exec(location.hash)?.[1] ?? "");
    const here = () => (this.at(target) < 0 ? this.at() : this.at(target));
    const there = () => (here() < 0 ? null : this.ctx.rows.get(key)[here() + by]);
    if (!there()) await this.load();
    const next = there();
    if (next) location.hash = `#/e/${encodeURIComponent(next.id)}${tab === "request" ? "" : `?tab=${tab}`}`;
    else say(by < 0 ? "This is the first exchange" : "This is the last exchange");
  }
}

function head(row, up, near, parts) {
  const title = h("h1", null);
  const talk = h("a", { href: up });
  const name = () => {
    title.textContent = near.at() >= 0 ? `Exchange ${near.at() + 1}` : `Exchange ${brief(row.id)}`;
    talk.replaceChildren(near.ctx.nameOf(row.conversation, near.title || undefined));
  };
  name();
  // The number needs another request, but the view does not wait for it.
  if (near.at() < 0) near.load().then(name, () => null);
  const step = (by, label, sign) => h("button", { type: "button", class: "quiet", title: `${label} (${by < 0 ? "[" : "]"})`, "aria-label": label, onclick: () => near.step(by, parts.tab()) }, sign);
  return h("header", { class: "head-of-view" },
    row.conversation ? h("p", { class: "crumbs" }, talk) : null,
    h("div", { class: "title-line" }, title, h("span", { class: "tags" }, tags(row)), h("span", { class: "steps" }, step(-1, "Previous exchange", "‹"), step(1, "Next exchange", "›"))),
    h("p", { class: "dim" }, [clock(row.at_ms), line(row.route ?? ""), wireName(row.wire), line(row.model ?? ""), row.streamed ? "streamed" : null].filter(Boolean).join(" · ")),
    h("p", { class: "links" }, h("span", { class: "dim mono" }, line(row.id)), copyButton(() => row.id, "Copy id"), download("HAR", api.path(["exchanges", row.id, "har"]), `${row.id}.har`), download("Received (raw)", api.path(["exchanges", row.id, "received"]), `${row.id}-received.txt`)));
}

/** Creates a download link. With a token the page must fetch the file itself, because a link cannot carry one. */
function download(label, path, name) {
  const save = async (event) => {
    if (!api.hasToken()) return;
    event.preventDefault();
    try {
      const url = URL.createObjectURL(await api.blob(path));
      h("a", { href: url, download: name }).click();
      setTimeout(() => URL.revokeObjectURL(url), 10_000);
    } catch (error) {
      say(error.message);
    }
  };
  return h("a", { href: path, target: "_blank", rel: "noopener", onclick: save }, label);
}

function summary(said, row) {
  const sent = row.sent_bytes ?? [];
  const last = sent.at(-1);
  const fact = (value, label, title = null) => h("div", { class: "fact", title }, h("b", { class: "num" }, value), h("span", null, label));
  return h("div", { class: "facts" },
    fact(bytes(row.received_bytes), `received, ${plural(row.received_messages ?? 0, "message")}`),
    last === undefined ? null : fact(bytes(sent.reduce((a, b) => a + b, 0)), sent.length > 1 ? `sent in ${sent.length} requests, the last of ${bytes(last)}` : `sent, ${plural(row.sent_messages?.at(-1) ?? 0, "message")}`),
    Math.abs(row.unsent_tokens ?? 0) > 256 ? fact(...unsentFact(row.unsent_tokens)) : null,
    fact(millis(row.first_byte_ms), "to the first byte"),
    fact(millis(row.total_ms), "in total"),
    fact(millis(row.added_ms), "added by baton"));
}

/** Summary of baton's actions in one sentence. The notes have each step. */
function sentence(said, row, prefix) {
  const count = row.sent_bytes?.length ?? 0;
  const given = command(row, prefix);
  if (row.open) return "The response is in progress.";
  if (row.outcome === "refused") return "baton refused this request.";
  if (given && !count) return `baton answered ${given} itself and sent nothing upstream.`;
  const whys = new Set((row.changes ?? []).map((change) => change.why));
  const gone = (said.received?.messages ?? []).filter((it) => it.state === "cut").length;
  const retried = row.retries ? `, after ${plural(row.retries, "retry", "retries")}` : "";
  if (row.fired?.length) return `A handoff took effect: baton stored it, and from there on the model sees the carry-over prompt instead of the history${retried}.`;
  if (row.undo === "undone") return `A handoff was undone, so the model saw the history before it again${retried}.`;
  if (row.pinned) return `The history was cut at its handoff: the carry-over prompt replaced ${plural(gone, "message")}${retried}.`;
  if (row.lost_sentinel) return `The conversation has a handoff, but this transcript has lost its sentinel, so it was sent whole${retried}.`;
  if (whys.has("draft")) return `baton asked the model to write the document of a handoff${retried}.`;
  if (whys.has("tool")) return `baton forwarded the request with its tools added${retried}.`;
  return `baton forwarded the request unchanged${retried}.`;
}

function notes(said, row, prefix) {
  const all = said.notes ?? [];
  const handoffs = said.handoffs ?? [];
  const known = new Set([row.pinned, ...(row.fired ?? [])]);
  const linked = (text) => line(text).replace(/^Leg (\d+):/, "Request $1:").split(UUID).map((part) => (known.has(part) ? handoffLink(part, brief(part)) : part));
  const how = (it) => (row.fired?.includes(it.id) ? "Handed off: " : "Continues from: ");
  const items = [all.map((note) => h("li", null, linked(note))), handoffs.map((it) => h("li", null, how(it), handoffLink(it.id, line(it.reason) || line(it.first_line) || brief(it.id))))];
  return h("section", { class: "notes", "aria-label": "What baton did" },
    h("h2", null, "What baton did"),
    h("p", { class: "sentence" }, line(sentence(said, row, prefix))),
    row.answer?.error ? h("p", { class: "bad", dir: "auto" }, line(row.answer.error)) : null,
    all.length || handoffs.length ? h("details", null, h("summary", null, "Step by step"), h("ul", null, items)) : null,
    row.shadow?.text ? h("details", null, h("summary", null, "What would have been sent"), h("pre", { dir: "auto", tabindex: "0" }, row.shadow.text)) : null);
}

const UUID = /([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})/;

/** Names of the tabs in the address. */
const TABS = ["request", "response", "headers", "usage"];

/** Tab for the side of a search hit. */
const TAB_OF_SIDE = { received: "request", sent: "request", response: "response", shown: "response" };

/** Creates the tabs. The contents of each are made when it is first shown. */
function tabs(said, row, look) {
  const made = [["Request", () => requests(said, row, look)], ["Response", () => response(said, row, look)], ["Headers", () => headers(said)], ["Usage and times", () => usage(said, row)]];
  const panel = h("div", { role: "tabpanel", class: "panel", tabindex: "-1", id: "panel" });
  const panels = new Map();
  const buttons = made.map(([label], at) => h("button", { type: "button", role: "tab", id: `tab-${at}`, "aria-controls": "panel", onclick: () => pick(at) }, label));
  let open = 0;
  const pick = (at, focus = false) => {
    open = at;
    for (const [i, button] of buttons.entries()) {
      button.setAttribute("aria-selected", String(i === at));
      button.tabIndex = i === at ? 0 : -1;
    }
    if (!panels.has(at)) panels.set(at, made[at][1]());
    panel.replaceChildren(panels.get(at));
    panel.setAttribute("aria-labelledby", `tab-${at}`);
    if (focus) buttons[at].focus();
  };
  const key = (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by) pick((buttons.findIndex((b) => b === document.activeElement) + by + buttons.length) % buttons.length, true);
  };
  const wanted = look.back?.tab ?? (look.of === "headers" ? "headers" : (TAB_OF_SIDE[look.side] ?? look.tab));
  // Without a leg there is only a response.
  pick(Math.max(0, TABS.indexOf(wanted ?? ((said.legs ?? []).length ? "request" : "response"))));
  const node = h("section", { class: "tabbed" }, h("div", { role: "tablist", "aria-label": "Parts of the exchange", onkeydown: key }, buttons), panel);
  return { node, tab: () => TABS[open] };
}

/** `request 2 of 3` for a leg. */
function nth(legs, leg) {
  return legs.length > 1 ? `request ${leg.n + 1} of ${legs.at(-1).n + 1}` : "the request";
}

/** Shows a request upstream next to the agent's. Starts with the last one, which contains a handoff's cut, and lists the others. */
function requests(said, row, look) {
  const legs = said.legs ?? [];
  const box = h("div", null);
  if (!legs.length) return put(box, h("p", { class: "dim" }, "Nothing was sent upstream."));
  const about = (leg) => [bytes(row.sent_bytes?.[leg.n]), leg.response?.status ?? "no response", [...new Set((row.changes ?? []).filter((it) => it.leg === leg.n).map((it) => line(it.why).replaceAll("_", " ")))].join(", ")].filter(Boolean).join(" · ");
  const show = (leg) => {
    look.leg = leg.n;
    const choices = legs.map((it) => h("li", null, h("button", { type: "button", class: "quiet", "aria-current": it === leg ? "true" : null, onclick: () => show(it) }, `Request ${it.n + 1}`), h("span", { class: "dim small num" }, ` ${about(it)}`)));
    const others = legs.length > 1 ? h("details", { class: "legs" }, h("summary", null, nth(legs, leg)), h("ol", null, choices)) : null;
    set(box, others, legTab(said, row, leg, look));
  };
  show(legs.find((leg) => leg.n === look.leg) ?? (look.side === "received" ? legs[0] : legs.at(-1)));
  return box;
}

function legTab(said, row, leg, look) {
  const changes = leg.sent?.envelope_changes ?? [];
  const status = leg.response?.status;
  const failed = !row.open && (status ? status >= 400 : leg.ended_ms !== null && leg.ended_ms !== undefined);
  return h("div", null,
    h("p", { class: "leg-line" },
      h("span", { class: "dim" }, leg.n > 0 ? "A later request: baton called the model again within the same response to the agent." : "What the agent sent, next to what was sent to the model."),
      failed ? h("span", { class: "bad" }, status ? `Upstream responded with ${status}.` : "Upstream did not respond.") : null,
      h("span", { class: "links" }, leg.sent?.url ? copyButton(() => curl(row, leg), "Copy as curl") : null, download("Sent (raw)", api.path(["exchanges", row.id, "sent"], { leg: leg.n }), `${row.id}-sent-${leg.n}.txt`))),
    changes.length ? h("ul", { class: "envelope" }, changes.map((it) => h("li", null, h("code", null, line(it.key)), ` ${line(it.what)}`))) : null,
    diff(row.id, said.received ?? {}, leg, look));
}

/** Headers that curl sets itself, and headers with a key. */
const REMADE = new Set(["host", "content-length", "accept-encoding", "connection", "content-encoding", "user-agent"]);
const CREDENTIALS = new Map([["x-api-key", "$ANTHROPIC_API_KEY"], ["authorization", "Bearer $API_KEY"], ["x-goog-api-key", "$GEMINI_API_KEY"], ["api-key", "$API_KEY"]]);

/** Builds a shell command that repeats the request. The body comes from the journal, and credentials are variables. */
function curl(row, leg) {
  const quoted = (text) => `'${String(text).replaceAll("'", "'\\''")}'`;
  const headers = (leg.sent.headers ?? []).filter(([name]) => !REMADE.has(name)).map(([name, value]) => {
    const key = CREDENTIALS.get(name);
    return key ? ` -H "${name}: ${key}"` : ` -H ${quoted(`${name}: ${value}`)}`;
  });
  const query = leg.sent.url.endsWith(":streamGenerateContent") ? "?alt=sse" : "";
  return `baton show ${row.id} --sent --leg ${leg.n + 1} | curl -sS -X ${quoted((row.route ?? "POST").split(" ")[0])} ${quoted(leg.sent.url + query)}${headers.join("")} --data-binary @-`;
}

function response(said, row, look) {
  const legs = said.legs ?? [];
  const shown = h("section", { class: "answer" }, h("h3", null, "Shown to the agent", h("span", { class: "dim num" }, bytes(said.shown?.bytes))), answer(api.path(["exchanges", row.id, "shown"]), said.shown, look, look.textAt("shown", "body")));
  const each = legs.map((leg) => h("section", { class: "answer" },
    h("h3", null, legs.length > 1 ? `Model response to ${nth(legs, leg)}` : "Model response",
      h("span", { class: "dim num" }, [leg.response?.status >= 400 ? leg.response.status : null, bytes(leg.response?.bytes), leg.response?.stop ? line(stopWord(leg.response.stop)) : null].filter(Boolean).join(" · "))),
    answer(api.path(["exchanges", row.id, "response"], { leg: leg.n }), leg.response, look, (look.leg ?? 0) === leg.n ? look.textAt("response", "body") : null)));
  return h("div", { class: "answers" }, h("div", null, each), h("div", null, shown));
}

function stopWord(stop) {
  return typeof stop === "string" ? stop : JSON.stringify(stop);
}

/** Shows a body as readable parts, with the raw body one click away. */
function answer(path, about, look, find) {
  const box = h("div", { class: "answer-body" }, h("p", { class: "dim" }, "Loading…"));
  const load = async () => {
    try {
      const body = await api.text(path);
      const parts = readReply(body);
      const read = (parts ?? []).map((part) => {
        const shown = part.kind === "call" ? readable({ kind: "tool_use", json: { name: part.name, input: part.text } }) : { label: part.kind, text: part.text };
        return h("section", { class: `part ${part.kind === "call" ? "tool_use" : part.kind}` }, h("div", { class: "part-head" }, h("span", null, shown.label), copyButton(() => shown.text)), long(shown.text, null, find));
      });
      // A hit outside the recognised parts is marked in the raw body.
      const rest = read.some((part) => part.querySelector("mark.found")) ? null : find;
      const raw = long(body, null, rest);
      const behind = () => h("details", { open: raw.querySelector("mark.found") !== null }, h("summary", null, "Raw body"), raw);
      if (!body) box.replaceChildren(h("p", { class: "dim" }, "This body was not recorded."));
      else box.replaceChildren(...read, read.length ? behind() : raw);
      look.show(box);
      if (about?.truncated) put(box, h("p", { class: "warn-text" }, "The journal recorded only this part."));
    } catch (error) {
      box.replaceChildren(h("p", { class: "bad" }, error.status === 404 ? "This body was not recorded." : error.message));
    }
  };
  look.loads.push(load());
  return box;
}

function headers(said) {
  const table = (label, list, to = null) => h("section", { class: "header-list" }, h("h3", null, label),
    to ? h("p", { class: "dim mono small" }, line(to)) : null,
    h("dl", { class: "headers" }, (list ?? []).map(([name, value]) => [h("dt", null, line(name)), h("dd", null, line(value))])),
    list?.length ? null : h("p", { class: "dim" }, "No headers were recorded."));
  const legs = said.legs ?? [];
  const of = (leg) => (legs.length > 1 ? `, ${nth(legs, leg)}` : "");
  return h("div", { class: "two" },
    table("From the agent", said.headers?.received), table("To the agent", said.headers?.response),
    legs.map((leg) => [table(`To the model${of(leg)}`, leg.sent?.headers, leg.sent?.url), table(`From the model${of(leg)}`, leg.response?.headers)]));
}

function usage(said, row) {
  const cell = (value) => h("td", { class: "num" }, value);
  const counts = (t) => [t ? allInput(t) : undefined, t?.input, t?.cache_read, t?.cache_write, t?.output].map((n) => cell(n === undefined ? "–" : count(n)));
  const status = (leg) => (row.open && !leg.response?.status ? "–" : h("span", { class: leg.response?.status < 400 ? null : "bad" }, leg.response?.status ?? "no response"));
  const legs = (said.legs ?? []).map((leg) => h("tr", null,
    h("th", { scope: "row" }, `Request ${leg.n + 1}`), h("td", { class: "num" }, status(leg)), cell(bytes(row.sent_bytes?.[leg.n])), counts(row.tokens?.[leg.n]),
    cell(millis(leg.answered_ms)), cell(millis(leg.ended_ms)), h("td", null, leg.response?.stop ? line(stopWord(leg.response.stop)) : "–")));
  const sum = row.tokens_sum && legs.length > 1 ? h("tr", { class: "sum" }, h("th", { scope: "row" }, "Sum"), cell(""), cell(bytes(row.sent_bytes?.reduce((a, b) => a + b, 0))), counts(row.tokens_sum), cell(""), cell(""), h("td", null, "")) : null;
  const names = ["request", "status", "size", "input", "new", "cache read", "cache write", "output", "responded", "ended", "stop reason"];
  const changes = (row.changes ?? []).map((change) => h("li", null, `Request ${change.leg + 1}, ${line(change.why).replaceAll("_", " ")}: `, h("span", { class: "num" }, `${bytes(change.removed)} removed, ${bytes(change.added)} added`)));
  return h("div", null,
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Status, tokens and times of each request" }, h("table", { class: "numbers" }, h("thead", null, h("tr", null, names.map((name) => h("th", { scope: "col" }, name)))), h("tbody", null, legs, sum))),
    h("p", { class: "dim" }, `First byte after ${millis(row.first_byte_ms)}, ${millis(row.total_ms)} in total, ${millis(row.added_ms)} of it in baton. The response to the agent had ${bytes(row.response_bytes)}.${row.unsent_tokens ? ` Net: ${unsent(row.unsent_tokens)}.` : ""}`),
    changes.length ? h("ul", { class: "plain" }, changes) : null);
}
