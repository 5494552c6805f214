"""Every mistake that the golden pack names turns a golden comparison red, and moves the logits as far as the pack says."""

from functools import cache
from typing import NamedTuple

import golden_pack
import mistakes as m
import pytest
import torch
from golden_pack import PACKS, expected, prompts

from flash41.cache import KVCache
from flash41.model import PATHS

# Mistake -> its break; then what tests/golden/README.md, "What the numbers can catch", prints for t8, t6 and t8-yarn-far:
# the largest change of a logit (of what the brackets of the name say) and the positions that move by more than 1e-3.
TABLE = {
    "YaRN left out": (m.no_yarn, "1.6e+00 (94/96)", "4.7e+00 (94/96)", "5.2e+00 (111/112)"),
    "YaRN also on the window-only layers": (m.yarn_everywhere, "1.7e+00 (88/96)", "3.6e+00 (94/96)", "6.8e+00 (111/112)"),
    "`rope_theta` used for every layer": (m.one_theta, "4.8e+00 (94/96)", "5.4e+00 (94/96)", "6.2e+00 (111/112)"),
    "half-split instead of adjacent pairs": (m.half_split_pairs, "9.5e+00 (94/96)", "7.4e+00 (94/96)", "8.6e+00 (111/112)"),
    "compressed row j rotated to position j": (m.row_at_its_number, "3.6e+00 (90/96)", "4.2e+00 (90/96)", "4.3e+00 (109/112)"),
    "compressed row rotated to the group's last token":
        (m.row_at_its_last_token, "3.0e+00 (94/96)", "4.0e+00 (94/96)", "3.9e+00 (111/112)"),
    "row visible one token late": (m.row_visible_late, "4.1e+00 (96/96)", "4.5e+00 (96/96)", "3.7e+00 (112/112)"),
    "no inverse rotation of the output": (m.no_inverse_rotation, "8.9e+00 (94/96)", "7.1e+00 (94/96)", "8.4e+00 (111/112)"),
    "per-head norm on the queries": (m.norm_per_head, "6.7e+00 (96/96)", "6.2e+00 (96/96)", "7.2e+00 (112/112)"),
    "index key made from the rotated latent":
        (m.key_from_rotated_latent, "3.7e+00 (77/96)", "5.3e+00 (84/96)", "5.5e+00 (103/112)"),
    "no ReLU in the index score": (m.no_relu, "3.8e+00 (79/96)", "4.8e+00 (85/96)", "5.2e+00 (102/112)"),
    "index keys and queries not quantised": (m.index_not_quantised, "3.6e+00 (75/96)", "4.4e+00 (85/96)", "5.0e+00 (101/112)"),
    "candidate mask ignored": (m.candidates_ignored, "1.5e+00 (64/96)", "2.6e+00 (79/96)", "2.0e+00 (96/112)"),
    "candidate mask applied to its own source layer":
        (m.candidates_at_their_source, "3.1e+00 (64/96)", "3.9e+00 (80/96)", "2.8e+00 (96/112)"),
    "newest block not forced into the candidates":
        (m.newest_block_not_forced, "1.9e+00 (39/96)", "1.7e+00 (67/96)", "1.5e+00 (76/112)"),
    "window rows not quantised": (m.window_not_quantised, "4.3e+00 (96/96)", "4.3e+00 (96/96)", "6.7e+00 (112/112)"),
    "compressed rows not quantised": (m.rows_not_quantised, "3.7e+00 (96/96)", "2.7e+00 (96/96)", "2.9e+00 (112/112)"),
    "no attention sink": (m.no_sink, "6.0e+00 (96/96)", "5.3e+00 (96/96)", "5.4e+00 (112/112)"),
    "window one token too long": (m.window_too_long, "8.3e+00 (64/96)", "6.7e+00 (80/96)", "6.6e+00 (96/112)"),
    "a site collapses with its own A": (m.own_mix, "6.5e+00 (96/96)", "5.9e+00 (96/96)", "6.2e+00 (112/112)"),
    "B contracted over the other index": (m.other_index_of_b, "3.7e+00 (96/96)", "2.5e+00 (96/96)", "4.6e+00 (112/112)"),
    "one Sinkhorn round too few": (m.sinkhorn_round_missing, "2.0e-01 (17/96)", "2.8e+00 (96/96)", "4.7e-03 (6/112)"),
    "attention A handed to the next layer":
        (m.attention_mix_handed_on, "4.1e+00 (96/96)", "4.9e+00 (96/96)", "5.1e+00 (112/112)"),
    "Engram left out": (m.no_engram, "6.1e+00 (96/96)", "7.3e+00 (96/96)", "7.1e+00 (112/112)"),
    "router bias kept in the weights": (m.bias_in_the_weights, "5.1e+00 (96/96)", "5.5e+00 (96/96)", "5.8e+00 (112/112)"),
    "`bias_vl` used for text": (m.image_bias_for_text, "7.7e+00 (96/96)", "6.4e+00 (96/96)", "8.2e+00 (112/112)"),
    "shared expert scaled": (m.shared_expert_scaled, "5.9e+00 (96/96)", "6.3e+00 (96/96)", "7.0e+00 (112/112)"),
    "no SwiGLU clamp": (m.no_clamp, "0", "7.9e+00 (96/96)", "0"),
    "gate clamped on both sides": (m.gate_clamped_below, "0", "4.8e+00 (96/96)", "0"),
    "norm epsilon 1e-6 hard-coded": (m.fixed_epsilon, "1.5e-05", "3.6e+00 (96/96)", "1.2e-05"),
    "draft positions causal (draft logits)": (m.causal_draft, "6.6e+00", "6.3e+00", "5.9e+00"),
    "draft positions start at t (draft logits)": (m.draft_starts_at_t, "5.6e+00", "4.2e+00", "5.3e+00"),
    "confidence from the normed stream (confidence)": (m.confidence_from_normed, "1.8e+01", "1.9e+00", "1.2e+01"),
    "drafter features taken before Engram (draft logits)": (m.features_before_engram, "0", "3.6e+00", "0"),
    "index keys of another layer reused on decode steps that close no group (decode only)":
        (m.stale_index_keys, "2.2e+00 (24/24)", "3.9e+00 (24/24)", "5.0e+00 (56/56)"),
}  # fmt: skip


