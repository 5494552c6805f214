"""KV bytes per token of other families, from configuration files under their public key names."""

import json
from pathlib import Path

import pytest

from flash41.config import Config
from flash41.families import FAMILIES, load

DATA = Path(__file__).parent / "data"


def written(tmp_path, source: str | dict, **changes) -> Path:
    """A copy of a data file with some fields changed; the value DROP removes a field."""
    data = json.loads((DATA / f"{source}.json").read_text()) if isinstance(source, str) else dict(source)
    data |= changes
    path = tmp_path / "config.json"
    path.write_text(json.dumps({key: value for key, value in data.items() if value is not DROP}))
    return path


DROP = object()
V4_KINDS = {0: "sliding_attention", 4: "compressed_sparse_attention", 128: "heavily_compressed_attention"}


@pytest.mark.parametrize(
    ("name", "per_token", "once"),
    [
        ("qwen3-0.6b", 28 * 2 * 8 * 128 * 2, 0),
        ("deepseek-67b", 389_120, 0),
        ("llama-2-7b", 524_288, 0),
        ("mistral-7b-v0.1", 0, 32 * 4096 * 4096),
        ("gemma-2-2b", 13 * 4096, 13 * 4096 * 4096),
        ("gemma-3-4b", 5 * 4096, 29 * 1024 * 4096),
        ("deepseek-v3", 61 * 576 * 2, 0),
        ("deepseek-v3.2", 48_068, 0),
        ("deepseek-v4-flash", 3514.25, 43 * 128 * 584),
        ("deepseek-v4-flash-layer-types", 3514.25, 43 * 128 * 584),
    ],
)
def test_published_configurations_have_their_published_price(name, per_token, once):
    found = load(DATA / f"{name}.json")
    assert (found.total, found.constant_bytes) == (per_token, once)


def test_qwen3_in_fp32_costs_224_kib():
    assert load(DATA / "qwen3-0.6b.json", "float32").total == load(DATA / "qwen3-0.6b.json", "fp32").total == 224 * 1024


def test_the_released_file_costs_890_composite_or_bare(tmp_path):
    text = Config.flash().to_dict()
    composite = {"model_type": "deepseek_v41", "dtype": "bfloat16", "text_config": text, "vision_config": {}}
    for data in (composite, text):
        found = load(written(tmp_path, data))
        assert (found.main, found.index, found.total, found.model) == (720, 170, 890, "DeepSeek-V4.1-Flash")


def test_v4_pairs_its_index_keys_only_with_the_denser_layers():
    rows = load(DATA / "deepseek-v4-flash.json").layers
    kinds = [(row.role, row.entry_bytes, row.index_bytes, row.tokens_per_entry) for row in rows]
    assert kinds[:4] == [("window", 0, 0, 1), ("window", 0, 0, 1), ("csa", 584, 68, 4), ("hca", 584, 0, 128)]
    assert [kinds.count(kind) for kind in dict.fromkeys(kinds)] == [2, 21, 20]


def test_v4_counts_closed_groups_only():
    found = load(DATA / "deepseek-v4-flash.json")
    assert found.used_bytes(3) == 0
    assert found.used_bytes(131) == 21 * 652 * 32 + 20 * 584


def test_v4_has_a_ring_of_its_own_window_and_its_records_hold_their_scales(tmp_path):
    found = load(written(tmp_path, "deepseek-v4-flash", sliding_window=64))
    assert found.constant_bytes == 43 * 64 * 584 and found.max_tokens == 1_048_576
    scales = "scales, where an engine quantises the cache"
    records = [scales in load(DATA / f"{name}.json").not_counted for name in ("deepseek-v4-flash", "deepseek-v3.2", "deepseek-v3")]
    assert records == [False, False, True]


def test_only_a_model_that_slides_has_a_note_about_its_window():
    assert load(DATA / "llama-2-7b.json").notes == () and load(DATA / "gemma-2-2b.json").notes


def test_v4_reads_other_rates_from_either_spelling(tmp_path):
    rates = {V4_KINDS[4]: 8, V4_KINDS[128]: 64}
    new = load(written(tmp_path, "deepseek-v4-flash-layer-types", compress_rates=rates)).total
    old = load(written(tmp_path, "deepseek-v4-flash", compress_rate_csa=8, compress_rate_hca=64)).total
    assert new == old == 21 * 652 / 8 + 20 * 584 / 64


# -- documented defaults -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [DROP, None])
def test_without_kv_heads_every_head_has_its_own(tmp_path, value):
    assert load(written(tmp_path, "deepseek-67b", num_key_value_heads=value)).total == 8 * 389_120


def test_without_head_dim_it_is_hidden_size_over_heads(tmp_path):
    assert load(written(tmp_path, "llama-2-7b", head_dim=None)).total == 524_288
    assert load(written(tmp_path, "llama-2-7b", head_dim=64)).total == 524_288 // 2


