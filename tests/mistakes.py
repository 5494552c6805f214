"""Mistakes on purpose: each breaks one rule of the model, by one small patch that pytest takes back.

Each is called as `mistake(patch, model)` with a pytest MonkeyPatch, breaks both paths, and is written for whole prompts in an
empty cache; `stale_index_keys` is for decode steps. The `*_not_quantised` need a cache with storage="float".
"""

import math
from dataclasses import replace

import torch
import torch.nn.functional as F

from flash41 import attention, compressor, dspark, formats, indexer, mhc
from flash41.attention import Attention
from flash41.block import Block
from flash41.engram import Engram
from flash41.formats import E2M1_E4M3, E2M1_E8M0, E4M3_E8M0
from flash41.indexer import Indexer
from flash41.layers import RMSNorm, apply_rope, rms_norm, rope_frequencies, rope_table
from flash41.moe import Expert, Router


def wrap(patch, owner, name, broken):
    """Put `broken` in place of owner.name; it receives what stood there as its first argument."""
    right = getattr(owner, name)
    patch.setattr(owner, name, lambda *args, **kw: broken(right, *args, **kw))


def parts(model, kind):
    return [part for part in model.modules() if isinstance(part, kind)]


# -- rotation ------------------------------------------------------------------------------------------------


def no_yarn(patch, model):
    turn(patch, model, lambda c, ratio: (c.compress_rope_theta if ratio else c.rope_theta,))


def yarn_everywhere(patch, model):
    turn(patch, model, lambda c, ratio: (c.compress_rope_theta if ratio else c.rope_theta, c.rope_scaling))


def one_theta(patch, model):
    """And without YaRN, which belongs to the other theta."""
    turn(patch, model, lambda c, ratio: (c.rope_theta,))


def turn(patch, model, rule):
    """Other frequencies in every layer: rule(config, ratio) -> theta, and YaRN or not."""
    for layer in parts(model, Attention):
        frequencies = rope_frequencies(model.config.qk_rope_head_dim, *rule(model.config, layer.ratio))
        patch.setitem(layer._buffers, "frequencies", frequencies.to(layer.frequencies.dtype))


def half_split_pairs(patch, model):
    def broken(right, x, cos, sin, **kw):
        half = cos.shape[-1]
        order = torch.arange(2 * half).unflatten(0, (2, half)).mT.flatten()  # 0, half, 1, half + 1, …
        still, moving = x[..., : -2 * half], x[..., -2 * half :]
        return torch.cat([still, right(moving[..., order], cos, sin, **kw)[..., order.argsort()]], dim=-1)

    for user in (attention, compressor, indexer):
        wrap(patch, user, "apply_rope", broken)


def row_at_its_number(patch, model):
    wrap(patch, attention, "rotated", lambda right, latents, first, ratio, frequencies: right(latents, first, 1, frequencies))


def row_at_its_last_token(patch, model):
    def broken(right, latents, first, ratio, frequencies):
        further = rope_table(torch.tensor(ratio - 1), frequencies)  # from the group's first token to its last
        return apply_rope(right(latents, first, ratio, frequencies), *further)

    wrap(patch, attention, "rotated", broken)


def no_inverse_rotation(patch, model):
    wrap(patch, attention, "apply_rope", lambda right, x, *table, inverse=False: x if inverse else right(x, *table))


# -- queries, compressed rows, choice ------------------------------------------------------------------------


def row_visible_late(patch, model):
    def broken(right, self, x, qr, rope, run):
        places = run.places
        run.places = replace(places, positions=places.positions - 1)  # choose as the token before could
        right(self, x, qr, rope, run)
        run.places = places

    wrap(patch, Attention, "choose", broken)


def norm_per_head(patch, model):
    def broken(right, self, x, rope):
        q, latent = right(self, x, rope)
        return rms_norm(q, None, self.config.rms_norm_eps), latent

    wrap(patch, Attention, "queries", broken)


def key_from_rotated_latent(patch, model):
    for layer in parts(model, Attention):
        if hasattr(layer, "compressor"):
            wrap(patch, layer.indexer, "keys", lambda right, latents, layer=layer: right(rotated_from_0(latents, layer)))


def rotated_from_0(latents, layer):
    return compressor.rotated(latents, torch.zeros(len(latents), dtype=torch.int64), layer.ratio, layer.frequencies)


def no_relu(patch, model):
    patch.setattr(attention, "scores", lambda q, weights, keys: torch.einsum("bth,bthc,bnc->btn", weights, q, keys.to(q.dtype)))


def index_not_quantised(patch, model):
    not_quantised(patch, E2M1_E8M0)


def window_not_quantised(patch, model):
    not_quantised(patch, E4M3_E8M0)


def rows_not_quantised(patch, model):
    not_quantised(patch, E2M1_E4M3)


def not_quantised(patch, fmt):
    """One format gives back what it was given."""
    wrap(patch, formats.BlockFormat, "roundtrip", lambda right, self, x: x if self is fmt else right(self, x))


def candidates_ignored(patch, model):
    def broken(right, self, queries, weights, visible, blocks, *rest):
        return right(self, queries, weights, visible, None, *rest)

    wrap(patch, Attention, "_choose", broken)


