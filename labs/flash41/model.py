"""The path: token ids -> four streams -> forty layers -> logits. Data flows one way; the cache is passed in."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from . import ced, checkpoint, mhc
from .block import Block, Shared
from .cache import KVCache
from .config import Config
from .dspark import DraftAttention, Drafter
from .embedding import Places, embed_streams
from .engram import DEAD, Embedding, look_back
from .layers import RMSNorm

PATHS = ("plain", "fast")


class Model(nn.Module):
    """The whole text model with the released parameter names.

    token_map [V]: compressed Engram id of each token; default: ids modulo the compressed vocabulary, a stand-in for the
    tokenizer that this package does not have. Weights are random, the same for the same seed, until they are loaded.
    """

    def __init__(self, config: Config, *, token_map: Tensor | None = None, dtype=torch.float32, device=None, seed: int = 0):
        super().__init__()
        kw = {"dtype": dtype, "device": device}
        self.config, self.dtype = config, dtype
        self.embed = Embedding(config.vocab_size, config.hidden_size, **kw)
        self.layers = nn.ModuleList(Block(config, layer, **kw) for layer in range(config.num_hidden_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps, **kw)
        self.mtp = nn.ModuleList(DraftBlock(config, i, **kw) for i in range(config.num_nextn_predict_layers))
        self.head = nn.Linear(config.hidden_size, config.vocab_size, bias=False, **kw)
        if token_map is None:
            token_map = torch.arange(config.vocab_size) % config.engram_compressed_vocab_size
        self.register_buffer("token_map", _checked_map(token_map, config).to(device), persistent=False)
        initialise(self, seed)

    @classmethod
    def pretrained(cls, name: str = "apprentice", *, dtype=torch.float32, device=None) -> Model:
        """A trained model that comes with the package, its token map included. Raises ValueError for a name that there is not."""
        config, token_map, state, _ = checkpoint.read(checkpoint.path_of(name))
        model = cls(config, token_map=token_map, dtype=dtype, device=device)
        model.load_state_dict(state)
        return model.requires_grad_(False)

    @property
    def device(self) -> torch.device:
        return self.embed.weight.device

    @torch.no_grad()
    def forward(
        self, ids: Tensor, cache: KVCache | None = None, *, image_embeds: Tensor | None = None, image_mask: Tensor | None = None,
        schedule: str = "exact", path: str = "fast", live: Tensor | None = None, notes: dict | None = None,
    ) -> Tensor:  # fmt: skip
        """Logits [B, T, V] of the tokens ids [B, T] that follow what the cache holds; bounded: of the last window only.

        live [B, T] bool: False marks padding, which must stand on the left. image_embeds [n, D] replace the embeddings at the
        n True places of image_mask [B, T]. Without a cache one is made and dropped. notes: a dict that receives the
        intermediates. A schedule belongs to this call: of a prompt in chunks, each bounded one pays the decoder for a window.
        Raises ValueError or TypeError for bad input and leaves the cache as it was.
        """
        cache, live = self.check(ids, cache, live, image_embeds, image_mask, schedule, path)
        try:
            logits, run = self.stage(ids, cache, live, image_embeds, image_mask, schedule, path, notes)
            self.commit(run, live.sum(1))
        finally:
            cache.discard()
        return logits

    def stage(
        self, ids, cache, live, image_embeds=None, image_mask=None, schedule="exact", path="fast", notes=None
    ) -> tuple[Tensor, Shared]:
        """The forward pass without the commit: logits and what the pass shared."""
        run = self.start(ids, cache, live, image_mask, path, notes)
        return self.through(run, ids, image_embeds, image_mask, schedule), run

    def through(self, run: Shared, ids: Tensor, image_embeds=None, image_mask=None, schedule: str = "exact") -> Tensor:
        """Embedding, layers, head: the path, top to bottom.  [B, T] -> [B, T, V]."""
        streams = embed_streams(self.embed.weight, ids, self.config.hc_mult, image_embeds, image_mask)  # [B, T, S, D]
        mix = mhc.first_mix(streams, torch.promote_types(self.dtype, torch.float32))                    # [B, T, S]
        decoder, kept = ced.first_decoder_layer(self.config), ced.replay_tokens(self.config, ids.shape[1], schedule)
        for layer, block in enumerate(self.layers):
            streams = block.remember(streams, run)
            if layer == decoder:
                streams, mix = self.enter_decoder(block, streams, mix, kept, run)
            if layer in self.config.dspark_target_layer_ids:
                run.features.append(streams.mean(2))                   # [B, T, D]
            streams, mix = block(streams, mix, run)
        return self.logits(mhc.collapse(streams, mix), run)

    def commit(self, run: Shared, counts: Tensor) -> None:
        """Keep the first counts [B] tokens of a staged pass, the drafter's context among them."""
        if self.mtp:
            self.drafter.stage_context(run)
        run.cache.advance(counts.cpu())
        run.cache.window_start.copy_(run.window_start)

    def start(
        self, ids: Tensor, cache: KVCache, live: Tensor, image_mask: Tensor | None, path: str, notes, kind: type[Shared] = Shared
    ) -> Shared:
        """Where the tokens stand, their compressed ids for Engram, and which are text."""
        cache.discard()
        places = Places.of(cache.lengths.to(self.device), live)
        run = kind(cache, places, path == "plain", notes=notes, image=image_mask, window_start=torch.zeros_like(places.start))
        run.text = live if image_mask is None else live & ~image_mask
        if self.config.engram_layer_ids:
            depth = self.config.engram_max_ngram_size
            compressed = torch.where(run.text, self.token_map[ids], DEAD)               # [B, T]
            history = places.join(cache.recent_ids(depth - 1), compressed)              # [B, depth - 1 + T]
            run.steps = look_back(history, depth, int(self.token_map[self.config.engram_pad_token_id]))
            cache.write_look_back(compressed, live)
        return run

    def enter_decoder(self, block: Block, streams: Tensor, mix: Tensor, kept: int, run: Shared) -> tuple[Tensor, Tensor]:
        """Bounded replay: the first decoder layer writes its rows for all tokens, then only the last `kept` go on."""
        run.window_start = run.cache.window_start
        if kept == streams.shape[1]:
            return streams, mix
        block.attn.write_rows(block.attn_norm(mhc.collapse(streams, mix)), run)
        run.keep_last(kept)
        run.rows_written = True
        return streams[:, -kept:], mix[:, -kept:]

    def logits(self, collapsed: Tensor, run: Shared) -> Tensor:
        """Final norm and head, in float32 or wider.  [B, T, D] -> [B, T, V]."""
        run.note("final.collapsed", collapsed)
        hidden = self.norm(collapsed)
        run.note("final.hidden", hidden)
        wide = torch.promote_types(self.dtype, torch.float32)
        return hidden.to(wide) @ self.head.weight.to(wide).mT

    @property
    def drafter(self) -> Drafter:
        """The drafter over this model's embedding and head. Raises ValueError if the model has no draft layers."""
        if not self.mtp:
            raise ValueError("num_nextn_predict_layers = 0: this model has no drafter")
        return Drafter(self)

    def check(self, ids, cache, live, image_embeds, image_mask, schedule, path) -> tuple[KVCache, Tensor]:
        """The door: refuse what the pass cannot run on, name the value and what is allowed. Returns cache and live."""
        c = self.config
        if ids.dtype != torch.int64 or ids.dim() != 2:
            raise TypeError(f"ids must be int64 [B, T], got {ids.dtype} {tuple(ids.shape)}")
        if ids.numel() == 0:
            raise ValueError(f"ids has shape {tuple(ids.shape)}, must hold at least one token")
        if ids.device.type != self.device.type:
            raise ValueError(f"ids is on {ids.device}, must be on {self.device}")
        if path not in PATHS:
            raise ValueError(f"path = {path!r}, must be one of {PATHS}")
        live = torch.ones_like(ids, dtype=torch.bool) if live is None else live
        if live.dtype != torch.bool or live.shape != ids.shape:
            raise ValueError(f"live is {live.dtype} {tuple(live.shape)}, must be bool {tuple(ids.shape)}")
        if bool((live[:, :-1] & ~live[:, 1:]).any()) or not bool(live[:, -1].all()):
            raise ValueError("live: padding must stand on the left of the live tokens, and every row needs one live token")
        wrong = live & ((ids < 0) | (ids >= c.vocab_size))
        if bool(wrong.any()):
            place = wrong.nonzero()[0].tolist()
            raise ValueError(f"ids{place} = {int(ids[tuple(place)])}, must be 0 … {c.vocab_size - 1}")
        ced.check_schedule(c, schedule)
        check_images(ids, live, image_embeds, image_mask, c)
        return self.check_cache(cache, ids, live), live

    def check_cache(self, cache: KVCache | None, ids: Tensor, live: Tensor) -> KVCache:
        """A cache of this configuration, on this device, with room; a fresh one for None."""
        if cache is None:
            cache = KVCache(self.config, len(ids), device=self.device)
        if cache.config != self.config:
            raise ValueError("cache belongs to another configuration than the model")
        if cache.batch != len(ids):
            raise ValueError(f"cache holds {cache.batch} sequences, ids has {len(ids)} rows")
        if cache.device.type != self.device.type:
            raise ValueError(f"cache is on {cache.device}, must be on {self.device}")
        ends = cache.lengths + live.sum(1).cpu()
        if int(ends.max()) > cache.capacity:
            raise ValueError(f"cache is full: {int(ends.max())} tokens, must be at most capacity = {cache.capacity}")
        return cache


