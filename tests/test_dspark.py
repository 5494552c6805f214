"""Drafting changes the speed and nothing else: greedy tokens are the same, sampled ones have the same distribution."""

import golden_pack
import pytest
import torch

from flash41.cache import KVCache
from flash41.dspark import Draft, probabilities, sample, verify
from flash41.generate import generate

PROMPTS = torch.randint(0, 256, (5, 12), generator=torch.Generator().manual_seed(8))


class Recorder(KVCache):
    """A cache that also remembers, by (position, layer, kind), every row as it came back from rounding."""

    def __init__(self, *args, **kw):
        super().__init__(*args, **kw)
        self.seen = {}

    def write_window(self, layer, rows, live=None, **kw):
        rounded = super().write_window(layer, rows, live, **kw)
        if not kw.get("draft"):
            self._remember(layer, "window", self.lengths, rounded, live)
        return rounded

    def append_rows(self, layer, latents, index_keys, live=None):
        first = self.written[layer] if live is None else self.written[layer] - (~live).sum(1)  # padding stands on the left
        super().append_rows(layer, latents, index_keys, live)
        ratio = self.config.compress_ratios[layer]
        for kind, store, values in (("row", self.rows, latents), ("key", self.index_keys, index_keys)):
            self._remember(layer, kind, first, store[layer].format.roundtrip(values), live, ratio)

    def _remember(self, layer, kind, first, rows, live, ratio=1):
        for sequence in range(rows.shape[0]):
            for n in (n for n in range(rows.shape[1]) if live is None or live[sequence, n]):
                position = (int(first[sequence]) + n) * ratio + ratio - 1
                self.seen[sequence, position, layer, kind] = rows[sequence, n]


def first_flip(one, other, sequence, before):
    """The earliest row of a sequence that two caches rounded differently: (position, layer, kind, entries that differ)."""
    for key in sorted(key for key in one.seen if key[0] == sequence and key[1] <= before):
        if key in other.seen and not torch.equal(one.seen[key], other.seen[key]):
            return *key[1:], int((one.seen[key] != other.seen[key]).sum())
    return None


@pytest.mark.parametrize("dtype", [torch.float64, pytest.param(torch.float32, marks=pytest.mark.slow)], ids=["fp64", "fp32"])
def test_greedy_drafting_writes_the_tokens_of_plain_greedy(dtype):
    """In float32 a pass over six tokens adds up in another order than six passes, so a cached value that lies on a rounding
    boundary may flip. A difference in tokens is accepted there only behind such a flip, of one or two entries, by name."""
    model = golden_pack.model("t8", dtype)
    caches = [Recorder(model.config, len(PROMPTS)) for _ in range(2)]
    plain, drafted = (generate(model, PROMPTS, 200, draft=draft, cache=cache) for draft, cache in zip((False, True), caches, strict=True))
    for row in range(len(PROMPTS)):
        differ = (plain[row] != drafted[row]).nonzero()
        if not len(differ):
            continue
        assert dtype == torch.float32
        token = PROMPTS.shape[1] + int(differ[0])
        position, layer, kind, entries = first_flip(*caches, row, token)
        print(f"prompt {row}: tokens part at {token}; first flip at position {position}, layer {layer}, {kind}: {entries} entries")
        assert position < token and entries <= 2


def test_a_rejected_draft_leaves_every_state_as_if_it_had_never_been():
    model = golden_pack.model("t8", torch.float64)
    prompt = PROMPTS[:1]
    drafted, plain = KVCache(model.config), KVCache(model.config)
    tokens = generate(model, prompt, 40, draft=True, cache=drafted)
    held = int(drafted.lengths[0]) - prompt.shape[1]
    model(torch.cat([prompt, tokens[:, :held]], dim=1) if held <= 40 else prompt, plain)
    if held > 40:
        pytest.fail("the cache holds more tokens than were asked for")
    for layer in range(model.config.num_hidden_layers):
        assert torch.equal(drafted.history(layer), plain.history(layer))
    for layer in model.config.kv_source_layer_ids:
        assert all(torch.equal(a, b) for a, b in zip(drafted.read_rows(layer), plain.read_rows(layer), strict=True))
    for index in range(model.config.num_nextn_predict_layers):
        assert torch.equal(drafted.read_window(index, draft=True)[0], plain.read_window(index, draft=True)[0])
    assert torch.equal(drafted.recent_ids(3), plain.recent_ids(3))
    assert drafted.used_bytes() == plain.used_bytes()


def chi_square(counts, expected):
    return float(((counts - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_first_and_second_tokens_of_verified_drafts_have_the_models_distribution(temperature):
    """200,000 draws over 8 tokens. A distribution off by 0.01 in total variation gives a statistic near
    200,000 * 0.0004 = 80 over 7 degrees of freedom; the bound 29.9 is passed by chance once in 10,000 runs (seeded: never)."""
    rows, vocabulary, generator = 200_000, 8, torch.Generator().manual_seed(3)
    target = torch.randn(1, 3, vocabulary, generator=generator).double().expand(rows, -1, -1)
    guess = torch.randn(1, 2, vocabulary, generator=generator).double().expand(rows, -1, -1)
    tokens = torch.stack([sample(guess[:, i], temperature, generator) for i in range(2)], dim=1)
    kept, after = verify(target, Draft(tokens, guess, None), temperature, generator)
    first = torch.where(kept >= 1, tokens[:, 0], after)
    p = probabilities(target[0], temperature)
    assert chi_square(first.bincount(minlength=vocabulary), rows * p[0]) < 29.9
    second = torch.where(kept == 2, tokens[:, 1], after)[kept >= 1]
    assert chi_square(second.bincount(minlength=vocabulary), len(second) * p[1]) < 29.9
    accepted = torch.minimum(p[0], probabilities(guess[0, 0], temperature)).sum()
    assert abs(float((kept >= 1).double().mean()) - float(accepted)) < 0.005
    always = tokens[:, 0].bincount(minlength=vocabulary)
    assert chi_square(always, rows * p[0]) > 1000  # the same test turns red for drafts that nobody verifies


def test_sampled_generation_with_drafts_has_the_distribution_of_plain_sampling():
    """Two samples of 1,500 second tokens, in 8 classes of equal plain frequency; bound as above."""
    model = golden_pack.model("t8")
    prompt = PROMPTS[:1].expand(1500, -1)
    draws = [generate(model, prompt, 3, draft=draft, temperature=1.0, generator=torch.Generator().manual_seed(5 + draft))[:, 1]
             for draft in (False, True)]  # fmt: skip
    edges = torch.linspace(0, 1500, 9)[1:-1].long()
    bounds = draws[0].sort().values[edges]
    counts = [torch.bucketize(draw.contiguous(), bounds).bincount(minlength=8).double() for draw in draws]
    pooled = (counts[0] + counts[1]) / 2
    assert sum(chi_square(c, pooled) for c in counts) < 29.9


def test_drafts_stop_at_the_capacity():
    model = golden_pack.model("t8")
    cache = KVCache(model.config, capacity=30)
    assert generate(model, PROMPTS[:1], 19, draft=True, cache=cache).shape == (1, 19)
    with pytest.raises(ValueError, match="cache is full"):
        generate(model, PROMPTS[:1, :1], 20, cache=cache)


def test_a_model_without_draft_layers_says_so():
    from flash41.bench_model import mid
    from flash41.model import Model

    with pytest.raises(ValueError, match="this model has no drafter"):
        _ = Model(mid(), device="meta").drafter
