"""The FP4 explorer: sixteen values, the scale they share, their codes, the bytes, and what comes back."""

from __future__ import annotations

import math

import torch

from ...formats import E2M1_E4M3, E2M1_E8M0, E2M1_GRID, E2M1_MAX, E4M3_MAX, SMALLEST_E4M3
from .host import widget

COUNT = 16
GOLDEN = (6, -6, 5, 4, 3, 2.5, 1.75, 1.25, 0.75, 0.25, 0, -0.25, -0.75, -1.25, 3.5, -3.5)
LARGEST = 4096.0  # beyond 6 * 448, so that the end of the E4M3 scales can be seen


def show_fp4(values=None, neighbor: float = 0.0):
    """Sixteen channels in E2M1 with an E4M3 scale of their own, beside E2M1 with an E8M0 scale for 32.

    values: sixteen numbers, by default those of the golden vector. neighbor: the magnitude of the other sixteen channels, which
    share the E8M0 scale. Both are attributes of the widget. Raises ValueError for another count or a number beyond ±4096.
    """
    values = list(GOLDEN if values is None else values)
    if len(values) != COUNT:
        raise ValueError(f"values holds {len(values)} numbers, must hold {COUNT}")
    for name, value in (*((f"values[{i}]", value) for i, value in enumerate(values)), ("neighbor", neighbor)):
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.fabs(value) <= LARGEST:
            raise ValueError(f"{name} = {value!r}, must be a number from -{LARGEST:g} to {LARGEST:g}")
    values = [float(value) for value in values]
    return widget("fp4", _data(), _table(values, float(neighbor)), values=values, neighbor=float(neighbor))


def rounded(values: list[float], neighbor: float) -> dict[str, dict]:
    """What the package makes of the values, for each of the two formats: scale byte, scale, code bytes, decoded values."""
    row = torch.tensor([values], dtype=torch.float32)
    group = torch.cat([row, torch.full_like(row, neighbor)], -1)
    found = {}
    for fmt, x in ((E2M1_E4M3, row), (E2M1_E8M0, group)):
        codes, scales = fmt.encode(x)
        byte = scales[0, 0].item()
        kind = torch.float8_e4m3fn if fmt.scale == "E4M3" else torch.float8_e8m0fnu
        found[fmt.name] = {
            "scale_byte": byte, "scale": scales[0, :1].view(kind).float().item(), "codes": codes[0, : COUNT // 2].tolist(),
            "decoded": fmt.decode(codes, scales)[0, :COUNT].tolist(),
        }  # fmt: skip
    return found


def _data() -> dict:
    gauss = torch.randn(COUNT, generator=torch.Generator().manual_seed(890))
    outlier = gauss.clone()
    outlier[5] = 12
    presets = {
        "golden": ("ends, signs, ties", GOLDEN, 0), "five": ("largest is 5", (5, *(0.3 * k for k in range(-7, 8))), 0),
        "gauss": ("Gaussian", gauss.tolist(), 2), "outlier": ("one outlier", outlier.tolist(), 2),
        "nextdoor": ("outlier next door", gauss.tolist(), 12), "tiny": ("tiny", [k / 2**12 for k in range(-8, 8)], 0),
        "zero": ("all zero", [0] * COUNT, 0), "huge": ("huge", [4096, 2688, *(256 * k for k in range(-7, 7))], 0),
    }  # fmt: skip
    return {
        "grid": E2M1_GRID, "fp4_max": E2M1_MAX, "e4m3_max": E4M3_MAX, "smallest": SMALLEST_E4M3, "largest": LARGEST,
        "groups": [E2M1_E4M3.group, E2M1_E8M0.group],
        "presets": [[key, name, [round(float(v), 6) for v in values], neighbor] for key, (name, values, neighbor) in presets.items()],
    }  # fmt: skip


def _table(values: list[float], neighbor: float) -> str:
    """Values, codes and what comes back in both formats."""
    found = rounded(values, neighbor)
    columns = ("Channel", "Value", "E4M3 / 16: code", "back", "E8M0 / 32: code", "back")
    heads = "".join(f'<th scope="col">{text}</th>' for text in columns)
    rows = ""
    for i, value in enumerate(values):
        cells = ""
        for part in found.values():
            cells += f"<td>{part['codes'][i // 2] >> 4 * (i % 2) & 15:04b}</td><td>{part['decoded'][i]:g}</td>"
        rows += f'<tr><th scope="row">{i}</th><td>{value:g}</td>{cells}</tr>'
    notes = "; ".join(f"{name}: scale {part['scale']:g}, byte {part['scale_byte']:02x}, codes {bytes(part['codes']).hex(' ')}"
                      for name, part in found.items())  # fmt: skip
    return f"<table><caption>Sixteen values in FP4</caption><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table><p>{notes}.</p>"
