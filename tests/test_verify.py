"""The separate checker: it confirms true certificates and nothing else, and reads hostile files safely."""

from __future__ import annotations

import copy
import io
import json
import re
import subprocess
import sys
import zipfile
import zlib
from decimal import Context, Decimal, DivisionByZero, localcontext
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from makers import LOSSES, make_problem

import mklref
from mklref import certify, solve, verify
from mklref.certificate.unit import unit_of
from mklref.losses import EpsilonInsensitive, Huber, Pinball, SquaredEpsilonInsensitive
from mklref.regularizers import Fixed, Groups, Lp, Tikhonov

REGULARIZERS = (
    Lp(1),
    Lp(1 + 1e-9),
    Lp(np.inf),
    Fixed([1.0, 0.5, 0.3, 0.0]),
    Tikhonov(1.5, 0.7),
    Groups([[0, 2], [1, 3]], 0.3, 0.4),
    Groups([[0, 2], [1, 3]], 0.5, 0.5),
)


def document(problem, backend=None, **arguments):
    solution = solve(problem, tol=1e-4)
    certificate = certify(
        problem,
        solution.dual_coef,
        weights=solution.weights,
        intercept=solution.intercept,
        rigorous=True,
        backend=backend,
        **arguments,
    )
    return json.loads(json.dumps(certificate.to_dict()))


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


@pytest.mark.sampled(2)
@pytest.mark.parametrize("regularizer", REGULARIZERS, ids=str)
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_true_certificates_are_confirmed(loss, regularizer):
    problem = make_problem(loss=loss, regularizer=regularizer, n=12, seed=3)
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


@pytest.mark.parametrize("side", ["lower", "upper"])
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_a_bound_that_is_too_sharp_by_1e_10_is_refuted(loss, side):
    problem = make_problem(loss=loss, regularizer=Tikhonov(1.5, 0.7), n=12, seed=4)
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


@pytest.mark.parametrize("regularizer", [Lp(1), Lp(2), Tikhonov(2, 0.25), Fixed([4.0, 9.0, 1.0, 0.5])], ids=str)
def test_the_unit_of_a_one_class_machine_is_that_of_the_library(regularizer):
    problem = make_problem(loss="one_class", regularizer=regularizer, n=8, seed=1)
    problem = problem.replace(kernels=1e-3 * problem.kernels.dense())
    theirs = verify._Loss({"name": "one_class"}, [Fraction(1)] * 8, [Fraction(x) for x in problem.costs.tolist()])

    def conjugate(squares):
        return Fraction(regularizer.conjugate(np.sqrt([float(q) for q in squares])))

    found = theirs.unit(conjugate, problem.kernels.dense(), True)
    assert float(found) == pytest.approx(unit_of(problem), rel=1e-12)


def changed(facts, *path, to):
    facts = copy.deepcopy(facts)
    place = facts
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = to(place[path[-1]]) if callable(to) else to
    return facts


def bigger(text):
    return (1.5 * float.fromhex(text)).hex()


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
    "not a number": (("claim", "lower"), "nan", "are no bounds"),
    "infinite lower bound": (("claim", "lower"), "inf", "are no bounds"),
    "infinite upper bound": (("claim", "upper"), "-inf", "are no bounds"),
}


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
    assert not verify.semidefinite(np.array([[1.0, 0.5], [0.4, 1.0]]), 0.0)
    assert verify.semidefinite(np.zeros((n, n)), 0.0)


# --- as a program ----------------------------------------------------------------------------------------------------


def test_the_program_confirms(files, capsys):
    certificate, data = files
    assert verify.main([str(certificate), str(data)]) == 0
    assert verify.main([str(certificate)]) == 0
    output = capsys.readouterr().out
    assert output.splitlines()[0] == "data: SHA-256 of kernels and targets as certified"
    assert output.endswith("CONFIRMED\n")


def test_save_writes_both_files(case, tmp_path):
    problem, _ = case
    certificate = certify(problem, 0.1 * problem.y, rigorous=True)
    certificate.save(tmp_path / "a.json", data=tmp_path / "a.npz")
    assert verify.main([str(tmp_path / "a.json")]) == 0
    facts = json.loads((tmp_path / "a.json").read_text())
    assert facts["format"] == verify.FORMATS[0]
    assert facts["mklref"] == mklref.__version__
    assert float.fromhex(facts["claim"]["lower"]) == certificate.lower


