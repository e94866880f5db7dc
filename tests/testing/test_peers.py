"""The adapter to scikit-learn, the one peer that is always there: its machine passes on everything in its scope."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from mklref.testing import check_solver
from mklref.testing.result import Outcome

ADAPTER = Path(__file__).parents[2] / "validation" / "peers" / "scikit_learn.py"


def test_scikit_learn_passes_where_it_solves_the_same_problem():
    spec = importlib.util.spec_from_file_location("scikit_learn", ADAPTER)
    peer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(peer)
    report = check_solver(peer.solve, exclude="large-C-sv*")  # where libsvm ends early
    assert report.passed, str(report)
    assert report.count(Outcome.PASSED) >= 30
