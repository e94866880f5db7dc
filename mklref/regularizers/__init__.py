"""Convex regularisers of the block norms, one frozen class each, with five faces."""

from __future__ import annotations

import numpy as np

from mklref.exceptions import InvalidParameter, InvalidType
from mklref.regularizers.base import Regularizer
from mklref.regularizers.concave import ConcaveBlock, ConcaveFunction, PowerRoot, RootPlusLinear, SmoothedRoot
from mklref.regularizers.elastic_net import ElasticNet
from mklref.regularizers.groups import Groups
from mklref.regularizers.lp import BlockNorm, Fixed, Lp
from mklref.regularizers.mahalanobis import Mahalanobis
from mklref.regularizers.norms import Polyhedral
from mklref.regularizers.rescaled import HalfPower, WeightedL1, WeightedLp
from mklref.regularizers.tikhonov import Power, Tikhonov

NAMED: dict[str, Regularizer] = {"l1": Lp(1), "l2": Lp(2), "uniform": Lp(np.inf)}
"""Regularisers that have a name of their own; all others are given as instances."""


def as_regularizer(regularizer: str | Regularizer) -> Regularizer:
    """Return `regularizer` itself, or the one of that name.

    Raises
    ------
    InvalidParameter
        An unknown name; the message lists the known ones.
    InvalidType
        Neither a string nor a `Regularizer`.
    """
    if isinstance(regularizer, Regularizer):
        return regularizer
    if not isinstance(regularizer, str):
        raise InvalidType(f"regularizer is {type(regularizer).__name__}; give a name or an instance such as Lp(4/3).")
    if regularizer not in NAMED:
        raise InvalidParameter(
            f"regularizer = {regularizer!r} is unknown; known names: {', '.join(NAMED)}, "
            "or an instance such as Lp(4/3)."
        )
    return NAMED[regularizer]


__all__ = [
    "NAMED",
    "BlockNorm",
    "ConcaveBlock",
    "ConcaveFunction",
    "ElasticNet",
    "Fixed",
    "Groups",
    "HalfPower",
    "Lp",
    "Mahalanobis",
    "Polyhedral",
    "Power",
    "PowerRoot",
    "Regularizer",
    "RootPlusLinear",
    "SmoothedRoot",
    "Tikhonov",
    "WeightedL1",
    "WeightedLp",
    "as_regularizer",
]
