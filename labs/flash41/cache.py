"""6A. The KV cache: every byte that outlives a token.

Four kinds of state, in the formats of the release (report §2.4.4, §3.2; official cache buffers):

    global     rows (E2M1_E4M3) and index keys (E2M1_E8M0) of the source layers: one per r tokens, kept for the whole context
    window     the last `sliding_window` rows of every layer (E4M3_E8M0): a ring, slot = position mod window
    tail       the open pair of a ratio-2 source layer: its two projections in float32, slot = position mod 2
    look-back  the compressed token ids of the last window, for Engram's n-grams; and the drafter's rings, once it runs

Only the global part is a price per token: sum over source layers of (row + index key) / r = 2.5 * 356 = 890 bytes.

A forward pass stages its tokens layer by layer and commits them with `advance`. Until then rings and tails are untouched and
global rows lie beyond the counted ones, so a pass that fails, or of which only the first tokens are wanted (drafting), leaves
nothing behind.
"""

from __future__ import annotations

from weakref import WeakSet

import torch
from torch import Tensor

from .config import Config
from .engram import DEAD
from .formats import E2M1_E4M3, E2M1_E8M0, E4M3_E8M0
from .pages import Rows
from .state import Part, Snapshot, parts, positions_of_slots, whole_counts


class KVCache:
    """The state of `batch` sequences under one configuration.

    capacity: most tokens per sequence (default `max_position_embeddings`). storage: "packed", or its readable twin "float",
    which keeps the decoded values and gives back the same numbers bit for bit. A refused call changes nothing.
    """

    def __init__(self, config: Config, batch: int = 1, *, capacity: int | None = None, storage: str = "packed", device=None):
        limit = config.max_position_embeddings
        capacity = limit if capacity is None else capacity
        if type(batch) is not int or batch < 1:
            raise ValueError(f"batch = {batch}, must be at least 1")
        if type(capacity) is not int or not 1 <= capacity <= limit:
            raise ValueError(f"capacity = {capacity}, must be 1 … {limit} tokens (max_position_embeddings)")
        if storage not in ("packed", "float"):
            raise ValueError(f"storage = {storage!r}, must be 'packed' or 'float'")
        self.config, self.batch, self.capacity, self.storage = config, batch, capacity, storage
        self.device = torch.device(device or "cpu")
        self._snapshots: WeakSet[Snapshot] = WeakSet()
        self._allocate()
        self._staged: list = []

    def _allocate(self) -> None:
        c, sources = self.config, self.config.kv_source_layer_ids
        pairs = [layer for layer in sources if c.compress_ratios[layer] == 2]
        self.lengths = torch.zeros(self.batch, dtype=torch.int64)  # [B] tokens per sequence; counts stay on the CPU
        self.written = {layer: torch.zeros(self.batch, dtype=torch.int64) for layer in sources}  # [B] rows per sequence
        self.rows = {layer: self._store(E2M1_E4M3, c.head_dim) for layer in sources}
        self.index_keys = {layer: self._store(E2M1_E8M0, c.index_head_dim) for layer in sources}
        self.window = [self._store(E4M3_E8M0, c.head_dim, c.sliding_window) for _ in range(c.num_hidden_layers)]
        self.draft_window: list[Rows] = []  # the drafter's rings, made when it first writes
        self.tail = {layer: torch.zeros(self.batch, 2, 2, c.head_dim, dtype=torch.float32, device=self.device)  # [B, slot, kv|gate, C]
                     for layer in pairs}  # fmt: skip
        self.look_back = torch.full((self.batch, c.sliding_window), DEAD, device=self.device)  # [B, window] compressed ids
        self.window_start = torch.zeros(self.batch, dtype=torch.int64, device=self.device)  # first position in decoder rings
        self.pair_start = torch.zeros(self.batch, dtype=torch.int64)  # [B] even position whose projections lie in tail slot 0

    def _store(self, fmt, channels: int, rows: int = 0) -> Rows:
        return Rows(fmt, channels, self.batch, rows, storage=self.storage, device=self.device)

    # -- staging and committing --------------------------------------------------------------------------------

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
        encoded = [store.encode(_chosen(values, live)) for store, values in zip(stores, (latents, index_keys), strict=True)]
        for store, new in zip(stores, encoded, strict=True):
            store.reserve(min(int(ends.max()), room))
            store.put(sequence, row, new)
        self.written[layer] = ends

    def write_window(
        self, layer: int, rows: Tensor, live: Tensor | None = None, *, skipped: int | Tensor = 0, draft: bool = False
    ) -> Tensor:
        """Stage the window rows of the next T tokens of a layer and return them as the ring will give them back, [B, T, C].

        rows [B, T, C] (rotated); live [B, T] bool leaves padding out (default: none). skipped: tokens before these that this
        layer does not see (bounded replay). draft: the ring belongs to a block of the drafter.
        """
        self._check_layer(layer, draft)
        live = self._check_values("rows", rows, self.config.head_dim, live)
        rings = self._draft_rings() if draft else self.window
        encoded = rings[layer].encode(rows)                            # [B, T, …] each
        self._staged.append((rings[layer].tensors.values(), encoded, live, skipped))
        return rings[layer].decode(encoded)

    def write_tail(self, layer: int, kv: Tensor, gate: Tensor, live: Tensor | None = None) -> None:
        """Stage the projections of the next T tokens of a ratio-2 source layer before pooling: kv, gate [B, T, C].

        Kept in float32, in float64 under a float64 model.
        """
        if layer not in self.tail:
            raise ValueError(f"layer = {layer}, must be a ratio-2 source layer: {sorted(self.tail)}")
        live = self._check_values("kv", kv, self.config.head_dim, live)
        self._check_values("gate", gate, self.config.head_dim, live)
        self.tail[layer] = self.tail[layer].to(torch.promote_types(kv.dtype, self.tail[layer].dtype))
        newest = torch.stack([kv, gate], dim=2).to(self.tail[layer].dtype)  # [B, T, kv|gate, C]
        self._staged.append(([self.tail[layer]], [newest], live, 0))

    def write_look_back(self, ids: Tensor, live: Tensor) -> None:
        """Stage the compressed ids of the next T tokens, DEAD for image tokens.  ids int64, live bool, both [B, T]."""
        good = ids.dtype == torch.int64 and live.dtype == torch.bool and ids.shape == live.shape and ids.shape[:1] == (self.batch,)
        if not good or ids.dim() != 2:
            raise ValueError(f"ids is {ids.dtype} {tuple(ids.shape)}, live {live.dtype} {tuple(live.shape)}: "
                             f"must be int64 and bool [{self.batch}, T]")  # fmt: skip
        self._staged.append(([self.look_back], [ids], live.cpu(), 0))

    def advance(self, tokens: int | Tensor) -> None:
        """Commit the first `tokens` staged tokens (one number, or [B]). Every source layer must hold their rows."""
        counts = whole_counts("tokens", tokens, self.batch)                      # [B]
        ends = self.lengths + counts                                   # [B]
        if bool((counts < 0).any()) or int(ends.max()) > self.capacity:
            raise ValueError(f"tokens = {tokens}: lengths would be {ends.tolist()}, "
                             f"must not shrink and not pass capacity = {self.capacity}")  # fmt: skip
        for layer, written in self.written.items():
            due = ends // self.config.compress_ratios[layer]
            if bool((written < due).any()):
                raise ValueError(f"layer {layer} holds {written.tolist()} rows, "
                                 f"must hold {due.tolist()} for lengths {ends.tolist()}")  # fmt: skip
        for tensors, new, live, skipped in self._staged:
            self._put(tensors, new, live, counts - skipped, skipped)
        self.pair_start = torch.where(counts > 0, (ends - 1) // 2 * 2, self.pair_start)
        self.lengths = ends
        self.discard()

    def discard(self) -> None:
        """Forget what was staged and not committed."""
        self._staged = []
        self.written = {layer: self.lengths // self.config.compress_ratios[layer] for layer in self.written}

    def _put(self, ring, new, live: Tensor, counts: Tensor, skipped: int) -> None:
        """Write the first counts[b] live entries of `new` [B, T, …] into ring tensors [B, slots, …]; the last ones survive."""
        ring, slots = list(ring), next(iter(ring)).shape[1]
        order = live.cumsum(1)                                         # [B, T]: 1 for the first live token
        kept = live & (order <= counts[:, None]) & (order > counts[:, None] - slots)
        sequence, position = self._places(kept, self.lengths + skipped + (counts - slots).clamp(min=0))
        for tensor, values in zip(ring, new, strict=True):
            tensor[sequence, position % slots] = _chosen(values, kept).to(tensor.dtype)

    def _draft_rings(self) -> list[Rows]:
        if not self.draft_window:
            c = self.config
            self.draft_window = [self._store(E4M3_E8M0, c.head_dim, c.sliding_window) for _ in range(c.num_nextn_predict_layers)]
        return self.draft_window

    # -- reading -----------------------------------------------------------------------------------------------

    def read_rows(self, layer: int) -> tuple[Tensor, Tensor]:
        """All rows [B, N, C] and index keys [B, N, C_index] of a source layer, float32; N is the longest sequence's."""
        self._check_source(layer)
        longest = int(self.written[layer].max())
        return self.rows[layer].read(longest), self.index_keys[layer].read(longest)

    def read_window(self, layer: int, *, draft: bool = False) -> tuple[Tensor, Tensor]:
        """A layer's ring as float32 [B, window, C] and the position that each slot holds, int64 [B, window], -1 = none."""
        size, rings = self.config.sliding_window, self.draft_window if draft else self.window
        self._check_layer(layer, draft)
        if not rings:  # the drafter has not written yet
            return torch.zeros(self.batch, size, self.config.head_dim, dtype=torch.float32, device=self.device), \
                torch.full((self.batch, size), -1, device=self.device)
        position = positions_of_slots(self.lengths, size)              # [B, window]
        return rings[layer].read(size), position.clamp(min=-1).to(self.device)

    def history(self, layer: int) -> Tensor:
        """A layer's ring in order, the newest row last: float32 [B, window, C]."""
        return torch.take_along_dim(self.window[layer].read(self.config.sliding_window), self._slots_in_order()[..., None], 1)

    def recent_ids(self, count: int) -> Tensor:
        """Compressed ids of the last `count` tokens, the newest last, DEAD before the start: int64 [B, count]."""
        if not 1 <= count <= self.config.sliding_window:
            raise ValueError(f"count = {count}, must be 1 … {self.config.sliding_window} (sliding_window)")
        ids = torch.take_along_dim(self.look_back, self._slots_in_order(), 1)[:, -count:]
        before = self.lengths[:, None] - torch.arange(count, 0, -1) < 0
        return ids.masked_fill(before.to(self.device), DEAD)

    def _slots_in_order(self) -> Tensor:
        size = self.config.sliding_window
        return ((self.lengths[:, None] + torch.arange(size)) % size).to(self.device)  # [B, window]

    # -- going back --------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Remember this state. Costs one copy of the rings and tails, none of the global rows."""
        snapshot = Snapshot.of(self)
        self._snapshots.add(snapshot)
        return snapshot

    def restore(self, snapshot: Snapshot) -> None:
        """Return to a remembered state, exactly. Raises ValueError if it belongs to another cache or its rows are gone."""
        if not isinstance(snapshot, Snapshot):
            raise ValueError(f"snapshot = {snapshot!r}, must come from this cache's snapshot()")
        snapshot.check(self)
        if not snapshot.drafted:
            self.draft_window = []
        self._cut_to(snapshot.lengths)
        self.pair_start = snapshot.pair_start.clone()
        for tensor, saved in zip(self.overwritten(), snapshot.overwritten, strict=True):
            tensor.copy_(saved)

    def truncate(self, lengths: int | Tensor) -> None:
        """Drop the newest tokens, where rings and tails still hold what is needed; otherwise use snapshot and restore.

        lengths [B] or one number. A ring can go back while nothing in it was overwritten (length <= window). An odd length
        needs the first half of its pair, which only the newest pair still has.
        """
        new = whole_counts("lengths", lengths, self.batch).clone()  # [B]
        if bool((new < 0).any()) or bool((new > self.lengths).any()):
            raise ValueError(f"lengths = {new.tolist()}, must be 0 … {self.lengths.tolist()}")
        lost = (self.lengths > self.config.sliding_window) & (new < self.lengths)
        if self.tail:
            lost |= (new % 2 == 1) & (new - 1 != self.pair_start)
        if bool(lost.any()):
            raise ValueError(f"lengths = {new.tolist()} from {self.lengths.tolist()}: window rows or an open pair are gone; "
                             "take a snapshot before and restore it")  # fmt: skip
        self._cut_to(new)

    def _cut_to(self, lengths: Tensor) -> None:
        self.lengths = lengths.clone()
        self.discard()
        for snapshot in self._snapshots:
            snapshot.lowest = torch.minimum(snapshot.lowest, lengths)

    def overwritten(self) -> list[Tensor]:
        """The tensors that later tokens write over."""
        rings = [tensor for ring in self.window + self.draft_window for tensor in ring.tensors.values()]
        return [*rings, *self.tail.values(), self.look_back, self.window_start]

    # -- bytes -------------------------------------------------------------------------------------------------

    def report(self) -> list[Part]:
        """Used and allocated bytes of every layer and part, read off the live tensors."""
        return parts(self)

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

    def _check_layer(self, layer: int, draft: bool) -> None:
        most = self.config.num_nextn_predict_layers if draft else self.config.num_hidden_layers
        if type(layer) is not int or not 0 <= layer < most:
            raise ValueError(f"layer = {layer}, must be 0 … {most - 1}")

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


def _chosen(values: Tensor, live: Tensor) -> Tensor:
    """The live entries of [B, n, …] as [n live, …]."""
    return values.flatten(0, 1) if bool(live.all()) else values[live.to(values.device)]
