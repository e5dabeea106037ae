// The page of the running program at BATON_ADMIN, with agents at BATON_URL and a scripted model as upstream.

import assert from "node:assert/strict";
import test, { after, before } from "node:test";
import { Agent } from "./agent.mjs";
import { launch, live, open, ready, shot } from "./browser.mjs";

const { BATON_ADMIN: ADMIN, BATON_URL: URL } = process.env;

let browser;
let page;

before(async () => (browser = await launch()));
after(() => browser?.close());

/** Waits for the first ended exchange that matches. The journal is written after the stream, so it may come late. */
async function written(what, like) {
  for (let left = 100; left > 0; left -= 1) {
    const { exchanges } = await (await fetch(`${ADMIN}/api/exchanges?limit=200`)).json();
    const row = exchanges.find((row) => !row.open && like(row));
    if (row) return row;
    await new Promise((later) => setTimeout(later, 100));
  }
  throw new Error(`${what} is not in the journal`);
}

const ended = (id) => written(`exchange ${id}`, (row) => row.id === id);

/** Opens an exchange. The previous view stays until the new one is ready, so a matching element is not enough. */
async function visit(id) {
  await page.goto(`${ADMIN}/#/e/${id}`);
  await page.waitForFunction((id) => document.querySelector(".links .mono")?.textContent === id && document.querySelector(".diff .cell"), id);
}

/** Opens one of several requests of an exchange, by its number from 0. */
async function pick(leg) {
  await page.getByRole("tab", { name: "Request" }).click();
  const fold = page.locator(".legs");
  if (!(await fold.count())) return;
  await fold.locator("summary").click();
  await fold.getByRole("button", { name: `Request ${leg + 1}`, exact: true }).click();
}

const text = (selector) => page.locator(selector).first().innerText();

