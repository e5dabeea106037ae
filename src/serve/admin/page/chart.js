// Chart of a conversation's context size, request by request: the agent's side is a ramp, the model's side a sawtooth
// below it. The table of exchanges has the same values, and the arrow keys move along the chart. It is drawn once and then
// patched: a new request moves the lines, but does not take the focus or the tip away.

import { h, patch, put, s } from "./dom.js";
import { allInput, brief, bytes, clock, plural, short, unsent } from "./words.js";

const HEIGHT = 260;
const PAD = { left: 64, right: 16, top: 30, bottom: 26 };
/** Minimum distance in pixels between handoff numbers. A closer handoff has only its line. */
const APART = 22;
/** Estimated bytes per token, if no request has the provider's count. */
const BYTES_PER_TOKEN = 4;
/** Minimum number of points after zooming. */
const LEAST = 8;

/** Units of the chart: the values of a point, their wording, and the base of the axis. */
const UNITS = {
  bytes: { of: (point) => point, word: bytes, base: 1024 },
  tokens: { of: (point) => point.tokens, word: (n) => `${short(Math.round(n))} tokens`, base: 1000 },
};

/** Reasons for a missing tool that mark a side call. */
const BESIDE = new Set(["no_client_tools", "summary", "count_probe", "structured_output", "small_output", "tool_choice", "many_choices"]);

const isLoop = (row) => row.tooled || row.pinned;
const isCount = (row) => /count_?tokens$/i.test(row.route ?? "");

/** Ids of the agent's side calls among the rows: token counts, and titles and summaries if other requests have the tool. */
export function sideCalls(rows) {
  const mixed = rows.some((row) => isLoop(row) && !isCount(row));
  return new Set(rows.filter((row) => isCount(row) || (mixed && !isLoop(row) && BESIDE.has(row.untooled))).map((row) => row.id));
}

/**
 * Points of a chart: one for each exchange that carries a context, with the sum of tokens not sent so far. Side calls
 * are left out, and so are exchanges with neither tool nor cut between those that have one: they would notch the line.
 * A handoff of an exchange that is left out, as of a command, belongs to the next point.
 */
export function points(rows) {
  let unsent = 0;
  let fixed = 0;
  let fired = [];
  const out = [];
  const mixed = rows.some(isLoop);
  for (const [at, row] of rows.entries()) {
    const sent = row.sent_bytes ?? [];
    unsent += row.unsent_tokens ?? 0;
    fired.push(...(row.fired ?? []));
    if (!sent.length || !row.received_bytes || isCount(row) || (mixed && !isLoop(row))) continue;
    // A row that was dropped in part lacks this size: the previous one applies.
    fixed = row.fixed_bytes || fixed;
    const point = { row, n: at + 1, received: row.received_bytes, sent, fixed, unsent, fired };
    out.push({ ...point, tokens: inTokens(point) });
    fired = [];
  }
  out.at(-1)?.fired.push(...fired);
  return out;
}

/** Sizes in tokens: the provider's count for the sent side, and an estimate at the same ratio for the received side. */
function inTokens({ row, received, sent, fixed }) {
  const counted = sent.map((_, leg) => (row.tokens?.[leg] ? allInput(row.tokens[leg]) : null));
  const known = sent.reduce((sum, size, leg) => (counted[leg] ? { bytes: sum.bytes + size, tokens: sum.tokens + counted[leg] } : sum), { bytes: 0, tokens: 0 });
  const ratio = known.tokens ? known.bytes / known.tokens : BYTES_PER_TOKEN;
  return { received: received / ratio, fixed: fixed / ratio, sent: sent.map((size, leg) => counted[leg] ?? size / ratio) };
}

