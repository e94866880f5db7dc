"""Formulas as MathML, which browsers draw without a script and without a network."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

TALL = re.compile(r"(\\[bB]igg?(?:\)|\]|\\rVert|\\\|))(?=[\^_])")
"""A tall closing bracket with an exponent: browsers draw it small, unless the exponent has a base of its own."""


def mathml(latex: str, *, block: bool) -> str:
    """The formula in MathML, by math-core, which the extras `docs` and `explore` bring.

    Raises
    ------
    math_core.LatexError
        For what is no LaTeX, so that no page is made with it.
    """
    return str(_converter().convert_with_local_state(TALL.sub(r"\1{}", latex), displaystyle=block))


@lru_cache(maxsize=1)
def _converter() -> Any:
    from math_core import LatexToMathML

    return LatexToMathML(fancy_error=False)
