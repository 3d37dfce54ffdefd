// What a net looks like inside: correlations of its feature maps, its first filters, its input.

const mix = (a, b, t) => Math.round(a + (b - a) * t);
const rgb = (name) => ink(name).split(" ").map(Number);

/** A canvas of w × h pixels, drawn by `paint(set)` where set(x, y, r, g, b). */
function pixels(w, h, label, paint) {
  const canvas = el("canvas", { width: w, height: h, role: "img", "aria-label": label });
  const context = canvas.getContext("2d"),
    image = context.createImageData(w, h);
  const { data } = image;
  paint((x, y, r, g, b) => {
    const at = 4 * (y * w + x);
    data[at] = r;
    data[at + 1] = g;
    data[at + 2] = b;
    data[at + 3] = 255;
  });
  context.putImageData(image, 0, 0);
  return canvas;
}

/** Correlations from −1 (blue) over 0 (paper) to 1 (red). */
function heatMap(text, n, label) {
  const bytes = bytesOf(text),
    at = (i, j) => bytes[i * n - (i * (i - 1)) / 2 + (j - i)];
  const value = (i, j) => ((i <= j ? at(i, j) : at(j, i)) - 128) / 127;
  const zero = rgb("heat-zero"),
    low = rgb("heat-low"),
    high = rgb("heat-high");
  let sum = 0;
  const canvas = pixels(n, n, label, (set) => {
    for (let i = 0; i < n; i++)
      for (let j = 0; j < n; j++) {
        const r = value(i, j),
          end = r < 0 ? low : high,
          t = Math.pow(Math.abs(r), 0.7);
        if (i !== j) sum += Math.abs(r);
        set(j, i, mix(zero[0], end[0], t), mix(zero[1], end[1], t), mix(zero[2], end[2], t));
      }
  });
  const mean = n > 1 ? sum / (n * (n - 1)) : 0;
  const readout = el("span", { class: "readout" }, `mean |r| ${number(mean, 3)}`);
  canvas.addEventListener("mousemove", (event) => {
    const box = canvas.getBoundingClientRect();
    const place = (at, size) => Math.min(n - 1, Math.max(0, Math.floor((at / size) * n)));
    const j = place(event.clientX - box.left, box.width),
      i = place(event.clientY - box.top, box.height);
    readout.textContent = `maps ${i + 1}, ${j + 1}: ${number(value(i, j), 2)}`;
  });
  canvas.addEventListener("mouseleave", () => {
    readout.textContent = `mean |r| ${number(mean, 3)}`;
  });
  return el("div", { class: "heat" }, canvas, readout);
}

function filterTiles(filters) {
  const bytes = bytesOf(filters.data),
    { count, height, width, channels } = filters;
  return el(
    "div",
    { class: "filters" },
    Array.from({ length: count }, (_, f) =>
      pixels(width, height, `filter ${f + 1}`, (set) => {
        for (let y = 0; y < height; y++)
          for (let x = 0; x < width; x++) {
            const at = ((f * height + y) * width + x) * channels;
            set(x, y, bytes[at], bytes[at + (channels === 3 ? 1 : 0)], bytes[at + (channels === 3 ? 2 : 0)]);
          }
      }),
    ),
  );
}

/** Digits side by side; the first line as they are, the others as epochs see them. */
function sampleSheet(name, s) {
  const draw = () => {
    const bytes = bytesOf(s.data),
      size = s.height * s.width * s.channels,
      gap = 2;
    const digits = bytes.length / size / s.columns,
      colour = s.channels === 3;
    const canvas = pixels(
      digits * (s.width + gap) - gap,
      s.columns * (s.height + gap) - gap,
      `${name}: training images and their augmentations`,
      (set) => {
        for (let d = 0; d < digits; d++)
          for (let k = 0; k < s.columns; k++)
            for (let y = 0; y < s.height; y++)
              for (let x = 0; x < s.width; x++) {
                const at = (d * s.columns + k) * size + (y * s.width + x) * s.channels;
                set(
                  d * (s.width + gap) + x,
                  k * (s.height + gap) + y,
                  bytes[at],
                  bytes[at + (colour ? 1 : 0)],
                  bytes[at + (colour ? 2 : 0)],
                );
              }
      },
    );
    canvas.className = "samples";
    card.append(canvas);
  };
  const card = el(
    "figure",
    { class: "card", "data-figure": `samples ${name}` },
    el(
      "figcaption",
      {},
      el("span", { class: "figure-title" }, name.toUpperCase()),
      el("span", { class: "note" }, "first line: as stored; below: as the first four epochs see them"),
    ),
  );
  drawLater(card, draw);
  return card;
}

