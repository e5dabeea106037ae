// Keyboard shortcuts. `j` and `k` move over elements with `data-item`, in the list or in the view.

import { h } from "./dom.js";

const HELP = [
  ["j  k", "next, previous item"],
  ["h  l", "to the list, to the view"],
  ["Enter", "open"],
  ["u", "up one level"],
  ["[  ]", "previous, next exchange"],
  ["n  p", "next, previous change in a request"],
  ["/", "search, or #12 for exchange 12"],
  ["g c", "conversations"],
  ["g h", "handoffs"],
  ["g x", "exchanges"],
  ["g f", "failures"],
  ["g s", "savings"],
  ["t", "switch theme"],
  ["?", "this help"],
];

/** Maximum milliseconds between the two keys of a sequence such as `g h`. */
const PAIR = 1200;

export function keyboard({ view, theme }) {
  const dialog = document.getElementById("keys");
  dialog.replaceChildren(h("form", { method: "dialog" }, h("h2", null, "Keyboard shortcuts"), h("dl", null, HELP.map(([keys, what]) => [h("dt", null, keys.split("  ").map((key) => h("kbd", null, key))), h("dd", null, what)])), h("button", { autofocus: true }, "Close")));
  const help = () => dialog.showModal();
  document.getElementById("help").addEventListener("click", help);
  let first = null;
  const actions = {
    h: () => (showSide(), openList(), (document.querySelector("#list [aria-current]") ?? document.querySelector("#list [data-item]"))?.focus()),
    l: () => enter(),
    j: () => walk(1),
    k: () => walk(-1),
    n: () => walk(1, "[data-change] > [data-item]"),
    p: () => walk(-1, "[data-change] > [data-item]"),
    u: () => view()?.up && (location.hash = view().up),
    "[": () => view()?.step?.(-1),
    "]": () => view()?.step?.(1),
    "/": () => (showSide(), document.getElementById("search").focus()),
    t: theme,
    "?": help,
    "g c": () => ((location.hash = "#/"), showSide(), openList(), document.querySelector("#list [data-item]")?.focus()),
    "g h": () => (location.hash = "#/h"),
    "g x": () => (location.hash = "#/x"),
    "g s": () => (location.hash = "#/s"),
    "g f": () => (location.hash = "#/x?filter=error"),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const typing = event.target.closest("input, textarea, select, dialog[open]");
    if (typing) return;
    if (event.key === "Escape") return document.activeElement?.blur();
    const name = first ? `${first} ${event.key}` : event.key;
    first = null;
    if (event.key === "g" && name === "g") {
      first = "g";
      setTimeout(() => (first = null), PAIR);
      return;
    }
    const arrow = { ArrowDown: "j", ArrowUp: "k" }[event.key];
    const action = actions[event.target.closest("[data-item]") && arrow ? arrow : name];
    if (!action) return;
    event.preventDefault();
    action();
  });
}

/** Shows the list. On a narrow screen only the home view has it. */
function showSide() {
  if (!document.getElementById("search").checkVisibility()) location.hash = "#/", document.body.classList.add("at-home");
}

/** Opens the list, which is folded on a narrow screen. */
function openList() {
  if (!document.getElementById("list").checkVisibility()) document.getElementById("all").click();
}

/** Searches all messages for a string. */
export function searchFor(text) {
  showSide();
  const box = document.getElementById("search");
  box.value = text;
  box.dispatchEvent(new Event("input"));
  box.focus();
}

/** Moves the focus into the view: to its first item, unless it is already there. */
function enter() {
  const main = document.getElementById("main");
  if (main.contains(document.activeElement) && document.activeElement !== main) return;
  const first = [...main.querySelectorAll("[data-item]")].find((item) => item.checkVisibility());
  (first ?? main).focus();
}

function walk(by, selector = "[data-item]") {
  const side = document.getElementById("list");
  const main = document.getElementById("main");
  const active = document.activeElement;
  const home = location.hash === "" || location.hash === "#/";
  const nothing = !main.contains(active) && (home || !main.querySelector(".view [data-item]"));
  const place = side.contains(active) || (nothing && side.checkVisibility()) ? side : main;
  const items = [...place.querySelectorAll(selector)].filter((item) => item.checkVisibility());
  if (!items.length) return;
  const at = items.indexOf(active);
  const from = at >= 0 ? at : items.findIndex((item) => active && active !== document.body && active !== main && item.compareDocumentPosition(active) & Node.DOCUMENT_POSITION_PRECEDING) - (by > 0 ? 1 : 0);
  const next = items[at < 0 && from < 0 ? (by > 0 ? 0 : items.length - 1) : Math.min(items.length - 1, Math.max(0, from + by))];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
}
