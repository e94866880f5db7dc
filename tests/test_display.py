"""What notebooks and reports show, and problems as LaTeX: every formulation, loss and regulariser, with its numbers."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import numpy as np
import pytest

import mklref
from mklref import _display, _latex, evidence, kernels, reference, synthesis
from mklref._latex.parts import number
from mklref.exceptions import InvalidParameter, NotApplicable
from mklref.formulations import FORMULATIONS
from mklref.losses import LOSSES
from mklref.regularizers import HalfPower, PowerRoot, RootPlusLinear, SmoothedRoot
from mklref.report import figures, render
from mklref.signed import SignedProblem

X = np.random.default_rng(0).normal(size=(8, 2))
Y = np.sign(X[:, 0] - X[:, 1])
FAMILY = kernels.gaussian([0.5, 1.0]) + kernels.linear()
K = np.asarray(FAMILY.fit(X))
PROBLEM = mklref.Problem(K, Y, C=2.0, regularizer=mklref.Lp(4 / 3))


def parsed(html):
    """HTML that is also well-formed XML, without what a browser would forgive."""
    return ElementTree.fromstring(f"<body>{html.replace('<br>', '<br/>')}</body>")


def test_every_formulation_has_a_statement():
    assert list(_latex.STATEMENTS) == list(FORMULATIONS)
    for name in FORMULATIONS:
        assert_balanced(_latex.statement(name))
    for name, (has, lacks) in GENERAL.items():
        assert has in _latex.statement(name), name
        assert lacks not in _latex.statement(name), name


GENERAL = {
    "mixed_norm": (r"R(\rho_1, \dots, \rho_M) + c_b\, b,\qquad \rho_m", r"\begin{cases}"),
    "silp": (r"\sum_m \theta_m \le 1", r"\psi"),
    "semi_infinite": (r"\tau + \psi(\theta)", r"\sum_m \theta_m \le 1"),
    "block_norm": (r"\begin{cases} \frac12", r"\rho"),
    "sup_block_norm": (r", \qquad r = \frac{q}{q-2}", r"\rho"),
    "generalized_block_norm": (r"g\left(\lVert v_m\rVert^2\right)", r"\rho"),
    "ivanov": (r"\sum_{m=1}^M \theta_m^p \le 1", r"\psi"),
    "tikhonov": (r"\begin{cases} \mu", r"\psi"),
    "hierarchical": ("t = Xw + b", r"\psi"),
    "multiclass": (r"V(t_{i,p},\, y_{i,p})", "V(t_i"),
}
"""What a statement for any problem has, and what belongs to others."""


def assert_balanced(latex):
    bare = re.sub(r"\\[{}]", "", latex)
    assert bare.count("{") == bare.count("}")
    assert len(re.findall(r"\\left\b", latex)) == len(re.findall(r"\\right\b", latex))
    assert latex.count(r"\begin") == latex.count(r"\end")
    assert "None" not in latex
    assert "  +" not in latex
    assert "+ -" not in latex


class Own(PowerRoot):
    """A concave function of somebody's own, of which only the symbol is known."""

    def value(self, x):
        return super().value(x)


