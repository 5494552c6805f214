"""Sets the public address of the course everywhere: python tools/set_repository.py https://github.com/owner/name.

`repository.url` in _config.yml is the place that counts; every other text file of the checkout that repeats it follows.
"""
from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from check_site import repository_of

ADDRESS = re.compile(r"https://github\.com/([A-Za-z0-9-]+/[A-Za-z0-9._-]+?)(?:\.git)?/?")
KEPT = ("tools/", "tests/")  # these speak of the placeholder itself


def files_of(root: Path) -> list[Path]:
    """Every file that git tracks or would track, but those of KEPT."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    names = [name for name in listed.split("\0") if name and not name.startswith(KEPT)]
    return [root / name for name in names if (root / name).is_file()]


def renamed(text: str, old: str, new: str) -> str:
    """`text` with owner/name and owner.github.io/name of the old repository replaced by the new one's."""
    site_old, site_new = (repository.replace("/", ".github.io/") for repository in (old, new))
    text = re.sub(rf"(?<![\w.-]){re.escape(old)}(?![\w-])", new, text)
    return re.sub(rf"(?<![\w.-]){re.escape(site_old)}(?![\w-])", site_new, text, flags=re.I)


def set_repository(root: Path, address: str) -> list[Path]:
    """Rewrites every file that holds the old address and returns these files."""
    match = ADDRESS.fullmatch(address)
    if not match:
        raise SystemExit(f"URL must look like https://github.com/owner/name, got {address!r}")
    old, changed = repository_of(root), []
    for path in files_of(root):
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a picture or a font
        if (new_text := renamed(text, old, match[1])) != text:
            path.write_text(new_text, encoding="utf-8")
            changed.append(path)
    return changed


if __name__ == "__main__":
    root = Path(__file__).resolve().parent.parent
    for changed in set_repository(root, sys.argv[1] if len(sys.argv) > 1 else ""):
        print(f"  {changed.relative_to(root)}")
