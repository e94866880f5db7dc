"""Families on groups of columns: by name, number, prefix and dictionary; the groups that the regulariser takes.

Specifications of kernels: both forms mean the families they name, and what is misread is quoted.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from makers import make_samples

from mklref.exceptions import InvalidInput, InvalidParameter, InvalidType
from mklref.kernels import (
    KernelFamily,
    check_psd,
    from_specification,
    gaussian,
    linear,
    matching,
    on,
    parse,
    per_group,
    per_variable,
    polynomial,
    simplemkl_recipe,
    total,
    wavelet,
)

NAMES = ["blood_iron", "age", "blood_zinc", "eye_left", "eye_right_far"]


@pytest.fixture
def frame(rng):
    return pd.DataFrame(make_samples(rng, 12, 5), columns=NAMES)


@pytest.mark.parametrize(
    ("columns", "chosen"),
    [
        ("age", [1]),
        (3, [3]),
        (np.int64(3), [3]),
        (["eye_left", 0], [3, 0]),
        ("blood_*", [0, 2]),
        (["eye_*", "age", "eye_left"], [3, 4, 1]),
        (range(2), [0, 1]),
        ("*", [0, 1, 2, 3, 4]),
    ],
)
def test_columns_are_chosen_by_name_number_and_pattern(frame, columns, chosen):
    K = on("part", columns, gaussian([1.0, 2.0])).fit(frame, normalize="multiplicative")
    expected = gaussian([1.0, 2.0]).fit(frame.to_numpy()[:, chosen], normalize="multiplicative")
    np.testing.assert_array_equal(K.dense(), expected.dense())
    assert K.names == ("rbf:1[part]", "rbf:2[part]")
    new = make_samples(np.random.default_rng(3), 4, 5)
    np.testing.assert_allclose(K.new(new), expected.new(new[:, chosen]), rtol=1e-12)


@pytest.mark.parametrize("group", [None, True, 1.5, pytest.param(10**5000, id="long"), ["blood"]])
def test_the_name_of_a_group_is_a_text_or_a_number(group):
    with pytest.raises(InvalidType, match=r"group is .*; give its name as a text, or a number"):
        on(group, "iron", linear())
    assert on(np.int64(3), "iron", linear()) == on(3, "iron", linear()) == on("3", "iron", linear())


def test_groups_from_prefixes_and_from_a_dictionary(frame):
    family = linear() + gaussian(1.0)
    from_names = per_group("_", family).fit(frame)
    groups = {"blood": ["blood_iron", "blood_zinc"], "age": "age", "eye": [3, 4]}
    from_dictionary = per_group(groups, family).fit(frame)
    assert from_names.names == tuple(f"{kind}[{name}]" for name in groups for kind in ("linear", "rbf:1"))
    assert from_names.names == from_dictionary.names
    assert from_names.groups == from_dictionary.groups == {"blood": (0, 1), "age": (2, 3), "eye": (4, 5)}
    np.testing.assert_array_equal(from_names.dense(), from_dictionary.dense())
    np.testing.assert_array_equal(from_names.dense()[4], linear().fit(frame[["eye_left", "eye_right_far"]]).dense()[0])


def test_single_variables_of_groups(frame):
    """Szafranski's channels: a linear kernel for each time frame, a group for each channel."""
    K = per_group("_", per_variable(linear())).fit(frame)
    assert K.names[:2] == ("linear[blood_iron][blood]", "linear[blood_zinc][blood]")
    assert K.groups == {"blood": (0, 1), "age": (2,), "eye": (3, 4)}
    single = per_variable(linear()).fit(frame)
    assert list(single.groups) == NAMES
    np.testing.assert_array_equal(K.dense(), single.dense()[[0, 2, 1, 3, 4]])
    assert (linear() + gaussian(1.0)).fit(frame).groups == {"all variables": (0, 1)}


def test_the_matching_kernel_counts_equal_variables(rng):
    codes = rng.integers(0, 3, (12, 4)).astype(float)
    K = parse("matching").fit(codes).dense()[0]
    assert K[2, 5] == np.mean(codes[2] == codes[5])
    check_psd(K)
    onehot = (codes[:, :, None] == np.arange(3)).reshape(12, -1).astype(float)
    np.testing.assert_allclose(K, onehot @ onehot.T / 4.0)
    np.testing.assert_array_equal(matching().fit(codes).new(codes[:3])[0], K[:3])


