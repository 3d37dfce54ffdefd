// A plot of curves, drawn by uPlot.
//
// A curve is {row, label, color, dash, x, y, low, high, end}: low and high are null where there is one
// seed; `end` is a text for a curve that breaks off (a run that diverged).

/** The nearest point of a curve: with time on the axis each has its own x. */
function nearestPoint(u, series, hovered, x) {
  const xs = u.data[0],
    ys = u.data[series];
  let best = null;
  for (let i = 0; i < xs.length; i++)
    if (ys[i] !== null && (best === null || Math.abs(xs[i] - x) < Math.abs(xs[best] - x))) best = i;
  return best === null ? hovered : best;
}

function faded(color, alpha) {
  return color.replace(")", ` / ${alpha})`);
}

/** What uPlot draws: a series for each curve, two more around one with a band. */
function seriesOfCurves(curves) {
  const series = [{}],
    bands = [],
    curveOf = [-1],
    seriesOf = [];
  curves.forEach((c, i) => {
    seriesOf.push(series.length);
    curveOf.push(i);
    series.push({
      label: c.label,
      stroke: c.color,
      width: 2,
      dash: c.dash,
      spanGaps: true,
      ...(c.steps ? { paths: uPlot.paths.stepped({ align: -1 }) } : {}),
      points: { show: !c.steps && c.x.length < 40, size: 5, fill: c.color, stroke: c.color },
    });
    if (!c.low) return;
    const hidden = { stroke: "transparent", width: 0, points: { show: false }, spanGaps: true };
    bands.push({ series: [series.length, series.length + 1], fill: faded(c.color, 0.18) });
    series.push({ ...hidden }, { ...hidden });
    curveOf.push(-1, -1);
  });
  return { series, bands, curveOf, seriesOf };
}

/** The value of the curve under the cursor, beside it. */
function tipOf(curves, curveOf, xFormat) {
  const box = el("div", { class: "tip", hidden: true });
  let focused = null;
  const show = (u) => {
    const { idxs, left, top } = u.cursor;
    const curve = focused === null ? null : curves[curveOf[focused]];
    const at = curve && idxs ? idxs[focused] : null;
    box.hidden = !curve || at === null || at === undefined || left < 0;
    if (box.hidden) return;
    box.textContent = `${curve.label}: ${short(u.data[focused][at])} at ${xFormat(u.data[0][at])}`;
    const width = u.over.clientWidth;
    box.style.transform = `translate(${left > width / 2 ? "calc(-100% - 12px)" : "12px"}, -130%)`;
    box.style.left = `${left}px`;
    box.style.top = `${Math.max(top, 34)}px`;
  };
  const focus = (u, i) => {
    focused = i !== null && i > 0 && curveOf[i] >= 0 ? i : null;
    show(u);
  };
  return { box, show, focus };
}

/** Of each curve, its value under the cursor; null where it has none. */
function valuesUnderCursor(u, seriesOf) {
  const { idxs, left } = u.cursor;
  return seriesOf.map((s) => {
    const at = idxs && left >= 0 ? idxs[s] : null;
    return at === null || at === undefined ? null : u.data[s][at];
  });
}

function plotAxes(xLabel, yLabel, log, parts, logX) {
  const steps = parts ? [...partSteps, ...wholeSteps] : wholeSteps;
  const logAxis = { splits: logTicks, filter: namedLogTicks };
  return [
    { ...axis(xLabel, 30), ...(xLabel === "epoch" ? { incrs: steps } : logX ? logAxis : {}) },
    { ...axis(yLabel, 52), ...(log ? logAxis : {}) },
  ];
}

/**
 * One plot in `place`; `hover` is told which curve is under the cursor and the values of all; `parts`:
 * its points lie inside the epochs.
 */
