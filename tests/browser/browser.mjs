// Debian's Chromium, quiet: no window, no requests of its own.

import assert from "node:assert/strict";
import { chromium } from "playwright-core";

export const launch = () =>
  chromium.launch({
    executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
    args: [
      "--no-sandbox",
      "--headless",
      "--disable-gpu",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      "--no-first-run",
    ],
  });

/** What is cut off: a part of the page that is beside its window, or beside a box that does not scroll to it. */
const cutParts = () => {
  const cut = [];
  const name = (node) => `${node.tagName.toLowerCase()}${node.id && `#${node.id}`}.${[...node.classList].join(".")}`;
  for (const node of document.querySelectorAll("main *")) {
    const { left, right, top, bottom, width, height } = node.getBoundingClientRect();
    if (width === 0 || height === 0 || node.closest("[hidden]") || !node.checkVisibility()) continue;
    if (node.matches("input[type=file]")) continue;  // its label stands for it
    let box = node.parentElement;
    for (; box && box !== document.body; box = box.parentElement) {
      const { overflowX, overflowY } = getComputedStyle(box);
      if (overflowX === "visible" && overflowY === "visible") continue;
      const outer = box.getBoundingClientRect();
      const scrolls = (overflow) => ["auto", "scroll"].includes(overflow);
      if (!scrolls(overflowX) && (left < outer.left - 1 || right > outer.right + 1))
        cut.push(`${name(node)}: ${left.toFixed()} to ${right.toFixed()} in ${name(box)} ${outer.left.toFixed()} to ${outer.right.toFixed()}`);
      if (!scrolls(overflowY) && (top < outer.top - 1 || bottom > outer.bottom + 1))
        cut.push(`${name(node)}: ${height.toFixed()} high in ${name(box)} of ${outer.height.toFixed()}`);
      break; // what that box itself is cut by is found when it has its turn
    }
    if (box === document.body && (left < -1 || right > innerWidth + 1))
      cut.push(`${name(node)}: ${left.toFixed()} to ${right.toFixed()} in a window of ${innerWidth}`);
  }
  return cut;
};

/** Screenshots as phones and screens show a page, light and dark, in which nothing may be cut off. */
export async function takePictures(page, prefix, { settle = 300 } = {}) {
  for (const width of [390, 700, 1400])
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize({ width, height: 900 });
      await page.evaluate(() => scrollTo(0, 0));
      await page.waitForTimeout(settle);
      await page.screenshot({ path: `${prefix}-${width}-${colorScheme}.png`, fullPage: true });
      const cut = await page.evaluate(cutParts);
      assert.deepEqual(cut.slice(0, 12), [], `${prefix}, ${width} pixels wide: ${cut.length} parts are cut off`);
    }
}
