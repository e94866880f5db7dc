"""A rigorous certificate: what is claimed and why, in words and as a JSON document that a separate program checks.

Every float is written in hexadecimal, so that nothing is lost, and the data are named by SHA-256. `mklref.verify`
reads the document and the data and shares no code with this package.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, field, fields
from os import PathLike
from typing import Any

import numpy as np

import mklref
from mklref._files import replacing, require_ending, write_text
from mklref._typing import Array
from mklref.certificate.bounds import relative
from mklref.certificate.definite import fingerprint
from mklref.certificate.verdict import Bounds
from mklref.exceptions import InvalidInput
from mklref.kernels.stack import KernelStack

FORMATS = ("mklref-rigorous-1", "mklref-rigorous-2")
"""The formats of documents for one machine, and for several."""


@dataclass(frozen=True, eq=False)
class RigorousCertificate(Bounds):
    """lower <= P* <= upper with a proof, for every family of semidefinite matrices within delta of the kernels."""

    tier: int
    """1: delta = 0 and every kernel is proven positive semidefinite. 2: some delta_m > 0."""
    delta: Array
    """Radii (M,) in the spectral norm: the bounds hold for all semidefinite Khat_m with ||Khat_m - K_m|| <= delta_m."""
    backend: str
    """How the products with the kernels were enclosed: "fast", "sliced" or "exact"."""
    slack: float
    """How much wider the bounds are than those computed in float64 at the same point."""
    dual_coef: Array
    """The certified beta (n,), of P machines (P, n), which satisfies box and 1'beta = c_b exactly."""
    weights: Array
    """The certified theta (M,): the given one, moved by rounding at most."""
    intercept: Any
    """The certified b, likewise; of P machines an array (P,)."""
    problem: Any = field(repr=False)
    fingerprint: str = field(repr=False)
    """Hash of the kernels that were certified (`mklref.certificate.definite`)."""

    @property
    def gap(self) -> float:
        """upper - lower, rounded up."""
        return 0.0 if self.upper == self.lower else math.nextafter(self.upper - self.lower, math.inf)

    @property
    def relative_gap(self) -> float:
        """gap / |upper|, or over the unit of the problem where the optimum is 0, rounded up; inf if a bound is."""
        quotient = relative(self.gap, self.size)
        return math.nextafter(quotient, math.inf) if quotient else 0.0

    def explain(self) -> str:
        """What is proven, about which matrices, and what the proof cost."""
        if self.tier == 1:
            how = "proven" if self.problem.kernels.entry_errors is None else "by a theorem"
            scope = f"Proven for exactly these kernels, each of which is {how} positive semidefinite (tier 1)."
            if self.problem.kernels.entry_errors is not None:
                scope += " The rounding errors of their evaluation are enclosed."
        else:
            moved = np.flatnonzero(self.delta)
            scope = (
                "Proven for every family of positive semidefinite matrices within delta of the kernels in the spectral "
                f"norm (tier 2); delta is at most {self.delta.max():.2g} and 0 for {len(self.delta) - len(moved)} of "
                f"{len(self.delta)} kernels."
            )
        share = f"Backend {self.backend!r}: rounding" + (" and delta make" if self.tier == 2 else " makes")
        lines = [str(self), scope, f"{share} the interval {self.slack:.1e} wider than float64 says."]
        lines += [f"Repaired before it was certified: {violation}." for violation in self.violations]
        if self.upper == math.inf:
            lines.append("There is no finite upper bound: the primal objective is infinite here, or overflows.")
        if self.lower == -math.inf:
            lines.append("There is no finite lower bound: no dual point is exactly feasible, or it overflows.")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """The document, with hashes of the data; reads all kernels.

        Raises
        ------
        InvalidInput
            The kernels were written to since they were certified.
        """
        problem, y = self.problem, _targets(self.problem)
        if fingerprint(problem.kernels) != self.fingerprint:
            raise InvalidInput("the kernels were written to since they were certified; certify the point again.")
        return {
            "format": FORMATS[problem.several],
            "mklref": mklref.__version__,
            "claim": {
                "lower": _hex(self.lower),
                "upper": _hex(self.upper),
                "tier": self.tier,
                "delta": _hex(self.delta),
            },
            "backend": self.backend,
            "problem": {
                "loss": {"name": problem.loss.name, **_parameters(problem.loss)},
                "regularizer": {"name": type(problem.regularizer).__name__, **_parameters(problem.regularizer)},
                "costs": _hex(problem.costs),
                "intercept": problem.intercept,
                **({"strategy": problem.strategy} if problem.several else {}),
            },
            "point": {
                "dual_coef": _hex(self.dual_coef),
                "weights": _hex(self.weights),
                "intercept": _hex(self.intercept),
            },
            "data": {
                "kernels": {
                    "shape": list(problem.kernels.shape),
                    "dtype": str(problem.kernels.dtype),
                    **_named(problem.kernels),
                },
                "y": {"shape": list(y.shape), "dtype": "float64", "sha256": _sha256([y])},
            },
        }

    def save(self, path: str | PathLike[str], *, data: str | PathLike[str] | None = None) -> None:
        """Write the document as JSON, and the data beside it where they are not in a file yet.

        Parameters
        ----------
        path : path
            Of the JSON document.
        data : path, optional
            Of an NPZ file to write with the arrays `kernels` (M, n, n) and `y` (n,), as `mklref.verify` reads them:
            targets, or of several classes their numbers 0, 1, ... in sorted order.

        Raises
        ------
        InvalidParameter
            A name that ends as those of other formats do, such as a `path` in .npz.
        InvalidInput
            As `to_dict`; nothing is written then.
        """
        for name, own in ((path, ".json"), (data, ".npz")):
            if name is not None:
                require_ending(name, own)
        document = json.dumps(self.to_dict(), indent=1) + "\n"  # before the data, which it may refuse
        if data is not None:
            with replacing(data) as file:
                np.savez(file, kernels=self.problem.kernels.dense(), y=_targets(self.problem))
        write_text(path, document)


def _targets(problem: Any) -> Array:
    """y (n,), and for classes their numbers."""
    return np.asarray(np.searchsorted(problem.classes, problem.y) if problem.several else problem.y, dtype=np.float64)


def _named(kernels: KernelStack) -> dict[str, str]:
    """The hash of the matrices, or of what they follow from, which `mklref.verify` has no use for."""
    if kernels.recipe is not None:
        return {"recipe": hashlib.sha256(kernels.recipe).hexdigest()}
    return {"sha256": _sha256(map(kernels.matrix, range(len(kernels))))}


def _hex(x: Any) -> Any:
    """A float as hexadecimal text, an array as a list of them."""
    return [_hex(value) for value in x] if np.ndim(x) else float(x).hex()


def _parameters(owner: Any) -> dict[str, Any]:
    """The fields of a loss or a regulariser: numbers in hexadecimal, groups as lists of integers."""
    values = {entry.name: getattr(owner, entry.name) for entry in fields(owner)}
    return {
        name: [list(group) for group in value] if name == "groups" else _hex(value) for name, value in values.items()
    }


def _sha256(arrays: Any) -> str:
    """SHA-256 of the bytes of all arrays in order: rows first, little endian."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False)).data)
    return digest.hexdigest()
