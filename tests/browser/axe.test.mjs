// All accessibility rules of axe-core on every view, light and dark, from a phone to a desktop.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import test, { after, before } from "node:test";
import { launch, live, open } from "./browser.mjs";
import { examples, Mock } from "./mock.mjs";
import { exchangeId, handoffId } from "./story.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

let browser;

before(async () => (browser = await launch()));
after(() => browser?.close());

const click = (name) => async (page) => {
  await page.getByRole("tab", { name }).click();
  await page.waitForTimeout(100);
};
const VIEWS = [
  ["home", "", null],
  ["conversation", `#/c/${encodeURIComponent("claude-code:6f1c2a")}`, null],
  ["the chart's tip", `#/c/${encodeURIComponent("claude-code:6f1c2a")}`, (page) => page.locator(".chart svg").focus().then(() => page.keyboard.press("End"))],
  ["exchange", `#/e/${exchangeId(20)}`, (page) => page.waitForSelector(".cell.new pre")],
  ["response", `#/e/${exchangeId(17)}`, click("Response")],
  ["headers", `#/e/${exchangeId(17)}`, click("Headers")],
  ["usage", `#/e/${exchangeId(17)}`, click("Usage and times")],
  ["handoffs", "#/h", null],
  ["savings", "#/s?by=conversation", null],
  ["exchanges", "#/x", null],
  ["a wrong filter", "#/x?filter=toll:x", null],
  ["cost", `#/c/${encodeURIComponent("claude-code:6f1c2a")}`, (page) => page.locator(".bill summary").click()],
  ["changed lines", `#/h/${handoffId(3)}`, (page) => page.locator(".changed-lines summary").click().then(() => page.waitForSelector(".line-diff"))],
  ["handoff", `#/h/${handoffId(3)}`, null],
  ["nothing there", "#/e/none", null],
  ["no page", "#/none", (page) => page.getByText("Page not found").waitFor()],
  ["search", "", async (page) => {
    await page.locator("#search").fill("linkshort");
    await page.waitForSelector("#list .hit");
  }],
  ["keys", "", (page) => page.keyboard.press("?")],
];

for (const colorScheme of ["light", "dark"]) {
  for (const width of [390, 720, 1024, 1440]) {
    test(`axe finds nothing at ${width} pixels, ${colorScheme}`, async () => {
      const mock = await new Mock().start();
      mock.stories = examples();
      mock.stories[0].rows.at(-1).budgets = [4.9, 4.2, 1].map((spent) => ({ of: "session", unit: "dollars", spent, limit: 4.5 }));
      const found = [];
      try {
        // Runs outside the page's policy, like an extension of the browser.
        const page = await open(browser, mock.url, { viewport: { width, height: 860 }, colorScheme, bypassCSP: true });
        await live(page);
        await page.evaluate(AXE);
        for (const [at, [name, hash, act]] of VIEWS.entries()) {
          // Between a phone and a desktop only the layout differs, so views without an action are enough.
          if (width > 390 && width < 1440 && act) continue;
          await page.evaluate(([hash, at]) => (location.hash = hash || `#${"/".repeat(at % 2)}`), [hash, at]);
          await page.waitForTimeout(50);
          await page.waitForSelector("main[aria-busy=false] .view");
          await act?.(page);
          const { violations } = await page.evaluate(() => globalThis.axe.run({ resultTypes: ["violations"] }));
          found.push(...violations.map((it) => `${name}: ${it.id}: ${it.help}\n  ${it.nodes.slice(0, 3).map((node) => `${node.html}\n  ${node.failureSummary}`).join("\n  ")}`));
        }
        await page.context().close();
      } finally {
        mock.stop();
      }
      assert.deepEqual(found, []);
    });
  }
}
