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

    @classmethod
    def of(cls, cache) -> Snapshot:
        return cls(cache, cache.lengths.clone(), [tensor.clone() for tensor in cache.overwritten()], cache.lengths.clone())

    def check(self, cache) -> None:
        """Raise ValueError unless this snapshot is of that cache and all its rows are still there."""
        if self.owner is not cache:
            raise ValueError("snapshot belongs to another cache")
        if bool((self.lowest < self.lengths).any()):
            raise ValueError(f"snapshot of lengths {self.lengths.tolist()}: the cache was cut to {self.lowest.tolist()} since")
        if len(self.overwritten) != len(cache.overwritten()):
            raise ValueError("snapshot was taken before the drafter wrote its rings")


def positions_of_slots(lengths: Tensor, size: int) -> Tensor:
    """Position that each slot of a ring holds, [B, size]; below 0: none. slot = position mod size."""
    newest = lengths[:, None] - 1                                      # [B, 1]
    return newest - (newest - torch.arange(size, device=lengths.device)) % size
