// The page in a browser, with canned API responses.

import assert from "node:assert/strict";
import test, { after, afterEach, before, beforeEach } from "node:test";
import { launch, live, open, ready, shot } from "./browser.mjs";
import { examples, Mock } from "./mock.mjs";
import { exchangeId, handoffId, heavy, tell } from "./story.mjs";

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

test("an empty journal says how to start an agent here", async () => {
  await go();
  const said = await text("main");
  for (const line of ["baton run claude", "baton demo", "ANTHROPIC_BASE_URL=http://127.0.0.1:8787 claude", `codex -c 'openai_base_url="http://127.0.0.1:8787/v1"'`, "OPENAI_BASE_URL=http://127.0.0.1:8787/v1", "GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:8787 gemini"]) assert.ok(said.includes(line), line);
  await shot(page, "empty");
});

test("conversations are listed, with what was saved", async () => {
  mock.stories = examples();
  await go();
  assert.equal(await page.locator("#list .talk").count(), 4);
  assert.match(await text("#list .talk"), /Work through docs\/plan\.md[\s\S]*claude-sonnet-4-5[\s\S]*3[\s\S]*−[\d.]+.k tokens/);
  assert.match(await text(".facts"), /6\s*handoffs/);
  await shot(page, "home");
});

test("the home page shows the server's totals, whatever is in the lists", async () => {
  const [story] = examples();
  mock.stories = Array.from({ length: 309 }, (_, n) => ({ ...story, handoffs: n < 60 ? [{ ...story.handoffs[0], id: handoffId(n) }] : [], conversation: { ...story.conversation, key: `c${n}`, last_ms: n, unsent_tokens: -20 } }));
  await go();
  const shown = await text(".facts");
  assert.match(shown, /309\s*conversations\s*60\s*handoffs/);
  // 309 times 20 tokens.
  assert.match(shown, /about 6\.2.k tokens\s*added by baton/);
});

test("an exchange that sent more than it received says so", async () => {
  const story = tell({ tasks: 2, turns: 3 });
  const row = story.rows[3];
  assert.ok(row.legs === 2 && row.unsent_tokens < 0);
  mock.stories = [story];
  await go(`#/e/${row.id}`);
  assert.match(await text(".facts"), /sent in 2 requests, the last of [\s\S]*tokens\s*added by baton/);
});

test("rows say what happened: calls, the first words, a command, an error in the provider's words", async () => {
  const story = tell({ tasks: 1, turns: 6 });
  Object.assign(story.rows[3], { answer: { text: "Handed off.", calls: [] }, user_line: "::handoff --focus x" });
  Object.assign(story.rows[4], { status: 529, outcome: "upstream_error", answer: { error: "Overloaded \u001b[1m<b>come back</b>" } });
  Object.assign(story.rows[5], { answer: { calls: ["a", "b", "c", "d"].map((name) => ({ name })), more_calls: 5 } });
  mock.stories = [story];
  await go(talk());
  await page.waitForFunction(() => document.querySelectorAll(".exchange .did").length >= 6);
  const did = await page.locator(".exchange .did").allTextContents();
  assert.equal(did[3], "All is well. ⏎ So be it.");
  assert.match(did[5], /^read_file src\/store\/mod\.rs$/);
  assert.equal(did[2], "::handoff --focus x");
  assert.equal(did[1], "Overloaded ⟨ESC⟩[1m<b>come back</b>");
  assert.match(did[0], /^a\s*b\s*c\s*\+6$/);
  await shot(page, "rows");
});

test("failures are listed on the home page and counted in the column, with and without a conversation", async () => {
  mock.stories = examples();
  const [story] = mock.stories;
  Object.assign(story.rows.at(-1), { status: 400, outcome: "upstream_error", answer: { error: "max_tokens: Field required" } });
  story.conversation.failures = 1;
  mock.strays = [{ ...story.rows[0], id: exchangeId(900, 9), at_ms: Date.now(), conversation: null, wire: null, route: "GET /v1/nope", status: 404, outcome: "refused", answer: null, tokens_sum: null, fired: [], pinned: null }];
  await go();
  const rows = page.locator(".failures .found-row");
  assert.equal(await rows.count(), 2);
  assert.match(await rows.nth(0).innerText(), /GET \/v1\/nope[\s\S]*404 refused by baton/);
  assert.match(await rows.nth(1).innerText(), /max_tokens: Field required\s*Work through docs[\s\S]*400/);
  assert.match(await text("#places"), /Failures\s*2/);
  assert.equal(await page.locator("#list .bad-badge").count(), 1);
  await shot(page, "failures");
  await page.locator("#places").getByText("Failures").click();
  await page.waitForFunction(() => document.querySelector("h1")?.textContent === "Failures");
  assert.equal(await page.locator(".found-row").count(), 2);
});

test("the bill is a table that is sorted, by day, model and conversation", async () => {
  mock.stories = examples();
  await go("#/s?by=model");
  assert.match(await text(".facts"), /\$[\d.]+\s*cost\s*\$[\d.]+\s*without baton, estimated\s*\$[\d.]+\s*saved \(50 %\), ± \$/);
  const column = async (n) => (await page.locator(`.sums tbody tr td:nth-child(${n})`).allInnerTexts()).map((it) => Number(it.replace(/[^\d.]/g, "")));
  await page.getByRole("button", { name: "cost" }).click();
  const falling = await column(7);
  assert.deepEqual(falling, [...falling].sort((a, b) => b - a));
  assert.equal(await page.locator("th[aria-sort=descending]").innerText(), "cost");
  await page.getByRole("button", { name: "cost" }).click();
  assert.deepEqual(await column(7), [...falling].reverse());
  assert.equal(await page.locator(".sums td.bad").count(), 1, "a loss is a loss");
  assert.match(await text(".view"), /Prices: genai-prices, 2026-11-20\.[\s\S]*would have been too long without baton/);
  await shot(page, "savings");
  await page.getByRole("link", { name: "conversation", exact: true }).click();
  await page.waitForFunction(() => document.querySelector(".sums tbody th a")?.textContent.startsWith("Work through"));
  await page.getByRole("link", { name: "7 days" }).click();
  await page.waitForFunction(() => location.hash === "#/s?by=conversation&since=7d");
});

test("a conversation says what it cost", async () => {
  mock.stories = examples();
  await go(talk());
  await page.waitForSelector(".bill:not([hidden])");
  assert.match(await text(".bill .facts"), /cost/);
  await page.locator(".bill summary").click();
  await shot(page, "bill");
});

test("conversations that begin alike are named by what tells them apart", async () => {
  const [story] = examples();
  const title = (n, title) => ({ ...story, handoffs: [], conversation: { ...story.conversation, key: `k${n}`, last_ms: 100 - n, title } });
  const plan = "Work through docs/plan.md: tasks one after the other.";
  mock.stories = [title(1, `${plan} Next: task 1: survey`), title(2, `${plan} Next: task 2: put a trait`), title(3, "Mend it"), title(4, "Mend it"), title(5, plan)];
  await go();
  // The text is complete, and only its first part is shortened, so that the distinguishing part is visible.
  const parts = (n) => page.locator("#list .talk-title").nth(n).locator(".ends > span");
  assert.deepEqual(await page.locator("#list .talk-title").allTextContents(), [`${plan} Next: task 1: survey`, `${plan} Next: task 2: put a trait`, "Mend it", "Mend it", plan]);
  assert.deepEqual([await parts(0).last().textContent(), await parts(1).last().textContent()], ["1: survey", "2: put a trait"]);
  const cut = (part) => part.evaluate((node) => node.scrollWidth > node.clientWidth);
  assert.deepEqual([await cut(parts(1).first()), await cut(parts(1).last())], [true, false]);
  assert.ok(await parts(1).first().evaluate((node) => node.clientWidth > 60), "the beginning is seen, too");
  assert.equal(await parts(4).last().textContent(), "the other.");
});