@pytest.mark.parametrize(
    ("family", "message"),
    [
        (lambda: on("g", "agee", linear()), "there is no column 'agee'; did you mean 'age'"),
        (lambda: on("g", "weight", linear()), r"no column 'weight'; there are 'blood_iron', 'age', .*'eye_right_far'"),
        (lambda: on("g", 5, linear()), "group 'g': there is no column 5; there are 5, from 0"),
        (lambda: on("g", -1, linear()), "there is no column -1"),
        (lambda: on("g", "ear_*", linear()), "no column begins with 'ear_'; there are 'blood_iron'"),
        (lambda: on("g", [], linear()), r"columns = \[\]; give names such as 'age'"),
        (lambda: on("g", None, linear()), r"columns = None; give names"),
        (lambda: on("g", [True, False, True], linear()), r"of a mask np\.flatnonzero\(mask\)"),
        (lambda: on("g", [0.5], linear()), r"columns = \[0.5\]; give names"),
        (lambda: on("g", np.timedelta64(1, "s"), linear()), r"columns = .*timedelta64\(1, ?'s'\); give names"),
        (lambda: on("g", 0, "linear"), "takes a family of kernels, such as"),
        (lambda: per_group("_", "linear"), "takes a family of kernels, such as"),
        (lambda: per_group({}, linear()), r"groups = \{\}; give a dict such as"),
        (lambda: per_group("", linear()), "groups = ''; give a dict such as .* or the separator"),
    ],
)
def test_what_is_refused(frame, family, message):
    with pytest.raises(InvalidParameter, match=message):
        family().fit(frame)


def test_new_samples_with_other_columns_are_refused(frame):
    stack = per_variable(linear()).fit(frame)
    np.testing.assert_array_equal(stack.new(frame), stack.new(frame.to_numpy()))
    with pytest.raises(InvalidInput, match=r"X_new has the columns eye_right_far, .*age, .* the same ones in the same"):
        stack.new(frame[NAMES[::-1]])
    unnamed = linear().fit(frame.to_numpy())
    np.testing.assert_allclose(unnamed.new(frame), unnamed.dense())


@pytest.fixture
def X(rng):
    return make_samples(rng, 14, 3)


SAME_FAMILIES = [
    ("linear", linear()),
    ("poly:2", polynomial(2)),
    ("poly:1..3", polynomial([1, 2, 3])),
    ("rbf:0.5", gaussian(0.5)),
    ("rbf:0.1..10:3", gaussian([0.1, 1.0, 10.0])),
    (" linear , rbf:1e-1 ", linear() + gaussian(0.1)),
    ("linear,poly:2,per-variable", linear() + polynomial(2) + per_variable(linear() + polynomial(2))),
    ("linear,per-variable,rbf:2", linear() + per_variable(linear()) + gaussian(2.0)),
    ("linear()", linear()),
    ("poly(2, 4..5)", polynomial([2, 4, 5])),
    ("rbf(0.5)", gaussian(0.5)),
    ("rbf( 0.1..10 , 3 )", gaussian([0.1, 1.0, 10.0])),
    ("rbf(1, 2,3)", gaussian([1.0, 2.0, 3.0])),
    ("per_variable(linear, rbf(1..2, 2)), poly(2)", per_variable(linear() + gaussian([1.0, 2.0])) + polynomial(2)),
    ("rbf(1),per-variable", gaussian(1.0) + per_variable(gaussian(1.0))),
    ("on(first, 0, linear, rbf(2))", on("first", 0, linear() + gaussian(2.0))),
    ("on('a, b', [x2, \"x0\", 1], per_variable(linear))", on("a, b", ["x2", "x0", 1], per_variable(linear()))),
    ("on(all, x*, linear)", on("all", "x*", linear())),
    ("per_group(1, linear, rbf:1)", per_group("1", linear() + gaussian(1.0))),
    ("2*rbf(1)", 2.0 * gaussian(1.0)),
    ("linear * rbf(1, 2) * 0.5", linear() * gaussian([1.0, 2.0]) * 0.5),
    ("total(linear, per_variable(poly(2)))", total(linear() + per_variable(polynomial(2)))),
    ("on(pair, [x0, x*], linear*rbf(1))", on("pair", ["x0", "x*"], linear() * gaussian(1.0))),
    ("per_variable(wavelet)", per_variable(wavelet())),
    ("per_variable(wavelet(all, -1..2))", per_variable(wavelet("all", range(-1, 3)))),
    (
        "per_variable(wavelet(dil_trans, mother=db4, sets=3, levels=0..3, domain=-1..2.5))",
        per_variable(wavelet("dil_trans", range(4), mother="db4", sets=3, domain=(-1.0, 2.5))),
    ),
]


@pytest.mark.parametrize(("text", "family"), SAME_FAMILIES)
def test_a_specification_is_the_family_that_it_writes(text, family, X):
    X = X - X.min() if "wavelet" in text and "domain" not in text else X
    X = X / np.abs(X).max()
    assert isinstance(parse(text), KernelFamily)
    found, expected = from_specification(text, X), family.fit(X)
    assert found.names == expected.names
    np.testing.assert_allclose(found.dense(), expected.dense(), rtol=1e-13)
    diagonals = np.diagonal(expected.new(X), axis1=1, axis2=2)  # of matrices of test samples
    np.testing.assert_allclose(found.diagonals(X), diagonals, rtol=1e-12)


def test_specification_of_the_recipe(X, rng):
    X_new = make_samples(rng, 5, 3)
    K, new = from_specification("simplemkl,per-variable", X, X_new, normalize="trace")
    expected, expected_new = simplemkl_recipe(X, X_new)
    assert K.names == expected.names
    np.testing.assert_array_equal(K.dense(), expected.dense())
    np.testing.assert_array_equal(new, expected_new)


