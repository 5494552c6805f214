"""What the pages show: pictures in the page's colours, controls with a static twin, questions that answer."""

import re
import sys
from pathlib import Path

import pytest

from flash41.course import Question, controls, quiz
from flash41.course.plots import COLOURS, FAINT, bars, figure, ladder_strip, show


def test_a_picture_takes_the_pages_colour_arrows_and_titles_too():
    fig, ax = figure()
    ax.plot([1, 2], [1, 2], label="a")
    ax.annotate("here", (1, 1), xytext=(1.5, 1.2), arrowprops={"arrowstyle": "->"})
    ax.set_title("a title")
    ax.legend(title="legend")
    svg = show(fig, "a line").svg
    assert "#000000" not in svg and "#010203" not in svg and svg.count("currentColor") > 10
    assert ax.get_title(loc="left") == "a title" and ax.get_title(loc="center") == ""


def test_two_pictures_on_a_page_share_no_ids_and_every_reference_has_its_target():
    first, second = (ladder_strip(rung).svg for rung in ("mha", "budget"))
    ids = [set(re.findall(r'\bid="([^"]+)"', svg)) for svg in (first, second)]
    assert ids[0] and not ids[0] & ids[1]
    for svg, own in zip((first, second), ids, strict=True):
        assert {a or b for a, b in re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', svg)} <= own


def test_a_picture_has_a_name_that_cannot_break_out_of_its_attribute():
    assert 'aria-label="a &quot;b&quot; &lt;c&gt;"' in show(figure()[0], 'a "b" <c>').svg
    with pytest.raises(ValueError, match="a figure needs a text"):
        show(figure()[0], " ")


def test_bars_name_their_values_and_light_one():
    picture = bars(["a", "b"], [5_242_880, 890], "Falling", "B per token", lit=1)
    assert picture.alt == "Bar chart. Falling. B per token: a: 5,242,880; b: 890."
    assert FAINT in picture.svg and COLOURS[0].lower() in picture.svg.lower()
    assert FAINT not in bars(["a", "b"], [2, 1], "Falling", "B", log=False).svg


def test_the_strip_shows_the_ladders_prices():
    assert "5,242,880; MQA, one head: 81,920; one latent: 40,960; 4 layers, pairs, FP4: 890" in ladder_strip("mla").alt
    with pytest.raises(ValueError, match="here = 'x', must be one of"):
        ladder_strip("x")


# -- controls ------------------------------------------------------------------------------------------------------


def test_a_built_page_shows_the_figure_of_the_defaults(monkeypatch):
    monkeypatch.setenv("FLASH41_STATIC", "1")
    assert controls(lambda **kw: kw, a=[2, 1], b=(3, [1, 3]), c=range(4), d=(5, 6)) == {"a": 2, "b": 3, "c": 0, "d": 5}


def test_a_notebook_has_one_slider_per_argument(monkeypatch):
    monkeypatch.delenv("FLASH41_STATIC", raising=False)
    *sliders, _ = controls(lambda **kw: None, context_length=(1000, [10, 1000]), kind=["x"]).children
    assert [(slider.description, slider.value) for slider in sliders] == [("context length", 1000), ("kind", "x")]
    assert sliders[0].options == (("10", 10), ("1,000", 1000))


@pytest.mark.parametrize("given", [[], (5, [1, 2]), 3, {1: 2}, "abc", None], ids=str)
def test_a_range_that_is_none_is_refused_by_name(given):
    with pytest.raises(ValueError, match="a = .*: must "):
        controls(lambda **kw: kw, a=given)
    with pytest.raises(ValueError, match="at least one range"):
        controls(lambda: None)


# -- questions -----------------------------------------------------------------------------------------------------


def test_the_right_answer_is_marked_and_markup_is_shown_as_text():
    page = quiz(Question("2 < 3?", {"<no>": "it is", "yes": "a & b"}, "yes"))._repr_html_()
    assert re.findall(r'class="choice (\w+)"', page) == ["wrong", "right"]
    assert "<b>Not this.</b>it is" in page and "<b>Right.</b>a &amp; b" in page
    assert "2 &lt; 3?" in page and "&lt;no&gt;" in page and "<no>" not in page


def test_questions_shown_twice_share_no_ids():
    asked = quiz(Question("q", {"a": "1", "b": "2"}, "a"), Question("q", {"a": "1", "b": "2"}, "b"))
    ids = re.findall(r' id="([^"]+)"', asked._repr_html_() + asked._repr_html_())
    assert len(ids) == len(set(ids)) == 16
    assert repr(asked).count("  - a") == 2


@pytest.mark.parametrize(("answers", "right", "message"), [
    ({"a": "1", "b": "2"}, "c", "right = 'c', must be one of the answers"),
    ({"a": "1"}, "a", "at least two answers, got 1"),
    ({"a": "1", "b": " "}, "a", r"every answer needs an explanation, none for \['b'\]"),
])  # fmt: skip
def test_a_question_that_teaches_nothing_is_refused(answers, right, message):
    with pytest.raises(ValueError, match=message):
        Question("q", answers, right)
    with pytest.raises(ValueError, match="at least one question"):
        quiz()


def test_what_a_cell_prints_in_pieces_is_one_text_on_the_page():
    sys.path.append(str(Path(__file__).parents[1] / "book/_ext"))
    from course_rerun import joined

    def said(name, text):
        return {"output_type": "stream", "name": name, "text": text}

    figure = {"output_type": "display_data", "data": {}}
    pieces = [said("stdout", "a "), said("stdout", "b\n"), said("stderr", "!"), figure, said("stdout", "c"), said("stdout", "\n")]
    assert joined(pieces) == [said("stdout", "a b\n"), said("stderr", "!"), figure, said("stdout", "c\n")]
