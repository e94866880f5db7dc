"""The public names of mklref and where they live."""

from . import (
    algorithms as algorithms,
    bounds as bounds,
    datasets as datasets,
    equivalences as equivalences,
    estimators as estimators,
    evidence as evidence,
    kernels as kernels,
    losses as losses,
    model_selection as model_selection,
    native as native,
    plotting as plotting,
    primer as primer,
    reference as reference,
    regularizers as regularizers,
    synthesis as synthesis,
    testing as testing,
)
from ._crosscheck import CrossCheck as CrossCheck, crosscheck as crosscheck
from ._path import solve_path as solve_path
from ._ranges import weight_ranges as weight_ranges
from .certificate import Certificate as Certificate, certify as certify
from .estimators import (
    MKLClassifier as MKLClassifier,
    MKLClassifierCV as MKLClassifierCV,
    MKLOneClass as MKLOneClass,
    MKLRegressor as MKLRegressor,
    MKLRegressorCV as MKLRegressorCV,
)
from .exceptions import Interrupted as Interrupted, MKLError as MKLError
from .factored import (
    DistributedLazyStack as DistributedLazyStack,
    DistributedStack as DistributedStack,
    exact_interval as exact_interval,
    local_client as local_client,
)
from .kernels import KernelStack as KernelStack
from .losses import (
    DensityLevelSet as DensityLevelSet,
    EpsilonInsensitive as EpsilonInsensitive,
    Hinge as Hinge,
    Huber as Huber,
    Logistic as Logistic,
    OneClass as OneClass,
    Pinball as Pinball,
    Squared as Squared,
    SquaredEpsilonInsensitive as SquaredEpsilonInsensitive,
    SquaredHinge as SquaredHinge,
)
from .multiclass import MulticlassProblem as MulticlassProblem
from .native import solve as solve
from .problem import Problem as Problem
from .regularizers import (
    BlockNorm as BlockNorm,
    ConcaveBlock as ConcaveBlock,
    ElasticNet as ElasticNet,
    Fixed as Fixed,
    Groups as Groups,
    Lp as Lp,
    Mahalanobis as Mahalanobis,
    Power as Power,
    Tikhonov as Tikhonov,
    WeightedL1 as WeightedL1,
    WeightedLp as WeightedLp,
)
from .solution import Solution as Solution, Status as Status

__version__: str
