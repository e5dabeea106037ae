// Renders a model's Markdown: headings, lists, code, quotes, emphasis. All of its text becomes text nodes, and syntax that is
// not recognised stays text: no HTML, no links, no images. Pure except for the nodes.

import { h } from "./dom.js";
import { withMarks } from "./parts.js";

/** Levels by which headings of a prompt are lowered, below those of the page. */
const BELOW = 2;
/** Maximum depth of nested lists. Deeper ones are drawn at this depth. */
const DEEPEST = 6;

const FENCE = /^\s*(```+|~~~+)/;
const HEADING = /^(#{1,6})\s+(.*?)\s*#*$/;
const ITEM = /^(\s*)(?:[-*+]|(\d+)[.)])\s+(.*)$/;
const QUOTE = /^\s*>\s?(.*)$/;
const RULE = /^\s*([-*_])(?:\s*\1){2,}\s*$/;
const INLINE = /(`[^`\n]+`|\*\*[^*\n]+\*\*|__[^_\n]+__)/;

/** Returns the nodes of a text. */
export function markdown(text) {
  const lines = String(text ?? "").split(/\r?\n/);
  const out = [];
  let at = 0;
  /** Takes lines while `is` holds. */
  const take = (is) => {
    const from = at;
    while (at < lines.length && is(lines[at])) at += 1;
    return lines.slice(from, at);
  };
  while (at < lines.length) {
    const line = lines[at];
    const heading = HEADING.exec(line);
    if (!line.trim()) at += 1;
    else if (FENCE.test(line)) out.push(fenced());
    else if (heading) out.push(h(`h${Math.min(6, heading[1].length + BELOW)}`, { dir: "auto" }, inline(heading[2]))), (at += 1);
    else if (RULE.test(line)) out.push(h("hr")), (at += 1);
    else if (QUOTE.test(line)) out.push(h("blockquote", { dir: "auto" }, inline(take((it) => QUOTE.test(it)).map((it) => QUOTE.exec(it)[1]).join("\n"))));
    else if (ITEM.test(line)) out.push(list(take((it) => it.trim() && !FENCE.test(it) && !HEADING.test(it))));
    else if (line.trimStart().startsWith("|")) out.push(h("pre", { tabindex: "0" }, withMarks(take((it) => it.trimStart().startsWith("|")).join("\n"))));
    else out.push(h("p", { dir: "auto" }, inline(take((it) => it.trim() && ![FENCE, HEADING, ITEM, QUOTE, RULE].some((mark) => mark.test(it))).join("\n"))));
  }
  return out;

  function fenced() {
    const mark = FENCE.exec(lines[at])[1];
    at += 1;
    const body = take((it) => !it.trimStart().startsWith(mark));
    at += 1;
    return h("pre", { tabindex: "0" }, withMarks(body.join("\n")));
  }
}

/** Builds a list. A line without a marker belongs to the previous item. */
function list(lines) {
  const root = { indent: -1, node: null, item: null };
  const open = [root];
  for (const text of lines) {
    const [, space, number, words] = ITEM.exec(text) ?? [];
    const last = open.at(-1);
    if (words === undefined) {
      last.item.append("\n", ...[inline(text.trim())].flat(Infinity));
      continue;
    }
    while (open.length > 1 && open.at(-1).indent > space.length) open.pop();
    const here = open.at(-1);
    if (here.indent < space.length && open.length <= DEEPEST) {
      const node = number === undefined ? h("ul") : h("ol", { start: number });
      (here.item ?? null)?.append(node);
      root.node ??= node;
      open.push({ indent: space.length, node, item: null });
    }
    const level = open.at(-1);
    level.item = h("li", { dir: "auto" }, inline(words));
    level.node.append(level.item);
  }
  return root.node;
}

function inline(text) {
  return text.split(INLINE).map((piece, at) => {
    if (at % 2 === 0) return withMarks(piece).flat(Infinity);
    if (piece.startsWith("`")) return h("code", null, withMarks(piece.slice(1, -1)));
    return h("b", null, withMarks(piece.slice(2, -2)));
  }).flat(Infinity);
}
