"use strict";
// The charts, the choices of the comparison, and the panel of decisions. All numbers come from the JSON in the page.

const read = (id) => JSON.parse(document.getElementById(id).textContent);
const data = read("calibrant-data");
const specifications = read("calibrant-charts");
const byId = (id) => document.getElementById(id);
const views = {};

// A number as people write it: the rule of the tables.
function number(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "string") return { inf: "infinite", "-inf": "minus infinite", nan: "not defined" }[value] ?? value;
  if (Number.isInteger(value)) return value.toLocaleString("en-US");
  const size = Math.abs(value);
  if (size >= 1000) return value.toLocaleString("en-US", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
  return String(Number(value.toPrecision(size < 0.001 ? 3 : 4)));
}

const percent = (share) => `${(100 * share).toFixed(1)}%`;

async function draw() {
  for (const place of document.querySelectorAll("[data-chart]")) {
    const name = place.dataset.chart;
    const drawn = await vegaEmbed(place, specifications[name], { mode: "vega", renderer: "svg", actions: false, defaultStyle: false, logLevel: 1 });
    views[name] = drawn.view;
  }
}

function fill(select, names) {
  select.replaceChildren(...names.map((name) => new Option(name, name)));
}

// The panel of decisions -------------------------------------------------------------------------------------------

// The weight of rows below a threshold, or up to it: every threshold the sliders lead to is in the table.
function counted(counts, threshold) {
  const list = counts.threshold;
  let low = 0, high = list.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle] < threshold) low = middle + 1; else high = middle;
  }
  if (list[low] !== threshold) throw new Error(`no counts at the threshold ${threshold}`);
  return {
    below: [counts.first_below[low], counts.second_below[low]],
    upto: [counts.first_upto[low], counts.second_upto[low]],
  };
}

// Two classes: positive where p > t and p >= high, negative where p <= t and p <= low, else rejected.
function decideTwo(panel, falsePositive, falseNegative, rejection) {
  const counts = panel.counts, [positives, negatives] = counts.total;
  const t = falsePositive / (falsePositive + falseNegative);
  const low = rejection === null ? 1 : rejection / falseNegative;
  const high = rejection === null ? 0 : 1 - rejection / falsePositive;
  const [missed, rightNegative] = counted(counts, Math.min(t, low)).upto;
  const at = high > t ? counted(counts, high).below : counted(counts, t).upto;
  const rightPositive = positives - at[0], alarms = negatives - at[1];
  const decided = missed + rightNegative + rightPositive + alarms, total = positives + negatives;
  const rejected = total - decided;
  const always = Math.min(falsePositive * negatives, falseNegative * positives);
  const cheaper = falsePositive * negatives <= falseNegative * positives ? panel.classes[1] : panel.classes[0];
  const rejects = low < t && high > t;
  return {
    rule: rejects
      ? `Decide for ${panel.classes[1]} from a probability of ${number(high)}, for ${panel.classes[0]} up to ${number(low)}, and reject between.`
      : `Decide for ${panel.classes[1]} above a probability of ${number(t)}; ` +
        (rejection === null ? "nothing is rejected." : "rejecting never pays at this cost."),
    threshold: t, low: rejects ? low : t, high: rejects ? high : t,
    rows: [
      [`decided for ${panel.classes[1]}`, "positive", rightPositive + alarms],
      [`decided for ${panel.classes[0]}`, "negative", missed + rightNegative],
      ["rejected", "rejected", rejected],
      [`wrong: ${panel.classes[1]} though ${panel.classes[0]} (false positive)`, "false-positive", alarms],
      [`wrong: ${panel.classes[0]} though ${panel.classes[1]} (false negative)`, "false-negative", missed],
    ],
    total, decided, rejected, wrong: alarms + missed,
    cost: falsePositive * alarms + falseNegative * missed + (rejection ?? 0) * rejected,
    without: always, withoutWords: `Always deciding for ${cheaper}`,
  };
}

// More classes: the most probable one where its probability reaches the threshold, else rejected (Chow 1970).
function decideSeveral(panel, cost, _, rejection) {
  const counts = panel.counts, [right, wrong] = counts.total;
  const threshold = rejection === null || rejection >= cost ? 0 : 1 - rejection / cost;
  const [rightRejected, wrongRejected] = counted(counts, threshold).below;
  const rejected = rightRejected + wrongRejected, total = right + wrong, left = wrong - wrongRejected;
  return {
    rule: threshold > 0
      ? `Decide for the most probable class where its probability is at least ${number(threshold)}, else reject.`
      : "Decide for the most probable class; nothing is rejected.",
    threshold, low: threshold, high: threshold,
    rows: [["decided", "decided", total - rejected], ["rejected", "rejected", rejected], ["wrong", "wrong", left]],
    total, decided: total - rejected, rejected, wrong: left,
    cost: cost * left + (rejection ?? 0) * rejected,
    without: cost * wrong, withoutWords: "Deciding on every row",
  };
}

