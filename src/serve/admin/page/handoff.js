// Views of all handoffs, and of one with its prompt.

import * as api from "./api.js";
import { undoButton, undone } from "./chain.js";
import { copyButton, h, line, marked, patch, set } from "./dom.js";
import { searchFor } from "./keys.js";
import { lineDiff } from "./lines.js";
import { markdown } from "./markdown.js";
import { long } from "./parts.js";
import { ago, begun, brief, bytes, clock, count, plural, wireName } from "./words.js";

export async function handoff(ctx, id) {
  const { handoff: it } = await api.json(api.path(["handoffs", id]), { signal: ctx.signal });
  const up = it.conversation ? `#/c/${encodeURIComponent(it.conversation)}` : "#/h";
  const written = prompt(it);
  const resume = it.resume_line ?? `[[handoff-resume:${it.id}]]`;
  const node = h("div", { class: "view" },
    h("header", { class: "head-of-view" },
      it.conversation ? h("p", { class: "crumbs" }, h("a", { href: up }, ctx.nameOf(it.conversation))) : null,
      h("h1", { dir: "auto" }, line(it.reason) || line(it.first_line) || `Handoff ${brief(it.id)}`),
      h("p", { class: "dim" }, [clock(it.at_ms), wireName(it.wire), line(it.model ?? ""), begun(it), it.archived ? "archived" : null].filter(Boolean).join(" · ")),
      h("p", { class: "dim" }, sizes(it), it.exchange ? [" ", h("a", { href: `#/e/${encodeURIComponent(it.exchange)}`, class: "handoff-link" }, "Exchange in which it took effect")] : null)),
    undone(it) ? takenBack(ctx, it) : null,
    h("section", { class: "resume" },
      h("p", null, "To continue from here, start a message in a new session with this line:"),
      h("div", { class: "copy-line" }, h("code", { id: "resume" }, line(resume)), copyButton(() => resume, "Copy line", { id: "copy-resume" }))),
    carried(it.carried ?? [], written.show),
    again(it.looked_up_again ?? []),
    seen(it.document),
    written.node,
    changed(ctx, it),
    lineage(it));
  return { node, title: "Handoff", up };
}

/** Notice of an undone handoff, with the command that redoes it, if chat commands are on. */
function takenBack(ctx, it) {
  const undo = ctx.prefix() && `${ctx.prefix()}handoff undo`;
  const way = () => [" To redo the handoff, send this in its session: ", h("code", null, `${undo} ${line(it.id)}`), " ", undoButton(undo, it)];
  return h("p", { class: "banner warn undone" }, "This handoff was undone: the model sees the history before it again.", undo ? way() : null);
}

/** Wording for the state of a rule, a to-do or a claim. */
const STATES = { in_prompt: "in the prompt", added: "added by baton", left_out: "did not fit" };

const opens = (text, open) => h("button", { type: "button", class: "linked", onclick: open }, line(text));

/** Items that the prompt was checked for, with their state. A row opens the item in the prompt, or searches for its origin. */
function carried(items, show) {
  if (!items.length) return null;
  const open = (item) => (item.state === "left_out" ? searchFor : show)(said(item));
  const row = (item) => h("tr", null, h("td", null, line(item.kind)), h("td", { class: item.state === "left_out" ? "bad" : "" }, STATES[item.state] ?? line(item.state)), h("td", { dir: "auto" }, opens(item.text, () => open(item))));
  return h("section", { class: "carried" }, h("h2", null, "Carried over"), h("table", null, h("tbody", null, items.map(row))));
}

/** Files, commands (in backticks) and questions (in quotes) that the model looked up again. A row searches for the item. */
function again(all) {
  if (!all.length) return null;
  const bare = (text) => (/^`(.*)`$/.exec(text) ?? /^"(.*)" \([a-z ]+\)$/.exec(text) ?? [0, text])[1].replace(/…$/, "");
  const row = (text) => h("tr", null, h("td", { dir: "auto" }, opens(text, () => searchFor(bare(text)))));
  return h("section", { class: "again" }, h("h2", null, "Looked up again"), h("table", null, h("tbody", null, all.map(row))));
}

/** The original wording of an item: a contradicted claim's quote, or the text of a to-do or rule without its marker. */
function said({ kind, text }) {
  const quoted = kind === "claim" && /"(.*)"/.exec(text);
  return (quoted ? quoted[1] : text.replace(/^\[[^\]]*\] | \[replaced by a later word[^\]]*\]$/g, "")).replace(/…$/, "");
}

/** Sizes of the replaced history and of the prompt. */
function sizes(it) {
  return it.history_bytes ? `A prompt of ${bytes(it.prompt_bytes)} replaced ${bytes(it.history_bytes)} of history.` : `A prompt of ${bytes(it.prompt_bytes)}.`;
}

/** Maximum characters of a prompt that is shown as Markdown at first. */
const LONGEST = 256 * 1024;

