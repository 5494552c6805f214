"""The widgets on built pages, by mouse, keyboard and touch, with the network cut off: a small book of two pages that show them."""
from __future__ import annotations

import gzip
import json
import shutil

import pytest

from check_site import check_site
from conftest import ROOT
from course_widgets import WIDGETS, classic_script, page_style, widget_names
from flash41.course import show_map
from flash41.course.atlas import atlas
from flash41.course.widgets.host import source
from flash41.course.widgets.map import pages_of
from test_gates import Book, assemble
from visiting import AXE, PHONES, RUN_AXE, STICKS_OUT, Visit, context_for, look, open_page, resize, served

GZIPPED = 12_000  # bytes of own script and style per widget
FIRST_PAINT_MS = 100
LED_TO = sorted({page.rsplit(".", 1)[0] for block in atlas().blocks.values() for page in pages_of(block)})  # by the cards
INDEX = """# The map

Words before it.

:::{course-widget} flash41.course.widgets.map:show_map
:::

Words after it.
"""
NOTEBOOK = """from flash41.course import show_map
from flash41.course.atlas import atlas
from flash41.course.widgets.host import source
from flash41.course.widgets.map import pages_of

model_map = show_map("4A", trace={"4A": [{"what": "keys read", "value": 640}]})
model_map"""


@pytest.fixture(scope="module")
def book(tmp_path_factory) -> Book:
    """Two pages under the real configuration, extensions, tools and package."""
    book = assemble(tmp_path_factory.mktemp("widgets") / "book")
    shutil.rmtree(book.root / "labs")
    (book.root / "labs").mkdir()
    (book.root / "labs/flash41").symlink_to(ROOT / "labs/flash41")
    (book.root / "book/index.md").write_text(INDEX)
    for name in LED_TO:
        path = book.root / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name}\n")
    page = json.loads((book.root / "book/page.ipynb").read_text())
    page["cells"] = [page["cells"][0], page["cells"][1] | {"source": NOTEBOOK}]
    page["cells"][0]["source"] = "# A notebook"
    (book.root / "book/page.ipynb").write_text(json.dumps(page))
    toc = "".join(f"  - file: {name}\n" for name in ("book/page", *LED_TO))
    (book.root / "_toc.yml").write_text(f"format: jb-book\nroot: book/index\nchapters:\n{toc}")
    clean, said = book.build()
    assert clean, said
    return book


@pytest.fixture(scope="module")
def home(book):
    with served(book.site) as home:
        yield home


@pytest.fixture(params=["light", "dark"])
def scheme(request):
    return request.param


@pytest.fixture
def context(browser):
    context = context_for(browser, "light")
    context.set_default_timeout(60_000)  # ms
    yield context
    context.close()


@pytest.fixture
def page(context, home):
    """The page of the directive; whatever a test does there, nothing leaves the site and the console stays silent."""
    visit = Visit()
    page = open_page(context, home, "book/index.html", visit)
    yield page
    assert (visit.outside, visit.complaints) == ([], [])


def shown(page) -> str:
    """Label on the card, or "" while it holds the legend."""
    head = page.locator(".fm-head b")
    return head.inner_text() if head.count() else ""


def keyed(page, key: str):
    return page.locator(f".fmap [data-key='{key}']")


def focused(page) -> str:
    return page.evaluate("() => document.activeElement.dataset.key ?? ''")


# -- every widget ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", widget_names(ROOT / WIDGETS))
def test_own_code_is_small_and_imports_nothing(name):
    script, style = classic_script(ROOT / WIDGETS, name), page_style(ROOT / WIDGETS, name)
    sizes = [len(gzip.compress(text.encode(), mtime=0)) for text in (script, style)]
    print(f"{name}: {sizes[0]} B script, {sizes[1]} B style, gzipped")
    assert sum(sizes) <= GZIPPED
    assert not any(word in script for word in ("fetch(", "XMLHttpRequest", "import(", "eval(", "innerHTML"))


def test_a_module_that_imports_is_refused(tmp_path):
    (tmp_path / "host.js").write_text("")
    for text in ("import x from 'y';\nexport default {};\n", "export const a = 1;\nexport default {};\n", "const a = 1;\n"):
        (tmp_path / "bad.js").write_text(text)
        with pytest.raises(ValueError, match="bad.js must import nothing and export one default"):
            classic_script(tmp_path, "bad")


def test_only_pages_that_show_a_widget_load_it_and_none_ships_state_of_ipywidgets(book):
    pages = {path.name: path.read_text(encoding="utf-8") for path in (book.site / "book").glob("*.html")}
    assert {name: text.count("widget-map.js") for name, text in pages.items()} == {"index.html": 1, "page.html": 1}
    assert "widget-map" not in (book.site / "book/ladder/mla.html").read_text(encoding="utf-8")
    assert not any(word in text for text in pages.values() for word in ("widget-state", "widget-view", "requirejs", "jupyter-widgets"))


