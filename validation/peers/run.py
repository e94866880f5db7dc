"""Verdicts on packages of others: `python -m validation.peers.run [PEER ...] [--json FILE] [--markdown]`.

Run it in an environment of its own, which has mklref and the peer: none of them is a dependency. Peers that are not
installed are named and left out. Each adapter is a solver that declares what its package is meant for.
"""

from __future__ import annotations

import argparse
import json
import warnings
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

import cvxpy as cp
import numpy as np
from sklearn.svm import SVC, SVR, OneClassSVM

import mklref
from mklref._files import write_text
from mklref.problem import Problem
from mklref.regularizers import Fixed, Lp
from mklref.testing import Answer, Report, Supports, check_solver
from mklref.testing.result import Outcome
from validation.facts import commit, results_file

KKT = 1e-8
"""Tolerance of libsvm, which is on the KKT conditions, not on the gap."""


def scikit_learn(problem: Problem) -> Answer:
    """scikit-learn's SVC, SVR and OneClassSVM (libsvm) on one kernel, or on the fixed combination of several.

    libsvm maximises sum alpha - 1/2 alpha'Q alpha on 0 <= alpha_i <= C with an intercept, which is our dual for M = 1;
    its dual_coef_ is signed. Its one-class machine has nu n as the sum of alpha, ours 1.
    """
    weights = problem.regularizer.weights_from_norms(np.ones(problem.n_kernels))
    K = problem.kernels.combine(weights)
    loss, n = problem.loss, problem.n_samples
    if loss.name == "hinge":
        machine = SVC(C=problem.C, kernel="precomputed", tol=KKT)
    elif loss.name == "epsilon_insensitive":
        machine = SVR(C=problem.C, epsilon=loss.epsilon, kernel="precomputed", tol=KKT)
    else:
        machine = OneClassSVM(nu=1.0 / (problem.C * n), kernel="precomputed", tol=KKT)
    machine.fit(K, problem.y, sample_weight=problem.sample_weight)
    beta = np.zeros(n)
    beta[machine.support_] = machine.dual_coef_[0]
    share = problem.C if loss.name == "one_class" else 1.0
    return Answer(share * beta, weights, share * float(machine.intercept_[0]))


def one_machine(problem: Problem) -> str:
    """One kernel, or weights that are given."""
    regularizer = problem.regularizer
    if not isinstance(regularizer, Fixed | Lp):
        return "another regularizer"
    if problem.n_kernels > 1 and isinstance(regularizer, Lp) and np.isfinite(regularizer.p):
        return "weights are learned"
    reason = Supports(losses={"hinge", "epsilon_insensitive", "one_class"}, intercept={True})(problem)
    weighted = problem.loss.name == "one_class" and problem.sample_weight is not None
    return reason or ("sample weights of the one-class machine" if weighted else "")


def mklpy(problem: Problem) -> Answer:
    """MKLpy's AverageMKL: the mean of M kernels and a machine, which is our Fixed(theta) on M theta_m K_m.

    The weights that it returns are 1/M each. Its other algorithms (EasyMKL, GRAM, R-MKL, MEMO, CKA) solve problems of
    their own, with which none of ours coincides: EasyMKL learns weights from the margin between distributions, R-MKL
    and GRAM from radius and margin.
    """
    import torch
    from MKLpy.algorithms import AverageMKL

    theta = problem.regularizer.weights_from_norms(np.ones(problem.n_kernels))
    scaled = [len(theta) * weight * matrix for weight, matrix in zip(theta, problem.kernels.dense(), strict=True)]
    learner = SVC(C=problem.C, kernel="precomputed", tol=KKT)
    model = AverageMKL(learner=learner).fit([torch.tensor(K, dtype=torch.float64) for K in scaled], problem.y)
    beta = np.zeros(problem.n_samples)
    beta[model.learner.support_] = model.learner.dual_coef_[0]
    returned = len(theta) * theta * np.asarray(model.solution.weights, dtype=np.float64)
    return Answer(beta, returned, float(model.learner.intercept_[0]))


