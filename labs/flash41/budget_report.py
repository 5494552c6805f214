"""The budget as a page for a terminal of 80 columns, and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from fractions import Fraction
from itertools import groupby
from textwrap import wrap

from .budget import Budget, LayerBytes, ladder_steps, whole, wrong_routes
from .capacity import Capacity
from .config import Config

WIDTH = 79
LABEL, ROLE = 16, 18
NAMES = ("entry", "index", "tokens", "entries", "index")
UNITS = ("B", "B", "/entry", "B/token", "B/token")
WIDTHS = (9, 6, 8, 9, 8)


def page(budget: Budget, fit: Capacity | None = None, *, all_layers: bool = False) -> str:
    """Everything that `flash41 budget` prints."""
    lines = [f"{budget.model}: what each token adds to the cache", "", *table(budget, all_layers=all_layers), ""]
    lines += [*_sum(budget), *_once(budget), *(_capacity(budget, fit) if fit else ())]
    lines += _bullets("Notes", budget.notes) + _bullets("Not counted", budget.not_counted)
    return "\n".join(lines)


# -- the table -----------------------------------------------------------------------------------------------------


def table(budget: Budget, *, all_layers: bool = False) -> list[str]:
    """The per-layer table: one line per kind of layer, or one per layer. Without index keys, no such columns."""
    columns = [n for n, name in enumerate(NAMES) if name != "index" or budget.index]

    def line(label: str, count: str, role: str, cells: tuple[str, ...]) -> str:
        tail = "".join(f"{cells[n]:>{WIDTHS[n]}}" for n in columns)
        return f"{label:<{LABEL}}{count:>3}  {role:<{ROLE}}{tail}".rstrip()

    lines = [line("layers", "n", "what they do", NAMES), line("", "", "", UNITS)]
    for rows in _groups(budget.layers, all_layers):
        lines.append(line(ranges([row.layer for row in rows]), str(len(rows)), _role(rows[0]), _cells(rows)))
    rule = "-" * max(map(len, lines))
    total = ("", "", "", number(budget.main), number(budget.index))
    return [*lines, rule, line("all", str(len(budget.layers)), "", total)]


def _groups(layers: tuple[LayerBytes, ...], all_layers: bool) -> list[list[LayerBytes]]:
    """Layers that do the same share a line; a layer that others read has its own."""
    if all_layers:
        return [[row] for row in layers]
    lent = {row.reads for row in layers if row.reads != row.layer}
    found: dict[tuple, list[LayerBytes]] = {}
    for row in layers:
        reads = "itself" if row.reads == row.layer and row.layer not in lent else row.reads
        key = (row.role, reads, row.entry_bytes, row.index_bytes, row.tokens_per_entry)
        found.setdefault(key, []).append(row)
    return list(found.values())


def _cells(rows: list[LayerBytes]) -> tuple[str, ...]:
    row, n = rows[0], len(rows)
    sizes = ("-", "-", "-")
    if row.entry_bytes:
        sizes = (number(row.entry_bytes), number(row.index_bytes), number(row.tokens_per_entry))
    return (*sizes, number(n * row.main_slope), number(n * row.index_slope))


def _role(row: LayerBytes) -> str:
    texts = {
        "window": "window only",
        "full": "store, choose" if row.index_bytes else "full attention",
        "sliding": "sliding window",
        "csa": "CSA",
        "hca": "HCA",
        "reindex": f"reindex layer {row.reads}",
        "reuse": f"reuse layer {row.reads}",
    }
    return texts.get(row.role, row.role)


def ranges(layers: list[int]) -> str:
    """[3, 4, 5, 9] -> "3-5, 9"; where that does not fit, the first and the last run."""
    runs = []
    for _, pairs in groupby(enumerate(layers), key=lambda pair: pair[1] - pair[0]):
        run = [layer for _, layer in pairs]
        runs.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
    text = ", ".join(runs)
    return text if len(text) < LABEL else f"{runs[0]} ... {runs[-1]}"


# -- the rest of the page ------------------------------------------------------------------------------------------


def number(value: int | float | Fraction) -> str:
    """1234567 -> "1,234,567"; 3514.25 keeps its fraction."""
    return f"{whole(value) if isinstance(value, Fraction) else value:,}"


def scaled(size: int) -> str:
    """A size to four digits, in both families of units: "892.7 MB = 851.4 MiB"."""
    both = ((1000, ("B", "kB", "MB", "GB", "TB")), (1024, ("B", "KiB", "MiB", "GiB", "TiB")))
    return " = ".join(_scale(size, base, units) for base, units in both)


def _scale(size: int, base: int, units: tuple[str, ...]) -> str:
    power = 0
    while abs(size) >= base ** (power + 1) and power < len(units) - 1:
        power += 1
    value = size / base**power
    return f"{value:,.0f} {units[power]}" if value >= 1000 or not power else f"{value:.4g} {units[power]}"


def _sum(budget: Budget) -> list[str]:
    total = f"{number(budget.total)} B/token"
    if budget.index:
        total = f"{number(budget.main)} + {number(budget.index)} = {total}"
    elif budget.slope >= 1024:
        total += f" = {float(budget.slope / 1024):,.6g} KiB/token"
    lines = [total]
    for name, tokens in (("1M", 10**6), ("1Mi", 2**20)):
        size = budget.used_bytes(tokens)
        lines.append(f"{name + ' tokens':<12}{size:>22,} B   {scaled(size) if size else ''}".rstrip())
    return [*lines, ""]


def _once(budget: Budget) -> list[str]:
    if not budget.constants and not budget.later:
        return []
    lines = ["Once per session, whatever its length"]
    shown = [*budget.constants, *budget.later]
    for constant in shown:
        when = ", when it runs" if constant in budget.later else ""
        lines.append(f"  {constant.name:<15}{constant.bytes:>14,} B   {constant.how}{when}")
    if len(budget.constants) > 1:
        together = f"  {'together':<15}{budget.constant_bytes:>14,} B   {scaled(budget.constant_bytes)}"
        lines.insert(1 + len(budget.constants), together)
    return [*lines, ""]


def _capacity(budget: Budget, fit: Capacity) -> list[str]:
    """The answers, one per line; only the questions that were asked."""
    many = f"{fit.sessions:,} session{'s' * (fit.sessions > 1)}"
    room = f" in {fit.memory:,} B free for the cache" if fit.memory else ""
    lines = [f"Capacity: {many}{f' of {fit.context:,} tokens' if fit.context else ''}{room}"]

    def say(what: str, value: int, unit: str = "", note: str = "") -> None:
        lines.append(f"  {what:<24}{value:>22,} {unit:<3}{note}".rstrip())

    if fit.context is not None and budget.max_tokens is not None and fit.context > budget.max_tokens:
        lines.append(f"  (longer than the {budget.max_tokens:,} tokens that the model was released for)")
    if fit.context is not None:
        say("each session", fit.session_bytes, "B", f"{fit.growing_bytes:,} + {fit.constant_bytes:,}")
        say("all sessions", fit.total_bytes, "B", scaled(fit.total_bytes))
    if fit.fits is not None:
        verdict = "fits, to spare" if fit.fits else "DOES NOT FIT, missing"
        say(verdict, abs(fit.spare_bytes), "B", f"{100 * fit.total_bytes / fit.memory:.3g} % of this memory needed")
    if fit.max_sessions is not None:
        say("most sessions like this", fit.max_sessions)
    if fit.max_context is not None:
        released = f"{budget.max_tokens:,} as released" if budget.max_tokens else ""
        say("longest context, tokens", fit.max_context, "", released)
    elif fit.memory is not None:
        lines.append("  longest context         not limited by the cache: nothing grows with the context")
    return [*lines, ""]


def _bullets(title: str, items: tuple[str, ...]) -> list[str]:
    lines = [title] if items else []
    for item in items:
        lines += wrap(item, WIDTH, initial_indent="  - ", subsequent_indent="    ", break_on_hyphens=False)
    return lines


# -- JSON ----------------------------------------------------------------------------------------------------------


def as_dict(budget: Budget, fit: Capacity | None = None, config: Config | None = None) -> dict:
    """Everything, JSON-ready. Bytes are integers; a price per token that is not whole is exact in `total_fraction`.

    `config` adds the ladder and the wrong routes, which only the released architecture has.
    """
    return {
        "model": budget.model,
        "model_type": budget.model_type,
        "max_position_embeddings": budget.max_tokens,
        "bytes_per_token": {
            "main": budget.main,
            "index": budget.index,
            "total": budget.total,
            "total_fraction": [budget.slope.numerator, budget.slope.denominator],
        },
        "layers": [_layer_dict(row) for row in budget.layers],
        "constants": {"items": [asdict(item) for item in budget.constants], "total_bytes": budget.constant_bytes},
        "later": [asdict(item) for item in budget.later],
        "ladder": [asdict(step) for step in ladder_steps(config)] if config else [],
        "wrong_routes": [asdict(route) for route in wrong_routes(config)] if config else [],
        "capacity": asdict(fit) if fit else None,
        "not_counted": list(budget.not_counted),
        "notes": list(budget.notes),
    }


def _layer_dict(row: LayerBytes) -> dict:
    sums = {"main_bytes_per_token": whole(row.main_slope), "index_bytes_per_token": whole(row.index_slope)}
    return {**asdict(row), "window_bytes": row.window_bytes, **sums}
