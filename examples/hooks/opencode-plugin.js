// OpenCode calls `event` with the events of a session. The hook's input for baton is the directory and the messages.
import { spawnSync } from "node:child_process";

export const BatonHandoffs = async ({ directory }) => {
  // The messages of each session, in order: metadata and parts.
  const sessions = new Map();
  const message = (sessionID, id) => {
    if (!sessions.has(sessionID)) sessions.set(sessionID, new Map());
    const messages = sessions.get(sessionID);
    if (!messages.has(id)) messages.set(id, { parts: new Map() });
    return messages.get(id);
  };
  const block = ({ type, text, callID, tool, state }) =>
    type === "text" ? { type, text } : { type: "tool_use", id: callID, name: tool, input: state.input ?? {} };
  const result = ({ callID, state }) => ({
    type: "tool_result",
    tool_use_id: callID,
    is_error: state.status === "error",
    content: state.output ?? state.error,
  });
  const said = ({ info, parts }) => {
    const all = [...parts.values()].filter(({ type }) => type === "text" || type === "tool");
    const results = all.filter(({ state }) => state?.output ?? state?.error).map(result);
    const own = { role: info?.role ?? "assistant", content: all.map(block) };
    return results.length ? [own, { role: "user", content: results }] : [own];
  };
  // Nothing is awaited: `opencode run` ends as soon as its session is idle.
  const write = (sessionID) => {
    const all = [...(sessions.get(sessionID)?.values() ?? [])];
    const { tokens, modelID } = all.findLast(({ info }) => info?.tokens?.output)?.info ?? {};
    const cache = tokens?.cache ?? {};
    const tokens_used = tokens && tokens.input + tokens.output + (cache.read ?? 0) + (cache.write ?? 0);
    const messages = all.flatMap(said);
    const input = JSON.stringify({ session_id: sessionID, cwd: directory, messages, tokens_used, model: modelID });
    spawnSync("baton", ["handoffs", "create", "--auto", "--hook"], { input, timeout: 40_000 });
  };
  return {
    event: async ({ event: { type, properties } }) => {
      const { part, info, sessionID } = properties;
      if (type === "message.part.updated") message(part.sessionID, part.messageID).parts.set(part.id, part);
      if (type === "message.updated") message(info.sessionID, info.id).info = info;
      if (type === "session.idle") write(sessionID);
    },
    "experimental.session.compacting": async ({ sessionID }) => write(sessionID),
  };
};
