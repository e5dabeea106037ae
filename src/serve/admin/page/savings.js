// Bill: cost with and without baton, by day, model or conversation.

import * as api from "./api.js";
import { facts, h, line, set } from "./dom.js";
import { count, decimalsOf, dollars, money, plural, short } from "./words.js";

const GROUPS = [["day", "day"], ["model", "model"], ["conversation", "conversation"]];
const TIMES = [["", "all time"], ["30d", "30 days"], ["7d", "7 days"], ["1d", "1 day"]];

/** Columns of the table: heading, value for sorting, and format. */
const COLUMNS = [
  ["exchanges", (sum) => sum.exchanges, count],
  ["new", (sum) => sum.tokens.input, short],
  ["cached", (sum) => sum.tokens.cache_read, short],
  ["written", (sum) => sum.tokens.cache_write + sum.tokens.cache_write_long, short],
  ["output", (sum) => sum.tokens.output, short],
  ["cost", (sum) => sum.cost, dollars],
  ["without baton", (sum) => sum.without_cost, dollars],
  ["saved", (sum) => sum.saved, dollars],
];
const PRICED = COLUMNS.filter(([, , show]) => show === dollars);

/** Formats an amount as a saving or as a loss. */
function wouldHave(saved, error = null) {
  return `would have ${saved < 0 ? `cost ${money(saved)} more` : `saved ${money(saved)}`}${error === null ? "" : ` (± ${money(error)})`}`;
}

/** Creates a table of sums that a click on a heading sorts. `nameOf` makes the cell of a key. */
export function sumTable(groups, label, nameOf) {
  let [by, falling] = [null, true];
  const body = h("tbody");
  const headings = [];
  // All amounts of a table have the same number of decimals, so that they can be compared.
  const decimals = decimalsOf(groups.flatMap((sum) => PRICED.map(([, value]) => value(sum))));
  const cells = (sum) => COLUMNS.map((column) => {
    const [name, value, show] = column;
    const text = sum.cost === 0 && sum.unpriced && PRICED.includes(column) ? "–" : show(value(sum), decimals);
    return h("td", { class: `num ${name === "saved" && text.startsWith("\u2212") ? "bad" : ""}` }, text);
  });
  const draw = () => {
    const value = COLUMNS[by]?.[1];
    const sorted = value ? [...groups].sort((a, b) => (falling ? value(b) - value(a) : value(a) - value(b))) : groups;
    set(body, sorted.map((sum) => h("tr", null, h("th", { scope: "row", dir: "auto" }, nameOf(sum.key)), cells(sum))));
    for (const [at, heading] of headings.entries()) {
      if (at === by) heading.setAttribute("aria-sort", falling ? "descending" : "ascending");
      else heading.removeAttribute("aria-sort");
    }
  };
  const sort = (at) => {
    falling = by === at ? !falling : true;
    by = at;
    draw();
  };
  headings.push(...COLUMNS.map(([name], at) => h("th", { scope: "col" }, h("button", { type: "button", class: "quiet sort", onclick: () => sort(at) }, name))));
  draw();
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Tokens and cost by ${label}` },
    h("table", { class: "numbers sums" }, h("thead", null, h("tr", null, h("th", { scope: "col" }, label), headings)), body));
}

/** The bill as facts in large type. */
export function billFacts(total) {
  const share = total.without_cost > 0 ? ` (${Math.round((100 * Math.abs(total.saved)) / total.without_cost)} %)` : "";
  const error = `± ${money(total.saved_error)}`;
  const saved = total.saved < 0 ? [`${money(total.saved)} more`, `than without baton${share}, ${error}`] : [money(total.saved), `saved${share}, ${error}`];
  const all = total.tokens;
  const input = all.input + all.cache_read + all.cache_write + all.cache_write_long;
  return [
    total.cost || !total.unpriced ? [money(total.cost), "cost"] : null,
    total.cost ? [money(total.without_cost), "without baton, estimated"] : null,
    total.cost ? [...saved, "Net of the cost of handoffs and baton's tools"] : null,
    [short(input), "input tokens", `${count(all.input)} new, ${count(all.cache_read)} from the cache, ${count(all.cache_write + all.cache_write_long)} written to it`],
    [short(all.output), "output tokens"],
  ];
}

/** The effect of other settings on the same conversations. A setting without a handoff is left out. */
function ruleList(tried = []) {
  const rules = tried.filter((rule) => rule.cuts);
  if (!rules.length) return null;
  const item = (rule) => h("li", null, `${line(rule.title)}: ${plural(rule.cuts, "handoff")} ${wouldHave(rule.saved, rule.error)}`);
  return h("details", null, h("summary", null, "Other settings in the same conversations"), h("ul", null, rules.map(item)));
}

/** The moments of a shadow, newest first. */
function momentList(moments = []) {
  if (!moments.length) return null;
  const item = (it) => h("li", null, h("a", { href: `#/e/${encodeURIComponent(it.id)}` }, new Date(it.at_ms).toISOString().slice(0, 16).replace("T", " ")), ` ${line(it.shadow.what).replaceAll("_", " ")}`, it.shadow.saved === null ? "" : `, ${wouldHave(it.shadow.saved)}`);
  return h("details", null, h("summary", null, `Shadow mode: ${plural(moments.length, "moment")}`), h("ul", null, [...moments].reverse().map(item)));
}

