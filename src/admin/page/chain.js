// The chain of a conversation's handoffs: what each of them kept and dropped, and what of that the model looked up again.

import { copyButton, h, line } from "./dom.js";
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

/** The steps as list items. */
export function chain(handoffs, rows) {
  const all = steps(handoffs, rows);
  return all.map((step) => ({ key: step.handoff.id, is: JSON.stringify([step.n, step.kept, step.dropped, step.exchanges, step.recalled, step.handoff.archived]), make: () => row(step) }));
}

function row({ handoff, n, kept, dropped, exchanges, recalled }) {
  const prompt = handoff.prompt_bytes ?? 0;
  const more = kept === null ? 0 : Math.max(0, kept - prompt);
  const said = [
    kept === null ? `prompt ${bytes(prompt)}` : `kept ${bytes(kept)} (prompt ${bytes(prompt)}, around it ${bytes(more)})`,
    dropped === null ? null : `dropped ${bytes(dropped)}`,
    exchanges ? plural(exchanges, "exchange") : "no exchange yet",
    recalled ? plural(recalled, "recall") : null,
    handoff.origin && handoff.origin !== "model" ? `by ${line(handoff.origin)}` : null,
    handoff.archived ? "archived" : null,
  ].filter(Boolean).join(" · ");
  const undo = `::undo ${handoff.id}`;
  return h("li", { class: "step" },
    h("span", { class: "badge" }, n),
    h("span", { class: "step-about" },
      h("a", { href: `#/h/${encodeURIComponent(handoff.id)}`, dir: "auto" }, line(handoff.reason) || line(handoff.first_line) || brief(handoff.id)),
      h("span", { class: "dim small" }, `${clock(handoff.at_ms)} · ${said}`)),
    h("span", { class: "step-ways" },
      copyButton(() => handoff.resume_line ?? `[[handoff-resume:${handoff.id}]]`, "Copy resume line", { title: "Begin a message of a new session with it to go on from here" }),
      copyButton(() => undo, "Copy undo", { title: "Send it as a message in the agent: the session goes on as if this handoff had not been. Sent again, it takes that back" })));
}