def test_the_program_runs_by_itself(files, tmp_path):
    """In a fresh interpreter that loads this one file, without the package."""
    script = tmp_path / "verify.py"
    script.write_text(Path(verify.__file__).read_text(encoding="utf-8"))
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script), *map(str, files)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("CONFIRMED\n")


def test_other_data_are_not_confirmed(case, files, capsys):
    problem, _ = case
    certificate, data = files
    y = problem.y.copy()
    y[0] *= -1.0
    np.savez(data, kernels=problem.kernels.dense(), y=y)
    assert verify.main([str(certificate), str(data)]) == 1
    assert "NOT CONFIRMED: y in" in capsys.readouterr().out


def test_the_program_says_what_it_could_not_confirm(case, files, capsys):
    certificate, _ = files
    certificate.write_text(json.dumps(changed(case[1], "claim", "upper", to=(0.0).hex())))
    assert verify.main([str(certificate)]) == 1
    assert "NOT CONFIRMED: upper = 0.0 is below the primal objective" in capsys.readouterr().out


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"format": "mklref-rigorous-1"}', '{"format": "other"}', "[" * 100000, '{"format": 1e999}'],
    ids=lambda text: text[:20],
)
def test_damaged_certificates_cannot_be_read(files, text, capsys):
    certificate, _ = files
    certificate.write_text(text)
    assert verify.main([str(certificate)]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_wrong_shapes_and_values_cannot_be_read(case, files, capsys):
    certificate, _ = files
    for path, to in (
        (("point", "dual_coef"), lambda texts: texts[:-1]),
        (("point", "weights", 0), "inf"),
        (("point", "weights", 0), "zero"),
        (("problem", "loss", "name"), "absolute"),
        (("problem", "regularizer", "name"), "Power"),
        (("data", "y", "shape"), [10**12]),
    ):
        certificate.write_text(json.dumps(changed(case[1], *path, to=to)))
        assert verify.main([str(certificate)]) == 2, path
    assert capsys.readouterr().err.count("cannot be read") == 6


def test_missing_damaged_and_pickled_data_cannot_be_read(case, files, capsys):
    problem, _ = case
    certificate, data = files
    whole = data.read_bytes()
    data.write_bytes(whole[:1000])
    assert verify.main([str(certificate)]) == 2
    np.savez(data, kernels=problem.kernels.dense())
    assert verify.main([str(certificate)]) == 2
    np.savez(data, kernels=problem.kernels.dense(), y=np.array([{}], dtype=object), allow_pickle=True)
    assert verify.main([str(certificate)]) == 2
    np.savez(data, kernels=np.zeros((4, 100, 100)), y=problem.y)
    assert verify.main([str(certificate)]) == 2
    data.unlink()
    assert verify.main([str(certificate)]) == 2
    assert verify.main([]) == 2
    assert capsys.readouterr().err.count("cannot be read") == 5


NO_PROBLEM = {
    "p below 1": (Lp(2), {"p": (0.5).hex()}, r"p = 0\.5 of regularizer Lp does not lie in \[1, inf\]"),
    "p zero": (Lp(2), {"p": (0.0).hex()}, "p = 0.0 of regularizer"),
    "p nan": (Lp(2), {"p": "nan"}, "p = nan of regularizer"),
    "p a number": (Lp(2), {"p": 2.0}, "no float in hexadecimal"),
    "p missing": (Lp(2), {"p": None}, "is stated by"),
    "superfluous": (Lp(2), {"q": (1.0).hex()}, "is stated by"),
    "negative fixed weight": (Fixed([1.0] * 4), {"weights": [(-1.0).hex(), *[(1.0).hex()] * 3]}, "none of them neg"),
    "no fixed weight": (Fixed([1.0] * 4), {"weights": [(0.0).hex()] * 4}, "not all of them 0"),
    "mu zero": (Tikhonov(2, 0.3), {"mu": (0.0).hex()}, r"mu = 0\.0 of regularizer Tikhonov does not lie in \(0, inf\)"),
    "mu negative": (Tikhonov(2, 0.3), {"mu": (-1.0).hex()}, "mu = -1.0"),
    "mu infinite": (Tikhonov(2, 0.3), {"mu": "inf"}, "mu = inf"),
    "p of Tikhonov": (Tikhonov(2, 0.3), {"p": (0.9).hex()}, "p = 0.9"),
    "empty group": (REGULARIZERS[-2], {"groups": [[0, 2], [1, 3], []]}, "no partition"),
    "overlapping groups": (REGULARIZERS[-2], {"groups": [[0, 2], [2, 3]]}, "no partition"),
    "group of no integers": (REGULARIZERS[-2], {"groups": [[False, 2], [True, 3]]}, "no list of integers"),
    "negative exponent": (REGULARIZERS[-2], {"q": (-0.1).hex()}, "q = -0.1"),
    "exponents beyond 1": (REGULARIZERS[-2], {"q": (0.9).hex()}, "p \\+ q = 1.2 of the groups exceeds 1"),
}


@pytest.mark.parametrize("lie", NO_PROBLEM)
def test_regularizers_out_of_range_state_no_problem(lie, tmp_path, capsys):
    regularizer, changes, message = NO_PROBLEM[lie]
    problem = make_problem(regularizer=regularizer, n=8, seed=1)
    certify(problem, 0.01 * problem.y, rigorous=True).save(tmp_path / "c.json", data=tmp_path / "c.npz")
    facts = json.loads((tmp_path / "c.json").read_text())
    stated = facts["problem"]["regularizer"] | changes
    facts["problem"]["regularizer"] = {name: value for name, value in stated.items() if value is not None}
    assert verify.main([str(tmp_path / "c.json")]) == 0
    (tmp_path / "c.json").write_text(json.dumps(facts))
    assert verify.main([str(tmp_path / "c.json")]) == 2
    assert re.search(f"cannot be read: .*{message}", capsys.readouterr().err)


STATEMENTS = {
    "epsilon": ("epsilon_insensitive", ("problem", "loss", "epsilon"), (-0.1).hex(), "epsilon = -0.1"),
    "delta": ("huber", ("problem", "loss", "delta"), (0.0).hex(), "delta = 0.0"),
    "tau": ("pinball", ("problem", "loss", "tau"), (1.0).hex(), "tau = 1.0"),
    "parameter of another loss": ("hinge", ("problem", "loss", "tau"), (0.5).hex(), "is stated by"),
    "targets": ("squared", ("problem", "loss"), {"name": "hinge"}, "needs targets -1 and 1"),
    "targets of one class": ("hinge", ("problem", "loss"), {"name": "one_class"}, "loss one_class needs targets 1"),
    "cost": ("hinge", ("problem", "costs", 0), (0.0).hex(), "a cost is not positive"),
    "infinite cost": ("hinge", ("problem", "costs", 0), "inf", "not finite"),
    "intercept": ("hinge", ("problem", "intercept"), "no", "'no' is not of the type bool"),
    "no intercept": ("one_class", ("problem", "intercept"), False, "only defined with an intercept"),
    "an intercept": ("density_level_set", ("problem", "intercept"), True, "not defined with an intercept"),
    "backend": ("hinge", ("backend",), "exakt", "unknown backend 'exakt'"),
    "complex": ("hinge", ("data", "kernels", "dtype"), "complex128", "which no kernels have"),
    "axes": ("hinge", ("data", "kernels", "shape"), [4, 64], "which no kernels have"),
    "no kernels": ("hinge", ("data", "kernels", "shape"), [0, 8, 8], "which no kernels have"),
}


@pytest.mark.parametrize("lie", STATEMENTS)
def test_other_statements_out_of_range_state_no_problem(lie, tmp_path, capsys):
    loss, path, to, message = STATEMENTS[lie]
    problem = make_problem(loss=loss, regularizer=Lp(2), n=8, seed=1)
    certify(problem, 0.01 * problem.y, rigorous=True).save(tmp_path / "c.json", data=tmp_path / "c.npz")
    assert verify.main([str(tmp_path / "c.json")]) == 0
    facts = json.loads((tmp_path / "c.json").read_text())
    place = facts
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = to
    (tmp_path / "c.json").write_text(json.dumps(facts))
    assert verify.main([str(tmp_path / "c.json")]) == 2
    assert re.search(f"cannot be read: .*{message}", capsys.readouterr().err)


MALFORMED = {
    "decimal": (("claim", "upper"), "2.9", "'2.9' is no float in hexadecimal"),
    "no point": (("claim", "upper"), "0x3p+0", "no float in hexadecimal as float.hex writes it"),
    "another spelling": (("claim", "upper"), "0X1.8000000000000P+1", "no float in hexadecimal"),
    "blanks": (("claim", "upper"), " 0x1.8000000000000p+1", "no float in hexadecimal"),
    "long name of infinity": (("claim", "upper"), "infinity", "no float in hexadecimal"),
    "a number": (("claim", "upper"), 3.0, "no float in hexadecimal"),
    "overflow": (("claim", "upper"), "0x1p+5000", "no float in hexadecimal"),
    "vectors as objects": (("point", "weights"), dict.fromkeys("0123", (1.0).hex()), "is no list"),
    "vectors as texts": (("point", "weights"), "0x1p+0", "is no list"),
    "fixed weights as an object": (("problem", "regularizer"), {"name": "Fixed", "weights": {}}, "is no list"),
    "groups as an object": (
        ("problem", "regularizer"),
        {"name": "Groups", "p": (0.5).hex(), "q": (0.5).hex(), "groups": {"a": [0, 1, 2, 3]}},
        "is no list of groups",
    ),
    "tier a truth": (("claim", "tier"), True, "tier = 'True' is not of the type int"),
    "tier a float": (("claim", "tier"), 1.0, "tier = '1.0' is not of the type int"),
    "true in a shape": (("data", "y", "shape"), [True], "is not of the type int"),
    "a shape of floats": (("data", "y", "shape"), [15.0], "is not of the type int"),
    "no name of a loss": (("problem", "loss"), {}, "unknown loss None"),
    "a list as a name": (("problem", "loss"), {"name": []}, "unknown loss"),
    "a list as a loss": (("problem", "loss"), [], "is not of the type dict"),
    "a claim of optimality": (("optimal",), True, "needed are the fields"),
    "more in the claim": (("claim", "optimal"), True, "needed are the fields"),
    "more in the problem": (("problem", "C"), (1.0).hex(), "needed are the fields"),
    "more in the point": (("point", "status"), "OPTIMAL", "needed are the fields"),
    "more in the data": (("data", "x"), {}, "needed are the fields"),
    "more about the data": (("data", "y", "file"), "y.npy", "needed are the fields"),
}


@pytest.mark.parametrize("lie", MALFORMED)
def test_what_is_not_the_schema_is_refused(case, files, lie, capsys):
    path, to, message = MALFORMED[lie]
    facts = copy.deepcopy(case[1])
    place = facts
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = to
    files[0].write_text(json.dumps(facts))
    assert verify.main([str(files[0])]) == 2
    assert message in capsys.readouterr().err
    with pytest.raises(verify.Unreadable, match=re.escape(message)):
        verify.verify(facts, case[0].kernels.dense(), case[0].y)


@pytest.mark.parametrize("part", ["format", "claim", "upper", "dtype", "weights", "name"])
def test_fields_that_are_given_twice_are_refused(case, files, part, capsys):
    """Readers differ in which of them they take: the one that is shown must not be another than the one checked."""
    text = json.dumps(case[1])
    files[0].write_text(text.replace(f'"{part}": ', f'"{part}": "0x1.0000000000000p-50", "{part}": ', 1))
    assert verify.main([str(files[0])]) == 2
    assert "a field is given twice" in capsys.readouterr().err


@pytest.mark.parametrize("constant", ["NaN", "-Infinity"])
def test_constants_that_json_does_not_have_are_refused(case, files, constant, capsys):
    files[0].write_text(json.dumps(case[1]).replace('"tier": 1', f'"tier": {constant}'))
    assert verify.main([str(files[0])]) == 2
    assert f"{constant} is no number of JSON" in capsys.readouterr().err


def member(array) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, np.asarray(array))
    return file.getvalue()


