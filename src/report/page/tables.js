// The tables: the paper's numbers beside ours, the pairs of gradients, the claims.

/** A cell with the difference to the paper, marked by sign, colour and arrow. */
function differenceCell(ours, paper, digits) {
  if (!ours || paper === null || paper === undefined) return el("td", { class: "num" }, "–");
  const d = ours.mean - paper;
  const better = d <= 0;
  return el(
    "td",
    { class: `num ${better ? "good" : "bad"}`, "data-sort": d },
    `${better ? "▼" : "▲"} ${signed(d, digits)}`,
  );
}

const valueCell = (text, sort, extra = "") =>
  el("td", { class: `num ${extra}`, "data-sort": sort === null || sort === undefined ? "" : sort }, text);

/** What is wrong with a row's files, and what it came to where that is no number. */
function remarksOf(row) {
  const lines = [];
  for (const run of row.runs)
    for (const problem of run.problems || [])
      lines.push(row.runs.length > 1 ? `seed ${run.seed}: ${problem}` : problem);
  return lines;
}

function layerCell(row, experiment) {
  const remarks = remarksOf(row);
  return el(
    "th",
    { scope: "row", "data-sort": row.name },
    el("div", { class: "layer" }, swatch(styleOf(row, experiment)), el("code", {}, row.name)),
    row.remark && row.status !== "diverged" ? el("div", { class: "remark" }, row.remark) : null,
    row.note ? el("div", { class: "row-note" }, row.note) : null,
    remarks.map((text) => el("div", { class: "remark" }, `⚠ ${text}`)),
  );
}

/** A row without a number says so across the columns of numbers. */
function emptyCells(row, columns) {
  const text = row.status === "diverged" ? row.remark : row.status === "missing" ? "not run" : row.status;
  return [el("td", { colspan: columns, class: "state" }, el("span", { class: `badge ${row.status}` }, text))];
}

const errorDigits = 2;

/** How a table's columns depend on the experiment: the paper has a loss for SVHN, an epoch for MNIST. */
function columnsOf(experiment) {
  const share = experiment.loss_share,
    perOutput = share !== 1;
  const withPaper = experiment.rows.some((row) => row.paper);
  const lossName = perOutput ? `loss / ${share}` : "loss";
  const paper = ["error %", perOutput ? lossName : "epoch", "place"];
  const here = [
    "best error %",
    ...(withPaper ? ["to paper"] : []),
    "at epoch",
    lossName,
    "place",
    "train error %",
    "last error %",
  ];
  const groups = [
    ...(withPaper ? [["paper", paper]] : []),
    ["here", here],
    ["time", ["s / epoch", "× BN"]],
  ];
  return { share, perOutput, withPaper, groups, here };
}

function paperCells(row, { perOutput }) {
  const paper = row.paper || {};
  return [
    valueCell(number(paper.error, errorDigits), paper.error, "paper"),
    perOutput
      ? valueCell(number(paper.loss, 4), paper.loss, "paper")
      : valueCell(paper.epoch ?? "–", paper.epoch, "paper"),
    valueCell(paper.rank || "–", paper.rank || null, "paper"),
  ];
}

function ourCells(row, { share, withPaper, here }) {
  if (!row.best_error) return emptyCells(row, here.length);
  const epoch = { ...row.best_epoch, deviation: null };
  return [
    valueCell(estimate(row.best_error, errorDigits), row.best_error.mean, "main"),
    ...(withPaper ? [differenceCell(row.best_error, row.paper?.error, errorDigits)] : []),
    valueCell(estimate(epoch, epoch.n > 1 ? 1 : 0), epoch.mean),
    valueCell(estimate(row.best_loss, 4, 1 / share), row.best_loss && row.best_loss.mean),
    valueCell(row.rank || "–", row.rank || null),
    valueCell(estimate(row.train_error, errorDigits), row.train_error.mean),
    valueCell(estimate(row.last_error, errorDigits), row.last_error.mean),
  ];
}

const timeCells = (row) => [
  valueCell(row.epoch_seconds ? short(row.epoch_seconds) : "–", row.epoch_seconds),
  valueCell(number(row.times_bn, 2), row.times_bn),
];

/** The groups of columns, and under them the columns: each sorts the table. */
function resultHead(groups) {
  const sortButton = (name, i) => {
    const onclick = ({ currentTarget }) => sortBy(currentTarget.closest("table"), i, currentTarget);
    return el("th", { scope: "col" }, el("button", { type: "button", title: "Sort", onclick }, name));
  };
  const names = ["layer", ...groups.flatMap(([, columns]) => columns)];
  const groupCells = groups.map(([group, { length }]) =>
    el("th", { colspan: length, scope: "colgroup", class: "group" }, group),
  );
  return el("thead", {}, el("tr", {}, el("td", {}), groupCells), el("tr", {}, names.map(sortButton)));
}

function resultTable(experiment) {
  const columns = columnsOf(experiment);
  const rows = experiment.rows.map((row) =>
    el(
      "tr",
      { "data-status": row.status },
      layerCell(row, experiment),
      columns.withPaper ? paperCells(row, columns) : null,
      ourCells(row, columns),
      timeCells(row),
    ),
  );
  return scrolling(
    el(
      "table",
      { class: "results", "data-table": experiment.name },
      resultHead(columns.groups),
      el("tbody", {}, rows),
    ),
  );
}

/** A wide table scrolls in its own box, not the page. */
const scrolling = (table) => el("div", { class: "table-scroll", tabindex: "0" }, table);

