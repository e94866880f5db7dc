"""`mklref fit`, `predict` and `path`: from a CSV file to predictions, and what a user can do wrong on the way."""

from __future__ import annotations

import csv
import json
import os
import re
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from makers import rewrite

import mklref
from mklref import _path
from mklref._files import read_arrays
from mklref.cli import main, path as paths, predict
from mklref.cli.model import TableModel
from mklref.datasets import read_csv, read_frame
from mklref.estimators import folds
from mklref.estimators.table import Column
from mklref.exceptions import UnsafeFile

FAST = ["--kernels", "linear, rbf(1)", "--folds", "3"]
GRID = ["--p", "1,2", "--C", "0.1..10:3"]
ONE = ["--p", "2", "--C", "1,10", "--test", "none"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tables: two classes, three classes, numbers, each with 60 samples and a name for each row."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(60, 2)) * [10.0, 0.1] + [50.0, 0.0]
    ill = np.where((X[:, 0] - 50.0) / 10.0 + 10.0 * X[:, 1] > 0, "ill", "healthy")
    grade = np.digitize(X[:, 0], [45.0, 55.0])
    amount = 3.0 * X[:, 0] + 100.0 * X[:, 1] + rng.normal(size=60)
    home = tmp_path_factory.mktemp("tables")
    for name, y in (("ill", ill), ("grade", grade), ("amount", amount)):
        lines = [f"patient {i},{a},{b},{value}" for i, ((a, b), value) in enumerate(zip(X, y, strict=True))]
        (home / f"{name}.csv").write_text("\n".join([f"name,age,dose,{name}", *lines]) + "\n")
    return home


@pytest.fixture(scope="module")
def models(folder):
    """A model for each table."""
    for name in ("ill", "grade", "amount"):
        save = str(folder / f"{name}.npz")
        assert main(["fit", str(folder / f"{name}.csv"), "--ignore", "name", *FAST, *ONE, "--save", save]) == 0
    return folder


def rows(text):
    return list(csv.DictReader(text.splitlines()))


def test_two_lines_from_a_table_to_predictions(folder, run):
    """The promise of the guide, with a picture."""
    pytest.importorskip("matplotlib")
    table, model, picture = (str(folder / name) for name in ("ill.csv", "first.npz", "weights.png"))
    out = run(["fit", table, "--ignore", "name", *FAST, *GRID, "--save", model, "--plot", picture]).out
    assert "2 classes: healthy" in out
    assert "share of wrong classes over 3 folds; chosen: C = " in out
    (chosen,) = [line.split() for line in out.splitlines() if line.endswith(" <")]
    assert float(chosen[2]) < 0.25
    assert "relative gap" in out
    assert (folder / "weights.png").read_bytes().startswith(b"\x89PNG")
    captured = run(["predict", model, table])
    found = rows(captured.out)
    truth = [row["ill"] for row in rows((folder / "ill.csv").read_text())]
    right = sum(row["prediction"] == label for row, label in zip(found, truth, strict=True))
    assert right > 50
    assert all((float(row["score"]) > 0) == (row["prediction"] == "ill") for row in found)
    assert captured.err == f"mklref: {right} of 60 classes are those of the column 'ill'\n"


def test_ten_lines_of_python_from_a_table_to_a_picture(folder, tmp_path, monkeypatch, capsys):
    """The example of the guide, on a table of that name."""
    pytest.importorskip("matplotlib")
    guide = (Path(__file__).parents[2] / "docs" / "guide.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```py\n(.*?)^```", guide, flags=re.MULTILINE | re.DOTALL)
    assert len(example.splitlines()) <= 10
    (tmp_path / "patients.csv").write_text((folder / "ill.csv").read_text().replace("dose,ill", "dose,outcome"))
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "guide.md", "exec"), {})
    assert "relative gap" in capsys.readouterr().out
    assert (tmp_path / "weights.png").stat().st_size > 5000


