"""Visibility: what one token of a real passage sees, layer by layer: window, visible rows, candidates, chosen rows."""

from __future__ import annotations

from html import escape

from ...config import FULL, REINDEX
from ..records import recorded
from .host import widget

LAYER, QUERY = 4, 148  # what a page opens with


def show_visibility(layer: int = LAYER, query: int | None = None, recording: dict | None = None):
    """Query tokens against compressed rows, as a picture and on the passage itself.

    recording: what `course.trace.visibility(model, text)` returns; by default the trained apprentice's, which comes along.
    layer and query: what is shown first; state `.layer` and `.query`. Raises ValueError for a layer or a token that there is not.
    """
    recording = recorded("visibility") if recording is None else recording
    tokens, layers = len(recording["tokens"]), len(recording["layers"])
    query = min(QUERY, tokens - 1) if query is None else query
    for name, value, most in (("layer", layer, layers), ("query", query, tokens)):
        if type(value) is not int or not 0 <= value < most:
            raise ValueError(f"{name} = {value!r}, must be 0 … {most - 1}")
    return widget("visibility", recording, _table(recording, query), layer=layer, query=query)


def places(mask: str) -> list[int]:
    """Set bits of a hexadecimal mask, ascending: rows, or groups of rows."""
    bits = int(mask, 16)
    return [place for place in range(bits.bit_length()) if bits >> place & 1]


# -- without JavaScript, and on paper ------------------------------------------------------------------------------------


def _table(record: dict, query: int) -> str:
    """What the choosing layers do for one token."""
    chosen_by = [i for i, layer in enumerate(record["layers"]) if layer["role"] in (FULL, REINDEX)]
    names = ("Layer", "Window", "Visible rows", "Candidate groups", "Chosen rows", "What they cover")
    heads = "".join(f'<th scope="col">{name}</th>' for name in names)
    lines = "".join(_line(record, layer, query) for layer in chosen_by)
    passage = escape("".join(record["tokens"])).replace("\n", "<br>")
    caption = f"What token {query}, {_quoted(record['tokens'][query])}, sees of this passage"
    return f"<p>{passage}</p><table><caption>{caption}</caption><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>"


def _line(record: dict, layer: int, query: int) -> str:
    own, tokens = record["layers"][layer], record["tokens"]
    ratio, rows = own["ratio"], places(record["chosen"][str(layer)][query])
    groups = "–"
    if record["candidateSource"] is not None and layer >= record["candidateSource"]:
        groups = ", ".join(map(str, places(record["candidates"][query])))
    text = ", ".join(_quoted("".join(tokens[row * ratio : (row + 1) * ratio])) for row in rows)
    window = f"{max(0, query - record['window'] + 1)}–{query}"
    cells = (window, f"{(query + 1) // ratio}", groups, ", ".join(map(str, rows)), text)
    return f'<tr><th scope="row">{layer}, ratio {ratio}</th>' + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _quoted(text: str) -> str:
    return f"“{escape(text)}”".replace("\n", "⏎")
