"""Five tables as people have them, each with faults of its own, go from CSV to predictions in two commands."""

from __future__ import annotations

import csv
import gzip

import numpy as np
import pytest

from mklref.cli import main
from mklref.cli.model import TableModel, _probabilities, calibrated
from mklref.cli.table import targets_of
from mklref.exceptions import UselessModelWarning

N = 64
FAST = ["--kernels", "linear, rbf(2)", "--C", "1", "--p", "1", "--folds", "2"]


def german(value):
    """1.234,56."""
    return f"{value:,.2f}".translate(str.maketrans(",.", ".,"))


def hospital(rng):
    """Windows-1252, semicolons, decimal commas, days before months, ja and nein, names, a constant, a copy."""
    age, income = rng.integers(20, 80, N), rng.lognormal(8.0, 0.4, N)
    ill = age + 4.0 * rng.normal(size=N) > 50
    rows = [
        [i + 1, f"Müller {i}", "" if i % 9 == 0 else age[i], german(income[i]),
         f"{i % 28 + 1:02d}.{i % 12 + 1:02d}.2021",
         ("ja", "nein", "")[i % 3], "kg", german(income[i]), "krank" if ill[i] else "gesund"]
        for i in range(N)
    ]  # fmt: skip
    return ["Nr", "Name", "Alter", "Einkommen", "Besuch", "Raucher", "Größe in", "Lohn", "Befund"], rows, ";", "cp1252"


def houses(rng):
    """Dollars with thousands separators in quotes, months before days, a category with few rows; a price to predict."""
    area, kind = rng.integers(40, 300, N), rng.choice(["flat", "house", "farm"], N, p=[0.6, 0.35, 0.05])
    price = 2000.0 * area + 60000.0 * (kind == "house") + 9000.0 * rng.normal(size=N)
    rows = [
        [f"{i % 12 + 1}/{i % 28 + 1}/2019", area[i], kind[i], "N/A" if i % 7 == 0 else f"{0.5 * i:.1f}%",
         f"${price[i]:,.0f}"]
        for i in range(N)
    ]  # fmt: skip
    return ["sold", "area", "kind", "share", "price"], rows, ",", "utf-8"


def customers(rng):
    """UTF-16, tabs, yes and no, TRUE and FALSE, codes of missing values, a rating of whole numbers to predict."""
    calls, loyal = rng.poisson(3.0, N), rng.random(N) < 0.5
    rating = np.clip(np.round(4.0 - 0.5 * calls + 2.0 * loyal + 0.3 * rng.normal(size=N)), 1, 5).astype(int)
    rows = [
        [f"c-{i}", "yes" if loyal[i] else "no", str(i % 3 == 0).upper(), -999 if i % 10 == 0 else calls[i], rating[i]]
        for i in range(N)
    ]
    return ["customer", "loyal", "paper", "calls", "rating"], rows, "\t", "utf-16"


def soil(rng):
    """Measurements below a limit, question marks, ISO dates with times, a bar between the cells, gzipped."""
    lead, ph = rng.lognormal(0.0, 1.0, N), rng.normal(6.5, 0.5, N)
    fit = lead < np.exp(0.5 * (ph - 6.5))
    rows = [
        [f"2020-03-{i % 28 + 1:02d} 08:15", "<0.1" if lead[i] < 0.1 else f"{lead[i]:.3f}",
         "?" if i % 8 == 0 else f"{ph[i]:.1f}",
         ("sand", "clay", "loam", "")[i % 4], "" , "usable" if fit[i] else "polluted"]
        for i in range(N)
    ]  # fmt: skip
    return ["sampled", "lead", "pH", "texture", "remarks", "verdict"], rows, "|", "utf-8"


def ship(rng):
    """Names of persons, cabins that are mostly empty, classes of travel as numbers, an empty cell of the target."""
    fare, woman = rng.lognormal(3.0, 1.0, N), rng.random(N) < 0.4
    saved = 2.0 * woman + 0.5 * np.log(fare) + 0.5 * rng.normal(size=N) > 2.2
    rows = [
        [i, f'Person, "the" {i}', (1, 2, 3)[i % 3], "female" if woman[i] else "male", "" if i % 5 == 0 else 20 + i % 40,
         "C85" if i == 3 else "", f"{fare[i]:.4f}", ("S", "C", "Q", "")[i % 4], "" if i == 7 else int(saved[i])]
        for i in range(N)
    ]  # fmt: skip
    return ["id", "name", "pclass", "sex", "age", "cabin", "fare", "embarked", "survived"], rows, ",", "utf-8-sig"