def test_the_model_of_the_shell_is_that_of_python(models):
    data = read_csv(models / "ill.csv", ignore=["name"])
    model = TableModel.load(str(models / "ill.npz"))
    chosen, beta = model.estimator, np.zeros(len(data.y))
    beta[chosen.support_] = chosen.dual_coef_.ravel()
    kernels = mklref.kernels.parse("linear, rbf(1)").fit(data.standardized(), normalize="multiplicative")
    y = np.where(data.y == chosen.classes_[1], 1.0, -1.0)
    problem = mklref.Problem(kernels, y, C=chosen.C, regularizer=mklref.Lp(chosen.norm))
    found = mklref.certify(problem, beta, weights=chosen.weights_, intercept=float(chosen.intercept_[0]))
    assert found.is_optimal(chosen.tol)
    assert (found.lower, found.upper) == pytest.approx((chosen.certificate_.lower, chosen.certificate_.upper), rel=1e-9)
    scores = model.predict(read_frame(models / "ill.csv"))["score"]
    own = np.einsum("m,mij,j->i", chosen.weights_, problem.kernels.dense(), beta) + chosen.intercept_
    np.testing.assert_allclose(scores, own, rtol=1e-9, atol=1e-9)
    assert model.estimator.feature_names_in_.tolist() == ["age", "dose"]
    assert model.target == "ill"


def test_several_classes_have_a_score_each(models, run):
    captured = run(["predict", str(models / "grade.npz"), str(models / "grade.csv")])
    found = rows(captured.out)
    assert list(found[0]) == ["prediction", "score[0]", "score[1]", "score[2]"]
    for row in found:
        best = max("012", key=lambda name: float(row[f"score[{name}]"]))
        assert row["prediction"] == best
    assert int(captured.err.split()[1]) > 45


def test_numbers_come_back_in_their_own_units(models, run, monkeypatch):
    captured = run(["predict", str(models / "amount.npz"), str(models / "amount.csv"), "--out", str(models / "o.csv")])
    assert captured.out == ""
    truth = read_csv(models / "amount.csv", ignore=["name"]).y
    predicted = np.array([float(row["prediction"]) for row in rows((models / "o.csv").read_text())])
    r2 = 1 - np.sum((truth - predicted) ** 2) / np.sum((truth - truth.mean()) ** 2)
    assert r2 > 0.95
    assert captured.err == f"mklref: R^2 = {r2:.4f} against the column 'amount'\n"
    comma = models / "comma.csv"  # in the target
    text = re.sub(r"\.(\d+)$", r",\1", (models / "amount.csv").read_text().replace(",", ";"), flags=re.M)
    last = re.sub(r"(,\d{3})\d+\n$", r"\1\n", text)  # by itself it could be of thousands, and the first one has no mark
    units = re.sub(r"(,\d+)$", r"\1 kg", text, flags=re.M)
    for size, written in ((60, last), (59, last), (1, re.sub(r",\d+\n", "\n", text, count=1)), (60, units)):
        monkeypatch.setattr(predict, "ROWS", size)
        comma.write_text(written)
        assert run(["predict", str(models / "amount.npz"), str(comma)]).err[:18] == captured.err[:18]


def test_columns_are_found_by_name_and_others_ignored(models, tmp_path, refused, run):
    new = tmp_path / "new.csv"
    new.write_text("dose;note;age\n0.2;any text;55\n-0.2;;45\n")
    captured = run(["predict", str(models / "ill.npz"), str(new)])
    assert [row["prediction"] for row in rows(captured.out)] == ["ill", "healthy"]
    assert captured.err == ""
    (tmp_path / "one.csv").write_text("x\n1\n")
    line = refused(["predict", str(models / "ill.npz"), str(tmp_path / "one.csv")])
    assert "the table lacks the column 'age' that the model reads (2 of 2 are not there)" in line


def test_path_prints_writes_and_draws(folder, run):
    pytest.importorskip("matplotlib")
    out, picture = folder / "path.csv", folder / "path.svg"
    options = ["--C", "0.01..10:4", "--out", str(out), "--plot", str(picture)]
    lines = run(["path", str(folder / "ill.csv"), "--ignore", "name", *FAST, *options]).out.splitlines()
    printed = [line.split() for line in lines if line.strip()[:1].isdigit()]
    table = rows(out.read_text())
    assert [float(row["C"]) for row in table] == pytest.approx([0.01, 0.1, 1.0, 10.0])
    assert [line[1] for line in printed] == [row["kernels"] for row in table]
    for row, line in zip(table, printed, strict=True):
        assert float(row["linear"]) + float(row["rbf:1"]) == pytest.approx(1.0, abs=1e-6)
        errors = [float(row[f"error of fold {f}"]) for f in (1, 2, 3)]
        assert float(line[4]) == pytest.approx(np.mean(errors), abs=1e-4)
        assert float(row["relative gap"]) <= 1e-3
    objectives = [float(row["objective"]) for row in table]
    assert objectives == sorted(objectives)
    assert "<svg" in picture.read_text()


