// The parts of the page that move: scales, the panel of decisions, the table of methods, copying.

// One large diagram with a switch of its scale.
function startLarge(root, figure) {
  const switches = [...root.querySelectorAll("input[data-scale]")];
  const mode = () => switches.find((each) => each.checked)?.value ?? "even";
  const again = startReliability(root.querySelector("[data-large]"), figure, root.querySelector("[data-read]"), mode);
  for (const each of switches) each.addEventListener("change", again);
  return again;
}

// Decisions -----------------------------------------------------------------------------------------------------------

// The counts at a threshold: rows below it, and rows up to it, of the first and of the second class.
function countsAt(source, threshold) {
  const all = DRAWN.thresholds[source.several ? "several" : "two"];
  let low = 0, high = all.length - 1;
  while (low < high) { const middle = (low + high) >> 1; if (all[middle] < threshold - 1e-12) low = middle + 1; else high = middle; }
  const [firstBelow, firstUpto, secondBelow, secondUpto] = source.counts;
  return { below: [firstBelow[low], secondBelow[low]], upto: [firstUpto[low], secondUpto[low]] };
}

// Two classes: the decision of least expected cost (Chow 1970; Elkan 2001), as in calibrant.decisions.bayes.
function decideTwo(source, alarm, miss, rejection) {
  const t = alarm / (alarm + miss), [positives, negatives] = source.total;
  const low = rejection === null ? 1 : rejection / miss, high = rejection === null ? 0 : 1 - rejection / alarm;
  const rejects = low < t && high > t, from = rejects ? high : t, to = rejects ? low : t;
  const [missed, rightNegative] = countsAt(source, to).upto;
  const [notPositive, notNegative] = rejects ? countsAt(source, from).below : [missed, rightNegative];
  const found = positives - notPositive, alarms = negatives - notNegative;
  const undecided = [notPositive - missed, notNegative - rightNegative], total = positives + negatives;
  const left = undecided[0] + undecided[1];
  return { t, low: to, high: from, rejects, missed, rightNegative, found, alarms, undecided, left, total,
    wrong: missed + alarms, cost: alarm * alarms + miss * missed + (rejection ?? 0) * left,
    blind: Math.min(alarm * negatives, miss * positives), always: alarm * negatives < miss * positives ? 1 : 0 };
}

// More classes: the most probable one where its probability reaches the threshold, else none.
function decideSeveral(source, cost, _, rejection) {
  const [right, wrong] = source.total, threshold = rejection === null || rejection >= cost ? 0 : 1 - rejection / cost;
  const [rightLeft, wrongLeft] = threshold > 0 ? countsAt(source, threshold).below : [0, 0];
  const left = rightLeft + wrongLeft, total = right + wrong, errors = wrong - wrongLeft;
  return { t: threshold, low: threshold, high: threshold, rejects: threshold > 0, right: right - rightLeft, wrong: errors,
    undecided: [rightLeft, wrongLeft], left, total, cost: cost * errors + (rejection ?? 0) * left, blind: cost * wrong };
}

const decide = (source, ...costs) => (source.several ? decideSeveral : decideTwo)(source, ...costs);

function startPanel() {
  const form = byId("panel");
  if (!form || !DRAWN.panels.length) return;
  const { costs, rejections, panels } = DRAWN;
  const state = () => ({
    source: panels[Number(byId("panel-source")?.value ?? 0)],
    alarm: costs[Number(byId("cost-alarm").value)],
    miss: costs[Number(byId("cost-miss").value)],
    rejection: byId("may-reject").checked ? rejections[Number(byId("cost-rejection").value)] : null,
  });
  const drawCost = keepDrawn(byId("cost-curve"), (width) => (state().source.several ? frame(width, 1) : drawCosts(width, state())));
  const drawReject = keepDrawn(byId("reject-curve"), (width) => drawRejects(width, state()));
  const show = () => {
    const now = state(), found = decide(now.source, now.alarm, now.miss, now.rejection);
    showCosts(now);
    showOutcome(now, found);
    showRule(now, found);
    drawCost();
    drawReject();
  };
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  for (const button of form.querySelectorAll("[data-costs]")) {
    button.addEventListener("click", () => {
      const [alarm, miss] = JSON.parse(button.dataset.costs);
      byId("cost-alarm").value = costs.indexOf(alarm);
      byId("cost-miss").value = costs.indexOf(miss);
      show();
    });
  }
  show();
}

