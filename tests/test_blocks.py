"""Each block against published figures, identities and hand-made examples."""

from pathlib import Path

import numpy as np
import pytest
import torch

from flash41 import engram, mhc, moe
from flash41.attention import attend, attend_plain
from flash41.compressor import pool_pairs, visible_rows
from flash41.config import Config
from flash41.count import summary
from flash41.embedding import Places, embed_streams
from flash41.formats import E2M1_E8M0
from flash41.indexer import NONE, best, candidate_blocks, rows_of_blocks, scores
from flash41.layers import apply_rope, rms_norm, rope_frequencies, rope_table

CONSTANTS = np.load(Path(__file__).parent / "golden" / "constants.npz")


def seeded(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


# -- 1A, 1B ------------------------------------------------------------------------------------------------------


def test_embeddings_are_not_scaled_and_fill_every_stream():
    weight = seeded(7, 4)
    streams = embed_streams(weight, torch.tensor([[3, 6]]), 4)
    assert streams.shape == (1, 2, 4, 4) and all(torch.equal(streams[0, 1, s], weight[6]) for s in range(4))


def test_history_meets_the_live_tokens_where_padding_stood_between():
    places = Places.of(torch.tensor([2, 5]), torch.tensor([[False, True, True], [True, True, True]]))
    assert places.positions.tolist() == [[-1, 2, 3], [5, 6, 7]]
    joined = places.join(torch.tensor([[0, 1], [3, 4]]), torch.tensor([[-9, 2, 3], [5, 6, 7]]))
    assert joined[0, -4:].tolist() == [0, 1, 2, 3] and joined[1].tolist() == [3, 4, 5, 6, 7]
    assert places.joined_positions(2)[0].tolist() == [-1, 0, 1, 2, 3]


def test_multipliers_and_offsets_are_the_published_ones():
    config = Config.flash()
    for row, layer in enumerate(config.engram_layer_ids):
        assert np.array_equal(engram.multipliers(config, layer).numpy(), CONSTANTS["engram.multipliers"][row])
        assert np.array_equal(engram.offsets(torch.tensor(config.engram_primes[row])).numpy(), CONSTANTS["engram.offsets"][row])
    assert engram.multipliers(config, 1).tolist() == [76632096046245, 4839876093313, 35959672319349, 73987337458391]
    assert [sum(map(sum, layer)) for layer in config.engram_primes] == [384006168, 384016682]


def test_products_of_the_hash_never_leave_int64():
    largest = max(int(engram.multipliers(Config.flash(), layer).max()) for layer in (1, 14))
    assert largest * (99092 - 1) < 2**63


def test_looking_back_is_blocked_by_a_dead_token_and_everything_behind_it():
    history = torch.tensor([[engram.DEAD, 7, 8, 9, engram.DEAD, 4, 5]])
    steps = engram.look_back(history, depth=4, pad=0)
    assert steps[0].tolist() == [[9, 8, 7, 0], [0, 0, 0, 0], [4, 0, 0, 0], [5, 4, 0, 0]]


def test_the_rolling_hash_is_xor_of_products_modulo_the_prime():
    steps, factors = torch.tensor([[[5, 3, 2]]]), torch.tensor([11, 13, 17])
    primes = torch.tensor([[7, 19], [23, 29]])
    two, three = (5 * 11) ^ (3 * 13), (5 * 11) ^ (3 * 13) ^ (2 * 17)
    expected = [two % 7, 7 + two % 19, 26 + three % 23, 49 + three % 29]
    assert engram.bucket_ids(steps, factors, primes, engram.offsets(primes))[0, 0].tolist() == expected


def test_gate_values_and_the_jump_at_zero():
    block = engram.Engram(Config.tiny(), 1, dtype=torch.float64)
    with torch.no_grad():
        block.q_weight.fill_(1), block.k_weight.fill_(1)
    x = torch.ones(1, 1, 4, 64, dtype=torch.float64)

    def gate(z):
        keys = torch.full_like(x, z / 8)  # D = 64: z = D^-1/2 * sum(1 * k) / rms(k) = 8 * sign, so scale through the weight
        with torch.no_grad():
            block.k_weight.fill_(abs(z) / 8)
        return float(block.gate(x, torch.copysign(torch.ones_like(x), keys))[0, 0, 0].detach())

    published = {1.0: 0.73106, -1.0: 0.26894, 4.0: 0.88080, -1e-9: 0.49975, 1e-9: 0.50025}
    for z, value in published.items():
        assert gate(z) == pytest.approx(value, abs=6e-6), z


def test_vocabulary_compression_on_a_hand_made_vocabulary():
    texts = ["The", "the", " the", "THÉ", "\n", " ", "\t ", "ﬁ", "fi", "a\ufffd", "b\ufffd", "12", "１２", ""]
    raw = [f"raw{i}" for i in range(len(texts))]
    ids = engram.compress_vocabulary(texts, raw)
    assert ids[:4] == [0, 0, 0, 0] and ids[4] == ids[5] == ids[6] != 0
    assert ids[7] == ids[8] and ids[9] != ids[10] and ids[11] == ids[12]
    assert sorted(set(ids)) == list(range(len(set(ids))))


# -- 2A ----------------------------------------------------------------------------------------------------------


def test_sinkhorn_ends_on_columns_and_fast_equals_plain():
    logits = seeded(200, 1, 4, 4)
    mixed = mhc.sinkhorn_plain(logits, 20, 1e-6)
    assert (mixed.sum(-2) - 1).abs().max() < 2e-6 and (mixed.sum(-1) - 1).abs().max() < 1e-4
    for dtype in (torch.float32, torch.float64):
        for some in (logits[:1].to(dtype), logits.to(dtype)):
            assert (mhc.sinkhorn(some, 20, 1e-6) - mhc.sinkhorn_plain(some, 20, 1e-6)).abs().max() <= 1e-6
    assert torch.linalg.matrix_norm(mixed, ord=2).max() <= 1 + 1e-5


def test_streams_mix_over_the_first_index():
    x, y = seeded(1, 1, 3, 2), seeded(1, 1, 2, seed=1)
    c, b = seeded(1, 1, 3, seed=2), seeded(1, 1, 3, 3, seed=3)
    by_hand = torch.stack([c[0, 0, k] * y[0, 0] + sum(b[0, 0, j, k] * x[0, 0, j] for j in range(3)) for k in range(3)])
    assert torch.allclose(mhc.write_back(x, y, c, b)[0, 0], by_hand, atol=1e-14)


# -- 3B, 3C ------------------------------------------------------------------------------------------------------


def test_a_row_is_visible_to_its_last_token():
    assert visible_rows(torch.arange(4), 2).tolist() == [0, 1, 1, 2] and visible_rows(torch.arange(2), 1).tolist() == [1, 2]


def test_pairs_are_pooled_channel_by_channel():
    kv, gate = torch.tensor([[[1.0, 10.0], [3.0, 20.0]]]), torch.tensor([[[0.0, 50.0], [0.0, -50.0]]])
    assert pool_pairs(kv, gate).tolist() == [[[2.0, 10.0]]]
    with pytest.raises(ValueError, match="even number of tokens, got 3"):
        pool_pairs(torch.zeros(1, 3, 2), torch.zeros(1, 3, 2))


def test_scores_clip_each_head_before_weighing_and_may_be_negative():
    q = torch.tensor([[[[1.0, 0.0], [0.0, 1.0]]]])
    keys = torch.tensor([[[2.0, -3.0], [-1.0, 4.0]]])
    weights = torch.tensor([[[1.0, -0.5]]])
    assert scores(q, weights, keys).tolist() == [[[2.0, -2.0]]]


def test_ties_go_to_the_earlier_row_and_unreachable_rows_are_none():
    inf = torch.inf
    score = torch.tensor([[1.0, 3.0, 1.0, 1.0, -inf], [0.0, 0.0, 0.0, -inf, -inf], [-inf] * 5])
    assert best(score, 3).tolist() == [[0, 1, 2], [0, 1, 2], [NONE] * 3]
    assert best(score, 9).tolist()[1] == [0, 1, 2, NONE, NONE]


def test_the_newest_block_is_always_a_candidate():
    config = Config.tiny().replace(candidate_topk_blocks=2, candidate_block_size=4)
    score = torch.full((1, 1, 14), -torch.inf)
    score[0, 0, :13] = torch.arange(13, 0, -1.0)
    blocks = candidate_blocks(score, torch.tensor([[13]]), config)
    assert blocks.tolist() == [[[0, 3]]]
    assert rows_of_blocks(blocks, 4)[0, 0].tolist() == [0, 1, 2, 3, 12, 13, 14, 15]


# -- 4A ----------------------------------------------------------------------------------------------------------


def test_values_carry_relative_positions_after_the_inverse_rotation():
    c, p, frequencies = seeded(9, 64), seeded(9, seed=1).softmax(0), rope_frequencies(64, 160000).double()

    def turn(x, positions, **kw):
        return apply_rope(x, *rope_table(positions, frequencies), **kw)

    at, t = torch.arange(9) * 3, torch.tensor([40])
    absolute = turn((p[:, None] * turn(c, at)).sum(0, keepdim=True), t, inverse=True)
    assert torch.allclose(absolute[0], (p[:, None] * turn(c, at - t)).sum(0), atol=1e-13)


def test_a_sink_scales_the_answer_and_an_empty_row_is_zero():
    q, keys, seen = seeded(1, 2, 3, 8), seeded(1, 5, 8, seed=1), torch.ones(1, 2, 5, dtype=torch.bool)
    seen[0, 1] = False
    sink = seeded(3, seed=2)
    out = attend_plain(q, keys, seen, sink)
    s = torch.einsum("hc,mc->hm", q[0, 0], keys[0]) / 8**0.5
    weight = s.exp() / (s.exp().sum(-1, keepdim=True) + sink.exp()[:, None])
    assert torch.allclose(out[0, 0], weight @ keys[0], atol=1e-13) and (out[0, 1] == 0).all()


def test_gathered_attention_equals_one_dense_mask():
    q, window, chosen = seeded(2, 4, 3, 8), seeded(2, 6, 8, seed=1), seeded(2, 4, 5, 8, seed=2)
    near, far = seeded(2, 4, 6, seed=3) > 0, seeded(2, 4, 5, seed=4) > 0
    sink, fast = seeded(3, seed=5), None
    fast = attend(q, window, near, chosen, far, sink)
    for b in range(2):
        for t in range(4):
            keys, seen = torch.cat([window[b], chosen[b, t]])[None], torch.cat([near[b, t], far[b, t]])[None, None]
            assert torch.allclose(attend_plain(q[b : b + 1, t : t + 1], keys, seen, sink)[0, 0], fast[b, t], atol=1e-13)


# -- 5A ----------------------------------------------------------------------------------------------------------


def test_router_scores_are_the_published_values():
    router = moe.Router(1, 5, 5, 1.5, dtype=torch.float64)
    with torch.no_grad():
        router.weight.copy_(torch.tensor([[-10.0], [-1], [0], [1], [10]])), router.bias.zero_(), router.bias_vl.zero_()
    weights = router(torch.ones(1, 1, dtype=torch.float64))[1].detach()
    published = torch.tensor([0.00674, 0.55970, 0.83255, 1.14598, 3.16228])
    assert torch.allclose(weights[0] / weights.sum() * published.sum(), published.double(), atol=2e-5)
    assert float(weights.sum()) == pytest.approx(1.5)


def test_the_bias_steers_the_choice_and_not_the_weight():
    router = moe.Router(1, 3, 1, 1.0, dtype=torch.float64)
    with torch.no_grad():
        router.weight.copy_(torch.tensor([[1.0], [2.0], [3.0]])), router.bias.copy_(torch.tensor([9.0, 0, 0])), router.bias_vl.copy_(torch.tensor([0, 9.0, 0]))
    x = torch.ones(2, 1, dtype=torch.float64)
    chosen, weight = router(x, torch.tensor([False, True]))
    assert chosen.tolist() == [[0], [1]]
    assert torch.allclose(weight[:, 0], torch.nn.functional.softplus(torch.tensor([1.0, 2.0]).double()).sqrt())


def test_the_gate_is_clamped_from_above_only_and_the_weight_comes_before_w2():
    expert = moe.Expert(1, 1, 10.0, dtype=torch.float64)
    with torch.no_grad():
        expert.w1.weight.fill_(1), expert.w2.weight.fill_(1), expert.w3.weight.fill_(-1)
    silu = torch.nn.functional.silu

    def out(x):
        return float(expert(torch.tensor([[x]], dtype=torch.float64), torch.tensor([[0.5]])).detach())

    assert out(50.0) == pytest.approx(0.5 * float(silu(torch.tensor(10.0))) * -10)
    assert out(-50.0) == pytest.approx(0.5 * float(silu(torch.tensor(-50.0).double())) * 10)


def test_experts_packed_as_fp4_equal_their_rounded_twin_and_cost_18_800_640_bytes():
    config = Config.flash()
    sizes = [(config.moe_intermediate_size, config.hidden_size)] * 2 + [(config.hidden_size, config.moe_intermediate_size)]
    assert sum(rows * E2M1_E8M0.row_bytes(width) for rows, width in sizes) == 18_800_640
    plain = moe.Expert(64, 32, 10.0, dtype=torch.float32)
    for index, parameter in enumerate(plain.parameters()):
        parameter.data = seeded(*parameter.shape, seed=index, dtype=torch.float32) / 8
    packed = moe.PackedExpert.of(plain)
    for parameter in plain.parameters():
        parameter.data = E2M1_E8M0.roundtrip(parameter.data)
    x = seeded(5, 64, seed=9, dtype=torch.float32)
    assert torch.equal(packed(x), plain(x))
    assert packed.nbytes == 3 * 32 * 64 // 2 + 3 * 32 * 64 // 32


# -- training ----------------------------------------------------------------------------------------------------


def gradients(function, *inputs):
    inputs = [x.clone().requires_grad_() for x in inputs]
    return torch.autograd.grad(function(*inputs).square().sum(), inputs)


def same_gradients(fast, plain, *inputs):
    pairs = zip(gradients(fast, *inputs), gradients(plain, *inputs), strict=True)
    return all(torch.allclose(ours, theirs, rtol=1e-9, atol=1e-10) for ours, theirs in pairs)


def test_what_works_in_place_has_the_gradients_of_the_plain_formulas():
    x, weight = seeded(2, 3, 8), seeded(8, seed=1)
    assert same_gradients(lambda x, w: rms_norm(x, w, 1e-6), lambda x, w: w * x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt(), x, weight)
    cos, sin = rope_table(torch.arange(3), rope_frequencies(4, 100).double())

    def turn(x):
        a, b = x[..., 4::2], x[..., 5::2]
        return torch.cat([x[..., :4], torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)], dim=-1)

    assert same_gradients(lambda x: apply_rope(x, cos, sin), turn, x)
    streams, y, c, b = seeded(2, 3, 4, 8), seeded(2, 3, 8, seed=2), seeded(2, 3, 4, seed=3), seeded(2, 3, 4, 4, seed=4)
    assert same_gradients(mhc.write_back, lambda x, y, c, b: c[..., None] * y[..., None, :] + torch.einsum("btjk,btjd->btkd", b, x), streams, y, c, b)
    assert same_gradients(mhc.collapse, lambda x, a: (a[..., None] * x).sum(-2), streams, c)
    matrices = [seeded(6, 8, seed=5), seeded(8, 6, seed=6), seeded(6, 8, seed=7)]
    silu = torch.nn.functional.silu
    assert same_gradients(lambda x, u, v, w, g: moe.swiglu(x, u, v, w, 1.5, g),
                          lambda x, u, v, w, g: (g * silu((x @ u.mT).clamp(max=1.5)) * (x @ w.mT).clamp(-1.5, 1.5)) @ v.mT,
                          x.flatten(0, 1), *matrices, seeded(6, 1, seed=8))  # fmt: skip
    q, window, chosen, sink = seeded(1, 4, 3, 8), seeded(1, 6, 8, seed=1), seeded(1, 5, 8, seed=2), seeded(3, seed=5)
    near, far = seeded(1, 4, 6, seed=3) > 0, seeded(1, 4, 5, seed=4) > 0
    assert same_gradients(lambda q, w, k, s: attend(q, w, near, k[:, None].expand(-1, 4, -1, -1), far, s),
                          lambda q, w, k, s: attend_plain(q, torch.cat([w, k], 1), torch.cat([near, far], -1), s),
                          q, window, chosen, sink)  # fmt: skip


