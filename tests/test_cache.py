"""The cache: bytes of live storage, what comes back, going back, and the doors."""

import pytest
import torch

from flash41.cache import KVCache
from flash41.config import Config
from flash41.formats import E2M1_E4M3, E2M1_E8M0, E4M3_E8M0

TINY = Config.tiny()
TINY_ROW = 32 + 4 + 16 + 1  # bytes of a row of 64 channels and an index key of 32


def feed(cache, tokens, seed=0, live=None):
    """Write `tokens` random tokens in every layer, as a forward pass would. Returns what was written, per layer."""
    c, generator = cache.config, torch.Generator().manual_seed(seed)
    given = {}
    for layer in range(c.num_hidden_layers):
        window = torch.randn(cache.batch, tokens, c.head_dim, generator=generator)
        cache.write_window(layer, window, live)
        given[layer] = {"window": window}
    steps = torch.full((cache.batch,), tokens) if live is None else live.sum(1)
    for layer in c.kv_source_layer_ids:
        ratio = c.compress_ratios[layer]
        new = (cache.lengths + steps) // ratio - cache.lengths // ratio
        most = int(new.max())
        rows = torch.randn(cache.batch, most, c.head_dim, generator=generator)
        keys = torch.randn(cache.batch, most, c.index_head_dim, generator=generator)
        cache.append_rows(layer, rows, keys, torch.arange(most) < new[:, None])
        given[layer] |= {"rows": rows, "keys": keys}
        if ratio == 2:
            kv, gate = torch.randn(2, cache.batch, tokens, c.head_dim, generator=generator)
            cache.write_tail(layer, kv, gate, live)
            given[layer] |= {"kv": kv, "gate": gate}
    cache.advance(steps)
    return given


def totals(cache):
    return {scope: tuple(sum(getattr(p, what) for p in cache.report() if p.scope == scope) for what in ("used", "allocated"))
            for scope in ("global", "window", "tail")}  # fmt: skip


def storages(cache):
    """Bytes of every tensor storage that hangs on the cache, found without asking the cache."""
    found, queue, seen = {}, [vars(cache)], set()
    while queue:
        item = queue.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, torch.Tensor):
            if item.dim() > 1:  # lengths, row counts and window starts [B] are bookkeeping
                found[item.untyped_storage().data_ptr()] = item.untyped_storage().nbytes()
        elif isinstance(item, dict):
            queue += item.values()
        elif isinstance(item, list | tuple):
            queue += item
        elif hasattr(item, "tensors"):
            queue.append(item.tensors)
    return sum(found.values())


