// A picture of a part of a report, for the documents.
// usage: node picture.mjs REPORT.html SELECTOR OUT.png [light|dark] [CURVE…]
// Curves that are named are switched off, as a click in the legend does.
//   node tests/browser/picture.mjs report.html 'section#svhn figure[data-figure="All nets"]' all-nets.png

import path from "node:path";
import { pathToFileURL } from "node:url";
import { launch } from "./browser.mjs";

const [report, selector, output, colorScheme = "light", ...without] = process.argv.slice(2);
if (!output) {
  console.error("picture.mjs: expected REPORT.html SELECTOR OUT.png [light|dark] [CURVE…]");
  process.exit(2);
}
const browser = await launch();
try {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 900 },
    deviceScaleFactor: 1.5,
    colorScheme,
  });
  const page = await context.newPage();
  await page.goto(pathToFileURL(path.resolve(report)).href);
  await page.waitForSelector("html[data-drawn]");
  // The bar of switches stays on top of what is scrolled under it.
  await page.addStyleTag({ content: ".switches { position: static !important; }" });
  const part = page.locator(selector).first();
  for (const curve of without) await part.locator(".entry", { hasText: curve }).first().click();
  await part.screenshot({ path: output });
} finally {
  await browser.close();
}
