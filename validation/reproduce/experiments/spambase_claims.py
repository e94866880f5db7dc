"""What spambase says of the sentences of 6.1, and the figures of the causes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import t as student, ttest_rel

from mklref._typing import Array
from validation.reproduce.base import LEVEL, Evidence, Result, holm, of, one_sided
from validation.reproduce.expected import FEWEST, bound
from validation.reproduce.experiments.spambase_causes import STEPS
from validation.reproduce.experiments.spambase_parts import GAP, GRADIENTS, GROUPS, METHODS, SIMPLEMKL, WRAPPER

SLIGHTLY, MUCH = bound("szafranski_spambase", "slightly"), bound("szafranski_spambase", "much")
"""Our bounds of what "slightly better" and "much faster" mean: factors of the time."""


def claims(splits: Sequence[Result]) -> dict[str, Evidence]:
    """The sentences of 6.1; of few splits, a test that finds nothing, or a bound that is missed, decides nothing."""
    found = {**_accuracies(splits), **_selections(splits), **_times(splits)}
    if len(splits) < FEWEST:
        always = {"all-groups", "simplemkl-finishes"}
        found |= {name: one._replace(decided=False) for name, one in found.items() if name not in always}
    return found


def _accuracies(splits: Sequence[Result]) -> dict[str, Evidence]:
    """Of certified solutions; what the paper's algorithms reach is said beside."""
    accuracy = {name: of(splits, name, "accuracy") for name in METHODS}
    reached = {"SVM": accuracy["SVM"], "MKL": of(splits, SIMPLEMKL, "accuracy"), "GKL": of(splits, WRAPPER, "accuracy")}
    ahead = {name: accuracy[name] - accuracy["MKL"] for name in ("SVM", "GKL")}
    p = holm([one_sided(-difference) for difference in ahead.values()])
    behind = holm([one_sided(difference) for difference in ahead.values()])
    lead = accuracy["SVM"] - accuracy["GKL"]
    two_sided = float(ttest_rel(accuracy["SVM"], accuracy["GKL"]).pvalue)
    return {
        "mkl-worse": Evidence(
            bool(np.all(p < LEVEL)),
            f"points ahead of MKL on {len(splits)} splits: "
            + ", ".join(
                f"{name} {_interval(difference)} (p-value {value:.2g}; by the paper's algorithms "
                f"{_interval(reached[name] - reached['MKL'])})"
                for (name, difference), value in zip(ahead.items(), p, strict=True)
            ),
            bool(np.all(p < LEVEL) or np.any(behind < LEVEL)),
        ),
        "svm-gkl": Evidence(
            bool(lead.mean() >= 0.0 and two_sided > LEVEL),
            f"SVM is {_interval(lead)} points ahead of GKL on {len(splits)} splits, two-sided p-value {two_sided:.2g}; "
            f"by the paper's algorithm {_interval(reached['SVM'] - reached['GKL'])}",
        ),
    }


def _interval(differences: Array) -> str:
    """Mean with half the 95 % interval."""
    half = student.ppf(0.975, len(differences) - 1) * differences.std(ddof=1) / np.sqrt(len(differences))
    return f"{differences.mean():.2f} ± {half:.2f}"


def _selections(splits: Sequence[Result]) -> dict[str, Evidence]:
    """On the certified solutions: the weights of the group wrapper cannot vanish."""
    kernels = {name: of(splits, name, "kernels") for name in ("MKL", "GKL")}
    fewer = one_sided(kernels["MKL"] - kernels["GKL"])
    groups = of(splits, "GKL", "by group")
    without = "; ".join(
        f"no kernel of the {GROUPS[g]} in {np.sum(groups[:, g] == 0)} of {len(groups)} splits"
        for g in np.flatnonzero(groups.min(axis=0) == 0)
    )
    return {
        "mkl-sparser": Evidence(
            fewer < LEVEL,
            f"certified solutions: MKL {_range(kernels['MKL'])}, GKL {_range(kernels['GKL'])} of 244; fewer in "
            f"{np.sum(kernels['MKL'] < kernels['GKL'])} of {len(splits)} splits, p-value {fewer:.1g}",
        ),
        "all-groups": Evidence(
            bool(groups.min() > 0),
            f"certified solutions: {without or 'every group is there'}; fewest kernels by group: "
            + ", ".join(f"{name} {least:.0f}" for name, least in zip(GROUPS, groups.min(axis=0), strict=False)),
        ),
    }


def _range(values: Array) -> str:
    low, high = (f"{value:.0f}" for value in (values.min(), values.max()))
    return low if low == high else f"{low} to {high}"


