// A headless Firefox with a few of the verbs of browser.mjs.
import puppeteer from "puppeteer-core";
import { faults, obey, walk } from "./pages.mjs";

const browser = await puppeteer.launch({
  browser: "firefox",
  executablePath: process.env.FIREFOX ?? "/usr/bin/firefox-esr",
  headless: true,
});
const page = await browser.newPage();
page.setDefaultTimeout(120_000);

const complaints = [];
page.on("console", (message) => {
  if (["error", "warn"].includes(message.type())) complaints.push(message.text());
});
page.on("pageerror", (error) => complaints.push(String(error)));

const verbs = {
  open: async (address) => void (await page.goto(address)),
  address: () => page.url(),
  text: (selector) => page.$eval(selector, (element) => element.innerText),
  click: async (selector) => void (await page.locator(selector).click()),
  fill: async (selector, text) => void (await page.locator(selector).fill(text)),
  press: async (key) => void (await page.keyboard.press(key)),
  shows: async (selector, part) => {
    const has = (selector, part) => document.querySelector(selector)?.innerText.includes(part);
    await page.waitForFunction(has, {}, selector, part);
  },
  evaluate: (expression) => page.evaluate(expression),
  screen: async (width, height) => void (await page.setViewport({ width, height })),
  back: async () => void (await page.goBack()),
  faults: (within) => faults(page, within),
  walk: () => walk(page),
  complaints: () => complaints,
};

await obey(verbs);
await browser.close();