def forged(case, data, *names):
    """An archive with members of these names: the certified arrays, and for a capital letter others in their place."""
    problem, _ = case
    K, y = problem.kernels.dense(), problem.y
    with zipfile.ZipFile(data, "w") as archive:
        for name in names:
            archive.writestr(name.lower(), member({"k": K, "K": 1e-9 * K, "y": y, "Y": -y}[name.lstrip("./")[0]]))


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    "names",
    [
        ("kernels.npy", "Kernels", "y.npy"),
        ("Kernels", "kernels.npy", "y.npy"),
        ("kernels.npy", "Kernels.npy", "y.npy"),
        ("Kernels.npy", "kernels.npy", "y.npy"),
        ("kernels.npy", "y.npy", "Y"),
        ("kernels.npy", "Y.npy", "y.npy"),
        ("kernels", "y.npy"),
        ("kernels.npy", "y.npy", "./Kernels.npy"),
        ("kernels.npy", "y.npy", "/Y.npy"),
    ],
)
def test_data_are_what_was_hashed(case, files, names, capsys):
    """np.load takes a member `kernels` before `kernels.npy`, and of two `kernels.npy` the last one."""
    forged(case, files[1], "kernels.npy", "y.npy")
    assert verify.main([*map(str, files)]) == 0
    forged(case, files[1], *names)
    assert verify.main([*map(str, files)]) == 2
    assert re.search("holds (2|no) arrays? '(kernels|y)'", capsys.readouterr().err)


