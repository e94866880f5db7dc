"""What spambase says of the sentences of 6.1, and the figures of the causes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import t as student, ttest_rel

from mklref._typing import Array
from validation.reproduce.base import Evidence, Result
from validation.reproduce.expected import FEWEST, bound
from validation.reproduce.experiments.paired import holm, one_sided
from validation.reproduce.experiments.spambase_causes import STEPS
from validation.reproduce.experiments.spambase_parts import GRADIENTS, GROUPS

GAP = 1e-3
SLIGHTLY, MUCH = bound("szafranski_spambase", "slightly"), bound("szafranski_spambase", "much")
"""Our bounds of what "slightly better" and "much faster" mean: factors of the time."""


def of(sets: list[Result], name: str, quantity: str) -> Array:
    """One value of a method, by training set."""
    return np.array([r.values[name][quantity] for r in sets], dtype=float)


def claims(sets: list[Result], splits: Sequence[Result] = ()) -> dict[str, Evidence]:
    """The sentences of 6.1; on splits of their own where those have the methods, else on the training sets.

    Of few training sets, a test that finds nothing, or a bound that is missed, decides nothing.
    """
    alone = list(splits) if len(splits) >= FEWEST else []
    found = {**_accuracies(sets, alone), **_selections(sets, alone), **_times(sets)}
    decided = {"all-groups", "simplemkl-finishes"} | ({"svm-gkl"} if alone else set())
    if len(sets) < FEWEST:
        found |= {name: one._replace(decided=False) for name, one in found.items() if name not in decided}
    return found


def _accuracies(sets: list[Result], splits: list[Result]) -> dict[str, Evidence]:
    accuracy = {name: of(sets, name, "accuracy") for name in ("SVM", "MKL", "GKL")}
    ahead = {name: accuracy[name] - accuracy["MKL"] for name in ("SVM", "GKL")}
    p = holm([one_sided(-difference) for difference in ahead.values()])
    svm, gkl = (of(splits or sets, name, "accuracy") for name in ("SVM", "GKL"))
    lead = svm - gkl
    two_sided = float(ttest_rel(svm, gkl).pvalue)
    where = f"{len(splits)} splits" if splits else f"{len(sets)} training sets"
    return {
        "mkl-worse": Evidence(
            bool(np.all(p < 0.05)),
            "points ahead of MKL: "
            + ", ".join(
                f"{name} {_interval(difference)} (p-value {value:.2g})"
                for (name, difference), value in zip(ahead.items(), p, strict=True)
            ),
        ),
        "svm-gkl": Evidence(
            bool(lead.mean() >= 0.0 and two_sided > 0.05),
            f"SVM is {_interval(lead)} points ahead of GKL on {where}, two-sided p-value {two_sided:.2g}",
        ),
    }


def _interval(differences: Array) -> str:
    """Mean with half the 95 % interval."""
    half = student.ppf(0.975, len(differences) - 1) * differences.std(ddof=1) / np.sqrt(len(differences))
    return f"{differences.mean():.2f} ± {half:.2f}"


def _selections(sets: list[Result], splits: list[Result]) -> dict[str, Evidence]:
    """On the certified solutions: the weights of the group wrapper cannot vanish."""
    kernels = {name: of(sets, f"{name}, native", "kernels") for name in ("MKL", "GKL")}
    groups = of(splits, "GKL", "by group") if splits else of(sets, "GKL, native", "by group")
    where = "splits" if splits else "training sets"
    without = "; ".join(
        f"no kernel of the {GROUPS[g]} in {np.sum(groups[:, g] == 0)} of {len(groups)} {where}"
        for g in np.flatnonzero(groups.min(axis=0) == 0)
    )
    return {
        "mkl-sparser": Evidence(
            one_sided(kernels["MKL"] - kernels["GKL"]) < 0.05,
            f"certified solutions: MKL {_range(kernels['MKL'])}, GKL {_range(kernels['GKL'])} of 244; fewer in "
            f"{np.sum(kernels['MKL'] < kernels['GKL'])} of {len(sets)} training sets, p-value "
            f"{one_sided(kernels['MKL'] - kernels['GKL']):.1g}",
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


def _times(sets: list[Result]) -> dict[str, Evidence]:
    """A run that the limit ended counts with what it took until then, and says so."""
    seconds = {name: of(sets, name, "seconds") for name in ("SVM", "MKL", "GKL", "MKL, native", "GKL, native")}
    gaps = of(sets, "MKL", "gap")
    slower = seconds["MKL"].mean() / seconds["GKL"].mean()
    least = np.min([seconds[name] / seconds["SVM"] for name in ("MKL", "GKL")])
    finished = int(np.sum(gaps <= GAP))
    bound = "at least " if finished < len(sets) else ""
    return {
        "gkl-faster": Evidence(
            bool(1.0 < slower <= SLIGHTLY),
            f"MKL takes {bound}{slower:.1f} times as long as GKL (slightly: at most {SLIGHTLY:g} times, our bound): "
            f"seconds {seconds['MKL'].mean():.1f} and {seconds['GKL'].mean():.1f}, where the limit of {GRADIENTS} "
            f"gradients ended {len(sets) - finished} of {len(sets)} runs of MKL; with the "
            f"native solver {seconds['MKL, native'].mean():.2f} and {seconds['GKL, native'].mean():.2f}",
        ),
        "svm-fastest": Evidence(
            bool(least >= MUCH),
            f"seconds: SVM {seconds['SVM'].mean():.2f}, MKL {seconds['MKL'].mean():.1f}, GKL "
            f"{seconds['GKL'].mean():.1f}; in each training set the others take at least {least:.1f} times as long "
            f"(at least {MUCH:g} times, our bound); with the native solver MKL {seconds['MKL, native'].mean():.2f}, "
            f"GKL {seconds['GKL, native'].mean():.2f}",
        ),
        "simplemkl-finishes": Evidence(
            finished == len(sets),
            f"{finished} of {len(sets)} runs; the largest gap is {100.0 * gaps.max():.1f} %",
        ),
    }


def measured(results: list[Result]) -> dict[str, str]:
    """What the causes cite."""
    sets = [r for r in results if "part" in r.config]
    looks = {r.id: r.values for r in results}
    splits = [r for r in results if "split" in r.config]
    figures = _measured_on(sets) | (_measured_on_splits(splits) if len(splits) >= FEWEST else {})
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
    pairs = [v for name, v in looks.items() if name.startswith("cause-pair")]
    if pairs:
        numbers = [s["by group"][1] for v in pairs for s in v["solutions"]]
        figures["pair-n"] = f"{pairs[0]['n']}"
        figures["pairs-kept"] = f"{np.sum(np.array(numbers) > 0)} of {len(numbers)}"
    return figures


def _measured_on_splits(splits: list[Result]) -> dict[str, str]:
    """How far the splits are from the paper's printed means, and what the group of the numbers does."""
    figures = {}
    for name in ("SVM", "GKL"):
        accuracy = of(splits, name, "accuracy")
        figures[f"{name.lower()}-splits"] = f"{accuracy.mean():.1f} ± {accuracy.std(ddof=1):.1f}"
    groups, gone = of(splits, "GKL", "by group"), of(splits, "GKL", "pulls")
    out = groups[:, 1] == 0
    figures["splits-out"] = f"{out.sum()} of {len(splits)}"
    figures["splits-pull"] = f"{gone[out, 1].max():.2f}" if out.any() else "-"
    figures["splits-lead"] = _interval(of(splits, "SVM", "accuracy") - of(splits, "GKL", "accuracy"))
    return figures


