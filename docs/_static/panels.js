// The three panels of the page: controls, numbers and pictures. All arithmetic is in mkl.js.
"use strict";

const Draw = (() => {
  const element = (name, attributes = {}, children = []) => {
    const svg = ["svg", "g", "path", "rect", "circle", "line", "text", "polyline", "polygon", "title"].includes(name);
    const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...[].concat(children));
    return made;
  };
  // A picture with x and y in [x0, x1] x [y0, y1]; returns its root and a function from coordinates to pixels
  const chart = (label, [x0, x1], [y0, y1], width = 360, height = 260) => {
    const [left, right, top, bottom] = [34, 12, 10, 34];
    const to = (x, y) => [left + ((x - x0) / (x1 - x0)) * (width - left - right),
      top + ((y1 - y) / (y1 - y0)) * (height - top - bottom)];
    const from = (px, py) => [x0 + ((px - left) / (width - left - right)) * (x1 - x0),
      y1 - ((py - top) / (height - top - bottom)) * (y1 - y0)];
    const root = element("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
    return { root, to, from, width, height };
  };
  const line = (picture, points, cls) =>
    picture.root.append(element("polyline", { class: cls, points: points.map((p) => picture.to(...p).join()).join(" ") }));
  const dot = (picture, [x, y], cls, radius = 5) => {
    const [cx, cy] = picture.to(x, y);
    picture.root.append(element("circle", { class: cls, cx, cy, r: radius }));
  };
  const text = (picture, [x, y], words, { anchor = "middle", dx = 0, dy = 0, cls = "" } = {}) => {
    const [px, py] = picture.to(x, y);
    picture.root.append(element("text", { x: px + dx, y: py + dy, "text-anchor": anchor, class: cls }, words));
  };
  const short = (value) => (Math.abs(value) < 5e-10 ? "0" : Number(value.toPrecision(6)).toString());
  // A number that tests read to its last digit
  const number = (name, value) =>
    element("output", { "data-number": name, "data-value": String(value), title: String(value) }, short(value));
  // A labelled slider; `say` writes its value beside it, `exactly` what lies between two steps
  const slider = (id, words, max, start, say, changed) => {
    const input = element("input", { type: "range", id, min: 0, max, step: 1, value: start });
    const shown = element("output", { for: id });
    const refresh = () => { shown.textContent = say(Number(input.value)); input.setAttribute("aria-valuetext", shown.textContent); };
    input.addEventListener("input", () => { refresh(); changed(); });
    refresh();
    const row = element("div", { class: "control" }, [element("label", { for: id }, words), input, shown]);
    return { row, input, refresh, get value() { return Number(input.value); },
      set value(next) { input.value = Math.round(next); refresh(); },
      exactly(words) { shown.textContent = words; input.setAttribute("aria-valuetext", words); } };
  };
  const button = (id, words, pressed) => {
    const made = element("button", { type: "button", id }, words);
    made.addEventListener("click", pressed);
    return made;
  };
  // The interval from lower to upper on a line that holds both, 0, and what is usual, so that it stands still
  const interval = (low, high, usual = 0) => {
    const largest = Math.max(Math.abs(low), Math.abs(high), usual), step = Math.max(4, 2 ** Math.ceil(Math.log2(largest || 1))) / 4;
    const begin = Math.min(0, Math.floor(low / step) * step), end = Math.max(step, Math.ceil(Math.max(high, usual) / step) * step);
    const picture = chart(`P* lies between ${short(low)} and ${short(high)}`, [begin, end], [0, 1], 360, 84);
    line(picture, [[begin, 0], [end, 0]], "axis");
    for (let tick = begin; tick <= end; tick += step) {
      text(picture, [tick, 0], short(tick), { dy: 18 });
      line(picture, [[tick, 0], [tick, 0.12]], "axis");
    }
    const [a, top] = picture.to(low, 0.8), [b, bottom] = picture.to(high, 0.35);
    picture.root.append(element("rect", { class: "gap", x: a, y: top, width: Math.max(2, b - a), height: bottom - top }));
    return picture.root;
  };
  // A curve as far as it lies between low and high: where it leaves, it ends at the edge
  const curve = (picture, points, low, high, cls) => {
    const inside = ([, y]) => y >= low && y <= high;
    const edge = ([x, y], [u, v]) => {
      const level = Math.max(y, v) > high ? high : low;
      return [x + ((level - y) / (v - y)) * (u - x), level];
    };
    const parts = [[]];
    points.forEach((point, k) => {
      if (k > 0 && inside(points[k - 1]) !== inside(point)) {
        parts.at(-1).push(edge(points[k - 1], point));
        if (!inside(point)) parts.push([]);
      }
      if (inside(point)) parts.at(-1).push(point);
    });
    for (const part of parts) if (part.length > 1) line(picture, part, cls);
  };
  return { element, chart, line, curve, dot, text, short, number, slider, button, interval };
})();