test("the search box jumps to an exchange by its number, and offers a filter as one", async () => {
  mock.stories = examples();
  await go(talk());
  await page.locator("#search").fill("#7");
  assert.match(await text("#list"), /Press Enter to open exchange #7 of this conversation/);
  await page.keyboard.press("Enter");
  await page.waitForFunction((id) => location.hash === `#/e/${id}`, exchangeId(7));
  await ready(page);
  assert.equal(await text("h1"), "Exchange 7");
  await page.locator("#search").fill("#700");
  await page.keyboard.press("Enter");
  await page.getByText("This conversation has 32 exchanges").waitFor();
  await page.locator("#search").fill("tool:Bash since:1h");
  await page.locator("#list .hit").first().click();
  await page.waitForFunction(() => location.hash === "#/x?filter=tool%3ABash%20since%3A1h");
});

test("exchanges are filtered, and a wrong term is shown where it stands", async () => {
  mock.stories = examples();
  await go("#/x");
  assert.match(await text("#filter-said"), /\d+ exchanges/);
  await page.locator("#filter").fill("error toll:Bash");
  await page.keyboard.press("Enter");
  await page.waitForSelector("mark.wrong");
  assert.equal(await text("mark.wrong"), "toll:Bash");
  assert.match(await text("#filter-said"), /"toll" is not a field; there are tool, model/);
  assert.equal(await page.locator("#filter").inputValue(), "error toll:Bash");
  await page.getByRole("button", { name: "!error" }).click();
  await page.waitForFunction(() => location.hash.includes("toll%3ABash%20!error"));
});

test("over a store that several replicas share, the page says which of them it shows", async () => {
  mock.stories = examples();
  await go(talk());
  assert.doesNotMatch(await text("#foot"), /baton-1/);
  mock.status = { store: "redis", instance: "baton-1:8787" };
  await go(talk());
  assert.match(await text("#foot"), /baton-1:8787/);
});

test("a conversation has a chart with a mark for each handoff, and its numbers as a table", async () => {
  mock.stories = examples();
  await go(talk());
  assert.equal(await page.locator(".chart .handoff-mark").count(), 3);
  const saw = (await page.locator(".saw-line").getAttribute("points")).split(" ").map((point) => point.split(",").map(Number));
  const falls = saw.filter(([x, y], at) => at && saw[at - 1][0] === x && y > saw[at - 1][1] + 20);
  assert.equal(falls.length, 3, "the sawtooth falls straight down at each handoff");
  await page.locator(".chart svg").focus();
  await page.keyboard.press("End");
  assert.match(await page.locator(".chart [aria-live]").innerText(), /Request 32: agent sent .* model saw .* so far about [\d.]+.k tokens not sent to the model/);
  assert.match(await text(".tip"), /Request 32/);
  assert.equal(await page.locator(".exchange").count(), 32);
  // A cut is named only in its first row, and each row shows the model's actions.
  assert.deepEqual((await page.locator(".exchange .tags").allTextContents()).flatMap((it) => it.match(/cut at \d/) ?? []), ["cut at 3", "cut at 2", "cut at 1"]);
  assert.match(await text(".exchange"), /32[\s\S]*(read_file|edit_file|run) (src|cargo)/);
  assert.equal(await page.locator(".chain .step").count(), 3);
  assert.match(await text(".chain .step"), /kept 900 B[\s\S]*dropped [\s\S]*exchange[\s\S]*Copy resume line[\s\S]*Copy undo/);
  await shot(page, "conversation");
});

test("the chart is drawn in bytes or tokens, zoomed, with the window and the nudge", async () => {
  mock.stories = examples();
  mock.limits = { window_tokens: 8000, nudge_tokens: 5000 };
  for (const row of mock.stories[0].rows) row.fixed_bytes = 2100;
  await go(talk());
  const points = async (name) => (await page.locator(`.${name}`).getAttribute("points")).split(" ").filter(Boolean).length;
  assert.equal(await points("ramp-line"), 32);
  assert.equal(await page.locator(".level").count(), 0, "limits are in tokens");
  assert.match(await text(".legend"), /system prompt and tools 2\.1 KiB/);
  await page.getByRole("button", { name: "tokens", exact: true }).click();
  assert.match(await text(".legend"), /The model sees [\d.]+.k tokens/);
  // The provider counted what was sent with the last request.
  const last = mock.stories[0].rows.at(-1).tokens.at(-1);
  assert.match(await text(".legend"), new RegExp(`The model sees ${((last.input + last.cache_read + last.cache_write) / 1000).toFixed(1)}`));
  assert.deepEqual(await page.locator(".level text").allTextContents(), ["window, 8.0\u202fk tokens", "nudge, 5.0\u202fk tokens"]);
  await shot(page, "chart-tokens");
  await page.getByRole("button", { name: "model only" }).click();
  assert.equal(await points("ramp-line"), 0);
  await page.getByRole("button", { name: "model only" }).click();
  await page.locator(".chart svg").focus();
  await page.keyboard.press("+");
  assert.equal(await points("ramp-line"), 16);
  const box = await page.locator(".chart svg").boundingBox();
  await page.mouse.move(box.x + 80, box.y + 100);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width / 2, box.y + 100, { steps: 4 });
  await page.mouse.up();
  const dragged = await points("ramp-line");
  assert.ok(dragged > 2 && dragged < 16, `${dragged}`);
  assert.match(page.url(), /#\/c\//, "a drag opens nothing");
  await page.keyboard.press("0");
  assert.equal(await points("ramp-line"), 32);
});

test("a conversation of 10,000 exchanges opens in less than two seconds", async () => {
  const story = tell({ tasks: 5, turns: 10 });
  const rows = Array.from({ length: 10_000 }, (_, n) => ({ ...story.rows[n % story.rows.length], id: exchangeId(n + 1), fired: [] }));
  mock.stories = [{ ...story, rows, conversation: { ...story.conversation, exchanges: rows.length } }];
  await go();
  const took = await page.evaluate(async (hash) => {
    const began = performance.now();
    location.hash = hash;
    while (!document.querySelector(".exchange") || !document.querySelector(".saw-line")?.getAttribute("points")) await new Promise(requestAnimationFrame);
    await new Promise((painted) => requestAnimationFrame(() => setTimeout(painted)));
    return performance.now() - began;
  }, talk());
  console.log(`10,000 exchanges: open in ${Math.round(took)} ms`);
  assert.ok(took < 2000, `${took} ms`);
  assert.ok((await page.locator(".exchange").count()) < 400);
});

test("an exchange that hands off says whether what baton saw stands behind the prompt", async () => {
  mock.stories = examples();
  const [story] = mock.stories.filter((it) => it.conversation.key === "claude-code:6f1c2a");
  const [first, second] = story.rows.filter((it) => it.fired.length);
  first.missing_items = 2;
  await go(talk());
  const tags = (row) => page.locator(`[data-row="${row.id}"] .tags`).textContent();
  assert.match(await tags(first), /hands off\s*2 missing/);
  assert.match(await tags(second), /hands off/);
});

test("a step of the chain says how often the model looked behind it", async () => {
  mock.stories = examples();
  const [story] = mock.stories.filter((it) => it.conversation.key === "claude-code:6f1c2a");
  const [row, next] = story.rows.filter((it) => it.pinned === handoffId(2));
  row.recalls = ["found", "nothing"];
  next.recalls = ["found"];
  await go(talk());
  const step = (n) => page.locator(".chain .step").filter({ has: page.locator(`a[href="#/h/${handoffId(n)}"]`) }).innerText();
  assert.match(await step(2), /exchanges · 3 recalls/);
  assert.doesNotMatch(await step(1), /recall/);
  assert.match((await page.locator(".exchange .tags").allTextContents()).join("; "), /2 recalls/);
});

test("the handoff that counts is named", async () => {
  mock.stories = examples();
  await go(talk());
  const steps = page.locator(".chain .step");
  assert.match(await steps.last().innerText(), /in effect/);
  assert.doesNotMatch(await steps.first().innerText(), /in effect/);
});

test("an exchange shows what was cut next to what was sent", async () => {
  mock.stories = examples();
  await go(`#/e/${exchangeId(20)}`);
  assert.ok((await page.locator(".cell.cut").count()) >= 4);
  assert.equal(await page.locator(".cell.new[data-side=sent][data-at*=messages]").count(), 1);
  assert.match((await page.locator(".why").allInnerTexts()).join("\n"), /the model sees the carry-over prompt instead/);
  assert.match(await text(".fold-button"), /\d+ more messages left out/);
  await page.locator(".fold-button").first().click();
  assert.ok((await page.locator(".cell.cut").count()) > 20);
  await page.waitForSelector(".cell.new pre");
  assert.match(await page.locator(".cell.new .parts").innerText(), /Goal: take linkshort off/);
  await shot(page, "exchange");
});

test("an exchange that hands off has both legs, the response and the sentinel as a link", async () => {
  mock.stories = examples();
  await go(`#/e/${exchangeId(17)}`);
  const tabs = page.getByRole("tab");
  assert.deepEqual(await tabs.allInnerTexts(), ["Request", "Response", "Headers", "Usage and times"]);
  assert.equal(await page.locator("[role=tab][aria-selected=true]").innerText(), "Request");
  assert.match(await text(".sentence"), /^A handoff took effect: baton stored it/);
  assert.equal(await text(".legs summary"), "request 2 of 2");
  await page.locator(".legs summary").click();
  await page.getByRole("button", { name: "Request 1" }).click();
  assert.equal(await text(".legs summary"), "request 1 of 2");
  assert.match(await text(".leg-line"), /What the agent sent, next to what was sent to the model/);
  await tabs.nth(1).click();
  await page.waitForSelector(".answer pre");
  assert.match(await text(".answers"), /call · session_handoff/);
  assert.equal(await page.locator(".answers a.sentinel").first().getAttribute("href"), `#/h/${handoffId(2)}`);
  await shot(page, "response");
  await tabs.nth(2).click();
  assert.match(await text(".headers"), /x-api-key\s+\[redacted\]/);
  assert.match(await page.locator(".two").innerText(), /To the model, request 2 of 2\s+https:\/\/api\.anthropic\.com\/v1\/messages\s+accept-encoding\s+identity/);
});

test("an answer under way is shown as it comes", async () => {
  const story = tell({ tasks: 1, turns: 3 });
  const row = story.rows[2];
  Object.assign(row, { open: true, outcome: "", status: 0 });
  mock.stories = [story];
  await go(`#/e/${row.id}`);
  assert.match(await text(".live-answer"), /The response appears here as it arrives/);
  mock.live = [{ kind: "thinking", name: null, text: "hm" }, { kind: "text", name: null, text: "I look at <b>it" }];
  await page.getByText("I look at <b>it").waitFor();
  mock.live = [...mock.live, { kind: "call", name: "Bash", text: "cargo test" }];
  await page.getByText("call · Bash").waitFor();
  assert.equal(await page.locator(".live-answer b").count(), 0, "text alone");
  await shot(page, "under-way");
  Object.assign(row, { open: false, outcome: "complete", status: 200 });
  await page.waitForFunction(() => !document.querySelector(".live-answer"));
});

test("the next exchange opens at the tab that is looked at, and one sentence says what baton did", async () => {
  mock.stories = examples();
  await go(`#/e/${exchangeId(20)}`);
  assert.match(await text(".sentence"), /^The history was cut at its handoff: the carry-over prompt replaced \d+ messages/);
  assert.ok(!(await page.locator(".notes li").first().isVisible()), "the steps are folded");
  await page.getByRole("tab", { name: "Headers" }).click();
  await page.keyboard.press("]");
  await page.waitForFunction((id) => location.hash === `#/e/${id}?tab=headers`, exchangeId(21));
  await ready(page);
  assert.equal(await page.locator("[role=tab][aria-selected=true]").innerText(), "Headers");
  const [story] = mock.stories;
  Object.assign(story.rows[0], { user_line: "::handoff list", sent_bytes: [], changes: [] });
  story.details.get(story.rows[0].id).legs = [];
  await page.goto(`${mock.url}/#/e/${story.rows[0].id}`);
  await page.waitForFunction(() => document.querySelector(".sentence")?.textContent.startsWith("baton answered ::handoff list itself"));
  assert.equal(await page.locator("[role=tab][aria-selected=true]").innerText(), "Response");
});

test("a handoff has its prompt, its lineage and the line to go on from", async () => {
  mock.stories = examples();
  await go(`#/h/${handoffId(3)}`, { permissions: ["clipboard-read", "clipboard-write"] });
  assert.match(await text(".prompt .markdown"), /Next: task 4/);
  assert.equal(await page.locator(".lineage li").count(), 3);
  assert.match(await text(".head-of-view"), /A prompt of \d+ B replaced \d+ KiB of history\./);
  assert.match(await page.getByText("Exchange in which it took effect").getAttribute("href"), /^#\/e\//);
  await page.getByText("Changes since the previous handoff").click();
  await page.waitForSelector(".line-diff");
  assert.match(await text(".changed-lines"), /2 lines added, 1 line removed since task 2/);
  assert.deepEqual((await page.locator(".line.went").allInnerTexts()).map((it) => it.trim()), ["- Next: task 3: write the SQLite store. Start with src/store/sqlite/mod.rs."]);
  await page.locator("#copy-resume").click();
  await page.waitForFunction(() => document.getElementById("said").textContent === "Copied");
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), `[[handoff-resume:${handoffId(3)}]]`);
  await shot(page, "handoff");
});

