// The report in a real browser: opened from disk, looked at and used.
// usage: node test_report.mjs PROGRAM OUTPUT_FOLDER
//
// Screenshots stay in OUTPUT_FOLDER: of 390, 700 and 1400 pixels, light and dark, and print.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { launch, takePictures } from "./browser.mjs";

const [program, output] = process.argv.slice(2);
const source = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
const blocksOf = (name) =>
  JSON.parse(fs.readFileSync(path.join(folder, `runs/${name}-BN-seed1/config.json`), "utf8")).blocks;
const experimentOf = (name) =>
  JSON.parse(fs.readFileSync(path.join(source, "experiments", `${name}.json`), "utf8"));

// Of the runs in docs/results: those beside which other programs ran, and LDL_corr(1e-5), which has no pictures here.
const steady = (name) => {
  const lines = fs.readFileSync(path.join(folder, "runs", name, "metrics.jsonl"), "utf8").trim().split("\n");
  const seconds = lines.map((line) => JSON.parse(line).time.train_seconds);
  return Math.max(...seconds) <= 1.5 * Math.min(...seconds);
};

/** The results of docs/results, with pictures of made-up nets; PCA diverges in its third epoch. */
function makeFolder() {
  fs.cpSync(path.join(source, "docs/results/0.2"), folder, { recursive: true });
  const noise = (count) => Buffer.from(Array.from({ length: count }, (_, i) => (i * 37) % 256)).toString("base64");
  for (const runs of [path.join(folder, "runs"), path.join(folder, "small/runs")])
    for (const name of fs.readdirSync(runs).filter((run) => run.endsWith("seed1") && !run.includes("LDL_corr"))) {
      const { blocks, data } = JSON.parse(fs.readFileSync(path.join(runs, name, "config.json"), "utf8"));
      const [side, channels] = data === "mnist" ? [28, 1] : [32, 3];
      const layers = blocks.map(({ layer, channels: n }) => {
        const triangle = noise((n * (n + 1)) / 2);
        return { spec: layer, channels: n, before: triangle, after: triangle };
      });
      const filters = { count: blocks[0].channels, height: 3, width: 3, channels };
      filters.data = noise(9 * filters.count * channels);
      const samples = { columns: 5, height: side, width: side, channels, data: noise(50 * side * side * channels) };
      const pictures = { epoch: 20, images: 500, layers, filters, samples };
      fs.writeFileSync(path.join(runs, name, "pictures.json"), JSON.stringify(pictures));
    }
  const metrics = path.join(folder, "runs/svhn-PCA_1e-5_1e12-seed1/metrics.jsonl");
  const lines = fs.readFileSync(metrics, "utf8").split("\n").slice(0, 3);
  lines[2] = JSON.stringify({ ...JSON.parse(lines[2]), diverged: "loss nan" });
  fs.writeFileSync(metrics, `${lines.join("\n")}\n`);
}

fs.rmSync(output, { recursive: true, force: true });
const folder = path.join(output, "results"),
  page_file = path.join(output, "report.html");
makeFolder();
const folders = [folder, path.join(folder, "small")];
execFileSync(program, ["report", ...folders, "-o", page_file]);
const own_file = path.join(output, "own.html");
execFileSync(program, ["report", path.join(folder, "runs/svhn-BN-seed1"), "-o", own_file]);
const size = fs.statSync(page_file).size;
console.log(`page: ${(size / 1e6).toFixed(2)} MB with all experiments`);
assert(size < 3e6, `page: expected under 3 MB, found ${size} bytes`);

// Labels of a log axis: from 8 to 16 at even distances, over decades at their digits.
const { logTicks, namedLogTicks } = new Function(
  `${fs.readFileSync(path.join(source, "src/report/page/axes.js"), "utf8")}; return { logTicks, namedLogTicks };`,
)();
const labels = (low, high) => {
  const ticks = logTicks(null, 1, low, high);
  return namedLogTicks(null, ticks).filter((tick) => tick !== null).map((tick) => Number(tick.toPrecision(6)));
};
assert.deepEqual(labels(8, 16), [8, 10, 12, 14, 16]);
assert.deepEqual(labels(8 / 1.12, 16 * 1.12), [8, 10, 12, 14, 16]);
assert.deepEqual(labels(0.35, 1.3), [0.4, 0.6, 0.8, 1, 1.2]);
assert.deepEqual(labels(7.3, 91), [10, 20, 50]);
assert.deepEqual(labels(5.2, 18), [7.5, 10, 12.5, 15, 17.5]);
for (const ratio of [1.01, 1.3, 2, 3, 3.5, 4.9, 5.1, 9, 30, 1000])
  for (const low of [0.0113, 0.37, 1, 8.2, 93]) {
    const count = labels(low, low * ratio).length;
    assert(count >= 3 && count <= 10, `a log axis from ${low} to ${low * ratio}: ${labels(low, low * ratio)}`);
  }

