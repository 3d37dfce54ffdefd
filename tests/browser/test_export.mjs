// Exported nets in engines that are not ours: ONNX Runtime over all test images, and the page in a browser.
// usage: node test_export.mjs PROGRAM MAKE_IMAGES OUTPUT_FOLDER [RUN…]
//
// Without RUN it trains a net on MNIST for a few seconds. Another is trained on pictures of six ratios, which the page
// must answer as eval does. Screenshots of the page stay in OUTPUT_FOLDER.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";
import zlib from "node:zlib";
import ort from "onnxruntime-node";
import { launch, takePictures } from "./browser.mjs";

const [program, makeImages, output, ...given] = process.argv.slice(2);
fs.mkdirSync(output, { recursive: true });
const run = (...args) => execFileSync(program, args, { encoding: "utf8" });

const cache = process.env.ORTHOBATCH_DATA || path.join(process.env.XDG_CACHE_HOME || path.join(os.homedir(), ".cache"), "orthobatch");

/** The bytes of a file of MNIST behind its header, raw or gzip. */
function idx(name, header) {
  const folder = fs.existsSync(path.join(cache, "mnist")) ? path.join(cache, "mnist") : cache;
  const file = path.join(folder, name);
  const bytes = fs.existsSync(file) ? fs.readFileSync(file) : zlib.gunzipSync(fs.readFileSync(`${file}.gz`));
  return bytes.subarray(header);
}

function trainedRun() {
  try {
    run("data", "verify", "mnist");
  } catch {
    run("data", "get", "mnist");
  }
  const folder = path.join(output, "run");
  fs.rmSync(folder, { recursive: true, force: true });
  const settings = ["--layer", "ZCA(1e-5)", "--subset", "6000", "--batch", "64", "--epochs", "1", "--threads", "1"];
  run("train", "--data", "mnist", ...settings, "--out", folder, "--quiet");
  return folder;
}

/** Logits of all images from ONNX Runtime, some hundred at a time and one alone. */
async function logitsOf(file, images, size, options = {}) {
  const session = await ort.InferenceSession.create(file, { intraOpNumThreads: 1, ...options });
  assert.deepEqual(session.inputNames, ["images"]);
  assert.deepEqual(session.outputNames, ["logits"]);
  const out = [];
  const count = images.length / size,
    side = Math.sqrt(size);
  for (let start = 0; start < count; ) {
    const n = start === 0 ? 1 : Math.min(500, count - start); // any number of images
    const part = images.subarray(start * size, (start + n) * size);
    const { logits } = await session.run({ images: new ort.Tensor("uint8", part, [n, 1, side, side]) });
    assert.deepEqual(logits.dims, [n, 10]);
    for (let i = 0; i < n; ++i) out.push(Array.from(logits.data.subarray(10 * i, 10 * i + 10)));
    start += n;
  }
  return out;
}

const answer = (logits) => logits.indexOf(Math.max(...logits));
const wrong = (all, labels) => all.filter((logits, i) => answer(logits) !== labels[i]).length;

/** The error rate that `eval` tells. */
function ownErrors(folder) {
  const [, count] = run("eval", folder, "--threads", "1", "--picture", path.join(output, "confusion.png")).match(
    /test error [\d.]+ % \((\d+) of 10000\)/,
  );
  return Number(count);
}

const farthest = (a, b) => Math.max(...a.map((row, i) => Math.max(...row.map((v, k) => Math.abs(v - b[i][k])))));

async function openPage(browser, file, complaints) {
  const page = await browser.newPage({ viewport: { width: 1000, height: 900 }, hasTouch: true });
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && complaints.push(message.text()));
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("request", (request) => request.url().startsWith("file:") || complaints.push(`asks for ${request.url()}`));
  await page.goto(pathToFileURL(path.resolve(file)).href);
  await page.waitForSelector("html[data-ready]", { state: "attached" });
  return page;
}