class DraftBlock(Block):
    """A block of the drafter, with the released names of the parts that only the first and the last one have."""

    def __init__(self, config: Config, index: int, **kw):
        super().__init__(config, config.num_hidden_layers + index, DraftAttention, **kw)
        if index == 0:
            width = len(config.dspark_target_layer_ids) * config.hidden_size
            self.main_proj = nn.Linear(width, config.hidden_size, bias=False, **kw)
            self.main_norm = RMSNorm(config.hidden_size, config.rms_norm_eps, **kw)
        if index == config.num_nextn_predict_layers - 1:
            self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps, **kw)
            rank = config.dspark_markov_rank
            head = nn.Linear(rank, config.vocab_size, bias=False, **kw)
            self.markov_head = nn.ModuleDict({"embed": Embedding(config.vocab_size, rank, **kw), "head": head})
            width = config.hidden_size + rank
            self.confidence_head = nn.ModuleDict({"proj": nn.Linear(width, 1, bias=False, **kw)})


def check_images(ids: Tensor, live: Tensor, image_embeds: Tensor | None, image_mask: Tensor | None, config: Config) -> None:
    """Image embeddings come with a mask of the same number of live places."""
    if (image_embeds is None) != (image_mask is None):
        raise ValueError("image_embeds and image_mask must be given together")
    if image_mask is None:
        return
    if image_mask.dtype != torch.bool or image_mask.shape != ids.shape or bool((image_mask & ~live).any()):
        given = f"{image_mask.dtype} {tuple(image_mask.shape)}"
        raise ValueError(f"image_mask is {given}, must be bool {tuple(ids.shape)} on live tokens")
    wanted = (int(image_mask.sum()), config.hidden_size)
    if tuple(image_embeds.shape) != wanted:
        raise ValueError(f"image_embeds has shape {tuple(image_embeds.shape)}, must be {wanted}")


