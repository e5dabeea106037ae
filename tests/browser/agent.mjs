// A small agent on the Anthropic wire that sends its whole history with each request, as agents do.

const TOOL = { name: "read_file", description: "Read lines of a file", input_schema: { type: "object", properties: { path: { type: "string" }, lines: { type: "integer" } }, required: ["path", "lines"] } };

export class Agent {
  history = [];

  constructor(url, { result = "fn main() {}\n".repeat(200), session = "browser-test" } = {}) {
    Object.assign(this, { url, result, session });
  }

  say(text) {
    this.history.push({ role: "user", content: [{ type: "text", text }] });
    return this;
  }

  /** Sends one request and answers the calls of its reply. Returns whether there is more to do. */
  async ask() {
    const body = { model: "claude-sonnet-5-5", max_tokens: 4096, system: "You work step by step.", tools: [TOOL], messages: this.history };
    const headers = { "content-type": "application/json", "anthropic-version": "2023-06-01", "x-api-key": "sk-never-shown", "x-session-id": this.session };
    const answer = await fetch(`${this.url}/v1/messages`, { method: "POST", headers, body: JSON.stringify(body) });
    const reply = await answer.json();
    if (!answer.ok) throw new Error(JSON.stringify(reply));
    this.exchange = answer.headers.get("x-baton-exchange");
    this.history.push({ role: "assistant", content: reply.content });
    const calls = reply.content.filter((block) => block.type === "tool_use");
    if (calls.length) this.history.push({ role: "user", content: calls.map(({ id }) => ({ type: "tool_result", tool_use_id: id, content: this.result })) });
    return calls.length > 0;
  }

  async work() {
    while (await this.ask());
  }
}
