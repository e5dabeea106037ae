// Grows chats in a model's own prefix cache, and writes what it read from the cache as session files in pi's form. The last chat is sent
// twice: as it is, and cut in the answer of one call, with the tool that handoffs need in each request.
//
//     node measure.mjs MODEL DIRECTORY CUT_AT PROMPT_TOKENS TOOL_TOKENS

import { mkdirSync, writeFileSync } from "node:fs";
import { getLlama } from "node-llama-cpp";

const CALLS = 8;
const LONG_CALLS = 20;
const [file, directory, cutAt, promptTokens, toolTokens] = process.argv.slice(2);
mkdirSync(directory, { recursive: true });
const llama = await getLlama({ gpu: false, build: "never" });
const model = await llama.loadModel({ modelPath: file });
const context = await model.createContext({ contextSize: 8192 });

/** So many tokens that no other text begins with. */
function filler(name, tokens) {
  const text = Array.from({ length: tokens }, (_, at) => `${name}${(at * 7) % 97}`).join(" ");
  return model.tokenize(text).slice(0, tokens);
}

/** Sends a request to the cache. Returns its usage and the answer's tokens. */
async function send(cache, prompt) {
  // What the cache holds that the prompt does not begin with is dropped; the rest is read from it.
  await cache.adaptStateToTokens(prompt, false);
  const read = cache.nextTokenIndex;
  const answer = [];
  for await (const token of cache.evaluate(prompt.slice(read), { temperature: 0 })) {
    answer.push(token);
    if (answer.length === 1) break;
  }
  return { usage: { input: prompt.length - read, cacheRead: read, cacheWrite: 0, output: answer.length }, answer };
}

/** The entries of a session; a branch takes the last two calls back in the middle. */
async function session(name, calls, parts, branches) {
  const cache = context.getSequence();
  const stamp = () => new Date().toISOString();
  const entries = [{ type: "session", id: name, timestamp: stamp(), cwd: "/src" }];
  const user = (text) => entries.push({ type: "message", timestamp: stamp(), message: { role: "user", content: [{ type: "text", text }] } });
  let said = [parts.fixed];
  for (let n = 0; n < calls; n += 1) {
    if (branches && n === calls / 2) said = said.slice(0, -4);
    said.push(parts.step(n));
    user(n === 0 ? "x".repeat(4 * parts.step(0).length) : "x");
    const { usage, answer } = await send(cache, said.flat());
    said.push(answer);
    // A file that is read, so that it is known what is read again: nothing.
    const content = n === 0 ? [{ type: "toolCall", id: "r", name: "read", arguments: { path: "/src/a" } }] : [];
    entries.push({ type: "message", timestamp: stamp(), message: { role: "assistant", content, model: "deepseek-smollm2", usage, responseId: `${name}-${n}` } });
    if (n === 0) entries.push({ type: "message", timestamp: stamp(), message: { role: "toolResult", toolCallId: "r", content: [{ type: "text", text: "x" }] } });
  }
  cache.dispose();
  writeFileSync(`${directory}/${name}.jsonl`, `${entries.map((entry) => JSON.stringify(entry)).join("\n")}\n`);
}

/** What the same session is billed with a cut in the answer of one call. */
async function cut(name, calls, parts) {
  const cache = context.getSequence();
  const usages = [];
  const before = [filler("tool", Number(toolTokens)), parts.fixed];
  let said = [...before];
  for (let n = 0; n < calls; n += 1) {
    said.push(parts.step(n));
    if (n === Number(cutAt)) {
      // The leg that hands over writes the prompt.
      const { usage } = await send(cache, said.flat());
      usages.push({ ...usage, output: Number(promptTokens) });
      said = [...before, filler("prompt", Number(promptTokens))];
    }
    const { usage, answer } = await send(cache, said.flat());
    usages.push(usage);
    said.push(answer);
  }
  cache.dispose();
  writeFileSync(`${directory}/${name}.cut.json`, JSON.stringify(usages));
}

const short = (name) => ({
  fixed: model.tokenize(`Session ${name}. ${"the rule of the house is that nothing is left open ".repeat(14)}`),
  step: (n) => model.tokenize(`Part ${n} of ${name}: ${Array.from({ length: 16 }, (_, at) => `word${(n * 7 + at) % 97}`).join(" ")}`),
});
const long = { fixed: filler("rule", 200), step: (n) => filler(`part${n}x`, 300) };
await session("branch", CALLS, short("branch"), true);
await session("long", LONG_CALLS, long, false);
await cut("long", LONG_CALLS, long);
await llama.dispose();
