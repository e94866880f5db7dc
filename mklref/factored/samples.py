"""The samples on the central path: dual variables and multipliers of a slice of them, sample by sample.

The dual term of a loss is -linear'beta + absolute |beta|_1 + sum curvature beta_i^2/(2 c_i) on a box (boxes.py), or on
all numbers, or the entropy of the logistic loss (endless.py). All methods work on a slice of the samples, small enough
for the cache, and return sums.

As tau falls to 0 most variables u go to an end, 0 or w, and stay there as long as the score is `clearance` away from
where the loss bends: until then the loss of the sample is linear. `settle` puts them there.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from mklref._typing import Array
from mklref.exceptions import NotApplicable
from mklref.factored.boxes import BoxSamples
from mklref.factored.endless import EntropySamples, FreeSamples
from mklref.losses import Logistic, Loss

SUMS = 8
"""Numbers that `sums` returns: loss, products, sums of beta above and below 0, and four of the dual term."""


class Samples(Protocol):
    """What a step asks of the samples; slices are those of this object's own samples."""

    f: Array
    beta: Array
    pairs: int
    """Products for each sample that go to tau."""
    ends: bool
    """Whether there are ends to settle at."""
    kinked: bool
    """Whether the loss has kinks, where D is infinite."""

    def part(self, index: Any) -> Samples:
        """Some of the samples as they are."""

    def put(self, index: Any, part: Samples) -> None:
        """What has become of them."""

    def clearance(self, where: Any) -> Array:
        """How far each score is from where beta leaves the end that it goes to; 0 if it goes to none."""

    def settle(self, where: Any) -> None:
        """Put beta at the end that it goes to."""

    def room(self, where: Any) -> Array:
        """The sums of the lower and of the upper ends of beta."""

    def losses(self, where: Any) -> float:
        """The sum of c_i V(f_i, y_i)."""

    def begin(self, where: Any, tau: float) -> None:
        """Put the samples on their own central path for their scores."""

    def rounded(self, where: slice, width: float) -> Array:
        """Put beta where the loss, rounder by `width` if it has kinks, has it for their scores; D."""

    def linear(self, where: slice) -> tuple[Array, Array]:
        """D and D r of the first step."""

    def first(self, where: slice, df: Array) -> tuple[float, Array, Array, Array]:
        """1/length where it leaves the interior, coefficients (3,) of the products along it, D dr/dtau and D dr."""

    def second(self, where: slice, df: Array, tau: float, trial: float) -> tuple[float, Array]:
        """The step itself: 1/length where it leaves the interior, and D dr of what centres its products at `trial`."""

    def third(self, where: slice, df: Array) -> float:
        """What centring adds to the step, and 1/length where the sum leaves the interior."""

    def move(self, where: slice, length: float, centred: bool) -> None:
        """Take the step, with what was added to it or without."""

    def sums(self, where: Any) -> Array:
        """(SUMS,)."""

    def dual(self, sums: Array, up: float, down: float) -> float:
        """The loss part of the dual objective at up max(beta, 0) + down min(beta, 0), factors in [0, 1]."""


def samples_for(loss: Loss, y: Array, costs: Array) -> Samples:
    """The samples of a loss.

    Raises
    ------
    NotApplicable
        A loss of one's own without `quadratic_dual`, or with a box that is bounded for some samples only.
    """
    if isinstance(loss, Logistic):
        return EntropySamples(loss, y, costs)
    form = loss.quadratic_dual(y)
    lower, upper = loss.box(y, costs)
    bounded = np.isfinite(lower) & np.isfinite(upper)
    mixed = bounded.any() and not bounded.all()
    if form is None or (len(y) and (mixed or (not bounded.any() and form.curvature == 0.0))):
        raise NotApplicable(
            f"the solver for kernels as factors takes losses whose dual is a quadratic on a box; {loss} is none. "
            "For small n solve the matrices: problem.replace(kernels=problem.kernels.dense_stack())."
        )
    if form.absolute == 0.0 and not (np.isfinite(lower) | np.isfinite(upper)).any():
        return FreeSamples(loss, y, costs)
    return BoxSamples(loss, y, costs)
