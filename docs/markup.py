"""Formulas as MathML, converted when the docs are built, and hidden answers: no script, no network, text to be found.

The font that browsers need for tall brackets and sums comes with the docs, cut down to the characters that are used.
"""

from __future__ import annotations

import html
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx import addnodes

from mklref._latex import mathml

EVERYWHERE = "".join(
    map(chr, [*range(0x20, 0x7F), *range(0x391, 0x3CA), *range(0x2190, 0x2194), *range(0x2200, 0x2300)])
)
"""ASCII, Greek, arrows and operators."""


def inline(writer: object, node: nodes.math) -> None:
    """A formula within a line."""
    writer.body.append(mathml(node.astext(), block=False))
    raise nodes.SkipNode


def display(writer: object, node: nodes.math_block) -> None:
    """A formula by itself; wide ones scroll within their box, which the keyboard reaches."""
    latex = html.escape(node.astext(), quote=True)
    formula = mathml(node.astext(), block=True)
    writer.body.append(f'<div class="formula" tabindex="0" role="group" data-latex="{latex}">{formula}</div>\n')
    raise nodes.SkipNode


def font(static: Path) -> None:
    """STIX Two Math, which has a table for mathematics, for pages to use: WOFF of the characters of formulas."""
    path = static / "stix-two-math.woff"
    if path.exists():
        return
    from fontTools.subset import Options, Subsetter, load_font, save_font
    from ziamath.fonts import __path__ as where

    options = Options(flavor="woff", layout_features=["*"], notdef_outline=True)
    source = load_font(str(Path(where[0]) / "STIXTwoMath-Regular.ttf"), options)
    subsetter = Subsetter(options)
    mathematical = map(chr, range(0x1D400, 0x1D800))  # italic and calligraphic letters
    subsetter.populate(text=EVERYWHERE + "".join(mathematical) + "ℎℋℒℝℓ⟨⟩‖…′⊤⁡⁢⁣")
    subsetter.subset(source)
    static.mkdir(exist_ok=True)
    save_font(source, str(path), options)


def titles_alone(app: object, page: str, template: str, context: dict[str, object], doctree: object) -> None:
    """The tree of pages that the theme asks for on every page, made of titles: Sphinx copies all sections of all pages
    each time before it drops them, which took most of the time of writing."""
    whole = context.get("toctree")
    env = app.env
    if whole is None:
        return
    if not hasattr(env, "titles_alone"):
        env.titles_alone = {name: title_alone(toc) for name, toc in env.tocs.items()}

    def toctree(**options: object) -> str:
        sections, env.tocs = env.tocs, env.titles_alone
        try:
            return whole(**options)
        finally:
            env.tocs = sections

    context["toctree"] = toctree


def title_alone(toc: nodes.bullet_list) -> nodes.bullet_list:
    """The contents of a page without its sections: the title, and the trees of pages below it."""
    short = toc.deepcopy()
    for item in short.children:
        if len(item) > 1:
            trees = list(item.findall(addnodes.toctree))
            item[1:] = [nodes.bullet_list("", *trees)] if trees else []
    return short


class Dropdown(Directive):
    """Text below a word that opens it; browsers do that without scripts."""

    required_arguments, final_argument_whitespace, has_content = 1, True, True

    def run(self) -> list[nodes.Node]:
        """The element `details`, with the content between its ends."""
        content = nodes.container()
        self.state.nested_parse(self.content, self.content_offset, content)
        opened = f"<details><summary>{html.escape(self.arguments[0])}</summary>"
        return [nodes.raw("", opened, format="html"), *content.children, nodes.raw("", "</details>", format="html")]


def setup(app: object) -> dict[str, bool]:
    """The renderer `mathml` and the directive `dropdown`."""
    app.add_html_math_renderer("mathml", (inline, None), (display, None))
    app.add_directive("dropdown", Dropdown)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