const NORMS = [1, 1.1, 4 / 3, 1.5, 2, 3, 5, Infinity];
const COSTS = [0.5, 1, 1.5, 2, 3, 4, 6];
const STEPS = 60;
const normName = (p) => (p === Infinity ? "∞" : p === 4 / 3 ? "4/3" : String(p));
const KEYS = "Sliders: drag them, or choose one with Tab and move it with the arrow keys, by larger steps with Page Up and Page Down.";
const subscript = (i) => "₁₂₃"[i];

// Panel 1: a dual point and weights, chosen by hand; the bounds that they prove, and what is missing
function gapPanel(place) {
  const { element, slider, number, short } = Draw;
  const show = () => draw();
  const p = slider("gap-p", "p, the norm of the weights", NORMS.length - 1, 0, (k) => normName(NORMS[k]), show);
  const cost = slider("gap-C", "C, the cost of errors", COSTS.length - 1, 4, (k) => String(COSTS[k]), () => draw("cost"));
  const value = (step) => (step * COSTS[cost.value]) / STEPS;
  const first = slider("gap-1", "α₁, sample at −1", STEPS, 16, (k) => short(value(k)), () => draw("first"));
  const third = slider("gap-3", "α₃, sample at 1.5", STEPS, 20, (k) => short(value(k)), () => draw("third"));
  const share = slider("gap-share", "share of the linear kernel", STEPS, 30, (k) => short(k / STEPS), show);
  const follow = element("input", { type: "checkbox", id: "gap-follow" });
  follow.addEventListener("change", show);
  const restart = () => {
    const start = [[p, 0], [cost, 4], [first, 16], [third, 20], [share, 30]];
    for (const [control, step] of start) control.value = step;
    follow.checked = false;
    draw();
  };
  let exact = null; // the optimum to all digits, until a control moves
  let stopped = ""; // the multiplier that cannot be raised further
  const solve = element("div", { class: "control" }, [
    Draw.button("gap-solve", "Show the optimum", () => { exact = optimum(NORMS[p.value], COSTS[cost.value]); draw("exact"); }),
    Draw.button("gap-reset", "Start again", restart),
  ]);
  const checkbox = element("div", { class: "control" },
    [follow, element("label", { for: "gap-follow" }, "weights follow the dual point in closed form")]);
  const controls = element("div", { class: "controls" },
    [element("p", { class: "hint" }, KEYS), p.row, cost.row, first.row, third.row, share.row, checkbox, solve]);
  const views = element("div", { class: "views" });
  const verdict = element("div", { class: "verdict", "aria-live": "polite" });
  const remarks = element("div", { class: "verdict", "aria-live": "polite" });
  place.replaceChildren(controls, verdict, views, remarks);

  const weightsOf = (s, norm) => { const n = MKL.norm([s, 1 - s], norm); return [s / n, (1 - s) / n]; };
  const state = () => {
    const C = COSTS[cost.value], norm = NORMS[p.value], set = MKL.ball(norm);
    if (exact) return { C, norm, set, ...exact };
    const beta = [value(first.value), -value(first.value + third.value), value(third.value)];
    const theta = follow.checked ? set.fit(MKL.squares(beta, 2)) : weightsOf(share.value / STEPS, norm);
    return { C, norm, set, beta, theta };
  };
  // max over alpha_1, alpha_3 of the lower bound, then min over the share of the upper one
  const optimum = (norm, C) => {
    const set = MKL.ball(norm), at = (a, c) => [a, -(a + c), c];
    const best = (a) => MKL.golden((c) => -MKL.lower(at(a, c), 2, set), 0, C - a);
    const a = MKL.golden((one) => -MKL.lower(at(one, best(one)), 2, set), 0, C), beta = at(a, best(a));
    const s = MKL.golden((one) => MKL.point(beta, weightsOf(one, norm), C, set).upper, 0, 1);
    return { beta, theta: weightsOf(s, norm) };
  };

  function draw(moved) {
    if (moved !== "exact") exact = null;
    stopped = "";
    if (first.value + third.value > STEPS) { // alpha_2 = alpha_1 + alpha_3 <= C: what moves stops there
      const [moving, other] = moved === "first" ? [first, third] : [third, first];
      moving.value = STEPS - other.value;
      stopped = moving === first ? "α₁" : "α₃";
    }
    first.refresh(); third.refresh(); share.refresh();
    if (exact) { // sliders stand at the nearest steps; the point, and what is written beside them, is exact
      const places = [[first, exact.beta[0], COSTS[cost.value]], [third, exact.beta[2], COSTS[cost.value]],
        [share, exact.theta[0] / (exact.theta[0] + exact.theta[1]), 1]];
      for (const [control, place, whole] of places) { control.value = (place / whole) * STEPS; control.exactly(short(place)); }
    }
    share.input.disabled = follow.checked;
    const now = state();
    if (follow.checked && !exact) {
      const part = now.theta[0] / (now.theta[0] + now.theta[1]);
      share.value = part * STEPS;
      share.exactly(short(part));
    }
    const point = MKL.point(now.beta, now.theta, now.C, now.set);
    place.dataset.state = JSON.stringify({ ...now, set: undefined, norm: String(now.norm) });
    views.replaceChildren(dualPicture(now), functionPicture(now, point), partsPicture(point));
    // f = 0 and the best b cost 2 C: the usual end of the line
    verdict.replaceChildren(Draw.interval(point.lower, point.upper, 2 * now.C),
      element("p", {}, [number("lower", point.lower), " ≤ P* ≤ ", number("upper", point.upper), ", gap ",
        number("gap", point.gap), "."]));
    remarks.replaceChildren(
      element("p", {}, ["Dual point α = (", number("alpha1", now.beta[0]), ", ", number("alpha2", -now.beta[1]), ", ",
        number("alpha3", now.beta[2]), "), weights θ = (", number("theta1", now.theta[0]), ", ", number("theta2", now.theta[1]),
        "), to six digits; hold the pointer over a number for all of them."]),
      ...(stopped ? [element("p", {}, `α₂ = α₁ + α₃ is at its bound C: ${stopped} stops here until the other is lowered.`)] : []),
      ...words(now, point).map((line) => element("p", {}, line)));
  }

  const dualPicture = ({ C, set, beta, norm }) => {
    const picture = Draw.chart("The dual points: the stronger the colour, the higher the lower bound", [0, C], [0, C]);
    const cells = 24, side = C / cells, values = [];
    for (let i = 0; i < cells; i++) for (let j = 0; j < cells - i; j++) {
      const a = (i + 1 / 3) * side, c = (j + 1 / 3) * side;
      values.push([i, j, MKL.lower([a, -(a + c), c], 2, set)]);
    }
    const top = Math.max(...values.map((v) => v[2])), low = Math.max(-top, Math.min(...values.map((v) => v[2])));
    for (const [i, j, v] of values) {
      const [x, y] = picture.to(i * side, (j + 1) * side), [x2, y2] = picture.to((i + 1) * side, j * side);
      const level = Math.max(0, (v - low) / (top - low));
      picture.root.append(element("rect", { class: "level", x, y, width: x2 - x + 0.5, height: y2 - y + 0.5,
        "fill-opacity": (0.05 + 0.75 * Math.round(level ** 3 * 10) / 10).toFixed(2) }));
    }
    Draw.line(picture, [[0, 0], [C, 0], [0, C], [0, 0]], "axis");
    Draw.dot(picture, [beta[0], beta[2]], "here", 7);
    Draw.text(picture, [C / 2, 0], "α₁", { dy: 26 });
    Draw.text(picture, [0, C / 2], "α₃", { dx: -18 });
    Draw.text(picture, [C, 0], `${C}`, { dy: 16 });
    Draw.text(picture, [0, C], `${C}`, { anchor: "end", dx: -4, dy: 4 });
    Draw.text(picture, [0, 0], "0", { anchor: "end", dx: -4, dy: 14 });
    Draw.text(picture, [0.97 * C, 0.9 * C], "stronger colour: higher lower bound", { anchor: "end" });
    const move = (event) => {
      const box = picture.root.getBoundingClientRect();
      const [a, c] = picture.from(((event.clientX - box.left) / box.width) * picture.width,
        ((event.clientY - box.top) / box.height) * picture.height);
      first.value = Math.max(0, Math.min(STEPS, (a / C) * STEPS));
      third.value = Math.max(0, Math.min(STEPS - first.value, (c / C) * STEPS));
      draw();
    };
    picture.root.addEventListener("click", move);
    return figure(picture.root, "The dual point (click to move it)");
  };

  const functionPicture = ({ theta, beta }, { b, t }) => {
    const f = (z) => b + MKL.sum(theta.map((w, m) => w * MKL.sum(MKL.x.map((xi, i) => beta[i] * MKL.kernels[m].k(xi, z)))));
    const picture = Draw.chart("The decision function that the point stands for", [-1.6, 2.1], [-3, 3]);
    for (const level of [-1, 0, 1]) Draw.line(picture, [[-1.6, level], [2.1, level]], level ? "margin" : "axis");
    const points = Array.from({ length: 75 }, (_, k) => [-1.6 + k * 0.05, f(-1.6 + k * 0.05)]);
    Draw.curve(picture, points, -3, 3, "function");
    MKL.x.forEach((z, i) => {
      Draw.line(picture, [[z, MKL.y[i]], [z, Math.max(-3, Math.min(3, t[i]))]], "error");
      Draw.dot(picture, [z, MKL.y[i]], MKL.y[i] > 0 ? "positive" : "negative", 6);
      Draw.text(picture, [z, MKL.y[i]], MKL.y[i] > 0 ? "+" : "−", { dy: 4, cls: "sign" });
    });
    for (const z of MKL.x) Draw.text(picture, [z, -3], short(z), { dy: 18 });
    for (const level of [-1, 0, 1]) Draw.text(picture, [-1.6, level], String(level), { anchor: "end", dx: -4, dy: 4 });
    return figure(picture.root, "The decision function f + b between −3 and 3; samples at their labels");
  };

  const partsPicture = ({ parts, gap }) => {
    const names = ["sample at −1", "sample at 0.5", "sample at 1.5", "norms and weights"], largest = Math.max(...parts, 1e-9);
    const picture = Draw.chart("What the gap is made of", [0, 1.25], [4, 0], 360, 220);
    parts.forEach((part, i) => {
      const [x, y] = picture.to(0, i + 0.45), [end] = picture.to(Math.max(0, part) / Math.max(largest, 0.5), 0);
      picture.root.append(element("rect", { class: "part", x, y, width: Math.max(1, end - x), height: 20 }));
      Draw.text(picture, [0, i + 0.3], `${names[i]}: ${short(part < 1e-9 ? 0 : part)}`, { anchor: "start", cls: "start" });
    });
    return figure(picture.root, "The gap in parts, each what an inequality gives away: none is ever negative");
  };

  const words = ({ C, norm, beta }, { lower: low, upper, gap, t, q }) => {
    const relative = gap / Math.abs(upper);
    if (relative > 0.02) return [`Every dual point proves a lower bound, every decision function an upper one. They are ${short(gap)} apart: move on.`];
    if (relative > 1e-6) return [`Within ${short(100 * relative)} % of the optimum, and proved to be: no point can be better than the lower bound.`];
    const alpha = beta.map((entry, i) => Math.abs(entry));
    const where = alpha.map((entry, i) => `α${subscript(i)} ` + (entry < 1e-6 * C ? "is at 0, its sample on the right side of the margin"
      : entry > C * (1 - 1e-6) ? `is at its bound C, margin ${short(MKL.y[i] * t[i])} ≤ 1`
      : "is between its bounds, so its sample sits on the margin, y (f + b) = 1"));
    const tie = norm === 1 ? (Math.abs(q[0] - q[1]) < 1e-5 * q[0]
      ? "Both kernels attain the largest β′Kₘβ: both constraints of the dual are active, and both may have weight."
      : `Only the ${q[0] > q[1] ? "linear" : "quadratic"} kernel attains the largest β′Kₘβ: the other constraint is slack, its weight 0.`)
      : norm === Infinity ? "At p = ∞ every weight is 1, whatever β is: nothing is chosen, the kernels are added up."
      : "At p > 1 every kernel with β′Kₘβ > 0 takes part: θₘ grows with (β′Kₘβ)^{1/(p−1)}.";
    return [`Closed${gap < 1e-12 ? "" : `, to ${gap.toExponential(0)}`}: this lower bound and this upper bound meet at ${short(low)}, so neither can be improved. That there is such a pair is strong duality.`,
      `${where.join("; ")}.`, tie];
  };
  draw();
}

const figure = (picture, words) =>
  Draw.element("figure", {}, [picture, Draw.element("figcaption", {}, words)]);