def one_classifier(problem: Problem) -> str:
    """The hinge loss with an intercept and given weights, without weights of samples."""
    if problem.loss.name != "hinge" or problem.sample_weight is not None:
        return "not the hinge loss, or sample weights"
    return one_machine(problem)


def cvxpy_primer(problem: Problem) -> Answer:
    """MKL as a first-time user of cvxpy writes it: p = 1 as Lanckriet's QCQP with psd_wrap and default settings.

    The quadratic constraints use the matrices as they are, the weights are the normalised multipliers, the intercept is
    the multiplier of y'alpha = 0, and nobody looks at `problem.status`: the solver's word is taken for it.
    """
    K, y = problem.kernels.dense(), problem.y
    alpha, t = cp.Variable(problem.n_samples), cp.Variable()
    balance = y @ alpha == 0
    bounds = [cp.quad_form(alpha, cp.psd_wrap(np.outer(y, y) * matrix)) <= t for matrix in K]
    constraints = [alpha >= 0, alpha <= problem.C, balance, *bounds]
    program = cp.Problem(cp.Maximize(cp.sum(alpha) - 0.5 * t), constraints)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as the first-time user does
        program.solve()
    multipliers = np.array([float(np.squeeze(bound.dual_value)) for bound in bounds])
    weights = multipliers / multipliers.sum()
    return Answer(y * alpha.value, weights, float(balance.dual_value), objective=program.value, converged=True)


scikit_learn.supports = one_machine  # type: ignore[attr-defined]
mklpy.supports = one_classifier  # type: ignore[attr-defined]
cvxpy_primer.supports = Supports(  # type: ignore[attr-defined]
    losses={"hinge"}, regularizers={"Lp"}, p=(1.0, 1.0), intercept={True}, sample_weight=False
)

PEERS = {
    "scikit_learn": ("scikit-learn", "SVC, SVR and OneClassSVM at tol = 1e-8", scikit_learn),
    "mklpy": ("MKLpy", "AverageMKL with SVC at tol = 1e-8", mklpy),
    "cvxpy_primer": ("cvxpy", "the textbook QCQP with default settings", cvxpy_primer),
}
TOLERANCES = (1e-3, 1e-6)


def verdicts(name: str) -> dict[float, Report]:
    """A report for each tolerance.

    Raises
    ------
    PackageNotFoundError
        The peer is not installed.
    """
    package, _, solve = PEERS[name]
    version(package)  # or whoever lacks it would be given faults
    return {tol: check_solver(solve, tol=tol, exclude="grid") for tol in TOLERANCES}


def line(name: str, reports: dict[float, Report]) -> str:
    """One row of the table in the docs."""
    package, text, _ = PEERS[name]
    strict = reports[TOLERANCES[-1]]
    passed = [f"{r.count(Outcome.PASSED)} of {len(r.rows) - r.count(Outcome.EXCLUDED)}" for r in reports.values()]
    faults = ", ".join(f"{fault} ({count})" for fault, count in strict.faults.items()) or "none"
    return " | ".join([f"{package} {version(package)}", text, *passed, faults])


def main() -> None:
    """Run the peers that are asked for, or all that are there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peers", nargs="*", help=f"of {', '.join(PEERS)}; all by default")
    parser.add_argument("--json", type=results_file)
    parser.add_argument("--markdown", action="store_true")
    arguments = parser.parse_args()
    unknown = set(arguments.peers) - set(PEERS)
    if unknown:
        parser.error(f"no peer {', '.join(sorted(unknown))}; known: {', '.join(PEERS)}")
    found = {}
    for name in arguments.peers or PEERS:
        try:
            found[name] = verdicts(name)
        except PackageNotFoundError as missing:
            print(f"{PEERS[name][0]}: left out, {missing}")
    print(f"{datetime.now(UTC):%Y-%m-%d}, mklref {mklref.__version__}, commit {commit()}")
    for name, reports in found.items():
        print(line(name, reports) if arguments.markdown else f"{PEERS[name][0]}\n{reports[TOLERANCES[-1]]}\n")
    if arguments.json:
        content = {name: {f"{tol:g}": r.to_dict() for tol, r in reports.items()} for name, reports in found.items()}
        write_text(arguments.json, json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