/** One net: its layers' correlations before and after, and its filters. */
function netColumn(experiment, shown, chosen, change) {
  const place = el("div", { class: "net" });
  const draw = (index) => {
    const row = experiment.rows[index],
      { pictures } = row;
    place.replaceChildren(
      select(
        "Layer",
        shown.map((i) => [i, experiment.rows[i].name]),
        index,
        (i) => {
          draw(i);
          change(i);
        },
      ),
      el(
        "div",
        { class: "heats" },
        el("span", {}),
        el("span", { class: "heat-head" }, "before the layer"),
        el("span", { class: "heat-head" }, "after it"),
        pictures.layers.flatMap((layer, b) => [
          el("span", { class: "heat-side" }, `block ${b + 1}`),
          heatMap(layer.before, layer.channels, `${row.name}, block ${b + 1}: correlations before the layer`),
          heatMap(layer.after, layer.channels, `${row.name}, block ${b + 1}: correlations after the layer`),
        ]),
      ),
      el("div", { class: "filters-head" }, `the ${pictures.filters.count} filters of the first convolution`),
      filterTiles(pictures.filters),
    );
  };
  draw(chosen);
  return place;
}

/** What is to be said of the rows that have run and have no pictures. */
function missingPictures(experiment) {
  const missing = experiment.rows.filter((row) => row.runs.some(lastEpoch) && !row.pictures);
  const rows = missing.length === experiment.rows.length ? "any row" : missing.map((row) => row.name).join(", ");
  return missing.length
    ? `No heat maps and filters of ${rows}: no pictures.json in the run’s folder, which train and reproduce write from its best checkpoint.`
    : "";
}

/** Two nets side by side: BN, and the layer with the least error that is not BN. */
function insideSection(experiment) {
  if (!experiment.pictures) return null;
  const shown = experiment.rows.map((_, i) => i).filter((i) => experiment.rows[i].pictures);
  const missing = missingPictures(experiment);
  const notes = missing ? [el("p", { class: "note missing" }, missing)] : [];
  if (shown.length === 0) {
    const name = `inside ${experiment.name}`;
    return missing ? { card: el("div", { class: "card wide", "data-figure": name }, notes), redraw: () => {} } : null;
  }
  const name = (i) => experiment.rows[i].name;
  const first = shown.find((i) => name(i) === "BN") ?? shown[0];
  const others = shown.filter(
    (i) => i !== first && experiment.rows[i].best_error && !name(i).startsWith("BN"),
  );
  const second = others.sort(
    (a, b) => experiment.rows[a].best_error.mean - experiment.rows[b].best_error.mean,
  )[0];
  const { images, epoch } = experiment.rows[first].pictures;
  const chosen = [first, second ?? first];
  const place = el("div", { class: "nets" });
  const draw = () => {
    place.replaceChildren(
      ...(second === undefined ? [0] : [0, 1]).map((k) =>
        netColumn(experiment, shown, chosen[k], (i) => {
          chosen[k] = i;
        }),
      ),
    );
    card.dataset.ready = "true";
  };
  const card = el(
    "figure",
    { class: "card wide", "data-figure": `inside ${experiment.name}` },
    el(
      "figcaption",
      {},
      el("span", { class: "figure-title" }, "Correlations of the feature maps"),
      el(
        "span",
        { class: "note" },
        `over ${images} test images with the statistics of evaluation, at the best epoch (of the first net: ${epoch}), seed ${experiment.rows[first].pictures.seed}; blue −1, red +1`,
      ),
    ),
    place,
    ...notes,
  );
  drawLater(card, draw);
  return { card, redraw: draw };
}
