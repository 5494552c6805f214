"""The checks of the lab steps: `check("3B.pool_pairs", pool_pairs)` says what is wrong, where it shows and why it may be so."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module

from .calling import call
from .cases import Case, Check, Draw
from .compose import compose, speak
from .judging import Verdict, judge
from .signatures import STEPS, Function, step

__all__ = ["CheckFailed", "check", "class_seed", "compose", "speak"]


class CheckFailed(AssertionError):
    """A function is not right yet. A notebook shows the message alone, without the way through the checks."""

    def _render_traceback_(self) -> list[str]:
        return str(self).split("\n")


def check(name: str, answer: Callable | dict, *, seed: int | str = 0) -> None:
    """Check one function, check("3B.pool_pairs", pool_pairs), or all of a step, check("3B", globals()).

    Prints what is right; raises CheckFailed with what is not. Another seed asks for other sizes and numbers; "class" is the seed
    of the hidden tests. Raises ValueError for a name that there is not, TypeError for an answer of another kind.
    """
    seed = class_seed() if seed == "class" else seed
    label, _, one = name.partition(".")
    names = [one] if one else [function.name for function in step(label).functions]
    verdicts = [verdict(f"{label}.{each}", answer.get(each) if isinstance(answer, dict) else answer, seed) for each in names]
    for each in verdicts:
        if each.passed:
            print(each.text)
    if wrong := [each.text for each in verdicts if not each.passed]:
        raise CheckFailed("\n".join(wrong))


def verdict(name: str, function, seed: int) -> Verdict:
    """The verdict on one function in this process."""
    signature, check_, cases = asked(name, seed)
    if function is None:
        return Verdict(name, False, f"{name} is not there: no function has this name.")
    if not callable(function):
        raise TypeError(f"{name}: the answer is a {type(function).__name__}, must be a function or a dict of functions")
    outcomes = []
    for case in cases:
        outcomes.append(call(function, positional(signature, case), case.keywords))
        if outcomes[-1].kind == "starter":
            outcomes += [outcomes[-1]] * (len(cases) - len(outcomes))
            break
    return judge(name, signature, check_, cases, outcomes)


def asked(name: str, seed: int) -> tuple[Function, Check, list[Case]]:
    """The signature, the check and the cases behind a name and a seed."""
    label, _, one = name.partition(".")
    signature = step(label).function(one)
    found = import_module(f".step_{label.lower()}", __name__).CHECKS[one]
    return signature, found, list(found.cases(Draw(seed * 1000 + list(STEPS).index(label))))


def positional(signature: Function, case: Case) -> dict:
    """The inputs of a case under the names of the table, without the keywords."""
    return dict(zip((argument.name for argument in signature.arguments), case.inputs, strict=False))


def class_seed() -> int:
    """The seed of the hidden tests: FLASH41_SEED, which an instructor sets per class; 41 where none is set."""
    return int(os.environ.get("FLASH41_SEED", "41"))
