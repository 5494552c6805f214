"""One widget, two hosts: live in a notebook through anywidget, and on a built page as <course-widget>, with no kernel.

How to add a widget called NAME
-------------------------------
1. `NAME.js` in this folder: one ES module without imports, whose only export is its last statement:

       export default { render({ model, el }) { …; return () => { /* remove listeners */ }; } };

   `el` is an empty <div>; draw into it. `model` is anywidget's model in a notebook and a small twin on a page (`host.js`); both have
   `get(key)`, `set(key, value)`, `save_changes()`, `on("change:key", fn)` and `off("change:key", fn)`, and nothing else may be used.
   `model.get("data")` is the dict given below. `model.get("page")` is true on a built page only: look there before you touch
   `location`. Paint from the model, never from the click: the click sets the model, the model's change event paints, so that
   `widget.selected = "6A"` from Python moves the picture as a click does. Mark what gets the focus with
   `data-lm-suppress-shortcuts`, or JupyterLab takes its arrow keys. Import nothing, fetch nothing, use no inline handler.
2. `NAME.css` beside it, every rule under a class of your own (in a notebook it is loaded into the whole window). Read dark or light
   off the computed text colour, as `map.js` does, not off an attribute of a theme.
3. `NAME.py`: a public function that checks its arguments, makes the data from a `Config`, makes the table that stands for the widget
   without JavaScript, and returns `widget("NAME", data, table, selected="")`. Every further keyword is a piece of state: a trait of
   the live widget, an attribute of the page's one, a key of `model`. State and data must be JSON. Offer the function in
   `course/__init__.py` and put the module on its floor in `tests/test_house.py`.
4. Nothing else: `book/_ext/course_widgets.py` finds both files, and pages that show the widget load them. A page gets one classic
   script, `host.js` and the module in one function, since browsers refuse type="module" from file://; no network, no ipywidgets state.
   A module whose text says "Uses kit.js" gets `kit.js` and, in its style, `kit.css` put before it: buttons, dials, the theme.
   In a table, `<a data-doc="book/ladder/mha">` becomes a link to that page of the book, with the right way up to it.
5. On a `.md` page, which runs no code, `{course-widget} flash41.course.widgets.map:show_map` calls the function; lines
   `:highlight: 6A` below it are its keywords. The page is read again when a module behind the function changes.

Bars: 12 kB of own code gzipped, first paint under 100 ms, every control a real <button>, <input> or <select> with a visible focus,
axe clean in light and dark, no sideways scroll at 320 px, forced colours, reduced motion, paper. `tests/e2e/test_widgets.py` holds them.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path

from ..controls import is_static

FOLDER = Path(__file__).parent


def source(module: str, suffix: str) -> str:
    """Script or style of one module, with the kit before it where the module uses that. The book's side does the same."""
    text = (FOLDER / f"{module}.{suffix}").read_text(encoding="utf-8")
    return (FOLDER / f"kit.{suffix}").read_text(encoding="utf-8") + text if f"Uses kit.{suffix}" in text else text


def widget(module: str, data: dict, table: str, **state):
    """The widget of `module`.js with its data: live where a kernel answers, a <course-widget> while the book is built.

    data: JSON, sent once. table: HTML that says the same without JavaScript. state: what both sides may change; read it as
    attributes, watch it with `.observe(fn, names="selected")`. Raises ValueError for a module that is not there, an empty
    table, or data that is no JSON.
    """
    if not (FOLDER / f"{module}.js").is_file():
        raise ValueError(f"module = {module!r}: there is no {module}.js in {FOLDER.name}/")
    if not table.strip():
        raise ValueError("table = '': a widget needs words for readers without JavaScript")
    try:
        json.dumps([data, state])
    except TypeError as error:
        raise ValueError(f"data of the widget {module!r} must be JSON: {error}") from None
    if is_static():
        return PageWidget(module, data, table, **state)
    return _live_class(module, tuple(state))(table, data=data, **state)


class PageWidget:
    """What a built page holds: the data, its state at the end of the cell, and the table. Nobody answers it there."""

    def __init__(self, module: str, data: dict, table: str, **state):
        self._module, self._data, self._table, self._keys = module, data, table, tuple(state)
        for key, value in state.items():
            setattr(self, key, value)

    def observe(self, handler, names=None) -> None:
        """Accepted, as the live widget does; a page has no kernel that could be told."""

    def _repr_html_(self) -> str:
        state = {key: getattr(self, key) for key in self._keys}
        text = json.dumps({"data": self._data, **state}, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
        return (
            f'<course-widget data-module="{self._module}"><script type="application/json">{text}</script>'
            f'<div class="course-table">{self._table}</div></course-widget>'
        )

    def __repr__(self) -> str:
        return f"Widget: {self._module}"


@functools.cache
def _live_class(module: str, keys: tuple[str, ...]):
    """The anywidget class of one module: `data` and every piece of state are synchronised traits."""
    import anywidget
    import traitlets

    class LiveWidget(anywidget.AnyWidget):
        _esm = source(module, "js")
        _css = source(module, "css")
        data = traitlets.Dict().tag(sync=True)

        def __init__(self, table: str, **values):
            self._table = table
            super().__init__(**values)

        def _repr_mimebundle_(self, **kwargs):
            """The live view, and the table for whatever shows the saved notebook without a widget manager."""
            bundle, metadata = super()._repr_mimebundle_(**kwargs)
            return bundle | {"text/plain": f"Widget: {module}", "text/html": self._table}, metadata

    traits = {key: traitlets.Any().tag(sync=True) for key in keys}
    return type(f"{module.title()}Widget", (LiveWidget,), traits)
