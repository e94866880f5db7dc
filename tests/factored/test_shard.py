"""What a shard answers is the sum over its rows and machines, however many blocks it reads and where it begins."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
from makers import make_factors as rows
from scipy.sparse import csr_matrix

from mklref import kernels, losses
from mklref.factored.nearby import Nearby
from mklref.factored.rounds import samples_for
from mklref.factored.shard import Own, Shard


def two_machines(form):
    """Machines that share the rows after the first 50, by blocks, one of which sees some of them; targets, a point."""
    L, score = rows(n=450)
    y, some, stack = np.sign(score[50:]), np.arange(0, 400, 3), kernels.FactorStack([form(one) for one in L])
    own = [Own(samples_for(losses.Hinge(), y, np.ones(400)), None)]
    own.append(Own(samples_for(losses.Hinge(), -y[some], np.ones(len(some))), some))
    stack.block_rows = 128
    shard = Nearby(Shard(stack, own, 50, 450, 450))
    v, b = np.random.default_rng(1).normal(size=(2, 14)), np.array([0.1, -0.2])
    return shard, np.hstack(L)[50:], y, some, v, b


@pytest.mark.parametrize("form", [np.asarray, csr_matrix])
def test_samples_near_the_bends_and_the_sums_of_the_others_are_the_whole_problem(form):
    shard, whole, y, some, v, b = two_machines(form)
    shard.score(v, b)
    shard.begin(0.1, np.zeros(2))
    counts = shard.clearances().sums[0]
    assert counts.sum() == 400 + len(some)
    v = v + 0.01
    vectors, sums, told, (squares, number) = shard.look(0.0, False, v, b, 0.1, 0.3, 2).sums
    assert number == 0.0
    assert 0 < told[0, 0] < 200
    for p, (samples, index) in enumerate(shard.whole.machines):
        index = slice(None) if index is None else index
        f, labels = whole[index] @ v[p] + b[p], y[index] * (1.0 - 2.0 * p)
        assert np.allclose(samples.f, f)
        far = np.abs(1.0 - labels * f) > 0.3
        assert np.array_equal(~far, shard.near[p])
        assert told[p].tolist() == pytest.approx(
            [np.sum(~far), *np.sort([labels[~far].clip(-1, 0).sum(), labels[~far].clip(0).sum()])]
        )
        settled = np.where(far & (labels * f < 1.0), labels, 0.0)
        assert np.allclose(vectors[p].sum(axis=1)[:-1], whole[index].T @ settled)
        assert sums[p, 0] == pytest.approx(np.maximum(0.0, 1.0 - labels * f)[far].sum())
        assert np.array_equal(samples.beta[far], settled[far])
    needed = shard.near[0].copy()
    needed[some[shard.near[1]]] = True
    assert shard.steps.stack.own_diagonals.sum(axis=0) == pytest.approx(np.sum(whole[needed] ** 2, axis=1))
    weights, before = np.ones(4), [samples.beta.copy() for samples, _ in shard.whole.machines]
    few = shard.assemble(0.0, False, weights, 10.0, np.inf, 2).sums[1]
    for p, (_, index) in enumerate(shard.whole.machines):
        index = slice(None) if index is None else index
        total = (few[p, :, 1:] + vectors[p]).sum(axis=1)
        assert np.allclose(total[:-1], whole[index].T @ before[p])
        assert total[-1] == pytest.approx(before[p].sum())
    left_out = [np.flatnonzero(~near) for near in shard.near]
    moved = [(0.1 * whole.sum(axis=1)[rows])[out] for rows, out in zip((slice(None), some), left_out, strict=True)]
    _, _, _, (squares, number) = shard.look(0.0, False, v + 0.1, b, 0.1, np.inf, 2).sums
    assert number == 400 + len(some) - told[:, 0].sum()
    assert squares == pytest.approx(np.sum(np.concatenate(moved) ** 2))
    for (samples, _), out in zip(shard.whole.machines, left_out, strict=True):
        begun = deepcopy(samples)
        begun.begin(out, 0.1)
        assert np.array_equal(samples.beta, begun.beta)
    assert shard.steps is shard.whole
    assert all(near.all() for near in shard.near)


def test_a_round_with_a_rounder_loss_is_its_newton_system():
    """Around the middle of the box, where u = 1/2, and then from where it was, which it pulls as far again."""
    shard, whole, y, some, v, b = two_machines(np.asarray)
    whole, u = np.hstack([whole, np.ones((400, 1))]), [np.full(400, 0.5), np.full(len(some), 0.5)]
    for near in (False, True):
        v = v + 0.1 * near
        grams, vectors, sums, told = shard.evaluate(v, b, 0.8, np.ones(4), np.inf, 2, near).sums
        between = 0
        for p, (index, labels) in enumerate([(np.arange(400), y), (some, -y[some])]):
            rows_of = whole[index]
            margin = 1.0 - labels * (rows_of @ np.append(v[p], b[p]))
            D = ((u[p] + margin / 0.8 > 0.0) & (u[p] + margin / 0.8 < 1.0)) / 0.8
            u[p] = np.clip(u[p] + margin / 0.8, 0.0, 1.0)
            assert np.allclose(vectors[p][:, 1:].sum(axis=1), rows_of.T @ (labels * u[p]))
            assert np.allclose(vectors[p][:, 0], rows_of.T @ (near * D * labels * margin))
            assert np.allclose(grams[p], rows_of.T @ (D[:, None] * rows_of))
            assert sums[p, 0] == pytest.approx(np.maximum(0.0, margin).sum())
            between += np.count_nonzero(D)
        assert told.tolist() == [between, between]


def test_what_a_step_asks_of_rows_is_summed_over_blocks_and_machines():
    shard, whole, _, some, v, b = two_machines(np.asarray)
    shard.score(v, b)
    shard.begin(0.1, np.zeros(2))
    shard.assemble(0.0, False, np.ones(4), 10.0, np.inf, 2)
    each, dv, db = [np.hstack([whole, np.ones((400, 1))])[own] for own in (slice(None), some)], v[::-1], b[::-1]
    changes = [L @ np.append(*step) for L, step in zip(each, zip(dv, db, strict=True), strict=True)]
    machines = [(deepcopy(one.samples), slice(None), df) for one, df in zip(shard.machines, changes, strict=True)]
    asked, found = [samples.first(*given) for samples, *given in machines], shard.first(dv, db)
    for L, D, df, (_, _, *wanted), vectors in zip(each, shard.D, changes, asked, found.sums[0], strict=True):
        assert vectors == pytest.approx(L.T @ np.column_stack([*wanted, D * df]))
    assert found.sums[1] == pytest.approx(asked[0][1] + asked[1][1])
    asked += [samples.second(*given, 0.05, 0.8) for samples, *given in machines]
    again = shard.second(dv, db, 0.05, 0.8)
    assert again.sums[0] == pytest.approx(np.stack([L.T @ more for L, (_, more) in zip(each, asked[2:], strict=True)]))
    reached = [max(own[0] for own in two) for two in (asked[:2], asked[2:])]
    reached.append(max(samples.third(*given) for samples, *given in machines))
    assert [found.worst, again.worst, shard.third(dv, db).worst] == pytest.approx(reached)
