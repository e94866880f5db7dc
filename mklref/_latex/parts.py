"""What the statements are made of: losses, penalties and their conjugates as LaTeX, and numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from mklref import losses as kinds, regularizers as reg
from mklref.regularizers.norms import ball_exponent, block_exponent, conjugate_exponent, reciprocal

if TYPE_CHECKING:
    from mklref.problem import Problem


@dataclass(frozen=True)
class Penalty:
    """R(rho), R*(g) with its domain, and psi(theta) with the set of weights, each as LaTeX."""

    penalty: str = r"R(\rho_1, \dots, \rho_M)"
    conjugate: str = r"R^*(g_1, \dots, g_M)"
    domain: tuple[str, ...] = ()
    weight_penalty: str = ""
    weight_set: tuple[str, ...] = ()


@dataclass(frozen=True)
class Parts(Penalty):
    """What a statement is made of, each as LaTeX; the symbols of the notation where there is no problem."""

    weight_penalty: str = r"\psi(\theta)"
    losses: str = r"\sum_{i=1}^n c_i\, V(t_i, y_i)"
    intercept: str = r" + c_b\, b"
    over_intercept: str = r",\, b"
    dual_losses: str = r"-\sum_{i=1}^n c_i\, V^*\!\left({-\frac{\beta_i}{c_i}},\, y_i\right)"
    feasible: tuple[str, ...] = (r"\mathbf 1^\top\beta = c_b",)
    general: bool = True
    """Whether the symbols stand for any problem."""
    groups: tuple[str, ...] = ("p", "q", r"\gamma^*", r"\gamma", r"\gamma_0/\gamma", r"2/\gamma_0")
    """The exponents of group and kernel weights, and those of the composite penalty, from sizes to the outermost."""
    net: tuple[str, str, str, str] = (
        r"(1-\lambda)",
        r"\lambda",
        r"\begin{cases} \frac{1-\lambda}2 \sum_m u_m \\ 0, \quad \sum_m u_m \le 1 \end{cases}",
        "",
    )
    """Of the elastic net 1 - lambda, lambda, the penalty on u in Tikhonov form, and the bound of u in Ivanov form."""
    outer: str = r"r,\quad r = \frac{q}{q-2}"
    """The norm of the weights of a block norm with q > 2, and where it comes from."""


def parts_of(problem: Problem) -> Parts:
    """The loss, the regulariser and the intercept of a problem, written out."""
    costs = "C" if problem.sample_weight is None else "c_i"
    value, dual, box = losses(problem.loss, costs)
    total = rf"C \sum_{{i=1}}^{{n}} {value}" if costs == "C" else rf"\sum_{{i=1}}^{{n}} c_i\, {value}"
    cost = problem.intercept_cost
    return Parts(
        losses=total,
        intercept=(" + b" if cost == 1.0 else rf" + {factor(cost)}\, b") if cost else "",
        over_intercept=r",\, b" if problem.intercept else "",
        dual_losses=dual,
        feasible=((rf"\mathbf 1^\top\beta = {number(cost)}",) if problem.intercept else ()) + box,
        general=False,
        **vars(penalties(problem.regularizer)),
        **_own_exponents(problem.regularizer),
    )


def losses(loss: kinds.Loss, c: str) -> tuple[str, str, tuple[str, ...]]:
    """V(t_i, y_i), the sum -sum_i c_i V*(-beta_i/c_i, y_i), and the domain of beta."""
    y, square = r"y^\top\beta", rf"\frac12 \sum_i \beta_i^2 / {c}"
    match loss:
        case kinds.Hinge():
            return r"\max(0,\, 1 - y_i t_i)", y, (rf"0 \le y_i \beta_i \le {c}",)
        case kinds.SquaredHinge():
            return r"\tfrac12 \max(0,\, 1 - y_i t_i)^2", f"{y} - {square}", (r"y_i \beta_i \ge 0",)
        case kinds.Logistic():
            entropy = rf"\sum_i {c}\, H(y_i \beta_i / {c})"
            return r"\log(1 + e^{-y_i t_i})", entropy, (rf"0 \le y_i \beta_i \le {c}",)
        case kinds.Squared():
            return r"\tfrac12 (y_i - t_i)^2", f"{y} - {square}", ()
        case kinds.EpsilonInsensitive(epsilon=e):
            tube = rf"{y} - {factor(e)} \lVert\beta\rVert_1"
            return rf"\max(0,\, |y_i - t_i| - {number(e)})", tube, (rf"|\beta_i| \le {c}",)
        case kinds.SquaredEpsilonInsensitive(epsilon=e):
            tube = rf"{y} - {factor(e)} \lVert\beta\rVert_1 - {square}"
            return rf"\tfrac12 \max(0,\, |y_i - t_i| - {number(e)})^2", tube, ()
        case kinds.Huber(delta=d):
            return rf"V_{{{number(d)}}}(y_i - t_i)", f"{y} - {square}", (rf"|\beta_i| \le {times(d, c)}",)
        case kinds.Pinball(tau=tau):
            low, high = factor(tau - 1.0), factor(tau)
            value = rf"\max\left({high} (y_i - t_i),\, {low} (y_i - t_i)\right)"
            return value, y, (rf"{low}\, {c} \le \beta_i \le {high}\, {c}",)
        case kinds.OneClass():
            return r"\max(0,\, -t_i)", "", (rf"0 \le \beta_i \le {c}",)
        case kinds.DensityLevelSet():
            return r"\max(0,\, 1 - t_i)", r"\mathbf 1^\top\beta", (rf"0 \le \beta_i \le {c}",)
    return "V(t_i, y_i)", Parts.dual_losses, ()


def penalties(regularizer: reg.Regularizer) -> Penalty:
    """Those of a regulariser; for one of somebody's own the symbols of the notation."""
    match regularizer:
        case reg.Lp(p=p):
            return _ball(p)
        case reg.BlockNorm(q=q) if q <= 2.0:
            return _ball(ball_exponent(q))
        case reg.BlockNorm(q=q):
            dual = number(conjugate_exponent(q))
            return Penalty(rf"\tfrac12 \lVert\rho\rVert_{{{number(q)}}}^2", rf"\tfrac12 \lVert g\rVert_{{{dual}}}^2")
        case reg.WeightedLp(p=p):
            block, dual = number(block_exponent(p)), number(conjugate_exponent(p))
            return Penalty(
                rf"\tfrac12 \left\lVert (\rho_m / \sqrt{{s_m}})_m \right\rVert_{{{block}}}^2",
                rf"\tfrac12 \left\lVert (s_m g_m^2)_m \right\rVert_{{{dual}}}",
                weight_set=(rf"\lVert (\theta_m / s_m)_m \rVert_{{{number(p)}}} \le 1",),
            )
        case reg.Fixed():
            primal, dual = r"\tfrac12 \sum_m \rho_m^2 / w_m", r"\tfrac12 \sum_m w_m\, g_m^2"
            return Penalty(primal, dual, weight_set=(r"\theta_m \le w_m",))
        case reg.Mahalanobis():
            ellipsoid = r"\theta^\top E^{-1} \theta \le 1"
            primal = rf"\min_{{\theta \ge 0,\; {ellipsoid}}} \tfrac12 \sum_m \rho_m^2 / \theta_m"
            return Penalty(primal, r"\min_{u \ge g^2} \tfrac12 \sqrt{u^\top E\, u}", weight_set=(ellipsoid,))
        case reg.Groups():
            return _groups_of(regularizer)
        case reg.Power(p=p) | reg.ConcaveBlock(g=reg.PowerRoot(p=p)):
            return _power(p)
        case reg.HalfPower(q=q):
            return _half_power(q)
        case reg.WeightedL1():
            psi = r"\tfrac12 \sum_m \omega_m^2\, \theta_m"
            return Penalty(r"\sum_m \omega_m\, \rho_m", "0", (r"g_m \le \omega_m",), psi)
        case reg.Tikhonov(p=p, mu=mu):
            block, dual = number(block_exponent(p)), number(conjugate_exponent(p))
            return Penalty(
                rf"\frac{{3}}{{4^{{2/3}}}} {scale(mu, '1/3')} \lVert\rho\rVert_{{{block}}}^{{4/3}}",
                times(1.0 / (16.0 * mu), rf"\lVert (g_m^2)_m \rVert_{{{dual}}}^2"),
                weight_penalty=times(mu, rf"\lVert\theta\rVert_{{{number(p)}}}^2"),
            )
        case reg.ElasticNet(lam=lam, form=form):
            return _elastic_net(lam, form)
        case reg.ConcaveBlock(g=reg.RootPlusLinear(lam=lam)):
            return _elastic_net(lam, "tikhonov")
        case reg.ConcaveBlock(g=reg.SmoothedRoot(epsilon=epsilon)):
            e = number(epsilon)
            primal = rf"\sum_m \left(\sqrt{{\rho_m^2 + ({e})^2}} - {e}\right)"
            dual = times(epsilon, r"\sum_m \left(1 - \sqrt{1 - g_m^2}\right)")
            psi = rf"\tfrac12 \sum_m \max(0,\, \theta_m - {e})^2 / \theta_m"
            return Penalty(primal, dual, (r"g_m \le 1",), psi)
        case reg.ConcaveBlock():
            dual = r"\sum_m \sup_{r \ge 0}\, \left(g_m r - g(r^2)\right)"
            return Penalty(r"\sum_m g(\rho_m^2)", dual, weight_penalty=r"-\sum_m g^*\left(1 / (2\theta_m)\right)")
    return Penalty(weight_penalty=Parts.weight_penalty)


