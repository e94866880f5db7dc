"""What a fit is: the problem it states, its certificate, kernels of new samples, several classes, what is refused."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
import pytest
from makers import agree, stacked_kernels
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF

from mklref import (
    BlockNorm,
    Groups,
    Lp,
    MKLClassifier,
    MKLOneClass,
    MKLRegressor,
    MulticlassProblem,
    Power,
    Problem,
    certify,
    reference,
    solve,
)
from mklref.exceptions import (
    InvalidInput,
    InvalidKernel,
    InvalidParameter,
    InvalidTarget,
    InvalidType,
    NotApplicable,
    UselessModelWarning,
)
from mklref.kernels import gaussian, normalize, parse, per_variable, storage

SPECIFICATION = "linear,rbf:0.5..2:2"


@pytest.mark.parametrize("norm", [1.0, 4 / 3])
@pytest.mark.parametrize("strategy", ["one_vs_rest", "one_vs_one"])
def test_joint_weights_are_those_of_the_reference(three_classes, strategy, norm):
    X, y, X_new = three_classes
    model = MKLClassifier(SPECIFICATION, norm=norm, C=2.0, strategy=strategy, tol=1e-8).fit(X, y)
    grams = parse(SPECIFICATION).fit(X, normalize="multiplicative")
    problem = MulticlassProblem(grams, y, C=2.0, regularizer=Lp(norm), strategy=strategy)
    conic = reference.solve(problem, "multiclass")
    agree(model.certificate_, conic)
    np.testing.assert_allclose(model.weights_, conic.weights, atol=1e-3)
    scores = conic.decision_function(grams.new(X_new))
    np.testing.assert_array_equal(model.predict(X_new), problem.assign(scores))
    if strategy == "one_vs_rest":
        np.testing.assert_allclose(model.decision_function(X_new), scores, atol=5e-3)
    assert model.decision_function(X_new).shape == (9, 3)


@pytest.mark.parametrize("strategy", ["one_vs_rest", "one_vs_one"])
def test_independent_machines_are_binary_classifiers(three_classes, strategy):
    X, y, X_new = three_classes
    common = {"C": 2.0, "norm": 2.0, "tol": 1e-9, "normalize": None}
    model = MKLClassifier(SPECIFICATION, multiclass="independent", strategy=strategy, **common).fit(X, y)
    assert model.weights_.shape == (3, 3)
    assert len(model.certificate_) == 3
    for p, pair in enumerate([("low", "mid"), ("low", "top"), ("mid", "top")]):
        chosen = np.isin(y, pair) if strategy == "one_vs_one" else np.full(36, True)
        positive = pair[0] if strategy == "one_vs_one" else ("low", "mid", "top")[p]
        binary = MKLClassifier(SPECIFICATION, **common).fit(X[chosen], y[chosen] == positive)
        np.testing.assert_allclose(model.weights_[p], binary.weights_, atol=1e-4)
        np.testing.assert_allclose(model._scores(X_new)[:, p], binary.decision_function(X_new), atol=1e-3)


def test_the_certificate_is_that_of_the_stated_problem(three_classes):
    X, y, _ = three_classes
    groups = Groups([[0], [1, 2]], 0.5, 0.5)
    model = MKLClassifier(SPECIFICATION, norm=groups, C=3.0, loss="squared_hinge", normalize="trace").fit(X, y == "top")
    problem = Problem(
        parse(SPECIFICATION).fit(X, normalize="trace"),
        np.where(y == "top", 1, -1),
        C=3.0,
        loss="squared_hinge",
        regularizer=groups,
    )
    beta = np.zeros(36)
    beta[model.support_] = model.dual_coef_[0]
    certificate = certify(problem, beta, weights=model.weights_, intercept=model.intercept_[0])
    for name in ("lower", "upper"):  # in another order of the samples
        assert getattr(certificate, name) == pytest.approx(getattr(model.certificate_, name), rel=1e-11)
    assert model.certificate_.is_optimal(1e-4)
    assert model.n_iter_ >= 1


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("method", [None, "trace", "multiplicative"])
def test_precomputed_kernels_in_both_layouts(three_classes, method, center):
    X, y, X_new = three_classes
    weight = np.arange(36) % 5 % 3
    common = {"normalize": method, "center": center, "C": 2.0, "tol": 1e-9, "norm": 2.0}
    expected = MKLClassifier(SPECIFICATION, **common).fit(X, y, weight).decision_function(X_new)
    K, K_new = stacked_kernels(X), stacked_kernels(X, X_new)
    for train in (K, np.moveaxis(K, -1, 0)):
        model = MKLClassifier("precomputed", **common).fit(train, y, weight)
        for new in (K_new, np.moveaxis(K_new, -1, 0)):
            np.testing.assert_allclose(model.decision_function(new), expected, atol=1e-4)


@pytest.mark.parametrize("unit", [1.0, 2.0**-60])
def test_as_many_kernels_as_samples(three_classes, unit):
    """(n, n, n): symmetry tells the layouts apart, in every unit."""
    X, y, X_new = three_classes
    family = gaussian(np.geomspace(0.3, 5.0, 36))
    K, K_new = unit * family.fit(X).dense(), unit * family.fit(X).new(X_new)
    common = {"normalize": None, "norm": 2.0, "tol": 1e-9}
    expected = MKLClassifier(family, **common).fit(X, y).decision_function(X_new)
    for axis in (0, -1):
        model = MKLClassifier("precomputed", C=1 / unit, **common).fit(np.moveaxis(K, 0, axis), y)
        np.testing.assert_allclose(model.decision_function(np.moveaxis(K_new, 0, axis)), expected, atol=1e-4)


def test_kernels_of_every_kind_are_normalised_with_the_training_statistics(three_classes):
    X, y, X_new = three_classes

    def square(A, B):
        return (A @ B.T + 1.0) ** 2

    kernels = [square, "linear", per_variable(gaussian(1.0))]
    model = MKLClassifier(kernels, normalize="spherical", norm=np.inf).fit(X, y == "low")
    assert model.kernel_names_ == ("square", "linear", "rbf:1[x0]", "rbf:1[x1]", "rbf:1[x2]")
    raw = [square(X, X), X @ X.T]
    raw_new = [square(X_new, X), X_new @ X.T]
    own = [square(X_new, X_new).diagonal(), (X_new**2).sum(axis=1)]
    for m in range(2):
        _, expected = normalize(raw[m], "spherical", raw_new[m], own[m])
        (rows,) = model._new_kernels.rows(X_new, [m])
        np.testing.assert_allclose(rows, expected[:, model.support_], atol=1e-12)
    # One new sample at a time: nothing depends on the company it comes in.
    alone = np.concatenate([model.decision_function(x[None]) for x in X_new])
    np.testing.assert_allclose(alone, model.decision_function(X_new), atol=1e-10)


def test_class_weights_are_factors_of_the_weights_of_samples(three_classes):
    X, y, X_new = three_classes
    target, weight = (y == "top").astype(int), 1.0 + np.arange(len(y)) % 2
    balance = weight.sum() / (2.0 * np.bincount(target, weights=weight))
    every = {0: balance[0], 1: balance[1], 2: 9.0}  # of a part of the samples some classes are not there
    for given, factors in (("balanced", balance), (every, balance), ({1: 3.0}, np.array([1.0, 3.0]))):
        found, expected = (
            MKLClassifier("rbf:1", C=0.1, normalize=None, class_weight=one).fit(X, target, own).decision_function(X_new)
            for one, own in ((given, weight), (None, weight * factors[target]))
        )
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_weights_and_units_of_regressors_and_one_class_machines(three_classes):
    X, _, X_new = three_classes
    weight, y, options = 1.0 + np.arange(36) % 3, 5.0 + 3.0 * X[:, 0] ** 2, {"normalize": None, "tol": 1e-8}
    K = parse(SPECIFICATION).fit(X)
    mean = np.average(y, weights=weight)
    deviation = np.sqrt(np.average((y - mean) ** 2, weights=weight))
    scaled = Problem(K, (y - mean) / deviation, C=2.0, loss="squared", sample_weight=weight)
    model = MKLRegressor(SPECIFICATION, C=2.0, loss="squared", scale_y=True, **options).fit(X, y, weight)
    expected = mean + deviation * solve(scaled, tol=1e-8).decision_function(K.new(X_new))
    np.testing.assert_allclose(model.predict(X_new), expected, rtol=1e-3)

    region = Problem(K, np.ones(36), C=1.0 / (0.3 * weight.sum()), loss="one_class", sample_weight=weight)
    model = MKLOneClass(SPECIFICATION, nu=0.3, **options).fit(X, None, weight)
    expected = solve(region, tol=1e-8).decision_function(K.new(X_new))
    np.testing.assert_allclose(model.decision_function(X_new), expected, atol=1e-3 * np.abs(expected).max())
    np.testing.assert_allclose(model.score_samples(X_new) + model.intercept_[0], model.decision_function(X_new))
    assert np.any(model.decision_function(X) == 0.0)  # on the boundary, which is inside
    assert np.average(model.predict(X) == -1, weights=weight) <= 0.3


def test_class_weights_are_those_of_the_classes_that_they_name(three_classes):
    """A text is no number: scikit-learn's look-up finds 1 for the class "1", and does not find "1"."""
    X, y, X_new = three_classes
    weighed = MKLClassifier("linear", class_weight={"low": 3.0}).fit(X, y).decision_function(X_new)
    for name in ("1", "-2", "+7"):  # the first in order, as "low" is
        labels = np.where(y == "low", name, y)
        found = MKLClassifier("linear", class_weight={name: 3.0}).fit(X, labels).decision_function(X_new)
        np.testing.assert_array_equal(found, weighed)
        with pytest.raises(InvalidParameter, match=rf"class_weight names {int(name)}, which is no class; there are '"):
            MKLClassifier("linear", class_weight={int(name): 3.0}).fit(X, labels)


