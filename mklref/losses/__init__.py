"""Convex losses, one frozen class each, with conjugates."""

from __future__ import annotations

from mklref.exceptions import InvalidParameter, InvalidType
from mklref.losses.base import Costs, Loss, QuadraticDual
from mklref.losses.classification import Hinge, Logistic, SquaredHinge
from mklref.losses.one_class import DensityLevelSet, OneClass
from mklref.losses.regression import EpsilonInsensitive, Huber, Pinball, Squared, SquaredEpsilonInsensitive

LOSSES: dict[str, type[Loss]] = {
    kind.name: kind
    for kind in (
        Hinge,
        SquaredHinge,
        Logistic,
        Squared,
        EpsilonInsensitive,
        SquaredEpsilonInsensitive,
        Huber,
        Pinball,
        OneClass,
        DensityLevelSet,
    )
}
"""Every loss by its name; a name in place of an instance means the default parameters."""


def as_loss(loss: str | Loss) -> Loss:
    """Return `loss` itself, or the loss of that name with default parameters.

    Raises
    ------
    InvalidParameter
        An unknown name; the message lists the known ones.
    InvalidType
        Neither a string nor a `Loss`.
    """
    if isinstance(loss, Loss):
        return loss
    if not isinstance(loss, str):
        raise InvalidType(f"loss is {type(loss).__name__}; give a name or an instance of mklref.losses.Loss.")
    if loss not in LOSSES:
        raise InvalidParameter(f"loss = {loss!r} is unknown; known names: {', '.join(LOSSES)}.")
    return LOSSES[loss]()


__all__ = [
    "LOSSES",
    "Costs",
    "DensityLevelSet",
    "EpsilonInsensitive",
    "Hinge",
    "Huber",
    "Logistic",
    "Loss",
    "OneClass",
    "Pinball",
    "QuadraticDual",
    "Squared",
    "SquaredEpsilonInsensitive",
    "SquaredHinge",
    "as_loss",
]