const nameOf = (source, k) => source.names[k];

function showCosts({ source, alarm, miss, rejection }) {
  const values = { "cost-alarm": alarm, "cost-miss": miss, "cost-rejection": DRAWN.rejections[Number(byId("cost-rejection").value)] };
  for (const [id, value] of Object.entries(values)) {
    byId(`shown-${id}`).textContent = String(value);
    byId(id).setAttribute("aria-valuetext", String(value));
  }
  byId("cost-rejection").disabled = rejection === null;
  const two = !source.several;
  for (const each of document.querySelectorAll("[data-two]")) each.hidden = !two;
  if (two) {
    for (const [id, k] of [["alarm-says", 1], ["alarm-is", 0], ["miss-says", 0], ["miss-is", 1]]) byId(id).textContent = nameOf(source, k);
  }
  byId("words-two").hidden = !two;
  byId("words-several").hidden = two;
}

function showOutcome({ source, alarm, miss, rejection }, found) {
  const share = (part, all) => (all > 0 ? percent(part / all) : "–");
  const table = byId("outcome"), [first, second] = source.total;
  const cell = (rows, words, look = "") => `<td class="${look}" data-rows="${rows}"><b>${count(rows)}</b><span>${words}</span></td>`;
  const head = (words) => `<th scope="col">${words}</th>`, escape = (text) => text.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
  const un = found.rejects, left = un ? head("undecided") : "";
  if (source.several) {
    table.innerHTML = `<caption class="sr">Decisions and whether they were right</caption><thead><tr>${head("right")}${head("wrong")}${left}</tr></thead>` +
      `<tbody><tr>${cell(found.right, share(found.right, found.total))}${cell(found.wrong, share(found.wrong, found.total), "wrong")}${un ? cell(found.left, share(found.left, found.total)) : ""}</tr></tbody>`;
  } else {
    const [no, yes] = source.names.map(escape);
    table.innerHTML = `<caption class="sr">Decisions against what happened</caption><thead><tr><td class="none"></td>${head(`says <b>${yes}</b>`)}${left}${head(`says <b>${no}</b>`)}</tr></thead><tbody>` +
      `<tr><th scope="row">was <b>${yes}</b></th>${cell(found.found, `found, ${share(found.found, first)}`)}${un ? cell(found.undecided[0], share(found.undecided[0], first)) : ""}${cell(found.missed, `missed, ${share(found.missed, first)}`, "wrong")}</tr>` +
      `<tr><th scope="row">was <b>${no}</b></th>${cell(found.alarms, `false alarms, ${share(found.alarms, second)}`, "wrong")}${un ? cell(found.undecided[1], share(found.undecided[1], second)) : ""}${cell(found.rightNegative, `right, ${share(found.rightNegative, second)}`)}</tr></tbody>`;
  }
  const per = 1000 / found.total, price = byId("price");
  price.textContent = money(found.cost * per);
  Object.assign(price.dataset, { cost: found.cost, blind: found.blind, rejected: found.left, wrong: found.wrong, threshold: found.t, low: found.low, high: found.high });
  const saved = (found.blind - found.cost) * per, without = source.several ? "Deciding on every row" : `Without any model, always saying ${nameOf(source, found.always)}`;
  byId("versus").textContent = source.several && !un ? "Every row is decided." : `${without} costs ${money(found.blind * per)}: ` + (Math.abs(saved) < 0.005 ? "these decisions cost the same." : saved > 0
    ? `these decisions save ${money(saved)} (${Math.round((100 * saved) / per / found.blind)}%).`
    : `these decisions cost ${money(-saved)} more.`);
  const others = DRAWN.panels.filter((other) => other !== source && other.several === source.several && [first, second].every((rows, k) => Math.abs(other.total[k] - rows) <= 1e-6 * found.total)).slice(0, 2);
  byId("others").textContent = source.several ? "" : others.map((other) => {
    const gap = (decide(other, alarm, miss, rejection).cost - found.cost) * per;
    return `${other.name[0].toUpperCase()}${other.name.slice(1)}: ${money(found.cost * per + gap)}${Math.abs(gap) < 0.005 ? ", the same" : ` (${gap > 0 ? "+" : MINUS}${money(Math.abs(gap))})`}.`;
  }).join(" ");
  byId("rejection-words").textContent = rejection === null ? "" : un
    ? `Undecided from ${tickLabel(found.low)} to ${tickLabel(found.high)}: ${count(found.left)} rows (${percent(found.left / found.total)}).`
    : "At this cost leaving a row undecided never pays.";
  if (source.several && un) byId("rejection-words").textContent = `Undecided below ${tickLabel(found.t)}: ${count(found.left)} rows (${percent(found.left / found.total)}).`;
}

