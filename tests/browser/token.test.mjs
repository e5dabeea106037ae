// The page of a listener that requires a token. A browser presents it as a password.

import assert from "node:assert/strict";
import test, { after, before } from "node:test";
import { launch, live, open } from "./browser.mjs";

const ADMIN = process.env.BATON_ADMIN;
const TOKEN = "0123456789abcdef-browser";

let browser;

before(async () => (browser = await launch()));
after(() => browser?.close());

test("nothing is shown without it", { skip: !ADMIN && "BATON_ADMIN is not set" }, async () => {
  for (const path of ["/", "/api/status", "/api/events"]) assert.equal((await fetch(ADMIN + path)).status, 401, path);
});

test("with it the page, its assets, its questions and its events come", { skip: !ADMIN && "BATON_ADMIN is not set" }, async () => {
  const page = await open(browser, ADMIN, { httpCredentials: { username: "baton", password: TOKEN } });
  await live(page);
  assert.match(await page.locator("main").innerText(), /No traffic yet/);
  assert.equal(await page.locator("#token[open]").count(), 0);
  assert.deepEqual(page.faults, []);
});
