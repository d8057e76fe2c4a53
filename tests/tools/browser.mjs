// A headless Chromium that does what it is told: one JSON array a line on stdin, one JSON answer a line on stdout.
// tests/external/tools/browser.rs is the other end, and knows what each verb gives.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { faults, obey, walk } from "./pages.mjs";

const profile = mkdtempSync(join(tmpdir(), "countersign-browser-"));
const context = await chromium.launchPersistentContext(profile, {
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  headless: true,
  args: [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", ...process.argv.slice(2),
  ],
});
await context.grantPermissions(["clipboard-read", "clipboard-write"]);
context.setDefaultTimeout(120_000);
let page = context.pages()[0];

// Everything the page sends for or complains of, in order. What its policy refuses is announced and never sent.
let requests = [];
const complaints = [];
context.on("request", (request) => requests.push(request));
context.on("requestfailed", (request) => {
  if (request.failure()?.errorText === "csp") requests = requests.filter((other) => other !== request);
});
page.on("console", (message) => {
  if (["error", "warning"].includes(message.type())) complaints.push(message.text());
});
page.on("pageerror", (error) => complaints.push(String(error)));
page.on("dialog", (dialog) => {
  complaints.push(`dialog: ${dialog.message()}`);
  dialog.dismiss();
});

const seen = (isSeen) => {
  Object.defineProperty(document, "hidden", { value: !isSeen, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
};

const verbs = {
  open: async (address) => void (await page.goto(address)),
  // Another tab, in front of the others, or one that is open already. To the driver all tabs are in front, so they are told.
  tab: async (address) => {
    await page.evaluate(seen, false);
    page = context.pages().find((tab) => tab.url() === address) ?? (await context.newPage());
    if (page.url() === address) await page.evaluate(seen, true);
    else await page.goto(address);
  },
  address: () => page.url(),
  text: (selector) => page.locator(selector).first().innerText(),
  click: async (selector) => void (await page.locator(selector).first().click()),
  // Clicks on what saves a file, and keeps it at `path`.
  saves: async (selector, path) => {
    const [saved] = await Promise.all([page.waitForEvent("download"), page.locator(selector).first().click()]);
    await saved.saveAs(path);
  },
  fill: async (selector, text) => void (await page.locator(selector).first().fill(text)),
  press: async (key) => void (await page.keyboard.press(key)),
  // Waits until the text of an element has `part` in it.
  shows: async (selector, part) =>
    void (await page.locator(selector).filter({ hasText: part }).first().waitFor({ state: "visible" })),
  evaluate: (expression) => page.evaluate(expression),
  // The same, looked at in every frame that is drawn.
  drawn: async (selector, part) => {
    const has = ([selector, part]) => document.querySelector(selector)?.innerText.includes(part);
    await page.waitForFunction(has, [selector, part], { polling: "raf" });
  },
  screen: async (width, height, scheme) => {
    await page.setViewportSize({ width, height });
    await page.emulateMedia({ colorScheme: scheme, reducedMotion: "reduce" });
  },
  print: async () => void (await page.emulateMedia({ media: "print" })),
  back: async () => void (await page.goBack()),
  // What axe finds, a line each: on the page, or within an element.
  faults: (within) => faults(page, within),
  // What is reached by the key Tab, and what could be used and is not reached.
  walk: () => walk(page),
  picture: async (path, whole) => void (await page.screenshot({ path, fullPage: whole })),
  requests: () => requests.map((request) => request.url()),
  complaints: () => complaints,
};

await obey(verbs);
await context.close();
rmSync(profile, { recursive: true, force: true });
