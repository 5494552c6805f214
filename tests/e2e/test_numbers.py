"""Numbers in prose equal what the package computes."""
from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from conftest import ROOT
from prose_numbers import check, check_book, numbers_in


def test_every_number_in_the_book_is_named_or_excepted():
    problems = check_book(ROOT)
    assert not problems, "\n" + "\n".join(problems)


@pytest.mark.parametrize(("prose", "values"), [
    ("5,242,880 bytes", [5242880]),
    ("$5{,}242{,}880$ and $1\\,048\\,576$", [5242880, 1048576]),
    ("5\u202f242\u202f880 and 1\u00a0024", [5242880, 1024]),
    ("$5.24 \\times 10^{6}$ or 5.24×10⁶", [5240000, 5240000]),
    ("`1,024` and `2 * 64 * 512 = 65536 bytes`", [1024, 512, 65536]),
    ("`torch.zeros(1, 512)` and `w[128]`", []),
    ("12 of 99, 0.25, 0.012", []),
    ("99.5 % of 128K", [99.5, 128]),
    ("Qwen3-235B-A22B, arXiv:2405.04434, arXiv 1911.02150, H200, E4M3, p999, MathJax 3.2.2, §2.3.1", []),
    ("$h\\cdot512$ and $C=512$ and [B, 128, 512]", [512, 512, 128, 512]),
    ("[a paper of 2405 words](https://example.org/12345) <https://example.org/777>", [2405]),
    ('<img width="500" alt="x"> 501 <!-- 502 -->', [501]),
    ("```python\nx = 123\n```\n\n124", [124]),
    ("```{note}\n:class: n-500\n125\n```", [125]),
])
def test_numbers_that_count_as_prose(prose, values):
    assert [float(found.value) for found in numbers_in(prose, "page")] == values


@pytest.mark.parametrize(("written", "value", "right"), [
    ("890", 890, True), ("890", 890.4, False), ("5.24", 5.2388, True), ("5.25", 5.2388, False), ("5.20", 5.2388, False),
    ("$5.24 \\times 10^6$", 5242880, True), ("$5.25 \\times 10^6$", 5242880, False), ("5,242,880", 5242880, True),
    ("12.5", -12.5, True), ("0.333", Fraction(1, 3), True),
])
def test_rounding_decides_whether_a_number_is_right(written, value, right):
    (found,) = numbers_in(written, "page")
    assert found.says(Fraction(value)) is right


def page_with(tmp_path: Path, text: str) -> dict[str, Path]:
    path = tmp_path / "page.md"
    path.write_text(text, encoding="utf-8")
    return {"page.md": path}


def test_exception_covers_only_the_place_it_names(tmp_path):
    page = page_with(tmp_path, "In May\n2024 there were 2024 of them.")
    (problem,) = check(page, {}, {"May 2024": "a date"})
    assert problem.startswith("page.md:2: 2024 equals no named value")


def test_exception_without_use_is_reported(tmp_path):
    assert check(page_with(tmp_path, "none"), {}, {"2024": "a date"}) == ["exception '2024' stands on no page"]


def test_forty_exceptions_are_enough(tmp_path):
    exceptions = {str(number): "a test" for number in range(100, 141)}
    problems = check(page_with(tmp_path, " ".join(exceptions)), {}, exceptions)
    assert problems == ["41 exceptions, at most 40 are allowed"]


def test_a_page_may_quote_its_own_names_and_not_those_of_another(tmp_path):
    page = page_with(tmp_path, "There are 512 of them.")
    assert check(page, {}, {}, {"page.md": {"width": Fraction(512)}}) == []
    (problem,) = check(page, {}, {}, {"other.md": {"width": Fraction(512)}})
    assert problem.startswith("page.md:1: 512 equals no named value")


def test_numbers_of_a_page_that_is_gone_are_reported(tmp_path):
    for name in ("book/_ext/numbers.py", "book/_ext/named/blocks/gone.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("NAMED, EXCEPTIONS = {}, {}")
    assert check_book(tmp_path) == ["book/_ext/named/blocks/gone.py belongs to no page"]
