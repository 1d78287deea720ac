// Charts: each function makes traces and a layout from the data and the position of the slider.

const views = lazily(data.points.views);
const changes = lazily(data.pairs.change);
const names = data.table.names;
const last = data.steps.length - 1;
const PALETTE = ["#3f90da", "#e08a00", "#bd1f01", "#94a4a2", "#832db6", "#1b9e4b", "#8c564b", "#e377c2", "#1f2f6b", "#4fc0c6", "#6b7280"];
const DARK_PALETTE = PALETTE.slice();
DARK_PALETTE[2] = "#f0674c";
DARK_PALETTE[4] = "#b98af0";
DARK_PALETTE[8] = "#8fa4ff";
DARK_PALETTE[6] = "#c19a8e";
const CONFIG = {
  displaylogo: false,
  responsive: true,
  showLink: false,
  modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "toggleSpikelines"],
};

function theme() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue("--" + name).trim();
  const dark = !printing && matchMedia("(prefers-color-scheme: dark)").matches;
  return {
    ink: colour("ink"), soft: colour("soft"), line: colour("line"), card: colour("card"),
    accent: colour("accent"), alarm: colour("alarm"), point: colour("point"),
    palette: dark ? DARK_PALETTE : PALETTE,
  };
}
let printing = false;

function axis(colours, title, more) {
  return Object.assign({
    title: { text: title, font: { size: 12, color: colours.soft }, standoff: 8 },
    tickfont: { size: 11, color: colours.soft },
    gridcolor: colours.line, zerolinecolor: colours.line, linecolor: colours.line,
    exponentformat: "e", automargin: true,
  }, more || {});
}

function layout(colours, more) {
  return Object.assign({
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, color: colours.ink, size: 12 },
    margin: { l: 48, r: 12, t: 12, b: 40 },
    hoverlabel: { bgcolor: colours.card, bordercolor: colours.line, font: { color: colours.ink, size: 12 }, align: "left" },
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { size: 11, color: colours.soft }, itemsizing: "constant" },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: colours.soft, activecolor: colours.accent, orientation: "v" },
    hovermode: "closest", dragmode: "pan", uirevision: "kept",
  }, more || {});
}

function empty(id, sentence) {
  const place = byId(id);
  Plotly.purge(place);
  place.replaceChildren(element("p", "empty", sentence));
}

// -- the embedding ----------------------------------------------------------------------

const nDrawn = data.points.rows.length;
const nPoints = nDrawn + data.points.extra.length;

// Place in the order of choice, from 1; 0 for rows outside the dictionary.
function rankOf(p) {
  return p < nDrawn ? data.table.rank[data.points.rows[p]] : data.points.extra[p - nDrawn] + 1;
}

const hovers = Array.from({ length: nPoints }, function (_, p) {
  const rank = rankOf(p);
  const place = rank ? "<br>no. " + rank + " of the dictionary" : "";
  if (p >= nDrawn) return plain(data.dictionary[rank - 1][0]) + place;
  const row = data.points.rows[p];
  const label = data.labels ? "<br>" + plain(data.labels.texts[row]) : "";
  const over = data.table.normal[row] ? "" : " (above the threshold)";
  return "<b>" + plain(names[row]) + "</b>" + label + "<br>rate " + shown(data.table.rate[row]) + over + place;
});

function reach() {
  // One frame for all steps, so that moving the slider moves points, not axes.
  const extremes = [[0, 0], [0, 0], [0, 0]];
  for (const i of new Set([0, Math.floor(last / 2), last])) {
    views(i).forEach(function (value, k) {
      const ends = extremes[k % 3];
      ends[0] = Math.min(ends[0], value);
      ends[1] = Math.max(ends[1], value);
    });
  }
  const widest = Math.max(...extremes.map((ends) => ends[1] - ends[0])) || 1;
  return extremes.map(function (ends) {
    const margin = 0.05 * Math.max(ends[1] - ends[0], 0.1 * widest);
    return [ends[0] - margin, ends[1] + margin];
  });
}
const frame = reach();

