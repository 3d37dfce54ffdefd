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
    `Best: the epoch with the least test error, so chosen on the test set${experiment.rows.some((row) => row.paper) ? ", as in the paper" : ""}; the last epoch is not chosen.`,
  ];
  if (experiment.rows.some((row) => row.runs.length > 1)) parts.push("± is the deviation over seeds.");
  if (experiment.loss_share !== 1)
    parts.push(
      `Loss is cross-entropy over ${experiment.loss_share}, as the paper seems to count it: a wrong answer costs at least ln 2, so its 5.82 % error cannot go with a mean cross-entropy below 0.040.`,
    );
  if (experiment.rows.some((row) => row.times_bn))
    parts.push(
      `Time: median training time of an epoch; left out where the longest epoch took more than ${results.steady_ratio} times the shortest, because other programs were running.`,
    );
  if (experiment.rows.some((row) => row.paper))
    parts.push(
      "A diamond in a figure is the paper’s error, at its epoch; at the right edge where the paper names no epoch or a later one.",
    );
  return el("p", { class: "note" }, parts.join(" "));
}

/** Every pair of every claim, with its noise. */
function claimsSection(experiment) {
  if (!experiment.claims) return null;
  return el(
    "div",
    { class: "claims-box" },
    el("h3", {}, `The paper’s claims: ${claimCounts(experiment.claims)}`),
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
  const section = el("section", { id: experiment.id }, el("h2", {}, experiment.title));
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
        `Places are by least test error among ${plural(experiment.verdict.layers, "layer")}, first with the printed gradients, then with the exact ones. Noise: Welch’s t test, Bonferroni-corrected over all pairs, 5 %. * with the deviation of the rows that have several seeds.`,
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
      "With the same seed and number of threads a run gives the same numbers, bit for bit, on the same type of machine: other processors round differently. Every number and curve here is from the runs’ metrics.jsonl; orthobatch report DIR makes this page again.",
    ),
  );
  return section;
}

/** "0.41 ± 0.07"; one seed has no noise to tell. */
function withNoise(row) {
  const { mean, deviation, n } = row.best_error;
  return `${number(mean, 2)}${deviation === null ? (n === 1 ? ", one seed" : "") : ` ± ${number(deviation, 2)}`}`;
}

const bestRow = (experiment) => experiment.rows.find((row) => row.rank === 1);
const claimCount = (claims, answer) => claims.filter((claim) => claim.answer === answer).length;
const claimCounts = (claims) =>
  ["yes", "no", "undecided"].map((answer) => `${claimCount(claims, answer)} ${answer}`).join(", ");

/** What was run, what came out, and whether the paper's claims hold: a sentence each. */
function summarySentences(experiments) {
  const rows = experiments.flatMap((e) => e.rows);
  const runs = rows.reduce((sum, row) => sum + row.runs.length, 0);
  const sets = [...new Set(experiments.map((e) => e.data))].filter((name) => name);
  const best = experiments
    .filter((e) => bestRow(e) && !e.verdict)
    .map((e) => `${e.title} ${withNoise(bestRow(e))} with ${bestRow(e).name}`);
  const claims = experiments.flatMap((e) => e.claims ?? []);
  const yes = claimCount(claims, "yes"),
    no = claimCount(claims, "no");
  return [
    `${plural(rows.length, "net")} trained in ${plural(runs, "run")}${sets.length ? ` on ${sets.join(", ")}` : ""}.`,
    best.length ? `Least test error, %: ${best.join("; ")}.` : "",
    claims.length
      ? `Of ${plural(claims.length, "claim")} of the paper, ${yes} ${yes === 1 ? "holds" : "hold"} here, ${no} ${no === 1 ? "does" : "do"} not, ${claims.length - yes - no} cannot be decided by these runs.`
      : "",
  ].filter((text) => text);
}

/** A line for each experiment: what was run, its best, and what the paper has. */
function overviewTable(experiments, ofPaper) {
  const range = (list) => {
    const low = Math.min(...list),
      high = Math.max(...list);
    return list.length === 0 ? "-" : low === high ? String(low) : `${low} to ${high}`;
  };
  const error = (row) => ({ text: row ? withNoise(row) : "-", value: row?.best_error.mean });
  const lines = experiments.map((e) => {
    const done = e.rows.filter((row) => row.best_error);
    const best = bestRow(e);
    const papers = e.rows.filter((row) => row.paper).sort((a, b) => a.paper.error - b.paper.error)[0];
    const held = e.verdict ? `exact gradient: ${e.verdict.answer.split(":")[0]}` : e.claims ? claimCounts(e.claims) : "-";
    const columns = [
      ["experiment", { text: e.title, link: `#${e.id}` }],
      ["training images", { text: e.train_images ? grouped(e.train_images) : "-" }],
      ["epochs", { text: range(done.map((row) => countedRuns(row).end)) }],
      ["seeds", { text: range(done.map((row) => row.best_error.n)) }],
      ["best layer", { text: best?.name ?? "-" }],
      ["best error %", { ...error(best), look: "main" }],
      ["BN, error %", error(done.find((row) => row.name === "BN"))],
    ];
    if (ofPaper)
      columns.push(
        ["paper’s best, %", { text: papers ? `${papers.name}: ${number(papers.paper.error, 2)}` : "-", look: "paper" }],
        ["rank correlation with the paper", { text: e.rank_correlation == null ? "-" : number(e.rank_correlation, 2) }],
        ["claims hold", { text: held }],
      );
    return columns;
  });
  const columns = lines[0].map(([name]) => ({ name, group: "" }));
  const rows = lines.map((line) => line.map(([, cell]) => cell));
  return tableOf({ name: "overview", columns, rows }, null, { kind: "overview" });
}

function build() {
  const page = document.getElementById("page");
  // Runs of one's own are no reproduction.
  const ofPaper = results.experiments.some((e) => e.verdict || e.rows.some((row) => row.paper));
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
      ofPaper
        ? el("p", { class: "kicker" }, "Whitening layers in BatchNorm’s place, after Blanchette & Laganière.")
        : null,
      summarySentences(results.experiments).map((text) => el("p", { class: "lead" }, text)),
      results.experiments.length ? overviewTable(results.experiments, ofPaper) : null,
      el(
        "nav",
        {},
        links.map(([id, text]) => el("a", { href: `#${id}` }, text)),
      ),
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
