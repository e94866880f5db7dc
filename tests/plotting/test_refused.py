"""What cannot be drawn is refused, and where."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure
from plotting.drawn import NAMES, THETA, legend
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

import mklref
from mklref import MKLClassifier, plotting
from mklref.exceptions import InvalidInput, InvalidParameter, InvalidType, MissingExtra


@pytest.mark.parametrize(
    ("call", "message", "error"),
    [
        (lambda: plotting.weights(np.ones((2, 3))), r"shape \(2, 3\).*weights_\[0\]", InvalidInput),
        (lambda: plotting.weights(THETA, NAMES[:2]), "2 names for 5 weights", InvalidInput),
        (lambda: plotting.alignment(np.eye(3), NAMES), "5 names for 3 kernels", InvalidInput),
        (lambda: plotting.sparsity(np.ones(3)), r"coef has shape \(3,\)", InvalidInput),
        (lambda: plotting.sparsity(np.ones((3, 3)), NAMES), "5 names for 3 kernels", InvalidInput),
        (lambda: plotting.path([1.0, 2.0], [THETA]), "2 values for 1 solutions", InvalidInput),
        (lambda: plotting.path([1.0], [THETA], errors=[0.1, 0.2]), "2 errors for 1 values of C", InvalidInput),
        (lambda: plotting.surface(None, np.ones((4, 3))), r"X has shape \(4, 3\).*two variables", InvalidInput),
        (lambda: plotting.surface(None, np.ones((0, 2))), r"X has shape \(0, 2\)", InvalidInput),
        (lambda: plotting.surface(None, [[1.0, np.inf]]), r"X\[0, 1\] is inf", InvalidInput),
        (lambda: plotting.surface(None, np.ones((4, 2)), 3), r"y has shape \(\) for 4 samples", InvalidInput),
        (lambda: plotting.surface(None, np.ones((2, 2)), np.ma.array([0, 1], mask=[0, 1])), "y is a mask", InvalidType),
        (lambda: plotting.weights([0.5, np.nan]), r"weights\[1\] is nan", InvalidInput),
        (lambda: plotting.weights(THETA, "abcde"), r"names is 'abcde' .*; give a list", InvalidType),
        (lambda: plotting.path([1.0, 2.0], [THETA, THETA * np.nan]), r"of the solutions\[1, 0\] is nan", InvalidInput),
        (lambda: plotting.path([1.0, 2.0], [THETA, THETA[1:]]), "weights of the solutions is ragged", InvalidInput),
        (lambda: plotting.path([0.0, 2.0], [THETA, THETA]), "values hold 0; on a logarithmic axis", InvalidInput),
        (lambda: plotting.path([1.0, np.inf], [THETA, THETA]), r"values\[1\] is inf", InvalidInput),
        (lambda: plotting.path([1.0], [THETA], errors=np.ones((1, 0))), r"errors has shape \(1, 0\)", InvalidInput),
        (lambda: plotting.path([1.0], [THETA], errors=[np.inf]), "errors hold inf", InvalidInput),
        (lambda: plotting.path([1.0], [THETA], chosen=0.0), "chosen = 0", InvalidParameter),
        (lambda: plotting.gap({}, tol=0.0), "tol = 0", InvalidParameter),
        (lambda: plotting.path([1.0], 3), "solutions is one int; give a sequence", InvalidInput),
        (lambda: plotting.weight_paths([THETA], [1.0], names=NAMES[:2]), "2 names for 5 kernels", InvalidInput),
        (lambda: plotting.alignment(np.ones((2, 3))), r"kernels has shape \(2, 3\); give alignments", InvalidInput),
        (lambda: plotting.alignment(-9.0 * np.eye(2)), r"kernels holds -9; .* in \[-1, 1\]", InvalidInput),
        (lambda: plotting.sparsity(np.ones((2, 0))), r"coef has shape \(2, 0\)", InvalidInput),
        (lambda: plotting.weights(MKLClassifier()), r"no kernel weights: give a .* pipeline\[-1\]", InvalidInput),
        (lambda: plotting.weights(make_pipeline(MKLClassifier())), "has no kernel weights", InvalidInput),
        (lambda: plotting.weights(THETA, by="colour"), "by = 'colour'; give 'family', 'variable'", InvalidParameter),
        (lambda: plotting.weights(THETA, by=None, total=True), "total = True sums over groups", InvalidParameter),
        (lambda: plotting.weights(THETA, by={"a": [0.5]}), r"by names the kernel 0\.5; there are 5", InvalidParameter),
        (lambda: plotting.weights(THETA, by={"a": [0, 9]}), "by names the kernel 9; there are 5", InvalidParameter),
        (lambda: plotting.weights(THETA, most=1.5), r"most is 1\.5 \(float\); give an integer", InvalidType),
        (lambda: plotting.surface(None, np.ones((4, 2)), points=1), "points = 1 must be an integer", InvalidParameter),
        (lambda: plotting.intervals(3), r"check is int; give what mklref\.crosscheck returns", InvalidType),
        (lambda: plotting.contributions(None, np.ones((4, 2))), "model is NoneType; give a fitted", InvalidType),
        (lambda: plotting.surface(None, np.ones((4, 2))), "model is NoneType; give a fitted", InvalidType),
        (lambda: plotting.weights(THETA, ax=Figure()), "ax is Figure; give plane Axes", InvalidType),
        (lambda: plotting.alignment(np.eye(3), ax=np.array([])), "ax is ndarray; give plane Axes", InvalidType),
        (
            lambda: plotting.sparsity(np.eye(3), ax=Figure().add_subplot(projection="3d")),
            "ax is Axes3D; give plane Axes",
            InvalidType,
        ),
        (lambda: plotting.stability(None), r"give what mklref\.model_selection\.stability returns", InvalidType),
    ],
)
def test_what_cannot_be_drawn_is_refused_and_leaves_no_figure(call, message, error):
    with pytest.raises(error, match=message):
        call()
    assert plt.get_fignums() == []


def test_axes_of_other_projections_of_the_plane_are_drawn_on():
    ax = plt.figure().add_subplot(projection="polar")
    assert plotting.weights(THETA, ax=ax) is ax


def test_things_that_are_no_solutions(rng):
    X = rng.normal(size=(12, 2))
    model = MKLClassifier("linear").fit(X, X[:, 0] > 0)
    for draw in (plotting.gap, plotting.weight_paths):
        with pytest.raises(InvalidInput, match=r"the MKLClassifier has no history: .* give what mklref.solve returns"):
            draw(model)
    assert plotting.path([1.0], [model]).lines[0].get_ydata().tolist() == [1]
    with pytest.raises(InvalidInput, match="y has 3 entries for 12 samples"):
        plotting.surface(model, X, X[:3, 0])
    with pytest.raises(InvalidInput, match=r"y holds 'a', which is no class of the model: \[False, True\]"):
        plotting.surface(model, X, ["a"] * 12)
    with pytest.raises(InvalidParameter, match="machine = 1; the model has 1, counted from 0"):
        plotting.contributions(model, X, machine=1)
    with pytest.raises(NotFittedError):
        plotting.surface(MKLClassifier(), X)
    assert len(plt.get_fignums()) == 1  # of what was drawn
    assert legend(plotting.contributions(model, X, labels=[None] * 12)) == ["None"]


def test_a_solution_without_history_is_refused(solution, tmp_path):
    solution.save(tmp_path / "s.npz")
    with pytest.raises(InvalidInput, match="no history: it was loaded"):
        plotting.gap(mklref.Solution.load(tmp_path / "s.npz"))


def test_without_matplotlib_the_remedy_is_named(monkeypatch):
    import mklref.plotting.style as style

    monkeypatch.setattr(style, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'mklref\[report\]'"):
        plotting.weights(THETA)