function plot(place, { curves, xLabel, yLabel, log, xFormat, hover, marks = [], parts = false, logX = false }) {
  const data = aligned(curves, log);
  const { series, bands, curveOf, seriesOf } = seriesOfCurves(curves);
  const tip = tipOf(curves, curveOf, xFormat);
  const range = xRange(data[0], parts && xLabel === "epoch");
  if (logX) [range[0], range[1]] = [range[0] / 1.1, range[1] * 1.1];
  const onCursor = (u) => {
    hover(valuesUnderCursor(u, seriesOf));
    tip.show(u);
  };
  const onSeries = (u, i, options) => {
    if (options.focus !== undefined) tip.focus(u, i);
  };
  const options = {
    width: Math.max(place.clientWidth, 200),
    height: place.clientHeight,
    scales: {
      x: { time: false, distr: logX ? 3 : 1, range: () => range },
      y: { distr: log ? 3 : 1, range: (u, low, high) => yRange(low, high, log, marks.filter(({ curve }) => u.series[seriesOf[curve]].show), range) },
    },
    axes: plotAxes(xLabel, yLabel, log, parts, logX),
    series,
    bands,
    legend: { show: false },
    focus: { alpha: 0.22 },
    cursor: {
      focus: { prox: 24 },
      dataIdx: nearestPoint,
      drag: { x: true, y: false },
      points: { size: 9, show: (u, i) => (curveOf[i] < 0 ? null : undefined) },
    },
    hooks: {
      setCursor: [onCursor],
      setSeries: [onSeries],
      draw: [(u) => drawMarks(u, curves, seriesOf, marks)],
    },
  };
  const u = new uPlot(options, data, place);
  u.over.append(tip.box);
  return {
    u,
    toggle(i, show) {
      const first = seriesOf[i];
      u.setSeries(first, { show });
      if (curves[i].low) for (const k of [1, 2]) u.setSeries(first + k, { show });
    },
    focus: (i) => u.setSeries(i === null ? null : seriesOf[i], { focus: true }),
  };
}

/** Through the points, one after another; each is an offset from (x, y). */
function path(ctx, x, y, points) {
  points.forEach(([dx, dy], i) => (i === 0 ? ctx.moveTo(x + dx, y + dy) : ctx.lineTo(x + dx, y + dy)));
}

/** Where a run diverged. */
function drawCross(ctx, x, y, unit) {
  const r = 6 * unit;
  ctx.strokeStyle = ink("bad");
  ctx.lineWidth = 2.5 * unit;
  ctx.beginPath();
  path(ctx, x, y, [
    [-r, -r],
    [r, r],
  ]);
  path(ctx, x, y, [
    [r, -r],
    [-r, r],
  ]);
  ctx.stroke();
}

/** At the paper's value. */
function drawDiamond(ctx, x, y, unit, color) {
  const r = 6 * unit;
  ctx.strokeStyle = color;
  ctx.fillStyle = ink("card");
  ctx.lineWidth = 2 * unit;
  ctx.beginPath();
  path(ctx, x, y, [
    [0, -r],
    [r, 0],
    [0, r],
    [-r, 0],
  ]);
  ctx.closePath();
  ctx.fill();
  ctx.stroke();
}

/** What stands on the curves that are shown, as far as it is in sight. */
function drawMarks(u, curves, seriesOf, marks) {
  const { ctx } = u,
    unit = devicePixelRatio;
  const shown = (curve) => u.series[seriesOf[curve]].show;
  const inside = (value, { min, max }) => value >= min && value <= max;
  const at = (x, y) => [u.valToPos(x, "x", true), u.valToPos(y, "y", true)];
  ctx.save();
  curves.forEach((c, i) => {
    const last = c.x.length - 1;
    if (c.end && shown(i) && last >= 0) drawCross(ctx, ...at(c.x[last], c.y[last]), unit);
  });
  for (const { curve, x, y } of marks)
    if (shown(curve) && inside(x, u.scales.x) && inside(y, u.scales.y))
      drawDiamond(ctx, ...at(x, y), unit, curves[curve].color);
  ctx.restore();
}
