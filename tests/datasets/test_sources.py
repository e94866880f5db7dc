"""Data that are drawn: distributions from the definitions, the errors of Bayes, their truth, and their refusals.

Data that are fetched, the sets of the papers: recognised by their contents, refused if they differ.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import re
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
import sklearn.datasets
from scipy.stats import norm

from mklref import datasets
from mklref.datasets import remote
from mklref.datasets.record import mean_and_deviation
from mklref.exceptions import DataUnavailable, InvalidInput, InvalidParameter, InvalidType, UnsafeFile


@pytest.mark.parametrize("relevant", [1, 4, 50])
def test_kloft_toy_has_the_means_of_its_definition_and_a_constant_error_of_bayes(rng, relevant):
    data = datasets.kloft_toy(rng, 20000, relevant=relevant)
    theta = np.array([1.0] * relevant + [0.0] * (50 - relevant))
    np.testing.assert_array_equal(data.truth, theta)
    assert data.y.sum() == 0.0
    mean = 1.75 * theta / np.sqrt(relevant)
    for label in (-1.0, 1.0):
        np.testing.assert_allclose(data.X[data.y == label].mean(axis=0), label * mean, atol=0.05)
    np.testing.assert_allclose(np.cov((data.X - data.y[:, None] * mean).T), np.eye(50), atol=0.06)
    error = np.mean(np.sign(data.X @ theta) != data.y)
    assert error == pytest.approx(norm.cdf(-1.75), abs=0.006)


def test_two_norm(rng):
    data = datasets.two_norm(rng, 200000)
    assert np.mean(data.y[:, None] * data.X) == pytest.approx(2.0 / np.sqrt(20.0), abs=0.002)
    np.testing.assert_allclose(data.X[data.y > 0].mean(axis=0), 2.0 / np.sqrt(20.0), atol=0.05)
    assert np.mean(np.sign(data.X.sum(axis=1)) != data.y) == pytest.approx(norm.cdf(-2.0), abs=0.005)
    assert abs(data.y.mean()) < 0.03


def test_waveform_has_the_class_means_and_the_spread_of_its_definition(rng):
    data = datasets.waveform(rng, 200000)

    def triangle(peak):
        return np.array([max(6 - abs(i - peak), 0) for i in range(1, 22)])

    for label, (a, b) in enumerate([(7, 15), (7, 11), (11, 15)]):
        X = data.X[data.y == label]
        np.testing.assert_allclose(X.mean(axis=0), (triangle(a) + triangle(b)) / 2, atol=0.08)
        shares = np.linalg.pinv(np.stack([triangle(a), triangle(b)])).T @ X.mean(axis=0)  # of u and 1 - u the means
        np.testing.assert_allclose(shares, 0.5, atol=0.004)
        spread = 1.0 + (triangle(a) - triangle(b)) ** 2 / 12.0
        np.testing.assert_allclose(X.var(axis=0), spread, rtol=0.08)
    means = [(triangle(a) + triangle(b)) / 2 for a, b in ((7, 15), (7, 11), (11, 15))]
    np.testing.assert_allclose(data.truth, np.std(means, axis=0))


def test_signals_at_points_worked_out_by_hand():
    assert datasets.signal("Wave", 0.0) == pytest.approx(0.8)
    assert datasets.signal("Wave", 0.25) == pytest.approx(0.4)
    assert datasets.signal("Wave", 1 / 72) == pytest.approx(0.55 + 0.2 * np.cos(np.pi / 18))
    steps = np.array([0.1, 0.13, 0.15, 0.23, 0.25, 0.4, 0.44, 0.65, 0.76, 0.78, 0.81])  # half of a step is on it
    levels = np.array([0.0, 4.0, -1.0, 2.0, -2.0, 3.0, -1.2, 0.9, 5.2, 2.1, 4.2, 0.0])
    for shift, expected in ((-1e-6, levels[:-1]), (0.0, (levels[1:] + levels[:-1]) / 2.0), (1e-6, levels[1:])):
        np.testing.assert_allclose(datasets.signal("Blocks", steps + shift), expected, atol=1e-12)
    places, widths = np.array([[0.23, 0.33, 0.47, 0.69, 0.83], [500, 2000, 8000, 16000, 32000]])
    heights = 15.6676 * np.array([1, 2, 4, 3, 1])
    x = np.linspace(0.0, 1.0, 101)[:, None]
    np.testing.assert_allclose(
        datasets.signal("Spikes", x[:, 0]), np.exp(-widths * (x - places) ** 2) @ heights, rtol=1e-12
    )
    assert datasets.signal("LinChirp", 1 / 16) == pytest.approx(np.sin(np.pi / 4.0))
    x = (np.arange(8) + 1) / 8
    # A chirp of eight points is that of 512 points on a grid coarser by 8 in x^2.
    shorter = [0.0491, 0.1951, 0.4276, 0.7071, 0.9415, 0.9808, 0.6716, 0.0]
    np.testing.assert_allclose(datasets.signal("LinChirp", x / 8), shorter, atol=5e-5)


@pytest.mark.parametrize("name", datasets.SIGNALS)
def test_noise_has_the_ratio_asked_for(rng, name):
    data = datasets.noisy_signal(rng, name, 200000)
    f = datasets.signal(name, data.X[:, 0])
    assert f.std() / (data.y - f).std() == pytest.approx(5.0, rel=0.006)
    assert (np.diff(data.X[:, 0]) > 0.0).all()
    assert datasets.noisy_signal(rng, name, 2, snr=1e-100).y.shape == (2,)
    clean = datasets.noisy_signal(rng, name, 16, snr=np.inf, regular=True)
    np.testing.assert_array_equal(clean.y, datasets.signal(name, np.arange(1, 17) / 16))


def test_p300_like_data_respond_in_few_channels_around_one_time(rng):
    data = datasets.p300(rng, 6000, channels=6, frames=14, relevant=4)
    assert data.X.shape == (6000, 84)
    assert np.unique(data.y, return_counts=True)[1].tolist() == [5000, 1000]
    assert set(data.y) == {-1.0, 1.0}
    np.testing.assert_array_equal(data.groups, np.repeat(np.arange(6), 14))
    difference = data.X[data.y > 0].mean(axis=0) - data.X[data.y < 0].mean(axis=0)
    np.testing.assert_allclose(difference, data.truth, atol=0.15)
    sensitivity = data.truth.reshape(6, 14) / (0.5 * np.exp(-((np.arange(14) - 0.45 * 13) ** 2) / 2.0))
    np.testing.assert_allclose(sensitivity, sensitivity[:, :1].repeat(14, axis=1), rtol=1e-12)
    assert np.sum(sensitivity[:, 0] == 0.0) == 2
    assert np.sum((sensitivity[:, 0] > 0.5) & (sensitivity[:, 0] <= 1.0)) == 4
    noise = (data.X - (data.y > 0)[:, None] * data.truth).reshape(6000, 6, 14)
    correlation = np.corrcoef(noise[:, 0].T)
    np.testing.assert_allclose(correlation[0, :4], 0.6 ** np.arange(4), atol=0.06)
    assert abs(np.corrcoef(noise[:, 0, 5], noise[:, 1, 5])[0, 1]) < 0.06
    assert data.features[15] == "channel 2[2]"


def test_the_noise_of_a_seed_is_one_whatever_the_size_of_the_signal():
    """Two sets differ by what the parameter scales; sensitivities fill [1/2, 1]; noise has variance 1."""
    near, far = (datasets.kloft_toy(np.random.default_rng(1), 20, relevant=4, separation=s) for s in (1.0, 3.0))
    np.testing.assert_allclose(far.X - near.X, np.outer(near.y, near.truth), atol=1e-12)
    loud, still = (datasets.p300(np.random.default_rng(1), amplitude=amplitude) for amplitude in (3.0, 0.0))
    np.testing.assert_allclose(loud.X - still.X, np.outer(loud.y > 0.0, loud.truth), atol=1e-12)
    assert still.X.var() == pytest.approx(1.0, abs=0.012)
    alone = datasets.p300(np.random.default_rng(1), 6, channels=4000, frames=1, relevant=4000, amplitude=1.0).truth
    np.testing.assert_allclose([alone.min(), alone.max()], [0.5, 1.0], atol=1e-3)


def test_labels_of_single_cells_are_made_of_the_relevant_sets(rng):
    data = datasets.single_cells(rng, 4000, sets=(5, 4, 3), relevant=(1, 1, 0), noise=0.5)
    assert data.shape == (4000, 72)
    assert [name for name in data.features if name.endswith(" 1")] == ["gene 1", "peak 1", "protein 1"]
    assert set(np.unique(data.X[:, 30:54])) == {0.0, 1.0}
    assert dict(zip(*np.unique(data.y, return_counts=True), strict=True)) == {-1.0: 2000, 1.0: 2000}
    assert all(4 <= len(set(members)) == len(members) <= 12 for members in data.sets.values())
    w = np.linalg.lstsq(data.standardized().X, data.y)[0] ** 2
    assert w[data.truth > 0.0].mean() > 5.0 * w[data.truth == 0.0].mean()
    assert data.truth.sum() == sum(len(data.sets[name]) for name in data.relevant)
    assert [name.split()[0] for name in data.relevant] == ["genes", "peaks"]
    np.testing.assert_allclose(np.expm1(data.X[:, :30]).sum(axis=1), 1e4)
    for k in (0, 1):  # peaks in so many sets are open with the odds exp(s - 1.5), s ~ N(0, k)
        peaks = [j for j in range(30, 54) if sum(data.features[j] in members for members in data.sets.values()) == k]
        odds = np.exp(np.sqrt(k) * rng.normal(size=10**5) - 1.5)
        assert data.X[:, peaks].mean() == pytest.approx(np.mean(odds / (1.0 + odds)), abs=0.02)
    alike = datasets.single_cells(rng, 1000, sets=(2, 2, 2), relevant=(2, 1, 1), sizes=(4, 5), noise=100.0)
    likeness = np.corrcoef(alike.X.T, alike.y)  # one programme moves all sets, and noise the labels
    assert min(likeness[:12, 12:24].mean(), likeness[24:36, 12:24].mean()) > 0.0
    assert np.abs(likeness[-1, :-1]).max() < 0.2
    many = datasets.single_cells(rng, 9, relevant=(9, 3, 1), sizes=(4, 5))
    assert set(map(len, many.sets.values())) == {4, 5}
    assert many.relevant == tuple(name for name in many.sets if name in many.relevant)


@pytest.mark.parametrize(
    "make",
    [
        lambda rng: datasets.single_cells(rng, 20, sets=(3, 2, 2), relevant=(1, 1, 0)),
        lambda rng: datasets.kloft_toy(rng, 20, relevant=3),
        lambda rng: datasets.two_norm(rng, 20),
        lambda rng: datasets.waveform(rng, 20),
        lambda rng: datasets.noisy_signal(rng, "Blocks", 20),
        lambda rng: datasets.p300(rng, 20, channels=3, relevant=2),
    ],
)
def test_generators_are_seeded_and_pass_for_data_sets(make):
    one, same, other = (make(np.random.default_rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.X, same.X)
    assert not np.array_equal(one.X, other.X)
    assert one.X.shape == (len(one.y), len(one.features))
    part = one.standardized().subset(10, 0)
    assert (type(part), len(part.y)) == (type(one), 10)


def test_standardized(rng):
    X = rng.normal(size=(20, 3)) * [1.0, 50.0, 0.0] + [0.1, -7.0, 0.1]
    data = datasets.Dataset("d", X, np.ones(20), ("a", "b", "c"), "here").standardized()
    np.testing.assert_allclose(data.X.mean(axis=0), 0.0, atol=1e-14)
    np.testing.assert_allclose(data.X.std(axis=0), [1.0, 1.0, 0.0], atol=1e-14)
    np.testing.assert_array_equal(data.X[:, 2], 0.0)
    assert mean_and_deviation(np.full(3, 0.1)) == (0.1, 1.0)
    extreme = datasets.Dataset("d", X * [1e200, 1e-200, 1.0], np.ones(20), ("a", "b", "c"), "here").standardized()
    np.testing.assert_allclose(extreme.X, data.X, atol=1e-12)


def test_subset_is_seeded_and_keeps_rows_together():
    data = datasets.load("breast_cancer")
    drawn, again, other = data.subset(50, 1), data.subset(50, 1), data.subset(50, 2)
    np.testing.assert_array_equal(drawn.X, again.X)
    assert not np.array_equal(drawn.X, other.X)
    rows = [int(np.flatnonzero((x == data.X).all(axis=1))[0]) for x in drawn.X]
    assert rows == sorted(set(rows))
    assert drawn.y.tolist() == data.y[rows].tolist()
    assert data.subset(569, 1) is data


REFUSED = {
    InvalidParameter: [
        (lambda rng: datasets.kloft_toy(rng, 51, relevant=1), "n = 51 is odd.*take 52"),
        (lambda rng: datasets.kloft_toy(rng, 50, relevant=51), r"relevant = 51 must be an integer in \[1, 50\]"),
        (lambda rng: datasets.two_norm(rng, 1), r"n = 1 must be an integer in \[2, 1000000000\]"),
        *(
            (lambda rng, make=make: make(rng, 10**5000), r"n = an integer beyond 1e\+30 must be an integer in \[")
            for make in (datasets.two_norm, datasets.waveform, datasets.p300, datasets.single_cells)
        ),
        (lambda rng: datasets.two_norm(rng, 9).subset(-1, 0), "samples = -1 must be an integer of at least 1"),
        (lambda rng: datasets.noisy_signal(rng, "Bumps"), "'Bumps' is unknown; known names: LinChirp, Wave"),
        (lambda rng: datasets.single_cells(rng, 9, noise=1e308), r"noise = 1e\+308 must lie in \[-1e100, 1e100\]"),
        (lambda rng: datasets.noisy_signal(rng, "Wave", 1), r"n = 1 must be an integer in \[2"),
        (lambda rng: datasets.noisy_signal(rng, "Wave", snr=1e-320), r"snr = 1e-320 .* \[1e-100, inf\]: inf means no"),
        (lambda rng: datasets.signal("Wave", [0.5, 1.5]), r"outside of \[0, 1\]"),
        (lambda rng: datasets.single_cells(rng, 9, sizes=(4, 121)), r"sizes\[1\] = 121 .* \[4, 120\]"),
        (lambda rng: datasets.single_cells(rng, 9, relevant=(0, 81, 0)), r"relevant sets of peaks = 81 .* \[0, 80\]"),
        (lambda rng: datasets.single_cells(rng, 9, sizes=4), "sizes = 4 must be 2 integers"),
        (lambda rng: datasets.p300(rng, amplitude=np.inf), r"amplitude = inf must lie in \[-1e100, 1e100\]"),
        (lambda rng: datasets.p300(rng, relevant=65), r"relevant = 65 must be an integer in \[0, 64\]"),
        (lambda rng: datasets.p300(rng, correlation=1.0), r"correlation = 1.0 must lie in \[0, 1\)"),
    ],
    InvalidType: [
        (lambda rng: datasets.kloft_toy(rng, 50, relevant=1, separation="far"), r"separation is 'far' \(str\); give a"),
        (lambda rng: datasets.noisy_signal(rng, "Wave", snr=None), r"snr is None .* give a number in \[1e-100, inf"),
        (lambda rng: datasets.single_cells(rng, 9, noise=1j), r"noise is 1j \(complex\)"),
        (lambda rng: datasets.waveform(rng, 2.5), "n = 2.5 must be an integer"),
        (lambda rng: datasets.waveform(rng, "9"), r"n = '9' must be an integer in \[3"),
        (lambda rng: datasets.kloft_toy(rng, 50, relevant=1, d=2.5), r"d = 2\.5 must be an integer"),
        (lambda rng: datasets.waveform(0, 9), "rng is 0; give a numpy Generator"),
        (lambda rng: datasets.signal("Wave", "here"), "x is 'here'; give"),
    ],
}


@pytest.mark.parametrize(("error", "call", "says"), [(error, *row) for error, rows in REFUSED.items() for row in rows])
def test_numbers_out_of_range_and_what_is_none(rng, error, call, says):
    with pytest.raises(error, match=says):
        call(rng)


# --- sets of the papers, fetched by a stand-in for the network -------------------------------------------------------


TABLE = "A header, that is none\nid1,M,1.5,?\n\nid2,R, 2,-3\nid3,M,4,0\n"
X, Y = np.array([[1.5, np.nan], [2.0, -3.0], [4.0, 0.0]]), ["M", "R", "M"]
DATA = datasets.Dataset("small", X, np.array(Y), ("a", "b"), "")


@pytest.fixture
def entry(monkeypatch):
    """Makes the only published set, and sees to it that no data directory answers instead."""
    monkeypatch.delenv(datasets.DIRECTORY, raising=False)

    def make(**more):
        facts = {"sha256": remote.fingerprint(DATA), **more}
        monkeypatch.setitem(datasets.PUBLISHED, "small", remote.Published("small", ("a", "b"), **facts))

    return make


@pytest.fixture
def web(monkeypatch, tmp_path):
    """What fetch_file finds, by address; every other address is out of reach."""
    pages = {}

    def fetch_file(url, **options):
        if url not in pages:
            raise OSError("name resolution failed")
        path = tmp_path / url.rpartition("/")[2]
        path.write_text(pages[url])
        return str(path)

    monkeypatch.setattr(sklearn.datasets, "fetch_file", fetch_file)
    return pages


TABLES = {"urls": ("https://x.org/small.data",), "target": 1, "unused": (0,)}


def test_a_table_is_read_without_names_headers_and_blank_lines(entry, web):
    entry(**TABLES)
    web["https://x.org/small.data"] = TABLE
    data = datasets.load("small")
    np.testing.assert_array_equal(data.X, X)
    assert data.y.tolist() == Y
    assert (data.name, data.features, data.source) == ("small", ("a", "b"), "https://x.org/small.data")


def test_tables_are_put_one_below_the_other_in_any_order_of_rows(entry, web):
    entry(**{**TABLES, "urls": ("https://x.org/one", "https://x.org/two")})
    lines = TABLE.splitlines()
    web.update({"https://x.org/one": "\n".join([lines[4], lines[3]]), "https://x.org/two": lines[1]})
    assert datasets.load("small").y.tolist() == ["M", "R", "M"]


def test_out_of_reach_says_what_to_do(entry, web):
    entry(**TABLES)
    with pytest.raises(DataUnavailable, match=r"small is not .*x\.org.*name resolution.*Connect .* MKLREF_DATA"):
        datasets.load("small")


SPOILT = [("1.5", "1.6"), ("id2,R", "id2,M"), ("id3,M,4,0\n", ""), ("?", "0")]


@pytest.mark.parametrize("change", [*SPOILT, *((TABLE, page) for page in ("<html>", "", "1,2"))])
def test_other_contents_are_refused(entry, web, change):
    entry(**TABLES)
    web["https://x.org/small.data"] = TABLE.replace(*change)
    said = r"other contents than the small of the papers.*Remove it from"
    with pytest.raises(UnsafeFile, match=said if change[0] != TABLE else "no table of 4 columns"):
        datasets.load("small")


def test_openml_with_labels_of_its_own(entry, monkeypatch):
    entry(openml=7, labels={"mine": "M", "rock": "R"})
    found = SimpleNamespace(data=X, target=np.array(["mine", "rock", "mine"], dtype=object))
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch := Mock(return_value=found))
    data = datasets.load("small")
    assert data.y.tolist() == Y
    assert data.source == "https://www.openml.org/d/7"
    assert fetch.call_args.kwargs["data_id"] == 7


def test_a_refusal_of_openml_says_what_to_do(entry, monkeypatch):
    entry(openml=7)
    refusal = ValueError("Dataset with data_id 7 not found.")
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", Mock(side_effect=refusal))
    with pytest.raises(DataUnavailable, match=r"openml.org/d/7 \(Dataset with data_id 7 not found.*MKLREF_DATA"):
        datasets.load("small")


def test_standard_split_needs_the_standard_order(entry, web):
    first = remote.fingerprint(DATA.take([0, 1]))
    entry(**TABLES, train=2, train_sha256=first)
    web["https://x.org/small.data"] = TABLE
    (split,) = datasets.load("small").splits
    assert (split.train.tolist(), split.test.tolist()) == ([0, 1], [2])
    lines = TABLE.splitlines()
    web["https://x.org/small.data"] = "\n".join([lines[4], lines[1], lines[3]])
    assert datasets.load("small").splits == ()


def test_fingerprint_sees_values_and_labels_and_no_order():
    base = remote.fingerprint(DATA)
    assert base.startswith("6db3bcd07c6daaea")
    assert remote.fingerprint(DATA.take([2, 0, 1])) == base
    assert remote.fingerprint(datasets.Dataset("", X + 1e-3, DATA.y, ("a", "b"), "")) != base
    assert remote.fingerprint(datasets.Dataset("", X[:, ::-1], DATA.y, ("a", "b"), "")) != base
    assert remote.fingerprint(datasets.Dataset("", X, np.array(["M", "R", "R"]), ("a", "b"), "")) != base
    nearly = datasets.Dataset("", X * (1 + 1e-5), DATA.y, ("a", "b"), "")
    assert remote.fingerprint(nearly) != base
    assert remote.fingerprint(nearly, digits=3) == remote.fingerprint(DATA, digits=3)
    negative_zero = datasets.Dataset("", np.where(X == 0.0, -0.0, X), DATA.y, ("a", "b"), "")
    assert remote.fingerprint(negative_zero) == base


def test_published_sets_are_complete():
    names = "liver pima ionosphere wpbc sonar spambase yeast letter dna segment waveform titanic mnist"
    assert " ".join(datasets.PUBLISHED) == names
    for entry in datasets.PUBLISHED.values():
        assert len(set(entry.features)) == len(entry.features)
        assert len(entry.sha256) == 64
        assert bool(entry.urls) != bool(entry.openml)
        assert bool(entry.train) == bool(entry.train_sha256)


@pytest.mark.skipif(not os.environ.get(datasets.DIRECTORY), reason="needs the directory MKLREF_DATA")
@pytest.mark.parametrize("name", sorted(set(datasets.PUBLISHED) - {"mnist"}))
def test_the_directory_holds_the_published_contents(name):
    data, entry = datasets.load(name), datasets.PUBLISHED[name]
    assert remote.fingerprint(data, entry.digits) == entry.sha256
    assert data.features == entry.features
    assert bool(data.splits) == (bool(entry.train) or name == "titanic")


@pytest.mark.parametrize(
    ("pack", "says"),
    [
        (gzip.compress, "it is packed by gzip. Let its name end in .gz"),
        (bz2.compress, "it is packed by bzip2. Unpack it, or pack it by gzip"),
        (lzma.compress, "it is packed by xz. Unpack it, or pack it by gzip"),
        (lambda table: b"PK\3\4" + table, "it is a ZIP archive, as Excel, OpenDocument and NPZ files are. Save"),
        (lambda table: b"PAR1\x15" + table, "it is a Parquet file. Save it as CSV"),
        (lambda table: b"ARROW1\0\0" + table, "it is an Arrow file. Save it as CSV"),
        (lambda table: b"\x89HDF\r\n" + table, "it is an HDF5 file. Save it as CSV"),
        (lambda table: b"\xd0\xcf\x11\xe0" + table, "it is a sheet of an old Excel. Save it as CSV"),
        (lambda table: b"\x28\xb5\x2f\xfd" + table, "it is packed by zstd. Unpack it"),
    ],
    ids=lambda one: None if callable(one) else one.split(". ")[0],
)
@pytest.mark.parametrize("read", [datasets.read_csv, datasets.read_frame])
def test_what_is_taken_for_a_csv_file_is_called_what_it_is(pack, says, read, tmp_path):
    """Not by its first byte that is no text: "byte 0x81 is not cp1252. Save it as UTF-8" helps nobody."""
    path = tmp_path / "sheet.xlsx"
    path.write_bytes(pack(b"a,b\n1,2\n"))
    with pytest.raises(InvalidInput, match=re.escape(f"not a readable CSV file: {says}")):
        read(path)
