"""Norm and rotation against golden frequencies and against the identities they must satisfy."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from flash41.config import Config, RopeScaling
from flash41.layers import apply_rope, layer_frequencies, rms_norm, rope_frequencies, rope_table

GOLDEN = np.load(Path(__file__).parent / "golden" / "constants.npz")


def test_frequencies_of_both_kinds_of_layer_equal_the_golden_ones():
    config = Config.flash()
    for layer, name in ((0, "window_only_layers"), (42, "window_only_layers"), (2, "compressed_layers"), (39, "compressed_layers")):
        np.testing.assert_allclose(layer_frequencies(config, layer).numpy(), GOLDEN[f"rope.inv_freq.{name}"], rtol=5e-7)


def test_yarn_leaves_16_fast_pairs_and_divides_7_slow_ones_by_16():
    config = Config.flash()
    plain = rope_frequencies(64, config.compress_rope_theta)
    ratio = plain / layer_frequencies(config, 2)
    assert (ratio[:16] == 1).all() and torch.allclose(ratio[25:], torch.tensor(16.0)) and (ratio[16:25] > 1).all()


def test_rotation_turns_adjacent_pairs_of_the_last_channels_only():
    x = torch.tensor([[7.0, 8.0, 1.0, 0.0, 0.0, 1.0]], dtype=torch.float64)
    cos, sin = rope_table(torch.tensor([1]), torch.tensor([torch.pi / 2, torch.pi], dtype=torch.float64))
    assert torch.allclose(apply_rope(x, cos, sin), torch.tensor([[7.0, 8.0, 0.0, 1.0, 0.0, -1.0]], dtype=torch.float64))


def test_inverse_rotation_undoes_it_and_scores_depend_on_distance_only():
    q, k = torch.randn(2, 1, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    frequencies = rope_frequencies(64, 10000).double()

    def at(x, position, **kw):
        return apply_rope(x, *rope_table(torch.tensor([position]), frequencies), **kw)

    assert torch.allclose(at(at(q, 77), 77, inverse=True), q, atol=1e-14)
    assert torch.allclose((at(q, 100) * at(k, 93)).sum(), (at(q, 7) * at(k, 0)).sum(), atol=1e-12)


def test_rms_norm_works_in_wide_arithmetic_and_keeps_the_dtype():
    x = torch.tensor([[3e-6, 4e-6]], dtype=torch.float16)  # squares underflow in fp16
    y = rms_norm(x, torch.ones(2), 1e-20)
    assert y.dtype == torch.float16 and torch.allclose(y.float().square().mean(), torch.tensor(1.0), atol=2e-3)
    assert rms_norm(x.double(), None, 1e-20).dtype == torch.float64


@pytest.mark.parametrize(("dim", "theta"), [(0, 1e4), (5, 1e4), (-2, 1e4), (64, 1), (64, -1e4), (64, float("nan"))])
def test_frequencies_need_pairs_and_a_theta_above_1(dim, theta):
    with pytest.raises(ValueError, match=f"dim = {dim}, theta = {theta}"):
        rope_frequencies(dim, theta)


def test_a_layer_that_there_is_not_has_no_frequencies():
    with pytest.raises(ValueError, match="layer = -1, must be 0 … 42"):
        layer_frequencies(Config.flash(), -1)


def test_too_few_channels_are_refused():
    with pytest.raises(ValueError, match="x has 2 channels, must have at least the 4 that rotate"):
        apply_rope(torch.zeros(1, 2), torch.ones(1, 2), torch.zeros(1, 2))


def test_rms_norm_is_its_formula_gain_and_eps_included():
    x, weight = torch.randn(2, 3, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    expected = weight * x / (x.square().mean(-1, keepdim=True) + 0.5).sqrt()
    assert torch.allclose(rms_norm(x, weight, 0.5), expected, atol=1e-14)


def test_half_precision_is_rounded_once_at_the_end():
    x = torch.randn(64, 64, generator=torch.Generator().manual_seed(2)).bfloat16()
    weight = torch.linspace(0.5, 1.5, 64)
    assert torch.equal(rms_norm(x, weight, 1e-20), rms_norm(x.float(), weight, 1e-20).bfloat16())
    table = rope_table(torch.arange(64), rope_frequencies(64, 1e4))
    assert torch.equal(apply_rope(x, *table), apply_rope(x.float(), *table).bfloat16())


@pytest.mark.parametrize(("dim", "theta", "original"), [(16, 1e4, 64), (16, 100.0, 4096), (16, 3.0, 10**6), (64, 1.6e5, 65536)])
def test_yarn_ramp_is_cut_off_where_the_official_one_is(dim, theta, original):
    scaling = RopeScaling(original_max_position_embeddings=original)
    turns = [dim * math.log(original / (n * 2 * math.pi)) / (2 * math.log(theta)) for n in (32, 1)]
    low, high = max(math.floor(turns[0]), 0), min(math.ceil(turns[1]), dim - 1)
    ramp = np.clip((np.arange(dim // 2) - low) / (high - low if high > low else 0.001), 0, 1)
    plain = theta ** -(np.arange(0, dim, 2) / dim)
    np.testing.assert_allclose(rope_frequencies(dim, theta, scaling), plain * (ramp / 16 + 1 - ramp), rtol=1e-5)
