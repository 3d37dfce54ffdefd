// The results, and how numbers, colours and elements are made of them.

const results = JSON.parse(document.getElementById("results").textContent);

/** An element: attributes by name, "on…" as listeners, the rest as children (texts or elements). */
function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

const number = (x, digits) => (x === null || x === undefined ? "–" : x.toFixed(digits));
const grouped = (n) => n.toLocaleString("en-US");
const plural = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;

/** A value on an axis or under the cursor: three digits, whatever its size. */
function short(x) {
  if (x === null || x === undefined || !Number.isFinite(x)) return "–";
  const size = Math.abs(x);
  if (size !== 0 && (size < 1e-3 || size >= 1e5))
    return x.toExponential(1).replace(".0e", "e").replace("e+", "e");
  return String(Number(x.toPrecision(size >= 1000 ? 4 : 3)));
}

// A hue for each method, so that a layer has the same colour in every figure; W is told by the dash.
const hues = {
  BN: 215,
  ZCA: 142,
  ZCAM: 186,
  ZCAE: 50,
  ZCA_corr: 264,
  ZCAM_corr: 318,
  LDL: 22,
  PLDLP: 0,
  LDL_corr: 345,
  PCA: 0,
  ZCA_spectral: 100,
  IterNorm: 236,
};
const darkScheme = matchMedia("(prefers-color-scheme: dark)");
let printing = false;
const isDark = () => darkScheme.matches && !printing;
const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/** Colour and dash of a row. Where gradients are compared the dash tells the printed one. */
function styleOf(row, experiment) {
  const method = row.name.match(/^\w*/)[0];
  const printed = row.name.includes("gradient=paper");
  // Shades tell the arguments apart; W too, where the dash is taken.
  const shadeOf = (name) => {
    const plain = name.replace(/,?gradient=paper/, "").replace("()", "");
    return experiment.verdict ? plain : plain.replace(/->.*/, "");
  };
  const shades = [...new Set(experiment.rows.map((other) => shadeOf(other.name)))].filter(
    (name) => name.match(/^\w*/)[0] === method,
  );
  const place = Math.max(0, shades.indexOf(shadeOf(row.name)));
  const hue = method in hues ? hues[method] - 14 * (place % 2) : (experiment.rows.indexOf(row) * 137) % 360;
  const saturation = method === "PCA" ? 0 : isDark() ? 62 : 70;
  const lightness = (isDark() ? 66 : 40) + [0, -14, 14, 20][place % 4];
  let dash = row.name.endsWith("->W->Gamma") ? [2, 3] : row.name.endsWith("->W") ? [7, 4] : [];
  if (experiment.verdict) dash = printed ? [6, 4] : [];
  return { color: `hsl(${hue} ${saturation}% ${lightness}%)`, dash };
}

/** A short line in the row's colour and dash. */
function swatch({ color, dash }) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("class", "swatch");
  svg.setAttribute("viewBox", "0 0 22 8");
  const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
  for (const [name, value] of Object.entries({
    x1: 1,
    y1: 4,
    x2: 21,
    y2: 4,
    stroke: color,
    "stroke-width": 3,
    "stroke-dasharray": dash.join(" "),
  }))
    line.setAttribute(name, value);
  svg.append(line);
  return svg;
}

/** A choice of a few, as joined buttons; `change` gets the value. */
function choice(label, values, chosen, change) {
  const buttons = values.map(([value, text]) =>
    el(
      "button",
      {
        type: "button",
        "data-value": value,
        "aria-pressed": String(value === chosen),
        onclick: (event) => {
          for (const b of buttons) b.setAttribute("aria-pressed", String(b === event.currentTarget));
          change(value);
        },
      },
      text,
    ),
  );
  return el(
    "div",
    { class: "choice", role: "group", "aria-label": label, "data-choice": label },
    el("span", { class: "choice-label" }, label),
    el("div", { class: "buttons" }, buttons),
  );
}

function select(label, options, chosen, change) {
  return el(
    "label",
    { class: "select" },
    label,
    el(
      "select",
      {
        onchange: (event) => change(Number(event.target.value)),
      },
      options.map(([value, text]) => el("option", { value, selected: value === chosen }, text)),
    ),
  );
}

function bytesOf(text) {
  const chars = atob(text),
    bytes = new Uint8Array(chars.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = chars.charCodeAt(i);
  return bytes;
}
