"""Certificates of optimality: NumPy and the standard library only, no solver."""

from mklref.certificate.bounds import dual_losses, dual_objective
from mklref.certificate.document import RigorousCertificate
from mklref.certificate.feasible import repair
from mklref.certificate.intercept import best_intercept
from mklref.certificate.numerical import certify, certify_each, certify_for, certify_images
from mklref.certificate.verdict import Bounds, Certificate

__all__ = [
    "Bounds",
    "Certificate",
    "RigorousCertificate",
    "best_intercept",
    "certify",
    "certify_each",
    "certify_for",
    "certify_images",
    "dual_losses",
    "dual_objective",
    "repair",
]
