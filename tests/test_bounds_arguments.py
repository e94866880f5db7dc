"""Every public function of the generalisation bounds with wrong arguments: our errors, by the name of the argument."""

from __future__ import annotations

import numpy as np
import pytest
from wrong import COUNT, EXPONENT, NUMBER, cases, check_argument

from mklref.bounds import (
    class_radius,
    complexity_bound,
    conversion_factor,
    cortes_bound,
    margin_risk,
    rademacher_complexity,
    radius_margin_bound,
    risk_bound,
    supremum,
)

KERNELS = np.array([np.eye(6), np.ones((6, 6))])
SIGNS = np.array([1.0, -1.0, 1.0, 1.0, -1.0, -1.0])
NOTHING: set[str] = set()
P = {"p": (2.0, EXPONENT)}
SIZES = {"n_samples": (10, COUNT), "n_kernels": (3, COUNT)}
RADII = {"kernel_radius": (1.0, NUMBER), "radius": (1.0, NUMBER)}
RISK = {"empirical_risk": (0.1, {"0"}), **SIZES, **P, "delta": (0.1, NOTHING), **RADII}

TABLE = (
    (
        "supremum",
        supremum,
        {"kernels": (KERNELS, NOTHING), "signs": (SIGNS[None], NOTHING), **P, "radius": (1.0, NUMBER)},
    ),
    (
        "rademacher_complexity",
        rademacher_complexity,
        {
            "kernels": (KERNELS, NOTHING),
            **P,
            "radius": (1.0, NUMBER),
            "draws": (2, COUNT),
            "rng": (np.random.default_rng(0), {"None"}),
        },
    ),
    ("conversion_factor", conversion_factor, {"n_kernels": (3, COUNT), **P, "source": (1.0, EXPONENT)}),
    ("complexity_bound", complexity_bound, {**SIZES, **P, "kernel_radius": (1.0, NUMBER)}),
    (
        "cortes_bound",
        cortes_bound,
        {**SIZES, "p": (2.0, {"1.5", "inf"}), "kernel_radius": (1.0, NUMBER), "e_factor": (True, {"True"})},
    ),
    ("class_radius", class_radius, {"norms": ([1.0, 2.0], NOTHING), **P}),
    ("risk_bound", risk_bound, {**RISK, "lipschitz": (1.0, NUMBER)}),
    ("radius_margin_bound", radius_margin_bound, {**RISK, "margin": (1.0, NUMBER)}),
    ("margin_risk", margin_risk, {"scores": (SIGNS, NOTHING), "y": (SIGNS, NOTHING), "margin": (1.0, NUMBER)}),
)


@pytest.mark.parametrize(("function", "good", "argument", "fine"), cases(TABLE))
def test_wrong_arguments(function, good, argument, fine):
    check_argument(function, good, argument, fine)