TABLES = {
    "hospital": (hospital, ["--id", "Name"], 0.75, {
        "Nr": "leave", "Alter": "number", "Einkommen": "number", "Besuch": "date", "Raucher": "flag",
        "Größe in": "leave", "Lohn": "leave",
    }),
    "houses": (houses, [], 0.75, {"sold": "date", "area": "number", "kind": "category", "share": "number"}),
    "customers": (customers, ["--task", "regress", "--missing=-999"], 0.5, {
        "customer": "leave", "loyal": "flag", "paper": "flag", "calls": "number",
    }),
    "soil": (soil, [], 0.75, {
        "sampled": "date", "lead": "number", "pH": "number", "texture": "category", "remarks": "leave",
    }),
    "ship": (ship, ["--class-weight", "balanced"], 0.7, {
        "id": "leave", "name": "leave", "pclass": "number", "sex": "category", "age": "number", "cabin": "category",
        "fare": "number", "embarked": "category",
    }),
}  # fmt: skip


def write(path, header, rows, separator, encoding):
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wt", encoding=encoding, newline="") as file:
        csv.writer(file, delimiter=separator, lineterminator="\n").writerows([header, *rows])


@pytest.mark.sampled(2)
@pytest.mark.filterwarnings("ignore", category=UselessModelWarning)
@pytest.mark.parametrize("name", TABLES)
def test_two_commands_from_a_messy_table_to_predictions(name, tmp_path, run):
    make, options, share, kinds = TABLES[name]
    header, rows, separator, encoding = make(np.random.default_rng(4))
    table, model, out = tmp_path / f"{name}.csv{'.gz' * (name == 'soil')}", tmp_path / "m.npz", tmp_path / "out.csv"
    write(table, header, rows, separator, encoding)
    printed = run(["fit", str(table), *FAST, *options, "--report", "--save", str(model)])
    assert "held out: on 16 samples not seen: " in printed.out
    found = {column.name: column for column in TableModel.load(str(model)).encoder.columns_}
    assert {column: found[column].kind for column in kinds} == kinds
    for column in found.values():  # the report and what could be something else
        assert f"{column.kind:<8}  {column.told}" in printed.out
        assert not column.option or f"--columns {column.name}={column.option}" in printed.out
    new = [row[:-1] for row in rows]
    new[0] = ["" for _ in new[0]]
    strange = {column.name for column in found.values() if column.kind == "category"}
    new[1] = ["new" if column in strange else cell for column, cell in zip(header[:-1], new[1], strict=True)]
    write(table, header[:-1], new, separator, encoding)
    proba = [] if name in ("houses", "customers") else ["--proba"]
    assert main(["predict", str(model), str(table), "--out", str(out), "--keep", header[1], *proba]) == 0
    with out.open(encoding="utf-8", newline="") as file:
        predicted = list(csv.DictReader(file))
    assert len(predicted) == N
    assert [row[header[1]] for row in predicted[1:]] == [str(row[1]) for row in new[1:]]
    truth = [str(row[-1]) for row in rows]
    if proba:
        right = np.mean([row["prediction"] == own for row, own in zip(predicted, truth, strict=True)])
        chances = np.array([[float(row[key]) for key in row if key.startswith("p[")] for row in predicted])
        np.testing.assert_allclose(chances.sum(axis=1), 1.0, atol=1e-8)
    else:
        values = np.array([float(cell.strip("$").replace(",", "")) for cell in truth])
        right = 1.0 - np.mean((values - [float(row["prediction"]) for row in predicted]) ** 2) / values.var()
    assert right > share


def test_a_rating_names_regression_and_a_useless_model_says_so(tmp_path, run):
    header, rows, separator, encoding = customers(np.random.default_rng(4))
    rng = np.random.default_rng(2)
    table = tmp_path / "table.csv"
    rows = [[*row[:4], int(rng.integers(1, 6))] for row in rows]
    write(table, header, [*rows, rows[7]], separator, encoding)
    options = ["--ignore", "customer", "--test", "nested", "--scoring", "balanced_accuracy"]
    printed = run(["fit", str(table), *FAST, *options])
    assert "a rating is a number to predict: --task regress" in printed.out
    assert "1 row equal to an earlier one in all cells; if these are samples that were entered twice" in printed.out
    assert "nested cross-validation: on 65 samples not seen: accuracy" in printed.out
    assert "score: balanced_accuracy over 2 folds" in printed.out
    assert "taken for 5" in printed.out
    assert (
        "warning: on rows that it has not seen the model is not surely better than a constant prediction" in printed.err
    )


