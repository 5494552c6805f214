"""The explorers in a real browser: the package's numbers on hundreds of settings, then mouse, keyboard, touch, paper."""
from __future__ import annotations

import gzip
import json
import random
import re
import shutil
import struct
from fractions import Fraction

import pytest
import torch

from conftest import ROOT
from course_widgets import WIDGETS, classic_script, page_style
from flash41.budget import capacity
from flash41.capacity import BYTE_UNITS, TOKEN_UNITS, parse_size
from flash41.config import Config
from flash41.course import models, show_capacity, show_fp4, show_ladder, show_mixing
from flash41.course.widgets.capacity import groups
from flash41.course.widgets.fp4 import rounded
from flash41.course.widgets.host import source
from flash41.course.widgets.ladder import FORMATS, KEYS, check_settings, ladder_budget
from flash41.mhc import sinkhorn_plain
from test_gates import Book, assemble
from visiting import AXE, CUT_OFF, PHONES, RUN_AXE, STICKS_OUT, Visit, context_for, look, open_page, resize, served

GZIPPED = 12_000  # bytes of own script and style per widget
SETTINGS = 400  # random settings per explorer
SHOW = {"ladder": show_ladder, "fp4": show_fp4, "mixing": show_mixing, "capacity": show_capacity}
FIRST = ".fx button:not([aria-pressed=true]):not(:disabled), .fx input[type=checkbox]"  # a control that changes something
NAMES = pytest.mark.parametrize("name", SHOW)


@pytest.fixture(scope="module")
def book(tmp_path_factory) -> Book:
    """A page per explorer under the real configuration, extensions, tools and package."""
    book = assemble(tmp_path_factory.mktemp("explorers") / "book")
    shutil.rmtree(book.root / "labs")
    (book.root / "labs").symlink_to(ROOT / "labs")
    (book.root / "book/page.ipynb").unlink()
    for name in SHOW:
        shown = f":::{{course-widget}} flash41.course.widgets.{name}:show_{name}\n:::"
        page = "index" if name == "ladder" else name
        (book.root / f"book/{page}.md").write_text(f"# {name}\n\nWords before it.\n\n{shown}\n\nWords after it.\n")
    toc = "".join(f"  - file: book/{name}\n" for name in SHOW if name != "ladder")
    (book.root / "_toc.yml").write_text(f"format: jb-book\nroot: book/index\nchapters:\n{toc}")
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
    context.set_default_timeout(90_000)  # ms
    yield context
    context.close()


def address(name: str) -> str:
    return f"book/{'index' if name == 'ladder' else name}.html"


@pytest.fixture
def opened(context, home):
    """Opens the page of an explorer; whatever a test does there, nothing leaves the site and the console stays silent."""
    visit = Visit()
    yield lambda name: open_page(context, home, address(name), visit)
    assert (visit.outside, visit.complaints) == ([], [])


def keyed(page, key: str):
    return page.locator(f".fx [data-key='{key}']")


def state(page, key: str):
    return page.evaluate("(key) => document.querySelector('course-widget').model.get(key)", key)


def focused(page) -> str:
    return page.evaluate("() => document.activeElement.dataset.key ?? ''")


def batch(page, name: str, call: str, settings: list):
    """`call` on every setting at once; `m` is the module, `data` what Python gave it, `s` the setting."""
    names = f"const m = window.courseWidgets['{name}'], data = document.querySelector('course-widget').model.get('data');"
    return page.evaluate(f"(all) => {{ {names} return all.map((s) => {call}); }}", settings)


def drag(page, slider, to: float, upright: bool = False) -> None:
    """Takes a slider at its middle and lets go at a share of its length (upwards where it stands upright)."""
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()

    def at(share: float) -> tuple[float, float]:
        across, along = (0.5, 1 - share) if upright else (share, 0.5)
        return box["x"] + box["width"] * across, box["y"] + box["height"] * along

    page.mouse.move(*at(0.5))
    page.mouse.down()
    page.mouse.move(*at((0.5 + to) / 2), steps=3)
    page.mouse.move(*at(to), steps=3)
    page.mouse.up()


# -- the same numbers as the package ----------------------------------------------------------------------------------------


