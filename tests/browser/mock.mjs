// The page with canned API responses. Served by a running program if its address is given, so that its headers are tested,
// and otherwise from the source tree, for work on the page: `node mock.mjs [empty] [PORT]`.

import { readFileSync } from "node:fs";
import http from "node:http";
import { fileURLToPath } from "node:url";
import { ENVELOPE, tell } from "./story.mjs";

const PAGE = fileURLToPath(new URL("../../src/serve/admin/page/", import.meta.url));
const TYPES = { js: "text/javascript", css: "text/css", html: "text/html; charset=utf-8" };
const POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

export class Mock {
  stories = [];
  listeners = new Set();
  token = null;
  down = false;
  asked = [];
  /** Requests that changed something: method, path, and body. */
  said = [];
  /** Drafts by id, as `{ draft, document }`. The first one belongs to its conversation. */
  drafts = new Map();
  prefix = "::";
  /** Parts of every response in progress. */
  live = [];
  limits = { window_tokens: 200_000, nudge_tokens: 120_000 };
  /** Exchanges without a conversation. */
  strays = [];
  /** Fields of the status that are not computed from the stories. */
  status = {};

  constructor({ admin = process.env.BATON_ADMIN } = {}) {
    this.admin = admin;
    this.server = http.createServer((request, response) => this.answer(request, response).catch((error) => response.writeHead(500).end(String(error))));
  }

  async start(port = 0) {
    await new Promise((ready) => this.server.listen(port, "127.0.0.1", ready));
    this.url = `http://127.0.0.1:${this.server.address().port}`;
    return this;
  }

  stop() {
    for (const listener of this.listeners) listener.destroy();
    this.server.closeAllConnections();
    this.server.close();
  }

  /** Sends an event to every page that listens. */
  tell(event, data) {
    for (const listener of this.listeners) listener.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
  }

  /** Closes every event stream, like a proxy that restarts. */
  hangUp() {
    for (const listener of this.listeners) listener.destroy();
    this.listeners.clear();
  }

  async answer(request, response) {
    // The proxy is down, but the page has already been loaded.
    if (this.down && request.url.startsWith("/api/")) return response.destroy();
    const url = new URL(request.url, "http://mock");
    if (!url.pathname.startsWith("/api/")) return this.page(url, response);
    this.asked.push(url.pathname + url.search);
    if (this.token && request.headers.authorization !== `Bearer ${this.token}`) return json(response, 401, { error: { code: "token", message: "present admin.token" } });
    if (url.pathname === "/api/events") return this.events(response);
    if (request.method !== "GET") return this.change(request, url, response);
    const found = this.find(url.pathname.slice(5).split("/").map(decodeURIComponent), url.searchParams);
    if (typeof found === "string") return response.writeHead(200, { "content-type": "text/plain; charset=utf-8" }).end(found);
    if (found?.error) return json(response, 400, found);
    return found ? json(response, 200, found) : json(response, 404, { error: { code: "not_found", message: "the journal has no such thing" } });
  }