def _measured_on(sets: list[Result]) -> dict[str, str]:
    certified = {name: of(sets, f"{name}, native", "kernels") for name in ("MKL", "GKL")}
    groups, pulls = of(sets, "GKL, native", "by group"), of(sets, "GKL, native", "pulls")
    wrapped = of(sets, "GKL", "shares")[:, 1]
    out = groups[:, 1] == 0
    figures = {
        "mkl-mean": f"{certified['MKL'].mean():.1f}",
        "gkl-counts": _listed([f"{count:.0f}" for count in certified["GKL"]]),
        "gkl-mean": f"{certified['GKL'].mean():.1f}",
        "mkl-spread": f"{of(sets, 'MKL', 'accuracy').std(ddof=1):.2f}",
        "gkl-lead": _interval(of(sets, "GKL", "accuracy") - of(sets, "MKL", "accuracy")),
        "gkl-lead-native": _interval(of(sets, "GKL, native", "accuracy") - of(sets, "MKL, native", "accuracy")),
        "unfinished": f"{np.sum(of(sets, 'MKL', 'gap') > GAP)} of {len(sets)}",
        "native-mkl": f"{of(sets, 'MKL, native', 'seconds').mean():.2f}",
        "native-gkl": f"{of(sets, 'GKL, native', 'seconds').mean():.2f}",
    }
    if out.any():
        figures["pull-out"] = f"{pulls[out, 1].max():.3f}"
        figures["share-out"] = f"{wrapped[out].min():.0e} to {wrapped[out].max():.0e}"
        figures["gap-out"] = f"{of(sets, 'GKL, native', 'gap')[out].max():.0e}"
        figures["out"] = f"{out.sum()} of {len(sets)}"
    return figures


def _listed(words: list[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}"
