// Alignment of two lists of messages. Pure: tests/browser/align.test.mjs runs it without a browser.

/**
 * Returns blocks of `{kind, left, right}`. A `same` block has one message on each side, an `edit` block one that was
 * edited. A `change` block has removed messages next to their replacement. Both sides keep their order: one walk aligns them.
 */
export function align(received, sent) {
  const blocks = [];
  let i = 0;
  let j = 0;
  const stays = (message) => message.state !== "cut" && message.state !== "new";
  while (i < received.length || j < sent.length) {
    const left = [];
    const right = [];
    while (i < received.length && !stays(received[i])) left.push(received[i++]);
    while (j < sent.length && !stays(sent[j])) right.push(sent[j++]);
    // One side has ended, so the rest of the other has no counterpart.
    if (i >= received.length) right.push(...sent.slice(j)), (j = sent.length);
    else if (j >= sent.length) left.push(...received.slice(i)), (i = received.length);
    if (left.length || right.length) blocks.push({ kind: "change", left, right });
    if (i < received.length && j < sent.length) {
      const pair = { left: [received[i++]], right: [sent[j++]] };
      const edited = pair.left[0].state === "changed" || pair.right[0].state === "changed";
      blocks.push({ kind: edited ? "edit" : "same", ...pair });
    }
  }
  return blocks;
}

/** Replaces the middle of runs of more than `most` unchanged pairs with `{kind: "fold", blocks}`. */
export function fold(blocks, most = 8, edge = 3) {
  const out = [];
  for (let at = 0; at < blocks.length; ) {
    let end = at;
    while (end < blocks.length && blocks[end].kind === "same") end += 1;
    const run = blocks.slice(at, end);
    if (run.length > most) out.push(...run.slice(0, edge), { kind: "fold", blocks: run.slice(edge, -edge) }, ...run.slice(-edge));
    else out.push(...run);
    if (end < blocks.length) out.push(blocks[end]);
    at = end + 1;
  }
  return out;
}

/** Returns the lengths of the common beginning and the common end of two strings. */
export function differ(a, b) {
  const least = Math.min(a.length, b.length);
  let head = 0;
  while (head < least && a[head] === b[head]) head += 1;
  let tail = 0;
  while (tail < least - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail += 1;
  return { head, tail };
}
