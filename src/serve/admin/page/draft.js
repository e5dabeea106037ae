// View of a draft in review: its editable document, with a checkbox for each file and command in it.

import * as api from "./api.js";
import { h, line, set } from "./dom.js";
import { bytes, clock } from "./words.js";

const ITEM = /^\s*(?:[-*]|\d+\.)\s/;
const FILE_OR_COMMAND = /`[^`]+`|[\w.~-]*\/[\w./-]+/;

/** Lines of a document that name a file or a command. */
export function items(text) {
  const seen = new Set();
  return text.split("\n").filter((it) => ITEM.test(it) && FILE_OR_COMMAND.test(it) && !seen.has(it) && seen.add(it));
}

/** Removes a line from a document, or inserts it at its original position. */
export function toggled(text, original, item, on) {
  const left = text.split("\n");
  if (!on) return left.filter((it) => it !== item).join("\n");
  if (left.includes(item)) return text;
  const before = original.split("\n");
  const above = before.slice(0, before.indexOf(item)).reverse().find((it) => left.includes(it));
  left.splice(above === undefined ? 0 : left.lastIndexOf(above) + 1, 0, item);
  return left.join("\n");
}

export async function draft(ctx, id) {
  const said = await api.json(api.path(["drafts", id]), { signal: ctx.signal });
  const it = said.draft;
  // Current size of the model's context, which is unknown without the journal.
  const last = await api.json(api.path(["exchanges"], { conversation: it.conversation, limit: 1 }), { signal: ctx.signal }).then((found) => found.exchanges?.[0], () => null);
  const up = `#/c/${encodeURIComponent(it.conversation)}`;
  const original = said.document ?? "";
  const text = h("textarea", { id: "document", rows: 24, spellcheck: "true", "aria-label": "Document", readonly: it.state !== "review" });
  text.value = original;
  const size = (value) => new Blob([value]).size;
  const sizes = h("p", { class: "dim num", id: "sizes" });
  const measure = () => set(sizes, [
    last?.sent_bytes?.length ? `The last request to the model had ${bytes(last.sent_bytes.at(-1))}.` : null,
    `This document has ${bytes(size(text.value))}${text.value === original ? "" : ` (${bytes(size(original))} as drafted)`}.`,
  ].filter(Boolean).join(" "));
  text.addEventListener("input", measure);
  measure();
  const told = h("p", { class: "dim", role: "status" });
  const ticks = h("ul", { class: "ticks" }, items(original).map((item) => {
    const box = h("input", { type: "checkbox", onchange: () => ((text.value = toggled(text.value, original, item, box.checked)), measure()) });
    box.checked = true;
    return h("li", null, h("label", null, box, " ", line(item)));
  }));
  const buttons = h("p", { class: "decide" });
  const does = h("p", { class: "dim", id: "accept-does" });
  const decide = async (what, body) => {
    try {
      const { draft: now } = await api.post(api.path(["drafts", id, what]), body);
      set(told, now.state === "accepted" ? "Accepted. It takes effect with the agent's next request." : `The draft is ${now.state}.`);
      set(buttons);
    } catch (error) {
      set(told, error.message);
    }
  };
  if (it.state === "review") {
    const yes = () => decide("accept", text.value === original ? {} : { document: text.value });
    set(buttons, h("button", { type: "button", id: "accept", class: "primary", "aria-describedby": "accept-does", onclick: yes }, "Accept"), " ", h("button", { type: "button", id: "reject", "aria-describedby": "accept-does", onclick: () => decide("reject", {}) }, "Reject"));
    set(does, "Accept: from the agent's next request on, the model sees this document and your latest message instead of the history. Nothing has been cut yet, and you can undo the handoff. Reject: the draft is discarded, and the session continues unchanged.");
  }
  const node = h("div", { class: "view" },
    h("header", { class: "head-of-view" },
      h("p", { class: "crumbs" }, h("a", { href: up }, ctx.nameOf(it.conversation))),
      h("h1", null, it.state === "review" ? "A draft waits for your approval" : `Draft: ${it.state}`),
      h("p", { class: "dim" }, [clock(it.created_ms), it.origin, it.method, line(it.focus ?? ""), line(it.why ?? "")].filter(Boolean).join(" · "))),
    h("section", { class: "prompt editor" }, sizes, text, buttons, told, does),
    ticks.childNodes.length > 0 && it.state === "review" ? h("section", null, h("h2", null, "Files and commands"), ticks) : null);
  return { node, title: "Draft", up };
}

/** Notice about a conversation's newest draft. */
export function notice(it) {
  const href = `#/d/${encodeURIComponent(it.id)}`;
  if (it.state === "review") return h("p", { class: "draft" }, h("a", { href }, "A draft waits for your approval"));
  const stop = h("button", { type: "button", onclick: async () => {
    stop.disabled = true;
    await api.remove(api.path(["drafts", it.id])).catch(() => (stop.disabled = false));
  } }, "Cancel");
  if (it.state === "failed" || it.state === "empty") {
    return h("p", { class: "draft" }, h("a", { href }, "No handoff was made"), it.why ? `: ${it.why}.` : ".");
  }
  const words = { asked: "A requested handoff starts with the agent's next request.", writing: "A handoff is being written.", accepted: "An accepted handoff takes effect with the agent's next request." };
  return h("p", { class: "draft" }, words[it.state] ?? `Draft: ${it.state}`, " ", stop);
}
