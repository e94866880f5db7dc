"""The equations of a step on factors, each from its definition, and the sums over rows that it asks of a shard.

A wrong coefficient only costs steps; sums are the same, however many blocks a shard reads and where it begins.
"""

from __future__ import annotations

from copy import deepcopy
from functools import reduce
from operator import add

import numpy as np
import pytest
from makers import LOSSES, make_factors as rows
from scipy.sparse import csr_matrix

from mklref import ElasticNet, Groups, Lp, kernels, losses
from mklref.factored.boxes import BoxSamples
from mklref.factored.cluster import children
from mklref.factored.nearby import Nearby
from mklref.factored.rounds import samples_for
from mklref.factored.samples import EntropySamples
from mklref.factored.shard import Own, Shard, Total
from mklref.factored.system import Left, System
from mklref.factored.weights import psi_of
from mklref.kernels.protocol import sum_in_pairs

MOVING = [
    Lp(1),
    Lp(4 / 3),
    ElasticNet(0.4),
    ElasticNet(0.4, "ivanov"),
    Groups([[0, 2], [1, 3]], 0.5, 0.3),
    Groups([[0, 2, 3], [1]], 0.7, 0.0),
]
ALL = slice(None)


@pytest.mark.parametrize("regularizer", MOVING, ids=str)
def test_variables_state_the_regulariser_and_have_its_derivatives(regularizer, rng):
    """min over s of sum rho^2/(2 theta(s)) + price sum s, phi(s) <= 1, is R(rho), at its weights."""
    psi, rho = psi_of(regularizer, 4), rng.uniform(0.5, 2.0, 4)
    theta = np.zeros(psi.count)
    theta[psi.member] = regularizer.weights_from_norms(rho)
    s = psi.variables(theta)
    assert psi.weights(s)[psi.member] == pytest.approx(theta[psi.member])
    reached = float(np.sum(rho**2 / (2.0 * theta[psi.member]))) + psi.price * s.sum()
    assert reached == pytest.approx(regularizer.value(rho))
    if psi.constrained:
        assert psi.bound(s)[0] == pytest.approx(1.0)
        assert psi.inside(3.0 * s) == pytest.approx(s)
    s, h = rng.uniform(0.5, 2.0, psi.count), 1e-5
    up, down = psi.weights(s * np.exp(h)), psi.weights(s * np.exp(-h))
    assert psi.shares(s) == pytest.approx(np.log(up / down) / (2.0 * h), rel=1e-8)
    second = (psi.weights(s * (1.0 + h)) - 2.0 * psi.weights(s) + psi.weights(s * (1.0 - h))) / h**2
    assert psi.bend(s) == pytest.approx(-second / (2.0 * psi.weights(s)), abs=1e-4)
    for direction in np.eye(psi.count):
        (up, above, _), (down, below, _) = psi.bound(s + h * direction), psi.bound(s - h * direction)
        assert direction @ psi.bound(s)[1] == pytest.approx((up - down) / (2.0 * h), rel=1e-8)
        assert psi.bound(s)[2] @ direction == pytest.approx((above - below) / (2.0 * h), abs=1e-8)


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("regularizer", MOVING, ids=str)
def test_a_step_solves_its_equations_and_leaves_what_it_says(regularizer, free, rng):
    """Of v = theta(s) w, 1'beta, the line of s times s, s z and phi, with w = L'beta linear in v and b."""
    psi, owner = psi_of(regularizer, 4), np.array([0, 0, 1, 2, 3, 3])
    owner, r, M = psi.member[owner], 6, psi.count
    root = rng.normal(size=(2, r + 1, 9))
    grams, w, v = root @ root.transpose(0, 2, 1), rng.normal(size=(2, r)), rng.normal(size=(2, r))
    s, z, nu, b = rng.uniform(0.5, 2.0, M), rng.uniform(0.5, 2.0, M), 0.7, rng.normal(size=2)

    def pulled(s, w):
        slope = psi.shares(s) * psi.weights(s) / s
        return 0.5 * slope * np.bincount(owner, np.sum(w * w, axis=0), M)

    def line(s, z, nu, w):
        return psi.price + nu * (psi.bound(s)[1] if psi.constrained else 0.0) - z - pulled(s, w)

    samples = rng.normal(size=(2, r + 1))
    left = Left(samples, psi.weights(s)[owner] * w - v, -s * line(s, z, nu, w), 0.3 - s * z, 0.1, b)
    system = System(psi, owner, grams, w, s, z, nu, free)
    step = system.solve(left)
    if not free:
        assert not step.b.any()
    beta = samples - np.einsum("pij,pj->pi", grams, np.column_stack([step.v, step.b]))
    assert step.w == pytest.approx(beta[:, :r])
    assert not free or beta[:, r] == pytest.approx(b)
    assert step.e == pytest.approx(step.s / s)

    def along(function, order=1):
        """The coefficient of t to this power in a function of the point t steps away."""
        h = 1e-3
        there = [function(s + t * step.s, z + t * step.z, nu + t * step.nu, w + t * step.w) for t in (-h, 0.0, h)]
        return (there[2] - there[0]) / (2 * h) if order == 1 else (there[0] - 2 * there[1] + there[2]) / (2 * h**2)

    def fitted(s, z, nu, w):
        return psi.weights(s)[owner] * w

    assert step.v - along(fitted) == pytest.approx(left.v, abs=1e-5)
    assert s * step.z + z * step.s == pytest.approx(left.z)
    assert s * along(line) == pytest.approx(left.s, abs=1e-5)
    if psi.constrained:
        assert psi.bound(s)[1] @ step.s == pytest.approx(left.phi)
    root, ones = np.append(np.sqrt(psi.weights(s))[owner], 1.0), np.diag(np.append(np.ones(r), 0.0))
    error, size, made = 0.0, 0.0, []
    for gram, v, b in zip(grams, step.v, step.b, strict=True):
        own, x = np.diag(root)[: r + free], np.append(v, b)
        matrix = own @ gram @ own.T + ones[: r + free, : r + free]
        made.append(0.9 * gram @ x)
        off = own @ (0.1 * gram @ x)
        error, size = error + off @ np.linalg.solve(matrix, off), size + x @ gram @ x + np.sum((v / root[:r]) ** 2)
    found, off = system.error(step, np.array(made))
    assert found == pytest.approx(np.sqrt(error / size))
    assert off == pytest.approx(np.array(made) / 9.0)
    bent, more = system.beyond(step)
    assert bent == pytest.approx(along(fitted, 2), abs=1e-5)
    third = along(lambda s, z, nu, own: pulled(s, own) - pulled(s, w), 2)  # without theta'''
    assert more == pytest.approx(s * third, abs=1e-5)


