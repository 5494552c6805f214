"""The price of a token: 720 + 170 = 890 bytes, what a session holds once, the ladder, and what fits."""

from fractions import Fraction

import pytest

from flash41.budget import Budget, LayerBytes, budget, ladder_steps, wrong_routes
from flash41.capacity import BYTE_UNITS, TOKEN_UNITS, capacity, longest_context, parse_size
from flash41.config import Config

FLASH = budget(Config.flash())


def test_a_token_costs_720_for_entries_and_170_for_index_keys():
    assert (FLASH.main, FLASH.index, FLASH.total) == (720, 170, 890)
    assert all(type(price) is int for price in (FLASH.main, FLASH.index, FLASH.total))


def test_only_the_four_source_layers_store():
    rows = [row for row in FLASH.layers if row.entry_bytes]
    storing = {row.layer: (row.entry_bytes, row.index_bytes, row.tokens_per_entry) for row in rows}
    assert storing == {2: (288, 68, 2), 8: (288, 68, 2), 14: (288, 68, 2), 20: (288, 68, 1)}
    assert len(FLASH.layers) == 40


def test_each_layer_says_whose_entries_it_reads():
    reads = [row.reads for row in FLASH.layers]
    assert reads == [None] * 2 + [2] * 6 + [8] * 6 + [14] * 6 + [20] * 20


