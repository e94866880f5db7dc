"""The explorer: a page on this machine that shows a problem, its formulations and its solution, and moves them.

`state` is what the controls say, and the address of the page; `work` computes, at once or later; `page` and `views` are
what is shown; `app` is the page itself, its controls and the order of its panels; `serve` serves it to this machine
alone, to whoever has the token.
"""

from __future__ import annotations

from mklref.explore.serve import explore
from mklref.explore.state import State

__all__ = ["State", "explore"]
