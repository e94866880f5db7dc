"""A certificate with its problem, and both on disk."""

from __future__ import annotations

import json

import numpy as np
import pytest
from certificate.points import document
from makers import make_problem

from mklref.regularizers import Lp


@pytest.fixture(scope="module")
def case():
    problem = make_problem(regularizer=Lp(2), n=15, seed=1)
    return problem, document(problem)


@pytest.fixture
def files(case, tmp_path):
    """A certificate and its data on disk."""
    problem, facts = case
    certificate, data = tmp_path / "c.json", tmp_path / "c.npz"
    certificate.write_text(json.dumps(facts))
    np.savez(data, kernels=problem.kernels.dense(), y=problem.y)
    return certificate, data
