"""Opens pages of a built site in Chromium and notes what a reader would run into."""
from __future__ import annotations

import functools
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

INSTALL = "sudo apt-get install -y chromium"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]
DESKTOP = 1280
PHONES = (375, 320)
AXE = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
# axe needs seconds for every thousand elements. Of the code, one word in each colour is enough; of the figures, what can
# be read: axe does not judge shapes.
THIN_OUT = """() => {
  const seen = new Set();
  for (const e of document.querySelectorAll("article .highlight span:not(:has(*)), article svg text, article svg tspan")) {
    const style = getComputedStyle(e), look = [e.tagName, style.color, style.fill, style.fontWeight, style.opacity].join();
    if (seen.has(look)) e.replaceWith(...e.childNodes);
    seen.add(look);
  }
  for (const e of document.querySelectorAll("article svg :is(path, line, rect, circle, polyline, polygon, use)")) e.remove();
}"""
RUN_AXE = """async (what) => {
  const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
  const options = what === "colours" ? { runOnly: { type: "rule", values: ["color-contrast"] } }
    : { runOnly: tags, rules: { "color-contrast": { enabled: what === "all" } } };
  const result = await axe.run(document, { ...options, resultTypes: ["violations"], preload: false });
  return result.violations.filter((v) => ["serious", "critical"].includes(v.impact)).map((v) =>
    `${v.id} (${v.impact}) x${v.nodes.length}: ` + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160)).join(" | "));
}"""
# What sticks out of the window and cannot be scrolled into view within its own box.
STICKS_OUT = """() => {
  const width = document.documentElement.clientWidth, found = [];
  if (document.documentElement.scrollWidth > width) found.push(`the page is ${document.documentElement.scrollWidth} px wide`);
  const scrolls = (e) => e && e !== document.body && e.tagName !== "ARTICLE" &&
    (["auto", "scroll"].includes(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
  for (const e of document.querySelectorAll("article *")) {
    const box = e.getBoundingClientRect();
    if (box.width > 1 && box.right > width + 1 && !e.closest("mjx-assistive-mml") && !scrolls(e))
      found.push(`${e.outerHTML.slice(0, 120)} ends at ${Math.round(box.right)} px`);
  }
  return found.slice(0, 4);
}"""
# On paper nothing scrolls: whatever is wider than its box is lost.
CUT_OFF = """() => [...document.querySelectorAll("article, article *")]
  .filter((e) => !e.closest("mjx-assistive-mml") && e.clientWidth > 1 && (e.getBoundingClientRect().right > innerWidth + 1 ||
    e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX !== "visible"))
  .map((e) => `${e.outerHTML.slice(0, 120)} needs ${e.scrollWidth} px of ${e.clientWidth}`).slice(0, 4)"""
SIDE = ".bd-sidebar-primary, .bd-sidebar-secondary, .bd-header-article, .bd-header, .prev-next-area"
PAPER = (718, 1000)  # A4 between margins of 1 cm
SHOWN = "(s) => [...document.querySelectorAll(s)].filter((e) => e.checkVisibility()).map((e) => `${e.className} is shown`)"
DARK = "() => { document.documentElement.dataset.theme = document.documentElement.dataset.mode = 'dark'; }"
SETTLED = """async () => {
  await document.fonts.ready;
  if (window.MathJax?.startup?.promise) await window.MathJax.startup.promise;
}"""


def chromium() -> str | None:
    """The browser to drive: $CHROMIUM, else the first one on PATH, else None."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)


@contextmanager
def running_browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        yield browser
        browser.close()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def served(site: Path) -> Iterator[str]:
    """Serves a folder on a free local port; yields the address, with a slash at its end."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@dataclass
