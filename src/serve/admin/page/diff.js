// Received and sent messages, side by side.

import * as api from "./api.js";
import { align, differ, fold } from "./align.js";
import { h, lazily, line, put } from "./dom.js";
import { message, readable } from "./parts.js";
import { bytes, kindWord, plural, stateWords, WHY, whyEdited } from "./words.js";

/** Maximum length of a run that is shown without folding. */
const SHOWN = 4;
const EDGE = 2;
/** Rows made at once. */
const STEP = 120;
/** Maximum bytes of a carry-over message that opens automatically. */
const OPENED = 64 * 1024;

/** Creates the diff of one leg: the system prompt and the tools first, then the messages. */
export function diff(exchange, received, leg, look) {
  const sent = leg.sent?.messages ?? [];
  const theirs = inLeg(received.messages ?? [], leg);
  const ctx = { exchange, leg: leg.n, look };
  const of = (name, list) => (list ?? []).map((m) => ({ ...m, of: name }));
  const beside = fold(align(of("envelope", received.envelope), of("envelope", leg.sent?.envelope)), 4, 1);
  const blocks = align(of("messages", theirs), of("messages", sent));
  const folded = [...beside, ...fold(blocks)].flatMap((it) => (it.kind === "fold" && it.blocks.some((block) => holds(ctx, block)) ? it.blocks : [it]));
  const box = h("div", { class: "diff" });
  const total = (list) => list.reduce((sum, m) => sum + (m.bytes ?? 0), 0);
  put(box, [
    h("div", { class: "diff-head", "aria-hidden": "true" },
      h("div", null, h("b", null, "Received from the agent"), h("span", { class: "dim num" }, `${plural(theirs.length, "message")} · ${bytes(total(theirs))}`)),
      h("div", null, h("b", null, "Sent to the model"), h("span", { class: "dim num" }, `${plural(sent.length, "message")} · ${bytes(total(sent))}`))),
  ]);
  if (blocks.length === 0) put(box, h("p", { class: "dim pad" }, "No messages were recorded for this request."));
  const wanted = folded.findIndex((it) => holds(ctx, it));
  lazily(box, folded.length, (at) => block(ctx, folded[at]), Math.max(STEP, wanted + 1));
  return box;
}

/** Whether a block contains a search hit, or a message that was open. */
function holds(ctx, block) {
  const isOpen = (m, side) => ctx.look.isAt(side, m.of, m.i) || ctx.look.opened.has(placeOf(ctx, m, side));
  return (block.left ?? []).some((m) => isOpen(m, "received")) || (block.right ?? []).some((m) => isOpen(m, "sent"));
}

function placeOf(ctx, m, side) {
  return `${ctx.leg}:${side}:${m.of}:${m.i}`;
}

/** Returns the agent's messages with their states in this leg. By default they have those of the first leg. */
function inLeg(received, leg) {
  const states = leg.received_states;
  if (!leg.n || !states) return received;
  return received.map((m, at) => ({ ...m, state: states[at] ?? m.state, why: leg.received_whys?.[at] ?? null }));
}

function block(ctx, it) {
  if (it.kind === "fold") return unfold(it.blocks.length, `${plural(it.blocks.length, it.blocks[0].left[0]?.of === "envelope" ? "tool" : "message")} unchanged`, total(it.blocks), (at) => block(ctx, it.blocks[at]));
  if (it.kind !== "change") {
    const [left] = it.left;
    const [right] = it.right;
    const row = h("div", { class: `pair ${it.kind}` });
    const cells = [cell(ctx, left, "received", right), cell(ctx, right, "sent", left)];
    const why = right.why ?? left.why;
    return [it.kind === "edit" && why ? because([whyEdited(why)]) : null, put(row, cells)];
  }
  const reasons = [...new Set([...it.left, ...it.right].map((m) => m.why).filter(Boolean))].map((why) => WHY[why] ?? line(why));
  const side = (list, name) => h("div", { class: "stack" }, list.length ? parted(ctx, list, name) : because(reasons));
  // An empty side has room for the reason.
  const both = it.left.length && it.right.length;
  return [both ? because(reasons) : null, h("div", { class: "pair change" }, side(it.left, "received"), side(it.right, "sent"))];
}

const total = (blocks) => blocks.reduce((sum, b) => sum + (b.left[0]?.bytes ?? 0), 0);

function because(reasons) {
  return reasons.length ? h("div", { class: "why" }, reasons.map((why) => h("p", null, why))) : null;
}

/** A list of messages with the carry-over prompt first. The preamble, which precedes it in the request, is folded below. */
function parted(ctx, list, side) {
  const isPreamble = (m) => side === "sent" && m.why === "preamble";
  const before = list.filter(isPreamble);
  if (!before.length || before.length === list.length) return run(ctx, list, side);
  const size = before.reduce((sum, m) => sum + (m.bytes ?? 0), 0);
  return [run(ctx, list.filter((m) => !isPreamble(m)), side), unfold(before.length, `${plural(before.length, "preamble message")} before the prompt`, size, (at) => cell(ctx, before[at], side))];
}

