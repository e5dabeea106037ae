// Draws docs/inspector.png, a conversation, and docs/diff.png, one request before and after the cut:
// `node tests/browser/picture.mjs`.

import { fileURLToPath } from "node:url";
import { launch, live, open } from "./browser.mjs";
import { examples, Mock } from "./mock.mjs";

const file = (name) => fileURLToPath(new URL(`../../docs/${name}`, import.meta.url));
const mock = await new Mock().start();
mock.stories = examples();
// The story has sizes that agree with one another, and no prices: a picture shows no invented cost.
mock.bill = null;
const [story] = mock.stories;
const browser = await launch();
const shown = async (path, height) => {
  const page = await open(browser, `${mock.url}/#/${path}`, { viewport: { width: 1280, height }, deviceScaleFactor: 1.25 });
  await live(page);
  return page;
};

const talk = await shown(`c/${encodeURIComponent(story.conversation.key)}`, 720);
const chart = await talk.locator(".chart svg").boundingBox();
await talk.mouse.move(chart.x + chart.width * 0.34, chart.y + 120);
await talk.waitForTimeout(200);
await talk.screenshot({ path: file("inspector.png") });

// A request a few messages after a handoff, from the headings of both sides to the first messages after the cut.
const cut = story.rows.filter((row) => row.pinned && row.fired.length === 0);
const diff = await shown(`e/${cut[3].id}`, 1400);
const top = await diff.getByText("Received from the agent").boundingBox();
const bottom = await diff.getByText("running 37 tests").first().boundingBox();
const main = await diff.locator("main").boundingBox();
await diff.screenshot({ path: file("diff.png"), clip: { x: main.x, y: top.y - 14, width: main.width, height: bottom.y - top.y } });
await browser.close();
mock.stop();
