"""One layer of the path, and what the layers of one forward pass share."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from . import mhc
from .attention import Attention
from .cache import KVCache
from .config import Config
from .embedding import Places
from .engram import Engram
from .layers import RMSNorm
from .moe import MoE


TABLE = 2**24  # decoded numbers per sequence that one pass keeps of a store: 64 MiB


@dataclass
class Shared:
    """What the layers of one forward pass share."""

    cache: KVCache
    places: Places
    plain: bool
    steps: Tensor | None = None       # [B, T, depth] compressed ids for Engram
    text: Tensor | None = None        # [B, T] live and not an image token
    image: Tensor | None = None       # [B, T] image tokens, None if there are none
    chosen: Tensor | None = None      # [B, T, K] rows chosen by the last selecting layer
    candidates: Tensor | None = None  # [B, T, blocks] blocks that Reindex layers choose from
    skipped: Tensor | int = 0         # [B] tokens before these that decoder layers do not see (bounded replay)
    window_start: Tensor | None = None  # [B] first position whose window rows exist
    rows_written: bool = False        # the layer at hand has already written its rows, for more tokens than it sees
    features: list[Tensor] = field(default_factory=list)  # [B, T, D] per target layer: what the drafter reads
    notes: dict | None = None         # intermediates by golden name, where asked for
    decoded: dict = field(default_factory=dict)
    rooms: dict[int, Tensor] = field(default_factory=dict)

    def note(self, name: str, value: Tensor) -> None:
        if self.notes is not None:
            self.notes.setdefault(name, []).append(value)

    def noter(self, prefix: str):
        """note() for a part that does not know its layer: noter("moe.3.")("weights", value)."""
        return lambda name, value: self.note(prefix + name, value)

    def choose(self, attn: Attention, x: Tensor, qr: Tensor, rope) -> None:
        """The rows of a selecting layer. A training pass, or an experiment, puts its own choice here."""
        attn.choose(x, qr, rope, self)

    def core(self, attn: Attention, q: Tensor, window: Tensor) -> Tensor:
        """The attention core of a layer, [B, T, H, C]. A training pass puts its own form here."""
        return (attn.core_plain if self.plain else attn.core)(q, window, self)

    thin = None  # a training pass leaves out some of Engram's rows

    def keep_last(self, tokens: int) -> None:
        """From here on the pass sees only its last `tokens` tokens; their windows start at the first of them."""
        before, self.places = self.places, self.places.last(tokens)
        dropped = before.counts - self.places.counts                   # [B]
        self.skipped = dropped.cpu()
        self.window_start = torch.where(dropped > 0, self.places.start, self.window_start)
        cut = [None if t is None else t[:, -tokens:] for t in (self.steps, self.text, self.image)]
        self.steps, self.text, self.image = cut

    def gather(self, store, rows: Tensor, tokens: int) -> Tensor:
        """Chosen rows [B, T, K] of a store, float32 [B, T, K, C]. A pass of many tokens over few rows decodes each row once;
        a decode step, or a table above TABLE numbers, decodes only what was chosen. What comes back is good until the next call
        for as many rows: it lies in the same place, since new memory is slow."""
        if tokens == 1 or store.allocated * store.channels > TABLE:
            return store.gather(rows)
        table = self.decoded_rows(store, store.allocated)              # [B, N, C]
        sequence = torch.arange(len(rows), device=rows.device)[:, None, None]
        flat = (rows + sequence * table.shape[1]).flatten()            # [B * T * K]
        if torch.is_grad_enabled():
            return table.flatten(0, 1).index_select(0, flat).view(*rows.shape, -1)
        if len(flat) not in self.rooms:
            self.rooms[len(flat)] = table.new_empty(len(flat), table.shape[-1])
        return torch.index_select(table.flatten(0, 1), 0, flat, out=self.rooms[len(flat)]).view(*rows.shape, -1)

    def decoded_rows(self, store, width: int) -> Tensor:
        """The first `width` rows of a store, decoded once per pass."""
        key = id(store), width
        if key not in self.decoded:
            self.decoded[key] = store.read(width)
        return self.decoded[key]


class Block(nn.Module):
    """One layer: (Engram,) attention site, FFN site.  Forward: streams [B, T, S, D], mix [B, T, S] -> the same."""

    def __init__(self, config: Config, layer: int, attention: type[Attention] = Attention, **kw):
        super().__init__()
        c, self.config, self.layer = config, config, layer
        draft = layer >= c.num_hidden_layers
        wide = kw | {"dtype": torch.promote_types(kw["dtype"], torch.float32)}
        self.attn_norm = RMSNorm(c.hidden_size, c.rms_norm_eps, **kw)
        self.ffn_norm = RMSNorm(c.hidden_size, c.rms_norm_eps, **kw)
        self.attn = attention(c, layer, **kw)
        drafting, all_layers = (c.dspark_n_routed_experts, c.dspark_num_experts_per_tok), (c.n_routed_experts, c.num_experts_per_tok)
        self.ffn = MoE(c, *(drafting if draft else all_layers), **kw)
        self.hc_attn_fn, self.hc_attn_base, self.hc_attn_scale = mhc.site_parameters(c, **wide)
        self.hc_ffn_fn, self.hc_ffn_base, self.hc_ffn_scale = mhc.site_parameters(c, **wide)
        if not draft and layer in c.engram_layer_ids:
            self.engram = Engram(c, layer, **kw)

    def forward(self, streams: Tensor, mix: Tensor, run: Shared) -> tuple[Tensor, Tensor]:
        a, c, b = mhc.coefficients(streams, self.hc_attn_fn, self.hc_attn_base, self.hc_attn_scale, self.config, run.plain)
        self._note(run, "attn", a, c, b)
        y = self.attn(self.attn_norm(self._collapse(streams, mix, "attn", run)), run)
        run.note(f"attn.{self.layer}.out", y)
        streams = mhc.write_back(streams, y, c, b)
        mix, c, b = mhc.coefficients(streams, self.hc_ffn_fn, self.hc_ffn_base, self.hc_ffn_scale, self.config, run.plain)
        self._note(run, "ffn", mix, c, b)
        x = self.ffn_norm(self._collapse(streams, a, "ffn", run))
        y = self.ffn(x, run.image, run.plain, run.noter(f"moe.{self.layer}."))
        run.note(f"moe.{self.layer}.out", y)
        return mhc.write_back(streams, y, c, b), mix

    def remember(self, streams: Tensor, run: Shared) -> Tensor:
        """Engram before the layer, where it has one: streams [B, T, S, D] -> streams."""
        if not hasattr(self, "engram"):
            return streams
        streams = self.engram(streams, run.steps, run.text, run.noter(f"engram.{self.layer}."), run.thin)
        run.note(f"engram.{self.layer}.out", streams)
        return streams

    def _collapse(self, streams: Tensor, mix: Tensor, site: str, run: Shared) -> Tensor:
        u = mhc.collapse(streams, mix)
        run.note(f"block.{self.layer}.{site}_in", u)
        return u

    def _note(self, run: Shared, site: str, a: Tensor, c: Tensor, b: Tensor) -> None:
        for name, value in (("pre", a), ("post", c), ("comb", b)):
            run.note(f"hc.{self.layer}.{site}.{name}", value)