REGULARIZERS = {
    mklref.Lp(1): (r"\left(\sum_m \rho_m\right)^2", r"\max_m\, g_m^2", r"\lVert\theta\rVert_{1} \le 1"),
    mklref.Lp(4 / 3): (r"\lVert\rho\rVert_{8/7}^2", r"(g_m^2)_m \rVert_{4}", r"\lVert\theta\rVert_{4/3} \le 1"),
    mklref.Lp(np.inf): (r"\lVert\rho\rVert_{2}^2", r"(g_m^2)_m \rVert_{1}", r"\lVert\theta\rVert_{\infty} \le 1"),
    mklref.BlockNorm(2): (r"\lVert\rho\rVert_{2}^2", r"(g_m^2)_m \rVert_{1}", r"\lVert\theta\rVert_{\infty} \le 1"),
    mklref.BlockNorm(3): (r"\lVert\rho\rVert_{3}^2", r"\lVert g\rVert_{3/2}^2", None),
    mklref.BlockNorm(np.inf): (r"\lVert\rho\rVert_{\infty}^2", r"\lVert g\rVert_{1}^2", None),
    mklref.WeightedLp(2, [1.0, 2.0, 3.0]): (r"\rVert_{4/3}^2", r"(s_m g_m^2)_m \right\rVert_{2}", r"\rVert_{2} \le 1"),
    mklref.Fixed([1.0, 2.0, 0.0]): (r"\rho_m^2 / w_m", r"w_m\, g_m^2", r"\theta_m \le w_m"),
    mklref.Mahalanobis(np.eye(3)): (r"\rho_m^2 / \theta_m", r"u^\top E\, u", r"\theta^\top E^{-1} \theta \le 1"),
    mklref.Groups([[0, 1], [2]], p=0.25, q=0.5): (
        r"d_\ell^{1/8} \lVert \rho_\ell\rVert_{4/3}\right)_\ell \right\rVert_{8/7}^2",
        r"d_\ell^{-1/8} \lVert g_\ell\rVert_{4}\right)_\ell \right\rVert_{8}^2",
        r"d_\ell^{1/4} \lVert \theta_\ell\rVert_{2}\right)_\ell \right\rVert_{4/3} \le 1",
    ),
    mklref.Groups([[0, 1], [2]], p=1.0, q=0.0): (r"\rVert_{1}^2", r"\rVert_{\infty}^2", r"\theta_\ell\rVert_{\infty}"),
    mklref.Power(3): (
        r"+ \tfrac{2}{3} \sum_m \rho_m^{3/2}",
        r"\tfrac{1}{3} \sum_m g_m^{3}",
        r"\tfrac{1}{6} \sum_m \theta_m^{3}",
    ),
    mklref.Power(1): (r"\sum_m \rho_m", r"g_m \le 1", r"\sum_m \theta_m"),
    mklref.Power(np.inf): (r"+ \tfrac12 \sum_m \rho_m^{2}", r"- \tfrac12 \sum_m g_m^2", r"\theta_m \le 1"),
    HalfPower(1.5): (
        r"\rho_m^{3/2}",
        r"\tfrac{1}{4} \sum_m \left(\tfrac{4}{3}\, g_m\right)^{3}",
        r"\tfrac{1}{8} \sum_m \left(\tfrac{3}{4}\, ",
    ),
    mklref.WeightedL1([1.0, 2.0, 3.0]): (r"\omega_m\, \rho_m", r"g_m \le \omega_m", r"\omega_m^2\, \theta_m"),
    mklref.Tikhonov(2, 2): (r"(2)^{1/3} \lVert\rho\rVert_{4/3}^{4/3}", "0.03125", r"2\, \lVert\theta\rVert_{2}^2"),
    mklref.Tikhonov(2, 1): (r"\frac{3}{4^{2/3}}  \lVert\rho", r"0.0625\, \lVert", r"+ \lVert\theta\rVert_{2}^2"),
    mklref.Tikhonov(2, 1 / 16): (r"(0.0625)^{1/3} \lVert\rho", r"- \lVert (g_m^2)_m \rVert_{2}^2", "0.0625\\, "),
    mklref.ConcaveBlock(PowerRoot(3)): (
        r"\tfrac{2}{3} \sum_m \rho_m^{3/2}",
        r"g_m^{3}",
        r"\tfrac{1}{6} \sum_m \theta_m^{3}",
    ),
    mklref.ConcaveBlock(RootPlusLinear(0.3)): (
        r"\tfrac{7}{10}\, \rho_m",
        r"\tfrac{5}{3}\, \sum_m \max",
        r"\frac{0.49\, \theta_m}{1 - \tfrac{3}{10}\, \theta_m}",
    ),
    mklref.ConcaveBlock(SmoothedRoot(0.5)): (
        r"\sum_m \left(\sqrt{\rho_m^2 + (1/2)^2} - 1/2\right)",
        r"- \tfrac{1}{2}\, \sum_m \left(1 - \sqrt{1 - g_m^2}\right)",
        r"+ \tfrac12 \sum_m \max(0,\, \theta_m - 1/2)^2 / \theta_m",
    ),
    mklref.ConcaveBlock(Own(2)): (r"\sum_m g(\rho_m^2)", r"g(r^2)", r"- \sum_m g^*\left(1 / (2\theta_m)\right)"),
    mklref.ElasticNet(0.3): (
        r"\tfrac{7}{10}\, \rho_m",
        r"\tfrac{5}{3}\, \sum_m \max",
        r"\frac{0.49\, \theta_m}{1 - \tfrac{3}{10}\, \theta_m}",
    ),
    mklref.ElasticNet(0.3, form="ivanov"): (
        r"\tfrac{7}{10} \left(",
        r"\tfrac{5}{7}\, \tau^2 + \tfrac{5}{3}\, ",
        r"1 - \tfrac{3}{10}\, \theta_m} \le 1",
    ),
}
"""What stands for R in `mixed_norm`, for R* in `dual`, and for psi in `weighted_primal` and `semi_infinite`."""