function pointTrace(view, chosen, deep, more) {
  const trace = {
    type: deep ? "scatter3d" : "scatter", mode: "markers",
    x: chosen.map((p) => view[3 * p]), y: chosen.map((p) => view[3 * p + 1]),
  };
  if (deep) trace.z = chosen.map((p) => view[3 * p + 2]);
  return Object.assign(trace, more);
}

function hovered(chosen) {
  return { text: chosen.map((p) => hovers[p]), hovertemplate: "%{text}<extra></extra>" };
}

function groupTraces(view, deep, colours) {
  const rows = data.points.rows.map((_, p) => p);
  const size = deep ? 3.5 : nDrawn > 800 ? 5 : 6.5;
  const labels = data.labels;
  if (labels && labels.scale) {
    const marker = {
      size, opacity: 0.8, color: rows.map((p) => labels.scale[data.points.rows[p]]), colorscale: "Viridis",
      colorbar: { thickness: 10, outlinewidth: 0, tickfont: { color: colours.soft, size: 10 } },
    };
    return [pointTrace(view, rows, deep, Object.assign({ key: "rows", title: "rows", marker }, hovered(rows)))];
  }
  const titles = labels ? labels.names : ["rows"];
  return titles.map(function (title, g) {
    const chosen = labels ? rows.filter((p) => labels.group[data.points.rows[p]] === g) : rows;
    const marker = { size, opacity: labels ? 0.75 : 0.6, color: labels ? colours.palette[g] : colours.point };
    return pointTrace(view, chosen, deep, Object.assign({ key: "group " + g, title, marker }, hovered(chosen)));
  });
}

function overlayTraces(view, s, deep, colours) {
  const everyone = Array.from({ length: nPoints }, (_, p) => p);
  const odd = everyone.filter((p) => p < nDrawn && !data.table.normal[data.points.rows[p]]);
  const members = everyone.filter((p) => rankOf(p) && rankOf(p) <= s);
  const ring = deep ? 5 : 10;
  const traces = [];
  if (odd.length) {
    const marker = { symbol: "circle-open", size: ring, color: colours.alarm, line: { width: 1.6, color: colours.alarm } };
    traces.push(pointTrace(view, odd, deep, Object.assign({ key: "odd", title: "above the threshold", marker }, hovered(odd))));
  }
  const marker = { symbol: "diamond-open", size: ring, color: colours.accent, line: { width: 2, color: colours.accent } };
  traces.push(pointTrace(view, members, deep, Object.assign({ key: "members", title: "dictionary", marker }, hovered(members))));
  return traces;
}

function embeddingLayout(deep, colours) {
  if (!deep) {
    return layout(colours, {
      showlegend: false,
      xaxis: axis(colours, "principal axis 1", { range: frame[0], zeroline: false }),
      yaxis: axis(colours, "principal axis 2", { range: frame[1], scaleanchor: "x", zeroline: false }),
    });
  }
  const scene = { aspectmode: "manual", aspectratio: {}, camera: { eye: { x: 1.3, y: 1.3, z: 0.8 } }, dragmode: "turntable" };
  const widest = Math.max(...frame.map((ends) => ends[1] - ends[0]));
  ["x", "y", "z"].forEach(function (name, k) {
    scene[name + "axis"] = axis(colours, "axis " + (k + 1), { range: frame[k], backgroundcolor: "rgba(0,0,0,0)", automargin: false });
    scene.aspectratio[name] = Math.max(0.25, (frame[k][1] - frame[k][0]) / widest) * 1.1;
  });
  return layout(colours, { showlegend: false, scene, margin: { l: 0, r: 0, t: 12, b: 0 } });
}

// Groups switched off by their button under the picture.
const hidden = new Set();

