"""Tomioka Table 1: each row as curves, and each correspondence as a numerical minimum."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from mklref._typing import Array
from mklref.regularizers import BlockNorm, ElasticNet, Power, Regularizer
from validation.reproduce.base import Cell, Evidence, Experiment, Picture, Result, Summary
from validation.reproduce.expected import bound
from validation.reproduce.pictures import COLOURS, figure

PROTOCOL = """
Each row of Table 1 names a penalty g(||f||^2) on the block norm, and a penalty mu h(d) on the kernel weight that gives
the same problem: g(x) = min over d of x/(2d) + mu h(d)/2. For 60 norms between 0.03 and 3 the minimum is found
numerically from the printed g, h and mu, and compared with g itself; its place is compared with the weights of the
library's regulariser.

Rows with exponents are evaluated at p = 4/3 and 2, q = 3, and lambda = 1/2. The row q > 2 is a maximum, not a minimum
(errata T3 and T5).
"""

NORMS = np.geomspace(0.03, 3.0, 60)
LOG_WEIGHTS = (-40.0, 40.0)
VALUE, WEIGHT = bound("tomioka_table1", "value"), bound("tomioka_table1", "weight")
"""Relative deviations that are still those of a numerical minimum: of its value, and of its place, which is flat."""
DRAWN = np.linspace(0.0, 2.0, 101)[1:]


class Row(NamedTuple):
    """One row: g of the squared norm, h of the weight, mu, and the regulariser that states it."""

    g: Any
    h: Any
    mu: float
    regularizer: Regularizer
    largest: float = np.inf
    """Weights beyond which h is infinite."""
    sign: float = 1.0
    """-1 where the row is a maximum."""


def lp(p: float) -> Row:
    """lp-norm MKL."""
    return Row(lambda x: (1 + p) / (2 * p) * x ** (p / (1 + p)), lambda d: d**p, 1 / p, Power(p))


def block(q: float) -> Row:
    """Block norms beyond 2; the library has their square, of which one kernel at a time is compared."""
    return Row(lambda x: x ** (q / 2) / q, lambda d: d ** (-q / (q - 2)), -(q - 2) / q, BlockNorm(q), sign=-1.0)


def elastic_net(lam: float) -> Row:
    """The elastic net."""
    return Row(
        lambda x: (1 - lam) * np.sqrt(x) + lam / 2 * x,
        lambda d: (1 - lam) * d / (1 - lam * d),
        1 - lam,
        ElasticNet(lam),
        largest=1 / lam,
    )


ROWS = {
    "block 1-norm": Row(np.sqrt, lambda d: d, 1.0, Power(1)),
    "lp-norm, p = 4/3": lp(4 / 3),
    "lp-norm, p = 2": lp(2.0),
    "uniform weights": Row(lambda x: x / 2, lambda d: 0.0 * d, 0.0, Power(np.inf), largest=1.0),
    "block q-norm, q = 3": block(3.0),
    "elastic net, 1/2": elastic_net(0.5),
}


def cells(quick: bool) -> list[Cell]:
    """One for each row."""
    return [Cell(f"row{k}", {"row": name}, 0.2) for k, name in enumerate(ROWS)]


def cell(config: dict[str, Any]) -> dict[str, Any]:
    """Deviations of the correspondence, and both curves."""
    row = ROWS[config["row"]]
    places = np.array([_optimal_weight(row, rho**2) for rho in NORMS])
    values = np.array([_objective(row, rho**2, d) for rho, d in zip(NORMS, places, strict=True)])
    weights = np.array([_weight(row, rho) for rho in NORMS])
    return {
        "value": float(np.max(np.abs(values / row.g(NORMS**2) - 1.0))),
        "weight": float(np.max(np.abs(places / weights - 1.0))),
        "as a minimum": _objective(row, 1.0, 1e-3) if row.sign < 0.0 else float(row.g(1.0)),
        "penalty": [float(row.g(rho**2)) for rho in DRAWN],
        "weights": [_weight(row, rho) for rho in DRAWN],
    }


def _objective(row: Row, x: float, d: float) -> float:
    """x/(2d) + mu h(d)/2."""
    return float(x / (2.0 * d) + row.mu * row.h(d) / 2.0)


def _optimal_weight(row: Row, x: float) -> float:
    """Where it is smallest, or largest for q > 2, sought in log d up to the largest weight."""
    high = min(LOG_WEIGHTS[1], np.log(row.largest)) if np.isfinite(row.largest) else LOG_WEIGHTS[1]
    grid = np.linspace(LOG_WEIGHTS[0], high - (1e-12 if row.mu else 0.0), 4001)
    with np.errstate(over="ignore", invalid="ignore"):
        values = [row.sign * _objective(row, x, d) for d in np.exp(grid)]
    k = int(np.nanargmin(values))
    if k == len(grid) - 1:  # an indicator holds it
        return float(np.exp(grid[k]))
    found = minimize_scalar(
        lambda u: row.sign * _objective(row, x, np.exp(u)), bracket=(grid[k - 1], grid[k], grid[k + 1]), tol=1e-10
    )
    return float(np.exp(found.x))


def _weight(row: Row, rho: float) -> float:
    """The weight of the library's regulariser; for the squared block norm, at a norm of 1 for all kernels together."""
    norms: Array = np.array([rho])
    if isinstance(row.regularizer, BlockNorm):
        return float(rho ** (2.0 - row.regularizer.q))
    return float(row.regularizer.weights_from_norms(norms)[0])


