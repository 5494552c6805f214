"""The host of the widgets: what a notebook gets, what a page gets, and what is refused."""

import json
import re

import pytest

from flash41.course.widgets import host

TABLE = "<table><tr><td>words</td></tr></table>"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with one widget, `dot`."""
    (tmp_path / "dot.js").write_text("export default { render({ model, el }) { el.textContent = model.get('data').name; } };\n")
    (tmp_path / "dot.css").write_text(".dot { color: red; }")
    monkeypatch.setattr(host, "FOLDER", tmp_path)
    host._live_class.cache_clear()
    return tmp_path


def test_a_page_gets_the_data_the_state_and_the_table(folder, monkeypatch):
    monkeypatch.setenv("FLASH41_STATIC", "1")
    dot = host.widget("dot", {"name": "</script><b>ế 中"}, TABLE, selected="")
    dot.selected = "6A"
    dot.observe(print, names="selected")
    html = dot._repr_html_()
    text = re.search(r'<script type="application/json">(.*?)</script>', html)[1]
    assert json.loads(text) == {"data": {"name": "</script><b>ế 中"}, "selected": "6A"}
    assert html.startswith('<course-widget data-module="dot">') and f'<div class="course-table">{TABLE}</div>' in html
    assert not hasattr(dot, "_repr_mimebundle_"), "no state of ipywidgets on a page"


def test_a_notebook_gets_a_live_widget_that_both_sides_change(folder, monkeypatch):
    monkeypatch.delenv("FLASH41_STATIC", raising=False)
    dot = host.widget("dot", {"name": "x"}, TABLE, selected="", count=1)
    heard = []
    dot.observe(lambda change: heard.append(change["new"]), names="selected")
    dot.set_state({"selected": "4A"})  # what a press in the browser sends
    dot.selected = "6A"
    assert heard == ["4A", "6A"] and {"data", "selected", "count"} <= set(dot.get_state())
    bundle, _ = dot._repr_mimebundle_()
    assert bundle["text/html"] == TABLE and "application/vnd.jupyter.widget-view+json" in bundle
    assert "render" in dot._esm and dot._css == ".dot { color: red; }"


def test_what_a_widget_cannot_show_is_refused(folder):
    with pytest.raises(ValueError, match="module = 'line': there is no line.js"):
        host.widget("line", {}, TABLE)
    with pytest.raises(ValueError, match="table = ''"):
        host.widget("dot", {}, " ")
    with pytest.raises(ValueError, match="data of the widget 'dot' must be JSON"):
        host.widget("dot", {"a": {1, 2}}, TABLE)
