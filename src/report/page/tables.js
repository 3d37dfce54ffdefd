// The tables of the report: their cells come as texts, with what they sort by and how they look.

/** What is wrong with a row's files. */
function problemsOf(row) {
  return row.runs.flatMap((run) =>
    (run.problems || []).map((problem) => (row.runs.length > 1 ? `seed ${run.seed}: ${problem}` : problem)),
  );
}

/** The layer of a line: in its colour, with what is to be known of it. */
function layerCell(row, experiment) {
  return el(
    "th",
    { scope: "row", "data-sort": row.name },
    el("div", { class: "layer" }, swatch(styleOf(row, experiment)), el("code", {}, row.name)),
    row.remark && row.best_error ? el("div", { class: "remark" }, row.remark) : null,
    row.note ? el("div", { class: "row-note" }, row.note) : null,
    problemsOf(row).map((text) => el("div", { class: "remark" }, `⚠ ${text}`)),
  );
}

/** A difference, coloured by its sign; a bar is as long as its share of the column's largest. */
function differenceCell({ text, value, look }, largest) {
  const side = value <= 0 ? "good" : "bad";
  const mark =
    look === "bar"
      ? el("span", { class: `bar ${side}`, style: `width:${(48 * Math.abs(value)) / largest}px` })
      : `${value <= 0 ? "▼" : "▲"} `;
  return el("td", { class: `num ${side}`, "data-sort": value }, mark, text.replace("-", "−"));
}

function cellOf(cell, place, experiment, largest) {
  const { text, value, look = "", row } = cell;
  if (row !== undefined && place === 0) return layerCell(experiment.rows[row], experiment);
  if (row !== undefined) return el("td", {}, el("code", {}, text));
  if (place === 0) return el("th", { scope: "row" }, cell.link ? el("a", { href: cell.link }, text) : text);
  if (look.startsWith("badge")) return el("td", { class: "state" }, el("span", { class: look }, text));
  if (look === "bar" || look === "sign") return differenceCell(cell, largest);
  return el("td", { class: `num ${look}`, "data-sort": value ?? "" }, text === "-" ? "–" : text);
}

/** The groups of columns, where there are any, and under them the columns: each sorts the table. */
function headOf(columns, sorts) {
  const names = columns.map(({ name }, i) => {
    const onclick = ({ currentTarget }) => sortBy(currentTarget.closest("table"), i, currentTarget);
    return el("th", { scope: "col" }, sorts ? el("button", { type: "button", title: "Sort", onclick }, name) : name);
  });
  const groups = [];
  for (const { group } of columns)
    if (groups.length && groups.at(-1).group === group) groups.at(-1).columns++;
    else groups.push({ group, columns: 1 });
  const groupCells = groups.map(({ group, columns }) =>
    el(group ? "th" : "td", { colspan: columns, scope: group && "colgroup", class: group && "group" }, group),
  );
  return el("thead", {}, groups.length > 1 ? el("tr", {}, groupCells) : null, el("tr", {}, names));
}

/** What was found here before the paper's columns: a phone shows two or three beside the layer. */
function oursFirst({ name, columns, rows }) {
  const after = (i) => (columns[i].group === "paper" ? 1 : columns[i].group === "time" ? 2 : 0);
  const order = columns.map((_, i) => i).sort((a, b) => after(a) - after(b) || a - b);
  const inOrder = (list) => order.map((i) => list[i]);
  return { name, columns: inOrder(columns), rows: rows.map(inOrder) };
}

/** A wide table scrolls in its own box, not the page. */
function tableOf(written, experiment, { kind = "", sorts = false } = {}) {
  const { name, columns, rows } = oursFirst(written);
  // Bars of one claim are drawn to one scale.
  let claims = 0;
  const claimOf = rows.map(([first]) => (claims += first.look === "claim" ? 1 : 0));
  const largest = (line, column) =>
    Math.max(
      1e-9,
      ...rows.filter((_, i) => claimOf[i] === claimOf[line]).map((cells) => Math.abs(cells[column].value ?? 0)),
    );
  const lines = rows.map((cells, line) =>
    el(
      "tr",
      { class: cells[0].look },
      cells.map((cell, i) => cellOf(cell, i, experiment, largest(line, i))),
    ),
  );
  const table = el(
    "table",
    { class: `results ${kind}`, "data-table": name },
    headOf(columns, sorts),
    el("tbody", {}, lines),
  );
  return el("div", { class: "table-scroll", tabindex: "0" }, table);
}

/** Rows in the order of a column, the other way round when asked again; rows without a number last. */
function sortBy(table, column, button) {
  const down = button.dataset.order === "up";
  for (const b of table.querySelectorAll("thead button")) delete b.dataset.order;
  button.dataset.order = down ? "down" : "up";
  const key = (tr) => {
    const text = tr.cells[column].dataset.sort ?? "";
    return text === "" ? null : Number.isNaN(Number(text)) ? text : Number(text);
  };
  const body = table.tBodies[0];
  const rows = [...body.rows].sort((a, b) => {
    const x = key(a),
      y = key(b);
    if (x === null || y === null) return (x === null) - (y === null);
    return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
  });
  body.append(...rows);
}
