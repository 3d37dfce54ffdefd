// From strokes and pictures to images of the size and kind the net was trained on.

const makeCanvas = (rows, columns) => Object.assign(document.createElement("canvas"), { width: columns, height: rows });

/** Grey or colour bytes, rows × columns × channels, of what is on a canvas. */
function bytesOn(canvas, channels) {
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const out = new Uint8Array((pixels.length / 4) * channels);
  for (let p = 0; p < pixels.length / 4; ++p) {
    const [r, g, b] = pixels.subarray(4 * p, 4 * p + 3);
    if (channels === 1) out[p] = Math.round(0.299 * r + 0.587 * g + 0.114 * b);
    else out.set([r, g, b], 3 * p);
  }
  return out;
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
    return bytesOn(canvas, image.channels);
  };
  const first = draw(0, 0);
  let mass = 0,
    x = 0,
    y = 0;
  for (let p = 0; p < image.rows * image.columns; ++p) {
    const value = first[p * image.channels];
    mass += value;
    x += value * ((p % image.columns) + 0.5);
    y += value * (Math.floor(p / image.columns) + 0.5);
  }
  return mass > 0 ? draw(x / mass - image.columns / 2, y / mass - image.rows / 2) : first;
}

/** A picture cut to the image's form and scaled in halves, so that no pixel is passed over. */
function imageOf(picture, image, dark) {
  const ratio = image.columns / image.rows;
  let width = Math.min(picture.width, picture.height * ratio),
    height = width / ratio;
  let source = picture,
    from = [(picture.width - width) / 2, (picture.height - height) / 2, width, height];
  for (;;) {
    const last = width <= 2 * image.columns && height <= 2 * image.rows;
    width = last ? image.columns : Math.ceil(width / 2);
    height = last ? image.rows : Math.ceil(height / 2);
    const next = makeCanvas(height, width),
      context = next.getContext("2d", { willReadFrequently: true });
    context.imageSmoothingQuality = "high";
    context.drawImage(source, ...from, 0, 0, width, height);
    source = next;
    from = [0, 0, width, height];
    if (last) break;
  }
  const bytes = bytesOn(source, image.channels);
  // Ink on paper, where the net knows light on dark.
  if (dark && bytes.reduce((sum, v) => sum + v, 0) > 127 * bytes.length)
    for (let i = 0; i < bytes.length; ++i) bytes[i] = 255 - bytes[i];
  return bytes;
}