@pytest.mark.parametrize(("name", "lines"), [("grade", 9), ("amount", 8)])
def test_path_of_classes_and_of_numbers(folder, run, monkeypatch, name, lines):
    """A machine for each class, and numbers in units of their standard deviation from their mean."""
    stated, honest = [], paths._problem
    monkeypatch.setattr(paths, "_problem", lambda *given: stated.append(honest(*given)) or stated[-1])
    out = run(["path", str(folder / f"{name}.csv"), "--ignore", "name", *FAST, "--C", "0.1,1"]).out
    assert len(out.splitlines()) == lines
    assert len(stated[0].machines) == (3 if name == "grade" else 1)
    assert name == "grade" or [stated[0].y.mean(), stated[0].y.std()] == pytest.approx([0.0, 1.0], abs=1e-12)


@pytest.mark.parametrize("command", ["fit", "path"])
def test_a_fit_that_time_ends_says_which_gaps_are_left(folder, run, command):
    """A time of each fit: enough of it changes nothing, and too little leaves gaps, in the folds too."""
    given = [command, str(folder / "ill.csv"), "--ignore", "name", *FAST, "--p", "1", "--C"]
    given += ["1e-6,100" if command == "path" else "10,100"]  # of a path the first point is optimal at once
    whole = run(given).out
    assert "relative gaps in the folds" not in whole
    assert run([*given, "--max-time", "3e6"]).out == whole
    out = run([*given, "--max-time", "1e-9"], code=1).out
    left = re.search(r"in the folds: up to (\S+), more than --tol 0.001; raise --max-time", out)
    assert float(left.group(1)) > 1e-3


def test_numbers_have_no_class_to_drop(folder, refused):
    fit = ["fit", str(folder / "amount.csv")]
    assert "there are 60 samples, fewer than --folds 61; give fewer folds.\n" in refused([*fit, "--folds", "61"])
    assert "--class-weight goes with a target of classes" in refused([*fit, "--class-weight", "balanced"])


def test_the_task_can_be_said(folder, run):
    fit = ["fit", str(folder / "grade.csv"), "--ignore", "name", *FAST, "--C", "1", "--task", "regress"]
    assert "1 - R^2" in run(fit).out
    assert "3 classes: setosa (50), versicolor (50)" in run(["fit", "iris", *FAST, *ONE]).out  # of a data set by name


@pytest.mark.parametrize(
    ("test", "k", "says"),
    [
        ("0.25", 8, r"interrupted after \d+ of 18 fits in the folds\. C = "),
        ("nested", 24, "evaluate was interrupted: 1 of 3 fits are what it tells"),
        ("0.25", 19, ""),
    ],
)
def test_a_fit_that_is_interrupted_saves_the_best_of_what_was_compared(folder, tmp_path, interrupt, test, k, says, run):
    interrupt(folds, "run_from", k)
    save, table = str(tmp_path / "model.npz"), str(folder / "ill.csv")
    grid = ["--p", "1,2", "--C", "0.1..1000:3", "--kernels", "linear, rbf(0.1)"]
    captured = run(["fit", table, "--ignore", "name", *FAST, *grid, "--test", test, "--save", save], 130)
    assert re.search(says, captured.err)
    assert captured.err.endswith("mklref: interrupted; the model is the best of what was compared\n")
    assert ("on 20 samples not seen" in captured.out) == (test == "nested")
    assert main(["predict", save, table]) == 0


