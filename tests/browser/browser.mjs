// Debian's chromium without a window, with requests only to the page.

import { existsSync, mkdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const SHOTS = fileURLToPath(new URL("../../target/screenshots/", import.meta.url));
const PLACES = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"];

export async function launch() {
  const executablePath = process.env.BATON_CHROMIUM ?? PLACES.find((place) => existsSync(place));
  mkdirSync(SHOTS, { recursive: true });
  return chromium.launch({ executablePath, args: FLAGS });
}

/** Opens a page that fails its test if a script throws, or if the policy blocks something. */
export async function open(browser, url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, ...options });
  const page = await context.newPage();
  page.faults = [];
  page.on("pageerror", (error) => page.faults.push(`thrown: ${error.message}`));
  page.on("console", (message) => /Content.Security.Policy|Refused/i.test(message.text()) && page.faults.push(message.text()));
  page.on("dialog", (dialog) => (page.faults.push(`dialog: ${dialog.message()}`), dialog.dismiss()));
  await page.goto(url);
  await ready(page);
  return page;
}

/** Waits until the view is shown. */
export function ready(page) {
  return page.waitForSelector("main[aria-busy=false] .view");
}

/** Waits until the page receives events. */
export function live(page) {
  return page.waitForSelector("#live.live");
}

export function shot(page, name) {
  return page.screenshot({ path: `${SHOTS}${name}.png` });
}