@pytest.mark.parametrize("regularizer", REGULARIZERS, ids=str)
def test_the_regulariser_is_written_out(regularizer):
    problem, (R, R_star, psi) = PROBLEM.replace(regularizer=regularizer), REGULARIZERS[regularizer]
    parts = {"mixed_norm": R, "dual": R_star, "weighted_primal": psi, "semi_infinite": psi}
    for name in reference.formulations(problem):
        stated = problem.to_latex(name)
        assert_balanced(stated)
        assert parts.get(name, "") in stated
        assert r"\begin{cases}" not in stated
        assert not stated.endswith(r"\qquad ")
        assert "- 0 " not in stated


@pytest.mark.parametrize(
    ("loss", "value", "domain"),
    [
        ("hinge", r"\max(0,\, 1 - y_i t_i)", r"0 \le y_i \beta_i \le C"),
        ("squared_hinge", r"\max(0,\, 1 - y_i t_i)^2", r"y_i \beta_i \ge 0"),
        ("logistic", r"\log(1 + e^{-y_i t_i})", r"H(y_i \beta_i / C)"),
        ("squared", r"\tfrac12 (y_i - t_i)^2", r"\frac12 \sum_i \beta_i^2 / C"),
        (mklref.EpsilonInsensitive(0.1), r"|y_i - t_i| - 1/10)", r"\tfrac{1}{10} \lVert\beta\rVert_1"),
        (mklref.SquaredEpsilonInsensitive(0.1), r"- 1/10)^2", r"\tfrac{1}{10} \lVert\beta\rVert_1"),
        (mklref.Huber(1.5), r"V_{3/2}(y_i - t_i)", r"|\beta_i| \le \tfrac{3}{2}\, C"),
        (mklref.Pinball(0.25), r"\tfrac{1}{4} (y_i - t_i)", r"-\tfrac{3}{4}\, C \le \beta_i \le \tfrac{1}{4}\, C"),
        ("one_class", r"\max(0,\, -t_i)", r"\mathbf 1^\top\beta = 1"),
        ("density_level_set", r"\max(0,\, 1 - t_i)", r"0 \le \beta_i \le C"),
    ],
    ids=str,
)
def test_the_loss_is_written_out(loss, value, domain):
    y = np.ones(8) if loss in ("one_class", "density_level_set") else Y
    problem = mklref.Problem(K, y, C=2.0, loss=loss, intercept=loss != "density_level_set")
    assert value in problem.to_latex()
    assert domain in (dual := problem.to_latex("dual"))
    quadratic = np.isfinite(problem.loss.smoothness) and loss != "logistic"
    assert (r"- \frac12 \sum_i \beta_i^2 / C" in dual) == quadratic
    for name in ("", "mixed_norm"):
        stated = problem.to_latex(name or None)
        assert bool(re.search(r", *b}", re.sub(r"\\[;,]", "", stated))) == problem.intercept
        assert bool(re.search(r"\^2 \+ b,", stated)) == (loss == "one_class")  # c_b b
    assert (r"\mathbf 1^\top\beta = " in dual) == problem.intercept
    assert ("f_m(x_i) + b" in problem.to_latex()) == problem.intercept
    assert problem._repr_latex_() == f"$$ {problem.to_latex()} $$"
    assert len(LOSSES) == 10


def test_a_formulation_that_does_not_cover_the_problem_is_refused_in_its_own_words():
    with pytest.raises(NotApplicable, match="qcqp is the dual at"):
        PROBLEM.to_latex("qcqp")
    with pytest.raises(InvalidParameter, match="known names"):
        PROBLEM.to_latex("dua")


