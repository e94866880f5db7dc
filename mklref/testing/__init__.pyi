"""The public names of mklref.testing and where they live."""

from . import strategies as strategies, vectors as vectors
from .answer import Answer as Answer, Supports as Supports
from .case import FLAGS as FLAGS, Case as Case, select as select
from .conformance import check_solver as check_solver
from .diagnosis import judge as judge
from .faults import FAULTS as FAULTS
from .optimal import assert_optimal as assert_optimal, certify_many as certify_many, check_value as check_value
from .result import Report as Report
