// Where nothing is chosen: how to point an agent here, and what there is.

import * as api from "./api.js";
import { copyButton, facts, h, patch, set } from "./dom.js";
import { found } from "./exchanges.js";
import { card } from "./handoff.js";
import { ago, bytes, count, percent, unsentFact } from "./words.js";

/** Handoffs that the first view shows. */
const LATEST = 6;
const FAILURES = 5;

export async function home(ctx) {
  const node = h("div", { class: "view" });
  const load = async () => {
    const options = { signal: ctx.signal };
    const [status, latest, failed] = await Promise.all([
      api.json("/api/status", options),
      api.json(api.path(["handoffs"], { limit: LATEST }), options),
      api.json(api.path(["exchanges"], { filter: "error", limit: FAILURES }), options),
    ]);
    draw(node, { status, latest: latest.handoffs ?? [], failed: failed.exchanges ?? [], ctx });
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

function draw(node, { status, latest, failed, ctx }) {
  const off = status.journal?.enabled === false;
  if (!status.conversations && !status.journal?.exchanges) {
    set(node,
      h("header", { class: "head-of-view" }, h("h1", null, "Nothing has come by yet"),
        h("p", { class: "lead" }, "Point an agent here. Keys and subscriptions stay where they are; what it sends appears on this page as it happens.")),
      off ? journalOff() : null, recipes(status));
    return;
  }
  if (!node.querySelector(".facts")) {
    set(node,
      h("header", { class: "head-of-view" }, h("h1", null, "What the models really saw")),
      h("div", { class: "facts" }),
      off ? journalOff() : null,
      h("section", { class: "failures" }, h("h2", null, h("a", { href: "#/x?filter=error" }, "Failures"), " ", h("span", { class: "num" })), h("div", { class: "found-list" })),
      h("section", { class: "latest" }, h("h2", null, "Latest handoffs"), h("div", { class: "cards" })),
      h("details", { class: "point-here" }, h("summary", null, "Point another agent here"), recipes(status)));
  }
  // The server's sums over all conversations: a list is never all of them.
  facts(node.querySelector(".facts"), [
    [count(status.conversations), status.conversations === 1 ? "conversation" : "conversations"],
    [count(status.handoffs), status.handoffs === 1 ? "handoff" : "handoffs"],
    [bytes(status.received_bytes), "sent by agents"],
    [bytes(status.sent_bytes), `went on (${percent(status.sent_bytes, status.received_bytes)})`],
    unsentFact(status.unsent_tokens ?? 0),
  ]);
  const failures = node.querySelector(".failures");
  failures.hidden = !failed.length;
  set(failures.querySelector("h2 .num"), count(status.failures));
  patch(failures.querySelector(".found-list"), failed.map((row) => ({ key: row.id, is: "", make: () => found(row, ctx) })));
  node.querySelector(".latest").hidden = !latest.length;
  patch(node.querySelector(".cards"), latest.map((it) => ({ key: it.id, is: `${ago(it.at_ms)} ${it.archived}`, make: () => card(it) })));
}

function journalOff() {
  return h("p", { class: "banner warn" }, "The journal is off (journal.enabled = false): exchanges are not kept, and this page stays empty.");
}

/** The data listener as an agent on this machine, or on the network, names it. */
export function baseUrl(listener) {
  const named = String(listener || "127.0.0.1:8787");
  const url = named.includes("://") ? named : `http://${named}`;
  const here = location.hostname.includes(":") ? `[${location.hostname.replace(/[[\]]/g, "")}]` : location.hostname;
  return url.replace(/\/+$/, "").replace(/\/\/(0\.0\.0\.0|\[::\])(?=:|$)/, `//${here}`);
}

function recipes(status) {
  if (status.read_only) return h("p", { class: "dim" }, "No proxy is running: ", h("code", null, "baton serve"), " starts one, ", h("code", null, "baton run claude"), " starts one with an agent.");
  const url = baseUrl(status.data_listener);
  const line = (who, text) => h("div", { class: "recipe" }, h("h3", null, who), h("div", { class: "copy-line" }, h("code", null, text), copyButton(() => text)));
  return h("section", { class: "recipes" },
    line("Claude Code, and what speaks Anthropic Messages", `ANTHROPIC_BASE_URL=${url} claude`),
    line("What speaks to OpenAI", `OPENAI_BASE_URL=${url}/v1`),
    line("Codex", `codex -c 'openai_base_url="${url}/v1"'`),
    line("gemini-cli", `GOOGLE_GEMINI_BASE_URL=${url} gemini`));
}