// A rule is copied and run as it is: with its imports, and with names that are no words in quotes.
// Classes that are numbers stay numbers, unless "undecided" is among the decisions.
const isWord = (name) => /^[A-Za-z_]\w*$/.test(name);
const areNumbers = (names) => names.every((name) => /^-?\d+(\.\d+)?$/.test(name));
const threshold = (value) => String(Number(value.toPrecision(10)));

function showRule({ source }, found) {
  const rule = byId("rule"), map = source.map, numbers = areNumbers(source.classes) && !found.rejects;
  const text = (name) => (numbers ? name : JSON.stringify(name)), quote = (name) => (numbers ? name : `'${name.replaceAll("'", "''")}'`);
  const imports = map ? "import calibrant\nimport numpy as np\n\n" : "import numpy as np\n\n";
  const written = "\nFROM scored  -- what calibrant apply map.json writes";
  if (source.several) {
    rule.textContent = found.rejects ? `Decide for the most probable class where its probability is at least ${tickLabel(found.t)}; leave the others undecided.` : "Decide for the most probable class.";
    const names = source.classes, columns = source.columns.map((name) => `"${name.replaceAll('"', '""')}"`), most = `GREATEST(${columns.join(", ")})`;
    byId("python").textContent = imports + (map ? `fitted = calibrant.load("map.json")\nP = fitted(P)\nclasses = np.array(fitted.origin.classes, object)\n` : `P = ...  # one column per class, in this order\nclasses = np.array([${names.map(text).join(", ")}])\n`) + (found.rejects
      ? `decision = np.where(\n    P.max(axis=1) >= ${threshold(found.t)}, classes[P.argmax(axis=1)], "undecided")` : "decision = classes[P.argmax(axis=1)]");
    const cases = [...(found.rejects ? [`${most} < ${threshold(found.t)} THEN 'undecided'`] : []), ...names.slice(0, -1).map((name, k) => `${columns[k]} = ${most} THEN ${quote(name)}`)];
    byId("sql").textContent = `SELECT *,\n  CASE WHEN ${cases.join("\n       WHEN ")}\n       ELSE ${quote(names.at(-1))} END AS decision` + (map ? written : "\nFROM scores");
    return;
  }
  const [no, yes] = source.classes, given = isWord(source.column) ? source.column : `table[${JSON.stringify(source.column)}]`;
  const column = map ? "q" : given, field = map ? (map.sql ? "q" : "probability") : source.field;
  const [never, always] = source.names;
  rule.textContent = found.rejects
    ? `Say ${always} from ${tickLabel(found.high)}, ${never} up to ${tickLabel(found.low)}, and leave what lies between undecided.`
    : `Say ${always} above ${tickLabel(found.t)}, else ${never}.`;
  const load = map ? `q = calibrant.load("map.json")(${map.kind === "margin" ? "score" : given})\n` : "";
  byId("python").textContent = imports + load + (found.rejects
    ? `decision = np.select(\n    [${column} >= ${threshold(found.high)}, ${column} <= ${threshold(found.low)}],\n    [${text(yes)}, ${text(no)}], "undecided")`
    : `decision = np.where(\n    ${column} > ${threshold(found.t)}, ${text(yes)}, ${text(no)})`);
  const cases = found.rejects
    ? `CASE WHEN ${field} >= ${threshold(found.high)} THEN ${quote(yes)}\n       WHEN ${field} <= ${threshold(found.low)} THEN ${quote(no)}\n       ELSE 'undecided' END AS decision`
    : `CASE WHEN ${field} > ${threshold(found.t)} THEN ${quote(yes)}\n       ELSE ${quote(no)} END AS decision`;
  const mapped = map?.sql ? `\nFROM (\n  SELECT *, ${map.sql} AS q\n  FROM scores)` : map ? written : "\nFROM scores";
  byId("sql").textContent = `SELECT *,\n  ${cases}${mapped}`;
}