@pytest.mark.parametrize(
    ("form", "says"),
    [("tikhonov", r"+ \tfrac{1}{4} \sum_m u_m, "), ("ivanov", r"subject to}\quad \sum_m u_m \le 1, ")],
)
def test_the_elastic_net_is_written_with_the_weights_that_its_program_has(form, says):
    problem = PROBLEM.replace(regularizer=mklref.ElasticNet(0.5, form=form))
    assert all(r"\theta_m < 2" in problem.to_latex(name) for name in ("weighted_primal", "semi_infinite"))
    stated = problem.to_latex("elastic_net")
    assert r"u \ge 0" in stated
    assert r"\tfrac{1}{2} \frac{\lVert v_m\rVert^2}{u_m} + \tfrac{1}{2} \lVert v_m\rVert^2" in stated
    assert says in stated
    assert stated.endswith(r"\theta_m = \frac{u_m}{\tfrac{1}{2} + \tfrac{1}{2}\, u_m}")


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_exponents_of_0_and_1_are_not_written(p):
    problem = PROBLEM.replace(regularizer=mklref.Groups([[0, 1], [2]], p, 1.0 - p))
    for name in ("groups", "cap", "weighted_primal", "dual"):
        assert not re.search(r"\^\{-?0\}|\^\{1\}", problem.to_latex(name)), name


def test_problems_of_several_machines_and_of_signed_weights_are_written_out():
    several = mklref.MulticlassProblem(K, [0, 1, 2, 0, 1, 2, 0, 1])
    assert r"C \sum_p \sum_i \max(0,\, 1 - y_{i,p} t_{i,p})" in several.to_latex()
    assert r"t_{i,p} = \sum_{m=1}^M f_{m,p}(x_i) + b_p" in several.to_latex()
    assert r"\lVert V_m\rVert_F" in several.to_latex("multiclass")
    signed = SignedProblem(K, Y)
    assert r"\succeq 0" in signed.to_latex() == signed.to_latex("sdp")
    for problem in (several, signed):
        assert_balanced(problem.to_latex())
        parsed(problem._repr_html_())
    parsed(mklref.solve(several)._repr_html_())
    parsed(_display.weights(np.array([1.0, -0.5])))


@pytest.mark.parametrize(
    ("x", "said"),
    [
        (1.0 + 1e-7, "1.0000001"),
        (1e-15, r"1 \cdot 10^{-15}"),
        (1.0 - 1e-9, "0.999999999"),
        (0.9 - 1.0, "-1/10"),
        (2.0 / 2.1, "20/21"),
        (0.05, "0.05"),
        (2.0**0.5, "1.41421"),
    ],
)
def test_no_number_is_written_as_another_that_is_simpler(x, said):
    assert number(x) == said


def test_a_statement_of_a_problem_says_what_belongs_to_it():
    squared = mklref.Problem(K, X[:, 0], loss="squared", regularizer=HalfPower(1), intercept=False)
    primal, dual = squared.to_latex("group_lasso").split(r"\\")
    assert r"g_m \le \tfrac12" in dual  # R* is 0 there, and infinite elsewhere
    assert "- 0" not in dual
    assert r"\tfrac12 \sum_m \rho_m," in primal
    concave = mklref.Problem(K, Y, regularizer=mklref.Power(2)).to_latex("generalized_block_norm")
    assert r"\rho_m^{4/3}" in concave  # and no g that nothing defines
    classes = mklref.MulticlassProblem(K, np.arange(8) % 3, intercept=False)
    assert "b" not in re.sub(r"\\\w+", "", classes.to_latex("multiclass"))
    assert r"t = f + b" in _latex.statement("sdp")
    for q, r in ((2, r"\infty"), (3, "3"), (4, "2"), (np.inf, "1")):
        weighted = PROBLEM.replace(sample_weight=np.ones(8), regularizer=mklref.BlockNorm(q))
        assert r"\sum_{i=1}^{n} c_i\, \max(0" in weighted.to_latex()
        assert rf"\lVert\vartheta\rVert_{{{r}}} \le 1" in weighted.to_latex("sup_block_norm")
    groups = PROBLEM.replace(regularizer=mklref.Groups([[0, 1], [2]], p=0.25, q=0.5))
    assert r"\sigma_{1,\ell}^{-1/4} \sum_{m \in G_\ell} \sigma_{2,m}^{-1/2}" in groups.to_latex("groups")
    composite = r"d_\ell^{1/7} \left(\sum_{m \in G_\ell} \lVert v_m\rVert^{4/3}\right)^{6/7}\right)^{7/4}"
    assert composite in groups.to_latex("cap")
    groups = PROBLEM.replace(regularizer=mklref.Groups([[0, 1], [2]], p=0.2, q=0.3))
    composite = r"d_\ell^{2/15} \left(\sum_{m \in G_\ell} \lVert v_m\rVert^{20/13}\right)^{13/15}\right)^{3/2}"
    assert composite in groups.to_latex("cap")