def test_no_kernel_is_worth_its_weight(three_classes):
    """With all weights 0 the score is the intercept, for any number of new samples."""
    X, _, X_new = three_classes
    with pytest.warns(UselessModelWarning, match=r"predicts \S+ for every sample, because all targets .* a narrow"):
        model = MKLRegressor("linear", norm=BlockNorm(1.0), C=1.0).fit(X, np.zeros(36))
    np.testing.assert_allclose(model.predict(X_new), np.zeros(9), atol=0.1 + 1e-9)
    assert model.predict(X_new).shape == (9,)


@pytest.mark.parametrize("normalize", [None, "multiplicative"])
def test_a_region_that_is_everything_is_said(three_classes, normalize):
    """Where the mean of the samples is the origin of the features; centring would put it there for every kernel."""
    X = three_classes[0] - three_classes[0].mean(axis=0)
    with pytest.warns(UselessModelWarning, match="MKLOneClass calls every sample an inlier, because the training"):
        model = MKLOneClass("linear", nu=0.2, normalize=normalize).fit(X)
    assert not model.decision_function(9.0 * X).any()
    with pytest.raises(InvalidParameter, match="center = True leaves a one-class machine nothing to tell"):
        MKLOneClass("rbf:20", center=np.True_, normalize=normalize).fit(X)


