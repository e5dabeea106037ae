// Layout and figures of the page, with canned API responses.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import test, { after, afterEach, before, beforeEach } from "node:test";
import { promisify } from "node:util";
import { launch, live, open, ready, shot } from "./browser.mjs";
import { examples, Mock } from "./mock.mjs";
import { exchangeId, handoffId, tell } from "./story.mjs";

let browser;
let mock;
let page;

before(async () => (browser = await launch()));
after(() => browser?.close());
beforeEach(async () => (mock = await new Mock().start()));
afterEach(async () => {
  const faults = page?.faults ?? [];
  await page?.context().close();
  page = null;
  mock.stop();
  assert.deepEqual(faults, []);
});

const go = async (hash = "", options = {}) => (page = await open(browser, `${mock.url}/${hash}`, options));
const text = (selector) => page.locator(selector).first().innerText();
const talk = (key = "claude-code:6f1c2a") => `#/c/${encodeURIComponent(key)}`;
const top = (selector) => page.locator(selector).first().evaluate((node) => node.getBoundingClientRect().top);

for (const width of [390, 720, 1024, 1280, 1440]) {
  test(`the navigation is one row at ${width} pixels, and marks where the page is`, async () => {
    mock.stories = examples();
    mock.status = { failures: 12 };
    await go("", { viewport: { width, height: 860 } });
    const marked = async () => [await page.locator("#places [aria-current]").innerText(), await page.locator("#places [aria-current]").getAttribute("aria-current")];
    const views = [["", "Conversations", "page"], [talk(), "Conversations", "true"], [`#/e/${exchangeId(20)}`, "Conversations", "true"], ["#/h", "Handoffs", "page"], [`#/h/${handoffId(3)}`, "Handoffs", "true"], ["#/x", "Exchanges", "page"], ["#/x?filter=tool%3ABash", "Exchanges", "page"], ["#/s", "Savings", "page"], ["#/x?filter=error", "Failures", "page"]];
    for (const [hash, word, how] of views) {
      await page.goto(`${mock.url}/${hash}`);
      await page.waitForFunction((word) => document.querySelector("#places [aria-current]")?.textContent.startsWith(word), word);
      const [name, kind] = await marked();
      assert.deepEqual([name.split(/\s/)[0], kind], [word, how], hash);
      const row = await page.evaluate(() => [...document.querySelectorAll("#places a")].map((link) => [link.getBoundingClientRect().top, link.getBoundingClientRect().right]));
      assert.equal(row.length, 5);
      assert.equal(new Set(row.map(([top]) => top)).size, 1, `${hash}: one row`);
      assert.ok(Math.max(...row.map(([, right]) => right)) <= width, `${hash}: in sight`);
    }
    await page.goto(`${mock.url}/#/none`);
    await page.getByText("Page not found").waitFor();
    assert.equal(await page.locator("#places [aria-current]").count(), 0);
  });
}

test("a conversation has a bar for each budget of its newest request", async () => {
  mock.stories = examples();
  const rows = mock.stories[0].rows;
  const budget = (of, unit, spent, limit, more = {}) => ({ of, unit, spent, limit, ...more });
  rows.at(-2).budgets = [budget("session", "dollars", 1, 5)];
  rows.at(-1).budgets = [
    budget("session", "dollars", 5.031, 5),
    budget("session", "tokens", 164_000, 200_000),
    budget("day", "dollars", 2.5, 50),
    budget("plan", "share", 0.81, 0.8, { opens_ms: Date.now() + 3_600_000 }),
  ];
  await go(talk());
  const bars = page.locator(".budget");
  assert.equal(await bars.count(), 4);
  const levels = await bars.evaluateAll((all) => all.map((bar) => bar.className.trim()));
  assert.deepEqual(levels, ["budget over", "budget near", "budget", "budget over"]);
  const meters = page.getByRole("meter");
  assert.equal(await meters.nth(0).getAttribute("aria-valuetext"), "$5.03 of $5.00 · used up");
  assert.match(await meters.nth(3).getAttribute("aria-valuetext"), /^81 % of 80 % · used up, opens again at \d\d:/);
  const widths = await meters.evaluateAll((all) => all.map((bar) => parseFloat(getComputedStyle(bar, "::before").width) / bar.getBoundingClientRect().width));
  assert.ok(widths[0] > 0.99 && Math.abs(widths[1] - 0.82) < 0.01 && Math.abs(widths[2] - 0.05) < 0.01, widths.join());
  const [red, amber] = await Promise.all([0, 1].map((at) => meters.nth(at).evaluate((bar) => getComputedStyle(bar, "::before").backgroundColor)));
  assert.notEqual(red, amber);
  // A new request brings its own.
  await live(page);
  const row = { ...rows.at(-1), id: exchangeId(99), budgets: [budget("session", "calls", 1, 4)] };
  mock.tell("exchange", { ...row, conversation: "claude-code:6f1c2a" });
  await page.getByText("1 of 4 model calls").waitFor();
  assert.equal(await bars.count(), 1);
});