/** A list of messages. The middle of a long one is folded. */
function run(ctx, list, side) {
  const wanted = list.some((m) => holds(ctx, side === "sent" ? { right: [m] } : { left: [m] }));
  if (wanted || list.length <= SHOWN + 2) return list.map((m) => cell(ctx, m, side));
  const middle = list.slice(EDGE, -EDGE);
  const size = middle.reduce((sum, m) => sum + (m.bytes ?? 0), 0);
  const word = list[0].state === "cut" ? " left out" : "";
  return [
    list.slice(0, EDGE).map((m) => cell(ctx, m, side)),
    unfold(middle.length, `${plural(middle.length, "more message")}${word}`, size, (at) => cell(ctx, middle[at], side)),
    list.slice(-EDGE).map((m) => cell(ctx, m, side)),
  ];
}

function unfold(count, label, size, row) {
  const box = h("div", { class: "fold" });
  const open = () => {
    box.replaceChildren();
    box.classList.add("open");
    lazily(box, count, row);
    box.querySelector("[data-item]")?.focus();
  };
  return put(box, h("button", { type: "button", class: "fold-button", "data-item": true, onclick: open }, h("span", null, `⋯ ${label}`), h("span", { class: "num" }, bytes(size))));
}

function cell(ctx, m, side, twin) {
  const state = stateWords(m, side);
  const body = h("div", { class: "body", hidden: true });
  const button = h(
    "button",
    { type: "button", class: "head", "aria-expanded": "false", "data-item": true, title: m.why ? (WHY[m.why] ?? null) : null, onclick: () => toggle() },
    h("span", { class: `role ${roleClass(m.role)}` }, m.role === "tools" && m.of === "envelope" ? "tool" : line(m.role)),
    h("span", { class: "first" }, m.kind && m.kind !== "text" && m.of !== "envelope" ? h("i", null, kindWord(m.kind)) : null, line(m.first_line) || h("span", { class: "dim" }, "(no text)")),
    state ? h("span", { class: `tag ${m.state}` }, state) : null,
    h("span", { class: "num dim" }, bytes(m.bytes)),
  );
  const box = h("div", { class: `cell ${m.state ?? "kept"}`, "data-side": side, "data-change": m.state === "kept" ? null : true, "data-at": placeOf(ctx, m, side) }, button, body);
  let asked = false;
  const key = placeOf(ctx, m, side);
  const toggle = (open = body.hidden) => {
    body.hidden = !open;
    button.setAttribute("aria-expanded", String(open));
    box.classList.toggle("open", open);
    if (open) ctx.look.opened.add(key);
    else ctx.look.opened.delete(key);
    if (!open || asked) return;
    asked = true;
    ctx.look.loads.push(load(ctx, m, side, twin, body).catch(() => (asked = false)));
  };
  // The replacement of the history is the most interesting message, so it opens automatically.
  const telling = side === "sent" && m.of === "messages" && m.state === "new" && m.why === "cut" && m.bytes < OPENED && !ctx.look.back;
  const found = ctx.look.isAt(side, m.of, m.i) && (side === "received" || ctx.look.leg === ctx.leg);
  if (telling || found || ctx.look.opened.has(key)) queueMicrotask(() => toggle(true));
  return box;
}

function roleClass(role) {
  return ["user", "assistant", "system", "tool"].includes(role) ? role : "other";
}

/** Loads a message in full. If it was edited, both sides are read, and their difference is marked. */
async function load(ctx, m, side, twin, body) {
  body.replaceChildren(h("p", { class: "dim" }, "Loading…"));
  try {
    const of = m.of === "envelope" ? m.of : null;
    const ask = (which, i) => api.json(api.path(["exchanges", ctx.exchange, "message"], { side: which, leg: ctx.leg, i, of }));
    const edited = twin && (m.state === "changed" || twin.state === "changed");
    const other = side === "sent" ? "received" : "sent";
    const [full, there] = await Promise.all([ask(side, m.i), edited ? ask(other, twin.i).catch(() => null) : null]);
    const kept = side === "sent" && m.of === "messages" && m.state === "new" && m.why === "cut";
    const find = ctx.look.textAt(side, m.of, m.i);
    body.replaceChildren(message(full, there ? ranges(full, there) : null, { find, preamble: kept }));
    ctx.look.show(body);
  } catch (error) {
    body.replaceChildren(h("p", { class: "bad" }, error.message));
    throw error;
  }
}

function ranges(full, there) {
  const texts = (it) => (it.parts ?? []).map((part) => readable(part).text);
  const theirs = texts(there);
  return texts(full).map((text, at) => {
    const { head, tail } = differ(text, theirs[at] ?? "");
    return [head, text.length - tail];
  });
}
