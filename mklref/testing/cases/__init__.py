"""The catalogue: each case is a small function on generic data, never zero, centred or symmetric by luck."""

from __future__ import annotations

from importlib import import_module

FILES = ("ordinary", "regularizers", "degenerate", "extreme", "relations", "relations_of_data")
"""In the order of the catalogue."""


def load() -> None:
    """Import all files; each one enters its cases."""
    for name in FILES:
        import_module(f"mklref.testing.cases.{name}")