test("home shows the newest conversations with their charts, then handoffs, then failures", async () => {
  mock.stories = examples();
  Object.assign(mock.stories[0].rows.at(-1), { status: 400, outcome: "upstream_error", answer: { error: "max_tokens: Field required" } });
  await go();
  const cards = page.locator(".talk-card");
  assert.equal(await cards.count(), 4);
  assert.match(await cards.first().innerText(), /Work through docs[\s\S]*claude-sonnet-4-5 · 32 exchanges · 3 handoffs[\s\S]*The agent sends \d+ KiB[\s\S]*The model sees \d+ KiB/);
  assert.equal(await cards.first().locator(".sketch .fired").count(), 3);
  const saw = (await cards.first().locator(".saw-line").getAttribute("points")).split(" ");
  assert.equal(saw.length, 35, "32 exchanges, three of them in two requests");
  const places = await Promise.all([".newest", ".latest", ".failures"].map(top));
  assert.deepEqual(places, [...places].sort((a, b) => a - b));
  assert.match(await text(".failures"), /max_tokens: Field required/);
  await cards.nth(1).click();
  await page.waitForFunction((hash) => location.hash === hash, talk("codex:51b0"));
});

test("a conversation's chart is read again when something came in it, and only then", async () => {
  mock.stories = examples();
  await go();
  await live(page);
  const read = () => mock.asked.filter((path) => /exchanges\?conversation/.test(path)).length;
  assert.equal(read(), 4);
  await page.evaluate(() => (document.querySelectorAll(".talk-card")[2].wasThere = true));
  const story = mock.stories[0];
  const row = { ...story.rows.at(-1), id: exchangeId(500) };
  story.rows.push(row);
  story.conversation = { ...story.conversation, last_ms: Date.now(), exchanges: story.rows.length };
  mock.tell("exchange", row);
  await page.waitForFunction(() => /33 exchanges/.test(document.querySelector(".talk-card").textContent));
  assert.equal(read(), 5);
  assert.ok(await page.evaluate(() => document.querySelectorAll(".talk-card")[2].wasThere));
});

test("nothing failed is said in so many words", async () => {
  mock.stories = examples();
  await go();
  assert.match(await text(".failures"), /Failures\s*No failures\./);
  await go("#/x?filter=error");
  assert.equal(await text("#filter-said"), "No failures.");
});

test("a handoff by a command, which is not sent, is marked at the next request", async () => {
  mock.stories = examples();
  const row = mock.stories[0].rows.find((row) => row.fired.length);
  Object.assign(row, { sent_bytes: [], tokens: [], statuses: [], user_line: "::handoff" });
  await go(talk());
  assert.equal(await page.locator(".handoff-mark").count(), 3);
  assert.match(await text(".chart"), /3 handoffs/);
});

test("an empty page shows the demo's conversation with its handoffs, marked as an example", async () => {
  await go();
  assert.match(await text("figure"), /Example: the session of the demo[\s\S]*Work through docs\/plan\.md[\s\S]*none of yours[\s\S]*25 requests, 3 handoffs[\s\S]*The agent sends \d+ KiB[\s\S]*The model sees \d+ KiB/);
  assert.equal(await page.locator("figure .fired").count(), 3);
  assert.deepEqual(await page.locator("figure .step .badge").allTextContents(), ["1", "2", "3"]);
  assert.match(await text("figure .step"), /task 1 is done[\s\S]*request 7 · the agent sent 21 KiB, after the handoff the model saw 4\.1 KiB/);
  assert.equal(await page.locator("#list .talk").count(), 0, "it is not among the user's conversations");
  assert.ok((await text("main")).indexOf("baton run claude") < (await text("main")).indexOf("ANTHROPIC_BASE_URL"));
  await shot(page, "empty");
  mock.status = { read_only: true };
  await go();
  assert.match(await text("main"), /No proxy is running[\s\S]*baton run claude[\s\S]*Example: the session of the demo/);
});