def _times(splits: Sequence[Result]) -> dict[str, Evidence]:
    """Of the paper's algorithms. A run that the limit ended counts with what it took until then, and says so."""
    seconds = {name: of(splits, name, "seconds") for name in (*METHODS, SIMPLEMKL, WRAPPER)}
    gaps = of(splits, SIMPLEMKL, "gap")
    slower = seconds[SIMPLEMKL].mean() / seconds[WRAPPER].mean()
    least = np.min([seconds[name] / seconds["SVM"] for name in (SIMPLEMKL, WRAPPER)])
    finished = int(np.sum(gaps <= GAP))
    at_least = "at least " if finished < len(splits) else ""
    native = f"with the native solver MKL {seconds['MKL'].mean():.2f}, GKL {seconds['GKL'].mean():.2f}"
    return {
        "gkl-faster": Evidence(
            bool(1.0 < slower <= SLIGHTLY),
            f"MKL takes {at_least}{slower:.1f} times as long as GKL (slightly: at most {SLIGHTLY:g} times, our bound): "
            f"seconds {seconds[SIMPLEMKL].mean():.1f} and {seconds[WRAPPER].mean():.1f}, where the limit of "
            f"{GRADIENTS} gradients ended {len(splits) - finished} of {len(splits)} runs of MKL; {native}",
        ),
        "svm-fastest": Evidence(
            bool(least >= MUCH),
            f"seconds: SVM {seconds['SVM'].mean():.2f}, MKL {seconds[SIMPLEMKL].mean():.1f}, GKL "
            f"{seconds[WRAPPER].mean():.1f}; on each split the others take at least {least:.1f} times as long "
            f"(at least {MUCH:g} times, our bound); {native}",
        ),
        "simplemkl-finishes": Evidence(
            finished == len(splits), f"{finished} of {len(splits)} runs; the largest gap is {100.0 * gaps.max():.1f} %"
        ),
    }


def measured(results: Sequence[Result]) -> dict[str, str]:
    """What the causes cite."""
    splits = [r for r in results if "part" in r.config]
    looks = {r.id: r.values for r in results}
    figures = _measured_on(splits)
    if "cause-closed-form" in looks:
        steps = [looks["cause-closed-form"][str(k)] for k in STEPS]
        went = looks["cause-closed-form"]["simplemkl from there"]
        figures["steps"] = _listed([str(k) for k in STEPS])
        figures["step-kernels"] = _listed([f"{s['kernels']}" for s in steps])
        figures["step-gaps"] = _listed([f"{100.0 * s['gap']:.2g}" for s in steps])
        figures["step-accuracies"] = (
            f"{min(s['accuracy'] for s in steps):.1f} and {max(s['accuracy'] for s in steps):.1f}"
        )
        figures["from-there"] = f"{went['kernels']} kernels and a gap of {100.0 * went['gap']:.2g} %"
    joined = [v for name, v in looks.items() if name.startswith("cause-joined")]
    if joined:
        numbers = [s["by group"][1] for v in joined for s in v["solutions"]]
        figures["joined-n"] = f"{joined[0]['n']}"
        figures["joined-kept"] = f"{np.sum(np.array(numbers) > 0)} of {len(numbers)}"
    return figures


def _measured_on(splits: Sequence[Result]) -> dict[str, str]:
    accuracy = {name: of(splits, name, "accuracy") for name in ("SVM", "GKL")}
    groups, pulls = of(splits, "GKL", "by group"), of(splits, "GKL", "pulls")
    wrapped = of(splits, WRAPPER, "shares")[:, 1]
    costs = of(splits, "GKL", "C")
    out = groups[:, 1] == 0
    figures = {f"{name.lower()}-accuracy": f"{a.mean():.1f} ± {a.std(ddof=1):.1f}" for name, a in accuracy.items()}
    figures |= {
        "svm-lead": _interval(accuracy["SVM"] - accuracy["GKL"]),
        "mkl-mean": f"{of(splits, 'MKL', 'kernels').mean():.1f}",
        "gkl-mean": f"{of(splits, 'GKL', 'kernels').mean():.1f}",
        "gkl-costs": _listed([f"{C:g} on {np.sum(costs == C)}" for C in np.unique(costs)]),
        "out": f"{out.sum()} of {len(splits)}",
        "unfinished": f"{np.sum(of(splits, SIMPLEMKL, 'gap') > GAP)} of {len(splits)}",
        "slower": f"{of(splits, SIMPLEMKL, 'seconds').mean() / of(splits, WRAPPER, 'seconds').mean():.1f}",
        "native-mkl": f"{of(splits, 'MKL', 'seconds').mean():.2f}",
        "native-gkl": f"{of(splits, 'GKL', 'seconds').mean():.2f}",
    }
    if out.any():
        figures["pull-out"] = f"{pulls[out, 1].max():.3f}"
        figures["share-out"] = f"{wrapped[out].min():.0e} to {wrapped[out].max():.0e}"
        figures["gap-out"] = f"{of(splits, 'GKL', 'gap')[out].max():.0e}"
    return figures


def _listed(words: list[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]