def test_links_of_the_table_lead_to_pages(book):
    assert 'href="ladder/budget.html"' in (book.site / "book/index.html").read_text(encoding="utf-8")
    assert check_site(book.site, book.root) == []


@pytest.mark.parametrize("name", ["index", "page"])
def test_pages_are_clean_in_both_schemes_and_on_phones(browser, home, scheme, name):
    context = context_for(browser, scheme)
    visit = look(context, home, f"book/{name}.html")
    context.close()
    assert (visit.outside, visit.complaints, visit.axe, visit.sticking_out) == ([], [], [], [])


def test_page_works_from_the_disk(context, book):
    page = open_page(context, book.site.as_uri() + "/", "book/index.html", Visit())
    keyed(page, "6A").click()
    assert shown(page) == "6A"


def test_without_javascript_a_table_says_it(browser, home):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(home + "book/index.html#6A")
    assert page.locator(".course-table tbody tr").count() == 10
    row = page.locator("tr[id='6A']")
    assert row.is_visible() and "720 + 170 = 890 B" in row.inner_text() and "FP4 KV 缓存" in row.inner_text()
    context.close()


DRAW_ANOTHER = """async () => {
  const old = document.querySelector("course-widget"), again = document.createElement("course-widget");
  again.dataset.module = old.dataset.module;
  again.append(old.querySelector("script").cloneNode(true));
  old.after(again);
  for (let i = 0; i < 2; i++) await new Promise(requestAnimationFrame);
}"""


def test_first_paint_comes_at_once(page, context):
    """From data to painted picture: the processor time of the page's main thread, which a busy machine does not stretch."""
    session = context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def busy() -> float:
        return next(m["value"] for m in session.send("Performance.getMetrics")["metrics"] if m["name"] == "TaskDuration") * 1000

    before = busy()
    page.evaluate(DRAW_ANOTHER)
    took = busy() - before
    print(f"first paint after {took:.0f} ms")
    assert page.locator(".fmap").count() == 2 and 0 < took < FIRST_PAINT_MS


# -- the map: mouse, touch, keyboard ------------------------------------------------------------------------------------------


def test_hover_glances_and_a_press_opens_and_closes_the_card(page):
    keyed(page, "3B").hover()
    assert shown(page) == "3B" and page.locator(".fm-lists").count() == 0
    keyed(page, "6A").click()
    assert page.locator(".fm-lists").count() == 1 and page.url.endswith("#6A")
    card = page.locator(".fm-card").inner_text()
    assert "720 + 170 = 890 B" in card and "288 B each" in card and "890 MB" in card
    assert page.locator(".fm-card a", has_text="ladder/budget").get_attribute("href") == "../book/ladder/budget.html"
    assert page.locator(".fm-card a", has_text="blocks/").get_attribute("href") == "../book/blocks/6a-kv-cache.html"
    assert page.locator(".fm-card li", has_text="lab step").locator("a").get_attribute("href") == "../labs/student/6A/6A.html"
    page.locator(".fm-jump", has_text="4A").first.click()
    assert shown(page) == "4A" and focused(page) == "4A"
    page.locator(".fm-close").click()
    page.mouse.move(1, 1)
    assert focused(page) == "4A" and not page.url.endswith("#4A")
    assert page.locator(".fm-node[aria-pressed=true]").count() == 0


def test_cards_of_our_reading_say_so(page):
    for label in ("3B", "3C", "6B", "4A"):
        keyed(page, label).click()
        assert page.locator(".fm-reading").count() == (label != "4A"), label


def test_touch_opens_a_card(browser, home):
    context = browser.new_context(viewport={"width": 320, "height": 700}, has_touch=True, is_mobile=True)
    page = open_page(context, home, "book/index.html", Visit())
    keyed(page, "5A").tap()
    assert shown(page) == "5A" and page.locator(".fm-lists").count() == 1
    small = "() => [...document.querySelectorAll('.fmap button')].filter((e) => Math.min(e.offsetWidth, e.offsetHeight) < 24).length"
    assert page.evaluate(small) == 0
    context.close()


def test_tab_goes_along_the_path(page):
    keyed(page, "all").focus()
    order = []
    while (key := focused(page)) and len(order) < 40:
        order.append(key)
        page.keyboard.press("Tab")
    assert order == ["all", "overlay", "en", "vi", "zh", "c1", "1A", "1B", "2A", "c2", "3A", "3B", "3C", "c3", "4A", "6A",
                     "c4", "5A", "6B", "prefill", "decode", "draft", "back", "play", "next"]  # fmt: skip


