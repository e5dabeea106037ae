// Draws docs/inspector.png, the README's picture: `node tests/browser/picture.mjs`.

import { fileURLToPath } from "node:url";
import { launch, live, open } from "./browser.mjs";
import { examples, Mock } from "./mock.mjs";

const mock = await new Mock().start();
mock.stories = examples();
// The story has sizes that agree with one another, and no prices: a picture shows no invented cost.
mock.bill = null;
const browser = await launch();
const page = await open(browser, `${mock.url}/#/c/${encodeURIComponent(mock.stories[0].conversation.key)}`, { viewport: { width: 1280, height: 720 }, deviceScaleFactor: 1.25 });
await live(page);
const chart = await page.locator(".chart svg").boundingBox();
await page.mouse.move(chart.x + chart.width * 0.34, chart.y + 120);
await page.waitForTimeout(200);
await page.screenshot({ path: fileURLToPath(new URL("../../docs/inspector.png", import.meta.url)) });
await browser.close();
mock.stop();
