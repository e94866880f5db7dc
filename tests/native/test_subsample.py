"""The first weights from a part of the samples."""

from __future__ import annotations

import numpy as np
import pytest
from native.solving import loop_on

import mklref
from mklref.machines import machine_for
from mklref.native.solver import equal_weights, weights_of_a_part
from mklref.native.tuning import SHARE
from mklref.regularizers import Fixed


def many_samples(n=480, loss="hinge", p=1.0, **changes):
    """Gaussian kernels on two informative and two noisy variables; the labels say which."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n, 4))
    t = X[:, 0] * X[:, 1] + 0.5 * rng.normal(size=n)
    views = (X[:, :2], X[:, 2:], X, X[:, :1])
    kernels = np.stack([np.exp(-0.5 * ((V[:, None] - V) ** 2).sum(-1)) for V in views])
    y = t if loss in ("squared", "epsilon_insensitive") else np.sign(t)
    return mklref.Problem(kernels, y, loss=loss, regularizer=mklref.Lp(p), **changes)


@pytest.mark.parametrize("loss", ["hinge", "squared", "logistic"])
@pytest.mark.parametrize("p", [1.0, 2.0])
def test_they_are_nearly_as_good_as_the_best(loss, p):
    problem = many_samples(loss=loss, p=p)
    weights = weights_of_a_part(loop_on(problem))
    assert problem.regularizer.weight_penalty(weights) == 0.0

    def excess(fixed):
        return mklref.solve(problem.replace(regularizer=Fixed(fixed)), tol=1e-4).objective - best

    best = mklref.solve(problem, tol=1e-4).certificate.lower
    assert excess(weights) < 0.3 * excess(equal_weights(problem))


def test_they_save_reads_where_there_are_many_kernels():
    """At equal weights every kernel is read for every row; the weights of the part are sparse already."""
    few = many_samples()
    bases = few.kernels.dense()
    problem = few.replace(kernels=[K**width for K in bases for width in np.geomspace(0.01, 10.0, 8)])
    cold = loop_on(problem)
    cold.iterate(cold.begin(equal_weights(problem)))
    warm = mklref.solve(problem).history
    assert warm.counters["passes"] < 0.9 * cold.counters()["passes"], (warm.counters, cold.counters())


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_what_they_cost_is_counted(loss):
    """Machines, steps and reads of the part, whose kernels are a sixteenth of the stack and a quarter of its rows."""
    problem = many_samples(loss=loss)
    run = loop_on(problem)
    run.machine.warm = True
    weights = weights_of_a_part(run)
    costs = run.counters()
    assert costs["machines"] >= 2.0
    assert costs["inner_steps"] > 0.0
    assert 1 / SHARE < costs["passes"] < 1.0
    run.iterate(run.begin(weights))
    counted = mklref.solve(problem).history
    assert counted.counters == run.counters()
    assert counted.records[0].inner_steps > costs["inner_steps"]
    assert sum(record.inner_steps for record in counted.records) == counted.counters["inner_steps"]


def test_costs_of_the_samples_are_kept():
    """A sample of weight two counts like the sample twice, also in the choice."""
    problem = many_samples(sample_weight=np.linspace(0.5, 1.5, 480))
    assert mklref.solve(problem).certificate.is_optimal(1e-6)


def test_none_where_the_part_cannot_tell():
    few = many_samples(n=SHARE * 63)
    assert weights_of_a_part(loop_on(few)) is None
    problem = many_samples()
    chosen = np.random.default_rng(0).permutation(480)[: 480 // SHARE]
    y = np.ones(480)
    outside = np.setdiff1d(np.arange(480), chosen)
    y[outside[:5]] = -1.0  # no sample of this class in the part
    rare = problem.replace(y=y)
    assert weights_of_a_part(loop_on(rare)) is None
    assert mklref.solve(rare).certificate.is_optimal(1e-6)


def test_the_part_has_the_kernels_of_its_samples_and_c_scaled(monkeypatch):
    seen = []
    problem = many_samples(C=0.7)
    monkeypatch.setattr(
        "mklref.native.solver.machine_for", lambda part, *state: seen.append(part) or machine_for(part, *state)
    )
    mklref.solve(problem)
    _, part = seen
    chosen = np.sort(np.random.default_rng(0).permutation(480)[: 480 // SHARE])
    np.testing.assert_array_equal(part.kernels.dense(), problem.kernels.dense()[:, chosen][:, :, chosen])
    np.testing.assert_array_equal(part.y, problem.y[chosen])
    assert pytest.approx(SHARE * 0.7) == part.C
