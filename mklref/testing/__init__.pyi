"""The public names of mklref.testing and where they live."""

from . import strategies as strategies, vectors as vectors
from .answer import Answer as Answer
from .case import FLAGS as FLAGS, Case as Case, select as select
from .conformance import check_solver as check_solver
from .diagnosis import judge as judge
from .faults import FAULTS as FAULTS
from .many import certify_many as certify_many
from .optimal import assert_optimal as assert_optimal
from .result import Report as Report
from .supports import Supports as Supports
from .value import check_value as check_value