@pytest.mark.parametrize("kind", [">f8", "<f4", "<i8"])
def test_arrays_of_another_type_are_not_the_certified_ones(case, files, kind, capsys):
    problem, _ = case
    np.savez(files[1], kernels=problem.kernels.dense(), y=problem.y.astype(kind))
    assert verify.main([*map(str, files)]) == 2
    assert re.search("too short or too long|has shape", capsys.readouterr().err)


def test_the_order_of_the_axes_in_the_file_does_not_matter(case, files):
    problem, _ = case
    np.savez(files[1], kernels=np.asfortranarray(problem.kernels.dense()), y=problem.y, x=np.ones(3))
    assert verify.main([*map(str, files)]) == 0


def test_bytes_after_an_array_are_not_its_own(case, files, capsys):
    problem, _ = case
    with zipfile.ZipFile(files[1], "w") as archive:
        archive.writestr("kernels.npy", member(problem.kernels.dense()) + bytes(8))
        archive.writestr("y.npy", member(problem.y))
    assert verify.main([*map(str, files)]) == 2
    assert "too short or too long" in capsys.readouterr().err


def test_data_beyond_the_limit_are_not_read(files, monkeypatch, capsys):
    monkeypatch.setenv("MKLREF_MAX_BYTES", "9000")
    assert verify.main([*map(str, files)]) == 0
    monkeypatch.setenv("MKLREF_MAX_BYTES", "7000")
    assert verify.main([*map(str, files)]) == 2
    monkeypatch.setenv("MKLREF_MAX_BYTES", "1e9")
    assert verify.main([*map(str, files)]) == 2
    said = capsys.readouterr().err
    assert "kernels in" in said
    assert "has 7200 bytes; at most 7000 are read (MKLREF_MAX_BYTES" in said
    assert "MKLREF_MAX_BYTES = '1e9' is no number of bytes" in said


