"""The equations of a step on factors, each written from its definition: a wrong coefficient only costs steps."""

from __future__ import annotations

import numpy as np
import pytest
from makers import LOSSES

from mklref import ElasticNet, Groups, Lp, losses
from mklref.factored.boxes import BoxSamples
from mklref.factored.rounds import samples_for
from mklref.factored.system import Left, System
from mklref.factored.weights import psi_of

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
    room = one.w - one.u if one.bounded else np.ones_like(one.u)

    def line(f, u, s, t, legs=np.add.reduce):
        beta = one.base + legs(one.sign * u)
        return one.sign * (f + form.curvature * beta / costs - form.linear) + form.absolute - s + t

    assert one.u * one.s == pytest.approx(tau)
    assert not one.bounded or room * one.t == pytest.approx(tau)
    assert line(one.f, one.u, one.s, one.t, legs=np.asarray) == pytest.approx(0.0, abs=1e-9)  # each leg by itself
    one.u[:] = rng.uniform(0.05, 0.95, one.u.shape) * (one.w if one.bounded else one.u)
    one.s *= rng.uniform(0.5, 2.0, one.u.shape)
    one.t *= rng.uniform(0.5, 2.0, one.u.shape)
    one._follow(ALL)
    room = one.w - one.u if one.bounded else room
    here = one.u.copy(), one.s.copy(), one.t.copy()
    left, (u, s, t) = line(one.f, *here), here

    def solved(df, change, m, k, left):
        """Whether a change of u, s and t keeps what is to be left of the lines, and of the products."""
        du, ds, dt = change
        assert line(one.f + df, u + du, s + ds, t + dt) - line(one.f, u, s, t) == pytest.approx(-left, abs=1e-9)
        assert s * du + u * ds == pytest.approx(m)
        assert room * dt - t * du == pytest.approx(k if one.bounded else 0.0)

    def reached(change, worst):
        ratios = [-change[0] / u, -change[1] / s] + ([change[0] / room, -change[2] / t] if one.bounded else [])
        assert worst == pytest.approx(np.maximum(0.0, np.max(ratios, axis=(0, 1))))

    def each(method, df, *arguments):
        """What a method says of every sample by itself."""
        said = [method(slice(i, i + 1), df[i : i + 1], *arguments) for i in range(n)]
        return np.transpose([np.hstack(one if isinstance(one, tuple) else [one]) for one in said])

    def centring(m, k):
        return [np.clip(np.clip(p, tau / 10.0, 10.0 * tau) - p, -10.0 * tau, 10.0 * tau) for p in (m, k)]

    D, pull = one.linear(ALL)
    df = rng.normal(size=n)
    worst, *along, by_tau, bend = each(one.first, df)
    affine = du, ds, dt = one.du.copy(), one.ds.copy(), one.dt.copy()
    solved(df, affine, -s * u, -room * t, left)
    reached(affine, worst)
    for length in (0.3, 1.0):
        products = np.sum((u + length * du) * (s + length * ds)) + np.sum((room - length * du) * (t + length * dt))
        assert np.sum(along, axis=1) @ [1.0, length, length**2] == pytest.approx(products)
    df = rng.normal(size=n)
    worst, change = each(one.second, df, tau, trial)
    step = one.du.copy(), one.ds.copy(), one.dt.copy()
    solved(df, step, tau - du * ds - s * u, tau + du * dt - room * t, left)
    reached(step, worst)
    assert (one.sign * step[0]).sum(axis=0) == pytest.approx(pull + tau * by_tau + bend - D * df)
    more = rng.normal(size=n)
    m, k = centring((u + trial * step[0]) * (s + trial * step[1]), (room - trial * step[0]) * (t + trial * step[2]))
    (worst,) = each(one.third, more)
    added = one.eu.copy(), one.es.copy(), one.et.copy()
    solved(more, added, m, k, 0.0)
    assert (one.sign * added[0]).sum(axis=0) == pytest.approx(change - D * more)
    both = [a + b for a, b in zip(step, added, strict=True)]
    reached(both, worst)
    f, length = one.f.copy(), 0.5 / max(worst.max(), 1.0)
    one.move(ALL, length, centred=True)
    assert one.f == pytest.approx(f + length * (df + more))
    for before, after, moved in zip(here, (one.u, one.s, one.t), both, strict=True):
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
