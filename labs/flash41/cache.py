"""6A. The KV cache: every byte that outlives a token.

Three kinds of state, all in the formats of the release (report §2.4.4, §3.2; official cache buffers):

    global   rows (E2M1_E4M3) and index keys (E2M1_E8M0) of the source layers: one per r tokens, kept for the whole context
    window   the last `sliding_window` rows of every layer (E4M3_E8M0): a ring, slot = position mod window
    tail     the open pair of a ratio-2 source layer: its two projections in float32, slot = position mod 2

Only the global part is a price per token: sum over source layers of (row + index key) / r = 2.5 * 356 = 890 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakSet

import torch
from torch import Tensor

from .config import Config
from .formats import E2M1_E4M3, E2M1_E8M0, E4M3_E8M0
from .pages import Rows


@dataclass(frozen=True)
class Part:
    """Bytes of one kind of state in one layer, over all sequences. scope: "global", "window" or "tail"."""

    layer: int
    name: str
    scope: str
    used: int
    allocated: int


@dataclass(eq=False)
class Snapshot:
    """A point to return to. Global rows are only ever appended, so their number is enough; rings and tails are copied."""

    owner: KVCache
    lengths: Tensor
    written: dict[int, Tensor]
    overwritten: list[Tensor]  # copies of rings and tails, in the order of KVCache._overwritten()
    lowest: Tensor             # the shortest each sequence has been since: rows above may have been written anew


class KVCache:
    """The state of `batch` sequences under one configuration.

    capacity: most tokens per sequence (default `max_position_embeddings`). storage: "packed", or its readable twin "float",
    which keeps the decoded values and gives back the same numbers bit for bit. A forward pass calls `append_rows`,
    `write_window` and `write_tail` in its layers and `advance` once at its end. A refused call changes nothing.
    """

    def __init__(self, config: Config, batch: int = 1, *, capacity: int | None = None, storage: str = "packed", device=None):
        limit = config.max_position_embeddings
        capacity = limit if capacity is None else capacity
        if batch < 1:
            raise ValueError(f"batch = {batch}, must be at least 1")
        if not 1 <= capacity <= limit:
            raise ValueError(f"capacity = {capacity}, must be 1 … {limit} tokens (max_position_embeddings)")
        if storage not in ("packed", "float"):
            raise ValueError(f"storage = {storage!r}, must be 'packed' or 'float'")
        self.config, self.batch, self.capacity, self.storage = config, batch, capacity, storage
        self.device = torch.device(device or "cpu")
        self._snapshots: WeakSet[Snapshot] = WeakSet()
        self._allocate()

    def _allocate(self) -> None:
        c, make = self.config, dict(batch=self.batch, storage=self.storage, device=self.device)
        sources = c.kv_source_layer_ids
        pairs = [layer for layer in sources if c.compress_ratios[layer] == 2]
        self.lengths = torch.zeros(self.batch, dtype=torch.int64)  # [B] tokens per sequence; counts stay on the CPU
        self.written = {layer: torch.zeros(self.batch, dtype=torch.int64) for layer in sources}  # [B] rows per sequence
        self.rows = {layer: Rows(E2M1_E4M3, c.head_dim, **make) for layer in sources}
        self.index_keys = {layer: Rows(E2M1_E8M0, c.index_head_dim, **make) for layer in sources}
        self.window = [Rows(E4M3_E8M0, c.head_dim, rows=c.sliding_window, **make) for _ in range(c.num_hidden_layers)]
        self.tail = {layer: torch.zeros(self.batch, 2, 2, c.head_dim, device=self.device) for layer in pairs}  # [B, slot, kv|gate, C]

    # -- writing -----------------------------------------------------------------------------------------------

    def append_rows(self, layer: int, latents: Tensor, index_keys: Tensor, live: Tensor | None = None) -> None:
        """Append compressed rows and their index keys to a source layer. They are encoded here, once.

        latents [B, n, C] (rotated), index_keys [B, n, C_index]; live [B, n] bool leaves rows out (default: none).
        """
        self._check_source(layer)
        live = self._check_values("latents", latents, self.config.head_dim, live)
        self._check_values("index_keys", index_keys, self.config.index_head_dim, live)
        ends = self.written[layer] + live.sum(1)                       # [B]
        room = self.capacity // self.config.compress_ratios[layer]
        if int(ends.max()) > room:
            raise ValueError(f"layer {layer}: {int(ends.max())} rows, must be at most {room} (capacity = {self.capacity} tokens)")
        sequence, row = self._places(live, self.written[layer])        # [n live], [n live]
        stores = (self.rows[layer], self.index_keys[layer])
        encoded = [store.encode(values[live.to(values.device)]) for store, values in zip(stores, (latents, index_keys), strict=True)]
        for store, new in zip(stores, encoded, strict=True):
            store.reserve(min(int(ends.max()), room))
            store.put(sequence, row, new)
        self.written[layer] = ends

    def write_window(self, layer: int, rows: Tensor, live: Tensor | None = None) -> None:
        """Put the window rows of the next T tokens into a layer's ring; of more than a window, the last ones stay.

        rows [B, T, C] (rotated); live [B, T] bool leaves padding out (default: none).
        """
        self._check_layer(layer)
        live = self._check_values("rows", rows, self.config.head_dim, live)
        left = live.flip(1).cumsum(1).flip(1)                          # [B, T]: live tokens from here to the end
        kept = live & (left <= self.config.sliding_window)             # [B, T]
        skipped = live.sum(1) - kept.sum(1)                            # [B]
        sequence, position = self._places(kept, self.lengths + skipped)
        encoded = self.window[layer].encode(rows[kept.to(rows.device)])
        self.window[layer].put(sequence, position % self.config.sliding_window, encoded)

    def write_tail(self, layer: int, kv: Tensor, gate: Tensor, live: Tensor | None = None) -> None:
        """Keep the float32 projections of the newest tokens of a ratio-2 source layer, slot = position mod 2.

        kv, gate [B, T, C] before pooling; of the next T tokens the last two stay. live [B, T] as in `write_window`.
        """
        if layer not in self.tail:
            raise ValueError(f"layer = {layer}, must be a ratio-2 source layer: {sorted(self.tail)}")
        live = self._check_values("kv", kv, self.config.head_dim, live)
        self._check_values("gate", gate, self.config.head_dim, live)
        kept = live & (live.flip(1).cumsum(1).flip(1) <= 2)            # [B, T]
        sequence, position = self._places(kept, self.lengths + live.sum(1) - kept.sum(1))
        newest = torch.stack([kv, gate], dim=2)[kept.to(kv.device)]    # [n live, 2, C]
        self.tail[layer][sequence, position % 2] = newest.to(self.tail[layer].dtype)

    def advance(self, tokens: int | Tensor) -> None:
        """Commit the tokens that were written: tokens [B] or one number for all. Every source layer must hold its rows."""
        ends = self.lengths + torch.as_tensor(tokens, dtype=torch.int64)
        if bool((ends < self.lengths).any()) or int(ends.max()) > self.capacity:
            raise ValueError(f"tokens = {tokens}: lengths would be {ends.tolist()}, must not shrink and not pass capacity = {self.capacity}")
        for layer, written in self.written.items():
            due = ends // self.config.compress_ratios[layer]
            if not torch.equal(written, due):
                raise ValueError(f"layer {layer} holds {written.tolist()} rows, must hold {due.tolist()} for lengths {ends.tolist()}")
        self.lengths = ends

    # -- reading -----------------------------------------------------------------------------------------------

    def read_rows(self, layer: int) -> tuple[Tensor, Tensor]:
        """All rows [B, N, C] and index keys [B, N, C_index] of a source layer, float32; N is the longest sequence's."""
        self._check_source(layer)
        longest = int(self.written[layer].max())
        return self.rows[layer].read(longest), self.index_keys[layer].read(longest)

    def read_window(self, layer: int) -> tuple[Tensor, Tensor]:
        """A layer's ring as float32 [B, window, C] and the position that each slot holds, int64 [B, window], -1 = none."""
        self._check_layer(layer)
        size = self.config.sliding_window
        slot = torch.arange(size)                                      # [window]
        newest = self.lengths[:, None] - 1                             # [B, 1]
        position = newest - (newest - slot) % size                     # [B, window]
        return self.window[layer].read(size), torch.where(position < 0, -1, position)

    # -- going back --------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Remember this state. Costs one copy of the rings and tails, none of the global rows."""
        written = {layer: rows.clone() for layer, rows in self.written.items()}
        snapshot = Snapshot(self, self.lengths.clone(), written, [t.clone() for t in self._overwritten()], self.lengths.clone())
        self._snapshots.add(snapshot)
        return snapshot

    def restore(self, snapshot: Snapshot) -> None:
        """Return to a remembered state, exactly. Raises ValueError if it belongs to another cache or its rows are gone."""
        if snapshot.owner is not self:
            raise ValueError("snapshot belongs to another cache")
        if bool((snapshot.lowest < snapshot.lengths).any()):
            raise ValueError(f"snapshot of lengths {snapshot.lengths.tolist()}: the cache was cut to {snapshot.lowest.tolist()} since")
        self._cut_to(snapshot.lengths, snapshot.written)
        for tensor, saved in zip(self._overwritten(), snapshot.overwritten, strict=True):
            tensor.copy_(saved)

    def truncate(self, lengths: int | Tensor) -> None:
        """Drop the newest tokens, where rings and tails still hold what is needed; otherwise use snapshot and restore.

        lengths [B] or one number. A ring can go back while nothing in it was overwritten (length <= window). An odd length
        needs the first half of its pair, which only the newest pair still has.
        """
        new = torch.as_tensor(lengths, dtype=torch.int64).expand(self.batch).clone()  # [B]
        if bool((new < 0).any()) or bool((new > self.lengths).any()):
            raise ValueError(f"lengths = {new.tolist()}, must be 0 … {self.lengths.tolist()}")
        overwritten = (self.lengths > self.config.sliding_window) & (new < self.lengths)
        open_pair = (new % 2 == 1) & (new - 1 < (self.lengths - 1) // 2 * 2)
        lost = overwritten | (open_pair if self.tail else torch.zeros_like(open_pair))
        if bool(lost.any()):
            raise ValueError(f"lengths = {new.tolist()} from {self.lengths.tolist()}: window rows or an open pair are gone; "
                             "take a snapshot before and restore it")  # fmt: skip
        self._cut_to(new, {layer: new // self.config.compress_ratios[layer] for layer in self.written})

    def _cut_to(self, lengths: Tensor, written: dict[int, Tensor]) -> None:
        self.lengths = lengths.clone()
        self.written = {layer: rows.clone() for layer, rows in written.items()}
        for snapshot in self._snapshots:
            snapshot.lowest = torch.minimum(snapshot.lowest, lengths)

    def _overwritten(self) -> list[Tensor]:
        rings = [tensor for ring in self.window for tensor in ring.tensors.values()]
        return rings + list(self.tail.values())

    # -- bytes -------------------------------------------------------------------------------------------------

    def report(self) -> list[Part]:
        """Used and allocated bytes of every layer and part, read off the live tensors; `allocated` sums to their storage.

        Used counts written global rows, window slots that hold a row, and tail slots of open pairs.
        """
        parts = []
        for layer, written in self.written.items():
            for name, store in (("rows", self.rows[layer]), ("index keys", self.index_keys[layer])):
                parts.append(Part(layer, name, "global", int(written.sum()) * store.row_bytes, store.allocated_bytes))
        slots = int(self.lengths.clamp(max=self.config.sliding_window).sum())
        for layer, ring in enumerate(self.window):
            parts.append(Part(layer, "window", "window", slots * ring.row_bytes, ring.allocated_bytes))
        for layer, tail in self.tail.items():
            slot_bytes = tail[0, 0].numel() * tail.element_size()
            parts.append(Part(layer, "tail", "tail", int((self.lengths % 2).sum()) * slot_bytes, tail.untyped_storage().nbytes()))
        return parts

    def used_bytes(self) -> int:
        """Bytes of the written global rows, over all sequences: 356 * (3 * floor(N / 2) + N) per sequence for Config.flash()."""
        return sum(part.used for part in self.report() if part.scope == "global")

    def bytes_per_token(self) -> float:
        """used_bytes() / tokens held. Raises ValueError for an empty cache."""
        tokens = int(self.lengths.sum())
        if tokens == 0:
            raise ValueError("bytes_per_token of an empty cache: it holds 0 tokens, must hold at least 1")
        return self.used_bytes() / tokens

    # -- doors -------------------------------------------------------------------------------------------------

    def _check_layer(self, layer: int) -> None:
        if not 0 <= layer < self.config.num_hidden_layers:
            raise ValueError(f"layer = {layer}, must be 0 … {self.config.num_hidden_layers - 1}")

    def _check_source(self, layer: int) -> None:
        if layer not in self.rows:
            raise ValueError(f"layer = {layer}, must be a source layer: {sorted(self.rows)}")

    def _check_values(self, name: str, values: Tensor, channels: int, live: Tensor | None) -> Tensor:
        """values must be [B, n, channels] on this device; returns live as bool [B, n] on the CPU."""
        if values.dim() != 3 or values.shape[0] != self.batch or values.shape[2] != channels:
            raise ValueError(f"{name} has shape {tuple(values.shape)}, must be [{self.batch}, n, {channels}]")
        if values.device.type != self.device.type:
            raise ValueError(f"{name} is on {values.device}, must be on {self.device}")
        if live is None:
            return torch.ones(values.shape[:2], dtype=torch.bool)
        if live.shape != values.shape[:2] or live.dtype != torch.bool:
            raise ValueError(f"live is {live.dtype} {tuple(live.shape)}, must be bool {tuple(values.shape[:2])}")
        return live.cpu()

    def _places(self, live: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        """(sequence, place) of every live entry in order: places count up from start [B] within each sequence."""
        sequence = live.nonzero()[:, 0]                                # [n live]
        place = (start[:, None] + live.cumsum(1) - 1)[live]            # [n live]
        return sequence.to(self.device), place.to(self.device)
