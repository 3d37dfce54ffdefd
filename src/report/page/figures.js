// A figure: one or more plots of curves under one legend, drawn when they come into sight.

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

/** The legend: a button for each curve, in all plots at once, with its value under the cursor. */
function legendButtons(legend, hidden, plots) {
  const values = legend.map(() => el("span", { class: "value" }));
  const setShown = (i, show) => {
    if (show) hidden.delete(legend[i].label);
    else hidden.add(legend[i].label);
    entries[i].setAttribute("aria-pressed", String(show));
    for (const p of plots) p.toggle(i, show);
  };
  const focus = (i) => plots.forEach((p) => p.focus(i));
  const entries = legend.map((entry, i) =>
    el(
      "button",
      {
        type: "button",
        class: "entry",
        "aria-pressed": String(!hidden.has(entry.label)),
        title: "Show or hide",
        onclick: () => setShown(i, hidden.has(entry.label)),
        onmouseenter: () => focus(i),
        onmouseleave: () => focus(null),
      },
      swatch(entry),
      el(
        "span",
        { class: "entry-label" },
        entry.label,
        entry.end ? el("em", {}, ` ${entry.end}`) : null,
        entry.paper ? el("span", { class: "paper" }, ` ${entry.paper}`) : null,
      ),
      values[i],
    ),
  );
  const setAll = (text, show) =>
    el("button", { type: "button", onclick: () => legend.forEach((_, i) => setShown(i, show)) }, text);
  if (legend.length > 3)
    entries.push(el("span", { class: "all" }, setAll("all", true), setAll("none", false)));
  const setValues = (ys) =>
    ys.forEach((y, i) => {
      values[i].textContent = y === null ? "" : short(y);
    });
  return { entries, setValues };
}

/** To the width of their places, which the window gives them. */
function resizePlots(plots) {
  for (const { u } of plots) {
    const place = u.root.parentNode;
    if (place.clientWidth > 0 && (place.clientWidth !== u.width || place.clientHeight !== u.height))
      u.setSize({ width: place.clientWidth, height: place.clientHeight });
  }
}

/**
 * A card with plots and their legend. `describe()` returns {plots: [{title, …plot options}], legend:
 * [{label, color, dash, end, paper, shown}]}, anew at each redraw(): curve i of every plot is entry i. Labels in `aside` are
 * hidden until they are asked for. `note` may be a function, called at each redraw().
 */
function figure(title, describe, { wide = false, note = "" } = {}) {
  const plotsPlace = el("div", { class: "plots" });
  const legendPlace = el("div", { class: "legend" });
  const notePlace = el("span", { class: "note" });
  const caption = el(
    "figcaption",
    {},
    el("span", { class: "figure-title" }, title),
    notePlace,
  );
  const card = el(
    "figure",
    { class: wide ? "card wide" : "card", "data-figure": title },
    caption,
    plotsPlace,
    legendPlace,
  );
  const hidden = new Set(), // labels of curves that are not shown, through all redraws
    setAside = new Set(), // those that once were hidden unasked
    made = [];
  let drawn = false;
  const draw = () => {
    drawn = true;
    for (const { u } of made.splice(0)) u.destroy();
    const { plots, legend, aside = [] } = describe();
    for (const label of aside) {
      if (!setAside.has(label)) hidden.add(label);
      setAside.add(label);
    }
    const { entries, setValues } = legendButtons(legend, hidden, made);
    legendPlace.replaceChildren(...entries);
    // All places before the first plot: they share the room.
    const places = plots.map(() => el("div", { class: "plot" }));
    plotsPlace.replaceChildren(
      ...plots.map(({ title }, i) => el("div", { class: "plot-box" }, title ? el("h4", {}, title) : null, places[i])),
    );
    plots.forEach((options, i) => made.push(plot(places[i], { ...options, hover: setValues })));
    legend.forEach((entry, i) => {
      if (hidden.has(entry.label)) for (const p of made) p.toggle(i, false);
    });
    notePlace.textContent = typeof note === "function" ? note() : note;
    card.dataset.ready = "true";
  };
  new ResizeObserver(() => resizePlots(made)).observe(plotsPlace);
  drawLater(card, draw);
  return {
    card,
    redraw: () => {
      if (drawn) draw();
    },
  };
}
