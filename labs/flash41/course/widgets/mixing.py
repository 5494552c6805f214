"""The mixing explorer: sixteen logits become a doubly stochastic matrix, one division at a time."""

from __future__ import annotations

import math

import torch

from ...config import Config
from ...mhc import sinkhorn_plain
from .host import widget

LARGEST = 10.0


def show_mixing(logits=None, step: int = 0):
    """Sinkhorn on a 4 x 4 matrix, with the errors of its row and column sums.

    logits: four rows of four numbers from -10 to 10, by default random ones. step: 0 is the softmax, odd steps divide columns,
    even ones rows. Both are attributes of the widget. Raises ValueError for another shape or range.
    """
    config = Config.flash()
    size, last = config.hc_mult, 2 * config.hc_sinkhorn_iters - 1
    rows = presets(size)["random"][1] if logits is None else [list(row) for row in logits]
    if len(rows) != size or any(len(row) != size for row in rows):
        raise ValueError(f"logits must be {size} rows of {size} numbers, got {logits!r:.200}")
    for value in (value for row in rows for value in row):
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.fabs(value) <= LARGEST:
            raise ValueError(f"logits hold {value!r}, must be numbers from -{LARGEST:g} to {LARGEST:g}")
    if type(step) is not int or not 0 <= step <= last:
        raise ValueError(f"step = {step!r}, must be a whole number from 0 to {last}")
    rows = [[float(value) for value in row] for row in rows]
    data = {"rounds": config.hc_sinkhorn_iters, "eps": config.hc_eps, "largest": LARGEST,
            "presets": [[key, name, values] for key, (name, values) in presets(size).items()]}  # fmt: skip
    return widget("mixing", data, _table(rows, config), logits=rows, step=step)


def presets(size: int) -> dict[str, tuple[str, list]]:
    """Matrices to start from: key -> name and rows."""
    noise = torch.randn(size, size, generator=torch.Generator().manual_seed(2)) * 2
    def near(column):
        return [[4.0 if j == column(i) else 0.0 for j in range(size)] for i in range(size)]

    return {
        "random": ("random", [[round(value, 1) for value in row] for row in noise.tolist()]),
        "flat": ("all equal", [[0.0] * size for _ in range(size)]),
        "keep": ("each keeps its own", near(lambda i: i)),
        "turn": ("each to the next", near(lambda i: (i + 1) % size)),
        "crowd": ("all want stream 0", [[6.0] + [0.0] * (size - 1) for _ in range(size)]),
        "hard": ("slow: a near tie", [[9.0, 9.0] + [0.0] * (size - 2)] + [[9.0] + [0.0] * (size - 1)] + near(lambda i: i)[2:]),
    }


def _table(rows: list[list[float]], config: Config) -> str:
    """The matrix at the start, after one round and after all of them, with the errors."""
    logits = torch.tensor(rows, dtype=torch.float64)
    steps = {f"after {n} rounds" if n > 1 else "after 1 round": sinkhorn_plain(logits, n, config.hc_eps)
             for n in (1, 2, 5, config.hc_sinkhorn_iters)}  # fmt: skip
    heads = "".join(f'<th scope="col">{text}</th>' for text in ("", "Matrix", "Row error", "Column error"))
    body = ""
    for name, mix in ({"softmax": logits.softmax(-1) + config.hc_eps} | steps).items():
        matrix = "<br>".join(" ".join(f"{value:.3f}" for value in row) for row in mix.tolist())
        errors = "".join(f"<td>{(mix.sum(axis) - 1).abs().max().item():.1e}</td>" for axis in (-1, -2))
        body += f'<tr><th scope="row">{name}</th><td><code>{matrix}</code></td>{errors}</tr>'
    return f"<table><caption>Sinkhorn on a 4 × 4 matrix</caption><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