/** Explanatory notes of the bill. */
function remarks(report) {
  const { total } = report;
  return [
    "Tokens: new input, read from the provider's cache, written to it, and output.",
    `Prices: ${line(report.prices?.source ?? "?")}, ${report.prices?.date ?? "?"}.`,
    total.unpriced ? `${plural(total.unpriced, "exchange")} without a price: ${line((report.unpriced_models ?? []).join(", "))} (bill.prices).` : null,
    report.stopped ? `${plural(report.stopped, "request")} not sent, because the brake stopped the agent.` : null,
    total.subscription ? `${plural(total.subscription, "exchange")} on a subscription: tokens only.` : null,
    total.compacted ? `${plural(total.compacted, "exchange")} would have been too long without baton (counted as compacted by the agent, not as saved).` : null,
  ].filter(Boolean).join(" ");
}

export async function savings(ctx, _, query) {
  const by = GROUPS.some(([it]) => it === query.get("by")) ? query.get("by") : "day";
  const since = TIMES.some(([it]) => it === query.get("since")) ? query.get("since") : "";
  const numbers = h("div", { class: "facts" });
  const table = h("div", null);
  const said = h("p", { class: "dim small" });
  const moments = h("div", null);
  const nameOf = (key) => (by === "conversation" && key !== "-" ? h("a", { href: `#/c/${encodeURIComponent(key)}`, title: key }, ctx.titleOf(key)) : line(key));
  const load = async () => {
    const report = await api.json(api.path(["savings"], { by, since: since || null }), { signal: ctx.signal });
    facts(numbers, billFacts(report.total));
    set(said, remarks(report));
    set(moments, ruleList(report.tried), momentList(report.moments));
    set(table, report.groups.length ? sumTable(report.groups, by, nameOf) : h("p", { class: "dim" }, "No completed exchanges in this period."));
  };
  await load();
  const choice = (label, all, now, hash) => h("p", { class: "links", role: "group", "aria-label": label }, h("span", { class: "dim" }, label), all.map(([value, word]) => h("a", { href: hash(value), class: "choice", "aria-current": value === now ? "true" : null }, word)));
  const hash = (by, since) => `#/s?${new URLSearchParams({ by, ...(since ? { since } : {}) })}`;
  const node = h("div", { class: "view" },
    h("header", { class: "head-of-view" }, h("h1", null, "Cost with and without baton")),
    numbers, choice("By", GROUPS, by, (it) => hash(it, since)), choice("Period", TIMES, since, (it) => hash(by, it)), table, said, moments);
  return { node, title: "Savings", up: "#/", refresh: load };
}

/** Cost of a conversation by model. Loaded after the view is shown. */
export function conversationBill(ctx, key) {
  const numbers = h("div", { class: "facts" });
  const table = h("div", null);
  const node = h("section", { class: "bill", hidden: true, "aria-label": "Cost" }, h("h2", null, "Cost"), numbers, h("details", null, h("summary", null, "By model"), table));
  const load = async () => {
    const options = { signal: ctx.signal };
    const report = await api.json(api.path(["savings"], { by: "model", conversation: key }), options);
    node.hidden = !report.total.exchanges;
    facts(numbers, billFacts(report.total));
    set(table, sumTable(report.groups, "model", line), h("p", { class: "dim small" }, remarks(report)));
  };
  return { node, load: () => load().catch(() => (node.hidden = true)) };
}