def test_probabilities_and_columns_that_are_not_there(tmp_path, refused):
    table, model = str(tmp_path / "table.csv"), str(tmp_path / "m.npz")
    write(tmp_path / "table.csv", *houses(np.random.default_rng(4)))
    assert main(["fit", table, *FAST, "--test", "none", "--save", model]) == 0
    line = refused(["predict", model, table, "--proba"])
    assert "--proba goes with a model of classes; this one predicts numbers" in line
    assert "--keep names 'id', which is no column" in refused(["predict", model, table, "--keep", "id"])
    assert main(["fit", table, *FAST, "--target", "kind", "--test", "none", "--save", model, "--force"]) == 0
    assert "fitted without a held-out part" in refused(["predict", model, table, "--proba"])


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("unit", [1.0, 1e6])
def test_probabilities_are_the_most_likely_ones_on_rows_that_the_model_has_not_seen(classes, unit, rng):
    """By the derivatives of the likelihood: 0 by each intercept, and a/100 by each slope a of scores up to 1."""
    truth = rng.choice(classes, p=[0.5, 0.2, 0.3][:classes] if classes == 3 else [0.7, 0.3], size=90)
    of_class = truth[:, None] == np.arange(classes)
    scores = unit * (rng.normal(size=(90, classes)) + 2.0 * of_class)
    scores = scores if classes == 3 else scores[:, 1] - scores[:, 0]
    calibration, columns = calibrated(scores, truth), scores.reshape(90, -1)
    left = (of_class - _probabilities(scores, calibration))[:, -columns.shape[1] :]
    most = np.abs(scores).max()
    np.testing.assert_allclose(left.sum(axis=0), 0.0, atol=2e-2)
    np.testing.assert_allclose(left.T @ columns / most, calibration[:, 1:] * most / 100.0, atol=2e-2)
    assert calibrated(scores, np.minimum(truth, classes - 2)) is None  # a class is not there


@pytest.mark.parametrize(
    ("y", "task", "classes"),
    [
        (np.repeat(np.arange(20.0), 2), "auto", True),
        (np.repeat(np.arange(21.0), 2), "auto", False),
        (np.repeat(np.arange(20.0), 2)[1:], "auto", False),
        (np.tile([1.0, 1.5, 2.0], 9), "auto", False),
        (np.tile([1.0, 1.5, 2.0], 9), "classify", True),
        (np.tile([0.0, 1.0], 9), "auto", True),
        (np.tile([0.0, 1.0], 9), "regress", False),
        (np.array(["a", "b", "b"]), "auto", True),
    ],
)
def test_few_whole_numbers_each_of_them_twice_are_classes(y, task, classes):
    assert targets_of(y, task)[1] is classes


def test_predictions_in_blocks_are_those_of_the_whole(tmp_path, monkeypatch, run):
    from mklref.cli import predict

    table, model = tmp_path / "table.csv", str(tmp_path / "m.npz")
    write(table, *ship(np.random.default_rng(4)))
    run(["fit", str(table), *FAST, "--test", "none", "--save", model])
    whole = run(["predict", model, str(table)])
    monkeypatch.setattr(predict, "ROWS", 10)
    parts = run(["predict", model, str(table)])
    assert parts.err == whole.err
    assert "of 63 classes are those of the column 'survived'" in parts.err
    read = [list(csv.reader(one.out.splitlines())) for one in (whole, parts)]
    assert [row[0] for row in read[0]] == [row[0] for row in read[1]]
    np.testing.assert_allclose(*[[float(row[1]) for row in one[1:]] for one in read], atol=1e-8)


def test_without_pandas_the_extra_is_named(tmp_path, monkeypatch, refused):
    import sys

    (tmp_path / "t.csv").write_text("x,y\n1,a\n2,b\n")
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert "pip install 'mklref[tables]'" in refused(["fit", str(tmp_path / "t.csv")])


def test_a_table_that_does_not_fit_is_refused_before_the_work(tmp_path, monkeypatch, refused):
    from mklref.estimators import samples

    write(tmp_path / "t.csv", *ship(np.random.default_rng(4)))
    monkeypatch.setattr(samples, "free_memory", lambda: 1e5)
    line = refused(["fit", str(tmp_path / "t.csv"), *FAST, "--test", "none"])
    assert "63 samples and 2 kernels take 0.000254 GB of memory in a search, and 0.0001 GB are free" in line
    assert "These would fit: 39 samples (--samples 39 in a shell)" in line


def test_the_smallest_class_may_have_a_sample_for_each_fold(tmp_path, refused):
    table = tmp_path / "few.csv"
    table.write_text("x,y,kind\n" + "".join(f"{k},{k % 3},{'few' if k < 3 else 'many'}\n" for k in range(9)))
    options = ["fit", str(table), "--C", "1", "--p", "1", "--kernels", "linear, rbf(1)", "--test", "none"]
    assert main([*options, "--folds", "3"]) == 0
    assert "the smallest class has 3 samples, fewer than --folds 4" in refused([*options, "--folds", "4"])
    table.write_text(table.read_text() + "9,0,one\n")
    assert "the smallest class has 1 sample, fewer than --folds 2" in refused([*options, "--folds", "2"])
