"""Questions with instant feedback, in HTML and CSS alone: no script, so they work in a notebook, on a page, from a file.

Every answer carries its own explanation, which appears when it is chosen.
"""

from __future__ import annotations

import html
from dataclasses import dataclass
from itertools import count

_serial = count()

STYLE = """<style>
.quiz{margin:1rem 0;max-width:46rem}
.quiz fieldset{border:1px solid #8888;border-radius:.5rem;padding:.6rem 1rem .8rem;margin:0 0 1rem;min-width:0}
.quiz legend{font-weight:600;float:left;width:100%;padding:0;margin:0 0 .3rem;font-size:1em;line-height:1.4}
.quiz .choice{clear:both;display:grid;grid-template-columns:1.5rem 1fr;align-items:baseline;margin:.35rem 0}
.quiz .why{grid-column:2;display:none;margin:.2rem 0 .4rem;padding:.35rem .7rem;border-left:4px solid;border-radius:.2rem}
.quiz input:checked~.why{display:block}
.quiz .right .why{border-color:#009e73;background:#009e7322}
.quiz .wrong .why{border-color:#d55e00;background:#d55e0022}
.quiz .why b{margin-right:.3rem}
@media print{.quiz .why{display:none!important}}
</style>"""


@dataclass(frozen=True)
class Question:
    """A question and its answers: text -> explanation. `right` is the text of the right answer."""

    text: str
    answers: dict[str, str]
    right: str

    def __post_init__(self):
        if self.right not in self.answers:
            raise ValueError(f"right = {self.right!r}, must be one of the answers: {list(self.answers)}")
        if len(self.answers) < 2:
            raise ValueError(f"a question needs at least two answers, got {len(self.answers)}: {self.text!r}")
        if silent := [answer for answer, why in self.answers.items() if not why.strip()]:
            raise ValueError(f"every answer needs an explanation, none for {silent}: {self.text!r}")


class Quiz:
    """A list of questions as HTML."""

    def __init__(self, *questions: Question):
        if not questions:
            raise ValueError("quiz needs at least one question")
        self.questions = questions

    def _repr_html_(self) -> str:
        return STYLE + f'<div class="quiz">{"".join(map(_fieldset, self.questions))}</div>'

    def __repr__(self) -> str:
        return "\n\n".join("\n".join([q.text, *(f"  - {answer}" for answer in q.answers)]) for q in self.questions)


def quiz(*questions: Question) -> Quiz:
    """Show questions; choosing an answer shows at once whether it is right, and why."""
    return Quiz(*questions)


def _fieldset(question: Question) -> str:
    group = f"quiz-{next(_serial)}"
    choices = "".join(
        _choice(f"{group}-{row}", group, answer, why, answer == question.right)
        for row, (answer, why) in enumerate(question.answers.items())
    )  # fmt: skip
    return f"<fieldset><legend>{html.escape(question.text)}</legend>{choices}</fieldset>"


def _choice(name: str, group: str, answer: str, why: str, right: bool) -> str:
    verdict = "Right." if right else "Not this."
    return (
        f'<div class="choice {"right" if right else "wrong"}"><input type="radio" id="{name}" name="{group}" '
        f'aria-describedby="{name}-why"><label for="{name}">{html.escape(answer)}</label>'
        f'<div class="why" id="{name}-why"><b>{verdict}</b>{html.escape(why)}</div></div>'
    )
