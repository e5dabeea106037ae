// The left column: conversations, search, and the state of things.

import * as api from "./api.js";
import { h, line } from "./dom.js";
import { ago, brief, bytes, clock, count, plural, short, wireName } from "./words.js";

const MOST = 500;
const PAUSE = 400;
const TYPING = 220;
const HITS = 40;

export class Side {
  constructor({ locked }) {
    this.locked = locked;
    this.list = document.getElementById("list");
    this.input = document.getElementById("search");
    this.foot = document.getElementById("foot");
    this.all = [];
    this.hits = null;
    this.busy = new Map();
    this.input.addEventListener("input", () => this.typed());
    this.input.addEventListener("keydown", (event) => {
      if (event.key === "Escape") (this.input.value = ""), this.typed(), this.input.blur();
      if (event.key === "Enter" || event.key === "ArrowDown") this.list.querySelector("[data-item]")?.focus();
    });
    setInterval(() => document.hidden || this.draw(), 30_000);
  }

  async load() {
    try {
      const [said, status] = await Promise.all([api.json(api.path(["conversations"], { limit: MOST })), api.json("/api/status")]);
      this.all = said.conversations ?? [];
      this.status = status;
      this.problem = null;
    } catch (error) {
      if (error.status === 401) return this.locked();
      this.problem = error.message;
    }
    this.draw();
  }

  /** What a conversation is called, as far as the list knows. */
  titleOf(key) {
    return line(this.all.find((it) => it.key === key)?.title) || brief(key);
  }

  soon() {
    if (this.pause) return;
    this.pause = setTimeout(() => ((this.pause = null), this.load()), PAUSE);
  }

  event(name, data) {
    if (name === "begun" && data.conversation) this.busy.set(data.id, data.conversation), this.draw();
    if (name === "exchange") this.busy.delete(data.id), this.soon();
  }

  here(key) {
    this.key = key;
    for (const link of this.list.querySelectorAll("a[data-key]")) {
      if (link.dataset.key === key) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
  }

  typed() {
    clearTimeout(this.typing);
    this.hits = null;
    this.draw();
    const wanted = this.input.value.trim();
    if (wanted.length >= 2) this.typing = setTimeout(() => this.find(wanted), TYPING);
  }

  async find(wanted) {
    this.searching?.abort();
    this.searching = new AbortController();
    try {
      const said = await api.json(api.path(["search"], { q: wanted, limit: HITS }), { signal: this.searching.signal });
      if (this.input.value.trim() !== wanted) return;
      this.hits = said.hits ?? [];
    } catch (error) {
      if (error.name === "AbortError") return;
      this.hits = [];
    }
    this.draw();
  }

  draw() {
    const wanted = this.input.value.trim().toLowerCase();
    const fits = (it) => [it.title, it.model, it.wire, it.key].some((text) => String(text ?? "").toLowerCase().includes(wanted));
    const shown = wanted ? this.all.filter(fits) : this.all;
    const focused = this.list.contains(document.activeElement) ? document.activeElement.dataset.id : null;
    const top = this.list.scrollTop;
    const busy = new Set(this.busy.values());
    const rows = shown.map((it) => this.row(it, busy.has(it.key)));
    const out = [this.problem ? h("p", { class: "bad pad" }, this.problem) : null, rows];
    if (wanted) {
      if (!shown.length) out.push(h("p", { class: "dim pad" }, "No conversation is called so."));
      out.push(h("h2", { class: "pad" }, this.hits ? plural(this.hits.length, "message") : wanted.length < 2 ? "" : "Searching messages…"));
      out.push((this.hits ?? []).map((hit, at) => this.hit(hit, at, wanted)));
    } else if (!shown.length && !this.problem) {
      out.push(h("p", { class: "dim pad" }, "No conversations yet."));
    }
    this.list.replaceChildren(...out.flat(3).filter(Boolean));
    this.list.scrollTop = top;
    if (focused) this.list.querySelector(`[data-id="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
    this.drawFoot();
  }

  row(it, busy) {
    const small = [wireName(it.wire), line(it.model ?? "")].filter(Boolean).join(" · ");
    return h("a", { class: "talk", href: `#/c/${encodeURIComponent(it.key)}`, "data-item": true, "data-key": it.key, "data-id": `c${it.key}`, "aria-current": it.key === this.key ? "page" : null, title: clock(it.last_ms) },
      h("span", { class: "talk-title", dir: "auto" }, line(it.title) || "Untitled conversation"),
      h("span", { class: "age num" }, busy ? h("span", { class: "pulse", title: "A request is under way" }) : ago(it.last_ms)),
      h("span", { class: "talk-small" }, small),
      h("span", { class: "talk-numbers num" },
        it.handoffs ? h("span", { class: "badge", title: plural(it.handoffs, "handoff") }, count(it.handoffs)) : null,
        it.saved_tokens ? h("span", { title: `about ${count(it.saved_tokens)} tokens saved` }, `−${short(it.saved_tokens)}`) : null));
  }

  hit(it, at, wanted) {
    const text = line(it.snippet);
    const from = text.toLowerCase().indexOf(wanted);
    const marked = from < 0 ? text : [text.slice(0, from), h("mark", null, text.slice(from, from + wanted.length)), text.slice(from + wanted.length)];
    return h("a", { class: "hit", href: `#/e/${encodeURIComponent(it.exchange)}`, "data-item": true, "data-id": `h${at}` }, h("span", { class: "small dim" }, `${line(it.side ?? "")} · ${clock(it.at_ms)}`), h("span", { class: "snippet", dir: "auto" }, marked));
  }

  drawFoot() {
    const it = this.status;
    if (!it) return;
    const journal = it.journal ?? {};
    this.foot.replaceChildren(
      h("span", null, `baton ${it.version ?? ""}`),
      journal.enabled === false ? h("span", { class: "warn-text" }, "journal off") : h("span", { class: "num", title: "Exchanges kept, and what they take on the disk" }, `${plural(journal.exchanges ?? 0, "exchange")} · ${bytes(journal.bytes)}`),
      journal.dropped ? h("span", { class: "warn-text num", title: "Copies dropped because the journal's queue was full" }, `${count(journal.dropped)} dropped`) : "");
  }
}