def some_settings(rng: random.Random) -> dict:
    heads, layers = rng.randint(1, 128), rng.randint(1, 128)
    storing = rng.randint(1, layers)
    return check_settings(dict(
        heads=heads, kv_heads=rng.choice([k for k in range(1, heads + 1) if heads % k == 0]),
        stored=rng.choice(["pair", "latent"]), width=32 * rng.randint(1, 32), format=rng.choice(list(FORMATS)),
        layers=layers, storing=storing, pooling=rng.randint(0, storing), tokens=rng.randint(1, 128),
        index=rng.choice(list(KEYS)), context=rng.choice([1, 999, 10**6, rng.randint(1, 10**7)]),
    ))  # fmt: skip


def test_ladder_prices_equal_the_budgets(opened):
    settings = [some_settings(random.Random(seed)) for seed in range(SETTINGS)]
    found = batch(opened("ladder"), "ladder", "m.price(s, data)", settings)
    for s, js in zip(settings, found, strict=True):
        bill = ladder_budget(s)
        assert (js["perToken"], js["used"]) == (float(bill.total), bill.used_bytes(s["context"])), s
        first = bill.layers[0]
        assert (js["entry"], js["key"]) == (first.entry_bytes, first.index_bytes), s
        mha = dict(stored="pair", kv_heads=s["heads"], format="fp16", storing=s["layers"], pooling=0, index="none")
        assert js["mha"] == ladder_budget(s | mha).total, s


def test_a_lever_leaves_settings_that_a_model_could_have(opened):
    pairs = []
    for seed in range(SETTINGS):
        before, other = some_settings(random.Random(seed)), some_settings(random.Random(-1 - seed))
        key = random.Random(seed).choice(["heads", "layers", "width", "tokens", "stored", "context"])
        pairs.append([before | {key: other[key]}, before])
    for (wanted, before), after in zip(pairs, batch(opened("ladder"), "ladder", "m.settle(...s)", pairs), strict=True):
        check_settings(after)
        if before["kv_heads"] == before["heads"]:
            assert after["kv_heads"] == after["heads"], "MHA stays MHA"
        assert all(after[key] == wanted[key] for key in ("heads", "layers", "width", "tokens", "stored", "context"))


def beside(value: float, by: int) -> float:
    """The float32 number `by` places away."""
    bits = struct.unpack("i", struct.pack("f", value))[0] + by
    return struct.unpack("f", struct.pack("i", bits))[0]


def some_values(seed: int) -> list[float]:
    """Gaussians of every size, grid points and ties times a scale, neighbours of those in float32, zeros of both signs."""
    rng = random.Random(seed)
    size = 2.0 ** rng.randint(-13, 9)
    kind = seed % 5
    if kind == 0:
        return [max(-4096, min(4096, rng.gauss(0, size))) for _ in range(16)]
    step = rng.choice([1.0, 1.125, 1.75, 0.8125, 2.0]) * size / 4
    points = [0.0, -0.0, 0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 6.0, 0.5, 3.0]
    values = [rng.choice(points) * rng.choice([-1, 1]) * step for _ in range(15)] + [6.0 * step]
    if kind == 2:  # one float32 above or below
        values = [beside(v, rng.choice([-1, 1])) if v else v for v in values]
    if kind == 3:
        values[rng.randrange(16)] = rng.uniform(5, 7) * step
    if kind == 4:
        values = [rng.uniform(-1, 1) * rng.choice([2**-9, 2**-12, 4096, 2688]) for _ in range(16)]
    return [max(-4096.0, min(4096.0, v)) for v in values]


def test_fp4_codes_scales_and_values_equal_the_formats(opened):
    neighbors = [0.0, 0.1, 6.0, 6.0001, 50.0, 4096.0]
    settings = [[some_values(seed), random.Random(seed).choice(neighbors)] for seed in range(SETTINGS)]
    call = "['E4M3', 'E8M0'].map((kind) => m.encode(s[0], s[1], kind, data))"
    seen = {"ties": 0, "cut": 0}
    for (values, neighbor), js in zip(settings, batch(opened("fp4"), "fp4", call, settings), strict=True):
        for mine, package in zip(js, rounded(values, neighbor).values(), strict=True):
            pairs = {"byte": "scale_byte", "scale": "scale", "bytes": "codes", "decoded": "decoded"}
            assert all(mine[js_name] == package[name] for js_name, name in pairs.items()), (values, mine, package)
            for kind in seen:
                seen[kind] += sum(mine[kind])
    assert seen["ties"] > 500 and seen["cut"] > 100, f"the settings must be hard ones, got {seen}"


