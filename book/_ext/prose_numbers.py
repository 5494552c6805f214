"""Finds every number of three or more digits in the prose of the book and compares it with what the code says.

A number in prose with k decimals is right when some named value, rounded to k decimals, is that very number. Usage:
`python tools/check_numbers.py` checks the whole book. No Sphinx is needed.
"""
from __future__ import annotations

import json
import re
import runpy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

MOST_EXCEPTIONS = 40
DIGITS_THAT_COUNT = 3

GROUP = "(?:,|\\{,\\}|\\\\,|[\u2009\u202f\u00a0])"  # 5,242,880 · 5{,}242{,}880 · 5\,242\,880 · thin and no-break spaces
NUMBER = re.compile(
    rf"(?P<digits>\d{{1,3}}(?:{GROUP}\d{{3}})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?)"
    r"(?:\s*(?:\\times|\\cdot|×|·)\s*10(?:\^\{?(?P<power>[-−]?\d+)\}?|(?P<raised>[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)))?"
)
RAISED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
# What is no prose: each is replaced by blanks, so that places stay the same.
SKIPPED = [
    re.compile(r"\A---\n.*?\n---\n", re.S),               # front matter
    re.compile(r"<!--.*?-->", re.S),
    re.compile(r"</?[A-Za-z][^<>]*>"),                     # tags with their attributes, not the text between them
    re.compile(r"(?<=\])\([^()\s]*(?:\s+\"[^\"]*\")?\)"),  # the address of [text](address)
    re.compile(r"^\s*\[[^\]]+\]:\s*\S+.*$", re.M),         # [label]: address
    re.compile(r"<?(?:https?|mailto)://?[^\s>)\]]+>?"),
    re.compile(r"^\s*:[\w-]+:.*$", re.M),                  # options of a directive
    re.compile(r"arXiv[:\s]*\d{4}\.\d{4,5}(?:v\d+)?", re.I),
    re.compile(r"(?<![\w.])v?\d+\.\d+\.\d+(?:\.\w+)*"),    # versions and section numbers: 3.2.2, §2.3.1
]
FENCE = re.compile(r"^(?P<indent>[ >]*)(?P<fence>`{3,}|~{3,})(?P<info>[^\n]*)\n(?P<body>.*?)^[ >]*(?P=fence)[ \t]*$", re.S | re.M)
PROSE_DIRECTIVES = re.compile(r"\{(?!code|literal|mermaid|eval|raw|toctree|image|include)[\w:-]+\}")
CODE_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.S)
NAME_BEFORE = re.compile(r"(?<!\\)\b[A-Za-z_][\w.:#@-]*\Z")
UNITS = r"(?:[KMGT]i?B|[kKMGTB]|bytes?|bits?|tokens?|ms|us|µs|ns|s|×|x|%)"
PLAIN_SPAN = re.compile(rf"(?:[\d\s.,_+\-*/×·=()%^~≈<>]|(?<=[\d\s]){UNITS}(?![A-Za-z]))+")


@dataclass(frozen=True)
class Found:
    """A number in prose: where it stands, how it is written, what it is worth."""

    place: str
    text: str
    value: Decimal
    step: Decimal  # the worth of its last digit
    around: str  # the text on both sides ...
    offset: int  # ... and where in it the number stands

    @property
    def context(self) -> str:
        return " ".join(self.around.split())

    def says(self, value: Fraction) -> bool:
        """True when `value`, rounded to the digits that are written, is this number; integers must be equal."""
        if self.step == 1:
            return abs(value) == Fraction(self.value)
        steps = Decimal(round(abs(value) / Fraction(self.step)))
        return steps * self.step == self.value


def blank(match: re.Match) -> str:
    return re.sub(r"[^\n]", " ", match[0])


def prose_of(markdown: str) -> str:
    """The text with everything that is no prose blanked out; line numbers stay."""
    def fence(match: re.Match) -> str:
        if PROSE_DIRECTIVES.match(match["info"].strip()):
            body = match["body"]
            return match[0].replace(body, prose_of(body), 1).replace("`", " ")
        return blank(match)

    text = FENCE.sub(fence, markdown)
    text = CODE_SPAN.sub(lambda m: m[0] if PLAIN_SPAN.fullmatch(m[2].strip()) else blank(m), text)
    for pattern in SKIPPED:
        text = pattern.sub(blank, text)
    return text