def candidates_at_their_source(patch, model):
    c = model.config
    later = next(layer for layer in c.index_source_layer_ids if layer > c.candidate_source_layer_id)

    def broken(right, self, queries, weights, visible, blocks, *rest):
        chosen, found = right(self, queries, weights, visible, blocks, *rest)
        if found is None:
            return chosen, None
        return right(model.layers[later].attn, queries, weights, visible, found, *rest)[0], found  # chosen as the next one does

    wrap(patch, Attention, "_choose", broken)


def newest_block_not_forced(patch, model):
    wrap(patch, attention, "candidate_blocks", lambda right, score, visible, c: right(score, torch.zeros_like(visible), c))


# -- attention core ------------------------------------------------------------------------------------------


def no_sink(patch, model):
    for name in ("attend_plain", "attend"):
        wrap(patch, attention, name, lambda right, *args: right(*args[:-1], torch.full_like(args[-1], -torch.inf)))


def window_too_long(patch, model):
    patch.setitem(vars(model.config), "sliding_window", model.config.sliding_window + 1)  # a frozen object, behind its checks


# -- streams -------------------------------------------------------------------------------------------------


def own_mix(patch, model):
    mixes = record_mixes(patch)
    wrap(patch, mhc, "collapse", lambda right, streams, a: right(streams, mixes[-1]))


def attention_mix_handed_on(patch, model):
    mixes = record_mixes(patch)
    wrap(patch, Block, "forward", lambda right, self, *args: (right(self, *args)[0], mixes[-2]))


def record_mixes(patch):
    """A list that receives the A of every site."""
    mixes = []

    def recording(right, *args):
        found = right(*args)
        mixes.append(found[0])
        return found

    wrap(patch, mhc, "coefficients", recording)
    return mixes


def other_index_of_b(patch, model):
    wrap(patch, mhc, "write_back", lambda right, streams, y, c, b: right(streams, y, c, b.mT))


def sinkhorn_round_missing(patch, model):
    patch.setitem(vars(model.config), "hc_sinkhorn_iters", model.config.hc_sinkhorn_iters - 1)


def no_engram(patch, model):
    patch.setattr(Block, "remember", lambda self, streams, run: streams)


# -- experts and norms ---------------------------------------------------------------------------------------


def bias_in_the_weights(patch, model):
    def broken(right, self, x, image=None):
        experts, _ = right(self, x, image)
        weights = (F.softplus(x @ self.weight.mT).sqrt() + self.bias).gather(-1, experts)  # [n, k]
        total = weights.sum(-1, keepdim=True) if self.chosen > 1 else 1
        return experts, weights / total * self.scale

    wrap(patch, Router, "forward", broken)


def image_bias_for_text(patch, model):
    wrap(patch, Router, "forward", lambda right, self, x, image=None: right(self, x, torch.ones(len(x), dtype=torch.bool)))


def shared_expert_scaled(patch, model):
    for block in parts(model, Block):
        wrap(patch, block.ffn.shared_experts, "forward", lambda right, x: right(x) * model.config.routed_scaling_factor)


def no_clamp(patch, model):
    for expert in parts(model, Expert):
        patch.setattr(expert, "limit", math.inf)


def gate_clamped_below(patch, model):
    wrap(patch, F, "silu", lambda right, gate: right(gate.clamp(min=-model.config.swiglu_limit)))


def fixed_epsilon(patch, model):
    """In the norms and in the Engram gate; the statistic of the mHC sites keeps the configured one."""
    for part in parts(model, RMSNorm | Engram):
        patch.setattr(part, "eps", 1e-6)


# -- drafter and decode steps --------------------------------------------------------------------------------


def causal_draft(patch, model):
    def broken(right, q, keys, seen, sink):
        block = q.shape[1]
        later = torch.ones(block, block, dtype=torch.bool).triu(1)
        return right(q, keys, seen & ~F.pad(later, (keys.shape[1] - block, 0)), sink)

    wrap(patch, dspark, "attend_plain", broken)


def draft_starts_at_t(patch, model):
    wrap(patch, dspark, "DraftRun", lambda right, cache, positions, notes: right(cache, positions - 1, notes))


def confidence_from_normed(patch, model):
    last, width = model.mtp[-1], model.config.hidden_size

    def broken(right, x):
        return right(torch.cat([last.norm(x[..., :width]), x[..., width:]], dim=-1))

    wrap(patch, last.confidence_head["proj"], "forward", broken)


def features_before_engram(patch, model):
    entering = {}

    def recording(right, self, streams, run):
        entering[self.layer] = streams.mean(2)
        return right(self, streams, run)

    wrap(patch, Block, "remember", recording)
    targets = model.config.dspark_target_layer_ids
    wrap(patch, dspark.Drafter, "main_x", lambda right, self, _: right(self, [entering[layer] for layer in targets]))


def stale_index_keys(patch, model):
    """A decode step that closes no group scores the keys that were published last: those of the last source layer."""
    last = model.config.kv_source_layer_ids[-1]

    def broken(right, self, queries, weights, visible, blocks, store, width, run):
        open_group = queries.shape[1] == 1 and int(run.places.positions[0, -1] + 1) % self.ratio
        found = right(self, queries, weights, visible, blocks, run.cache.index_keys[last] if open_group else store, width, run)
        run.decoded.clear()  # that store grows later in the same pass
        return found

    wrap(patch, Attention, "_choose", broken)


def index_weights_not_scaled(patch, model):
    """The order of the scores stays the same."""
    for part in parts(model, Indexer):
        wrap(patch, part.weights_proj, "forward", lambda right, x, part=part: right(x) * (part.width * part.heads) ** 0.5)