def test_every_step_of_mixing_equals_sinkhorn(opened):
    config, generator = Config.flash(), torch.Generator().manual_seed(5)
    spread = torch.rand(SETTINGS, 1, 1, generator=generator) * 4
    logits = (torch.randn(SETTINGS, 4, 4, generator=generator) * spread).clamp(-10, 10).double()
    found = batch(opened("mixing"), "mixing", "m.sinkhorn(s, data.rounds, data.eps)", logits.tolist())
    found = torch.tensor(found, dtype=torch.float64)
    assert found.shape == (SETTINGS, 2 * config.hc_sinkhorn_iters, 4, 4)
    for rounds in range(1, config.hc_sinkhorn_iters + 1):
        columns = sinkhorn_plain(logits, rounds, config.hc_eps)
        torch.testing.assert_close(found[:, 2 * rounds - 1], columns, rtol=1e-12, atol=0)
        if rounds < config.hc_sinkhorn_iters:
            rows = columns / (columns.sum(-1, keepdim=True) + config.hc_eps)
            torch.testing.assert_close(found[:, 2 * rounds], rows, rtol=1e-12, atol=0)
    torch.testing.assert_close(found[:, 0], logits.softmax(-1) + config.hc_eps, rtol=1e-12, atol=0)


def test_capacity_equals_the_packages(opened):
    budgets, settings = models.model_budgets(), []
    for seed in range(SETTINGS):
        rng = random.Random(seed)
        name = rng.choice(list(budgets))
        context, sessions, memory = (int(10 ** rng.uniform(0, top)) for top in (8, 5, 15))
        settings.append([name, groups(budgets[name]), budgets[name].constant_bytes, context, sessions, memory])
    plain = "([key, value]) => [key, typeof value === 'bigint' ? String(value) : value]"  # JSON knows no BigInt
    call = f"Object.fromEntries(Object.entries(m.capacity(...s.slice(1))).map({plain}))"
    found = batch(opened("capacity"), "capacity", call, settings)
    for (name, *_, context, sessions, memory), js in zip(settings, found, strict=True):
        fit = capacity(budgets[name], context=context, sessions=sessions, memory=memory)
        expected = [fit.growing_bytes, fit.session_bytes, fit.total_bytes, fit.spare_bytes, fit.max_sessions, fit.max_context]
        assert [int(js[k]) for k in ("growing", "session", "total", "spare", "sessions", "context")] == expected, (name, context)
        assert js["fits"] == fit.fits


def test_sizes_are_read_as_the_package_reads_them(opened):
    rng = random.Random(3)
    texts = ["1M", "1Mi", "141GB", "1.5MiB", "1.3", "0", "1e6", "", "-1", "1 GB", "1  GB", "1_000k", "9" * 41, "10.0", "1TiBB"]
    for _ in range(SETTINGS):
        parts = (["", "0", "_"], [str(rng.randint(0, 10 ** rng.randint(0, 19)))], ["", ".5", ".25", ".001", "."], ["", " "],
                 [*TOKEN_UNITS, *BYTE_UNITS, "gb"])  # fmt: skip
        texts.append("".join(rng.choice(part) for part in parts))
    call = "((units) => { try { return String(m.parseSize(s, 'x', data[units], data.largest)); } catch { return ''; } })"
    page = opened("capacity")
    for key, units in (("token_units", TOKEN_UNITS), ("byte_units", BYTE_UNITS)):
        for text, js in zip(texts, batch(page, "capacity", f"{call}('{key}')", texts), strict=True):
            try:
                expected = str(parse_size(text, "x", units))
            except ValueError:
                expected = ""
            assert js == expected, (text, key)


# -- every explorer ---------------------------------------------------------------------------------------------------------


