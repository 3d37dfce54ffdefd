// A folder as `orthobatch reproduce` leaves one after 25 epochs of every row, with numbers made up by a rule:
// the browser test needs a full page, not a trained net.
//   make_folder(folder, experiment, {pictures}): experiment is the parsed file of experiments/

import fs from "node:fs";
import path from "node:path";

const channels = { mnist: [16, 64, 128], svhn: [32, 64, 128] };

function random(seed) {
  let state = seed >>> 0 || 1;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 4294967296;
  };
}

const slug = (data, row, seed) => {
  let name = `${data}-`;
  for (const c of row)
    if (/[A-Za-z0-9.-]/.test(c)) name += c;
    else if (!name.endsWith("_") && c !== ")" && c !== ">") name += "_";
  return `${name}-seed${seed}`;
};

function metrics(row, data, epochs, rand) {
  const floor = (row.paper?.error_percent ?? 30) * (1 + 0.2 * rand());
  const speed = 0.8 + rand(),
    lines = [];
  for (let epoch = 1; epoch <= epochs; epoch++) {
    if (row.layer.startsWith("PCA") && epoch === 3) {
      lines.push({ epoch, diverged: "loss nan", time: { train_seconds: 1 } });
      break;
    }
    const test = floor + 60 * Math.exp(-speed * epoch) + 0.3 * rand();
    lines.push({
      epoch,
      steps: 100,
      images: 25600,
      learning_rate: 0.125,
      batch: 256,
      momentum: 0.9,
      alpha: 0.9,
      train_loss: test / 25,
      curve: { every: 10, loss: Array.from({ length: 10 }, (_, i) => (test / 25) * (1.3 - 0.05 * i)) },
      train_error_percent: 1.2 * test,
      test_loss: test / 26,
      test_error_percent: test,
      layers: channels[data].map((n, i) => ({
        name: `block${i + 1}.norm`,
        spec: row.layer,
        channels: n,
        condition_number: rand() < 0.02 ? null : 10 ** (2 + i + rand()),
        effective_rank: n * (0.3 + 0.3 * rand()),
        floored: 0,
        null: 0,
        exchanges: row.layer.startsWith("PLDLP") ? 100 * i : 0,
      })),
      time: { finished: "2000-01-01T00:00:00Z", train_seconds: 20 * (1 + 0.4 * rand()), test_seconds: 3 },
    });
  }
  return lines;
}

const base64 = (bytes) => Buffer.from(bytes).toString("base64");

function pictures(row, data, rand) {
  const side = data === "mnist" ? 28 : 32,
    colours = data === "mnist" ? 1 : 3;
  const white = !row.layer.startsWith("BN");
  const triangle = (n, spread) => {
    const bytes = [];
    for (let i = 0; i < n; i++)
      for (let j = i; j < n; j++)
        bytes.push(i === j ? 255 : 128 + Math.round(127 * spread * (2 * rand() - 1)));
    return base64(bytes);
  };
  const noise = (count) => base64(Array.from({ length: count }, () => Math.floor(256 * rand())));
  return {
    epoch: 20,
    images: 500,
    layers: channels[data].map((n) => ({
      spec: row.layer,
      channels: n,
      before: triangle(n, 0.7),
      after: triangle(n, white ? 0.05 : 0.7),
    })),
    filters: {
      count: channels[data][0],
      height: 3,
      width: 3,
      channels: colours,
      scale: 1,
      data: noise(channels[data][0] * 9 * colours),
    },
    samples: {
      columns: 5,
      height: side,
      width: side,
      channels: colours,
      data: noise(50 * side * side * colours),
    },
  };
}

export function makeFolder(folder, name, experiment, epochs) {
  const rand = random(7);
  const { data } = experiment;
  fs.mkdirSync(folder, { recursive: true });
  const described = {
    ...experiment,
    epochs,
    made: {
      command: `orthobatch reproduce ${name} --out DIR`,
      with: { orthobatch: "test", processor: "none" },
    },
  };
  fs.writeFileSync(path.join(folder, `${name}.experiment.json`), JSON.stringify(described));
  for (const row of experiment.rows)
    for (const seed of row.seeds ?? experiment.seeds) {
      const run = path.join(folder, "runs", slug(data, row.layer, seed));
      fs.mkdirSync(run, { recursive: true });
      fs.writeFileSync(
        path.join(run, "config.json"),
        JSON.stringify({
          data,
          layer: row.layer,
          epochs,
          seed,
          threads: 2,
          found: { train_images: 36000, test_images: 26032 },
        }),
      );
      fs.writeFileSync(
        path.join(run, "metrics.jsonl"),
        metrics(row, data, epochs, rand)
          .map((line) => `${JSON.stringify(line)}\n`)
          .join(""),
      );
      if (seed === 1)
        fs.writeFileSync(path.join(run, "pictures.json"), JSON.stringify(pictures(row, data, rand)));
    }
}
