"""`flash41 bench`: our codecs beside ml_dtypes, the fast path beside the plain one; one thread, interleaved, medians.

ml_dtypes is the field's reference for these number formats in numpy. The same work is timed on both sides: scales, codes and
packing one way; codes, scales and values the other way.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable

import numpy as np
import torch

from . import bench_model, measure
from .formats import E2M1_E4M3, E2M1_E8M0, E4M3_E8M0, BlockFormat

MOST_ROWS = 2**18  # half a gigabyte of float32; ml_dtypes' side needs several times that


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", choices=["codecs", "model"], help="one of the two parts; both take some minutes")
    parser.add_argument("--rounds", type=int, default=7, help="timed rounds, at least 7 (default 7); codecs take 3 times as many")
    parser.add_argument("--rows", type=int, default=2048, help="rows of 512 numbers per call (default 2048)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def main(args: argparse.Namespace) -> int:
    """Print a table (or JSON) of medians and ratios. Raises ValueError for fewer than 7 rounds, no rows or too many."""
    if args.rounds < 7:
        raise ValueError(f"--rounds {args.rounds}: must be at least 7")
    if not 1 <= args.rows <= MOST_ROWS:
        raise ValueError(f"--rows {args.rows}: must be 1 … {MOST_ROWS}")
    found = {}
    with measure.threads(1):
        if args.only != "model":
            rows = [row for fmt in (E2M1_E4M3, E2M1_E8M0, E4M3_E8M0) for row in codec(fmt, args.rows, 3 * args.rounds)]
            conditions = measure.conditions(rounds=3 * args.rounds, rows=args.rows, channels=512)
            found["codecs"] = {"conditions": conditions, "rows": rows}
        if args.only != "codecs":
            rows = bench_model.run(args.rounds)
            conditions = measure.conditions(rounds=args.rounds, batch=1, dtype="float32", storage="packed")
            found["model"] = {"conditions": conditions, "rows": rows, "decode growth": bench_model.growth(rows)}
    print(json.dumps(found, indent=2) if args.json else "\n\n".join(page(name, part) for name, part in found.items()))
    return 0


def page(name: str, part: dict) -> str:
    """One part as a table: what, its size or direction, both times, the ratio."""
    titles = {"codecs": ("ours", "ml_dtypes"), "model": ("fast", "plain")}[name]
    lines = [f"{name}, median ms of one call; {measure.describe(part['conditions'])}", ""]
    lines.append(f"{'':<20}{'':>12}{titles[0]:>11}{titles[1]:>11}{'ratio':>8}")
    for row in part["rows"]:
        what, size, ours, theirs, ratio = row.values()
        size = f"{size:,}" if isinstance(size, int) else size
        lines.append(f"{what:<20}{size:>12}{ours:>11.2f}{theirs:>11.2f}{ratio:>7.1f}x")
    lines += [f"decode growth, fast path, {which}: {ratio:.2f}" for which, ratio in part.get("decode growth", {}).items()]
    return "\n".join(lines)


def codec(fmt: BlockFormat, rows: int, rounds: int) -> list[dict]:
    """Both directions of one format, as rows of the table. ratio = ml_dtypes / flash41: above 1, ours is faster."""
    x = torch.randn(rows, 512, generator=torch.Generator().manual_seed(0))
    encode, decode = their_codec(fmt)
    codes, scales = fmt.encode(x)
    theirs = encode(x.numpy())
    if not (np.array_equal(codes.numpy(), theirs[0]) and np.array_equal(scales.numpy(), theirs[1])):
        raise AssertionError(f"{fmt.name}: the two encoders disagree; timing them would compare different work")
    directions = {
        "quantise": (lambda: fmt.encode(x), lambda: encode(x.numpy())),
        "dequantise": (lambda: fmt.decode(codes, scales), lambda: decode(*theirs)),
    }
    table = []
    for direction, (ours, other) in directions.items():
        timings = measure.compare({"flash41": ours, "ml_dtypes": other}, rounds, settle=1)
        mine, reference = (timings[name].p50 * 1e3 for name in ("flash41", "ml_dtypes"))
        table.append(dict(format=fmt.name, direction=direction, flash41_ms=mine, ml_dtypes_ms=reference, ratio=reference / mine))
    return table


def their_codec(fmt: BlockFormat) -> tuple[Callable, Callable]:
    """The same format written with numpy and ml_dtypes casts: encode(x) -> (codes, scales), decode(codes, scales) -> x."""
    import ml_dtypes  # only this comparison and the tests need it

    four_bit = fmt.element == "E2M1"
    element, largest = (ml_dtypes.float4_e2m1fn, 6) if four_bit else (ml_dtypes.float8_e4m3fn, 448)
    scale_type = ml_dtypes.float8_e4m3fn if fmt.scale == "E4M3" else ml_dtypes.float8_e8m0fnu

    def scales_of(size):
        if fmt.scale == "E4M3":
            return np.minimum(np.maximum(size, np.float32(6 * 2**-9)) / np.float32(6), np.float32(448)).astype(scale_type)
        floor = np.float32(6 * 2.0**-126 if four_bit else 1e-4)
        mantissa, exponent = np.frexp(np.maximum(size, floor) * np.float32(1 / largest))
        return (exponent - (mantissa == 0.5) + 127).astype(np.uint8).view(scale_type)

    def encode(x):
        groups = x.reshape(len(x), -1, fmt.group)
        scales = scales_of(np.abs(groups).max(-1))
        codes = np.clip(groups / scales.astype(np.float32)[..., None], -largest, largest).astype(element)
        codes = codes.reshape(len(x), -1).view(np.uint8)
        return (codes[:, 0::2] | (codes[:, 1::2] << 4) if four_bit else codes), scales.view(np.uint8)

    def decode(codes, scales):
        if four_bit:
            codes = np.stack([codes & 15, codes >> 4], axis=-1)
        values = codes.view(element).astype(np.float32).reshape(len(scales), -1, fmt.group)
        return (values * scales.view(scale_type).astype(np.float32)[..., None]).reshape(len(scales), -1)

    return encode, decode
