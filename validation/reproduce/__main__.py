"""`python -m validation.reproduce` is `mklref reproduce`."""

import sys

from mklref.cli import main

if __name__ == "__main__":
    sys.exit(main(["reproduce", *sys.argv[1:]]))
