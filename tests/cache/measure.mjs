// Grows two chats in a model's own prefix cache, and writes what it read from the cache as session files in pi's form.
//
//     node measure.mjs MODEL FOLDER

import { mkdirSync, writeFileSync } from "node:fs";
import { getLlama } from "node-llama-cpp";

const CALLS = 8;
const [file, folder] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
const llama = await getLlama({ gpu: false, build: "never" });
const model = await llama.loadModel({ modelPath: file });
const context = await model.createContext({ contextSize: 8192 });

/** The entries of a session; a branch takes the last two calls back in the middle. */
async function session(name, branches) {
  const cache = context.getSequence();
  const stamp = () => new Date().toISOString();
  const entries = [{ type: "session", id: name, timestamp: stamp(), cwd: "/src" }];
  let said = [model.tokenize(`Session ${name}. ${"the rule of the house is that nothing is left open ".repeat(14)}`)];
  for (let n = 0; n < CALLS; n += 1) {
    if (branches && n === CALLS / 2) said = said.slice(0, -4);
    const words = Array.from({ length: 16 }, (_, at) => `word${(n * 7 + at) % 97}`);
    said.push(model.tokenize(`Part ${n} of ${name}: ${words.join(" ")}`));
    entries.push({ type: "message", timestamp: stamp(), message: { role: "user", content: [{ type: "text", text: "x" }] } });
    const prompt = said.flat();
    // What the cache holds that the prompt does not begin with is dropped; the rest is read from it.
    await cache.adaptStateToTokens(prompt, false);
    const read = cache.nextTokenIndex;
    const answer = [];
    for await (const token of cache.evaluate(prompt.slice(read), { temperature: 0 })) {
      answer.push(token);
      if (answer.length === 1) break;
    }
    said.push(answer);
    const usage = { input: prompt.length - read, cacheRead: read, cacheWrite: 0, output: answer.length };
    entries.push({ type: "message", timestamp: stamp(), message: { role: "assistant", content: [], model: "deepseek-smollm2", usage, responseId: `${name}-${n}` } });
  }
  cache.dispose();
  writeFileSync(`${folder}/${name}.jsonl`, `${entries.map((entry) => JSON.stringify(entry)).join("\n")}\n`);
}

await session("straight", false);
await session("branch", true);
await llama.dispose();