def test_a_path_that_is_interrupted_has_the_points_that_are_finished(folder, capsys, tmp_path, interrupt):
    table, out = str(folder / "ill.csv"), tmp_path / "path.csv"
    options = ["path", table, "--ignore", "name", *FAST, "--C", "0.01..10:4", "--out", str(out)]
    interrupt(folds, "run_from", 6)
    assert main(options) == 130
    folds_of = [(bool(row["error of fold 1"]), bool(row["error of fold 3"])) for row in rows(out.read_text())]
    assert folds_of == 4 * [(True, False)]
    interrupt(folds, "run_from", 1)  # before a fold has a point
    assert main([*options, "--force"]) == 130
    assert not any(row["error of fold 1"] for row in rows(out.read_text()))
    interrupt(_path, "solve", 3)
    assert main([*options, "--force"]) == 130
    assert [row["C"] for row in rows(out.read_text())] == ["0.01", "0.1"]
    assert capsys.readouterr().err.endswith("mklref: interrupted; 2 of 4 points are there\n")


def test_predictions_that_are_interrupted_are_written_so_far(models, capsys, tmp_path, interrupt, monkeypatch):
    monkeypatch.setattr(predict, "ROWS", 25)
    interrupt(TableModel, "predict", 2)
    out = tmp_path / "out.csv"
    assert main(["predict", str(models / "ill.npz"), str(models / "ill.csv"), "--out", str(out)]) == 130
    assert len(rows(out.read_text())) == 25
    assert capsys.readouterr().err.endswith("interrupted; predictions of the first 25 rows are there\n")
    before = out.read_text()
    interrupt(TableModel, "predict", 1)  # before there is anything to write
    assert main(["predict", str(models / "ill.npz"), str(models / "ill.csv"), "--out", str(out), "--force"]) == 130
    assert out.read_text() == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--ignore", "id"], "--ignore names 'id', which is no column; there are name, age, dose, ill"),
        (["--ignore", "name,age,dose"], "no variable left"),
        (["--ignore", "name,ill"], "--ignore names 'ill', the target; say by --target which column to predict"),
        (["--seed", "4294967296"], r"argument --seed: 4294967296 must be below 2\^32"),
        (["--target", "x"], "--target names 'x', which is no column"),
        (["--id", "x"], "--id names 'x', which is no column"),
        (["--id", "name,ill"], "--id names 'ill', the target; say by --target which column to predict"),
        (["--columns", "age"], "'age' is no NAME=KIND"),
        (["--columns", "age=date:dmy"], "column 'age': 'date:dmy': its cells, such as .* are no such dates"),
        (["--columns", "age=colour"], "column 'age': 'colour' is no kind of column; known are number, category"),
        (["--columns", "years=number"], "columns names 'years', which is not there"),
        (["--columns", "age=leave,dose=leave"], "no column says anything"),
        (["--rule", "any"], "invalid choice: 'any'"),
        (["--test", "2"], r"2 must be a share in \(0, 1\), nested, or none"),
        (["--class-weight", "well=2"], "--class-weight names 'well', no class; there are healthy, ill"),
        (["--class-weight", "ill=2,healthy"], "'healthy' is no CLASS=WEIGHT"),
        (["--class-weight", "ill=2,ill=3"], "'ill' is there twice; say it once"),
        *(([option, ""], "the name is empty") for option in ("--encoding", "--separator", "--scoring", "--target")),
        (["--scoring", "acuracy"], "acuracy"),
        (["--encoding", "latin-99"], "cannot be read so: unknown encoding: latin-99. Encodings are such as"),
        (["--ignore", "name", "--missing", "ill,healthy"], "the target 'ill' has no cells: is --target the right"),
        (["--ignore", "name", "--task", "regress"], "the target holds 'healthy', no number"),
        (["--ignore", "name", "--loss", "squared"], "loss squared does not go with a target of classes"),
        (["--ignore", "name", "--folds", "1"], "argument --folds: '1' is not an integer of at least 2"),
        (["--ignore", "name", "--folds", "50"], "the smallest class has .* fewer than --folds 50"),
        (["--ignore", "name", "--C", "0"], r"--C: 0 must lie in \(0, inf\)"),
        (["--ignore", "name", "--C", "1..10:3.5"], r"write LOW..HIGH:COUNT"),
        (["--ignore", "name", "--C", "10..1:3"], "positive, finite and in this order"),
        (["--ignore", "name", "--C", "1..10:1001"], "COUNT from 2 to 1000"),
        (["--ignore", "name", "--C", "0..1:3"], "positive, finite and in this order"),
        (["--ignore", "name", "--p", "0.5"], r"p = 0.5 must lie in \[1, inf\]"),
        (["--ignore", "name", "--kernels", "rbff(1)"], "rbff"),
        (["--ignore", "name", "--plot", "weights.xyz"], "cannot draw weights.xyz: end its name in .png, .svg or .pdf"),
        (["--ignore", "name", "--save", "/nowhere/at/all.npz"], "is no directory"),
        (["--ignore", "name", "--save", "."], "cannot write .: it is a directory; give the name of a file in it"),
        (["--samples", "4", "--ignore", "name"], "fewer than --folds 5"),
        (["--ignore", "name", "--max-time", "0"], r"--max-time: 0 must lie in \(0, inf\]"),
    ],
)
def test_every_error_of_fit_names_its_remedy(folder, options, message, refused):
    assert re.search(message, refused(["fit", str(folder / "ill.csv"), *options]))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes there")
