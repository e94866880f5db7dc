"""The recorder: why a run ends, in which order, and what Ctrl-C leaves."""

from __future__ import annotations

import math
from typing import NamedTuple

import pytest

from mklref._run import Best, Recorder
from mklref.exceptions import Interrupted
from mklref.solution import Status


def recorder(**options) -> Recorder:
    return Recorder("testing", **{"tol": 1e-6, "max_iter": 100, **options})


def test_max_iter_is_the_number_of_records():
    run = recorder(max_iter=3)
    assert [run.add(k, 1.0) for k in range(3)] == [None, None, Status.ITERATION_LIMIT]
    assert run.records == [0, 1, 2]


def test_each_start_has_as_many_records():
    run = recorder(max_iter=2)
    ends = []
    for _ in range(3):
        run.again()
        ends.append([run.add(0, 1.0), run.add(1, 1.0)])
    assert ends == [[None, Status.ITERATION_LIMIT]] * 3


def test_reached_comes_before_a_stop_and_both_before_the_limits():
    run = recorder(max_iter=1, max_time=0.0, callback=lambda record: True)
    assert run.late
    assert run.add(0, 1.0, Status.STATIONARY) is Status.STATIONARY
    assert run.add(1, 1.0) is Status.STOPPED
    run.callback = None
    assert run.add(2, 1.0) is Status.TIME_LIMIT
    run.deadline = math.inf
    assert run.add(3, 1.0) is Status.ITERATION_LIMIT


@pytest.mark.parametrize("best", ["the best so far", None])
def test_an_interrupt_carries_the_best_point_and_closes_the_line(best, monkeypatch):
    closed = []
    run = recorder()
    monkeypatch.setattr(run._line, "close", lambda: closed.append(True))
    with pytest.raises(Interrupted) as caught, run.running(lambda: best):
        raise KeyboardInterrupt
    assert caught.value.solution == best
    with pytest.raises(ZeroDivisionError), run.running(lambda: best):
        raise ZeroDivisionError
    assert closed == [True, True]


class Point(NamedTuple):
    lower: float
    upper: float

    @property
    def gap(self) -> float:
        return self.upper - self.lower


def test_the_best_bounds_may_be_those_of_different_points():
    best: Best[Point] = Best()
    points = [Point(0.0, 9.0), Point(4.0, 7.0), Point(5.0, 10.0), Point(-1.0, 6.0)]
    assert [best.note(point) for point in points] == points
    assert best.point == Point(4.0, 7.0)
    assert (best.lower, best.upper) == (5.0, 6.0)
