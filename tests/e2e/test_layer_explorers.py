"""The grid of layers and what a token sees, on built pages with the network cut off: by mouse, touch and keyboard."""
from __future__ import annotations

import gzip
import random
import shutil

import pytest
import torch

from conftest import ROOT
from course_widgets import WIDGETS, classic_script, page_style
from flash41.compressor import visible_rows
from flash41.config import Config
from flash41.course import recorded, show_layers, show_visibility
from flash41.course.traffic import PHASES, candidate_rows, total_bytes, traffic
from flash41.course.widgets import layers as grid
from flash41.course.widgets.host import source
from flash41.course.widgets.visibility import places
from flash41.indexer import NONE, rows_of_blocks
from flash41.state import positions_of_slots
from test_gates import Book, assemble
from visiting import AXE, PHONES, RUN_AXE, STICKS_OUT, Visit, context_for, look, open_page, resize, served

NAMES = ("layers", "visibility")
GZIPPED = 12_000  # bytes of own script and style per widget
PAGE = """# {name}

Words before it.

:::{{course-widget}} flash41.course.widgets.{name}:show_{name}
:::

Words after it.
"""


@pytest.fixture(scope="module")
def book(tmp_path_factory) -> Book:
    """A page for each of the two under the real configuration, extensions, tools and package."""
    book = assemble(tmp_path_factory.mktemp("explorers") / "book")
    shutil.rmtree(book.root / "labs")
    (book.root / "labs").symlink_to(ROOT / "labs")
    (book.root / "book/page.ipynb").unlink()
    (book.root / "book/index.md").write_text("# A book\n\nOf two pages.\n")
    for name in NAMES:
        (book.root / f"book/{name}.md").write_text(PAGE.format(name=name))
    (book.root / "_toc.yml").write_text("format: jb-book\nroot: book/index\nchapters:\n  - file: book/layers\n  - file: book/visibility\n")
    clean, said = book.build()
    assert clean, said
    return book


@pytest.fixture(scope="module")
def home(book):
    with served(book.site) as home:
        yield home


@pytest.fixture
def context(browser):
    context = context_for(browser, "light")
    context.set_default_timeout(20_000)  # ms
    yield context
    context.close()


RESET = """(state) => {
  const { model } = document.querySelector("course-widget");
  document.activeElement.blur();
  for (const [key, value] of Object.entries(state)) model.set(key, value);
}"""


@pytest.fixture(scope="module")
def pages(browser, home):
    """Both pages, each opened once; nothing leaves the site and the console stays silent, whatever the tests do there."""
    context, visit = context_for(browser, "light"), Visit()
    context.set_default_timeout(20_000)  # ms
    yield {name: open_page(context, home, f"book/{name}.html", visit) for name in NAMES}
    context.close()
    assert (visit.outside, visit.complaints) == ([], [])


@pytest.fixture
def layers(pages):
    pages["layers"].evaluate(RESET, {"selected": 20, "phase": "decode", "tokens": 131_072})
    return pages["layers"]


@pytest.fixture
def visibility(pages):
    pages["visibility"].evaluate(RESET, {"layer": 4, "query": 148})
    return pages["visibility"]


def keyed(page, key: str | int):
    return page.locator(f"course-widget [data-key='{key}']")


def focused(page) -> str:
    return page.evaluate("() => document.activeElement.dataset.key ?? ''")


def marked(page, kind: str) -> list[int]:
    """Layers whose cell carries a mark."""
    return [int(key) for key in page.locator(f".fl-cell.{kind}").evaluate_all("(all) => all.map((e) => e.dataset.key)")]


def card(page) -> str:
    return page.locator(".fl-card").inner_text()


