"""What fits into a memory: sessions of a given context, or context for a given number of sessions.

Units: 1k, 1M, 1G tokens = 10^3, 10^6, 10^9 tokens; 1Ki, 1Mi, 1Gi = 2^10, 2^20, 2^30. kB, MB, GB, TB are powers of ten,
KiB, MiB, GiB, TiB powers of two.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

TOKEN_UNITS = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
BYTE_UNITS = {"": 1, "B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
BYTE_UNITS |= {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
LARGEST = 10**18


@dataclass(frozen=True)
class Capacity:
    """The answer to "what fits". Bytes are exact integers; a field whose question was not asked is None.

    `max_context` is also None where nothing grows with the context (every layer slides).
    """

    context: int | None
    sessions: int
    memory: int | None
    growing_bytes: int | None  # of one session, for its tokens
    constant_bytes: int  # of one session, whatever its length
    session_bytes: int | None  # the two together
    total_bytes: int | None  # all sessions
    fits: bool | None
    spare_bytes: int | None  # negative: so much is missing
    max_sessions: int | None  # of this context, in this memory
    max_context: int | None  # tokens per session, for these sessions, in this memory


def capacity(budget, *, context: int | None = None, sessions: int = 1, memory: int | None = None) -> Capacity:
    """Sessions do not share rows: total = sessions * (growing(context) + constants).

    budget: a `Budget`; context in tokens, memory in bytes: what is free for the cache once the weights are in place.
    Raises ValueError for a value below 1, or when neither context nor memory is given.
    """
    for name, value in (("context", context), ("sessions", sessions), ("memory", memory)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise ValueError(f"{name} must be a whole number from 1 up, got {value!r}")
    if context is None and memory is None:
        raise ValueError("capacity needs a context, a memory, or both; got neither")
    constant = budget.constant_bytes
    growing = session = total = fits = spare = most = None
    if context is not None:
        growing = budget.used_bytes(context)
        session = growing + constant
        total = sessions * session
    if context is not None and memory is not None:
        fits, spare, most = total <= memory, memory - total, memory // session if session else None
    longest = None if memory is None else longest_context(budget, memory // sessions - constant)
    return Capacity(context, sessions, memory, growing, constant, session, total, fits, spare, most, longest)


def longest_context(budget, room: int) -> int | None:
    """The largest N whose growing bytes are at most `room` bytes; None if nothing grows and room is left.

    The bytes grow in steps (half a pair costs nothing until it closes), so N lies between room / slope, which never
    exceeds the room, and some later step; doubling finds one that is too long, halving the last that fits.
    """
    if room < 0:
        return 0
    if not budget.slope:
        return None
    fits = int(Fraction(room) / budget.slope)
    too_long = fits + 1
    while budget.used_bytes(too_long) <= room:
        too_long += too_long - fits
    while too_long - fits > 1:
        middle = (fits + too_long) // 2
        fits, too_long = (middle, too_long) if budget.used_bytes(middle) <= room else (fits, middle)
    return fits


def parse_size(text: str, name: str, units: dict[str, int]) -> int:
    """The number that a text such as "1Mi" (1048576) stands for. `units` is TOKEN_UNITS or BYTE_UNITS; `name` is
    what the error message calls the value.

    Raises ValueError if the text is not a number with one of the units, or not a whole number from 1 to 10^18.
    """
    match = re.fullmatch(r"([0-9][0-9_]*(?:\.[0-9]+)?) ?([A-Za-z]*)", text.strip())
    if match is None or match[2] not in units:
        named = ", ".join(unit for unit in units if unit)
        raise ValueError(f"{name} {text!r}: allowed is a number{f', alone or with one of {named}' if named else ''}")
    digits = match[1].replace("_", "")
    value = Fraction(digits) * units[match[2]] if len(digits) <= 40 else 0
    if not 1 <= value <= LARGEST or value.denominator != 1:
        shown = text if len(text) <= 60 else text[:57] + "..."
        raise ValueError(f"{name} {shown!r}: allowed is a whole number from 1 to 10^18")
    return int(value)
