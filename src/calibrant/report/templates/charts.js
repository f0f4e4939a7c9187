"use strict";
// Charts as SVG, drawn at the width of their place; colours are classes of the style sheet.

const byId = (id) => document.getElementById(id);
const DRAWN = JSON.parse(byId("calibrant-charts").textContent);

// Numbers as people read them ---------------------------------------------------------------------------------------

const NBSP = "\u00a0", MINUS = "\u2212";
const whole = (x) => Math.round(x).toLocaleString("en-US");
const count = (x) => (Math.abs(x - Math.round(x)) < 1e-9 ? whole(x) : x.toLocaleString("en-US", { maximumFractionDigits: 1 }));
const fixed = (x, digits) => x.toFixed(digits).replace("-", MINUS);
function percent(share) {
  const value = 100 * share, rest = Math.min(value, 100 - value);
  if (rest <= 0) return `${value.toFixed(0)}%`;
  return `${value.toFixed(rest >= 9.95 ? 0 : rest >= 0.995 ? 1 : Math.min(6, Math.ceil(-Math.log10(rest)) + 1))}%`;
}
// A forecast nearer to 0 or 1 than 0.01%: only what so many rows can tell.
function told(share, rows) {
  const rest = Math.min(share, 1 - share);
  return rest <= 0 || rest >= 1e-4 || rest * rows >= 1 ? percent(share) : share < 0.5 ? "below 0.01%" : "above 99.99%";
}
function range(low, high, rows) {
  const first = told(low, rows), last = told(high, rows);
  return first === last || first.startsWith("above") ? first : last.startsWith("below") ? last : `${first} to ${last}`;
}
function roughly(share) {
  const rest = 100 * Math.min(share, 1 - share), digits = rest >= 0.95 ? 0 : Math.ceil(-Math.log10(rest) - 1e-9);
  return `${(100 * share).toFixed(Math.min(digits, 6))}%`;
}
const tickLabel = (share) => `${Number((100 * share).toPrecision(6))}%`;
const money = (x) => (Math.abs(x) >= 100 ? whole(x) : fixed(x, Math.abs(x) >= 10 ? 1 : 2)).replace("-", MINUS);

// SVG ---------------------------------------------------------------------------------------------------------------

function make(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(name, typeof value === "number" ? Math.round(value * 100) / 100 : value);
  }
  element.append(...children);
  return element;
}
const label = (x, y, words, look = "", anchor = "start", more = {}) =>
  make("text", { x, y, class: look, "text-anchor": anchor, ...more }, words);
