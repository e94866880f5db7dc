"""The explorer: a page on this machine that shows a problem, its formulations and its solution, and moves them.

`state` is what the controls say, and the address of the page; `work` computes, at once or later; `page` and `views` are
what is shown; `app` is the page itself, its controls and the order of its panels; `serve` serves it to this machine
alone, to whoever has the token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mklref.explore.serve import explore

if TYPE_CHECKING:
    from mklref.explore.state import State

__all__ = ["State", "explore"]


def __getattr__(name: str) -> Any:
    """`State` asks for NumPy, and a browser is opened before that is imported."""
    if name != "State":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mklref.explore.state import State

    return State