def test_sites_experts_and_engram_pass_gradcheck():
    config = Config.tiny().replace(hc_sinkhorn_iters=3)
    block = moe.MoE(config, 4, 2, dtype=torch.float64)
    parameters = mhc.site_parameters(config, dtype=torch.float64)
    memory = engram.Engram(config, 1, dtype=torch.float64)
    for seed, parameter in enumerate([*block.parameters(), *parameters, *memory.parameters()]):
        parameter.data = seeded(*parameter.shape, seed=seed) / 8
    streams, x = seeded(1, 5, 4, 64), seeded(5, 64)
    assert same_gradients(lambda x: mhc.coefficients(x, *parameters, config)[2], lambda x: mhc.coefficients(x, *parameters, config, True)[2], streams)
    chosen, weights = (part.detach() for part in block.gate(x))
    assert same_gradients(lambda x, w: block.chosen_experts(x, chosen, w), lambda x, w: block.all_experts(x, chosen, w), x, weights)
    steps, live = torch.randint(0, 50, (1, 2, config.engram_max_ngram_size)), torch.ones(1, 2, dtype=torch.bool)
    assert torch.autograd.gradcheck(lambda x: memory(x, steps, live), streams[:, :2].clone().requires_grad_(), fast_mode=True)


# -- counting ----------------------------------------------------------------------------------------------------


def test_every_published_parameter_count_to_the_last_digit():
    found = summary(Config.flash())
    assert found["total"] == 763_205_315_794 and found["backbone"] == 552_366_103_664
    assert found["groups"] == {
        "routed experts": 543_581_798_400, "shared experts": 1_415_577_600, "attention": 5_064_696_320, "routers": 78_673_920,
        "indexers": 43_516_416, "compressors": 18_352_128, "mHC": 39_323_760, "norms": 414_720, "embed, head": 1_323_827_200,
        "Engram projections": 314_654_720, "vision (by formula)": 485_268_480, "Engram tables": 196_613_849_600,
        "DSpark": 14_225_362_530,
    }  # fmt: skip
    assert found["active"] == {"encoder layers": 7_892_533_248, "prefill": 7_895_220_224, "layers": 15_468_068_864, "decode": 16_129_982_464}
    assert found["total bytes"] == 510_286_023_000 and found["one expert"] == {"parameters": 35_389_440, "bytes": 18_800_640}
