// The size of a conversation's context, request by request: what the agent sent is a ramp, what went on to the model a
// sawtooth below it. The exchanges' table is its long form; the arrow keys walk along it. It is drawn once and then
// patched: a request that comes moves the lines, and takes away neither the focus nor the tip that is read.

import { h, patch, put, s } from "./dom.js";
import { brief, bytes, clock, plural, unsent } from "./words.js";

const HEIGHT = 260;
const PAD = { left: 64, right: 16, top: 30, bottom: 26 };
/** Marks nearer than this to the one before keep their line and lose their number. */
const APART = 22;

/**
 * Points of a chart: one for each exchange that carries a context; what was not sent so far adds up. Side calls of an agent
 * (a title, a count of tokens) have no tool and no cut, and would only tear notches into the line.
 */
export function points(rows) {
  let unsent = 0;
  const out = [];
  const isLoop = (row) => row.tooled || row.pinned;
  const mixed = rows.some(isLoop);
  for (const [at, row] of rows.entries()) {
    const sent = row.sent_bytes ?? [];
    unsent += row.unsent_tokens ?? 0;
    if (!sent.length || !row.received_bytes || (mixed && !isLoop(row))) continue;
    out.push({ row, n: at + 1, received: row.received_bytes, sent, unsent });
  }
  return out;
}

