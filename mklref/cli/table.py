"""What fit and path do before they learn: read a table, decide between classes and numbers, make a search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mklref import datasets
from mklref._files import replacing
from mklref._typing import Array
from mklref.cli.learning import RULES
from mklref.cli.problem import TABLES
from mklref.datasets import Dataset
from mklref.datasets.labels import class_names
from mklref.datasets.record import mean_and_deviation
from mklref.estimators import MKLClassifierCV, MKLRegressorCV
from mklref.exceptions import InvalidParameter, InvalidTarget
from mklref.plotting.style import SETTINGS, require_matplotlib

MOST_CLASSES = 20
"""Integer targets of up to so many values, each of them twice on average, are taken for classes."""


@dataclass(frozen=True)
class Scale:
    """Means and standard deviations; a constant column has scale 1."""

    mean: Array
    deviation: Array

    @classmethod
    def of(cls, values: Array) -> Scale:
        """Those of the columns of (n, d), or of one vector."""
        return cls(*mean_and_deviation(values))

    def standard(self, values: Array) -> Array:
        """In these units."""
        return np.asarray((values - self.mean) / self.deviation)


@dataclass(frozen=True)
class Table:
    """Standardised samples and their targets, and what was done to them."""

    data: Dataset
    """In units of standard deviations."""
    y: Any
    """Class names, or numbers in units of their standard deviation."""
    scale: Scale
    target_scale: Scale | None
    target: str
    facts: dict[str, str]

    @property
    def classes(self) -> bool:
        """Whether the targets are classes."""
        return self.target_scale is None


def read_table(arguments: Any) -> Table:
    """Read the table that the options name.

    Raises
    ------
    InvalidInput, InvalidTarget, UnsafeFile, OSError
        Whatever is wrong with it, in words.
    """
    published = _dataset(arguments)
    whole = published.complete()
    data = whole if arguments.samples is None else whole.subset(arguments.samples, arguments.seed)
    y, classes = targets_of(data.y, arguments.task)
    smallest = min(np.unique(y, return_counts=True)[1]) if classes else len(y)
    if smallest < arguments.folds:
        raise InvalidTarget(
            f"{'the smallest class has' if classes else 'there are'} {smallest} samples, fewer than --folds "
            f"{arguments.folds}; give fewer folds, or drop the class."
        )
    scale, target_scale = Scale.of(data.X), None if classes else Scale.of(y)
    standard = Dataset(data.name, scale.standard(data.X), data.y, data.features, data.source)
    dropped = len(published.y) - len(whole.y)
    facts = {
        "data": data.name if data.name == data.source else f"{data.name} ({data.source})",
        "samples": f"{len(data.y)} of {len(whole.y)}" + (f"; {dropped} with missing cells left out" if dropped else ""),
        "target": _shown(y) if classes else f"numbers, standard deviation {float(np.std(y)):.4g}",
        "kernels": f"{arguments.kernels} on {len(data.features)} standardised variables",
    }
    units = y if target_scale is None else target_scale.standard(y)
    return Table(standard, units, scale, target_scale, data.target, facts)


def searching(arguments: Any, table: Any) -> Any:
    """An unfitted search over --C and --p; the table says whether its targets are classes."""
    from sklearn.model_selection import KFold, StratifiedKFold

    kind: Any = MKLClassifierCV if table.classes else MKLRegressorCV
    splitter: Any = StratifiedKFold if table.classes else KFold
    options = {} if arguments.loss is None else {"loss": arguments.loss}
    options |= {name: getattr(arguments, name) for name in ("scoring", "verbose") if getattr(arguments, name, None)}
    if getattr(arguments, "class_weight", None):
        if not table.classes:
            raise InvalidParameter("--class-weight goes with a target of classes; this one holds numbers.")
        options["class_weight"] = _class_weight(arguments.class_weight, table.y)
    wanted = ("labels",) if table.classes else ("real",)
    if arguments.loss is not None and arguments.loss.targets not in wanted:
        raise InvalidParameter(
            f"loss {arguments.loss} does not go with a target of {'classes' if table.classes else 'numbers'}; "
            "choose another loss, or say --task."
        )
    return kind(
        arguments.kernels,
        Cs=arguments.C,
        norms=arguments.p,
        cv=splitter(arguments.folds, shuffle=True, random_state=arguments.seed),
        rule=RULES[getattr(arguments, "rule", "best")],
        normalize=None if arguments.normalize == "none" else arguments.normalize,
        tol=arguments.tol,
        **options,
    )


def _class_weight(given: Any, y: Any) -> Any:
    """Balanced, or the weights of some classes, 1 for the others."""
    if given == "balanced":
        return given
    there = set(map(str, np.unique(y)))
    unknown = sorted(set(given) - there)
    if unknown:
        raise InvalidParameter(
            f"--class-weight names {unknown[0]!r}, no class; there are {', '.join(sorted(there)[:8])}."
        )
    return {**dict.fromkeys(there, 1.0), **given}


def require_pictures(path: str | None) -> None:
    """Refuse a picture that cannot be drawn before anything is learned.

    Raises
    ------
    MissingExtra
        matplotlib is not installed.
    InvalidParameter
        The file ends in no format that it writes.
    """
    if path is None:
        return
    require_matplotlib()
    from matplotlib.figure import Figure

    if Path(path).suffix.lstrip(".").lower() not in Figure().canvas.get_supported_filetypes():
        raise InvalidParameter(f"cannot draw {path}: end its name in .png, .svg or .pdf.")


def save_picture(draw: Callable[[], Any], path: str) -> None:
    """Draw a figure and write it, in the format that the name of the file ends in."""
    from matplotlib import pyplot as plt, rc_context

    with rc_context(SETTINGS):
        figure = draw()
        with replacing(path) as file:
            figure.savefig(file, dpi=150, format=Path(path).suffix.lstrip(".").lower())
        plt.close(figure)


def _dataset(arguments: Any) -> Dataset:
    if arguments.data.endswith(TABLES) or Path(arguments.data).is_file():
        return datasets.read_csv(arguments.data, arguments.target, ignore=arguments.ignore)
    if arguments.target is not None or arguments.ignore:
        raise InvalidParameter("--target and --ignore name columns of a CSV file; a data set by name has its target.")
    return datasets.load(arguments.data)


def targets_of(y: Any, task: str) -> tuple[Any, bool]:
    """Class names, or numbers; and whether they are classes."""
    numbers = y.dtype.kind == "f"
    found, counts = np.unique(y, return_counts=True)
    if task == "regress" and not numbers:
        raise InvalidTarget(f"the target holds {str(found[0])!r}, no number; encode it, or let --task be classify.")
    few = (len(found) <= MOST_CLASSES and 2 * len(found) <= len(y)) or len(found) < 2
    classes = not numbers or (few and bool(np.all(found == np.round(found))))
    if task == "regress" or (task == "auto" and not classes):
        if len(found) < 2:
            raise InvalidTarget(f"the target is {found[0]} everywhere: there is nothing to learn.")
        return y, False
    if len(found) < 2:
        raise InvalidTarget(f"the target holds only the class {found[0]}: a classifier needs two.")
    if counts.max() < 2:
        raise InvalidTarget(
            f"the target has {len(found)} classes in {len(y)} samples, one for each: is --target the right column?"
        )
    return np.array(class_names(y)), True


def _shown(y: Any) -> str:
    names, counts = np.unique(y, return_counts=True)
    pairs = [f"{name} ({count})" for name, count in zip(names, counts, strict=True)]
    return f"{len(names)} classes: {', '.join(pairs[:8])}{', ...' if len(pairs) > 8 else ''}"
