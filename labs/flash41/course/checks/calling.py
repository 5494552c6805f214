"""Calling a student's function on the inputs of a check, and noting what came of it. Needs nothing of the course."""

from __future__ import annotations

import traceback
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class Outcome:
    """What a call gave. kind: "value", "starter", "error", "changed" (an input) or "device"; note: words for all but "value"."""

    kind: str
    value: object = None
    note: str = ""


def copied(value):
    """A deep copy of tensors inside lists and tuples."""
    if isinstance(value, Tensor):
        return value.clone()
    return type(value)(copied(part) for part in value) if isinstance(value, list | tuple) else value


def call(function, arguments: dict, keywords: dict) -> Outcome:
    """Call the function with copies of the inputs, which are given by position under the names of the table."""
    given = {name: copied(value) for name, value in (arguments | keywords).items()}
    try:
        value = function(*(given[name] for name in arguments), **{name: given[name] for name in keywords})
    except NotImplementedError:
        return Outcome("starter")
    except Exception as error:  # whatever a student's function raises is an answer
        return Outcome("error", note=_words(function, error))
    for name, before in (arguments | keywords).items():
        if where := first_change(before, given[name]):
            return Outcome("changed", value, f"it changed its input `{name}` in place, first at {where}: work on a copy of it")
    home = next((part.device for part in _tensors(list(arguments.values()))), torch.device("cpu"))
    for part in _tensors([value]):
        if part.device != home:
            return Outcome("device", None, f"its result lies on {part.device}, the inputs lie on {home}")
    return Outcome("value", value)


def _tensors(values):
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def first_change(before, after) -> str:
    """Where two inputs differ, as words; "" where they are the same."""
    if isinstance(before, Tensor):
        if before.shape != after.shape:
            return f"its shape, {list(before.shape)} before and {list(after.shape)} after"
        old, new = _plain(before), _plain(after)
        other = ((old != new) & ~((old != old) & (new != new))).nonzero()
        if not len(other):
            return ""
        at = tuple(other[0].tolist())
        return f"{list(at)}: {old[at].item():.6g} became {new[at].item():.6g}"
    if isinstance(before, list | tuple):
        if len(before) != len(after):
            return f"its length, {len(before)} before and {len(after)} after"
        changes = [first_change(*pair) for pair in zip(before, after, strict=True)]
        return next((f"{index}, {where}" for index, where in enumerate(changes) if where), "")
    return "" if before == after else f"{before} became {after}"


def _plain(tensor: Tensor) -> Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor


def _words(function, error: Exception) -> str:
    """The exception, and the student's own line that it came from."""
    text = f"it raised {type(error).__name__}: {str(error)[:300]}"
    file = getattr(getattr(function, "__code__", None), "co_filename", None)
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return text + (f"\n              in its line `{own[-1].line}`" if own and own[-1].line else "")
