"""Experiments change what they say and nothing else; what the trained model can do stays within stated bounds."""

import hashlib
import json
import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from test_training import lively, text

from flash41 import checkpoint, evaluate, experiments, mhc
from flash41.model import Model
from flash41.tokenizer import Tokenizer
from flash41.trainable import GradCache, run_pass

GOLDEN = Path(__file__).with_name("apprentice.json")
CARD = (checkpoint.HOME / "README.md").read_text()


@pytest.fixture(scope="module")
def rows():
    return torch.stack([text(96, 5), text(96, 6)])


@pytest.fixture(scope="module")
def model():
    return lively().requires_grad_(False)


# -- experiments ---------------------------------------------------------------------------------------------------


def test_first_experiment_is_the_model_as_it_runs(model, rows):
    logits = model(rows)
    expected = F.cross_entropy(logits[:, :-1].mT, rows[:, 1:], reduction="none")
    torch.testing.assert_close(experiments.token_losses(model, rows), expected, rtol=0, atol=2e-3)


@pytest.mark.parametrize("experiment", experiments.EXPERIMENTS[1:], ids=lambda e: e.name)
def test_every_other_experiment_changes_the_loss(model, rows, experiment):
    assert not torch.allclose(experiments.token_losses(model, rows), experiments.token_losses(model, rows, experiment), atol=1e-4)


def test_float_cache_keeps_what_the_other_rounds(model, rows):
    _, rounded = run_pass(model, rows)
    _, kept = run_pass(model, rows, cache=experiments.FloatCache)
    first = model.config.kv_source_layer_ids[0]
    assert isinstance(rounded.cache, GradCache) and kept.cache.rows[first].unique().numel() > 10 * rounded.cache.rows[first].unique().numel()


def test_engram_off_closes_every_gate(model, rows):
    class Noting(experiments.NoEngram):
        def note(self, name, value):
            if name.endswith(".gate"):
                gates.append(value)
            super().note(name, value)

    gates = []
    run_pass(model, rows, kind=Noting)
    assert len(gates) == len(model.config.engram_layer_ids) and not any(gate.any() for gate in gates)


@pytest.mark.parametrize("kind", [experiments.RandomRows, experiments.RecentRows])
def test_other_selections_choose_as_many_visible_rows_as_the_indexer(model, rows, kind):
    _, run = run_pass(model, rows, kind=kind)
    counts = run.places.positions + 1  # the last selecting layer has one row per token
    expected = counts.clamp(max=model.config.index_topk)
    assert torch.equal(run.chosen.sum(-1), expected)
    assert not (run.chosen & ~run.visible(1, run.chosen.shape[-1])).any()
    if kind is experiments.RecentRows:
        assert run.chosen[0, 50].nonzero().flatten().tolist() == list(range(51 - model.config.index_topk, 51))


def test_identity_mixing_keeps_streams_apart(model, rows):
    block = experiments.unmixed(model).layers[3]
    streams = torch.randn(1, 5, 4, model.config.hidden_size)
    _, _, b = mhc.coefficients(streams, block.hc_attn_fn, block.hc_attn_base, block.hc_attn_scale, model.config)
    torch.testing.assert_close(b, torch.eye(4).expand_as(b), rtol=0, atol=1e-5)


def test_masses_are_shares_and_no_selection_beats_the_best(model, rows):
    for row in experiments.index_mass(model, rows, last=32):
        assert 0 < max(row["indexer"], row["most recent"]) <= row["best possible"] <= 1 + 1e-6
        ratio = model.config.compress_ratios[row["layer"]]
        expected = sum(model.config.index_topk / ((t + 1) // ratio) for t in range(64, 96)) / 32
        assert row["random"] == pytest.approx(expected, rel=1e-6)


def test_loads_add_up(model, rows):
    table = experiments.router_loads(model, rows)
    assert len(table) == model.config.num_hidden_layers and all(sum(row["loads"]) == pytest.approx(1) for row in table)


# -- the apprentice ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def found():
    return evaluate.evaluate(quick=True)


def test_checkpoint_is_the_one_on_the_card():
    path = checkpoint.path_of("apprentice")
    assert hashlib.sha256(path.read_bytes()).hexdigest() in CARD
    assert path.stat().st_size <= 10_000_000 and f"{path.stat().st_size:,}" in CARD


@pytest.mark.parametrize("path", ["plain", "fast"])
def test_logits_of_the_apprentice(path):
    golden, tokenizer = json.loads(GOLDEN.read_text()), Tokenizer.load()
    ids = torch.tensor([tokenizer.encode(golden["text"])])
    logits = Model.pretrained("apprentice")(ids, path=path)[0]
    assert logits.argmax(-1).tolist() == golden["argmax"]
    torch.testing.assert_close(logits[:: golden["step"], :8], torch.tensor(golden["logits"]), rtol=0, atol=2e-2)


def test_apprentice_beats_counting(found):
    assert found["loss"]["nats per byte"] < found["loss"]["5-gram nats per byte"] - 0.03


def test_drafts_are_accepted_and_change_nothing(found):
    assert found["drafts"]["accepted per verification"] >= 2.0 and found["drafts"]["identical to plain greedy"]


def test_indexer_finds_more_than_the_newest_rows_and_twice_as_much_as_chance(found):
    for row in found["indexer"]["layers"]:
        assert row["indexer"] > row["most recent"] and row["indexer"] >= 2 * row["random"]


def test_no_expert_is_idle(found):
    assert all(min(row["loads"]) > 0.01 for row in found["router"])


def test_page_and_card_show_the_same_figures(found):
    page = evaluate.page(found)
    assert "nats/byte" in page and "most recent" in page and found["sample"]["greedy"] in page
    assert re.search(r"\d\.\d{4} nats/byte", CARD)
