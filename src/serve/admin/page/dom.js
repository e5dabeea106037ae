// Element helpers. Everything the page shows was written by agents, models or tools, so there is one way to insert it: as
// text nodes. No file in this directory parses HTML, and the page's policy would not run a script from it.

const SVG = "http://www.w3.org/2000/svg";

/** Creates an element. Properties that start with `on` are listeners, others are attributes. Null and false are left out. */
export function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

/** Creates an SVG element. */
export function s(tag, props, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  put(node, children);
  return node;
}

/** Appends nodes and strings, however nested. */
export function put(node, children) {
  for (const child of [children].flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

// C0 except tab and newline, DEL, C1, and characters that reorder or hide text. Joiners stay: scripts and emoji need them.
const ODD = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** Common names of control characters. Many fonts lack the symbols for them. */
const NAMES = { 0: "NUL", 7: "BEL", 8: "BS", 0x0d: "CR", 0x1b: "ESC", 0x7f: "DEL" };

function codeOf(c) {
  return `U+${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
}

function symbol(c) {
  return `\u27e8${NAMES[c.charCodeAt(0)] ?? codeOf(c)}\u27e9`;
}

/** Replaces a node's children. */
export function set(node, ...children) {
  node.replaceChildren();
  return put(node, children);
}

/** Children of each parent, by key. */
const KEYED = new WeakMap();

/**
 * Updates a parent's children from items of `{key, is, make}`. A child with a known key keeps its node, and so focus,
 * selection and position. If its `is` has changed, the node's contents are made again.
 */
export function patch(parent, items) {
  const before = KEYED.get(parent) ?? new Map();
  const now = new Map();
  const focused = parent.contains(document.activeElement) ? document.activeElement : null;
  for (const { key, is, make } of items) {
    const known = before.get(key);
    before.delete(key);
    if (known && known.is !== is) become(known.node, make());
    now.set(key, { node: known?.node ?? make(), is });
  }
  for (const { node } of before.values()) node.remove();
  let next = null;
  for (const { node } of [...now.values()].reverse()) {
    if (node.parentNode !== parent || node.nextSibling !== next) place(parent, node, next);
    next = node;
  }
  KEYED.set(parent, now);
  // A moved node loses the focus in browsers without `moveBefore`.
  if (focused?.isConnected && document.activeElement !== focused) focused.focus({ preventScroll: true });
}

function place(parent, node, next) {
  const moves = node.parentNode === parent && typeof parent.moveBefore === "function";
  if (moves) parent.moveBefore(node, next);
  else parent.insertBefore(node, next);
}

/** Copies attributes and children of one element to another, which keeps its identity. */
function become(node, other) {
  for (const { name } of [...node.attributes]) if (!other.hasAttribute(name)) node.removeAttribute(name);
  for (const { name, value } of other.attributes) if (node.getAttribute(name) !== value) node.setAttribute(name, value);
  const focused = node.contains(document.activeElement) && node !== document.activeElement;
  node.replaceChildren(...other.childNodes);
  if (focused) node.querySelector("a, button")?.focus({ preventScroll: true });
}

/** Number of characters at the end of a string that stay visible. */
const TAIL = 14;

/** Splits a string before its last words, which stay visible. */
export function ends(text) {
  if (text.length <= 2 * TAIL) return [text, ""];
  const space = text.indexOf(" ", text.length - TAIL);
  let from = space < 0 || space > text.length - 4 ? text.length - TAIL / 2 : space + 1;
  // Both halves of a surrogate pair stay together.
  if (text.charCodeAt(from) >> 10 === 0x37) from += 1;
  return [text.slice(0, from), text.slice(from)];
}

/** Creates a line from `[beginning, end]`, shortened in the middle if it does not fit. */
export function bothEnds([head, tail]) {
  return h("span", { class: "ends", dir: "auto", title: head + tail }, h("span", null, head), tail ? h("span", null, tail) : null);
}

/** Shows facts in large type, each as `[value, label, title]`. */
export function facts(node, all) {
  const items = all.filter(Boolean).map(([value, label, title = null], at) => ({
    key: at,
    is: `${value}\n${label}\n${title}`,
    make: () => h("div", { class: "fact", title }, h("b", { class: "num" }, value), h("span", null, label)),
  }));
  patch(node, items);
  return node;
}

/** Makes a string's control characters visible. */
export function visible(text) {
  return String(text ?? "").toWellFormed().replace(ODD, symbol);
}

/** Makes control characters and line breaks visible, for a single line. */
export function line(text) {
  return visible(String(text ?? "").replace(/\s*\r?\n\s*/g, " ⏎ "));
}

/** Nodes of a long text with its control characters marked. A carriage return before a newline is not marked. */
export function marked(text) {
  const out = [];
  let from = 0;
  const clean = String(text ?? "").toWellFormed().replaceAll("\r\n", "\n");
  for (const { 0: c, index } of clean.matchAll(ODD)) {
    if (index > from) out.push(clean.slice(from, index));
    out.push(h("span", { class: "odd", title: `control character ${codeOf(c)}` }, symbol(c)));
    from = index + 1;
  }
  if (from < clean.length) out.push(clean.slice(from));
  return out;
}

/** Adds rows as the user scrolls: the first `step` at once, more when the end comes into view. */
export function lazily(parent, count, row, step = 120) {
  let made = 0;
  const end = h("div", { class: "more", "aria-hidden": "true" });
  const more = () => {
    const rows = document.createDocumentFragment();
    for (const last = Math.min(count, made + step); made < last; made += 1) put(rows, row(made));
    end.before(rows);
    if (made < count) return;
    watch.disconnect();
    end.remove();
  };
  const watch = new IntersectionObserver((seen) => seen.some((e) => e.isIntersecting) && more(), { rootMargin: "600px" });
  parent.append(end);
  more();
  if (made < count) watch.observe(end);
}

let saying;

/** Announces an action, visibly and to screen readers. */
export function say(text) {
  const said = document.getElementById("said");
  said.textContent = text;
  clearTimeout(saying);
  saying = setTimeout(() => (said.textContent = ""), 2500);
}

/** Creates a button that copies the result of `text`. */
export function copyButton(text, label = "Copy", props = {}) {
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(await text());
      say("Copied");
    } catch {
      say("The browser blocked copying");
    }
  };
  return h("button", { class: "copy", type: "button", ...props, onclick: copy }, label);
}
