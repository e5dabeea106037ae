// Alignment of two lists of messages, without a browser.

import assert from "node:assert/strict";
import test from "node:test";
import { lineDiff } from "../../src/serve/admin/page/lines.js";
import { align, differ, fold } from "../../src/serve/admin/page/align.js";

const STATES = { k: "kept", c: "cut", n: "new", e: "changed" };
const list = (letters) => [...letters].map((letter, i) => ({ i, state: STATES[letter] }));
const shape = (blocks) => blocks.map((b) => `${b.kind}:${b.left.length}/${b.right.length}`).join(" ");

test("what stayed behind stands beside what came in its place", () => {
  assert.equal(shape(align(list("kccck"), list("knk"))), "same:1/1 change:3/1 same:1/1");
  assert.equal(shape(align(list("cek"), list("nek"))), "change:1/1 edit:1/1 same:1/1");
  assert.equal(shape(align(list("kk"), list("knnk"))), "same:1/1 change:0/2 same:1/1");
  assert.equal(shape(align([], list("n"))), "change:0/1");
  assert.equal(shape(align([], [])), "");
});

test("every message stands somewhere, also where the states do not fit together", () => {
  for (const [a, b] of [["kkk", "k"], ["k", "kkk"], ["ccc", "kkk"], ["knk", "ckc"], ["kce", "e"]]) {
    const blocks = align(list(a), list(b));
    assert.deepEqual(blocks.flatMap((block) => block.left.map((m) => m.i)), list(a).map((m) => m.i), a);
    assert.deepEqual(blocks.flatMap((block) => block.right.map((m) => m.i)), list(b).map((m) => m.i), b);
  }
});

test("long unchanged runs lose their middle and nothing else", () => {
  const blocks = align(list(`${"k".repeat(20)}c${"k".repeat(5)}`), list("k".repeat(25)));
  const folded = fold(blocks);
  assert.deepEqual(folded.map((b) => b.kind), ["same", "same", "same", "fold", "same", "same", "same", "change", ...Array(5).fill("same")]);
  assert.equal(folded[3].blocks.length, 14);
  assert.equal(folded.flatMap((b) => (b.kind === "fold" ? b.blocks : [b])).length, blocks.length);
});

test("the place where two texts differ", () => {
  assert.deepEqual(differ("abcXdef", "abcYYdef"), { head: 3, tail: 3 });
  assert.deepEqual(differ("same", "same"), { head: 4, tail: 0 });
  assert.deepEqual(differ("aa", "aaa"), { head: 2, tail: 0 });
  assert.deepEqual(differ("", "x"), { head: 0, tail: 0 });
});

test("lines that came and went", () => {
  const diff = (a, b) => lineDiff(a, b).map(([kind, line]) => kind + line).join("|");
  assert.equal(diff("a\nb\nc", "a\nx\nc\nd"), " a|-b|+x| c|+d");
  assert.equal(diff("", "a"), "-|+a");
  assert.equal(diff("a\nb", "a\nb"), " a| b");
  const many = (word) => Array.from({ length: 3000 }, (_, n) => word + n).join("\n");
  assert.equal(lineDiff(many("a"), many("b")).length, 6000, "a large pair is all gone and all new");
});