def test_qwen3_and_gemma_have_a_documented_head_dim(tmp_path):
    assert load(written(tmp_path, "qwen3-0.6b", head_dim=DROP)).total == 28 * 2 * 8 * 128 * 2
    assert load(written(tmp_path, "gemma-2-2b", head_dim=DROP)).total == 13 * 4096
    gemma = {"model_type": "gemma", "num_hidden_layers": 28, "hidden_size": 3072, "num_attention_heads": 16}
    assert load(written(tmp_path, gemma, dtype="bfloat16")).total == 28 * 2 * 16 * 256 * 2


@pytest.mark.parametrize(("family", "kv_heads"), [("qwen2", 32), ("qwen3", 32), ("qwen3_moe", 4), ("gemma", 16), ("mixtral", 8)])
def test_other_families_have_their_documented_number_of_kv_heads(tmp_path, family, kv_heads):
    path = written(tmp_path, "llama-2-7b", model_type=family, num_attention_heads=64, head_dim=128, num_key_value_heads=DROP)
    assert load(path).total == 32 * 2 * kv_heads * 128 * 2


def test_mistral_without_kv_heads_has_8(tmp_path):
    full = {"sliding_window": None, "num_hidden_layers": 1}
    assert load(written(tmp_path, "mistral-7b-v0.1", num_key_value_heads=DROP, **full)).total == 2 * 8 * 128 * 2
    assert load(written(tmp_path, "mistral-7b-v0.1", num_key_value_heads=None, **full)).total == 2 * 32 * 128 * 2


def test_the_text_models_own_dtype_comes_before_the_files(tmp_path):
    text = {"num_hidden_layers": 6, "sliding_window": 1024, "dtype": "float32"}
    assert load(written(tmp_path, "gemma-3-4b", text_config=text, dtype="bfloat16")).total == 2 * 4096


def test_dtype_is_read_under_both_names_and_overridden(tmp_path):
    assert load(written(tmp_path, "llama-2-7b", torch_dtype=DROP, dtype="float32")).total == 2 * 524_288
    assert load(DATA / "llama-2-7b.json", "fp8").total == load(DATA / "llama-2-7b.json", "float8_e5m2").total == 524_288 // 2
    assert load(DATA / "deepseek-v3.json", "float32").total == 61 * 576 * 4


# -- sliding windows -----------------------------------------------------------------------------------------------


def test_mistral_without_a_window_pays_per_token(tmp_path):
    found = load(written(tmp_path, "mistral-7b-v0.1", sliding_window=None))
    assert (found.total, found.constant_bytes) == (32 * 4096, 0)


def test_mistral_that_does_not_mention_its_window_has_the_documented_4096(tmp_path):
    assert load(written(tmp_path, "mistral-7b-v0.1", sliding_window=DROP)).constant_bytes == 32 * 4096 * 4096


def test_mixtral_slides_only_if_a_window_is_given(tmp_path):
    for window, once in ((DROP, 0), (None, 0), (1024, 32 * 1024 * 4096)):
        path = written(tmp_path, "mistral-7b-v0.1", model_type="mixtral", sliding_window=window)
        assert load(path).constant_bytes == once


def test_qwen_slides_from_max_window_layers_up_if_told_to(tmp_path):
    slide = {"sliding_window": 4096, "max_window_layers": 21}
    for family in ("qwen2", "qwen3"):
        off = load(written(tmp_path, "qwen3-0.6b", model_type=family, **slide))
        on = load(written(tmp_path, "qwen3-0.6b", model_type=family, use_sliding_window=True, **slide))
        assert (off.total, off.constant_bytes) == (28 * 4096, 0)
        assert (on.total, on.constant_bytes) == (21 * 4096, 7 * 4096 * 4096)
    everywhere = written(tmp_path, "qwen3-0.6b", use_sliding_window=True, sliding_window=64, max_window_layers=0)
    assert load(everywhere).total == 0


def test_gemma_2_slides_in_even_layers_and_gemma_3_in_five_of_six():
    second = [row.role for row in load(DATA / "gemma-2-2b.json").layers]
    third = [row.role for row in load(DATA / "gemma-3-4b.json").layers]
    assert second == ["sliding", "full"] * 13
    assert [n for n, role in enumerate(third) if role == "full"] == [5, 11, 17, 23, 29]


def test_gemma_3_reads_its_pattern_in_the_bare_text_file(tmp_path):
    text = {"model_type": "gemma3_text", "num_hidden_layers": 4, "dtype": "bfloat16"}
    for name in ("sliding_window_pattern", "_sliding_window_pattern"):
        assert load(written(tmp_path, text | {name: 2})).total == 2 * 4096


def test_layer_types_win_over_the_rule(tmp_path):
    types = ["full_attention"] * 25 + ["sliding_attention"]
    found = load(written(tmp_path, "gemma-2-2b", layer_types=types))
    assert (found.total, found.constant_bytes) == (25 * 4096, 4096 * 4096)


