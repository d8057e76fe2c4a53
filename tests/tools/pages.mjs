// What drives a browser for a test: the loop of verbs, and what is asked of a page in any browser.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

// Every fault that axe knows, best practices too, on the page or within one element. The policy of the page would refuse a script of
// ours, the debugger does not ask it.
export async function faults(page, within) {
  await page.evaluate(axe);
  return page.evaluate(async (within) => {
    const { violations } = await window.axe.run(within ?? document, { resultTypes: ["violations"] });
    return violations.flatMap((fault) =>
      fault.nodes.map((node) => `${fault.id}: ${node.html.slice(0, 200)}: ${node.failureSummary.replace(/\s+/g, " ")}`),
    );
  }, within);
}

// Presses Tab until the page begins again. Each place must show that it has the focus.
export async function walk(page) {
  await page.evaluate(() => {
    document.activeElement?.blur();
    const can = "a[href], button, input:not([type=hidden]), select, textarea, summary";
    window.unreached = new Set([...document.querySelectorAll(can)].filter((element) => element.checkVisibility()));
    window.plain = [];
    document.addEventListener("focusin", ({ target }) => {
      window.unreached.delete(target);
      // Arrow keys reach the other buttons of a group.
      if (target.type === "radio") document.getElementsByName(target.name).forEach((other) => window.unreached.delete(other));
      const { outlineStyle, outlineWidth } = getComputedStyle(target);
      if (outlineStyle === "none" || outlineWidth === "0px") window.plain.push(target.outerHTML.slice(0, 200));
    });
  });
  const most = (await page.evaluate(() => window.unreached.size)) + 40;
  for (let pressed = 0; pressed < most; pressed++) {
    await page.keyboard.press("Tab");
    if ((await page.evaluate(() => window.unreached.size)) === 0) break;
  }
  return page.evaluate(() => ({
    unreached: [...window.unreached].map((element) => element.outerHTML.slice(0, 200)),
    plain: window.plain,
  }));
}

// Does what stdin says: one JSON array a line, a verb and what it is given; one JSON answer a line on stdout.
export async function obey(verbs) {
  for await (const line of createInterface({ input: process.stdin })) {
    const [verb, ...given] = JSON.parse(line);
    let answer;
    try {
      answer = { is: (await verbs[verb](...given)) ?? null };
    } catch (error) {
      answer = { error: String(error) };
    }
    process.stdout.write(JSON.stringify(answer) + "\n");
  }
}
