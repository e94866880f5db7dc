"""The catalogue: each case is a small function on generic data, never zero, centred or symmetric by luck."""

from importlib import import_module

for _name in ("ordinary", "degenerate", "relations", "grid"):
    import_module(f"{__name__}.{_name}")  # in this order each one enters its cases, whichever is asked for first
