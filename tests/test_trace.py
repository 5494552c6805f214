"""What the pages show of one run: traffic per layer against a real cache, the trace, the records, and the two explorers in Python."""

import json
import random

import pytest
import torch

from flash41 import checkpoint
from flash41.cache import KVCache
from flash41.compressor import visible_rows
from flash41.config import Config
from flash41.course import recorded, show_layers, show_map, show_visibility
from flash41.course.records import FOLDER, NAMES
from flash41.course.trace import PASSAGE, trace, visibility
from flash41.course.traffic import row_bytes, total_bytes, traffic
from flash41.course.widgets.visibility import places
from flash41.indexer import NONE, rows_of_blocks
from flash41.model import Model
from flash41.tokenizer import Tokenizer, corpus

FLASH, TINY = Config.flash(), Config.tiny()
TRAINED = (checkpoint.HOME / "apprentice.safetensors").is_file()


@pytest.fixture(scope="module")
def tiny():
    return Model(TINY, seed=3).requires_grad_(False)


@pytest.fixture(scope="module")
def apprentice():
    """The trained model; an untrained one of the same shape as long as there is none."""
    if TRAINED:
        return Model.pretrained("apprentice")
    return Model(Config.apprentice(), token_map=Tokenizer.load().token_map(), seed=1).requires_grad_(False)


# -- traffic ------------------------------------------------------------------------------------------------------------


def test_one_decode_step_of_the_release_reads_what_the_facts_say():
    sums = total_bytes(FLASH, "decode", 2**20)
    assert sums["reads"]["window"] == 40 * 128 * 528 == 2_703_360
    assert sums["reads"]["rows"] == 38 * 512 * 288 == 5_603_328
    assert sums["reads"]["keys"] == 170 * 2**20 + 4 * 16_384 * 68 == 182_714_368
    assert row_bytes(FLASH) == {"window": 528, "rows": 288, "keys": 68, "pair": 4096}
    two = [total_bytes(FLASH, "decode", tokens)["writes"] for tokens in (1000, 1001)]
    assert sum(step["rows"] + step["keys"] for step in two) == 2 * 890, "storage per token, over an even and an odd step"


def test_a_prompt_runs_the_decoder_on_its_last_window_and_writes_every_row():
    kinds = {layer: traffic(FLASH, layer, "prefill", 100_001) for layer in (0, 2, 3, 20, 24, 39, 40)}
    assert [kinds[layer]["queries"] for layer in kinds] == [100_001] * 3 + [128] * 3 + [0]
    assert kinds[2]["writes"] == {"window": 128, "rows": 50_000, "keys": 50_000, "pair": 1}
    assert kinds[20]["writes"] == {"window": 128, "rows": 100_001, "keys": 100_001}
    assert kinds[24]["scores"] == sum(16_384 - (-(t + 1)) % 8 for t in range(99_873, 100_001))
    assert kinds[39]["writes"] == kinds[40]["writes"] == {"window": 128}
    assert kinds[20]["reads"]["rows"] == 128 * 512


@pytest.mark.parametrize("tokens", [1, 2, 7, 16, 33, 64])
def test_traffic_is_what_a_cache_and_an_indexer_really_do(tiny, tokens):
    cache, before, notes = KVCache(TINY), {}, {}
    draw = torch.Generator().manual_seed(tokens)
    tiny(torch.randint(0, 255, (1, tokens), generator=draw), cache, schedule="bounded")
    for phase in ("prefill", "decode"):
        held = {(part.scope, part.name, part.layer): part.used for part in cache.report()}
        for layer in range(TINY.num_hidden_layers):
            writes = traffic(TINY, layer, phase, int(cache.lengths))["writes"]
            for part, scope, name in (("rows", "global", "rows"), ("keys", "global", "index keys")):
                new = held.get((scope, name, layer), 0) - before.get((scope, name, layer), 0)
                assert writes.get(part, 0) * row_bytes(TINY)[part] == new, (phase, layer, part)
            if phase == "prefill":
                assert writes["window"] * row_bytes(TINY)["window"] == held["window", "window", layer]
            assert writes.get("pair", 0) * row_bytes(TINY)["pair"] == held.get(("tail", "tail", layer), 0)
        before = held
        if phase == "prefill":
            tiny(torch.randint(0, 255, (1, 1), generator=draw), cache, notes=notes)
    step, t = {layer: traffic(TINY, layer, "decode", tokens + 1) for layer in range(TINY.num_hidden_layers)}, torch.tensor(tokens)
    groups = notes["candidates"][0][0, 0]
    for layer in TINY.index_source_layer_ids:
        seen = int(visible_rows(t, TINY.compress_ratios[layer]))
        chosen = notes[f"index.{layer}.topk"][0][0, 0]
        among = rows_of_blocks(groups, TINY.candidate_block_size) if TINY.roles[layer] == "reindex" else torch.arange(seen)
        assert step[layer]["reads"]["keys"] == step[layer]["scores"] == int(((among != NONE) & (among < seen)).sum())
        assert step[layer]["reads"]["rows"] == int((chosen != NONE).sum())


