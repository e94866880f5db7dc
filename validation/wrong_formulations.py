"""Would the cross-check notice a wrong formulation? `python -m validation.wrong_formulations [--markdown]`.

Each mutant of wrong_formulations.toml is one wrong spot in a statement: a factor, an exponent, a sign, a missing
constraint. It is planted in place of the right formulation and goes through `mklref.crosscheck`, which has to fail.
A mutant counts if it changes the optimal value by more than 1e-5.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import mklref
from mklref import regularizers
from mklref._conic import model
from mklref._crosscheck import CrossCheck, crosscheck
from mklref.formulations import FORMULATIONS
from mklref.multiclass import MulticlassProblem
from mklref.signed import SignedProblem

PACKAGE = Path(mklref.__file__).parent
SOLVER = "CLARABEL"
COUNTS = 1e-5
"""Relative change of the optimal value from which on a mutant has to be found."""

SAMPLES, KERNELS = 14, 4
PARAMETERS: dict[str, Any] = {
    "np": np,
    "PAIRS": ((0, 2), (1, 3)),
    "SCALE": (0.4, 1.3, 0.9, 2.0),
    "OPPOSED": [[1.0, 0.2, -0.8, 0.1], [0.2, 1.0, -0.3, -0.4], [-0.8, -0.3, 1.0, 0.2], [0.1, -0.4, 0.2, 1.0]],
}
"""What the regularisers of the table are made of."""


@dataclass(frozen=True)
class Mutant:
    """One wrong spot in one formulation, and the problem on which it is tried."""

    formulation: str
    what: str
    old: str
    new: str
    file: str = ""
    regularizer: str = "Lp(1)"
    loss: str = "hinge"
    same: str = ""
    """Why the optimal value stays the same, if it does."""

    @property
    def name(self) -> str:
        """dual: a missing 1/2."""
        return f"{self.formulation}: {self.what}"

    @property
    def tol(self) -> float:
        """Relative width of the certified interval: a semidefinite program is certified by its own solver alone."""
        return 1e-4 if self.formulation == "sdp" else 1e-6


@dataclass(frozen=True)
class Outcome:
    """What the cross-check said of a mutant."""

    mutant: Mutant
    check: CrossCheck

    @property
    def change(self) -> float:
        """How far the value that is stated lies from that of the right formulation, relatively; inf without a value."""
        right = healthy(self.mutant.formulation, self.mutant.regularizer, self.mutant.loss).rows[-1].value
        change = abs(self.check.rows[-1].value / right - 1.0)
        return np.inf if np.isnan(change) else change

    @property
    def killed(self) -> bool:
        """Whether the check fails."""
        return not self.check.passed

    def __str__(self) -> str:
        return f"{self.mutant.formulation}  {self.mutant.regularizer}  {told(self)}"

    @property
    def missed(self) -> bool:
        """Whether it counts, and passed."""
        return self.change > COUNTS and not self.killed


def told(outcome: Outcome) -> str:
    """What was planted, how far the optimal value moves, and whether the cross-check passes all the same."""
    change = outcome.check.rows[-1].status if np.isinf(outcome.change) else f"{outcome.change:.0e}"
    passes = "" if outcome.killed else f", passes: {outcome.mutant.same}"
    return f"{outcome.mutant.what} ({change}{passes})"


def mutants() -> tuple[Mutant, ...]:
    """All of them."""
    table = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return tuple(
        Mutant(what=what, old=old, new=new, same="".join(same), **problem)
        for problem in table["problem"]
        for what, old, new, *same in problem.pop("mutants")
    )


def run(mutant: Mutant) -> Outcome:
    """One mutant through the cross-check."""
    with planted(mutant):
        check = crosscheck(
            problem(mutant.formulation, mutant.regularizer, mutant.loss),
            formulations=[mutant.formulation],
            solvers=[SOLVER],
            tol=mutant.tol,
        )
    return Outcome(mutant, check)


@cache
def healthy(formulation: str, regularizer: str, loss: str) -> CrossCheck:
    """The right formulation on the problem of a mutant."""
    tol = Mutant(formulation, "", "", "").tol
    return crosscheck(problem(formulation, regularizer, loss), formulations=[formulation], solvers=[SOLVER], tol=tol)


@cache
def problem(formulation: str, regularizer: str, loss: str) -> Any:
    """A small problem on which every kernel counts."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(SAMPLES, KERNELS))
    y = np.where(X @ [1.0, -1.0, 0.8, 0.7] + 0.5 * rng.normal(size=SAMPLES) > 0.0, 1.0, -1.0)
    kernels = [np.exp(-0.3 * (x[:, None] - x) ** 2) + 0.5 * np.outer(x, x) for x in X.T]
    if formulation == "hierarchical":
        kernels = [np.outer(x, x) for x in X.T]
    psi = eval(regularizer, vars(regularizers) | PARAMETERS)
    if formulation == "sdp":
        return SignedProblem([1.0 + k for k in kernels], y, C=2.0)
    if formulation == "multiclass":
        return MulticlassProblem(kernels, np.digitize(X[:, 0] + X[:, 1], [-0.7, 0.7]), C=2.0, regularizer=psi)
    intercept = formulation != "group_lasso"
    return mklref.Problem(
        kernels, y + 0.7 * (loss == "squared"), C=2.0, loss=loss, regularizer=psi, intercept=intercept
    )


