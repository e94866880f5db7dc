"""The attack by files finds faults that are planted in the readers."""

from __future__ import annotations

import numpy as np
import pytest

from mklref import _files, _untrusted, verify
from mklref.datasets import table
from mklref.testing.vectors import schema
from validation.attack import files


def real_part(value, name):
    return float(np.asarray(value).astype(complex).ravel()[0].real)


def accepted(*anything):
    """In place of a check that raises."""


FAULTS = {
    "members that shadow others": ("synthesis.npz", _files, "_require_distinct", accepted, "a name is there twice"),
    "keys that are given twice": ("s.json", _untrusted, "_unique", dict, "a key is there twice"),
    "more fields of a certificate": ("c.json", verify, "_require", accepted, "confirmed, with other fields"),
    "complex numbers": ("s.h5", schema, "_number", real_part, "ValueError|was read as"),
    "arrays of anything": ("s.json", _untrusted, "_plain", lambda value: value, "TypeError|was read as"),
    "columns by turns": ("t.csv", table, "_as_wide", lambda path, width, rows: rows, "IndexError|was read as"),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(monkeypatch, fault):
    target, home, name, planted, words = FAULTS[fault]
    write_all = files._write_all
    monkeypatch.setattr(files, "_write_all", lambda folder: [t for t in write_all(folder) if t.file == target])
    monkeypatch.setattr(home, name, planted)
    found = [finding.words for finding in files.attack(60, np.random.default_rng(5))]
    assert any(word in finding for finding in found for word in words.split("|")), found


def test_the_environment_is_left_as_it_was(monkeypatch):
    monkeypatch.setenv("MKLREF_MAX_BYTES", "12345678")
    assert files.attack(3, np.random.default_rng(0)) == []
    assert _untrusted.limit() == 12345678