def test_traffic_refuses_what_there_is_not():
    for arguments, words in (((43, "decode", 9), "layer = 43"), ((0, "draft", 9), "phase = 'draft'"), ((0, "decode", 0), "tokens = 0")):
        with pytest.raises(ValueError, match=words):
            traffic(FLASH, *arguments)


# -- the trace ------------------------------------------------------------------------------------------------------------


def numbers(facts: dict) -> tuple[list[float], list[str]]:
    """Numbers with a decimal point, and everything else, of a trace."""
    loose, firm = [], []
    for fact in (fact for label in sorted(facts) for fact in facts[label]):
        for word in f"{fact['what']}: {fact['value']}".replace(",", " ").split():
            try:
                loose.append(float(word)) if "." in word else firm.append(word)
            except ValueError:
                firm.append(word)
    return loose, firm


def test_a_trace_says_something_real_about_every_block(apprentice):
    facts = trace(apprentice, PASSAGE)
    assert list(facts) == ["1A", "1B", "2A", "3A", "3B", "3C", "4A", "6A", "5A", "6B"]
    assert json.loads(json.dumps(facts)) == facts and all(facts.values())
    by_name = {fact["what"]: fact["value"] for label in facts for fact in facts[label]}
    assert by_name["bytes written for the context"] == "8,640 + 4,080 = 12,720"  # (36 + 17) B x (80 + 160) rows
    assert by_name["layer 7: keys that the last token reads"] == "32 + 32 = 64"
    assert by_name["column sums of B"] == "1.000, 1.000, 1.000, 1.000"
    show_map("3C", trace=facts)
    with pytest.raises(ValueError, match="must be at least two tokens"):
        trace(apprentice, "a")


def test_the_passage_is_of_the_text_that_the_apprentice_has_not_seen():
    assert PASSAGE in corpus("validation") and PASSAGE not in corpus("train")


def test_recorded_choices_obey_the_rules(apprentice):
    record, c = visibility(apprentice, PASSAGE), Config.apprentice()
    assert "".join(record["tokens"]) == PASSAGE
    for t in range(len(record["tokens"])):
        groups = places(record["candidates"][t])
        assert t // c.candidate_block_size in groups and len(groups) <= c.candidate_topk_blocks, "the newest row's group is forced in"
        for layer, chosen in record["chosen"].items():
            rows, seen = places(chosen[t]), (t + 1) // c.compress_ratios[int(layer)]
            assert all(row < seen for row in rows) and len(rows) == min(seen, c.index_topk)
            if c.roles[int(layer)] == "reindex":
                assert {row // c.candidate_block_size for row in rows} <= set(groups)


def test_records_are_small_and_of_this_configuration():
    assert sum((FOLDER / f"{name}.json").stat().st_size for name in NAMES) < 150_000
    record, c = recorded("visibility"), Config.apprentice()
    assert [layer["role"] for layer in record["layers"]] == list(c.roles)
    assert (record["window"], record["topk"], record["group"], record["groups"]) == (32, 32, 8, 16)
    assert "".join(record["tokens"]) == PASSAGE
    with pytest.raises(ValueError, match="name = 'trail'"):
        recorded("trail")


@pytest.mark.skipif(not TRAINED, reason="there is no trained apprentice yet")
def test_records_are_what_the_trained_apprentice_does(apprentice):
    assert recorded("visibility") == visibility(apprentice, PASSAGE)
    (loose, firm), (new_loose, new_firm) = (numbers(facts) for facts in (recorded("trace"), trace(apprentice, PASSAGE)))
    assert firm == new_firm and new_loose == pytest.approx(loose, abs=0.02)


# -- the explorers in Python ------------------------------------------------------------------------------------------------


def test_tables_say_it_without_javascript(monkeypatch):
    monkeypatch.setenv("FLASH41_STATIC", "1")
    html = show_layers()._repr_html_()
    table = html.split('<div class="course-table">')[1]
    assert table.count("<tr>") == 20 and "3–7, each" in table and "<td>890</td>" in table
    for name in ("Full", "Reindex", "Reuse", "Window", "Draft"):
        assert f"<td>{name}</td>" in table
    seen = show_visibility(query=7)._repr_html_().split('<div class="course-table">')[1]
    assert seen.count("<tr>") == 4 and "<td>0–7</td><td>4</td>" in seen and "<td>0–7</td><td>8</td><td>0</td>" in seen


def test_explorers_refuse_what_there_is_not():
    for call, words in ((lambda: show_layers(layer=43), "layer = 43"), (lambda: show_layers(phase="draft"), "phase = 'draft'"),
                        (lambda: show_layers(tokens=0), "tokens = 0"), (lambda: show_visibility(8), "layer = 8"),
                        (lambda: show_visibility(query=160), "query = 160, must be 0 … 159")):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            call()


@pytest.mark.parametrize("name", ["tiny", "slice", "apprentice"])
def test_the_grid_takes_every_configuration(name):
    config = getattr(Config, name)()
    widget = show_layers(config, tokens=random.Random(0).randint(1, config.max_position_embeddings))
    assert len(widget.data["layers"]) == len(config.compress_ratios)
