"""The checker over the real problems: `python -m validation.checked --json validation/results/checked.json`.

Each problem is written with the certificate of its bounds, as `mklref vectors DIRECTORY --suite real` does, and read by
`mklref/verify.py` in a process of its own that cannot import mklref. Kept is what it says, with the seconds of the
processor that this took; problems that the file has are not checked again. Exit code 0 if every proof is confirmed.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from mklref import verify
from mklref.testing import real
from mklref.testing.vectors.export import export_vectors
from validation.facts import ROOT, commit, results_file, store_rows, stored_rows

STORED = ROOT / "validation" / "results" / "checked.json"


def checked(name: str) -> dict[str, Any]:
    """What the checker says of one problem."""
    with tempfile.TemporaryDirectory() as directory:
        export_vectors(directory, include=[name], formats=["npz"], suite="real")
        files = [str(Path(directory) / f"{name}.{end}") for end in ("certificate.json", "npz")]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        said = subprocess.run(
            [sys.executable, "-P", str(verify.__file__), *files], capture_output=True, text=True, cwd=directory, env={}
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    lines = said.stdout.strip().splitlines() or said.stderr.strip().splitlines() or ["nothing"]
    gap = next((line.rpartition(" ")[2] for line in lines if line.startswith("relative gap")), None)
    return {"problem": name, "said": lines[-1], "gap": gap, "seconds": round(seconds, 1), "commit": commit()}


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="of real problems, all by default; smaller ones come first")
    parser.add_argument("--json", type=results_file)
    arguments = parser.parse_args()
    rows = stored_rows(arguments.json)
    published = real.published()
    for name in sorted(arguments.names or published, key=lambda name: int(published[name]["samples"])):
        if any(row["problem"] == name for row in rows):
            continue
        rows.append(checked(name))
        print(f"{name}: {rows[-1]['said']}, {rows[-1]['seconds']} s", flush=True)
        store_rows(arguments.json, rows)
    return int(any(row["said"] != "CONFIRMED" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
