"""The experiments of Kloft, Szafranski, Kowalski and Tomioka: their parts against definitions, and small cells.

The committed results of all experiments, what is expected of them, and the page that tells it.
"""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import replace
from functools import cache
from pathlib import Path
from string import Formatter

import numpy as np
import pytest

import mklref
from mklref.algorithms import silp, simplemkl, sip
from mklref.datasets import PUBLISHED, Dataset
from mklref.kernels import ArrayStack
from validation.reproduce import docs_page, expected, report, run as runner, store
from validation.reproduce.base import Result, holm
from validation.reproduce.experiments import (
    NAMES,
    experiments,
    kloft_emulated_data,
    kloft_examples,
    kloft_scale,
    kowalski_titanic,
    spambase_parts,
    szafranski_channels,
    szafranski_spambase,
    tomioka_evidence,
    tomioka_table1,
)
from validation.reproduce.experiments.kloft_scale import interleaved_cuts
from validation.reproduce.experiments.single_variables import SingleVariables

ROOT = Path(__file__).parents[2]

COMMITTED = ROOT / "validation" / "results" / "reproduce"


@cache
def committed(name):
    """An experiment, its committed results and their summary, which takes long for some."""
    (experiment,) = experiments([name])
    results = runner.finished(COMMITTED, experiment, quick=False)
    return experiment, results, experiment.summary(results)


@pytest.fixture
def Z():
    return np.random.default_rng(0).normal(size=(12, 4))


@pytest.mark.thorough
def test_single_variables_are_the_kernels_of_rank_one(Z):
    thin, dense = SingleVariables(Z), ArrayStack([np.outer(z, z) for z in Z.T])
    theta, v, index = np.array([0.5, 0.0, 2.0, 1.0]), np.arange(12.0), np.array([3, 7])
    assert thin.shape == dense.shape
    for name, arguments in {"combine": (theta,), "apply": (v,), "quadratic": (v,), "rows": (index,)}.items():
        np.testing.assert_allclose(getattr(thin, name)(*arguments), getattr(dense, name)(*arguments), atol=1e-12)
    np.testing.assert_allclose(thin.dense(), dense.dense())
    np.testing.assert_allclose(thin.traces(), dense.traces())
    factors = thin.factors().stacked
    np.testing.assert_allclose(factors @ factors.T, dense.combine(np.ones(4)), atol=1e-12)
    np.testing.assert_allclose(thin.factor_stack().apply(v), dense.apply(v), atol=1e-12)
    np.testing.assert_allclose(thin.reader.square(theta, index), dense.block(index, index).T @ theta, atol=1e-12)
    problem = mklref.Problem(thin, np.sign(Z[:, 0]), C=1.0)
    stored = simplemkl(problem.replace(kernels=dense), tol=1e-6)
    assert simplemkl(problem, tol=1e-6).objective == pytest.approx(stored.objective, rel=2e-6)


@pytest.mark.thorough
def test_silp_and_sip_within_chunking_reach_the_optimum_of_the_wrappers_on_kernels_evaluated_on_the_fly():
    kernels, y = kloft_scale.problem_of({"data": "digits", "n": 60, "M": 8, "seed": 0})
    for p, wrapper in ((1.0, silp), (4 / 3, sip)):
        problem = mklref.Problem(kernels, y, regularizer=mklref.Lp(p))
        found, known = interleaved_cuts(problem, tol=1e-4, chunk=10), wrapper(problem, tol=1e-6)
        assert found.certificate.is_optimal(1e-4)
        assert found.objective == pytest.approx(known.objective, rel=1.1e-4)
        assert found.history.counters["svm"] == 0  # no whole machine is solved
    small = kloft_scale.cells(True)[5:]
    results = [Result(c.id, dict(c.config), kloft_scale.cell(dict(c.config)), 1.0, {}) for c in small]
    assert kloft_scale.summary(results).claims["finished"].holds
    assert all(r.values["readings"] < kloft_scale.READINGS for r in results)


def test_holm_is_its_definition():
    np.testing.assert_allclose(holm([0.04, 0.001, 0.03]), [0.06, 0.003, 0.06])
    assert holm([0.9, 0.8]).max() == 1.0


def test_radii_and_bounds_of_the_examples():
    values = kloft_examples.cell({"M": 6, "draws": 20, "seed": 0})
    for k, share in enumerate(kloft_examples.SHARES):  # M^((p+1)/(2p)), and (p+1)/p = 2 - share
        assert values["even"]["radius"][k] == pytest.approx(6.0 ** ((2.0 - share) / 2.0))
    assert np.ptp(values["even"]["bound"]) < 1e-12
    assert values["sparse"]["radius"] == pytest.approx(np.ones(len(kloft_examples.SHARES)))


