// The page: a board to draw on, pictures to open, test images to try; the answer beside it.

const byId = (id) => document.getElementById(id);
const model = JSON.parse(byId("model").textContent);
const net = netOf(model);
const percent = (share) => `${(100 * share).toFixed(1)} %`;

byId("facts").textContent = model.facts;

const bars = model.classes.map((name) => {
  const row = document.createElement("li"),
    label = document.createElement("span");
  label.textContent = name;
  row.append(label, document.createElement("i"), document.createElement("b"));
  byId("bars").append(row);
  return row;
});
// Of many classes the likeliest are enough.
const shown = Math.min(10, bars.length);

function setBars(visible, share) {
  bars.forEach((row, k) => {
    row.hidden = !visible.has(k);
    row.querySelector("i").style.width = share ? `${100 * share[k]}%` : "0";
    row.querySelector("b").textContent = share ? percent(share[k]) : "";
  });
}

/** In letters as large as its longest word has room for. */
function setAnswer(text) {
  const answer = byId("answer");
  answer.textContent = text;
  answer.classList.remove("broken");
  let size = 70;
  do answer.style.fontSize = `${size}px`;
  while (answer.scrollWidth > answer.clientWidth && (size -= 3) > 16);
  answer.classList.toggle("broken", size <= 16);
}

function show(probabilities, label) {
  const order = [...probabilities.keys()].sort((a, b) => probabilities[b] - probabilities[a]);
  setBars(new Set(order.slice(0, shown)), probabilities);
  setAnswer(model.classes[order[0]]);
  if (label === undefined) delete byId("answer").dataset.right;
  else byId("answer").dataset.right = order[0] === label ? "yes" : "no";
}

/**
 * The net's answer to an image, shown with what it saw: in the form of the picture it was made of, not in that of the
 * net's pixels.
 */
function ask(bytes, { label, width = model.image.columns, height = model.image.rows } = {}) {
  const start = performance.now();
  const logits = net(bytes);
  byId("time").textContent = `Answered in ${(performance.now() - start).toFixed(0)} ms, in this browser alone.`;
  const seen = byId("seen"),
    unit = 92 / Math.max(width, height);
  seen.hidden = false;
  seen.style.width = `${width * unit}px`;
  seen.style.height = `${height * unit}px`;
  paint(seen, bytes, model.image);
  show(softmax(logits), label);
}

// ---------------------------------------------------------------------------------------- the board

const board = byId("drawing"),
  pen = board.getContext("2d");
let strokes = [],
  asked = 0;

const place = (event) => {
  const frame = board.getBoundingClientRect();
  return [
    ((event.clientX - frame.left) / frame.width) * board.width,
    ((event.clientY - frame.top) / frame.height) * board.height,
  ];
};

function redraw() {
  pen.clearRect(0, 0, board.width, board.height);
  pen.strokeStyle = "#fff";
  pen.lineWidth = board.width / 13;
  trace(pen, strokes);
  cancelAnimationFrame(asked);
  asked = requestAnimationFrame(() => strokes.length > 0 && ask(digitOf(strokes, model.image)));
}

function clear() {
  strokes = [];
  redraw();
  pen.fillStyle = "#8a94a6";
  pen.font = "28px system-ui, sans-serif";
  pen.textAlign = "center";
  pen.fillText(model.draws ? "Draw here" : "Drop, paste or open a picture", board.width / 2, board.height / 2);
  setAnswer("–");
  delete byId("answer").dataset.right;
  setBars(new Set([...bars.keys()].slice(0, shown)));
  byId("seen").hidden = true;
  byId("time").textContent = "";
}

board.addEventListener("pointerdown", (event) => {
  if (!model.draws) return;
  board.setPointerCapture(event.pointerId);
  strokes.push([place(event)]);
  redraw();
});
board.addEventListener("pointermove", (event) => {
  if (!board.hasPointerCapture(event.pointerId)) return;
  for (const each of event.getCoalescedEvents?.() ?? [event]) strokes.at(-1).push(place(each));
  redraw();
});
board.addEventListener("keydown", (event) => {
  if (["Delete", "Backspace", "Escape"].includes(event.key)) clear();
});
byId("clear").addEventListener("click", clear);

// ------------------------------------------------------------------------------- pictures and samples

// Of colours as they are in the file: training knows no profiles.
const pictureIn = (file) => createImageBitmap(file, { colorSpaceConversion: "none" });

function bytesOfPicture(picture) {
  const bytes = imageOf(picture, model.image);
  return model.inverts ? lightOnDark(bytes) : bytes;
}

async function open(file) {
  try {
    const picture = await pictureIn(file);
    showOnBoard(picture);
    ask(bytesOfPicture(picture), picture);
  } catch {
    byId("time").textContent = `${file.name || "What was dropped"}: expected a picture, found something else.`;
  }
}

function fitted({ width, height }) {
  const scale = Math.min(board.width / width, board.height / height);
  return [(board.width - width * scale) / 2, (board.height - height * scale) / 2, width * scale, height * scale];
}

function showOnBoard(picture) {
  clear();
  pen.clearRect(0, 0, board.width, board.height);
  pen.imageSmoothingEnabled = picture.width > board.width;
  pen.drawImage(picture, ...fitted(picture));
}

byId("file").addEventListener("change", (event) => event.target.files[0] && open(event.target.files[0]));
document.addEventListener("dragover", (event) => event.preventDefault());
document.addEventListener("drop", (event) => {
  event.preventDefault();
  if (event.dataTransfer.files[0]) open(event.dataTransfer.files[0]);
});
document.addEventListener("paste", (event) => event.clipboardData.files[0] && open(event.clipboardData.files[0]));

if (model.samples.labels.length > 0) {
  byId("samples").hidden = false;
  const all = bytesOf(model.samples.pixels),
    size = all.length / model.samples.labels.length;
  model.samples.labels.forEach((label, k) => {
    const bytes = all.subarray(k * size, (k + 1) * size),
      button = document.createElement("button"),
      canvas = document.createElement("canvas");
    paint(canvas, bytes, model.image);
    button.type = "button";
    button.title = model.classes[label];
    button.setAttribute("aria-label", `A test image of ${model.classes[label]}`);
    button.append(canvas);
    button.addEventListener("click", () => {
      showOnBoard(canvas);
      ask(bytes, { label });
    });
    byId("strip").append(button);
  });
}

// For whoever looks at the net from the console, and for tests: logits of rows × columns × channels of bytes, and those
// bytes of a picture's file.
window.orthobatch = { model, logits: net, bytesOfFile: async (file) => bytesOfPicture(await pictureIn(file)) };
clear();
document.documentElement.dataset.ready = "";