# -- both -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_own_code_is_small_and_asks_for_nothing(name):
    script, style = classic_script(ROOT / WIDGETS, name), page_style(ROOT / WIDGETS, name)
    sizes = [len(gzip.compress(text.encode(), mtime=0)) for text in (script, style)]
    print(f"{name}: {sizes[0]} B script, {sizes[1]} B style, gzipped")
    assert sum(sizes) <= GZIPPED
    assert not any(word in script for word in ("fetch(", "XMLHttpRequest", "import(", "eval(", "innerHTML"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", NAMES)
def test_pages_are_clean_in_both_schemes_and_on_phones(browser, home, name, scheme):
    context = context_for(browser, scheme)
    visit = look(context, home, f"book/{name}.html")
    context.close()
    assert (visit.outside, visit.complaints, visit.axe, visit.sticking_out) == ([], [], [], [])


@pytest.mark.parametrize("name", NAMES)
def test_page_works_from_the_disk(context, book, name):
    visit = Visit()
    page = open_page(context, book.site.as_uri() + "/", f"book/{name}.html", visit)
    assert page.locator("course-widget[data-live]").count() == 1 and visit.complaints == []


def test_without_javascript_tables_say_it(browser, home):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(home + "book/layers.html")
    row = page.locator("tr", has=page.locator("th", has_text="3–7, each"))
    assert row.is_visible() and "Reuse layer 2 layer 2 0 215,040 528 131,072" in " ".join(row.inner_text().split())
    page.goto(home + "book/visibility.html")
    assert page.locator("tbody tr:visible").count() == 3
    context.close()


@pytest.mark.parametrize("name", NAMES)
def test_paper_shows_the_picture_and_the_table(context, home, name):
    page = open_page(context, home, f"book/{name}.html", Visit())
    resize(page, 718, 1000)
    page.emulate_media(media="print")
    assert page.locator(".course-table").is_visible()
    assert page.locator("course-widget :is(.fl-bar, .vi-bar):visible").count() == 0
    assert page.evaluate("() => [...document.querySelectorAll('course-widget, .course-table')].every((e) => e.scrollWidth <= e.clientWidth + 1)")
    assert page.pdf(format="A4").startswith(b"%PDF")


@pytest.mark.parametrize("name", NAMES)
def test_controls_are_large_enough_for_a_finger(browser, home, name):
    context = browser.new_context(viewport={"width": 320, "height": 800}, has_touch=True, is_mobile=True)
    page = open_page(context, home, f"book/{name}.html", Visit())
    small = """() => [...document.querySelectorAll('course-widget :is(button, input)')]
      .filter((e) => Math.min(e.offsetWidth, e.offsetHeight) < 24).map((e) => e.outerHTML)"""
    assert page.evaluate(small) == []
    keyed(page, 14 if name == "layers" else "layer6").tap()
    assert "Layer 14" in card(page) if name == "layers" else "Layer 6" in page.locator(".vi-said").inner_text()
    context.close()


# -- arithmetic: the page's equals the package's ----------------------------------------------------------------------------


def test_traffic_on_the_page_is_the_traffic_of_the_package(layers):
    draw, settings, expected = random.Random(41), [], []
    configs = {name: getattr(Config, name)() for name in ("flash", "tiny", "apprentice")}
    for _ in range(600):
        name, phase = draw.choice([*configs]), draw.choice(PHASES)
        c = configs[name]
        layer = draw.randrange(len(c.compress_ratios))
        tokens = min(c.max_position_embeddings, round(2 ** draw.uniform(0, 20)))
        settings.append([name, layer, phase, tokens])
        found = traffic(c, layer, phase, tokens)
        expected.append([found, candidate_rows(c, tokens), total_bytes(c, phase, tokens)])
    said = layers.evaluate("""([data, settings]) => {
      const { rules } = window.courseWidgets.layers;
      return settings.map(([name, ...rest]) => [rules.traffic(data[name], ...rest), rules.candidateRows(data[name], rest[2]),
        rules.totals(data[name], rest[1], rest[2])]);
    }""", [{name: grid._data(c) for name, c in configs.items()}, settings])
    assert said == expected


def test_rules_of_sight_on_the_page_are_those_of_the_package(visibility):
    draw, settings, expected = random.Random(6), [], []
    for _ in range(500):
        t, ratio, window, group = draw.randrange(3000), draw.choice([1, 2]), draw.choice([16, 32, 128]), draw.choice([4, 8])
        seen = int(visible_rows(torch.tensor(t), ratio))
        groups = sorted(draw.sample(range(seen // group + 1), draw.randint(0, min(16, seen // group + 1))))
        mask = f"{sum(1 << g for g in groups):x}"
        settings.append([t, ratio, window, group, mask])
        ring = positions_of_slots(torch.tensor([t + 1]), window)
        rows = rows_of_blocks(torch.tensor(groups, dtype=torch.int64), group)
        expected.append([seen, [int(ring[ring >= 0].min()), int(ring.max())], places(mask),
                         [int(row) for row in rows if row != NONE and row < seen], max(seen - 1, 0) // group])  # fmt: skip
    said = visibility.evaluate("""(settings) => settings.map(([t, ratio, window, group, mask]) => {
      const { rules } = globalThis.courseWidgets.visibility, seen = rules.visible(t, ratio), groups = rules.places(mask);
      return [seen, rules.window(t, window), groups, rules.rowsOf(groups, group, seen), rules.newest(seen, group)];
    })""", settings)
    assert said == expected


def test_a_row_covers_the_tokens_that_close_it(visibility):
    covers = visibility.evaluate("() => [[5, 1], [5, 2], [0, 2]].map(([row, r]) => window.courseWidgets.visibility.rules.covers(row, r))")
    assert covers == [[5, 5], [10, 11], [0, 1]]
    for row, ratio in ((5, 1), (5, 2), (0, 2)):  # visible to its own last token, not before
        last = torch.tensor([row * ratio + ratio - 2, row * ratio + ratio - 1])
        assert visible_rows(last, ratio).tolist() == [row, row + 1]


# -- the layers -----------------------------------------------------------------------------------------------------------


def test_a_press_lights_sources_and_borrowers(layers):
    assert marked(layers, "fl-self") == [20] and marked(layers, "fl-follower") == [21, 22, 23]
    assert marked(layers, "fl-user") == [*range(24, 40)] and marked(layers, "fl-source") == []
    keyed(layers, 26).click()
    assert marked(layers, "fl-source") == [20, 24] and "Layer 26 Reuse decoder" in card(layers)
    assert "512 rows of layer 20: 147,456 B" in card(layers) and "for each token: 0 B" in card(layers)
    keyed(layers, 24).click()
    assert "16,384 index keys of layer 20: 1.114 MB" in card(layers) and "candidates of layer 20" in card(layers)
    keyed(layers, 2).click()
    assert marked(layers, "fl-follower") == [3, 4, 5, 6, 7] and "for each token: 178 B" in card(layers)
    keyed(layers, 1).click()
    assert marked(layers, "fl-source") == [] and "no compressed rows" in card(layers) and "Engram" in card(layers)
    keyed(layers, 42).click()
    assert "Draft block 2" in card(layers) and "layers 37, 38, 39" in card(layers)


def test_storage_and_reads_stand_side_by_side(layers):
    total = layers.locator(".fl-total")
    assert "890 B" in total.inner_text() and "35.06 MB" in total.inner_text()
    keyed(layers, "tokens").fill("1048576")
    assert "890 B" in total.inner_text() and "191 MB" in total.inner_text() and "index keys 182.7 MB" in " ".join(total.inner_text().split())
    keyed(layers, "range").fill("7")
    assert keyed(layers, "tokens").input_value() == "128" and "at 128 tokens" in total.inner_text()


def test_an_odd_token_parks_half_a_pair(layers):
    keyed(layers, 8).click()
    keyed(layers, "tokens").fill("1001")
    assert "no row: the pair is still open" in card(layers) and "parked in float32: 4,096 B" in card(layers)
    keyed(layers, "tokens").press("ArrowUp")
    assert "1 row and as many index keys: 356 B" in card(layers) and "the parked half of a pair: 4,096 B" in card(layers)


def test_a_number_that_is_no_context_changes_nothing(layers):
    for wrong in ("0", "2000000", ""):
        keyed(layers, "tokens").fill(wrong)
        assert "at 131,072 tokens" in layers.locator(".fl-total").inner_text()
    keyed(layers, "range").focus()
    assert keyed(layers, "tokens").input_value() == "131072"


def test_the_prompt_runs_the_decoder_on_its_last_window(layers):
    keyed(layers, "prefill").click()
    assert keyed(layers, "prefill").get_attribute("aria-pressed") == "true"
    assert "It runs on 128 of 131,072 prompt tokens." in card(layers) and "131,072 rows and as many index keys: 46.66 MB" in card(layers)
    keyed(layers, 19).click()
    assert "It runs on 131,072 of 131,072 prompt tokens." in card(layers)


def test_tab_and_arrows_walk_the_grid(layers):
    keyed(layers, "decode").focus()
    order = []
    while (key := focused(layers)) and len(order) < 20:
        order.append(key)
        layers.keyboard.press("Tab")
    assert order == ["decode", "prefill", "range", "tokens", "20"], "the grid takes one Tab"
    keyed(layers, 20).focus()
    for key, layer in (("ArrowRight", 21), ("ArrowDown", 31), ("ArrowLeft", 30), ("ArrowDown", 40), ("ArrowDown", 40), ("Home", 0),
                       ("ArrowUp", 0), ("ArrowLeft", 0), ("End", 42)):  # fmt: skip
        layers.keyboard.press(key)
        assert focused(layers) == str(layer) and marked(layers, "fl-self") == [layer], key
    assert keyed(layers, 42).get_attribute("aria-checked") == "true"
    assert layers.get_by_role("radio", name="Layer 24, Reindex").count() == 1


# -- what a token sees --------------------------------------------------------------------------------------------------------


def words(page, kind: str) -> list[int]:
    """Positions of the passage's tokens that carry a mark."""
    return [int(i) for i in page.locator(f".vi-text .{kind}").evaluate_all("(all) => all.map((e) => e.dataset.token)")]


def test_the_passage_shows_what_the_record_says(visibility):
    record = recorded("visibility")
    for layer, query in ((4, 120), (2, 77), (6, 159), (3, 40), (1, 90)):
        keyed(visibility, f"layer{layer}").click()
        keyed(visibility, "query").fill(str(query))
        own = record["layers"][layer]
        rows = places(record["chosen"][str(own["choice"])][query]) if own["ratio"] else []
        assert words(visibility, "vi-window") == [*range(max(0, query - 31), query + 1)] and words(visibility, "vi-query") == [query]
        assert words(visibility, "vi-chosen") == [row * own["ratio"] + i for row in rows for i in range(own["ratio"])]
        shown = visibility.locator(".vi-rows li").all_inner_texts()
        texts = ["".join(record["tokens"][row * own["ratio"] : (row + 1) * own["ratio"]]).replace("\n", "⏎") for row in rows]
        assert shown == [f"{row} “{text}”" for row, text in zip(rows, texts, strict=True)]
    assert "no compressed rows" in visibility.locator(".vi-said").inner_text() and visibility.locator(".vi-rows li").count() == 0


def test_candidates_bind_the_reindex_layer(visibility):
    keyed(visibility, "layer6").click()
    keyed(visibility, "query").fill("159")
    facts = visibility.locator(".vi-facts").inner_text()
    assert "candidates: 16 of 20 groups of 8 rows" in facts and "keys read: 32 + 32 = 64" in facts
    out = words(visibility, "vi-out")
    assert len(out) == 32 and not set(out) & set(words(visibility, "vi-chosen"))
    keyed(visibility, "layer2").click()
    assert "candidates" not in visibility.locator(".vi-facts").inner_text() and "visible rows: 80" in visibility.locator(".vi-facts").inner_text()


def test_slider_text_and_picture_choose_the_query(visibility):
    keyed(visibility, "query").focus()
    visibility.keyboard.press("Home")
    assert words(visibility, "vi-query") == [0]
    for _ in range(3):
        visibility.keyboard.press("ArrowRight")
    assert words(visibility, "vi-query") == [3] and "token 3" in keyed(visibility, "query").get_attribute("aria-valuetext")
    visibility.locator(".vi-text [data-token='100']").click()
    assert keyed(visibility, "query").input_value() == "100"
    box = visibility.locator("figure svg").bounding_box()
    visibility.mouse.click(box["x"] + 20, box["y"] + box["height"] * 0.5)
    assert abs(int(keyed(visibility, "query").input_value()) - 80) <= 1


def test_tab_goes_from_the_layers_to_the_query(visibility):
    keyed(visibility, "layer0").focus()
    order = []
    while (key := focused(visibility)) and len(order) < 20:
        order.append(key)
        visibility.keyboard.press("Tab")
    assert order == [*(f"layer{i}" for i in range(8)), "query"]


# -- other ways of seeing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_state_is_clean_for_axe_and_fits_a_phone(browser, home, scheme):
    context = context_for(browser, scheme)
    for name, keys in (("layers", ("prefill", "2", "26", "42")), ("visibility", ("layer0", "layer2", "layer6"))):
        page = open_page(context, home, f"book/{name}.html", Visit())
        page.evaluate(AXE)
        for key in keys:
            keyed(page, key).click()
            resize(page, 1280)
            assert page.evaluate(RUN_AXE, "all") == [], key
            for width in PHONES:
                resize(page, width)
                assert page.evaluate(STICKS_OUT) == [], key
        page.close()
    context.close()


def test_forced_colours_keep_state_visible(layers, visibility):
    style = "(e) => getComputedStyle(e).outlineStyle"
    layers.emulate_media(forced_colors="active")
    assert keyed(layers, 20).evaluate(style) == "solid" and keyed(layers, 3).evaluate(style) == "none"
    visibility.emulate_media(forced_colors="active")
    assert keyed(visibility, "layer4").evaluate(style) == "solid" and keyed(visibility, "layer5").evaluate(style) == "none"
    fills = visibility.evaluate("() => ['seen', 'chosen'].map((name) => getComputedStyle(document.querySelector(`path.vi-${name}`)).fill)")
    assert fills[0] != fills[1]
    for page in (layers, visibility):
        page.emulate_media(forced_colors="none")


# -- live, both ways -------------------------------------------------------------------------------------------------------------------

LIVE = """<!DOCTYPE html><html lang="en"><body><div id="cell"></div><script type="module">
  import widget from "./NAME.js";
  const state = STATE, listeners = {};
  window.saved = 0;
  window.model = {
    get: (key) => state[key], save_changes: () => { window.saved += 1; },
    set: (key, value) => { state[key] = value; for (const fn of listeners[`change:${key}`] ?? []) fn(); },
    on: (event, fn) => (listeners[event] ??= new Set()).add(fn), off: (event, fn) => listeners[event].delete(fn),
  };
  window.listening = () => Object.values(listeners).reduce((n, set) => n + set.size, 0);
  window.dispose = widget.render({ model: window.model, el: document.querySelector("#cell") });
</script></body></html>"""


@pytest.mark.parametrize("name", NAMES)
def test_in_a_notebook_presses_reach_python_and_python_moves_the_picture(context, tmp_path, monkeypatch, name):
    monkeypatch.setenv("FLASH41_STATIC", "1")
    html = {"layers": show_layers, "visibility": show_visibility}[name]()._repr_html_()
    state = html.split('<script type="application/json">')[1].split("</script>")[0]
    (tmp_path / f"{name}.js").write_text(source(name, "js"), encoding="utf-8")
    (tmp_path / "live.html").write_text(LIVE.replace("STATE", state).replace("NAME", name), encoding="utf-8")
    press, key, pressed, moved = {"layers": ("26", "selected", 26, 8), "visibility": ("layer6", "layer", 6, 2)}[name]
    with served(tmp_path) as home:
        visit = Visit()
        page = open_page(context, home, "live.html", visit)
        page.locator(f"[data-key='{press}']").click()
        assert page.evaluate("(key) => [window.saved, window.model.get(key)]", key) == [1, pressed]
        page.evaluate("([key, value]) => window.model.set(key, value)", [key, moved])
        assert f"Layer {moved}" in page.locator("[role=status]").first.inner_text()
        page.evaluate("() => window.dispose()")
        assert page.evaluate("() => window.listening()") == 0 and visit.complaints == []