def _ball(p: float) -> Penalty:
    weights = (rf"\lVert\theta\rVert_{{{number(p)}}} \le 1",)
    if p == 1.0:
        return Penalty(r"\tfrac12 \left(\sum_m \rho_m\right)^2", r"\tfrac12 \max_m\, g_m^2", weight_set=weights)
    star = rf"\tfrac12 \lVert (g_m^2)_m \rVert_{{{number(conjugate_exponent(p))}}}"
    return Penalty(rf"\tfrac12 \lVert\rho\rVert_{{{number(block_exponent(p))}}}^2", star, weight_set=weights)


def _power(p: float) -> Penalty:
    if p == 1.0:
        return Penalty(r"\sum_m \rho_m", "0", (r"g_m \le 1",), r"\tfrac12 \sum_m \theta_m")
    if p == np.inf:
        return _half_power(2.0)
    q = 2.0 * p / (p + 1.0)
    star = conjugate_exponent(q)
    return Penalty(
        rf"{factor(1.0 / q)} \sum_m \rho_m^{{{number(q)}}}",
        rf"{factor(1.0 / star)} \sum_m g_m^{{{number(star)}}}",
        weight_penalty=rf"{factor(0.5 / p)} \sum_m \theta_m^{{{number(p)}}}",
    )