@pytest.mark.parametrize("name", ["pipe", "pipe.csv.gz"])
@pytest.mark.parametrize("command", [["fit"], ["solve", "--data"], ["predict", "ill.npz"], ["path"]])
def test_a_pipe_in_the_place_of_a_table_is_named(models, tmp_path, refused, command, name):
    """Nobody writes to it: whoever opens it waits."""
    os.mkfifo(pipe := tmp_path / name)
    where = [str(models / word) if word.endswith(".npz") else word for word in command]
    line = refused([*where, str(pipe)])
    assert f"{pipe} is a pipe or a device, which can be read only once. Write its content to a file" in line


def test_files_that_are_no_models(models, tmp_path, refused):
    other = tmp_path / "estimator.npz"
    TableModel.load(str(models / "ill.npz")).estimator.save(other)
    for path in (models / "ill.csv", other):
        refused(["predict", str(path), str(models / "ill.csv")])
    with pytest.raises(UnsafeFile, match="no model of a table; write one by: mklref fit"):
        TableModel.load(str(other))
    for change in ({"mean": np.zeros(3)}, {"calibration": np.zeros(2)}, {"estimator": np.zeros(9, dtype=np.uint8)}):
        rewrite(models / "ill.npz", change, to=other)
        with pytest.raises(UnsafeFile):
            TableModel.load(str(other))


@pytest.mark.parametrize("name", ["table of classes", "table of numbers"])
def test_models_of_the_first_format_are_read(name, tmp_path):
    """They knew numbers alone, and the scale of the target was beside the estimator."""
    saved = np.load(Path(__file__).parents[1] / "estimators" / "first_format.npz")
    (tmp_path / "model.npz").write_bytes(saved[name].tobytes())
    model = TableModel.load(str(tmp_path / "model.npz"))
    frame = pd.DataFrame(saved["X_new"], columns=["a", "b"])
    np.testing.assert_allclose(list(model.predict(frame).values())[-1], saved[f"{name}, scores"], rtol=1e-9, atol=1e-12)
    model.save(str(tmp_path / "again.npz"))
    again = TableModel.load(str(tmp_path / "again.npz"))
    np.testing.assert_allclose(list(again.predict(frame).values())[-1], saved[f"{name}, scores"], rtol=1e-9, atol=1e-12)


def plain(**changes):
    """The columns of the table of the two classes, of which the first is changed."""
    age = asdict(Column("number", ".", name="age", mean=50.0, deviation=10.0))
    return json.dumps({"missing": [], "columns": [age | changes, age | {"name": "dose"}]})


