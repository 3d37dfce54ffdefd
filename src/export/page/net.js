// The net: steps over channels × rows × columns of numbers, sums in double as JavaScript has them.

const bytesOf = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));

/** Little-endian floats, as every engine of a browser has them. */
const floatsOf = (text) => new Float32Array(bytesOf(text).buffer);

const zeros = (channels, rows, columns) => ({
  channels,
  rows,
  columns,
  values: new Float64Array(channels * rows * columns),
});

/** The outputs along one direction whose tap `at` falls inside, first and one past the last. */
function inside(at, stride, size, outputs) {
  const first = Math.max(0, Math.ceil(-at / stride));
  const end = Math.min(outputs, Math.floor((size - 1 - at) / stride) + 1);
  return [first, Math.max(first, end)];
}

/** Adds a plane times one tap's weight to an output plane. */
function addTap(x, from, y, to, weight, [top, left], [down, across]) {
  const [firstRow, endRow] = inside(top, down, x.rows, y.rows);
  const [first, end] = inside(left, across, x.columns, y.columns);
  for (let r = firstRow; r < endRow; ++r) {
    let source = from + (r * down + top) * x.columns + first * across + left;
    const base = to + r * y.columns;
    for (let c = first; c < end; ++c, source += across) y.values[base + c] += weight * x.values[source];
  }
}

const steps = {
  conv(x, { weight, bias, outputs, kernel, stride, dilation, pads, groups }) {
    const extent = (size, k) =>
      Math.floor((size + pads[k] + pads[k + 2] - dilation[k] * (kernel[k] - 1) - 1) / stride[k]) + 1;
    const y = zeros(outputs, extent(x.rows, 0), extent(x.columns, 1));
    const plane = x.rows * x.columns,
      places = y.rows * y.columns,
      width = x.channels / groups;
    let tap = 0;
    for (let o = 0; o < outputs; ++o) {
      y.values.fill(bias[o], o * places, (o + 1) * places);
      const first = Math.floor(o / (outputs / groups)) * width;
      for (let i = 0; i < width; ++i)
        for (let r = 0; r < kernel[0]; ++r)
          for (let c = 0; c < kernel[1]; ++c, ++tap)
            addTap(
              x,
              (first + i) * plane,
              y,
              o * places,
              weight[tap],
              [r * dilation[0] - pads[0], c * dilation[1] - pads[1]],
              stride,
            );
    }
    return y;
  },
  relu(x) {
    for (let i = 0; i < x.values.length; ++i) if (x.values[i] < 0) x.values[i] = 0;
    return x;
  },
  average: (x) => pooled(x, (plane) => plane.reduce((sum, v) => sum + v, 0) / plane.length),
  largest: (x) => pooled(x, (plane) => plane.reduce((a, b) => Math.max(a, b))),
  flatten: (x) => ({ ...x, channels: x.values.length, rows: 1, columns: 1 }),
  linear(x, { weight, bias, outputs }) {
    const y = zeros(outputs, 1, 1);
    for (let o = 0, at = 0; o < outputs; ++o) {
      let sum = bias[o];
      for (let i = 0; i < x.values.length; ++i, ++at) sum += weight[at] * x.values[i];
      y.values[o] = sum;
    }
    return y;
  },
};

function pooled(x, value) {
  const y = zeros(x.channels, 1, 1),
    places = x.rows * x.columns;
  for (let c = 0; c < x.channels; ++c) y.values[c] = value(x.values.subarray(c * places, (c + 1) * places));
  return y;
}

/** A function from an image (bytes, rows × columns × channels) to its logits. */
function netOf(model) {
  const numbers = floatsOf(model.numbers);
  const take = ({ at, count }) => numbers.subarray(at, at + count);
  const plan = model.steps.map((step) =>
    step.weight ? { ...step, weight: take(step.weight), bias: take(step.bias) } : step,
  );
  const { rows, columns, channels } = model.image;
  return (bytes) => {
    let x = zeros(channels, rows, columns);
    for (let place = 0; place < rows * columns; ++place)
      for (let c = 0; c < channels; ++c) x.values[c * rows * columns + place] = bytes[place * channels + c];
    for (const step of plan) x = steps[step.kind](x, step);
    return Array.from(x.values);
  };
}

function softmax(logits) {
  const largest = Math.max(...logits);
  const powers = logits.map((v) => Math.exp(v - largest));
  const sum = powers.reduce((a, b) => a + b);
  return powers.map((v) => v / sum);
}
