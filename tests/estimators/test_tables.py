"""Data frames as they are, blocks of variables, annotated data, targets, and honest errors."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from mklref import MKLClassifier, MKLOneClass, MKLRegressor
from mklref.estimators import TableEncoder, from_annotated, joined, table_pipeline
from mklref.estimators.cells import cells_of, read
from mklref.estimators.notations import dates, flags, numbers
from mklref.estimators.tabular import targets_of_column
from mklref.exceptions import (
    InvalidInput,
    InvalidParameter,
    InvalidTarget,
    InvalidType,
    MissingExtra,
    MKLWarning,
    UnsafeFile,
)
from mklref.model_selection import evaluate


@pytest.mark.parametrize(
    ("cells", "kind", "detail", "option", "note"),
    [
        (["1", "2.5", "NA", "-3e2"], "number", ".", "", ""),
        (["1,5", "2", "3,25"], "number", ",", "", ""),
        (["1.234,5", "12,0", "7"], "number", ",", "", ""),
        (["0,125", "-0,250", "1,000"], "number", ",", "", ""),  # no thousands begin with 0
        (["1,234.5", "$ 12", "7 %"], "number", ".", "", ""),
        (["1 234", "12'345", "7"], "number", ".", "", ""),
        (["1,234", "5,678", "9,012"], "number", ".", "number:,", "'1,234' is read as 1234"),
        (["1.2"] * 19 + ["<1"], "number", ".", "category", "1 cell is no number and counts as missing: '<1'"),
        (["1", "2", "3"] * 5, "number", ".", "category", "whole numbers of 3 values, taken by their size"),
        ([str(i) for i in range(3, 13)], "leave", "", "number", "it counts the rows"),
        (["3", "4", "7"], "number", ".", "leave", "it may count the rows"),  # as doses may, by design
        (["Yes", "no", "", "NO"], "flag", "yes", "", ""),
        (["2020-01-31", "2020-02-01"], "date", "ymd", "", ""),
        (["31.01.2020", "1.2.2020", "2020-01-31", "3. März 2021"], "date", "dmy", "", ""),
        (["01/31/2020", "Feb 01, 2020 03:30 PM"], "date", "mdy", "", ""),
        (["01/02/2020", "02/01/2020"], "date", "dmy", "date:mdy", "'01/02/2020' is read as day, month, year"),
        (["2020-01-31T08:15:00.250+02:00", "2020-02-01 9:00Z"], "date", "ymd", "", ""),
        (["8:15", "23:59:30"], "date", "time", "", ""),
        ([pd.Timedelta(hours=6), pd.NaT, pd.Timedelta(days=2.5)], "number", ".", "", ""),
        (["20200131", "20200201"], "date", "ymd", "number", "'20200131' is read as year, month and day"),
        (["1.2.2020"] * 19 + ["soon"], "date", "dmy", "category", "1 cell is no date and counts as missing: 'soon'"),
        (["1,75 m", "1,8 m"], "number", ",m", "category", "all end in 'm', taken for a unit"),
        (["3 kg"] * 19 + ["2 t"], "number", ".kg", "category", "1 cell is no number and counts as missing: '2 t'"),
        (["(1,200.50)", "EUR 3", "−7"], "number", ".", "", ""),  # a minus, not a hyphen
        (["0815", "4711", "0815", "4711"], "category", "", "number", "codes such as '0815' and no numbers"),
        (["yes", "ja", "No", "k.A.", "1"], "flag", "ja", "", ""),
        (["A", "a", "B", "B"] * 2, "category", "", "category:fold", "levels differ in capitals alone, such as 'A'"),
        (["a", "b", "a", "b", "c", "a"], "category", "", "", ""),
        ([f"c{i % 40}" for i in range(90)], "category", "", "leave", "40 texts, of which the 30 most frequent count"),
        (["Ann", "Bob", "Eve"], "leave", "", "category", "texts of which 3 of 3 are different"),
        (["", "NA", "?"], "leave", "", "", "it has no cells"),
    ],
)
def test_what_the_cells_of_a_column_are(cells, kind, detail, option, note):
    found = read(texts := cells_of(pd.Series(cells, dtype=object)))
    assert (found.kind, found.detail, found.option, found.note) == (kind, detail, option, note)
    if option:  # the word that the list gives is one that decides
        assert read(texts, option).kind == option.partition(":")[0]
    assert kind != "date" or read(texts, kind).detail == detail


def test_cells_are_decoded_as_they_are_read():
    days = dates(["31.01.2020 12:00", "2020-01-31", "1. Februar 2020", None, "soon"], "dmy")
    np.testing.assert_allclose(days, [18292.5, 18292.0, 18293.0, np.nan, np.nan])
    np.testing.assert_allclose(dates(["2020-01-31T00:30:00+02:30", "Jan 31, 2020"], "ymd")[0], 18292.0 - 2.0 / 24.0)
    times = ["6:00", "48:00", "3 PM", "12:30 AM", "9:00 am", "12:30 PM", "9:45 pm"]
    np.testing.assert_allclose(24.0 * dates(times, "time"), [6.0, 48.0, np.nan, 0.5, 9.0, 12.5, 21.75])
    for cells, y in (([*map(str, range(20)), ""], [*range(20)]), (["Ann", "Bob", "Al", None], ["Ann", "Bob", "Al"])):
        assert targets_of_column(pd.Series(cells, name="y"))[0].tolist() == y
    with pytest.raises(InvalidTarget, match="the target 'y' holds numbers and 'x'; drop those rows"):
        targets_of_column(pd.Series([*map(str, range(20)), "x"], name="y"))
    np.testing.assert_array_equal(numbers(["1.200,5 kg", "(3) kg", "3 g"], ",kg"), [1200.5, -3.0, np.nan])
    np.testing.assert_array_equal(flags(["YES", "y", "nein", "maybe", None], "yes"), [1.0, 1.0, 0.0, np.nan, np.nan])
    assert TableEncoder().fit(pd.DataFrame({"x": ["1,5", "2"]})).columns_[0].told == "standardised, decimal comma"
    table = pd.DataFrame({"level": ["A", "a", "B", "B"] * 3})
    fold = TableEncoder({"level": "category:fold"}).fit(table)
    assert fold.get_feature_names_out().tolist() == ["level=a", "level=b"]
    np.testing.assert_array_equal(fold.transform(table.iloc[[1, 2]]), np.eye(2))
    again = TableEncoder.from_plain(fold.to_plain())
    np.testing.assert_array_equal(again.transform(pd.DataFrame({"level": ["b", "?"]})), [[0.0, 1.0], [0.0, 0.0]])


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(3)
    n = 48
    made = pd.DataFrame({
        "age": np.where(np.arange(n) % 7, rng.integers(20, 80, n).astype(float), np.nan),
        "sex": pd.Categorical(rng.choice(["f", "m"], n)),
        "since": pd.date_range("2020-01-01", periods=n, freq="9D"),
        "smokes": rng.random(n) < 0.4,
        "town": rng.choice(["Rome", "Oslo", None], n),
        "unit": "kg",
    })  # fmt: skip
    made["twice"] = made["age"]
    return made, np.where(made["age"].fillna(50) / 50 + made["smokes"] + 0.3 * rng.normal(size=n) > 1.4, "ill", "well")


def test_a_data_frame_becomes_numbers_as_reported(frame):
    X, y = frame
    model = table_pipeline(MKLClassifier("per_group(=, rbf(1)), on(who, [age, sex], linear)")).fit(X, y)
    table = model["table"]
    numbers = table.transform(X)
    assert list(numbers) == [
        "age", "age=missing", "sex=f", "sex=m", "since", "smokes", "town=Oslo", "town=Rome", "town=missing",
    ]  # fmt: skip
    known = X["age"].notna()
    np.testing.assert_allclose(numbers["age"][known], (X["age"][known] - X["age"].mean()) / X["age"][known].std(ddof=0))
    assert (numbers["age"][~known] == 0.0).all()
    assert (numbers["age=missing"] == ~known).all()
    np.testing.assert_array_equal(numbers.filter(like="town=").sum(axis=1), 1.0)
    assert "unit    leave     left out; it is the same in all rows" in table.report()
    assert "twice   leave     left out; it repeats 'age'" in table.report()
    assert model["model"].kernel_names_[-1] == "linear[who]"
    assert list(model["model"].kernel_groups_) == ["age", "sex", "since", "smokes", "town", "who"]
    strange = X.iloc[:2].assign(town="never seen", sex=None)
    with pytest.warns(MKLWarning, match="'town': 2 of 2 cells, such as 'never seen', hold no known level"):
        assert not table.transform(strange).filter(regex="town=|sex=").to_numpy().any()
    assert model.predict(strange.assign(town=["never seen", "Rome"])).shape == (2,)
    assert cross_val_score(model, X, y, cv=3).mean() > 0.6
    assert table.from_plain(table.to_plain()).transform(X).equals(numbers)
    assert clone(model).get_params()["table__missing"] == ()
    table_pipeline(MKLClassifier("rbf(1)")).fit(X.assign(age=1e6 * X["age"]), y)  # without a warning of scales
    with pytest.raises(InvalidInput, match=r"lacks the column 'age' that the model reads \(1 of 5 are not there\)"):
        model.predict(X.drop(columns="age"))
    for kind in ("number", "flag", "date", "category"):
        empty = TableEncoder({"town": kind}).fit(X.assign(town=None))
        assert "town    leave     left out; it has no cells" in empty.report()
    for none in (MKLClassifier, "MKLClassifier"):
        with pytest.raises(InvalidType, match=r"model is .*; give an estimator, or None"):
            table_pipeline(none)
    with pytest.raises(InvalidType, match="give a pandas data frame"):
        model.fit(numbers.to_numpy(), y)
    with pytest.raises(InvalidParameter, match=r"column 'sex': 'colour' is no kind of column; known are number"):
        TableEncoder({"sex": "colour"}).fit(X)
    with pytest.raises(InvalidInput, match="several columns are named 'a'"):
        TableEncoder().fit(pd.DataFrame([[1, 2], [2, 3]], columns=["a", "a"]))


def test_blocks_of_variables(three_classes):
    """As a list, by name, and as a frame with two levels; new samples in the same form, or as a frame of one level."""
    X, y, X_new = three_classes
    left, right = X[:, :2], pd.DataFrame(X[:, 2:], columns=["iron"])
    model = MKLClassifier("per_group(:, linear, rbf(1))")
    of_list = clone(model).fit([left, right.to_numpy()], y)
    assert list(of_list.kernel_groups_) == ["0", "1"]
    assert list(of_list.feature_names_in_) == ["0:x0", "0:x1", "1:x0"]
    scores = of_list.decision_function([X_new[:, :2], X_new[:, 2:]])
    by_name = clone(model).fit({"a": left, "blood": right}, y)
    assert list(by_name.feature_names_in_) == ["a:x0", "a:x1", "blood:iron"]
    levels = pd.DataFrame(X, columns=pd.MultiIndex.from_tuples([("a", "x0"), ("a", "x1"), ("blood", "iron")]))
    of_frame = clone(model).fit(levels, y)
    new_iron = pd.DataFrame(X_new[:, 2:], columns=["iron"])
    new_levels = pd.DataFrame(X_new, columns=levels.columns)
    for other, new in ((by_name, {"a": X_new[:, :2], "blood": new_iron}), (of_frame, new_levels)):
        np.testing.assert_allclose(other.decision_function(new), scores, atol=1e-12)
    assert np.isfinite(cross_val_score(model, levels, y, cv=3, error_score="raise")).all()
    assert MKLOneClass("per_group(:, rbf(1))").fit([left, X[:, 2:]]).kernel_names_ == ("rbf:1[0]", "rbf:1[1]")
    with pytest.raises(InvalidInput, match=r"holds the blocks 0: \(36, 2\), 1: \(35, 1\)"):
        model.fit([left, X[1:, 2:]], y)
    assert joined(X) is X


def test_blocks_in_different_orders_are_not_put_side_by_side(three_classes):
    X, y, _ = three_classes
    ids = [f"s{i}" for i in range(len(X))]
    left, right = pd.DataFrame(X[:, :2], index=ids), pd.DataFrame(X[:, 2:], index=ids)
    model = MKLClassifier("per_group(:, linear)")
    with pytest.raises(InvalidInput, match=r"block 'a' of X and the block 'c' of X .* 0 is 's0' in the first, 's35' i"):
        model.fit({"a": left, "b": X, "c": right[::-1]}, y)
    with pytest.raises(InvalidInput, match="0 is 's0' in the first, 's35' in the second"):  # of two draws, 24 in common
        joined([left[:30], right[:5:-1]])
    with pytest.raises(
        InvalidInput, match="are of different samples: number 0 is 's0' in the first, 's1' in the second"
    ):
        joined([left, right.set_axis([*ids[1:], "s36"])])
    others = right.set_axis(pd.period_range("2020", periods=len(X), freq="D"))
    for other in (right, right.to_numpy(), right.reset_index(drop=True), others):  # in one order, or who knows
        assert np.asarray(joined([left, other])).tolist() == X.tolist()
    levels = pd.MultiIndex.from_tuples([(1, j) for j in range(left.shape[1])] + [("1", "x")])
    for blocks in ({1: left, "1": right}, pd.DataFrame(X, columns=levels)):
        with pytest.raises(InvalidInput, match="blocks of X have one name as texts: 1, '1'; rename"):
            joined(blocks)
    of_parts = model.fit({"rna:all": left, "rna:few": right, "adt": X}, y)
    assert list(of_parts.kernel_groups_) == ["rna", "adt"]
    days = pd.DataFrame({"day": pd.date_range("2020", periods=len(X))})
    with pytest.raises(InvalidType, match="X holds a masked array; its mask would be lost"):
        MKLClassifier("precomputed").fit([np.ma.masked_less(X @ X.T, 0.0)], y)
    for block, says in (
        (csr_array(X), "is sparse"),
        (np.ma.masked_less(X, 0.0), "is a masked array"),
        (days, "holds dates or times"),
    ):
        for use in (model.fit, lambda X, y: model.predict(X)):
            with pytest.raises(InvalidType, match=f"the block 'b' of X {says}"):
                use({"a": left, "b": block}, y)
    lacking = right.astype("Float64").mask(X[:, 2:] > 0.0)
    with pytest.raises(InvalidInput, match=r"Input X contains NaN, a missing value: mklref\.estimators\.table_pipelin"):
        model.fit({"a": left, "b": lacking}, y)
    with pytest.raises(InvalidType, match=r"X is AnnData; give its blocks, mklref\.estimators\.from_annotated\(X\)"):
        model.fit(type("AnnData", (), {"to_df": None})(), y)
    model.fit(pd.DataFrame(X[:, :1], columns=["to_df"]), y)


@pytest.mark.parametrize("dtype", ["string", object, "category"])
def test_a_target_that_pandas_calls_missing_is_named(three_classes, dtype):
    X, y, _ = three_classes
    target = pd.Series(y, dtype=object)
    target[2] = pd.NA
    for given in (target.astype(dtype), target.astype(dtype).to_frame()):
        with pytest.raises(InvalidTarget, match=rf"y\[2\] is missing; drop .*\(1 of {len(y)}\)"):
            MKLClassifier("linear").fit(X, given)


def test_targets_in_another_order_than_their_samples_are_refused(three_classes):
    """By the names of their rows; other names, and rows that are counted where others are named, tell no order."""
    X, y, _ = three_classes
    ids = [f"s{i}" for i in range(len(X))]
    frame, model = pd.DataFrame(X, index=ids).rename(columns=str), MKLClassifier("linear")
    turned = pd.Series(y[::-1], index=ids[::-1])
    for samples in (frame, {"a": frame, "b": X}):
        for use in (model.fit, lambda X, y: evaluate(model, X, y)):
            with pytest.raises(InvalidTarget, match=r"X and y .* is 's0' in the first, 's35' in the second\. .* \.loc"):
                use(samples, turned)
    scores = model.fit(frame, y).decision_function(frame)
    shuffled = np.random.default_rng(0).permutation(len(X))
    for target in (turned.loc[ids], pd.Series(y), pd.Series(y, index=range(7, 7 + len(y)))):
        np.testing.assert_array_equal(model.fit(frame, target).decision_function(frame), scores)
    model.fit(frame.set_axis(10 + shuffled), pd.Series(y))  # some of whose names are numbers of rows
    for use in (model.fit, TableEncoder().fit):
        with pytest.raises(InvalidTarget, match=r"number 0 is '\d+' in the first, '0' in the second\..*reset_index"):
            use(frame.set_axis(shuffled), pd.Series(y))
    pairs = pd.MultiIndex.from_product([range(len(X) // 2), list("ab")])
    days = pd.date_range("2020", periods=len(X))
    twice, counted = [0] * len(X), range(1, len(X) + 1)
    unknown = [pd.Index([pd.NA, *ids[2:], end]) for end in "ab"]
    for index, other in ((pairs, days), (pairs, counted), (days, days.to_period("D"))):
        model.fit(frame.set_axis(index), pd.Series(y, index=other))
    for index, other in ((twice, shuffled), unknown):
        with pytest.raises(InvalidTarget, match="X and y are of different samples: number"):
            model.fit(frame.set_axis(index), pd.Series(y, index=other))
    gram = pd.DataFrame(X @ X.T, index=ids, columns=ids)
    for matrices in (gram, [gram, gram]):
        with pytest.raises(InvalidTarget, match=r"X.* and y .* is 's0' in the first, 's35' in"):
            MKLClassifier("precomputed").fit(matrices, turned)
    with pytest.raises(InvalidInput, match=r"X\[0\] and X\[1\] have their samples in different orders"):
        MKLClassifier("precomputed").fit([gram, gram.loc[ids[::-1], ids[::-1]]], y)


def test_what_is_no_number_in_a_block_is_named(three_classes):
    X, y, _ = three_classes
    model = MKLClassifier("per_group(:, linear)")
    with pytest.raises(InvalidInput, match="Input X contains NaN"):
        model.fit({"a": X, "b": np.where(X > 1.0, np.nan, X)}, y)
    with pytest.raises(InvalidInput, match=r"texts or dates among its numbers in b:x0 .*encode texts"):
        model.fit({"a": X, "b": np.full((len(X), 1), "red", dtype=object)}, y)


@pytest.mark.parametrize("kind", [pd.DataFrame, pd.DataFrame.to_numpy])
def test_times_alone_are_no_numbers_either(three_classes, kind):
    X, y, _ = three_classes
    days = pd.DataFrame({"day": pd.to_datetime(["2020-01-31", None, "2020-02-01"] * (len(X) // 3))})
    for table in (days, days - days["day"].min()):
        with pytest.raises(InvalidInput, match="texts or dates among its numbers"):
            MKLClassifier("linear").fit(kind(table), y)
    with pytest.raises(InvalidInput, match="texts or dates among its numbers"):
        MKLClassifier("linear").fit(X[:, :1], y).predict(days.squeeze())


def test_annotated_data_is_read_by_what_it_has():
    """AnnData and MuData are asked for names and frames alone, and need not be installed."""
    rna = SimpleNamespace(to_df=lambda: pd.DataFrame([[1.0], [2.0]], index=["s1", "s2"], columns=["g"]))
    adt = SimpleNamespace(to_df=lambda: pd.DataFrame([[3.0], [4.0]], index=["s2", "s3"], columns=["p"]))
    both = from_annotated(SimpleNamespace(mod={"rna": rna, "adt": adt}, obs_names=["s1", "s2", "s3"]))
    assert joined(both).columns == ("rna:g", "adt:p")
    twice = SimpleNamespace(to_df=lambda: pd.DataFrame([[1.0], [2.0]], index=["s2", "s2"]))
    for own, names, says in ((twice, ["s2"] * 2, "'rna' share a name"), (rna, ["s1", "s3"], "no sample in common")):
        with pytest.raises(InvalidInput, match=says):
            from_annotated(SimpleNamespace(mod={"rna": own, "adt": adt}, obs_names=names))
    assert np.asarray(joined(both)).tolist() == [[2.0, 3.0]]
    rna.obsm = {"pca": csr_array(np.eye(2))}
    assert joined(from_annotated(rna)).columns == ("X:g", "pca:x0", "pca:x1")
    rna.X = None
    with pytest.raises(InvalidInput, match="the block 'X' holds no matrix"):
        from_annotated(rna)
    for given, says in ((3, "is neither an AnnData nor"), ("x.csv", r"x\.csv ends in neither \.h5ad nor \.h5mu")):
        with pytest.raises(InvalidInput, match=says):
            from_annotated(given)


def test_annotated_data_that_are_damaged_or_boundless_or_nobody_reads_are_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "anndata", SimpleNamespace(read_h5ad=Mock(side_effect=KeyError("X"))))
    with pytest.raises(UnsafeFile, match=r"cells\.H5AD is not a readable \.h5ad file"):
        from_annotated("cells.H5AD")
    sparse = SimpleNamespace(shape=(10**8, 10**8), to_df=lambda: pytest.fail("made"), obsm={})
    monkeypatch.setitem(sys.modules, "anndata", SimpleNamespace(read_h5ad=lambda path: sparse))
    with pytest.raises(UnsafeFile, match="the block 'X' unpacks to 8"):
        from_annotated("cells.h5ad")
    wide = SimpleNamespace(to_df=lambda: pd.DataFrame({"g": [0.0, 1.0]}), obsm={"pca": csr_array((2, 10**15))})
    monkeypatch.setitem(sys.modules, "anndata", SimpleNamespace(read_h5ad=lambda path: wide))
    with pytest.raises(UnsafeFile, match="the block 'pca' unpacks to 16"):
        from_annotated("cells.h5ad")
    monkeypatch.setitem(sys.modules, "anndata", None)
    with pytest.raises(MissingExtra, match=r"\.h5ad files are read by anndata.*pip install 'mklref\[annotated\]'"):
        from_annotated("cells.h5ad")


@pytest.mark.filterwarnings("ignore")  # of the packages
def test_files_of_annotated_data(tmp_path):
    anndata, mudata = (pytest.importorskip(name, reason="the extra annotated") for name in ("anndata", "mudata"))
    rng = np.random.default_rng(0)
    tables = [pd.DataFrame(rng.normal(size=(8, 3)), index=[f"s{i}" for i in range(k, k + 8)]) for k in (0, 2)]
    rna, adt = (anndata.AnnData(table.rename(columns=str)) for table in tables)
    rna.obsm["pca"] = rna.X[:, :2].copy()
    rna.write_h5ad(tmp_path / "rna.h5ad")
    mudata.MuData({"rna": rna, "adt": adt}).write_h5mu(tmp_path / "both.h5mu")
    single, both = from_annotated(tmp_path / "rna.h5ad"), from_annotated(str(tmp_path / "both.h5mu"))
    np.testing.assert_array_equal(single["X"], tables[0])
    assert {name: np.shape(block) for name, block in single.items()} == {"X": (8, 3), "pca": (8, 2)}
    assert list(both["rna"].index) == list(both["adt"].index) == [f"s{i}" for i in range(2, 8)]
    np.testing.assert_array_equal(both["adt"], tables[1].iloc[:6])


def test_losses_by_name_with_their_parameter(three_classes):
    X = three_classes[0]
    narrow, wide = (MKLRegressor("linear", loss=f"epsilon_insensitive:{e}").fit(X, X[:, 0] ** 2) for e in (0.01, 0.8))
    assert len(wide.support_) < len(narrow.support_)
    for wrong, says in (("hinge:1", "hinge has no parameter"), ("huber:x", "'x' is no number"), ("huber:-1", "delta")):
        with pytest.raises(InvalidParameter, match=says):
            MKLRegressor("linear", loss=wrong).fit(X, X[:, 0])


def test_cells_of_another_notation_do_not_pass_for_missing_ones_in_silence():
    encoder = TableEncoder().fit(pd.DataFrame({"dose": ["1.5", "2.25", "4", ""]}))
    for cells, says in ((["1,5", "", "2,25"], "2 of 2"), (["1,5", "", "2"], "1 of 2")):
        with pytest.warns(MKLWarning, match=f"column 'dose': {says} cells, such as '1,5', are no number .* missing"):
            found = encoder.transform(pd.DataFrame({"dose": cells}))
        np.testing.assert_array_equal(found[:2], [[0.0, 1.0]] * 2)
    encoder.transform(pd.DataFrame({"dose": ["1,5", *["2.25"] * 9]}))  # as many as a fit would let pass


def test_what_a_user_says_of_a_column_is_refused_where_no_cell_is_so_and_warned_of_where_some_are_not():
    table = pd.DataFrame({"dose": ["x", "1", "y", "2"], "name": list("suvw")})
    for kind in ("number", "number:,", "flag:yes", "date"):
        with pytest.raises(InvalidParameter, match=f"column 'name': '{kind}': its cells, such as 's', are no such"):
            TableEncoder({"name": kind}).fit(table)
    with pytest.warns(MKLWarning, match=r"2 of 4 cells, such as 'x', are no number and .*\. Correct them, or say"):
        TableEncoder({"dose": "number"}).fit(table)


def test_numbers_mean_the_same_as_integers_as_floats_and_beside_cells_of_any_notation():
    """pandas turns whole numbers into floats beside a missing cell, and floats have no decimal comma."""
    assert cells_of(pd.Series(pd.to_timedelta([6.0, None, 60.0], unit="h"))).tolist() == ["0.25", None, "2.5"]  # days
    table = pd.DataFrame({"site": [1, 2, 3], "group": [7, 8, 8], "dose": ["0,5", "1,25", "2,125"], "day": 20200131})
    table["day"] += [0, 1, 1]
    encoder = TableEncoder({"site": "category", "group": "flag:8"}, missing=["-999"]).fit(table)
    numbers = encoder.transform(table).to_numpy()
    floats = table.assign(dose=[0.5, 1.25, 2.125]).astype(dict.fromkeys(["site", "group", "day"], float))
    mixed = table.assign(dose=["0,5", 1.25, 2.125], site=["1.0", "2", 3.0])
    for other in (floats, mixed):
        np.testing.assert_array_equal(encoder.transform(other), numbers)
    of_floats = TableEncoder({"site": "category", "dose": "number:,"}, missing=["-999"])
    floats.loc[3] = [-999.0, 9.0, -999.0, np.nan]
    np.testing.assert_array_equal(of_floats.fit(floats).transform(table).iloc[:, :3], np.eye(4)[:3, :3])
    assert of_floats.get_feature_names_out().tolist() == [
        "site=1", "site=2", "site=3", "site=missing", "group", "dose", "dose=missing", "day", "day=missing",
    ]  # fmt: skip


def test_numbers_of_any_size_are_read_without_a_warning_of_overflow():
    values = [1e308, -1e308, 1e-308]
    found = TableEncoder().fit_transform(pd.DataFrame({"x": values, "size": values[::-1]}))["x"]
    np.testing.assert_allclose(found, [1.5**0.5, -(1.5**0.5), 0.0], atol=1e-12)


def test_columns_may_be_counted():
    frame = pd.DataFrame([["1.5", "u"], ["2.25", "v"], ["4", "u"]])
    encoder = TableEncoder({0: "number"}).fit(frame)
    assert list(encoder.transform(frame).columns) == ["0", "1=u", "1=v"]


@pytest.mark.parametrize(("model", "X"), [(MKLOneClass("linear"), np.ones((9, 2))), (MKLOneClass("spectrum:1"), ["a"])])
def test_copies_of_one_sample_are_no_samples(model, X):
    with pytest.raises(InvalidInput, match="X holds one sample, or copies of it; give at least two that differ"):
        model.fit(X)
