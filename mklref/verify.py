"""Check a rigorous certificate against its data: `python -m mklref.verify CERTIFICATE.json [DATA.npz]`.

This program is a second opinion. It imports nothing of mklref and reads two files: the certificate, and the data as
an NPZ file with `kernels` (M, n, n) and `y` (n,), by default beside the certificate. It computes anew

    q_m = beta'K_m beta + delta_m ||beta||^2,   t = sum_m theta_m K_m beta + b
    L = -sum_i c_i V*(-beta_i/c_i, y_i) - R*(sqrt q)
    U = sum_i c_i V(t_i, y_i) + R(sqrt(theta^2 q)) + c_b b + ||c s||_2 sum_m theta_m delta_m ||beta||_2

with s_i the largest |V'| within sum theta delta ||beta|| of t_i, and for several machines the sums of q, losses and
dual terms over all of them. It confirms: the data are those that were hashed; beta lies in its box and sums to c_b; the
claimed bounds are no sharper than L and U; K_m + delta_m I is semidefinite.
It states the problem that the bounds belong to, and refuses one that is none: p < 1, a cost that is not positive,
groups that are no partition, targets of another kind. Of `backend`, which is no part of the proof, only the spelling is
checked.
Products and sums are exact, in Python integers and fractions. Logarithms and powers are decimals of 80 digits, of which
60 are relied on. K + delta I = L L' + c I + R is semidefinite if ||R||_F <= c, whoever computed L: that residual is the
one thing taken from float64, with its error bound for rounding to nearest.

A certificate has the fields of its format and no other, each once and of its type, and numbers in the spelling of
`float.hex`; of an archive that holds two members for one name nothing is read, since readers differ in which they take.

Exit codes: 0 confirmed, 1 not confirmed, 2 the files cannot be read, or state no problem, or nobody can be told.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import posixpath
import re
import sys
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

CONFIRMED, NOT_CONFIRMED, UNREADABLE = 0, 1, 2
FORMATS = ("mklref-rigorous-1", "mklref-rigorous-2")
"""Of one machine; of one for each class or pair of classes, with a row of dual variables and an intercept for each."""
_USAGE = "python -m mklref.verify CERTIFICATE.json [DATA.npz]"
_CONTEXT = Context(prec=80, Emax=MAX_EMAX, Emin=MIN_EMIN)
_MARGIN = Decimal("1e-60")
_PIECE = 128
"""Columns of a factor that are multiplied at a time, which keeps the bound of their rounding errors small."""
_TINY = Decimal("1e-30")
"""Where x of the logistic loss is less than this, 80 digits are too few for log(1 - x) and log(1 + x)."""
_TIE = Fraction(1, 10**9)
"""Groups: p + q this close to 1 counts as 1, by the definition of the regulariser."""
_LAST_BITS = Fraction(8, 2**52)
"""Of the largest target or end of a tube: constant targets may differ by that."""
_INFLATION = 1032
"""What the deflate method packs into one byte at most."""
_HEADER = 65536
"""Bytes before the numbers of an array, at most."""
LIMIT = "MKLREF_MAX_BYTES"
"""Environment variable: what a file may unpack to, 4 GiB by default."""
_MEMORY = Path("/proc/meminfo")
"""Where Linux says how much memory is free."""
_ARRAYS = {"kernels": (3, ("float32", "float64")), "y": (1, ("float64",))}
"""Axes and types of the arrays."""
_DAMAGE = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    Warning,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What a file raises that is not what it should be, depending on where it is not."""


class Unreadable(Exception):
    """A file is damaged, or not what it should be."""


class Refuted(Exception):
    """Something that the certificate claims could not be confirmed."""


class Unwritten(Exception):
    """Standard output takes nothing: the disk is full, or the reader is gone."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Check one certificate; prints one line for each thing confirmed, and the verdict."""
    try:
        return _check(list(sys.argv[1:] if arguments is None else arguments))
    except Unwritten as fault:
        return _say(UNREADABLE, f"the verdict cannot be written to standard output: {fault}")


def _check(given: list[str]) -> int:
    if {"-h", "--help"} & set(given):
        return _say(CONFIRMED, f"usage: {_USAGE}\n\n{__doc__ or ''}")  # python -OO has none
    paths = [Path(argument) for argument in given]
    if len(paths) not in (1, 2):
        return _say(UNREADABLE, f"usage: {_USAGE}; --help says more")
    data = paths[1] if len(paths) == 2 else paths[0].with_suffix(".npz")
    what = f"certificate {paths[0]}"
    try:
        certificate = read_certificate(paths[0])
        what = f"NPZ file {data}"
        kernels, y, unread = read_data(data, certificate)
        what = f"certificate {paths[0]}"
        _say(CONFIRMED, "data: SHA-256 of kernels and targets as certified")
        whole = hashlib.sha256(np.ascontiguousarray(kernels, "<f8").data)
        whole.update(np.ascontiguousarray(y, "<f8").data)
        _say(CONFIRMED, f"data: both together have the SHA-256 {whole.hexdigest()}")
        if unread:
            _say(CONFIRMED, f"data: not read, and not confirmed: {unread}; the problem is that of the certificate")
        for statement in verify(certificate, kernels, y):
            _say(CONFIRMED, statement)
    except Refuted as doubt:
        return _say(NOT_CONFIRMED, f"NOT CONFIRMED: {doubt}")
    except Unreadable as damage:
        return _say(UNREADABLE, f"{what} cannot be read: {damage}")
    except _DAMAGE as damage:
        return _say(UNREADABLE, f"{what} cannot be read: {type(damage).__name__}: {damage}")
    return _say(CONFIRMED, "CONFIRMED")


