"""Several threads at work on the same problem: nothing is shared that is written to."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from makers import make_problem
from threadpoolctl import ThreadpoolController, threadpool_limits

import mklref
from mklref.native import machine
from mklref.regularizers import Lp


@pytest.mark.parametrize("loss", ["hinge", "logistic", "epsilon_insensitive"])
@pytest.mark.parametrize("p", [1, 2])
def test_threads_get_the_bits_of_a_single_one(loss, p):
    """Eight solvers at a time on one kernel stack, with problems of their own and with the same one."""
    problem = make_problem(loss=loss, seed=5, n=60, regularizer=Lp(p))
    problems = [problem.replace(C=C) for C in (0.1, 1.0, 10.0)] * 4 + [problem] * 4
    alone = [mklref.solve(each) for each in problems]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(mklref.solve, problems))
    for single, threaded in zip(alone, together, strict=True):
        np.testing.assert_array_equal(threaded.dual_coef, single.dual_coef)
        np.testing.assert_array_equal(threaded.weights, single.weights)
        assert threaded.certificate == single.certificate
        assert threaded.history.counters == single.history.counters


def test_certificates_of_several_threads_agree():
    problem = make_problem(loss="hinge", seed=6, n=40)
    solution = mklref.solve(problem)
    with ThreadPoolExecutor(8) as pool:
        certificates = list(
            pool.map(
                lambda rigorous: mklref.certify(
                    problem,
                    solution.dual_coef,
                    weights=solution.weights,
                    intercept=solution.intercept,
                    rigorous=rigorous,
                ),
                [False, True] * 6,
            )
        )
    assert all(certificate == certificates[0] for certificate in certificates[::2])
    assert len({(certificate.lower, certificate.upper) for certificate in certificates[1::2]}) == 1


def test_the_last_certificate_leaves_one_thread_to_blas(monkeypatch):
    """Small products by several threads take a thousand times as long where somebody else needs a core."""
    honest, seen = machine.certify, []

    def observed(*point, **options):
        seen.append({library["num_threads"] for library in ThreadpoolController().select(user_api="blas").info()})
        return honest(*point, **options)

    monkeypatch.setattr(machine, "certify", observed)
    with threadpool_limits(2, user_api="blas"):
        mklref.solve(make_problem(loss="hinge", seed=6, n=40))
    assert seen == [{1}]