test("an undone handoff is called undone everywhere, and its undo can be taken back", async () => {
  mock.stories = examples();
  const story = mock.stories[0];
  const it = story.handoffs.at(-1);
  it.document = { ...it.document, status: "undone" };
  story.rows.at(-1).undo = "undone";
  await go("#/h");
  assert.match(await page.locator(`[data-at="${it.id}"]`).innerText(), /undone/);
  const copied = () => page.evaluate(() => navigator.clipboard.readText());
  // The newest request was still cut at it.
  await go(talk());
  const step = page.locator(".chain .step").filter({ hasText: "Copy redo" });
  assert.match(await step.innerText(), /· undone/);
  assert.doesNotMatch(await step.innerText(), /in effect/);
  await go(`#/h/${it.id}`, { permissions: ["clipboard-read", "clipboard-write"] });
  assert.match(await text(".undone"), new RegExp(`was undone[\\s\\S]*redo the handoff[\\s\\S]*::handoff undo ${it.id}`));
  await page.getByRole("button", { name: "Copy redo" }).click();
  assert.equal(await copied(), `::handoff undo ${it.id}`);
  mock.prefix = "";
  await go(`#/h/${it.id}`);
  assert.equal(await text(".undone"), "This handoff was undone: the model sees the history before it again.");
  assert.equal(await page.getByRole("button", { name: "Copy redo" }).count(), 0);
  await go(`#/h/${story.handoffs[0].id}`);
  assert.equal(await page.locator(".undone").count(), 0);
});

test("the example is the demo's", { skip: !process.env.BATON_PROGRAM && "BATON_PROGRAM is not set" }, async () => {
  const { stdout } = await promisify(execFile)(process.env.BATON_PROGRAM, ["demo", "--json"]);
  const { turns, handoffs } = JSON.parse(stdout);
  const script = JSON.parse(await readFile(new URL("../../src/cli/demo/script.json", import.meta.url)));
  await go();
  const { DEMO, DEMO_TITLE, DEMO_REASONS } = await page.evaluate(async () => ({ ...(await import(new URL("home.js", document.querySelector("script[src]").src))) }));
  assert.deepEqual(DEMO_REASONS, handoffs.map((it) => it.reason));
  assert.ok(script.opening.some((part) => part.text.startsWith(DEMO_TITLE)), DEMO_TITLE);
  const near = (a, b) => Math.abs(a - b) <= Math.max(10, 0.1 * b);
  assert.equal(DEMO.length, turns.length);
  for (const [at, turn] of turns.entries()) {
    const real = [turn.received_bytes, ...turn.sent_bytes].map((size) => size / 100);
    assert.ok(real.length === DEMO[at].length && real.every((size, leg) => near(DEMO[at][leg], size)), `request ${at + 1}: ${real} and ${DEMO[at]}`);
  }
});

test("figures have a unit and a legend, and only a large overhead is a warning", async () => {
  const [story] = examples();
  const it = (key, unsent_tokens) => ({ ...story, handoffs: [], conversation: { ...story.conversation, key, unsent_tokens, received_bytes: 400_000 } });
  mock.stories = [it("less", 359_000), it("little", -281), it("much", -20_000)];
  await go();
  const figure = async (key) => page.locator(`#list [data-key="${key}"] .talk-numbers > :last-child`);
  const said = async (key) => [await (await figure(key)).innerText(), await (await figure(key)).getAttribute("class")];
  assert.deepEqual(await said("less"), ["−359.0\u202fk tokens", "less"]);
  assert.deepEqual(await said("little"), ["+281 tokens", null]);
  assert.deepEqual(await said("much"), ["+20.0\u202fk tokens", "warn-text"]);
  assert.match(await text("#list-key"), /handoffs[\s\S]*− not sent[\s\S]*\+ added/);
  assert.doesNotMatch(await text("#list-key"), /failures/);
});

test("a loss is said as one, and small amounts in cents", async () => {
  mock.stories = [tell({ tasks: 1, turns: 3 })];
  mock.savings = () => {
    const sum = { exchanges: 3, unpriced: 0, subscription: 0, compacted: 0, tokens: { input: 900, cache_read: 9000, cache_write: 0, cache_write_long: 0, output: 400 }, cost: 0.0387, without_cost: 0.0258, saved: -0.0129, saved_error: 0.002 };
    const tried = [{ arm: "cold_cache", title: "cold", saved: -0.0093, error: 0.0026, cuts: 0 }, { arm: "auto_0.5", title: "handoff.auto_at = 0.5", saved: 0.31, error: 0.04, cuts: 2 }];
    return { prices: { source: "genai-prices", date: "2026-11-20" }, unpriced_models: [], total: { key: "", ...sum }, groups: [{ key: "a", ...sum }, { key: "b", ...sum, saved: -0.00001 }], tried };
  };
  await go("#/s?by=model");
  assert.match(await text(".facts"), /3\.9 cents\s*cost\s*2\.6 cents\s*without baton, estimated\s*1\.3 cents more\s*than without baton \(50 %\), ± 0\.2 cents/);
  assert.deepEqual(await page.locator(".sums tbody td:last-child").allInnerTexts(), ["−$0.0129", "$0.00"]);
  assert.equal(await page.locator(".sums td.bad").count(), 1);
  await page.getByText("Other settings in the same conversations").click();
  assert.deepEqual(await page.locator("details li").allInnerTexts(), ["handoff.auto_at = 0.5: 2 handoffs would have saved $0.31 (± 4.0 cents)"]);
});

