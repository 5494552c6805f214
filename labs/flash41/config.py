"""The released configuration, under its released key names, checked at the door.

Letters used in the whole package: B batch, T tokens, N compressed rows, H heads, C latent width (`head_dim`),
D model width (`hidden_size`), S residual streams (`hc_mult`), V vocabulary.

Sources: the released `config.json`; report §4.2.1; the constraints are those the official code relies on.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path

from . import _checks

FULL, REINDEX, REUSE, WINDOW = "full", "reindex", "reuse", "window"


@dataclass(frozen=True)
class RopeScaling:
    """YaRN parameters of the layers with compressed rows. It changes frequencies only; there is no attention factor."""

    rope_type: str = "yarn"
    factor: float = 16
    beta_fast: float = 32
    beta_slow: float = 1
    original_max_position_embeddings: int = 65536


@dataclass(frozen=True)
class Config:
    """One text model of this architecture. The defaults are the released values.

    `compress_ratios` has one entry per layer and one 0 per draft layer: 0 = window only, r = r tokens per compressed row.
    Raises ValueError at construction; the message names the field, its value and what is allowed.
    """

    model_type: str = "deepseek_v41_text"
    vocab_size: int = 129280
    hidden_size: int = 5120
    moe_intermediate_size: int = 2304
    num_hidden_layers: int = 40
    num_attention_heads: int = 64
    num_key_value_heads: int = 1
    head_dim: int = 512
    qk_rope_head_dim: int = 64
    q_lora_rank: int = 1280
    o_lora_rank: int = 1024
    o_groups: int = 8
    hidden_act: str = "silu"
    swiglu_limit: float = 10.0
    rms_norm_eps: float = 1e-20
    attention_bias: bool = False
    attention_dropout: float = 0.0
    initializer_range: float = 0.02
    use_cache: bool = True
    tie_word_embeddings: bool = False
    max_position_embeddings: int = 1048576
    rope_theta: float = 10000
    rope_scaling: RopeScaling = RopeScaling()
    n_routed_experts: int = 384
    n_shared_experts: int = 1
    num_experts_per_tok: int = 6
    scoring_func: str = "sqrtsoftplus"
    topk_method: str = "noaux_tc"
    norm_topk_prob: bool = True
    routed_scaling_factor: float = 1.5
    sliding_window: int = 128
    compress_ratios: tuple[int, ...] = (0, 0) + (2,) * 18 + (1,) * 20 + (0, 0, 0)
    compress_rope_theta: float = 160000
    kv_source_layer_ids: tuple[int, ...] = (2, 8, 14, 20)
    index_source_layer_ids: tuple[int, ...] = (2, 8, 14, 20, 24, 28, 32, 36)
    index_n_heads: int = 32
    index_head_dim: int = 128
    index_topk: int = 512
    candidate_source_layer_id: int = 20
    candidate_topk_blocks: int = 2048
    candidate_block_size: int = 8
    hc_mult: int = 4
    hc_sinkhorn_iters: int = 20
    hc_eps: float = 1e-6
    engram_layer_ids: tuple[int, ...] = (1, 14)
    engram_num_embeddings: tuple[int, ...] = (384006168, 384016682)
    engram_max_ngram_size: int = 4
    engram_vocab_size: int = 16000000
    engram_n_heads: int = 8
    engram_head_dim: int = 256
    engram_pad_token_id: int = 2
    engram_compressed_vocab_size: int = 99092
    num_nextn_predict_layers: int = 3
    dspark_block_size: int = 5
    dspark_noise_token_id: int = 128799
    dspark_target_layer_ids: tuple[int, ...] = (37, 38, 39)
    dspark_markov_rank: int = 256
    dspark_n_routed_experts: int = 128
    dspark_num_experts_per_tok: int = 3

    def __post_init__(self):
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, list):
                object.__setattr__(self, field.name, tuple(value))
        if isinstance(self.rope_scaling, dict):
            object.__setattr__(self, "rope_scaling", _known_keys(RopeScaling, self.rope_scaling, "rope_scaling"))
        _checks.check(self)

    # -- where configurations come from ------------------------------------------------------------------------

    @classmethod
    def flash(cls) -> Config:
        """The released DeepSeek-V4.1-Flash."""
        return cls()

    @classmethod
    def tiny(cls) -> Config:
        """Every layer role and every block at toy widths: a forward pass takes milliseconds on a CPU."""
        return cls(
            vocab_size=256, hidden_size=64, moe_intermediate_size=32, num_hidden_layers=8,
            num_attention_heads=4, head_dim=64, qk_rope_head_dim=16, q_lora_rank=48, o_lora_rank=32, o_groups=2,
            max_position_embeddings=4096, rope_scaling=RopeScaling(original_max_position_embeddings=256),
            n_routed_experts=6, num_experts_per_tok=2, sliding_window=16,
            compress_ratios=(0, 0, 2, 2, 2, 1, 1, 1, 0, 0, 0),
            kv_source_layer_ids=(2, 4, 5), index_source_layer_ids=(2, 4, 5, 7),
            index_n_heads=4, index_head_dim=32, index_topk=8,
            candidate_source_layer_id=5, candidate_topk_blocks=4, candidate_block_size=4,
            engram_layer_ids=(1, 4), engram_num_embeddings=(580, 756), engram_vocab_size=80,
            engram_n_heads=2, engram_head_dim=32, engram_compressed_vocab_size=128,
            dspark_noise_token_id=255, dspark_target_layer_ids=(5, 6, 7), dspark_markov_rank=32,
            dspark_n_routed_experts=4, dspark_num_experts_per_tok=2,
        )  # fmt: skip

    @classmethod
    def slice(cls) -> Config:
        """The true widths on one device: 8 layers with every role, 8 experts, a short vocabulary, a shrunken Engram.

        Less than 10 GB in fp16. Widths, heads, ranks, latent and expert sizes are the released ones; counts are not.
        """
        return cls(
            vocab_size=16384, num_hidden_layers=8, n_routed_experts=8, num_experts_per_tok=2,
            compress_ratios=(0, 0, 2, 2, 2, 1, 1, 1, 0, 0, 0),
            kv_source_layer_ids=(2, 4, 5), index_source_layer_ids=(2, 4, 5, 7), candidate_source_layer_id=5,
            engram_layer_ids=(1, 4), engram_num_embeddings=(25874, 30058), engram_vocab_size=1000,
            engram_compressed_vocab_size=12288,
            dspark_noise_token_id=16383, dspark_target_layer_ids=(5, 6, 7),
            dspark_n_routed_experts=2, dspark_num_experts_per_tok=1,
        )  # fmt: skip

    @classmethod
    def apprentice(cls) -> Config:
        """The small model that was trained: every role and block, sized so that 32 of some hundred rows is a choice that matters."""
        return cls(
            vocab_size=1024, hidden_size=128, moe_intermediate_size=64, num_hidden_layers=8,
            num_attention_heads=4, head_dim=64, qk_rope_head_dim=16, q_lora_rank=64, o_lora_rank=64, o_groups=2,
            max_position_embeddings=4096, rope_scaling=RopeScaling(original_max_position_embeddings=1024),
            n_routed_experts=8, num_experts_per_tok=2, sliding_window=32,
            compress_ratios=(0, 0, 2, 2, 1, 1, 1, 1, 0, 0, 0),
            kv_source_layer_ids=(2, 4), index_source_layer_ids=(2, 4, 6),
            index_n_heads=4, index_head_dim=32, index_topk=32,
            candidate_source_layer_id=4, candidate_topk_blocks=16, candidate_block_size=8,
            engram_layer_ids=(1, 3), engram_num_embeddings=(30106, 30454), engram_vocab_size=5000,
            engram_n_heads=2, engram_head_dim=32, engram_compressed_vocab_size=762, engram_pad_token_id=1022,
            dspark_noise_token_id=1023, dspark_target_layer_ids=(5, 6, 7), dspark_markov_rank=64,
            dspark_n_routed_experts=4, dspark_num_experts_per_tok=2,
        )  # fmt: skip

    @classmethod
    def from_json(cls, path: str | Path) -> Config:
        """Read a released composite file (its `text_config`) or a bare `text_config`. All keys must be there and known.

        Raises OSError if the file cannot be read, ValueError if it holds something else or breaks a constraint.
        """
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, a number of thousands of digits, too deep
            raise ValueError(f"{path} is not JSON: {error}") from None
        text = data.get("text_config", data) if isinstance(data, dict) else data
        if not isinstance(text, dict):
            where = f"{path}: text_config" if text is not data else path
            raise ValueError(f"{where} must hold a JSON object, got {type(text).__name__}")
        missing = [field.name for field in fields(cls) if field.name not in text]
        if missing:
            raise ValueError(f"{path} lacks the field{'s' * (len(missing) > 1)} {', '.join(missing)}")
        return _known_keys(cls, text, str(path))

    def to_dict(self) -> dict:
        """The same keys as a `text_config`, JSON-ready."""
        plain = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}
        return plain

    def replace(self, **changes) -> Config:
        """A copy with some fields changed, checked anew."""
        return replace(self, **changes)

    # -- what each layer is ------------------------------------------------------------------------------------

    @cached_property
    def roles(self) -> tuple[str, ...]:
        """Role of each layer: "window", "full" (owns rows and selects), "reindex" (selects), "reuse" (borrows both)."""

        def role(layer: int) -> str:
            if self.compress_ratios[layer] == 0:
                return WINDOW
            if layer in self.kv_source_layer_ids:
                return FULL
            return REINDEX if layer in self.index_source_layer_ids else REUSE

        return tuple(role(layer) for layer in range(self.num_hidden_layers))

    def kv_source(self, layer: int) -> int | None:
        """The layer whose compressed rows this layer reads; None for a window-only layer."""
        return self._nearest(layer, self.kv_source_layer_ids)

    def index_source(self, layer: int) -> int | None:
        """The layer whose selection this layer uses; None for a window-only layer."""
        return self._nearest(layer, self.index_source_layer_ids)

    def _nearest(self, layer: int, sources: tuple[int, ...]) -> int | None:
        if not 0 <= layer < len(self.compress_ratios):
            raise ValueError(f"layer = {layer}, must be 0 … {len(self.compress_ratios) - 1}, draft layers included")
        if self.compress_ratios[layer] == 0:
            return None
        return max(source for source in sources if source <= layer)

    @cached_property
    def ratio_runs(self) -> tuple[tuple[int, int, int], ...]:
        """Runs of equal compress ratio among the layers, as (first layer, number of layers, ratio)."""
        runs, first = [], 0
        for ratio, group in groupby(self.compress_ratios[: self.num_hidden_layers]):
            length = len(list(group))
            runs.append((first, length, ratio))
            first += length
        return tuple(runs)

    @cached_property
    def engram_primes(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """Bucket counts [Engram layer][order][head]: distinct primes drawn upward from `engram_vocab_size`."""
        return _checks.engram_primes(self)


def _known_keys(cls, data: dict, where: str):
    known = {field.name for field in fields(cls)}
    unknown = sorted(set(data) - known)
    if unknown:
        raise ValueError(f"{where} has unknown fields: {', '.join(unknown)}")
    return cls(**data)
