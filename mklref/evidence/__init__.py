"""Empirical Bayes: kernel weights of maximum marginal likelihood (Tomioka and Suzuki, section 4).

The problem is not convex. Solutions carry the residual of their first-order conditions, never a gap.
"""

from mklref.evidence.likelihood import MarginalLikelihood, Stationarity, stationarity
from mklref.evidence.problem import EvidenceProblem, simulate
from mklref.evidence.solution import EvidenceRecord, EvidenceSolution, EvidenceStatus, Posterior
from mklref.evidence.solver import METHODS, solve
from mklref.evidence.variational import log_determinant_bound, log_determinant_conjugate, quadratic_bound

__all__ = [
    "METHODS",
    "EvidenceProblem",
    "EvidenceRecord",
    "EvidenceSolution",
    "EvidenceStatus",
    "MarginalLikelihood",
    "Posterior",
    "Stationarity",
    "log_determinant_bound",
    "log_determinant_conjugate",
    "quadratic_bound",
    "simulate",
    "solve",
    "stationarity",
]
