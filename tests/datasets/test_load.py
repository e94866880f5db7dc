"""Data sets by name, from a directory with a manifest, and from CSV files; labels; standardisation."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os

import numpy as np
import pytest

from mklref import _untrusted, datasets, kernels
from mklref.exceptions import DataUnavailable, InvalidInput, InvalidParameter, InvalidTarget, InvalidType, UnsafeFile

TABLE = "a,b,class\n1,2.5,yes\n-3,4e1,no\n5,6,yes\n"


@pytest.fixture
def csv(tmp_path):
    """Writes a CSV file and returns its path."""

    def write(text: str, name: str = "data.csv"):
        path = tmp_path / name
        path.write_bytes(gzip.compress(text.encode()) if name.lower().endswith(".gz") else text.encode())
        return path

    return write


@pytest.mark.parametrize("name", datasets.BUNDLED)
def test_bundled_sets_load_with_matching_shapes(name):
    data = datasets.load(name)
    assert data.X.shape == (len(data.y), len(data.features))
    assert data.X.dtype == np.float64
    assert "scikit-learn" in data.source


def test_breast_cancer_has_the_numbers_of_its_documentation():
    data = datasets.load("breast_cancer")
    classes, counts = np.unique(data.y, return_counts=True)
    assert data.X.shape == (569, 30)
    assert dict(zip(classes, counts, strict=True)) == {"malignant": 212, "benign": 357}


VARIABLES, CLASSES = [[1.0, 2.5], [-3.0, 40.0], [5.0, 6.0]], ["yes", "no", "yes"]


@pytest.mark.parametrize("name", ["plain.csv", "packed.csv.gz", "PACKED.CSV.GZ"])
@pytest.mark.parametrize(
    ("text", "target", "features", "X", "y"),
    [
        (TABLE, None, ("a", "b"), VARIABLES, CLASSES),
        *(  # with a byte order mark and blank lines
            ("\ufeff" + TABLE.replace(",", mark).replace("\n", "\r\n\r\n"), None, ("a", "b"), VARIABLES, CLASSES)
            for mark in ";\t"
        ),
        ("y,a\n1.5,2\n2.5,3\n", "y", ("a",), [[2.0], [3.0]], [1.5, 2.5]),
        ("0,1,y\n1.5,2,a\n0,1,7\n", None, ("0", "1"), [[1.5, 2.0], [0.0, 1.0]], ["a", "7"]),  # variables may be counted
        (  # other separators and ends of lines in quotes
            '\n"a, b";"c, d, e\nf";y\n\n1;2;"x\ny"\n3;4;z\n',
            None,
            ("a, b", "c, d, e\nf"),
            [[1.0, 2.0], [3.0, 4.0]],
            ["x\ny", "z"],
        ),
    ],
)
def test_csv(csv, text, target, features, X, y, name):
    data = datasets.read_csv(csv(text, name), target)
    assert (data.features, data.X.tolist(), data.y.tolist()) == (features, X, y)
    assert data.y.dtype.kind == ("U" if isinstance(y[0], str) else "f")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty; expected a header"),
        ("a,b,\n1,2,\n", "column 3 of 3 has no name. Name it in the header"),
        (",a,b\n0,1,2\n", "column 1 of 3 has no name.*pandas and R write row numbers"),
        ("a b y\n1 2 3\n", "has 1 column; .* separated by a comma, semicolon, tab or"),
        ("3,1,yes\n1,2,no\n", "no header: line 1 holds 3, 1, yes"),
        ("a;y\n0,5;1\n", r"'0,5', not a finite number \(write the decimal comma as a point\)"),
        ("a\n1\n", "1 column;"),
        ("a,b\n", "no rows"),
        ("1,2\n3,4\n", "no header"),
        ("0.5,-2,yes\n3,4,no\n", "no header: line 1 holds 0.5, -2, yes"),
        ("a,a,y\n1,2,3\n", "several columns named 'a'"),
        ("a,y\n1,2\n3\n", "line 3: 1 cells, the header has 2"),
        ("a,y\n1,2\n,4\n", "line 3: column 'a' is missing"),
        ("a,y\nred,2\n", "line 2: column 'a' is 'red', not a finite number"),
        ("a,y\nnan,2\n", "line 2: column 'a' is 'nan'"),
        ("a,y\n1e999,2\n", "column 'a' is '1e999'"),
        ("a,y\n1_0,2\n", "column 'a' is '1_0'"),
        ("a,y\n1,\n", "line 2: target 'y' is ''"),
        *((f"a,y\n1,{y}\n", rf"target 'y' is '{y}'") for y in ("NaN", "-nan", "inf", "Infinity", "1e999")),
        ("a,y\n1,+inf\n", r"target 'y' is '\+inf'"),
        ('"a";"b\nc";y\n1;2;3\n;2;3\n', "line 4: column 'a'"),
        # NumPy drops them from the end of a text, so that two classes would become one.
        ("a,y\n1,yes\0\n", "line 2: a zero byte"),
        (f"{'2' * 5000},{'1' * 5000},y\n1,2,3\n", "has no header: line 1 holds 2222"),
    ],
    ids=lambda text: text[:20],
)
def test_bad_csv_names_line_and_column(csv, text, message):
    with pytest.raises(InvalidInput, match=message) as refused:
        datasets.read_csv(csv(text))
    assert len(str(refused.value)) < 300


def test_samples_for_a_model(csv):
    """Counted variables without a target, repeated columns beside them, and targets that are not known yet."""
    X, y = datasets.read_samples(csv("1,0\n2,3\n"), ["0", "1"], "y")
    assert (X.tolist(), y) == ([[3.0, 2.0]], None)
    X, y = datasets.read_samples(csv("note,a,note,y\n1,2,3,\n4,5,6,7\n"), ["a"], "y")
    assert (X.tolist(), y) == ([[2.0], [5.0]], None)
    with pytest.raises(InvalidInput, match="several columns named 'a'"):
        datasets.read_samples(csv("a,a\n1,2\n"), ["a"])
    with pytest.raises(InvalidInput, match="no header"):
        datasets.read_samples(csv("1.5,2\n1,2\n"), ["a"])


def test_csv_that_is_none(csv, tmp_path):
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"a,b\n\xff\xfe,1\n")
    fake = tmp_path / "fake.csv.gz"
    fake.write_bytes(b"a,b\n1,2\n")
    cut = tmp_path / "cut.csv.gz"
    cut.write_bytes(gzip.compress(TABLE.encode())[:-12])
    for path in (binary, fake, cut):
        with pytest.raises(InvalidInput, match="not a readable CSV file"):
            datasets.read_csv(path)
    with pytest.raises(InvalidInput, match=r"byte 0xff is not utf-8-sig\. Save it as UTF-8"):
        datasets.read_csv(binary)
    for path, error in ((tmp_path / "absent.csv", FileNotFoundError), (tmp_path, OSError)):  # a directory is no pipe
        with pytest.raises(error, match=path.name):
            datasets.read_csv(path)
    with pytest.raises(InvalidParameter, match=r"target = 'z' is no column .* its columns: a, b, class"):
        datasets.read_csv(csv(TABLE), target="z")


@pytest.mark.parametrize(
    ("read", "says"),
    [
        (lambda path: datasets.read_csv(3), "path is 3; give the name of a file"),
        (lambda path: datasets.read_samples([path], ["a"]), "path is .*; give the name of a file"),
        (lambda path: datasets.read_frame(None), "path is None"),
        (lambda path: kernels.gene_sets(None), "path is None"),
        (lambda path: datasets.read_csv(path, ignore=3), "ignore is 3"),
        (lambda path: datasets.read_csv(path, 10**5000), "target = an integer beyond 1e.30 is no column"),
        (lambda path: datasets.read_csv(path, "two  blanks"), "target = 'two  blanks' is no column"),
        (lambda path: datasets.read_csv(path, np.eye(2)), r"target = array\(\[\[1., 0.\], \[0., 1.\]\]\) is no column"),
        (lambda path: datasets.read_csv(path, missing="no"), "missing is 'no'"),
        (lambda path: datasets.read_samples(path, None), "features is None"),
        (lambda path: next(datasets.read_frames(path, rows=0)), "rows = 0 must be an integer of at least 1"),
    ],
)
def test_arguments_of_readers_that_are_none_of_theirs_are_refused(csv, read, says):
    with pytest.raises((InvalidType, InvalidParameter), match=says):
        read(csv(TABLE))


def test_one_name_by_itself_is_that_of_one_column(csv):
    path = csv("a,b,ab,y\n1,2,3,4\n5,6,7,8\n")
    assert datasets.read_csv(path, ignore="ab").features == ("a", "b")
    assert datasets.read_samples(path, "ab")[0].tolist() == [[3.0], [7.0]]


def test_a_table_of_50000_columns_is_read(csv):
    """In the time that its cells take: no search through all names for each name."""
    names = [f"v{j}" for j in range(50_000)]
    path = csv("\n".join([",".join([*names, "y"]), ",".join(["1"] * 50_000 + ["a"]), ",".join(["2"] * 50_000 + ["b"])]))
    data = datasets.read_csv(path, ignore=names[:100])
    assert data.X.shape == (2, 49_900)
    X, y = datasets.read_samples(path, names[::-1], "y")
    assert (X.shape, y.tolist()) == ((2, 50_000), ["a", "b"])
    with pytest.raises(InvalidParameter) as refused:
        datasets.read_csv(path, "z")
    assert len(str(refused.value)) < 300


def test_tables_beyond_the_limit_are_not_unpacked(csv, monkeypatch):
    path = csv(TABLE + "0,0,no\n" * 10**5, "data.csv.gz")
    assert path.stat().st_size < 5000
    monkeypatch.setenv("MKLREF_MAX_BYTES", "100000")
    with pytest.raises(UnsafeFile, match="at most 100000 are read"):
        datasets.read_csv(path)


@pytest.mark.parametrize("read", [datasets.read_csv, datasets.read_frame])
def test_files_without_ends_of_lines_are_never_held(csv, monkeypatch, read):
    """Whoever looks for the encoding or for the separator reads them piece by piece."""
    monkeypatch.setattr(_untrusted, "_LONGEST", 1000)
    bomb = csv("a,b\n" + "1" * 10**4, "bomb.csv.gz")
    with pytest.raises(UnsafeFile, match="line 2 is longer than 1000 characters"):
        read(bomb)
    monkeypatch.setenv("MKLREF_MAX_BYTES", "9000")
    with pytest.raises(UnsafeFile, match="at most 9000 are read"):
        read(bomb)


def test_the_encoding_is_found_of_characters_across_pieces(csv, monkeypatch):
    monkeypatch.setattr(_untrusted, "_CHUNK", 3)
    assert datasets.read_frame(csv("aé,ü\nß,ö\n")).columns.tolist() == ["aé", "ü"]
    assert datasets.read_frame(csv("a,a,,a (3)\n1,2,3,4\n")).columns.tolist() == ["a", "a (2)", "column 3", "a (3)"]
    assert datasets.read_frame(csv("a,a,a (2)\n1,2,3\n")).columns.tolist() == ["a", "a (3)", "a (2)"]
    with pytest.raises(InvalidInput, match="no header: line 1 holds 3, 1, yes"):
        datasets.read_frame(csv("3,1,yes\n1,2,no\n"))
    for text in ("a,é\n1,2\n", "a,b\n1,é"):  # at the end é is the beginning of a character of UTF-8
        path = csv("")
        path.write_bytes(text.encode("cp1252"))
        assert "é" in datasets.read_frame(path).to_csv()


def add_set(directory, name, files, sha256=None):
    """Write the files of a set, and its entry of the manifest."""
    (directory / name).mkdir(parents=True)
    for file, content in files.items():
        (directory / name / file).write_bytes(content)
    rows = [
        {"path": f"{name}/{file}", "sha256": sha256 or hashlib.sha256(content).hexdigest()}
        for file, content in files.items()
    ]
    known = json.loads((directory / "MANIFEST.json").read_text())
    known["data_sets"].append({"name": name, "files": rows})
    (directory / "MANIFEST.json").write_text(json.dumps(known))


@pytest.fixture
def directory(tmp_path, monkeypatch):
    """A data directory with one good set, one that was changed, one that points outside, and one of another kind."""
    path, packed = tmp_path / "data", gzip.compress(TABLE.encode())
    path.mkdir()
    (path / "MANIFEST.json").write_text('{"data_sets": []}')
    add_set(path, "good", {"data.csv.gz": packed})
    add_set(path, "changed", {"data.csv.gz": packed}, "0" * 64)
    add_set(path, "outside", {"../../outside.csv.gz": packed})
    add_set(path, "pictures", {"train-images-idx3.idx": packed})
    monkeypatch.setenv(datasets.DIRECTORY, str(path))
    return path


@pytest.mark.parametrize("place", ["nowhere", "data/MANIFEST.json", "data/good"])
def test_a_directory_without_manifest(directory, monkeypatch, place):
    monkeypatch.setenv(datasets.DIRECTORY, str(directory.parent / place))
    with pytest.raises(DataUnavailable, match=r"MKLREF_DATA is '.*', where there is no MANIFEST.json: .* or unset it"):
        datasets.load("sonar")
    assert datasets.load("iris").X.shape == (150, 4)


def test_directory(directory):
    assert datasets.load("good").y.tolist() == ["yes", "no", "yes"]
    with pytest.raises(UnsafeFile, match=r"SHA-256 .* the manifest says 0000"):
        datasets.load("changed")
    with pytest.raises(UnsafeFile, match="points outside"):
        datasets.load("outside")
    with pytest.raises(InvalidParameter, match=r"'pictures' is unknown.*good, changed, outside"):
        datasets.load("pictures")
    for name in ("", 10_000 * "x"):
        with pytest.raises(InvalidParameter, match=r"data set .* is unknown"):
            datasets.load(name)
    for other in (lambda path: None, os.mkdir, getattr(os, "mkfifo", os.mkdir)):
        path = directory / "good" / "data.csv.gz"
        path.unlink() if path.is_file() else None
        other(path)
        with pytest.raises(DataUnavailable, match=r"data\.csv\.gz is no file, and the manifest says it is"):
            datasets.load("good")
        path.rename(path.with_suffix(f".{id(other)}")) if path.exists() else None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[]", "not a manifest"),
        ("{", "is no JSON"),
        ('{"data_sets": [{"name": "good", "files": []}, {"name": "x"}]}', "not a manifest"),
        ('{"data_sets": [{"name": ["x"], "files": []}]}', "not a manifest"),
        ('{"data_sets": [{"name": "x", "files": {}}]}', "not a manifest"),
        ('{"data_sets": [{"name": "x", "files": [{"path": 1, "sha256": "0"}]}]}', "not a manifest"),
        ('{"data_sets": [], "data_sets": []}', "is no JSON"),
        ('{"data_sets": 1}', "not a manifest"),
        ('{"data_sets": [{"name": "good", "files": []}, {"name": "good", "files": []}]}', "names 2 data sets 'good'"),
    ],
)
def test_damaged_manifest(directory, text, says):
    (directory / "MANIFEST.json").write_text(text)
    with pytest.raises(UnsafeFile, match=says):
        datasets.load("good")


def test_unknown_name_without_directory(monkeypatch):
    monkeypatch.delenv(datasets.DIRECTORY, raising=False)
    with pytest.raises(InvalidParameter, match=r"'soner' is unknown.*breast_cancer.*sonar.*set MKLREF_DATA"):
        datasets.load("soner")


def splits(train, test):
    packed = io.BytesIO()
    np.savez(packed, train=train, test=test)
    return packed.getvalue()


def test_realisations_come_with_their_set_which_is_found_without_its_folder(directory):
    table = gzip.compress(TABLE.encode())
    add_set(directory, "ida/banana", {"data.csv.gz": table, "splits.npz": splits([[0], [2]], [[2, 1], [0, 1]])})
    data = datasets.load("banana")
    assert data.name == "ida/banana"
    assert [(s.train.tolist(), s.test.tolist()) for s in data.splits] == [([0], [2, 1]), ([2], [0, 1])]
    assert data.take([2, 0]).splits == ()


@pytest.mark.parametrize(
    ("says", "bad"),
    [
        *(("no matrices of row numbers", bad) for bad in (([0], [1]), ([[0.5]], [[1.5]]), ([[0], [1]], [[2]]), (0, 1))),
        ("no matrices of row numbers", (np.zeros((1, 0)), np.zeros((1, 0)))),
        *(("does not split 3 rows", bad) for bad in (([[0]], [[3]]), ([[-1]], [[1]]), ([[0]], [[0]]))),
    ],
)
def test_splits_that_are_no_row_numbers_or_split_nothing(directory, says, bad):
    add_set(directory, "bad", {"data.csv.gz": gzip.compress(TABLE.encode()), "splits.npz": splits(*bad)})
    with pytest.raises(UnsafeFile, match=says):
        datasets.load("bad")


def test_missing_cells_are_nan_in_a_set_and_refused_in_a_table_of_ones_own(directory):
    text = TABLE.replace("2.5", "")
    add_set(directory, "holes", {"data.csv.gz": gzip.compress(text.encode())})
    data = datasets.load("holes")
    np.testing.assert_array_equal(data.X, [[1, np.nan], [-3, 40], [5, 6]])
    assert data.complete().y.tolist() == ["no", "yes"]
    with pytest.raises(InvalidInput, match=r"1 of 3 samples of holes have a missing cell; drop them by .complete"):
        data.standardized()


def idx(array):
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, dtype=">u4").tobytes()
    return gzip.compress(header + array.astype(np.uint8).tobytes())


def test_idx_files_become_one_set_with_one_split(directory):
    pictures = np.arange(5 * 2 * 3).reshape(5, 2, 3)
    files = {
        "train-images-idx3-ubyte.gz": idx(pictures[:3]),
        "train-labels-idx1-ubyte.gz": idx(np.array([7, 1, 7])),
        "t10k-images-idx3-ubyte.gz": idx(pictures[3:]),
        "t10k-labels-idx1-ubyte.gz": idx(np.array([1, 1])),
    }
    add_set(directory, "small-digits", files)
    data = datasets.load("small-digits")
    np.testing.assert_array_equal(data.X, pictures.reshape(5, 6))
    assert data.y.tolist() == ["7", "1", "7", "1", "1"]
    assert [part.tolist() for part in data.splits[0]] == [[0, 1, 2], [3, 4]]
    assert data.features[3] == "pixel[1,0]"
    add_set(directory, "damaged", {**files, "t10k-labels-idx1-ubyte.gz": gzip.compress(b"no idx at all")})
    with pytest.raises(UnsafeFile, match="not an idx file"):
        datasets.load("damaged")
    empty = {name: idx(np.zeros((0, 2, 3) if "images" in name else 0)) for name in files}
    for k, wrong in enumerate((empty, {**files, "t10k-images-idx3-ubyte.gz": idx(np.zeros((2, 1, 3)))})):
        add_set(directory, f"wrong{k}", wrong)
        with pytest.raises(UnsafeFile, match="expected pictures and their labels"):
            datasets.load(f"wrong{k}")


@pytest.mark.parametrize(
    ("y", "positive", "expected", "classes"),
    [
        (["b", "a", "b"], None, [1, -1, 1], ("a", "b")),
        (["b", "a", "b"], "a", [-1, 1, -1], ("b", "a")),
        ([0.0, 1.0, 0.0], None, [-1, 1, -1], ("0", "1")),
        ([1, 2], None, [-1, 1], ("1", "2")),
        ([-1.0, 1.0], None, [-1, 1], ("-1", "1")),
        ([True, False], None, [1, -1], ("False", "True")),
        (["x", "y", "z"], "y", [-1, 1, -1], ("not y", "y")),
        ([1000001, 1000002], None, [-1, 1], ("1000001", "1000002")),
        ([3.0, 1.5, 2.0], "1.5", [-1, 1, -1], ("not 1.5", "1.5")),
    ],
)
def test_encode(y, positive, expected, classes):
    labels, names = datasets.encode(np.array(y), positive)
    assert labels.tolist() == expected
    assert names == classes


@pytest.mark.parametrize(
    ("y", "positive", "message"),
    [
        (["a", "a"], None, "only the class a"),
        (["a", "b", "c"], None, r"3 classes \(a, b, c\).*--positive"),
        ([1.0, -1.0, np.nan], None, "target 2 is nan; every entry must be finite"),
        (["a", "b"], "c", "positive = 'c' is no class of the target; found a, b"),
        (["a", "b"], np.array([]), "positive = array.* is no class of the target; found a, b"),
        (["a", None], None, "classes of the types NoneType, str, which have no order"),
        ([[1, 2], [2, 1]], None, r"y has shape \(2, 2\); give one class for each sample"),
    ],
)
def test_encode_refuses(y, positive, message):
    with pytest.raises(InvalidTarget, match=message):
        datasets.encode(np.array(y), positive)
