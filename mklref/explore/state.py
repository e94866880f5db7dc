"""What the controls of the explorer say: data, kernels and a problem, its code, and the address that holds it all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mklref import datasets
from mklref._files import checked_path
from mklref._typing import Array
from mklref.datasets.record import mean_and_deviation
from mklref.exceptions import InvalidInput, InvalidParameter, InvalidTarget
from mklref.kernels import parse
from mklref.kernels.fitted import FamilyStack
from mklref.losses import LOSSES
from mklref.problem import Problem
from mklref.regularizers import BlockNorm, ElasticNet, Groups, Lp, Power, Regularizer, Tikhonov

MOST = 200
"""Samples up to which everything follows a slider at once."""
BUNDLED = tuple(name for name in datasets.BUNDLED if name not in ("digits",))
GENERATED = ("moons", "rings", "toy")
NORMS = ("1", "1.05", "1.1", "1.2", "4/3", "1.5", "2", "3", "4", "8", "inf")
RANGES = {"samples": (20, 200), "share": (0.1, 1.0), "noise": (0.0, 1.0), "lam": (0.05, 0.95)}
"""What the sliders offer, from the smallest"""
STEPS = {"samples": 10, "share": 0.1, "noise": 0.05, "lam": 0.05}
"""in steps to the largest."""
MOST_KERNELS = 100
"""Above them, pictures and ranges of weights follow no hand."""
COSTS = tuple(float(f"{10.0 ** (k / 4):.3g}") for k in range(-8, 13))


class Sample(NamedTuple):
    """The data of a page."""

    X: Array
    y: Array
    names: tuple[str, ...]
    labels: bool
    """Whether y holds -1 and +1."""
    report: str = ""
    """How the columns of a file became numbers, and what was left out."""


REGULARIZERS: dict[str, Callable[[State, int], Regularizer]] = {
    "lp ball (Ivanov)": lambda s, M: Lp(number("p", s.p)),
    "Tikhonov, mu = 1": lambda s, M: Tikhonov(number("p", s.p), 1.0),
    "block norm": lambda s, M: BlockNorm(number("q", s.p)),
    "power": lambda s, M: Power(number("p", s.p)),
    "elastic net (Ivanov)": lambda s, M: ElasticNet(s.lam, form="ivanov"),
    "elastic net (Tikhonov)": lambda s, M: ElasticNet(s.lam),
    "groups": lambda s, M: Groups(grouping(s.groups, M), p=0.5, q=0.5),
}
"""The regularisers of the page by name, from the state and the number of kernels."""


CHOICES: dict[str, tuple[str, ...]] = {"loss": tuple(LOSSES), "regularizer": tuple(REGULARIZERS), "p": NORMS}
"""The words that lists offer; that of the data takes files as well."""


@dataclass(frozen=True)
class State:
    """Everything that a reader can choose; texts and numbers only, so that an address holds it."""

    data: str = "moons"
    samples: int = 80
    share: float = 0.3
    """Of relevant variables, for "toy"."""
    noise: float = 0.2
    positive: str = ""
    kernels: str = "rbf:0.2..4:5,linear"
    loss: str = "hinge"
    regularizer: str = "lp ball (Ivanov)"
    p: str = "4/3"
    lam: float = 0.5
    C: float = 10.0
    groups: str = ""
    formulation: str = "dual"
    walk: str = ""
    """Names of equivalences, one after the other, between vertical bars."""

    @classmethod
    def from_query(cls, query: Mapping[str, Any]) -> State:
        """What an address says, within what sliders offer; without a word, or a number, it is as in the beginning."""
        found = {}
        for field in fields(cls):
            text = query.get(field.name)
            kind: Any = type(getattr(cls, field.name))
            try:
                if isinstance(text, str):
                    found[field.name] = offered(field.name, kind(text))
            except (ValueError, OverflowError):
                continue
        return cls(**found)

    @property
    def walked(self) -> tuple[str, ...]:
        """The equivalences that were walked along."""
        return tuple(name for name in self.walk.split("|") if name)

    def after(self, name: str) -> str:
        """The walk with one more step."""
        return "|".join([*self.walked, name])

    def before(self) -> str:
        """The walk without its last step."""
        return "|".join(self.walked[:-1])


def offered(name: str, value: Any) -> Any:
    """The value of a control, of a slider the nearest one; `ValueError` for NaN and a word that no list offers."""
    if value != value or value not in CHOICES.get(name, (value,)):
        raise ValueError(name)
    if name == "C":
        return min(COSTS, key=lambda cost: abs(cost - min(value, COSTS[-1])))
    if name not in RANGES:
        return value
    (low, high), step = RANGES[name], STEPS[name]
    return type(value)(round(low + round((min(max(value, low), high) - low) / step) * step, 10))


def number(name: str, text: str) -> float:
    """A number or a fraction, or `InvalidParameter`."""
    try:
        return float(Fraction(text)) if "/" in text else float(text)
    except (ValueError, ArithmeticError):
        raise InvalidParameter(f"{name} = {text!r} is no number; write 1, 4/3, 2.5 or inf.") from None


def written(groups: Any) -> str:
    """Groups of kernels as `grouping` reads them."""
    return " | ".join(" ".join(map(str, group)) for group in groups)


def grouping(text: str, M: int) -> list[list[int]]:
    """Numbers of kernels, groups between bars: 0 1 | 2 3. Without any, the first half and the second."""
    if not text.strip():
        return [list(range((M + 1) // 2)), list(range((M + 1) // 2, M))] if M > 1 else [[0]]
    try:
        return [[int(m) for m in group.replace(",", " ").split()] for group in text.split("|")]
    except ValueError:
        raise InvalidParameter(
            f"groups = {text!r}: write the numbers of kernels, groups between bars, such as 0 1 | 2 3."
        ) from None


@lru_cache(maxsize=16)
def sample(data: str, samples: int, share: float, noise: float, positive: str, target: str | None = None) -> Sample:
    """The data of a state: generated, bundled, or of a CSV file, standardised; else `MKLError` or `OSError`."""
    if data in GENERATED:
        return generated(data, samples, share, noise)
    known = data in datasets.BUNDLED
    table, report = (datasets.load(data).complete(), "") if known else table_of(data, _changed(data), target)
    table = table.subset(samples, 0).standardized()
    y = np.asarray(table.y)
    real = y.dtype.kind == "f" and len(np.unique(y)) > 10 and not positive
    if not real and not positive and len(classes := np.unique(y)) > 2:
        shown = ", ".join([*map(str, classes[:8]), *["..."] * (len(classes) > 8)])
        raise InvalidTarget(
            f"the target has {len(classes)} classes ({shown}); write into the box 'positive class' "
            "which one is told from the others."
        )
    labels = y.astype(float) if real else datasets.encode(y, positive or None)[0]
    if real:
        mean, deviation = mean_and_deviation(labels)
        labels = (labels - mean) / deviation
    return Sample(table.X, labels, table.features, not real, report)


def _changed(data: str) -> tuple[int, int]:
    """When a file was changed, and its size: a file that stays the same is read once."""
    now = checked_path(data).stat()
    return now.st_mtime_ns, now.st_size


@lru_cache(maxsize=2)
def table_of(data: str, changed: tuple[int, int], target: str | None) -> tuple[datasets.Dataset, str]:
    """The rows of a file that have a target, and how its columns became numbers, or what was left out."""
    try:
        return datasets.read_csv(data, target), ""
    except InvalidInput:  # not of numbers alone
        from mklref.estimators.tabular import read_any  # and with it scikit-learn, for which others need not wait

        table, encoder, left = read_any(data, target)
    report = "" if encoder is None else encoder.report()
    return table, f"{left} of {left + len(table)} rows have no target and are left out.\n{report}" if left else report


def generated(data: str, samples: int, share: float, noise: float) -> Sample:
    """Two half moons, two rings, or the toy of Kloft with a share of relevant variables out of ten."""
    rng = np.random.default_rng(0)
    n = samples + samples % 2
    if data == "toy":
        toy = datasets.kloft_toy(rng, n, relevant=max(1, round(10 * share)), d=10)
        return Sample(toy.X, toy.y, toy.features, True)
    t, y = rng.uniform(0.0, np.pi, size=n), np.repeat([1.0, -1.0], n // 2)
    if data == "moons":  # one arc above, one below and shifted
        X = np.column_stack([np.cos(t) * y + 0.5 * (1 - y), np.sin(t) * y + 0.25 * (1 - y)])
    else:
        X = np.where(y > 0, 0.5, 1.0)[:, None] * np.column_stack([np.cos(2 * t), np.sin(2 * t)])
    X = X + noise * rng.normal(size=X.shape)
    return Sample((X - X.mean(axis=0)) / X.std(axis=0), y, ("x0", "x1"), True)


def arguments(state: State) -> tuple[Any, ...]:
    """Those of `sample`."""
    return state.data, state.samples, state.share, state.noise, state.positive


def sample_of(state: State) -> Sample:
    """The data of a state."""
    return sample(*arguments(state))


@lru_cache(maxsize=8)
def stack(kernels: str, data: tuple[Any, ...]) -> FamilyStack:
    """Kernels on a sample, by the arguments of the latter."""
    family, X = parse(kernels), sample(*data).X
    if (count := len(family.expand([""] * X.shape[1]))) > MOST_KERNELS:
        raise InvalidParameter(
            f"kernels: {kernels!r} are {count}, and this page draws at most {MOST_KERNELS}; give a smaller count, "
            "or solve them in Python."
        )
    return family.fit(X, normalize="trace")


def kernels_of(state: State) -> FamilyStack:
    """The kernels of a state, on its data."""
    return stack(state.kernels, arguments(state))


def problem_of(state: State) -> tuple[Problem, FamilyStack]:
    """The problem of a state, and its kernels, which know new samples; errors are what the library says of either."""
    data, kernels = sample_of(state), kernels_of(state)
    loss = LOSSES[state.loss]()
    if loss.targets == "labels" and not data.labels:
        raise InvalidTarget(f"the target of {state.data} is a number; choose a loss for numbers, such as squared.")
    y = np.ones(len(data.y)) if loss.targets == "ones" else data.y
    C = max(state.C, 1.0 / len(y)) if loss.intercept == "required" else state.C
    regularizer = REGULARIZERS[state.regularizer](state, len(kernels))
    return Problem(
        kernels, y, C=C, loss=loss, regularizer=regularizer, intercept=loss.intercept != "forbidden"
    ), kernels


def code(state: State, problem: Problem) -> str:
    """Python that makes what is shown, from the same data."""
    data = sample_of(state)
    generates = state.data in GENERATED
    make, given = ("generated", arguments(state)[:-1]) if generates else ("sample", arguments(state))
    if not generates and state.data not in BUNDLED:  # whoever runs it may stand in another folder
        given = (str(Path(state.data).resolve()), *given[1:])
    regularizer = repr(problem.regularizer).replace("=inf", "=float('inf')")
    ones = "\ny = [1.0] * len(X)" if not np.array_equal(problem.y, data.y) else ""
    return (
        f"import mklref\nfrom mklref.explore.state import {make}\n\n"
        f"data = {make}{given!r}\nX, y = data.X, data.y{ones}\n"
        f"kernels = mklref.kernels.parse({state.kernels!r}).fit(X, normalize='trace')\n"
        f"problem = mklref.Problem(\n    kernels, y, C={problem.C!r}, loss={state.loss!r},\n"
        f"    regularizer=mklref.{regularizer}, intercept={problem.intercept!r},\n)\n"
        f"solution = mklref.solve(problem{_CLOSELY if state.walk else ''})\nprint(solution.certificate)\n"
        f"print(mklref.reference.solve(problem, {state.formulation!r}).value)\n"
    ) + (_WALKED.format(names=list(state.walked)) if state.walk else "")


_CLOSELY = ", tol=1e-9, polish=True"
_WALKED = """
edges = {{edge.name: edge for edge in mklref.equivalences.EQUIVALENCES}}
for name in {names!r}:
    problem = edges[name](problem, solution).problem
    solution = mklref.solve(problem, tol=1e-9, polish=True)
    print(name, problem.regularizer, problem.C, solution.certificate, sep="\\n")
"""
