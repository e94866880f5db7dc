"""Verdicts on packages of others: `python -m validation.peers.run [PEER ...] [--json FILE] [--markdown]`.

Run it in an environment of its own, which has mklref and the peer: none of them is a dependency. Peers that are not
installed are named and left out.
"""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import version

import mklref
from mklref._files import write_text
from mklref.testing import Report, check_solver
from mklref.testing.result import Outcome
from validation.facts import commit, results_file

PEERS = {
    "scikit_learn": ("scikit-learn", "SVC, SVR and OneClassSVM at tol = 1e-8"),
    "mklpy": ("MKLpy", "AverageMKL with SVC at tol = 1e-8"),
    "cvxpy_primer": ("cvxpy", "the textbook QCQP with default settings"),
}
TOLERANCES = (1e-3, 1e-6)


def verdicts(name: str) -> dict[float, Report]:
    """A report for each tolerance."""
    solve = import_module(f"validation.peers.{name}").solve
    return {tol: check_solver(solve, tol=tol, exclude="grid") for tol in TOLERANCES}


def line(name: str, reports: dict[float, Report]) -> str:
    """One row of the table in the docs."""
    package, text = PEERS[name]
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
        except ImportError as missing:
            print(f"{PEERS[name][0]}: left out, {missing}")
    print(f"{datetime.now(UTC):%Y-%m-%d}, mklref {mklref.__version__}, commit {commit()}")
    for name, reports in found.items():
        print(line(name, reports) if arguments.markdown else f"{PEERS[name][0]}\n{reports[TOLERANCES[-1]]}\n")
    if arguments.json:
        content = {name: {f"{tol:g}": r.to_dict() for tol, r in reports.items()} for name, reports in found.items()}
        write_text(arguments.json, json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
