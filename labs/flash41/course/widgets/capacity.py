"""The capacity explorer: context, sessions and memory, what fits, and what the answer leaves out."""

from __future__ import annotations

from html import escape

from ...budget import FLASH_WEIGHT_BYTES, Budget, capacity
from ...capacity import BYTE_UNITS, LARGEST, TOKEN_UNITS
from ..models import V41, model_budgets
from .host import widget

MEMORIES = tuple(n * 10**9 for n in (8, 16, 24, 40, 48, 80, 96, 141, 192, 288, 564, 768, 1128, 1536))
CONTEXTS = tuple(digit * 10**power for power in range(2, 7) for digit in (1, 2, 5)) + (10**7,)
MOST = 10**15  # a JavaScript number holds it exactly
SESSIONS = tuple(digit * 10**power for power in range(5) for digit in (1, 2, 5))


def show_capacity(model: str = V41, context: int = 10**6, sessions: int = 8, memory: int = 141 * 10**9, weights: bool = False):
    """What fits into a memory: sessions of a context, or context for some sessions.

    model: a name of `course.models`; context in tokens per session, memory in bytes. weights: take the model's weights off the
    memory first, where their size is known. Each is an attribute of the widget. Raises ValueError for a value that cannot be.
    """
    budgets = model_budgets()
    if model not in budgets:
        raise ValueError(f"model = {model!r}, must be one of {list(budgets)}")
    if weights and model != V41:
        raise ValueError(f"weights = True: the size of {model}'s weights is not known here")
    for name, value in (("context", context), ("sessions", sessions), ("memory", memory)):
        if isinstance(value, int) and value > MOST:
            raise ValueError(f"{name} = {value}, must be at most 10^15")
    capacity(budgets[model], context=context, sessions=sessions, memory=memory)  # refuses what is no whole number from 1 up
    return widget("capacity", _data(budgets), _table(budgets, model, context, sessions, memory), model=model,
                  context=context, sessions=sessions, memory=memory, weights=bool(weights))  # fmt: skip


def groups(found: Budget) -> list[list[int]]:
    """[bytes, tokens per entry, layers] for each kind of storing layer."""
    kinds: dict[tuple[int, int], int] = {}
    for row in found.layers:
        if size := row.entry_bytes + row.index_bytes:
            kinds[size, row.tokens_per_entry] = kinds.get((size, row.tokens_per_entry), 0) + 1
    return [[*kind, count] for kind, count in kinds.items()]


def _data(budgets: dict[str, Budget]) -> dict:
    def model(name: str, found: Budget) -> dict:
        return {
            "name": name, "groups": groups(found), "constant": found.constant_bytes, "limit": found.max_tokens,
            "weights": FLASH_WEIGHT_BYTES if name == V41 else 0, "per_token": float(found.total),
            "constants": [[part.name, part.how, part.bytes] for part in found.constants], "missing": found.not_counted,
        }  # fmt: skip

    return {
        "models": [model(name, found) for name, found in budgets.items()][::-1], "contexts": CONTEXTS, "sessions": SESSIONS,
        "memories": MEMORIES, "token_units": TOKEN_UNITS, "byte_units": BYTE_UNITS, "largest": str(LARGEST), "most": MOST,
    }  # fmt: skip


def _table(budgets: dict[str, Budget], model: str, context: int, sessions: int, memory: int) -> str:
    """Each model at these settings, and what is not counted."""
    rows = ""
    for name, found in reversed(budgets.items()):
        fit = capacity(found, context=context, sessions=sessions, memory=memory)
        answers = (f"{fit.total_bytes / 10**9:,.2f}", "yes" if fit.fits else "no", f"{fit.max_sessions:,}", f"{fit.max_context:,}")
        rows += f'<tr><th scope="row">{escape(name)}</th>' + "".join(f"<td>{text}</td>" for text in answers) + "</tr>"
    columns = ("Model", "GB of cache", "Fits", "Most sessions", "Longest context, tokens")
    heads = "".join(f'<th scope="col">{text}</th>' for text in columns)
    missing = "; ".join(escape(text) for text in budgets[model].not_counted)
    caption = f"{sessions:,} sessions of {context:,} tokens in {memory / 10**9:,g} GB"
    return (f"<table><caption>{caption}</caption><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
            f"<p>Not counted for {escape(model)}: {missing}.</p>")  # fmt: skip
