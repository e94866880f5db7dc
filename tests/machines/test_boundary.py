"""What the compiled loops refuse: wrong shapes, types and indices never reach them."""

from __future__ import annotations

import numpy as np
import pytest
from machines.compiled import needs_the_loops

from mklref.machines.loops import loops

pytestmark = needs_the_loops


def combine(**changes):
    """A valid call of combine_rows with some arguments changed."""
    K = np.eye(3)
    arguments = {
        "stack": loops.Stack([K, K]),
        "weights": np.ones(2),
        "index": np.array([0, 2]),
        "rows": np.zeros((3, 3)),
        "ready": np.zeros(3, dtype=np.uint8),
        "threads": 1,
    }
    loops.combine_rows(**{**arguments, **changes})


def apply(**changes):
    K = np.eye(3)
    arguments = {
        "stack": loops.Stack([K, K]),
        "kernels": np.array([0, 1]),
        "index": np.array([0, 2]),
        "delta": np.ones(2),
        "images": np.zeros((2, 3)),
        "threads": 1,
    }
    loops.apply_rows(**{**arguments, **changes})


def smo(**changes):
    arguments = {
        "stack": loops.Stack([np.eye(3)]),
        "weights": np.ones(1),
        "rows": np.zeros((3, 3)),
        "ready": np.zeros(3, dtype=np.uint8),
        "diagonal": np.ones(3),
        "lower": np.zeros(3),
        "upper": np.ones(3),
        "absolute": 0.0,
        "equality": True,
        "beta": np.zeros(3),
        "gradient": np.zeros(3),
        "tol": 1e-6,
        "max_steps": 10,
        "max_seconds": 1.0,
    }
    loops.smo(**{**arguments, **changes})


def gather(**changes):
    arguments = {
        "stack": loops.Stack([np.eye(3)]),
        "index": np.array([0, 2]),
        "parts": np.zeros((1, 2, 2)),
        "threads": 1,
    }
    loops.gather(**{**arguments, **changes})


def test_the_calls_below_are_valid_before_they_are_changed():
    gather()
    combine()
    apply()
    smo()


@pytest.mark.parametrize(
    ("call", "changes", "says"),
    [
        (combine, {"weights": np.ones(3)}, r"weights must be \(M,\)"),
        (combine, {"rows": np.zeros((3, 4))}, r"rows must be \(n, n\)"),
        (combine, {"ready": np.zeros(2, dtype=np.uint8)}, r"ready must be \(n,\)"),
        (combine, {"index": np.array([0, 3])}, "an index is out of range"),
        (combine, {"index": np.array([-1])}, "an index is out of range"),
        (apply, {"images": np.zeros((3, 3))}, r"images must be \(M, n\)"),
        (apply, {"delta": np.ones(3)}, "index and delta must have one length"),
        (apply, {"kernels": np.array([2])}, "an index is out of range"),
        (apply, {"index": np.array([0, 3])}, "an index is out of range"),
        (gather, {"index": np.array([0, 3])}, "an index is out of range"),
        (gather, {"parts": np.zeros((1, 2, 3))}, r"parts must be \(M, k, k\)"),
        (gather, {"parts": np.zeros((2, 2, 2))}, r"parts must be \(M, k, k\)"),
        (gather, {"parts": np.zeros((1, 2, 2), dtype=np.float32)}, "the dtype of the stack"),
        (smo, {"weights": np.ones(2)}, r"weights must be \(M,\)"),
        (smo, {"rows": np.zeros((2, 3))}, r"rows must be \(n, n\)"),
        *((smo, {name: np.zeros(4)}, r"must be \(n,\)") for name in ("diagonal", "lower", "upper", "beta", "gradient")),
        (smo, {"ready": np.zeros(4, dtype=np.uint8)}, r"must be \(n,\)"),
    ],
)
def test_wrong_shapes_and_indices_are_refused(call, changes, says):
    with pytest.raises(ValueError, match=says):
        call(**changes)


@pytest.mark.parametrize(
    ("call", "changes"),
    [
        (combine, {"weights": np.ones(2, dtype=np.float32)}),
        (combine, {"index": np.array([0, 2], dtype=np.int32)}),
        (combine, {"ready": np.zeros(3, dtype=bool)}),
        (combine, {"rows": np.zeros((3, 3), order="F")[:, ::-1]}),
        (combine, {"rows": np.zeros(9)}),
        (apply, {"delta": [1.0, 1.0]}),
        (apply, {"images": np.zeros((2, 6))[:, ::2]}),
        (gather, {"parts": np.zeros((1, 4, 4))[:, ::2, ::2]}),
        (smo, {"beta": np.zeros(3, dtype=np.float32)}),
        (smo, {"gradient": np.broadcast_to(0.0, 3)}),
        (smo, {"stack": [np.eye(3)]}),
    ],
)
def test_other_types_and_strided_or_read_only_outputs_are_refused(call, changes):
    with pytest.raises(TypeError):
        call(**changes)


@pytest.mark.parametrize(
    ("matrices", "says"),
    [
        ([], "at least one matrix"),
        ([np.eye(3), np.eye(2)], r"every matrix must be \(n, n\)"),
        ([np.ones((3, 2))], r"every matrix must be \(n, n\)"),
        ([np.eye(3), np.eye(3, dtype=np.float32)], "one dtype"),
        ([np.eye(3, dtype=int)], "float32 or float64"),
        ([np.eye(6)[::2, ::2]], "C-contiguous"),
        ([np.ones(3)], "two dimensions"),
    ],
)
def test_a_stack_of_anything_else_is_refused(matrices, says):
    with pytest.raises(ValueError, match=says):
        loops.Stack(matrices)


def test_a_stack_keeps_its_matrices_alive_and_reads_them_in_place(rng):
    K = rng.normal(size=(3, 3))
    K.flags.writeable = False
    expected = K[0].copy()
    stack = loops.Stack([K])
    del K
    rows = np.zeros((3, 3))
    loops.combine_rows(stack, np.ones(1), np.array([0]), rows, np.zeros(3, dtype=np.uint8), 1)
    np.testing.assert_array_equal(rows[0], expected)
