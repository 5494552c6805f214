"""What an HTML page loads, links to and shows: the raw material of tools/check_site.py."""
from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

LOADING_ATTRIBUTES = {
    "script": ("src",), "img": ("src", "srcset"), "iframe": ("src",), "source": ("src", "srcset"), "video": ("src", "poster"),
    "audio": ("src",), "track": ("src",), "embed": ("src",), "object": ("data",), "input": ("src",),
    "image": ("href", "xlink:href"), "use": ("href", "xlink:href"),
}
LINK_RELATIONS_THAT_LOAD = {
    "stylesheet", "icon", "shortcut", "apple-touch-icon", "manifest", "preload", "modulepreload", "prefetch", "preconnect",
    "dns-prefetch", "prerender",
}
CSS_ADDRESS = re.compile(r"""url\(\s*["']?([^"')]+)|@import\s+["']([^"']+)""")


def css_addresses(css: str) -> list[str]:
    """Every address in url(…) or @import."""
    return [first or second for first, second in CSS_ADDRESS.findall(css)]


@dataclass
class Picture:
    """An <img>, or an <svg> inside the article, with its name for those who cannot see it."""

    source: str
    alternative: str | None
    decorative: bool = False


@dataclass
class Page:
    """What one page holds; filled by read_page."""

    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.page = Page()
        self.inside: list[str] = []  # open elements among those below, which decide how the rest is read

    TRACKED = ("article", "svg", "style")

    def handle_starttag(self, tag: str, attrs: list) -> None:
        a = {name: value or "" for name, value in attrs}
        self._collect_addresses(tag, a)
        if tag == "img":
            hidden = a.get("aria-hidden") == "true" or a.get("role") == "presentation"
            self.page.pictures.append(Picture(a.get("src", ""), a.get("alt"), hidden))
        elif tag == "svg" and "article" in self.inside and "svg" not in self.inside:
            name = a.get("aria-label") or a.get("aria-labelledby")
            self.page.pictures.append(Picture("an inline <svg>", name, a.get("aria-hidden") == "true"))
        elif tag == "title" and self.inside[-1:] == ["svg"]:
            self.page.pictures[-1].alternative = self.page.pictures[-1].alternative or "title"
        if tag in self.TRACKED:
            self.inside.append(tag)

    def _collect_addresses(self, tag: str, a: dict[str, str]) -> None:
        page = self.page
        page.ids |= {a[key] for key in ("id", "name") if a.get(key) and (key == "id" or tag == "a")}
        if tag in ("a", "area") and a.get("href"):
            page.links.append(a["href"])
        if tag == "meta" and a.get("http-equiv", "").lower() == "refresh" and "url=" in a.get("content", ""):
            page.links.append(a["content"].split("url=", 1)[1])
        if tag == "link" and LINK_RELATIONS_THAT_LOAD & set(a.get("rel", "").lower().split()):
            page.loads.append(a.get("href", ""))
        for name in LOADING_ATTRIBUTES.get(tag, ()):
            if a.get(name) and name == "srcset":
                page.loads += [part.split()[0] for part in a[name].split(",") if part.strip()]
            elif a.get(name):
                page.loads.append(a[name])
        page.loads += css_addresses(a.get("style", ""))

    def handle_startendtag(self, tag: str, attrs: list) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.inside[-1:] == [tag]:
            self.inside.pop()

    def handle_data(self, data: str) -> None:
        if self.inside[-1:] == ["style"]:
            self.page.loads += css_addresses(data)


def read_page(html: str) -> Page:
    reader = _Reader()
    reader.feed(html)
    return reader.page