export class Chart {
  constructor({ open }) {
    this.open = open;
    /** Id of the exchange that is pointed at. */
    this.at = null;
    this.points = [];
    this.handoffs = [];
    this.tip = h("div", { class: "tip", hidden: true });
    this.said = h("p", { class: "only-read", "aria-live": "polite" });
    this.axes = s("g", null);
    this.lines = ["ramp-area", "saw-area"].map((name) => s("polygon", { class: name }));
    this.lines.push(...["ramp-line", "saw-line"].map((name) => s("polyline", { class: name })));
    this.marked = s("g", null);
    this.cursor = s("g", { class: "cursor" });
    this.svg = s("svg", { height: HEIGHT, role: "application", "aria-roledescription": "chart", tabindex: 0 }, this.axes, this.lines, this.marked, this.cursor);
    this.holder = h("div", { class: "chart-holder" }, this.svg);
    this.legend = h("div", { class: "legend" });
    this.node = h("figure", { class: "chart" }, this.legend, h("div", { class: "chart-box" }, this.holder, this.tip), this.said);
    this.svg.addEventListener("pointermove", (event) => this.pick(this.nearest(event)));
    this.svg.addEventListener("pointerleave", () => this.pick(null));
    this.svg.addEventListener("blur", () => this.pick(null));
    this.svg.addEventListener("click", (event) => event.target.closest("a") || this.open(this.points[this.nearest(event)].row));
    this.svg.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.holder);
  }

  show(rows, handoffs) {
    this.points = points(rows);
    this.beside = rows.filter((row) => row.sent_bytes?.length).length - this.points.length;
    this.handoffs = handoffs;
    this.draw();
  }

  draw() {
    // Before it is measured: what is hidden has no width.
    this.node.hidden = this.points.length < 2;
    const width = Math.floor(this.holder.clientWidth);
    if (!width || this.node.hidden) return;
    const most = Math.max(...this.points.map((p) => Math.max(p.received, ...p.sent)), 1);
    const span = Math.max(1, this.points.length - 1);
    this.x = (at) => PAD.left + (at / span) * (width - PAD.left - PAD.right);
    this.y = (value) => HEIGHT - PAD.bottom - (value / most) * (HEIGHT - PAD.top - PAD.bottom);
    const last = this.points.at(-1);
    const label = `Context size over ${plural(this.points.length, "request")}. The agent sent ${bytes(last.received)} with the last one, the model was sent ${bytes(last.sent.at(-1))}; sent on in all: ${unsent(last.unsent)} than received. Arrow keys read the numbers; the table below has them all.`;
    for (const [name, value] of Object.entries({ viewBox: `0 0 ${width} ${HEIGHT}`, width, "aria-label": label })) this.svg.setAttribute(name, value);
    this.grid(most, width);
    this.areas();
    this.marks();
    patch(this.legend, [
      { key: "ramp", is: bytes(last.received), make: () => h("span", { class: "key ramp" }, "The agent sends ", h("b", { class: "num" }, bytes(last.received))) },
      { key: "saw", is: bytes(last.sent.at(-1)), make: () => h("span", { class: "key saw" }, "The model sees ", h("b", { class: "num" }, bytes(last.sent.at(-1)))) },
      this.handoffs.length && { key: "mark", is: this.handoffs.length, make: () => h("span", { class: "key mark" }, plural(this.handoffs.length, "handoff")) },
      this.beside && { key: "beside", is: this.beside, make: () => h("span", null, `${plural(this.beside, "side call")} not drawn`) },
    ].filter(Boolean));
    // What is pointed at stays so, wherever it stands now.
    const at = this.points.findIndex((point) => point.row.id === this.at);
    this.pick(at < 0 ? null : at);
  }

  grid(most, width) {
    const step = roundStep(most);
    const items = [];
    for (let value = 0; value <= most; value += step) {
      const y = this.y(value);
      const make = () => s("g", null, s("line", { class: "axis", x1: PAD.left, x2: width - PAD.right, y1: y, y2: y }), s("text", { x: PAD.left - 10, y: y + 4, "text-anchor": "end" }, bytes(value)));
      items.push({ key: value, is: `${y} ${width}`, make });
    }
    const [first, last] = [this.points[0].n, this.points.at(-1).n];
    items.push({ key: "first", is: first, make: () => s("text", { x: PAD.left, y: HEIGHT - 6 }, `request ${first}`) });
    items.push({ key: "last", is: `${last} ${width}`, make: () => s("text", { x: width - PAD.right, y: HEIGHT - 6, "text-anchor": "end" }, last) });
    patch(this.axes, items);
  }

  areas() {
    const at = (x, value) => `${this.x(x).toFixed(1)},${this.y(value).toFixed(1)}`;
    const ramp = this.points.map((p, i) => at(i, p.received)).join(" ");
    // Legs of one exchange stand on one place: a handoff is a fall straight down.
    const saw = this.points.flatMap((p, i) => p.sent.map((value) => at(i, value))).join(" ");
    const floor = (line) => `${at(0, 0)} ${line} ${at(this.points.length - 1, 0)}`;
    for (const [at, line] of [floor(ramp), floor(saw), ramp, saw].entries()) this.lines[at].setAttribute("points", line);
  }

  marks() {
    let last = -Infinity;
    const number = new Map(this.handoffs.map((handoff, at) => [handoff.id, at + 1]));
    const items = this.points.flatMap((point, at) => (point.row.fired ?? []).map((id) => {
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
      s("circle", { class: "on-ramp", cx: x, cy: this.y(point.received), r: 3.5 }),
      point.sent.map((value) => s("circle", { class: "on-saw", cx: x, cy: this.y(value), r: 3.5 })),
    ]);
    const lines = [
      ["agent sent", `${bytes(point.received)} · ${plural(point.row.received_messages ?? 0, "message")}`],
      ...point.sent.map((value, leg) => [point.sent.length > 1 ? `model saw, request ${leg + 1} of ${point.sent.length}` : "model saw", `${bytes(value)} · ${plural(point.row.sent_messages?.[leg] ?? 0, "message")}`]),
      ["sent on so far", unsent(point.unsent)],
    ];
    const title = `Request ${point.n}${point.row.fired?.length ? " · handoff" : ""}`;
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

/** A round number of bytes, of which at most five make `most`. */
function roundStep(most) {
  for (let decade = 1024; ; decade *= 10) {
    const step = [1, 2, 5].map((n) => n * decade).find((n) => n * 5 >= most);
    if (step) return step;
  }
}