def summary(results: list[Result]) -> Summary:
    """Deviations of every row, and Table 1 as curves."""
    names = {r.config["row"]: r for r in results}
    table = {name: {"value": [r.values["value"]], "weight": [r.values["weight"]]} for name, r in names.items()}
    claims = {}
    for name, r in names.items():
        key = name.partition(",")[0].replace(" ", "-")
        concave = ROWS[name].sign > 0.0
        close = r.values["value"] < VALUE and r.values["weight"] < WEIGHT
        holds = close and concave and (key not in claims or claims[key].holds)
        text = (
            f"{name}: largest relative deviation of the value {r.values['value']:.0e}, of the weight "
            f"{r.values['weight']:.0e}"
        )
        if not concave:
            below = r.values["as a minimum"]
            text = f"as a maximum over d, {text}; as a minimum it is unbounded, {below:.1g} at d = 0.001"
        claims[key] = Evidence(holds, f"{claims[key].text}; {text}" if key in claims else text)
    bounds = f"bounds {VALUE:.0e} and {WEIGHT:.0e}, ours"
    claims = {key: Evidence(found.holds, f"{found.text} ({bounds})") for key, found in claims.items()}
    maximum = names.get("block q-norm, q = 3")
    figures = {"maximum": f"{maximum.values['value']:.0e}"} if maximum else {}
    return Summary({"table1": table}, claims, {"curves": _picture(results)} if results else {}, figures)


def _picture(results: list[Result]) -> Picture:
    drawing, axes = figure(8.4, 3.2, columns=2)
    for colour, r in zip(COLOURS, results, strict=False):
        axes[0, 0].plot(DRAWN, r.values["penalty"], color=colour, label=r.config["row"])
        axes[0, 1].plot(DRAWN, r.values["weights"], color=colour)
    axes[0, 0].set(xlabel="block norm", ylabel="g", title="penalty on the block norm", ylim=(0.0, 2.5))
    axes[0, 1].set(xlabel="block norm", ylabel="d", title="kernel weight at the optimum", ylim=(0.0, 2.5))
    axes[0, 0].legend()
    return Picture(drawing, "Table 1 as curves: the penalty on a block norm, and the kernel weight that goes with it.")


EXPERIMENT = Experiment("tomioka-table1", "Tomioka Table 1 as curves", PROTOCOL, cells, cell, summary)
