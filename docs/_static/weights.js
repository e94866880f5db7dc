// The second and the third panel: sets of weights with the gradient of the machine, and cutting planes on the simplex.
"use strict";

// Panel 2: weights on the boundary of a set of three; where they can still go is the gap
function setPanel(place) {
  const { element, slider, number } = Draw;
  const sets = {
    simplex: ["simplex, p = 1", () => MKL.ball(1)], ball: ["ball of the p-norm", (p) => MKL.ball(p)],
    net: ["elastic net, λ = 1/2", () => MKL.elasticNet(0.5)], groups: ["groups {1, 2} and {3}", () => MKL.groupSet()],
  };
  const select = element("select", { id: "set-kind" },
    Object.entries(sets).map(([key, [words]]) => element("option", { value: key }, words)));
  select.value = "ball";
  let theta = null; // a point that a step led to, until a slider moves
  const shown = () => { theta = null; draw(); };
  select.addEventListener("change", shown);
  const p = slider("set-p", "p of the ball", NORMS.length - 1, 4, (k) => normName(NORMS[k]), shown);
  const cost = slider("set-C", "C, the cost of errors", COSTS.length - 1, 4, (k) => String(COSTS[k]), shown);
  const parts = MKL.kernels.map((kernel, m) =>
    slider(`set-${m + 1}`, `θ${subscript(m)}, ${kernel.name}`, STEPS, [40, 20, 20][m], () => "", shown));
  const step = Draw.button("set-step", "Best step towards the square", () => {
    const { set, C, theta: here, best } = now();
    const at = (share) => MKL.toBoundary(here.map((t, m) => t + share * (best[m] - t)), set);
    theta = at(MKL.golden((share) => MKL.machine(at(share), C).value, 0, 1));
    draw();
  });
  const again = Draw.button("set-reset", "Start again", () => {
    select.value = "ball";
    for (const [control, place] of [[p, 4], [cost, 4], [parts[0], 40], [parts[1], 20], [parts[2], 20]]) control.value = place;
    shown();
  });
  const controls = element("div", { class: "controls" }, [
    element("div", { class: "control" }, [element("label", { for: "set-kind" }, "set of weights"), select]),
    p.row, cost.row, ...parts.map((part) => part.row), element("div", { class: "control" }, [step, again])]);
  const views = element("div", { class: "views" }), verdict = element("div", { class: "verdict", "aria-live": "polite" });
  place.replaceChildren(controls, views, verdict);

  const now = () => {
    const set = sets[select.value][1](NORMS[p.value]), C = COSTS[cost.value];
    const raw = parts.map((part) => part.value);
    const here = theta ?? MKL.toBoundary(Math.max(...raw) > 0 ? raw : [1, 1, 1], set);
    const machine = MKL.machine(here, C);
    return { set, C, theta: here, ...machine, best: set.fit(machine.q), low: MKL.dot(MKL.y, machine.beta) - set.bound(machine.q) };
  };

  function draw() {
    p.input.disabled = select.value !== "ball";
    const state = now();
    if (theta) parts.forEach((part, m) => { part.value = (STEPS * theta[m]) / Math.max(...theta); });
    parts.forEach((part, m) => { part.row.lastChild.textContent = Draw.short(state.theta[m]); });
    place.dataset.state = JSON.stringify({ kind: select.value, p: String(NORMS[p.value]), C: state.C, theta: state.theta, beta: state.beta });
    views.replaceChildren(body(state), bars(state));
    const gap = state.value - state.low, away = MKL.sum(state.best.map((t, m) => Math.abs(t - state.theta[m])));
    verdict.replaceChildren(Draw.interval(state.low, state.value),
      element("p", {}, ["The machine at these weights has the value ", number("upper", state.value),
        ", and its dual point proves that no weights of the set do better than ", number("lower", state.low),
        ". The gap, ", number("gap", gap), ", is ½ Σₘ β′Kₘβ (θ*ₘ − θₘ): what the gradient −½ β′Kₘβ promises on the way to θ*, the point of the set that lies farthest against it."]),
      element("p", {}, gap < 1e-3 * state.value
        ? "The gradient is normal to the set: nothing is promised any more, and the weights are optimal."
        : `θ* is ${Draw.short(away)} away (sum of differences). Move θ towards the square.`));
  }

  const project = ([a, b, c]) => [(b - a) * 0.866, c - (a + b) * 0.5];
  const body = ({ set, theta: here, q, best }) => {
    const picture = Draw.chart("The set of weights, drawn in three dimensions", [-1.35, 1.35], [-1.1, 1.3], 360, 320);
    [[1.25, 0, 0], [0, 1.25, 0], [0, 0, 1.25]].forEach((axis, m) => {
      Draw.line(picture, [project([0, 0, 0]), project(axis)], "axis");
      Draw.text(picture, project(axis), `θ${subscript(m)}`, { dx: [-4, 4, 12][m], dy: [14, 14, 4][m] });
    });
    const N = 12, node = (i, j) => project(MKL.toBoundary([i, j, N - i - j].map((v) => v + 1e-9), set));
    for (let i = 0; i <= N; i++) {
      const run = (pick) => Array.from({ length: N - i + 1 }, (_, j) => node(...pick(j)));
      Draw.line(picture, run((j) => [i, j]), "mesh");
      Draw.line(picture, run((j) => [j, i]), "mesh");
      Draw.line(picture, run((j) => [j, N - i - j]), "mesh");
    }
    const length = 0.7 / Math.max(...q);
    Draw.line(picture, [project(here), project(here.map((t, m) => t + length * q[m]))], "gradient");
    const [x, y] = picture.to(...project(best));
    picture.root.append(element("rect", { class: "target", x: x - 6, y: y - 6, width: 12, height: 12 }));
    Draw.dot(picture, project(here), "here", 6);
    return figure(picture.root, "Weights θ (disc), steepest descent (arrow), farthest point θ* along it (square)");
  };
  const bars = ({ theta: here, best }) => {
    const picture = Draw.chart("Weights and the farthest point, kernel by kernel", [0, 1.1], [3, 0], 360, 220);
    here.forEach((t, m) => {
      const [x, y] = picture.to(0, m + 0.35), [end] = picture.to(t, 0), [other] = picture.to(best[m], 0);
      picture.root.append(element("rect", { class: "part", x, y, width: Math.max(1, end - x), height: 16 }));
      picture.root.append(element("rect", { class: "target", x, y: y + 18, width: Math.max(1, other - x), height: 10 }));
      Draw.text(picture, [0, m + 0.25], `${MKL.kernels[m].name}: ${MKL.kernels[m].text}`, { anchor: "start", cls: "start" });
    });
    return figure(picture.root, "θ above, θ* below");
  };
  draw();
}

