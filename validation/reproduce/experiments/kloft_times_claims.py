"""What Kloft's section 5.5 says of seconds, decided by paired tests over the repetitions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import t as student

from mklref._typing import Array
from validation.reproduce.base import LEVEL, Evidence, Result, holm, one_sided
from validation.reproduce.expected import bound

SVM, MACHINE, READING = "SVM, sum of kernels", "machine alone", "one reading"
INTERLEAVED, INTERLEAVED_1 = "interleaved, p = 4/3", "interleaved, p = 1"
WRAPPER, SIP, SILP = "wrapper, p = 4/3", "SIP wrapper, p = 4/3", "SILP wrapper, p = 1"
SIMPLE, HESSIAN = "SimpleMKL, p = 1", "HessianMKL, p = 1"
NATIVE, NATIVE_1 = "native, p = 4/3", "native, p = 1"
PAPERS = (INTERLEAVED, INTERLEAVED_1, WRAPPER, SIP, SILP, SIMPLE, HESSIAN)

FEWEST = 3
"""Repetitions below which nothing is claimed."""
FITTED = 250
"""Samples from which on the growth is fitted."""
SIMILAR = bound("kloft_times", "similar")
"""Exponents that differ by less are similar: our bound, the paper has none."""
CONSTANT = bound("kloft_times", "constant")
"""Factor within which a time is essentially constant while the kernels grow tenfold: ours, too."""
SLIGHTLY = bound("kloft_times", "slightly")
"""Factor up to which a method is slightly slower: ours, too."""


class Times:
    """Seconds by method and size, repetitions in the order of their seeds."""

    def __init__(self, results: Sequence[Result]) -> None:
        self.results = sorted(results, key=lambda r: r.config["seed"])
        self.sizes = sorted({(r.config["n"], r.config["M"]) for r in results})
        self.full = bool(results) and results[0].config["data"] == "mnist"

    def at(self, n: int, M: int) -> list[Result]:
        """The repetitions of one size."""
        return [r for r in self.results if (r.config["n"], r.config["M"]) == (n, M)]

    def of(self, name: str, n: int, M: int, quantity: str = "seconds") -> Array:
        """One number for each repetition."""
        return np.array([_number(r, name, quantity) for r in self.at(n, M)])

    def finished(self, name: str, n: int, M: int) -> bool:
        """Whether all repetitions reached the gap."""
        return bool(self.of(name, n, M, "finished").all())

    def exponents(self, name: str, sizes: Sequence[tuple[int, int]], axis: int) -> Array:
        """Of the growth with n (axis 0) or M (axis 1), for each repetition that has all sizes."""
        seeds = set.intersection(*({r.config["seed"] for r in self.at(*size)} for size in sizes))
        rows = [[r for r in self.at(*size) if r.config["seed"] in seeds] for size in sizes]
        seconds = np.array([[_number(r, name) for r in row] for row in rows])
        return np.asarray(np.polyfit(np.log([size[axis] for size in sizes]), np.log(seconds), 1)[0])

    def shown(self, names: Sequence[str], n: int, M: int) -> str:
        """Mean seconds; of a method that did not finish, a lower bound."""
        parts = [
            f"{name} {'' if self.finished(name, n, M) else 'over '}{self.of(name, n, M).mean():.2g} s" for name in names
        ]
        return f"n = {n}, M = {M}: " + ", ".join(parts)


def _number(result: Result, name: str, quantity: str = "seconds") -> float:
    found = result.values[name]
    return float(found[quantity] if isinstance(found, dict) else found)


def faster(times: Times, pairs: Sequence[tuple[str, str]], n: int, M: int) -> Array:
    """Adjusted p-values of `the first is faster than the second`; an unfinished method is not faster than another."""
    raw = [
        one_sided(np.log(times.of(a, n, M)) - np.log(times.of(b, n, M))) if times.finished(a, n, M) else 1.0
        for a, b in pairs
    ]
    return holm(raw)


def order(times: Times, pairs: Sequence[tuple[str, str]], n: int, M: int) -> Evidence:
    """Whether in every pair the first is significantly faster; that it is not is decided by one that is slower."""
    values, opposite = (faster(times, each, n, M) for each in (pairs, [(b, a) for a, b in pairs]))
    names = list(dict.fromkeys(name for pair in pairs for name in pair))
    holds, decided = bool(values.max() < LEVEL), bool(min(values.max(), opposite.min()) < LEVEL)
    return Evidence(holds, f"{times.shown(names, n, M)}; largest p-value {values.max():.1g}", decided)


def together(*parts: Evidence) -> Evidence:
    """All of them."""
    holds, missed = all(part.holds for part in parts), [part for part in parts if not part.holds]
    return Evidence(holds, "; ".join(part.text for part in parts), holds or any(part.decided for part in missed))


def interval(values: Array, level: float = LEVEL) -> tuple[float, float]:
    """Of the mean, with the probability 1 - 2 level: within bounds, it is the test of equivalence at `level`."""
    half = float(student.ppf(1.0 - level, len(values) - 1)) * values.std(ddof=1) / np.sqrt(len(values))
    return float(values.mean() - half), float(values.mean() + half)


def claims(times: Times) -> dict[str, Evidence]:
    """Those of the growing sample, of the growing number of kernels, and of both."""
    ns = [(n, M) for n, M in times.sizes if M == 50]
    Ms = [(n, M) for n, M in times.sizes if n == 500]
    if min((len(times.at(*size)) for size in {*ns[-1:], *Ms[:1], *Ms[-1:]}), default=0) < FEWEST:
        return {}
    found = _samples(times, ns)
    if len(Ms) > 2:
        found |= _kernels(times, Ms)
        found["speedup"] = _speedup(times)
        found["native-besides"] = together(
            *(
                order(times, [(NATIVE if "4/3" in m else NATIVE_1, m) for m in PAPERS], *size)
                for size in (ns[-1], Ms[-1])
            )
        )
    return found


def _samples(times: Times, sizes: list[tuple[int, int]]) -> dict[str, Evidence]:
    last = sizes[-1]
    found = {
        "svm-fastest": order(times, [(SVM, name) for name in PAPERS], *last),
        "wrappers-slowest": _slowest(times, *last),
        "sip-silp": _slightly(times, [SIP], *last),
        "hessian-interleaved": order(times, [(INTERLEAVED, HESSIAN)], *last),
    }
    fitted = [size for size in sizes if size[0] >= FITTED]
    if len(fitted) > 2:
        base = times.exponents(SILP, fitted, 0)
        parts, holds, decided = [f"SILP wrapper {base.mean():.2f}"], True, False
        for name in (INTERLEAVED, WRAPPER, SIP):
            own = times.exponents(name, fitted, 0)
            low, high = interval(own - base)
            holds &= low > -SIMILAR and high < SIMILAR
            decided |= low > SIMILAR or high < -SIMILAR
            parts.append(f"{name} {own.mean():.2f} (difference within {low:+.2f} and {high:+.2f})")
        text = f"exponents in n: {'; '.join(parts)}, at 90 %; similar is below {SIMILAR:g}"
        found["similar-growth"] = Evidence(holds, text, holds or decided)
    return found


def _slowest(times: Times, n: int, M: int) -> Evidence:
    others = [name for name in PAPERS if name not in (SIMPLE, SILP)]
    return order(times, [(name, slow) for name in others for slow in (SIMPLE, SILP)], n, M)


def _slightly(times: Times, names: Sequence[str], n: int, M: int) -> Evidence:
    """Whether methods are slower than the SILP, and by less than a factor."""
    slower = faster(times, [(SILP, name) for name in names], n, M)
    against = [faster(times, [(name, SILP) for name in names], n, M).min()]
    parts, holds = [], bool(slower.max() < LEVEL)
    for name, value in zip(names, slower, strict=True):
        ratio = np.log(times.of(name, n, M)) - np.log(times.of(SILP, n, M))
        below = one_sided(ratio - np.log(SLIGHTLY)) if times.finished(name, n, M) else 1.0
        against.append(one_sided(np.log(SLIGHTLY) - ratio))
        holds &= below < LEVEL
        factor = np.exp(ratio.mean())
        parts.append(f"{name} by {factor:.2f} (p-value of more than 1: {value:.1g}, of less than 2: {below:.1g})")
    text = f"n = {n}, M = {M}, seconds as multiples of the SILP's: {', '.join(parts)}"
    return Evidence(holds, text, holds or bool(min(against) < LEVEL))


def _kernels(times: Times, sizes: list[tuple[int, int]]) -> dict[str, Evidence]:
    first, last = sizes[0], sizes[-1]
    methods = [name for name in PAPERS if name != SILP]
    grown = np.log(times.of(MACHINE, *last)) - np.log(times.of(MACHINE, *first))
    low, high = np.exp(interval(grown))
    total = times.of(SVM, *last).mean() / times.of(SVM, *first).mean()
    few, many = first[1], last[1]
    simple, hessian, base = (times.exponents(name, sizes, 1) for name in (SIMPLE, HESSIAN, INTERLEAVED))
    gains = holm([one_sided(simple - base), one_sided(hessian - base)])
    losses = holm([one_sided(base - simple), one_sided(base - hessian)])
    return {
        "svm-constant": Evidence(
            bool(low > 1.0 / CONSTANT and high < CONSTANT),
            f"from M = {few} to {many} the seconds of the machine change by a factor between {low:.2f} and {high:.2f} "
            f"(90 %), those of sum and machine by {total:.1f}; constant is within a factor {CONSTANT:g}",
        ),
        "silp-fastest": order(times, [(SILP, name) for name in methods], *last),
        "nonsparse-slightly": _slightly(times, [INTERLEAVED, SIP], *last),
        "analytic-sip": order(times, [(WRAPPER, SIP)], *last),
        "sparse-slower": order(times, [(INTERLEAVED, INTERLEAVED_1)], *last),
        "wrappers-worst": _slowest(times, *last),
        "more-efficient": Evidence(
            bool(gains.max() < LEVEL),
            f"exponents in M: SimpleMKL {simple.mean():.2f}, HessianMKL {hessian.mean():.2f}, interleaved p = 4/3 "
            f"{base.mean():.2f}; p-values of less {gains[0]:.1g} and {gains[1]:.1g}",
            bool(min(gains.max(), losses.min()) < LEVEL),
        ),
        "hessian-simple": order(times, [(HESSIAN, SIMPLE)], *last),
        "hessian-slower": order(times, [(INTERLEAVED, HESSIAN), (SIP, HESSIAN), (SILP, HESSIAN)], *last),
    }


def _speedup(times: Times) -> Evidence:
    """The largest ratio at any size of a rival to the better of the interleaved analytic and the SIP method."""
    parts, holds = [], True
    for rival, wanted in ((HESSIAN, 10.0), (SIMPLE, 100.0)):
        ratios = {
            size: float(times.of(rival, *size).mean() / min(times.of(m, *size).mean() for m in (INTERLEAVED, SIP)))
            for size in times.sizes
        }
        (n, M), ratio = max(ratios.items(), key=lambda item: item[1])
        holds &= ratio >= wanted
        parts.append(f"over {rival} {ratio:.2g}, at n = {n}, M = {M}, for {wanted:g} in the paper")
    return Evidence(holds, "largest: " + "; ".join(parts))


def measured(times: Times) -> dict[str, str]:
    """Machines, kernels and readings behind the seconds: the largest sample, and the most kernels."""
    found: dict[str, str] = {}
    for place, (n, M) in {"n": (1000, 50), "M": (500, 100)}.items():
        if not times.at(n, M):
            continue
        for key, name in {"sip": SIP, "silp": SILP, "simple": SIMPLE, "hessian": HESSIAN, "wrapper": WRAPPER}.items():
            found[f"{key}-machines-{place}"] = f"{times.of(name, n, M, 'svm').mean():.0f}"
        found[f"kernels-{place}"] = _kept(times, n, M)
        readings = times.of(INTERLEAVED, n, M) / times.of(READING, n, M)
        found[f"interleaved-readings-{place}"] = f"{readings.mean():.0f}"
    if times.at(500, 10) and times.at(500, 100):
        few, many = (times.of(SIMPLE, 500, M, "svm").mean() for M in (10, 100))
        found["kernels-few"] = _kept(times, 500, 10)
        found["simple-growth"] = f"from {few:.0f} to {many:.0f}"
        later = [(n, M) for n, M in times.sizes if n == 500 and M > 10]
        for key, name in {"simple": SIMPLE, "interleaved": INTERLEAVED}.items():
            found[f"{key}-later"] = f"{times.exponents(name, later, 1).mean():.2f}"
    return found


def _kept(times: Times, n: int, M: int) -> str:
    """How many kernels the SILP keeps, from the fewest to the most."""
    counts = times.of(SILP, n, M, "kernels")
    return " to ".join(f"{count:.0f}" for count in sorted({counts.min(), counts.max()}))
