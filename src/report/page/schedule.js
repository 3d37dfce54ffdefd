// What the rules of training did in each epoch.

/** Batch and learning rate of every row, as steps. */
function scheduleFigure(experiment) {
  if (!experiment.rows.some((row) => row.runs.some((run) => run.epoch.length > 1))) return null;
  const describe = () => {
    const plotOf = (title, values) => ({
      title,
      curves: experiment.rows.map((row) => ({
        ...curveOf(row, experiment, values, "epoch"),
        ...{ steps: true, low: null, high: null, end: "" },
      })),
      xLabel: "epoch",
      xFormat: (x) => `epoch ${short(x)}`,
      yLabel: title,
      log: true,
    });
    const plots = [plotOf("batch", (run) => run.batch), plotOf("learning rate", (run) => run.learning_rate)];
    return { plots, legend: legendOf(plots[0].curves) };
  };
  return figure("Batch and learning rate", describe, {
    wide: true,
    note: "what the rules made of each row’s training loss, the mean over seeds",
  });
}
