"""`mklref explore`: the page that shows a formulation and moves it."""

from __future__ import annotations

import os
from typing import Any, NoReturn

from mklref.explore.serve import explore


def run(arguments: Any) -> NoReturn:
    """Serve it until Ctrl-C, which is how it ends well."""
    explore(arguments.port, browser=not arguments.no_browser, data=arguments.data)
    os._exit(0)  # a page may be in the middle of a conic solver, whose thread nobody can interrupt