ENDS = [loss for loss in LOSSES if isinstance(samples_for(loss, np.ones(2), np.ones(2)), BoxSamples)]


@pytest.mark.parametrize("loss", ENDS, ids=str)
def test_steps_of_samples_with_ends_solve_their_lines(loss, rng):
    """Mehrotra's predictor, corrector and what centres it, from a point that is on no path."""
    n, tau, trial = 20, 0.3, 0.8
    y, costs = np.where(rng.random(n) < 0.5, -1.0, 1.0), rng.uniform(0.5, 2.0, n)
    y = np.ones(n) if loss.targets == "ones" else y
    one, form = samples_for(loss, y, costs), loss.quadratic_dual(y)
    one.f[:] = 2.0 * rng.normal(size=n)
    one.begin(ALL, tau)
    side = one.side

    def line(f, u, s, legs=np.add.reduce):
        beta = one.base + legs(one.sign * u)
        pull = one.sign * (f + form.curvature * beta / costs - form.linear) + form.absolute
        return pull - np.sum(side * s, axis=0)

    assert one.d * one.s == pytest.approx(tau)
    assert line(one.f, one.u, one.s, legs=np.asarray) == pytest.approx(0.0, abs=1e-9)  # each leg by itself
    one.u[:] = rng.uniform(0.05, 0.95, one.u.shape) * (one.w if one.bounded else one.u)
    one.s *= rng.uniform(0.5, 2.0, one.s.shape)
    one._follow(ALL)
    u, s, d = one.u.copy(), one.s.copy(), one.d.copy()
    assert np.array_equal(d, [one.u, one.w - one.u][: len(side)])
    left = line(one.f, u, s)

    def solved(df, change, m, left):
        """Whether a change of u and s keeps what is to be left of the lines, and of the products."""
        du, ds = change
        assert line(one.f + df, u + du, s + ds) - line(one.f, u, s) == pytest.approx(-left, abs=1e-9)
        assert s * side * du + d * ds == pytest.approx(m)

    def reached(change, worst):
        ratios = np.concatenate([-side * change[0] / d, -change[1] / s])
        assert worst == pytest.approx(np.maximum(0.0, np.max(ratios, axis=(0, 1))))

    def each(method, df, *arguments):
        """What a method says of every sample by itself."""
        said = [method(slice(i, i + 1), df[i : i + 1], *arguments) for i in range(n)]
        return np.transpose([np.hstack(one if isinstance(one, tuple) else [one]) for one in said])

    D, pull = one.linear(ALL)
    df = rng.normal(size=n)
    worst, *along, by_tau, bend = each(one.first, df)
    affine = du, ds = one.du.copy(), one.ds.copy()
    solved(df, affine, -s * d, left)
    reached(affine, worst)
    for length in (0.3, 1.0):
        products = np.sum((d + length * side * du) * (s + length * ds))
        assert np.sum(along, axis=1) @ [1.0, length, length**2] == pytest.approx(products)
    df = rng.normal(size=n)
    worst, change = each(one.second, df, tau, trial)
    step = one.du.copy(), one.ds.copy()
    solved(df, step, tau - side * du * ds - s * d, left)
    reached(step, worst)
    assert (one.sign * step[0]).sum(axis=0) == pytest.approx(pull + tau * by_tau + bend - D * df)
    more = rng.normal(size=n)
    there = (d + trial * side * step[0]) * (s + trial * step[1])
    (worst,) = each(one.third, more)
    added = one.eu.copy(), one.es.copy()
    solved(more, added, np.clip(np.clip(there, tau / 10.0, 10.0 * tau) - there, -10.0 * tau, 10.0 * tau), 0.0)
    assert (one.sign * added[0]).sum(axis=0) == pytest.approx(change - D * more)
    both = [a + b for a, b in zip(step, added, strict=True)]
    reached(both, worst)
    f, length = one.f.copy(), 0.5 / max(worst.max(), 1.0)
    one.move(ALL, length, centred=True)
    assert one.f == pytest.approx(f + length * (df + more))
    for before, after, moved in zip((u, s), (one.u, one.s), both, strict=True):
        assert after == pytest.approx(before + length * moved)


