"""The atlas against the configuration, the table of contents, the modules and the lab folders; what a map refuses."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest
import yaml

from flash41.config import Config
from flash41.course import show_map
from flash41.course.atlas import CHAPTERS, LABS, LANGUAGES, PLACES, atlas, numbers, source_bytes
from flash41.course.atlas_words import Words

ROOT = Path(__file__).parents[1]
FLASH = atlas()
PATH = ["1A", "1B", "2A", "3A", "3B", "3C", "4A", "6A", "5A", "6B"]
PAIRS = {(edge.source, edge.target): edge.kind for edge in FLASH.edges}


def pages_in_toc():
    text = (ROOT / "_toc.yml").read_text()
    return set(re.findall(r"(?:root|file): (\S+)", text)) if yaml.safe_load(text) else set()


def texts(value):
    """Every text of an atlas, with its three languages."""
    if isinstance(value, Words):
        yield value
    elif isinstance(value, dict | tuple | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from texts(part)
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            yield from texts(getattr(value, name))


# -- the ten blocks and the path ------------------------------------------------------------------------------------------


def test_ten_blocks_stand_in_four_columns_in_the_order_of_the_path():
    assert list(FLASH.blocks) == PATH
    assert [block.column for block in FLASH.blocks.values()] == [1, 1, 1, 2, 2, 2, 3, 3, 4, 4]
    assert [words.en for words in FLASH.columns.values()] == [
        "Input, Engram & mHC", "CED 20+20 & CSA2", "MLA & FP4 KV (890 B)", "FP4 MoE & DSpark"]


def test_edges_form_the_path_and_the_cache_stores_and_loads():
    walk = ["", "1A", "1B", "2A", "3A", "3B", "3C", "4A", "5A", "6B", ""]
    flow = {pair for pair, kind in PAIRS.items() if kind == "flow"}
    assert flow == set(zip(walk, walk[1:], strict=False))
    assert {pair for pair, kind in PAIRS.items() if kind == "store"} == {("3B", "6A"), ("3C", "6A"), ("4A", "6A")}
    assert {pair for pair, kind in PAIRS.items() if kind == "load"} == {("6A", "3C"), ("6A", "4A")}
    assert {pair for pair, kind in PAIRS.items() if kind == "back"} == {("5A", "2A"), ("6B", "1A"), ("6B", "6A")}
    assert max(Counter((edge.source, edge.target) for edge in FLASH.edges).values()) == 1
    for block in FLASH.blocks.values():
        assert block.inputs and block.outputs


@pytest.mark.parametrize("mode", ["prefill", "decode", "draft"])
def test_every_journey_follows_edges_and_visits_every_block(mode):
    _, steps = FLASH.paths[mode]
    labels = [step.label for step in steps]
    assert set(labels) == set(PATH)
    for before, step in zip([None, *steps], steps, strict=False):
        assert all(pair in PAIRS for pair in step.edges)
        reached = [pair for pair in step.edges if pair[1] == step.label and pair[0]]
        assert before is None or reached, f"{mode}: no edge leads to {step.label}"
    assert {pair for step in steps for pair in step.edges} >= {pair for pair, kind in PAIRS.items() if kind in ("store", "load")}


def test_our_reading_is_marked_where_the_source_document_leaves_it_open():
    assert {label for label, block in FLASH.blocks.items() if block.reading} == {"3B", "3C", "6B"}


# -- numbers ---------------------------------------------------------------------------------------------------------------


def test_bytes_sum_to_890_and_follow_the_configuration():
    assert sum(source_bytes(Config.flash()).values()) == 890 == numbers(Config.flash())["total"]
    assert [fact.value for fact in FLASH.blocks["6A"].facts][:3] == ["720 B", "170 B", "720 + 170 = 890 B"]
    tiny = atlas(Config.tiny())
    assert sum(source_bytes(Config.tiny()).values()) == numbers(Config.tiny())["total"] == 106
    assert tiny.columns[3].en == "MLA & FP4 KV (106 B)" and tiny.columns[2].en == "CED 5+3 & CSA2"
    assert "890" not in str(tiny) and "5120" not in str(tiny)


@pytest.mark.parametrize(("name", "value"), [
    ("engram_rows", 48), ("engram_bytes", 12_672), ("engram_table", 768_022_850), ("coefficients", 24), ("entry", 288), ("key", 68),
    ("ring_row", 528), ("rings", 2_703_360), ("tail", 24_576), ("draft_rings", 202_752), ("keys", 640), ("pool", 16_384),
    ("expert_bytes", 18_800_640), ("full", 4), ("reindex", 4), ("reuse", 30), ("window_only", 2),
])  # fmt: skip
def test_a_number_of_the_map_is_the_published_one(name, value):
    assert numbers(Config.flash())[name] == value


def test_shapes_are_those_of_the_configuration():
    shapes = {(edge.source, edge.target): edge.shape for edge in FLASH.edges}
    assert shapes["1A", "1B"] == "[B, T, 4, 5120]" and shapes["3B", "6A"] == "[B, N, 512]" and shapes["6B", ""] == "[B, T, 129280]"
    assert {e.shape for e in atlas(Config.tiny()).edges if e.source == "1A"} == {"[B, T, 4, 64]"}


@pytest.mark.parametrize("config", [Config.flash(), Config.tiny(), Config.slice()], ids=["flash", "tiny", "slice"])
def test_no_text_keeps_a_placeholder(config):
    assert not [words for words in texts(atlas(config)) if re.search(r"[{}]", "".join(words))]


# -- words -----------------------------------------------------------------------------------------------------------------


def test_three_languages_are_complete():
    found = list(texts(FLASH))
    assert len(found) > 150 and set(LANGUAGES) == set(Words._fields)
    for words in found:
        assert all(part.strip() for part in words)
    long = [words for words in found if len(words.en) > 40]
    assert not [words for words in long if len(set(words)) < 3], "a sentence that nobody has translated"
    assert not [words for words in long if not re.search(r"[\u4e00-\u9fff]", words.zh)]
    assert not [words for words in long if not re.search(r"[à-ỹđ]", words.vi)]


# -- what exists -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", PATH)
def test_what_a_card_links_to_exists_and_what_exists_is_linked(label):
    block, toc = FLASH.blocks[label], pages_in_toc()
    chapter = block.chapter.removesuffix(".ipynb")
    assert (chapter in toc) == block.has_chapter, f"{chapter}: add the label to CHAPTERS when the page is in _toc.yml"
    assert (block.lab.removesuffix(".ipynb") in toc) == block.has_lab, f"{block.lab}: add the label to LABS when it is in _toc.yml"
    assert {page.rsplit(".", 1)[0] for page in block.pages} <= toc and all((ROOT / "book").joinpath("..", page).is_file() for page in block.pages)
    assert all((ROOT / f"labs/flash41/{module}.py").is_file() for module in block.modules)
    docstring = (ROOT / f"labs/flash41/{block.modules[0]}.py").read_text().splitlines()[0]
    assert docstring.startswith(f'"""{label}. '), "the first module is the block's own room"