def _half_power(q: float) -> Penalty:
    primal = rf"\tfrac12 \sum_m \rho_m^{{{number(q)}}}"
    if q == 1.0:
        return Penalty(r"\tfrac12 \sum_m \rho_m", "0", (r"g_m \le \tfrac12",), r"\tfrac18 \sum_m \theta_m")
    if q == 2.0:
        return Penalty(primal, r"\tfrac12 \sum_m g_m^2", weight_set=(r"\theta_m \le 1",))
    star, p = conjugate_exponent(q), ball_exponent(q)
    conjugate = rf"{factor(0.5 * q / star)} \sum_m \left({factor(2.0 / q)}\, g_m\right)^{{{number(star)}}}"
    weights = rf"{factor(0.25 * q / p)} \sum_m \left({factor(0.5 * q)}\, \theta_m\right)^{{{number(p)}}}"
    return Penalty(primal, conjugate, weight_penalty=weights)


def _groups_of(groups: reg.Groups) -> Penalty:
    size = r"d_\ell"

    def composite(x: str, power: float, within: float, across: float) -> str:
        inner = rf"{raised(size, number(power))} \lVert {x}_\ell\rVert_{{{number(within)}}}"
        return rf"\left\lVert \left({inner}\right)_\ell \right\rVert_{{{number(across)}}}"

    primal = composite(r"\rho", 0.5 * groups.p, groups.gamma, groups.gamma0)
    dual = composite("g", -0.5 * groups.p, conjugate_exponent(groups.gamma), conjugate_exponent(groups.gamma0))
    weights = composite(r"\theta", groups.p, reciprocal(groups.q), reciprocal(groups.total))
    return Penalty(rf"\tfrac12 {primal}^2", rf"\tfrac12 {dual}^2", weight_set=(rf"{weights} \le 1",))


