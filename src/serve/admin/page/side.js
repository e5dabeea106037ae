// Left column: conversations, search, and status.

import * as api from "./api.js";
import { bothEnds, ends, h, line, patch, say, set } from "./dom.js";
import { ago, brief, bytes, clock, count, plural, short, tokensOf, unsent, wireName } from "./words.js";

const MOST = 500;
const PAUSE = 400;
const TYPING = 220;
const HITS = 40;

/** Whether a string looks like a filter: it has a flag, a field with a value, or a comparison. */
function isFilter(text, flags = "") {
  const terms = [...flags.split(", ").filter(Boolean), "\\w+:\\S+", "\\w+[<>][\\d.]+"];
  return new RegExp(`(^|\\s)!?(${terms.join("|")})(\\s|$)`).test(text);
}

/** Wording for the side of a search hit. */
const SIDES = { received: "from the agent", sent: "to the model", response: "from the model", shown: "to the agent" };

/** Minimum length of a common beginning that is left out, if several titles share it. */
const ALIKE = 16;

/** Maximum overhead without a warning, as a share of the agent's input. */
const SMALL_OVERHEAD = 0.05;

/** Views in the navigation: key, address, and name. */
const VIEWS = [["c", "#/", "Conversations"], ["h", "#/h", "Handoffs"], ["x", "#/x", "Exchanges"], ["s", "#/s", "Savings"], ["f", "#/x?filter=error", "Failures"]];

/** Key of the view that an address belongs to: an exchange belongs to the conversations. */
function viewAt(hash) {
  if (hash === "#/x?filter=error") return "f";
  const kind = /^#\/([a-z])/.exec(hash)?.[1] ?? "c";
  return "ed".includes(kind) ? "c" : kind;
}

/** Name of each conversation by its key: the title in two parts. The second distinguishes titles that begin alike. */
export function names(conversations) {
  const titles = conversations.map((it) => [it.key, line(it.title) || "Untitled conversation"]);
  const sorted = [...titles].sort(([, a], [, b]) => (a < b ? -1 : a > b ? 1 : 0));
  const out = new Map();
  for (const [at, [key, title]] of sorted.entries()) {
    const shared = Math.max(alike(title, sorted[at - 1]?.[1]), alike(title, sorted[at + 1]?.[1]));
    // Start at the beginning of the word.
    const from = shared < title.length ? title.slice(0, shared).search(/\S*$/) : 0;
    out.set(key, from >= ALIKE ? [title.slice(0, from), title.slice(from)] : ends(title));
  }
  return out;
}

function alike(a, b = "") {
  let at = 0;
  while (at < a.length && a[at] === b[at]) at += 1;
  // Equal titles have no distinguishing part.
  return a === b ? 0 : at;
}

