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

// Give a chart new rows and signals. Its labels may be wider or fewer than before, so it is laid out again.
function redraw(name, { rows = {}, signals = {} }) {
  const view = views[name];
  for (const [key, value] of Object.entries(rows)) view.data(key, value);
  for (const [key, value] of Object.entries(signals)) view.signal(key, value);
  return view.resize().runAsync();
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
  const curve = panel.curve;
  return redraw("error-reject", {
    rows: { rejecting: curve.rejected.map((share, k) => (
      { rejected: share, error: curve.error[k], threshold: number(curve.threshold[k]) })) },
    signals: { pointRejected: found.rejected / found.total, pointError: found.wrong / found.total },
  });
}

// The comparison ---------------------------------------------------------------------------------------------------

function chosen() {
  const pick = (id) => byId(`choose-${id}`)?.value;
  return { dataset: pick("dataset"), machine: pick("machine"), metric: pick("metric"), method: pick("method") };
}

// The methods on the chosen data set and machine, best first by the chosen metric; equal ones as in the standing.
function rankedBy({ dataset, machine, metric }) {
  const standing = data.comparison.standings.find((each) => each.metric === metric && each.machine === machine);
  const means = standing.means[dataset] ?? [], folds = standing.folds[dataset];
  const sign = standing.better === "larger" ? -1 : 1;
  const worth = (mean) => (typeof mean === "number" ? sign * mean : Infinity);
  const found = means.map((mean, k) => ({ method: standing.methods[k], mean, folds: folds[k] }));
  found.sort((one, other) => worth(one.mean) - worth(other.mean) || 0);  // infinity less itself is no number
  const least = worth(found[0]?.mean);
  return { better: standing.better, methods: found.map((each) => ({ ...each, best: worth(each.mean) === least && least < Infinity })) };
}

function forecastsOf({ dataset, machine }) {
  return data.comparison.forecasts.find((each) => each.dataset === dataset && each.machine === machine);
}

// The curves kept of the chosen data set and machine, in the order of the methods.
function curvesOf(choice) {
  const kept = forecastsOf(choice)?.curves ?? [];
  return rankedBy(choice).methods.flatMap(({ method }) => kept.filter((each) => each.method === method));
}

function showFolds(choice) {
  const { methods } = rankedBy(choice);
  const finite = (value) => typeof value === "number";
  const means = methods.map(({ method, mean, best }) => (
    { method, value: finite(mean) ? mean : null, shown: number(mean), best }));
  const folds = methods.flatMap((each) => each.folds.filter(finite).map((value) => ({ method: each.method, value })));
  return redraw("folds", { rows: { means, folds }, signals: { methods: methods.map((each) => each.method) } });
}

function showWords(choice) {
  const { better, methods } = rankedBy(choice);
  const metric = byId("choose-metric").selectedOptions[0].textContent;
  const best = methods.filter((each) => each.best);
  byId("chosen").textContent = `${choice.dataset}, ${choice.machine}, ${metric}; ${better} is better.`;
  byId("best").textContent = best.length
    ? `By the ${metric} the best here is ${best.map((each) => each.method).join(" and ")}: ${number(best[0].mean)}, the mean of ` +
      `${best[0].folds.length} folds.`
    : `By the ${metric} no method has a finite mean here.`;
}

function showCurve(name, each) {
  const words = byId(`words-${name}`), curve = each?.curve;
  const line = curve ? curve.forecast.map((forecast, place) => ({ forecast, share: curve.share[place], place })) : [];
  const band = curve?.band ? curve.band.x.map((forecast, k) => (
    { forecast, low: curve.band.low[k], high: curve.band.high[k] })) : [];
  words.textContent = each
    ? `${each.method}: Brier score ${number(curve.parts.score)} = miscalibration ${number(curve.parts.miscalibration)} − ` +
      `discrimination ${number(curve.parts.discrimination)} + uncertainty ${number(curve.parts.uncertainty)}, all folds together` +
      (each.several ? "; of the decision being right." : ".")
    : "No probabilities were kept.";
  const place = views[`reliability-${name}`].container();
  place.setAttribute("aria-label", `Reliability diagram${each ? ` of ${each.method}` : ""}. ${words.textContent}`);
  return redraw(`reliability-${name}`, { rows: { curve: line, band } });
}

function showComparison() {
  const choice = chosen(), curves = curvesOf(choice);
  showWords(choice);
  const drawn = [showFolds(choice)];
  if (byId("choose-method")) {
    drawn.push(showCurve("best", curves[0]));
    drawn.push(showCurve("chosen", curves.find((each) => each.method === choice.method)));
  }
  return Promise.all(drawn);
}

// The methods to show beside the best; unless another one had been chosen, the second best.
function fillMethods() {
  const select = byId("choose-method"), names = curvesOf(chosen()).map((each) => each.method);
  if (!select) return;
  const others = names.slice(1), before = select.value;
  select.replaceChildren(...names.map((name) => new Option(name, name)));
  select.value = others.includes(before) ? before : others[0] ?? names[0];
}

function startComparison() {
  fillMethods();
  for (const id of ["dataset", "machine", "metric"]) byId(`choose-${id}`).addEventListener("change", fillMethods);
  for (const id of ["dataset", "machine", "metric", "method"]) {
    byId(`choose-${id}`)?.addEventListener("change", showComparison);
  }
  return showComparison();
}

async function start() {
  await draw();
  if (data.comparison) await startComparison();
  if (data.panels.length) {
    byId("panel").addEventListener("input", showPanel);
    byId("panel").addEventListener("submit", (event) => event.preventDefault());
    await showPanel();
  }
  document.documentElement.dataset.ready = "yes";
}

start();
