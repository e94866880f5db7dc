"""Smooth relatives: members of the same family whose R* is differentiable, on the way to one that has kinks.

`minimise` follows the minimiser of the model along them, as an interior point method follows its central path.
With p = 1 + epsilon in place of p = 1 the value of R* changes by a relative epsilon log M at most, so the last
relative is as good as the limit.
"""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch

from mklref.regularizers import BlockNorm, ConcaveBlock, Groups, Lp, Power, Regularizer, Tikhonov
from mklref.regularizers.concave_functions import PowerRoot
from mklref.regularizers.rescaled import Rescaled

_FIRST, _FACTOR, _LAST = 1.0 / 3.0, 0.25, 5e-8


@singledispatch
def smoothed(regularizer: Regularizer, epsilon: float) -> Regularizer:
    """The member of the family that is smoother by epsilon; the regulariser itself if it is smooth enough."""
    return regularizer


@smoothed.register
def _(regularizer: Lp, epsilon: float) -> Regularizer:
    return regularizer if regularizer.p >= 1.0 + epsilon else Lp(1.0 + epsilon)


@smoothed.register(Power)
@smoothed.register(Tikhonov)
def _(regularizer: Power | Tikhonov, epsilon: float) -> Regularizer:
    return regularizer if regularizer.p >= 1.0 + epsilon else replace(regularizer, p=1.0 + epsilon)


@smoothed.register
def _(regularizer: BlockNorm, epsilon: float) -> Regularizer:
    return regularizer if regularizer.q >= 1.0 + 0.5 * epsilon else BlockNorm(1.0 + 0.5 * epsilon)


@smoothed.register
def _(regularizer: Groups, epsilon: float) -> Regularizer:
    total = regularizer.p + regularizer.q
    if total <= 1.0 - epsilon:
        return regularizer
    share = (1.0 - epsilon) / total
    return replace(regularizer, p=share * regularizer.p, q=share * regularizer.q)


@smoothed.register
def _(regularizer: ConcaveBlock, epsilon: float) -> Regularizer:
    g = regularizer.g
    smooth = not isinstance(g, PowerRoot) or g.p >= 1.0 + epsilon
    return regularizer if smooth else ConcaveBlock(PowerRoot(1.0 + epsilon))


@smoothed.register
def _(regularizer: Rescaled, epsilon: float) -> Regularizer:
    base = smoothed(regularizer.base, epsilon)
    return regularizer if base is regularizer.base else regularizer.with_base(base)


def path(regularizer: Regularizer) -> list[Regularizer]:
    """Relatives from the smoothest to the regulariser itself, or to its last smooth relative if it has kinks."""
    members: list[Regularizer] = []
    epsilon = _FIRST
    while epsilon > _LAST:
        member = smoothed(regularizer, epsilon)
        if member is regularizer:
            return [*members, regularizer]
        members.append(member)
        epsilon *= _FACTOR
    last = smoothed(regularizer, _LAST)
    return [*members, last]
