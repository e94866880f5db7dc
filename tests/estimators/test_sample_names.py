"""Samples are compared by the names that data frames give them: Gram matrices, targets, folds, blocks, scores."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GroupKFold, cross_val_score
from sklearn.svm import LinearSVC

from mklref import Problem
from mklref.estimators import MKLClassifier, MKLClassifierCV, MKLOneClass, MKLRegressor
from mklref.evidence import EvidenceProblem
from mklref.exceptions import InvalidInput, InvalidKernel, InvalidTarget
from mklref.kernels import stack
from mklref.model_selection import evaluate, stability

N = 16


@pytest.fixture
def X():
    return pd.DataFrame(np.random.default_rng(5).normal(size=(N, 3)), [f"s{i}" for i in range(N)], list("abc"))


def test_columns_of_new_precomputed_kernels_are_the_training_samples_in_their_order(three_classes, tmp_path):
    X, y, X_new = three_classes
    ids = [f"s{i}" for i in range(len(X))]
    K, K_new = pd.DataFrame(X @ X.T, ids, ids), pd.DataFrame(X_new @ X.T, columns=ids)
    for grams, pick in ((K, lambda K: K), ([K, K + 1.0], lambda K: [K_new, K])):
        model = MKLClassifier("precomputed").fit(grams, y)
        model.save(tmp_path / "model.npz")
        for own in (model, MKLClassifier.load(tmp_path / "model.npz")):
            expected = own.predict(pick(K_new))
            np.testing.assert_array_equal(own.predict(pick(K_new.set_axis(range(len(X)), axis=1))), expected)
            with pytest.raises(InvalidInput, match=r"column 0 of X(\[\d\])? is 's35', training sample 0 is 's0'"):
                own.predict(pick(K_new[ids[::-1]]))
            with pytest.raises(InvalidInput, match=r"column 1 of X(\[\d\])? is 's35', training sample 1 is 's1'"):
                own.predict(pick(K_new[[ids[0], *ids[:0:-1]]]))


@pytest.mark.parametrize("axis", ["index", "columns"])
def test_gram_matrices_that_name_partly_other_samples_are_refused(three_classes, axis):
    X, y, _ = three_classes
    y, ids = y == y[0], [f"s{i}" for i in range(len(X))]
    gram = pd.DataFrame(X @ X.T, ids, ids)
    lagged = gram.set_axis([*ids[1:], "t"], axis=axis)
    targets = np.where(y, 1.0, -1.0)
    uses = (MKLClassifier("precomputed").fit, lambda K, y: Problem(K, np.where(y, 1.0, -1.0)))
    for use in uses:
        for matrices in ([gram, lagged], [lagged]):
            with pytest.raises(
                InvalidInput,
                match=r"are of different samples: number 0 is 's[01]' in the first, 's[10]' in the second\. Give",
            ):
                use(matrices, y)
        other = gram.set_axis([f"{name}-RNA" for name in ids], axis=axis)
        counted = gram.set_axis(range(len(ids)), axis=axis)
        numbers = gram.set_axis(range(1, len(ids) + 1)).set_axis([str(i + 1) for i in range(len(ids))], axis=1)
        for matrices in ([gram, other], [gram, counted], [numbers, numbers]):
            use(matrices, y)
    with pytest.raises(InvalidInput, match=r"the rows of X\[0\] and the rows of X\[1\] are of different"):
        MKLClassifier("precomputed").fit([gram, gram], y).predict(
            [gram[:4], lagged[:4] if axis == "index" else gram[1:5]]
        )
    with pytest.raises(
        InvalidKernel, match=r"different shapes, \(\d+, \d+\), \(\d+, \d+\); give the rows and columns of"
    ):
        MKLClassifier("precomputed").fit([gram, gram.iloc[1:, 1:]], y)
    for turned in ({"y": pd.Series(targets, ids)[::-1]}, {"y": targets, "sample_weight": pd.Series(1.0, ids)[::-1]}):
        with pytest.raises(InvalidInput, match=r"kernels\[0\] and (y|sample_weight) have their samples in different"):
            Problem([gram], **turned)
    with pytest.raises(InvalidInput, match=r"kernels\[0\] and y have their samples in different orders"):
        EvidenceProblem([gram], pd.Series(targets, ids)[::-1], 1.0)


def test_samples_in_another_order_are_refused_wherever_gram_matrices_name_them(three_classes, tmp_path):
    X, y, _ = three_classes
    y, ids = np.where(y == y[0], 1.0, -1.0), np.array([f"s{i}" for i in range(len(X))])
    K = X @ X.T
    gram, train, new = pd.DataFrame(K, ids, ids), ids[:-6], ids[-6:]
    known, rows = gram.loc[train, train], gram.loc[new, train]
    targets, turned = y[:-6], rows[train[::-1]]
    weight = pd.Series(1.0, train)
    model = MKLClassifier("precomputed")
    for matrices in ([known, known], [known.to_numpy(), known]):  # whichever of them has names
        with pytest.raises(InvalidInput, match=r"X\[\d\] and sample_weight have their samples in different orders"):
            model.fit(matrices, targets, sample_weight=weight[::-1])
        with pytest.raises(InvalidTarget, match=r"X\[\d\] and y have their samples in different orders"):
            model.fit(matrices, pd.Series(targets, train)[::-1])
        model.fit(matrices, targets, sample_weight=weight)
        with pytest.raises(InvalidInput, match=r"column 0 of X\[\d\] is 's29', training sample 0 is 's0'"):
            model.predict([rows.to_numpy(), turned])
    model.fit([known.set_axis(range(len(train)), axis="columns")], targets)  # rows alone have names
    with pytest.raises(InvalidInput, match=r"column 0 of X\[\d\] is 's29', training sample 0 is 's0'"):
        model.predict([turned])
    with pytest.raises(
        InvalidInput, match=r"the columns of X\[0\] and the columns of X\[1\] have their samples in different"
    ):
        model.fit([K[:-6, :-6]] * 2, targets).predict([rows, turned])
    others = [f"{name}-RNA" for name in train]
    model.fit([known, known.set_axis(others).set_axis(others, axis=1)], targets)
    matrices = [rows, rows.set_axis(others, axis=1)]
    expected = model.predict(np.stack([rows, rows]))
    model.save(tmp_path / "model.npz")
    for one in (model, MKLClassifier.load(tmp_path / "model.npz")):
        np.testing.assert_array_equal(one.predict(matrices), expected)
        with pytest.raises(InvalidInput, match=r"column 0 of X\[1\] is 's29', training sample 0 is 's0'"):
            one.predict([rows, turned])


def test_blocks_and_weights_are_compared_by_the_names_of_their_rows(three_classes):
    X, y, _ = three_classes
    ids = [f"s{i}" for i in range(len(X))]
    blocks, weight = {"a": pd.DataFrame(X, ids), "b": pd.DataFrame(X**2, ids)}, pd.Series(1.0, ids)[::-1]
    for given in (blocks, list(blocks.values())):
        with pytest.raises(InvalidInput, match=r"X\[.*\] and sample_weight have their samples in different orders"):
            MKLClassifier("linear").fit(given, y, sample_weight=weight)


@pytest.mark.parametrize("model", [MKLClassifier, MKLRegressor])
def test_scores_compare_the_names_of_samples_as_fits_do(three_classes, model):
    X, y, _ = three_classes
    y, ids = (y == y[0]).astype(float), [f"s{i}" for i in range(len(X))]
    frame, gram, targets = pd.DataFrame(X, ids), pd.DataFrame(X @ X.T, ids, ids), pd.Series(y, ids)
    for kernels, samples in (("linear", frame), ("linear", {"a": frame}), ("precomputed", [gram, gram])):
        fitted = model(kernels).fit(samples, targets)
        assert fitted.score(samples, targets) == fitted.score(samples, y)
        for turned in ({"y": targets[::-1]}, {"y": y, "sample_weight": targets[::-1]}):
            with pytest.raises(InvalidTarget, match="have their samples in different orders"):
                fitted.score(samples, **turned)
    rows = [pd.Series(row, list("abc")) for row in X[:3]]  # whose names are those of variables
    model("linear").fit(rows, pd.Series([0.0, 1.0, 1.0], list("bca")))


@pytest.mark.parametrize("fresh", ["X", "y"])
def test_folds_of_a_fresh_column_are_paired_as_the_column_is(X, fresh):
    """A slice of rows that pandas has counted is no count from 0, but its numbers are no names of samples either."""
    order = np.random.default_rng(1).permutation(4 * N)[: 2 * N]
    for index in (order, [*range(N), *range(N)], range(1, 2 * N + 1)):  # a split, two tables in one, another count
        table = pd.concat([X, X + 0.1]).set_axis(index)
        y = pd.Series(table["a"] > table["a"].median(), index)
        samples = table.reset_index(drop=True) if fresh == "X" else table
        targets = y.reset_index(drop=True) if fresh == "y" else y
        expected = cross_val_score(MKLClassifier("linear"), table.to_numpy(), y.to_numpy(), cv=4)
        found = cross_val_score(MKLClassifier("linear"), samples, targets, cv=4, error_score="raise")
        np.testing.assert_array_equal(found, expected)


def test_splits_of_a_fresh_column_are_paired_as_the_column_is(X):
    """A column that was made after rows were dropped, and both are split in one order, as train_test_split does."""
    rng = np.random.default_rng(2)
    table = pd.concat([X, X + 0.1, X - 0.1]).set_axis(np.sort(rng.permutation(5 * N)[: 3 * N]))
    y = pd.Series((table["a"] > table["a"].median()).to_numpy())
    train = rng.permutation(3 * N)[: 2 * N]
    for rows in (train, np.append(train, train[:N])):  # and a bootstrap
        samples, targets = table.iloc[rows], y.iloc[rows]
        found = MKLClassifier("linear").fit(samples, targets).decision_function(samples)
        bare = samples.to_numpy()
        expected = MKLClassifier("linear").fit(bare, targets.to_numpy()).decision_function(bare)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
        with pytest.raises(InvalidTarget, match="X and y are of different samples"):
            MKLClassifier("linear").fit(samples, y.iloc[rng.permutation(rows)])


def test_estimators_take_the_names_of_a_stack(X):
    grams = [pd.DataFrame(np.outer(X[one], X[one]) + np.eye(N), X.index, X.index) for one in X]
    kernels, y = stack(grams), X["a"] > X["a"].median()
    for use in (MKLClassifier("precomputed").fit, lambda X, y: evaluate(MKLClassifier("precomputed"), X, y)):
        with pytest.raises(InvalidInput, match="y and the kernels have their samples in different orders"):
            use(kernels, y[::-1])
    model = MKLClassifier("precomputed").fit(kernels, y)
    model.predict([K.iloc[:4] for K in grams])
    with pytest.raises(InvalidInput, match=r"column 0 of X\[0\] is 's15', training sample 0 is 's0'"):
        model.predict([K.iloc[:4, ::-1] for K in grams])


def test_weights_and_groups_in_another_order_than_their_samples_are_refused(three_classes):
    X, y, _ = three_classes
    ids = [f"s{i}" for i in range(36)]
    frame, turned = pd.DataFrame(X, index=ids).rename(columns=str), pd.Series(np.arange(36) % 4, index=ids[::-1])
    model, search = MKLClassifier("linear"), MKLClassifierCV("linear", Cs=[1.0], norms=[1.0], cv=GroupKFold(3))
    for name, use in (
        ("sample_weight", lambda: model.fit(frame, y, turned)),
        ("sample_weight", lambda: model.fit(X, pd.Series(y, index=ids), turned)),
        ("sample_weight", lambda: MKLOneClass("linear").fit(frame, None, turned)),
        ("groups", lambda: search.fit(frame, y, groups=turned)),
        ("groups", lambda: evaluate(model, frame, y, test=GroupKFold(3), groups=turned)),
        ("sample_weight", lambda: stability(model, frame, y, fits=2, params={"sample_weight": turned})),
        ("sample_weight", lambda: evaluate(LinearSVC(), frame, y, params={"sample_weight": turned})),
    ):
        with pytest.raises(InvalidInput, match=f"(X|y) and {name} have their samples in different orders"):
            use()
    np.testing.assert_array_equal(
        model.fit(frame, y, turned[::-1]).dual_coef_, model.fit(X, y, turned[::-1]).dual_coef_
    )
