"""Attention with four kinds of cache: against torch's own attention, cached against one-shot, absorbed against naive."""

import pytest
import torch
import torch.nn.functional as F

from flash41.ladder import (
    HeadWeights, LatentWeights, cache_bytes, causal_softmax, gqa, joint_key_map, kv_head_of, mha, mla_absorbed, mla_naive, mqa,
)  # fmt: skip


def inputs(tokens=12, dim=48, dtype=torch.float64):
    return torch.randn(2, tokens, dim, dtype=dtype, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("kv_heads", [8, 4, 2, 1])
def test_grouped_attention_equals_torchs_own(kv_heads):
    w, x = HeadWeights.random(48, 8, kv_heads, 16, dtype=torch.float64), inputs()
    q, k, v = (torch.einsum("btd,hed->bhte", x, m) for m in (w.wq, w.wk, w.wv))
    o = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    assert torch.allclose(gqa(x, w)[0], torch.einsum("bhte,hde->btd", o, w.wo), atol=1e-12)


@pytest.mark.parametrize("step, weights", [
    (mha, HeadWeights.random(48, 8, 8, 16, dtype=torch.float64)),
    (gqa, HeadWeights.random(48, 8, 2, 16, dtype=torch.float64)),
    (mqa, HeadWeights.random(48, 8, 1, 16, dtype=torch.float64)),
    (mla_naive, LatentWeights.random(48, 8, 16, 24, dtype=torch.float64)),
    (mla_absorbed, LatentWeights.random(48, 8, 16, 24, dtype=torch.float64)),
])  # fmt: skip
def test_any_chunking_with_a_cache_equals_one_pass(step, weights):
    x = inputs()
    whole, _ = step(x, weights)
    parts, cache = [], None
    for chunk in x.split([5, 1, 4, 2], dim=1):
        y, cache = step(chunk, weights, cache)
        parts.append(y)
    assert torch.allclose(torch.cat(parts, dim=1), whole, atol=1e-12)


@pytest.mark.parametrize("dtype, bound", [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_absorbed_equals_naive_relative_to_the_largest_value(dtype, bound):
    w = LatentWeights.random(256, 16, 64, 128, dtype=dtype)
    x = inputs(tokens=40, dim=256, dtype=dtype)
    naive, absorbed = mla_naive(x, w)[0], mla_absorbed(x, w)[0]
    assert (naive - absorbed).abs().max() / naive.abs().max() <= bound


def test_caches_at_the_widths_of_v41_hold_what_the_formula_says():
    x = torch.zeros(1, 3, 8, dtype=torch.float16)
    sizes = {64: 131072, 1: 2048}
    for kv_heads, per_token in sizes.items():
        assert cache_bytes(gqa(x, HeadWeights.random(8, 64, kv_heads, 512, dtype=torch.float16))[1]) == 3 * per_token
    assert cache_bytes(mla_absorbed(x, LatentWeights.random(8, 64, 512, 512, dtype=torch.float16))[1]) == 3 * 1024


def test_joint_key_map_of_64_heads_has_rank_512():
    keys = joint_key_map(LatentWeights.random(8, 64, 512, 512, dtype=torch.float64))
    assert keys.shape == (32768, 512)
    spectrum = torch.linalg.eigvalsh(keys.mT @ keys)
    assert int((spectrum > 1e-9 * spectrum[-1]).sum()) == 512  # as large as 512 columns allow, never larger
    half = LatentWeights.random(8, 64, 512, 256, dtype=torch.float64)
    assert torch.linalg.matrix_rank(joint_key_map(half)[:2048]) == 256


def test_group_of_a_head_is_floor_h_over_g():
    assert [kv_head_of(h, 8, 2) for h in range(8)] == [0, 0, 0, 0, 1, 1, 1, 1]
    with pytest.raises(ValueError, match="head = 8, must be 0 … 7"):
        kv_head_of(8, 8, 2)
    for kv_heads in (3, 0, 16, -2):  # 3 would send head 7 to a fourth group
        with pytest.raises(ValueError, match=f"kv_heads = {kv_heads}, must divide heads = 8"):
            kv_head_of(7, 8, kv_heads)


def test_a_token_sees_itself_and_the_past():
    p = causal_softmax(torch.zeros(2, 5))
    assert p[0].tolist() == [0.25] * 4 + [0] and p[1].tolist() == pytest.approx([0.2] * 5)


def test_wrong_weights_are_refused():
    with pytest.raises(ValueError, match="kv_heads = 3, must divide heads = 8"):
        HeadWeights.random(48, 8, 3, 16)
    three = HeadWeights.random(48, 3, 3, 16)
    with pytest.raises(ValueError, match="kv_heads = 3, must divide heads = 8"):
        gqa(inputs(), HeadWeights(torch.zeros(8, 16, 48), three.wk, three.wv, torch.zeros(8, 48, 16)))
    with pytest.raises(ValueError, match="mha needs weights with 8 key/value heads, got 2"):
        mha(inputs(), HeadWeights.random(48, 8, 2, 16))
    with pytest.raises(ValueError, match="mqa needs weights with 1 key/value heads, got 2"):
        mqa(inputs(), HeadWeights.random(48, 8, 2, 16))


def test_weights_are_the_same_for_the_same_seed_only():
    one, same, other = (HeadWeights.random(8, 4, 2, 4, seed=seed).wq for seed in (1, 1, 2))
    assert torch.equal(one, same) and not torch.equal(one, other)
