"""`mklref solve`: one problem, natively, with its certificate."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from mklref import native
from mklref._crosscheck.result import kernel_names
from mklref._files import SUFFIXES, ending, is_stream
from mklref._validate import counted
from mklref.cli import render
from mklref.cli.files import deliver
from mklref.cli.problem import read, read_stated, words_of
from mklref.exceptions import Interrupted, InvalidParameter
from mklref.solution import Solution
from mklref.testing.vectors import hdf5, write_record
from mklref.testing.vectors.schema import SOLUTIONS, names_of


def run(arguments: Any) -> bool:
    """Print certificate and weights, save the point if asked for, and say whether the gap is small enough."""
    out = render.console()
    if arguments.save is not None and not is_stream(arguments.save):
        if (suffix := ending(arguments.save)) not in SUFFIXES:
            raise InvalidParameter(f"cannot write {arguments.save}: end its name in {', '.join(SUFFIXES)}.")
        if suffix in (".h5", ".hdf5"):
            hdf5.require_extra()
    problem = read_stated(arguments)
    if problem is not None:
        title, facts = words_of(problem, arguments.data)
        render.show_facts(out, facts)
    else:
        data = read(arguments)
        p, C = 1.0 if arguments.p is None else arguments.p, 100.0 if arguments.C is None else arguments.C
        problem, title = data.problem(p, C), data.title(p, C)
        render.show_facts(out, data.facts)
    try:
        solution = native.solve(problem, tol=arguments.tol, max_time=arguments.max_time)
    except Interrupted as interrupt:
        if isinstance(interrupt.solution, Solution):
            render.show_written(out, deliver(arguments, save=partial(_save, interrupt.solution)))
        raise
    written = deliver(arguments, save=partial(_save, solution))
    out.print(f"\n[bold]{title}[/bold]")
    render.show_weights(out, kernel_names(problem), {"weight": solution.weights})
    support = int(np.atleast_2d(solution.dual_coef != 0.0).any(axis=0).sum())
    kernels = counted(int((solution.weights > 0.0).sum()), "kernel")
    facts = {
        "objective": f"{solution.objective:.12g}",
        "intercept": ", ".join(f"{b:.9g}" for b in np.atleast_1d(solution.intercept)),
        "support": f"{support} of {problem.n_samples} samples, {kernels}",
        "status": f"{solution.status.name.lower().replace('_', ' ')}: {solution.status.value}",
    }
    out.print()
    render.show_facts(out, facts)
    certified = solution.certificate.is_optimal(arguments.tol)
    render.say(out, solution.certificate if certified else solution.certificate.explain())
    render.show_written(out, written)
    return certified


def _save(solution: Solution, path: str) -> None:
    """As `Solution.save`, or in a format of other languages where the name of the file ends so."""
    if ending(path) not in SUFFIXES[1:]:
        solution.save(path)
        return
    certificate = solution.certificate
    bounds = {"objective": solution.objective, "lower": certificate.lower, "info_upper": certificate.upper}
    point = {"dual_coef": solution.dual_coef, "weights": solution.weights, "intercept": solution.intercept}
    names = names_of(sample_names=solution.sample_names, kernel_names=solution.kernel_names)
    about = {"format": SOLUTIONS[solution.dual_coef.ndim - 1], "solver": solution.solver}
    write_record(path, {**about, **names, **point, **bounds})
