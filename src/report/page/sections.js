// The page from top to bottom.

const redraws = []; // of everything that has colours in it

// Folders given together may hold experiments of one name.
results.experiments.forEach((e, i) => {
  const before = results.experiments.slice(0, i).filter((other) => other.name === e.name).length;
  e.id = before ? `${e.name}-${before + 1}` : e.name;
});

function add(place, made) {
  if (!made) return;
  place.append(made.card);
  redraws.push(made.redraw);
}

function facts(experiment) {
  const counts = experiment.rows.flatMap((row) => (row.best_error ? [row.best_error.n] : []));
  const ends = experiment.rows.filter((row) => row.best_error).map((row) => countedRuns(row).end);
  const range = (list) => {
    const low = Math.min(...list),
      high = Math.max(...list);
    return list.length === 0 ? "0" : low === high ? String(low) : `${low} to ${high}`;
  };
  const items = [
    [experiment.train_images ? grouped(experiment.train_images) : "?", "training images"],
    [experiment.test_images ? grouped(experiment.test_images) : "?", "test images"],
    [range(ends), range(ends) === "1" ? "epoch" : "epochs"],
    [range(counts), range(counts) === "1" ? "seed" : "seeds"],
  ];
  if (experiment.rank_correlation !== null && experiment.rank_correlation !== undefined)
    items.push([number(experiment.rank_correlation, 2), "rank correlation with the paper"]);
  return el(
    "dl",
    { class: "facts" },
    items.map(([value, name]) => el("div", {}, el("dd", {}, value), el("dt", {}, name))),
  );
}

function switches(view, redraw) {
  const set = (key) => (value) => {
    view[key] = value;
    redraw();
  };
  const choices = [
    ["measure", "measure", { error: "error", loss: "loss" }],
    ["set", "set", { test: "test", train: "training", both: "both" }],
    ["against", "against", { epoch: "epoch", time: "time" }],
    ["scale", "scale", { linear: "linear", log: "log" }],
    ["layers", "quantity", quantities],
  ];
  return el(
    "div",
    { class: "switches" },
    choices.map(([label, key, values]) => choice(label, Object.entries(values), view[key], set(key))),
  );
}

function tableNote(experiment) {
  const parts = [
    `Best: the epoch with the least test error, chosen on the test set${experiment.rows.some((row) => row.paper) ? " as the paper does" : ""}; the last epoch beside it is free of that choice.`,
  ];
  if (experiment.rows.some((row) => row.runs.length > 1)) parts.push("± is the deviation over seeds.");
  if (experiment.loss_share !== 1)
    parts.push(
      `Loss is cross-entropy over ${experiment.loss_share}, as the paper seems to count it: a wrong answer costs at least ln 2, so its 5.82 % error cannot go with a mean cross-entropy below 0.040.`,
    );
  if (experiment.rows.some((row) => row.times_bn))
    parts.push(
      `Time is the median of the epochs, training alone; none where the longest took more than ${results.steady_ratio} times the shortest, as it does beside other programs.`,
    );
  if (experiment.rows.some((row) => row.paper && row.paper.epoch))
    parts.push("A diamond in a figure is the paper's best, where its epoch is within the axis.");
  return el("p", { class: "note" }, parts.join(" "));
}

/** The paper's claims, folded away under how many of them were answered how. */
function claimsSection(experiment) {
  if (!experiment.claims) return null;
  const count = (answer) => experiment.claims.filter((claim) => claim.answer === answer).length;
  return el(
    "details",
    { class: "claims-box" },
    el(
      "summary",
      {},
      `The paper’s claims: ${count("yes")} yes, ${count("no")} no, ${count("undecided")} undecided`,
    ),
    tableOf(experiment.tables.claims, experiment, { kind: "claims" }),
    el(
      "p",
      { class: "note" },
      "Yes: the first row of every pair is lower beyond noise, or, where the claim says near, no further from the second than it says. No: a pair is the other way round beyond noise. Undecided: neither, or no row has two seeds. Noise: two-sample t test, pooled variance, Bonferroni-corrected over the pairs of a claim, 5 %.",
    ),
  );
}

/** Every claim on every data set. */
function answersSection() {
  if (!results.claims) return null;
  return el(
    "section",
    { id: "claims" },
    el("h2", {}, "The paper’s claims"),
    tableOf(results.claims, null, { kind: "claims" }),
  );
}

function experimentSection(experiment) {
  const view = { measure: "error", set: "test", against: "epoch", scale: "log", quantity: "condition" };
  const own = [];
  const grid = el("div", { class: "grid" });
  const put = (made) => {
    if (made) {
      add(grid, made);
      own.push(made.redraw);
    }
  };
  // After an epoch or two there is more to see inside them.
  const brief = Math.max(0, ...experiment.rows.flatMap((row) => row.runs.map(lastEpoch))) < 4;
  if (brief) put(stepsFigure(experiment, view));
  for (const spec of experiment.figures) put(curvesFigure(experiment, spec, view));
  put(trendFigure(experiment));
  if (!brief) put(scheduleFigure(experiment));
  if (!brief) put(stepsFigure(experiment, view));
  put(layersFigure(experiment, view));
  const section = el("section", { id: experiment.id }, el("h2", {}, experiment.title), facts(experiment));
  if (experiment.verdict)
    section.append(
      el(
        "div",
        { class: "verdict" },
        el("h3", {}, "Does the exact gradient change the order of the layers?"),
        el("p", { class: "answer" }, experiment.verdict.answer),
      ),
      tableOf(experiment.tables.verdict, experiment),
      el(
        "p",
        { class: "note" },
        `Places are by least test error among ${plural(experiment.verdict.layers, "layer")}, first with the printed gradients, then with the exact ones. Noise: what Welch’s t allows a difference to be by chance, at 5 % for all pairs together. * with the deviation of the rows that have several seeds.`,
      ),
      el("h3", {}, "All rows"),
    );
  section.append(
    tableOf(experiment.tables.results, experiment, { sorts: true }),
    tableNote(experiment),
    claimsSection(experiment) ?? "",
    switches(view, () => own.forEach((redraw) => redraw())),
    grid,
  );
  add(grid, insideSection(experiment));
  return section;
}

