"""The configuration: released values, roles, files, and every constraint by the name of its field."""

import json
from pathlib import Path

import numpy as np
import pytest

from flash41.config import Config, RopeScaling

GOLDEN = Path(__file__).parent / "golden"
PACKS = ["t8", "t6", "t8-yarn-far"]


def released_file(tmp_path, **changes):
    """A composite file as the release ships it, with its text_config."""
    path = tmp_path / "config.json"
    text = Config.flash().to_dict() | changes
    path.write_text(json.dumps({"model_type": "deepseek_v41", "image_token_id": 129264, "text_config": text}))
    return path


def test_roles_are_2_window_4_full_4_reindex_30_reuse():
    roles = Config.flash().roles
    assert {role: roles.count(role) for role in roles} == {"window": 2, "full": 4, "reindex": 4, "reuse": 30}
    assert [layer for layer in range(40) if roles[layer] == "reindex"] == [24, 28, 32, 36]


def test_every_layer_reads_the_nearest_source_before_it():
    config = Config.flash()
    assert [config.kv_source(layer) for layer in (0, 2, 7, 8, 13, 14, 19, 20, 39)] == [None, 2, 2, 8, 8, 14, 14, 20, 20]
    assert [config.index_source(layer) for layer in (1, 7, 20, 23, 24, 27, 39)] == [None, 2, 20, 20, 24, 24, 36]


@pytest.mark.parametrize("config", [Config.flash(), Config.tiny(), Config.slice()], ids=["flash", "tiny", "slice"])
def test_every_named_configuration_has_every_role_and_survives_a_file(config, tmp_path):
    assert set(config.roles) == {"window", "full", "reindex", "reuse"}
    path = tmp_path / "text.json"
    path.write_text(json.dumps(config.to_dict()))
    assert Config.from_json(path) == config


def test_slice_keeps_the_true_widths_and_fits_in_10_gb_of_fp16():
    flash, part = Config.flash(), Config.slice()
    widths = """hidden_size num_attention_heads head_dim qk_rope_head_dim q_lora_rank o_lora_rank o_groups moe_intermediate_size
        index_n_heads index_head_dim index_topk sliding_window hc_mult engram_n_heads engram_head_dim dspark_markov_rank""".split()
    assert all(getattr(part, name) == getattr(flash, name) for name in widths)
    assert (part.num_hidden_layers, part.n_routed_experts) == (8, 8)
    assert 2 * parameters(part) < 10e9


def parameters(c):
    """Upper estimate from the matrix shapes of the facts, section 5 (norms and biases are below a thousandth)."""
    expert = 3 * c.hidden_size * c.moe_intermediate_size
    width = c.num_attention_heads * c.head_dim
    attention = c.hidden_size * (c.q_lora_rank + c.head_dim + c.o_groups * c.o_lora_rank) + width * (c.q_lora_rank + c.o_lora_rank)
    mixing = 2 * 24 * c.hc_mult * c.hidden_size
    layers = c.num_hidden_layers * (attention + (c.n_routed_experts + 1) * expert + mixing)
    drafts = c.num_nextn_predict_layers * (attention + (c.dspark_n_routed_experts + 1) * expert + mixing)
    selection = len(c.index_source_layer_ids) * (c.index_n_heads * (c.q_lora_rank * c.index_head_dim + c.hidden_size))
    rows = len(c.kv_source_layer_ids) * (2 * c.hidden_size * c.head_dim + c.head_dim * c.index_head_dim)
    engram = sum(c.engram_num_embeddings) * c.engram_head_dim
    columns = (c.engram_max_ngram_size - 1) * c.engram_n_heads * c.engram_head_dim
    engram += len(c.engram_layer_ids) * columns * (c.hc_mult + 1) * c.hidden_size
    heads = 2 * c.vocab_size * c.hidden_size + 2 * c.dspark_markov_rank * c.vocab_size
    main = len(c.dspark_target_layer_ids) * c.hidden_size**2
    return 1.001 * (layers + drafts + selection + rows + engram + heads + main)


