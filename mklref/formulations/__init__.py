"""The formulations of the papers as cvxpy models: one file each, statement and code in one order."""

from __future__ import annotations

from mklref.exceptions import InvalidParameter
from mklref.formulations.base import Factors, Formulation, Model, Point, factorize
from mklref.formulations.dual import Dual
from mklref.formulations.mixed_norm import MixedNorm
from mklref.formulations.qcqp import QCQP
from mklref.formulations.weighted_primal import WeightedPrimal

FORMULATIONS: dict[str, Formulation] = {
    formulation.name: formulation for formulation in (QCQP(), Dual(), WeightedPrimal(), MixedNorm())
}
"""Every formulation by its name."""


def as_formulation(name: str) -> Formulation:
    """Return the formulation of that name.

    Raises
    ------
    InvalidParameter
        An unknown name; the message lists the known ones.
    """
    if name not in FORMULATIONS:
        raise InvalidParameter(f"formulation = {name!r} is unknown; known names: {', '.join(FORMULATIONS)}.")
    return FORMULATIONS[name]


__all__ = ["FORMULATIONS", "Factors", "Formulation", "Model", "Point", "as_formulation", "factorize"]