CUTS = 80
"""What a wrong loop may take, which often never ends; the right ones need up to 50 here."""


@contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """The mutant in place of its formulation."""
    right = FORMULATIONS[mutant.formulation]
    own = f"formulations/{mutant.formulation}"
    file = mutant.file or own
    spoilt = _module(file, mutant.old, mutant.new)
    if file != own:  # what the formulation imports from there
        names = {name: value for name, value in vars(spoilt).items() if not name.startswith("_")}
        spoilt = _module(own, "", "", names)
    FORMULATIONS[mutant.formulation] = getattr(spoilt, type(right).__name__)()
    most = model.MAX_CUTS
    model.MAX_CUTS = CUTS
    try:
        yield
    finally:
        FORMULATIONS[mutant.formulation] = right
        model.MAX_CUTS = most


def _module(file: str, old: str, new: str, names: dict[str, Any] | None = None) -> ModuleType:
    """A module of the package with another text in one place, and other values for the names that it imports."""
    source = (PACKAGE / f"{file}.py").read_text(encoding="utf-8")
    if old not in source:
        raise ValueError(f"{file}.py holds no {old!r}; bring wrong_formulations.toml up to date.")
    module = ModuleType(f"mklref.{file.replace('/', '.')}")
    exec(compile(source.replace(old, new, 1), f"{file}.py", "exec"), vars(module))
    imported = {name: value for name, value in (names or {}).items() if hasattr(module, name)}
    own = {name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__}
    vars(module).update({name: value for name, value in imported.items() if name not in own})
    return module


def main(arguments: list[str] | None = None) -> int:
    """Print the table and the rate; 1 if a mutant that counts was missed."""
    parser = argparse.ArgumentParser(prog="python -m validation.wrong_formulations", description=__doc__)
    parser.add_argument("--markdown", action="store_true", help="the table of the documentation")
    markdown = parser.parse_args(arguments).markdown
    outcomes: list[Outcome] = []
    print("| formulation | planted |\n|---|---|" * markdown)
    for name, some in groupby(mutants(), key=lambda mutant: mutant.formulation):
        rows = [run(mutant) for mutant in some]
        outcomes += rows
        print(f"| `{name}` | {'; '.join(map(told, rows))} |" if markdown else "\n".join(map(str, rows)), flush=True)
    counting = [outcome for outcome in outcomes if outcome.change > COUNTS]
    found = [outcome for outcome in counting if outcome.killed]
    print(
        f"\n{len(found)} of {len(counting)} mutants that change the optimal value by more than {COUNTS:.0e} are found."
    )
    return int(len(found) < len(counting))


if __name__ == "__main__":
    sys.exit(main())
