// What happened in an exchange, as one line: the command, the error in the provider's own words, the calls with their main
// argument, or the answer's first words.

import { h, line } from "./dom.js";
import { outcome } from "./words.js";

/** Calls that a row has room for. */
const CALLS = 3;

/** The command that the person gave in the chat, without what is said behind it. */
export function command(row, prefix) {
  if (!prefix || !row.user_line?.startsWith(prefix)) return null;
  return row.user_line.split(/\s+/).slice(0, 3).join(" ");
}

/** Nodes of the line. */
export function did(row, prefix = "") {
  const answer = row.answer ?? {};
  const parts = [];
  const given = command(row, prefix);
  if (given) parts.push(h("code", { class: "did-command" }, line(given)));
  if (answer.error) parts.push(h("span", { class: "bad" }, line(answer.error)));
  for (const call of (answer.calls ?? []).slice(0, CALLS)) {
    parts.push(h("span", { class: "did-call" }, h("b", null, line(call.name)), call.argument ? [" ", h("span", { class: "mono" }, line(call.argument))] : null));
  }
  const more = (answer.calls ?? []).length - CALLS + (answer.more_calls ?? 0);
  if (more > 0) parts.push(h("span", { class: "dim" }, `+${more}`));
  // Of an answer that calls tools, the calls say more than the words in front of them.
  if (!parts.length && answer.text) parts.push(h("span", null, line(answer.text)));
  if (!parts.length && row.answer && !row.open) parts.push(h("span", { class: "dim" }, outcome(row)));
  if (!parts.length && !row.wire) parts.push(h("span", { class: "dim" }, line(row.route ?? "")));
  return parts;
}

/** The same as text. */
export function didText(row, prefix = "") {
  return did(row, prefix).map((node) => node.textContent).join(", ");
}