def test_groups_of_spambase_are_those_of_the_paper():
    features = PUBLISHED["spambase"].features
    groups = spambase_parts.groups_of(Dataset("spambase", np.zeros((1, 57)), np.zeros(1), features, ""))
    assert [len(group) for group in groups] == [42, 6, 6, 3]
    assert sorted(j for group in groups for j in group) == list(range(57))
    assert sum(len(szafranski_spambase.WIDTHS) * (1 + len(group)) for group in groups) == 244


@pytest.mark.thorough
def test_a_cell_of_spambase_on_bundled_data():
    (first, _) = szafranski_spambase.cells(True)
    config = {**first.config, "costs": [100.0], "train": 40}
    values = szafranski_spambase.cell(config)
    assert values["M"] == 66
    for name, paper in (("MKL", spambase_parts.SIMPLEMKL), ("GKL", spambase_parts.WRAPPER)):
        assert max(values[name]["gap"], values[paper]["gap"]) <= 1e-3
        assert values[name]["accuracy"] == pytest.approx(values[paper]["accuracy"], abs=3.0)
    assert values["SVM"]["kernels"] == 66


@pytest.mark.parametrize(
    ("ratios", "holds", "decided"),
    [
        ([1.1, 1.2, 1.3, 1.4, 1.9], True, True),
        ([1.1, 1.2, 1.3, 1.4, 2.1], False, False),
        ([0.9, 2.2, 2.3, 2.4, 2.5], False, True),
        ([1.1, 1.2, 1.3, 1.4], False, False),
    ],
)
def test_a_factor_is_decided_by_five_draws_that_agree(ratios, holds, decided):
    larger = {("SIP", 20000, 50): [3.0]}  # one draw, which is shown
    found = kloft_scale._judged({("SIP", 2000, 50): ratios, **larger}, "SILP", 2.0)
    assert (found.holds, found.decided) == (holds, decided)
    assert "3 (SIP, n = 20000, M = 50, 1 draws)" in found.text


@pytest.mark.thorough
def test_titanic_on_generated_data(monkeypatch):
    monkeypatch.setattr(kowalski_titanic, "LAMBDAS", kowalski_titanic.LAMBDAS[::10])
    (only,) = kowalski_titanic.cells(True)
    values = kowalski_titanic.cell(dict(only.config))
    for name, found in values["norms"].items():
        assert found["gap"] <= 1e-6
        assert np.array(found["relevance"]).shape == (4, 80)
        assert found["errors"][0] in found["path"], name
    dense, sparse = (values["norms"][name]["shapes"][-1]["exactly zero"] for name in ("2", "21;1"))
    assert dense < 0.01 < sparse


@pytest.mark.parametrize(
    ("claim", "norm", "shape"),
    [
        ("l2-dense", "2", {"exactly zero": 0.02}),
        ("l21k-good", "21;2", {"largest": [1.0, 0.0, 0.0]}),
        ("l21s-samples", "21;1", {"samples with one kernel": 0.1}),
        ("l12s-one-kernel", "12;1", {"samples with one kernel": 0.1}),
    ],
)
def test_what_is_said_of_the_maps_can_fail(claim, norm, shape):
    path = ROOT / "validation" / "results" / "reproduce" / "kowalski-titanic.jsonl"
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    values = next(row["values"] for row in rows if row["cell"] == "titanic-00")
    first = Result("titanic-00", {}, values, 1.0, {})
    assert kowalski_titanic.maps(first)[claim].holds
    assert kowalski_titanic.claims([first] * 5)[claim].holds
    found = values["norms"][norm]
    before = {**values, "norms": {**values["norms"], norm: {**found, "shapes": [*map(dict, found["shapes"])]}}}
    found["shapes"][found["chosen"]] |= shape
    assert not kowalski_titanic.maps(first)[claim].holds
    mixed = [Result("", {}, before, 1.0, {}), first] * 4
    for results, decided in ((mixed, False), ([first] * 5, True)):
        judged = kowalski_titanic.claims(results)[claim]
        assert (judged.holds, judged.decided) == (False, decided)


def test_the_realisation_that_stands_for_the_papers_is_the_only_one_that_fits():
    fits, other = ({"baselines": {"Good": 21.843, "Bad": bad, "Ugly": 32.569}} for bad in (25.89, 21.3))
    for values, holds in (([fits, other], True), ([fits, fits], False), ([other, fits], False)):
        results = [Result("", {}, value, 1.0, {}) for value in values]
        assert kowalski_titanic.realisation(results)["first-only"].holds == holds


