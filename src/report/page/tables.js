// The tables: the paper's numbers beside ours, and the pairs of gradients.

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
    row.status !== "done" && row.status !== "diverged" ? el("div", { class: "remark" }, row.remark) : null,
    row.note ? el("div", { class: "row-note" }, row.note) : null,
    remarks.map((text) => el("div", { class: "remark" }, `⚠ ${text}`)),
  );
}

/** A row without a number says so across the columns of numbers. */
function emptyCells(row, columns) {
  const text = row.status === "diverged" ? row.remark : row.status === "missing" ? "not run" : row.status;
  return [el("td", { colspan: columns, class: "state" }, el("span", { class: `badge ${row.status}` }, text))];
}

function resultTable(experiment) {
  const share = experiment.loss_share,
    perOutput = share !== 1;
  const withPaper = experiment.rows.some((row) => row.paper);
  const digits = 2;
  const lossName = perOutput ? `loss / ${share}` : "loss";
  const paperHead = withPaper
    ? [
        ["paper", "error %"],
        ["paper", perOutput ? lossName : "epoch"],
        ["paper", "place"],
      ]
    : [];
  const oursHead = [
    ["here", "best error %"],
    ...(withPaper ? [["here", "to paper"]] : []),
    ["here", "at epoch"],
    ["here", lossName],
    ["here", "place"],
    ["here", "train error %"],
    ["here", "last error %"],
    ["time", "s / epoch"],
    ["time", "× BN"],
  ];
  const body = el(
    "tbody",
    {},
    experiment.rows.map((row) => {
      const paper = row.paper || {};
      const cells = [layerCell(row, experiment)];
      if (withPaper)
        cells.push(
          valueCell(number(paper.error, digits), paper.error, "paper"),
          perOutput
            ? valueCell(number(paper.loss, 4), paper.loss, "paper")
            : valueCell(paper.epoch ?? "–", paper.epoch, "paper"),
          valueCell(paper.rank || "–", paper.rank || null, "paper"),
        );
      if (!row.best_error) {
        cells.push(...emptyCells(row, oursHead.length - 2));
      } else {
        cells.push(valueCell(estimate(row.best_error, digits), row.best_error.mean, "main"));
        if (withPaper) cells.push(differenceCell(row.best_error, paper.error, digits));
        cells.push(
          valueCell(
            estimate({ ...row.best_epoch, deviation: null }, row.best_epoch.n > 1 ? 1 : 0),
            row.best_epoch.mean,
          ),
          valueCell(estimate(row.best_loss, 4, 1 / share), row.best_loss && row.best_loss.mean),
          valueCell(row.rank || "–", row.rank || null),
          valueCell(estimate(row.train_error, digits), row.train_error.mean),
          valueCell(estimate(row.last_error, digits), row.last_error.mean),
        );
      }
      cells.push(
        valueCell(row.epoch_seconds ? short(row.epoch_seconds) : "–", row.epoch_seconds),
        valueCell(number(row.times_bn, 2), row.times_bn),
      );
      return el("tr", { "data-status": row.status }, cells);
    }),
  );
  const groups = [];
  for (const [group] of [...paperHead, ...oursHead]) {
    if (groups.length && groups[groups.length - 1][0] === group) groups[groups.length - 1][1]++;
    else groups.push([group, 1]);
  }
  const table = el(
    "table",
    { class: "results", "data-table": experiment.name },
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        el("td", {}),
        groups.map(([group, span]) => el("th", { colspan: span, scope: "colgroup", class: "group" }, group)),
      ),
      el(
        "tr",
        {},
        [["", "layer"], ...paperHead, ...oursHead].map(([, name], i) =>
          el(
            "th",
            { scope: "col" },
            el(
              "button",
              { type: "button", title: "Sort", onclick: (event) => sortBy(table, i, event.currentTarget) },
              name,
            ),
          ),
        ),
      ),
    ),
    body,
  );
  return el("div", { class: "table-scroll", tabindex: "0" }, table);
}

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

function verdictTable(experiment) {
  const { verdict, rows } = experiment;
  const largest = Math.max(...verdict.pairs.map((p) => Math.abs(p.difference ?? 0)), 1e-9);
  const head = [
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
  return el(
    "div",
    { class: "table-scroll", tabindex: "0" },
    el(
      "table",
      { class: "results", "data-table": "verdict" },
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          head.map((name) => el("th", { scope: "col" }, name)),
        ),
      ),
      el(
        "tbody",
        {},
        verdict.pairs.map((p) => {
          const exact = rows[p.exact],
            printed = rows[p.printed];
          const outcome = (row) =>
            row.best_error
              ? el(
                  "td",
                  { class: "num" },
                  estimate(row.best_error, 2),
                  row.status === "done" ? null : el("div", { class: "remark" }, row.remark),
                )
              : el(
                  "td",
                  { class: "state" },
                  el("span", { class: `badge ${row.status}` }, row.remark || row.status),
                );
          const better = (p.difference ?? 0) <= 0;
          const bar =
            p.difference === null
              ? null
              : el("span", {
                  class: `bar ${better ? "good" : "bad"}`,
                  style: `width:${(48 * Math.abs(p.difference)) / largest}px`,
                });
          const moved = p.rank_exact !== p.rank_printed;
          return el(
            "tr",
            {},
            layerCell(exact, experiment),
            outcome(printed),
            outcome(exact),
            el(
              "td",
              { class: `num ${p.difference === null ? "" : better ? "good" : "bad"}` },
              bar,
              p.difference === null ? "–" : signed(p.difference, 2),
            ),
            valueCell(p.noise === null ? "–" : `${number(p.noise, 2)}${p.own_deviation ? "" : " *"}`),
            valueCell(p.rank_paper || "–"),
            valueCell(p.rank_printed || "–"),
            el("td", { class: `num ${moved ? "main" : ""}` }, String(p.rank_exact || "–")),
            el(
              "td",
              {},
              p.difference === null
                ? null
                : el(
                    "span",
                    { class: `badge ${p.beyond_noise ? "sure" : "unsure"}` },
                    p.beyond_noise ? "beyond noise" : p.noise === null ? "one seed" : "within noise",
                  ),
            ),
          );
        }),
      ),
    ),
  );
}
