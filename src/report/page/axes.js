// The data of a plot on common axes, and their ticks and ranges.

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

/** Ticks of a log axis at 1 … 9 of each decade; on one much shorter than that, at round steps. */
function logTicks(u, axisIndex, min, max) {
  if (!(min > 0 && max > min)) return [];
  if (max / min < 5) {
    const rough = (max - min) / 6,
      size = 10 ** Math.floor(Math.log10(rough));
    const step = size * [1, 2, 2.5, 5, 10].find((n) => n * size >= rough);
    const first = Math.ceil(min / step);
    return Array.from({ length: Math.floor(max / step) - first + 1 }, (_, k) => (first + k) * step);
  }
  const ticks = [];
  for (let decade = 10 ** Math.floor(Math.log10(min)); decade <= max; decade *= 10)
    for (let digit = 1; digit <= 9; digit++)
      if (digit * decade >= min && digit * decade <= max) ticks.push(digit * decade);
  return ticks;
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

/** Around all points; for one point, around it; with points inside the epochs, whole epochs. */
function xRange(xs, wholeEpochs) {
  if (xs.length === 0) return [0, 1];
  const first = xs[0],
    last = xs[xs.length - 1];
  if (first === last) return [first - 0.5, first + 0.5];
  return wholeEpochs ? [Math.floor(first), Math.ceil(last)] : [first, last];
}