# -- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "changes", "message"),
    [
        ("llama-2-7b", {"model_type": "mamba"}, "has the model_type 'mamba': known are llama, qwen2"),
        ("llama-2-7b", {"model_type": DROP}, "lacks the field model_type: known are"),
        ("llama-2-7b", {"model_type": ["llama"]}, "has the model_type ['llama']: known are"),
        ("llama-2-7b", {"num_hidden_layers": DROP}, "lacks the field num_hidden_layers, which llama needs"),
        ("llama-2-7b", {"num_hidden_layers": None}, "lacks the field num_hidden_layers, which llama needs"),
        ("llama-2-7b", {"num_hidden_layers": "32"}, "num_hidden_layers = '32' (llama): must be a positive integer"),
        ("llama-2-7b", {"num_hidden_layers": 0}, "num_hidden_layers = 0 (llama): must be a positive integer"),
        ("llama-2-7b", {"num_hidden_layers": True}, "num_hidden_layers = True (llama): must be a positive integer"),
        ("llama-2-7b", {"hidden_size": 10**9 + 1}, "hidden_size = 1000000001 (llama): must be a positive integer"),
        ("deepseek-v4-flash", {"compress_ratios": [False] * 44}, "compress_ratios holds False (deepseek_v4)"),
        ("llama-2-7b", {"num_hidden_layers": 10_001}, "num_hidden_layers = 10001 (llama): must be at most 10000"),
        ("llama-2-7b", {"num_hidden_layers": 10**6}, "num_hidden_layers = 1000000 (llama): must be at most 10000"),
        ("llama-2-7b", {"num_attention_heads": DROP}, "lacks the field num_attention_heads"),
        ("llama-2-7b", {"hidden_size": DROP}, "lacks the field hidden_size"),
        ("llama-2-7b", {"hidden_size": 4097}, "hidden_size = 4097 (llama): must be a multiple of num_att"),
        ("llama-2-7b", {"num_key_value_heads": 5}, "num_key_value_heads = 5 (llama): must be a divisor of"),
        ("llama-2-7b", {"torch_dtype": DROP}, "lacks the field dtype (older: torch_dtype): give it with --dtype"),
        ("llama-2-7b", {"torch_dtype": "int3"}, "torch_dtype 'int3': allowed are float32, fp32"),
        ("gemma-2-2b", {"layer_types": ["full_attention"]}, "a list with one entry for each of 26 layers, got 1"),
        ("gemma-2-2b", {"layer_types": ["mamba"] * 26}, "layer_types holds 'mamba' (gemma2): allowed are sliding"),
        ("qwen3-0.6b", {"use_sliding_window": "yes"}, "use_sliding_window = 'yes' (qwen3): must be true or false"),
        ("qwen3-0.6b", {"max_window_layers": False}, "max_window_layers = False (qwen3): must be a positive integer"),
        ("gemma-3-4b", {"text_config": DROP}, "lacks the object text_config, which gemma3 needs"),
        ("deepseek-v3", {"kv_lora_rank": DROP}, "lacks the field kv_lora_rank, which deepseek_v3 needs"),
        ("deepseek-v3.2", {"kv_lora_rank": 256}, "must be 512, the width of deepseek_v32's released record"),
        ("deepseek-v4-flash", {"compress_ratios": DROP}, "lacks the field compress_ratios (or layer_types)"),
        ("deepseek-v4-flash", {"compress_ratios": [4] * 42}, "at least one entry for each of 43 layers, got 42"),
        ("deepseek-v4-flash", {"compress_ratios": [2] * 44}, "compress_ratios holds 2 (deepseek_v4): allowed are 0"),
        ("deepseek-v4-flash", {"compress_rates": 4}, "compress_rates = 4 (deepseek_v4): must be an object"),
    ],
)
def test_a_file_that_cannot_be_counted_says_why(tmp_path, source, changes, message):
    path = written(tmp_path, source, **changes)
    with pytest.raises(ValueError) as error:
        load(path)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_released_file_without_a_field_is_refused(tmp_path):
    text = {key: value for key, value in Config.flash().to_dict().items() if key != "kv_source_layer_ids"}
    with pytest.raises(ValueError, match="lacks the field kv_source_layer_ids"):
        load(written(tmp_path, {"model_type": "deepseek_v41", "text_config": text}))


@pytest.mark.parametrize("name", ["deepseek-v3.2", "deepseek-v4-flash"])
def test_a_released_record_has_no_dtype(name):
    with pytest.raises(ValueError, match=r"--dtype 'bf16': deepseek_v.* stores released records of fixed size"):
        load(DATA / f"{name}.json", "bf16")


@pytest.mark.parametrize(("text", "message"), [
    ("{", "is not JSON"), ("[]", "must hold a JSON object, got list"), ("[" * 100_000, "is not JSON"),
    ('{"num_hidden_layers": ' + "9" * 5000 + "}", "config.json is not JSON: Exceeds the limit"),
], ids=["open", "list", "depth", "digits"])  # fmt: skip
def test_a_file_that_is_no_json_object_is_refused(tmp_path, text, message):
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        load(path)


def test_every_known_family_is_named_in_the_message(tmp_path):
    with pytest.raises(ValueError) as error:
        load(written(tmp_path, {"model_type": "unknown"}))
    assert all(family in str(error.value) for family in FAMILIES)
