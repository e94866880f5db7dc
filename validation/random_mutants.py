"""A random sample of faults: `python -m validation.random_mutants [--sample N] [--seed S] [--only WORD]`.

Where mutants.toml holds faults that somebody thought of, these are drawn by a generator: every place of a component
that an operator of `OPERATORS` can change is as likely as every other. Each mutant is planted in a copy of the tree,
and the tests of its component that call the function around it run until one fails (`validation.forked`). Annotations,
docstrings and texts are left alone.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from validation.mutants import ROOT, SURVIVED, copied

OWN = (
    *("algorithms", "cli", "datasets", "equivalences", "estimators"),
    *("evidence", "factored", "kernels", "native", "synthesis"),
)
"""Components whose tests are the folder of the same name."""

PARTS = {
    "certificate": (
        "mklref/certificate",
        ("certificate", "verify", "test_several_machines.py", "native/test_runs.py", "native/test_joint.py"),
    ),
    "testing": ("mklref/testing", ("testing",)),
    "verify": ("mklref/verify.py", ("verify", "test_several_machines.py")),
    "formulations": (
        "mklref/formulations",
        ("formulations", "test_crosscheck.py", "test_reference.py", "test_equations.py"),
    ),
    "conic": ("mklref/_conic", ("formulations", "test_crosscheck.py", "test_reference.py")),
    "crosscheck": ("mklref/_crosscheck", ("test_crosscheck.py",)),
    "losses": ("mklref/losses", ("losses", "machines")),
    "regularizers": ("mklref/regularizers", ("regularizers", "test_weight_ranges.py")),
    "bounds": ("mklref/bounds.py", ("test_bounds.py",)),
    "machines": ("mklref/machines", ("machines", "native")),
    **{name: (f"mklref/{name}", (name,)) for name in OWN},
}
"""Code, and the tests of that component."""

Change = tuple[ast.AST, str]
"""A node, and the code that replaces it."""

COMPARISONS = {
    ast.Lt: ("<=", ">"),
    ast.LtE: ("<", ">="),
    ast.Gt: (">=", "<"),
    ast.GtE: (">", "<="),
    ast.Eq: ("!=",),
    ast.NotEq: ("==",),
    ast.Is: ("is not",),
    ast.IsNot: ("is",),
    ast.In: ("not in",),
    ast.NotIn: ("in",),
}
ARITHMETIC = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "/",
    ast.Div: "*",
    ast.Pow: "*",
    ast.FloorDiv: "/",
    ast.Mod: "*",
    ast.BitAnd: "|",
    ast.BitOr: "&",
    ast.LShift: ">>",
    ast.RShift: "<<",
}
SIBLINGS = {
    one: other
    for pair in (
        ("max", "min"),
        ("maximum", "minimum"),
        ("any", "all"),
        ("floor", "ceil"),
        ("argmax", "argmin"),
        ("zeros", "ones"),
        ("add_up", "add_down"),
    )
    for one, other in (pair, pair[::-1])
}


def comparison(node: ast.AST) -> Iterator[Change]:
    """< to <= and >, == to !=, in to not in."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        for sign in COMPARISONS[type(node.ops[0])]:
            yield node, f"(({ast.unparse(node.left)}) {sign} ({ast.unparse(node.comparators[0])}))"


def arithmetic(node: ast.AST) -> Iterator[Change]:
    """+ to -, * to /, and back; a ** b to a * b."""
    if isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in ARITHMETIC:
        sign = ARITHMETIC[type(node.op)]
        if isinstance(node, ast.BinOp):
            yield node, f"(({ast.unparse(node.left)}) {sign} ({ast.unparse(node.right)}))"
        else:
            yield node, f"{ast.unparse(node.target)} {sign}= {ast.unparse(node.value)}"


def sign(node: ast.AST) -> Iterator[Change]:
    """-a to a, not a to a."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not):
        yield node, f"({ast.unparse(node.operand)})"


def connective(node: ast.AST) -> Iterator[Change]:
    """And to or, and back."""
    if isinstance(node, ast.BoolOp):
        word = " or " if isinstance(node.op, ast.And) else " and "
        yield node, f"({word.join(f'({ast.unparse(value)})' for value in node.values)})"


def constant(node: ast.AST) -> Iterator[Change]:
    """A number n to n + 1, a float also to its half; True to False, and back."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            yield node, str(not node.value)
        elif isinstance(node.value, int):
            yield node, str(node.value + 1)
        elif isinstance(node.value, float):
            for other in (node.value + 1.0, 0.5 * node.value):
                if other != node.value:
                    yield node, repr(other)


