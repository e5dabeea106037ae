// The inspector: routes by the address's hash, and connects the side column, the views, the keyboard and the events.

import * as api from "./api.js";
import { conversation } from "./conversation.js";
import { h, line, say } from "./dom.js";
import { exchange } from "./exchange.js";
import { exchanges } from "./exchanges.js";
import { draft } from "./draft.js";
import { handoff, handoffs } from "./handoff.js";
import { home } from "./home.js";
import { keyboard } from "./keys.js";
import { savings } from "./savings.js";
import { Side } from "./side.js";

const main = document.getElementById("main");
const ctx = { rows: new Map(), signal: null, reopen: () => open(true), titleOf: (key) => side.titleOf(key), nameOf: (...it) => side.nameOf(...it), prefix: () => side.status?.command_prefix ?? "" };
let view = null;
let control = new AbortController();

const ROUTES = [
  [/^#\/c\/([^/]+)$/, conversation],
  [/^#\/e\/([^/?]+)(?:\?(.*))?$/, exchange],
  [/^#\/d\/([^/]+)$/, draft],
  [/^#\/h\/([^/]+)$/, handoff],
  [/^#\/h$/, handoffs],
  [/^#\/(x)(?:\?(.*))?$/, exchanges],
  [/^#\/(s)(?:\?(.*))?$/, savings],
  [/^(?:#\/?)?$/, home],
];

/** Milliseconds before a loading sign appears. Earlier it would only flicker. */
const QUIET = 200;

function route() {
  for (const [pattern, view] of ROUTES) {
    const found = pattern.exec(location.hash);
    if (!found) continue;
    try {
      const [first, query] = found.slice(1);
      return [view, [first && decodeURIComponent(first), new URLSearchParams(query ?? "")]];
    } catch {
      break; // A stray percent sign.
    }
  }
  return null;
}

/** Shows the view of the address. With `again` it is the same view with newer contents, and the scroll position stays. */
async function open(again = false) {
  control.abort();
  const mine = (control = new AbortController());
  const found = route();
  const atHome = found?.[0] === home;
  document.body.classList.toggle("at-home", atHome);
  if (!found) return lost();
  const [make, args] = found;
  const loading = setTimeout(() => again || show(h("div", { class: "view" }, h("p", { class: "loading", role: "status" }, "Loading…"))), QUIET);
  main.setAttribute("aria-busy", "true");
  const back = again ? { ...view?.place?.(), ...whereNow() } : places.get(history.state?.entry);
  try {
    await known;
    if (mine.signal.aborted) return;
    const made = await make({ ...ctx, signal: mine.signal, place: back }, ...args);
    if (mine.signal.aborted) return;
    view = made;
    main.replaceChildren(made.node);
    made.shown?.();
    settle(back, made);
    document.title = made.title ? `${made.title} · baton` : "baton";
    const key = make === conversation ? args[0] : (made.up?.startsWith("#/c/") ? decodeURIComponent(made.up.slice(4)) : null);
    side.here(key);
  } catch (error) {
    if (mine.signal.aborted || error.name === "AbortError") return;
    if (error.status === 401) locked();
    fail(error);
  } finally {
    clearTimeout(loading);
    if (control === mine) main.setAttribute("aria-busy", "false");
  }
}

function show(node) {
  main.replaceChildren(node);
  scrollTo(0, 0);
}

/** Scroll positions and focus, by the entry of the browser's history. */
const places = new Map();
let entry = history.state?.entry ?? entryName();
/** Whether the page has left its first address since it was loaded. */
let turned = false;
history.scrollRestoration = "manual";

/** A unique name for an entry of the history. Entries outlive this load of the page, so a counter would repeat names. */
function entryName() {
  return `${Date.now()}-${Math.random()}`;
}

/** The element at the top of the window, the focused element, and the scroll position. */
function whereNow() {
  const all = [...main.querySelectorAll("[data-at]")];
  const first = all.find((node) => node.getBoundingClientRect().bottom > 0);
  return {
    top: scrollY,
    first: first && [first.dataset.at, first.getBoundingClientRect().top],
    focus: main.contains(document.activeElement) ? document.activeElement.closest("[data-at]")?.dataset.at : null,
  };
}

function named(at) {
  return at && main.querySelector(`[data-at="${CSS.escape(at)}"]`);
}

/** Restores the position at which the page was left. A new view begins at its top and gets the focus. */
function settle(back, made) {
  const go = () => {
    scrollTo(0, back?.top ?? 0);
    const first = named(back?.first?.[0]);
    if (first) scrollBy(0, first.getBoundingClientRect().top - back.first[1]);
  };
  go();
  // Rows out of sight have an estimated height until they are laid out.
  if (back) requestAnimationFrame(() => view === made && (go(), requestAnimationFrame(() => view === made && go())));
  const focused = named(back?.focus);
  const item = focused?.matches("[data-item]") ? focused : focused?.querySelector("[data-item]");
  if (item) item.focus({ preventScroll: true });
  else if (!back && view?.up && turned && !document.activeElement?.closest("#search, dialog")) main.focus({ preventScroll: true });
  // Contents that arrive later may change the heights above.
  made.settled?.then(() => view === made && back && go());
}

/** Keeps the position of the history entry that is left, and names the new one. */
function turn() {
  if (view?.node?.isConnected) places.set(entry, { ...view.place?.(), ...whereNow() });
  if (history.state?.entry === undefined) history.replaceState({ entry: entryName() }, "");
  entry = history.state.entry;
  turned = true;
  open();
}

/** Shows a message instead of a view. */
function instead(title, ...parts) {
  show(h("div", { class: "view" }, h("header", { class: "head-of-view" }, h("h1", null, title), parts)));
}

const homeLink = () => h("p", null, h("a", { href: "#/" }, "Go to conversations"));

/** Shows that no view has this address. */
function lost() {
  view = { up: "#/" };
  document.title = "Page not found · baton";
  instead("Page not found", h("p", { role: "alert" }, "The inspector has no page at ", h("code", null, line(location.hash)), "."), homeLink());
  main.setAttribute("aria-busy", "false");
  side.here(null, false);
}

function fail(error) {
  // A request that failed on the server's side is repeated once the server responds again.
  const mends = error.status === 0 || error.status >= 500;
  view = { up: "#/", refresh: mends ? () => open() : null };
  const message = h("p", { class: "bad", role: "alert" }, error.message);
  const button = (label, act) => h("p", null, h("button", { type: "button", onclick: act }, label));
  side.here(null);
  if (error.status === 404) return instead("Not found", message, h("p", { class: "dim" }, "The journal has a size limit: the oldest exchanges are deleted first."), homeLink());
  if (error.status === 401) return instead("Token required", message, button("Enter token", locked));
  instead("Request failed", message, button("Try again", () => open()));
}

/** Asks for the admin token, unless the dialog is open already. */
function locked() {
  const dialog = document.getElementById("token");
  if (dialog.open) return;
  const input = h("input", { type: "password", autocomplete: "off", "aria-label": "Token", required: true, autofocus: true });
  const enter = (event) => {
    event.preventDefault();
    api.setToken(input.value.trim());
    dialog.close();
    start();
  };
  dialog.replaceChildren(h("form", { onsubmit: enter }, h("h2", null, "Admin token"), h("p", { class: "dim" }, "This listener requires the token that the config sets as admin.token. The page keeps it until you close this tab."), input, h("button", null, "Continue")));
  dialog.showModal();
}

function theme() {
  const root = document.documentElement;
  const was = root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  const now = was === "dark" ? "light" : "dark";
  root.dataset.theme = now;
  try {
    localStorage.setItem("baton-theme", now);
  } catch {
    // The browser stores nothing: the choice lasts until the page is reloaded.
  }
  say(now === "dark" ? "Dark theme" : "Light theme");
}

const LIVE = {
  live: ["live", "New exchanges appear as they end"],
  paused: ["paused", "Resumes when this tab is visible"],
  offline: ["offline", "Cannot reach baton; retrying"],
  off: ["journal off", "Nothing is recorded (journal.enabled = false)"],
  still: ["read-only", "No proxy is running; this page shows the stored journal"],
  locked: ["locked", "Token required"],
};

let state = null;

function liveState(now) {
  const [word, title] = LIVE[now];
  const node = document.getElementById("live");
  node.className = `live ${now}`;
  node.textContent = word;
  node.title = title;
  // Events were missed while there was no connection, so everything is read again.
  if (now === "live" && state !== null && state !== "live") side.load(), Promise.resolve(view?.refresh?.()).catch(() => null);
  state = now;
  if (now === "locked") locked();
}

const side = new Side({ locked });
let listen = null;
/** First list and status, from which views take names and the command prefix. */
let known = null;

function start() {
  known = side.load();
  open();
  if (listen) listen();
  else {
    listen = api.follow({
      state: liveState,
      event: (name, data) => {
        // Events came faster than the page read them, so everything is read again.
        if (name === "missed") return side.load(), view?.refresh?.();
        side.event(name, data);
        view?.event?.(name, data);
      },
    });
  }
}

try {
  const kept = localStorage.getItem("baton-theme");
  if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
} catch {
  // The browser stores nothing: its own preference applies.
}
document.getElementById("theme").addEventListener("click", theme);
document.getElementById("skip").addEventListener("click", (event) => (event.preventDefault(), main.focus()));
keyboard({ view: () => view, theme });
history.replaceState({ entry }, "");
addEventListener("hashchange", turn);
start();
