"""What fit and path have in common: classes or numbers, a search over the grid of the options, pictures."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mklref._files import replacing
from mklref.cli.learning import RULES
from mklref.datasets.labels import class_names
from mklref.estimators import MKLClassifierCV, MKLRegressorCV
from mklref.exceptions import InvalidParameter, InvalidTarget
from mklref.plotting.style import SETTINGS, require_matplotlib

MOST_CLASSES = 20
"""Integer targets of up to so many values, each of them twice on average, are taken for classes."""


def searching(arguments: Any, table: Any) -> Any:
    """An unfitted search over --C and --p; the table says whether its targets are classes."""
    from sklearn.model_selection import KFold, StratifiedKFold

    kind: Any = MKLClassifierCV if table.classes else MKLRegressorCV
    splitter: Any = StratifiedKFold if table.classes else KFold
    options = {} if arguments.loss is None else {"loss": arguments.loss}
    if getattr(arguments, "scoring", None):
        options["scoring"] = arguments.scoring
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
        n_jobs=arguments.jobs,
        verbose=sys.stderr.isatty() or getattr(arguments, "verbose", False),
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