test("each row of a receipt opens what it speaks of, and the list says what models leave out", async () => {
  mock.stories = examples();
  const it = mock.stories.flatMap((story) => story.handoffs).find((it) => it.id === handoffId(3));
  it.prompt = "All tests pass.\n\n- Never push.\n- [pending] Port it";
  it.carried = [
    { kind: "claim", state: "added", text: '"All tests pass.": the last run of `cargo test` ended with 101' },
    { kind: "rule", state: "in_prompt", text: "Never push. [replaced by a later word where the two conflict]" },
    { kind: "todo", state: "added", text: "[pending] Port it" },
    { kind: "rule", state: "left_out", text: "has GET, put" },
  ];
  it.looked_up_again = ["src/store/mod.rs", "`cargo test`", '"has GET" (nothing found)'];
  await go(`#/h/${handoffId(3)}`);
  for (const [row, words] of ["All tests pass.", "Never push.", "Port it"].entries()) {
    await page.locator(".carried button").nth(row).click();
    assert.equal(await text(".prompt mark"), words);
  }
  const searches = [".carried tr:last-child", ".again tr:nth-child(1)", ".again tr:nth-child(2)", ".again tr:nth-child(3)"];
  for (const [at, wanted] of ["has GET, put", "src/store/mod.rs", "cargo test", "has GET"].entries()) {
    await page.locator(`${searches[at]} button`).click();
    assert.equal(await page.locator("#search").inputValue(), wanted);
  }
  await page.waitForSelector("#list .hit");
  await shot(page, "receipt");
  mock.omissions = { "claude-opus-5-5": { handoffs: 5, missing_items: 2 }, "gpt-6.1-sol": { handoffs: 10, missing_items: 21 } };
  await go("#/h");
  assert.deepEqual(await page.locator(".omissions li").allInnerTexts(), ["claude-opus-5-5: 2 in 5 handoffs", "gpt-6.1-sol: 21 in 10 handoffs"]);
});