def test_arrows_follow_the_picture(page):
    keyed(page, "1A").focus()
    ways = {"ArrowUp": "1B", "ArrowRight": "3B", "ArrowDown": "3C", "ArrowLeft": "1A", "End": "6B", "Home": "1A"}
    for key, label in ways.items():
        page.keyboard.press(key)
        assert focused(page) == label == shown(page), key
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowDown")
    assert focused(page) == "1A", "the edge of the picture holds"
    page.keyboard.press("Enter")
    assert page.url.endswith("#1A")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Escape")
    assert focused(page) == "1A" and not page.url.endswith("#1A")


def test_filter_shows_one_column(page):
    assert [page.locator(".fm-title").nth(i).inner_text().replace("\u00a0", " ").replace("\n", " ") for i in range(4)] == [
        "1 · Input, Engram & mHC", "2 · CED 20+20 & CSA2", "3 · MLA & FP4 KV (890 B)", "4 · FP4 MoE & DSpark"]
    keyed(page, "c3").click()
    assert page.locator(".fm-node:not(.fm-off)").evaluate_all("(all) => all.map((e) => e.dataset.key)") == ["4A", "6A"]
    assert keyed(page, "all").get_attribute("aria-pressed") == "false"
    keyed(page, "all").click()
    assert page.locator(".fm-off").count() == 0 and keyed(page, "all").inner_text() == "All (10)"


def test_overlay_hides_and_returns(page):
    keyed(page, "overlay").click()
    assert not page.locator(".fm-card").is_visible() and page.locator(".fm-node:visible").count() == 10
    keyed(page, "overlay").click()
    assert page.locator(".fm-card").is_visible()


def test_language_switches_and_is_remembered(page, context, home):
    keyed(page, "6A").click()
    keyed(page, "vi").click()
    assert focused(page) == "vi" and page.locator(".fmap").get_attribute("lang") == "vi"
    assert "Giữ mọi byte" in page.locator(".fm-card").inner_text()
    again = open_page(context, home, "book/page.html", Visit())
    assert "64 đầu truy vấn" in again.locator(".fm-card").inner_text()
    keyed(again, "zh").click()
    assert "64 个查询头" in again.locator(".fm-card").inner_text()


def test_a_deep_link_opens_the_card(context, home):
    page = open_page(context, home, "book/index.html#6A", Visit())
    assert shown(page) == "6A" and page.locator(".fm-lists").count() == 1
    page.evaluate("() => { location.hash = '#3C' }")
    page.wait_for_function("() => document.querySelector('.fm-head b')?.textContent === '3C'")
    page.evaluate("() => { location.hash = '#nothing' }")
    assert shown(page) == "3C"


def test_a_trace_stands_on_its_card(context, home):
    page = open_page(context, home, "book/page.html", Visit())
    assert "In one run of the apprentice" in page.locator(".fm-card").inner_text() and "keys read 640" in page.locator(".fm-card").inner_text()


# -- the map: the path of a token ----------------------------------------------------------------------------------------------


def test_steps_light_the_path(page):
    keyed(page, "decode").click()
    assert "1 / 10 · 1A" in page.locator(".fm-step").inner_text()
    for _ in range(5):
        keyed(page, "next").click()
    assert page.locator(".fm-node.fm-now").get_attribute("data-key") == "6A"
    assert page.locator(".fm-node.fm-been").count() == 6 and page.locator("g.fm-now").count() == 1
    keyed(page, "back").click()
    assert page.locator(".fm-node.fm-now").get_attribute("data-key") == "3B"
    keyed(page, "draft").click()
    assert "1 / 12 · 6B" in page.locator(".fm-step").inner_text()
    keyed(page, "draft").click()
    assert page.locator(".fm-now, .fm-been").count() == 0 and not page.locator(".fm-step").is_visible()


def test_play_walks_by_itself_and_pauses(browser, home):
    context = context_for(browser, "light")
    context.add_init_script("const wait = window.setInterval; window.setInterval = (fn, ms) => wait(fn, ms / 20);")
    page = open_page(context, home, "book/index.html", Visit())
    keyed(page, "play").click()
    assert keyed(page, "play").inner_text() == "Pause" and keyed(page, "prefill").get_attribute("aria-pressed") == "true"
    page.wait_for_function("() => document.querySelector('.fm-step').textContent.startsWith('3 / 10')")
    keyed(page, "play").click()
    stopped = page.locator(".fm-step").inner_text()
    page.wait_for_timeout(400)
    assert page.locator(".fm-step").inner_text() == stopped and keyed(page, "play").inner_text() == "Play"
    keyed(page, "play").click()
    page.wait_for_function("() => document.querySelector('.fm-step').textContent.startsWith('10 / 10')")
    page.wait_for_function("() => document.querySelector('.fm-play').textContent === 'Play'")
    context.close()


