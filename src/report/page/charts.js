// A figure: one or more plots of curves under one legend, drawn by uPlot.
//
// A curve is {row, label, color, dash, x, y, low, high, end}: low and high are null where there is one
// seed; `end` is a text for a curve that breaks off (a run that diverged).

const waiting = new Map(); // place → what draws there
const seen = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) if (entry.isIntersecting) drawNow(entry.target);
  },
  { rootMargin: "500px" },
);

function drawNow(place) {
  const draw = waiting.get(place);
  if (!draw) return;
  waiting.delete(place);
  seen.unobserve(place);
  try {
    draw();
  } catch (error) {
    // One figure that cannot be drawn does not take the others with it.
    console.error(error);
    place.append(el("p", { class: "remark" }, `⚠ cannot be drawn: ${error.message}`));
  }
}

/** Draws when the place comes near the window, or when there is nothing else to do. */
function drawLater(place, draw) {
  waiting.set(place, draw);
  seen.observe(place);
}

function drawRest() {
  for (const place of [...waiting.keys()]) drawNow(place);
}

/** All curves on one x: uPlot wants its data aligned. */
function aligned(curves, log) {
  const xs = [...new Set(curves.flatMap((c) => c.x))].sort((a, b) => a - b);
  const index = new Map(xs.map((x, i) => [x, i]));
  const column = (curve, values) => {
    const out = new Array(xs.length).fill(null);
    curve.x.forEach((x, i) => {
      const y = values[i];
      out[index.get(x)] = y === null || (log && y <= 0) ? null : y;
    });
    return out;
  };
  const data = [xs];
  for (const c of curves) {
    data.push(column(c, c.y));
    if (c.low) data.push(column(c, c.high), column(c, c.low));
  }
  return data;
}

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

const partSteps = [0.1, 0.2, 0.5];
const wholeSteps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];

function axis(label, size) {
  const rule = { stroke: ink("line"), width: 1 },
    font = "12px system-ui, sans-serif";
  return {
    label,
    size,
    labelSize: 18,
    labelGap: 0,
    gap: 4,
    labelFont: font,
    font,
    stroke: ink("muted"),
    grid: rule,
    ticks: { ...rule, size: 5 },
    values: tickTexts,
  };
}

const tickTexts = (u, ticks) => ticks.map((tick) => (tick === null ? null : short(tick)));

/** Ticks of a log axis at 1 … 9 of each decade; on one shorter than that, at round steps. */
function logTicks(u, axisIndex, min, max) {
  if (!(min > 0 && max > min)) return [];
  const ticks = [];
  for (let decade = 10 ** Math.floor(Math.log10(min)); decade <= max; decade *= 10)
    for (let digit = 1; digit <= 9; digit++)
      if (digit * decade >= min && digit * decade <= max) ticks.push(digit * decade);
  if (ticks.length >= 3) return ticks;
  const rough = (max - min) / 5,
    size = 10 ** Math.floor(Math.log10(rough));
  const step = size * [1, 2, 5, 10].find((n) => n * size >= rough);
  const round = [];
  for (let k = Math.ceil(min / step); k * step <= max; k++) round.push(k * step);
  return round;
}

/** Names for as many of them as there is room for. */
function namedLogTicks(u, ticks) {
  const digit = (x) => Math.round(x / 10 ** Math.floor(Math.log10(x) + 1e-9));
  const named = ticks.length <= 9 ? null : ticks.length <= 30 ? [1, 2, 5] : [1];
  return ticks.map((tick) => (!named || named.includes(digit(tick)) ? tick : null));
}

/** Around what is shown, the marks included; a log axis not rounded to whole decades. */
function yRange(low, high, log, marks, [left, right]) {
  if (low === null || high === null) return log ? [1, 10] : [0, 1];
  const near = marks.filter((m) => m.x >= left && m.x <= right).map((m) => m.y);
  const min = Math.min(low, ...near),
    max = Math.max(high, ...near);
  if (log) return [min / 1.12, max * 1.12];
  const room = (max - min || Math.abs(max) || 1) * 0.06;
  return [min >= 0 ? Math.max(0, min - room) : min - room, max + room];
}

/**
 * One plot in `place`; `hover` is told which curve is under the cursor and the values of all; `parts`:
 * its points lie inside the epochs.
 */