test("side calls are folded, unless they failed", async () => {
  const story = tell({ tasks: 2, turns: 4 });
  const beside = (row, more) => Object.assign(row, { tooled: false, untooled: "no_client_tools", pinned: null, answer: { text: "A title" }, ...more });
  beside(story.rows[1]);
  beside(story.rows[2], { status: 529, outcome: "upstream_error", answer: { error: "Overloaded" } });
  Object.assign(story.rows[5], { route: "POST /v1/messages/count_tokens" });
  mock.stories = [story];
  await go(talk());
  const rows = () => page.locator(".exchange").evaluateAll((all) => all.map((row) => Number(row.querySelector("a").textContent)));
  assert.deepEqual(await rows(), [8, 7, 5, 4, 3, 1]);
  await page.getByRole("button", { name: "Show 2 side calls" }).click();
  assert.deepEqual(await rows(), [8, 7, 6, 5, 4, 3, 2, 1]);
  // The side calls are still shown after going back.
  await page.locator(`[data-row="${story.rows[1].id}"] a`).click();
  await page.waitForSelector(".diff");
  await ready(page);
  await page.goBack();
  await page.waitForSelector(".timeline");
  await page.getByRole("button", { name: "Hide 2 side calls" }).click();
  assert.equal((await rows()).length, 6);
  // A conversation without tools has no loop, so it has no side calls.
  for (const row of story.rows) Object.assign(row, { tooled: false, pinned: null, untooled: "no_client_tools", route: "POST /v1/messages" });
  await page.reload();
  await page.waitForSelector(".exchange");
  assert.equal((await rows()).length, 8);
});

test("tags leave a row's text its room", async () => {
  for (const width of [390, 1024, 1280]) {
    mock.stories = [tell({ tasks: 1, turns: 3 })];
    Object.assign(mock.stories[0].rows[2], { fired: [handoffId(1)], changes: [{ leg: 0, why: "pair", removed: 0, added: 1 }], nudges: ["large_cut"], missing_items: 2, answer: { calls: [{ name: "Bash", argument: "cargo test --workspace --locked" }] } });
    await go(talk(), { viewport: { width, height: 860 } });
    assert.match(await text(".exchange .tags"), /hands off[\s\S]*hidden pair[\s\S]*nudging stopped/);
    const [did, cell] = await page.locator(".exchange .what").first().evaluate((what) => [what.querySelector(".did").clientWidth, what.parentNode.clientWidth]);
    assert.ok(did >= Math.min(190, cell - 2), `${did} of ${cell} pixels at ${width}`);
    await page.context().close();
  }
  page = null;
});

test("on a telephone the list is folded, and a search or a key opens it", async () => {
  mock.stories = examples();
  await go("", { viewport: { width: 390, height: 844 } });
  const fold = page.locator("#all");
  assert.equal(await fold.getAttribute("aria-expanded"), "false");
  assert.ok(!(await page.locator("#list .talk").first().isVisible()));
  assert.ok((await top("h1")) < 300, "the title is in sight");
  await fold.click();
  assert.equal(await fold.getAttribute("aria-expanded"), "true");
  assert.equal(await page.locator("#list .talk:visible").count(), 4);
  await fold.click();
  await page.locator("#search").fill("linkshort");
  await page.waitForSelector("#list .hit");
  await page.keyboard.press("Escape");
  assert.ok(!(await page.locator("#list .talk").first().isVisible()));
  await page.keyboard.press("h");
  await page.waitForFunction(() => document.activeElement.closest("#list"));
});

test("handoffs with the same reason are told apart by what they begin with", async () => {
  mock.stories = examples();
  const [story] = mock.stories;
  for (const [at, it] of story.handoffs.entries()) Object.assign(it, { reason: at < 2 ? "task done" : "the cache is in", first_line: `Goal ${at + 1}`, origin: "local" });
  await go("#/h");
  assert.deepEqual((await page.locator(".card b").allInnerTexts()).slice(0, 3), ["the cache is in", "Goal 2", "Goal 1"]);
  assert.match(await text(".card"), /Goal 3[\s\S]*prompt \d+ B · claude-sonnet-4-5 · written without a model[\s\S]*Work through docs/);
});
