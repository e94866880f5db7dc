"""Random and hostile input against what the package promises: `python -m validation.attack [PART ...]`.

Prints every finding and a line for each part; exit code 1 if anything was found.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from dataclasses import replace

from validation.attack import generator, parts


def main(arguments: list[str] | None = None) -> int:
    """Run the parts that are named, or all."""
    available = parts()
    parser = argparse.ArgumentParser(prog="python -m validation.attack", description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(available)} (all)")
    parser.add_argument("--cases", type=int, default=200, metavar="N", help="of each part (200)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="the same seed gives the same cases (0)")
    parser.add_argument("--skip", type=int, default=0, metavar="K", help="leave out the first K cases (0)")
    options = parser.parse_args(arguments)
    unknown = set(options.parts) - set(available)
    if unknown:
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(available)}")
    warnings.simplefilter("ignore")  # a hostile problem may warn; what is judged is the answer
    broken = 0
    for part in options.parts or available:
        started = time.perf_counter()
        rng = generator(options.seed, part)
        rng.spawn(options.skip)  # a case has the same input in whichever slice it is
        found = [replace(one, case=one.case + options.skip) for one in available[part](options.cases, rng)]
        broken += len(found)
        for finding in found:
            print(f"  {finding}")
        seconds = time.perf_counter() - started
        print(f"{part}: {options.cases} cases, {len(found)} findings, {seconds:.0f} s", flush=True)
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