function plot(place, { curves, xLabel, yLabel, log, xFormat, hover, marks = [], parts = false }) {
  const data = aligned(curves, log);
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
      points: { show: c.x.length < 40, size: 5, fill: c.color, stroke: c.color },
    });
    if (!c.low) return;
    const hidden = { stroke: "transparent", width: 0, points: { show: false }, spanGaps: true };
    bands.push({ series: [series.length, series.length + 1], fill: faded(c.color, 0.18) });
    series.push({ ...hidden }, { ...hidden });
    curveOf.push(-1, -1);
  });
  const tip = el("div", { class: "tip", hidden: true });
  const xs = data[0];
  const xRange =
    xs.length === 0
      ? [0, 1]
      : xs[0] === xs[xs.length - 1]
        ? [xs[0] - 0.5, xs[0] + 0.5]
        : parts && xLabel === "epoch"
          ? [Math.floor(xs[0]), Math.ceil(xs[xs.length - 1])]
          : [xs[0], xs[xs.length - 1]];
  const steps = parts ? [...partSteps, ...wholeSteps] : wholeSteps;
  let focused = null;
  const showTip = (u) => {
    const { idxs, left, top } = u.cursor;
    const curve = focused === null ? null : curves[curveOf[focused]];
    const at = curve && idxs ? idxs[focused] : null;
    tip.hidden = !curve || at === null || at === undefined || left < 0;
    if (tip.hidden) return;
    tip.textContent = `${curve.label}: ${short(u.data[focused][at])} at ${xFormat(u.data[0][at])}`;
    const width = u.over.clientWidth;
    tip.style.transform = `translate(${left > width / 2 ? "calc(-100% - 12px)" : "12px"}, -130%)`;
    tip.style.left = `${left}px`;
    tip.style.top = `${Math.max(top, 34)}px`;
  };
  const u = new uPlot(
    {
      width: Math.max(place.clientWidth, 200),
      height: place.clientHeight,
      scales: {
        x: { time: false, range: () => xRange },
        y: { distr: log ? 3 : 1, range: (self, low, high) => yRange(low, high, log, marks, xRange) },
      },
      axes: [
        { ...axis(xLabel, 30), ...(xLabel === "epoch" ? { incrs: steps } : {}) },
        { ...axis(yLabel, 52), ...(log ? { splits: logTicks, filter: namedLogTicks } : {}) },
      ],
      series,
      bands,
      legend: { show: false },
      focus: { alpha: 0.22 },
      cursor: {
        focus: { prox: 24 },
        dataIdx: nearestPoint,
        drag: { x: true, y: false },
        points: { size: 9, show: (self, i) => (curveOf[i] < 0 ? null : undefined) },
      },
      hooks: {
        setCursor: [
          (self) => {
            hover(
              curves.map((c, i) => {
                const s = seriesOf[i],
                  at = self.cursor.idxs && self.cursor.left >= 0 ? self.cursor.idxs[s] : null;
                return at === null || at === undefined ? null : self.data[s][at];
              }),
            );
            showTip(self);
          },
        ],
        setSeries: [
          (self, i, options) => {
            if (options.focus === undefined) return;
            focused = i !== null && i > 0 && curveOf[i] >= 0 ? i : null;
            showTip(self);
          },
        ],
        draw: [(self) => drawMarks(self, curves, seriesOf, marks)],
      },
    },
    data,
    place,
  );
  u.over.append(tip);
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