// Panel 3: the value of the machine over the simplex of two weights, and the cuts of SILP below it
function cutPanel(place) {
  const { element, slider, number } = Draw;
  const set = MKL.ball(1);
  let cuts = [], best = Infinity;
  const restart = () => { cuts = []; best = Infinity; draw(); };
  const cost = slider("cut-C", "C, the cost of errors", COSTS.length - 1, 4, (k) => String(COSTS[k]), restart);
  const share = slider("cut-share", "θ₁, the linear kernel", STEPS, 50, (k) => Draw.short(k / STEPS), () => draw());
  const add = (s) => {
    const machine = MKL.machine([s, 1 - s], COSTS[cost.value]), linear = MKL.dot(MKL.y, machine.beta);
    cuts.push({ s, beta: machine.beta, a: linear - 0.5 * machine.q[1], d: 0.5 * (machine.q[1] - machine.q[0]), linear });
    best = Math.min(best, machine.value);
    draw();
  };
  const controls = element("div", { class: "controls" }, [cost.row, share.row, element("div", { class: "control" }, [
    Draw.button("cut-here", "Cut here", () => add(share.value / STEPS)),
    Draw.button("cut-lowest", "Cut at the lowest point", () => add(cuts.length ? MKL.lowest(cuts) : share.value / STEPS)),
    Draw.button("cut-reset", "Start again", () => { cost.value = 4; share.value = 50; restart(); })])]);
  const views = element("div", { class: "views" }), verdict = element("div", { class: "verdict", "aria-live": "polite" });
  place.replaceChildren(controls, views, verdict);

  // At the lowest point the cuts that hold it up are mixed: beta = sum of multiplier * beta of the cut
  const mixture = () => {
    const s = MKL.lowest(cuts), height = (cut) => cut.a + s * cut.d, top = Math.max(...cuts.map(height));
    const active = cuts.filter((cut) => height(cut) > top - 1e-12 * Math.max(1, Math.abs(top)));
    const flattest = (sign) => active.filter((cut) => sign * cut.d >= 0).sort((u, v) => Math.abs(v.d) - Math.abs(u.d))[0];
    const [up, down] = [flattest(1), flattest(-1)];
    if (!up || !down || up === down || up.d === down.d) return (up ?? down).beta;
    const share = -down.d / (up.d - down.d); // the slopes cancel
    return up.beta.map((entry, i) => share * entry + (1 - share) * down.beta[i]);
  };

  function draw() {
    const C = COSTS[cost.value], s = share.value / STEPS, beta = cuts.length ? mixture() : [0, 0, 0];
    const here = MKL.machine([s, 1 - s], C), low = MKL.lower(beta, 2, set), upper = Math.min(best, here.value);
    place.dataset.state = JSON.stringify({ C, share: s, beta, tried: cuts.map((cut) => cut.s), dual: here.beta });
    const values = Array.from({ length: 61 }, (_, k) => [k / 60, MKL.machine([k / 60, 1 - k / 60], C).value]);
    const top = 1.1 * Math.max(...values.map((v) => v[1]));
    const picture = Draw.chart("The value of the machine over the weights, and cuts below it", [0, 1], [0, top], 480, 300);
    Draw.line(picture, [[0, top], [0, 0], [1, 0]], "axis");
    for (const cut of cuts) {
      const ends = [[0, cut.a], [1, cut.a + cut.d]];
      const clip = ends.map(([u, v], i) => (v >= 0 ? [u, v] : [-cut.a / cut.d, 0]));
      if (cut.a >= 0 || cut.a + cut.d >= 0) Draw.line(picture, clip, "cut");
    }
    Draw.line(picture, values, "function");
    if (cuts.length) {
      const lowest = MKL.lowest(cuts);
      Draw.dot(picture, [lowest, Math.max(0, ...cuts.map((cut) => cut.a + lowest * cut.d))], "target", 6);
    }
    Draw.dot(picture, [s, here.value], "here", 6);
    Draw.text(picture, [0.5, 0], "θ₁ (and θ₂ = 1 − θ₁)", { dy: 26 });
    for (const part of [0, 1]) Draw.text(picture, [part, 0], `${part}`, { dy: 16 });
    for (const part of [0, 0.5, 1]) Draw.text(picture, [0, part * top], Draw.short(Number((part * top).toPrecision(2))), { anchor: "end", dx: -3, dy: 4 });
    views.replaceChildren(figure(picture.root, "J(θ) (curve), where you are (disc), cuts (lines) and their lowest point (open disc)"));
    const gap = upper - low, count = `${cuts.length} cut${cuts.length > 1 ? "s" : ""}`;
    const single = Math.max(...cuts.map((cut) => MKL.lower(cut.beta, 2, set)));
    verdict.replaceChildren(Draw.interval(low, upper),
      element("p", {}, ["The machine here has the value ", number("here", here.value), "; the best seen is ", number("upper", upper),
        ". The cuts, mixed so that their slopes cancel, are a dual point, and prove ", number("lower", low), "."]),
      element("p", {}, cuts.length === 0 ? "Cut, to have a lower bound: every machine that is solved is a line below the curve."
        : gap < 1e-4 * upper ? `Closed after ${count}: ${upper - single < 1e-4 * upper ? "one machine, at the best weights, proves the optimum."
          : "a mixture of machines proves the optimum, where no single one of them does."}`
        : `${count}, gap ${Draw.short(gap)}. The lowest point of all cuts is where SILP solves its next machine.`));
  }
  draw();
}

for (const [id, panel] of [["panel-gap", gapPanel], ["panel-set", setPanel], ["panel-cut", cutPanel]]) {
  const place = document.getElementById(id);
  if (place) panel(place);
}