class Visit:
    """What one visit of one page showed; every list is empty on a good page."""

    outside: list[str] = field(default_factory=list)      # requests to anywhere but the site itself
    complaints: list[str] = field(default_factory=list)   # console errors and warnings, script errors, answers from 400 on
    axe: list[str] = field(default_factory=list)          # serious and critical findings, in light
    axe_dark: list[str] = field(default_factory=list)     # colours that are too close to each other in dark
    sticking_out: list[str] = field(default_factory=list)
    cut_off: list[str] = field(default_factory=list)      # what paper loses, and navigation that it shows
    raw_math: int = 0                                     # formulas that MathJax did not draw
    bytes: int = 0                                        # everything the page loaded


def _watch(context: BrowserContext, base: str, visit: Visit) -> Page:
    page = context.new_page()

    def route(route) -> None:
        url = route.request.url
        if url.startswith((base, "data:", "blob:")):
            route.continue_()
        else:
            visit.outside.append(url)
            route.abort()

    def response(response) -> None:
        visit.bytes += int(response.headers.get("content-length", 0))
        if response.status >= 400:
            visit.complaints.append(f"{response.status} {response.url}")

    def console(message) -> None:
        if message.type in ("error", "warning"):
            visit.complaints.append(f"{message.type}: {message.text[:300]}")

    page.route("**/*", route)
    page.on("response", response)
    page.on("console", console)
    page.on("pageerror", lambda error: visit.complaints.append(f"script error: {str(error)[:300]}"))
    return page


def open_page(context: BrowserContext, base: str, path: str, visit: Visit) -> Page:
    """Opens a page and waits until its fonts and formulas stand."""
    page = _watch(context, base, visit)
    page.goto(base + path, wait_until="load")
    page.evaluate(SETTLED)
    visit.raw_math = page.evaluate(
        "() => [...document.querySelectorAll('.math')].filter((e) => !e.querySelector('mjx-container')).length")
    return page


def resize(page: Page, width: int, height: int = 900) -> None:
    """Another window size, and the time that the page takes to follow: two frames and every transition."""
    page.set_viewport_size({"width": width, "height": height})
    page.evaluate("""async () => {
      for (let i = 0; i < 2; i++) await new Promise(requestAnimationFrame);
      await Promise.allSettled(document.getAnimations().map((animation) => animation.finished));
      for (let i = 0; i < 2; i++) await new Promise(requestAnimationFrame);
    }""")


def look(context: BrowserContext, base: str, path: str, judged: bool = True) -> Visit:
    """One visit, in light: load, the widths of two phones, paper; `judged` adds axe, which takes most of the time: on the smaller
    phone, with colours on a desktop, and, after the theme's switch, the colours in dark."""
    visit = Visit()
    page = open_page(context, base, path, visit)
    for width in PHONES:
        resize(page, width)
        visit.sticking_out += [f"at {width} px: {text}" for text in page.evaluate(STICKS_OUT)]
    page.emulate_media(media="print")
    resize(page, *PAPER)
    visit.cut_off = page.evaluate(CUT_OFF) + page.evaluate(SHOWN, SIDE)
    if not judged:
        page.close()
        return visit
    page.emulate_media(media="screen")
    resize(page, PHONES[-1])
    page.evaluate(AXE)
    page.evaluate(THIN_OUT)
    visit.axe = [f"at {PHONES[-1]} px: {text}" for text in page.evaluate(RUN_AXE, "all but colours")]
    resize(page, DESKTOP)
    visit.axe += page.evaluate(RUN_AXE, "all")
    page.emulate_media(color_scheme="dark")
    page.evaluate(DARK)
    resize(page, DESKTOP)
    visit.axe_dark = page.evaluate(RUN_AXE, "colours")
    page.close()
    return visit


def context_for(browser: Browser, scheme: str) -> BrowserContext:
    """A desktop window whose reader prefers light or dark, as system setting and as the theme's own switch."""
    context = browser.new_context(viewport={"width": DESKTOP, "height": 900}, color_scheme=scheme)
    context.set_default_timeout(120_000)  # ms; two busy cores are slow, not broken
    context.add_init_script(f"try {{ localStorage.mode = localStorage.theme = '{scheme}' }} catch {{}}")
    return context