/** A document in the form of the API: one failed check, and two unproven claims. */
const seen = (changes = {}) => ({
  status: "active",
  folder: "/home/ada/.local/state/baton/handoffs/x",
  content: {
    kind: "handoff", next_action: "Make tests/bom.rs pass", summary: "s",
    open_risks: [{ severity: "block", detail: "`cargo test` ended with 101 in turn 3" }, { severity: "warn", detail: "not committed: <b>a.rs</b>" }],
    verification: [{ command: "cargo test", exit: 101, turn: 3, call: 12, stale: true }, { command: "cargo fmt --check", exit: 0, turn: 2, stale: false }, { command: "make lint", exit: null, turn: 1, stale: null }],
    claims: [{ claim: "All tests pass.", verdict: "contradicted", why: "cargo test ended with 101" }, { claim: "The build is green.", verdict: "unverified", why: "no build was seen" }],
    changed_files: [{ path: "src/reader.rs", change: "modified", why: null, turn: 2, call: 7 }],
    questions_for_human: [{ text: "Which port?", turn: 2 }],
    ...changes,
  },
});

test("a handoff shows its document: what was seen, what was only claimed, what comes next", async () => {
  mock.stories = examples();
  const it = mock.stories.flatMap((story) => story.handoffs).find((it) => it.id === handoffId(3));
  it.document = seen();
  it.prompt = "Goal: a reader.\nAll\ntests pass. The build is green.\nNext: go on.";
  await go(`#/h/${handoffId(3)}`);
  const told = await text(".document");
  for (const line of ["active · /home/ada/.local/state/baton/handoffs/x", "Next: Make tests/bom.rs pass", "blocks: `cargo test` ended with 101", "warning: not committed: <b>a.rs</b>", "cargo test failed with 101 (turn 3, call 12), files changed since", "cargo fmt --check passed (turn 2)", "make lint ended with an unknown result (turn 1), files may have changed since", "contradicted All tests pass. (cargo test ended with 101)", "unverified The build is green. (no build was seen)", "src/reader.rs modified (turn 2, call 7)", "Which port?"]) assert.ok(told.includes(line), `${line} in ${told}`);
  assert.equal(await page.locator(".document b b").count(), 0, "markup is text");
  const claims = page.locator(".prompt pre mark.claim");
  assert.deepEqual(await claims.allInnerTexts(), ["All\ntests pass. contradicted", "The build is green. unverified"]);
  assert.equal(await claims.last().getAttribute("title"), "no build was seen");
  await shot(page, "document");
  it.document = seen({ next_action: null, claims: [], open_risks: [], verification: [] });
  await page.reload();
  await ready(page);
  assert.match(await text(".document"), /no next step is recorded; ask the user/);
  assert.equal(await claims.count(), 0);
});

test("a prompt is read as Markdown, in text alone", async () => {
  mock.stories = [tell({ tasks: 2, turns: 2, prompt: "# Goal\nMend **the <i>reader</i>**.\n\n- `src/a.rs`: [x](javascript:alert(1))\n  - deeper\n- ![y](http://evil/z.png)\n\n1. first\n2. second\n\n```sh\ncargo test # <b>\n```\n> quoted\n| a | b |\n|---|---|\n" })];
  await go(`#/h/${handoffId(1)}`);
  const all = await page.locator(".markdown > *").evaluateAll((nodes) => nodes.map((node) => [node.tagName, node.textContent]));
  assert.deepEqual(all, [["H3", "Goal"], ["P", "Mend the <i>reader</i>."], ["UL", "src/a.rs: [x](javascript:alert(1))deeper![y](http://evil/z.png)"], ["OL", "firstsecond"], ["PRE", "cargo test # <b>"], ["BLOCKQUOTE", "quoted"], ["PRE", "| a | b |\n|---|---|"]]);
  assert.deepEqual(await page.locator(".markdown b, .markdown code").allTextContents(), ["the <i>reader</i>", "src/a.rs"]);
  assert.equal(await page.locator(".markdown ul ul li").innerText(), "deeper");
  assert.equal(await page.locator(".markdown a, .markdown img, .markdown i").count(), 0);
  await shot(page, "markdown");
});

test("handoffs beyond the last three are folded", async () => {
  mock.stories = [tell({ tasks: 6, turns: 2 })];
  await go(talk());
  assert.equal(await page.locator(".handed > .chain .step").count(), 3);
  assert.ok(!(await page.locator(".handed details .step").first().isVisible()));
  await page.getByText("2 earlier handoffs").click();
  assert.equal(await page.locator(".handed .step").count(), 5);
  assert.match(await page.locator(".handed .step .badge").first().innerText(), /^1$/);
});

test("a handoff stands in a map of chains and forks", async () => {
  mock.stories = examples();
  const all = mock.stories.flatMap((story) => story.handoffs);
  const it = all.find((it) => it.id === handoffId(3));
  const at = (n, depth, siblings, children, status) => ({ id: handoffId(n), depth, siblings, children, status, at_ms: it.at_ms, title: `task ${n}` });
  it.map = [at(1, 0, 1, 2, "superseded"), at(2, 1, 2, 0, "archived"), at(3, 1, 2, 0, "active")];
  await go(`#/h/${handoffId(3)}`);
  const rows = page.locator(".lineage .map li");
  assert.equal(await rows.count(), 3);
  assert.match(await rows.nth(0).innerText(), /task 1 .*superseded · forks into 2/);
  assert.match(await rows.nth(1).innerText(), /task 2 .*archived · one of 2 branches/);
  const left = async (n) => (await rows.nth(n).boundingBox()).x;
  assert.ok((await left(1)) > (await left(0)) && (await left(1)) === (await left(2)));
  assert.equal(await page.locator(".lineage [aria-current=true]").innerText(), "task 3");
  await rows.nth(1).locator("a").click();
  await page.waitForFunction((id) => location.hash === `#/h/${id}`, handoffId(2));
});