def _say(code: int, line: str) -> int:
    """Doubts and damage quote files and their names, in which a line "CONFIRMED" would be taken for the verdict."""
    if code != CONFIRMED:
        line = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in line)
    stream = sys.stderr if code == UNREADABLE else sys.stdout
    if stream is None:  # closed: the exit code says it
        return code
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        stream.write(line.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        stream.flush()
    except OSError as fault:
        with suppress(OSError):  # else Python tries once more when it ends, and fails
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if code != UNREADABLE:
            raise Unwritten(fault) from fault
    return code


# --- reading -------------------------------------------------------------------------------------------------------

_SCHEMA: dict[str, Any] = {
    "format": str,
    "mklref": str,
    "claim": {"lower": float, "upper": float, "tier": int, "delta": [float]},
    "backend": str,
    "problem": {"loss": dict, "regularizer": dict, "costs": [float], "intercept": bool},
    "point": {"dual_coef": [float], "weights": [float], "intercept": float},
    "data": {name: {"shape": [int], "dtype": str, "sha256": str} for name in ("kernels", "y")},
}
_SEVERAL: dict[str, Any] = {
    **_SCHEMA,
    "problem": {**_SCHEMA["problem"], "strategy": str},
    "point": {"dual_coef": [[float]], "weights": [float], "intercept": [float]},
}
_SCHEMAS = dict(zip(FORMATS, (_SCHEMA, _SEVERAL), strict=True))
"""The fields and their types; float stands for a text of `float.hex`, and `_PARAMETERS` has the rest."""


def read_certificate(path: Path) -> dict[str, Any]:
    """The JSON document, if it is of the format that this program knows, field by field."""
    if not path.is_file():
        raise Unreadable(f"{path} is no file.")
    _require_room(path, path.stat().st_size)
    certificate = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_object, parse_constant=_no_constant)
    if not isinstance(certificate, dict) or certificate.get("format") not in FORMATS:
        raise Unreadable(f"{path} is not a certificate of the format {' or '.join(FORMATS)}.")
    _require(certificate, _SCHEMAS[certificate["format"]], "certificate")
    return certificate


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise Unreadable(f"a field is given twice in {str([name for name, _ in pairs])[:200]}.")
    return dict(pairs)


def _no_constant(name: str) -> None:
    raise Unreadable(f"{name} is no number of JSON.")


def _require(value: Any, schema: Any, where: str) -> None:
    """Raise `Unreadable` unless a value has all fields of the schema and no other, each of its type."""
    if isinstance(schema, dict):
        if isinstance(value, dict) and "recipe" in value:
            raise Unreadable(f"{where} follow from samples; only matrices are read: certify a problem that holds them.")
        if not isinstance(value, dict) or set(value) != set(schema):
            found = sorted(value) if isinstance(value, dict) else value
            raise Unreadable(f"{where} consists of {str(found)[:200]}, needed are the fields {sorted(schema)}.")
        for name, part in schema.items():
            _require(value[name], part, f"{where}.{name}")
    elif isinstance(schema, list):
        if not isinstance(value, list):
            raise Unreadable(f"{where} = {str(value)[:200]} is no list.")
        for i, entry in enumerate(value):
            _require(entry, schema[0], f"{where}[{i}]")
    elif schema is float:
        number(value, where)
    elif type(value) is not schema:
        raise Unreadable(f"{where} = {str(value)[:200]!r} is not of the type {schema.__name__}.")


def read_data(path: Path, certificate: dict[str, Any]) -> tuple[Any, Any, str]:
    """The arrays, once their sizes are known to be those of the certificate and of the file, and what else is there.

    What is returned was made of the bytes that were hashed. An archive with two members for one name is refused, as
    readers differ in which of them they take.
    """
    if path.exists() and not path.is_file():  # opening a pipe waits for a writer
        raise Unreadable(f"{path} is no file.")
    with path.open("rb") as file, zipfile.ZipFile(file) as archive:
        paths = [posixpath.normpath(info.filename.replace("\\", "/").lstrip("/")) for info in archive.infolist()]
        names = [path.removesuffix(".npy") for path in paths]
        for name in ("kernels", "y"):
            if names.count(name) > 1:
                raise Unreadable(f"{path} holds {names.count(name)} arrays {name!r}.")
        kernels, y = (_array(archive, path, name, certificate["data"][name]) for name in ("kernels", "y"))
    return kernels, y, ascii(", ".join(sorted({*names} - {"kernels", "y"})))[1:-1][:200]