/** Before anything is drawn, and after Clear. */
async function checkEmpty(page, when) {
  const bars = await page.locator("#bars i").evaluateAll((all) => all.map((bar) => bar.offsetWidth));
  assert.equal(Math.max(...bars), 0, `page ${when}: expected no bars, found ${bars}`);
  assert.equal(await page.locator("#bars").innerText().then((text) => /%/.test(text)), false, `page ${when}: a share`);
  assert.equal(await page.locator("#seen").isVisible(), false, `page ${when}: a preview`);
  assert.equal(await page.locator("#time").innerText(), "", `page ${when}: a time`);
  assert.equal(await page.locator("#answer").innerText(), "–", `page ${when}: an answer`);
}

async function checkPage(browser, file, images, labels, expected) {
  const complaints = [];
  const page = await openPage(browser, file, complaints);
  await checkEmpty(page, "at first");

  // Real test images through the page's own net.
  const count = 300;
  const found = await page.evaluate(
    (text) => {
      const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
      return Array.from({ length: bytes.length / 784 }, (_, i) => window.orthobatch.logits(bytes.subarray(784 * i, 784 * i + 784)));
    },
    Buffer.from(images.subarray(0, 784 * count)).toString("base64"),
  );
  const distance = farthest(found, expected.slice(0, count));
  console.log(`page: logits within ${distance.toExponential(1)} of ONNX Runtime's over ${count} test images`);
  assert(distance < 1e-4, `page: expected the model's logits, found ${distance} off`);

  // A test image by a click: what is shown is the net's answer and its colour whether that is right.
  const samples = page.locator("#strip button");
  assert.equal(await samples.count(), 40);
  let right = 0;
  for (let k = 0; k < 40; k += 4) {
    await samples.nth(k).click();
    right += (await page.locator("#answer").getAttribute("data-right")) === "yes" ? 1 : 0;
    const shown = await page.locator("#answer").innerText();
    const widths = await page.locator("#bars i").evaluateAll((bars) => bars.map((bar) => bar.offsetWidth));
    assert.equal(shown, String(widths.indexOf(Math.max(...widths))), "page: the longest bar is not the answer's");
    assert(Math.min(...widths) < Math.max(...widths) / 2, `page: expected bars of probabilities, found ${widths}`);
  }
  assert(right >= 8, `page: expected 8 of 10 samples to be right, found ${right}`);

  // Digits drawn with the pointer.
  const box = await page.locator("#drawing").boundingBox();
  const draw = async (strokes) => {
    await page.locator("#clear").click();
    await checkEmpty(page, "after Clear");
    for (const [first, ...rest] of strokes) {
      const at = ([x, y]) => [box.x + x * box.width, box.y + y * box.height];
      await page.mouse.move(...at(first));
      await page.mouse.down();
      for (const point of rest) await page.mouse.move(...at(point), { steps: 6 });
      await page.mouse.up();
    }
    await page.waitForFunction(() => document.getElementById("answer").textContent !== "–");
    await page.waitForTimeout(100);
    return page.locator("#answer").innerText();
  };
  const circle = Array.from({ length: 25 }, (_, k) => [0.5 - 0.17 * Math.sin(k / 4), 0.5 - 0.3 * Math.cos(k / 4)]);
  assert.equal(await draw([circle]), "0");
  // Small and in a corner is as good: the page centres and scales as MNIST did.
  assert.equal(await draw([circle.map(([x, y]) => [x / 3 + 0.02, y / 3 + 0.02])]), "0");
  assert.equal(await draw([[[0.5, 0.2], [0.48, 0.8]]]), "1");
  assert.equal(await draw([[[0.3, 0.22], [0.7, 0.22], [0.45, 0.8]]]), "7");
  await page.screenshot({ path: path.join(output, "page.png") });

  // A picture from a file: the test image it is surest of as PNG, dark on light, enlarged; and something that is none.
  const margin = (logits) => {
    const [first, second] = [...logits].sort((a, b) => b - a);
    return first - second;
  };
  const k = expected.reduce((best, logits, i) => (margin(logits) > margin(expected[best]) ? i : best), 0);
  const sure = String(answer(expected[k]));
  assert.equal(sure, String(labels[k]));
  const png = await page.evaluate((pixels) => {
    const small = Object.assign(document.createElement("canvas"), { width: 28, height: 28 });
    const data = new ImageData(28, 28);
    pixels.forEach((v, p) => data.data.set([255 - v, 255 - v, 255 - v, 255], 4 * p));
    small.getContext("2d").putImageData(data, 0, 0);
    const large = Object.assign(document.createElement("canvas"), { width: 280, height: 280 });
    large.getContext("2d").drawImage(small, 0, 0, 280, 280);
    return large.toDataURL("image/png").split(",")[1];
  }, Array.from(images.subarray(784 * k, 784 * (k + 1))));
  await page.setInputFiles("#file", { name: "digit.png", mimeType: "image/png", buffer: Buffer.from(png, "base64") });
  await page.waitForFunction((digit) => document.getElementById("answer").textContent === digit, sure);
  await page.setInputFiles("#file", { name: "text.png", mimeType: "image/png", buffer: Buffer.from("text") });
  await page.waitForFunction(() => document.getElementById("time").textContent.includes("text.png: expected a picture"));

  await takePictures(page, path.join(output, "page"));
  assert.deepEqual(complaints, []);
}