def test_a_full_step_of_a_sample_without_ends_leaves_nothing_of_its_line(rng):
    y, costs, form = rng.normal(size=20), rng.uniform(0.5, 2.0, 20), losses.Squared().quadratic_dual(np.ones(20))
    one = samples_for(losses.Squared(), y, costs)
    one.f[:], one.beta[:] = rng.normal(size=(2, 20))
    lines = []
    for length in (0.0, 0.3, 1.0):
        one.df[:], one.more[:] = rng.normal(size=(2, 20))
        one.move(ALL, length, centred=True)
        lines.append(one.f + form.curvature * one.beta / costs - y)
    assert lines[1] == pytest.approx(0.7 * lines[0])
    assert lines[2] == pytest.approx(0.0, abs=1e-12)
    one.f[:] = rng.normal(size=20)
    one.begin(ALL, 1.0)
    assert one.f + form.curvature * one.beta / costs == pytest.approx(y)


def test_a_step_of_a_logistic_sample_leaves_what_is_of_third_order(rng):
    y, costs = np.where(rng.random(20) < 0.5, -1.0, 1.0), rng.uniform(0.5, 2.0, 20)
    f, off, way, more = rng.normal(size=(4, 20))
    left, off_by = [], []
    for size in (1e-2, 1e-3):
        one = samples_for(losses.Logistic(), y, costs)
        one.f[:] = f + size * off
        one.begin(ALL, 1.0)
        one.f[:], beta, df = f, one.beta.copy(), size * way + size**2 * more
        assert beta == pytest.approx(y * costs / (1.0 + np.exp(y * (f + size * off))))
        (D, pull), bend = one.linear(ALL), one.first(ALL, size * way)[3]
        one.second(ALL, size * way, 0.0, 1.0)
        one.third(ALL, size**2 * more)
        one.move(ALL, 1.0, centred=True)
        assert one.f == pytest.approx(f + df)
        left.append(np.abs(np.log((costs - one.a) / one.a) - y * one.f).max())
        off_by.append(np.abs(one.beta - beta - (pull + bend - D * df)).max())
    assert left[1] < 2e-3 * left[0] < 1e-6
    assert off_by[1] < 2e-3 * off_by[0] < 1e-6


