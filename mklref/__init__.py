"""mklref: multiple kernel learning as convex programs, with certificates and a fast native solver.

    minimise   C sum_i V(sum_m f_m(x_i) + b, y_i) + R(||f_1||, ..., ||f_M||)

`reference.solve` states a problem declaratively in cvxpy, `solve` is the fast native solver, and `certify` bounds
the distance to the optimum of anybody's answer. Importing mklref loads NumPy only.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "ArrayStack": "mklref.kernels",
    "BlockNorm": "mklref.regularizers",
    "Certificate": "mklref.certificate",
    "ConcaveBlock": "mklref.regularizers",
    "DensityLevelSet": "mklref.losses",
    "ElasticNet": "mklref.regularizers",
    "EpsilonInsensitive": "mklref.losses",
    "Fixed": "mklref.regularizers",
    "Groups": "mklref.regularizers",
    "HalfPower": "mklref.regularizers",
    "Hinge": "mklref.losses",
    "History": "mklref.solution",
    "Huber": "mklref.losses",
    "Interrupted": "mklref.exceptions",
    "KernelStack": "mklref.kernels",
    "Logistic": "mklref.losses",
    "Lp": "mklref.regularizers",
    "MKLClassifier": "mklref.estimators",
    "MKLClassifierCV": "mklref.estimators",
    "MKLError": "mklref.exceptions",
    "MKLOneClass": "mklref.estimators",
    "MKLRegressor": "mklref.estimators",
    "MKLRegressorCV": "mklref.estimators",
    "Mahalanobis": "mklref.regularizers",
    "OneClass": "mklref.losses",
    "MulticlassProblem": "mklref.multiclass",
    "Pinball": "mklref.losses",
    "Power": "mklref.regularizers",
    "PowerRoot": "mklref.regularizers",
    "Problem": "mklref.problem",
    "RigorousCertificate": "mklref.certificate",
    "RootPlusLinear": "mklref.regularizers",
    "SignedProblem": "mklref.signed",
    "SmoothedRoot": "mklref.regularizers",
    "Solution": "mklref.solution",
    "Squared": "mklref.losses",
    "SquaredEpsilonInsensitive": "mklref.losses",
    "SquaredHinge": "mklref.losses",
    "Status": "mklref.solution",
    "SynthesisProblem": "mklref.synthesis",
    "SynthesisSolution": "mklref.synthesis",
    "Tikhonov": "mklref.regularizers",
    "WeightedL1": "mklref.regularizers",
    "WeightedLp": "mklref.regularizers",
    "certify": "mklref.certificate",
    "crosscheck": "mklref.crosscheck",
    "solve": "mklref.native",
    "solve_path": "mklref.path",
    "weight_ranges": "mklref.ranges",
}
"""Where each public name lives; it is imported from there when it is first asked for."""

_MODULES = (
    "algorithms",
    "bounds",
    "datasets",
    "equivalences",
    "estimators",
    "evidence",
    "kernels",
    "losses",
    "native",
    "plotting",
    "reference",
    "regularizers",
    "synthesis",
    "testing",
)

if TYPE_CHECKING:
    from mklref.certificate import Certificate as Certificate
    from mklref.certificate import RigorousCertificate as RigorousCertificate
    from mklref.certificate import certify as certify
    from mklref.estimators import MKLClassifier as MKLClassifier
    from mklref.estimators import MKLClassifierCV as MKLClassifierCV
    from mklref.estimators import MKLOneClass as MKLOneClass
    from mklref.estimators import MKLRegressor as MKLRegressor
    from mklref.estimators import MKLRegressorCV as MKLRegressorCV
    from mklref.exceptions import Interrupted as Interrupted
    from mklref.exceptions import MKLError as MKLError
    from mklref.kernels import ArrayStack as ArrayStack
    from mklref.kernels import KernelStack as KernelStack
    from mklref.losses import DensityLevelSet as DensityLevelSet
    from mklref.losses import EpsilonInsensitive as EpsilonInsensitive
    from mklref.losses import Hinge as Hinge
    from mklref.losses import Huber as Huber
    from mklref.losses import Logistic as Logistic
    from mklref.losses import OneClass as OneClass
    from mklref.losses import Pinball as Pinball
    from mklref.losses import Squared as Squared
    from mklref.losses import SquaredEpsilonInsensitive as SquaredEpsilonInsensitive
    from mklref.losses import SquaredHinge as SquaredHinge
    from mklref.multiclass import MulticlassProblem as MulticlassProblem
    from mklref.problem import Problem as Problem
    from mklref.ranges import weight_ranges as weight_ranges
    from mklref.regularizers import BlockNorm as BlockNorm
    from mklref.regularizers import ConcaveBlock as ConcaveBlock
    from mklref.regularizers import ElasticNet as ElasticNet
    from mklref.regularizers import Fixed as Fixed
    from mklref.regularizers import Groups as Groups
    from mklref.regularizers import HalfPower as HalfPower
    from mklref.regularizers import Lp as Lp
    from mklref.regularizers import Mahalanobis as Mahalanobis
    from mklref.regularizers import Power as Power
    from mklref.regularizers import PowerRoot as PowerRoot
    from mklref.regularizers import RootPlusLinear as RootPlusLinear
    from mklref.regularizers import SmoothedRoot as SmoothedRoot
    from mklref.regularizers import Tikhonov as Tikhonov
    from mklref.regularizers import WeightedL1 as WeightedL1
    from mklref.regularizers import WeightedLp as WeightedLp
    from mklref.signed import SignedProblem as SignedProblem
    from mklref.solution import History as History
    from mklref.solution import Solution as Solution
    from mklref.solution import Status as Status
    from mklref.synthesis import SynthesisProblem as SynthesisProblem
    from mklref.synthesis import SynthesisSolution as SynthesisSolution

__all__ = ["__version__", *_HOMES, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    elif name in _MODULES:
        value = import_module(f"mklref.{name}")
    else:
        raise AttributeError(f"module 'mklref' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
