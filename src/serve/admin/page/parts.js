// A message in full: its parts, with baton's markers explained.

import { copyButton, h, line, marked, put } from "./dom.js";
import { brief, bytes, kindWord, plural } from "./words.js";

/** Maximum characters of a part that are laid out at once. A text of megabytes would block the page. */
const AT_ONCE = 40_000;

const ID = "[0-9A-Fa-f-]{36}";
const MARKS = new RegExp(`\\[\\[(/?)handoff-(resume|aside):(${ID})(?:\\.[A-Za-z0-9_-]{22})?\\]\\]`, "g");

/** Nodes of a text, with sentinels as links and their meaning as titles. */
export function withMarks(text) {
  const out = [];
  let from = 0;
  for (const found of text.matchAll(MARKS)) {
    out.push(marked(text.slice(from, found.index)), mark(found));
    from = found.index + found[0].length;
  }
  out.push(marked(text.slice(from)));
  return out;
}

function mark([whole, closing, kind, id]) {
  if (kind === "aside") {
    const title = "Placeholder of a hidden pair: the model sees its refused call and the result here.";
    return h("mark", { class: "sentinel", title }, whole);
  }
  const title = closing
    ? "End of the carry-over prompt. The part after the last dot is its seal."
    : "Sentinel of a handoff. The model no longer sees the history before it.";
  return h("a", { class: "sentinel", href: `#/h/${id}`, title }, whole);
}

/**
 * Renders a message. `range` has the differing range of each part, `find` the pattern to mark. In a carry-over message
 * with a preamble, all parts but the last are preamble.
 */
export function message(full, range, { find = null, preamble = false } = {}) {
  const parts = full.parts ?? [];
  const box = h("div", { class: "parts" });
  if (parts.length === 0) put(box, h("p", { class: "dim" }, "This message is empty."));
  const made = (at, name = null) => partOf(parts[at], range?.[at], find, name);
  if (!preamble || parts.length < 2) return put(box, parts.map((_, at) => made(at)));
  // The prompt comes first: a harness's preamble is long and always the same.
  const last = parts.length - 1;
  const before = parts.slice(0, last).map((_, at) => made(at, "preamble"));
  const size = parts.slice(0, last).reduce((sum, part) => sum + new Blob([readable(part).text]).size, 0);
  const found = before.some((part) => part.querySelector("mark.found"));
  return put(box, [made(last, "carry-over prompt"), h("details", { class: "preamble", open: found }, h("summary", null, `Preamble before the prompt: ${plural(last, "part")}, ${bytes(size)}`), before)]);
}

function partOf(part, range, find, name) {
  const { label, text } = readable(part);
  const head = h("div", { class: "part-head" }, h("span", null, name ?? label), h("span", { class: "dim num" }, bytes(new Blob([text]).size)), copyButton(() => text));
  return h("section", { class: `part ${part.kind ?? "other"}` }, head, long(text, range, find));
}

const asFound = (found) => h("mark", { class: "found" }, marked(found));

/** Nodes of a text, with matches of `find` marked. */
function withFinds(text, find, as) {
  if (!find) return withMarks(text);
  const out = [];
  let from = 0;
  for (const { 0: found, index } of text.matchAll(find)) {
    out.push(withMarks(text.slice(from, index)), as(found));
    from = index + found.length;
  }
  out.push(withMarks(text.slice(from)));
  return out;
}

/** A text that the user can extend in steps. The first step includes the first match of `find`, and `as` makes nodes of matches. */
export function long(text, range, find, as = asFound) {
  const pre = h("pre", { dir: "auto", tabindex: "0" });
  const box = h("div", { class: "long" }, pre);
  const nodes = (from, to) => {
    if (!range) return withFinds(text.slice(from, to), find, as);
    const [a, b] = [range[0], range[1]].map((at) => Math.min(Math.max(at, from), to));
    const edit = a < b ? h("ins", { title: "Here the two sides differ." }, withFinds(text.slice(a, b), find, as)) : [];
    return [withFinds(text.slice(from, a), find, as), edit, withFinds(text.slice(b, to), find, as)];
  };
  const wanted = find ? text.search(find) : -1;
  let shown = 0;
  const more = () => {
    const least = Math.max(AT_ONCE, shown ? 0 : wanted + 1000);
    const to = text.length - shown <= least * 1.2 ? text.length : shown + least;
    put(pre, nodes(shown, to));
    shown = to;
    button.remove();
    if (shown < text.length) {
      button.textContent = `Show more (${bytes(text.length - shown)} left)`;
      box.append(button);
    }
  };
  const button = h("button", { type: "button", class: "wide", onclick: more });
  more();
  return box;
}

/** Label and text of a part. Handles the calls and results of all wires. */
export function readable(part) {
  const kind = kindWord(part.kind ?? "other");
  if (typeof part.text === "string") return { label: kind, text: part.text };
  const value = part.json;
  const inner = value?.function ?? value?.functionCall ?? value?.functionResponse ?? value;
  const name = typeof inner?.name === "string" ? line(inner.name) : null;
  if (part.kind === "tool_use") {
    return { label: name ? `call · ${name}` : kind, text: pretty(inner?.input ?? inner?.arguments ?? inner?.args ?? value) };
  }
  if (part.kind === "tool_result") {
    const content = inner?.content ?? inner?.output ?? inner?.response ?? value;
    return { label: name ? `result · ${name}` : kind, text: texts(content) ?? pretty(content) };
  }
  if (part.kind === "thinking") return { label: kind, text: value?.thinking ?? texts(value?.summary) ?? value?.text ?? pretty(value) };
  return { label: kind, text: pretty(value) };
}

function texts(content) {
  if (typeof content === "string") return content;
  if (!Array.isArray(content) || content.length === 0) return null;
  const all = content.map((block) => block?.text);
  return all.every((text) => typeof text === "string") ? all.join("\n") : null;
}

/** Formats JSON. Arguments that are JSON in a string are parsed, and flat objects show multi-line strings unescaped. */
function pretty(value) {
  if (typeof value === "string") {
    try {
      return pretty(JSON.parse(value));
    } catch {
      return value;
    }
  }
  const flat = value && typeof value === "object" && !Array.isArray(value);
  const multiline = flat && Object.values(value).some((v) => typeof v === "string" && v.includes("\n"));
  if (!multiline) return JSON.stringify(value, null, 2) ?? "";
  return Object.entries(value)
    .map(([key, v]) => (typeof v === "string" && v.includes("\n") ? `${key}:\n${v}` : `${key}: ${JSON.stringify(v, null, 2)}`))
    .join("\n\n");
}

/** Link to a handoff. */
export function handoffLink(id, label = `handoff ${brief(id)}`) {
  return h("a", { href: `#/h/${encodeURIComponent(id)}`, class: "handoff-link" }, label);
}