def _array(archive: zipfile.ZipFile, path: Path, name: str, facts: dict[str, Any]) -> Any:
    """One array as float64, if its shape, type and SHA-256 are those of the certificate."""
    axes, types = _ARRAYS[name]
    shape, kind = facts["shape"], facts["dtype"]
    if kind not in types or len(shape) != axes or min(shape) <= 0:
        raise Unreadable(f"{name} is certified with shape {str(shape)[:80]} and type {kind}, which no {name} have.")
    if f"{name}.npy" not in archive.namelist():
        raise Unreadable(f"{path} holds no array {name!r}.")
    info = archive.getinfo(f"{name}.npy")
    size = math.prod(shape) * np.dtype(kind).itemsize
    if not size <= info.file_size <= size + _HEADER or size > _INFLATION * path.stat().st_size:
        raise Unreadable(f"{path} is too short or too long for {name} of shape {str(shape)[:80]} and type {kind}.")
    _require_room(f"{name} in {path}", size)
    with archive.open(info) as member, warnings.catch_warnings():
        warnings.simplefilter("error")  # of headers as Python 2 wrote them
        version = np.lib.format.read_magic(member)
        if version not in ((1, 0), (2, 0)):
            raise Unreadable(f"{name} in {path} has a header of version {version}.")
        read = np.lib.format.read_array_header_1_0 if version[0] == 1 else np.lib.format.read_array_header_2_0
        found, columns_first, dtype = read(member)
        if list(found) != shape or dtype != np.dtype(kind).newbyteorder("<"):
            raise Unreadable(f"{name} in {path} has shape {found} and type {dtype}, certified are {shape} and {kind}.")
        content = member.read()
    if len(content) != size:
        raise Unreadable(f"{path} is too short or too long for {name}: {len(content)} bytes of {size}.")
    array = np.frombuffer(content, dtype=dtype).reshape(shape, order="F" if columns_first else "C")
    array = np.ascontiguousarray(array)
    if hashlib.sha256(array.data).hexdigest() != facts["sha256"]:
        raise Refuted(f"{name} in {path} is not the array that was certified: its SHA-256 differs.")
    return array.astype(np.float64)


def _require_room(what: object, size: int) -> None:
    """Raise `Unreadable` if `size` bytes are more than the limit, or than there is memory where that is known."""
    text = os.environ.get(LIMIT, str(4 * 2**30))
    if not re.fullmatch("[1-9][0-9]{0,18}", text):
        raise Unreadable(f"{LIMIT} = {text[:40]!r} is no number of bytes.")
    if size > int(text):
        raise Unreadable(f"{what} has {size} bytes; at most {text} are read ({LIMIT} in the environment).")
    free = re.search(r"MemAvailable: +(\d+) kB", _MEMORY.read_text(encoding="ascii")) if _MEMORY.is_file() else None
    if free and size > 1024 * int(free[1]):
        raise Unreadable(f"{what} has {size} bytes, and {1024 * int(free[1])} bytes of memory are free.")


def number(text: Any, where: str = "a number") -> float:
    """A float in hexadecimal, in the spelling of `float.hex`: "0x1.8000000000000p+1" and no other for 3."""
    try:
        value = float.fromhex(text)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not isinstance(text, str) or value.hex() != text:
        raise Unreadable(f"{where} = {str(text)[:80]!r} is no float in hexadecimal as float.hex writes it.")
    return value


def floats(texts: Any) -> list[float]:
    """Hexadecimal floats, all finite."""
    if not isinstance(texts, list):
        raise Unreadable(f"{str(texts)[:200]} is no list of floats in hexadecimal.")
    values = list(map(number, texts))
    if not all(map(math.isfinite, values)):
        raise Unreadable("a number in the certificate is not finite.")
    return values


# --- the check -----------------------------------------------------------------------------------------------------


def verify(certificate: dict[str, Any], kernels: Any, y: Any) -> list[str]:
    """Everything that was confirmed, in words; raises `Refuted` at the first thing that was not."""
    with localcontext(_CONTEXT):
        return _verify(certificate, kernels, y)


