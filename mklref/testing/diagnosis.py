"""What is wrong with an answer: its certificate, the usual suspects, and the claims of its solver (claims.py)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mklref._typing import Array
from mklref._validate import as_float_array, checked_flag, checked_tolerance
from mklref.certificate import Certificate, RigorousCertificate, certify, repair
from mklref.certificate.bounds import dual_objective, relative, unit_of
from mklref.certificate.feasible import repaired_weights
from mklref.certificate.intercept import intercept_objective, middle_intercept
from mklref.exceptions import MKLError
from mklref.native import solve
from mklref.problem import Problem, dual_norms, require_problem
from mklref.regularizers import Fixed
from mklref.solution import Solution
from mklref.testing.answer import Answer, as_answer, require_same_names
from mklref.testing.claims import PLAUSIBLE, claim, claimed_convergence, false_claims, objectives_elsewhere
from mklref.testing.faults import (
    Finding,
    Point,
    Reading,
    Suspect,
    also,
    of_few_digits,
    off_intercept,
    some,
    unexplained,
    zeros,
)
from mklref.testing.implied import fitting_weights
from mklref.testing.suspects import EXACT, FITTED, HALVES, INNER, LAST, OF_ALL, OF_THEIR_WEIGHTS
from mklref.testing.weight_suspects import weights_of_the_machine

PLAUSIBLE_IF_FITTED = 1e-3
"""The same for a reading with parameters that were fitted to the point."""
OF_THE_EFFECT = 0.1
"""Largest share of the gap that a reading with other kernels may leave, both in units of what these achieve."""
OF_THE_GAP = 0.1
"""Share of the gap that a perfect solver of another problem has to leave, if that problem is to explain it."""
_OUTSIDE = 0.05
"""Share of the largest dual variable by which a point may violate the constraints of a problem that it answers."""
OF_ONE_HALF = {"machine not solved", "weights of another iterate", "weights not optimal", "inaccurate", "not converged"}
"""What is found of single machines where weights and dual variables do not fit each other."""
ROUNDED = 1e-2
"""Relative gap up to which the digits of an answer may be its cause."""
CLOSE = 1e-3
"""Relative gap up to which an answer is inaccurate rather than not converged."""
UNEXPLAINED = {"machine not solved", "inaccurate", "not converged"}
"""What is found where no cause is, so that a violated constraint is the best hint."""


@dataclass(frozen=True)
class Verdict:
    """An answer with its certificate and everything that is wrong with it."""

    certificate: Certificate | None
    """None if the answer has no certificate: wrong shapes, entries that are not finite."""
    findings: tuple[Finding, ...]
    relative_gap: float
    """That of the certificate; inf without one."""
    weights: Array | None = None
    """The weights that were certified: those of the answer, or the best ones; None for the closed form."""

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings

    def explain(self) -> str:
        """Findings first, then what the certificate says."""
        lines = [str(finding) for finding in self.findings]
        if self.certificate is not None:
            lines += self.certificate.explain().splitlines()
        return "\n".join(lines)


@np.errstate(all="ignore")  # an absurd answer is as much worth a verdict as any other
def judge(
    problem: Problem, answer: Answer | Solution | tuple[Any, Any, Any], *, tol: float = 1e-6, suspects: bool = True
) -> Verdict:
    """Certify an answer, and name what is wrong with it.

    Parameters
    ----------
    problem : Problem
    answer : Answer or Solution or tuple
        A tuple is dual_coef, weights, intercept.
    tol : float
        Largest relative gap, in (0, 1), which is the same in every unit (`mklref.certificate.bounds`).
    suspects : bool
        Whether to look for the cause of an open gap, which takes kernels in memory.

    Raises
    ------
    InvalidType, InvalidParameter
        problem is no `Problem`, answer no such thing, tol no number in (0, 1).
    """
    require_problem(problem)
    tol = checked_tolerance("tol", tol)
    checked_flag("suspects", suspects)
    answer = as_answer(answer)
    try:
        require_same_names(problem, answer)
        certificate = certify(problem, answer.dual_coef, weights=answer.weights, intercept=answer.intercept)
        beta = _array(answer.dual_coef)  # of a Solution in its place there is a certificate
        objective, lower = claim("objective", answer.objective), claim("lower", answer.lower)
        converged = claimed_convergence(answer.converged)
    except MKLError as error:
        return Verdict(None, (Finding("malformed answer", str(error)),), np.inf)
    weights = None if answer.weights is None else np.maximum(_array(answer.weights), 0.0)  # as in the certificate
    b = None if answer.intercept is None else problem.intercepts(certificate.intercept)
    point = Point(beta, weights, b)
    if weights is None and np.isfinite(certificate.lower):
        for theta in fitting_weights(problem, point.dual_coef, point.intercept):
            if certificate.relative_gap <= tol:
                break
            certificate, weights = _better(problem, point, certificate, weights, theta)
    gap = certificate.relative_gap
    findings: list[Finding] = []
    violated = _violations(problem, answer, certificate, tol)
    if not certificate.is_optimal(tol):
        explained = _why_not_each_machine if problem.several else _why_not_optimal
        findings += _negative_weights(problem, answer, point, gap, tol)
        if not findings:
            searched, why = suspects and gap >= 0.0, " Its cause was not looked for." * (not suspects)
            findings += explained(problem, point, certificate, gap, tol) if searched else [_by_size(gap, tol, why)]
        if violated and findings[0].fault in UNEXPLAINED and not problem.several:
            findings[0] = findings[0]._replace(text=f"{findings[0].text} Infeasible: {'; '.join(violated)}.")
        if converged:
            findings.append(Finding("claimed convergence", f"the relative gap is {gap:.1e}, allowed {tol:.1e}."))
    elif violated:
        findings.append(Finding("infeasible", "; ".join(violated) + "."))
    allowed = tol * certificate.size
    elsewhere = [value for finding in findings for value in finding.objectives]  # where its claims may be right
    objective, lower = (
        None if one is not None and any(abs(one - value) <= 2 * tol * abs(value) for value in elsewhere) else one
        for one in (objective, lower)
    )
    findings += false_claims(problem, objective, lower, point, certificate, allowed)
    return Verdict(certificate, tuple(findings), gap, weights)


def proven(problem: Problem, answer: Answer, verdict: Verdict, tol: float) -> RigorousCertificate:
    """The bounds of a certified answer with a proof; what is raised, as by `mklref.certify`."""
    return certify(
        problem, answer.dual_coef, weights=verdict.weights, intercept=answer.intercept, rigorous=True, tol=tol
    )


def _better(
    problem: Problem, point: Point, certificate: Certificate, weights: Array | None, others: Array
) -> tuple[Certificate, Array | None]:
    """The certificate with these weights or others, whichever says more, with violations of the answer; the weights."""
    found = certify(problem, point.dual_coef, weights=others, intercept=point.intercept)
    if min(found.upper, found.better_upper) < min(certificate.upper, certificate.better_upper):
        return replace(found, violations=certificate.violations, infeasibility=certificate.infeasibility), others
    return certificate, weights


def _negative_weights(problem: Problem, answer: Any, point: Point, gap: float, tol: float) -> list[Finding]:
    """Weights that are negative by more than rounding, which a certificate takes for 0; none if there are none."""
    theta = np.zeros(1) if answer.weights is None else _array(answer.weights)
    m, size = int(theta.argmin()), np.abs(theta)
    if theta[m] >= -np.sqrt(tol) * size.max():
        return []
    fits = _bounds(Reading("", "", problem, point._replace(weights=size)))[1] <= tol
    text = f"weights[{m}] = {theta[m]:.3g} is negative{', and |weights| are optimal' * fits}."
    return [Finding("negative weights", f"{text} The relative gap is {gap:.1e}, allowed {tol:.1e}.")]


def _violations(problem: Problem, answer: Answer, certificate: Certificate, tol: float) -> list[str]:
    """Constraints that are violated by more than sqrt(tol) of the largest entry, the domain of R* by 3 sqrt(tol).

    Where the optimum is 0 all dual variables are rounding, and so are their violations. What a violation v costs is v
    times its multiplier, an intercept or a score: below tol^2 of the size of the optimum it is nothing in any unit.
    """
    beta, allowed = _array(answer.dual_coef), float(np.sqrt(tol))
    multiplier = max(np.abs(certificate.intercept).max(), *(np.abs(m.problem.y).max() for m in problem.machines))
    least = max(allowed * np.abs(beta).max(), tol**2 * certificate.size / multiplier if multiplier else 0.0)
    repaired = [repair(m.problem, own)[1] for m, own in zip(problem.machines, problem.split(beta), strict=True)]
    found = [text for texts in repaired for text, size in texts if size > least]
    if answer.weights is not None:
        theta = _array(answer.weights)
        m = int(theta.argmin())
        if theta[m] < -allowed * np.abs(theta).max():
            found.append(f"weights[{m}] = {theta[m]:.3g} is negative")
        found += [text for text, share in repaired_weights(problem, np.maximum(theta, 0.0))[1] if share > allowed]
    R = problem.regularizer
    if not R.supercoercive and (inside := R.dual_scale(dual_norms(problem, beta))) < 1.0 - 3.0 * allowed:
        found.append(f"dual_coef lies outside the domain of R*: only {inside:.3g} times it is allowed")
    return found


def plausible(
    problem: Problem, point: Point, suspects: Iterable[Suspect], certificate: Certificate, tol: float, share: float
) -> list[tuple[float, Reading]]:
    """The readings whose certificate leaves less than a share of the gap, and about the least of all.

    Of the readings of one fault that fit as well as one another the first one stays. Those that explain the intercept
    as it was returned come first, and of these the ones without a number that nobody could have meant. What is left of
    a huge gap explains nothing, nor does a fault with which a perfect solver would be right.
    """
    gap, effect = certificate.relative_gap, _share_of_effect(problem, certificate.upper, certificate.lower)
    fitting = []
    for reading in _readings(suspects, problem, point):
        if _far(reading, 0.5 * gap):
            continue
        as_given, left, upper, lower = np.maximum(_bounds(reading), [0.1 * tol, 0.1 * tol, -np.inf, -np.inf]).tolist()
        # Of K_m + rI, and of a smooth loss, which is such an r, an inexact machine at a large C is nearly a solution.
        softer = reading.fault in ("ridge on the kernels", "another loss")
        allowed = 0.0 if softer else min(share, PLAUSIBLE_IF_FITTED) if reading.adapted else share
        if left > min(max(allowed * min(gap, 1.0), tol), 0.2 * gap):
            continue
        if (
            (reading.problem.kernels is problem.kernels and not isinstance(reading.problem.regularizer, Fixed))
            or _share_of_effect(reading.problem, upper, lower) <= OF_THE_EFFECT * effect
        ) and _errs_as_much(problem, point, reading, gap):
            lost, off = bool(np.any(point.intercept)) and reading.point.intercept is None, as_given > 10.0 * left
            fitting.append((lost or off, reading.adapted, left, off_intercept(reading) if off else reading))
    best = min((left for *_, left, _ in fitting), default=np.inf)
    first: dict[str, tuple[float, Reading]] = {}
    for *_, left, reading in sorted(fitting, key=lambda row: row[:2]):
        if left < 10.0 * best:
            first.setdefault(reading.fault, (left, reading))
    return list(first.values())


def _errs_as_much(problem: Problem, point: Point, reading: Reading, gap: float) -> bool:
    """Whether a perfect solver of the problem of a reading leaves such a gap, where the point is read as it is.

    At a large C no sample is at its bound, and every smaller C has the same solution: none of them explains that an
    answer is inexact, although each one forgives it more. One half of an answer is compared with the other elsewhere.
    """
    asked, (beta, theta, _) = reading.problem, reading.point
    half = isinstance(asked.regularizer, Fixed) and asked.regularizer is not problem.regularizer
    if asked is problem or half or beta is not point.dual_coef or theta is not point.weights:
        return True
    with suppress(MKLError):
        found = solve(asked, tol=1e-9, max_iter=60)
        b = found.intercept if asked.intercept and problem.intercept else point.intercept
        return certify(problem, found.dual_coef, weights=found.weights, intercept=b).relative_gap > OF_THE_GAP * gap
    return True


def _readings(suspects: Iterable[Suspect], problem: Problem, point: Point) -> Iterator[Reading]:
    """The readings of suspects, as far as the numbers of the point let them be stated."""
    for suspect in suspects:
        with suppress(MKLError, np.linalg.LinAlgError, ArithmeticError):
            yield from suspect(problem, point)


def _why_not_optimal(
    problem: Problem, point: Point, certificate: Certificate, gap: float, tol: float
) -> Iterator[Finding]:
    bounds = f"The relative gap is {gap:.1e}, allowed {tol:.1e}."
    rounded = of_few_digits(problem, point) if gap <= ROUNDED else ""
    tiers = [(EXACT, PLAUSIBLE)]
    if not (zero := zeros(point)):  # which another problem may want, but nothing can be fitted to
        tiers += [*((suspects, PLAUSIBLE_IF_FITTED) for suspects in (FITTED, HALVES, LAST)), (INNER, PLAUSIBLE)]
    fitting = next(
        filter(None, (plausible(problem, point, suspects, certificate, tol, share) for suspects, share in tiers)), []
    )
    if fitting and fitting[0][1].fault == "weights not optimal":
        rest = plausible(problem, point, LAST, certificate, tol, PLAUSIBLE_IF_FITTED)
        solved = [(left, reading) for left, reading in rest if reading.fault == "machine not solved"]
        fitting = solved or [*fitting, *rest]  # weights whose machine is optimal are
    if zero and not (fitting and point.dual_coef.any()):
        text = f"{' and '.join(zero)} are all 0. {also(fitting)}{bounds}"
        yield Finding("zero answer", text, tuple(other.fault for _, other in fitting))
    elif fitting:
        (left, first), *others = fitting
        faults = [reading.fault for _, reading in fitting]
        if gap <= CLOSE and (rounded or first.fault == "machine not solved"):
            faults.insert(0, "inaccurate")
        text = f"{rounded}{first.text}"
        text = f"{text.rstrip('.')}; a gap of {left:.0e} is left." if left > tol else text
        elsewhere = objectives_elsewhere(problem, [reading for _, reading in fitting])
        yield Finding(faults[0], f"{text} {also(others)}{bounds}", tuple(faults[1:]), elsewhere)
    elif gap > CLOSE and (text := _other_weights(problem, point, gap, tol)):
        yield Finding("weights of another iterate", f"{text} {bounds}")
    else:
        yield _by_size(gap, tol, unexplained(problem), rounded)


def _by_size(gap: float, tol: float, why: str = "", rounded: str = "") -> Finding:
    """What a gap says by itself, and why no more is said: the digits of the point, if these are the cause."""
    fault = "negative gap" if gap < 0.0 else "inaccurate" if gap <= CLOSE else "not converged"
    return Finding(fault, f"{rounded}the relative gap is {gap:.1e}, allowed {tol:.1e}.{why * (not rounded)}")


def _why_not_each_machine(
    problem: Problem, point: Point, certificate: Certificate, gap: float, tol: float
) -> Iterator[Finding]:
    """What is wrong with each machine at these weights, or, where nothing is, with the weights."""
    bounds = f"The relative gap is {gap:.1e}, allowed {tol:.1e}."
    if zero := zeros(point):
        yield Finding("zero answer", f"{' and '.join(zero)} are all 0. {bounds}")
        return
    if (theta := point.weights) is None:
        theta = problem.regularizer.weights_from_dual(dual_norms(problem, point.dual_coef))
    if not theta.any() or not np.isfinite(theta).all():  # no kernel sees the point, or its norms are beyond float64
        yield Finding("not converged", f"No kernel has a positive finite weight. {bounds}")
        return
    point = point._replace(weights=theta)
    if common := _of_all(plausible(problem, point, OF_ALL, certificate, tol, PLAUSIBLE), problem, bounds):
        yield common
        return
    fixed = Fixed(theta)
    b: Any = [None] * len(problem.machines) if point.intercept is None else point.intercept
    wrong: dict[str, list[tuple[int, Finding]]] = {}
    betas = problem.split(point.dual_coef)
    for p, (machine, beta, own) in enumerate(zip(problem.machines, betas, b, strict=True)):
        alone = machine.problem.replace(regularizer=fixed)
        verdict = judge(alone, Answer(beta, theta, own), tol=tol)
        for finding in verdict.findings[:1]:
            wrong.setdefault(finding.fault, []).append((p, finding))
    if gap > CLOSE and set(wrong) <= OF_ONE_HALF and (text := _other_weights(problem, point, gap, tol)):
        yield Finding("weights of another iterate", f"{text} {bounds}", tuple(wrong))
        return
    for fault, found in wrong.items():
        which = ", ".join(str(p) for p, _ in found)
        yield Finding(fault, f"Machine {which} of {len(betas)}: {found[0][1].text}", found[0][1].others)
    if not wrong:
        fitting = plausible(problem, point, OF_THEIR_WEIGHTS, certificate, tol, PLAUSIBLE_IF_FITTED)
        fault = "inaccurate" if gap <= CLOSE else "weights not optimal"
        solved = Finding(fault, f"Every machine is solved for these weights. {bounds}")
        yield _of_all(fitting, problem, bounds) or solved


def _of_all(fitting: list[tuple[float, Reading]], problem: Problem, bounds: str) -> Finding | None:
    """The first reading of all machines together, and the others, if there are any."""
    if not fitting:
        return None
    first, *others = readings = [reading for _, reading in fitting]
    text = f"{first.text} {also(fitting[1:])}{bounds}"
    return Finding(first.fault, text, tuple(one.fault for one in others), objectives_elsewhere(problem, readings))


def _other_weights(problem: Problem, point: Point, gap: float, tol: float) -> str:
    """The weights that make the dual point optimal, in words, if there are any; asked where nothing else fits."""
    for theta in () if point.weights is None else fitting_weights(problem, point.dual_coef, None):
        other = Reading("", "", problem, Point(point.dual_coef, theta, None))
        if _bounds(other)[1] <= max(PLAUSIBLE_IF_FITTED * min(gap, 1.0), tol):
            return f"dual_coef is optimal with the weights {some(theta)}, not with those returned."
    return ""


def _bounds(reading: Reading) -> tuple[float, float, float, float]:
    """Relative gaps of a reading with its own intercept and with the best one, and the bounds with the latter."""
    problem, point = reading.problem, reading.point
    try:
        given = certify(problem, point.dual_coef, weights=point.weights, intercept=point.intercept)
        if point.weights is None and (theta := weights_of_the_machine(problem, point.dual_coef)) is not None:
            given, _ = _better(problem, point, given, None, theta)
    except MKLError:
        return np.inf, np.inf, np.inf, -np.inf
    best, lower = given.upper if reading.exact else min(given.upper, given.better_upper), given.lower
    as_given, left = (abs(relative(u - lower, max(abs(u), given.unit))) for u in (given.upper, best))
    return as_given, left, best, lower


def _far(reading: Reading, gap: float) -> bool:
    """Whether a reading leaves more than this relative gap, by the two objectives alone, which cost far less."""
    problem, (beta, theta, _) = reading.problem, reading.point
    if theta is None or problem.several or theta.shape != (problem.n_kernels,):
        return False
    inside, violations = repair(problem, beta)
    if any(size > _OUTSIDE * np.abs(beta).max() for _, size in violations):
        return True
    images = problem.kernels.apply(beta)
    squares, scores = np.maximum(images @ beta, 0.0), theta @ images
    moved = squares if not violations else np.maximum(problem.kernels.quadratic(inside), 0.0)
    lower, _ = dual_objective(problem, [inside], moved)
    losses = intercept_objective(problem, scores, middle_intercept(problem, scores))
    upper = losses + problem.regularizer.value(theta * np.sqrt(squares))
    return bool(upper - lower > gap * max(abs(upper), unit_of(problem)))


def _share_of_effect(problem: Problem, upper: float, lower: float) -> float:
    """The gap over what the kernels achieve, which is the objective of the best constant less the lower bound.

    Where they achieve next to nothing, as after a division by their trace, every answer is nearly optimal, and that
    explains none. Machines of one class have no such constant.
    """
    if problem.intercept_cost:
        return 0.0
    alone = [(one, np.zeros(one.n_samples)) for one in (machine.problem for machine in problem.machines)]
    constant = sum(intercept_objective(one, zero, middle_intercept(one, zero)) for one, zero in alone)
    return min(abs(relative(upper - lower, constant - lower)), 1.0)


def _array(data: Any) -> Array:
    return np.asarray(as_float_array(data, "answer"), dtype=np.float64)
