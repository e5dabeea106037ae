// Elements. Everything the page shows comes from outside (agents, models, tools), so there is one way to put it
// there: as text nodes. Nothing in this folder parses HTML, and the page's policy would not run a script from it.

const SVG = "http://www.w3.org/2000/svg";

/** An element: properties that start with `on` are listeners, the rest are attributes; null and false are left out. */
export function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

/** The same in SVG. */
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

/** Appends nodes and texts, however nested. */
export function put(node, children) {
  for (const child of [children].flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

// C0 but tab and newline, DEL, C1; marks that reorder or hide text. Joiners stay: scripts and emoji need them.
const ODD = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** Those with a name that is known; pictures of them are missing from many fonts. */
const NAMES = { 0: "NUL", 7: "BEL", 8: "BS", 0x0d: "CR", 0x1b: "ESC", 0x7f: "DEL" };

function codeOf(c) {
  return `U+${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
}

function symbol(c) {
  return `\u27e8${NAMES[c.charCodeAt(0)] ?? codeOf(c)}\u27e9`;
}

/** Gives a node these children and no others. */
export function set(node, ...children) {
  node.replaceChildren();
  return put(node, children);
}

/** Children of a parent, by key. */
const KEYED = new WeakMap();

/**
 * Gives a parent these children: `{key, is, make}` each. A child that is there stays the very node that it was, so that
 * focus, selection and place stay with it; where `is` says that it now reads otherwise, its inside is made anew.
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
  // What is moved loses the focus where the browser cannot move it as it is.
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

/** Characters at the end of a string that stay in sight. */
const TAIL = 14;

/** Splits a string before its last words, which stay in sight. */
export function ends(text) {
  if (text.length <= 2 * TAIL) return [text, ""];
  const space = text.indexOf(" ", text.length - TAIL);
  let from = space < 0 || space > text.length - 4 ? text.length - TAIL / 2 : space + 1;
  // Both halves of a surrogate pair stay together.
  if (text.charCodeAt(from) >> 10 === 0x37) from += 1;
  return [text.slice(0, from), text.slice(from)];
}

/** One line from `[beginning, end]`, shortened in its middle if it does not fit. */
export function bothEnds([head, tail]) {
  return h("span", { class: "ends", dir: "auto", title: head + tail }, h("span", null, head), tail ? h("span", null, tail) : null);
}

/** Facts in large letters: `[value, label, title]` each. */
export function facts(node, all) {
  const items = all.filter(Boolean).map(([value, label, title = null], at) => ({
    key: at,
    is: `${value}\n${label}\n${title}`,
    make: () => h("div", { class: "fact", title }, h("b", { class: "num" }, value), h("span", null, label)),
  }));
  patch(node, items);
  return node;
}

/** A text with its control characters made visible. */
export function visible(text) {
  return String(text ?? "").toWellFormed().replace(ODD, symbol);
}

/** The same for one line. */
export function line(text) {
  return visible(String(text ?? "").replace(/\s*\r?\n\s*/g, " ⏎ "));
}

/** Nodes of a long text, control characters marked as such. A carriage return before a newline is not worth a mark. */
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

/** Rows made as they are scrolled to: the first `step` at once, the next when the end comes into view. */
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

/** Tells of something that was done, to eyes and screen readers. */
export function say(text) {
  const said = document.getElementById("said");
  said.textContent = text;
  clearTimeout(saying);
  saying = setTimeout(() => (said.textContent = ""), 2500);
}

/** A button that copies what `text` gives. */
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