def _verify(certificate: dict[str, Any], kernels: Any, y: Any) -> list[str]:
    _require(certificate, _SCHEMAS.get(str(certificate.get("format")), _SCHEMA), "certificate")
    claim, problem, point = certificate["claim"], certificate["problem"], certificate["point"]
    M, n = len(kernels), len(y)
    if kernels.shape != (M, n, n) or y.shape != (n,) or not M or not n:
        raise Unreadable(f"kernels and targets have the shapes {kernels.shape} and {y.shape}.")
    if not np.isfinite(kernels).all() or not np.isfinite(y).all():
        raise Unreadable("an entry of the kernels or of the targets is not finite.")
    theta, costs, delta = (_exact(floats(x)) for x in (point["weights"], problem["costs"], claim["delta"]))
    if not len(costs) == n or not len(theta) == len(delta) == M:
        raise Unreadable("the lengths of the vectors do not agree.")
    if min(theta) < 0 or min(delta) < 0:
        raise Refuted("a weight or a radius is negative.")
    if min(costs) <= 0:
        raise Unreadable("a cost is not positive.")
    if claim["tier"] != (2 if any(delta) else 1):
        raise Refuted(f"tier {str(claim['tier'])[:40]} does not go with the radii delta.")
    if certificate["backend"] not in _BACKENDS:
        raise Unreadable(f"unknown backend {certificate['backend']!r}.")
    machines = _machines(problem, point, kernels, y, costs)
    primal_penalty, dual_penalty = penalties(problem["regularizer"], M)
    lower, upper = (number(claim[side]) for side in ("lower", "upper"))
    if math.isnan(lower) or math.isnan(upper) or lower == math.inf or upper == -math.inf:
        raise Refuted(f"[{lower}, {upper}] are no bounds of a number.")
    loss, intercept, several = machines[0].loss, problem["intercept"], f"{len(machines)} machines, "
    done = [
        f"problem: loss {_shown(problem['loss'])}, regularizer {_shown(problem['regularizer'])}, M = {M} kernels, "
        f"n = {n} samples, {several if 'strategy' in problem else ''}C from {float(min(costs))!r} to "
        f"{float(max(costs))!r}, {'an' if intercept else 'no'} intercept"
    ]
    q = [
        max(Fraction(0), sum((machine.squares[m] + delta[m] * machine.size for machine in machines), Fraction(0)))
        for m in range(M)
    ]
    if lower > -math.inf:
        for machine in machines:
            machine.require_feasible(intercept)
        done.append("dual point: inside its box" + (f", sum exactly {loss.intercept_cost}" if intercept else ""))
        dual = sum((machine.loss.dual(machine.beta) for machine in machines), Fraction(0)) - dual_penalty(q)
        if not Fraction(lower) <= dual:
            raise Refuted(f"lower = {lower!r} exceeds the dual objective {_nearest(dual)!r}.")
        done.append(f"lower bound: {lower!r} <= {_nearest(dual)!r}, the dual objective")
    if upper < math.inf:
        primal = sum((machine.losses(theta, delta) for machine in machines), Fraction(0))
        primal += primal_penalty([t * t * x for t, x in zip(theta, q, strict=True)])
        if not primal <= Fraction(upper):
            raise Refuted(f"upper = {upper!r} is below the primal objective {_nearest(primal)!r}.")
        done.append(f"upper bound: {upper!r} >= {_nearest(primal)!r}, the primal objective")
    for m in range(M):
        if not semidefinite(kernels[m], float(delta[m])):
            raise Refuted(f"kernels[{m}] + {float(delta[m]):.3g} I is not proven positive semidefinite here.")
    scope = f"up to delta <= {float(max(delta)):.2g}" if any(delta) else "as they are"
    if -math.inf < lower and upper < math.inf:
        size = max(abs(Fraction(upper)), loss.unit(dual_penalty, kernels, intercept))
        gap = max(Fraction(0), Fraction(upper) - Fraction(lower))
        done.append(f"relative gap: {_nearest(gap / size) if size else math.inf if gap else 0.0:.1e}")
    done.append(f"kernels: all {M} proven positive semidefinite, {scope}")
    return done


class _Machine:
    """One machine: its dual variables and intercept, and what they are with its rows and columns of the kernels."""

    def __init__(self, loss: _Loss, beta: list[Fraction], b: Fraction, kernels: Any) -> None:
        self.loss, self.beta, self.b = loss, beta, b
        self.images, self.squares = _products(kernels, beta)
        self.size = sum((x * x for x in beta), Fraction(0))

    def require_feasible(self, intercept: bool) -> None:
        """Raise `Refuted` if the dual variables are outside their box, or have another sum than c_b."""
        self.loss.require_box(self.beta)
        if intercept and sum(self.beta) != self.loss.intercept_cost:
            total = _nearest(sum(self.beta, Fraction(0)))
            raise Refuted(f"the dual variables sum to {total!r} and not to {self.loss.intercept_cost}.")

    def losses(self, theta: list[Fraction], delta: list[Fraction]) -> Fraction:
        """sum_i c_i V(t_i, y_i) + c_b b from above, for all kernels within delta."""
        loss, spread = self.loss, sum((t * d for t, d in zip(theta, delta, strict=True)), Fraction(0))
        scores = [sum((t * f for t, f in zip(theta, at, strict=True)), self.b) for at in zip(*self.images, strict=True)]
        value = sum((c * v for c, v in zip(loss.costs, loss.values(scores), strict=True)), loss.intercept_cost * self.b)
        spread *= _root_up(self.size)
        if spread:
            steepest = zip(loss.costs, loss.slopes(scores, spread), strict=True)
            value += _root_up(sum(((c * s) ** 2 for c, s in steepest), Fraction(0))) * spread
        return value