/** The prompt as Markdown or as written. A prompt with marked claims is first shown as written. */
function prompt(it) {
  const body = h("div", { class: "prompt-body" });
  const claims = it.document?.content?.claims ?? [];
  const ways = [["Markdown", () => h("div", { class: "markdown" }, markdown(it.prompt))], ["As written", () => withClaims(it.prompt, claims)]];
  const buttons = ways.map(([label], at) => h("button", { type: "button", class: "copy", onclick: () => pick(at) }, label));
  const pick = (now) => {
    set(body, ways[now][1]());
    for (const [at, button] of buttons.entries()) button.setAttribute("aria-pressed", String(at === now));
  };
  if (it.prompt) pick(claims.length || it.prompt.length > LONGEST ? 1 : 0);
  else set(body, h("p", { class: "dim" }, "The prompt is not in the store."));
  const show = (text) => {
    const found = new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "gi");
    set(body, long(it.prompt ?? "", null, found, (words) => h("mark", null, marked(words))));
    (body.querySelector("mark") ?? body).scrollIntoView({ block: "center" });
  };
  const node = h("section", { class: "prompt" },
    h("div", { class: "part-head" }, h("h2", null, "Carry-over prompt"), h("span", { class: "dim num" }, bytes(it.prompt_bytes)), it.prompt ? h("span", { class: "ways" }, buttons) : null, copyButton(() => it.prompt ?? "", "Copy prompt")), body);
  return { node, show };
}

/** Lines that were added and removed since the previous handoff, loaded when opened. */
function changed(ctx, it) {
  if (!it.parent || !it.prompt) return null;
  const body = h("div", null);
  const load = async () => {
    try {
      const { handoff: before } = await api.json(api.path(["handoffs", it.parent]), { signal: ctx.signal });
      const lines = lineDiff(before.prompt ?? "", it.prompt);
      const kinds = { "+": "came", "-": "went" };
      const shown = lines.map(([kind, text]) => h("span", { class: `line ${kinds[kind] ?? ""}` }, `${kind} `, marked(text), "\n"));
      const count = (kind) => plural(lines.filter(([it]) => it === kind).length, "line");
      set(body, h("p", { class: "dim" }, `${count("+")} added, ${count("-")} removed since `, h("a", { href: `#/h/${encodeURIComponent(before.id)}`, class: "handoff-link" }, line(before.reason) || brief(before.id)), "."), h("pre", { class: "line-diff", dir: "auto", tabindex: "0" }, shown));
    } catch (error) {
      set(body, h("p", { class: "bad" }, error.status === 404 ? "The previous handoff is not in the store." : error.message));
    }
  };
  let asked = false;
  const open = () => !asked && ((asked = true), load());
  return h("details", { class: "changed-lines", ontoggle: open }, h("summary", null, "Changes since the previous handoff"), body);
}