def _elastic_net(lam: float, form: str) -> Penalty:
    rest, own = factor(1.0 - lam), factor(lam)
    of_tau, of_excess = times(0.5 / (1.0 - lam), ""), times(0.5 / lam, "")
    pole = rf"\theta_m < {factor(1.0 / lam)}"  # beyond, the fraction is negative
    if form == "tikhonov":
        return Penalty(
            rf"\sum_m \left({rest}\, \rho_m + {factor(0.5 * lam)}\, \rho_m^2\right)",
            rf"{of_excess}\sum_m \max(0,\, g_m - {rest})^2",
            weight_penalty=rf"\tfrac12 \sum_m \frac{{{factor((1.0 - lam) ** 2)}\, \theta_m}}{{1 - {own}\, \theta_m}}",
            weight_set=(pole,),
        )
    return Penalty(
        rf"\tfrac12 \left({rest} \left(\sum_m \rho_m\right)^2 + {own} \sum_m \rho_m^2\right)",
        rf"\min_{{\tau \ge 0}} \left({of_tau}\tau^2"
        rf" + {of_excess}\sum_m \max(0,\, g_m - \tau)^2\right)",
        weight_set=(rf"\sum_m \frac{{{rest}\, \theta_m}}{{1 - {own}\, \theta_m}} \le 1", pole),
    )


def _own_exponents(regularizer: reg.Regularizer) -> dict[str, Any]:
    """Those of groups, and of a block norm with q > 2, as numbers."""
    match regularizer:
        case reg.Groups(p=p, q=q, gamma=inner, gamma0=outer):
            return {"groups": tuple(map(number, (p, q, p * outer / 2.0, inner, outer / inner, 2.0 / outer)))}
        case reg.ElasticNet(lam=lam, form=form):
            rest, own = factor(1.0 - lam), factor(lam)
            penalty, bound = rf"{factor(0.5 * (1.0 - lam))} \sum_m u_m", r"\sum_m u_m \le 1"
            return {"net": (rest, own, penalty, "") if form == "tikhonov" else (rest, own, "", bound)}
        case reg.BlockNorm(q=q) if q >= 2.0:
            return {"outer": number(1.0 if q == np.inf else np.inf if q == 2.0 else q / (q - 2.0))}
    return {}


def number(x: float) -> str:
    r"""A number as its reader would write it: 4/3, \infty, 0.1, 2 \cdot 10^{-7}, and 1 + 10^{-7} not as 1."""
    if np.isinf(x):
        return r"\infty"
    decimal = abs(float(f"{x:.6g}") - x) <= 1e-14 * abs(x)  # else 20/13 is exact, and 1.53846 is not
    near = Fraction(x).limit_denominator(12 if decimal else 99)
    if abs(float(near) - x) <= 1e-14 * abs(x):
        return str(near)
    texts = (f"{x:.{digits}g}" for digits in range(6, 18))
    text = next(text for text in texts if Fraction(text).limit_denominator(12) != Fraction(text))
    mantissa, _, exponent = text.partition("e")
    return rf"{mantissa} \cdot 10^{{{int(exponent)}}}" if exponent else mantissa


def factor(x: float) -> str:
    r"""A number before a symbol: \tfrac{1}{10} x, since 1/10 x reads as one over 10 x."""
    return re.sub(r"(\d+)/(\d+)", r"\\tfrac{\1}{\2}", number(x))


def times(x: float, symbol: str) -> str:
    """x times a symbol, without a factor 1."""
    return symbol if x == 1.0 else rf"{factor(x)}\, {symbol}"


def raised(symbol: str, exponent: str) -> str:
    """A power of a symbol, which is itself at 1 and nothing at 0."""
    return {"0": "", "-0": "", "1": symbol}.get(exponent, rf"{symbol}^{{{exponent}}}")


def scale(x: float, exponent: str) -> str:
    """A power of x, nothing for 1."""
    return "" if x == 1.0 else rf"({number(x)})^{{{exponent}}}"
