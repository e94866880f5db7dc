"""Sphinx configuration: MyST pages, autodoc, and pages generated from the package at build time."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
sys.path.append(str(HERE.parent))  # `validation`; behind the installed package, whose core is compiled

import generate  # noqa: E402
import markup  # noqa: E402

import mklref  # noqa: E402

project = "mklref"
author = "The mklref developers"
copyright = author  # noqa: A001
version = release = mklref.__version__

extensions = ["markup", "myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "_generated"]
default_role = "code"
highlight_language = "none"  # blocks without a language are formulas
suppress_warnings = ["toc.empty_glob"]

autodoc_default_options = {"members": True, "member-order": "bysource", "show-inheritance": True}
autodoc_typehints = "none"  # shapes and dtypes are in the docstrings
napoleon_google_docstring = False
napoleon_use_rtype = False

html_math_renderer = "mathml"
html_theme = "furo"
html_title = f"mklref {release}"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_extra_path = ["_generated/reproduction"]


def setup(app: object) -> None:
    """Write the generated pages, and let autodoc read docstrings as the plain text that they are."""
    generate.formulation_pages(HERE / "formulations")
    markup.font(HERE / "_static")
    generate.command_line_help(HERE / "_generated")
    generate.pictures(HERE / "_static", HERE / "_generated" / "reproduction")
    generate.equivalence_table(HERE / "_generated")
    generate.equivalence_graph(HERE / "_generated")
    generate.problem_tables(HERE / "_generated")
    generate.peers_table(HERE / "_generated")
    generate.native_tables(HERE / "_generated")
    generate.provenance_table(HERE / "_generated")
    app.connect("html-page-context", markup.titles_alone, priority=400)
    app.connect("autodoc-process-docstring", generate.plain_docstring, priority=400)
