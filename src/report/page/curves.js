// Curves of the rows: of a figure, and of the layers inside the nets.

const lastEpoch = (run) => (run.epoch.length ? run.epoch[run.epoch.length - 1] : 0);

/** The seeds that got furthest, as in the table; of a row that diverged all, as far as it got. */
function countedRuns(row) {
  const broken = row.runs.filter((run) => run.diverged).map(lastEpoch);
  const end = broken.length ? Math.min(...broken) : Math.max(0, ...row.runs.map(lastEpoch));
  return { runs: row.runs.filter((run) => lastEpoch(run) >= end), end };
}

/**
 * Mean over seeds at each epoch, or part of one, that all of them have, and the range where there are
 * several. `samples(run)` lists a run's points as {epoch, x, y}.
 */
function meanCurve(row, experiment, samples) {
  const points = new Map();
  const { runs, end } = countedRuns(row);
  for (const run of runs)
    for (const { epoch, x, y } of samples(run)) {
      if (y === null || y === undefined || epoch > end) continue;
      const at = points.get(epoch) || { xs: [], ys: [] };
      at.xs.push(x);
      at.ys.push(y);
      points.set(epoch, at);
    }
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

/** The same row; against time only with runs whose epochs took about as long as each other. */
const timed = (row, against) => (against === "epoch" ? row : { ...row, runs: row.runs.filter((run) => run.steady) });

/** What a figure against time says of the rows it leaves out. */
function untimedNote(rows, against) {
  const left = rows.filter((row) => row.runs.some(lastEpoch) && !row.runs.some((run) => run.steady));
  if (against === "epoch" || left.length === 0) return "";
  return `without ${left.map((row) => row.name).join(", ")}: the longest epoch took more than ${results.steady_ratio} times the shortest, because other programs were running`;
}

/** Of one value an epoch. */
function curveOf(row, experiment, values, against) {
  return meanCurve(timed(row, against), experiment, (run) =>
    run.epoch.map((epoch, i) => ({
      epoch,
      x: against === "epoch" ? epoch : run.seconds[i],
      y: values(run)?.[i],
    })),
  );
}

/** Of the training loss inside the epochs: each value is the mean over some steps. */
function stepsCurveOf(row, experiment, against) {
  return meanCurve(timed(row, against), experiment, (run) =>
    run.epoch.flatMap((epoch, i) => {
      const start = i > 0 ? run.seconds[i - 1] : 0;
      return run.curve[i].map((y, j) => {
        const part = (j + 0.5) / run.curve[i].length;
        const x = against === "epoch" ? epoch - 1 + part : start + part * (run.seconds[i] - start);
        return { epoch: epoch - 1 + part, x, y };
      });
    }),
  );
}

const legendOf = (curves) =>
  curves.map(({ label, color, dash, end, paper }) => ({ label, color, dash, end, paper }));

/** Seconds on an axis, in the unit that suits the longest. */
function xAxis(kind, curves) {
  if (kind === "epoch") return { xLabel: "epoch", xFormat: (x) => `epoch ${short(x)}`, scale: 1 };
  const longest = Math.max(0, ...curves.flatMap((c) => c.x));
  const [unit, scale] = longest > 5400 ? ["h", 3600] : longest > 90 ? ["min", 60] : ["s", 1];
  return { xLabel: `time of training, ${unit}`, xFormat: (x) => `${short(x)} ${unit}`, scale };
}

/** Labels of curves so far above the others that these would be squashed beneath them. */
function outliers(curves) {
  if (curves.length < 5) return [];
  const least = (curve) => Math.min(...curve.y);
  const drawn = curves.filter((c) => c.y.length).sort((a, b) => least(a) - least(b));
  const middle = drawn[Math.floor(drawn.length / 2)];
  return drawn.filter((c) => least(c) > 2 * least(middle)).map((c) => c.label);
}

/** Curves of a figure under the switches of its section. */
function curvesFigure(experiment, spec, view) {
  const rows = spec.rows.map((i) => experiment.rows[i]);
  const single = rows.length === 1;
  let aside = [];
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
        if (!row.paper) return;
        const right = Math.max(...curves.flatMap((c) => c.x));
        const curve = i * sets.length;
        marks.push({ curve, x: Math.min(row.paper.epoch ?? right, right), y: row.paper.error });
        curves[curve].paper = `paper ${number(row.paper.error, 2)}`;
      });
    const yLabel = `${single || view.set === "both" ? "" : view.set === "test" ? "test " : "training "}${view.measure}${view.measure === "error" ? ", %" : ""}`;
    return {
      plots: [{ curves, xLabel, yLabel, xFormat, log: view.scale === "log", marks }],
      legend: legendOf(curves),
      aside: (aside = outliers(curves)),
    };
  };
  const note = () =>
    [
      aside.length ? `far above the others, shown by a click in the legend: ${aside.join(", ")}` : "",
      untimedNote(rows, view.against),
    ]
      .filter((text) => text)
      .join("; ");
  return figure(spec.title, describe, { wide: rows.length > 4, note });
}

/** Training loss inside the epochs, of every row; null where no run has recorded it. */
function stepsFigure(experiment, view) {
  const recorded = (run) => run.curve.some((part) => part.length);
  if (!experiment.rows.some((row) => row.runs.some(recorded))) return null;
  const describe = () => {
    const curves = experiment.rows.map((row) => stepsCurveOf(row, experiment, view.against));
    const { xLabel, xFormat, scale } = xAxis(view.against, curves);
    for (const c of curves) c.x = c.x.map((x) => x / scale);
    return {
      plots: [{ curves, xLabel, yLabel: "training loss", xFormat, log: view.scale === "log", parts: true }],
      legend: legendOf(curves),
    };
  };
  return figure("Training loss inside the epochs", describe, {
    wide: true,
    note: () => untimedNote(experiment.rows, view.against),
  });
}

const quantities = {
  condition: "condition number",
  rank: "effective rank",
  exchanges: "exchanges of pivots in the epoch",
};

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
        yLabel: quantities[view.quantity],
        log: view.quantity === "condition",
      };
    });
    return { plots, legend };
  };
  return figure("What each layer was given", describe, {
    wide: true,
    note: "condition number and effective rank: covariance of the epoch's last batch, with the layer's floor; infinite values are left out. Exchanges of pivots (PLDLP only): sum over the epoch",
  });
}