@pytest.mark.parametrize("tokens", [0, 1, 2, 3, 127, 128, 999_999, 10**6, 2**20])
def test_used_bytes_grow_only_when_a_pair_closes(tokens):
    assert FLASH.used_bytes(tokens) == 356 * (3 * (tokens // 2) + tokens)


def test_a_million_tokens_are_890_megabytes_and_a_mebi_890_mebibytes():
    assert FLASH.used_bytes(10**6) == 890 * 10**6
    assert FLASH.used_bytes(2**20) == 890 * 2**20 == 933_232_640


def test_a_session_holds_windows_and_open_groups_once():
    assert {item.name: item.bytes for item in FLASH.constants} == {"window rows": 2_703_360, "open groups": 24_576}
    assert FLASH.constant_bytes == 2_727_936
    assert [item.bytes for item in FLASH.later] == [202_752]


def test_the_table_follows_the_configuration():
    wide = budget(Config.flash().replace(head_dim=1024))
    assert wide.main == 1440 and wide.index == 170
    assert budget(Config.flash().replace(sliding_window=64)).constants[0].bytes == 2_703_360 // 2
    tiny = budget(Config.tiny())
    assert tiny.slope == 2 * (36 + 17) * Fraction(1, 2) + (36 + 17)


def test_only_the_release_carries_its_name_and_weights_and_only_drafters_have_rings():
    tiny = Config.tiny()
    assert FLASH.model == "DeepSeek-V4.1-Flash" and budget(tiny).model == "DeepSeek-V4.1 (other sizes)"
    assert "510,286,023,000" in FLASH.not_counted[0] and budget(tiny).not_counted[0] == "weights"
    assert budget(tiny.replace(num_nextn_predict_layers=0, compress_ratios=tiny.compress_ratios[:8])).later == ()


@pytest.mark.parametrize("tokens", [-1, 1.5, None, float("nan"), "8"])
def test_negative_tokens_and_parts_of_one_are_refused(tokens):
    with pytest.raises(ValueError, match=f"tokens must be 0 or more, got {tokens!r}"):
        FLASH.used_bytes(tokens)


# -- the ladder ----------------------------------------------------------------------------------------------------


def test_the_ladder_falls_from_5_megabytes_to_890_bytes():
    prices = {step.name: step.bytes_per_token for step in ladder_steps(Config.flash())}
    assert prices == {
        "mha": 5_242_880, "mqa": 81_920, "latent": 40_960, "sources": 4_096, "pairs": 2_560, "fp4": 720, "index": 890,
    }  # fmt: skip


def test_one_layer_of_the_first_rungs_costs_131072_2048_and_1024():
    assert [step.entry_bytes for step in ladder_steps(Config.flash())[:3]] == [131_072, 2_048, 1_024]


def test_ladder_factors_multiply_to_the_whole_way():
    steps = ladder_steps(Config.flash())
    assert steps[0].factor is None
    assert [step.factor for step in steps[1:5]] == [64, 2, 10, 1.6]
    product = 1.0
    for step in steps[1:]:
        assert step.bytes_per_token == step.entry_bytes * step.entries_per_token
        product *= step.factor
    assert product == pytest.approx(5_242_880 / 890)


def test_the_last_rung_is_the_budget():
    for config in (Config.flash(), Config.tiny(), Config.slice()):
        assert ladder_steps(config)[-1].bytes_per_token == budget(config).total


def test_a_model_without_source_layers_has_a_ladder_that_ends_at_nothing():
    config = Config.tiny().replace(compress_ratios=(0,) * 11, kv_source_layer_ids=(), index_source_layer_ids=())
    steps = ladder_steps(config)
    assert budget(config).total == steps[-1].bytes_per_token == 0
    assert [step.factor for step in steps] == [None, 4, 2, None, None, None, None]
    assert wrong_routes(config)[0].bytes_per_token == 0


def test_wrong_routes_miss_890():
    routes = {route.name: (route.entry_bytes, route.bytes_per_token) for route in wrong_routes(Config.flash())}
    assert routes == {
        "extra_rope": (324, 980), "bf16_rope": (380, 1120), "unshared": (288, 10_324), "unpaired": (288, 1424),
        "fp8": (528, 1650), "bf16": (1024, 3200),
    }  # fmt: skip


# -- what fits -----------------------------------------------------------------------------------------------------


def test_eight_sessions_of_a_million_tokens_in_141_gigabytes():
    fit = capacity(FLASH, context=10**6, sessions=8, memory=141 * 10**9)
    assert fit.session_bytes == 890_000_000 + 2_727_936
    assert fit.total_bytes == 7_141_823_488 and fit.fits and fit.spare_bytes == 133_858_176_512
    assert fit.max_sessions == 157


@pytest.mark.parametrize("sessions", [1, 8, 157])
def test_the_longest_context_fits_and_one_token_more_does_not(sessions):
    memory = 141 * 10**9
    longest = capacity(FLASH, sessions=sessions, memory=memory).max_context
    assert capacity(FLASH, context=longest, sessions=sessions, memory=memory).fits
    assert not capacity(FLASH, context=longest + 1, sessions=sessions, memory=memory).fits


@pytest.mark.parametrize("rates", [(1, 2), (3, 128), (10**9, 10**9), (1, 10**9)])
def test_the_longest_context_ends_its_step_however_long_that_is(rates):
    bill = Budget("x", "x", tuple(LayerBytes(n, "full", 584, 68, rate, reads=n) for n, rate in enumerate(rates)))
    for room in (0, 651, 652, 5 * 652, 10**6 + 1, 10**12):
        longest = longest_context(bill, room)
        assert bill.used_bytes(longest) <= room < bill.used_bytes(longest + 1)


def test_the_largest_number_of_sessions_fits_and_one_more_does_not():
    fit = capacity(FLASH, context=10**6, memory=141 * 10**9)
    assert capacity(FLASH, context=10**6, sessions=fit.max_sessions, memory=141 * 10**9).fits
    assert not capacity(FLASH, context=10**6, sessions=fit.max_sessions + 1, memory=141 * 10**9).fits


def test_memory_for_exactly_one_session_is_enough():
    exact = capacity(FLASH, context=1001, memory=FLASH.used_bytes(1001) + FLASH.constant_bytes)
    assert exact.fits and exact.spare_bytes == 0 and exact.max_sessions == 1 and exact.max_context == 1001


def test_a_memory_below_the_constants_holds_nothing():
    fit = capacity(FLASH, context=1, memory=1_000_000)
    assert not fit.fits and fit.max_sessions == 0 and fit.max_context == 0


@pytest.mark.parametrize("name", ["context", "sessions", "memory"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True, "8"])
def test_capacity_refuses_what_is_not_a_positive_number(name, value):
    with pytest.raises(ValueError, match=f"{name} must be a whole number from 1 up, got {value!r}"):
        capacity(FLASH, **{"context": 1, name: value})


def test_capacity_needs_a_question():
    with pytest.raises(ValueError, match="needs a context, a memory, or both; got neither"):
        capacity(FLASH, sessions=8)


@pytest.mark.parametrize(
    ("text", "units", "value"),
    [
        ("1M", TOKEN_UNITS, 10**6),
        ("1Mi", TOKEN_UNITS, 2**20),
        ("1Gi", TOKEN_UNITS, 2**30),
        ("1" + "0" * 18, TOKEN_UNITS, 10**18),
        ("0." + "0" * 8 + "1G", TOKEN_UNITS, 1),
        ("128Ki", TOKEN_UNITS, 131_072),
        ("1.5k", TOKEN_UNITS, 1500),
        ("1_000", TOKEN_UNITS, 1000),
        ("141GB", BYTE_UNITS, 141 * 10**9),
        ("80GiB", BYTE_UNITS, 80 * 2**30),
        ("1 MB", BYTE_UNITS, 10**6),
        ("1MiB", BYTE_UNITS, 2**20),
        ("890", BYTE_UNITS, 890),
    ],
)
def test_decimal_and_binary_units_are_told_apart(text, units, value):
    assert parse_size(text, "--x", units) == value


@pytest.mark.parametrize("text", ["", "M", "1X", "1MB", "-1", "1e6", "1,000", "½", "1 2", "0x10", "nan"])
def test_a_wrong_size_is_refused_with_name_value_and_what_is_allowed(text):
    with pytest.raises(ValueError) as error:
        parse_size(text, "--context", TOKEN_UNITS)
    assert str(error.value) == f"--context {text!r}: allowed is a number, alone or with one of k, K, M, G, Ki, Mi, Gi"


@pytest.mark.parametrize("text", ["0", "0.5", "1.0001k", "9" * 30, "9" * 5000, "0." + "0" * 5000 + "1"], ids=lambda text: text[:9])
def test_a_size_is_a_whole_number_in_range(text):
    with pytest.raises(ValueError, match="allowed is a whole number from 1 to 10\\^18"):
        parse_size(text, "--context", TOKEN_UNITS)