def test_a_row_of_table_1_needs_both_value_and_weight():
    (cell, *_) = tomioka_table1.cells(False)
    values = tomioka_table1.cell(dict(cell.config))
    for changed, holds in (({}, True), ({"value": 1e-6}, False), ({"weight": 1e-3}, False)):
        result = Result(cell.id, dict(cell.config), {**values, **changed}, 1.0, {})
        assert tomioka_table1.summary([result]).claims["block-1-norm"].holds == holds


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", tomioka_table1.ROWS)
def test_correspondences_of_table_1(name):
    values = tomioka_table1.cell({"row": name})
    assert values["value"] < 1e-10
    assert values["weight"] < 1e-6


@pytest.mark.thorough
def test_evidence_and_convex_mkl_on_a_small_problem():
    values = tomioka_evidence.cell({"kind": "sparse", "seed": 0, "n": 30, "M": 4, "relevant": 1})
    objectives = [values[name]["objective"] for name in tomioka_evidence.METHODS]
    assert np.ptp(objectives) < 1e-3
    assert all(values[name]["largest increase"] < 1e-9 for name in ("reweighted", "mackay"))
    assert all(0.0 < values[name]["error"] < 1.0 for name in (*tomioka_evidence.METHODS, *tomioka_evidence.CONVEX))
    assert values[tomioka_evidence.TRUE]["objective"] >= values["newton"]["objective"]
    assert values[tomioka_evidence.TRUE]["error"] < 1.0
    assert all(0 < values[name]["iterations until near"] <= values[name]["iterations"] for name in ("mackay", "newton"))
    assert abs(values["newton"]["slowest"]["factor"] - 1.0) < 1e-4


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["kloft-times", "kloft-emulated", "szafranski-channels"])
def test_first_quick_cell_is_summarised_and_drawn(name, tmp_path):
    (experiment,) = experiments([name])
    cell = experiment.cells(True)[0]
    values = experiment.cell(dict(cell.config))
    facts = dict.fromkeys(("date", "mklref", "python", "numpy", "scipy", "scikit-learn", "machine", "cores"), "")
    result = Result(cell.id, dict(cell.config), values, 1.0, {**facts, "load": None})
    shown = report.section(experiment, [result], True, tmp_path)
    assert shown.pictures
    assert any(entry.ours for table in shown.comparison.tables for row in table.rows.values() for entry in row)
    if name == "szafranski-channels":
        assert values["GKL"]["channels"] <= values["MKL"]["channels"] <= 12
        assert max(values[method]["AUC"] for method in szafranski_channels.METHODS) > 60.0
    elif name == "kloft-emulated":
        assert values["signal"]["AUC"] > 70.0
        assert values["1"]["AUC"] > values["angles"]["AUC"]
    else:
        assert all(row["finished"] for row in values.values() if isinstance(row, dict))


def test_the_weighted_degree_kernel_counts_common_substrings_by_their_length_and_distance():
    rng = np.random.default_rng(0)
    bases = rng.integers(2, size=(6, 9))
    weights = 2.0 * np.array([3, 2, 1]) / (3 * 4)
    near = {0: 1.0, 1: 1.0 / 4.0, 2: 1.0 / 6.0}

    def naive(x, z):
        return sum(
            w * near[abs(i - j)] * np.all(x[i : i + k] == z[j : j + k])
            for k, w in enumerate(weights, 1)
            for i in range(10 - k)
            for j in range(10 - k)
            if abs(i - j) <= 2
        )

    expected = np.array([[naive(x, z) for z in bases] for x in bases])
    found = kloft_emulated_data.weighted_degree(bases[:, None], bases[None, :4], order=3, shift=2)
    np.testing.assert_allclose(found, expected[:, :4])
    itself = kloft_emulated_data.weighted_degree(bases, bases, order=3, shift=2)
    np.testing.assert_allclose(itself, np.diag(expected))
    assert np.linalg.eigvalsh(expected).min() > 0.0


def test_centred_spheres_are_those_of_the_features():
    rng = np.random.default_rng(1)
    F, n = rng.normal(size=(7, 3)), 5
    Z = F - F[:n].mean(axis=0)
    Z /= np.linalg.norm(Z, axis=1, keepdims=True)
    found = kloft_emulated_data.centred_sphere(F @ F[:n].T, np.sum(F**2, axis=1))
    np.testing.assert_allclose(found, Z @ Z[:n].T, atol=1e-12)


