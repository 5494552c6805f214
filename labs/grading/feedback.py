"""A page per student: the checks, their points, what was wrong. It loads nothing, and shows no source but the student's own."""

from __future__ import annotations

from html import escape
from pathlib import Path

from flash41.course.checks.signatures import step

from .files import Submission
from .marking import Mark, Result

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem; }
h2 { font-size: 1.1rem; margin: 1.6rem 0 .3rem; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; border-left: 4px solid; padding: .2rem .8rem; margin: .3rem 0; }
.right { border-color: #1a7f4b; } .wrong { border-color: #b3541e; }
"""
HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title><style>{style}</style></head>
<body>
"""
EXPLAINED = """<p>The first checks are those of your notebook. The hidden ones ask the same with other sizes and other numbers.
A function gets its points when it passes both.</p>"""


def page(label: str, submission: Submission, result: Result) -> str:
    """The feedback as HTML. Everything that a student wrote is escaped."""
    late, when = " (late)" if submission.late else "", f"{submission.handed_in:%Y-%m-%d %H:%M}"
    title = f"Step {label} · {step(label).title}"
    parts = [f"<h1>{escape(title)}</h1>",
             f"<p>{escape(submission.student)}, {escape(submission.name)}, handed in {when}{late}</p>",
             f"<p><strong>{result.points} of {result.most} points</strong></p>"]  # fmt: skip
    if not any(mark.text for mark in result.marks):
        parts.append(f"<p>Your file {escape(result.reason)}.</p>" if result.reason else "")
    parts += [section(mark) for mark in result.marks if mark.text]
    parts += [f"<p>Note: {escape(note)}.</p>" for note in result.notes]
    parts.append(EXPLAINED)
    return HEAD.format(title=escape(title), style=STYLE) + "\n".join(parts) + "\n</body></html>\n"


def section(mark: Mark) -> str:
    kind = "right" if mark.points else "wrong"
    name = escape(mark.check.partition(".")[2])
    return f'<h2>{name}: {mark.points} of {mark.most}</h2>\n<pre class="{kind}">{escape(mark.text)}</pre>'


def write_pages(folder: Path, label: str, rows: list[tuple[Submission, Result]]) -> None:
    """feedback/<student>.html for the file that counts."""
    folder.mkdir(parents=True, exist_ok=True)
    for submission, result in rows:
        if "~" not in submission.key:
            (folder / f"{submission.key}.html").write_text(page(label, submission, result), encoding="utf-8")