@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
def test_nothing_moves_for_readers_who_ask_for_that(page, motion):
    page.emulate_media(reduced_motion=motion)
    keyed(page, "prefill").click()
    keyed(page, "next").click()
    moving = page.evaluate("() => document.getAnimations().filter((a) => a.effect.target.closest('.fmap')).length")
    assert (moving > 0) == (motion == "no-preference")


# -- the map: other ways of seeing ---------------------------------------------------------------------------------------------


def test_every_state_is_clean_for_axe(browser, home, scheme):
    context = context_for(browser, scheme)
    page = open_page(context, home, "book/index.html", Visit())
    page.evaluate(AXE)
    for key in ("6B", "c1", "draft", "next", "zh"):
        keyed(page, key).click()
        page.mouse.move(1, 1)
        resize(page, 1280)
        assert page.evaluate(RUN_AXE, "all") == [], key
    context.close()


@pytest.mark.parametrize("width", PHONES)
@pytest.mark.parametrize("language", ["en", "vi", "zh"])
def test_every_card_fits_a_phone(page, width, language):
    keyed(page, language).click()
    keyed(page, "prefill").click()
    resize(page, width)
    for label in ("1A", "3B", "4A", "5A", "6A", "6B"):
        keyed(page, label).click()
        assert page.evaluate(STICKS_OUT) == [], label
    assert page.evaluate("""() => [...document.querySelectorAll('.fm-node, .fm-title')]
      .filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.textContent)""") == []


def test_forced_colours_keep_state_visible(page):
    page.emulate_media(forced_colors="active")
    keyed(page, "6A").click()
    keyed(page, "1A").focus()
    style = "(e) => getComputedStyle(e).outlineStyle"
    assert keyed(page, "6A").evaluate(style) == "solid" and keyed(page, "3A").evaluate(style) == "none"


def test_paper_shows_picture_and_table_without_controls(page):
    resize(page, 718, 1000)
    page.emulate_media(media="print")
    assert page.locator(".fm-node:visible").count() == 10 and page.locator(".course-table").is_visible()
    assert page.locator(".fm-bar:visible").count() == 0
    assert page.pdf(format="A4").startswith(b"%PDF")


# -- the map: live, both ways ------------------------------------------------------------------------------------------------------

LIVE = """<!DOCTYPE html><html lang="en"><body><div id="cell"></div><script type="module">
  import widget from "./map.js";
  const state = STATE, listeners = {};
  window.saved = [];
  window.model = {
    get: (key) => state[key], save_changes: () => window.saved.push(state.selected),
    set: (key, value) => { state[key] = value; for (const fn of listeners[`change:${key}`] ?? []) fn(); },
    on: (event, fn) => (listeners[event] ??= new Set()).add(fn), off: (event, fn) => listeners[event].delete(fn),
  };
  window.listening = () => Object.values(listeners).reduce((n, set) => n + set.size, 0);
  window.dispose = widget.render({ model: window.model, el: document.querySelector("#cell") });
</script></body></html>"""


def test_in_a_notebook_presses_reach_python_and_python_moves_the_picture(context, tmp_path, monkeypatch):
    monkeypatch.setenv("FLASH41_STATIC", "1")
    html = show_map("1A")._repr_html_()
    state = html.split('<script type="application/json">')[1].split("</script>")[0]
    (tmp_path / "map.js").write_text(source("map", "js"), encoding="utf-8")
    (tmp_path / "live.html").write_text(LIVE.replace("STATE", state), encoding="utf-8")
    with served(tmp_path) as home:
        visit = Visit()
        page = open_page(context, home, "live.html", visit)
        assert shown(page) == "1A"
        keyed(page, "3A").click()
        assert page.evaluate("() => [window.saved, location.hash]") == [["3A"], ""], "a notebook's address stays its own"
        page.evaluate("() => window.model.set('selected', '6A')")
        page.mouse.move(1, 900)
        page.evaluate("() => document.activeElement.blur()")
        assert shown(page) == "6A"
        assert page.locator(".fm-card a", has_text="ladder/budget").get_attribute("href").endswith("/blob/main/book/ladder/budget.ipynb")
        page.evaluate("() => window.model.set('selected', 'nothing')")
        assert shown(page) == ""
        page.evaluate("() => window.dispose()")
        assert page.evaluate("() => window.listening()") == 0 and visit.complaints == []