@pytest.mark.parametrize(
    ("arrays", "facts", "inner_arrays", "inner_facts", "says"),
    [
        ({}, {}, {}, {"n_features_in": 10**29}, "n_features_in = 1e+29 is no int"),
        ({}, {}, {"classes": None}, {}, "expected classes, columns"),
        ({}, {"columns": "[]"}, {}, {}, "its table is none"),
        ({}, {"columns": "{"}, {}, {}, "changed.npz, text 'columns', is no JSON"),
        ({}, {"columns": 10**6}, {}, {}, "columns = 1000000 is no str"),
        ({}, {"columns": plain(name="height")}, {}, {}, "its columns are not those of its estimator"),
        ({}, {"columns": plain(deviation=0.0)}, {}, {}, "the column 'age' does not fit together"),
        ({}, {"columns": plain(kind="path")}, {}, {}, "the column 'age' does not fit together"),
        ({}, {"columns": plain(eval="x")}, {}, {}, "unexpected keyword argument 'eval'"),
        ({}, {"kind": ["MKLClassifier"]}, {}, {}, "kind = ['MKLClassifier'] is no str"),
        ({}, {"kind": "MKLRegressor"}, {}, {}, "holds a MKLClassifier"),
        ({}, {"target": None}, {}, {}, "its facts are columns, format, identifiers, kind"),
        ({"mean": np.ones(2)}, {}, {}, {}, "its arrays are"),
        ({"calibration": np.array([[np.nan, 0.0]])}, {}, {}, {}, "its calibration does not fit"),
    ],
)
def test_hostile_models_are_one_line(models, tmp_path, arrays, facts, inner_arrays, inner_facts, says, refused):
    inner = tmp_path / "inner.npz"
    inner.write_bytes(read_arrays(models / "ill.npz")[0]["estimator"].tobytes())
    rewrite(inner, inner_arrays, inner_facts)
    estimator = np.frombuffer(inner.read_bytes(), dtype=np.uint8)
    rewrite(models / "ill.npz", {"estimator": estimator, **arrays}, facts, to=tmp_path / "changed.npz")
    assert says in refused(["predict", str(tmp_path / "changed.npz"), str(models / "ill.csv")])


def test_columns_of_a_data_set_are_known_to_estimators(folder):
    data = read_csv(folder / "ill.csv", ignore=["name"])
    model = mklref.MKLClassifier("per_variable(linear), on(both, [age, dose], rbf(1))").fit(data, data.y)
    assert model.kernel_names_ == ("linear[age]", "linear[dose]", "rbf:1[both]")
    model.predict(data)
    with pytest.raises(ValueError, match="X has the columns dose, age, the model was fitted to age, dose"):
        model.predict(mklref.datasets.Dataset("", data.X, data.y, ("dose", "age"), ""))


def test_classes_are_numbers_with_all_their_digits(folder, tmp_path, run):
    """20230101 and 20230102 agree in six digits."""
    days = (folder / "ill.csv").read_text().replace(",ill\n", ",20230101\n").replace(",healthy", ",20230102")
    (tmp_path / "days.csv").write_text(days.replace("dose,20230101", "dose,day"))
    table, model = str(tmp_path / "days.csv"), str(tmp_path / "days.npz")
    assert "2 classes: 20230101 (" in run(["fit", table, "--ignore", "name", *FAST, *ONE, "--save", model]).out
    captured = run(["predict", model, table])
    assert {row["prediction"] for row in rows(captured.out)} == {"20230101", "20230102"}
    assert int(captured.err.split()[1]) > 50


def test_variables_of_any_scale(folder, tmp_path, refused, run):
    """Squares of 1e200 and of 1e-200 leave float64; a cell that does so in the units of the table is named."""
    lines = [line.split(",") for line in (folder / "ill.csv").read_text().splitlines()]
    scaled = [f"{age}e200,{dose}e-200,{ill}" for _, age, dose, ill in lines[1:] if "e" not in dose]
    (tmp_path / "scaled.csv").write_text("\n".join(["age,dose,ill", *scaled]) + "\n")
    model = str(tmp_path / "scaled.npz")
    assert main(["fit", str(tmp_path / "scaled.csv"), *FAST, *ONE, "--save", model]) == 0
    assert int(run(["predict", model, str(tmp_path / "scaled.csv")]).err.split()[1]) > 0.8 * len(scaled)
    (tmp_path / "far.csv").write_text("age,dose\n5e201,1e200\n")
    line = refused(["predict", model, str(tmp_path / "far.csv")])
    assert "row 1: 'dose' is 1e+200, too far from the table that the model was fitted to" in line