/** The prompt, with the verdict after each claim that nothing proves. */
function withClaims(prompt, claims) {
  // The document joins a claim's lines, and ends a long claim with an ellipsis.
  const words = (text) => text.replace(/…$/, "").split(/\s+/).filter(Boolean);
  const known = claims.map((claim) => ({ ...claim, words: words(claim.claim) })).filter((claim) => claim.words.length);
  if (!known.length) return long(prompt);
  const escaped = (word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const find = new RegExp(known.map((claim) => claim.words.map(escaped).join("\\s+")).join("|"), "g");
  const meant = (found) => known.find((claim) => claim.words.join(" ") === words(found).join(" ")) ?? known[0];
  return long(prompt, null, find, (found) => {
    const { verdict, why } = meant(found);
    return h("mark", { class: `claim ${verdict}`, title: line(why) }, marked(found), h("span", { class: "verdict" }, ` ${verdict}`));
  });
}

const SEVERITIES = { block: "blocks:", warn: "warning:" };

/** Evidence that baton observed, as opposed to claims: the document's status, directory and content. */
function seen(it) {
  if (!it) return null;
  const doc = it.content ?? {};
  const item = (...parts) => h("li", null, ...parts);
  const list = (title, items) => items.length ? [h("h3", null, title), h("ul", null, items)] : null;
  const since = { true: ", files changed since", null: ", files may have changed since" };
  const ran = (run) => item(h("code", null, line(run.command)), ` ${ended(run.exit)}${place(run)}${since[run.stale] ?? ""}`);
  return h("section", { class: "document", "aria-label": "Document" },
    h("h2", null, "What baton observed"),
    h("p", { class: "dim" }, `${it.status} · `, h("code", null, line(it.folder))),
    h("p", null, h("b", null, "Next: "), line(doc.next_action ?? "") || "no next step is recorded; ask the user"),
    list("Open risks", (doc.open_risks ?? []).map((risk) => item(h("b", null, SEVERITIES[risk.severity] ?? line(risk.severity)), " ", line(risk.detail)))),
    list("Verification", (doc.verification ?? []).map(ran)),
    list("Claims that nothing proves", (doc.claims ?? []).map((claim) => item(h("b", { class: claim.verdict === "contradicted" ? "contradicted" : "" }, claim.verdict), ` ${line(claim.claim)} (${line(claim.why)})`))),
    list("Changed files", (doc.changed_files ?? []).map((file) => item(h("code", null, line(file.path)), ` ${file.change}${place(file)}`))),
    list("Questions for a human", (doc.questions_for_human ?? []).map((asked) => item(line(asked.text)))));
}

/** Place of a call, which `session_recall` finds; empty if unknown. */
function place({ turn, call }) {
  if (!turn) return "";
  return call ? ` (turn ${turn}, call ${call})` : ` (turn ${turn})`;
}

function ended(exit) {
  if (exit === null || exit === undefined) return "ended with an unknown result";
  return exit === 0 ? "passed" : `failed with ${exit}`;
}

/** Map of the chains and forks that contain a handoff. Chains stay flat, and each branch of a fork is indented by one step. */
function map(it) {
  const all = it.map ?? [];
  if (all.length < 2) return null;
  const forks = (at) => [at.siblings > 1 ? `one of ${at.siblings} branches` : null, at.children > 1 ? `forks into ${at.children}` : null];
  const row = (at) => {
    const words = [at.title ? line(at.title) : brief(at.id)];
    const name = at.id === it.id ? h("b", { "aria-current": "true" }, words) : h("a", { href: `#/h/${encodeURIComponent(at.id)}` }, words);
    return h("li", { class: `deep-${Math.min(at.depth, 6)}` }, name, " ", h("span", { class: "dim small" }, [ago(at.at_ms), at.status, ...forks(at)].filter(Boolean).join(" · ")));
  };
  return h("section", { class: "lineage", "aria-label": "Lineage" }, h("h2", null, "Lineage"), h("ol", { class: "map" }, all.map(row)));
}

function lineage(it) {
  if (it.map) return map(it);
  const ids = it.lineage ?? [];
  const children = it.children ?? [];
  if (ids.length + children.length < 2) return null;
  const step = (id, at) => h("li", null, id === it.id ? h("b", { "aria-current": "true" }, `${at + 1} · this one`) : h("a", { href: `#/h/${encodeURIComponent(id)}`, title: line(id) }, `${at + 1} · ${brief(id)}`));
  return h("section", { class: "lineage", "aria-label": "Lineage" }, h("h2", null, "Lineage"), h("ol", null, ids.map(step), children.map((id) => step(id, ids.length))),
    children.length > 1 ? h("p", { class: "dim" }, `${plural(children.length, "session")} continued from here.`) : null);
}

export async function handoffs(ctx) {
  const load = () => api.json(api.path(["handoffs"], { limit: 200 }), { signal: ctx.signal });
  const list = h("div", { class: "cards" });
  const omitted = h("section", { class: "omissions" });
  const none = { key: "none", is: "", make: () => h("p", { class: "dim" }, "No handoffs yet.") };
  const draw = ({ handoffs: all = [], omissions = {} }) => {
    const each = ([model, { handoffs, missing_items }]) => h("li", null, `${line(model)}: ${count(missing_items)} in ${plural(handoffs, "handoff")}`);
    const models = Object.entries(omissions);
    set(omitted, models.length ? [h("h2", null, "Rules and to-dos missing from models' prompts"), h("ul", { class: "plain" }, models.map(each)), h("p", { class: "dim small" }, "baton appends the missing items that fit. The page of each handoff lists them.")] : null);
    patch(list, all.length ? cards(all, ctx) : [none]);
  };
  draw(await load());
  const refresh = async () => draw(await load());
  const event = (name, data) => name === "exchange" && data.fired?.length && refresh();
  return { node: h("div", { class: "view" }, h("header", { class: "head-of-view" }, h("h1", null, "Handoffs")), list, omitted), title: "Handoffs", up: "#/", event, refresh };
}

/** Handoffs as list items. The reason comes first, unless several handoffs share it: in a chain the goal stays the same. */
export function cards(all, ctx) {
  const given = (it) => all.filter((other) => line(other.reason) === line(it.reason)).length;
  return all.map((it) => {
    const [first, second] = it.reason && given(it) === 1 ? [it.reason, it.first_line] : [it.first_line, it.reason];
    const words = [ago(it.at_ms), `prompt ${bytes(it.prompt_bytes)}`, line(it.model ?? ""), begun(it), it.archived ? "archived" : it.document?.status ?? null];
    const talk = it.conversation ? ctx.titleOf(it.conversation) : "";
    const make = () => h("a", { class: "card", href: `#/h/${encodeURIComponent(it.id)}`, "data-item": true, "data-at": it.id },
      h("b", { dir: "auto" }, line(first) || line(second) || "Handoff"),
      line(first) && line(second) ? h("span", { class: "dim first", dir: "auto" }, line(second)) : null,
      h("span", { class: "dim num small" }, words.filter(Boolean).join(" · ")),
      talk ? h("span", { class: "dim small" }, ctx.nameOf(it.conversation)) : null);
    return { key: it.id, is: `${words.join()} ${first} ${talk}`, make };
  });
}
