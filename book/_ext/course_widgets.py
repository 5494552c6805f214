"""The book's side of the widgets in labs/flash41/course/widgets: scripts and styles for the pages that show one.

A widget is one ES module. Browsers refuse type="module" from file://, so a page gets one classic script made of host.js and the
module; nothing is imported and nothing is fetched. How to add a widget stands in labs/flash41/course/widgets/host.py.
"""
from __future__ import annotations

import importlib
import re
from pathlib import Path

from course_rerun import modules_behind
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.ext.autodoc.directive import DummyOptionSpec
from sphinx.util.docutils import SphinxDirective

WIDGETS = Path("labs/flash41/course/widgets")
SHOWN = re.compile(r'<course-widget data-module="([\w-]+)">')
PAGE_LINK = re.compile(r'<a data-doc="([^"]+)"')


def source(folder: Path, name: str, suffix: str) -> str:
    """Script or style of one module, with the kit before it where the module uses that."""
    text = (folder / f"{name}.{suffix}").read_text(encoding="utf-8")
    return (folder / f"kit.{suffix}").read_text(encoding="utf-8") + text if f"Uses kit.{suffix}" in text else text


def classic_script(folder: Path, name: str) -> str:
    """host.js and NAME.js as one classic script; refuses a module that imports, or exports more than its default."""
    module, exports = re.subn(r"^export default ", "const plugin = ", source(folder, name, "js"), flags=re.M)
    if exports != 1 or re.search(r"^\s*(import|export)\b", module, flags=re.M):
        raise ValueError(f"{name}.js must import nothing and export one default")
    host = (folder / "host.js").read_text(encoding="utf-8")
    return f'(() => {{\n"use strict";\n{host}\n{module}\nhost("{name}", plugin);\n}})();\n'


def page_style(folder: Path, name: str) -> str:
    """host.css and NAME.css as one style sheet."""
    return source(folder, "host", "css") + source(folder, name, "css")


def widget_names(folder: Path) -> list[str]:
    """Every widget there is; none where the folder is missing."""
    return sorted(path.stem for path in folder.glob("*.js") if path.stem not in ("host", "kit"))


def write_assets(app: Sphinx) -> None:
    """Puts each widget's script and style where Sphinx copies static files from."""
    folder = Path(app.srcdir) / WIDGETS
    out = Path(app.outdir).parent / "course_widgets"
    out.mkdir(parents=True, exist_ok=True)
    for name in widget_names(folder):
        for suffix, text in (("js", classic_script(folder, name)), ("css", page_style(folder, name))):
            (out / f"widget-{name}.{suffix}").write_text(text, encoding="utf-8")
    app.config.html_static_path.append(str(out))


def shown_on(doctree: nodes.document) -> set[str]:
    """Names of the widgets on a page."""
    return {name for raw in doctree.findall(nodes.raw) for name in SHOWN.findall(raw.astext())}


def add_assets(app: Sphinx, pagename: str, templatename: str, context: dict, doctree: nodes.document | None) -> None:
    for name in sorted(shown_on(doctree)) if doctree is not None else ():
        app.add_css_file(f"widget-{name}.css")
        app.add_js_file(f"widget-{name}.js", loading_method="defer")


def resolve_links(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """<a data-doc="book/…"> in a widget's table leads to that page. A page that is not in the book is an error."""
    def link(match: re.Match) -> str:
        if match[1] not in app.env.found_docs:
            raise ValueError(f"{docname}: a widget links to {match[1]}, which is no page of the book")
        return f'<a href="{app.builder.get_relative_uri(docname, match[1])}"'

    for raw in list(doctree.findall(nodes.raw)):
        if SHOWN.search(raw.astext()):
            text = PAGE_LINK.sub(link, raw.astext())
            raw.replace_self(nodes.raw(text, text, format=raw["format"]))


class CourseWidgetDirective(SphinxDirective):
    """`{course-widget} package.module:function` on a page that runs no code; options are the function's keywords."""

    required_arguments = 1
    option_spec = DummyOptionSpec()  # any option; the function itself refuses what it does not know

    def run(self) -> list[nodes.Node]:
        module, _, function = self.arguments[0].partition(":")
        for path in modules_behind({module}, Path(self.env.srcdir) / "labs"):
            self.env.note_dependency(str(path))
        html = getattr(importlib.import_module(module), function)(**self.options)._repr_html_()
        return [nodes.raw(html, html, format="html")]


def setup(app: Sphinx) -> dict:
    app.add_directive("course-widget", CourseWidgetDirective)
    app.connect("builder-inited", write_assets)
    app.connect("doctree-resolved", resolve_links)
    app.connect("html-page-context", add_assets)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