def test_data_for_which_there_is_no_memory_are_not_read(files, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(verify, "_MEMORY", tmp_path / "meminfo")
    for free, code in ((7, 2), (8, 0)):  # kernels of 7200 bytes
        (tmp_path / "meminfo").write_text(f"MemTotal: 9999 kB\nMemAvailable:      {free} kB\n")
        assert verify.main([*map(str, files)]) == code
    assert "has 7200 bytes, and 7168 bytes of memory are free" in capsys.readouterr().err


@pytest.mark.parametrize("change", ["asymmetric", "nan", "complex"])
def test_matrices_that_are_no_kernels_are_never_confirmed(case, change):
    problem, facts = case
    K = problem.kernels.dense().copy()
    K[0, 1, 2] += np.nan if change == "nan" else 1e-9
    if change == "complex":
        K = K.astype(complex)
    with pytest.raises((verify.Refuted, verify.Unreadable, TypeError)):
        verify.verify(changed(facts, "claim", "upper", to=(1e9).hex()), K, problem.y)


@pytest.mark.parametrize("certified", [[4, 15, 15], [10**6, 10**3, 10**3]])
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_header_that_claims_terabytes_is_refused_before_memory_is_taken(case, files, certified, method, capsys):
    certificate, data = files
    with zipfile.ZipFile(data, "w", method) as archive:
        for name, shape in (("kernels", (10**6, 10**3, 10**3)), ("y", (15,))):
            file = io.BytesIO()
            np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": shape})
            archive.writestr(f"{name}.npy", file.getvalue() + bytes(4 * 15 * 15 * 8))
    certificate.write_text(json.dumps(changed(case[1], "data", "kernels", "shape", to=certified)))
    assert verify.main([str(certificate)]) == 2
    assert re.search("has shape|too short", capsys.readouterr().err)


@pytest.mark.parametrize("error", [MemoryError, ZeroDivisionError, DivisionByZero, zlib.error, IndexError])
def test_errors_of_hostile_numbers_are_no_tracebacks(files, monkeypatch, error, capsys):
    def failing(K, shift):
        raise error

    monkeypatch.setattr(verify, "semidefinite", failing)
    assert verify.main([str(files[0])]) == 2
    assert f"cannot be read: {error.__name__}" in capsys.readouterr().err


def test_one_bound_alone_is_confirmed_without_a_gap(case, files, capsys):
    """An infinite bound claims nothing."""
    for side, infinite in (("lower", "-inf"), ("upper", "inf")):
        facts = copy.deepcopy(case[1])
        facts["claim"][side] = infinite
        files[0].write_text(json.dumps(facts))
        assert verify.main([*map(str, files)]) == 0
        printed = capsys.readouterr().out
        assert "CONFIRMED" in printed
        assert "relative gap" not in printed


@pytest.mark.parametrize("wrong", [1.0 + 1e-9, 1.0 - 1e-9])
def test_the_proof_of_definiteness_does_not_believe_the_factor(wrong, rng, monkeypatch):
    genuine = np.linalg.cholesky
    factor = rng.normal(size=(30, 40))
    K = np.rint(1024 * factor) @ np.rint(1024 * factor).T
    assert verify.semidefinite(K, 0.0)
    monkeypatch.setattr(np.linalg, "cholesky", lambda A: wrong * genuine(A))
    assert not verify.semidefinite(K, 0.0)


def test_the_proof_of_definiteness_counts_the_rounding_of_its_products(monkeypatch):
    """A residual of three quarters of what was subtracted leaves too little room for it."""
    genuine = np.linalg.cholesky
    for wrong, proven in ((2e-15, True), (1.5e-14, False)):
        monkeypatch.setattr(np.linalg, "cholesky", lambda A, wrong=wrong: (1.0 + wrong) * genuine(A))
        assert verify.semidefinite(np.eye(30), 0.0) is proven


def test_arrays_with_a_header_of_version_2_are_read(case, files):
    problem, _ = case
    with zipfile.ZipFile(files[1], "w") as archive:
        for name, array in (("kernels.npy", problem.kernels.dense()), ("y.npy", problem.y)):
            file = io.BytesIO()
            np.lib.format.write_array(file, array, version=(2, 0))
            archive.writestr(name, file.getvalue())
    assert verify.main([*map(str, files)]) == 0


def test_a_certificate_beyond_the_limit_is_refused(files, monkeypatch, capsys):
    size = files[0].stat().st_size
    monkeypatch.setenv("MKLREF_MAX_BYTES", str(size - 1))
    assert verify.main([str(files[0])]) == 2
    assert f"c.json has {size} bytes; at most {size - 1} are read" in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_says_what_is_checked_and_what_the_exit_codes_mean(flag, capsys):
    assert verify.main([flag]) == 0
    out = capsys.readouterr().out
    assert out.startswith("usage: python -m mklref.verify CERTIFICATE.json [DATA.npz]")
    assert "Exit codes: 0 confirmed" in out
