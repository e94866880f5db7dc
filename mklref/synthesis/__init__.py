"""Mixed-norm synthesis with kernels of any kind (Kowalski, Szafranski and Ralaivola), certified by its own duality gap.

`reference` holds the ground truth in cvxpy and `generalization` the bounds of the paper; both are imported when they
are asked for.
"""

from mklref.synthesis.certificate import certify
from mklref.synthesis.forward_backward import forward_backward
from mklref.synthesis.problem import SynthesisProblem, lambda_max
from mklref.synthesis.proximity import MixedNorm
from mklref.synthesis.solution import SynthesisSolution
from mklref.synthesis.solver import solve, solve_path

__all__ = [
    "MixedNorm",
    "SynthesisProblem",
    "SynthesisSolution",
    "certify",
    "forward_backward",
    "lambda_max",
    "solve",
    "solve_path",
]