test("an exchange appears as it ends, and a handoff with it", async () => {
  const whole = tell({ tasks: 2, turns: 3 });
  const before = tell({ tasks: 1, turns: 3 });
  mock.stories = [before];
  await go(talk());
  await live(page);
  assert.equal(await page.locator(".exchange").count(), 3);
  const row = whole.rows[3];
  mock.tell("begun", { id: row.id, conversation: row.conversation, at_ms: row.at_ms });
  await page.waitForSelector(".row.begun");
  mock.stories = [{ ...whole, rows: whole.rows.slice(0, 4) }];
  mock.tell("exchange", row);
  await page.waitForSelector(`[data-row="${row.id}"]`);
  await page.waitForSelector(".handoff-row");
  assert.match(await text(".handoff-row"), /Handoff 1 · task 1 is done/);
  assert.equal(await page.locator(".row.begun").count(), 0);
  assert.equal(await page.locator(".chart .handoff-mark").count(), 1);
  await shot(page, "live");
});

test("a line that breaks is taken up again, and what was missed is asked for", async () => {
  mock.stories = [tell({ tasks: 1, turns: 3 })];
  await go(talk());
  await live(page);
  mock.stories = [tell({ tasks: 1, turns: 5 })];
  mock.hangUp();
  await page.waitForSelector("#live.offline");
  await page.waitForFunction(() => document.querySelectorAll(".exchange").length === 5, null, { timeout: 8000 });
  await live(page);
});

/** Counts nodes that are still the marked ones. */
const same = (selector) => page.evaluate((wanted) => [...document.querySelectorAll(wanted)].filter((node) => node.wasThere).length, selector);

test("live, rows and chart are patched: tip, selection, focus and place stay", async () => {
  const whole = tell({ tasks: 4, turns: 20 });
  const until = (n) => ({ ...whole, rows: whole.rows.slice(0, n), handoffs: whole.handoffs.slice(0, 3), conversation: { ...whole.conversation, exchanges: n } });
  mock.stories = [until(70), ...examples().slice(1)];
  await go(talk());
  await live(page);
  const row = (n) => `[data-row="${whole.rows[n - 1].id}"]`;
  await page.evaluate(([selected, focused]) => {
    for (const node of document.querySelectorAll(".exchange, .handoff-row, .handoff-mark, .chart svg, .talk, .facts > *")) node.wasThere = true;
    getSelection().selectAllChildren(document.querySelector(`${selected} time`));
    document.querySelector(`${focused} a`).focus();
    document.querySelector(focused).scrollIntoView({ block: "center" });
  }, [row(50), row(40)]);
  const at = () => page.locator(row(40)).evaluate((node) => node.getBoundingClientRect().top);
  const [before, selected] = [await at(), await page.evaluate(() => String(getSelection()))];
  assert.ok(selected.length > 4 && (await page.evaluate(() => scrollY)) > 200);
  const counts = await same(".exchange");
  for (let n = 71; n <= 75; n += 1) {
    mock.stories[0] = until(n);
    mock.tell("begun", { id: whole.rows[n - 1].id, conversation: whole.conversation.key, at_ms: whole.rows[n - 1].at_ms });
    mock.tell("exchange", whole.rows[n - 1]);
    await page.waitForSelector(row(n));
    await page.waitForTimeout(500);
  }
  assert.equal(await same(".exchange"), counts);
  assert.equal(await same(".handoff-row"), 3);
  assert.equal(await same(".handoff-mark"), 3);
  assert.equal(await same(".chart svg"), 1);
  assert.equal(await same(".talk"), 4);
  assert.equal(await page.evaluate(() => String(getSelection())), selected);
  assert.ok(await page.evaluate((wanted) => document.activeElement === document.querySelector(`${wanted} a`), row(40)), "the focus");
  assert.ok(Math.abs((await at()) - before) < 3, `the row moved from ${before} to ${await at()}`);
  // The tip still shows the request under the pointer.
  await page.evaluate(() => scrollTo(0, 0));
  const box = await page.locator(".chart svg").boundingBox();
  await page.mouse.move(box.x + box.width * 0.4, box.y + 100);
  const told = await text(".tip b");
  mock.stories[0] = until(76);
  mock.tell("exchange", whole.rows[75]);
  await page.waitForSelector(row(76));
  assert.equal(await text(".tip b"), told);
  assert.ok(await page.locator(".tip").isVisible());
});

test("the start view and the list are patched, too", async () => {
  mock.stories = examples();
  await go();
  await live(page);
  await page.evaluate(() => {
    for (const node of document.querySelectorAll(".card, .talk, .facts > *")) node.wasThere = true;
    document.querySelectorAll(".card")[2].focus();
    document.querySelector(".point-here").open = true;
  });
  const story = mock.stories[3];
  const row = { ...story.rows.at(-1), id: exchangeId(500, 4) };
  story.rows.push(row);
  story.conversation = { ...story.conversation, last_ms: Date.now(), exchanges: 99 };
  mock.tell("exchange", row);
  await page.waitForFunction(() => /Port the tests/.test(document.querySelector("#list .talk").textContent));
  await page.waitForTimeout(600);
  assert.deepEqual([await same(".card"), await same(".talk"), await same(".facts > *")], [6, 4, 5]);
  assert.ok(await page.evaluate(() => document.activeElement === document.querySelectorAll(".card")[2] && document.querySelector(".point-here").open));
});

test("back returns to the place", async () => {
  const story = tell({ tasks: 4, turns: 80 });
  mock.stories = [story, ...examples().slice(1)];
  await go(talk());
  await page.waitForSelector(".exchange");
  for (let more = 0; more < 8; more += 1) {
    await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
    await page.waitForTimeout(100);
  }
  const row = page.locator(`[data-row="${story.rows[20].id}"]`);
  await row.evaluate((node) => node.scrollIntoView({ block: "center" }));
  const before = await row.evaluate((node) => node.getBoundingClientRect().top);
  await row.locator("a").click();
  await page.waitForSelector(".diff");
  await ready(page);
  assert.equal(await page.evaluate(() => scrollY), 0);
  const opened = page.locator(".cell[data-side=sent][data-at*=messages] .head").last();
  await opened.click();
  await page.waitForSelector(".cell.open pre");
  const key = await page.locator(".cell.open").last().getAttribute("data-at");
  await page.keyboard.press("Escape");
  await page.keyboard.press("]");
  await page.waitForFunction((id) => location.hash.includes(id), story.rows[21].id);
  await ready(page);
  await page.goBack();
  await page.waitForSelector(`.cell.open[data-at="${key}"] pre`);
  await page.goBack();
  await page.waitForSelector(".timeline");
  await ready(page);
  const after = await row.evaluate((node) => node.getBoundingClientRect().top);
  assert.ok(Math.abs(after - before) < 3, `from ${before} to ${after}`);
  assert.ok(await row.locator("a").evaluate((link) => document.activeElement === link));
  await page.goForward();
  await page.waitForSelector(`.cell.open[data-at="${key}"] pre`);
});