const names = ["tiger", "great white shark", "a rhododendron", "7", "hippopotamus amphibius"];
const forms = [[48, 48], [96, 48], [40, 80], [150, 50], [36, 144], [640, 480]];

/** Pictures of six ratios, PNG and JPEG: of each class and ratio 20 to train on and 10 to test. */
function makePictures(folder) {
  fs.rmSync(folder, { recursive: true, force: true });
  for (const name of names)
    for (const part of ["train", "test"]) fs.mkdirSync(path.join(folder, part, name), { recursive: true });
  for (const [width, height] of forms) {
    const made = path.join(folder, "made");
    execFileSync(makeImages, [made, names.length, 30, width, height, "colour", "mixed"].map(String));
    names.forEach((name, k) => {
      for (let i = 0; i < 30; ++i)
        fs.renameSync(
          path.join(made, `${k}/${i}.png`),
          path.join(folder, i < 20 ? "train" : "test", name, `${width}x${height}-${i}.png`),
        );
    });
    fs.rmSync(made, { recursive: true });
  }
}

/** The page reads every picture as training does: no picture that eval answers otherwise. */
async function checkOwnPictures(browser) {
  const folder = path.join(output, "pictures"),
    trained = path.join(output, "own-run"),
    file = path.join(output, "own.html"),
    sorted = path.join(output, "sorted");
  makePictures(folder);
  fs.rmSync(trained, { recursive: true, force: true });
  const settings = ["--image-size", "24x24", "--batch", "32", "--epochs", "1", "--set", "schedule.max_batch=32"];
  run("train", "--data", folder, "--layer", "ZCA(1e-5)", ...settings, "--threads", "1", "--out", trained, "--quiet");
  run("export", trained, "--page", file, "--threads", "1");
  const complaints = [];
  const page = await openPage(browser, file, complaints);
  await checkEmpty(page, "at first");
  const tested = names.flatMap((name) =>
    fs.readdirSync(path.join(folder, "test", name)).map((one) => path.join(folder, "test", name, one)),
  );
  assert.equal(tested.length, 300);
  const answers = await page.evaluate(
    async (files) => {
      const { model, logits, bytesOfFile } = window.orthobatch;
      const out = [];
      for (const text of files) {
        const bytes = await bytesOfFile(new Blob([Uint8Array.from(atob(text), (c) => c.charCodeAt(0))]));
        const all = [...logits(bytes)];
        out.push({ name: model.classes[all.indexOf(Math.max(...all))], bytes: btoa(String.fromCharCode(...bytes)) });
      }
      return out;
    },
    tested.map((one) => fs.readFileSync(one).toString("base64")),
  );
  // In folders by what the page answered, none is wrong for eval; and not for want of different answers.
  fs.rmSync(sorted, { recursive: true, force: true });
  fs.cpSync(path.join(folder, "train"), path.join(sorted, "train"), { recursive: true });
  answers.forEach(({ name }, i) => {
    const place = path.join(sorted, "test", name);
    fs.mkdirSync(place, { recursive: true });
    fs.copyFileSync(tested[i], path.join(place, `${i}.png`));
  });
  const picture = ["--picture", path.join(output, "confusion.png")];
  const { images, wrong: differ } = JSON.parse(run("eval", trained, "--data", sorted, "--json", ...picture));
  const right = answers.filter(({ name }, i) => path.basename(path.dirname(tested[i])) === name).length;
  console.log(`own pictures: ${right} of 300 right; page and eval differ on ${differ} of ${images}`);
  assert.equal(images, 300);
  assert.equal(differ, 0, "page and eval: expected the same answer to every picture");
  assert(right > 150 && new Set(answers.map(({ name }) => name)).size >= 4, "expected a net that has learned something");
  // And their pixels, of PNG files, to the last bit: the page's samples are as training read them.
  const samples = await page.evaluate(() => {
    const { pixels, labels } = window.orthobatch.model.samples;
    const all = atob(pixels),
      size = all.length / labels.length;
    return labels.map((_, k) => btoa(all.slice(k * size, (k + 1) * size)));
  });
  const found = new Set(answers.map(({ bytes }) => bytes));
  const same = samples.filter((bytes) => found.has(bytes)).length;
  console.log(`own pictures: ${same} of ${samples.length} samples are pixel by pixel what the page makes of a file`);
  assert(same >= samples.length / 2, "expected every PNG among the samples, every other file is one");

  // Long names: no word is broken, the bars begin side by side, and the preview has the picture's form.
  await page.setInputFiles("#file", tested.find((one) => one.includes("150x50")));
  await page.waitForFunction(() => document.getElementById("answer").textContent !== "–");
  for (const width of [390, 1000]) {
    await page.setViewportSize({ width, height: 800 });
    for (const name of names) {
      const place = answers.findIndex((one) => one.name === name);
      if (place < 0) continue;
      await page.setInputFiles("#file", tested[place]);
      await page.waitForFunction((text) => document.getElementById("answer").textContent === text, name);
      const broken = await page.locator("#answer").evaluate((answer) => {
        // Each word on one line.
        const text = answer.firstChild;
        return [...text.data.matchAll(/\S+/g)].some((word) => {
          const range = document.createRange();
          range.setStart(text, word.index);
          range.setEnd(text, word.index + word[0].length);
          return range.getClientRects().length > 1;
        });
      });
      assert(!broken, `page of ${width} pixels: ${name} is broken inside a word`);
    }
    const starts = await page.locator("#bars i").evaluateAll((all) => all.map((bar) => bar.getBoundingClientRect().left));
    assert.equal(new Set(starts).size, 1, `page: expected bars that begin at one place, found ${starts}`);
  }
  await page.setInputFiles("#file", tested.find((one) => one.includes("150x50")));
  await page.waitForFunction(() => document.getElementById("seen").offsetWidth === 92);
  const { width, height } = await page.locator("#seen").boundingBox();
  assert(Math.abs(width / height - 3) < 0.2, `page: expected a preview of 3:1, found ${width}×${height}`);
  await takePictures(page, path.join(output, "own"));
  assert.deepEqual(complaints, []);
}

const folders = given.length > 0 ? given : [trainedRun()];
const images = idx("t10k-images-idx3-ubyte", 16),
  labels = Array.from(idx("t10k-labels-idx1-ubyte", 8));
const browser = await launch();
try {
  if (given.length === 0) await checkOwnPictures(browser);
  for (const folder of folders) {
    const model = path.join(output, "model.onnx"),
      page = path.join(output, "demo.html");
    console.log(run("export", folder, "-o", model, "--page", page, "--threads", "1").trim());
    const logits = await logitsOf(model, images, 784);
    const errors = wrong(logits, labels),
      own = ownErrors(folder);
    console.log(`ONNX Runtime: ${errors} of 10000 wrong, eval ${own}`);
    assert(Math.abs(errors - own) <= 2, "ONNX Runtime: expected the errors of eval"); // ties of two logits
    assert(fs.statSync(page).size < 3e6, "page: expected at most 3 MB");
    await checkPage(browser, page, images, labels, logits);
  }
} finally {
  await browser.close();
}