const browser = await launch();
const complaints = [];

async function open(options, file = page_file) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("request", (request) => {
    if (!request.url().startsWith("file:")) complaints.push(`asks for ${request.url()}`);
  });
  await page.goto(pathToFileURL(file).href);
  await page.waitForSelector("html[data-drawn]", { state: "attached" });
  return page;
}

const picture = (figure) =>
  figure
    .locator(".plot canvas")
    .first()
    .evaluate((canvas) => canvas.toDataURL());

/** A legend entry hides its curve and shows it again: the curve is there. */
async function checkLegend(page, figure, name) {
  const entry = figure.locator(".entry").first();
  const click = async () => {
    await entry.click();
    await page.mouse.move(0, 0);
    await page.waitForTimeout(100);
  };
  const before = await picture(figure);
  await click();
  assert.equal(await entry.getAttribute("aria-pressed"), "false");
  assert.notEqual(await picture(figure), before, `${name}: the legend hides nothing`);
  await click();
  assert.equal(await picture(figure), before, `${name}: the legend does not bring the curve back`);
}

/** Rows in the order of a column of the SVHN table, its layers and their times. */
async function sortedBy(page, column) {
  const head = page.locator('table[data-table="svhn"] thead button');
  const at = (await head.allInnerTexts()).findIndex((text) => text.replace(/\s+/g, " ") === column);
  assert(at > 0, `no column ${column}`);
  await head.nth(at).click();
  return page.locator('table[data-table="svhn"] tbody tr').evaluateAll((rows) =>
    rows.map((tr) => {
      return { name: tr.querySelector("code").textContent, time: Number([...tr.cells].at(-1).textContent) };
    }),
  );
}