def test_the_parameter_estimate_of_the_slice_test_matches_the_released_total():
    vision = 485_268_480
    assert parameters(Config.flash()) + vision == pytest.approx(763_205_315_794, rel=2e-3)


def test_released_composite_file_and_golden_text_configs_load(tmp_path):
    assert Config.from_json(released_file(tmp_path)) == Config.flash()
    for name in PACKS:
        assert Config.from_json(GOLDEN / f"{name}.json").num_hidden_layers in (6, 8)


def test_engram_primes_equal_the_golden_constants():
    assert np.array_equal(np.array(Config.flash().engram_primes), np.load(GOLDEN / "constants.npz")["engram.primes"])


def test_missing_and_unknown_fields_and_broken_files_are_named(tmp_path):
    with pytest.raises(ValueError, match="unknown fields: hidden_sise"):
        Config.from_json(released_file(tmp_path, hidden_sise=3))
    text = Config.flash().to_dict()
    del text["head_dim"]
    path = tmp_path / "less.json"
    path.write_text(json.dumps(text))
    with pytest.raises(ValueError, match="lacks the field head_dim"):
        Config.from_json(path)
    path.write_text("{")
    with pytest.raises(ValueError, match="is not JSON"):
        Config.from_json(path)
    path.write_text("[]")
    with pytest.raises(ValueError, match="must hold a JSON object, got list"):
        Config.from_json(path)


def test_a_configuration_cannot_be_changed_in_place():
    with pytest.raises(AttributeError):
        Config.flash().head_dim = 64


RATIOS = Config.flash().compress_ratios
BROKEN = {
    "vocab_size": 0, "hidden_size": 5120.0, "num_hidden_layers": 39, "num_key_value_heads": 2, "head_dim": 500,
    "index_head_dim": 100, "qk_rope_head_dim": 63, "o_groups": 7, "hidden_act": "gelu", "swiglu_limit": float("nan"),
    "rms_norm_eps": 0, "attention_bias": True, "tie_word_embeddings": True, "rope_theta": -1, "scoring_func": "sigmoid",
    "rope_scaling": RopeScaling(rope_type="linear"), "topk_method": "greedy", "num_experts_per_tok": 385, "sliding_window": 0,
    "compress_ratios": RATIOS[:-1], "kv_source_layer_ids": (2, 8, 14), "index_source_layer_ids": (2, 8, 14, 24),
    "candidate_source_layer_id": 14, "candidate_topk_blocks": 63, "engram_layer_ids": (14, 1),
    "engram_num_embeddings": (384006168, 384016681), "engram_pad_token_id": 129280, "engram_compressed_vocab_size": 129281,
    "engram_max_ngram_size": 1, "dspark_noise_token_id": 129280, "dspark_target_layer_ids": (38, 40), "dspark_block_size": 0,
    "dspark_num_experts_per_tok": 129, "num_nextn_predict_layers": 2, "hc_mult": True,
    "engram_n_heads": 10**12, "engram_vocab_size": 10**12,
}  # fmt: skip


@pytest.mark.parametrize("field, value", BROKEN.items(), ids=BROKEN)
def test_a_broken_field_is_refused_with_what_is_allowed(field, value):
    named = {"num_hidden_layers": "compress_ratios", "num_nextn_predict_layers": "compress_ratios"}.get(field, field)
    with pytest.raises(ValueError, match=f"^{named}.* must be "):
        Config.flash().replace(**{field: value})


AT_THE_EDGE = [
    ("index_head_dim", 144, "a multiple of 32"), ("head_dim", 528, "a multiple of 32"), ("qk_rope_head_dim", 130, "at most 128"),
    ("kv_source_layer_ids", (2, 2, 8, 14, 20), "ascending"), ("candidate_source_layer_id", 21, "20, the first layer with ratio 1"),
    ("dspark_target_layer_ids", (), "at least one layer"), ("num_nextn_predict_layers", -1, "an integer >= 0"),
    ("index_source_layer_ids", (1, 2, 8, 14, 20), r"above 0; \[1\] have none"),
]  # fmt: skip