def test_a_factor_is_no_part_of_a_denominator():
    problem = mklref.Problem(K, X[:, 0], loss="epsilon_insensitive:0.1", regularizer=mklref.Power(2))
    stated = problem.to_latex("dual")
    assert r"- \tfrac{1}{10} \lVert\beta\rVert_1" in stated
    assert re.findall(r"(?<![_{])\d+/\d+ ", stated) == []


def test_notebooks_show_interval_and_weights_as_bars():
    solution = mklref.solve(PROBLEM, tol=1e-8)
    html = solution._repr_html_()
    tree = parsed(html)
    bars = [float(bar.get("width")) for bar in tree.find(".//svg[@class='mklref-weights']").iter("rect")]
    np.testing.assert_allclose(np.divide(bars, max(bars)), solution.weights / max(solution.weights), atol=1e-3)
    label = tree.find(".//svg[@class='mklref-weights']").get("aria-label")
    assert label.endswith("; ".join(f"kernel {m} {theta:.4g}" for m, theta in enumerate(solution.weights)))
    frame, bar = tree.find(".//svg[@class='mklref-interval']").iter("rect")
    digits = 16 * float(bar.get("width")) / float(frame.get("width"))
    assert digits == pytest.approx(-np.log10(solution.certificate.relative_gap), abs=0.05)
    assert all(bound in html for bound in _display.outwards(solution.certificate.lower, solution.certificate.upper))


def test_a_terminal_shows_one_line_with_status_and_interval():
    cut_short = mklref.solve(PROBLEM, max_iter=1)
    lower, upper = _display.outwards(cut_short.certificate.lower, cut_short.certificate.upper)
    assert re.fullmatch(
        rf"Solution\(M=3, n=8, ITERATION_LIMIT by native: {lower} <= P\* <= {upper}, relative gap \d\.\de[-+]\d+\)",
        repr(cut_short),
    )
    assert repr(cut_short.history).startswith(f"History({len(cut_short.history)} records, {{'machines': ")
    several = mklref.solve(mklref.MulticlassProblem(K, [0, 1, 2, 0, 1, 2, 0, 1]))
    assert repr(several).startswith("Solution(M=3, n=8, OPTIMAL by native: ")
    signed = reference.solve(SignedProblem(K, Y), formulation="sdp")
    assert repr(signed).startswith(f"SignedSolution(M=3, n=8, {signed.status.name} by sdp/")
    made = synthesis.solve(synthesis.SynthesisProblem(K, Y, lam=0.5, p=2, q=1, r=1))
    assert repr(made).startswith("SynthesisSolution(tau=3, N=8, OPTIMAL by newton: ")
    noise = evidence.solve(evidence.EvidenceProblem(K, Y, noise_variance=0.5))
    assert repr(noise) == f"EvidenceSolution(M=3, n=8, STATIONARY by newton: {noise})"
    path = mklref.algorithms.regularization_path(PROBLEM.replace(regularizer=mklref.Lp(1)), C=[1.0, 0.5])
    before, after = path.selected
    assert repr(path) == f"RegularizationPath(2 solutions, C from 1 to 0.5, from {before} to {after} kernels)"


def test_a_bad_point_says_what_is_wrong_with_it():
    html = mklref.certify(PROBLEM, 3.0 * Y, weights=[1.0, 0.0, -1.0])._repr_html_()
    parsed(html)
    assert "Most of the gap comes from" in html
    assert "Infeasible" in html


def test_a_problem_a_cross_check_and_a_family_are_shown():
    parsed(PROBLEM._repr_html_())
    assert r"\lVert\rho\rVert_{8/7}^2" in PROBLEM._repr_html_()
    check = mklref.crosscheck(PROBLEM, formulations=["dual"], solvers=["CLARABEL"])
    html = check._repr_html_()
    assert [cell.text for cell in parsed(html).findall(".//td") if cell.text == "CLARABEL"]
    assert "PASSED" in html
    for family in (FAMILY, kernels.gaussian(1.0), kernels.parse("simplemkl")):
        assert "rbf" in "".join(parsed(family._repr_html_()).itertext())


