// What every SDK has to see when it talks through the proxy: five tasks in a row, handed over four times.
//
// The twin of ../py/judge.py, which says more. A script beside this file describes an agent on one SDK: an
// object with `start(headers)`, which returns an agent with the methods `say`, `ask`, `give` and, where the API
// has it, `count`.

import assert from "node:assert/strict";

export const URL = process.env.BATON_URL;
export const TASKS = 5;
export const STEPS = 2;
export const TOOL = "read_file";
export const TOOL_TEXT = "Read lines of a file";
export const SCHEMA = {
  type: "object",
  properties: { path: { type: "string" }, lines: { type: "integer" } },
  required: ["path", "lines"],
};
// Longer than the tool that the first handoff brings.
export const RESULT = "fn main() {}\n".repeat(99);
const THOUGHT = "What does the task ask for next? — “step by step”.";
const FORBIDDEN = "session_handoff";

const ID = "[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}";
const LINE = "\\*Handed over: task \\d+ done\\. From here on the model knows only what follows\\.\\*";
const SENTINEL = `\\[\\[handoff-resume:${ID}\\]\\]\\n${LINE}\\n\\n(?<prompt>.*?)\\n\\[\\[/handoff-resume:[\\w-]{22}\\]\\]`;
const ASIDE = `\\[\\[handoff-aside:${ID}\\]\\]`;

const KINDS = ["plain", "mixed", "refuse"];

const DEFAULTS = {
  joined: false, // The wire has one string of text, in which the sentinel stands with the rest.
  gap: "\n\n", // What surrounds a sentinel.
  thinks: false, // The model's thinking reaches the agent.
  stops: { call: "tool_use", end: "end_turn", lost: "pause_turn" },
  retries: true, // The SDK tries an overloaded provider again by itself.
  modes: [true, false], // Streaming, and not.
  countsAll: true, // The API counts system and tools, too.
};

/** The carry-over prompt after task `task`. */
function prompt(task, kind) {
  const flag = kind === "plain" ? "" : ` ${kind}`;
  return (
    `Task ${task} of ${TASKS} is done. Findings so far: naïve “quotes”, 漢字, 🦀, C:\\tmp\\x, {"json": [1]}.\n` +
    `Go on with the next one:\n#task ${task + 1}/${TASKS} steps=${STEPS}${flag}\nWork step by step.`
  );
}

/** The blocks of each answer, in order. */
function expected(kind, thinks) {
  const leg = (...blocks) => [...(thinks ? [["thinking", THOUGHT]] : []), ...blocks];
  const answers = [];
  let open = [];
  for (let task = 1; task <= TASKS; task++) {
    const last = task === TASKS;
    for (let step = 1; step <= STEPS; step++) {
      const beside = kind === "mixed" && step === STEPS && !last;
      const text = beside ? "The last step, and the handoff beside it." : `Task ${task}, step ${step} of ${STEPS}.`;
      answers.push([...open, ...leg(["text", text], ["call", TOOL, { path: "src/lib.rs", lines: step }])]);
      open = [];
    }
    if (last) {
      answers.push(leg(["text", `All ${TASKS} tasks done.`]));
      break;
    }
    if (kind === "mixed") open = leg(["text", `Task ${task} is done.`]);
    else if (kind === "refuse")
      open = [
        ...leg(["text", "Handing over, badly."], ["aside"]),
        ...leg(["text", `Task ${task} is done; handing over.`]),
      ];
    else open = leg(["text", `Task ${task} is done; handing over.`]);
    open.push(["sentinel", prompt(task, kind)]);
  }
  return answers;
}

/** A text with the proxy's own marks told from the model's words. */
function marks(text, { gap, joined }) {
  const out = [];
  let at = 0;
  for (const found of text.matchAll(new RegExp(`${gap}(?:${SENTINEL}|${ASIDE})${gap}`, "gs"))) {
    out.push(["text", text.slice(at, found.index)]);
    out.push(found.groups.prompt === undefined ? ["aside"] : ["sentinel", found.groups.prompt]);
    at = found.index + found[0].length;
  }
  out.push(["text", text.slice(at)]);
  if (!joined && out.length > 1)
    assert.ok(out[0][1] === "" && out.at(-1)[1] === "", `a mark shares its block: ${JSON.stringify(text)}`);
  return out.filter(([kind, text]) => kind !== "text" || text !== "");
}

const read = (blocks, sdk) => blocks.flatMap((block) => (block[0] === "text" ? marks(block[1], sdk) : [block]));

function same(what, seen, wanted) {
  // Through JSON, which drops what only the SDK's classes add.
  const plain = (value) => JSON.parse(JSON.stringify(value));
  assert.deepEqual(
    plain(seen),
    plain(wanted),
    `${what}:\n  saw    ${JSON.stringify(seen)}\n  wanted ${JSON.stringify(wanted)}`,
  );
}

/** What an agent's requests have to carry, so that the provider knows how to answer. */
function headers(run, kind, chunk, fault) {
  return { "x-judge-run": run, "x-judge-kind": kind, "x-judge-chunk": `${chunk}`, "x-judge-fault": fault };
}

/** What the person says first. */
function task(run, kind) {
  const flag = kind === "plain" ? "" : ` [${kind}]`;
  return `Run ${run}. Please do this:\n#task 1/${TASKS} steps=${STEPS}${flag}`;
}

