"""Identities of the papers that no other test checks by themselves.

The index of equations and the index of errata: nothing is missing, and what they name exists.
"""

from __future__ import annotations

import ast
import csv
import re
from functools import cache
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from makers import make_problem
from scipy.optimize import minimize_scalar

from mklref import reference
from mklref.losses import EpsilonInsensitive
from mklref.regularizers import Fixed, Lp, Mahalanobis, Regularizer

D = np.array([0.5, 0.2, 0.3])


def test_norm_of_the_sum_space():
    """min of sum ||f_m||^2/d_m over f_1 + ... + f_M = f is f'(sum d_m K_m)^{-1} f on the samples (Tomioka (1))."""
    problem = make_problem(M=3, n=8)
    K = problem.kernels.dense()
    f = np.random.default_rng(0).normal(size=8)
    coefficients = np.linalg.solve(problem.kernels.combine(D), f)
    rho = D * problem.kernels.norms(coefficients)
    np.testing.assert_allclose(np.einsum("m,mij,j->i", D, K, coefficients), f)
    assert 2 * Fixed(D).value(rho) == pytest.approx(f @ coefficients)
    move = np.random.default_rng(1).normal(size=(3, 8))  # any other decomposition of f costs more
    move -= move.mean(axis=0)
    parts = D[:, None] * (K @ coefficients) + 0.1 * move
    norms = [np.sqrt(part @ np.linalg.solve(gram, part)) for part, gram in zip(parts, K, strict=True)]
    assert Fixed(D).value(np.array(norms)) > Fixed(D).value(rho)


def test_cost_on_the_regulariser():
    """sum of losses + C_TS R has the solution of C = 1/C_TS, and C_TS times its value (Tomioka (2), (3), (6), (9))."""
    C_TS = 2.5
    problem = make_problem(loss="squared", C=1 / C_TS, intercept=False, n=15, regularizer=Fixed([0.5, 0.2, 0.3, 0.1]))
    solution = reference.solve(problem)
    K = problem.kernels.combine(problem.regularizer.weights)
    a = np.linalg.solve(K + C_TS * np.eye(15), problem.y)  # argmin of 1/2 ||y - K a||^2 + C_TS/2 a'K a
    off = solution.decision_function(problem.kernels.dense()) - K @ a
    assert 0.5 * problem.C * off @ off <= solution.certificate.gap <= 1e-9 * solution.objective  # P is as convex
    value = 0.5 * np.sum((problem.y - K @ a) ** 2) + 0.5 * C_TS * a @ K @ a
    assert C_TS * solution.objective == pytest.approx(value)


