// Sizes that each handoff of a conversation kept and dropped, without a browser.

import assert from "node:assert/strict";
import test from "node:test";
import { steps } from "../../src/serve/admin/page/chain.js";

const cut = (handoff, removed, added) => ({ leg: 0, why: "cut", removed, added, handoff });

test("sizes are those of the first request behind a handoff, counts those of all", () => {
  const rows = [
    { changes: [{ leg: 0, why: "tool", removed: 0, added: 9, handoff: null }] },
    { fired: ["a"], changes: [cut("a", 1000, 100)] },
    { pinned: "a", changes: [cut("a", 1200, 100)], recalls: ["found", "nothing"] },
    { pinned: "a", recalls: ["found"] },
    { fired: ["b"], pinned: "a", changes: [] },
  ];
  const said = steps([{ id: "a" }, { id: "b" }], rows).map(({ handoff, ...rest }) => [handoff.id, rest]);
  assert.deepEqual(said, [
    ["a", { n: 1, kept: 100, dropped: 1000, exchanges: 3, recalled: 3 }],
    ["b", { n: 2, kept: null, dropped: null, exchanges: 0, recalled: 0 }],
  ]);
  assert.deepEqual(steps([], rows), []);
});
