r"""Every formulation as LaTeX: in general, or with the loss and the regulariser of a problem written out.

    minimise over v, b    sum_i c_i V(t_i, y_i) + R(||v_1||, ..., ||v_M||) + c_b b        in general
    minimise over v, b    C sum_i max(0, 1 - y_i t_i) + 1/2 ||rho||_{4/3}^2               of a problem

The symbols are those of the notation: rho_m = ||f_m||, g_m = sqrt(beta'K_m beta), q_m = g_m^2.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from mklref._latex.parts import Parts, parts_of, raised
from mklref.exceptions import NotApplicable
from mklref.formulations import as_formulation

if TYPE_CHECKING:
    from mklref.problem import Problem

SCORES = r"t_i = \sum_{m=1}^M f_m(x_i)"
DUAL_NORMS = r"g_m = \sqrt{\beta^\top K_m\, \beta}"


def statement(name: str, problem: Problem | None = None) -> str:
    r"""A formulation as display mathematics without delimiters, with loss and regulariser of a problem written out.

    Without one the symbols V, R and psi stand for any. The name is one of `reference.explain(problem)`;
    `InvalidParameter` for another, and `NotApplicable`, which says why, if it does not cover the problem.
    """
    formulation = as_formulation(name)
    if problem is not None:
        reason = formulation.explain(problem)
        if reason is not None:
            raise NotApplicable(reason)
    parts = Parts() if problem is None else parts_of(problem)
    return STATEMENTS[name](parts)


def problem_statement(problem: Problem) -> str:
    """The problem itself, over functions."""
    if problem.signed:
        return statement("sdp", problem)
    parts = parts_of(problem)
    scores = SCORES + (" + b" if problem.intercept else "")
    over = r"f_m \in \mathcal H_m" + (r",\; b" if problem.intercept else "")
    latex = (
        rf"\min_{{{over}}}\quad {parts.losses} + {parts.penalty}{parts.intercept}, \qquad {scores}, "
        r"\quad \rho_m = \lVert f_m\rVert"
    )
    return of_machines(latex) if problem.several else latex


def of_machines(latex: str) -> str:
    """Of several machines: with sums over them, and their number p at scores and targets."""
    latex = re.sub(r"\\sum_\{i=1\}\^\{?n\}?", r"\\sum_p \\sum_i", latex)
    return re.sub(r"\b([ty])_i", r"\1_{i,p}", latex).replace("f_m(x_i)", "f_{m,p}(x_i)").replace("+ b,", "+ b_p,")


def plus(*terms: str) -> str:
    """A sum of what is there."""
    return " + ".join(term for term in terms if term).replace("+ -", "- ")


def such_that(*constraints: str) -> str:
    """Constraints, if there are any."""
    given = [constraint for constraint in constraints if constraint]
    return r" \qquad\text{subject to}\quad " + r",\quad ".join(given) if given else ""


RATIOS = r"\frac12 \sum_{m=1}^M \frac{\lVert v_m\rVert^2}{\theta_m}"
NORMS = r",\qquad \rho_m = \lVert v_m\rVert"
CUT = (
    r"\tau \ge S(\beta) - \frac12 \sum_{m=1}^M \theta_m\, \beta^\top K_m\, \beta \quad\text{for every feasible } \beta"
)


def _dual(s: Parts) -> str:
    constraints = such_that(*s.feasible, *s.domain)
    objective = s.dual_losses + (f" - {s.conjugate}" if s.conjugate != "0" else "") or "0"
    return rf"\max_{{\beta}}\quad {objective}{constraints}, \qquad {DUAL_NORMS}"


def _weighted(s: Parts, *constraints: str, penalty: str | None = None) -> str:
    total = plus(s.losses, RATIOS, s.weight_penalty if penalty is None else penalty) + s.intercept
    return rf"\min_{{v{s.over_intercept},\; \theta \ge 0}}\quad {total}{such_that(*constraints)}"


def _mixed(s: Parts, penalty: str | None = None) -> str:
    where = NORMS if penalty is None else ""
    return rf"\min_{{v{s.over_intercept}}}\quad {plus(s.losses, penalty or s.penalty)}{s.intercept}{where}"


def _cuts(s: Parts, ball: str) -> str:
    machine = rf"S(\beta) = {s.dual_losses or '0'}"
    feasible = such_that(*s.feasible).replace(r"\qquad\text{subject to}\quad", r"\quad\text{on}\quad")
    psi = s.weight_penalty if not ball else ""
    ball = ball or such_that(*s.weight_set).partition(r"\quad ")[2]
    over = r",\; ".join(part for part in (r"\theta \ge 0", ball, r"\tau") if part)
    return (
        rf"\begin{{aligned}} & \min_{{{over}}}\quad {plus(chr(92) + 'tau', psi)}{such_that(CUT)} \\ "
        rf"& {machine}{feasible} \end{{aligned}}"
    )


def _sup(s: Parts) -> str:
    norm, _, where = s.outer.partition(r",\quad ")
    where = where and r", \qquad " + where
    weights = rf"\vartheta \ge 0,\; \lVert\vartheta\rVert_{{{norm}}} \le 1"
    return (
        rf"\min_{{v{s.over_intercept}}}\;\max_{{{weights}}}\quad {s.losses}"
        rf" + \frac12 \sum_{{m=1}}^M \vartheta_m \lVert v_m\rVert^2{s.intercept}{where}"
    )


def _qcqp(s: Parts) -> str:
    kernels = r"\frac12\, \beta^\top K_m\, \beta \le \lambda \quad\text{for every } m"
    return rf"\max_{{\beta,\; \lambda}}\quad {s.dual_losses} - \lambda{such_that(*s.feasible, kernels)}"


def _groups(s: Parts) -> str:
    p, q, *_ = s.groups
    of_groups, of_kernels = raised(r"\sigma_{1,\ell}", f"-{p}"), raised(r"\sigma_{2,m}", f"-{q}")
    return (
        rf"\min_{{v{s.over_intercept},\; \sigma_1, \sigma_2 \ge 0}}\quad {s.losses} + \frac12 \sum_{{\ell}}"
        rf" {of_groups} \sum_{{m \in G_\ell}} {of_kernels} \lVert v_m\rVert^2"
        rf"{s.intercept}{such_that(SIMPLICES)}"
    )


SIMPLICES = r"\sum_\ell d_\ell\, \sigma_{1,\ell} \le 1,\quad \sum_m \sigma_{2,m} \le 1"


def _cap(s: Parts) -> str:
    _, _, size, inner, outer, outermost = s.groups
    norm = raised(r"\lVert v_m\rVert", inner)
    within = raised(rf"\left(\sum_{{m \in G_\ell}} {norm}\right)", outer)
    sizes = raised(r"d_\ell", size)
    across = rf"\left(\sum_\ell {sizes} {within}\right)"
    return _mixed(s, rf"\frac12 {raised(across, outermost)}")


def _elastic_net(s: Parts) -> str:
    (rest, own, penalty, bound), squares = s.net, r"\lVert v_m\rVert^2"
    net = rf"\frac12 \sum_{{m=1}}^M \left({rest} \frac{{{squares}}}{{u_m}} + {own} {squares}\right)"
    return (
        rf"\min_{{v{s.over_intercept},\; u \ge 0}}\quad {plus(s.losses, net, penalty)}{s.intercept}"
        rf"{such_that(bound)}, \qquad \theta_m = \frac{{u_m}}{{{rest} + {own}\, u_m}}"
    )


def _hierarchical(s: Parts) -> str:
    scores = r"t = Xw" + (" + b" if s.over_intercept else "")
    return (
        rf"\min_{{w{s.over_intercept},\; \sigma_1, \sigma_2 \ge 0}}\quad {s.losses} + \frac12 \sum_{{\ell}}"
        r" \sum_{m \in G_\ell} \frac{w_m^2}{\sqrt{\sigma_{1,\ell}\, \sigma_{2,m}}}"
        rf"{s.intercept}{such_that(SIMPLICES)},\quad {scores}"
    )


def _group_lasso(s: Parts) -> str:
    return (
        r"\begin{aligned} & \min_{w}\quad \frac12 \sum_{i=1}^n c_i \left(y_i - \sum_{m=1}^M (X_m w_m)_i\right)^2"
        rf" + {s.penalty}, && \rho_m = \lVert w_m\rVert \\"
        r" & \max_{\beta}\quad y^\top\beta - \frac12 \sum_{i=1}^n \frac{\beta_i^2}{c_i}"
        rf"{f' - {s.conjugate}' * (s.conjugate != '0')}{such_that(*s.domain)},"
        r" && g_m = \lVert X_m^\top \beta\rVert \end{aligned}"
    )


def _multiclass(s: Parts) -> str:
    losses = r"\sum_{p} \sum_{i} c_i\, V(t_{i,p},\, y_{i,p})" if s.general else of_machines(s.losses)
    return (
        rf"\min_{{V{s.over_intercept}}}\quad {losses} + {s.penalty}, \qquad \rho_m = \lVert V_m\rVert_F,"
        rf"\quad t_p = \sum_{{m=1}}^M L_{{m,p}}\, V_{{m,p}}{' + b_p' * bool(s.over_intercept)}"
    )


def _sdp(s: Parts) -> str:
    return (
        rf"\min_{{\mu,\, f,\, s{s.over_intercept}}}\quad {s.losses} + \frac s2{s.intercept}"
        r" \qquad\text{subject to}\quad \begin{pmatrix} K(\mu) & f \\ f^\top & s \end{pmatrix} \succeq 0,\quad"
        r" \operatorname{tr} K(\mu) = c,\quad K(\mu) = \sum_{m=1}^M \mu_m K_m,"
        rf"\quad t = f{' + b' * bool(s.over_intercept)}"
    )


THREE_BLOCK_NORMS = (
    r"\begin{cases} \frac12 \left(\sum_m \lVert v_m\rVert^q\right)^{2/q} \\ \frac1q \sum_m \lVert v_m\rVert^q \\"
    r" \frac12 \sum_m \lVert v_m\rVert^q \end{cases}"
)
TWO_PENALTIES = r"\begin{cases} \mu\, \lVert\theta\rVert_p^2 \\ \frac\mu2 \sum_m h(\theta_m) \end{cases}"
CONCAVE = r"\sum_{m=1}^M g\left(\lVert v_m\rVert^2\right)"

STATEMENTS: dict[str, Callable[[Parts], str]] = {
    "dual": _dual,
    "mixed_norm": _mixed,
    "weighted_primal": lambda s: _weighted(s, *s.weight_set),
    "qcqp": _qcqp,
    "silp": lambda s: _cuts(s, r"\sum_m \theta_m \le 1"),
    "semi_infinite": lambda s: _cuts(s, ""),
    "block_norm": lambda s: _mixed(s, THREE_BLOCK_NORMS if s.general else None),
    "sup_block_norm": _sup,
    "generalized_block_norm": lambda s: _mixed(s, CONCAVE if s.general else None),
    "ivanov": lambda s: _weighted(s, *(s.weight_set or (r"\sum_{m=1}^M \theta_m^p \le 1",)), penalty=""),
    "tikhonov": lambda s: _weighted(s, *s.weight_set, penalty=TWO_PENALTIES if s.general else None),
    "elastic_net": _elastic_net,
    "groups": _groups,
    "cap": _cap,
    "hierarchical": _hierarchical,
    "group_lasso": _group_lasso,
    "multiclass": _multiclass,
    "sdp": _sdp,
}
"""The statement of every formulation as LaTeX of its parts."""

PRIMERS: dict[str, tuple[str, ...]] = {
    name: tuple(functions.split())
    for name, functions in {
        "dual": "kloft_D kloft_10 kloft_12",
        "mixed_norm": "simplemkl_3 kloft_17 tomioka_4",
        "weighted_primal": "simplemkl_2 kloft_P kloft_8 szafranski_7 simplemkl_16 simplemkl_17 kloft_3_5",
        "qcqp": "simplemkl_8 kloft_13 simplemkl_18 simplemkl_19",
        "silp": "simplemkl_silp",
        "semi_infinite": "kloft_sip",
        "block_norm": "tomioka_5 tomioka_7 kloft_28",
        "sup_block_norm": "kloft_30 kloft_31 tomioka_8",
        "generalized_block_norm": "tomioka_9 tomioka_10 tomioka_11 tomioka_12",
        "ivanov": "tomioka_3 kloft_27",
        "tikhonov": "kloft_4 kloft_3 tomioka_6",
        "elastic_net": "tomioka_13",
        "groups": "szafranski_8 szafranski_10_11",
        "cap": "szafranski_9",
        "hierarchical": "szafranski_6 szafranski_6_cap",
        "group_lasso": "kloft_14 kloft_15 kloft_16",
        "multiclass": "simplemkl_22",
        "sdp": "lanckriet_sdp",
    }.items()
}
"""The functions of `mklref.primer` that state each formulation as its papers print it."""


TALL = re.compile(r"(\\[bB]igg?(?:\)|\]|\\rVert|\\\|))(?=[\^_])")
"""A tall closing bracket with an exponent: browsers draw it small, unless the exponent has a base of its own."""


def mathml(latex: str, *, block: bool) -> str:
    """The formula in MathML, which browsers draw without a script and without a network.

    By math-core, which the extras `docs` and `explore` bring. What is no LaTeX ends in its error, and no page is made.
    """
    return str(_converter().convert_with_local_state(TALL.sub(r"\1{}", latex), displaystyle=block))


@lru_cache(maxsize=1)
def _converter() -> Any:
    from math_core import LatexToMathML

    return LatexToMathML(fancy_error=False)