def _machines(problem: dict[str, Any], point: dict[str, Any], kernels: Any, y: Any, costs: list[Fraction]) -> Any:
    """The machines that the problem consists of: one on the targets y, or those of the strategy on the classes y."""
    if "strategy" in problem:
        rows, intercepts = point["dual_coef"], floats(point["intercept"])
        tasks = _tasks(problem["strategy"], y)
        _numbers("loss", problem["loss"])
        if problem["loss"]["name"] not in _LABELS:
            raise Unreadable(f"loss {problem['loss']['name']} takes no classes.")
    else:
        rows, intercepts = [point["dual_coef"]], floats([point["intercept"]])
        tasks = [(list(range(len(y))), y.tolist())]
    if not len(rows) == len(intercepts) == len(tasks):
        raise Unreadable(
            f"{len(tasks)} machines have {len(rows)} rows of dual variables, {len(intercepts)} intercepts."
        )
    machines = []
    for row, b, (samples, targets) in zip(rows, _exact(intercepts), tasks, strict=True):
        beta = floats(row)
        if len(beta) != len(y):
            raise Unreadable("the lengths of the vectors do not agree.")
        if np.count_nonzero(beta) != np.count_nonzero([beta[i] for i in samples]):
            raise Unreadable("a machine has a dual variable of a sample that it does not see.")
        loss = _Loss(problem["loss"], _exact(targets), [costs[i] for i in samples])
        if problem["intercept"] is not _INTERCEPTS.get(loss.name, problem["intercept"]):
            kind = "not " if problem["intercept"] else "only "
            raise Unreadable(f"loss {loss.name} is {kind}defined with an intercept.")
        if b and not problem["intercept"]:
            raise Refuted("the problem has no intercept, and the point has one.")
        own = kernels if len(samples) == len(y) else kernels[:, samples][:, :, samples]
        machines.append(_Machine(loss, _exact([beta[i] for i in samples]), b, own))
    return machines


def _tasks(strategy: str, y: Any) -> list[tuple[list[int], list[float]]]:
    """The samples and labels of each machine: a class against the rest, or against another one."""
    classes = len(set(y.tolist()))
    if classes < 2 or set(y.tolist()) != set(range(classes)):
        raise Unreadable("the classes are not numbered 0, 1, ... without a gap, or there is only one.")
    everybody = range(len(y))
    if strategy == "one_vs_rest":
        return [(list(everybody), np.where(y == a, 1.0, -1.0).tolist()) for a in range(classes)]
    if strategy != "one_vs_one":
        raise Unreadable(f"unknown strategy {strategy[:80]!r}.")
    pairs = [(a, b) for a in range(classes) for b in range(a + 1, classes)]
    samples = [[i for i in everybody if y[i] in pair] for pair in pairs]
    return [(own, np.where(y[own] == a, 1.0, -1.0).tolist()) for own, (a, _) in zip(samples, pairs, strict=True)]


def _shown(statement: dict[str, Any]) -> str:

    def plain(value: Any) -> Any:
        return list(map(plain, value)) if isinstance(value, list) else value if type(value) is int else number(value)

    parameters = ", ".join(f"{key} = {plain(value)}" for key, value in statement.items() if key != "name")
    return str(statement["name"]) + (f" ({parameters})" if parameters else "")


def _exact(values: Sequence[float]) -> list[Fraction]:
    return [Fraction(value) for value in values]


def _nearest(x: Fraction) -> float:
    """The float next to x, infinite beyond them all: numbers that are only told must not end the check."""
    try:
        return float(x)
    except OverflowError:
        return math.inf if x > 0 else -math.inf


def _products(kernels: Any, beta: list[Fraction]) -> tuple[list[list[Fraction]], list[Fraction]]:
    """All K_m beta and beta'K_m beta, in Python integers."""
    unit = max(x.denominator for x in beta)
    column = np.array([int(x * unit) for x in beta], dtype=object)
    images, squares = [], []
    for K in kernels:
        mantissas, exponents = np.frexp(K)
        least = int(exponents[mantissas != 0].min(initial=0)) - 53
        shifts = np.where(mantissas != 0, exponents - 53 - least, 0).astype(object)
        whole = np.ldexp(mantissas, 53).astype(np.int64).astype(object) << shifts
        image = whole.dot(column)
        scale = Fraction(2) ** least / unit
        images.append([int(x) * scale for x in image])
        squares.append(int(column.dot(image)) * scale / unit)
    return images, squares