@NAMES
def test_own_code_is_small_and_imports_nothing(name):
    script, style = classic_script(ROOT / WIDGETS, name), page_style(ROOT / WIDGETS, name)
    sizes = [len(gzip.compress(text.encode(), mtime=0)) for text in (script, style)]
    print(f"{name}: {sizes[0]} B script, {sizes[1]} B style, gzipped")
    assert sum(sizes) <= GZIPPED
    assert not any(word in script for word in ("fetch(", "XMLHttpRequest", "import(", "eval(", "innerHTML"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@NAMES
def test_pages_are_clean_in_both_schemes_and_on_phones(browser, home, name, scheme):
    context = context_for(browser, scheme)
    visit = look(context, home, address(name))
    context.close()
    assert (visit.outside, visit.complaints, visit.axe, visit.sticking_out) == ([], [], [], [])


@NAMES
def test_without_javascript_a_table_says_it(browser, home, name):
    context = browser.new_context(java_script_enabled=False, viewport={"width": 320, "height": 700})
    page = context.new_page()
    page.goto(home + address(name))
    assert page.locator(".course-table table").is_visible() and page.locator(".fx").count() == 0
    says = {"ladder": "890", "fp4": "f7 66 45", "mixing": "after 20 rounds", "capacity": "Not counted"}[name]
    assert says in page.locator(".course-table").inner_text()
    context.close()


@NAMES
def test_page_works_from_the_disk(context, book, name):
    visit = Visit()
    page = open_page(context, book.site.as_uri() + "/", address(name), visit)
    assert page.locator(".fx").is_visible() and visit.complaints == []


CONTROLS = """() => [...document.querySelectorAll(".fx :is(button, input, select)")]
  .filter((e) => !e.disabled && e.checkVisibility())"""
UNMARKED = """() => { window.unmarked = []; document.addEventListener("focusin", ({ target }) => {
  const style = getComputedStyle(target);
  if (target.closest(".fx") && style.outlineStyle === "none") window.unmarked.push(target.dataset.key); }); }"""


@NAMES
def test_tab_reaches_every_control_in_reading_order_with_visible_focus_and_a_name(opened, name):
    page = opened(name)
    page.evaluate(UNMARKED)
    expected = page.evaluate(f"{CONTROLS}.map((e) => e.dataset.key)")
    assert len(set(expected)) == len(expected) > 7
    keyed(page, expected[0]).focus()
    order = [focused(page)]
    while len(order) < len(expected):
        page.keyboard.press("Tab")
        order.append(focused(page))
    assert order == expected and page.evaluate("() => window.unmarked") == []
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.closest('.fx')") is None, "no trap"
    names = page.evaluate(f"{CONTROLS}.map((e) => e.getAttribute('aria-label') || e.labels?.[0]?.textContent || e.textContent)")
    assert all(text.strip() for text in names) and len(set(names)) > len(names) - 3, names
    resize(page, 320)
    narrow = page.evaluate(f"{CONTROLS}.filter((e) => e.type !== 'range').map((e) => e.getBoundingClientRect().top + scrollY)")
    assert all(b >= a - 4 for a, b in zip(narrow, narrow[1:], strict=False)), "on a phone the order runs down the page"


@NAMES
def test_targets_are_large_enough_for_a_finger(browser, home, name):
    context = browser.new_context(viewport={"width": 320, "height": 700}, has_touch=True, is_mobile=True)
    page = open_page(context, home, address(name), Visit())
    small = f"{CONTROLS}.filter((e) => e.type !== 'checkbox' && Math.min(e.offsetWidth, e.offsetHeight) < 24)"
    assert page.evaluate(f"{small}.map((e) => e.dataset.key)") == []
    page.locator(FIRST).first.tap()
    assert page.evaluate(STICKS_OUT) == []
    context.close()


@NAMES
def test_forced_colours_and_paper(opened, name):
    """State stays visible in forced colours; paper shows the result and the table, and no controls."""
    page = opened(name)
    page.emulate_media(forced_colors="active")
    pressed = page.locator(".fx button[aria-pressed=true]")
    outlines = pressed.evaluate_all("(all) => all.map((e) => getComputedStyle(e).outlineStyle)")
    assert set(outlines) <= {"solid"}
    resize(page, 718, 1000)
    page.emulate_media(media="print", forced_colors="none", color_scheme="light")
    assert page.locator(".course-table").is_visible()
    assert page.locator(".fx :is(button, .fx-dial input):visible").count() == 0
    assert page.evaluate(CUT_OFF) == []
    assert page.pdf(format="A4").startswith(b"%PDF")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_other_states_are_clean_for_axe(browser, home, scheme):
    context = context_for(browser, scheme)
    for name, keys in {"ladder": ["rung-mha"], "fp4": ["huge"], "mixing": ["crowd", "next"], "capacity": ["weights"]}.items():
        page = open_page(context, home, address(name), Visit())
        page.evaluate(AXE)
        for key in keys:
            keyed(page, key).click()
        page.mouse.move(1, 1)
        resize(page, 1280)
        assert page.evaluate(RUN_AXE, "all") == [], name
        page.close()
    context.close()


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


@NAMES
def test_in_a_notebook_presses_reach_python_and_python_moves_the_picture(context, tmp_path, monkeypatch, name):
    monkeypatch.setenv("FLASH41_STATIC", "1")
    text = re.search(r'<script type="application/json">(.*?)</script>', SHOW[name]()._repr_html_())[1]
    (tmp_path / f"{name}.js").write_text(source(name, "js"), encoding="utf-8")
    (tmp_path / "live.html").write_text(LIVE.replace("STATE", text).replace("NAME", name), encoding="utf-8")
    changes = {
        "ladder": ("settings", json.loads(text).get("settings", {}) | {"format": "fp8", "index": "fp8"}, "1,650"),
        "fp4": ("values", [6.5] * 16, "6.5"),
        "mixing": ("step", 7, "Step 7 of 39"),
        "capacity": ("sessions", 158, "Does not fit"),
    }
    with served(tmp_path) as home:
        visit = Visit()
        page = open_page(context, home, "live.html", visit)
        page.locator(FIRST).first.click()
        assert page.evaluate("() => window.saved") > 0
        page.evaluate("() => window.dispose()")
        assert page.evaluate("() => window.listening()") == 0
        page.reload()
        key, value, says = changes[name]
        page.evaluate("([key, value]) => window.model.set(key, value)", [key, value])
        assert says in page.locator(".fx").inner_text()
        assert visit.complaints == []


# -- each one: click, type, tab, drag -------------------------------------------------------------------------------------------


def test_ladder_by_click_type_and_drag(opened):
    page = opened("ladder")
    big = page.locator(".fx-big")
    assert big.inner_text() == "890 bytes per token" and keyed(page, "rung-index").get_attribute("aria-pressed") == "true"
    prices = {"mha": "5,242,880", "mqa": "81,920", "latent": "40,960", "sources": "4,096", "pairs": "2,560", "fp4": "720"}
    for rung, price in prices.items():
        keyed(page, f"rung-{rung}").click()
        assert big.inner_text() == f"{price} bytes per token", rung
    keyed(page, "index-fp4").press("Enter")
    assert big.inner_text() == "890 bytes per token"
    field = keyed(page, "storing-field")
    field.fill("38")
    field.press("Enter")
    assert "(288 B entry + 68 B index key) × 36.5" in page.locator(".fl-sum").inner_text()
    field.fill("41")
    field.press("Tab")
    assert "a whole number from 1 to 40" in page.locator(".fx-error:visible").inner_text()
    assert field.get_attribute("aria-invalid") == "true" and state(page, "settings")["storing"] == 38
    keyed(page, "DeepSeek LLM 67B").click()
    assert big.inner_text() == "389,120 bytes per token" and page.locator(".fx-error:visible").count() == 0
    keyed(page, "kv_heads").press("ArrowRight")
    assert state(page, "settings")["kv_heads"] == 16
    keyed(page, "kv_heads-field").fill("7")
    keyed(page, "kv_heads-field").press("Enter")
    assert "must divide the 64 query heads" in page.locator(".fx-error:visible").inner_text()
    drag(page, keyed(page, "context"), 1.0)
    assert state(page, "settings")["context"] == 10**7 and "10,000,000 tokens" in page.locator(".fx-out").inner_text()


def test_fp4_by_click_type_and_drag(opened):
    page = opened("fp4")
    assert page.locator(".ff-card").first.inner_text().count("11 on a tie") == 1
    keyed(page, "five").click()
    text = page.locator(".ff-card").first.inner_text()
    assert "0.8125" in text and "byte 35" in text and "1 cut off" in text
    assert "5 comes back as 4.875" in page.locator(".ff-said").inner_text()
    drag(page, keyed(page, "v3"), 0.95, upright=True)
    dragged = state(page, "values")[3]
    assert 6 < dragged <= 8 and "Channel 3" in page.locator(".ff-chain caption").inner_text()
    drag(page, keyed(page, "v9"), 0.02, upright=True)
    assert state(page, "values")[9] < -6
    before = state(page, "values")[9]
    keyed(page, "v9").press("ArrowUp")
    assert state(page, "values")[9] == before + 0.125
    keyed(page, "value").fill("0.75")
    keyed(page, "value").press("Enter")
    assert state(page, "values")[9] == 0.75
    keyed(page, "value").fill("a lot")
    keyed(page, "value").press("Tab")
    assert keyed(page, "value").get_attribute("aria-invalid") == "true" and state(page, "values")[9] == 0.75
    keyed(page, "huge").click()
    assert "at its end, 448" in page.locator(".ff-said").inner_text()
    keyed(page, "zero").click()
    assert "byte 01" in page.locator(".ff-card").first.inner_text()
    keyed(page, "gauss").click()
    fine = page.locator(".ff-card").first.inner_text()
    coarse = page.locator(".ff-card").nth(1).inner_text()
    keyed(page, "neighbor").press("End")
    assert page.locator(".ff-card").first.inner_text() == fine and page.locator(".ff-card").nth(1).inner_text() != coarse


def test_mixing_by_click_type_and_drag(opened):
    page = opened("mixing")
    assert "softmax of each row" in page.locator(".fi-mix caption").inner_text() and keyed(page, "back").is_disabled()
    keyed(page, "next").click()
    assert "columns divided" in page.locator(".fi-mix caption").inner_text()
    assert page.locator(".fi-mix tfoot td.fi-done").all_inner_texts() == ["1.0000"] * 4
    keyed(page, "step").press("ArrowRight")
    assert "rows divided" in page.locator(".fi-mix caption").inner_text()
    drag(page, keyed(page, "step"), 1.0)
    assert state(page, "step") == 39 and keyed(page, "next").is_disabled()
    keyed(page, "keep").click()
    first = page.locator(".fi-cell").first.inner_text()
    keyed(page, "l00").fill("-3")
    assert state(page, "logits")[0][0] == -3 and page.locator(".fi-cell").first.inner_text() != first
    keyed(page, "l00").fill("99")
    assert keyed(page, "l00").get_attribute("aria-invalid") == "true" and state(page, "logits")[0][0] == -3


def test_capacity_by_click_type_and_drag(opened):
    page = opened("capacity")
    result = page.locator(".fx-out")
    assert "Fits" in result.inner_text() and "157" in result.inner_text()
    for typed, says in (("158", "Does not fit"), ("157", "Fits")):
        keyed(page, "sessions-field").fill(typed)
        keyed(page, "sessions-field").press("Enter")
        assert says in result.inner_text()
    keyed(page, "context-field").fill("1Mi")
    keyed(page, "context-field").press("Tab")
    assert state(page, "context") == 2**20 and keyed(page, "context-field").input_value() == "1,048,576"
    keyed(page, "memory-field").fill("lots")
    keyed(page, "memory-field").press("Tab")
    assert "a number, alone or with one of B, kB" in page.locator(".fx-error:visible").inner_text()
    assert state(page, "memory") == 141 * 10**9
    keyed(page, "weights").check()
    assert "The weights alone need 510.3 GB" in result.inner_text()
    drag(page, keyed(page, "memory"), 1.0)
    assert "weights 510.3 GB" in result.inner_text() and "Fits" in result.inner_text()
    keyed(page, "model").select_option("DeepSeek-V3")
    assert not keyed(page, "weights").is_visible() and state(page, "weights") is False
    assert "multi-token-prediction layers" in page.locator(".fc-missing").inner_text()
    drag(page, keyed(page, "sessions"), 0.0)
    assert state(page, "sessions") == 1


@pytest.mark.parametrize("width", PHONES)
@NAMES
def test_far_settings_fit_a_phone(opened, name, width):
    page = opened(name)
    far = {"ladder": ["rung-mha", "DeepSeek LLM 67B"], "fp4": ["huge", "tiny"], "mixing": ["hard"], "capacity": ["weights"]}
    resize(page, width)
    for key in far[name]:
        keyed(page, key).click()
        assert page.evaluate(STICKS_OUT) == [], key


def test_prices_are_exact_fractions():
    """Also where three tokens share an entry; the page shows the float that is nearest."""
    bill = ladder_budget(some_settings(random.Random(1)) | dict(layers=7, storing=7, pooling=7, tokens=3))
    assert bill.slope == Fraction(7 * (bill.layers[0].entry_bytes + bill.layers[0].index_bytes), 3)
