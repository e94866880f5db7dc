"""`python -m mklref` is the command line."""

from __future__ import annotations

import sys

from mklref.cli import main

sys.exit(main())
