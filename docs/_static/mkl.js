// Three samples, three kernels, and the mathematics of the page: every function is the formula in its comment.
// Bounds are those of mklref.certify, to rounding; tests compare them.
"use strict";

const MKL = (() => {
  const x = [-1, 0.5, 1.5], y = [1, -1, 1];
  const kernels = [
    { name: "linear", text: "x z", k: (a, b) => a * b },
    { name: "quadratic", text: "(x z)²", k: (a, b) => (a * b) ** 2 },
    { name: "Gaussian", text: "exp(−2 (x − z)²)", k: (a, b) => Math.exp(-2 * (a - b) ** 2) },
  ];

  const sum = (v) => v.reduce((total, entry) => total + entry, 0);
  const dot = (u, v) => sum(u.map((entry, i) => entry * v[i]));
  const apply = (K, v) => K.map((row) => dot(row, v)); // K v
  const gram = (kernel) => x.map((a) => x.map((b) => kernel.k(a, b)));
  const grams = kernels.map(gram);

  // ||v||_p for v >= 0, p in [1, inf]
  const norm = (v, p) => {
    const largest = Math.max(...v);
    if (p === Infinity || largest === 0) return largest;
    return largest * sum(v.map((entry) => (entry / largest) ** p)) ** (1 / p);
  };
  const conjugate = (p) => (p === 1 ? Infinity : p === Infinity ? 1 : p / (p - 1)); // 1/p + 1/p* = 1

  // The maximiser of q'theta on theta >= 0, ||theta||_p <= 1, which is theta_m ~ q_m^{1/(p-1)}; at p = 1 one of the best.
  const steepest = (q, p) => {
    const largest = Math.max(...q);
    if (largest === 0 || p === Infinity) return q.map(() => (p === Infinity ? 1 : q.length ** (-1 / p)));
    if (p === 1) return q.map((entry, m) => (m === q.indexOf(largest) ? 1 : 0));
    const raw = q.map((entry) => (entry / largest) ** (1 / (p - 1)));
    return raw.map((entry) => entry / norm(raw, p));
  };

  // Sets of weights. `bound`: R*(g) as a function of q_m = g_m^2, which is half the maximum of q'theta over the set;
  // `fit`: its maximiser; `inside`: at most 1 exactly in the set; `penalty`: R(rho).
  const ball = (p) => ({
    name: "ball",
    bound: (q) => 0.5 * norm(q, conjugate(p)), // R* = 1/2 ||q||_{p*}
    fit: (q) => steepest(q, p),
    inside: (theta) => norm(theta, p),
    penalty: (rho) => 0.5 * norm(rho, p === Infinity ? 2 : (2 * p) / (p + 1)) ** 2, // R = 1/2 ||rho||_{2p/(p+1)}^2
  });
  const elasticNet = (lam) => ({
    name: "net",
    bound: (q) => {
      const g = q.map(Math.sqrt), tau = threshold(g, lam);
      return tau ** 2 / (2 * (1 - lam)) + sum(g.map((entry) => Math.max(0, entry - tau) ** 2)) / (2 * lam);
    },
    fit: (q) => {
      const g = q.map(Math.sqrt), tau = threshold(g, lam);
      return g.map((entry) => (entry > tau ? (1 - tau / entry) / lam : 0));
    },
    inside: (theta) => sum(theta.map((t) => (lam * t < 1 ? ((1 - lam) * t) / (1 - lam * t) : Infinity))),
    penalty: (rho) => 0.5 * ((1 - lam) * sum(rho) ** 2 + lam * dot(rho, rho)),
  });
  // tau with tau/(1-lam) = 1/lam sum (g - tau)_+: with the k largest above it, tau = (1-lam) sum g / (lam + k (1-lam))
  const threshold = (g, lam) => {
    const sorted = [...g].sort((a, b) => b - a);
    for (let k = sorted.length; k > 0; k--) {
      const tau = ((1 - lam) * sum(sorted.slice(0, k))) / (lam + k * (1 - lam));
      if (sorted[k - 1] >= tau) return tau;
    }
    return 0;
  };
  // Groups {1, 2} and {3}: || (d_l^{1/4} ||theta_l||_2)_l ||_{4/3} <= 1, d_l the size of group l
  const groupSet = () => {
    const groups = [[0, 1], [2]], scale = groups.map((group) => group.length ** 0.25);
    const within = (v, factor) => groups.map((group, l) => factor[l] * norm(group.map((m) => v[m]), 2));
    const inverse = scale.map((s) => 1 / s);
    return {
      name: "groups",
      bound: (q) => 0.5 * norm(within(q, inverse), 4),
      fit: (q) => {
        const share = steepest(within(q, inverse), 4 / 3), theta = [0, 0, 0];
        groups.forEach((group, l) => {
          const best = steepest(group.map((m) => q[m]), 2);
          group.forEach((m, j) => { theta[m] = share[l] * inverse[l] * best[j]; });
        });
        return theta;
      },
      inside: (theta) => norm(within(theta, scale), 4 / 3),
    };
  };

  // theta scaled onto the boundary of the set: `inside` is a norm, or grows with the scale
  const toBoundary = (direction, set) => {
    if (set.name !== "net") return direction.map((entry) => entry / set.inside(direction));
    let low = 0, high = 8 / Math.max(...direction);
    for (let k = 0; k < 60; k++) {
      const middle = (low + high) / 2;
      if (set.inside(direction.map((entry) => middle * entry)) <= 1) low = middle; else high = middle;
    }
    return direction.map((entry) => low * entry);
  };

  const squares = (beta, M) => grams.slice(0, M).map((K) => Math.max(0, dot(beta, apply(K, beta)))); // q_m = beta'K_m beta
  const scores = (beta, theta) => x.map((_, i) => sum(theta.map((t, m) => t * dot(grams[m][i], beta))));
  const hinge = (i, t) => Math.max(0, 1 - y[i] * t);
  const losses = (t, C) => C * sum(t.map((entry, i) => hinge(i, entry)));

  // The best intercept: the sum of hinges is piecewise linear in b, with kinks at b = y_i - t_i; the first of the best.
  const intercept = (t, C) => {
    const kinks = t.map((entry, i) => y[i] - entry);
    const values = kinks.map((b) => losses(t.map((entry) => entry + b), C));
    const best = kinks.filter((_, i) => values[i] <= Math.min(...values) + 1e-12 * C);
    return Math.min(...best);
  };

  // lower = sum_i y_i beta_i - R*(g) <= P*, for every beta with 0 <= y_i beta_i <= C and sum beta = 0
  const lower = (beta, M, set) => dot(y, beta) - set.bound(squares(beta, M));

  // upper = C sum_i V(t_i, y_i) + R(rho) >= P*, for every point; with it the parts of upper - lower, none negative
  const point = (beta, theta, C, set) => {
    const M = theta.length, q = squares(beta, M), g = q.map(Math.sqrt);
    const raw = scores(beta, theta), b = intercept(raw, C), t = raw.map((entry) => entry + b);
    const rho = theta.map((entry, m) => entry * g[m]);
    const upper = losses(t, C) + set.penalty(rho), low = lower(beta, M, set);
    const parts = t.map((entry, i) => C * hinge(i, entry) - y[i] * beta[i] + beta[i] * entry);
    const weightPart = set.penalty(rho) + set.bound(q) - dot(rho, g);
    return { upper, lower: low, gap: upper - low, q, b, t, parts: [...parts, weightPart] };
  };

  // The machine at fixed weights, max sum_i y_i beta_i - 1/2 beta'K beta on the same beta, with K = sum_m theta_m K_m:
  // each of the 27 ways to have beta_i at 0, at its bound or free is one linear system; the best feasible one is exact.
  const machine = (theta, C) => {
    const K = x.map((_, i) => x.map((_, j) => sum(theta.map((t, m) => t * grams[m][i][j]))));
    const value = (beta) => dot(y, beta) - 0.5 * dot(beta, apply(K, beta));
    let best = [0, 0, 0];
    for (let code = 0; code < 27; code++) {
      const state = [code % 3, Math.floor(code / 3) % 3, Math.floor(code / 9)];
      const beta = state.map((s, i) => (s === 1 ? C * y[i] : 0)), free = [0, 1, 2].filter((i) => state[i] === 2);
      if (free.length === 0 && sum(beta) !== 0) continue;
      if (free.length > 0) {
        const rows = free.map((i) => [...free.map((j) => K[i][j]), 1, y[i] - dot(K[i], beta)]);
        const solved = eliminate([...rows, [...free.map(() => 1), 0, -sum(beta)]]);
        if (solved === null) continue;
        free.forEach((i, k) => { beta[i] = solved[k]; });
      }
      const feasible = beta.every((entry, i) => y[i] * entry >= -1e-12 * C && y[i] * entry <= C * (1 + 1e-12));
      if (feasible && value(beta) > value(best)) best = beta;
    }
    return { beta: best, value: value(best), q: squares(best, theta.length) };
  };

  // The solution of the system [A | right], by elimination with pivots; null if A is singular
  const eliminate = (rows) => {
    const n = rows.length;
    for (let k = 0; k < n; k++) {
      const pivot = rows.reduce((p, row, i) => (i >= k && Math.abs(row[k]) > Math.abs(rows[p][k]) ? i : p), k);
      [rows[k], rows[pivot]] = [rows[pivot], rows[k]];
      if (Math.abs(rows[k][k]) < 1e-11) return null;
      for (let i = 0; i < n; i++) {
        if (i === k) continue;
        const factor = rows[i][k] / rows[k][k];
        rows[i] = rows[i].map((entry, j) => entry - factor * rows[k][j]);
      }
    }
    return rows.map((row, i) => row[n] / row[i]);
  };

  // The minimiser of a convex function on [a, b], by golden sections
  const golden = (f, a, b) => {
    const ratio = (Math.sqrt(5) - 1) / 2;
    for (let k = 0; k < 60; k++) {
      const left = b - ratio * (b - a), right = a + ratio * (b - a);
      if (f(left) <= f(right)) b = right; else a = left;
    }
    return (a + b) / 2;
  };

  // The lowest point of the largest of the lines height(s) = a + s d on [0, 1]: an end, or where two lines meet
  const lowest = (lines) => {
    const top = (s) => Math.max(...lines.map((line) => line.a + s * line.d));
    const meets = lines.flatMap((one, i) => lines.slice(i + 1).map((two) => (two.a - one.a) / (one.d - two.d)));
    const places = [0, 1, ...meets.filter((s) => s > 0 && s < 1)];
    return places.reduce((best, s) => (top(s) < top(best) ? s : best));
  };

  return { x, y, kernels, grams, sum, dot, norm, ball, elasticNet, groupSet, toBoundary, squares, lower, point, machine,
    golden, lowest };
})();