def _checked_map(token_map: Tensor, config: Config) -> Tensor:
    limit = config.engram_compressed_vocab_size
    if token_map.shape != (config.vocab_size,) or token_map.dtype != torch.int64:
        raise ValueError(f"token_map is {token_map.dtype} {tuple(token_map.shape)}, must be int64 ({config.vocab_size},)")
    if bool((token_map < 0).any()) or bool((token_map >= limit).any()):
        raise ValueError(f"token_map holds {int(token_map.min())} … {int(token_map.max())}, must be 0 … {limit - 1}")
    return token_map


@torch.no_grad()
def initialise(model: nn.Module, seed: int) -> None:
    """Random weights: matrices normal with the released deviation, gains 1, biases and sinks 0. Nothing to do on `meta`."""
    generator = None
    for name, parameter in model.named_parameters():
        if parameter.is_meta:
            return
        generator = generator or torch.Generator(parameter.device).manual_seed(seed)
        last = name.rsplit(".", 1)[-1]
        if last in ("hc_attn_scale", "hc_ffn_scale", "q_weight", "k_weight") or (parameter.dim() == 1 and last == "weight"):
            parameter.fill_(1)
        elif parameter.dim() == 1:
            parameter.zero_()
        else:
            parameter.normal_(0, model.config.initializer_range, generator=generator)
