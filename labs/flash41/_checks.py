"""What a `Config` must satisfy. One function per block; each message names the field, its value and what is allowed."""

from __future__ import annotations

from itertools import count, islice, pairwise
from math import isfinite


def check(c) -> None:
    """Raise ValueError for the first constraint that the configuration breaks."""
    for part in (_numbers, _fixed, _attention, _layers, _indexer, _moe, _engram, _dspark):
        part(c)


def _demand(true: bool, field: str, value, allowed: str) -> None:
    if not true:
        raise ValueError(f"{field} = {value!r}: must be {allowed}")


POSITIVE = """vocab_size hidden_size moe_intermediate_size num_hidden_layers num_attention_heads head_dim qk_rope_head_dim
q_lora_rank o_lora_rank o_groups max_position_embeddings n_routed_experts num_experts_per_tok sliding_window index_n_heads
index_head_dim index_topk candidate_topk_blocks candidate_block_size hc_mult hc_sinkhorn_iters engram_max_ngram_size
engram_vocab_size engram_n_heads engram_head_dim engram_compressed_vocab_size""".split()
NATURAL = """num_nextn_predict_layers dspark_block_size dspark_markov_rank dspark_n_routed_experts dspark_num_experts_per_tok
candidate_source_layer_id engram_pad_token_id dspark_noise_token_id""".split()
AT_MOST = dict(num_hidden_layers=1000, num_nextn_predict_layers=100, engram_vocab_size=10**9, engram_n_heads=64, engram_max_ngram_size=16)
REAL = "swiglu_limit rms_norm_eps routed_scaling_factor hc_eps initializer_range".split()
THETAS = ("rope_theta", "compress_rope_theta")
LAYER_LISTS = """compress_ratios kv_source_layer_ids index_source_layer_ids engram_layer_ids engram_num_embeddings
dspark_target_layer_ids""".split()


