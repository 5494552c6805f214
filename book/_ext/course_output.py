"""What the built site needs beside its pages: static controls, lighter scripts, files that GitHub Pages looks for."""
from __future__ import annotations

import hashlib
import os
from html import escape
from pathlib import Path
from urllib.parse import urlparse

from sphinx.application import Sphinx
from sphinx.config import Config

NOT_FOUND = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Page not found · {title}</title>
<style>
  body {{ font: 1.1rem/1.6 system-ui, sans-serif; max-width: 34rem; margin: 20vh auto; padding: 0 1.25rem; }}
  h1 {{ font-size: 1.6rem; }}
  body {{ background: #fff; color: #1f2733; }}
  a {{ color: #0b5fb0; }}
  @media (prefers-color-scheme: dark) {{
    body {{ background: #14181f; color: #dfe5ec; }}
    a {{ color: #84bdf7; }}
  }}
</style>
</head>
<body>
<main>
<h1>There is no page at this address</h1>
<p>The page may have moved. <a href="{home}">Start at the first page of {title}</a>, or use the search there.</p>
</main>
</body>
</html>
"""


def pages_address(repository: str) -> str:
    """https://github.com/owner/name -> https://owner.github.io/name/ (GitHub serves 404.html at any depth)."""
    owner, name = urlparse(repository).path.strip("/").split("/")[:2]
    return f"https://{owner.lower()}.github.io/{name}/"


def finish(app: Sphinx, error: Exception | None) -> None:
    if error is not None or app.builder.format != "html":
        return
    out = Path(app.outdir)
    # 1.45 MB that redraws icons which the theme's web fonts already draw, and breaks widgets on the way.
    for script in (out / "_static/scripts").glob("fontawesome.js*"):
        script.write_text("", encoding="utf-8")
    for source_map in (out / "_static").rglob("*.map"):
        source_map.unlink()
    (out / ".nojekyll").touch()  # GitHub would otherwise drop every folder that begins with an underscore
    home = pages_address(app.config.html_theme_options["repository_url"])
    page = NOT_FOUND.format(title=escape(app.config.html_title), home=escape(home))
    (out / "404.html").write_text(page, encoding="utf-8")


def digest_style(app: Sphinx, config: Config) -> None:
    """Sphinx copies no changed style or script unless a page changes too; a setting that changes rewrites every page."""
    folders = ("book/_static", "labs/flash41/course/widgets")
    files = sorted(path for folder in folders for path in (Path(app.srcdir) / folder).glob("*.*") if path.suffix != ".py")
    config.course_style = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def setup(app: Sphinx) -> dict:
    os.environ["FLASH41_STATIC"] = "1"  # inherited by every kernel: controls() then draws its static figure
    app.add_config_value("course_style", "", "html")
    app.connect("config-inited", digest_style)
    app.connect("build-finished", finish)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
