// Test error against the number of training images, with a line for each layer.

function trendFigure(experiment) {
  const { to, layers } = experiment.trend || { layers: [] };
  if (!layers.length) return null;
  const describe = () => {
    const curves = layers.flatMap(({ name, row, images, error, deviation, line }) => {
      const style = { ...styleOf(experiment.rows[row], experiment), end: "" };
      return [
        {
          ...style,
          label: name,
          x: images,
          y: error,
          low: error.map((e, i) => e - deviation[i]),
          high: error.map((e, i) => e + deviation[i]),
        },
        { ...style, label: `${name}, line`, dash: [6, 4], x: [images[0], to], y: line, low: null, high: null },
      ];
    });
    const xFormat = (x) => `${grouped(x)} images`;
    return {
      plots: [{ curves, xLabel: "training images", yLabel: "least test error, %", xFormat, log: true, logX: true }],
      legend: legendOf(curves),
    };
  };
  return figure("Test error against training images", describe, {
    wide: true,
    note: `points and deviations over seeds; dashed, a line by least squares through their logarithms, up to ${grouped(to)} images`,
  });
}
