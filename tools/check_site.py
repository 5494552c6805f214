"""Checks the built site without a browser, with the standard library alone.

Usage: python tools/check_site.py [SITE [CHECKOUT]]. Prints what is wrong and exits with 1 if anything is: loads from
another host, dead links, missing anchors, pictures nobody can hear about, launch links to nothing, another repository.
"""
from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlparse

sys.path.insert(0, str(Path(__file__).parent))
from site_pages import Page, css_addresses, read_page

LAUNCH = re.compile(r"https://colab\.research\.google\.com/github/([^/]+/[^/]+)/blob/[^/]+/(.+)")
PLACEHOLDER = "OWNER/REPO"


def is_outside(address: str) -> bool:
    return address.startswith("//") or urlparse(address).scheme in ("http", "https", "ws", "wss")


def repository_of(checkout: Path) -> str:
    """owner/name from the one place that holds it, `repository.url` in _config.yml."""
    text = (checkout / "_config.yml").read_text(encoding="utf-8")
    return re.search(r"^repository:\n(?:\s.*\n)*?\s+url:\s*https://github\.com/(\S+)", text, re.M)[1].rstrip("/")


def check_loads(name: str, addresses: list[str]) -> Iterator[str]:
    for address in addresses:
        if is_outside(address):
            yield f"{name}: loads {address} from outside"


def check_targets(site: Path, path: Path, pages: dict[Path, Page]) -> Iterator[str]:
    """Every local link and file of a page exists, and so does its #anchor."""
    name = path.relative_to(site)
    for address in pages[path].links + pages[path].loads:
        if is_outside(address) or urlparse(address).scheme:
            continue
        bare, anchor = urldefrag(address)
        bare = unquote(bare.split("?")[0])
        target = (path.parent / bare).resolve() if bare else path
        if target.is_dir():
            target /= "index.html"
        if not target.is_file() or not target.is_relative_to(site):
            yield f"{name}: dead link {address}"
        elif anchor and target in pages and unquote(anchor) not in pages[target].ids | {"top"}:
            yield f"{name}: no anchor #{anchor} in {target.relative_to(site)}"


def check_pictures(name: str, page: Page) -> Iterator[str]:
    """A picture is decorative or has words; a file name (what Sphinx writes for want of words) is none."""
    for picture in page.pictures:
        words = (picture.alternative or "").strip()
        if not picture.decorative and (not words or re.search(r"\.(png|svg|jpe?g|gif|webp)$", words)):
            yield f"{name}: no alternative text for {picture.source}"


def check_launch(name: str, page: Page, checkout: Path) -> Iterator[str]:
    """The page of a notebook has a launch link, and every launch link leads to a notebook of this repository."""
    found = [LAUNCH.match(link) for link in page.links]
    for match in filter(None, found):
        if not match[2].endswith(".ipynb") or not (checkout / unquote(match[2])).is_file():
            yield f"{name}: launch link to {match[2]}, which does not exist"
        if match[1] != repository_of(checkout):
            yield f"{name}: launch link into {match[1]}, the repository is {repository_of(checkout)}"
    if (checkout / name).with_suffix(".ipynb").is_file() and not any(found):
        yield f"{name}: the page of a notebook has no launch link"


def check_site(site: Path, checkout: Path) -> list[str]:
    """All problems of the built site, one line each."""
    site = site.resolve()
    paths = [path for path in sorted(site.rglob("*.html")) if "_static" not in path.relative_to(site).parts]
    texts = {path: path.read_text(encoding="utf-8") for path in paths}
    pages = {path: read_page(text) for path, text in texts.items()}
    problems = [] if pages else [f"{site}: no pages"]
    for path, page in pages.items():
        name = path.relative_to(site).as_posix()
        problems += [*check_loads(name, page.loads), *check_targets(site, path, pages), *check_pictures(name, page)]
        problems += check_launch(name, page, checkout)
        if PLACEHOLDER in texts[path] and repository_of(checkout) != PLACEHOLDER:
            problems.append(f"{name}: still names {PLACEHOLDER}")
    for path in sorted(site.rglob("*.css")):
        problems += check_loads(path.relative_to(site).as_posix(), css_addresses(path.read_text(encoding="utf-8")))
    return problems


def main() -> int:
    site, checkout = (Path(argument) for argument in (sys.argv[1:] + ["_build/html", "."][len(sys.argv) - 1 :])[:2])
    problems = check_site(site, checkout)
    print("\n".join([*problems, f"{len(problems)} problems"]))
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
