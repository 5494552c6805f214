"""Comparing what a function gave with the right answer, and finding words for the difference."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import torch
from torch import Tensor

from .calling import Outcome
from .cases import Case, Check, widened
from .signatures import Function, Value

FLOATS = (torch.float32, torch.float64)


@dataclass(frozen=True)
class Verdict:
    """The result of one check: `name` is "3B.pool_pairs"; text is what the student reads."""

    name: str
    passed: bool
    text: str


@dataclass(frozen=True)
class Difference:
    """How a result differs: in words, and whether it is of the kind that a suspect can explain (numbers or shape)."""

    words: str
    explainable: bool = False


def judge(name: str, function: Function, check: Check, cases: list[Case], outcomes: list[Outcome]) -> Verdict:
    """The verdict on all cases. The first one that fails is the one reported."""
    expected = [check.right(*widened(case.inputs), **case.keywords) for case in cases]
    differences = [difference(function, check, right, outcome) for right, outcome in zip(expected, outcomes, strict=True)]
    failed = [index for index, found in enumerate(differences) if found]
    if not failed:
        return Verdict(name, True, f"{name} is right: {len(cases)} cases")
    first = failed[0]
    if outcomes[first].kind == "starter":
        return Verdict(name, False, f"{name} is not written yet.")
    lines = [f"{name} is not right yet.", f"  case        {cases[first].words}{_sizes(function, cases[first])}",
             f"  difference  {differences[first].words}"]  # fmt: skip
    if differences[first].explainable:
        explainable = [index for index in failed if differences[index].explainable]
        if words := cause(function, check, cases, expected, outcomes, explainable):
            lines.append(f"  cause       {words}")
    return Verdict(name, False, "\n".join(lines))


def _sizes(function: Function, case: Case) -> str:
    """The shapes of the inputs, and the small ones themselves."""
    named = [*zip((argument.name for argument in function.arguments), case.inputs, strict=False), *case.keywords.items()]
    words = [f"{name} {list(value.shape)}" if isinstance(value, Tensor) else f"{name} = {value}" for name, value in named
             if not (isinstance(value, list) and any(isinstance(part, tuple | Tensor) for part in value))]  # fmt: skip
    return f"  ({', '.join(words)})" if words else ""


# -- one result ----------------------------------------------------------------------------------------------------


def difference(function: Function, check: Check, right, outcome: Outcome) -> Difference | None:
    """What is wrong with the outcome of one case; None for nothing."""
    if outcome.kind != "value":
        return Difference(outcome.note)
    if outcome.value is None:
        return Difference("it returned None: is the `return` missing?")
    if len(function.results) == 1:
        return compare(function.results[0], right, outcome.value, check.tolerance)
    count = len(function.results)
    if not isinstance(outcome.value, list | tuple) or len(outcome.value) != count:
        names = ", ".join(value.name for value in function.results)
        return Difference(f"it returned {_kind(outcome.value)}, expected {count} things: {names}")
    for value, one, other in zip(function.results, right, outcome.value, strict=True):
        if found := compare(value, one, other, check.tolerance):
            return found
    return None


def _kind(value) -> str:
    if isinstance(value, Tensor):
        return f"one tensor {list(value.shape)}"
    return f"a {type(value).__name__} of {len(value)}" if isinstance(value, list | tuple) else f"a {type(value).__name__}"


def compare(what: Value, right, value, tolerance: float) -> Difference | None:
    """One result against the right one."""
    who = f"`{what.name}`: " if what.name else ""
    if isinstance(right, Tensor):
        return _tensors(what, who, right, value, tolerance)
    if isinstance(right, list):
        return _lists(who, right, value)
    if isinstance(value, Tensor) and value.numel() == 1:
        value = value.item()
    if isinstance(right, float):
        room = max(tolerance, 1e-12) * max(abs(right), 1e-30)
        good = isinstance(value, int | float | Fraction) and abs(float(value) - right) <= room
    elif isinstance(right, Fraction):
        good = isinstance(value, int | Fraction) and value == right
    else:
        good = type(value) is type(right) and value == right
    if good:
        return None
    number = isinstance(value, int | float | Fraction) and not isinstance(value, bool)
    return Difference(f"{who}yours is {value!r}, expected {right!r}", explainable=number or isinstance(value, str))


def _lists(who: str, right: list, value) -> Difference | None:
    if not isinstance(value, list | tuple):
        return Difference(f"{who}it returned {_kind(value)}, expected a list of {len(right)}")
    if len(value) != len(right):
        return Difference(f"{who}the list has {len(value)} entries, expected {len(right)}", True)
    places = [index for index, pair in enumerate(zip(right, value, strict=True)) if pair[0] != pair[1]]
    if not places:
        return None
    at, count = places[0], f"{len(places)} of {len(right)} entries differ"
    return Difference(f"{who}first at [{at}]: yours {value[at]!r}, expected {right[at]!r}; {count}", True)


def _tensors(what: Value, who: str, right: Tensor, value, tolerance: float) -> Difference | None:
    if not isinstance(value, Tensor):
        return Difference(f"{who}it returned {_kind(value)}, expected a tensor {list(right.shape)}")
    if value.shape != right.shape:
        return Difference(f"{who}shape {list(value.shape)}, expected {list(right.shape)}{_dimension(what, right, value)}", True)
    allowed = FLOATS if right.dtype in FLOATS else (torch.int32, torch.int64) if right.dtype == torch.int64 else (right.dtype,)
    if value.dtype not in allowed:
        have, *names = (str(dtype).removeprefix("torch.") for dtype in (value.dtype, *allowed))
        return Difference(f"{who}its numbers are {have}, expected {' or '.join(names)}, first at {[0] * right.dim()}", True)
    other = (~close(right, value, tolerance)).nonzero()
    if not len(other):
        return None
    at = tuple(other[0].tolist())
    count = f"{len(other)} of {right.numel()} numbers differ"
    return Difference(f"{who}first at {list(at)}: yours {_number(value[at])}, expected {_number(right[at])}; {count}", True)


def _number(value: Tensor) -> str:
    number = value.item()
    return f"{number:.6g}" if isinstance(number, float) else str(number)


def _dimension(what: Value, right: Tensor, value: Tensor) -> str:
    """Which dimension has the wrong size, by its name in the table where it can be told."""
    if value.dim() != right.dim():
        return f": {value.dim()} dimensions instead of {right.dim()}"
    at = next(index for index in range(right.dim()) if right.shape[index] != value.shape[index])
    names = what.dimensions
    if "..." in names:
        dots = names.index("...")
        names = (*names[:dots], *[""] * (right.dim() - len(names) + 1), *names[dots + 1 :])
    name = f" ({names[at]})" if len(names) == right.dim() and names[at] else ""
    return f": dimension {at}{name} is {value.shape[at]}, expected {right.shape[at]}"


def close(right: Tensor, value: Tensor, tolerance: float) -> Tensor:
    """Where two tensors of one shape agree, bool of that shape. Infinities and NaN agree with themselves."""
    if right.dtype == torch.bool or not right.is_floating_point():
        return right == value if right.dtype == value.dtype else right.to(torch.int64) == value.to(torch.int64)
    a, b = right.double(), value.double()
    finite = a.abs()[a.isfinite()]
    room = tolerance * (float(finite.max()) if finite.numel() else 0.0)
    return (a == b) | ((a - b).abs() <= room + 10 * tolerance * a.abs().nan_to_num(posinf=0.0)) | (a.isnan() & b.isnan())


# -- likely causes -------------------------------------------------------------------------------------------------


def cause(function: Function, check: Check, cases, expected, outcomes, failed: list[int]) -> str:
    """The sentence of the suspect that gives the same results: in all cases, else in all failed ones, else in the first of them.

    "" where none does.
    """
    best, found = 0, ""
    for words, wrong in check.suspects.items():
        same = {index: _agrees(function, check, wrong, case, outcomes[index]) for index, case in enumerate(cases)
                if outcomes[index].kind == "value"}  # fmt: skip
        if same[failed[0]]:
            score = 3 if all(same.values()) else 2 if all(same[index] for index in failed) else 1
            best, found = max((best, found), (score, words), key=lambda pair: pair[0])
    return found or _general(function, cases, expected, outcomes, failed[0])


def _agrees(function: Function, check: Check, wrong, case: Case, outcome: Outcome) -> bool:
    try:
        guess = wrong(*widened(case.inputs), **case.keywords)
    except Exception:  # this mistake is not possible here
        return False
    return difference(function, check, guess, outcome) is None


def _general(function: Function, cases, expected, outcomes, first: int) -> str:
    """Causes that need no knowledge of the step."""
    pairs = list(zip(expected, (outcome.value for outcome in outcomes), strict=True))
    right, value = pairs[first]
    if len(function.results) > 1:
        wrong = [pair for pair in zip(right, value, strict=True) if compare(Value("", ""), *pair, 1e-5)]
        right, value = wrong[0] if wrong else (None, None)
    if not isinstance(right, Tensor) or not isinstance(value, Tensor):
        return ""
    if _ignores_inputs([(r, v) for r, v in pairs if isinstance(r, Tensor) and isinstance(v, Tensor)]):
        return "it gives the same numbers for different inputs: does it use its arguments?"
    if value.shape != right.shape:
        swapped = sorted(value.shape) == sorted(right.shape) and value.dim() == right.dim()
        return "the sizes are right, their order is not: two dimensions are swapped" if swapped else ""
    if not right.is_floating_point() or not value.is_floating_point():
        return ""
    right, value = right.double(), value.double()
    if bool(value.isnan().any()) and not bool(right.isnan().any()):
        return f"NaN, first at {value.isnan().nonzero()[0].tolist()}: look for 0 / 0, inf - inf, or the root of a negative number"
    return _factor(right, value) or _one_row(right, value)


def _ignores_inputs(pairs) -> bool:
    for index, (right, value) in enumerate(pairs):
        for other_right, other in pairs[:index]:
            if value.shape == other.shape and right.shape == other_right.shape and torch.equal(value, other):
                if not torch.equal(right, other_right):
                    return True
    return False


def _factor(right: Tensor, value: Tensor) -> str:
    big = right.isfinite() & (right.abs() > 1e-3 * right[right.isfinite()].abs().max()) if right.isfinite().any() else None
    if big is None or not bool(big.any()):
        return ""
    ratio = value[big] / right[big]
    if bool((ratio - ratio[0]).abs().max() <= 1e-4 * ratio[0].abs()) and float((ratio[0] - 1).abs()) > 1e-4:
        times = float(ratio[0])
        return "every number has the wrong sign" if abs(times + 1) < 1e-4 else f"every number is {times:.6g} times the right one"
    return ""


def _one_row(right: Tensor, value: Tensor) -> str:
    if right.dim() > 1 and len(right) > 1 and bool(close(right[0], value[0], 1e-5).all()):
        return "the first sequence of the batch is right, another is not: something of the first is used for all"
    return ""