def belongs_to_a_name(text: str, start: int) -> bool:
    """Whether the digits at `start` end a word: Qwen3-235B, E4M3, p99, arXiv:2405.04434, H200. LaTeX \\cdot512 does not."""
    return bool(NAME_BEFORE.search(text, max(0, start - 60), start))


def numbers_in(markdown: str, name: str) -> Iterator[Found]:
    """Every number with three or more digits in the prose of one page, or of one Markdown cell."""
    prose = prose_of(markdown)
    for match in NUMBER.finditer(prose):
        digits = re.sub(GROUP, "", match["digits"])
        if len(digits.replace(".", "").lstrip("0")) < DIGITS_THAT_COUNT or belongs_to_a_name(prose, match.start()):
            continue
        power = int((match["power"] or (match["raised"] or "0").translate(RAISED)).replace("−", "-"))
        value = Decimal(digits)
        step = Decimal(1).scaleb(value.as_tuple().exponent + power)
        line = prose.count("\n", 0, match.start()) + 1
        left = max(0, match.start() - 60)
        around = markdown[left : match.end() + 60]
        yield Found(f"{name}:{line}", match[0], value.scaleb(power), step, around, match.start() - left)


def pages_of(book: Path) -> list[Path]:
    """Every page of the book, notebooks and Markdown alike."""
    return sorted(path for suffix in ("*.md", "*.ipynb") for path in book.rglob(suffix)
                  if not any(part.startswith(("_", ".")) for part in path.relative_to(book).parts))


def texts_of(path: Path, name: str) -> Iterator[tuple[str, str]]:
    """(name, Markdown) of a page: one for a .md, one for each Markdown cell of a notebook."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield name, text
        return
    for cell in json.loads(text)["cells"]:
        if cell["cell_type"] == "markdown":
            yield f"{name}[{cell['id']}]", "".join(cell["source"])


def excepted(found: Found, exceptions: Mapping[str, str]) -> set[str]:
    """The exceptions whose text covers the number where it stands."""
    def covers(text: str) -> bool:
        pattern = r"\s+".join(map(re.escape, text.split()))
        spans = (match.span() for match in re.finditer(pattern, found.around))
        return any(start <= found.offset and found.offset + len(found.text) <= end for start, end in spans)

    return {text for text in exceptions if covers(text)}


Names = Mapping[str, Fraction]


def check(
    paths: Mapping[str, Path], named: Names, exceptions: Mapping[str, str], own: Mapping[str, Names] | None = None
) -> list[str]:
    """Problems, one a line: numbers that no code says, exceptions that no page needs, too many exceptions.

    `own`: page -> values that only this page may quote.
    """
    problems, used = [], set()
    for name, path in paths.items():
        values = {*named.values(), *(own or {}).get(name, {}).values()}
        for found in (number for label, text in texts_of(path, name) for number in numbers_in(text, label)):
            by = excepted(found, exceptions)
            used |= by
            if not by and not any(found.says(value) for value in values):
                problems.append(f"{found.place}: {found.text} equals no named value (… {found.context} …)")
    problems += [f"exception {text!r} stands on no page" for text in exceptions if text not in used]
    if len(exceptions) > MOST_EXCEPTIONS:
        problems.append(f"{len(exceptions)} exceptions, at most {MOST_EXCEPTIONS} are allowed")
    return problems


def names_of(path: Path) -> tuple[dict[str, Fraction], dict[str, str]]:
    """NAMED and EXCEPTIONS of one file of numbers."""
    listed = runpy.run_path(str(path))
    return {name: Fraction(value) for name, value in listed["NAMED"].items()}, listed.get("EXCEPTIONS", {})


def check_book(root: Path) -> list[str]:
    """Checks README.md and every page of a checkout: against book/_ext/numbers.py and the page's file in book/_ext/named."""
    pages = [path for path in (root / "README.md", *pages_of(root / "book")) if path.is_file()]
    named, exceptions = names_of(root / "book/_ext/numbers.py")
    own, files = {}, sorted((root / "book/_ext/named").rglob("*.py"))
    for page in pages:
        file = (root / "book/_ext/named" / page.relative_to(root / "book")).with_suffix(".py") if page.parent != root else None
        if file in files:
            own[page.relative_to(root).as_posix()], more = names_of(file)
            exceptions = exceptions | more
            files.remove(file)
    problems = [f"{file.relative_to(root)} belongs to no page" for file in files]
    return problems + check({path.relative_to(root).as_posix(): path for path in pages}, named, exceptions, own)