/** Rows in the order of a column, the other way round when asked again; rows without a number last. */
function sortBy(table, column, button) {
  const down = button.dataset.order === "up";
  for (const b of table.querySelectorAll("thead button")) delete b.dataset.order;
  button.dataset.order = down ? "down" : "up";
  const body = table.tBodies[0];
  // A cell may span several columns: that one has no number.
  const cellAt = (tr) => {
    let at = 0;
    for (const cell of tr.cells) {
      if (at === column && cell.colSpan === 1) return cell;
      at += cell.colSpan;
    }
    return null;
  };
  const key = (tr) => {
    const text = cellAt(tr)?.dataset.sort ?? "";
    return text === "" ? null : Number.isNaN(Number(text)) ? text : Number(text);
  };
  const rows = [...body.rows].sort((a, b) => {
    const x = key(a),
      y = key(b);
    if (x === null || y === null) return (x === null) - (y === null);
    return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
  });
  body.append(...rows);
}

const verdictColumns = [
  "layer",
  "printed %",
  "exact %",
  "exact − printed",
  "noise up to",
  "place: paper",
  "printed",
  "exact",
  "",
];

function outcomeCell(row) {
  if (!row.best_error)
    return el(
      "td",
      { class: "state" },
      el("span", { class: `badge ${row.status}` }, row.remark || row.status),
    );
  return el(
    "td",
    { class: "num" },
    estimate(row.best_error, errorDigits),
    row.remark ? el("div", { class: "remark" }, row.remark) : null,
  );
}

/** The difference with a bar, as long as its share of the largest. */
function barCell(difference, largest, digits = errorDigits) {
  if (difference === null) return el("td", { class: "num" }, "–");
  const side = difference <= 0 ? "good" : "bad";
  const style = `width:${(48 * Math.abs(difference)) / largest}px`;
  return el(
    "td",
    { class: `num ${side}` },
    el("span", { class: `bar ${side}`, style }),
    signed(difference, digits),
  );
}

function noiseBadge(pair) {
  if (pair.difference === null) return null;
  const text = pair.beyond_noise ? "beyond noise" : pair.noise === null ? "one seed" : "within noise";
  return el("span", { class: `badge ${pair.beyond_noise ? "sure" : "unsure"}` }, text);
}

function verdictRow(pair, experiment, largest) {
  const exact = experiment.rows[pair.exact],
    printed = experiment.rows[pair.printed];
  const noise = pair.noise === null ? "–" : `${number(pair.noise, 2)}${pair.own_deviation ? "" : " *"}`;
  const moved = pair.rank_exact !== pair.rank_printed;
  return el(
    "tr",
    {},
    layerCell(exact, experiment),
    outcomeCell(printed),
    outcomeCell(exact),
    barCell(pair.difference, largest),
    valueCell(noise),
    valueCell(pair.rank_paper || "–"),
    valueCell(pair.rank_printed || "–"),
    el("td", { class: `num ${moved ? "main" : ""}` }, String(pair.rank_exact || "–")),
    el("td", {}, noiseBadge(pair)),
  );
}

function verdictTable(experiment) {
  const { pairs } = experiment.verdict;
  const largest = Math.max(...pairs.map((p) => Math.abs(p.difference ?? 0)), 1e-9);
  const head = verdictColumns.map((name) => el("th", { scope: "col" }, name));
  const rows = pairs.map((pair) => verdictRow(pair, experiment, largest));
  return scrolling(
    el(
      "table",
      { class: "results", "data-table": "verdict" },
      el("thead", {}, el("tr", {}, head)),
      el("tbody", {}, rows),
    ),
  );
}

// --- claims

const claimFigures = {
  best_error: "best error %",
  first_error: "error % after epoch 1",
  train_loss: "training loss, last epoch",
};
const claimDigits = (claim) => (claim.of === "train_loss" ? 3 : errorDigits);
const answerBadges = { holds: "sure", "does not": "diverged", open: "unsure" };
const answerBadge = (answer) => el("span", { class: `badge ${answerBadges[answer]}` }, answer);

const claimColumns = ["claim", "first", "", "second", "", "first − second", "noise up to", "paper", ""];

/** A row for each pair; the claim and what it comes to stand before all of its own. */
function claimRows(claim, experiment) {
  const digits = claimDigits(claim);
  const largest = Math.max(...claim.pairs.map((p) => Math.abs(p.difference ?? 0)), 1e-9);
  const side = (row, figure) => [
    el("td", {}, el("code", {}, experiment.rows[row].name)),
    el("td", { class: "num" }, figure ? estimate(figure, digits) : "–"),
  ];
  return claim.pairs.map((pair, i) =>
    el(
      "tr",
      { class: i === 0 ? "claim" : "" },
      i === 0
        ? el(
            "th",
            { scope: "rowgroup", rowspan: claim.pairs.length },
            el("div", {}, claim.claim),
            el("div", { class: "row-note" }, claimFigures[claim.of]),
            answerBadge(claim.answer),
          )
        : null,
      side(pair.first, pair.first_figure),
      side(pair.second, pair.second_figure),
      barCell(pair.difference, largest, digits),
      valueCell(number(pair.noise, digits)),
      valueCell(pair.paper === null ? "–" : signed(pair.paper, errorDigits), pair.paper, "paper"),
      el("td", {}, answerBadge(pair.answer)),
    ),
  );
}

function claimsTable(experiment) {
  const head = claimColumns.map((name) => el("th", { scope: "col" }, name));
  return scrolling(
    el(
      "table",
      { class: "results claims", "data-table": `${experiment.name}-claims` },
      el("thead", {}, el("tr", {}, head)),
      el(
        "tbody",
        {},
        experiment.claims.flatMap((claim) => claimRows(claim, experiment)),
      ),
    ),
  );
}