test("after a reload, back returns to no other view's place", async () => {
  mock.stories = [tell({ tasks: 4, turns: 20 }), tell({ tasks: 4, turns: 20, talk: 2, key: "other" })];
  await go(talk());
  const shown = (n) => page.waitForSelector(`[data-row="${exchangeId(1, n)}"]`).then(() => ready(page));
  const opened = (hash) => page.evaluate((to) => (location.hash = to), hash);
  await shown(1);
  await opened(talk("other"));
  await shown(2);
  await page.reload();
  await shown(2);
  await page.evaluate(() => scrollTo(0, 500));
  await opened("#/h");
  await page.waitForFunction(() => !document.querySelector(".timeline"));
  await ready(page);
  await page.goBack();
  await shown(2);
  await page.waitForFunction(() => scrollY === 500);
  await page.goBack();
  await shown(1);
  await page.waitForTimeout(100);
  assert.equal(await page.evaluate(() => scrollY), 0, "the first view was left at its top");
});

test("after an outage the page mends itself", async () => {
  mock.stories = examples();
  await go();
  await live(page);
  mock.down = true;
  mock.hangUp();
  await page.waitForSelector("#live.offline");
  await page.evaluate((hash) => (location.hash = hash), talk());
  await page.waitForSelector("main [role=alert]");
  mock.down = false;
  await page.waitForSelector(".timeline .exchange", { timeout: 15_000 });
  await live(page);
  assert.equal(await page.locator("#list .talk").count(), 4);
});

test("a hit names its conversation and time, and opens at the place that it marks", async () => {
  mock.stories = examples();
  await go();
  await page.locator("#search").fill("has GET, put");
  await page.waitForSelector("#list .hit");
  assert.match(await text("#list .hit"), /Work through docs\/plan\.md[\s\S]*from the agent · .*\d\d:\d\d:\d\d/);
  const seen = await page.locator("#list .hit mark").first().evaluate((mark) => {
    const [own, box] = [mark.getBoundingClientRect(), mark.closest(".snippet").getBoundingClientRect()];
    return own.top >= box.top && own.bottom <= box.bottom + 1;
  });
  assert.ok(seen, "the match is in view");
  await page.locator("#list .hit").first().click();
  await page.waitForSelector("mark.found");
  assert.match(await text("mark.found"), /has get, put/i);
  await page.waitForFunction(() => {
    const box = document.querySelector("mark.found").getBoundingClientRect();
    return box.top > 0 && box.bottom < innerHeight;
  });
  await shot(page, "found");
});

test("a hit in an answer is marked, whatever the answer is made of", async () => {
  const story = tell({ tasks: 1, turns: 2 });
  mock.stories = [story];
  const id = exchangeId(1);
  const sse = (...events) => events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join("");
  const delta = (type, text) => ({ type, output_index: 0, delta: text });
  const whole = (...output) => JSON.stringify({ object: "response", output });
  const answers = {
    reasoning: sse(delta("response.reasoning_text.delta", "quick br"), delta("response.reasoning_text.delta", "own fox")),
    refusal: sse(delta("response.refusal.delta", "quick br"), delta("response.refusal.delta", "own fox")),
    "custom call": sse({ type: "response.output_item.added", output_index: 0, item: { type: "custom_tool_call", name: "apply_patch", input: "" } }, delta("response.custom_tool_call_input.delta", "quick br"), delta("response.custom_tool_call_input.delta", "own fox")),
    summary: whole({ type: "reasoning", summary: [{ type: "summary_text", text: "quick brown fox" }] }),
    "whole custom call": whole({ type: "custom_tool_call", name: "apply_patch", input: "quick brown fox" }),
    "Code Assist": sse({ response: { candidates: [{ content: { parts: [{ text: "quick br" }] } }] } }, { response: { candidates: [{ content: { parts: [{ text: "own fox" }] } }] } }),
  };
  const open = async (body) => {
    story.bodies.get(id).response[0] = body;
    await page.goto("about:blank");
    await page.goto(`${mock.url}/#/e/${id}?side=response&of=body&leg=0&q=quick%20brown`);
    await page.waitForSelector(".answer pre");
    await page.waitForSelector("mark.found", { timeout: 3000 });
    return page.locator("mark.found").first();
  };
  await go();
  for (const [kind, body] of Object.entries(answers)) {
    const mark = await open(body).catch(() => assert.fail(`${kind}: no mark`));
    assert.ok(await mark.evaluate((node) => !node.closest("details")), `${kind} is read`);
  }
  // A match outside all parts is marked in the raw body, which is then open.
  for (const body of ["<html>quick brown</html>", sse({ type: "response.output_text.delta", output_index: 0, delta: "Yes." }, { type: "response.other", note: "quick brown" })]) {
    assert.ok(await (await open(body)).isVisible());
  }
});

