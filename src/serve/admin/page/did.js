// One line per exchange: the command, the error in the provider's words, the calls with their main argument, or the
// beginning of the response.

import { h, line } from "./dom.js";
import { outcome } from "./words.js";

/** Number of calls that a row has room for. */
const CALLS = 3;

/** The user's chat command. */
export function command(row, prefix) {
  return prefix && row.user_line?.startsWith(prefix) ? row.user_line : null;
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
  // If a response calls tools, the calls are more informative than the text before them.
  if (!parts.length && answer.text) parts.push(h("span", null, line(answer.text)));
  if (!parts.length && row.answer && !row.open) parts.push(h("span", { class: "dim" }, outcome(row)));
  if (!parts.length && !row.wire) parts.push(h("span", { class: "dim" }, line(row.route ?? "")));
  return parts;
}

/** The line as text. */
export function didText(row, prefix = "") {
  return did(row, prefix).map((node) => node.textContent).join(", ");
}