def test_spambase_is_compared_on_its_independent_splits():
    experiment, results, summary = committed("szafranski-spambase")
    rows = expected.compare(experiment, summary).tables[0].rows
    for name in ("SVM", "MKL", "GKL"):
        assert len(rows[name][0].ours) == 15
        assert rows[name][0].shared == pytest.approx(np.std(rows[name][0].ours, ddof=1))
    splits = [r.config for r in results if "part" in r.config]
    assert len({config["seed"] for config in splits}) == len(splits)


@pytest.mark.parametrize("name", NAMES)
def test_expectations_are_readable_and_named_after_experiments(name):
    (experiment,) = experiments([name])
    document = expected.read(experiment.module)
    assert document["paper"]
    assert all(table["source"] and table["id"] for table in document.get("table", ()))
    ids = [cell.id for cell in experiment.cells(False)]
    assert len(set(ids)) == len(ids)
    assert 0 < len(experiment.cells(True)) < 20


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", [path.stem for path in sorted(COMMITTED.glob("*.jsonl"))])
def test_every_committed_difference_is_explained_and_no_cause_is_idle(name):
    experiment, results, summary = committed(name)
    assert len(results) == len(store.read(COMMITTED, experiment)), "results of other configurations lie around"
    comparison = expected.compare(experiment, summary)
    assert comparison.unexplained == ()
    causes = expected.read(experiment.module).get("cause", ())
    used = {cause.text for cause in comparison.causes} - {expected.UNDECIDED}
    assert {" ".join(cause["text"].format_map(summary.measured).split()) for cause in causes} == used
    cited = {name for cause in causes for _, name, _, _ in Formatter().parse(cause["text"]) if name}
    assert cited == set(summary.measured)


def test_docs_page_is_that_of_the_committed_results():
    page = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    for name in NAMES:
        assert f"({name})=" in page
        experiment, results, _ = committed(name)
        assert f"Run: {len(results)} of {len(experiment.cells(False))} cells" in page.partition(f"({name})=")[2]


def test_the_page_is_short_and_so_is_every_cause():
    """A first page of five minutes; the report has the rest."""
    assert len((ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8").split()) < 8000
    for path in expected.FOLDER.glob("*.toml"):
        for name, part in tomllib.loads(path.read_text(encoding="utf-8")).items():
            for cause in part.get("cause", ()) if isinstance(part, dict) else ():
                assert 0 < len(cause["brief"].split()) <= 60, (name, cause["of"])


def test_no_sentence_of_a_paper_is_counted_twice():
    """Those of kloft-times that kloft-scale decides, too, are named after it."""
    scale, times = (
        {claim: shared for claim, _, shared in expected.sentences(expected.read(name))}
        for name in ("kloft_scale", "kloft_times")
    )
    both = {"sip-silp": "sip-silp", "nonsparse-silp": "nonsparse-slightly", "sip-analytic": "analytic-sip"}
    assert both.keys() == scale.keys() - {"finished"}
    assert all(times[name]["decided_by"] == "kloft-scale" for name in both.values())


def test_first_page_and_links_are_those_of_the_results(tmp_path, monkeypatch):
    """Without the pictures, which are drawn when the docs are built."""
    monkeypatch.setattr(report.pictures, "svg", lambda figure: "<svg/>")
    sections = [
        report.section(replace(experiment, summary=lambda _, known=known: known), results, False, COMMITTED)
        for experiment, results, known in map(committed, NAMES)
    ]
    docs_page.write_docs(tmp_path, sections, "command")
    page = (tmp_path / "reproduction.md").read_text(encoding="utf-8")
    there = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    assert page.partition("## How it is read")[0] == there.partition("## How it is read")[0]
    counts = [s.counts("paper") for s in sections]
    assert f"**{sum(yes for yes, _ in counts)} of {sum(map(sum, counts))} agree**" in page.replace("\n", " ")
    own = [s.counts("paper") for s in sections if s.experiment.name in ("kloft-emulated", "szafranski-channels")]
    assert f"{sum(yes for yes, _ in own)} of {sum(map(sum, own))} on data generated" in page.replace("\n", " ")
    html = report.write_page(tmp_path, sections, "command").read_text(encoding="utf-8")
    anchors = set(re.findall(r'id="([^"]+)"', html))
    linked = set(re.findall(r'report\.html#([^"]+)"', page))
    assert {f"{s.experiment.name}-{cause.anchor}" for s in sections for cause in s.comparison.causes} <= linked
    assert linked | set(re.findall(r'href="#([^"]+)"', html)) <= anchors
