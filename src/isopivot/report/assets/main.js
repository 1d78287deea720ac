// The page: what the slider, the toggles and the colour scheme do.

const LISTED = 300;
const FOLDED = 6;
const now = { step: last, deep: false, magnified: false };

function sayStep() {
  const step = data.steps[now.step];
  byId("mu").textContent = step.muText;
  byId("size").textContent = step.s.toLocaleString("en");
  byId("bound").textContent = step.boundText;
  const loose = !data.exactBounds && now.step < last;
  byId("bound-label").textContent = !data.bounded ? "estimated change" : loose ? "bound 2·(mu + rounding)" : "certified bound";
  byId("slider").setAttribute("aria-valuetext", "mu " + step.muText + ", " + count(step.s, "dimension") + ", bound " + step.boundText);
  const typical = data.pairs.typical ? " For comparison: half of the compared pairs are farther apart than " + data.pairs.typical + "." : "";
  const doubt = data.bounded ? "no " + data.distance + " of the training rows changes by more than " : "as an estimate, distances change by up to ";
  byId("said").textContent = "With " + count(step.s, "dimension") + ", " + doubt + step.boundText + ", " + data.units + "." + typical;
}

function listDictionary() {
  const s = data.steps[now.step].s;
  const items = data.dictionary.slice(0, Math.min(s, LISTED)).map(function (member, k) {
    const item = element("li");
    item.append(element("span", "place", String(k + 1)), element("span", "name", member[0]), element("span", "value", member[1]));
    return item;
  });
  if (s > LISTED) items.push(element("li", "", "and " + count(s - LISTED, "further row")));
  byId("dictionary").replaceChildren(...items);
  byId("dictionary-help").textContent = s
    ? "The rows that stand for all others, in the order they were picked, and by how much each was missed until then."
    : "Empty: at this exactness no row is needed.";
}

function explainDistances() {
  const which = count(pairEnds.length, "pair") + " of " + count(data.pairs.rows.length, "row") + (data.training ? "" : " shown here");
  const truth = data.pairs.width
    ? "The true " + data.distance + " is known to lie on the short line through each point."
    : "True distances were measured.";
  const band = data.training
    ? "Inside the band, a pair kept its distance up to the bound."
    : "The band is promised for training rows; other rows may lie outside.";
  byId("distances-help").textContent = "Each point is one of " + which + ". " + truth + " " + band;
}

function explainRates() {
  const rates = data.rates;
  byId("rates-help").textContent = "The rate of a row is what the dictionary of the fitted model cannot express of it; for dictionary rows it is 0. Rows above the threshold (" + rates.thresholdText + "): " + rates.above.toLocaleString("en") + ".";
  const why = data.anomalies.some((row) => row.features.length)
    ? (data.kind === "linear"
      ? "Bars show which features the dictionary misses most, and by how much."
      : "Bars show which features, changed a little, would change the rate most.")
    : "This kind of model does not work feature by feature, so the nearest dictionary rows are named instead.";
  const none = rates.above ? "" : "None is above the threshold; these come closest. ";
  byId("odd-help").textContent = none + why;
}

function oddItem(row, k) {
  const item = element("li", k >= FOLDED ? "folded" : "");
  const top = element("div", "top");
  top.append(element("span", "name", row.name), element("span", row.normal ? "value" : "value over", "rate " + row.rate));
  item.append(top);
  const most = Math.max(...row.features.map((feature) => feature[2]), 0);
  row.features.forEach(function (feature) {
    const line = element("div", "feature");
    const label = element("span", "label", feature[0]);
    label.title = feature[0];
    const bar = element("span", "bar");
    const filled = element("span");
    filled.style.width = (100 * feature[2] / most).toFixed(1) + "%";
    bar.append(filled);
    line.append(label, bar, element("span", "amount", feature[1]));
    item.append(line);
  });
  if (row.neighbors.length) {
    const near = row.neighbors.map((member) => member[0] + " (" + member[1] + ")").join(", ");
    item.append(element("p", "near", "nearest in the dictionary: " + near));
  }
  return item;
}

function listOdd() {
  byId("odd").replaceChildren(...data.anomalies.map(oddItem));
  const button = byId("more");
  button.hidden = data.anomalies.length <= FOLDED;
  button.textContent = "Show all " + data.anomalies.length;
  button.addEventListener("click", function () {
    const open = button.getAttribute("aria-expanded") !== "true";
    button.setAttribute("aria-expanded", String(open));
    button.textContent = open ? "Show fewer" : "Show all " + data.anomalies.length;
    [...byId("odd").children].forEach((item, k) => item.classList.toggle("folded", !open && k >= FOLDED));
  });
}

function redrawEmbedding() {
  drawEmbedding(now.step, now.deep, false);
}

function drawStep() {
  redrawEmbedding();
  drawDistances(now.step, now.magnified);
  drawPath(now.step);
}

function drawAll() {
  drawStep();
  drawRates();
}

let waiting = false;
function moveTo(step) {
  now.step = step;
  sayStep();
  listDictionary();
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(function () {
    waiting = false;
    drawStep();
  });
}

function startControls() {
  const slider = byId("slider");
  slider.max = String(last);
  slider.value = String(last);
  slider.disabled = last === 0;
  slider.addEventListener("input", () => moveTo(Number(slider.value)));
  [["flat", "deep", false], ["deep", "flat", true]].forEach(function ([id, other, deep]) {
    byId(id).addEventListener("click", function () {
      press(byId(id), byId(other));
      now.deep = deep;
      drawEmbedding(now.step, deep, true);
    });
  });
  [["whole", "change", false], ["change", "whole", true]].forEach(function ([id, other, magnified]) {
    byId(id).addEventListener("click", function () {
      press(byId(id), byId(other));
      now.magnified = magnified;
      drawDistances(now.step, magnified);
    });
  });
  if (!canDrawDeep()) {
    byId("deep").disabled = true;
    byId("deep").title = "This browser cannot draw in three dimensions (no WebGL).";
  }
}

function startColours() {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  addEventListener("beforeprint", function () { printing = true; drawAll(); });
  addEventListener("afterprint", function () { printing = false; drawAll(); });
}

startControls();
sayStep();
listDictionary();
explainDistances();
explainRates();
listOdd();
startTable();
startColours();
drawAll();
