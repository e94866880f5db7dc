"""The separate checker confirms true certificates and nothing else."""

from __future__ import annotations

import json
import math
from decimal import Context, Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from certificate.points import REGULARIZERS, changed, document
from makers import LOSSES, make_problem

from mklref import certify, verify
from mklref.certificate.bounds import unit_of
from mklref.losses import EpsilonInsensitive, Huber, Pinball, SquaredEpsilonInsensitive
from mklref.regularizers import Fixed, Groups, Lp, Tikhonov

WEIGHTS = 1.0 + np.arange(12) % 3


@pytest.mark.sampled(4)
@pytest.mark.parametrize("regularizer", REGULARIZERS, ids=str)
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_true_certificates_are_confirmed(loss, regularizer):
    problem = make_problem(loss=loss, regularizer=regularizer, n=12, seed=3, sample_weight=WEIGHTS)
    facts = document(problem, "exact" if regularizer == REGULARIZERS[0] else "fast")
    confirmed = verify.verify(facts, problem.kernels.dense(), problem.y)
    assert [line.split(":")[0] for line in confirmed] == [
        "problem",
        "dual point",
        "lower bound",
        "upper bound",
        "relative gap",
        "kernels",
    ]


@pytest.mark.parametrize(("p", "q"), [(0.0, 1.0), (1.0, 0.0), (0.0, 0.0), (0.5, 0.5 - 9e-10), (0.5, 0.5 + 9e-10)])
def test_parameters_at_the_ends_of_their_ranges_are_confirmed(p, q):
    regularizer = Groups([[0, 2], [1, 3]], p, q)
    problem = make_problem(loss=EpsilonInsensitive(0.0), regularizer=regularizer, n=8, seed=3)
    assert len(verify.verify(document(problem), problem.kernels.dense(), problem.y)) == 6


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_certificates_with_a_wide_delta_are_confirmed(loss):
    problem = make_problem(loss=loss, regularizer=Lp(1.5), n=12, seed=3)
    facts = document(problem, "exact", delta=[0.1, 1e-3, 0.2, 0.05])
    assert "up to delta <= 0.2" in verify.verify(facts, problem.kernels.dense(), problem.y)[-1]


def test_the_problem_that_the_bounds_belong_to_is_stated(case):
    problem, facts = case
    cost = float(problem.costs[0])
    assert verify.verify(facts, problem.kernels.dense(), problem.y)[:2] == [
        f"problem: loss hinge, regularizer Lp (p = 2.0), M = 4 kernels, n = 15 samples, C from {cost!r} to {cost!r}, "
        "an intercept",
        "dual point: inside its box, sum exactly 0",
    ]
    problem = make_problem(loss="huber", regularizer=REGULARIZERS[-1], n=10, seed=2, intercept=False)
    stated, dual, *_ = verify.verify(document(problem), problem.kernels.dense(), problem.y)
    assert "regularizer Groups (groups = [[0, 2], [1, 3]], p = 0.5, q = 0.5)" in stated
    assert "loss huber (delta = 1.0)" in stated
    assert dual == "dual point: inside its box"


def test_bounds_that_are_the_objectives_are_confirmed():
    """At beta = 0 both are known: nothing, and a hinge loss of 1 for each sample."""
    problem = make_problem(regularizer=Lp(2), n=8, C=1.0)
    facts = json.loads(json.dumps(certify(problem, np.zeros(8), intercept=0.0, rigorous=True).to_dict()))
    facts["claim"].update(lower=(0.0).hex(), upper=(8.0).hex())
    assert verify.verify(facts, problem.kernels.dense(), problem.y)
    facts["claim"]["lower"] = (5e-324).hex()
    with pytest.raises(verify.Refuted, match=r"lower = 5e-324"):
        verify.verify(facts, problem.kernels.dense(), problem.y)