function listLegend(traces) {
  const place = byId("legend");
  const focused = document.activeElement.dataset.group;
  place.replaceChildren(...traces.map(function (trace) {
    const key = trace.key;
    const button = element("button");
    button.type = "button";
    button.dataset.group = key;
    button.setAttribute("aria-pressed", String(!hidden.has(key)));
    const mark = element("span", "key " + (trace.marker.symbol || "dot"));
    mark.style.setProperty("--key", typeof trace.marker.color === "string" ? trace.marker.color : "#21918c");
    button.append(mark, element("span", "", trace.title));
    button.addEventListener("click", function () {
      if (!hidden.delete(key)) hidden.add(key);
      redrawEmbedding();
    });
    return button;
  }));
  // The buttons are new ones: the keyboard stays where it was.
  [...place.children].filter((node) => node.dataset.group === focused).forEach((node) => node.focus());
}

function canDrawDeep() {
  const canvas = document.createElement("canvas");
  return Boolean(canvas.getContext("webgl") || canvas.getContext("webgl2"));
}

function drawEmbedding(i, deep, fresh) {
  const place = byId("embedding");
  const colours = theme();
  const view = views(i);
  const s = data.steps[i].s;
  const traces = groupTraces(view, deep, colours).concat(overlayTraces(view, s, deep, colours));
  listLegend(traces);
  // Names stay out of the chart, which would read tags in them.
  traces.forEach(function (trace) {
    trace.visible = !hidden.has(trace.key);
    delete trace.key;
    delete trace.title;
  });
  // Changing between flat and deep in place leaves remains of the other.
  if (fresh) Plotly.purge(place);
  Plotly.react(place, traces, embeddingLayout(deep, colours), CONFIG);
  const axes = deep ? 3 : 2;
  const said = s <= axes
    ? (s ? "It shows all " + count(s, "coordinate") + "." : "With no coordinate kept, all rows are drawn at one spot.")
    : "It shows " + axes + " of " + count(s, "coordinate") + ": the promise is about all of them, so points may look closer here than they are.";
  byId("view-note").textContent = said;
}

// -- distances --------------------------------------------------------------------------

const pairEnds = [];
data.pairs.rows.forEach(function (a, i) {
  data.pairs.rows.slice(i + 1).forEach((b) => pairEnds.push([a, b]));
});

function pairPoints(i, magnified) {
  const lower = data.pairs.lower;
  const change = changes(i);
  const width = data.pairs.width;
  const x = lower.map((d, p) => Math.max(0, d - change[p]));
  return {
    x,
    y: lower.map((d, p) => (magnified ? change[p] : d) + (width ? width[p] / 2 : 0)),
    half: width ? width.map((w) => w / 2) : null,
    text: lower.map(function (d, p) {
      const truth = width ? "between " + shown(d) + " and " + shown(d + width[p]) : shown(d);
      const ends = pairEnds[p].map((row) => plain(names[row], 30)).join(" – ");
      return "<b>" + ends + "</b><br>true " + truth + "<br>embedded " + shown(x[p]);
    }),
  };
}

function bandTraces(x, bound, magnified, colours) {
  const reach = 1.04 * Math.max(...x) || 1;
  const low = data.routeError > 0 ? -bound : 0;
  const ends = [0, reach];
  const edge = (offset) => ends.map((e) => (magnified ? 0 : e) + offset);
  const word = data.bounded ? "certified band" : "estimated band";
  const quiet = { mode: "lines", hoverinfo: "skip", line: { width: 0 } };
  return [
    Object.assign({ x: ends, y: edge(low), showlegend: false }, quiet),
    Object.assign({ x: ends, y: edge(bound), fill: "tonexty", fillcolor: fade(colours.accent), name: word }, quiet),
    { x: ends, y: edge(0), mode: "lines", hoverinfo: "skip", name: "unchanged", line: { color: colours.accent, width: 1.5 } },
  ];
}

function fade(colour) {
  const parts = [1, 3, 5].map((k) => parseInt(colour.slice(k, k + 2), 16));
  return "rgba(" + parts.join(",") + ",0.16)";
}

