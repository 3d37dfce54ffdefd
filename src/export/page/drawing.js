// From strokes and pictures to images of the size and kind the net was trained on.

const makeCanvas = (rows, columns) => Object.assign(document.createElement("canvas"), { width: columns, height: rows });

/** Grey bytes, rows × columns, of what is on a canvas in white. */
function bytesOn(canvas) {
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  return Uint8Array.from({ length: pixels.length / 4 }, (_, p) => pixels[4 * p]);
}

function paint(canvas, bytes, { rows, columns, channels }) {
  canvas.width = columns;
  canvas.height = rows;
  const picture = new ImageData(columns, rows);
  for (let p = 0; p < rows * columns; ++p) {
    const colour = channels === 1 ? Array(3).fill(bytes[p]) : bytes.subarray(3 * p, 3 * p + 3);
    picture.data.set([...colour, 255], 4 * p);
  }
  canvas.getContext("2d").putImageData(picture, 0, 0);
}

function trace(context, strokes) {
  context.lineCap = context.lineJoin = "round";
  for (const stroke of strokes) {
    context.beginPath();
    context.moveTo(...stroke[0]);
    for (const point of stroke.length > 1 ? stroke.slice(1) : stroke) context.lineTo(...point);
    context.stroke();
  }
}

/**
 * Strokes as MNIST has its digits: the longer side 20 of 28 pixels, lines of an even width, the centre of mass
 * in the middle.
 */
function digitOf(strokes, image) {
  const size = Math.min(image.rows, image.columns),
    box = (size * 20) / 28,
    line = size / 12;
  const points = strokes.flat();
  const low = [0, 1].map((d) => Math.min(...points.map((p) => p[d]))),
    high = [0, 1].map((d) => Math.max(...points.map((p) => p[d])));
  const scale = (box - line) / Math.max(high[0] - low[0], high[1] - low[1], 1);
  const draw = (x, y) => {
    const canvas = makeCanvas(image.rows, image.columns),
      context = canvas.getContext("2d", { willReadFrequently: true });
    context.fillRect(0, 0, image.columns, image.rows);
    context.translate(image.columns / 2 - x, image.rows / 2 - y);
    context.strokeStyle = "#fff";
    context.lineWidth = line;
    const middle = [0, 1].map((d) => (low[d] + high[d]) / 2);
    trace(
      context,
      strokes.map((s) => s.map((p) => p.map((v, d) => (v - middle[d]) * scale))),
    );
    return bytesOn(canvas);
  };
  const first = draw(0, 0);
  let mass = 0,
    x = 0,
    y = 0;
  for (let p = 0; p < image.rows * image.columns; ++p) {
    const value = first[p];
    mass += value;
    x += value * ((p % image.columns) + 0.5);
    y += value * (Math.floor(p / image.columns) + 0.5);
  }
  return mass > 0 ? draw(x / mass - image.columns / 2, y / mass - image.rows / 2) : first;
}

// The scaling of src/data/rescale.cpp, which training and eval read pictures with, to the last bit: sums are of floats.

/** The pixels that each output pixel is made of: the first, and weights that sum to 1. */
function windowsOf(from, to) {
  const scale = from / to,
    reach = Math.max(1, scale);
  return Array.from({ length: to }, (_, i) => {
    const centre = (i + 0.5) * scale,
      first = Math.max(0, Math.floor(centre - reach)),
      last = Math.min(from - 1, Math.ceil(centre + reach));
    const weights = [];
    for (let k = first; k <= last; ++k) weights.push(Math.max(0, 1 - Math.abs(k + 0.5 - centre) / reach));
    const sum = weights.reduce((a, b) => a + b, 0);
    return { first, weights: Float32Array.from(weights, (w) => w / sum) };
  });
}

/** Rows of a picture, over white, each scaled to `columns`: floats of red, green, blue. */
function narrowed(picture, columns) {
  const { width, height } = picture,
    strip = Math.min(height, 256), // a photo is not in memory twice
    context = makeCanvas(strip, width).getContext("2d", { willReadFrequently: true }),
    across = windowsOf(width, columns),
    out = new Float32Array(height * columns * 3);
  let at = 0;
  for (let top = 0; top < height; top += strip) {
    const rows = Math.min(strip, height - top);
    context.fillStyle = "#fff";
    context.fillRect(0, 0, width, rows);
    context.drawImage(picture, 0, top, width, rows, 0, 0, width, rows);
    const pixels = context.getImageData(0, 0, width, rows).data;
    for (let y = 0; y < rows; ++y)
      for (const { first, weights } of across)
        for (let c = 0; c < 3; ++c) {
          let p = 4 * (y * width + first) + c,
            sum = 0;
          for (const weight of weights) {
            sum = Math.fround(sum + Math.fround(weight * pixels[p]));
            p += 4;
          }
          out[at++] = sum;
        }
  }
  return out;
}

/** A picture at the image's size, each direction by itself, as training stretches its files. */
function imageOf(picture, { rows, columns, channels }) {
  const size = 3 * columns,
    wide = narrowed(picture, columns),
    sums = new Float32Array(size),
    out = new Uint8Array(rows * columns * channels);
  windowsOf(picture.height, rows).forEach(({ first, weights }, y) => {
    sums.fill(0);
    weights.forEach((weight, k) => {
      const row = (first + k) * size;
      for (let i = 0; i < size; ++i) sums[i] += Math.fround(weight * wide[row + i]);
    });
    const bytes = sums.map((sum) => Math.min(255, Math.floor(Math.fround(sum + 0.5))));
    if (channels === 3) out.set(bytes, y * size);
    else
      for (let x = 0; x < columns; ++x)
        out[y * columns + x] = Math.floor((299 * bytes[3 * x] + 587 * bytes[3 * x + 1] + 114 * bytes[3 * x + 2] + 500) / 1000);
  });
  return out;
}

/** Ink on paper as light on dark, which is all that MNIST's digits are. */
function lightOnDark(bytes) {
  return bytes.reduce((sum, v) => sum + v, 0) > 127 * bytes.length ? bytes.map((v) => 255 - v) : bytes;
}
