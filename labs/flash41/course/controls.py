"""One control for a notebook's figures: sliders where a kernel answers, the figure itself on a built page."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

STATIC = "FLASH41_STATIC"  # set to 1 by the book build for every kernel


def is_static() -> bool:
    """True while the book is being built: nothing will answer a slider on the finished page."""
    return os.environ.get(STATIC) == "1"


def controls(fn: Callable, **ranges: Sequence):
    """Show fn(**values) under one slider per argument; the first value of each sequence is where it starts.

    ranges: argument name -> the values it may take, in the slider's order, or (default, values). On the built page the
    figure of the defaults is shown. Raises ValueError for an empty range, one that is no list, tuple or range, or a default
    outside its values.
    """
    if not ranges:
        raise ValueError("controls needs at least one range, such as context=[1_000, 10_000]")
    choices = {name: _choice(name, given) for name, given in ranges.items()}
    if is_static():
        return fn(**{name: default for name, (default, _) in choices.items()})

    import ipywidgets  # present wherever a notebook has widgets; not needed to build or read

    sliders = {
        name: ipywidgets.SelectionSlider(options=[(f"{v:,}" if isinstance(v, int) else str(v), v) for v in values],
                                         value=default, description=name.replace("_", " "), style={"description_width": "initial"})
        for name, (default, values) in choices.items()
    }  # fmt: skip

    def redraw(**values):
        from IPython.display import display

        display(fn(**values))

    return ipywidgets.VBox([*sliders.values(), ipywidgets.interactive_output(redraw, sliders)])


def _choice(name: str, given: Sequence) -> tuple[object, list]:
    """(default, values) of one range."""
    if not isinstance(given, (list, tuple, range)):
        raise ValueError(f"{name} = {given!r}: must be a list, a tuple or a range")
    paired = isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], (list, tuple, range))
    default, values = given if paired else (given[0] if len(given) else None, given)
    values = list(values)
    if not values or default not in values:
        raise ValueError(f"{name} = {given!r}: must hold at least one value, and the default must be among them")
    return default, values
