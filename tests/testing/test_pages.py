"""What the pages for authors of solvers say about cases, faults and names in files is true."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from mklref.losses import LOSSES
from mklref.testing import FAULTS, select
from mklref.testing.cases.grid import CAPABILITIES, STRUCTURES
from mklref.testing.vectors import schema

DOCS = Path(__file__).parents[2] / "docs"
TESTING = (DOCS / "testing.md").read_text(encoding="utf-8")
VECTORS = (DOCS / "vectors.md").read_text(encoding="utf-8")


def test_the_number_of_cases_is_that_of_the_catalogue():
    count, grid = len(select(exclude="grid")), len(select(include="grid"))
    assert re.findall(r"runs the (\d+) cases outside the grid", TESTING) == [str(count)]
    assert re.findall(r"passes the (\d+) cases of the grid", TESTING) == [str(grid)]
    structures, capabilities = re.findall(r"product of (\d+) structures of data .* and\n(\d+) capabilities", TESTING)[0]
    assert (int(structures), int(capabilities)) == (len(STRUCTURES), len(CAPABILITIES))
    table = TESTING.partition("## Verdicts on this library")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \| 1e-\d \| (\d+) \| (\d+) \| (\d+) \|", table, flags=re.MULTILINE)
    assert len(rows) >= 10
    for solver, *counts in rows:
        assert sum(map(int, counts)) == count, solver


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_class_is_explained(fault):
    assert fault in TESTING


def test_every_name_of_the_schema_is_documented():
    table = VECTORS.partition("## The schema")[2].partition("## From Python")[0]
    documented = set(re.findall(r"`(\w+)\*?`", table))
    assert {*schema._PROBLEM_FIELDS, *schema._SOLUTION_FIELDS, schema._FREE, "facts"} - {
        "status",
        "solver",
    } <= documented
    parameters = {f"loss_{field.name}" for kind in LOSSES.values() for field in fields(kind) if field.init}
    assert parameters <= documented
    for kind in schema.REGULARIZERS.values():
        for field in fields(kind):
            if field.init and field.name not in ("g", "groups"):
                assert f"_{field.name}" in documented or f"regularizer_{field.name}" in documented, field.name
    assert {*LOSSES, *schema.REGULARIZERS, *schema.NAMED, *schema.CONCAVE} <= documented