try {
  const page = await open({ viewport: { width: 1280, height: 900 }, colorScheme: "light" });
  // The best of three: other work on the machine is not the page's.
  const opening = (shown) =>
    shown.evaluate(() => performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd);
  const openings = [await opening(page)];
  for (let i = 0; i < 2; i++) {
    const again = await open({ viewport: { width: 1280, height: 900 } });
    openings.push(await opening(again));
    await again.close();
  }
  console.log(`opened in ${openings.map(Math.round).join(", ")} ms`);
  assert(Math.min(...openings) < 1000, `expected to open in under a second, took ${openings} ms`);

  const claimsOf = (name) => JSON.parse(fs.readFileSync(path.join(folder, `${name}.experiment.json`), "utf8")).claims;
  const pairsOf = (name) => claimsOf(name).flatMap((claim) => claim.pairs).length;
  const texts = ["mnist", "svhn", "small/renyi"].flatMap(claimsOf).map(({ claim }) => claim);
  // Tables: every row, the paper's numbers, a diverged row without one.
  for (const [name, rows] of [
    ["mnist", 5],
    ["svhn", 20],
    ["gradients", 22],
    ["verdict", 10],
    ["mnist-claims", pairsOf("mnist")],
    ["svhn-claims", pairsOf("svhn")],
    ["claims", new Set(texts).size],
  ])
    assert.equal(await page.locator(`table[data-table="${name}"] tbody tr`).count(), rows, `rows of ${name}`);
  const zcae = page.locator('table[data-table="mnist"] tbody tr', { hasText: "ZCAE" });
  assert.match(await zcae.innerText(), /0\.30\s+25/);
  // What was found here stands before the paper's columns.
  const groups = await page.locator('table[data-table="mnist"] thead .group').allInnerTexts();
  assert.deepEqual(groups.map((text) => text.toLowerCase()), ["here", "paper", "time"]);
  // A headline says how sure it is; one seed has no noise.
  const overview = page.locator('header table[data-table="overview"]');
  const headlines = await overview.locator("td.main").allInnerTexts();
  assert(headlines.length >= 3);
  for (const text of headlines) assert.match(text, /^[\d.]+( ± [\d.]+|, one seed)$/);
  // The first screen: what was run, what came out, whether the paper's claims hold; three sentences and one table.
  const sentences = await page.locator("header .lead").allInnerTexts();
  assert.equal(sentences.length, 3);
  assert.match(sentences[0], /^\d+ nets trained in \d+ runs on mnist, svhn/);
  assert.match(sentences[1], /^Least test error, %: MNIST [\d.]+/);
  assert.match(sentences[2], /^Of \d+ claims of the paper, \d+ holds? here, \d+ do(es)? not, \d+ cannot be decided/);
  const { bottom } = await overview.evaluate((table) => table.getBoundingClientRect());
  assert(bottom <= 900, `the overview ends at ${bottom} of 900 pixels`);
  assert.equal(await page.locator("details").count(), 0, "something is folded away");
  const pca = page.locator('table[data-table="svhn"] tbody tr', { hasText: "PCA" });
  assert.match(await pca.innerText(), /diverged in epoch 3/);
  assert.equal(await pca.locator("td.main").count(), 0, "a diverged row has a number");
  assert.match(await page.locator(".answer").innerText(), /^(Yes, for some|No:|Not measurably:)/);

  // The claims: what each comes to, with numbers behind it; PCA, which diverged, has none.
  const claims = page.locator("section#svhn .claims-box");
  assert.match(await claims.locator("h3").innerText(), /claims: \d+ yes, \d+ no, \d+ undecided/);
  const stays = claims.locator("tr.claim", { hasText: "PCA stays far behind" });
  assert.match(await stays.innerText(), /yes[\s\S]*BN\s+[\d.]+ ± [\d.]+\s+PCA\(1e-5,1e12\)\s+–/);

  // Every figure of the experiments, and what the paper could not show, drawn.
  for (const name of ["mnist", "svhn", "gradients"]) {
    const section = page.locator(`section#${name}`);
    for (const { title } of experimentOf(name).figures) {
      const figure = section.locator(`figure[data-figure="${title}"]`);
      assert.equal(await figure.count(), 1, `${name}: figure ${title}`);
      await checkLegend(page, figure, `${name}: ${title}`);
    }
    await checkLegend(
      page,
      section.locator('figure[data-figure="Training loss inside the epochs"]'),
      `${name}: inside the epochs`,
    );
    if (name !== "gradients")
      assert.equal(await section.locator('figure[data-figure="Batch and learning rate"] .plot canvas').count(), 2);
    assert.equal(
      await section.locator('figure[data-figure="What each layer was given"] .plot canvas').count(),
      3,
    );
  }
  for (const name of ["mnist", "svhn"]) {
    const inside = page.locator(`figure[data-figure="inside ${name}"]`);
    assert.equal(await inside.locator(".heat canvas").count(), 12, `${name}: heat maps of two nets`);
    assert.equal(await inside.locator(".filters canvas").count(), 2 * blocksOf(name)[0].channels);
    assert.equal(await page.locator(`figure[data-figure="samples ${name}"] canvas`).count(), 1);
  }

  // LDL_corr(1e-5) alone has no pictures, and the page says so; where all have them it says nothing.
  assert.match(
    await page.locator('figure[data-figure="inside svhn"] .missing').innerText(),
    /^No heat maps and filters of LDL_corr\(1e-5\): no pictures\.json/,
  );
  assert.equal(await page.locator('figure[data-figure="inside mnist"] .missing').count(), 0);

  const all = page.locator('section#svhn figure[data-figure="All nets"]');
  // The paper's errors are in the figures, with SVHN's too, for which it names no epoch.
  const named = (await all.locator(".entry .paper").allInnerTexts()).map((text) => text.trim());
  assert.equal(named.length, experimentOf("svhn").rows.filter((row) => row.paper?.error_percent).length);
  assert(named.includes("paper 5.82"), `the paper's errors: ${named}`);
  // PCA would squash the others: it waits for a click in the legend.
  const pca_entry = all.locator(".entry", { hasText: "PCA" });
  assert.equal(await pca_entry.getAttribute("aria-pressed"), "false");
  assert.equal(await all.locator('.entry[aria-pressed="false"]').count(), 1);
  assert.match(await all.locator("figcaption").innerText(), /far above the others.*PCA/);
  const squashed = await picture(all);
  await pca_entry.click();
  assert.notEqual(await picture(all), squashed, "PCA cannot be asked for");
  await pca_entry.click();

  // Switches redraw the section's figures: log, loss, training, time, effective rank.
  let last = await picture(all);
  for (const [group, value] of [
    ["scale", "linear"],
    ["scale", "log"],
    ["measure", "loss"],
    ["set", "train"],
    ["against", "time"],
  ]) {
    await page.locator(`section#svhn [data-choice="${group}"] button[data-value="${value}"]`).click();
    await page.waitForTimeout(100);
    const now = await picture(all);
    assert.notEqual(now, last, `the switch ${group} changes nothing`);
    last = now;
  }
  // Against time: without the rows beside which other programs ran, and the page says so.
  const said = await all.locator("figcaption").innerText();
  for (const [name, run] of [
    ["ZCA(0,inf)", "svhn-ZCA_0_inf-seed1"],
    ["BN->W", "svhn-BN-W-seed1"],
    ["ZCAM(1e-5,1e12,1/10)", "svhn-ZCAM_1e-5_1e12_1_10-seed1"],
  ])
    assert.equal(said.split(": the longest")[0].split(/without |, /).includes(name), !steady(run), `${name} in: ${said}`);
  assert.match(said, /the longest epoch took more than 1\.5 times the shortest/);
  const given = page.locator('section#svhn figure[data-figure="What each layer was given"]');
  for (const quantity of ["rank", "exchanges"]) {
    last = await picture(given);
    await page.locator(`section#svhn [data-choice="layers"] button[data-value="${quantity}"]`).click();
    await page.waitForTimeout(100);
    assert.notEqual(await picture(given), last, `the switch layers to ${quantity} changes nothing`);
  }

  // Values under the cursor; sorting; another net's heat maps.
  const plot = page.locator('section#mnist figure[data-figure="All nets"] .u-over');
  await plot.scrollIntoViewIfNeeded();
  await plot.hover({ position: { x: 200, y: 120 } });
  assert.match(
    await page.locator('section#mnist figure[data-figure="All nets"] .value').first().innerText(),
    /^\d/,
  );
  await page.locator('table[data-table="svhn"] thead button', { hasText: "best error" }).click();
  const errors = await page.locator('table[data-table="svhn"] tbody td.main').allInnerTexts();
  assert.deepEqual(
    errors.map(parseFloat),
    errors.map(parseFloat).sort((a, b) => a - b),
  );
  // The diverged row has no number of its own: last by error and place, in its place by time.
  for (const column of ["to paper", "place"]) {
    const order = await sortedBy(page, column);
    assert.match(order.at(-1).name, /^PCA/, `sorted by ${column}`);
  }
  const times = (await sortedBy(page, "× BN")).map((row) => row.time);
  const timed = times.filter((time) => time > 0);
  const quiet = fs.readdirSync(path.join(folder, "runs")).filter((name) => name.startsWith("svhn") && steady(name));
  const rows_in_time = new Set(quiet.map((name) => name.replace(/-seed\d$/, ""))).size;
  assert.equal(timed.length, rows_in_time, "rows with times of their own");
  assert.deepEqual(
    times.slice(0, timed.length),
    [...timed].sort((x, y) => x - y),
    "sorted by time",
  );
  await page.locator('figure[data-figure="inside svhn"] select').first().selectOption({ label: "LDL(0)" });

  await page.evaluate(() => scrollTo(0, 0));
  for (const [name, file] of [
    ["report", page_file],
    ["own", own_file],
  ]) {
    const shown = await open({ viewport: { width: 1400, height: 900 } }, file);
    const scrolled = await shown
      .locator(".table-scroll")
      .evaluateAll((boxes) =>
        boxes
          .filter((box) => box.scrollWidth > box.clientWidth + 1)
          .map((box) => `${box.firstChild.dataset.table}: ${box.scrollWidth} in ${box.clientWidth}`),
      );
    assert.deepEqual(scrolled, [], `${name}: tables that 1400 pixels have no room for`);
    // No card is alone in a line and does not fill it.
    const alone = await shown.locator(".grid > .card").evaluateAll((cards) => {
      const line = (card) => `${card.parentElement.offsetTop} ${card.offsetTop}`;
      const lines = cards.map(line);
      return cards
        .filter((card) => lines.filter((other) => other === line(card)).length === 1)
        .filter((card) => card.offsetWidth < card.parentElement.clientWidth - 2)
        .map((card) => card.dataset.figure ?? card.innerText);
    });
    assert.deepEqual(alone, [], `${name}: cards that leave their line empty`);
    await takePictures(shown, path.join(output, name));
    await shown.close();
  }
  const own = await open({ viewport: { width: 700, height: 900 } }, own_file);
  assert.equal(await own.locator("h1").innerText(), "Training runs");
  assert.equal(await own.title(), "Training runs");
  assert.doesNotMatch(await own.locator("body").innerText(), /paper|Blanchette/i);
  // A phone turned: figures get the new width.
  const phone = await open({ viewport: { width: 390, height: 800 }, isMobile: true, hasTouch: true });
  const widths = await phone.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  assert(widths[0] <= widths[1], `phone: the page is ${widths[0]} pixels wide in a window of ${widths[1]}`);
  await page.pdf({ path: path.join(output, "print.pdf"), format: "A4" });
  assert.deepEqual(complaints, [], "the console has complaints");
  console.log("report: all as expected");
} finally {
  await browser.close();
}
