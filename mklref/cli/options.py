"""The options of the command line."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

import mklref
from mklref._conic import FORMULATIONS, SOLVERS
from mklref._threads import cores
from mklref.cli.files import Input, Name, Output, OutputDirectory, add_force
from mklref.cli.learning import (
    NORMALIZATIONS,
    add_commands,
    add_reading,
    exponent,
    exponents,
    loss,
    names,
    number,
    positive_count,
    sample_count,
    seconds,
    seed,
    several,
    tolerance,
)
from mklref.datasets import BUNDLED
from mklref.exceptions import InvalidParameter
from mklref.losses import LOSSES

SAMPLES = 150
"""What `crosscheck` takes of a table: conic solvers are a reference, no racers."""
COSTS, NORMS = (100.0,), (1.0, 4 / 3, 2.0)
"""C and p of `crosscheck`, unless a file states them."""


class Parser(argparse.ArgumentParser):
    """Errors become exceptions, so that `main` prints them in one line as all others."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Of a command as well, so that what is not known is answered with the help of that command."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the usage and leaving."""
        raise InvalidParameter(f"{message} (see {self.prog} --help)")


def parser() -> argparse.ArgumentParser:
    """All commands."""
    root = Parser(
        prog="mklref",
        description="Multiple kernel learning: a convex-modeling reference, a native solver that certifies its "
        "answers, and the check of one against the other.",
        epilog="Exit codes: 0 passed, 1 not passed, 2 bad input, 130 interrupted.",
    )
    root.add_argument("--version", action="version", version=f"mklref {mklref.__version__}")
    root.set_defaults(astray=False)
    commands = root.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_commands(commands)
    _add_crosscheck(commands)
    _add_solve(commands)
    _add_certify(commands)
    _add_vectors(commands)
    _add_reproduce(commands)
    _add_explore(commands)
    listing = commands.add_parser("list", help="formulations, losses, regularisers and solvers that are here")
    listing.add_argument("--equivalences", action="store_true", help="problems with the same solutions instead")
    return root


def _add_crosscheck(commands: Any) -> None:
    check = commands.add_parser(
        "crosscheck",
        help="solve one problem by many formulations and solvers, certify each answer, compare",
        description="Solve natively and by every cvxpy formulation x solver; certify each answer, and compare.",
        epilog="Exit code 0: the values that the formulations state lie in the interval that all certificates share; "
        "1: a row contradicts it, or nothing could be checked, and the last line says which; 2: bad input. A solver "
        "that gives up is named, and does not fail the check.",
    )
    _add_problem(check, f"{SAMPLES} of a table, all of an NPZ file")
    add = check.add_argument
    add("--p", type=exponents, metavar="P,...", help="norms, such as 1,4/3,2,inf (1,4/3,2)")
    add("--C", type=several(number), metavar="C,...", help="weights of the summed loss (100)")
    add("--formulations", type=several(str), metavar="NAME,...", help=f"or all ({','.join(FORMULATIONS)})")
    add("--solvers", type=several(str), metavar="NAME,...", help=f"of CLARABEL, ECOS, SCS ({','.join(SOLVERS)})")
    add("--tol", type=tolerance, default=1e-6, help="largest relative gap of the native solver (1e-6)")
    add("--reference-tol", type=tolerance, default=1e-3, metavar="TOL", help="largest relative gap of others (1e-3)")
    add("--value-tol", type=tolerance, default=1e-6, metavar="TOL", help="how far values may be off, relatively (1e-6)")
    add("--jobs", type=positive_count, default=cores(), metavar="N", help="rows solved at a time (all processors)")
    add("--max-time", type=seconds, metavar="SECONDS", help="for a row; a solver that takes longer has failed")
    add("--json", type=Output, metavar="FILE", help="write all numbers to FILE")
    add("--report", type=Output, metavar="FILE.html", help="write a self-contained page with table and pictures")
    add_force(check)


def _add_solve(commands: Any) -> None:
    solve = commands.add_parser(
        "solve",
        help="solve one problem natively and print its certificate",
        description="Solve one problem natively, print certificate and kernel weights. An NPZ, MAT, HDF5 or JSON file "
        "that states a problem (C, loss, regularizer, sample_weight), as mklref vectors writes it, is solved as it "
        "stands; options that contradict it are errors.",
        epilog="Exit code 0: the certified relative gap is within --tol; 1: not so; 2: bad input.",
    )
    _add_problem(solve, "all")
    add = solve.add_argument
    add("--p", type=exponent, help="norm of the weights, in [1, inf], such as 4/3 (1)")
    add("--C", type=number, help="weight of the summed loss (100)")
    add("--tol", type=tolerance, default=1e-6, help="certified relative gap to reach (1e-6)")
    add("--max-time", type=seconds, metavar="SECONDS", help="stop then, with the best certified point")
    add(
        "--save",
        type=Output,
        metavar="FILE.npz",
        help="write point and certificate, which mklref.Solution.load reads; FILE.json, .mat or .h5: the point alone",
    )
    add_force(solve)


def _add_certify(commands: Any) -> None:
    certify = commands.add_parser(
        "certify",
        help="check the answer of any solver, from NPZ, MAT, HDF5 or JSON files",
        description="Certify a solution (dual_coef, perhaps weights and intercept) of a problem (kernels, y, C, loss, "
        "regularizer), and say what is wrong with it. Both are NPZ, MAT, HDF5 or JSON files, or two directories of "
        "files of the same names.",
        epilog="Exit code 0: the certified relative gap is within --tol; 1: not so; 2: bad input. "
        "What --rigorous --save wrote of a PROBLEM is checked by python -m mklref.verify.",
    )
    add = certify.add_argument
    add(
        "problem",
        type=Input,
        nargs="?",
        metavar="PROBLEM",
        help="file with a problem, or directory written by mklref vectors; none with --data",
    )
    add("solution", type=Input, metavar="SOLUTION", help="file with a solution, or directory with one for each problem")
    add("--tol", type=tolerance, default=1e-6, help="largest certified relative gap (1e-6)")
    add("--rigorous", action="store_true", help="prove the bounds, rounding errors included")
    add("--save", type=Output, metavar="FILE.json", help="write the certificate; with directories, all rows")
    add("--report", type=Output, metavar="FILE.html", help="with directories: write a page")
    add_force(certify)
    add = certify.add_argument_group("samples in place of PROBLEM").add_argument
    add(
        "--data",
        type=Input,
        metavar="FILE",
        help="samples X (n, d) and y, for kernels that are evaluated when they are read; C, loss, regularizer as in a "
        "problem; or a CSV file of numbers with a header, and the options say the rest",
    )
    add("--kernels", type=Name, metavar="SPEC", help="such as linear,poly:2,rbf:0.1..10:8,per-variable")
    add("--normalize", choices=NORMALIZATIONS, help="normalisation of each kernel (none)")
    add("--p", type=exponent, help="norm of the weights, in [1, inf], such as 4/3, unless the file says (1)")
    add("--C", type=number, help="weight of the summed loss, unless the file says (1)")
    add("--loss", type=loss, metavar="NAME[:VALUE]", help="the loss, unless the file says (hinge)")
    add = certify.add_argument_group("samples of a CSV file").add_argument
    add("--target", type=Name, metavar="COLUMN", help="column of y (the last one)")
    add("--ignore", type=names, default=[], metavar="COLUMN,...", help="columns that are no variables")
    add("--positive", type=Name, metavar="CLASS", help="the class that becomes +1 (the second of two)")
    add("--standardize", action="store_true", help="the variables, as solve does")


def _add_vectors(commands: Any) -> None:
    vectors = commands.add_parser(
        "vectors",
        help="write the catalogue of test problems as files, for solvers in any language",
        description="Write every problem of the conformance catalogue with certified bounds of its optimal value.",
        epilog="Check the solutions of your solver by: mklref certify DIRECTORY SOLUTIONS",
    )
    add = vectors.add_argument
    add("directory", type=OutputDirectory, metavar="DIRECTORY", help="made if it does not exist")
    add("--include", type=several(str), metavar="WORD,...", help="only cases with these flags or names, * allowed")
    add("--exclude", type=several(str), metavar="WORD,...", help="no cases with these flags or names")
    add(
        "--suite",
        choices=["catalogue", "real"],
        default="catalogue",
        help="small cases, or thirty real ones (catalogue)",
    )
    add("--formats", type=several(str), default=["npz", "mat", "json"], help="of npz,mat,json,hdf5 (npz,mat,json)")
    add_force(
        vectors, "write into a directory that is not empty: an export that is there is replaced, other files stay"
    )


def _add_reproduce(commands: Any) -> None:
    reproduce = commands.add_parser(
        "reproduce",
        help="compute the papers' tables and figures again (from a checkout)",
        description="Run the papers' experiments and compare. A finished cell is not run again; the report is "
        "DIR/report.html. Data sets are read from the directory MKLREF_DATA.",
        epilog="Exit code 0: everything was run, and every difference is explained; with --cell, nothing differs from "
        "the stored result but times and last digits; 1: not so; 2: bad input.",
    )
    add = reproduce.add_argument
    add("name", metavar="NAME", nargs="?", help="an experiment, or all (with --list: all)")
    add("--quick", action="store_true", help="a small form of every experiment, on data that is here")
    add("--out", type=Name, metavar="DIR", help="results and report (reproduction, or reproduction-quick)")
    add("--cell", type=Name, metavar="ID", help="run this one cell, and say what differs from the stored result")
    add("--stale", action="store_true", help="also run again what no commit, or code changed since, has made")
    add("--minutes", type=number, metavar="N", help="start no cell after so many minutes; the next run goes on")
    add("--list", action="store_true", help="only say which cells there are, and how long they take")
    add("--render", action="store_true", help="run nothing, write the report from what is there")
    add("--docs", action="store_true", help="write docs/reproduction.md as well")
    add_force(reproduce, "with --cell: run it again if it is finished; write into a directory with other things in it")


def _add_explore(commands: Any) -> None:
    explore = commands.add_parser(
        "explore",
        help="open a page that shows a formulation and moves it",
        description="Serve a page on this machine alone: data, kernels, loss, regulariser, p and C as controls; the "
        "equation, its primer and its dual, values by conic solvers, bounds, weights, paths and equivalences below. "
        "Needs pip install 'mklref[explore]'.",
        epilog="The address that is printed has a token. Ctrl-C ends the server.",
    )
    add = explore.add_argument
    add("--port", type=int, default=2718, metavar="N", help="the next free one from N on (2718)")
    add("--no-browser", action="store_true", help="only print the address")
    add(
        "--data",
        type=Input,
        metavar="NAME|FILE.csv",
        help="moons, rings, toy, a bundled set, or a CSV file with a header (moons)",
    )


def _add_problem(command: Any, samples: str) -> None:
    add = command.add_argument_group("problem (defaults in brackets)").add_argument
    add(
        "--data",
        type=Input,
        default=BUNDLED[0],
        metavar="NAME|FILE",
        help=f"one of {', '.join(BUNDLED)}; a CSV file with a header; an NPZ, MAT, HDF5 or JSON file with kernels "
        f"(M, n, n) and y, or with a whole problem ({BUNDLED[0]})",
    )
    add("--target", type=Name, metavar="COLUMN", help="column of the CSV file to predict (the last one)")
    add_reading(add)
    add("--positive", type=Name, metavar="CLASS", help="the class that becomes +1, all others -1 (the second of two)")
    add("--samples", type=sample_count, metavar="N|all", help=f"how many, drawn by the seed ({samples})")
    add("--seed", type=seed, help="seed of the draw (0)")
    add("--kernels", type=Name, metavar="SPEC", help="such as linear,poly:2,rbf:0.1..10:8,per-variable (simplemkl)")
    add("--normalize", choices=NORMALIZATIONS, help="normalisation of each kernel (trace; none for an NPZ file)")
    add("--loss", type=loss, metavar="NAME[:VALUE]", help=f"{', '.join(LOSSES)}; VALUE its parameter (hinge)")