def condition(node: ast.AST) -> Iterator[Change]:
    """The test of if, while, a conditional expression or a comprehension to its opposite."""
    tests = node.ifs if isinstance(node, ast.comprehension) else [getattr(node, "test", None)]
    if isinstance(node, ast.If | ast.While | ast.IfExp | ast.comprehension):
        for test in tests:
            yield test, f"(not ({ast.unparse(test)}))"


def statement(node: ast.AST) -> Iterator[Change]:
    """Nothing, in place of a call, an assignment to a part of something, a raise, continue or break."""
    dropped = ast.AugAssign | ast.Raise | ast.Continue | ast.Break
    part = isinstance(node, ast.Assign) and not isinstance(node.targets[0], ast.Name | ast.Tuple)
    call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    if isinstance(node, dropped) or part or call:
        yield node, "pass"


def result(node: ast.AST) -> Iterator[Change]:
    """None is returned."""
    if isinstance(node, ast.Return) and node.value is not None and ast.unparse(node.value) != "None":
        yield node, "return None"


def sibling(node: ast.AST) -> Iterator[Change]:
    """max to min, any to all, floor to ceil, and back."""
    if isinstance(node, ast.Call):
        name = node.func
        if isinstance(name, ast.Name) and name.id in SIBLINGS:
            yield name, SIBLINGS[name.id]
        elif isinstance(name, ast.Attribute) and name.attr in SIBLINGS:
            yield name, f"{ast.unparse(name.value)}.{SIBLINGS[name.attr]}"


OPERATORS: tuple[Callable[[ast.AST], Iterator[Change]], ...] = (
    comparison,
    arithmetic,
    sign,
    connective,
    constant,
    condition,
    statement,
    result,
    sibling,
)


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    part: str
    file: str
    """From the root of the checkout."""
    line: int
    operator: str
    function: str
    """File and first line of the innermost function around it; the file alone outside of functions."""
    inside: bool
    """Whether calling a function runs it: outside of bodies, as in a default, importing the module does."""
    start: int
    end: int
    """Offsets in the file of what is replaced, in bytes of UTF-8."""
    old: str
    new: str

    def __str__(self) -> str:
        old = " ".join(self.old.split())
        return f"{self.file}:{self.line}  {self.operator}  {old}  ->  {self.new}"

    def applied(self, source: bytes) -> bytes:
        """The file with the fault."""
        return source[: self.start] + self.new.encode() + source[self.end :]


def mutants(only: str = "", root: Path = ROOT) -> list[Mutant]:
    """Every mutant of every file whose path contains `only`."""
    found = []
    for part, (code, _) in PARTS.items():
        path = root / code
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            name = file.relative_to(root).as_posix()
            if only in name:
                found += mutants_of(file.read_text(encoding="utf-8"), part, name)
    return found


def mutants_of(source: str, part: str, file: str) -> list[Mutant]:
    """Those of one file."""
    data = source.encode()
    starts = np.cumsum([0, *(len(line) for line in data.splitlines(keepends=True))])
    found = []
    for node, function, inside in _walk(ast.parse(source), file):
        for operator in OPERATORS:
            for place, new in operator(node):
                start = int(starts[place.lineno - 1]) + place.col_offset
                end = int(starts[place.end_lineno - 1]) + place.end_col_offset
                old = data[start:end].decode()
                words = (part, file, place.lineno, operator.__name__, function, inside, start, end, old, new)
                found.append(Mutant(*words))
    return found


def _walk(node: ast.AST, function: str, inside: bool = False) -> Iterator[tuple[ast.AST, str, bool]]:
    """Every node that runs, its function and whether in a body: no annotations, texts, or what type checkers read."""
    if isinstance(node, ast.FunctionDef):
        function = f"{function.partition(':')[0]}:{min([node.lineno, *(d.lineno for d in node.decorator_list)])}"
    if isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "__name__ == '__main__'")
    ):
        return
    yield node, function, inside
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                body = inside or (name == "body" and isinstance(node, ast.FunctionDef))
                yield from _walk(child, function, body)


