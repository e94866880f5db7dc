"""The oracle as a product: check one answer, a whole solver, or a file, whoever computed it.

    testing.assert_optimal(problem, dual_coef, weights=theta, intercept=b)     in a test
    testing.check_solver(solver)                                               the whole catalogue of cases

Names are imported when they are first asked for, so that the pytest plugin, which lives here, costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOMES = {
    "FAULTS": "faults",
    "FLAGS": "case",
    "Answer": "answer",
    "Case": "case",
    "Report": "result",
    "Supports": "supports",
    "assert_optimal": "optimal",
    "check_solver": "conformance",
    "judge": "diagnosis",
    "select": "case",
}
_MODULES = ("strategies", "vectors")

if TYPE_CHECKING:
    from mklref.testing.answer import Answer as Answer
    from mklref.testing.case import FLAGS as FLAGS
    from mklref.testing.case import Case as Case
    from mklref.testing.case import select as select
    from mklref.testing.conformance import check_solver as check_solver
    from mklref.testing.diagnosis import judge as judge
    from mklref.testing.faults import FAULTS as FAULTS
    from mklref.testing.optimal import assert_optimal as assert_optimal
    from mklref.testing.result import Report as Report
    from mklref.testing.supports import Supports as Supports

__all__ = [*_HOMES, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(f"mklref.testing.{_HOMES[name]}"), name)
    elif name in _MODULES:
        value = import_module(f"mklref.testing.{name}")
    else:
        raise AttributeError(f"module 'mklref.testing' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
