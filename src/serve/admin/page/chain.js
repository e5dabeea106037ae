// Chain of a conversation's handoffs: the sizes that each kept and dropped, later recalls, and commands to return to it.

import { copyButton, h, line } from "./dom.js";
import { begun, brief, bytes, clock, plural } from "./words.js";

/** Returns a step for each handoff, in order. Sizes are those of the first request that was cut there. */
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

/** Returns the steps as list items. `active` is the handoff at which the newest request was cut, `undo` the undo command, if any. */
export function chain(handoffs, rows, active, undo) {
  // `active` is of the newest request that was sent, so right after an undo only the documents know.
  const isStale = Boolean(rows.at(-1)?.undo);
  return steps(handoffs, rows).map((step) => {
    const { id, document } = step.handoff;
    const counts = isStale && document ? document.status === "active" : id === active;
    const is = JSON.stringify([step.n, step.kept, step.dropped, step.exchanges, step.recalled, step.handoff.archived, undone(step.handoff), counts]);
    return { key: step.handoff.id, is, make: () => row(step, counts, undo) };
  });
}

/** Whether the user undid a handoff. */
export const undone = (handoff) => handoff.document?.status === "undone";

/** Button of a handoff that is in effect, and of one that was undone. */
const UNDO = [
  ["Copy undo", { title: "Send this as a message in the agent to undo the handoff: the session continues as if it had not happened. Send it again to redo the handoff" }],
  ["Copy redo", { title: "Send this as a message in the agent to redo the handoff: the session continues from it again" }],
];

/** Button that copies the command which undoes a handoff, or redoes an undone one. `undo` is the command without the id. */
export function undoButton(undo, handoff) {
  return copyButton(() => `${undo} ${handoff.id}`, ...UNDO[Number(undone(handoff))]);
}

function row({ handoff, n, kept, dropped, exchanges, recalled }, counts, undo) {
  const prompt = handoff.prompt_bytes ?? 0;
  const more = kept === null ? 0 : Math.max(0, kept - prompt);
  const said = [
    kept === null ? `prompt ${bytes(prompt)}` : `kept ${bytes(kept)} (prompt ${bytes(prompt)}, other text ${bytes(more)})`,
    dropped === null ? null : `dropped ${bytes(dropped)}`,
    exchanges ? plural(exchanges, "exchange") : "no exchanges yet",
    recalled ? plural(recalled, "recall") : null,
    begun(handoff),
    handoff.archived ? "archived" : null,
    counts ? "in effect" : undone(handoff) ? "undone" : null,
  ].filter(Boolean).join(" · ");
  return h("li", { class: "step" },
    h("span", { class: "badge" }, n),
    h("span", { class: "step-about" },
      h("a", { href: `#/h/${encodeURIComponent(handoff.id)}`, dir: "auto" }, line(handoff.reason) || line(handoff.first_line) || brief(handoff.id)),
      h("span", { class: "dim small" }, `${clock(handoff.at_ms)} · ${said}`)),
    h("span", { class: "step-ways" },
      copyButton(() => handoff.resume_line ?? `[[handoff-resume:${handoff.id}]]`, "Copy resume line", { title: "Start a message in a new session with this line to continue from here" }),
      // One that never took effect, as at the agent's exit, is in no transcript.
      undo && (counts || kept !== null || exchanges || undone(handoff)) ? undoButton(undo, handoff) : null));
}
