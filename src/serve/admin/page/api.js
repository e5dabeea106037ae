// Client of the JSON API and its event stream. Requests carry the token, which is kept as long as the tab.

const KEY = "baton-token";
let token = sessionStorage.getItem(KEY);

export class ApiError extends Error {
  constructor(status, code, message, position = null) {
    super(message);
    this.position = position;
    this.status = status;
    this.code = code;
  }
}

export function setToken(value) {
  token = value;
  sessionStorage.setItem(KEY, value);
}

/** Whether plain links cannot be used, because they would not carry the token. */
export function hasToken() {
  return Boolean(token);
}

async function ask(path, options = {}) {
  const headers = token ? { authorization: `Bearer ${token}` } : {};
  let answer;
  try {
    answer = await fetch(path, { headers, cache: "no-store", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "offline", "Cannot reach baton. Is it running?");
  }
  if (answer.ok) return answer;
  let said = {};
  try {
    said = (await answer.json()).error ?? {};
  } catch {
    // Not one of baton's errors: only the status is known.
  }
  throw new ApiError(answer.status, said.code, said.message ?? `The server responded with status ${answer.status}.`, said.position);
}

export async function json(path, options) {
  return (await ask(path, options)).json();
}

export async function post(path, body) {
  const headers = { ...(token ? { authorization: `Bearer ${token}` } : {}), "content-type": "application/json" };
  return (await ask(path, { method: "POST", headers, body: JSON.stringify(body) })).json();
}

export async function remove(path) {
  return (await ask(path, { method: "DELETE" })).json();
}

export async function text(path, options) {
  return (await ask(path, options)).text();
}

export async function blob(path) {
  return (await ask(path)).blob();
}

/** Builds `/api/…` from path segments, each escaped, and a query. */
export function path(segments, query = {}) {
  const params = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== undefined && value !== null));
  const tail = String(params);
  const escape = (segment) => encodeURIComponent(segment).replaceAll("%3A", ":");
  return `/api/${segments.map(escape).join("/")}${tail ? `?${tail}` : ""}`;
}

/** Wait before the next attempt in milliseconds: from half a second to ten. */
const FIRST_WAIT = 500;
const LONGEST_WAIT = 10_000;
/** Milliseconds without an event or a comment after which the connection is dead. The server sends one every 15 s. */
const SILENCE = 40_000;

/**
 * Follows the event stream while the page is visible. Uses fetch, because an EventSource cannot carry a token. A hidden
 * tab closes its connection, because browsers allow few to one host, and opens a new one when it is visible again.
 */
export function follow({ event, state }) {
  let stop = null;
  let wait = FIRST_WAIT;
  let timer;
  const run = async () => {
    const control = new AbortController();
    stop = control;
    let silence;
    const heard = () => {
      clearTimeout(silence);
      silence = setTimeout(() => control.abort(), SILENCE);
    };
    try {
      heard();
      const answer = await ask("/api/events", { signal: control.signal });
      state("live");
      wait = FIRST_WAIT;
      await read(answer.body, heard, event);
    } catch (error) {
      if (error.status === 401) return state("locked");
      if (error.code === "journal_off") return state("off");
      if (error.code === "no_proxy") return state("still");
    } finally {
      clearTimeout(silence);
      if (stop === control) stop = null;
    }
    if (document.hidden) return state("paused");
    state("offline");
    timer = setTimeout(run, wait);
    wait = Math.min(LONGEST_WAIT, wait * 2);
  };
  const start = () => {
    clearTimeout(timer);
    if (!stop && !document.hidden) run();
  };
  document.addEventListener("visibilitychange", () => (document.hidden ? stop?.abort() : start()));
  start();
  return start;
}

async function read(body, heard, event) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    heard();
    const blocks = (rest + value).replaceAll("\r\n", "\n").split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) dispatch(block, event);
  }
}

function dispatch(block, event) {
  let name = "message";
  const data = [];
  for (const line of block.split("\n")) {
    if (line.startsWith("event:")) name = line.slice(6).trim();
    else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
  }
  if (data.length === 0) return;
  let value;
  try {
    value = JSON.parse(data.join("\n"));
  } catch {
    return; // A later version may send other data.
  }
  event(name, value);
}