test("the system prompt and the tools are the diff's first rows", async () => {
  mock.stories = examples();
  await go(`#/e/${exchangeId(20)}`);
  const rows = page.locator(".diff .cell[data-side=sent]");
  assert.match(await rows.first().innerText(), /system[\s\S]*works through plans/);
  const own = page.locator(".diff .cell.new[data-side=sent][data-at*=envelope]");
  assert.match(await own.innerText(), /session_handoff[\s\S]*baton's tool/);
  await own.locator(".head").click();
  await own.locator("pre").first().waitFor();
  assert.match(await own.innerText(), /Call this when a task is finished[\s\S]*"type": "object"/);
  // A kept preamble in the prompt's message has a label.
  await page.waitForSelector(".cell.new[data-at*=messages] pre");
  assert.deepEqual(await page.locator(".cell.new[data-at*=messages] .part-head > :first-child").allTextContents(), ["carry-over prompt", "preamble"]);
  assert.match(await text(".cell.new .preamble summary"), /^Preamble before the prompt: 1 part, \d+ B$/);
  assert.ok(!(await page.locator(".cell.new .preamble .part").isVisible()), "folded");
});

test("tokens stand with their leg, and a leg that failed shows its status", async () => {
  const story = tell({ tasks: 2, turns: 3 });
  const row = story.rows[3];
  const detail = story.details.get(row.id);
  const again = structuredClone(detail.legs[1]);
  Object.assign(row, { statuses: [200, 429, 200], tokens: [row.tokens[0], null, row.tokens[1]], sent_bytes: [row.sent_bytes[0], row.sent_bytes[1], row.sent_bytes[1]] });
  detail.legs[1].response = { status: 429, bytes: 0, stop: null, usage: null, truncated: false };
  detail.legs.push({ ...again, n: 2 });
  mock.stories = [story];
  await go(`#/e/${row.id}`);
  assert.equal(await text(".legs summary"), "request 3 of 3");
  await page.locator(".legs summary").click();
  assert.match(await page.locator(".legs li").nth(1).innerText(), /Request 2 .*429/);
  await page.getByRole("button", { name: "Request 2" }).click();
  assert.match(await text(".leg-line"), /Upstream responded with 429/);
  await page.getByRole("tab", { name: "Usage and times" }).click();
  const cells = await page.locator(".numbers tbody tr").evaluateAll((all) => all.map((tr) => [...tr.children].map((td) => td.textContent)));
  assert.deepEqual([cells[1][1], cells[1][3], cells[1][7]], ["429", "–", "–"]);
  const number = (value) => Number(value.replaceAll(",", ""));
  const input = (line) => number(line[3]);
  assert.equal(input(cells[0]), number(cells[0][4]) + number(cells[0][5]) + number(cells[0][6]));
  assert.equal(input(cells[3]), input(cells[0]) + input(cells[2]));
  assert.equal(number(cells[3][7]), number(cells[0][7]) + number(cells[2][7]));
});

test("where a leg's row was dropped, the others keep their numbers and tokens", async () => {
  const story = tell({ tasks: 2, turns: 3 });
  const row = story.rows[3];
  const detail = story.details.get(row.id);
  const output = row.tokens[1].output;
  Object.assign(row, { partial: true, tokens: [null, row.tokens[1]], statuses: [null, 200] });
  detail.legs.shift();
  mock.stories = [story];
  await go(`#/e/${row.id}?side=sent&of=messages&leg=1&i=0`);
  assert.equal(await page.locator("[role=tab][aria-selected=true]").innerText(), "Request");
  assert.match(await text(".leg-line"), /A later request/);
  await page.getByRole("tab", { name: "Usage and times" }).click();
  const cells = await page.locator(".numbers tbody tr").first().locator("th, td").allInnerTexts();
  assert.deepEqual([cells[0], cells[1], cells[7]], ["Request 2", "200", String(output)]);
});

const NASTY = '<script>alert(1)</script><img src=x onerror="alert(2)">\n\u001b[31mred\u001b[0m and \u202egnissim\u202c, \u0000\n</pre><style>*{display:none}</style>';

test("a prompt full of markup and control characters is text", async () => {
  mock.stories = [tell({ tasks: 2, turns: 2, prompt: NASTY, title: '<b>bold</b> \u001b[1mtitle', key: "../<i>key</i>?#%" })];
  await go();
  assert.match(await text("#list .talk"), /<b>bold<\/b> ⟨ESC⟩\[1mtitle/);
  await page.locator("#list .talk").click();
  await page.waitForSelector(".exchange");
  assert.match(await text("h1"), /<b>bold<\/b>/);
  await page.goto(`${mock.url}/#/h/${handoffId(1)}`);
  await page.waitForSelector(".markdown");
  assert.match(await text(".markdown"), /<script>alert\(1\)<\/script><img src=x onerror="alert\(2\)">[\s\S]*⟨ESC⟩\[31mred/);
  assert.equal(await page.locator("main script, main img, main style").count(), 0);
  await page.getByRole("button", { name: "As written" }).click();
  await page.waitForSelector(".prompt pre");
  const shown = await page.locator(".prompt pre").evaluate((pre) => pre.textContent);
  assert.ok(shown.startsWith('<script>alert(1)</script><img src=x onerror="alert(2)">\n⟨ESC⟩[31mred⟨ESC⟩[0m and ⟨U+202E⟩gnissim⟨U+202C⟩, ⟨NUL⟩\n</pre>'), shown);
  assert.equal(await page.locator("main script, main img, main style, main i, #list b:not(.num)").count(), 0);
  await shot(page, "markup");
  await page.goto(`${mock.url}/#/e/${exchangeId(4)}`);
  await page.waitForSelector(".cell.new pre");
  await page.getByRole("tab", { name: "Response" }).click();
  await page.waitForSelector(".answer-body");
  assert.equal(await page.locator("main script, main img, main style").count(), 0);
});

test("the policy forbids what the page does not do", async () => {
  await go();
  const ran = await page.evaluate(() => {
    const script = document.createElement("script");
    script.textContent = "window.ran = true";
    document.body.append(script);
    return window.ran === true;
  });
  assert.equal(ran, false);
  page.faults = page.faults.filter((fault) => !/Content.Security.Policy/i.test(fault));
});

test("the keyboard goes everywhere", async () => {
  mock.stories = examples();
  await go();
  const key = (...keys) => keys.reduce((last, it) => last.then(() => page.keyboard.press(it)), Promise.resolve());
  await key("j", "j", "k", "Enter");
  await page.waitForSelector(".timeline");
  assert.equal(new URL(page.url()).hash, talk());
  await ready(page);
  // The opened view has the focus. One key moves to the list, another one back.
  const inside = (selector) => page.waitForFunction((wanted) => document.activeElement.closest(wanted), selector);
  await key("j", "j");
  await inside(".exchange, .handoff-row, .chart");
  await key("h", "j");
  await inside("#list");
  assert.notEqual(await page.evaluate(() => document.activeElement.dataset.key), "claude-code:6f1c2a");
  await key("ArrowUp");
  assert.equal(await page.evaluate(() => document.activeElement.dataset.key), "claude-code:6f1c2a");
  await key("l");
  await inside("main");
  await page.locator(".exchange a").nth(4).focus();
  await key("j", "k", "j");
  await inside(".exchange, .handoff-row");
  await page.locator(".exchange a").nth(5).focus();
  await key("Enter");
  await page.waitForSelector(".diff");
  const here = page.url();
  await key("[");
  await page.waitForFunction((url) => location.href !== url, here);
  const before = page.url();
  await key("]");
  await page.waitForFunction((url) => location.href === url, here);
  await ready(page);
  // Keys that come faster than views count from the next address.
  await page.evaluate(() => ["[", "[", "]"].forEach((key) => document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }))));
  await page.waitForFunction((url) => location.href === url, before);
  await ready(page);
  assert.equal(page.url(), before);
  await key("]");
  await page.waitForFunction((url) => location.href === url, here);
  await ready(page);
  await key("n");
  await page.waitForFunction(() => document.activeElement.closest("[data-change]"));
  await key("u");
  await page.waitForSelector(".timeline");
  await key("g", "h");
  await page.waitForSelector(".cards");
  await key("/");
  await page.keyboard.type("SQLite store");
  await page.waitForSelector("#list .hit");
  assert.match(await text("#list .hit mark"), /sqlite store/i);
  await key("Escape", "?");
  assert.ok(await page.locator("#keys").evaluate((dialog) => dialog.open));
  await shot(page, "keys");
  await key("Escape");
  await page.waitForSelector("#keys", { state: "hidden" });
  await key("t");
  assert.equal(await page.locator("html").getAttribute("data-theme"), "dark");
});

test("an exchange of more than 4 MB opens in less than a second", async () => {
  const story = heavy();
  mock.stories = [story];
  const size = JSON.stringify(story.messages.get(story.id).received).length;
  assert.ok(size > 4_000_000, `${size} bytes`);
  await go();
  const took = await page.evaluate(async (id) => {
    const began = performance.now();
    location.hash = `#/e/${id}`;
    const there = () => document.querySelector(".links .mono")?.textContent === id && document.querySelector(".diff .cell");
    while (!there()) await new Promise(requestAnimationFrame);
    await new Promise((painted) => requestAnimationFrame(() => setTimeout(painted)));
    return performance.now() - began;
  }, story.id);
  console.log(`an exchange of ${(size / 1e6).toFixed(1)} MB, ${story.messages.get(story.id).received.length} messages: open in ${Math.round(took)} ms`);
  assert.ok(took < 1000, `${took} ms`);
  assert.ok((await page.locator(".cell").count()) < 400);
  // A message of a megabyte is laid out in pieces.
  const long = await page.evaluate(async () => {
    const fold = [...document.querySelectorAll(".fold-button")].find((button) => /left out/.test(button.textContent));
    fold.click();
    const head = document.querySelector("[data-at='0:received:messages:10'] .head");
    const began = performance.now();
    head.click();
    while (!head.parentNode.querySelector("pre")) await new Promise(requestAnimationFrame);
    return performance.now() - began;
  });
  console.log(`a message of 1.1 MB in it: open in ${Math.round(long)} ms`);
  assert.ok(long < 1000, `${long} ms`);
  assert.match(await page.locator(".cell.cut.open").innerText(), /Show more/);
});