def test_equal_samples_with_other_targets_are_other_samples(three_classes):
    """Precomputed kernels, of which nothing is merged, say the same."""
    X, y, X_new = three_classes
    X, t = np.r_[X, X], np.r_[X[:, 0], 3.0 - X[:, 0]]
    model = MKLRegressor("linear", normalize=None, tol=1e-9).fit(X, t)
    known = MKLRegressor("precomputed", normalize=None, tol=1e-9).fit(X @ X.T, t)
    np.testing.assert_allclose(model.predict(X_new), known.predict(X_new @ X.T), atol=1e-3)
    model, known = (MKLClassifier(kernels, normalize=None) for kernels in ("linear", "precomputed"))
    labels = np.r_[y == "top", y != "top"]
    assert model.fit(X, labels).certificate_.upper == pytest.approx(
        known.fit(X @ X.T, labels).certificate_.upper, rel=2e-3
    )


@pytest.mark.parametrize("verbose", [False, True])
@pytest.mark.parametrize("free", [None, 1e4])
def test_a_fit_says_where_its_kernels_are(three_classes, monkeypatch, capfd, free, verbose):
    X, _, _ = three_classes
    where = "memory" if free is None else "lazy"
    if free is not None:
        monkeypatch.setattr(storage, "free_memory", lambda: free)
    models = MKLClassifier("linear", verbose=verbose), MKLRegressor("linear", verbose=verbose)
    for model in (*models, MKLOneClass("linear,rbf(1)", verbose=verbose)):
        assert model.fit(X, X[:, 0] > 0.0).storage_ == where
        said = capfd.readouterr()
        assert (f"storage='auto' chose '{where}': " in said.err) is verbose
        assert said.out == ""
    assert MKLClassifier("linear", storage="lazy").fit(X, X[:, 0] > 0.0).storage_ == "lazy"


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"kernels": "rfb:1"}, InvalidParameter, "'rfb:1' is not understood: known are linear"),
        ({"kernels": 3}, InvalidType, "kernels is int; give a specification such as"),
        ({"n_jobs": 0}, InvalidParameter, "n_jobs = 0 must be a number of tasks at a time"),
        ({"norm": Power(1), "approximation": 3}, NotApplicable, "take matrices: approximation=None, or problem"),
        ({"kernels": []}, InvalidParameter, "kernels is empty; give at least one kernel"),
        ({"kernels": lambda A, B: A}, InvalidInput, r"returned shape \(8, 3\) for 8 and 8 samples; it takes two"),
        ({"kernels": lambda A, B: 1.0 - np.square(A[:, None] - B).sum(-1)}, InvalidKernel, "a negative 2x2 minor"),
        ({"kernels": lambda A, B: A @ np.roll(B, 1, axis=1).T}, InvalidKernel, "symmetric"),
        ({"norm": 0.5}, InvalidParameter, r"^norm = 0.5 must lie in \[1, inf\]: p of the"),
        ({"norm": "2"}, InvalidParameter, r"norm = '2' is unknown; give p as a number in \[1, inf\], one of the names"),
        ({"kernels": RBF}, InvalidType, r"kernels is the class RBF; give an object of it, RBF\(\.\.\.\)"),
        (
            {"class_weight": {"low": 1.0, "mid": 0.0, "top": 1.0}},
            InvalidParameter,
            r"class_weight\['mid'\] = 0.0 must lie in \(0, inf\): to do without a class leave its samples out",
        ),
        ({"class_weight": MappingProxyType({"low": 2.0})}, InvalidParameter, "mappingproxy.*; give a dict"),
        ({"class_weight": {10**5000: 1.0}}, InvalidParameter, "class_weight names an integer beyond 1e.30, which is"),
        ({"norm": True}, InvalidType, r"norm is True \(bool\); give p in \[1, inf\]"),
        ({"C": 0.0}, InvalidParameter, r"C = 0.0 must lie in \(0, inf\)"),
        ({"loss": "squared"}, InvalidParameter, "takes no labels"),
        ({"normalize": "l2"}, InvalidParameter, "'l2' is unknown; known names: trace"),
        ({"center": 1}, InvalidType, r"center is 1 \(int\); give True or False"),
        ({"multiclass": "ovr"}, InvalidParameter, "'ovr' is unknown; known names: joint, independent"),
        ({"strategy": "ovr"}, InvalidParameter, "'ovr' is unknown; known names: one_vs_rest, one_vs_one"),
        ({"tol": 0.0}, InvalidParameter, r"tol = 0.0 must lie in \(0, inf\)"),
        ({"max_iter": 0}, InvalidParameter, "max_iter = 0 must be an integer of at least 1"),
        ({"max_time": 0}, InvalidParameter, r"max_time = 0 must lie in \(0, inf\]: seconds; None for no limit"),
    ],
)
def test_bad_parameters(three_classes, parameters, error, message):
    X, y, _ = three_classes
    with pytest.raises(error, match=message):
        MKLClassifier(**parameters).fit(X, y)


