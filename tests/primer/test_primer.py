"""The primers against the general side, by the value of the program and by the certificate of its point."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from primer.rows import ROWS, Point, Row
from primer.sources import VALUE, alone, data

import mklref
from mklref import primer, reference
from mklref.regularizers import Fixed

POINT = 1e-4
"""Relative distance of the bounds from its variables, which a solver finds to fewer digits."""


@cache
def optimum(statement: tuple[str, ...], source: str) -> float:
    """The optimal value that rows of one statement share, from a narrow certified interval of the native solver."""
    row = next(row for row in ROWS if row.statement == statement)
    bounds = mklref.solve(row.problem(*data(source, row.loss)), tol=VALUE / 10).certificate
    assert bounds.relative_gap <= VALUE / 10
    return bounds.upper


def check_value(row: Row, value: float, source: str) -> None:
    """The value of the primer is the optimal value of the problem of the library."""
    distance = abs(row.value(value) / optimum(row.statement, source) - 1)
    assert distance < VALUE, "relative distance from the certified value"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("source", ["random1", "random4", "real"])
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_primer_has_the_value_of_its_problem(row, source):
    L, y = data(source, row.loss)
    value, *variables = row.call(alone(row.primer), L, y)
    check_value(row, value, source)
    check_point(row, row.point(y, *variables), row.problem(L, y), row.value(value))


def check_point(row: Row, point: Point, problem: mklref.Problem, value: float) -> None:
    """The certificate of what the primer found: its dual point bounds the value from below, its weights from above."""
    theta = None if point.theta is None else np.maximum(point.theta, 0.0)
    b = None if point.b is None else float(point.b)
    beta = point.beta
    if beta is None:  # that of the machine with these weights
        beta = mklref.solve(problem.replace(regularizer=Fixed(theta)), tol=1e-7).dual_coef
    bounds = mklref.certify(problem, beta, weights=theta, intercept=b)
    if point.beta is not None:
        assert bounds.lower == pytest.approx(value, rel=POINT)
    if theta is not None:
        assert bounds.upper == pytest.approx(value, rel=POINT)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_primer_has_the_value_of_the_general_formulations_on_real_data(row):
    L, y = data("real", row.loss)
    value = row.value(row.call(alone(row.primer), L, y)[0])
    for name in row.formulations.split():
        bounds = reference.solve(row.problem(L, y), name).certificate
        assert value == pytest.approx(0.5 * (bounds.lower + bounds.upper), rel=VALUE), name


PENALTY = (("1 / 2 *", "1.001 / 2 *"), ("C / 2 *", "1.001 * C / 2 *"), ("C / q *", "1.001 * C / q *"))
PENALTY += (("+ C *", "+ 1.001 * C *"), ("lam / 2 *", "1.001 * lam / 2 *"), ("- lam)", "- 1.001 * lam)"))
"""What stands before the penalty in a primer, and what makes it too large by a thousandth: the first that occurs."""


def too_large(source: str) -> str:
    """The source of a primer whose penalty is multiplied by 1.001."""
    head, quotes, body = source.rpartition('"""')
    before, after = next(pair for pair in PENALTY if pair[0] in body)
    return head + quotes + body.replace(before, after)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_penalty_that_is_too_large_by_a_thousandth_is_seen(row):
    L, y = data("real", row.loss)
    with pytest.raises(AssertionError, match="relative"):
        check_value(row, row.call(alone(row.primer, too_large), L, y)[0], "real")


def test_every_primer_is_tested():
    others = Path(__file__).with_name("test_others.py").read_text(encoding="utf-8")
    named = {row.primer for row in ROWS} | set(re.findall(r"alone\(\"(\w+)\"\)", others))
    assert named == set(primer.__all__)


@pytest.mark.parametrize("name", primer.__all__)
def test_a_primer_is_short(name):
    """About ten lines below the docstring, without the semi-infinite programs that are two programs in a loop."""
    lines = inspect.getsource(getattr(primer, name)).rpartition('"""')[2].strip().splitlines()
    assert len(lines) <= (20 if name.endswith(("silp", "sip")) else 14)


def test_a_primer_loads_cvxpy_and_nothing_of_the_library_but_itself():
    code = "import sys, mklref.primer as p; light = 'cvxpy' not in sys.modules; p.kloft_P; print(light, *sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    light, *loaded = done.stdout.split()
    assert light == "True"
    assert "cvxpy" in loaded
    assert {name for name in loaded if name.startswith("mklref")} == {"mklref", "mklref.primer", "mklref.primer.kloft"}


def test_an_unknown_primer_is_an_attribute_error():
    with pytest.raises(AttributeError, match="kloft_Q"):
        primer.kloft_Q  # noqa: B018
    assert set(dir(primer)) == set(primer.__all__)
