// OpenCode calls `event` with what happens in a session. A hook's input for baton is the folder and the last words.
import { spawnSync } from "node:child_process";

export const BatonHandoffs = async ({ directory }) => {
  // The parts of the newest message of each session: at its end that is the model's answer. And what the person asked.
  const newest = new Map();
  const asked = new Map();
  // What the newest answer of each session took of its model's context.
  const usage = new Map();
  const count = (message) => {
    const { input, output, cache } = message.tokens ?? {};
    const tokens_used = (input ?? 0) + (output ?? 0) + (cache?.read ?? 0) + (cache?.write ?? 0);
    if (tokens_used > 0) usage.set(message.sessionID, { tokens_used, model: message.modelID });
  };
  const words = (message) => [...(message?.parts.values() ?? [])].join("\n");
  const note = (part) => {
    if (part.type !== "text") return;
    const known = newest.get(part.sessionID);
    const message = known?.id === part.messageID ? known : { id: part.messageID, parts: new Map() };
    if (!asked.has(part.sessionID)) asked.set(part.sessionID, message);
    message.parts.set(part.id, part.text);
    newest.set(part.sessionID, message);
  };
  // Nothing is awaited: `opencode run` ends as soon as its session is idle.
  const write = (sessionID) => {
    const [first, last] = [asked.get(sessionID), newest.get(sessionID)];
    const said = last === first ? "" : words(last);
    const input = JSON.stringify({ cwd: directory, last_assistant_message: said, input_messages: [words(first)], ...usage.get(sessionID) });
    spawnSync("baton", ["handoffs", "create", "--auto", "--hook"], { input, timeout: 40_000 });
  };
  return {
    event: async ({ event }) => {
      if (event.type === "message.part.updated") note(event.properties.part);
      if (event.type === "message.updated") count(event.properties.info);
      if (event.type === "session.idle") write(event.properties.sessionID);
    },
    "experimental.session.compacting": async ({ sessionID }) => write(sessionID),
  };
};