/** Small chart of a conversation's newest exchanges without axes: lines, handoffs, and the last sizes as text. */
export function sketch(rows) {
  const all = points(rows);
  if (all.length < 2) return null;
  const last = all.at(-1);
  const most = Math.max(...all.flatMap((point) => [point.received, ...point.sent]));
  const line = (of) => all.flatMap((point, at) => [of(point)].flat().map((size) => `${((1000 * at) / (all.length - 1)).toFixed(1)},${(100 - (96 * size) / most).toFixed(1)}`)).join(" ");
  const [ramp, saw] = [line((point) => point.received), line((point) => point.sent)];
  const floor = (line) => `0,100 ${line} 1000,100`;
  const shape = (tag, name, points) => s(tag, { class: name, points });
  const fired = all.flatMap((point, at) => (point.fired.length ? [(1000 * at) / (all.length - 1)] : []));
  return [
    h("span", { class: "legend" },
      h("span", { class: "key ramp" }, "The agent sends ", h("b", { class: "num" }, bytes(last.received))),
      h("span", { class: "key saw" }, "The model sees ", h("b", { class: "num" }, bytes(last.sent.at(-1))))),
    s("svg", { class: "sketch", viewBox: "0 0 1000 100", preserveAspectRatio: "none", "aria-hidden": "true" },
      shape("polygon", "ramp-area", floor(ramp)), shape("polygon", "saw-area", floor(saw)),
      fired.map((x) => s("line", { class: "fired", x1: x, x2: x, y1: 0, y2: 100 })),
      shape("polyline", "ramp-line", ramp), shape("polyline", "saw-line", saw)),
  ];
}