SHARP = [*((loss, Tikhonov(1.5, 0.7)) for loss in LOSSES), *(("squared", own) for own in REGULARIZERS)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("side", ["lower", "upper"])
@pytest.mark.parametrize(("loss", "regularizer"), SHARP, ids=str)
def test_a_bound_that_is_too_sharp_by_1e_10_is_refuted(loss, regularizer, side):
    problem = make_problem(loss=loss, regularizer=regularizer, n=12, seed=4, sample_weight=WEIGHTS)
    facts = document(problem, "exact", delta=1e-6)
    sign = 1.0 if side == "lower" else -1.0
    value = float.fromhex(facts["claim"][side])
    facts["claim"][side] = (value + sign * 1e-10 * abs(value)).hex()
    with pytest.raises(verify.Refuted, match=f"{side} = "):
        verify.verify(facts, problem.kernels.dense(), problem.y)


KINKED = ("hinge", "logistic", "one_class", "density_level_set", "squared_hinge", "squared")
KINKED += (Huber(0.375), Pinball(0.25), EpsilonInsensitive(0.125), SquaredEpsilonInsensitive(0.125))


def stated(loss, n=5):
    """The checker's loss and the library's, on the same targets, with costs whose products are exact."""
    problem = make_problem(loss=loss, n=n, seed=6).replace(sample_weight=2.0 ** (np.arange(n) % 3))
    y, costs = problem.y, np.exp2(np.round(np.log2(problem.costs)))
    exact = [[Fraction(x) for x in values.tolist()] for values in (y, costs)]
    return verify._Loss(document(problem)["problem"]["loss"], *exact), problem.loss, y, costs


@pytest.mark.parametrize("loss", KINKED, ids=str)
def test_the_box_ends_where_that_of_the_library_does(loss):
    theirs, ours, y, costs = stated(loss)
    for ends, outside in zip(ours.box(y, costs), (-np.inf, np.inf), strict=True):
        finite = np.isfinite(ends)
        theirs.require_box([Fraction(x) for x in np.where(finite, ends, 1e300 * np.sign(outside)).tolist()])
        for i in np.flatnonzero(finite):
            beta = 0.5 * np.where(finite, ends, 0.0)
            beta[i] = np.nextafter(ends[i], outside)
            with pytest.raises(verify.Refuted, match=rf"dual_coef\[{i}\] = .* lies outside its box"):
                theirs.require_box([Fraction(x) for x in beta.tolist()])


@pytest.mark.parametrize("loss", KINKED, ids=str)
def test_losses_and_dual_terms_are_those_of_the_library(loss, rng):
    theirs, ours, y, costs = stated(loss)
    for scores in (y, -y, y + 0.2, y - 3.0, 3.0 * rng.normal(size=len(y))):
        found = [float(x) for x in theirs.values([Fraction(x) for x in scores.tolist()])]
        np.testing.assert_allclose(found, ours.value(scores, y), rtol=1e-12, atol=1e-15)
        beta = np.clip(0.3 * scores, *ours.box(y, costs))
        assert float(theirs.dual([Fraction(x) for x in beta.tolist()])) == pytest.approx(
            ours.dual_value(beta, y, costs), rel=1e-12, abs=1e-15
        )


@pytest.mark.sampled(4)
@pytest.mark.parametrize("reach", [0.0, 0.25, 3.0])
@pytest.mark.parametrize("loss", KINKED, ids=str)
def test_slopes_are_the_largest_within_reach_of_a_score(loss, reach, rng):
    """What an error of the scores may cost: too small would be no bound, much too large a needless gap."""
    theirs, ours, y, _ = stated(loss)
    for scores in (rng.normal(size=len(y)), y + 1e-9, y - 0.3, 2.0 * rng.normal(size=len(y))):
        found = [float(x) for x in theirs.slopes([Fraction(x) for x in scores.tolist()], Fraction(reach))]
        around = [np.abs(ours.subgradient(scores + step, y)) for step in np.linspace(-reach, reach, 201)]
        largest = np.max(around, axis=0)
        assert np.all(np.array(found) >= largest * (1 - 1e-12))
        if str(loss) not in ("logistic", str(Pinball(0.25))):  # simpler bounds, which hold everywhere
            np.testing.assert_allclose(found, largest, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("x", [-1500.0, -306.0, -70.0, -69.0, -1.0, 0.0, 2.0, 400.0])
def test_the_logistic_loss_is_sharp_from_above_however_small_it_is(x):
    with localcontext(Context(prec=900)):
        exact = Fraction((1 + Decimal(x).exp()).ln())
    with localcontext(verify._CONTEXT):
        found = verify._softplus(Fraction(x))
    assert exact <= found <= exact * (1 + Fraction(1, 10**29))


TINY = Fraction(1, 10**40)
LEAST = Fraction(Decimal(-2000).exp())
"""What smaller powers count as."""


@pytest.mark.parametrize("x", [Fraction(1, 10**300), Fraction(1, 3), Fraction(0), Fraction(1), Fraction(7), 2 - TINY])
def test_roots_powers_and_entropies_are_sharp_from_their_side(x):
    """From above; entropies -a log(a/c) - (c - a) log((c - a)/c), here of c = 2, from below."""
    near = Fraction(1, 10**28)
    with localcontext(Context(prec=400)):
        exact = {r: (Decimal(r) * verify._decimal(x).ln()).exp() for r in (0.125, 2.5, 4.0)} if x else {}
        parts = [verify._decimal(a) for a in (x, 2 - x) if 0 < x < 2]
        entropy = Fraction(sum((-a * (a / 2).ln() for a in parts), Decimal(0)))
    with localcontext(verify._CONTEXT):
        for r, power in exact.items():
            assert Fraction(power) <= verify._power(x, Fraction(r)) <= max(Fraction(power), LEAST) * (1 + near)
        assert x <= verify._root_up(x) ** 2 <= x * (1 + near)
        for a in [x, 2 - x] if x <= 2 else []:
            assert entropy * (1 - near) <= verify._entropy(a, Fraction(2)) <= entropy


def test_targets_of_another_kind_state_no_problem():
    for name, targets in (("hinge", [1, Fraction(1, 2)]), ("one_class", [1, -1])):
        with pytest.raises(verify.Unreadable, match=f"loss {name} needs targets"):
            verify._Loss({"name": name}, targets, [Fraction(1)] * 2)


@pytest.mark.parametrize("regularizer", [Lp(1), Lp(2), Tikhonov(2, 0.25), Fixed([4.0, 9.0, 1.0, 0.5])], ids=str)
def test_the_unit_of_a_one_class_machine_is_that_of_the_library(regularizer):
    problem = make_problem(loss="one_class", regularizer=regularizer, n=8, seed=1)
    problem = problem.replace(kernels=1e-3 * problem.kernels.dense())
    theirs = verify._Loss({"name": "one_class"}, [Fraction(1)] * 8, [Fraction(x) for x in problem.costs.tolist()])

    def conjugate(squares):
        return Fraction(regularizer.conjugate(np.sqrt([float(q) for q in squares])))

    found = theirs.unit(conjugate, problem.kernels.dense(), True)
    assert float(found) == pytest.approx(unit_of(problem), rel=1e-12, abs=0.0)


def bigger(text):
    return (1.5 * float.fromhex(text)).hex()


RADII = [x.hex() for x in (1e-9, 0.0, -1e-9, 0.0)]
LIES = {
    "weights": (("point", "weights", 0), bigger, "upper = "),
    "dual variable": (("point", "dual_coef", 3), lambda text: (float.fromhex(text) + 2.0**-52).hex(), "sum to"),
    "box": (("problem", "costs", 0), lambda _: (1e-3).hex(), r"dual_coef\[0\] = .* lies outside its box"),
    "costs": (("problem", "costs"), lambda texts: [bigger(text) for text in texts], "upper = "),
    "intercept": (("point", "intercept"), lambda text: (float.fromhex(text) + 0.1).hex(), "upper = "),
    "no intercept": (("problem", "intercept"), False, "the point has one"),
    "exponent": (("problem", "regularizer", "p"), (1.0).hex(), "upper = "),
    "loss": (("problem", "loss", "name"), "squared_hinge", "upper = |lower = "),
    "delta": (("claim", "delta"), lambda texts: [(1e-9).hex()] * len(texts), "tier 1 does not go with"),
    "tier": (("claim", "tier"), 2, "tier 2 does not go with"),
    "negative weight": (("point", "weights", 0), (-1.0).hex(), "a weight or a radius is negative"),
    "negative radius": (("claim",), lambda own: {**own, "tier": 2, "delta": RADII}, "a weight or a radius is negative"),
    "not a number": (("claim", "lower"), "nan", "are no bounds"),
    "infinite lower bound": (("claim", "lower"), "inf", "are no bounds"),
    "infinite upper bound": (("claim", "upper"), "-inf", "are no bounds"),
}


def test_a_positive_weight_where_the_fixed_one_is_0_is_refuted():
    problem = make_problem(regularizer=Fixed([1.0, 0.5, 0.3, 0.0]), n=8)
    facts = changed(document(problem), "point", "weights", 3, to=(1e-9).hex())
    with pytest.raises(verify.Refuted, match="a kernel of fixed weight 0 has a positive weight"):
        verify.verify(facts, problem.kernels.dense(), problem.y)


@pytest.mark.parametrize("lie", LIES)
def test_lies_are_refuted(case, lie):
    problem, facts = case
    path, to, message = LIES[lie]
    with pytest.raises(verify.Refuted, match=message):
        verify.verify(changed(facts, *path, to=to), problem.kernels.dense(), problem.y)


def test_singular_kernels_are_not_proven_without_delta():
    problem = make_problem(degenerate="low_rank", n=12, regularizer=Lp(2))
    facts = document(problem)
    assert facts["claim"]["tier"] == 2
    assert verify.verify(facts, problem.kernels.dense(), problem.y)
    facts["claim"].update(tier=1, delta=[(0.0).hex()] * 4)
    with pytest.raises(verify.Refuted, match=r"kernels\[0\] \+ 0 I is not proven positive semidefinite here"):
        verify.verify(facts, problem.kernels.dense(), problem.y)


def test_other_kernels_are_refuted(case):
    problem, facts = case
    K = problem.kernels.dense().copy()
    K[1] *= 1.001
    with pytest.raises(verify.Refuted, match="lower = "):
        verify.verify(facts, K, problem.y)


def test_indefinite_kernels_are_refuted(case):
    """One that is indefinite where beta does not look: the bounds hold, the definiteness does not."""
    problem, facts = case
    K = problem.kernels.dense().copy()
    beta = np.array([float.fromhex(text) for text in facts["point"]["dual_coef"]])
    assert np.sum(beta == 0.0) >= 1
    i = int(np.flatnonzero(beta == 0.0)[0])
    K[1][i, i] = 0.0
    facts = changed(facts, "claim", "upper", to=lambda text: (float.fromhex(text) + 1e6).hex())
    with pytest.raises(verify.Refuted, match=r"kernels\[1\] \+ .* is not proven positive semidefinite here"):
        verify.verify(facts, K, problem.y)


@pytest.mark.parametrize("n", [2, 3, 10, 60])
def test_what_is_proven_semidefinite_there_is(n, rng):
    """What the certificate proves is confirmed, what has a negative eigenvalue is not."""
    from mklref.certificate.definite import proven_semidefinite, reduction

    for rank in (1, n - 1, n):
        X = rng.normal(size=(n, rank)) * 10.0 ** rng.uniform(-3, 0, size=(n, 1))
        K = X @ X.T
        K = np.tril(K) + np.tril(K, -1).T
        shift = 2.0 * reduction(K, 0.0)
        assert proven_semidefinite(K, shift)
        assert verify.semidefinite(K, shift)
        if proven_semidefinite(K):
            assert verify.semidefinite(K, 0.0)
        below = K - (np.linalg.eigvalsh(K)[0] + 2.0 * shift) * np.eye(n)
        assert not verify.semidefinite(below, 0.0)
    assert not verify.semidefinite(np.array([[1.0, 0.5], [np.nextafter(0.5, 1.0), 1.0]]), 0.0)
    assert verify.semidefinite(np.zeros((n, n)), 0.0)


@pytest.mark.parametrize("change", ["asymmetric", "nan", "complex"])
def test_matrices_that_are_no_kernels_are_never_confirmed(case, change):
    problem, facts = case
    K = problem.kernels.dense().copy()
    K[0, 1, 2] += np.nan if change == "nan" else 1e-9
    if change == "complex":
        K = K.astype(complex)
    with pytest.raises((verify.Refuted, verify.Unreadable, TypeError)):
        verify.verify(changed(facts, "claim", "upper", to=(1e9).hex()), K, problem.y)


@pytest.mark.parametrize("wrong", [1.0 + 1e-9, 1.0 - 1e-9])
def test_the_proof_of_definiteness_does_not_believe_the_factor(wrong, rng, monkeypatch):
    genuine = np.linalg.cholesky
    factor = rng.normal(size=(30, 40))
    K = np.rint(1024 * factor) @ np.rint(1024 * factor).T
    assert verify.semidefinite(K, 0.0)
    monkeypatch.setattr(np.linalg, "cholesky", lambda A: wrong * genuine(A))
    assert not verify.semidefinite(K, 0.0)


@pytest.mark.parametrize(("n", "near"), [(4, 0.1), (300, 5e-3)])
def test_the_proof_of_definiteness_allows_a_residual_less_what_rounding_adds(n, near, monkeypatch):
    """Of I/2 + I/2, where ||R||_F is sqrt(n) times one entry: rounding in products by pieces, and in the diagonal."""
    terms = min(n, 128) + n // 128 + 1
    c = 0.95 * (terms + 3) * 2.0**-52 * n
    room = c / 1.001 - (terms + 1) * 2.0**-53 * n - 2.0**-52 * np.sqrt(n)
    for share, proven in ((1.0 - near, True), (1.0 + near, False)):
        for sign in (-1.0, 1.0):
            root = np.sqrt(1.0 - c + sign * share * room / np.sqrt(n))
            monkeypatch.setattr(np.linalg, "cholesky", lambda A, root=root: root * np.eye(n))
            assert verify.semidefinite(0.5 * np.eye(n), 0.5) is proven


@pytest.mark.parametrize("lower", [-1e300, -1.0, -math.inf])
@pytest.mark.parametrize("upper", [0.0, 1e-300])
def test_numbers_beyond_double_precision_are_told_and_end_no_check(lower, upper):
    """A primal objective beyond 1e308 is above any claim; a gap of 1e600 times the objective, or of 0, is a gap."""
    problem = make_problem(regularizer=Lp(2), n=8, loss="squared", intercept=False).replace(y=np.zeros(8))
    certificate = certify(problem, np.zeros(8), weights=np.ones(4), rigorous=True)
    facts = json.loads(json.dumps(certificate.to_dict()))
    facts["claim"].update(lower=lower.hex(), upper=upper.hex())
    confirmed = verify.verify(facts, problem.kernels.dense(), problem.y)
    gap = "1.0e+300" if (lower, upper) == (-1.0, 1e-300) else "inf"
    told = [line for line in confirmed if line.startswith("relative gap: ")]
    assert told == ([f"relative gap: {gap}"] if lower > -math.inf else [])
    facts["point"]["dual_coef"] = [(1e200).hex()] * 8
    with pytest.raises(verify.Refuted, match=r"below the primal objective inf|exceeds the dual objective -inf"):
        verify.verify(facts, problem.kernels.dense(), problem.y)