# --- sums over the rows and machines of a shard ---------------------------------------------------------------------


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


def test_a_look_that_leaves_out_nobody_leaves_beta_where_steps_had_taken_it():
    """Half of the rows are near for some machine, fewer for each: put on the path, beta was far from L v + b."""
    shard, _, _, _, v, b = two_machines(np.asarray)
    shard.score(v, b)
    shard.begin(0.1, np.zeros(2))
    shard.assemble(0.0, False, np.ones(4), 10.0, np.inf, 2)
    shard.first(0.01 * v, np.zeros(2))
    shard.second(0.01 * v, np.zeros(2), 0.05, 1.0)
    shard.assemble(0.5, False, np.ones(4), 10.0, np.inf, 2)
    before = [samples.part(slice(None)) for samples, _ in shard.machines]
    _, _, told, _ = shard.look(0.0, False, 1.005 * v, b, 1e-3, 1.5, 2).sums
    assert told[:, 0].tolist() == [400.0, 134.0]
    for (samples, _), old in zip(shard.machines, before, strict=True):
        assert np.any(samples.clearance(slice(None)) > 1.5)
        assert all(np.array_equal(getattr(samples, name), getattr(old, name)) for name in ("beta", "u", "s"))


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
    shard, whole, y, some, v, b = two_machines(np.asarray)
    margins = 1.0 - y * (whole @ v[0] + b[0]), 1.0 + y[some] * (whole[some] @ v[1] + b[1])
    assert shard.score(v, b).sums[0] == pytest.approx(sum(np.maximum(0.0, margin).sum() for margin in margins))
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


class Term(str):
    """A sum that says in which order it was made."""

    def __add__(self, other):
        return Term(f"({self:s} + {other:s})")


def test_what_workers_hand_over_is_summed_in_pairs():
    for shards in range(1, 18):

        def handed_over(k, shards=shards):
            return reduce(add, map(handed_over, children(k, shards)), Term(k))

        assert handed_over(0) == sum_in_pairs(map(Term, range(shards)))
    for own, other in ((1.0, 2.0), (2.0, 1.0)):  # a step ends where the first of all samples has to
        assert (Total(worst=own) + Total(worst=other)).worst == 2.0


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_dual_terms_of_the_sums_are_those_of_the_balanced_beta(loss, rng):
    """Of the entropy only a share is known, which is a bound."""
    y, costs = np.where(rng.random(20) < 0.5, -1.0, 1.0), rng.uniform(0.5, 2.0, 20)
    y = np.ones(20) if loss.targets == "ones" else y
    one = samples_for(loss, y, costs)
    one.f[:] = 2.0 * rng.normal(size=20)
    one.begin(ALL, 0.3)
    for up, down in ((1.0, 1.0), (0.6, 1.0), (1.0, 0.6)):
        beta = np.where(one.beta > 0.0, up, down) * one.beta
        terms, found = loss.dual_terms(beta, y, costs).sum(), one.dual(one.sums(ALL), up, down)
        share = found / terms if isinstance(one, EntropySamples) and up != down else 1.0
        assert 0.6 <= share <= 1.0
        assert found == pytest.approx(share * terms, rel=1e-12)


@pytest.mark.parametrize("shape", [(0,), (0, 2)])
def test_sums_over_no_rows_are_0(shape):
    none = kernels.FactorStack([np.ones((7, 3))]).part([])
    np.testing.assert_array_equal(none.transposed(np.ones(shape)), np.zeros((3, *shape[1:])))
    assert none.product(np.ones((3, *shape[1:]))).shape == shape


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_of_a_shard_without_near_samples_none_come_back(loss):
    """It is not known how many ends they have: a ValueError where the others have one."""
    whole, none = samples_for(loss, np.ones(3), np.ones(3)), np.arange(0)
    whole.put(none, whole.part(none))
