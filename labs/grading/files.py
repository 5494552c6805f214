"""Who handed in what, and when: a folder of files, as a learning platform gives it out."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

# The id is what stands before the first "_" of a file name, or of the folder that a student's files lie in, with the number
# that Moodle and Canvas put behind it: two students may have one name.
PATTERN = r"(?P<id>.+(?=_\d+_assignsubmission_)|[^_]+)(_LATE)?(_(?P<number>\d+)_(\d+_|assignsubmission_).*|_.*)?"
MOST_BYTES = 20_000_000
KINDS = (".ipynb", ".py")


@dataclass(frozen=True)
class Submission:
    """One file. student: its id; key: the id as a file name; reason: why it is not read at all ("" where it is)."""

    path: Path
    name: str
    student: str
    key: str
    handed_in: datetime
    late: str
    reason: str = ""

    def digest(self) -> str:
        """A hash of the content: the same file is not graded twice."""
        return hashlib.sha256(self.path.read_bytes()).hexdigest() if not self.reason else ""


def submissions(folder: Path, *, pattern: str = PATTERN, deadline: datetime | None = None) -> list[Submission]:
    """Every file of the folder with its student, by name. Of several files of one student the newest that can be read counts.

    Raises ValueError for a folder that is not there or empty, and for a pattern without a group `id`.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ValueError(f"SUBMISSIONS={folder}: there is no such folder")
    if "id" not in (matcher := re.compile(pattern)).groupindex:
        raise ValueError(f"PATTERN={pattern}: a group (?P<id>…) is missing")
    found = [(path, *who(path.relative_to(folder), matcher)) for path in paths(folder)]
    if not found:
        raise ValueError(f"SUBMISSIONS={folder}: there is no file in it")
    best: dict[str, tuple] = {}
    for path, student, _ in found:
        rank = (not refused(path), path.lstat().st_mtime, str(path))
        best[student] = max(best.get(student, (False, 0.0, "")), rank)
    keys: dict[str, str] = {}
    rows = []
    for path, student, note in found:
        when = datetime.fromtimestamp(path.lstat().st_mtime).astimezone()
        reason = refused(path)
        if not reason and str(path) != best[student][2]:
            reason = f"replaced by {Path(best[student][2]).relative_to(folder)}"
        key = key_of(student, keys) + ("" if str(path) == best[student][2] else f"~{len(rows)}")
        name = str(path.relative_to(folder)) + note
        rows.append(Submission(path, name, student, key, when, late(path, when, deadline), reason))
    return rows


def paths(folder: Path) -> Iterator[Path]:
    """The files that someone handed in, not those that systems leave behind."""
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if not any(part.startswith(".") or part == "__MACOSX" for part in parts) and (path.is_symlink() or not path.is_dir()):
            yield path


def who(name: Path, matcher: re.Pattern) -> tuple[str, str]:
    """(student, note) of a path below the folder; the whole name where the pattern does not fit."""
    first = name.parts[0] if len(name.parts) > 1 else name.stem
    if fits := matcher.fullmatch(first):
        number = fits.groupdict().get("number")
        return fits["id"].strip() + (f" {number}" if number else ""), ""
    return first, " (the pattern does not fit)"


def refused(path: Path) -> str:
    """Why a file is not read, "" for nothing."""
    if path.is_symlink() or not path.is_file():
        return "is no file of its own"
    if path.suffix.lower() not in KINDS:
        return f"is no notebook: its name ends in {path.suffix or 'nothing'}, not in {' or '.join(KINDS)}"
    if path.stat().st_size > MOST_BYTES:
        return f"has {path.stat().st_size / 1e6:.0f} MB; more than {MOST_BYTES / 1e6:.0f} MB are not read"
    return ""


def late(path: Path, when: datetime, deadline: datetime | None) -> str:
    """ "late" by the deadline, or by the mark that Canvas puts into the name; "" where neither says so."""
    marked = re.search(r"(?:^|_)LATE_", path.name)
    return "late" if marked or (deadline and when > deadline) else ""


def key_of(student: str, keys: dict[str, str]) -> str:
    """The id as a name for files, different for different ids."""
    if student not in keys:
        plain = re.sub(r"[^\w.@+-]+", "-", student).strip(".-")[:60] or "student"
        taken, key, number = {key.lower() for key in keys.values()}, plain, 2
        while key.lower() in taken:
            key, number = f"{plain}-{number}", number + 1
        keys[student] = key
    return keys[student]
