"""Rigorous certificates as documents: of a problem, and changed."""

from __future__ import annotations

import copy
import json

import numpy as np

from mklref import certify, solve
from mklref.regularizers import Fixed, Groups, Lp, Tikhonov

REGULARIZERS = (
    Lp(1),
    Lp(1 + 1e-9),
    Lp(np.inf),
    Fixed([1.0, 0.5, 0.3, 0.0]),
    Tikhonov(1.5, 0.7),
    Groups([[0, 2], [1, 3]], 0.3, 0.4),
    Groups([[0, 2], [1, 3]], 0.5, 0.5),
)


def document(problem, backend=None, **arguments):
    solution = solve(problem, tol=1e-4)
    certificate = certify(
        problem,
        solution.dual_coef,
        weights=solution.weights,
        intercept=solution.intercept,
        rigorous=True,
        backend=backend,
        **arguments,
    )
    return json.loads(json.dumps(certificate.to_dict()))


def changed(facts, *path, to):
    facts = copy.deepcopy(facts)
    place = facts
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = to(place[path[-1]]) if callable(to) else to
    return facts