const line = (x1, y1, x2, y2, look) => make("line", { x1, y1, x2, y2, class: look });
const trace = (points) => points.map(([x, y], k) => `${k ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
const clamp = (x, low, high) => Math.min(high, Math.max(low, x));
const logit = (p) => Math.log(p / (1 - p));
const expit = (z) => 1 / (1 + Math.exp(-z));

function interpolate(x, xs, ys) {
  let low = 0, high = xs.length - 1;
  if (x <= xs[0]) return ys[0];
  if (x >= xs[high]) return ys[high];
  while (high - low > 1) { const middle = (low + high) >> 1; if (xs[middle] <= x) low = middle; else high = middle; }
  return ys[low] + ((x - xs[low]) / (xs[high] - xs[low])) * (ys[high] - ys[low]);
}

// Draw now, and again whenever the width of the place changes.
function keepDrawn(place, draw) {
  let width = 0;
  const again = () => {
    width = Math.max(140, Math.floor(place.clientWidth));
    const picture = draw(width);
    place.replaceChildren(picture);
    keepInside(picture, width);
  };
  new ResizeObserver(() => { if (Math.abs(place.clientWidth - width) > 1) again(); }).observe(place);
  again();
  return again;
}

// However long the names of classes: a label that would leave the chart is shortened, then moved back into it; one that
// would lie on another, later one is taken away.
function keepInside(picture, width) {
  const labels = [...picture.querySelectorAll("text:not([transform])")];
  for (const each of labels) {
    while (each.getBBox().width > width - 4 && each.textContent.length > 4) each.textContent = `${each.textContent.slice(0, -3).trimEnd()}…`;
    const box = each.getBBox(), off = box.x < 1 ? 1 - box.x : Math.min(0, width - 1 - box.x - box.width);
    if (off) each.setAttribute("x", Number(each.getAttribute("x")) + off);
    if (box.y < 1) each.setAttribute("y", Number(each.getAttribute("y")) + 1 - box.y);
  }
  const kept = [];
  for (const each of labels.toReversed()) {
    const box = each.getBBox();
    const hides = kept.some((other) => box.x < other.x + other.width + 4 && other.x < box.x + box.width + 4 &&
      box.y + 2 < other.y + other.height && other.y + 2 < box.y + box.height);
    if (hides) each.remove(); else kept.push(box);
  }
}

const frame = (width, height) =>
  make("svg", { viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true", focusable: "false" });

function niceStep(x) {
  const power = 10 ** Math.floor(Math.log10(x)), lead = x / power;
  return power * (lead < 1.5 ? 1 : lead < 3.5 ? 2 : lead < 7.5 ? 5 : 10);
}

// A scale of probabilities: even, or by log-odds over the range of the forecasts.
function scaleOf(figure, mode) {
  if (mode !== "odds") return { at: (p) => p, ticks: [0, 0.2, 0.4, 0.6, 0.8, 1], few: [0, 0.5, 1] };
  const edges = figure.odds.edges, low = edges[0], high = edges[edges.length - 1];
  const at = (p) => (clamp(logit(clamp(p, 1e-9, 1 - 1e-9)), low, high) - low) / (high - low);
  const all = [0.00001, 0.0001, 0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999];
  const ticks = all.filter((p) => logit(p) >= low && logit(p) <= high);
  return { at, ticks: ticks.length > 1 ? ticks : [expit(low), expit(high)], few: ticks };
}

// The reliability diagram ---------------------------------------------------------------------------------------------

function chanceAt(figure, forecast) {
  const [x, low, high] = figure.band;
  return x.length ? [interpolate(forecast, x, low), interpolate(forecast, x, high)] : null;
}
function allows(figure, forecast, share) {
  const found = chanceAt(figure, forecast);
  return found === null || (share >= found[0] - 1e-9 && share <= found[1] + 1e-9);
}
const isChance = (figure, block) => allows(figure, block[4], block[3] / block[2]);

// A step in pieces, each as far as chance allows it or does not, if that is less than half of it: a long step may cross
// the band, as it does where higher forecasts happen less often.
function divideStep(figure, block) {
  const [from, to, rows, happened] = block, share = happened / rows, ends = [from, ...figure.band[0].filter((x) => x > from && x < to), to], pieces = [];
  ends.slice(1).forEach((end, k) => {
    const good = allows(figure, (ends[k] + end) / 2, share), last = pieces.at(-1);
    if (last?.good === good) last.to = end; else pieces.push({ from: ends[k], to: end, good });
  });
  const good = pieces.filter((each) => each.good).reduce((sum, each) => sum + each.to - each.from, 0);
  return 2 * good < to - from ? pieces : [{ from, to, good: allows(figure, block[4], share) }];
}

function drawReliability(figure, width, { small, mode, chosen }) {
  const scale = scaleOf(figure, mode), left = small ? 44 : 60, right = small ? 10 : 16, top = small ? 8 : 14;
  const side = width - left - right, height = small ? side : Math.min(side, Math.max(280, side * 0.8));
  const under = small ? 36 : 118, bottom = small ? 20 : 48;
  const picture = frame(width, top + height + under + bottom);
  const X = (p) => left + side * scale.at(p), Y = (p) => top + height * (1 - scale.at(p));
  const ticks = small || side < 250 ? scale.few : scale.ticks;
  for (const tick of ticks) {
    picture.append(line(left, Y(tick), left + side, Y(tick), "gridline"), line(X(tick), top, X(tick), top + height, "gridline"));
    picture.append(label(left - 7, Y(tick) + 4, tickLabel(tick), "", "end"));
  }
  const runs = [];
  figure.band[0].forEach((x, k) => {
    if (!k || x - figure.band[0][k - 1] > figure.gap) runs.push([]);  // no band where there are no rows
    runs.at(-1).push([x, figure.band[1][k], figure.band[2][k]]);
  });
  for (const run of runs) {
    if (run.length < 2) run.push([run[0][0] + 0.006, run[0][1], run[0][2]]);
    const outline = [...run.map(([x, low]) => [X(x), Y(low)]), ...run.toReversed().map(([x, , high]) => [X(x), Y(high)])];
    picture.append(make("path", { class: "band", d: `${trace(outline)}Z` }));
  }
  picture.append(line(X(0), Y(0), X(1), Y(1), "ideal"));
  if (!small) {
    picture.append(make("line", { x1: left, x2: left + side, y1: Y(figure.base), y2: Y(figure.base), class: "axis dots" }));
  }
  const steps = figure.blocks.flatMap((each) => [[X(each[0]), Y(each[3] / each[2])], [X(each[1]), Y(each[3] / each[2])]]);
  picture.append(make("path", { d: trace(steps), class: "l-good thin" }));
  const heaviest = Math.max(...figure.blocks.map((each) => each[2])), discs = [];
  for (const each of figure.blocks) {
    const y = Y(each[3] / each[2]), tone = isChance(figure, each) ? "good" : "off";
    for (const { from, to, good } of divideStep(figure, each)) picture.append(make("path", { d: trace([[X(from), y], [X(to), y]]), class: `l-${good ? "good" : "off"}${small ? "" : " thick"}` }));
    discs.push([X(each[4]), y, Math.max(small ? 1.6 : 3, (small ? 7 : 16) * Math.sqrt(each[2] / heaviest)), tone]);
  }
  for (const [x, y, r, tone] of discs) picture.append(make("circle", { cx: x, cy: y, r, class: `disc f-${tone}` }));
  if (!small) {  // on the side with fewer rows near it
    const near = discs.filter(([, y]) => Math.abs(y - Y(figure.base) + 9) < 22).map(([x]) => x), at = (end) => near.filter((x) => Math.abs(x - end) < 130).length;
    const flip = at(left) < at(left + side);
    picture.append(label(flip ? left + 4 : left + side, Y(figure.base) - 5, `${figure.several ? "right on average" : "base rate"} ${percent(figure.base)}`, "halo", flip ? "start" : "end"));
  }
  drawForecasts(picture, figure, { mode, X, left, side, top: top + height + (small ? 5 : 22), room: small ? 25 : under - 28, small });
  const axis = top + height + under + (small ? 14 : 20);
  for (const tick of ticks) picture.append(label(X(tick), axis, tickLabel(tick), "", small && tick === 1 ? "end" : "middle"));
  if (!small) {
    picture.append(label(left + side / 2, axis + 21, figure.several ? "how sure the forecast was" : "what was forecast", "name", "middle"));
    const words = figure.several ? "how often it was right" : "how often it happened";
    picture.append(label(0, 0, words, "name", "middle", { transform: `translate(12 ${top + height / 2}) rotate(-90)` }));
  }
  if (chosen !== null) {
    const [x, y, r] = discs[chosen], block = figure.blocks[chosen];
    const from = X(block[0]), to = X(block[1]);
    picture.append(make("rect", { x: from - 1, width: Math.max(to - from, 0) + 2, y: top, height: height + under - 2, class: "chosen" }));
    picture.append(make("circle", { cx: x, cy: y, r: r + 4, class: "ring" }));
  }
  return picture;
}

// Which forecasts were made: what happened upwards, what did not downwards; heights by square root.
function drawForecasts(picture, figure, { mode, X, left, side, top, room, small }) {
  const counts = mode === "odds" ? figure.odds : figure.even, ends = mode === "odds" ? counts.edges.map(expit) : counts.edges;
  const up = Math.sqrt(Math.max(...counts.positive, 0)), down = Math.sqrt(Math.max(...counts.negative, 0));
  const unit = up + down > 0 ? room / (up + down) : 0, tall = (rows) => unit * Math.sqrt(rows), middle = top + unit * up;
  ends.slice(0, -1).forEach((end, k) => {
    const from = X(end), wide = Math.max(X(ends[k + 1]) - from - (small ? 0.3 : 1), 0.8);
    if (counts.positive[k] > 0) picture.append(make("rect", { x: from, width: wide, y: middle - tall(counts.positive[k]), height: tall(counts.positive[k]), class: "f-pos" }));
    if (counts.negative[k] > 0) picture.append(make("rect", { x: from, width: wide, y: middle, height: tall(counts.negative[k]), class: "f-neg" }));
  });
  picture.append(line(left, middle, left + side, middle, "axis"));
  if (small) return;
  for (const [sign, rows] of [[-1, counts.positive], [1, counts.negative]]) {
    const most = Math.max(...rows);
    if (most > 0 && tall(most) > 13) picture.append(label(left - 7, middle + sign * tall(most) + 4, count(most), "", "end"));
  }
  picture.append(label(left + side, middle - tall(Math.max(...counts.positive.slice(-6))) - 5, figure.names[1], "name halo", "end"));
  picture.append(label(left + side, middle + tall(Math.max(...counts.negative.slice(-6))) + 14, figure.names[0], "name halo", "end"));
}

function describeBlock(figure, block) {
  const share = block[3] / block[2], gap = 100 * (share - block[4]), chance = chanceAt(figure, block[4]);
  const allowed = chance === null ? "" : ` Chance allows ${range(...chance, block[2])}.`;
  const crosses = divideStep(figure, block).some((each) => !each.good);
  const verdict = isChance(figure, block) ? (crosses ? "right on average, though not at both ends" : "within what chance allows") : `${fixed(Math.abs(gap), Math.abs(gap) < 0.95 ? 2 : 1)} points too ${gap > 0 ? "low" : "high"}`;
  const ends = range(block[0], block[1], block[2]), word = ends.includes(" to ") ? "from " : /^\d/.test(ends) ? "of " : "";
  return `Forecasts ${word}${ends}: ${count(block[2])} rows, ${count(block[3])} ${figure.names[1]}. ` +
    `Forecast ${told(block[4], block[2])} on average, happened ${percent(share)}: ${verdict}.${allowed}`;
}

// A large diagram that pointer, touch and arrow keys read part by part; it opens on the part that adds most to the error.
function startReliability(place, figure, readout, mode) {
  const worst = figure.blocks.map((each, k) => [Math.abs(each[3] - each[2] * each[4]), k]).sort((a, b) => b[0] - a[0])[0][1];
  let chosen = worst;
  const say = () => { readout.textContent = describeBlock(figure, figure.blocks[chosen]); };
  const again = keepDrawn(place, (width) => drawReliability(figure, width, { small: false, mode: mode(), chosen }));
  const choose = (k) => { if (k !== chosen) { chosen = k; say(); again(); } };
  const point = (event) => {
    const box = place.querySelector("svg").getBoundingClientRect(), scale = scaleOf(figure, mode());
    const side = box.width - 76, x = (event.clientX - box.left - 60) / side;
    const far = (each) => Math.max(scale.at(each[0]) - x, x - scale.at(each[1]), 0);
    choose(figure.blocks.reduce((best, each, k) => (far(each) < far(figure.blocks[best]) ? k : best), 0));
  };
  place.addEventListener("pointermove", point);
  place.addEventListener("pointerdown", point);
  place.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -1e6, End: 1e6 }[event.key];
    if (!step) return;
    event.preventDefault();
    choose(clamp(chosen + step, 0, figure.blocks.length - 1));
  });
  say();
  return again;
}

// The map: densities of both classes above, probability by score below (Platt 1999, Figures 1 and 2) ----------------------

function drawMap(figure, width) {
  const left = 60, right = 16, top = 10, strip = 92, gap = 24, bottom = 68, side = width - left - right;
  const height = clamp(side * 0.86, 220, 470), picture = frame(width, top + strip + gap + height + bottom);
  const low = figure.score[0], high = figure.score.at(-1), start = top + strip + gap;
  const reach = Math.max(...figure.points.map((each) => each[3]), ...figure.lines.flatMap((each) => each.values), expit(high));
  const tall = niceStep(Math.min(1, reach) / 5), most = Math.min(1, tall * Math.ceil(reach / tall));  // rare events need not the whole scale
  const X = (z) => left + (side * (clamp(z, low, high) - low)) / (high - low || 1), Y = (p) => start + height * (1 - Math.min(p, most) / most);
  const middles = figure.edges.slice(0, -1).map((edge, k) => (edge + figure.edges[k + 1]) / 2);
  const peak = Math.max(...figure.densities[0], ...figure.densities[1], 1e-12), S = (v) => top + strip - ((strip - 18) * v) / peak;
  for (const [look, density] of [["neg", figure.densities[1]], ["pos", figure.densities[0]]]) {
    const points = middles.map((z, k) => [X(z), S(density[k])]);
    picture.append(make("path", { class: `f-${look} area`, d: `${trace([[X(low), S(0)], ...points, [X(high), S(0)]])}Z` }));
    picture.append(make("path", { class: `l-${look}`, d: trace(points) }));
  }
  const at = (density) => middles[density.indexOf(Math.max(...density))];
  const [positive, negative] = figure.densities.map(at), flip = positive < negative;
  picture.append(label(flip ? left + side : left, top + 10, figure.names[0], "name halo", flip ? "end" : "start"));
  picture.append(label(flip ? left : left + side, top + 10, figure.names[1], "name halo", flip ? "start" : "end"));
  picture.append(line(left, S(0), left + side, S(0), "axis"));
  for (let tick = 0; tick <= most * 1.0001; tick += tall) picture.append(line(left, Y(tick), left + side, Y(tick), "gridline"), label(left - 7, Y(tick) + 4, tickLabel(tick), "", "end"));
  const step = niceStep((high - low) / (side < 330 ? 3 : 5));
  for (let z = Math.ceil(low / step) * step; z <= high + 1e-9; z += step) {
    picture.append(line(X(z), start, X(z), start + height, "gridline"));
    picture.append(label(X(z), start + height + 18, String(Number(z.toPrecision(6))).replace("-", MINUS), "", "middle"));
    picture.append(label(X(z), start + height + 35, roughly(expit(z)), "", "middle"));
  }
  const words = side < 380 ? "log-odds; below: forecast" : "score in log-odds, and below it the forecast it stands for";
  picture.append(label(left + side / 2, start + height + 58, words, "name", "middle"));
  picture.append(label(0, 0, "probability", "name", "middle", { transform: `translate(12 ${start + height / 2}) rotate(-90)` }));
  if (figure.band) {
    const [below, above] = figure.band;
    const outline = [...figure.score.map((z, k) => [X(z), Y(below[k])]), ...figure.score.map((z, k) => [X(z), Y(above[k])]).toReversed()];
    picture.append(make("path", { class: "f-soft", d: `${trace(outline)}Z` }));
  }
  picture.append(make("path", { d: trace(figure.score.map((z) => [X(z), Y(expit(z))])), class: "l-off dash" }));
  for (const each of figure.lines) picture.append(make("path", { d: trace(figure.score.map((z, k) => [X(z), Y(each.values[k])])), class: `l-${each.tone}` }));
  for (const [z, share, from, to] of figure.points) {
    picture.append(line(X(z), Y(from), X(z), Y(to), "whisker"), make("circle", { cx: X(z), cy: Y(share), r: 3.4, class: "f-ink disc" }));
  }
  return picture;
}

// Every small diagram and every map of the page.
function drawFigures(root = document) {
  for (const place of root.querySelectorAll("[data-figure]")) {
    if (place.dataset.drawn || place.closest("[hidden]")) continue;
    const figure = DRAWN.figures[place.dataset.figure];
    place.dataset.drawn = "yes";
    if (figure.kind === "map") keepDrawn(place, (width) => drawMap(figure, width));
    else keepDrawn(place, (width) => drawReliability(figure, width, { small: true, mode: "even", chosen: null }));
  }
}