export class Side {
  constructor({ locked }) {
    this.locked = locked;
    this.list = document.getElementById("list");
    this.input = document.getElementById("search");
    this.foot = document.getElementById("foot");
    this.places = document.getElementById("places");
    this.legend = document.getElementById("list-key");
    this.fold = document.getElementById("all");
    this.fold.addEventListener("click", () => this.fold.setAttribute("aria-expanded", String(document.body.classList.toggle("list-open"))));
    this.all = [];
    this.hits = null;
    this.busy = new Map();
    this.input.addEventListener("input", () => this.typed());
    this.input.addEventListener("keydown", (event) => {
      if (event.key === "Escape") (this.input.value = ""), this.typed(), this.input.blur();
      const number = event.key === "Enter" && this.jumpTo(this.input.value.trim());
      if (number) return this.jump(number);
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

  /** Title of a conversation if it is in the list, otherwise its key. */
  titleOf(key) {
    return line(this.all.find((it) => it.key === key)?.title) || brief(key);
  }

  /** Name of a conversation with both ends visible. */
  nameOf(key, title = this.titleOf(key)) {
    return bothEnds(this.names?.get(key) ?? ends(title));
  }

  soon() {
    if (this.pause) return;
    this.pause = setTimeout(() => ((this.pause = null), this.load()), PAUSE);
  }

  event(name, data) {
    if (name === "begun" && data.conversation) this.busy.set(data.id, data.conversation), this.draw();
    if (name === "exchange") this.busy.delete(data.id), this.soon();
  }

  /** Marks the current conversation and view. */
  here(key, known = true) {
    this.talk = key;
    this.view = known ? viewAt(location.hash) : null;
    this.drawPlaces();
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
    document.body.classList.toggle("searching", wanted.length > 0);
    if (wanted.length >= 2 && !this.jumpTo(wanted)) this.typing = setTimeout(() => this.find(wanted), TYPING);
  }

  /** Number in `#12`, which names an exchange of the current conversation. */
  jumpTo(wanted) {
    return this.talk ? Number(/^#(\d+)$/.exec(wanted)?.[1] ?? 0) : 0;
  }

  async jump(number) {
    try {
      const said = await api.json(api.path(["conversations", this.talk]));
      const row = said.exchanges?.[number - 1];
      if (!row) return say(`This conversation has ${plural(said.exchanges?.length ?? 0, "exchange")}`);
      this.input.value = "";
      this.typed();
      location.hash = `#/e/${encodeURIComponent(row.id)}`;
    } catch (error) {
      say(error.message);
    }
  }

  async find(wanted) {
    this.searching?.abort();
    this.searching = new AbortController();
    try {
      const said = await api.json(api.path(["search"], { q: wanted, limit: HITS }), { signal: this.searching.signal });
      if (this.input.value.trim() !== wanted) return;
      this.hits = said.hits ?? [];
      this.complete = said.complete !== false;
    } catch (error) {
      if (error.name === "AbortError") return;
      this.hits = [];
    }
    this.draw();
  }

  draw() {
    const wanted = this.input.value.trim().toLowerCase();
    const fits = (it) => [it.title, it.model, it.wire, it.client, it.key].some((text) => String(text ?? "").toLowerCase().includes(wanted));
    const shown = wanted ? this.all.filter(fits) : this.all;
    const busy = new Set(this.busy.values());
    this.names = names(this.all);
    const items = [];
    const says = (key, text, kind = "p", name = "dim pad") => text && items.push({ key, is: text, make: () => h(kind, { class: name }, text) });
    says("problem", this.problem, "p", "bad pad");
    const typed = this.input.value.trim();
    if (this.jumpTo(typed)) says("jump", `Press Enter to open exchange ${typed} of this conversation`);
    else if (isFilter(typed, this.status?.filter_words)) items.push({ key: "filter", is: typed, make: () => h("a", { class: "hit", href: `#/x?filter=${encodeURIComponent(typed)}`, "data-item": true, "data-id": "filter" }, "Exchanges that match ", h("code", null, line(typed))) });
    for (const it of shown) {
      const is = [this.names.get(it.key), it.model, it.wire, it.handoffs, it.failures, it.unsent_tokens, it.key === this.talk, busy.has(it.key) || ago(it.last_ms)].join("\n");
      items.push({ key: `c${it.key}`, is, make: () => this.row(it, busy.has(it.key)) });
    }
    if (wanted) {
      if (!shown.length) says("none", "No matching conversations.");
      const found = this.hits && `${plural(this.hits.length, "match", "matches")}${this.complete ? "" : "; older exchanges were not searched"}`;
      says("hits", found ?? (wanted.length < 2 ? "" : "Searching messages…"), "h2", "pad");
      for (const [at, hit] of (this.hits ?? []).entries()) items.push({ key: `h${at}`, is: JSON.stringify([hit, wanted]), make: () => this.hit(hit, at, wanted) });
    } else if (!shown.length && !this.problem) {
      says("none", "No conversations yet.");
    }
    patch(this.list, items);
    this.drawKey(shown);
    set(this.fold, plural(this.all.length, "conversation"));
    this.drawPlaces();
    this.drawFoot();
  }

  row(it, busy) {
    // A model's name implies its provider.
    const small = line(it.model ?? "") || wireName(it.wire);
    const less = it.unsent_tokens > 0;
    const large = -it.unsent_tokens > SMALL_OVERHEAD * tokensOf(it.received_bytes);
    return h("a", { class: "talk", href: `#/c/${encodeURIComponent(it.key)}`, "data-item": true, "data-key": it.key, "data-id": `c${it.key}`, "aria-current": it.key === this.talk ? "page" : null, title: clock(it.last_ms) },
      h("span", { class: "talk-line" },
        h("span", { class: "talk-title" }, this.nameOf(it.key)),
        h("span", { class: "age num" }, busy ? h("span", { class: "pulse", title: "Request in progress" }) : ago(it.last_ms))),
      h("span", { class: "talk-line" },
        h("span", { class: "talk-small" }, small),
        h("span", { class: "talk-numbers num" },
          it.failures ? h("span", { class: "badge bad-badge", title: plural(it.failures, "failure") }, count(it.failures)) : null,
          it.handoffs ? h("span", { class: "badge", title: plural(it.handoffs, "handoff") }, count(it.handoffs)) : null,
          it.unsent_tokens ? h("span", { class: less ? "less" : large ? "warn-text" : null, title: `${unsent(it.unsent_tokens)}, net` }, `${less ? "−" : "+"}${short(Math.abs(it.unsent_tokens))} tokens`) : null)));
  }

  hit(it, at, wanted) {
    const [before, found, behind] = (it.snippet ?? []).map(line);
    const place = Object.entries({ side: it.side, of: it.of, leg: it.leg, i: it.i, q: wanted }).filter(([, value]) => value !== null && value !== undefined);
    const href = `#/e/${encodeURIComponent(it.exchange)}?${new URLSearchParams(place)}`;
    return h("a", { class: "hit", href, "data-item": true, "data-id": `h${at}` },
      h("span", { class: "hit-title" }, bothEnds(ends(line(it.title) || "Untitled conversation"))),
      h("span", { class: "small dim" }, `${SIDES[it.side] ?? line(it.side ?? "")} · ${clock(it.at_ms)}`),
      h("span", { class: "snippet", dir: "auto" }, before, h("mark", null, found), behind));
  }

  /** Draws the navigation, with counts. */
  drawPlaces() {
    const counts = { h: this.status?.handoffs, f: this.status?.failures };
    patch(this.places, VIEWS.map(([key, href, word]) => {
      const n = counts[key];
      const current = this.view === key ? (/^#\/[cedh]\/./.test(location.hash) ? "true" : "page") : null;
      const make = () => h("a", { href, class: "place", "aria-current": current }, word, n ? h("span", { class: `badge ${key === "f" ? "bad-badge" : ""}` }, count(n)) : null);
      return { key, is: `${n} ${current}`, make };
    }));
  }

  /** Draws the legend of the list's figures. */
  drawKey(shown) {
    const badge = (kind, word) => h("span", null, h("span", { class: `badge ${kind}`, "aria-hidden": "true" }, "n"), ` ${word}`);
    const signs = [
      shown.some((it) => it.handoffs) && badge("", "handoffs"),
      shown.some((it) => it.failures) && badge("bad-badge", "failures"),
      shown.some((it) => it.unsent_tokens > 0) && h("span", null, h("span", { class: "less" }, "−"), " not sent"),
      shown.some((it) => it.unsent_tokens < 0) && h("span", null, "+ added"),
    ];
    set(this.legend, signs);
  }

  drawFoot() {
    const it = this.status;
    if (!it) return;
    const journal = it.journal ?? {};
    this.foot.replaceChildren(
      h("span", null, `baton ${it.version ?? ""}`),
      journal.enabled === false ? h("span", { class: "warn-text" }, "journal off") : h("span", { class: "num", title: "Recorded exchanges and their size on disk" }, `${plural(journal.exchanges ?? 0, "exchange")} · ${bytes(journal.bytes)}`),
      it.store === "redis" ? h("span", { title: "The replica that this page shows. Each has its own journal" }, line(it.instance ?? "")) : "",
      journal.dropped ? h("span", { class: "warn-text num", title: "Copies dropped because the journal's queue was full" }, `${count(journal.dropped)} dropped`) : "");
  }
}