PRECOMPUTED = MKLClassifier("precomputed")
UNFITTED, NARROW = MKLClassifier(), MKLClassifier("linear")


@pytest.mark.parametrize(
    ("use", "error", "says"),
    [
        (lambda X, y, K, Z: PRECOMPUTED.fit(Z, y), InvalidKernel, r"X has shape \(9, 36, 3\); with kernels='"),
        (lambda X, y, K, Z: PRECOMPUTED.fit(K[0, :, 0], y), InvalidKernel, r"X has shape \(36,\); with kernels='"),
        (lambda X, y, K, Z: PRECOMPUTED.fit(1.0 - 0.5 * K[..., 1:], y), InvalidKernel, "a negative 2x2 minor"),
        (lambda X, y, K, Z: PRECOMPUTED.fit(K, y[:9]), InvalidInput, r"y has 9 entries, X of shape \(36, 36, 3\) ho"),
        (lambda X, y, K, Z: PRECOMPUTED.fit(K, y).predict(Z[:, 1:]), InvalidInput, r"\(9, 35, 3\); .* 36 training"),
        (lambda X, y, K, Z: PRECOMPUTED.fit(K, y).predict(np.nan * Z), InvalidInput, r"X\[0, 0, 0\] is nan"),
        (
            lambda X, y, K, Z: MKLClassifier("precomputed", normalize="spherical").fit(K, y),
            InvalidParameter,
            r"'spherical' needs k\(x, x\) of new samples",
        ),
        (lambda X, y, K, Z: NARROW.fit(X, [1, "1", *[2] * 34]), InvalidTarget, "int, str, which an array of"),
        (lambda X, y, K, Z: NARROW.fit(X, np.full(36, "low")), InvalidTarget, "y holds one class, 'low'; give"),
        (lambda X, y, K, Z: NARROW.fit(X, np.full(36, 7)), InvalidTarget, "y holds one class, 7; give"),
        (lambda X, y, K, Z: NARROW.fit(X, y, y == "low"), InvalidTarget, "y holds one class, 'low'"),
        (lambda X, y, K, Z: NARROW.fit(X, y, "balanced"), InvalidType, "sample_weight is 'balanced'; .*class_weight"),
        (
            lambda X, y, K, Z: MKLClassifier("linear", class_weight={1: 0}).fit(X, np.arange(36) % 2),
            InvalidParameter,
            r"class_weight\[1\] = 0 must lie in",
        ),
        (
            lambda X, y, K, Z: MKLRegressor().fit(X, X[:, 0], sample_weight=1.0 - 2.0 * np.eye(36)[3]),
            InvalidParameter,
            r"sample_weight\[3\] = -1 is negative; give 0 to leave a sample out",
        ),
        (
            lambda X, y, K, Z: MKLOneClass().fit(X, sample_weight=np.eye(36)[3]),
            InvalidParameter,
            "35 of 36 sample weights are zero; at least two",
        ),
        (lambda X, y, K, Z: MKLOneClass(nu=0.0).fit(X), InvalidParameter, r"nu = 0.0 must lie in \(0, 1\]"),
        (lambda X, y, K, Z: MKLRegressor(loss="hinge").fit(X, X[:, 0]), InvalidParameter, "takes no real targets"),
        (lambda X, y, K, Z: MKLRegressor().fit(X, 1.7e308 * np.sign(X[:, 0])), InvalidTarget, r"up to 1\.7e\+308"),
        (lambda X, y, K, Z: MKLRegressor().fit(np.nan * X, X[:, 0]), InvalidInput, "Input X contains NaN"),
        (lambda X, y, K, Z: MKLRegressor().fit(1j * X, X[:, 0]), InvalidInput, "Complex data not supported"),
        (lambda X, y, K, Z: MKLRegressor().fit(X, np.inf * X[:, 0]), InvalidInput, "Input y contains infinity"),
        (lambda X, y, K, Z: MKLRegressor().fit(X, X), InvalidInput, "y should be a 1d array"),
        (lambda X, y, K, Z: MKLRegressor().fit(X, X[:, 0], X[:, 0] * np.nan), InvalidInput, "weight contains NaN"),
        (lambda X, y, K, Z: MKLRegressor().fit(X, X[:, 0], X[1:, 0] ** 2), InvalidInput, "sample_weight"),
        (lambda X, y, K, Z: NARROW.fit(X, y, ["1"] * 36), InvalidType, "sample_weight holds <U1, no numbers"),
        (lambda X, y, K, Z: UNFITTED.predict(X), NotFittedError, "not fitted yet"),
        (lambda X, y, K, Z: NARROW.fit(X, y).predict(X[:, 1:]), ValueError, "X has 2 features, but MKLCl"),
    ],
)
def test_bad_data(three_classes, use, error, says):
    X, y, X_new = three_classes
    with pytest.raises(error, match=says):
        use(X, y, stacked_kernels(X), stacked_kernels(X, X_new))