export class Chart {
  constructor({ open }) {
    this.open = open;
    /** Id of the exchange under the pointer. */
    this.at = null;
    this.points = [];
    this.handoffs = [];
    this.limits = {};
    this.unit = "bytes";
    this.alone = false;
    /** Numbers of the first and the last point that are drawn. Null for all. */
    this.range = null;
    this.all = [];
    this.tip = h("div", { class: "tip", hidden: true });
    this.said = h("p", { class: "only-read", "aria-live": "polite" });
    this.axes = s("g", null);
    this.lines = ["ramp-area", "saw-area", "fixed-area"].map((name) => s("polygon", { class: name }));
    this.lines.push(...["ramp-line", "saw-line"].map((name) => s("polyline", { class: name })));
    this.marked = s("g", null);
    this.levels = s("g", null);
    this.picked = s("rect", { class: "picked", y: PAD.top, height: HEIGHT - PAD.top - PAD.bottom, visibility: "hidden" });
    this.cursor = s("g", { class: "cursor" });
    this.svg = s("svg", { height: HEIGHT, role: "application", "aria-roledescription": "chart", tabindex: 0 }, this.axes, this.lines, this.levels, this.marked, this.picked, this.cursor);
    this.holder = h("div", { class: "chart-holder" }, this.svg);
    this.legend = h("div", { class: "legend" });
    this.tools = this.buttons();
    this.node = h("figure", { class: "chart" }, h("div", { class: "chart-head" }, this.legend, this.tools), h("div", { class: "chart-box" }, this.holder, this.tip), this.said);
    this.svg.addEventListener("pointerdown", (event) => event.button === 0 && (this.from = this.nearest(event)));
    this.svg.addEventListener("pointerup", (event) => this.dragged(this.nearest(event)));
    this.svg.addEventListener("pointermove", (event) => (this.drag(event), this.pick(this.nearest(event))));
    this.svg.addEventListener("pointerleave", () => (this.drag(null), this.pick(null)));
    this.svg.addEventListener("blur", () => this.pick(null));
    this.svg.addEventListener("click", (event) => event.target.closest("a") || this.wasDragged || this.open(this.points[this.nearest(event)].row));
    this.svg.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.holder);
  }

  show(rows, handoffs, limits = {}) {
    this.all = points(rows);
    this.beside = rows.filter((row) => row.sent_bytes?.length).length - this.all.length;
    this.handoffs = handoffs;
    this.limits = limits ?? {};
    this.draw();
  }

  /** Buttons for the units, for the model's side only, and for the zoom. */
  buttons() {
    const button = (label, title, act) => h("button", { type: "button", class: "copy", title, onclick: () => (act(), this.draw()) }, label);
    const pressed = (node, is) => node.setAttribute("aria-pressed", String(is));
    const units = Object.keys(UNITS).map((unit) => button(unit, unit === "tokens" ? "As the provider counts them; the agent's side is estimated" : "Sizes of the requests", () => (this.unit = unit)));
    const alone = button("model only", "Show only what the model sees", () => (this.alone = !this.alone));
    const zoom = [button("+", "Zoom in to the newest (+)", () => this.zoom(0.5)), button("−", "Zoom out (−)", () => this.zoom(2)), button("all", "All requests (0)", () => (this.range = null))];
    this.press = () => {
      for (const [at, node] of units.entries()) pressed(node, Object.keys(UNITS)[at] === this.unit);
      pressed(alone, this.alone);
      pressed(zoom[2], !this.range);
    };
    return h("div", { class: "ways", role: "group", "aria-label": "Chart options" }, units, alone, zoom);
  }

  /** Zooms by a factor, and keeps the last point that is drawn. */
  zoom(by) {
    const [from, to] = this.range ?? [this.all[0]?.n, this.all.at(-1)?.n];
    const here = this.all.filter((point) => point.n >= from && point.n <= to).length;
    const most = Math.round(Math.max(LEAST, here * by));
    const last = this.all.findLastIndex((point) => point.n <= to);
    const first = Math.max(0, last - most + 1);
    this.range = first === 0 && last === this.all.length - 1 ? null : [this.all[first].n, this.all[last].n];
  }

  /** Marks the range that a drag over the chart selects. */
  drag(event) {
    if (!event) this.from = null;
    const from = this.from ?? null;
    const to = event && from !== null ? this.nearest(event) : null;
    const wide = to !== null && Math.abs(to - from) > 0;
    this.picked.setAttribute("visibility", wide ? "visible" : "hidden");
    if (!wide) return;
    const [a, b] = [this.x(Math.min(from, to)), this.x(Math.max(from, to))];
    this.picked.setAttribute("x", a);
    this.picked.setAttribute("width", b - a);
  }

  dragged(to) {
    const from = this.from ?? to;
    this.drag(null);
    this.wasDragged = Math.abs(to - from) >= 2;
    if (!this.wasDragged) return;
    this.range = [this.points[Math.min(from, to)].n, this.points[Math.max(from, to)].n];
    this.draw();
    // The click that ends a drag must not open an exchange.
    setTimeout(() => (this.wasDragged = false));
  }

  draw() {
    const [from, to] = this.range ?? [0, Infinity];
    const inside = this.all.filter((point) => point.n >= from && point.n <= to);
    this.points = inside.length < 2 ? this.all : inside;
    // Before measuring, because a hidden element has no width.
    this.node.hidden = this.points.length < 2;
    const width = Math.floor(this.holder.clientWidth);
    if (!width || this.node.hidden) return;
    this.press();
    this.now = UNITS[this.unit];
    const value = this.now.of;
    let most = 1;
    for (const point of this.points) most = Math.max(most, this.alone ? 0 : value(point).received, ...value(point).sent);
    const span = Math.max(1, this.points.length - 1);
    this.x = (at) => PAD.left + (at / span) * (width - PAD.left - PAD.right);
    this.y = (value) => HEIGHT - PAD.bottom - (value / most) * (HEIGHT - PAD.top - PAD.bottom);
    const last = this.points.at(-1);
    const [ramp, saw] = [this.now.word(value(last).received), this.now.word(value(last).sent.at(-1))];
    const label = `Context size over ${plural(this.points.length, "request")}. In the last one the agent sent ${ramp} and the model received ${saw}. In total ${unsent(last.unsent)}. Arrow keys read the values; the table below lists them all.`;
    for (const [name, value] of Object.entries({ viewBox: `0 0 ${width} ${HEIGHT}`, width, "aria-label": label })) this.svg.setAttribute(name, value);
    this.grid(most, width);
    this.areas();
    this.limitLines(most, width);
    this.marks();
    const fired = this.points.reduce((sum, point) => sum + point.fired.length, 0);
    patch(this.legend, [
      !this.alone && { key: "ramp", is: ramp, make: () => h("span", { class: "key ramp" }, "The agent sends ", h("b", { class: "num" }, ramp)) },
      { key: "saw", is: saw, make: () => h("span", { class: "key saw" }, "The model sees ", h("b", { class: "num" }, saw)) },
      last.fixed && { key: "fixed", is: this.now.word(value(last).fixed), make: () => h("span", { class: "key fixed", title: "Sent with every request, before the first message; a handoff does not reduce it" }, "including system prompt and tools ", h("b", { class: "num" }, this.now.word(value(last).fixed))) },
      fired && { key: "mark", is: fired, make: () => h("span", { class: "key mark" }, plural(fired, "handoff")) },
      this.beside && { key: "beside", is: this.beside, make: () => h("span", { title: "Requests outside the conversation, such as titles and token counts" }, `${plural(this.beside, "side call")} not shown`) },
    ].filter(Boolean));
    // The exchange under the pointer stays selected, wherever it is drawn now.
    const at = this.points.findIndex((point) => point.row.id === this.at);
    this.pick(at < 0 ? null : at);
  }

  grid(most, width) {
    const step = roundStep(most, this.now.base);
    const items = [];
    for (let value = 0; value <= most; value += step) {
      const y = this.y(value);
      const make = () => s("g", null, s("line", { class: "axis", x1: PAD.left, x2: width - PAD.right, y1: y, y2: y }), s("text", { x: PAD.left - 10, y: y + 4, "text-anchor": "end" }, this.now.word(value).replace(" tokens", "")));
      items.push({ key: value, is: `${y} ${width} ${this.unit}`, make });
    }
    const [first, last] = [this.points[0].n, this.points.at(-1).n];
    items.push({ key: "first", is: first, make: () => s("text", { x: PAD.left, y: HEIGHT - 6 }, `request ${first}`) });
    items.push({ key: "last", is: `${last} ${width}`, make: () => s("text", { x: width - PAD.right, y: HEIGHT - 6, "text-anchor": "end" }, last) });
    patch(this.axes, items);
  }

  areas() {
    const at = (x, value) => `${this.x(x).toFixed(1)},${this.y(value).toFixed(1)}`;
    const value = this.now.of;
    const line = (of) => this.points.flatMap((p, i) => [of(value(p))].flat().map((amount) => at(i, amount))).join(" ");
    const ramp = this.alone ? "" : line((p) => p.received);
    // Legs of one exchange have the same position, so a handoff is a vertical fall.
    const saw = line((p) => p.sent);
    const fixed = line((p) => Math.min(p.fixed, p.sent.at(-1)));
    const floor = (line) => line && `${at(0, 0)} ${line} ${at(this.points.length - 1, 0)}`;
    for (const [at, line] of [floor(ramp), floor(saw), floor(fixed), ramp, saw].entries()) this.lines[at].setAttribute("points", line);
  }

  /** Draws lines at the model's window and at the nudge, if the unit is tokens and they are in range. */
  limitLines(most, width) {
    const levels = [["window", this.limits.window_tokens], ["nudge", this.limits.nudge_tokens]].filter(([, tokens]) => this.unit === "tokens" && tokens && tokens <= most);
    patch(this.levels, levels.map(([name, tokens]) => {
      const y = this.y(tokens);
      return { key: name, is: `${y} ${width}`, make: () => s("g", { class: `level ${name}` }, s("line", { x1: PAD.left, x2: width - PAD.right, y1: y, y2: y }), s("text", { x: PAD.left + 4, y: y - 4 }, `${name}, ${short(tokens)} tokens`)) };
    }));
  }

  marks() {
    let last = -Infinity;
    const number = new Map(this.handoffs.map((handoff, at) => [handoff.id, at + 1]));
    const items = this.points.flatMap((point, at) => point.fired.map((id) => {
      const x = this.x(at);
      const roomy = x - last >= APART;
      if (roomy) last = x;
      const n = number.get(id);
      const label = `Handoff ${n ?? brief(id)}`;
      const make = () => s("a", { href: `#/h/${encodeURIComponent(id)}`, class: "handoff-mark", "aria-label": label },
        s("line", { x1: x, x2: x, y1: PAD.top - 4, y2: HEIGHT - PAD.bottom }),
        roomy ? [s("circle", { cx: x, cy: PAD.top - 14, r: 9.5 }), s("text", { x, y: PAD.top - 10, "text-anchor": "middle", "aria-hidden": "true" }, n ?? "·")] : null);
      return { key: id, is: `${x} ${n} ${roomy}`, make };
    }));
    patch(this.marked, items);
  }

  nearest(event) {
    const box = this.holder.getBoundingClientRect();
    const share = (event.clientX - box.left - PAD.left) / (box.width - PAD.left - PAD.right);
    return Math.min(this.points.length - 1, Math.max(0, Math.round(share * (this.points.length - 1))));
  }

  key(event) {
    const last = this.points.length - 1;
    const at = this.points.findIndex((point) => point.row.id === this.at);
    const from = at >= 0 ? at : (event.key === "ArrowLeft" ? last + 1 : -1);
    const to = { ArrowLeft: from - 1, ArrowRight: from + 1, Home: 0, End: last }[event.key];
    const zoom = { "+": 0.5, "-": 2, 0: Infinity }[event.key];
    if (zoom && !event.ctrlKey && !event.metaKey) return zoom === Infinity ? (this.range = null) : this.zoom(zoom), this.draw();
    if (event.key === "Enter" && at >= 0) return this.open(this.points[at].row);
    if (to === undefined) return;
    event.preventDefault();
    this.pick(Math.min(last, Math.max(0, to)), true);
  }

  pick(at, aloud = false) {
    this.at = at === null ? null : this.points[at].row.id;
    this.tip.hidden = at === null;
    this.cursor.replaceChildren();
    if (at === null) return;
    const point = this.points[at];
    const x = this.x(at);
    put(this.cursor, [
      s("line", { x1: x, x2: x, y1: PAD.top, y2: HEIGHT - PAD.bottom }),
      this.alone ? null : s("circle", { class: "on-ramp", cx: x, cy: this.y(this.now.of(point).received), r: 3.5 }),
      this.now.of(point).sent.map((value) => s("circle", { class: "on-saw", cx: x, cy: this.y(value), r: 3.5 })),
    ]);
    const lines = [
      ["agent sent", `${this.now.word(this.now.of(point).received)} · ${plural(point.row.received_messages ?? 0, "message")}`],
      ...this.now.of(point).sent.map((value, leg) => [point.sent.length > 1 ? `model saw, request ${leg + 1} of ${point.sent.length}` : "model saw", `${this.now.word(value)} · ${plural(point.row.sent_messages?.[leg] ?? 0, "message")}`]),
      ["so far", unsent(point.unsent)],
    ];
    const title = `Request ${point.n}${point.fired.length ? " · handoff" : ""}`;
    patch(this.tip, [
      { key: "title", is: title, make: () => h("p", null, h("b", null, title), h("span", { class: "dim" }, clock(point.row.at_ms))) },
      { key: "lines", is: JSON.stringify(lines), make: () => h("dl", null, lines.map(([name, value]) => [h("dt", null, name), h("dd", { class: "num" }, value)])) },
    ]);
    const room = this.holder.clientWidth;
    const wide = this.tip.offsetWidth;
    const left = x + 14 + wide > room ? x - 14 - wide : x + 14;
    this.tip.style.left = `${Math.min(Math.max(0, left), Math.max(0, room - wide))}px`;
    if (aloud) this.said.textContent = `${title}: ${lines.map((pair) => pair.join(" ")).join(", ")}`;
  }
}

/** Returns a round step such that at most five of them reach `most`. */
function roundStep(most, base) {
  for (let decade = base; ; decade *= 10) {
    const step = [1, 2, 5].map((n) => n * decade).find((n) => n * 5 >= most);
    if (step) return step;
  }
}