test("an empty journal, an agent at work, a handoff, its exchange", { skip: !ADMIN && "BATON_ADMIN is not set" }, async () => {
  page = await open(browser, ADMIN);
  await live(page);
  assert.ok((await text("main")).includes(`ANTHROPIC_BASE_URL=${URL} claude`));

  const agent = new Agent(URL).say("Please do this, <b>carefully</b>:\n#task 1/3 steps=4");
  await agent.ask();
  await page.waitForSelector("#list .talk");
  await page.locator("#list .talk").click();
  await page.waitForSelector(".exchange");
  assert.match(await text("h1"), /Please do this, <b>carefully<\/b>/);
  assert.equal(await page.locator(".handoff-row").count(), 0);

  await agent.work();
  await page.waitForFunction(() => document.querySelectorAll(".handoff-row").length === 2);
  assert.equal(await page.locator(".chart .handoff-mark").count(), 2);
  assert.match(await text(".facts"), /2\s*handoffs/);
  await shot(page, "running-conversation");

  await visit((await ended(agent.exchange)).id);
  await page.waitForSelector(".diff .cell.cut");
  assert.ok((await page.locator(".cell.new[data-side=sent]").count()) >= 1, "the carry-over prompt stands on the right");
  await page.waitForSelector(".cell.new pre");
  assert.match(await text(".cell.new .parts"), /#task 3\/3/);
  assert.ok(!(await text("main")).includes("sk-never-shown"));
  await shot(page, "running-exchange");
  await page.getByRole("tab", { name: "Headers" }).click();
  assert.match(await text(".headers"), /anthropic-version/);
  assert.ok(!(await text("main")).includes("sk-never-shown"));
  await page.getByRole("tab", { name: "Response" }).click();
  await page.waitForSelector(".answer pre");
  assert.match(await text(".answers"), /All 3 tasks done/);

  await page.keyboard.press("Escape");
  await page.keyboard.press("u");
  await page.waitForSelector(".handoff-row");
  await page.locator(".handoff-row a").first().click();
  await page.waitForSelector("#resume");
  assert.match(await text("#resume"), /^\[\[handoff-resume:[0-9a-f-]{36}\]\]$/);
  assert.equal(await page.locator(".lineage li").count(), 2);
  await shot(page, "running-handoff");
  assert.deepEqual(page.faults, []);
});

test("an undo and its undo show on an open page", { skip: !ADMIN && "BATON_ADMIN is not set" }, async () => {
  const agent = new Agent(URL, { session: "undo" }).say("Please do this:\n#task 1/2 steps=2");
  await agent.work();
  const { conversation } = await ended(agent.exchange);
  const page = await open(browser, `${ADMIN}/#/c/${encodeURIComponent(conversation)}`, { permissions: ["clipboard-read", "clipboard-write"] });
  await live(page);
  const step = page.locator(".chain .step").first();
  const says = (word) => page.waitForFunction((word) => document.querySelector(".chain .step")?.innerText.includes(word), word);
  await says("in effect");
  agent.say("::handoff undo");
  await agent.ask();
  await says("undone");
  await shot(page, "running-undone");
  await step.getByRole("button", { name: "Copy redo" }).click();
  agent.say(await page.evaluate(() => navigator.clipboard.readText()));
  await agent.ask();
  await says("in effect");
  assert.doesNotMatch(await step.innerText(), /undone/);
  assert.match(await page.locator(".rows").innerText(), /undo reverted[\s\S]*handoff undone/);
  await step.locator("a").click();
  await page.waitForSelector("#resume");
  assert.equal(await page.locator(".undone").count(), 0);
  assert.deepEqual(page.faults, []);
});

test("hidden pairs are explained where they stand", { skip: !ADMIN && "BATON_ADMIN is not set" }, async () => {
  const talks = {};
  for (const kind of ["mixed", "refuse"]) {
    const agent = new Agent(URL, { session: kind }).say(`Please do this:\n#task 1/2 steps=3 ${kind}`);
    await agent.work();
    talks[kind] = (await ended(agent.exchange)).conversation;
  }
  page ??= await open(browser, ADMIN);
  const { exchanges } = await (await fetch(`${ADMIN}/api/exchanges?limit=50`)).json();
  const paired = exchanges.filter((row) => row.changes.some((change) => change.why === "pair"));
  assert.ok(paired.length > 0, "an exchange with a hidden pair");
  for (const [at, row] of paired.slice(0, 2).entries()) {
    await visit(row.id);
    await pick(row.changes.find((change) => change.why === "pair").leg);
    assert.match(await page.locator(".diff").innerText(), /agent never saw/, row.id);
    await page.locator(".cell.new[data-side=sent] .head, .cell.changed[data-side=sent] .head").first().click();
    await page.waitForSelector(".cell.open pre");
    await shot(page, `running-pair-${at}`);
  }
  const again = (change) => change.why === "ask_again";
  const asked = await written("an exchange that was asked again", (row) => row.conversation === talks.refuse && row.changes.some(again));
  await visit(asked.id);
  await pick(asked.changes.find(again).leg);
  assert.match(await page.locator(".diff").innerText(), /answered or refused the model's hidden call, and the model continued/);
  await shot(page, "running-asked-again");
});

/** Opens an exchange from the list, and returns the milliseconds until its messages are shown. */
async function opened(id) {
  await page.goto(`${ADMIN}/`);
  await page.reload();
  await ready(page);
  return page.evaluate(async (id) => {
    const began = performance.now();
    location.hash = `#/e/${id}`;
    const there = () => document.querySelector(".links .mono")?.textContent === id && document.querySelector(".diff .cell");
    while (!there()) await new Promise(requestAnimationFrame);
    return performance.now() - began;
  }, id);
}

test("a real exchange of more than 4 MB opens in less than a second", { skip: !ADMIN && "BATON_ADMIN is not set" }, async () => {
  const small = new Agent(URL, { session: "light" });
  await small.say("Read one:\n#task 1/1 steps=1").work();
  const agent = new Agent(URL, { result: "0123456789abcdef\n".repeat(55_000), session: "heavy" });
  await agent.say("Read it all:\n#task 1/1 steps=5").work();
  page ??= await open(browser, ADMIN);
  await ended(agent.exchange);
  await ended(small.exchange);
  const received = await (await fetch(`${ADMIN}/api/exchanges/${agent.exchange}/received`)).text();
  assert.ok(received.length > 4_000_000, `${received.length} bytes`);
  // The fastest of up to five, because other work on the machine slows some of them down. If it slows down all of them, it
  // slows down a small exchange as well, which takes a tenth of a second on an idle machine.
  const times = [];
  const least = [];
  const bound = () => Math.max(1000, 10 * Math.min(...least));
  while (times.length < 5 && !(Math.min(...times) < bound())) {
    least.push(await opened(small.exchange));
    times.push(await opened(agent.exchange));
  }
  await ready(page);
  const [took, besides] = [times, least].map((all) => all.map(Math.round).join());
  console.log(`an exchange of ${(received.length / 1e6).toFixed(1)} MB, from the journal: open in ${took} ms; a small one in ${besides} ms`);
  assert.ok(Math.min(...times) < bound(), `${took} ms, a small one ${besides} ms`);
});
