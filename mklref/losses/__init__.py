"""Convex losses, one frozen class each, with conjugates."""

from __future__ import annotations

from collections.abc import Callable

from mklref._validate import shown
from mklref.exceptions import InvalidParameter, InvalidType, MKLError
from mklref.losses.base import Costs, Loss, QuadraticDual
from mklref.losses.classification import DensityLevelSet, Hinge, Logistic, OneClass, SquaredHinge
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
    """Return `loss` itself, or the loss of that name, with its parameter after a colon: "epsilon_insensitive:0.05".

    Raises
    ------
    InvalidParameter
        An unknown name, and the message lists the known ones; or a parameter that is no number or out of range.
    InvalidType
        Neither a string nor a `Loss`.
    """
    if isinstance(loss, Loss):
        return loss
    if not isinstance(loss, str):
        raise InvalidType(f"loss is {type(loss).__name__}; give a name or an instance of mklref.losses.Loss.")
    name, colon, value = loss.partition(":")
    if name not in LOSSES:
        raise InvalidParameter(f"loss = {shown(loss)} is unknown; known names: {', '.join(LOSSES)}.")
    kind: Callable[..., Loss] = LOSSES[name]
    try:
        return kind(float(value)) if colon else kind()
    except TypeError:
        raise InvalidParameter(f"loss = {shown(loss)}: {name} has no parameter.") from None
    except ValueError as invalid:
        if isinstance(invalid, MKLError):
            raise
        raise InvalidParameter(f"loss = {shown(loss)}: {shown(value)} is no number.") from None


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