@pytest.mark.parametrize("estimator", [MKLClassifier, MKLRegressor, MKLOneClass])
@pytest.mark.parametrize("masked", ["X", "y", "sample_weight", "new X"])
def test_no_mask_is_lost(estimator, masked):
    X, y = np.arange(12.0).reshape(6, 2), np.array([1.0, 2.0, 1.0, 2.0, 1.0, 2.0])
    given = {"X": X, "y": y, "sample_weight": np.ones(6)}
    if masked in given:
        given[masked] = np.ma.masked_array(given[masked], given[masked] > 1.5 if masked == "y" else False)
    model = estimator("linear")
    if masked == "y" and estimator is MKLOneClass:
        model.fit(**given)  # which reads no targets
        return
    if masked == "new X":
        model.fit(X, y)
    with pytest.raises(InvalidType, match="is a masked array; its mask would be lost"):
        model.predict(np.ma.masked_array(X, X > 8.0)) if masked == "new X" else model.fit(**given)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.array(["2020", "2020", "NaT", "NaT"], dtype="M8[Y]"), r"y\[2\] is NaT, which is no class"),
        (np.array([1.0, np.nan, 2.0, 2.0]), r"y\[1\] is nan, which is no class|Input y contains NaN"),
        ([1.0, 2.0, np.inf, 2.0], r"y\[2\] is inf, which is no class|Input y contains infinity"),
        ([1j, 1.0, 2.0, 2.0], "Complex data not supported"),
        ([10**30, 1, 1, 2], "Unknown label type"),
        ([1.5, 1.0, 2.0, 2.5], "Unknown label type"),
    ],
)
@pytest.mark.parametrize("precomputed", [False, True])
def test_what_is_no_class_is_refused_in_an_error_of_this_package(y, message, precomputed):
    kernels = "precomputed" if precomputed else "linear"
    X = np.eye(4)[None] if precomputed else np.arange(8.0).reshape(4, 2)
    with pytest.raises(InvalidInput, match=message):
        MKLClassifier(kernels).fit(X, y)


