"""The separate checker reads what states a problem, field by field, and nothing else."""

from __future__ import annotations

import json
import re
from functools import cache

import pytest
from certificate.points import REGULARIZERS, changed
from makers import make_problem

from mklref import certify, verify
from mklref.regularizers import Fixed, Lp, Tikhonov


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
    for path, to, message in (
        (("point", "dual_coef"), lambda texts: texts[:-1], "lengths of the vectors"),
        (("point", "weights"), lambda texts: texts[:-1], "lengths of the vectors"),
        (("problem", "costs"), lambda texts: texts[:-1], "lengths of the vectors"),
        (("claim", "delta"), lambda texts: texts[:-1], "lengths of the vectors"),
        (("point", "weights", 0), "inf", "is not finite"),
        (("point", "weights", 0), "zero", "no float in hexadecimal"),
        (("problem", "loss", "name"), "absolute", "unknown loss"),
        (("problem", "regularizer", "name"), "Power", "unknown regularizer"),
        (("data", "y", "shape"), [10**12], "too short or too long"),
        (("format",), "mklref-rigorous-3", "is not a certificate of the format"),
    ):
        certificate.write_text(json.dumps(changed(case[1], *path, to=to)))
        assert verify.main([str(certificate)]) == 2, path
        assert re.search(f"cannot be read: .*{message}", capsys.readouterr().err), path


STATED = ("problem", "regularizer")
FIXED, RIDGE, GROUPS = Fixed([1.0] * 4), Tikhonov(2, 0.3), REGULARIZERS[-2]
STATEMENTS = {
    "p below 1": (Lp(2), (*STATED, "p"), (0.5).hex(), r"p = 0\.5 of regularizer Lp does not lie in \[1, inf\]"),
    "p zero": (Lp(2), (*STATED, "p"), (0.0).hex(), "p = 0.0 of regularizer"),
    "p nan": (Lp(2), (*STATED, "p"), "nan", "p = nan of regularizer"),
    "p a number": (Lp(2), (*STATED, "p"), 2.0, "no float in hexadecimal"),
    "p missing": (Lp(2), STATED, {"name": "Lp"}, "is stated by"),
    "superfluous": (Lp(2), (*STATED, "q"), (1.0).hex(), "is stated by"),
    "negative fixed weight": (FIXED, (*STATED, "weights"), [(-1.0).hex(), *[(1.0).hex()] * 3], "none of them neg"),
    "no fixed weight": (FIXED, (*STATED, "weights"), [(0.0).hex()] * 4, "not all of them 0"),
    "mu zero": (RIDGE, (*STATED, "mu"), (0.0).hex(), r"mu = 0\.0 of regularizer Tikhonov does not lie in \(0, inf\)"),
    "mu negative": (RIDGE, (*STATED, "mu"), (-1.0).hex(), "mu = -1.0"),
    "mu infinite": (RIDGE, (*STATED, "mu"), "inf", "mu = inf"),
    "p of Tikhonov": (RIDGE, (*STATED, "p"), (0.9).hex(), "p = 0.9"),
    "empty group": (GROUPS, (*STATED, "groups"), [[0, 2], [1, 3], []], "no partition"),
    "overlapping groups": (GROUPS, (*STATED, "groups"), [[0, 2], [2, 3]], "no partition"),
    "group of no integers": (GROUPS, (*STATED, "groups"), [[False, 2], [True, 3]], "no list of integers"),
    "negative exponent": (GROUPS, (*STATED, "q"), (-0.1).hex(), "q = -0.1"),
    "exponents beyond 1": (GROUPS, (*STATED, "q"), (0.9).hex(), "p \\+ q = 1.2 of the groups exceeds 1"),
    "epsilon": ("epsilon_insensitive", ("problem", "loss", "epsilon"), (-0.1).hex(), "epsilon = -0.1"),
    "delta": ("huber", ("problem", "loss", "delta"), (0.0).hex(), "delta = 0.0"),
    "tau": ("pinball", ("problem", "loss", "tau"), (1.0).hex(), "tau = 1.0"),
    "tau zero": ("pinball", ("problem", "loss", "tau"), (0.0).hex(), "tau = 0.0"),
    "infinite epsilon": ("epsilon_insensitive", ("problem", "loss", "epsilon"), "inf", "epsilon = inf"),
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


@pytest.fixture(scope="module")
def confirmed(tmp_path_factory):
    """A function: a file of a true certificate for a loss or a regulariser, its data beside it, and what it said."""

    @cache
    def file(own):
        folder = tmp_path_factory.mktemp("confirmed")
        options = {"regularizer": Lp(2), "loss" if isinstance(own, str) else "regularizer": own}
        problem = make_problem(n=8, seed=1, **options)
        certify(problem, 0.01 * problem.y, rigorous=True).save(folder / "c.json", data=folder / "c.npz")
        assert verify.main([str(folder / "c.json")]) == 0
        return folder / "c.json", (folder / "c.json").read_text()

    return file


@pytest.mark.parametrize("lie", STATEMENTS)
def test_statements_out_of_range_state_no_problem(lie, confirmed, capsys):
    own, path, to, message = STATEMENTS[lie]
    file, said = confirmed(own)
    file.write_text(json.dumps(changed(json.loads(said), *path, to=to)))
    assert verify.main([str(file)]) == 2
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
    facts = changed(case[1], *path, to=to)
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


def test_a_certificate_beyond_the_limit_is_refused(files, monkeypatch, capsys):
    size = files[0].stat().st_size
    monkeypatch.setenv("MKLREF_MAX_BYTES", str(size - 1))
    assert verify.main([str(files[0])]) == 2
    assert f"c.json has {size} bytes; at most {size - 1} are read" in capsys.readouterr().err