def test_weighted_feature_maps():
    """The features sqrt(theta_m) psi_m, side by side, have the weighted sum of the kernels (Kloft (2))."""
    kernels = make_problem(M=3, n=8).kernels
    roots = [np.linalg.cholesky(K + 1e-12 * np.eye(8)) for K in kernels.dense()]
    features = np.hstack([np.sqrt(weight) * root for weight, root in zip(D, roots, strict=True)])
    np.testing.assert_allclose(features @ features.T, kernels.combine(D), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("p", [1.0, 1.5, 4.0, np.inf])
def test_the_constraint_on_the_weights_is_tight(p):
    """Weights inside the ball can be enlarged, at less cost, until ||theta||_p = 1 (Kloft (5), (6))."""
    for rho in (np.array([0.4, 1.2, 0.8]), np.array([0.0, 1.2, 0.8])):
        theta = Lp(p).weights_from_norms(rho)
        assert np.linalg.norm(theta, p) == pytest.approx(1.0)
        present = rho > 0
        for shrink in (0.99, 0.5):
            assert np.sum((rho**2)[present] / (shrink * theta[present])) > np.sum((rho**2)[present] / theta[present])


@pytest.mark.parametrize("ball", [Lp(1), Lp(1.5), Lp(4), Lp(np.inf), Mahalanobis(np.diag([1.0, 0.5, 2.0]))], ids=str)
def test_multiplier_of_the_norm_constraint(ball: Regularizer):
    """max over beta of -||q/2||_*^2/(2 beta) - beta/2 is -||q/2||_*, at beta = ||q/2||_* (Kloft (10), (11))."""
    g = np.array([0.7, 1.1, 0.4])
    half = ball.conjugate(g)
    best = minimize_scalar(lambda beta: half**2 / (2 * beta) + beta / 2, bounds=(1e-3, 10), method="bounded")
    assert best.x == pytest.approx(half, rel=1e-3)
    assert best.fun == pytest.approx(half, rel=1e-6)
    rng = np.random.default_rng(0)
    theta = rng.dirichlet(np.ones(3), size=5000) * rng.uniform(0, 3, size=(5000, 1))
    inside = [0.5 * weights @ g**2 for weights in theta if ball.weight_penalty(weights) == 0.0]
    assert 0.9 * half <= max(inside) <= half * (1 + 1e-12)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("loss", ["hinge", EpsilonInsensitive(0.2), "one_class", "squared", "logistic"], ids=str)
def test_gradient_of_the_value_in_the_weights(loss):
    """dJ/dd_m = -1/2 beta'K_m beta for J(d), the value at fixed weights (SimpleMKL (9)-(13), (20), (21))."""
    problem = make_problem(loss=loss, M=3, n=15)

    def value(d: np.ndarray, formulation: str = "dual") -> tuple[float, np.ndarray]:
        solution = reference.solve(problem.replace(regularizer=Fixed(d)), formulation, tol=1e-9)
        return solution.objective, solution.dual_coef

    primal, beta = value(D, "mixed_norm")
    assert value(D)[0] == pytest.approx(primal, rel=1e-7)
    gradient = -0.5 * problem.kernels.quadratic(beta)
    for direction in np.array([[1.0, -2.0, 0.0], [0.0, 1.0, 0.5]]):
        slope = (value(D + 1e-4 * direction)[0] - value(D - 1e-4 * direction)[0]) / 2e-4
        assert gradient @ direction == pytest.approx(slope, rel=1e-3)


ROOT = Path(__file__).parent.parent
with (ROOT / "docs" / "equation_index.csv").open(encoding="utf-8", newline="") as file:
    ROWS = list(csv.DictReader(file))
ERRATA = (ROOT / "docs" / "errata.md").read_text(encoding="utf-8")


def numbered(*parts: str) -> set[str]:
    """ "(1-3)" -> (1), (2), (3); "Table 1-2" -> Table 1, Table 2; anything else as it is."""
    items = set()
    for part in parts:
        match = re.fullmatch(r"(\D*)(\d+)-(\d+)(\D*)", part)
        if match is None:
            items.add(part)
        else:
            before, first, last, after = match.groups()
            items |= {f"{before}{number}{after}" for number in range(int(first), int(last) + 1)}
    return items


PAPERS = {
    "Kowalski": numbered(
        "(1-6)", "Definition 1-2", "Theorem 1-3", "Lemma 1", "Proposition 1-3", "Algorithm 1-2", "Figure 1-2"
    ),
    "Szafranski": numbered("(1-13)", "(15)", "Proposition 1-3", "Table 1-2"),
    "Tomioka": numbered("(1-16)", "Table 1"),
    "Kloft": numbered(
        "(1-8)", "(9a)", "(9b)", "(10-35)", "(36a)", "(36b)", "(37-38)", "(P)", "(D)",
        "Theorem 1", "Proposition 2-3", "Theorem 4", "Proposition 5", "Theorem 6", "Remark 7", "Theorem 8",
        "Corollary after Theorem 8", "Corollary 9-10", "Proposition 11", "Example 1-2", "Algorithm 1-2", "Table 1-2",
        "Figure 1-7",
    ),
    "SimpleMKL": numbered("(1-22)", "Algorithm 1", "Theorem 1", "Table 1-6", "Figure 1-7"),
}  # fmt: skip
"""Everything that carries a number in the papers."""

COUNTS = {"K": 9, "S": 6, "T": 10, "L": 17, "R": 8}
"""Errata by paper."""


@cache
def functions(path: str) -> set[str]:
    """Names of the test functions in a file."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("paper", PAPERS)
def test_every_numbered_item_has_one_row(paper):
    items = [row["item"] for row in ROWS if row["paper"] == paper]
    assert len(items) == len(set(items))
    assert set(items) == PAPERS[paper]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['paper']} {row['item']}")
def test_what_a_row_names_exists(row):
    if row["object"]:
        parts = row["object"].split(".")
        for split in range(len(parts), 0, -1):
            try:
                thing = import_module(".".join(parts[:split]))
                break
            except ModuleNotFoundError:
                continue
        for part in parts[split:]:
            thing = getattr(thing, part)
    if row["test"]:
        path, name = row["test"].split("::")
        assert name in functions(path)
    assert row["statement"]
    if not (row["object"] and row["test"]):
        assert re.search("quoted|left out|textbook", row["note"]), "an item without object and test needs a reason"


def test_no_row_waits_and_every_experiment_that_one_names_is_there():
    from validation.reproduce.experiments import experiments

    notes = " ".join(row["note"] for row in ROWS)
    assert "not yet" not in notes
    named = set(re.findall(r"mklref reproduce ([a-z0-9-]+)", notes))
    assert len(named) == 12
    assert all(experiments([name]) for name in named)
    tables = {row["item"] for row in ROWS if row["paper"] == "SimpleMKL" and "mklref reproduce" in row["note"]}
    assert tables >= numbered("Table 1-6", "Figure 2-5", "Figure 7")


def test_items_that_were_once_interchanged_are_where_the_papers_have_them():
    rows = {(row["paper"], row["item"]): row for row in ROWS}
    assert rows["SimpleMKL", "(4)"]["object"].endswith("weights_from_norms")
    assert rows["SimpleMKL", "(5)"]["object"].endswith("Lp.value")
    assert rows["Szafranski", "(6)"]["object"].endswith("Hierarchical")
    assert rows["Kloft", "(8)"]["object"].endswith("kloft_8")


SECTIONS = {
    "SimpleMKL": {
        "3.4": "silp|sonnenburg|semi.infinite|edges",
        "4.1": "regression|epsilon|one.class|outlier",
        "4.2": "multiclass|several|w_p|sum of theirs|machines|sum_p",
        "4.3": "logistic",
        "4.4": "path|warm|descending",
    },
    "Kloft": {"4.3": "equation", "4.4.1": "sip|semi.infinite|silp|edges"},
}
"""What the sections of these numbers are about, in words of which one stands where a section is cited."""


def test_sections_are_cited_for_what_they_are_about():
    texts = [*(ROOT / "mklref").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    cited = set()
    for path in texts:
        if {"_build", "_generated"} & set(path.parts):
            continue
        lines = path.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines):
            for paper, section in re.findall(r"(SimpleMKL|Kloft)(?: et al\. 2011,)? (\d(?:\.\d)+)", line):
                if section in SECTIONS[paper]:
                    near = " ".join([path.stem, *lines[max(0, number - 1) : number + 2]]).lower()
                    assert re.search(SECTIONS[paper][section], near), f"{path}:{number + 1}: {line}"
                    cited.add((paper, section))
    assert {("SimpleMKL", "4.1"), ("SimpleMKL", "4.2"), ("SimpleMKL", "4.3"), ("Kloft", "4.4.1")} <= cited


def test_errata_named_in_the_index_are_in_the_list_of_errata():
    named = set(re.findall(r"\b[KSTLR]\d+\b", " ".join(row["note"] for row in ROWS)))
    assert len(named) > 30
    assert named <= set(errata())


def errata() -> dict[str, str]:
    """The lines of the tables of errata, by id."""
    return dict(re.findall(r"^\| ([KSTLR]\d+)†? (\|.*\|)$", ERRATA, flags=re.MULTILINE))


def test_every_erratum_has_a_line_with_what_is_printed_and_what_is_meant():
    expected = [f"{letter}{number}" for letter, count in COUNTS.items() for number in range(1, count + 1)]
    assert sorted(errata()) == sorted(expected)
    for line in errata().values():
        assert len([cell for cell in line.split("|") if cell.strip()]) == 4


def test_every_erratum_has_its_test():
    tests = {name for path in (ROOT / "tests" / "errata").glob("test_*.py") for name in functions(str(path))}
    heading = ERRATA.partition("apart from ")[2].partition("which are settled")[0]
    for number, line in errata().items():
        named = re.findall(r"`(test_\w+)`", line)
        assert set(named) <= tests
        if named:
            assert any(name.startswith(f"test_{number}_") for name in named)
        else:
            assert "no test" in line
            assert number in heading
    tested = {match.group(1) for name in tests if (match := re.match(r"test_([KSTLR]\d+)_", name))}
    assert tested <= set(errata())
    assert {number for number, line in errata().items() if "no test" not in line} == tested


def test_the_papers_that_were_read_are_named_as_they_are():
    """The preprint of Kloft et al. and the conference paper of Szafranski et al., wherever they are named."""
    assert "*Learning with groups of kernels* (CAp 2008)" in ERRATA
    assert "*Non-sparse regularization for multiple kernel learning* (preprint)" in ERRATA
    for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "validation").rglob("*.toml")]:
        text = " ".join(path.read_text(encoding="utf-8").split())
        for named in re.finditer(r"lp-norm multiple kernel learning\W", text, flags=re.IGNORECASE):
            around = text[max(0, named.start() - 120) : named.end() + 120]
            assert "preprint" in around, path
            assert re.search(r"not\W+seen", around), path


NOT_STATED = numbered("S5-6", "L9", "L12-13", "R1-2", "R5-8")
"""Errata of numberings, figures and experiments, and of what is not yet in the library."""


def test_errata_are_marked_where_a_reader_meets_the_formula():
    """The docstrings of the package name every erratum of what they state."""
    text = " ".join(path.read_text(encoding="utf-8") for path in (ROOT / "mklref").rglob("*.py"))
    spans = re.findall(r"\b([KSTLR])(\d+)(?:(?:-| to )\1(\d+))?\b", text)
    stated = {f"{letter}{k}" for letter, first, last in spans for k in range(int(first), int(last or first) + 1)}
    assert set(errata()) - NOT_STATED <= stated