def _is_int(value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_real(value) -> bool:
    return (_is_int(value) and abs(value) < 2**1023) or (isinstance(value, float) and isfinite(value))


def _numbers(c) -> None:
    for name in POSITIVE:
        value = getattr(c, name)
        _demand(_is_int(value) and value > 0, name, value, "a positive integer")
    for name in NATURAL:
        value = getattr(c, name)
        _demand(_is_int(value) and value >= 0, name, value, "an integer >= 0")
    for name, most in AT_MOST.items():  # larger values would only make the checks below run for ever
        _demand(getattr(c, name) <= most, name, getattr(c, name), f"at most {most:,}")
    for name in REAL:
        value = getattr(c, name)
        _demand(_is_real(value) and value > 0, name, value, "a positive number")
    for name in THETAS:
        value = getattr(c, name)
        _demand(_is_real(value) and value > 1, name, value, "a number above 1")
    for name in LAYER_LISTS:
        value = getattr(c, name)
        _demand(isinstance(value, tuple) and all(map(_is_int, value)), name, value, "a list of integers")
    _demand(isinstance(c.use_cache, bool), "use_cache", c.use_cache, "true or false")
    yarn = c.rope_scaling
    _demand(getattr(yarn, "rope_type", None) == "yarn", "rope_scaling", yarn, "YaRN parameters (rope_type 'yarn')")
    for name in ("factor", "beta_fast", "beta_slow", "original_max_position_embeddings"):
        value = getattr(yarn, name)
        _demand(_is_real(value) and value > 0, f"rope_scaling.{name}", value, "a positive number")


def _fixed(c) -> None:
    """Switches that have one position in this architecture; another value would be ignored silently."""
    fixed = dict(num_key_value_heads=1, hidden_act="silu", attention_bias=False, attention_dropout=0.0, n_shared_experts=1,
                 scoring_func="sqrtsoftplus", topk_method="noaux_tc", norm_topk_prob=True, tie_word_embeddings=False,
                 model_type="deepseek_v41_text")  # fmt: skip
    for name, only in fixed.items():
        value = getattr(c, name)
        same = value == only and isinstance(value, bool) == isinstance(only, bool)
        _demand(same, name, value, f"{only!r}, the only value of this architecture")


def _attention(c) -> None:
    _demand(c.head_dim % 32 == 0, "head_dim", c.head_dim, "a multiple of 32, the channels per FP8 scale")
    _demand(c.index_head_dim % 32 == 0, "index_head_dim", c.index_head_dim, "a multiple of 32, the channels per FP4 scale")
    smallest = min(c.head_dim, c.index_head_dim)
    _demand(c.qk_rope_head_dim % 2 == 0 and c.qk_rope_head_dim <= smallest, "qk_rope_head_dim", c.qk_rope_head_dim,
            f"even and at most {smallest} (head_dim and index_head_dim hold it)")  # fmt: skip
    _demand(c.num_attention_heads % c.o_groups == 0, "o_groups", c.o_groups,
            f"a divisor of num_attention_heads = {c.num_attention_heads}")  # fmt: skip


def _ascending(c, name: str, allowed: range) -> None:
    ids = getattr(c, name)
    good = all(a < b for a, b in pairwise(ids)) and all(i in allowed for i in ids)
    _demand(good, name, ids, f"ascending layer numbers in {allowed.start} … {allowed.stop - 1}")


def _layers(c) -> None:
    layers, drafts = c.num_hidden_layers, c.num_nextn_predict_layers
    ratios = c.compress_ratios
    _demand(len(ratios) == layers + drafts, "compress_ratios", ratios,
            f"{layers} layers + {drafts} draft layers = {layers + drafts} entries, got {len(ratios)}")  # fmt: skip
    _demand(set(ratios) <= {0, 1, 2}, "compress_ratios", ratios, "made of 0 (window only), 1 and 2")
    _demand(set(ratios[layers:]) <= {0}, "compress_ratios", ratios, "0 for every draft layer")
    for name in ("kv_source_layer_ids", "index_source_layer_ids"):
        _ascending(c, name, range(layers))
        windowed = [layer for layer in getattr(c, name) if ratios[layer] == 0]
        _demand(not windowed, name, getattr(c, name), f"layers with a compress ratio above 0; {windowed} have none")
    _demand(set(c.kv_source_layer_ids) <= set(c.index_source_layer_ids), "index_source_layer_ids", c.index_source_layer_ids,
            f"a superset of kv_source_layer_ids = {c.kv_source_layer_ids}")  # fmt: skip
    for first, length, ratio in c.ratio_runs:
        _demand(ratio == 0 or first in c.kv_source_layer_ids, "kv_source_layer_ids", c.kv_source_layer_ids,
                f"such that layer {first} is in it: it opens the run {first} … {first + length - 1} of ratio {ratio}")  # fmt: skip


def _indexer(c) -> None:
    pool = c.candidate_topk_blocks * c.candidate_block_size
    _demand(pool >= c.index_topk, "candidate_topk_blocks", c.candidate_topk_blocks,
            f"large enough that {c.candidate_topk_blocks} blocks of {c.candidate_block_size} hold index_topk = {c.index_topk} rows")  # fmt: skip
    decoder = [layer for layer in range(c.num_hidden_layers) if c.compress_ratios[layer] == 1]
    if decoder:
        _demand(c.candidate_source_layer_id == decoder[0], "candidate_source_layer_id", c.candidate_source_layer_id,
                f"{decoder[0]}, the first layer with ratio 1")  # fmt: skip


def _moe(c) -> None:
    _demand(c.num_experts_per_tok <= c.n_routed_experts, "num_experts_per_tok", c.num_experts_per_tok,
            f"at most n_routed_experts = {c.n_routed_experts}")  # fmt: skip


def _engram(c) -> None:
    _ascending(c, "engram_layer_ids", range(c.num_hidden_layers))
    if not c.engram_layer_ids:
        return _demand(not c.engram_num_embeddings, "engram_num_embeddings", c.engram_num_embeddings, "empty without Engram layers")
    _demand(2 <= c.engram_max_ngram_size <= c.sliding_window + 1, "engram_max_ngram_size", c.engram_max_ngram_size,
            f"2 … {c.sliding_window + 1}: the cache remembers the ids of sliding_window = {c.sliding_window} tokens")  # fmt: skip
    _demand(0 <= c.engram_pad_token_id < c.vocab_size, "engram_pad_token_id", c.engram_pad_token_id,
            f"a token id below vocab_size = {c.vocab_size}")  # fmt: skip
    _demand(c.engram_compressed_vocab_size <= c.vocab_size, "engram_compressed_vocab_size", c.engram_compressed_vocab_size,
            f"at most vocab_size = {c.vocab_size}")  # fmt: skip
    sums = tuple(sum(sum(order) for order in layer) for layer in c.engram_primes)
    _demand(c.engram_num_embeddings == sums, "engram_num_embeddings", c.engram_num_embeddings,
            f"the sums of the bucket primes, {sums}")  # fmt: skip


def _dspark(c) -> None:
    if c.num_nextn_predict_layers == 0:
        return
    for name in ("dspark_block_size", "dspark_markov_rank", "dspark_n_routed_experts", "dspark_num_experts_per_tok"):
        _demand(getattr(c, name) > 0, name, getattr(c, name), "positive where there are draft layers")
    _ascending(c, "dspark_target_layer_ids", range(c.num_hidden_layers))
    _demand(len(c.dspark_target_layer_ids) > 0, "dspark_target_layer_ids", c.dspark_target_layer_ids, "at least one layer")
    _demand(c.dspark_num_experts_per_tok <= c.dspark_n_routed_experts, "dspark_num_experts_per_tok",
            c.dspark_num_experts_per_tok, f"at most dspark_n_routed_experts = {c.dspark_n_routed_experts}")  # fmt: skip
    _demand(0 <= c.dspark_noise_token_id < c.vocab_size, "dspark_noise_token_id", c.dspark_noise_token_id,
            f"a token id below vocab_size = {c.vocab_size}")  # fmt: skip


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))


def engram_primes(c) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """Distinct primes >= engram_vocab_size, in order: for each Engram layer, each n-gram order, each head (official engram)."""
    primes = (number for number in count(c.engram_vocab_size) if _is_prime(number))
    orders = c.engram_max_ngram_size - 1
    return tuple(
        tuple(tuple(islice(primes, c.engram_n_heads)) for _ in range(orders)) for _ in c.engram_layer_ids
    )  # fmt: skip