/** Five tasks in one agent loop; the answers' sizes. */
async function chain(sdk, run, kind, stream, chunk, fault, counts) {
  const agent = sdk.start(headers(run, kind, chunk, fault));
  agent.say(task(run, kind));
  const wanted = expected(kind, sdk.thinks);
  const sizes = [];
  let counted;
  let handed = false;
  for (let at = 0; at < wanted.length; at++) {
    const how = `${kind}, ${stream ? "stream" : "whole"}, ${chunk} bytes, ${fault}`;
    const where = `run ${run} (${how}), answer ${at + 1}`;
    const earlier = counted;
    counted = counts && agent.count ? await agent.count() : undefined;
    if (earlier !== undefined) same(`${where}, count shrinks (${earlier} to ${counted})`, counted < earlier, handed);
    const answer = await agent.ask(stream);
    const seen = read(answer.blocks, sdk);
    const lost = fault === "lost" && seen.at(-1)?.[0] === "sentinel";
    if (lost) {
      // The next leg never came: what stands so far, and the rest with the next request.
      const cut = wanted[at].findIndex(([kind]) => kind === "sentinel") + 1;
      same(where, seen, wanted[at].slice(0, cut));
      wanted.splice(at + 1, 0, wanted[at].slice(cut));
      fault = "";
    } else same(where, seen, wanted[at]);
    const raw = JSON.stringify(answer.raw);
    assert.ok(!raw.includes(FORBIDDEN), `${where}: the hidden call reached the agent: ${raw}`);
    const stop = lost ? "lost" : answer.calls.length ? "call" : "end";
    same(`${where}, stop reason`, answer.stop, sdk.stops[stop]);
    handed = seen.some(([kind]) => kind === "sentinel");
    if (counted !== undefined && sdk.countsAll && !handed) same(`${where}, counted beforehand`, counted, answer.input);
    const before = sizes.at(-1);
    if (before && !lost && before.stop !== "lost")
      same(`${where}, input shrinks (${before.input} to ${answer.input})`, answer.input < before.input, handed);
    sizes.push({ input: answer.input, output: answer.output, stop });
    if (answer.calls.length) agent.give(answer.calls);
    else if (lost && sdk.stops.lost !== "pause_turn") agent.say("Go on.");
  }
  return sizes;
}

/** An unknown handoff: the proxy itself answers, and the SDK takes that for a model's answer. */
async function unknown(sdk, stream) {
  const agent = sdk.start(headers("00", "plain", 0, ""));
  agent.say("[[handoff-resume:0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11]]\nGo on.");
  const answer = await agent.ask(stream);
  const where = `an unknown handoff, ${stream ? "stream" : "whole"}`;
  same(`${where}, blocks`, answer.blocks.map(([kind]) => kind), ["text"]);
  assert.ok(answer.blocks[0][1].startsWith("baton: "), `${where}: ${JSON.stringify(answer.blocks)}`);
  same(`${where}, stop reason`, answer.stop, sdk.stops.end);
  assert.ok(answer.input > 0 && answer.output > 0, `${where}, usage: ${answer.input}, ${answer.output}`);
}

/** All runs for one SDK. */
export async function judge(name, described) {
  const sdk = { ...DEFAULTS, ...described };
  let runs = 0;
  const next = () => `${++runs}`.padStart(2, "0");
  for (const stream of sdk.modes) await unknown(sdk, stream);
  for (const kind of KINDS) {
    let outputs;
    for (const stream of sdk.modes) {
      let first;
      for (const chunk of stream ? [0, 1, 7] : [0, 7]) {
        const sizes = await chain(sdk, next(), kind, stream, chunk, "", chunk === 0);
        // What an SDK resends may differ with how it got it.
        first ??= sizes;
        same(`${kind}, ${chunk} bytes: usage`, sizes, first);
      }
      outputs ??= first.map(({ output }) => output);
      same(`${kind}: output, streamed or not`, first.map(({ output }) => output), outputs);
    }
  }
  for (const stream of sdk.modes)
    for (const fault of sdk.retries ? ["first", "leg2", "lost"] : ["leg2", "lost"])
      await chain(sdk, next(), "plain", stream, 0, fault, false);
  console.log(`${name}: ${runs} runs of ${TASKS} tasks`);
}

/**
 * All runs for an SDK with an agent loop of its own: `loop(headers, text, stream)` runs it to its end and returns
 * its answers.
 */
export async function judgeLoop(name, described) {
  const sdk = { ...DEFAULTS, ...described };
  let runs = 0;
  for (const kind of KINDS) {
    for (const stream of [true, false]) {
      let first;
      for (const chunk of stream ? [0, 1, 7] : [0]) {
        const run = `${++runs}`.padStart(2, "0");
        const answers = await sdk.loop(headers(run, kind, chunk, ""), task(run, kind), stream);
        const wanted = expected(kind, sdk.thinks);
        const sizes = [];
        for (const [at, answer] of answers.entries()) {
          const where = `run ${run} (${kind}, ${stream ? "stream" : "whole"}, ${chunk} bytes), answer ${at + 1}`;
          const seen = read(answer.blocks, sdk);
          same(where, seen, wanted[at]);
          const raw = JSON.stringify(answer.raw);
          assert.ok(!raw.includes(FORBIDDEN), `${where}: the hidden call reached the agent: ${raw}`);
          same(`${where}, stop reason`, answer.stop, at + 1 < wanted.length ? sdk.stops.call : sdk.stops.end);
          const handed = seen.some(([kind]) => kind === "sentinel");
          if (at) same(`${where}, input shrinks`, answer.input < sizes.at(-1).input, handed);
          sizes.push({ input: answer.input, output: answer.output });
        }
        same(`run ${run}: answers`, answers.length, wanted.length);
        first ??= sizes;
        same(`${kind}, ${chunk} bytes: usage`, sizes, first);
      }
    }
  }
  console.log(`${name}: ${runs} runs of ${TASKS} tasks`);
}
