"""The codecs against the golden vectors, against ml_dtypes, and at the door."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import torch

from flash41 import formats
from flash41.formats import E2M1_E4M3, E2M1_E8M0, E4M3_E8M0

GOLDEN = np.load(Path(__file__).parent / "golden" / "codec.npz")
PACKS = {"e2m1_e4m3_16": E2M1_E4M3, "e2m1_e8m0_32": E2M1_E8M0, "e4m3_e8m0_32": E4M3_E8M0}
EACH = pytest.mark.parametrize("pack, fmt", PACKS.items(), ids=PACKS)


@EACH
def test_codes_and_scales_equal_the_golden_bytes(pack, fmt):
    codes, scales = fmt.encode(torch.from_numpy(GOLDEN[f"{pack}.input"]))
    expected = GOLDEN[f"{pack}.packed" if fmt.element == "E2M1" else f"{pack}.codes"]
    wrong = [str(GOLDEN[f"{pack}.label"][row]) for row in np.unique(np.argwhere(codes.numpy() != expected)[:, 0])]
    assert not wrong
    assert np.array_equal(scales.numpy(), GOLDEN[f"{pack}.scale"])


@EACH
def test_decoding_golden_bytes_gives_the_golden_values(pack, fmt):
    codes = GOLDEN[f"{pack}.packed" if fmt.element == "E2M1" else f"{pack}.codes"]
    values = fmt.decode(torch.from_numpy(codes), torch.from_numpy(GOLDEN[f"{pack}.scale"]))
    assert values.dtype == torch.float32
    assert np.array_equal(values.numpy(), GOLDEN[f"{pack}.decoded"])


def test_every_code_decodes_as_the_golden_tables_say():
    one = torch.tensor([[0x38]], dtype=torch.uint8)  # E4M3 1.0
    nibbles = torch.arange(16, dtype=torch.uint8)[None]
    assert E2M1_E4M3.decode(formats.pack_nibbles(nibbles), one)[0].tolist() == GOLDEN["table.e2m1"].tolist()
    every = torch.arange(256, dtype=torch.uint8)
    assert np.array_equal(formats._scale_values(every, "E4M3").numpy(), GOLDEN["table.e4m3"], equal_nan=True)
    powers = every.numpy().view(ml_dtypes.float8_e8m0fnu).astype(np.float32)  # 0 is a float32 subnormal, 255 is NaN
    assert powers[0] == 2.0**-127 and np.array_equal(powers[1:255], GOLDEN["table.e8m0"][1:255])
    assert np.array_equal(formats._scale_values(every, "E8M0").numpy(), powers, equal_nan=True)


def test_fast_codes_equal_the_plain_ones_and_the_ml_dtypes_cast():
    boundaries = torch.tensor([0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6])
    around = torch.cat([boundaries, boundaries.nextafter(torch.tensor(9.0)), boundaries.nextafter(torch.tensor(-9.0))])
    values = torch.cat([around, -around, torch.randn(2**16, generator=torch.Generator().manual_seed(0)) * 2]).clamp(-6, 6)
    values = values[: len(values) // 16 * 16].view(-1, 16)
    plain = formats.e2m1_codes(values)
    theirs = values.numpy().astype(ml_dtypes.float4_e2m1fn).view(np.uint8)
    assert torch.equal(formats.e2m1_codes_fast(values, torch.empty_like(values, dtype=torch.int32), torch.empty_like(plain)), plain)
    assert np.array_equal(plain.numpy(), theirs)


@pytest.mark.parametrize("spread", [1e-6, 1e-2, 1.0, 50.0, 1e5])
def test_random_rows_equal_an_encoder_made_of_ml_dtypes_casts(spread):
    x = torch.randn(300, 128, generator=torch.Generator().manual_seed(1)) * spread
    for fmt, encode in ((E2M1_E4M3, their_e4m3), (E2M1_E8M0, their_e8m0)):
        codes, scales = encode(x.numpy())
        assert np.array_equal(fmt.encode(x)[0].numpy(), codes)
        assert np.array_equal(fmt.encode(x)[1].numpy(), scales)


def their_e4m3(x):
    groups = x.reshape(len(x), -1, 16)
    largest = np.maximum(np.abs(groups).max(-1), np.float32(6 * 2**-9))
    scales = np.minimum(largest / np.float32(6), np.float32(448)).astype(ml_dtypes.float8_e4m3fn)
    return their_codes(groups, scales.astype(np.float32)), scales.view(np.uint8)


def their_e8m0(x):
    groups = x.reshape(len(x), -1, 32)
    largest = np.maximum(np.abs(groups).max(-1), np.float32(6 * 2.0**-126)) * np.float32(1 / 6)
    mantissa, exponent = np.frexp(largest)
    exponent = np.where(mantissa == 0.5, exponent - 1, exponent)
    return their_codes(groups, np.exp2(exponent).astype(np.float32)), (exponent + 127).astype(np.uint8)


def their_codes(groups, scales):
    codes = np.clip(groups / scales[..., None], -6, 6).astype(ml_dtypes.float4_e2m1fn).view(np.uint8)
    codes = codes.reshape(len(groups), -1)
    return codes[:, 0::2] | (codes[:, 1::2] << 4)


def test_the_published_example_vector():
    x = torch.tensor([[6, -6, 5, 4, 3, 2.5, 1.75, 1.25, 0.75, 0.25, 0, -0.25, -0.75, -1.25, 3.5, -3.5]])
    codes, scales = E2M1_E4M3.encode(x)
    assert bytes(codes[0].tolist()).hex(" ") == "f7 66 45 24 02 80 aa e6"
    assert scales.tolist() == [[0x38]]


def test_entry_sizes():
    assert (E2M1_E4M3.payload_bytes(512), E2M1_E4M3.scale_bytes(512)) == (256, 32)
    assert E2M1_E4M3.row_bytes(512) == 288 and E2M1_E8M0.row_bytes(128) == 68 and E4M3_E8M0.row_bytes(512) == 528


def test_an_e4m3_scale_may_round_down_and_saturate_and_a_power_of_two_never_does():
    five = torch.full((1, 32), 5.0)
    assert E2M1_E4M3.roundtrip(five)[0, 0] == 4.875
    assert E2M1_E8M0.encode(torch.full((1, 32), 6.0))[1].tolist() == [[127]]
    assert E2M1_E8M0.encode(torch.full((1, 32), 6.0001))[1].tolist() == [[128]]


def test_encoding_twice_is_exact_only_above_the_subnormal_scales():
    x = torch.randn(200, 512, generator=torch.Generator().manual_seed(2))
    once = E2M1_E4M3.roundtrip(x)
    assert torch.equal(E2M1_E4M3.roundtrip(once), once)
    small = torch.full((1, 16), 9.5 * 2**-9)
    first = E2M1_E4M3.roundtrip(small)
    assert first[0, 0] * 512 == 8 and E2M1_E4M3.roundtrip(first)[0, 0] * 512 == 6


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@EACH
def test_a_value_that_is_not_finite_is_refused_with_its_place(pack, fmt, value):
    x = torch.zeros(2, 3, 64)
    x[1, 2, 37] = value
    with pytest.raises(ValueError, match=rf"x\[1, 2, 37\] = {value}, must be finite"):
        fmt.encode(x)


def test_other_bad_input_is_refused_at_the_door():
    with pytest.raises(ValueError, match="channels = 24, must be a positive multiple of 16"):
        E2M1_E4M3.encode(torch.zeros(2, 24))
    with pytest.raises(TypeError, match="floating point tensor, got torch.int64"):
        E2M1_E4M3.encode(torch.zeros(2, 16, dtype=torch.int64))
    with pytest.raises(ValueError, match="scales .* serve 32"):
        E2M1_E4M3.decode(torch.zeros(1, 8, dtype=torch.uint8), torch.zeros(1, 2, dtype=torch.uint8))
    with pytest.raises(TypeError, match="codes as uint8, got torch.int8"):
        E2M1_E4M3.decode(torch.zeros(1, 8, dtype=torch.int8), torch.zeros(1, 1, dtype=torch.uint8))
    with pytest.raises(TypeError, match="scales as uint8, got torch.float32"):
        E2M1_E4M3.decode(torch.zeros(1, 8, dtype=torch.uint8), torch.zeros(1, 1))
    with pytest.raises(ValueError, match="codes .* hold 16 channels"):
        E2M1_E4M3.decode(torch.zeros(2, 8, dtype=torch.uint8), torch.zeros(1, 1, dtype=torch.uint8))


def test_rows_without_channels_and_scalars_are_refused():
    byte, none = torch.tensor(1, dtype=torch.uint8), torch.zeros(2, 0, dtype=torch.uint8)
    with pytest.raises(ValueError, match="encode takes rows .* got a scalar"):
        E2M1_E4M3.encode(torch.tensor(1.0))
    with pytest.raises(ValueError, match="decode takes rows .* got a scalar"):
        E2M1_E4M3.decode(byte, byte)
    with pytest.raises(ValueError, match="channels = 0, must be a positive multiple of 16"):
        E2M1_E4M3.decode(none, none)
    for channels in (None, "64", 64.0, 0, -16):
        with pytest.raises(ValueError, match="channels = .*, must be a positive multiple of 16"):
            E2M1_E4M3.row_bytes(channels)


@EACH
def test_a_double_beyond_float32_is_refused_with_its_place(pack, fmt):
    x = torch.zeros(1, 64, dtype=torch.float64)
    x[0, 5] = 1e300
    with pytest.raises(ValueError, match=r"x\[0, 5\] = 1e\+300, must be finite in float32"):
        fmt.encode(x)


@EACH
def test_many_rows_are_coded_like_one_at_a_time(pack, fmt):
    x = torch.randn(2, formats.BLOCK // 64 + 3, 64, generator=torch.Generator().manual_seed(4))  # more than one block
    for whole, rows in zip(fmt.encode(x), zip(*[fmt.encode(row) for row in x.flatten(0, 1)[-70:]], strict=True), strict=True):
        assert whole.shape[:-1] == x.shape[:-1] and torch.equal(whole.flatten(0, 1)[-70:], torch.stack(rows))


@EACH
def test_empty_and_strided_rows_work(pack, fmt):
    codes, scales = fmt.encode(torch.zeros(0, 64))
    assert fmt.decode(codes, scales).shape == (0, 64)
    x = torch.randn(64, 8)
    assert torch.equal(fmt.roundtrip(x.T), fmt.roundtrip(x.T.contiguous()))
    assert fmt.roundtrip(x.T.double()).dtype == torch.float64


@EACH
def test_weights_that_require_gradients_and_another_default_dtype_change_nothing(pack, fmt):
    x = torch.randn(9, 64, generator=torch.Generator().manual_seed(6))
    expected = fmt.encode(x)
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        formats._code_values.cache_clear()
        found = fmt.encode(torch.nn.Parameter(x))
        values = fmt.decode(*found)
    finally:
        torch.set_default_dtype(before)
        formats._code_values.cache_clear()
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    assert values.dtype == torch.float32 and torch.equal(values, fmt.decode(*expected))