function repeatSection() {
  const section = el("section", { id: "repeat" }, el("h2", {}, "How to repeat it"));
  for (const e of results.experiments) {
    const made = e.made || {};
    const seeds = [...new Set(e.rows.flatMap((row) => row.runs.map((run) => run.seed)))].sort(
      (a, b) => a - b,
    );
    const lines = [...Object.entries(made.with || {}), ["seeds", seeds.join(", ")]];
    section.append(
      el("h3", {}, e.title),
      el(
        "pre",
        {},
        made.command || "orthobatch train …   (single runs: each folder's config.json has its settings)",
      ),
      el(
        "dl",
        { class: "machine" },
        lines.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, String(value)))),
      ),
    );
  }
  section.append(
    el(
      "p",
      { class: "note" },
      "With the same seed and number of threads a run gives the same numbers, bit for bit, on the same type of machine: other processors round otherwise. Every number and curve here is from the runs’ metrics.jsonl; orthobatch report DIR makes this page anew.",
    ),
  );
  return section;
}

/** The experiment in one card: what came first here, and in the paper. */
function glance(experiment) {
  const best = experiment.rows.find((row) => row.rank === 1);
  const noise = best && best.best_error;
  const papers = experiment.rows.filter((row) => row.paper).sort((a, b) => a.paper.error - b.paper.error)[0];
  const bn = experiment.rows.find((row) => row.name === "BN" && row.best_error);
  const lines = experiment.verdict
    ? [experiment.verdict.answer]
    : [
        !noise ? "" : noise.deviation === null ? "one seed: the noise is not known" : `± ${number(noise.deviation, 2)} over ${plural(noise.n, "seed")}`,
        bn && best !== bn ? `BN: ${number(bn.best_error.mean, 2)} %${bn.best_error.deviation === null ? "" : ` ± ${number(bn.best_error.deviation, 2)}`}` : "",
        papers ? `the paper’s best: ${papers.name}, ${number(papers.paper.error, 2)} %` : "",
      ];
  return el(
    "a",
    { class: "card glance", href: `#${experiment.id}` },
    el("span", { class: "glance-title" }, experiment.title),
    experiment.verdict
      ? null
      : el("span", { class: "glance-number" }, best ? `${number(best.best_error.mean, 2)} %` : "–"),
    experiment.verdict || !best ? null : el("code", {}, best.name),
    lines.filter((text) => text).map((text) => el("span", { class: "note" }, text)),
  );
}

function build() {
  const page = document.getElementById("page");
  // Runs of one's own are no reproduction.
  const ofPaper = results.experiments.some((e) => e.verdict || e.rows.some((row) => row.paper));
  const runs = results.experiments.flatMap((e) => e.rows.flatMap((row) => row.runs)).length;
  document.title = ofPaper ? "On Batch Orthogonalization Layers, reproduced" : "Training runs";
  const links = results.experiments.map((e) => [e.id, e.title]);
  const samples = Object.entries(results.samples ?? {});
  const unseen = results.samples
    ? [...new Set(results.experiments.map((e) => e.data))].filter((name) => name && !(name in results.samples))
    : [];
  if (samples.length) links.push(["samples", "Input"]);
  links.push(["repeat", "How to repeat it"]);
  page.replaceChildren(
    el(
      "header",
      {},
      el("p", { class: "kicker" }, `orthobatch ${results.orthobatch}, ${results.made}`),
      el("h1", {}, document.title),
      el(
        "p",
        { class: "lead" },
        ofPaper
          ? "Whitening layers in BatchNorm’s place: the tables and figures of Blanchette & Laganière, measured again, beside the paper’s numbers."
          : `Errors, curves and layers of ${plural(runs, "run")}.`,
      ),
      el(
        "nav",
        {},
        links.map(([id, text]) => el("a", { href: `#${id}` }, text)),
      ),
      el("div", { class: "glances" }, results.experiments.map(glance)),
    ),
  );
  page.append(answersSection() ?? "");
  for (const experiment of results.experiments) page.append(experimentSection(experiment));
  if (samples.length || unseen.length)
    page.append(
      el(
        "section",
        { id: "samples" },
        el("h2", {}, "Input"),
        unseen.length
          ? el("p", { class: "note missing" }, `No images of ${unseen.join(", ")}: no run’s folder has a pictures.json.`)
          : null,
        el(
          "div",
          { class: "grid" },
          samples.map(([name, s]) => sampleSheet(name, s)),
        ),
      ),
    );
  page.append(repeatSection());
}

build();
// After the first paint. (A browser may leave a page that waits for an idle moment waiting for long.)
setTimeout(() => {
  drawRest();
  document.documentElement.dataset.drawn = "true";
}, 50);
const recolour = () => {
  drawRest();
  redraws.forEach((redraw) => redraw());
};
darkScheme.addEventListener("change", recolour);
addEventListener("beforeprint", () => {
  printing = true;
  recolour();
});
addEventListener("afterprint", () => {
  printing = false;
  recolour();
});