def test_precomputed_kernels_in_single_precision_and_in_a_stack(three_classes):
    """A kernel of low rank has eigenvalues of -1e-7 after rounding to float32, which is no fault of it."""
    X, y, X_new = three_classes
    K = np.stack([X @ X.T, (X @ X.T + 1.0) ** 2])
    model = MKLClassifier("precomputed", tol=1e-6).fit(K, y == "low")
    single = MKLClassifier("precomputed", tol=1e-6).fit(K.astype(np.float32), y == "low")
    assert np.linalg.eigvalsh(K[0].astype(np.float32).astype(float)).min() < -1e-8
    assert single.certificate_.is_optimal(1e-6)
    np.testing.assert_allclose(single.decision_function(K), model.decision_function(K), atol=1e-3)
    family = parse("linear, poly(2)").fit(X)
    stacked = MKLClassifier("precomputed", tol=1e-10).fit(family, y == "low")
    fitted = MKLClassifier("linear, poly(2)", tol=1e-10).fit(X, y == "low")
    np.testing.assert_allclose(stacked.decision_function(family.new(X_new)), fitted.decision_function(X_new), atol=1e-4)


def test_kernels_that_float32_left_indefinite_are_fitted_and_certified_as_the_nearest_semidefinite_ones():
    X, y = np.random.default_rng(3).normal(size=(20, 2)), np.arange(20) % 2
    single = (100.0 * (X @ X.T + 1.0) ** 2).astype(np.float32)[None]
    found = MKLClassifier("precomputed", C=100.0, normalize=None).fit(single, y).certificate_
    problem = Problem(single, 2.0 * y - 1.0, C=100.0)
    known = solve(problem).certificate
    assert problem.kernels.slack.any()
    assert found.is_optimal(1e-4)
    assert known.lower <= found.lower <= found.upper <= known.upper