function cell(tag, text, attributes = {}) {
  const element = document.createElement(tag);
  element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

function row(label, name, value, share) {
  const line = document.createElement("tr");
  line.append(
    cell("th", label, { scope: "row" }),
    cell("td", value === null ? "" : number(value), { class: "n", id: `result-${name}`, "data-value": value ?? share }),
    cell("td", share === null ? "–" : percent(share), { class: "n" }),
  );
  return line;
}

function showPanel() {
  const panel = data.panels[Number(byId("choose-panel")?.value ?? 0)];
  const several = panel.counts.several;
  byId("second-cost").hidden = several;
  byId("words-false-positive").textContent = several ? "Cost of a wrong decision" : "Cost of a false positive";
  const costs = ["false-positive", "false-negative"].map((id) => data.costs[Number(byId(id).value)]);
  const rejection = data.rejections[Number(byId("rejection").value)] ?? null;
  const words = { "false-positive": number(costs[0]), "false-negative": number(costs[1]) };
  words.rejection = rejection === null ? "no rejection" : number(rejection);
  for (const [id, text] of Object.entries(words)) {
    byId(`shown-${id}`).textContent = text;
    byId(id).setAttribute("aria-valuetext", text);
  }
  const found = (several ? decideSeveral : decideTwo)(panel, costs[0], costs[1], rejection);
  byId("rule").textContent = found.rule;
  Object.assign(byId("rule").dataset, { threshold: found.threshold, low: found.low, high: found.high });
  const among = found.decided > 0 ? found.wrong / found.decided : null;
  byId("results").replaceChildren(
    ...found.rows.map(([label, name, value]) => row(label, name, value, value / found.total)),
    row("errors among the rows decided", "error-rate", null, among),
  );
  const cost = byId("cost");
  cost.textContent =
    `Cost on these rows: ${number(found.cost)}, that is ${number(found.cost / found.total)} a row. ` +
    `${found.withoutWords} would cost ${number(found.without)}, ${number(found.without / found.total)} a row.`;
  Object.assign(cost.dataset, { cost: found.cost, without: found.without });
  movePoint(panel, found.rejected / found.total, found.wrong / found.total);
}

let shownPanel = null;

function movePoint(panel, rejected, error) {
  const view = views["error-reject"];
  if (!view) return;
  if (shownPanel !== panel) {
    const curve = panel.curve;
    view.data("rejecting", curve.rejected.map((share, k) => (
      { rejected: share, error: curve.error[k], threshold: number(curve.threshold[k]) })));
    shownPanel = panel;
  }
  view.signal("pointRejected", rejected).signal("pointError", error).runAsync();
}

// The comparison ---------------------------------------------------------------------------------------------------

function chosen() {
  const pick = (id) => byId(`choose-${id}`)?.value;
  return { dataset: pick("dataset"), machine: pick("machine"), metric: pick("metric"), method: pick("method") };
}

function forecastsOf({ dataset, machine }) {
  return data.comparison.forecasts.find((each) => each.dataset === dataset && each.machine === machine);
}

function showFolds(choice) {
  const standing = data.comparison.standings.find(
    (each) => each.metric === choice.metric && each.machine === choice.machine);
  const means = standing.means[choice.dataset], folds = standing.folds[choice.dataset];
  if (!means) return;
  const sign = standing.better === "larger" ? -1 : 1;
  const worth = (value) => (typeof value === "number" ? sign * value : Infinity);
  const order = means.map((_, k) => k).sort((a, b) => worth(means[a]) - worth(means[b]) || a - b);
  const method = (k) => standing.methods[k];
  const rows = order.map((k, place) => (
    { method: method(k), value: typeof means[k] === "number" ? means[k] : null, shown: number(means[k]), best: place === 0 }));
  const ticks = order.flatMap((k) => folds[k].filter((value) => typeof value === "number")
    .map((value) => ({ method: method(k), value })));
  views.folds.data("means", rows).data("folds", ticks).runAsync();
}

function showCurve(name, each) {
  const view = views[`reliability-${name}`], words = byId(`words-${name}`);
  const curve = each?.curve;
  const line = curve ? curve.forecast.map((forecast, place) => ({ forecast, share: curve.share[place], place })) : [];
  const band = curve?.band ? curve.band.x.map((forecast, k) => (
    { forecast, low: curve.band.low[k], high: curve.band.high[k] })) : [];
  view.data("curve", line).data("band", band).runAsync();
  words.textContent = each
    ? `${each.method}: Brier score ${number(curve.parts.score)} = miscalibration ${number(curve.parts.miscalibration)} − ` +
      `discrimination ${number(curve.parts.discrimination)} + uncertainty ${number(curve.parts.uncertainty)}, all folds together` +
      (each.several ? "; of the decision being right." : ".")
    : "No probabilities were kept.";
  view.container().setAttribute("aria-label", `Reliability diagram of ${each?.method}. ${words.textContent}`);
}

function showComparison() {
  const choice = chosen();
  byId("chosen").textContent = [choice.dataset, choice.machine, choice.metric].join(", ") +
    (choice.method ? `; ${choice.method} beside the best method` : "");
  showFolds(choice);
  if (!byId("choose-method")) return;
  const found = forecastsOf(choice);
  showCurve("best", found?.curves.find((each) => each.method === found.best));
  showCurve("chosen", found?.curves.find((each) => each.method === choice.method));
}

function fillMethods() {
  const select = byId("choose-method"), found = select && forecastsOf(chosen());
  if (!found) return;
  const before = select.value, names = found.curves.map((each) => each.method);
  fill(select, names);
  select.value = names.includes(before) ? before : names.find((name) => name !== found.best) ?? names[0];
}

function startComparison() {
  fill(byId("choose-dataset"), data.comparison.datasets);
  fill(byId("choose-machine"), data.comparison.machines);
  fill(byId("choose-metric"), data.comparison.metrics);
  fillMethods();
  for (const id of ["dataset", "machine"]) byId(`choose-${id}`).addEventListener("change", fillMethods);
  for (const id of ["dataset", "machine", "metric", "method"]) {
    byId(`choose-${id}`)?.addEventListener("change", showComparison);
  }
  showComparison();
}

draw().then(() => {
  if (data.comparison) startComparison();
  if (data.panels.length) {
    byId("panel").addEventListener("input", showPanel);
    byId("panel").addEventListener("submit", (event) => event.preventDefault());
    showPanel();
  }
  document.documentElement.dataset.ready = "yes";
});
