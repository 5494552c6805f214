"""What a cache reports and what it remembers to go back to."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Part:
    """Bytes of one kind of state in one layer, over all sequences.

    scope: "global", "window", "tail", "look-back" or "draft"; layer -1 where the state belongs to no layer.
    """

    layer: int
    name: str
    scope: str
    used: int
    allocated: int


def parts(cache) -> list[Part]:
    """Every part of a KVCache. Used: written rows, ring slots that hold a row, tail slots of open pairs."""
    found = []
    for layer, written in cache.written.items():
        for name, store in (("rows", cache.rows[layer]), ("index keys", cache.index_keys[layer])):
            found.append(Part(layer, name, "global", int(written.sum()) * store.row_bytes, store.allocated_bytes))
    slots = int(cache.lengths.clamp(max=cache.config.sliding_window).sum())
    for scope, rings in (("window", cache.window), ("draft", cache.draft_window)):
        for layer, ring in enumerate(rings):
            found.append(Part(layer, scope, scope, slots * ring.row_bytes, ring.allocated_bytes))
    for layer, tail in cache.tail.items():
        slot_bytes = tail[0, 0].numel() * tail.element_size()
        found.append(Part(layer, "tail", "tail", int((cache.lengths % 2).sum()) * slot_bytes, tail.untyped_storage().nbytes()))
    if cache.config.engram_layer_ids:
        ids = cache.look_back
        found.append(Part(-1, "look-back", "look-back", slots * ids.element_size(), ids.untyped_storage().nbytes()))
    return found


@dataclass(eq=False)
class Snapshot:
    """A point to return to. Global rows are only ever appended, so their number is enough; the rest is copied."""

    owner: object
    lengths: Tensor
    overwritten: list[Tensor]  # copies, in the order of KVCache.overwritten()
    lowest: Tensor             # the shortest each sequence has been since: rows above may have been written anew
    pair_start: Tensor         # which pairs the tails hold
    drafted: bool              # the drafter's rings are among the copies

    @classmethod
    def of(cls, cache) -> Snapshot:
        copies = [tensor.clone() for tensor in cache.overwritten()]
        return cls(cache, cache.lengths.clone(), copies, cache.lengths.clone(), cache.pair_start.clone(), bool(cache.draft_window))

    def check(self, cache) -> None:
        """Raise ValueError unless this snapshot is of that cache and all its rows are still there."""
        if self.owner is not cache:
            raise ValueError("snapshot belongs to another cache")
        if bool((self.lowest < self.lengths).any()):
            raise ValueError(f"snapshot of lengths {self.lengths.tolist()}: the cache was cut to {self.lowest.tolist()} since")


def positions_of_slots(lengths: Tensor, size: int) -> Tensor:
    """Position that each slot of a ring holds, [B, size]; below 0: none. slot = position mod size."""
    newest = lengths[:, None] - 1                                      # [B, 1]
    return newest - (newest - torch.arange(size, device=lengths.device)) % size


def whole_counts(name: str, value: int | Tensor, batch: int) -> Tensor:
    """A whole number for all sequences, or int64 [B] of them, as int64 [B] on the CPU. Raises ValueError for anything else."""
    tensor = isinstance(value, Tensor)
    if type(value) is not int and not (tensor and value.dtype == torch.int64 and value.shape in ((), (batch,))):
        given = f"{value.dtype} {tuple(value.shape)}" if tensor else repr(value)
        raise ValueError(f"{name} = {given}, must be a whole number, or int64 [{batch}]")
    return torch.as_tensor(value, dtype=torch.int64).cpu().expand(batch)