/** A cross where a run diverged; a diamond at the paper's value. */
function drawMarks(u, curves, seriesOf, marks) {
  const { ctx } = u,
    unit = devicePixelRatio;
  ctx.save();
  curves.forEach((c, i) => {
    if (!c.end || !u.series[seriesOf[i]].show || c.x.length === 0) return;
    const last = c.x.length - 1;
    const x = u.valToPos(c.x[last], "x", true),
      y = u.valToPos(c.y[last], "y", true),
      r = 6 * unit;
    ctx.strokeStyle = ink("bad");
    ctx.lineWidth = 2.5 * unit;
    ctx.beginPath();
    ctx.moveTo(x - r, y - r);
    ctx.lineTo(x + r, y + r);
    ctx.moveTo(x + r, y - r);
    ctx.lineTo(x - r, y + r);
    ctx.stroke();
  });
  for (const mark of marks) {
    const { min, max } = u.scales.x,
      y = u.scales.y;
    if (
      !u.series[seriesOf[mark.curve]].show ||
      mark.x < min ||
      mark.x > max ||
      mark.y < y.min ||
      mark.y > y.max
    )
      continue;
    const px = u.valToPos(mark.x, "x", true),
      py = u.valToPos(mark.y, "y", true),
      r = 6 * unit;
    ctx.strokeStyle = curves[mark.curve].color;
    ctx.fillStyle = ink("card");
    ctx.lineWidth = 2 * unit;
    ctx.beginPath();
    ctx.moveTo(px, py - r);
    ctx.lineTo(px + r, py);
    ctx.lineTo(px, py + r);
    ctx.lineTo(px - r, py);
    ctx.closePath();
    ctx.fill();
    ctx.stroke();
  }
  ctx.restore();
}

/**
 * A card with plots and their legend. `describe()` returns {plots: [{title, …plot options}], legend:
 * [{label, color, dash, end, shown}]}, anew at each redraw(): curve i of every plot is entry i.
 */
function figure(title, describe, { wide = false, note = "" } = {}) {
  const plotsPlace = el("div", { class: "plots" });
  const legendPlace = el("div", { class: "legend" });
  const hidden = new Set();
  const card = el(
    "figure",
    { class: wide ? "card wide" : "card", "data-figure": title },
    el(
      "figcaption",
      {},
      el("span", { class: "figure-title" }, title),
      note ? el("span", { class: "note" }, note) : null,
    ),
    plotsPlace,
    legendPlace,
  );
  let made = [],
    drawn = false;
  const draw = () => {
    drawn = true;
    for (const { u } of made) u.destroy();
    made = [];
    const { plots, legend } = describe();
    plotsPlace.replaceChildren();
    legendPlace.replaceChildren();
    const values = legend.map(() => el("span", { class: "value" }));
    const setShown = (i, show) => {
      if (show) hidden.delete(legend[i].label);
      else hidden.add(legend[i].label);
      entries[i].setAttribute("aria-pressed", String(show));
      for (const m of made) m.toggle(i, show);
    };
    const entries = legend.map((entry, i) =>
      el(
        "button",
        {
          type: "button",
          class: "entry",
          "aria-pressed": String(!hidden.has(entry.label)),
          title: "Show or hide",
          onclick: () => setShown(i, hidden.has(entry.label)),
          onmouseenter: () => made.forEach((m) => m.focus(i)),
          onmouseleave: () => made.forEach((m) => m.focus(null)),
        },
        swatch(entry),
        el("span", { class: "entry-label" }, entry.label, entry.end ? el("em", {}, ` ${entry.end}`) : null),
        values[i],
      ),
    );
    legendPlace.append(...entries);
    if (legend.length > 3)
      legendPlace.append(
        el(
          "span",
          { class: "all" },
          el("button", { type: "button", onclick: () => legend.forEach((_, i) => setShown(i, true)) }, "all"),
          el(
            "button",
            { type: "button", onclick: () => legend.forEach((_, i) => setShown(i, false)) },
            "none",
          ),
        ),
      );
    for (const options of plots) {
      const place = el("div", { class: "plot" });
      plotsPlace.append(
        el("div", { class: "plot-box" }, options.title ? el("h4", {}, options.title) : null, place),
      );
      made.push(
        plot(place, {
          ...options,
          hover: (ys) =>
            ys.forEach((y, i) => {
              values[i].textContent = y === null ? "" : short(y);
            }),
        }),
      );
    }
    legend.forEach((entry, i) => {
      if (hidden.has(entry.label)) for (const m of made) m.toggle(i, false);
    });
    card.dataset.ready = "true";
  };
  const resize = () => {
    for (const { u } of made) {
      const place = u.root.parentNode;
      if (place.clientWidth > 0 && place.clientWidth !== u.width)
        u.setSize({ width: place.clientWidth, height: place.clientHeight });
    }
  };
  new ResizeObserver(resize).observe(plotsPlace);
  drawLater(card, draw);
  return {
    card,
    redraw: () => {
      if (drawn) draw();
    },
  };
}