# -- what a mistake can move ---------------------------------------------------------------------------------


def logits(model, pack, path):
    """Of every prompt, at every position."""
    return run(model, prompts(pack), path)[0]


def decode_logits(model, pack, path):
    """Of the first prompt's second half, fed one token at a time."""
    ids = prompts(pack)[:1]
    half = ids.shape[1] // 2
    _, state = run(model, ids[:, :half], path)
    return torch.cat([model(token, state, path=path) for token in ids[:, half:].split(1, dim=1)], dim=1)


def draft_logits(model, pack, path):
    return torch.cat([draft.logits for draft in drafts(model, pack, path)])


def confidence(model, pack, path):
    return torch.cat([draft.confidence for draft in drafts(model, pack, path)])


def drafts(model, pack, path):
    """One draft for each anchor position of the pack."""
    for t in expected(pack)["dspark.anchor_positions"]:
        _, state = run(model, prompts(pack)[:1, : t + 1], path)
        yield model.drafter.propose(state, torch.tensor(expected(pack)[f"dspark.t{t}.tokens"][:1]))


def run(model, ids, path):
    state = KVCache(model.config, len(ids), storage="float")  # the readable twin: a format can be switched off
    return model(ids, state, path=path), state


def golden(quantity, pack):
    """The expected values of one of these functions, and the tolerance of golden/README.md."""
    arrays = {name: torch.from_numpy(values) for name, values in expected(pack).items()}
    if quantity in (logits, decode_logits):
        whole = arrays["logits"]                                       # [rows, T, V]
        return (whole if quantity is logits else whole[:1, whole.shape[1] // 2 :]), 1e-4
    kind, tolerance = ("logits", 1e-4) if quantity is draft_logits else ("confidence", 2e-4)
    return torch.stack([arrays[f"dspark.t{t}.{kind}"] for t in arrays["dspark.anchor_positions"]]), tolerance


QUANTITIES = {"(draft logits)": draft_logits, "(confidence)": confidence, "(decode only)": decode_logits}


def quantity_of(mistake):
    """The name of a mistake says where it shows, if not in the logits."""
    return next((quantity for ending, quantity in QUANTITIES.items() if mistake.endswith(ending)), logits)


# -- measuring -----------------------------------------------------------------------------------------------


class Effect(NamedTuple):
    change: float     # largest change of a value
    moved: str        # "(positions that move by more than 1e-3/positions)"
    is_red: bool      # the golden comparison fails

    def __str__(self):
        return f"{self.change:.1e} {self.moved}"


@cache
def model_to_break(pack):
    return golden_pack.fresh(pack, torch.float64)


@cache
def unbroken(quantity, pack, path):
    return quantity(model_to_break(pack), pack, path)


@cache
def effect(mistake, pack, path):
    quantity, model = quantity_of(mistake), model_to_break(pack)
    right = unbroken(quantity, pack, path)
    with pytest.MonkeyPatch.context() as patch:
        TABLE[mistake][0](patch, model)
        wrong = quantity(model, pack, path)
    change = (wrong - right).abs()
    moved = change.amax(-1) > 1e-3
    return Effect(float(change.max()), f"({int(moved.sum())}/{moved.numel()})", is_red(wrong, quantity, pack))


def is_red(values, quantity, pack):
    wanted, tolerance = golden(quantity, pack)
    return not bool(((values - wanted).abs() <= tolerance).all())


def agrees(measured, cell):
    """Within one unit of the last printed digit, and the count as printed."""
    size, _, moved = cell.partition(" ")
    if size == "0":
        return measured.change == 0
    unit = float("1" + size[size.index("e") :]) / 10
    return abs(measured.change - float(size)) <= unit and moved in ("", measured.moved)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


# -- claims --------------------------------------------------------------------------------------------------

by_break = {"ids": lambda value: TABLE[value][0].__name__ if value in TABLE else value}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("pack", PACKS)
@pytest.mark.parametrize("quantity", [logits, decode_logits, draft_logits, confidence], ids=lambda quantity: quantity.__name__)
def test_the_unbroken_model_is_green(quantity, pack, path):
    assert not is_red(unbroken(quantity, pack, path), quantity, pack)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("pack", PACKS)
@pytest.mark.parametrize("mistake", TABLE, **by_break)
def test_a_mistake_moves_the_numbers_as_far_as_the_pack_says(mistake, pack, path):
    cell = TABLE[mistake][1 + PACKS.index(pack)]
    measured = effect(mistake, pack, path)
    assert agrees(measured, cell), f"{mistake}: measured {measured}, printed {cell}"


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("mistake", TABLE, **by_break)
def test_every_mistake_turns_a_golden_comparison_red(mistake, path):
    can_see = [float(cell.split()[0]) > 1e-4 for cell in TABLE[mistake][1:]]
    assert any(can_see)
    assert [effect(mistake, pack, path).is_red for pack in PACKS] == can_see


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("pack", ["t8", "t6"])
def test_the_scale_of_index_weights_shows_in_the_intermediates_only(pack, path, monkeypatch):
    right = index_weights(pack, path)
    m.index_weights_not_scaled(monkeypatch, model_to_break(pack))
    wrong = index_weights(pack, path)
    assert torch.equal(logits(model_to_break(pack), pack, path), unbroken(logits, pack, path))
    for name in right:
        wanted = torch.from_numpy(expected(pack)[name])
        assert (right[name] - wanted).abs().max() <= 1e-5, name
        assert (wrong[name] - wanted).abs().max() > 1e-5, name


def index_weights(pack, path):
    """The noted head weights of every selecting layer, for the prompt of the intermediates."""
    notes, ids = {}, prompts(pack)[:1, : golden_pack.PREFIX[pack]]
    model_to_break(pack)(ids, path=path, notes=notes)
    return {name: found[0][0] for name, found in notes.items() if name.startswith("index.") and name.endswith(".weights")}


def test_the_table_is_the_one_of_the_pack():
    lines = (golden_pack.GOLDEN / "README.md").read_text(encoding="utf-8").splitlines()
    start = lines.index("| mistake | t8 | t6 | t8-yarn-far |") + 2
    printed = [tuple(line.strip("| ").split(" | ")) for line in lines[start : start + len(TABLE)]]
    assert printed == [(name, *cells) for name, (_, *cells) in TABLE.items()]
    assert not lines[start + len(TABLE)]


@pytest.mark.parametrize("pack", PACKS)
def test_the_patches_left_nothing_behind(pack):
    assert torch.equal(logits(model_to_break(pack), pack, "plain"), unbroken(logits, pack, "plain"))