def semidefinite(K: Any, shift: float) -> bool:
    """Whether K + shift I = L L' + c I + R with ||R||_F <= c, for the factor L that Cholesky's method finds."""
    if not np.array_equal(K, K.T):
        return False
    if not K.any():
        return True
    n = len(K)
    terms = min(n, _PIECE) + n // _PIECE + 1
    diagonal = np.diagonal(K)
    guess = 0.95 * (terms + 3) * 2.0**-52 * (float(diagonal.sum()) + n * shift) + n * n * 2.0**-1000
    shifted = K.copy()
    shifted.flat[:: n + 1] = diagonal + shift - guess
    try:
        factor = np.linalg.cholesky(shifted)
    except np.linalg.LinAlgError:
        return False
    product = sum(factor[:, k : k + _PIECE] @ factor[:, k : k + _PIECE].T for k in range(0, n, _PIECE))
    # |fl(L L') - L L'| <= g |L||L|' with g = (terms + 1) 2^-53 by pieces, whose norm is at most g ||L||_F^2.
    relative = 1.0 + n * n * 2.0**-52
    bound = 1.001 * (
        float(np.linalg.norm(shifted - product)) * relative
        + (terms + 1) * 2.0**-53 * float(np.sum(factor * factor)) * relative
        + 2.0**-52 * float(np.linalg.norm(np.abs(diagonal) + shift + guess))
        + n * n * 2.0**-1000
    )
    return bound <= guess


# --- losses --------------------------------------------------------------------------------------------------------


class _Loss:
    """V, |V'|, the box and the dual term, for targets y and costs c as fractions."""

    def __init__(self, statement: dict[str, Any], y: list[Fraction], costs: list[Fraction]) -> None:
        parameters = {key: Fraction(value) for key, value in _numbers("loss", statement).items()}
        self.name, self.y, self.costs = statement["name"], y, costs
        self.epsilon = parameters.get("epsilon", Fraction(0))
        self.delta, self.tau = parameters.get("delta", Fraction(1)), parameters.get("tau", Fraction(1, 2))
        self.margin, self.quadratic = _LOSSES[self.name]
        self.intercept_cost = 1 if self.name == "one_class" else 0
        if self.margin is not None and any(abs(target) != 1 for target in y):
            raise Unreadable(f"loss {self.name} needs targets -1 and 1.")
        if self.name in ("one_class", "density_level_set") and any(target != 1 for target in y):
            raise Unreadable(f"loss {self.name} needs targets 1.")

    def require_box(self, beta: list[Fraction]) -> None:
        """Raise `Refuted` if a dual variable is outside its interval."""
        for i, (x, y, c) in enumerate(zip(beta, self.y, self.costs, strict=True)):
            low, high = self._interval()
            value = x * y if self.margin is not None else x
            if (low is not None and value < low * c) or (high is not None and value > high * c):
                raise Refuted(f"dual_coef[{i}] = {float(x)!r} lies outside its box.")

    def _interval(self) -> tuple[Fraction | None, Fraction | None]:
        if self.margin is not None:
            return Fraction(0), None if self.quadratic else Fraction(1)
        if self.name == "pinball":
            return self.tau - 1, self.tau
        if self.quadratic and self.name != "huber":
            return None, None
        return -self.delta, self.delta

    def dual(self, beta: list[Fraction]) -> Fraction:
        """-sum_i c_i V*(-beta_i/c_i, y_i), from below for the logistic loss and exactly for all others."""
        if self.name == "logistic":
            return sum((_entropy(abs(x), c) for x, c in zip(beta, self.costs, strict=True)), Fraction(0))
        if self.name == "one_class":
            return Fraction(0)
        value = sum((x * y - self.epsilon * abs(x) for x, y in zip(beta, self.y, strict=True)), Fraction(0))
        if self.quadratic:
            value -= sum((x * x / (2 * c) for x, c in zip(beta, self.costs, strict=True)), Fraction(0))
        return value

    def values(self, scores: list[Fraction]) -> list[Fraction]:
        """V(t_i, y_i), from above for the logistic loss and exactly for all others."""
        return [self._value(t, y) for t, y in zip(scores, self.y, strict=True)]

    def unit(self, dual_penalty: Bound, kernels: Any, intercept: bool) -> Fraction:
        """What a gap is relative to where |upper| is less: 0 unless the optimum may be 0.

        One class: 1e-7 of R* with the whole sum on one sample of average K_ii, or of half the sum of its squared
        norms if that is less. Targets that one constant fits: the loss at a score twice as large as all targets and
        ends of tubes.
        """
        if self.name == "one_class":
            means = _exact([max(0.0, float(np.trace(K, dtype=float))) / len(K) for K in kernels])
            return min(dual_penalty(means), sum(means, Fraction(0)) / 2) / 10**7
        if self.margin is not None:
            return Fraction(0)
        middle = (min(self.y) + max(self.y)) / 2 if intercept else Fraction(0)
        reach = max(map(abs, self.y)) + self.epsilon
        if max(self._excess(middle, y) for y in self.y) > reach * _LAST_BITS:
            return Fraction(0)
        return sum(
            (c * v for c, v in zip(self.costs, self.values([2 * reach] * len(self.y)), strict=True)), Fraction(0)
        )

    def _value(self, t: Fraction, y: Fraction) -> Fraction:
        if self.name == "logistic":
            return _softplus(-y * t)
        if self.name == "pinball":
            return max(self.tau * (y - t), (1 - self.tau) * (t - y))
        r = self._excess(t, y)
        if self.name == "huber" and r > self.delta:
            return self.delta * (r - self.delta / 2)
        return r * r / 2 if self.quadratic else r

    def _excess(self, t: Fraction, y: Fraction) -> Fraction:
        """max(0, margin - y t), or max(0, |y - t| - epsilon)."""
        return max(Fraction(0), abs(y - t) - self.epsilon if self.margin is None else self.margin - y * t)

    def slopes(self, scores: list[Fraction], reach: Fraction) -> list[Fraction]:
        """The largest |V'| within `reach` of each score, from above."""
        one = Fraction(1)
        found = []
        for t, y in zip(scores, self.y, strict=True):
            r = max(self._excess(t - reach, y), self._excess(t + reach, y))
            if self.name == "pinball":
                found.append(max(self.tau, 1 - self.tau))
            elif self.name == "logistic":
                found.append(min(one, max(_softplus(-y * (t - reach)), _softplus(-y * (t + reach)))))
            elif self.quadratic:
                found.append(min(r, self.delta) if self.name == "huber" else r)
            else:
                found.append(one if r else Fraction(0))
        return found


