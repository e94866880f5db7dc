"""Sets of the papers: fetched by a stand-in for the network, recognised by their contents, refused if they differ."""

from __future__ import annotations

import os
from types import SimpleNamespace

import numpy as np
import pytest
import sklearn.datasets

from mklref import datasets
from mklref.datasets import remote
from mklref.exceptions import DataUnavailable, UnsafeFile

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


@pytest.mark.parametrize("change", [("1.5", "1.6"), ("id2,R", "id2,M"), ("id3,M,4,0\n", ""), ("?", "0")])
def test_other_contents_are_refused(entry, web, change):
    entry(**TABLES)
    web["https://x.org/small.data"] = TABLE.replace(*change)
    with pytest.raises(UnsafeFile, match=r"other contents than the small of the papers.*Remove it from"):
        datasets.load("small")


@pytest.mark.parametrize("page", ["<html>moved</html>", "", "1,2\n3,4\n5,6\n"])
def test_a_page_that_is_no_table_is_refused(entry, web, page):
    entry(**TABLES)
    web["https://x.org/small.data"] = page
    with pytest.raises(UnsafeFile, match="no table of 4 columns"):
        datasets.load("small")


def test_openml_with_labels_of_its_own(entry, monkeypatch):
    entry(openml=7, labels={"mine": "M", "rock": "R"})
    asked = {}

    def fetch_openml(**options):
        asked.update(options)
        return SimpleNamespace(data=X, target=np.array(["mine", "rock", "mine"], dtype=object))

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch_openml)
    data = datasets.load("small")
    assert data.y.tolist() == Y
    assert data.source == "https://www.openml.org/d/7"
    assert asked["data_id"] == 7


def test_a_refusal_of_openml_says_what_to_do(entry, monkeypatch):
    def fetch_openml(**options):
        raise ValueError("Dataset with data_id 7 not found.")

    entry(openml=7)
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch_openml)
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