function drawDistances(i, magnified) {
  if (!pairEnds.length) {
    empty("distances", "There is one row only: no distance to compare.");
    return;
  }
  const colours = theme();
  const points = pairPoints(i, magnified);
  const pairs = {
    x: points.x, y: points.y, text: points.text, mode: "markers", name: "pairs of rows",
    hovertemplate: "%{text}<extra></extra>",
    marker: { size: 4.5, color: colours.ink, opacity: 0.4 },
  };
  if (points.half) {
    pairs.error_y = { type: "data", array: points.half, width: 0, thickness: 1.2, color: colours.soft };
    pairs.marker.size = 3;
  }
  const bound = data.steps[i].bound;
  const traces = bandTraces(points.x, bound, magnified, colours).concat([pairs]);
  const y = magnified ? "true minus embedded" : "true distance";
  const ends = { rangemode: data.routeError > 0 ? "normal" : "tozero" };
  Plotly.react(byId("distances"), traces, layout(colours, {
    xaxis: axis(colours, "embedded distance", { rangemode: "tozero" }),
    yaxis: axis(colours, y, ends),
    uirevision: magnified + "-" + i,
  }), CONFIG);
}

// -- the path ---------------------------------------------------------------------------

function drawPath(i) {
  const colours = theme();
  const steps = data.steps;
  const line = {
    x: steps.map((step) => step.s), y: steps.map((step) => step.bound), mode: "lines+markers",
    line: { color: colours.point, width: 2 }, marker: { size: 4, color: colours.point },
    text: steps.map((step) => count(step.s, "dimension") + "<br>mu " + step.muText + "<br>bound " + step.boundText),
    hovertemplate: "%{text}<extra></extra>",
  };
  const here = {
    x: [steps[i].s], y: [steps[i].bound], mode: "markers", hoverinfo: "skip", cliponaxis: false,
    marker: { size: 13, color: colours.accent, line: { color: colours.card, width: 2 } },
  };
  Plotly.react(byId("path"), [line, here], layout(colours, {
    showlegend: false,
    xaxis: axis(colours, "dimensions (dictionary rows)", { rangemode: "tozero" }),
    yaxis: axis(colours, data.bounded ? "no distance changes by more than" : "estimated change", { rangemode: "tozero" }),
  }), CONFIG);
}

// -- rates ------------------------------------------------------------------------------

function drawRates() {
  const colours = theme();
  const rates = data.rates;
  const area = {
    x: rates.edges, y: rates.counts.concat(rates.counts.slice(-1)), mode: "lines", fill: "tozeroy",
    line: { shape: "hv", color: colours.point, width: 1 }, fillcolor: fade(colours.accent), name: "rows",
    text: rates.counts.map((n, k) => count(n, "row") + "<br>" + shown(rates.edges[k]) + " to " + shown(rates.edges[k + 1])),
    hovertemplate: "%{text}<extra></extra>",
  };
  const odd = {
    x: data.anomalies.map((row) => row.value), y: data.anomalies.map(() => 0), mode: "markers", name: "the oddest rows",
    marker: {
      symbol: "circle", size: 8, line: { color: colours.card, width: 1 },
      color: data.anomalies.map((row) => (row.normal ? colours.point : colours.alarm)),
    },
    text: data.anomalies.map((row) => "<b>" + plain(row.name) + "</b><br>rate " + row.rate),
    hovertemplate: "%{text}<extra></extra>", cliponaxis: false,
  };
  const shapes = [];
  const annotations = [];
  if (rates.threshold !== null) {
    const x = rates.threshold;
    shapes.push({ type: "line", x0: x, x1: x, y0: 0, y1: 1, yref: "paper", line: { color: colours.alarm, width: 1.5, dash: "dash" } });
    annotations.push({
      x: rates.log ? Math.log10(x) : x, y: 1, yref: "paper", yanchor: "bottom", showarrow: false,
      text: "threshold " + rates.thresholdText, font: { size: 11, color: colours.alarm },
    });
  }
  Plotly.react(byId("rates"), [area, odd], layout(colours, {
    showlegend: false, shapes, annotations, margin: { l: 48, r: 12, t: 28, b: 40 },
    xaxis: axis(colours, "rate: how much the dictionary misses", { type: rates.log ? "log" : "linear", zeroline: false }),
    yaxis: axis(colours, "rows", { rangemode: "tozero" }),
  }), CONFIG);
}