@pytest.mark.parametrize(("field", "value", "allowed"), AT_THE_EDGE, ids=[field for field, *_ in AT_THE_EDGE])
def test_a_value_beyond_the_edge_is_refused_for_its_own_reason(field, value, allowed):
    with pytest.raises(ValueError, match=f"^{field} = .* must be .*{allowed}"):
        Config.flash().replace(**{field: value})


def test_a_pool_of_exactly_top_k_and_a_model_without_engram_or_drafts_are_allowed():
    flash = Config.flash()
    assert flash.replace(candidate_topk_blocks=64).candidate_topk_blocks == 64
    assert flash.replace(engram_layer_ids=(), engram_num_embeddings=()).engram_primes == ()
    bare = dict(num_nextn_predict_layers=0, compress_ratios=RATIOS[:40], dspark_block_size=0, dspark_target_layer_ids=())
    assert flash.replace(**bare).ratio_runs == ((0, 2, 0), (2, 18, 2), (20, 20, 1))


@pytest.mark.parametrize("field", ["engram_pad_token_id", "dspark_noise_token_id", "vocab_size", "rms_norm_eps", "compress_ratios"])
@pytest.mark.parametrize("value", [None, "2", [2.5], True], ids=str)
def test_a_field_of_the_wrong_type_is_refused(field, value):
    with pytest.raises(ValueError, match=f"^{field} = "):
        Config.flash().replace(**{field: value})


@pytest.mark.parametrize("name", ["factor", "beta_fast", "beta_slow", "original_max_position_embeddings"])
@pytest.mark.parametrize("value", [None, True, [1], "4", 0, float("inf"), float("nan"), 10**400], ids=lambda value: str(value)[:5])
def test_a_broken_yarn_parameter_is_refused(name, value):
    with pytest.raises(ValueError, match=rf"^rope_scaling\.{name} = .*: must be a positive number"):
        Config.flash().replace(rope_scaling=RopeScaling(**{name: value}))


@pytest.mark.parametrize(("field", "value"), [
    ("rope_theta", 10**400), ("compress_rope_theta", 1), ("use_cache", "no"), ("num_key_value_heads", True), ("attention_bias", 0),
], ids=lambda given: str(given)[:20])  # fmt: skip
def test_a_number_that_is_too_large_or_no_switch_is_refused(field, value):
    with pytest.raises(ValueError, match=f"^{field} = .* must be "):
        Config.flash().replace(**{field: value})


@pytest.mark.parametrize("layer", [-1, 43])
def test_a_layer_that_there_is_not_has_no_source(layer):
    for ask in (Config.flash().kv_source, Config.flash().index_source):
        with pytest.raises(ValueError, match=f"layer = {layer}, must be 0 … 42"):
            ask(layer)


@pytest.mark.parametrize(("text", "message"), [
    (b"\xff\xfe", "is not JSON: 'utf-8' codec"),
    (b"[" * 100_000, "is not JSON"),
    (b'{"vocab_size": 1' + b"0" * 5000 + b"}", "is not JSON: Exceeds the limit"),
    (b'{"text_config": null}', "text_config must hold a JSON object, got NoneType"),
    (b'{"text_config": 3}', "text_config must hold a JSON object, got int"),
], ids=["bytes", "depth", "digits", "null", "number"])  # fmt: skip
def test_a_damaged_file_is_named(tmp_path, text, message):
    path = tmp_path / "damaged.json"
    path.write_bytes(text)
    with pytest.raises(ValueError, match=f"damaged.json:? {message}"):
        Config.from_json(path)


@pytest.mark.parametrize("ratios, field", [
    (RATIOS[:2] + (4,) + RATIOS[3:], "compress_ratios"),
    (RATIOS[:-1] + (1,), "compress_ratios"),
    ((2,) + RATIOS[1:], "kv_source_layer_ids"),
    (RATIOS[:2] + (0,) + RATIOS[3:], "kv_source_layer_ids"),
])  # fmt: skip
def test_ratios_must_fit_the_source_layers(ratios, field):
    with pytest.raises(ValueError, match=f"^{field}.* must be "):
        Config.flash().replace(compress_ratios=ratios)
