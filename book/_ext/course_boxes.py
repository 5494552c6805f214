"""A blockquote that opens with bold words becomes a coloured box in the book.

Notebooks stay readable in Colab, which shows MyST directives as raw text: there the same lines are a plain quote.
"""
from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

KINDS = ("predict", "common mistake", "check", "how to judge", "not established")


def kind_of(title: str) -> str:
    """The class of a box: the known kind its title begins with, else "aside"."""
    return next((kind.replace(" ", "-") for kind in KINDS if title.lower().startswith(kind)), "aside")


def opening_title(quote: nodes.block_quote) -> nodes.strong | None:
    """The bold words that a quote begins with, or None. MyST puts empty texts before them."""
    first = quote.children[0] if quote.children else None
    if not isinstance(first, nodes.paragraph):
        return None
    opening = next((child for child in first.children if child.astext()), None)
    return opening if isinstance(opening, nodes.strong) else None


class BoxTransform(SphinxTransform):
    """Turns `> **Title.** text` into an admonition with the class of its kind."""

    default_priority = 500

    def apply(self, **kwargs) -> None:
        for quote in list(self.document.findall(nodes.block_quote)):
            strong = opening_title(quote)
            if strong is None:
                continue
            title, paragraph = strong.astext().strip().rstrip(".:"), strong.parent
            rest = paragraph.children[paragraph.index(strong) + 1 :]
            if rest and isinstance(rest[0], nodes.Text):
                rest[0] = nodes.Text(rest[0].lstrip())
            paragraph.children = []
            paragraph.extend(rest)
            body = quote.children if paragraph.astext() else quote.children[1:]
            box = nodes.admonition("", nodes.title(title, title), *body)
            box["classes"] += ["box", f"box-{kind_of(title)}"]
            quote.replace_self(box)


def setup(app: Sphinx) -> dict:
    app.add_transform(BoxTransform)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