def run(chosen: list[Mutant], calls: Path | None = None, budget: float = np.inf) -> Iterator[tuple[Mutant, str, float]]:
    """Each mutant with its outcome and the seconds it took, in the order of the parts; see `judged` for the rest."""
    with tempfile.TemporaryDirectory() as folder:
        tree = copied(Path(folder) / "tree")
        for part, (_, tests) in PARTS.items():
            own = [mutant for mutant in chosen if mutant.part == part]
            table = (calls or Path(folder)).absolute() / f"{part}.json"
            for number, found, seconds in judged(tree, own, tests, table, budget) if own else ():
                yield own[number], found, seconds


def judged(
    tree: Path, chosen: list[Mutant], tests: tuple[str, ...], table: Path, budget: float = np.inf
) -> Iterator[tuple[int, str, float]]:
    """Number, outcome and seconds of each mutant of one part, from a process that collects its tests once.

    Which tests call which function is in `table`, or is found and written there, which takes longest; with a budget,
    in seconds of a processor, only tests that are reached by then are asked.
    """
    mutants, log = tree.parent / "mutants.json", tree.parent / "log.txt"
    mutants.write_text(
        json.dumps({"tests": tests, "mutants": list(map(asdict, chosen)), "budget": budget}), encoding="utf-8"
    )
    receive, send = os.pipe()
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKLREF_NUM_THREADS"), "1")
    table.parent.mkdir(parents=True, exist_ok=True)
    files = {"MKLREF_MUTANTS": str(mutants), "MKLREF_CALLS": str(table), "MKLREF_RESULTS": str(send)}
    paths = {"PYTHONPATH": f"{tree}{os.pathsep}{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", "-o", "timeout=1800"]
    plugins = ["-p", "validation.calls", "-p", "validation.forked"]
    with log.open("w", encoding="utf-8") as said:
        process = subprocess.Popen(
            [*command, *plugins, *(f"tests/{test}" for test in tests)],
            cwd=tree, env={**os.environ, **threads, **files, **paths}, pass_fds=[send], stdout=said, stderr=said,
        )  # fmt: skip
        os.close(send)
        with os.fdopen(receive) as results:
            for line in results:
                number, found, seconds = json.loads(line)
                yield number, found, seconds
    if table.is_file() and (failed := json.loads(table.read_text(encoding="utf-8"))["failed"]):
        print(f"fail without a fault, and judge nothing: {', '.join(failed)}", file=sys.stderr)
    if process.wait():
        raise RuntimeError(f"pytest ended with {process.returncode}:\n{log.read_text(encoding='utf-8')[-3000:]}")


def main(arguments: list[str] | None = None) -> int:
    """Print one line for each mutant and the score of each part; exit code 1 if one survived."""
    parser = argparse.ArgumentParser(
        prog="python -m validation.random_mutants", description=__doc__.splitlines()[0].partition(":")[0]
    )
    parser.add_argument("--sample", type=int, default=150, metavar="N", help="how many mutants (150)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of the sample (0)")
    parser.add_argument("--only", default="", metavar="WORD", help="files whose path contains this word")
    parser.add_argument("--skip", type=int, default=0, metavar="N", help="the first ones of the sample, run before (0)")
    parser.add_argument("--calls", type=Path, metavar="DIR", help="keep which tests call what here for another run")
    parser.add_argument(
        "--budget", type=float, default=np.inf, metavar="SECONDS", help="of a processor for the run without a fault"
    )
    options = parser.parse_args(arguments)
    every = mutants(options.only)
    order = np.random.default_rng(options.seed).permutation(len(every))[options.skip : options.sample]
    ends: Counter[tuple[str, bool]] = Counter()
    print(f"{len(order)} of {len(every)} mutants, seed {options.seed}", flush=True)
    for mutant, found, seconds in run([every[k] for k in order], options.calls, options.budget):
        survived = found == SURVIVED
        ends[mutant.part, survived] += 1
        print(f"{seconds:5.1f} s  {found:8}  {mutant}", flush=True)
    for part in PARTS:
        killed, survived = ends[part, False], ends[part, True]
        if killed + survived:
            print(f"{part}: {killed} of {killed + survived} killed")
    return int(any(survived for _, survived in ends))


if __name__ == "__main__":
    sys.exit(main())
