"""What Kloft's section 5.1 says of the toy problem, each sentence decided by a test over the data sets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import rankdata, ttest_1samp, ttest_ind

from mklref._typing import Array
from validation.reproduce.base import LEVEL, Evidence, holm, one_sided
from validation.reproduce.expected import bound
from validation.reproduce.experiments.kloft_toy_parts import BAYES, NAMES, D, Measured, noise

FEWEST = 5
"""Data sets below which nothing is claimed."""
REACHED = bound("kloft_toy", "reached")
"""Points from the error of Bayes within which it is reached: our bound, as all of these."""
AGREES = bound("kloft_toy", "agrees")
"""Rank correlation from which on model errors reflect test errors."""
MOST = bound("kloft_toy", "most")
"""Share of data sets from which on C is said to be at an end of its grid, and of comparisons that are `mostly`."""
ONE_POINT = bound("kloft_toy", "one_point")
"""What rounds to one point at most."""
WELL = bound("kloft_toy", "well")
"""Points behind the best p up to which a p performs well."""
DRAWS = 2000
"""Of the bootstraps."""
FIRST, TWO, FOUR, LAST = 0, NAMES.index("2"), NAMES.index("4"), len(NAMES) - 1


def small_claims(small: Measured) -> dict[str, Evidence]:
    """Those of n = 50."""
    if len(small.results) < FEWEST:
        return {}
    claims = {}
    if 1 in small.relevant:
        claims["sparse-1"] = wins(small.of(1), FIRST)
        claims["sparse-bayes"] = _reaches_bayes(small.of(1)[:, FIRST])
    if D in small.relevant:
        even = small.of(D)[:, LAST]
        claims["even-inf"] = wins(small.of(D), LAST)
        p = float(ttest_1samp(even, BAYES, alternative="greater").pvalue)
        claims["even-bayes"] = Evidence(p < LEVEL, f"{even.mean():.2f} % against {BAYES:.2f} %, p-value {p:.1g}")
    claims["elsewhere-1"] = _worse(small, [k for k in small.relevant if k != 1])
    claims["balanced"] = balanced(small, [k for k in (18, 9, 4) if k in small.relevant])
    claims["below-10"] = _below(small, 10.0)
    claims["model-error"] = _reflects(small)
    claims["interior"] = _interior(small)
    return claims


def large_claims(large: Measured) -> dict[str, Evidence]:
    """Those of n = 800."""
    if len(large.results) < FEWEST:
        return {}
    values = even_test(large)
    text = "; ".join(f"{noise(k)}: {_listed(large.of(k).mean(axis=0))}, p-value {p:.2g}" for k, p in values.items())
    sets = f"; {len(large.results)} data sets"
    differences = [large.of(k)[:, FIRST] - large.of(k)[:, LAST] for k in values]
    limits = [_upper_limit(d) for d in differences]
    shown = ", ".join(f"{noise(k)}: {d.mean():+.2f}" for k, d in zip(values, differences, strict=True))
    return {
        "large-even": Evidence(bool(max(values.values()) < LEVEL), text + sets),
        "large-point": Evidence(
            max(limits) < ONE_POINT and all(one_sided(-d) < LEVEL for d in differences),
            f"p = 1 minus p = inf, in points: {shown}; 95 % limit {max(limits):.2f}, bound {ONE_POINT:g}{sets}",
        ),
        "large-sparse": _well(large, [k for k in (4, 1) if k in large.relevant]),
    }


def joint_claims(small: Measured, large: Measured) -> dict[str, Evidence]:
    """Those that compare both sizes, or use both."""
    if min(len(small.results), len(large.results)) < FEWEST or small.relevant != large.relevant:
        return {}
    return {
        "large-lower": _lower_errors(small, large),
        "large-model-error": _model_errors_stay(small, large),
        "robust-4": _robust(small, large),
        "smaller-impact": _smaller_impact(small, large),
    }


def wins(errors: Array, j: int) -> Evidence:
    """Whether p_j has the lowest error, significantly against every other p."""
    others = [m for m in range(len(NAMES)) if m != j]
    values = dict(zip(others, holm([one_sided(errors[:, j] - errors[:, m]) for m in others]), strict=True))
    against = ", ".join(f"p = {NAMES[m]}: {errors[:, m].mean():.2f} ({values[m]:.1g})" for m in others)
    text = f"{errors[:, j].mean():.2f} % for p = {NAMES[j]}; {against} (adjusted p-values), {len(errors)} data sets"
    return Evidence(bool(max(values.values()) < LEVEL), text)


def _listed(values: Array) -> str:
    return ", ".join(f"{name}: {value:.2f}" for name, value in zip(NAMES, values, strict=True))


def _upper_limit(values: Array) -> float:
    """The one-sided 95 % limit of a mean."""
    return float(ttest_1samp(values, 0.0, alternative="less").confidence_interval(1.0 - LEVEL).high)


def _reaches_bayes(errors: Array) -> Evidence:
    """Equivalence: the mean is within the bound of the error of Bayes."""
    excess = errors - BAYES
    above, below = one_sided(-excess), max(one_sided(excess - REACHED), one_sided(-excess - REACHED))
    standard = excess.std(ddof=1) / np.sqrt(len(excess))
    return Evidence(
        below < LEVEL,
        f"{excess.mean():+.3f} ± {standard:.3f} points from the error of Bayes, {BAYES:.2f} %: p-value of {REACHED:g} "
        f"points or more {below:.1g}, of none {above:.1g}",
    )


def _worse(small: Measured, scenarios: list[int]) -> Evidence:
    worse = [[one_sided(small.of(k)[:, j] - small.of(k)[:, FIRST]) for j in range(1, len(NAMES))] for k in scenarios]
    adjusted = holm([p for row in worse for p in row]) if scenarios else np.ones(1)
    text = f"significantly worse in {np.sum(adjusted < LEVEL)} of {adjusted.size} comparisons with other p (Holm)"
    return Evidence(bool(np.mean(adjusted < LEVEL) > MOST), text)


def balanced(small: Measured, scenarios: list[int]) -> Evidence:
    """Whether in every scenario p = 2 or p = 4 is better than each p of the others.

    That one p is better than all others is tested by the largest of the p-values; for two candidates the smaller one
    counts twice; and all scenarios have to pass, so that no further correction is needed.
    """
    parts, holds = [], bool(scenarios)
    for k in scenarios:
        errors = small.of(k)
        others = [m for m in range(len(NAMES)) if m not in (TWO, FOUR)]
        values = {j: max(one_sided(errors[:, j] - errors[:, m]) for m in others) for j in (TWO, FOUR)}
        j = min(values, key=lambda candidate: values[candidate])
        p = min(1.0, 2.0 * values[j])
        holds &= p < LEVEL
        parts.append(f"{noise(k)}: {_listed(errors.mean(axis=0))}, p-value {p:.1g} for p = {NAMES[j]}")
    return Evidence(holds, "; ".join(parts))


def _below(small: Measured, bound: float) -> Evidence:
    errors = [small.of(k)[:, FOUR] for k in small.relevant]
    worst = int(np.argmax([e.mean() for e in errors]))
    limits = [_upper_limit(e) for e in errors]
    return Evidence(
        max(limits) < bound,
        f"largest mean {errors[worst].mean():.2f} %, with {noise(small.relevant[worst])}; its 95 % limit "
        f"{max(limits):.2f} %",
    )


def typical_agreement(measured: Measured, relevant: int) -> Array:
    """Rank correlation over p of test and model error, for each data set; 0 where either is constant."""
    pairs = [rankdata(measured.of(relevant, q), axis=1) for q in ("error", "model error")]
    a, b = (ranks - ranks.mean(axis=1, keepdims=True) for ranks in pairs)
    size = np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1))
    return np.asarray(np.divide((a * b).sum(axis=1), size, out=np.zeros(len(a)), where=size > 0.0))


def _reflects(small: Measured) -> Evidence:
    agreement = {k: typical_agreement(small, k) for k in small.relevant}
    # Where all data sets agree alike there is nothing to test.
    values = [one_sided(AGREES - a) if np.ptp(a) else float(a[0] <= AGREES) for a in agreement.values()]
    shown = ", ".join(f"{noise(k)}: {a.mean():.2f}" for k, a in agreement.items())
    return Evidence(
        max(values) < LEVEL,
        f"rank correlation over p, mean over data sets: {shown}; largest p-value of at most {AGREES:g}: "
        f"{max(values):.1g}",
    )


def _interior(small: Measured) -> Evidence:
    ends = small.at_an_end().sum(axis=0)
    scenario, j = np.unravel_index(int(ends.argmax()), ends.shape)
    return Evidence(
        bool(ends.max() < MOST),
        f"on {100 * ends.mean():.0f} % of all data sets at an end; most often, {100 * ends.max():.0f} %, for "
        f"p = {NAMES[int(j)]} with {noise(small.relevant[int(scenario)])}; allowed for each p and scenario are "
        f"{100 * MOST:.0f} %",
    )


def even_test(large: Measured) -> dict[int, float]:
    """p-values of `p = inf is better, and p = 1 worse, than every other p` in the two least sparse scenarios."""
    found: dict[int, float] = {}
    for k in (k for k in (50, 28) if k in large.relevant):
        errors = large.of(k)
        best = [one_sided(errors[:, LAST] - errors[:, j]) for j in range(LAST)]
        worst = [one_sided(errors[:, j] - errors[:, FIRST]) for j in range(1, len(NAMES))]
        found[k] = max(*best, *worst)
    return found


def _well(large: Measured, scenarios: Sequence[int]) -> Evidence:
    """Whether all p are within a bound of the best one; that one is chosen on the other half of the data sets."""
    parts, limits = [], []
    for k in scenarios:
        behind = np.concatenate(
            [ours - ours[:, [int(theirs.mean(axis=0).argmin())]] for ours, theirs in _halves(large.of(k))]
        )
        limits.append(max(_upper_limit(b) if np.ptp(b) else float(b.mean()) for b in behind.T))
        parts.append(f"{noise(k)}: {_listed(behind.mean(axis=0))}")
    text = f"points behind the best p: {'; '.join(parts)}; largest 95 % limit {max(limits):.2f}, bound {WELL:g}"
    return Evidence(max(limits) < WELL, f"{text}; {len(large.results)} data sets")


def _halves(errors: Array) -> list[tuple[Array, Array]]:
    """Each half of the data sets with the other one."""
    return [(errors[::2], errors[1::2]), (errors[1::2], errors[::2])]


def impact(errors: Array) -> Array:
    """Worst minus best p for each data set, both chosen on the other half: 0 in the mean where p does not matter."""
    parts = []
    for ours, theirs in _halves(errors):
        means = theirs.mean(axis=0)
        parts.append(ours[:, means.argmax()] - ours[:, means.argmin()])
    return np.concatenate(parts)


def _smaller_impact(small: Measured, large: Measured) -> Evidence:
    few, many = (np.mean([impact(m.of(k)) for k in m.relevant], axis=0) for m in (small, large))
    p = float(ttest_ind(few, many, equal_var=False, alternative="greater").pvalue)
    return Evidence(
        p < LEVEL,
        f"worst minus best p, mean over scenarios: {few.mean():.2f} points for n = 50, {many.mean():.2f} for n = 800, "
        f"p-value {p:.1g}",
    )


def _lower_errors(small: Measured, large: Measured) -> Evidence:
    few, many = (np.mean([m.of(k) for k in m.relevant], axis=(0, 2)) for m in (small, large))
    p = float(ttest_ind(few, many, equal_var=False, alternative="greater").pvalue)
    text = f"mean over scenarios and p: {few.mean():.2f} % for n = 50, {many.mean():.2f} % for n = 800, p-value {p:.1g}"
    return Evidence(p < LEVEL, text)


def resampled(measured: Measured, quantity: str, rng: np.random.Generator) -> Array:
    """Means (draws, scenarios, p) of data sets drawn with replacement; scenarios were drawn independently."""
    N = len(measured.results)
    counts = [rng.multinomial(N, np.full(N, 1.0 / N), size=DRAWS) / N for _ in measured.relevant]
    return np.stack([c @ measured.of(k, quantity) for c, k in zip(counts, measured.relevant, strict=True)], axis=1)


def _model_errors_stay(small: Measured, large: Measured) -> Evidence:
    """Whether less of the model error vanishes with n than of the test error above that of Bayes, for finite p."""
    rng = np.random.default_rng(0)

    def left(means: Sequence[Array], floor: float) -> Array:
        few, many = (np.sum(m[..., :LAST] - floor, axis=(-2, -1)) for m in means)
        return np.asarray(many / few)

    tests, models = (
        left([resampled(m, quantity, rng) for m in (small, large)], floor)
        for quantity, floor in (("error", BAYES), ("model error", 0.0))
    )
    test, model = (
        float(left([m.means(quantity) for m in (small, large)], floor))
        for quantity, floor in (("error", BAYES), ("model error", 0.0))
    )
    p = float(np.mean(models <= tests))
    return Evidence(
        p < LEVEL,
        f"with n = 800, {100 * model:.0f} % of the model error of n = 50 is left, and {100 * test:.0f} % of the test "
        f"error above that of Bayes (p finite); in {100 * (1 - p):.1f} % of {DRAWS} bootstraps the former is more",
    )


def _robust(small: Measured, large: Measured) -> Evidence:
    """Which p has the smallest error in its worst scenario, in a bootstrap; and which the smallest regret."""
    rng = np.random.default_rng(0)
    means = np.concatenate([resampled(m, "error", rng) for m in (small, large)], axis=1)
    here = np.vstack([small.means(), large.means()])

    def regret(errors: Array) -> Array:
        return np.asarray((errors - errors.min(axis=-1, keepdims=True)).max(axis=-2))

    shares = [
        np.mean(v.argmin(axis=1)[:, None] == np.arange(len(NAMES)), axis=0) for v in (means.max(1), regret(means))
    ]
    parts = []
    for title, values, share in zip(
        ("largest error by p, in %", "largest excess over the best p of a scenario, in points"),
        (here.max(axis=0), regret(here)),
        shares,
        strict=True,
    ):
        j = int(share.argmax())
        parts.append(f"{title}: {_listed(values)}, smallest for p = {NAMES[j]} in {100 * share[j]:.1f} % of bootstraps")
    return Evidence(bool(shares[0][FOUR] >= 1.0 - LEVEL), f"{'; '.join(parts)}; the first one decides")
