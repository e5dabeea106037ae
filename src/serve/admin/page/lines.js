// Line diff of two texts. Pure: tests/browser/align.test.mjs runs it without a browser.

/** Maximum pairs of lines to compare. Beyond it the table would be too large, and all lines count as removed or added. */
const MOST_PAIRS = 4_000_000;

/** Returns `[kind, line]` in order. The kind is ` `, `-` or `+`. */
export function lineDiff(before, after) {
  const [a, b] = [before.split("\n"), after.split("\n")];
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head += 1;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail += 1;
  const same = (lines) => lines.map((line) => [" ", line]);
  const middle = between(a.slice(head, a.length - tail), b.slice(head, b.length - tail));
  return [...same(a.slice(0, head)), ...middle, ...same(a.slice(a.length - tail))];
}

/** Compares lines by their longest common subsequence. */
function between(a, b) {
  if (a.length * b.length > MOST_PAIRS) return [...a.map((line) => ["-", line]), ...b.map((line) => ["+", line])];
  const wide = b.length + 1;
  const longest = new Uint32Array((a.length + 1) * wide);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      longest[i * wide + j] = a[i] === b[j] ? longest[(i + 1) * wide + j + 1] + 1 : Math.max(longest[(i + 1) * wide + j], longest[i * wide + j + 1]);
    }
  }
  const out = [];
  for (let i = 0, j = 0; i < a.length || j < b.length; ) {
    if (i < a.length && j < b.length && a[i] === b[j]) out.push([" ", a[i]]), (i += 1), (j += 1);
    else if (j === b.length || (i < a.length && longest[(i + 1) * wide + j] >= longest[i * wide + j + 1])) out.push(["-", a[i]]), (i += 1);
    else out.push(["+", b[j]]), (j += 1);
  }
  return out;
}