// The frame of a curve of the panel: axes with percent below, and a mark with its words above.
function drawCurve(width, { most, format, below, points, mark, words, level }) {
  const left = 50, right = 14, top = 24, height = 180, side = width - left - right, picture = frame(width, top + height + 46);
  const X = (x) => left + side * x, Y = (y) => top + height * (1 - Math.min(y, most) / most), step = niceStep(most / 4);
  for (let value = 0; value <= most * 1.0001; value += step) picture.append(line(left, Y(value), left + side, Y(value), "gridline"), label(left - 7, Y(value) + 4, format(value), "", "end"));
  for (const tick of side < 200 ? [0, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1]) picture.append(label(X(tick), top + height + 18, tickLabel(tick), "", tick === 1 ? "end" : tick === 0 ? "start" : "middle"));
  if (level) {  // its words stand where the curve is further away
    const room = (from, to) => Math.min(...points.filter(([x]) => x >= from && x <= to).map(([, y]) => Math.abs(Y(y) - Y(level.value))));
    const start = room(0, 0.45) > room(0.55, 1);
    picture.append(line(left, Y(level.value), left + side, Y(level.value), "ideal"));
    picture.append(label(start ? left : left + side, Y(level.value) - 6, level.words, "halo", start ? "start" : "end"));
  }
  picture.append(make("path", { d: trace(points.filter(([, y]) => y <= most * 1.001).map(([x, y]) => [X(x), Y(y)])), class: "l-good" }));
  picture.append(line(X(mark[0]), top, X(mark[0]), top + height, "cursor"), make("circle", { cx: X(mark[0]), cy: Y(mark[1]), r: 6.5, class: "f-off disc" }));
  picture.append(label(left + side / 2, top + height + 40, below, "name", "middle"));
  const flip = mark[0] > 0.5;
  picture.append(label(X(mark[0]) + (flip ? -6 : 6), top - 9, words, "t-off halo", flip ? "end" : "start"));
  return picture;
}

function drawCosts(width, { source, alarm, miss }) {
  const per = 1000 / (source.total[0] + source.total[1]);
  const now = decideTwo(source, alarm, miss, null), [positives, negatives] = source.total;
  const points = DRAWN.thresholds.two.map((t, k) => [t, per * (alarm * (negatives - source.counts[3][k]) + miss * source.counts[1][k])]);
  points.unshift([0, per * alarm * negatives]);
  points.push([1, per * miss * positives]);
  const blind = per * now.blind, most = Math.max(1.6 * blind, 1.3 * per * now.cost) || 1000;
  return drawCurve(width, { most, format: (value) => (value >= 10 || value === 0 ? whole(value) : String(Number(value.toPrecision(2)))),
    below: `say ${nameOf(source, 1)} above this probability`, points, mark: [now.t, per * now.cost],
    words: `threshold ${tickLabel(Number(now.t.toPrecision(3)))}: ${money(per * now.cost)}`, level: { value: blind, words: `always ${nameOf(source, now.always)}: ${money(blind)}` } });
}

const FEWEST = 10;  // rows of which a share of errors is drawn

// Wrong among the decisions made, when the least certain rows are left undecided first; the line is for equal costs.
function drawRejects(width, { source, alarm, miss, rejection }) {
  const total = source.total[0] + source.total[1], all = DRAWN.thresholds[source.several ? "several" : "two"], points = [];
  all.forEach((t) => {
    if (!source.several && (t < 0.5 || t >= 1)) return;
    let wrong, left;
    if (source.several) {
      const [right, bad] = countsAt(source, t).below;
      left = right + bad;
      wrong = source.total[1] - bad;
    } else {
      const down = countsAt(source, 1 - t).upto, up = t > 0.5 ? countsAt(source, t).below : countsAt(source, t).upto;
      left = Math.max(up[0] + up[1] - down[0] - down[1], 0);
      wrong = down[0] + source.total[1] - up[1];
    }
    if (total - left >= Math.min(FEWEST, total)) points.push([left / total, wrong / (total - left)]);
  });
  points.sort((a, b) => a[0] - b[0]);
  const now = decide(source, alarm, miss, rejection), decided = total - now.left;
  const mark = [now.left / total, decided > 0 ? now.wrong / decided : 0];
  const most = Math.max(0.01, 1.25 * mark[1], ...points.map(([, y]) => 1.08 * y));
  return drawCurve(width, { most, format: (value) => tickLabel(Number(value.toPrecision(3))), below: "share of rows left undecided", points, mark,
    words: `${percent(mark[0])} undecided: ${percent(mark[1])} wrong` });
}