@pytest.mark.parametrize("tokens", [1, 2, 7, 100, 301])
def test_released_configuration_holds_356_bytes_per_row_and_890_per_token(tokens):
    cache = KVCache(Config.flash())
    feed(cache, tokens)
    assert cache.used_bytes() == 356 * (3 * (tokens // 2) + tokens)
    assert cache.bytes_per_token() == cache.used_bytes() / tokens
    assert tokens % 2 or cache.bytes_per_token() == 890
    assert totals(cache)["window"] == (min(tokens, 128) * 528 * 40, 2_703_360)
    assert totals(cache)["tail"] == (12_288 * (tokens % 2), 24_576)
    assert sum(part.allocated for part in cache.report()) == storages(cache)


def test_the_price_is_720_for_rows_and_170_for_index_keys():
    cache = KVCache(Config.flash(), batch=2)
    feed(cache, 10)
    per_token = {name: sum(p.used for p in cache.report() if p.name == name) / 20 for name in ("rows", "index keys")}
    assert per_token == {"rows": 720, "index keys": 170}
    assert {p.layer: p.used / 20 for p in cache.report() if p.name == "rows"} == {2: 144, 8: 144, 14: 144, 20: 288}


def test_a_cache_grows_by_whole_pages_and_reports_what_it_allocated():
    cache = KVCache(TINY)
    for step in range(40):
        feed(cache, 37, seed=step)
        for store in cache.rows.values():
            assert store.allocated % 256 == 0
        assert sum(part.allocated for part in cache.report()) == storages(cache)
    used, allocated = totals(cache)["global"]
    assert used <= allocated <= 1.25 * used + 3 * 256 * TINY_ROW


def test_rows_come_back_as_the_format_rounds_them_across_chunks():
    cache = KVCache(TINY)
    chunks = [feed(cache, n, seed=n) for n in (5, 1, 30, 17)]
    for layer in TINY.kv_source_layer_ids:
        rows, keys = cache.read_rows(layer)
        assert torch.equal(rows, E2M1_E4M3.roundtrip(torch.cat([chunk[layer]["rows"] for chunk in chunks], dim=1)))
        assert torch.equal(keys, E2M1_E8M0.roundtrip(torch.cat([chunk[layer]["keys"] for chunk in chunks], dim=1)))
    wanted = torch.tensor([[[3, 0], [20, 7]]])
    assert torch.equal(cache.rows[5].gather(wanted)[0], cache.read_rows(5)[0][0][wanted[0]])


def test_a_ring_holds_the_last_window_at_position_mod_window():
    cache = KVCache(TINY)
    written = torch.cat([feed(cache, n, seed=n)[3]["window"] for n in (5, 1, 30, 17)], dim=1)
    rows, positions = cache.read_window(3)
    assert sorted(positions[0].tolist()) == list(range(53 - 16, 53))
    assert torch.equal(rows[0], E4M3_E8M0.roundtrip(written[0, positions[0]]))
    fresh = KVCache(TINY)
    feed(fresh, 3)
    assert fresh.read_window(0)[1][0].tolist() == [0, 1, 2] + [-1] * 13


def test_the_open_pair_waits_in_slot_0_in_float32():
    cache = KVCache(TINY)
    given = [feed(cache, n, seed=n) for n in (4, 3)]
    assert cache.tail[2].dtype == torch.float32
    assert torch.equal(cache.tail[2][0, 0], torch.stack([given[1][2]["kv"][0, -1], given[1][2]["gate"][0, -1]]))


def test_sequences_of_a_batch_with_padding_keep_their_own_lengths():
    cache = KVCache(TINY, batch=2)
    live = torch.tensor([[True] * 6, [False] * 3 + [True] * 3])
    given = feed(cache, 6, live=live)
    assert cache.lengths.tolist() == [6, 3]
    assert cache.written[2].tolist() == [3, 1] and cache.written[5].tolist() == [6, 3]
    rows, positions = cache.read_window(0)
    assert positions[1].tolist()[:4] == [0, 1, 2, -1]
    assert torch.equal(rows[1, :3], E4M3_E8M0.roundtrip(given[0]["window"][1, 3:]))
    assert cache.used_bytes() == sum(TINY_ROW * (2 * (n // 2) + n) for n in (6, 3))


def test_float_storage_gives_the_same_numbers_bit_for_bit():
    packed, floats = KVCache(TINY), KVCache(TINY, storage="float")
    for cache in (packed, floats):
        for n in (9, 1, 25):
            feed(cache, n, seed=n)
    for layer in TINY.kv_source_layer_ids:
        assert all(torch.equal(a, b) for a, b in zip(packed.read_rows(layer), floats.read_rows(layer), strict=True))
    assert torch.equal(packed.read_window(1)[0], floats.read_window(1)[0])
    assert floats.used_bytes() > 7 * packed.used_bytes()


def test_restoring_a_snapshot_undoes_later_writes_exactly():
    cache, straight = KVCache(TINY), KVCache(TINY)
    for target in (cache, straight):
        feed(target, 21, seed=1)
    snapshot = cache.snapshot()
    feed(cache, 40, seed=2)
    cache.restore(snapshot)
    assert cache.used_bytes() == straight.used_bytes()
    for target in (cache, straight):
        feed(target, 2, seed=3)
    for layer in range(TINY.num_hidden_layers):
        assert torch.equal(cache.read_window(layer)[0], straight.read_window(layer)[0])
    for layer in TINY.kv_source_layer_ids:
        assert torch.equal(cache.read_rows(layer)[0], straight.read_rows(layer)[0])
    assert all(torch.equal(cache.tail[layer], straight.tail[layer]) for layer in cache.tail)


def test_a_snapshot_whose_rows_were_cut_away_is_refused():
    cache = KVCache(TINY)
    feed(cache, 4)
    early = cache.snapshot()
    feed(cache, 6)
    late = cache.snapshot()
    cache.restore(early)
    with pytest.raises(ValueError, match=r"snapshot of lengths \[10\]: the cache was cut to \[4\] since"):
        cache.restore(late)
    cache.restore(early)
    with pytest.raises(ValueError, match="belongs to another cache"):
        KVCache(TINY).restore(early)


def test_truncation_drops_tokens_or_says_what_is_lost():
    cache = KVCache(TINY)
    feed(cache, 9)
    cache.truncate(4)
    assert cache.lengths.tolist() == [4] and cache.written[2].tolist() == [2] and cache.written[5].tolist() == [4]
    with pytest.raises(ValueError, match="an open pair are gone"):
        cache.truncate(1)
    feed(cache, 20)
    with pytest.raises(ValueError, match=r"lengths = \[23\] from \[24\].*take a snapshot"):
        cache.truncate(23)
    with pytest.raises(ValueError, match=r"lengths = \[25\], must be 0"):
        cache.truncate(25)


def test_what_was_staged_and_not_committed_leaves_nothing_behind():
    cache, straight = KVCache(TINY), KVCache(TINY)
    for target in (cache, straight):
        feed(target, 19, seed=1)
    before = [tensor.clone() for tensor in cache.overwritten()]
    for layer in range(TINY.num_hidden_layers):
        cache.write_window(layer, torch.ones(1, 5, 64))
    cache.append_rows(5, torch.ones(1, 5, 64), torch.ones(1, 5, 32))
    cache.write_tail(2, torch.ones(1, 5, 64), torch.ones(1, 5, 64))
    assert all(torch.equal(a, b) for a, b in zip(before, cache.overwritten(), strict=True))
    cache.discard()
    for target in (cache, straight):
        feed(target, 4, seed=2)
    assert cache.used_bytes() == straight.used_bytes()
    assert all(torch.equal(a, b) for a, b in zip(cache.read_rows(5), straight.read_rows(5), strict=True))
    assert all(torch.equal(a, b) for a, b in zip(cache.overwritten(), straight.overwritten(), strict=True))


def test_a_prefix_of_what_was_staged_can_be_committed():
    cache, straight = KVCache(TINY), KVCache(TINY)
    rows = {layer: torch.randn(1, 6, 64, generator=torch.Generator().manual_seed(layer)) for layer in range(8)}
    for target, tokens in ((cache, 6), (straight, 3)):
        feed(target, 17)
        for layer in range(8):
            target.write_window(layer, rows[layer][:, :tokens])
        for layer in TINY.kv_source_layer_ids:
            ratio = TINY.compress_ratios[layer]
            n = (17 + tokens) // ratio - 17 // ratio
            target.append_rows(layer, rows[layer][:, :n], rows[layer][:, :n, :32])
            if ratio == 2:
                target.write_tail(layer, rows[layer][:, :tokens], rows[layer][:, :tokens])
        target.advance(3)
    assert cache.lengths.tolist() == [20] and cache.used_bytes() == straight.used_bytes()
    for layer in range(8):
        assert torch.equal(cache.history(layer), straight.history(layer))
    assert all(torch.equal(cache.tail[layer], straight.tail[layer]) for layer in cache.tail)


def test_the_drafters_rings_cost_202752_bytes_once_it_writes():
    cache = KVCache(Config.flash())
    assert not [part for part in cache.report() if part.scope == "draft"]
    for index in range(3):
        cache.write_window(index, torch.randn(1, 2, 512), draft=True)
    cache.discard()  # staged rows are working memory of a pass
    assert sum(part.allocated for part in cache.report() if part.scope == "draft") == 202_752
    assert sum(part.allocated for part in cache.report()) == storages(cache)


def test_a_pair_that_slot_0_no_longer_holds_cannot_be_reopened():
    cache = KVCache(TINY)
    feed(cache, 3)
    cache.truncate(2)
    with pytest.raises(ValueError, match="an open pair are gone"):
        cache.truncate(1)  # slot 0 holds position 2, position 0 would be needed
    other = KVCache(TINY)
    feed(other, 4)
    other.truncate(3)
    feed(other, 1)
    assert other.lengths.tolist() == [4]


def test_reading_a_draft_ring_makes_none_and_restoring_drops_later_ones():
    cache = KVCache(TINY)
    feed(cache, 4)
    early = cache.snapshot()
    assert (cache.read_window(0, draft=True)[1] == -1).all() and not cache.draft_window
    cache.write_window(0, torch.ones(1, 1, 64), draft=True)
    cache.discard()
    cache.restore(early)
    assert not cache.draft_window


def test_two_caches_never_touch_each_other():
    one, two = KVCache(TINY), KVCache(TINY)
    feed(one, 8, seed=1)
    before = one.read_rows(2)[0].clone()
    feed(two, 8, seed=2)
    assert torch.equal(one.read_rows(2)[0], before)


DOORS = {
    "batch = 0, must be at least 1": lambda c: KVCache(TINY, batch=0),
    "capacity = 0, must be 1 … 4096": lambda c: KVCache(TINY, capacity=0),
    "capacity = 4097, must be 1 … 4096": lambda c: KVCache(TINY, capacity=4097),
    "storage = 'fp8', must be 'packed' or 'float'": lambda c: KVCache(TINY, storage="fp8"),
    r"layer = 3, must be a source layer: \[2, 4, 5\]": lambda c: c.append_rows(3, torch.zeros(1, 1, 64), torch.zeros(1, 1, 32)),
    r"latents has shape \(1, 1, 32\), must be \[1, n, 64\]": lambda c: c.append_rows(2, torch.zeros(1, 1, 32), torch.zeros(1, 1, 32)),
    r"index_keys has shape \(2, 1, 32\)": lambda c: c.append_rows(2, torch.zeros(1, 1, 64), torch.zeros(2, 1, 32)),
    "layer 2: 6 rows, must be at most 5": lambda c: c.append_rows(2, torch.zeros(1, 2, 64), torch.zeros(1, 2, 32)),
    r"encode: x\[0, 5\] = nan": lambda c: c.append_rows(5, torch.full((1, 1, 64), 0.0), nan_at(5, torch.zeros(1, 1, 32))),
    "layer = 8, must be 0 … 7": lambda c: c.write_window(8, torch.zeros(1, 1, 64)),
    "live is torch.float32": lambda c: c.write_window(0, torch.zeros(1, 1, 64), torch.ones(1, 1)),
    "layer = 5, must be a ratio-2 source layer": lambda c: c.write_tail(5, torch.zeros(1, 1, 64), torch.zeros(1, 1, 64)),
    r"tokens = 3: lengths would be \[11\], must not shrink and not pass capacity = 10": lambda c: c.advance(3),
    r"layer 2 holds \[4\] rows, must hold \[5\]": lambda c: c.advance(2),
    "tokens = -1": lambda c: c.advance(-1),
    "tokens = 2.7, must be a whole number": lambda c: c.advance(2.7),
    "tokens = True, must be a whole number": lambda c: c.advance(True),
    "tokens = None": lambda c: c.advance(None),
    r"tokens = torch.int64 \(2,\)": lambda c: c.advance(torch.tensor([1, 1])),
    "lengths = 2.7": lambda c: c.truncate(2.7),
    "capacity = 2.5": lambda c: KVCache(TINY, capacity=2.5),
    "batch = None": lambda c: KVCache(TINY, batch=None),
    "layer = None, must be 0": lambda c: c.read_window(None),
    "count = 17, must be 1 … 16": lambda c: c.recent_ids(17),
    "snapshot = None": lambda c: c.restore(None),
    r"ids is torch.int64 \(1, 9\)": lambda c: c.write_look_back(torch.zeros(1, 9, dtype=torch.int64), torch.ones(1, 4, dtype=torch.bool)),
}


def nan_at(channel, x):
    x[..., channel] = float("nan")
    return x


@pytest.mark.parametrize("message, call", DOORS.items(), ids=[message.split(",")[0] for message in DOORS])
def test_bad_input_is_refused_and_changes_nothing(message, call):
    cache = KVCache(TINY, capacity=10)
    feed(cache, 8)
    before = [tensor.clone() for tensor in cache.overwritten()], cache.used_bytes(), totals(cache), cache.lengths.tolist()
    with pytest.raises(ValueError, match=message):
        call(cache)
    after = cache.overwritten(), cache.used_bytes(), totals(cache), cache.lengths.tolist()
    assert before[1:] == after[1:] and all(torch.equal(a, b) for a, b in zip(before[0], after[0], strict=True))


def test_an_empty_cache_has_no_price():
    with pytest.raises(ValueError, match="empty cache"):
        KVCache(TINY).bytes_per_token()