def test_flags_name_known_labels():
    assert set(PLACES) >= CHAPTERS | LABS
    assert len({block.chapter for block in FLASH.blocks.values()}) == 10


# -- the map -------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def page(monkeypatch):
    monkeypatch.setenv("FLASH41_STATIC", "1")


def data_of(widget):
    return json.loads(re.search(r'<script type="application/json">(.*?)</script>', widget._repr_html_())[1])


def test_a_map_lights_a_block_shows_a_run_and_takes_another_configuration(page):
    state = data_of(show_map("6A", config=Config.tiny(), trace={"6A": [{"what": "held", "value": 12_345}]}, language="vi"))
    assert state["selected"] == "6A" and state["data"]["language"] == "vi"
    blocks = {block["label"]: block for block in state["data"]["blocks"]}
    assert blocks["6A"]["trace"] == [{"what": "held", "value": "12,345"}] and "trace" not in blocks["4A"]
    assert blocks["6A"]["tag"][0] == "106 B / token"


def test_what_is_not_there_yet_is_no_link(page):
    links = [link for block in data_of(show_map())["data"]["blocks"] for link in block["links"]]
    ready = {link["path"] for link in links if link["ready"]}
    assert all((ROOT / path).is_file() for path in ready)
    assert {link["kind"] for link in links} == {"chapter", "lab", "code", "more"}


def test_the_table_says_the_same_without_javascript(page):
    html = show_map()._repr_html_()
    assert html.count("<tr id=") == 10 and all(f'id="{label}"' in html for label in PATH)
    assert "720 + 170 = 890 B" in html and "<a data-doc=\"book/ladder/budget\">" in html and "FP4 KV 缓存" in html


def test_setting_the_selection_of_a_live_map_is_seen(monkeypatch):
    monkeypatch.delenv("FLASH41_STATIC", raising=False)
    live = show_map("1A")
    seen = []
    live.observe(lambda change: seen.append(change["new"]), names="selected")
    live.set_state({"selected": "3C"})
    assert seen == ["3C"] == [live.selected]


@pytest.mark.parametrize(("arguments", "message"), [
    ({"highlight": "7A"}, "highlight = '7A', must be '' or one of"), ({"language": "fr"}, "language = 'fr', must be one of"),
    ({"trace": {"9": []}}, "trace must map labels"), ({"trace": [1]}, "trace must map labels"),
    ({"trace": {"6A": [{"what": "x"}]}}, r"trace\['6A'\] must be a list of"),
], ids=str)  # fmt: skip
def test_a_map_of_something_else_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        show_map(**arguments)