// The table of methods ------------------------------------------------------------------------------------------------

function startTables() {
  for (const table of document.querySelectorAll("table.methods")) {
    const body = table.tBodies[0];
    for (const button of table.querySelectorAll("[data-sort]")) {
      button.addEventListener("click", () => {
        const head = button.closest("th"), up = head.getAttribute("aria-sort") !== "ascending", column = Number(button.dataset.sort);
        for (const other of table.querySelectorAll("[aria-sort]")) other.setAttribute("aria-sort", "none");
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const rows = [...body.rows], heads = rows.filter((row) => !row.dataset.family);
        const value = (row) => (column < 0 ? row.dataset.title : Number(row.cells[column + 1].dataset.value.replace("inf", "Infinity")));
        heads.sort((a, b) => { const x = value(a), y = value(b); return (x < y ? -1 : x > y ? 1 : 0) * (up ? 1 : -1); });
        body.append(...heads.flatMap((row) => [row, ...rows.filter((other) => other.dataset.family === row.dataset.label)]));  // a family moves together
      });
    }
    for (const button of table.querySelectorAll("[data-open]")) {
      button.addEventListener("click", () => {
        const open = button.getAttribute("aria-expanded") !== "true";
        button.setAttribute("aria-expanded", String(open));
        for (const row of body.rows) if (row.dataset.family === button.dataset.open) row.hidden = !open;
      });
    }
  }
  for (const button of document.querySelectorAll("button.all")) {
    button.addEventListener("click", () => {
      const all = button.previousElementSibling.classList.toggle("all");
      button.setAttribute("aria-expanded", String(all));
      button.textContent = all ? "Show the leading methods only" : button.dataset.words;
    });
  }
}

// The views of a comparison: one for each data set and machine; and one method at full size.
function startViews() {
  const views = [...document.querySelectorAll("[data-view]")], select = byId("choose-view");
  const show = () => {
    for (const view of views) view.hidden = view.dataset.view !== (select?.value ?? "0");
    for (const view of views) if (!view.hidden) drawFigures(view);
  };
  select?.addEventListener("change", show);
  for (const view of views) {
    const pick = view.querySelector("[data-pick]");
    if (pick) pick.addEventListener("change", () => showCloser(view, pick));
  }
  show();
  for (const view of views) {
    const pick = view.querySelector("[data-pick]");
    if (!pick) continue;
    if (!view.hidden) showCloser(view, pick);
    else select.addEventListener("change", () => { if (!view.hidden && !view.dataset.looked) showCloser(view, pick); });
  }
}

function showCloser(view, pick) {
  const option = pick.selectedOptions[0], large = view.querySelector("[data-closer]");
  view.dataset.looked = "yes";
  const fresh = large.cloneNode(true);  // without the listeners of the method before
  fresh.querySelector("[data-large]").replaceChildren();
  fresh.querySelector("[data-large]").setAttribute("aria-label", `Reliability diagram of ${option.textContent}. Arrow keys read each part.`);
  fresh.querySelector("h3").textContent = `Reliability of ${option.textContent}`;
  large.replaceWith(fresh);
  startLarge(fresh, DRAWN.figures[option.value]);
  const map = view.querySelector("figure[data-map]");
  if (map) {
    const place = map.querySelector(".chart");
    const next = place.cloneNode(false);
    delete next.dataset.drawn;
    next.dataset.figure = option.dataset.map;
    next.setAttribute("aria-label", `Probability by score: ${option.textContent}, beside the forecasts as they are and what happened.`);
    place.replaceWith(next);
    drawFigures(map);
  }
}

// Copying -------------------------------------------------------------------------------------------------------------

function startCopying() {
  for (const button of document.querySelectorAll("button.copy")) {
    button.addEventListener("click", async () => {
      const code = button.parentElement.querySelector("pre");
      try { await navigator.clipboard.writeText(code.textContent); } catch {
        const range = document.createRange();
        range.selectNodeContents(code);
        getSelection().removeAllRanges();
        getSelection().addRange(range);
        document.execCommand("copy");
      }
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }
}

for (const root of document.querySelectorAll("[data-first]")) startLarge(root, DRAWN.figures[root.dataset.first]);
startViews();
drawFigures(byId("main"));
startPanel();
startTables();
startCopying();
document.documentElement.dataset.ready = "yes";