_LOSSES: dict[str, tuple[int | None, bool]] = {
    "hinge": (1, False),
    "density_level_set": (1, False),
    "one_class": (0, False),
    "logistic": (1, False),
    "squared_hinge": (1, True),
    "squared": (None, True),
    "epsilon_insensitive": (None, False),
    "squared_epsilon_insensitive": (None, True),
    "huber": (None, True),
    "pinball": (None, False),
}
"""Margin m of losses of m - y t, None for losses of |y - t|; and whether the dual term has -beta^2/(2 c)."""
_LABELS = ("hinge", "logistic", "squared_hinge")
"""Losses of two classes."""
_INTERCEPTS = {"one_class": True, "density_level_set": False}
"""Losses that are defined with an intercept only, or without one only."""
_BACKENDS = ("fast", "sliced", "exact")


# --- parameters ----------------------------------------------------------------------------------------------------

Range = tuple[str, Callable[[float], bool]]
_NONNEGATIVE: Range = ("[0, inf)", lambda x: 0.0 <= x < math.inf)
_POSITIVE: Range = ("(0, inf)", lambda x: 0.0 < x < math.inf)
_EXPONENT: Range = ("[1, inf]", lambda x: x >= 1.0)
_SHARE: Range = ("[0, 1]", lambda x: 0.0 <= x <= 1.0)
_LEVEL: Range = ("(0, 1)", lambda x: 0.0 < x < 1.0)

_PARAMETERS: dict[str, dict[str, dict[str, Range]]] = {
    "loss": {
        **{name: {} for name in _LOSSES},
        "epsilon_insensitive": {"epsilon": _NONNEGATIVE},
        "squared_epsilon_insensitive": {"epsilon": _NONNEGATIVE},
        "huber": {"delta": _POSITIVE},
        "pinball": {"tau": _LEVEL},
    },
    "regularizer": {
        "Lp": {"p": _EXPONENT},
        "Fixed": {},
        "Tikhonov": {"p": _EXPONENT, "mu": _POSITIVE},
        "Groups": {"p": _SHARE, "q": _SHARE},
    },
}
"""Numbers that belong to each loss and regulariser, with the intervals in which the formulas here hold."""
_LISTS = {"Fixed": {"weights"}, "Groups": {"groups"}}


def _numbers(kind: str, statement: dict[str, Any]) -> dict[str, float]:
    """The numeric parameters of a loss or regulariser: all of them, nothing else, each in its interval."""
    name = statement.get("name")
    if not isinstance(name, str) or name not in _PARAMETERS[kind]:
        raise Unreadable(f"unknown {kind} {name!r}.")
    ranges = _PARAMETERS[kind][name]
    expected = {"name", *ranges, *_LISTS.get(name, ())}
    if set(statement) != expected:
        raise Unreadable(f"{kind} {name} is stated by {sorted(statement)}, needed are {sorted(expected)}.")
    values = {key: number(statement[key]) for key in ranges}
    for key, (interval, inside) in ranges.items():
        if not inside(values[key]):
            raise Unreadable(f"{key} = {values[key]!r} of {kind} {name} does not lie in {interval}.")
    return values


# --- regularisers --------------------------------------------------------------------------------------------------

Bound = Callable[[list[Fraction]], Fraction]


