// The chain of a conversation's handoffs: what each of them kept and dropped, what of that the model looked up again, and the
// ways back.

import { copyButton, h, line, set } from "./dom.js";
import { brief, bytes, clock, plural } from "./words.js";

/** A step for each handoff, in their order. Sizes are those of the first request that was cut there. */
export function steps(handoffs, rows) {
  const cuts = new Map();
  const behind = new Map();
  for (const row of rows) {
    for (const change of row.changes ?? []) {
      if (change.why === "cut" && change.handoff && !cuts.has(change.handoff)) cuts.set(change.handoff, change);
    }
    if (row.pinned) {
      const seen = behind.get(row.pinned) ?? { exchanges: 0, recalled: 0 };
      seen.exchanges += 1;
      seen.recalled += row.recalls?.length ?? 0;
      behind.set(row.pinned, seen);
    }
  }
  return handoffs.map((handoff, at) => {
    const cut = cuts.get(handoff.id);
    return { handoff, n: at + 1, kept: cut?.added ?? null, dropped: cut?.removed ?? null, ...(behind.get(handoff.id) ?? { exchanges: 0, recalled: 0 }) };
  });
}

/** How a handoff stands, by what the conversation says of undos: `active`, `undone`, `waits` (for the next request), or null. */
export function standing(handoff, undo) {
  if (undo?.waits?.handoff === handoff.id) return "waits";
  if (undo?.active === handoff.id) return "active";
  return undo?.undone === handoff.id ? "undone" : null;
}

/** The steps as list items. `ask` asks for the undo of a handoff. */
export function chain(handoffs, rows, undo, ask) {
  const all = steps(handoffs, rows);
  return all.map((step) => {
    const stands = standing(step.handoff, undo);
    const is = JSON.stringify([step.n, step.kept, step.dropped, step.exchanges, step.recalled, step.handoff.archived, stands, undo?.waits?.undone]);
    return { key: step.handoff.id, is, make: () => row(step, stands, undo, ask) };
  });
}

/** What is told of a handoff by how it stands, and what a button would do: the same call, whatever it is. */
const WAYS = {
  active: [null, "Undo", "The agent's next request is sent as if this handoff had not happened, and its answer reports that"],
  undone: ["undone", "Revert the undo", "From the agent's next request on, the model sees this handoff again"],
  waits: ["undo waits for the agent's next request", "Withdraw", "Nothing changes"],
};

function way(handoff, stands, ask) {
  const [, text, title] = WAYS[stands];
  const told = h("span", { class: "dim small", role: "status" });
  const button = h("button", { type: "button", class: "undo", title, onclick: async () => {
    button.disabled = true;
    try {
      await ask(handoff.id);
    } catch (error) {
      set(told, error.message);
      button.disabled = false;
    }
  } }, text);
  return [button, told];
}

function row({ handoff, n, kept, dropped, exchanges, recalled }, stands, undo, ask) {
  const prompt = handoff.prompt_bytes ?? 0;
  const more = kept === null ? 0 : Math.max(0, kept - prompt);
  const said = [
    kept === null ? `prompt ${bytes(prompt)}` : `kept ${bytes(kept)} (prompt ${bytes(prompt)}, around it ${bytes(more)})`,
    dropped === null ? null : `dropped ${bytes(dropped)}`,
    exchanges ? plural(exchanges, "exchange") : "no exchange yet",
    recalled ? plural(recalled, "recall") : null,
    handoff.origin && handoff.origin !== "model" ? `by ${line(handoff.origin)}` : null,
    handoff.archived ? "archived" : null,
    stands === "waits" && !undo.waits.undone ? "to be seen again from the agent's next request on" : WAYS[stands]?.[0],
  ].filter(Boolean).join(" · ");
  return h("li", { class: "step" },
    h("span", { class: "badge" }, n),
    h("span", { class: "step-about" },
      h("a", { href: `#/h/${encodeURIComponent(handoff.id)}`, dir: "auto" }, line(handoff.reason) || line(handoff.first_line) || brief(handoff.id)),
      h("span", { class: "dim small" }, `${clock(handoff.at_ms)} · ${said}`)),
    h("span", { class: "step-ways" },
      copyButton(() => handoff.resume_line ?? `[[handoff-resume:${handoff.id}]]`, "Copy resume line", { title: "Begin a message of a new session with it to continue from here" }),
      undo?.command ? copyButton(() => `${undo.command} ${handoff.id}`, "Copy undo", { title: "Send it as a message in the agent: the session continues as if this handoff had not happened. Sent again, it reverts that" }) : null,
      stands ? way(handoff, stands, ask) : null));
}
