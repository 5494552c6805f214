"""The book in a real browser: every page in light and dark, on phones, by keyboard, on paper, from the disk."""
from __future__ import annotations

from pathlib import Path

import pytest

from visiting import CUT_OFF, INSTALL, PAPER, SIDE, Visit, chromium, context_for, open_page, resize

# Marks what takes the focus, and notes what in the article shows no sign of having it.
FOLLOW_FOCUS = """() => {
  window.unmarked = [];
  document.addEventListener("focusin", ({ target }) => {
    target.dataset.reached = "yes";
    const marked = [null, "::after"].map((part) => getComputedStyle(target, part))
      .some((style) => style.outlineStyle !== "none" || style.boxShadow !== "none");
    if (target.closest("article") && !marked) window.unmarked.push(target.outerHTML.slice(0, 120));
  });
}"""
# A group of radio buttons takes one Tab; arrows walk inside it.
NOT_REACHED = """() => {
  const groups = new Set([...document.querySelectorAll("input[type=radio][data-reached]")].map((e) => e.name));
  const wanted = "article a[href], article button, article summary, article select, article input, article [tabindex='0']";
  return [...document.querySelectorAll(wanted)]
    .filter((e) => e.checkVisibility({ visibilityProperty: true }) && !e.disabled && e.tabIndex >= 0)
    .filter((e) => !e.dataset.reached && !(e.type === "radio" && groups.has(e.name)))
    .map((e) => e.outerHTML.slice(0, 120));
}"""

RADIO_GROUPS = "() => [...new Set([...document.querySelectorAll('article input[type=radio]')].map((e) => e.name))]"
NOTE_PRINTED_GROUND = """() => addEventListener("beforeprint", () => {
  window.printedGround = getComputedStyle(document.body).backgroundColor;
})"""


def test_a_browser_is_installed():
    if chromium() is None:
        pytest.fail(f"no Chromium found. Type: {INSTALL}", pytrace=False)
    assert Path(chromium()).exists(), f"CHROMIUM names {chromium()}, which does not exist"


def test_no_request_leaves_the_page(visited, address):
    assert visited(address).outside == []


def test_console_is_silent(visited, address):
    assert visited(address).complaints == []


def test_axe_finds_nothing_serious(visited, kind):
    assert visited(kind, judged=True).axe == []


def test_colours_hold_in_dark(visited, kind):
    assert visited(kind, judged=True).axe_dark == []


def test_phones_need_no_sideways_scroll(visited, address):
    assert visited(address).sticking_out == []


def test_paper_loses_nothing(visited, address):
    assert visited(address).cut_off == []


def test_formulas_are_drawn(visited, address):
    assert visited(address).raw_math == 0


@pytest.fixture(scope="module")
def desk(browser):
    context = context_for(browser, "light")
    yield context
    context.close()


def test_page_works_from_the_disk(desk, site, kind):
    visit = Visit()
    open_page(desk, site.as_uri() + "/", kind, visit).close()
    assert (visit.outside, visit.complaints, visit.raw_math) == ([], [], 0)


def test_keyboard_reaches_everything(desk, base, kind):
    page = open_page(desk, base, kind, Visit())
    page.evaluate(FOLLOW_FOCUS)
    presses = page.evaluate("() => document.querySelectorAll('a, button, input, select, summary, [tabindex]').length") + 5
    for _ in range(presses):
        page.keyboard.press("Tab")
    assert page.evaluate(NOT_REACHED) == []
    assert page.evaluate("() => window.unmarked") == [], "focus must be visible"
    if kind != "404.html":
        assert page.evaluate("() => document.querySelector('#pst-skip-link a, a.skip-link').dataset.reached") == "yes"
    for group in page.evaluate(RADIO_GROUPS):
        page.locator(f"article input[type=radio][name='{group}']").first.focus()
        page.keyboard.press("ArrowDown")
        second = page.locator(f"article input[type=radio][name='{group}']").nth(1)
        assert second.is_checked(), f"ArrowDown chooses the next answer of {group}"
    page.close()


def test_page_prints(browser, base, kind):
    """From the dark theme, which is the harder case: paper is light, shows no navigation, and cannot be scrolled."""
    context = context_for(browser, "dark")
    page = open_page(context, base, kind, Visit())
    resize(page, *PAPER)
    page.emulate_media(media="print", color_scheme="light")
    assert page.evaluate("(s) => [...document.querySelectorAll(s)].filter((e) => e.checkVisibility()).length", SIDE) == 0
    assert page.evaluate(CUT_OFF) == []
    page.evaluate(NOTE_PRINTED_GROUND)
    assert page.pdf(format="A4").startswith(b"%PDF")
    assert page.evaluate("() => window.printedGround") == "rgb(255, 255, 255)"
    context.close()
