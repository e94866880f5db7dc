"""The files of a command: checked before its work, so that nothing is lost to a name, and written after it.

An option or argument that names a file says by its type whether the command reads it or writes it. `main` checks all of
them at once, and `deliver` writes the results.
"""

from __future__ import annotations

import os
import tempfile
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable
from glob import escape
from itertools import chain, count
from pathlib import Path
from typing import Any, Self

from mklref._files import ending, is_stream, require_ending
from mklref.exceptions import InvalidParameter, MKLWarning, warn

_WRITTEN = {
    ("fit", "save"): ".npz",
    ("certify", "save"): ".json",
    ("crosscheck", "json"): ".json",
    ("predict", "out"): ".csv",
    ("path", "out"): ".csv",
}
"""What commands write under names that do not choose the format, as those of pictures and of `solve --save` do."""


class Name(str):
    """A path, or the name of something else: a column, a class, an encoding."""

    def __new__(cls, text: str) -> Self:
        """Refuse the empty one of a variable that is not set in a shell, which would be taken for none."""
        if not text:
            raise ArgumentTypeError("the name is empty, as of a variable that is not set; give one")
        return super().__new__(cls, text)


class Input(Name):
    """A file or directory that the command reads, or the name of a data set."""


class Output(Name):
    """A file that the command writes."""


class OutputDirectory(Name):
    """A directory that the command fills."""


def add_force(command: Any, meaning: str = "replace files that exist") -> None:
    """Without this option a command refuses to replace a file."""
    command.add_argument("--force", action="store_true", help=meaning)


def require_free(arguments: Namespace) -> None:
    """Refuse what would destroy a file, or could not be written in the end, before hours are spent.

    That is an output that is an input of the same command or another output of it, by whatever spelling of its path;
    one that exists, without --force; a directory, one that is missing, or one that takes no files; and a name that
    ends as those of another format do.
    """
    given = vars(arguments).values()
    read = [file for one in given if isinstance(one, Input) for file in _files_of(Path(one))]
    outputs = [Path(one) for one in given if isinstance(one, Output)]
    for k, output in enumerate(outputs):
        if is_stream(output) and not output.is_dir():
            continue
        _require_writable(output)
        if any(_same(output, file) for file in read):
            raise InvalidParameter(f"cannot write {output}: this command reads it. Give the result another name.")
        if any(_same(output, other) for other in outputs[:k]):
            raise InvalidParameter(f"cannot write {output}: two options name it. Give each result a name of its own.")
        if output.exists() and not arguments.force:
            raise InvalidParameter(f"cannot write {output}: it exists. Give another name, or --force to replace it.")
    for directory in (Path(one) for one in given if isinstance(one, OutputDirectory)):
        if directory.exists() and not directory.is_dir():
            raise InvalidParameter(f"cannot write into {directory}: it is no directory.")
        if directory.is_dir() and any(directory.iterdir()) and not arguments.force:
            raise InvalidParameter(
                f"cannot write into {directory}: it is not empty. Give another directory, or --force to replace files "
                "of the same names in it."
            )
    for (command, option), own in _WRITTEN.items():
        if arguments.command == command and getattr(arguments, option):
            require_ending(getattr(arguments, option), own)


def deliver(arguments: Namespace, **results: Callable[[str], None]) -> dict[str, str]:
    """Write results under the names that their options give, where they do; each is a function of the path.

    A result is worth more than its name. Where another process has made a file of that name during the work, and there
    is no --force, the result goes beside it; where nothing can be written, as on a full disk, into the directory for
    temporary files. Then a warning says where it is, and the command ends with exit code 2. Returned is where each
    result is.
    """
    written = {}
    for option, write in results.items():
        path = getattr(arguments, option)
        if path is None:
            continue
        free = path if arguments.force or is_stream(path) else _free(path)
        try:
            write(free)
            reason = "another process has made it meanwhile"
        except OSError as error:
            reason = error.strerror or str(error)
            free = str(Path(tempfile.mkdtemp(prefix="mklref-")) / Path(path).name)
            write(free)
        if free != path:
            arguments.astray = True
            warn(f"{path} was not written: {reason}. The result is in {free}.", MKLWarning)
        written[option] = free
    return written


def _require_writable(output: Path) -> None:
    directory = Path(os.path.realpath(output)).parent
    if output.is_dir():
        raise InvalidParameter(f"cannot write {output}: it is a directory; give the name of a file in it.")
    if not directory.is_dir():
        raise InvalidParameter(f"cannot write {output}: {directory} is no directory.")
    if not os.access(directory, os.W_OK | os.X_OK):
        raise InvalidParameter(f"cannot write {output}: {directory} takes no files from you. Give another directory.")
    if output.exists() and not os.access(output, os.W_OK):
        raise InvalidParameter(f"cannot write {output}: it is protected from writing. Give another name.")


def _files_of(given: Path) -> list[Path]:
    """What is read with a name: the files of a directory, a JSON file with its tables."""
    if given.is_dir():
        return list(given.iterdir())
    if ending(given) != ".json":
        return [given]
    from mklref.testing.vectors.plain import tables  # here: most commands read no JSON

    return [given, *tables(given), *given.parent.glob(f"{escape(given.stem)}.*.csv")]


def _same(one: Path, other: Path) -> bool:
    """Whether two paths lead to one file, also by a link, or would if it were there."""
    if one.exists() and other.exists():
        return one.samefile(other)
    return os.path.realpath(one) == os.path.realpath(other)


def _free(path: str) -> str:
    """The first of model.npz, as it was given, model-2.npz, model-3.npz, ... that is not there."""
    names = chain([path], (str(Path(path).with_stem(f"{Path(path).stem}-{k}")) for k in count(2)))
    return next(name for name in names if not Path(name).exists())
