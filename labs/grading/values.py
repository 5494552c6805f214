"""What an answer returned, as bytes that are safe to read: no pickle, so that reading runs nothing. Needs only torch."""

from __future__ import annotations

import json
import struct
from fractions import Fraction

import torch
from torch import Tensor

MOST_BYTES = 16_000_000  # of one result; the checks ask for a few kilobytes
HEAD = struct.Struct(">II")
DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)}


def packed_cases(cases: list[tuple[dict, dict]]) -> bytes:
    """The inputs of a function, (arguments, keywords) for every case. Pickle would lose tensors of eight-bit floats."""
    return packed("cases", [[list(part), list(part.values())] for case in cases for part in case], "")


def unpacked_cases(data: bytes) -> list[tuple[dict, dict]]:
    ((_, parts, _),) = unpacked(data)
    whole = [dict(zip(names, parts, strict=True)) for names, parts in parts]
    return list(zip(whole[::2], whole[1::2], strict=True))


class Unreadable(ValueError):
    """Bytes or a value that no right answer has."""


def packed(kind: str, value, note: str) -> bytes:
    """One outcome: two lengths, a JSON text, the bytes of its tensors."""
    blobs: list[bytes] = []
    text = json.dumps([kind, _down(value, blobs, 0), note]).encode()
    data = b"".join(blobs)
    if len(text) + len(data) > MOST_BYTES:
        raise Unreadable(f"its result has {len(text) + len(data):,} bytes, more than {MOST_BYTES:,}")
    return HEAD.pack(len(text), len(data)) + text + data


def unpacked(data: bytes) -> list[tuple[str, object, str]]:
    """All whole outcomes in a row of bytes. Raises Unreadable where something else stands there."""
    found, at = [], 0
    while at + HEAD.size <= len(data):
        size, extra = HEAD.unpack_from(data, at)
        at += HEAD.size
        if at + size + extra > len(data):
            break
        try:
            kind, value, note = json.loads(data[at : at + size])
            blob = memoryview(data)[at + size : at + size + extra]
            found.append((str(kind), _up(value, blob, [0]), str(note)))
        except Exception as error:  # written by the student's process: anything may stand here
            raise Unreadable(f"its result cannot be read: {type(error).__name__}") from None
        at += size + extra
    return found


def stand_in(kind: str):
    """Something whose type has this name: for the message "it returned a ndarray"."""
    return type(kind, (), {"__repr__": lambda self: f"a {kind}"})()


def _down(value, blobs: list[bytes], depth: int):
    """The value as JSON; tensors leave their bytes in blobs."""
    if isinstance(value, Tensor):
        if value.layout != torch.strided or value.is_quantized or value.device.type not in ("cpu", "cuda"):
            return ["other", "Tensor of another kind"]
        if value.numel() * value.element_size() > MOST_BYTES:
            raise Unreadable(f"its result has {value.numel() * value.element_size():,} bytes, more than {MOST_BYTES:,}")
        flat = value.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
        blobs.append(flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b"")
        return ["tensor", str(value.dtype).removeprefix("torch."), list(value.shape), len(blobs[-1])]
    if isinstance(value, list | tuple) and depth < 20:
        return ["tuple" if isinstance(value, tuple) else "list", [_down(part, blobs, depth + 1) for part in value]]
    if value is None or type(value) is bool or isinstance(value, float):
        return ["plain", value if value is None or type(value) is bool else float(value)]
    if type(value) is int:
        return ["int", hex(value)]
    if type(value) is str:
        return ["plain", value[:1000]]
    if type(value) is Fraction:
        return ["fraction", hex(value.numerator), hex(value.denominator)]
    return ["other", type(value).__name__[:60]]


def _up(value, blob: memoryview, at: list[int]):
    kind, *rest = value
    if kind == "tensor":
        dtype, shape, size = rest
        part = bytes(blob[at[0] : at[0] + size])
        at[0] += size
        if not part:
            return torch.zeros(shape, dtype=DTYPES[dtype])
        return torch.frombuffer(bytearray(part), dtype=torch.uint8).view(DTYPES[dtype]).reshape(shape)
    if kind in ("list", "tuple"):
        parts = [_up(part, blob, at) for part in rest[0]]
        return tuple(parts) if kind == "tuple" else parts
    if kind == "plain":
        return rest[0]
    if kind == "int":
        return int(rest[0], 16)
    if kind == "fraction":
        return Fraction(int(rest[0], 16), int(rest[1], 16))
    return stand_in(str(rest[0]))
