// Curves of the rows: of a figure, and of the layers inside the nets.

const lastEpoch = (run) => (run.epoch.length ? run.epoch[run.epoch.length - 1] : 0);

/** The seeds that got furthest, as in the table; of a row that diverged all, as far as it got. */
function countedRuns(row) {
  const broken = row.runs.filter((run) => run.diverged).map(lastEpoch);
  const end = broken.length ? Math.min(...broken) : Math.max(0, ...row.runs.map(lastEpoch));
  return { runs: row.runs.filter((run) => lastEpoch(run) >= end), end };
}

/** Mean over seeds at each epoch that all of them have, and the range where there are several. */
function curveOf(row, experiment, values, x) {
  const points = new Map();
  const { runs, end } = countedRuns(row);
  for (const run of runs)
    run.epoch.forEach((epoch, i) => {
      const y = values(run)?.[i];
      if (y === null || y === undefined || epoch > end) return;
      const at = points.get(epoch) || { xs: [], ys: [] };
      at.xs.push(x === "epoch" ? epoch : run.seconds[i]);
      at.ys.push(y);
      points.set(epoch, at);
    });
  const mean = (list) => list.reduce((a, b) => a + b, 0) / list.length;
  const sorted = [...points.entries()]
    .filter((entry) => entry[1].ys.length === runs.length)
    .sort((a, b) => a[0] - b[0])
    .map((entry) => entry[1]);
  const several = runs.length > 1;
  const diverged = row.runs.find((run) => run.diverged);
  return {
    ...styleOf(row, experiment),
    label: row.name,
    x: sorted.map((p) => mean(p.xs)),
    y: sorted.map((p) => mean(p.ys)),
    low: several ? sorted.map((p) => Math.min(...p.ys)) : null,
    high: several ? sorted.map((p) => Math.max(...p.ys)) : null,
    end: diverged ? `diverged in epoch ${diverged.diverged.epoch}` : "",
  };
}

const legendOf = (curves) => curves.map(({ label, color, dash, end }) => ({ label, color, dash, end }));

/** Seconds on an axis, in the unit that suits the longest. */
function xAxis(kind, curves) {
  if (kind === "epoch") return { xLabel: "epoch", xFormat: (x) => `epoch ${short(x)}`, scale: 1 };
  const longest = Math.max(0, ...curves.flatMap((c) => c.x));
  const [unit, scale] = longest > 5400 ? ["h", 3600] : longest > 90 ? ["min", 60] : ["s", 1];
  return { xLabel: `time of training, ${unit}`, xFormat: (x) => `${short(x)} ${unit}`, scale };
}

/** Curves of a figure under the switches of its section. */
function curvesFigure(experiment, spec, view) {
  const rows = spec.rows.map((i) => experiment.rows[i]);
  const single = rows.length === 1;
  const describe = () => {
    const sets = single || view.set === "both" ? ["test", "train"] : [view.set];
    const curves = rows.flatMap((row) =>
      sets.map((set) => {
        const curve = curveOf(row, experiment, (run) => run[`${set}_${view.measure}`], view.against);
        if (sets.length > 1) curve.label += set === "test" ? ", test" : ", training";
        if (sets.length > 1 && set === "train") {
          curve.dash = [3, 3];
          if (single) curve.color = ink("muted-curve");
          curve.end = "";
        }
        return curve;
      }),
    );
    const { xLabel, xFormat, scale } = xAxis(view.against, curves);
    for (const c of curves) c.x = c.x.map((x) => x / scale);
    const marks = [];
    if (view.measure === "error" && view.against === "epoch" && sets.includes("test"))
      rows.forEach((row, i) => {
        if (row.paper && row.paper.epoch)
          marks.push({ curve: i * sets.length, x: row.paper.epoch, y: row.paper.error });
      });
    const yLabel = `${single || view.set === "both" ? "" : view.set === "test" ? "test " : "training "}${view.measure}${view.measure === "error" ? ", %" : ""}`;
    return {
      plots: [{ curves, xLabel, yLabel, xFormat, log: view.scale === "log", marks }],
      legend: legendOf(curves),
    };
  };
  return figure(spec.title, describe, { wide: rows.length > 4 });
}

/** Condition number and effective rank of what each layer was given. */
function layersFigure(experiment, view) {
  const blocks = Math.max(0, ...experiment.rows.flatMap((row) => row.runs.map((run) => run.layers.length)));
  if (blocks === 0) return null;
  const describe = () => {
    let legend = [];
    const plots = Array.from({ length: blocks }, (_, b) => {
      const curves = experiment.rows.map((row) =>
        curveOf(row, experiment, (run) => run.layers[b]?.[view.quantity], "epoch"),
      );
      legend = legendOf(curves);
      const channels = experiment.rows
        .flatMap((row) => row.runs.map((run) => run.layers[b]?.channels))
        .find((n) => n);
      return {
        title: `block ${b + 1}, ${channels} maps`,
        curves,
        xLabel: "epoch",
        xFormat: (x) => `epoch ${short(x)}`,
        yLabel: view.quantity === "condition" ? "condition number" : "effective rank",
        log: view.quantity === "condition",
      };
    });
    return { plots, legend };
  };
  return figure("What each layer was given", describe, {
    wide: true,
    note: "condition number and effective rank of the covariance of the epoch's last batch, as the layer conditioned it; infinite values are left out",
  });
}