def test_what_a_user_names_is_text():
    assert "<script>" not in _display.weights(np.ones(1), ["<script>alert(1)</script>"])
    assert "<script>" not in _display.page("<script>", {"<script>": "<script>"}, _display.bullets(["<script>"]))


@pytest.fixture(scope="module")
def check():
    return mklref.crosscheck(PROBLEM, formulations=["dual"], solvers=["CLARABEL", "SCS"])


def test_pictures_of_a_report_hold_the_numbers_of_its_rows(check, monkeypatch):
    monkeypatch.setattr(figures, "_svg", lambda figure, ax: ax)
    native, best = (check.best_rows[name].solution for name in ("native", "dual"))
    for most, says in ((3, "weight"), (2, "weight (2 largest of 3 kernels)")):
        monkeypatch.setattr(figures, "MOST_KERNELS", most)
        ax, shown = figures.weights(check), np.sort(np.argsort(-native.weights)[:most])
        np.testing.assert_array_equal([bar.get_width() for bar in ax.patches], native.weights[shown])
        np.testing.assert_array_equal(ax.lines[0].get_data(), [best.weights[shown], np.arange(most)])
        assert [label.get_text() for label in ax.get_yticklabels()] == [f"K{m}" for m in shown]
        assert ax.get_xlabel() == says
        assert ax.get_xlim()[0] == pytest.approx(-0.01 * max(native.weights.max(), best.weights.max()))
    gaps = np.maximum(native.history.column("relative_gap"), 1e-16)
    path, tolerance = figures.convergence(check).lines
    np.testing.assert_array_equal(path.get_data(), [native.history.column("iteration"), gaps])
    assert tolerance.get_ydata()[0] == check.rows[0].allowed
    _, _, own, path, *marks = figures.gap_against_time(check).lines  # behind two without a point, for the legend
    np.testing.assert_array_equal(path.get_data(), [native.history.column("seconds"), gaps])
    for row, mark in zip(check.rows, (own, *marks), strict=True):
        assert mark.get_xydata().tolist() == [[row.seconds, max(row.relative_gap, 1e-16)]]
    assert [mark.get_fillstyle() for mark in marks] == ["none", "left"]


def test_html_is_one_page_that_refers_to_nothing_and_escapes_names(check):
    page = render({"<b>title</b>": check}, {"data": "<script>alert(1)</script>"})
    assert "<script>" not in page
    assert "&lt;b&gt;title" in page
    assert len(re.findall(r'role="img" aria-label="[A-Z][a-z ]+">\s*<svg', page)) == page.count("<svg") == 4
    assert "PASSED: 2 values agree" in page
    outside = re.findall(r"(?:src|href)=\"(?!#)[^\"]*\"|url\((?!#)[^)]*\)|@import", page)
    assert outside == []
    ids = re.findall(r"\bid=\"([^\"]+)\"", page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r"(?:url\(#|href=\"#)([^)\"]+)", page)) <= set(ids)
    assert "#010101" not in page
    assert "prefers-color-scheme: dark" in page


def test_a_report_has_passed_if_all_checks_have_and_failed_if_one_has(check, monkeypatch):
    for name in ("values", "weights", "convergence", "gap_against_time"):
        monkeypatch.setattr(figures, name, lambda check: "")
    native, row, *_ = check.rows
    silent, wrong = (replace(row, solution=None, claim=claim) for claim in ("", "infeasible"))
    undecided, wrong = (replace(check, rows=(native, other)) for other in (silent, wrong))
    for checks, says in (
        ((check, check), "Passed: 2 of 2 problems"),
        ((check, undecided), "Undecided: 1 of 2 problems"),
        ((check, undecided, wrong), "Failed: 1 of 3 problems"),
        ((), "Undecided: 0 of 0 problems"),
    ):
        page = " ".join(render({str(k): one for k, one in enumerate(checks)}).split())
        assert f"> {says} passed.<" in page
        assert f"crosscheck: {says.partition(':')[0].lower()}<" in page