  async page(url, response) {
    if (this.admin) {
      const answer = await fetch(new URL(url.pathname, this.admin));
      const headers = Object.fromEntries([...answer.headers].filter(([name]) => !["content-length", "transfer-encoding", "connection"].includes(name)));
      return response.writeHead(answer.status, headers).end(Buffer.from(await answer.arrayBuffer()));
    }
    const name = url.pathname === "/" ? "index.html" : url.pathname.replace(/^\/assets\/dev\//, "");
    if (!/^[a-z]+\.(js|css|html)$/.test(name)) return response.writeHead(404).end();
    const content = readFileSync(PAGE + name, "utf8").replaceAll("{hash}", "dev");
    response.writeHead(200, { "content-type": TYPES[name.split(".")[1]], "content-security-policy": POLICY, "cache-control": "no-store" }).end(content);
  }

  events(response) {
    response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" });
    response.write(": hello\n\n");
    this.listeners.add(response);
    response.on("close", () => this.listeners.delete(response));
  }

  /** Accepts or rejects a draft. */
  async change(request, url, response) {
    let body = "";
    for await (const piece of request) body += piece;
    this.said.push([request.method, url.pathname, body && JSON.parse(body)]);
    const [, , , id, what] = url.pathname.split("/");
    const it = this.drafts.get(id);
    if (!it) return json(response, 404, { error: { code: "not_found", message: "there is no such draft" } });
    it.draft.state = { accept: "accepted", reject: "rejected" }[what] ?? "cancelled";
    return json(response, 200, it);
  }

  find([what, id, more], query) {
    const handoffs = this.stories.flatMap((story) => story.handoffs).sort((a, b) => b.at_ms - a.at_ms);
    const short = ({ prompt, lineage, ...rest }) => rest;
    if (what === "status") {
      const rows = this.stories.reduce((sum, story) => sum + story.rows.length, 0);
      return { version: "0.1.0", uptime_s: 3600, store: "sqlite", journal: { enabled: true, exchanges: rows, bytes: rows * 31_000, dropped: 0 }, data_listener: "127.0.0.1:8787", conversations: this.stories.length, handoffs: handoffs.length, failures: this.rows().filter(failed).length, command_prefix: this.prefix, filter_words: "error, command", ...this.totals(), ...this.status };
    }
    if (what === "conversations" && !id) return { conversations: this.stories.map((story) => story.conversation).sort((a, b) => b.last_ms - a.last_ms).slice(0, Number(query.get("limit")) || 100) };
    if (what === "conversations") {
      const story = this.stories.find((it) => it.conversation.key === id);
      const draft = [...this.drafts.values()].map((it) => it.draft).find((it) => it.conversation === id);
      return story && { conversation: story.conversation, limits: this.limits, exchanges: story.rows, handoffs: story.handoffs.map(short), draft: draft ?? null, active: story.handoffs.at(-1)?.id ?? null };
    }
    if (what === "handoffs" && !id) return { handoffs: handoffs.slice(0, Number(query.get("limit") ?? 100)).map(short), omissions: this.omissions };
    if (what === "handoffs") {
      const handoff = handoffs.find((it) => it.id === id);
      return handoff && { handoff };
    }
    if (what === "drafts") return id ? this.drafts.get(id) : { drafts: [...this.drafts.values()].map((it) => it.draft) };
    if (what === "search") return { hits: this.search(query.get("q").toLowerCase()), complete: true };
    if (what === "savings") return this.bill && this.savings(query);
    if (what === "exchanges" && !id) return this.filtered(query);
    const story = this.stories.find((it) => it.details.has(id));
    if (what !== "exchanges" || !story) return null;
    return this.exchange(story, id, more, query);
  }

  rows() {
    return [...this.stories.flatMap((story) => story.rows), ...this.strays].sort((a, b) => b.at_ms - a.at_ms);
  }

  /** Supports only `error` of the filter language. `toll:` is a field that the server rejects. */
  filtered(query) {
    const filter = query.get("filter") ?? "";
    const at = filter.indexOf("toll:");
    if (at >= 0) return { error: { code: "bad_filter", position: at + 1, message: '"toll" is not a field; there are tool, model' } };
    const of = query.get("conversation");
    const rows = this.rows().filter((row) => !of || row.conversation === of).filter((row) => !/\berror\b/.test(filter) || failed(row));
    return { exchanges: rows.slice(0, Number(query.get("limit") ?? 100)) };
  }

  /** Items that models leave out of their prompts. */
  omissions = {};

  /** Whether there are prices. */
  bill = true;

  /** Costs in proportion to output, with a loss in the second group. */
  savings(query) {
    const [by, only] = [query.get("by"), query.get("conversation")];
    const groups = new Map();
    for (const row of this.rows().filter((row) => row.tokens_sum && (!only || row.conversation === only))) {
      const key = { day: new Date(row.at_ms).toISOString().slice(0, 10), model: row.model, conversation: row.conversation }[by];
      groups.set(key, [...(groups.get(key) ?? []), row]);
    }
    const of = (rows, at) => {
      const sum = (part) => rows.reduce((total, row) => total + row.tokens_sum[part], 0);
      const cost = sum("output") / 1000;
      return { exchanges: rows.length, unpriced: 0, subscription: 0, compacted: 1, tokens: { input: sum("input"), cache_read: sum("cache_read"), cache_write: sum("cache_write"), cache_write_long: 0, output: sum("output") }, cost, without_cost: cost * (at === 1 ? 0.5 : 2), saved: cost * (at === 1 ? -0.5 : 1), saved_error: cost / 10 };
    };
    const all = [...groups.values()].flat();
    return { prices: { source: "genai-prices", date: "2026-11-20" }, unpriced_models: [], total: { key: "", ...of(all, 0) }, groups: [...groups].map(([key, rows], at) => ({ key, ...of(rows, at) })) };
  }

  /** The server's sums over all conversations. */
  totals() {
    const sum = (key) => this.stories.reduce((total, story) => total + story.conversation[key], 0);
    return { received_bytes: sum("received_bytes"), sent_bytes: sum("sent_bytes"), unsent_tokens: sum("unsent_tokens") };
  }

  exchange(story, id, more, query) {
    if (more === "live") return { open: story.details.get(id).exchange.open, parts: this.live };
    if (!more) return story.details.get(id);
    const { received, sent } = story.messages.get(id);
    const leg = Number(query.get("leg") ?? 0);
    if (more === "message" && query.get("of") === "envelope") return ENVELOPE[Number(query.get("i"))];
    if (more === "message") return (query.get("side") === "received" ? received : sent[leg])[Number(query.get("i"))];
    if (more === "shown") return story.bodies.get(id).shown;
    if (more === "response") return story.bodies.get(id).response[leg];
    if (more === "har") return { log: { version: "1.2", entries: [] } };
    return JSON.stringify({ messages: more === "received" ? received : sent[leg] }, null, 1);
  }

  /** Searches all texts of agents and responses, each once. */
  search(wanted) {
    const hits = [];
    const hit = (story, row, place, text) => {
      const at = text.toLowerCase().indexOf(wanted);
      if (at >= 0) hits.push({ exchange: row.id, conversation: story.conversation.key, title: story.conversation.title, at_ms: row.at_ms, leg: null, i: null, ...place, snippet: [text.slice(Math.max(0, at - 40), at), text.slice(at, at + wanted.length), text.slice(at + wanted.length).slice(0, 100)] });
    };
    for (const story of this.stories) {
      const seen = new Set();
      for (const row of story.rows) {
        for (const [i, message] of story.messages.get(row.id).received.entries()) {
          const text = message.parts.map((part) => part.text ?? part.json.content ?? "").join("\n");
          if (!seen.has(message)) hit(story, row, { side: "received", of: "messages", i }, text);
          seen.add(message);
        }
      }
    }
    return hits;
  }
}

const failed = (row) => row.status >= 400 || !["complete", "cancelled"].includes(row.outcome);

function json(response, status, value) {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
}

/** Example conversations. */
export function examples() {
  const now = Date.now();
  const minutes = (n) => now - n * 60_000;
  return [
    tell({ at: minutes(40), tasks: 4, turns: 8 }),
    tell({ talk: 2, key: "codex:51b0", title: "Find out why the nightly import is slow, and make it fast", wire: "openai_responses", model: "gpt-5.2-codex", tasks: 3, turns: 5, at: minutes(150) }),
    tell({ talk: 3, key: "gemini:9ac2", title: "Write the operator's guide", wire: "gemini", model: "gemini-3-pro", tasks: 1, turns: 4, at: minutes(60 * 26) }),
    tell({ talk: 4, key: "chat:0d11", title: "Port the tests to the new harness", wire: "openai_chat", model: "qwen3-coder", tasks: 2, turns: 6, at: minutes(60 * 50) }),
  ];
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const mock = new Mock();
  if (!process.argv.includes("empty")) mock.stories = examples();
  await mock.start(Number(process.argv.find((word) => /^\d+$/.test(word)) ?? 0));
  console.log(mock.url);
}