test("a listener with a token asks for it", async () => {
  mock.stories = examples();
  mock.token = "0123456789abcdef";
  await go();
  await page.waitForSelector("#token[open]");
  await page.locator("#token input").fill("wrong");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#token[open]");
  await page.locator("#token input").fill(mock.token);
  await page.keyboard.press("Enter");
  await page.waitForSelector("#list .talk");
  await live(page);
});

test("what cannot be had is said, and can be tried again", async () => {
  mock.stories = examples();
  await go(`#/e/${exchangeId(999)}`);
  assert.match(await text("main"), /no such thing[\s\S]*oldest exchanges are deleted first/);
  await page.goto(`${mock.url}/#/%`);
  await page.getByText("The inspector has no page at #/%.").waitFor();
  assert.equal(await page.locator("main").getAttribute("aria-busy"), "false");
  assert.doesNotMatch(await text("main"), /Try again|deleted/);
  await page.getByRole("link", { name: "Go to conversations" }).click();
  await page.waitForSelector(".talk-card");
});

for (const scheme of ["light", "dark"]) {
  for (const width of [1280, 720, 400]) {
    test(`it fits ${width} pixels, ${scheme}`, async () => {
      mock.stories = examples();
      for (const [name, hash] of [["home", ""], ["conversation", talk()], ["exchange", `#/e/${exchangeId(20)}`], ["handoff", `#/h/${handoffId(3)}`]]) {
        await go(hash, { viewport: { width, height: 860 }, colorScheme: scheme });
        const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(over <= 0, `${name} is ${over} pixels too wide`);
        await shot(page, `${name}-${scheme}-${width}`);
        await page.context().close();
      }
      page = null;
    });
  }
}

const DOCUMENT = "## Goal\nThe exporter.\n\n## Files\n- `src/export/writer.rs`: writes rows.\n- `src/import/reader.rs`: is done.\n\n## Commands\n- `cargo test -p exporter` passes.\n\n## Next steps\n1. Read it.";

/** A draft of the first conversation. */
const drafted = (state, more = {}) => {
  const id = "0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11";
  const draft = { id, conversation: "claude-code:6f1c2a", state, origin: "person", method: "oneshot", focus: "the exporter", handoff: null, failure: null, why: null, created_ms: Date.now(), updated_ms: Date.now(), ...more };
  mock.drafts.set(id, { draft, document: state === "failed" ? null : DOCUMENT });
  return id;
};

test("a draft waits for a person, who ticks, edits and accepts", async () => {
  mock.stories = examples();
  const id = drafted("review");
  await go(talk());
  await page.locator(".draft a").click();
  await page.waitForSelector("#document");
  assert.match(await text("h1"), /A draft waits for your approval/);
  assert.equal(await page.locator("#document").inputValue(), DOCUMENT);
  const ticks = page.locator(".ticks label");
  assert.deepEqual((await ticks.allInnerTexts()).map((it) => it.trim()), ["- `src/export/writer.rs`: writes rows.", "- `src/import/reader.rs`: is done.", "- `cargo test -p exporter` passes."]);
  assert.match(await text("#sizes"), /^The last request to the model had \d+ KiB\. This document has 180 B\.$/);
  assert.match(await text("#accept-does"), /^Accept: from the agent's next request on, the model sees this document[\s\S]*Reject: the draft is discarded/);
  const wide = await page.locator("#document").evaluate((node) => node.offsetWidth / node.parentNode.offsetWidth);
  assert.ok(wide > 0.98, "full width");
  await ticks.nth(1).locator("input").uncheck();
  assert.match(await text("#sizes"), /This document has \d+ B \(180 B as drafted\)\./);
  assert.ok(!(await page.locator("#document").inputValue()).includes("reader.rs"));
  await ticks.nth(2).locator("input").uncheck();
  await ticks.nth(1).locator("input").check();
  const ticked = DOCUMENT.replace("- `cargo test -p exporter` passes.\n", "");
  assert.equal(await page.locator("#document").inputValue(), ticked, "in its place again");
  const edited = ticked.replace("1. Read it.", "1. Read it, then write.");
  await page.locator("#document").fill(edited);
  await shot(page, "draft");
  await page.locator("#accept").click();
  await page.waitForFunction(() => document.querySelector(".prompt [role=status]")?.textContent.startsWith("Accepted."));
  assert.deepEqual(mock.said, [["POST", `/api/drafts/${id}/accept`, { document: edited }]]);
  assert.equal(await page.locator("#accept").count(), 0);
});

test("a draft is rejected, and one that is as it was is accepted without its text", async () => {
  mock.stories = examples();
  const id = drafted("review");
  await go(`#/d/${id}`);
  await page.locator("#reject").click();
  await page.waitForFunction(() => document.querySelector(".prompt [role=status]")?.textContent === "The draft is rejected.");
  await go();
  drafted("review");
  await go(`#/d/${id}`);
  await page.locator("#accept").click();
  await page.waitForFunction(() => document.querySelector(".prompt [role=status]")?.textContent.startsWith("Accepted."));
  assert.deepEqual(mock.said.map(([, path, body]) => [path.split("/").pop(), body]), [["reject", {}], ["accept", {}]]);
});

test("a conversation says that a handoff is being written, and that none was made", async () => {
  mock.stories = examples();
  drafted("writing");
  await go(talk());
  assert.match(await text(".draft"), /A handoff is being written\. Cancel/);
  await page.locator(".draft button").click();
  await page.waitForFunction(() => true);
  drafted("failed", { failure: "truncated", why: "the model's answer was cut off (draft.max_tokens)" });
  await go(talk());
  assert.match(await text(".draft"), /No handoff was made: the model's answer was cut off \(draft\.max_tokens\)\./);
  assert.deepEqual(mock.said.map(([method]) => method), ["DELETE"]);
});

test("the line that undoes a handoff has the prefix of the config", async () => {
  mock.stories = examples();
  for (const [prefix, line] of [["!!", /^!!handoff undo [0-9a-f-]{36}$/], ["", null]]) {
    mock.prefix = prefix;
    await go(talk());
    const copy = page.locator(".chain .step").first().getByText("Copy undo");
    assert.equal(await copy.count(), line ? 1 : 0);
    if (!line) continue;
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await copy.click();
    assert.match(await page.evaluate(() => navigator.clipboard.readText()), line);
  }
});

test("a request is copied as curl, its key as a variable", async () => {
  mock.stories = examples();
  await go(`#/e/${exchangeId(20)}`, { permissions: ["clipboard-read", "clipboard-write"] });
  await page.getByRole("button", { name: "Copy as curl" }).first().click();
  const text = await page.evaluate(() => navigator.clipboard.readText());
  assert.match(text, /^baton show \S+ --sent --leg \d+ \| curl -sS -X 'POST' 'https:\/\/api\.anthropic\.com\/v1\/messages'/);
  assert.match(text, / -H "x-api-key: \$ANTHROPIC_API_KEY" --data-binary @-$/);
  assert.doesNotMatch(text, /redacted|accept-encoding/);
});
