"""Families on groups of columns: by name, number, prefix and dictionary; the groups that the regulariser takes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from makers import make_samples

from mklref.exceptions import InvalidInput, InvalidParameter, InvalidType
from mklref.kernels import check_psd, gaussian, linear, matching, on, parse, per_group, per_variable

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
def test_columns(frame, columns, chosen):
    K = on("part", columns, gaussian([1.0, 2.0])).fit(frame, normalize="multiplicative")
    expected = gaussian([1.0, 2.0]).fit(frame.to_numpy()[:, chosen], normalize="multiplicative")
    np.testing.assert_array_equal(K.dense(), expected.dense())
    assert K.names == ("rbf:1[part]", "rbf:2[part]")
    new = make_samples(np.random.default_rng(3), 4, 5)
    np.testing.assert_allclose(K.new(new), expected.new(new[:, chosen]), rtol=1e-12)


@pytest.mark.parametrize("group", [None, True, 1.5, ["blood"]])
def test_the_name_of_a_group_is_a_text_or_a_number(group):
    with pytest.raises(InvalidType, match=r"group is .*; give its name as a text, or a number"):
        on(group, "iron", linear())


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
        (lambda: on("g", 0, "linear"), "takes a family of kernels, for instance"),
        (lambda: per_group("_", "linear"), "takes a family of kernels, for instance"),
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
