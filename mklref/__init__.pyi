"""The public names of mklref and where they live."""

from . import (
    algorithms as algorithms,
)
from . import (
    bounds as bounds,
)
from . import (
    datasets as datasets,
)
from . import (
    equivalences as equivalences,
)
from . import (
    estimators as estimators,
)
from . import (
    evidence as evidence,
)
from . import (
    kernels as kernels,
)
from . import (
    losses as losses,
)
from . import (
    native as native,
)
from . import (
    plotting as plotting,
)
from . import (
    reference as reference,
)
from . import (
    regularizers as regularizers,
)
from . import (
    synthesis as synthesis,
)
from . import (
    testing as testing,
)
from .certificate import (
    Certificate as Certificate,
)
from .certificate import (
    certify as certify,
)
from .crosscheck import (
    crosscheck as crosscheck,
)
from .estimators import (
    MKLClassifier as MKLClassifier,
)
from .estimators import (
    MKLClassifierCV as MKLClassifierCV,
)
from .estimators import (
    MKLOneClass as MKLOneClass,
)
from .estimators import (
    MKLRegressor as MKLRegressor,
)
from .estimators import (
    MKLRegressorCV as MKLRegressorCV,
)
from .exceptions import (
    Interrupted as Interrupted,
)
from .exceptions import (
    MKLError as MKLError,
)
from .kernels import (
    KernelStack as KernelStack,
)
from .losses import (
    DensityLevelSet as DensityLevelSet,
)
from .losses import (
    EpsilonInsensitive as EpsilonInsensitive,
)
from .losses import (
    Hinge as Hinge,
)
from .losses import (
    Huber as Huber,
)
from .losses import (
    Logistic as Logistic,
)
from .losses import (
    OneClass as OneClass,
)
from .losses import (
    Pinball as Pinball,
)
from .losses import (
    Squared as Squared,
)
from .losses import (
    SquaredEpsilonInsensitive as SquaredEpsilonInsensitive,
)
from .losses import (
    SquaredHinge as SquaredHinge,
)
from .multiclass import (
    MulticlassProblem as MulticlassProblem,
)
from .native import (
    solve as solve,
)
from .path import (
    solve_path as solve_path,
)
from .problem import (
    Problem as Problem,
)
from .ranges import (
    weight_ranges as weight_ranges,
)
from .regularizers import (
    BlockNorm as BlockNorm,
)
from .regularizers import (
    ConcaveBlock as ConcaveBlock,
)
from .regularizers import (
    ElasticNet as ElasticNet,
)
from .regularizers import (
    Fixed as Fixed,
)
from .regularizers import (
    Groups as Groups,
)
from .regularizers import (
    Lp as Lp,
)
from .regularizers import (
    Mahalanobis as Mahalanobis,
)
from .regularizers import (
    Power as Power,
)
from .regularizers import (
    Tikhonov as Tikhonov,
)
from .regularizers import (
    WeightedL1 as WeightedL1,
)
from .regularizers import (
    WeightedLp as WeightedLp,
)
from .solution import (
    Solution as Solution,
)
from .solution import (
    Status as Status,
)

__version__: str