def penalties(statement: dict[str, Any], M: int) -> tuple[Bound, Bound]:
    """R and R* from above, as functions of squared norms."""
    numbers = _numbers("regularizer", statement)
    name, half = statement["name"], Fraction(1, 2)
    if name == "Lp":
        inverse = _reciprocal(numbers["p"])
        return lambda x: half * _norm(x, 1 + inverse), lambda x: half * _norm(x, 1 - inverse)
    if name == "Fixed":
        w = _exact(floats(statement["weights"]))
        if len(w) != M or min(w) < 0 or not any(w):
            raise Unreadable("one fixed weight for each kernel is needed, none of them negative, not all of them 0.")
        return (
            lambda x: half * sum(map(_quotient, x, w), Fraction(0)),
            lambda x: half * sum((a * v for a, v in zip(x, w, strict=True)), Fraction(0)),
        )
    if name == "Tikhonov":
        inverse, mu = _reciprocal(numbers["p"]), Fraction(numbers["mu"])
        return (
            lambda x: 3 * _power(mu * _norm(x, 1 + inverse) ** 2 / 16, Fraction(1, 3)),
            lambda x: _norm(x, 1 - inverse) ** 2 / (16 * mu),
        )
    p, q, groups = Fraction(numbers["p"]), Fraction(numbers["q"]), statement["groups"]
    if not isinstance(groups, list):
        raise Unreadable(f"groups = {str(groups)[:200]} is no list of groups.")
    if not all(groups) or sorted(m for group in groups for m in _indices(group)) != list(range(M)):
        raise Unreadable("the groups are no partition of the kernels, or one is empty.")
    if p + q > 1 + _TIE:
        raise Unreadable(f"p + q = {float(p + q)!r} of the groups exceeds 1.")
    total = Fraction(1) if abs(p + q - 1) <= _TIE else p + q
    return partial(_across, groups, p, q, total, 1), partial(_across, groups, p, q, total, -1)


def _across(
    groups: list[list[int]], p: Fraction, q: Fraction, total: Fraction, sign: int, x: list[Fraction]
) -> Fraction:
    """R for sign = 1 and R* for sign = -1: norms within the groups, then across."""
    parts = [_power(Fraction(len(group)) ** sign, p) * _norm([x[m] for m in group], 1 + sign * q) for group in groups]
    return _norm(parts, 1 + sign * total) / 2


def _indices(group: Any) -> list[int]:
    if not isinstance(group, list) or not all(type(m) is int for m in group):
        raise Unreadable(f"the group {group!r} is no list of integers.")
    return group


def _reciprocal(p: float) -> Fraction:
    return Fraction(0) if math.isinf(p) else 1 / Fraction(p)


def _quotient(x: Fraction, weight: Fraction) -> Fraction:
    if weight:
        return x / weight
    if x:
        raise Refuted("a kernel of fixed weight 0 has a positive weight, so that the primal objective is infinite.")
    return Fraction(0)


def _norm(x: list[Fraction], inverse: Fraction) -> Fraction:
    """(sum x^r)^{1/r} from above for r = 1/inverse, and max x for inverse = 0."""
    largest = max(x)
    if largest == 0 or inverse == 0:
        return largest
    if inverse == 1:
        return sum(x, Fraction(0))
    return largest * _power(sum((_power(value / largest, 1 / inverse) for value in x), Fraction(0)), inverse)


# --- roots, powers, logarithms -------------------------------------------------------------------------------------


def _decimal(x: Fraction) -> Decimal:
    return Decimal(x.numerator) / Decimal(x.denominator)


def _power(x: Fraction, r: Fraction) -> Fraction:
    """x^r from above; anything below e^-2000 counts as that."""
    if x in (0, 1) or r == 0:
        return x if r else Fraction(1)
    logarithm = max(_decimal(x).ln() * _decimal(r), Decimal(-2000))
    return Fraction((logarithm + (1 + abs(logarithm) + _decimal(r)) * _MARGIN).exp() * (1 + _MARGIN))


def _root_up(x: Fraction) -> Fraction:
    return Fraction(_decimal(x).sqrt() * (1 + _MARGIN))


def _entropy(a: Fraction, c: Fraction) -> Fraction:
    """-a log(a/c) - (c - a) log((c - a)/c) from below; for a small part x, -log(1 - x/c) >= x/c."""
    small = min(a, c - a)
    if not small:
        return Fraction(0)
    share = _decimal(small / c)
    first = -_decimal(small) * share.ln() * (1 - _MARGIN)
    if share < _TINY:
        return Fraction(first) + (c - small) * small / c
    second = -_decimal(c - small) * _decimal((c - small) / c).ln()
    return Fraction(first + second - _MARGIN * _decimal(c))


def _softplus(x: Fraction) -> Fraction:
    """log(1 + exp(x)) from above; for a small e = exp(-|x|), log(1 + e) <= e."""
    small = max(-abs(_decimal(x)), Decimal(-2000)).exp() * (1 + _MARGIN)
    beyond = small if small < _TINY else (1 + small).ln() + _MARGIN
    return Fraction((max(_decimal(x), Decimal(0)) + beyond) * (1 + _MARGIN))


if __name__ == "__main__":
    sys.exit(main())
