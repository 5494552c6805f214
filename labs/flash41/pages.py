"""Rows of one kind in packed form: the only place where cached numbers lie.

A store holds B sequences of rows. It writes codes and scales once and gives back the values they stand for.
`storage="float"` keeps those same values unpacked: readable, larger, and equal bit for bit.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .formats import BlockFormat

PAGE = 256  # rows that a growing store adds at a time, at least


class Rows:
    """[B, rows] of `channels` numbers in one block format.

    A growing store starts empty and is enlarged by whole pages of 256 rows, at least a quarter more than it holds, so that
    appending N rows copies O(N) bytes. A fixed store (a ring) is allocated once.
    """

    def __init__(self, fmt: BlockFormat, channels: int, batch: int, rows: int = 0, *, storage: str = "packed", device=None):
        self.format, self.channels, self.storage = fmt, channels, storage
        if storage == "packed":
            widths = {"codes": fmt.payload_bytes(channels), "scales": fmt.scale_bytes(channels)}
            self.tensors = {name: torch.zeros(batch, rows, width, dtype=torch.uint8, device=device) for name, width in widths.items()}
        else:
            self.tensors = {"values": torch.zeros(batch, rows, channels, dtype=torch.float32, device=device)}

    @property
    def allocated(self) -> int:
        """Rows per sequence for which there is room."""
        return next(iter(self.tensors.values())).shape[1]

    @property
    def row_bytes(self) -> int:
        """Bytes of one stored row of one sequence, read off the live tensors."""
        return sum(tensor.shape[-1] * tensor.element_size() for tensor in self.tensors.values())

    @property
    def allocated_bytes(self) -> int:
        """Bytes of the storage behind the tensors."""
        return sum(tensor.untyped_storage().nbytes() for tensor in self.tensors.values())

    def reserve(self, rows: int) -> None:
        """Make room for `rows` rows per sequence."""
        if rows <= self.allocated:
            return
        pages = -(-max(rows, self.allocated + self.allocated // 4) // PAGE)
        for name, old in self.tensors.items():
            new = old.new_zeros(old.shape[0], pages * PAGE, old.shape[2])  # [B, rows, width]
            new[:, : old.shape[1]] = old
            self.tensors[name] = new

    def encode(self, values: Tensor) -> tuple[Tensor, ...]:
        """values [..., C] in the form in which they are kept. Raises ValueError for a bad width and for NaN or infinity."""
        return self.format.encode(values) if self.storage == "packed" else (self.format.roundtrip(values.float()),)

    def put(self, sequence: Tensor, row: Tensor, encoded: tuple[Tensor, ...]) -> None:
        """Keep n encoded rows at (sequence[i], row[i])."""
        for tensor, new in zip(self.tensors.values(), encoded, strict=True):
            tensor[sequence, row] = new

    def read(self, rows: int, first: int = 0) -> Tensor:
        """Rows first … rows - 1 of every sequence as float32 [B, rows - first, C]."""
        return self.decode([tensor[:, first:rows] for tensor in self.tensors.values()])

    def gather(self, row: Tensor) -> Tensor:
        """Chosen rows: row [B, ...] int64 -> float32 [B, ..., C]. Only these rows are decoded."""
        sequence = torch.arange(row.shape[0], device=row.device).view(-1, *[1] * (row.dim() - 1))  # [B, 1, ...]
        return self.decode([tensor[sequence, row] for tensor in self.tensors.values()])

    def decode(self, stored) -> Tensor:
        """What encoded rows stand for, float32."""
        return self.format.decode(*stored) if self.storage == "packed" else stored[0]