def test_specification_with_centring(X):
    K = from_specification("rbf:1", X, normalize="multiplicative", center=True)
    np.testing.assert_allclose(K.dense().sum(axis=1), 0.0, atol=1e-13)
    assert np.trace(K.matrices[0]) / len(X) == pytest.approx(1.0)


def test_a_name_is_a_specification(X):
    K = from_specification("linear,poly:3,rbf:0.25", X)
    np.testing.assert_array_equal(from_specification(",".join(K.names), X).dense(), K.dense())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", r"kernels: '' is not understood: known are linear, poly, rbf"),
        ("lin", r"kernels: 'lin' is not understood: known are linear, poly, rbf, simplemkl, spectrum"),
        ("linear,,rbf:1", r"kernels: '' is not understood"),
        ("total(" * 51 + "linear" + ")" * 51, r"kernels: 'total\(total.* is nested too deeply; write fewer brackets"),
        ("linear:3", r"kernels: 'linear:3' is not understood: it takes no arguments"),
        ("poly", r"kernels: 'poly' is not understood: expected poly\(D\) or poly\(LOW\.\.HIGH\)"),
        ("poly:2.5", r"kernels: 'poly:2\.5' is not understood: expected poly\(D\)"),
        ("poly:0", r"kernels: 'poly:0' is not understood: degrees are positive integers"),
        ("poly:3..1", r"kernels: 'poly:3\.\.1' is not understood: the lower end comes first"),
        ("rbf", r"kernels: 'rbf' is not understood: expected rbf\(S\) or rbf\(LOW\.\.HIGH, COUNT\)"),
        ("rbf:-1", r"kernels: 'rbf:-1' is not understood: a width lies in \(0, inf\)"),
        ("rbf:nan", r"kernels: 'rbf:nan' is not understood: a width lies in \(0, inf\)"),
        ("rbf:1..2", r"kernels: 'rbf:1\.\.2' is not understood: expected rbf\(S\) or rbf\(LOW\.\.HIGH, COUNT\)"),
        ("rbf:0..2:3", r"kernels: 'rbf:0\.\.2:3' is not understood: it needs 0 < LOW < HIGH and COUNT from 2 to 1000"),
        ("rbf:2..1:3", r"the lower end comes first"),
        ("rbf:1..inf:3", r"it needs 0 < LOW < HIGH"),
        ("rbf:1..2:1", r"COUNT from 2 to 1000"),
        ("rbf(1..2, 1000000000)", r"COUNT from 2 to 1000"),
        ("poly(1..1000000000)", r"one item has at most 1000 kernels"),
        ("per-variable,linear", r"kernels: 'per-variable' is not understood: .*put it once, after them"),
        ("linear,per-variable,per-variable", r"put it once, after them"),
        ("linear(2)", r"kernels: 'linear\(2\)' is not understood: it takes no arguments"),
        ("rbf(1..2)", r"expected rbf\(S\) or rbf\(LOW\.\.HIGH, COUNT\)"),
        ("rbf(1..2, 3, 4)", r"expected rbf\(S\)"),
        ("rbf()", r"expected rbf\(S\)"),
        ("rbf(1", r"kernels: 'rbf\(1' is not understood: '\)' is missing at the end"),
        ("rbf(1))", r"'\)' closes nothing"),
        ("rbf(1]", r"'\]' closes nothing"),
        ("rbf(1) linear", r"after its closing parenthesis a comma or the end is expected"),
        ("on('a, 0, linear)", r"\"'\" is missing at the end"),
        ("on(a, linear)", r"expected on\(GROUP, COLUMNS, ITEMS\), for instance"),
        ("on(a, [], linear)", r"columns = \[\]; give names such as"),
        ("per_variable()", r"expected per_variable\(ITEMS\)"),
        ("per_variable(rfb(1))", r"kernels: 'rfb\(1\)' is not understood: known are"),
        ("per_group(linear)", r"expected per_group\(SEPARATOR, ITEMS\)"),
        ("wavelet(dilation)", r"kind = 'dilation' is unknown"),
        ("wavelet(dil, 3)", r"expected wavelet\(KIND, LOW..HIGH"),
        ("wavelet(levels=a..b)", r"expected wavelet\(KIND"),
        ("wavelet(order=3)", r"expected wavelet\(KIND"),
        ("spectrum(x)", r"expected spectrum\(K\)"),
        *((text, "is not understood") for text in ("2", "2*", "*linear", "2*3", "total()", "linear**2")),
        ("-1*linear", r"factor = -1\.0 must lie in"),
        ("spectrum(13)", r"length 13 of words must be an integer in \[1, 12\]"),
    ],
)
def test_bad_specifications_are_quoted(text, says):
    with pytest.raises(InvalidParameter, match=says):
        parse(text)


def test_brackets_may_belong_to_the_name_of_a_column():
    (kernel,) = parse("on(one, pixel[0], linear)").expand(["pixel", "pixel[0]"])
    assert kernel.on_columns()[1] == (1,)


def test_a_specification_is_text():
    with pytest.raises(InvalidType, match=r"kernels is list; give a specification such as"):
        parse(["linear"])
