"""Training: gradients against autograd on plain formulas, a training pass against the model, exact resume, balanced experts."""

import signal

import pytest
import torch
import torch.nn.functional as F

from flash41 import checkpoint, formats, mhc
from flash41.cache import KVCache
from flash41.config import Config
from flash41.dspark import DraftRun
from flash41.model import Model
from flash41.train import of_backbone, objective, prepare, scaled
from flash41.train_drafter import drafter_objective, greedy_text, windows
from flash41.trainable import TrainingRun, band_mask, index_loss, run_pass
from flash41.trainer import Plan, Stage, Trainer, run, sample

PLAN = Plan((Stage(2, 2, 32, sparse=False), Stage(2, 2, 64)), warm_up=2, seed=3)


def text(length, seed=0):
    return torch.randint(0, 250, (length,), generator=torch.Generator().manual_seed(seed))


def lively(dtype=torch.float32, seed=1):
    """A tiny model whose parts all have something to say."""
    model = Model(Config.tiny(), dtype=dtype, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                parameter.mul_(4)
            elif name.endswith(("base", "sink", "bias")):
                parameter.normal_(0, 0.3, generator=generator)
    return model


def trainer(seed=1):
    model = Model(Config.tiny(), seed=seed)
    prepare(model)
    return Trainer(model, PLAN, objective, of_backbone)


# -- gradients ---------------------------------------------------------------------------------------------------


def test_sinkhorn_has_the_gradient_of_the_plain_form():
    logits = torch.randn(2, 3, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    weight = torch.randn(2, 3, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    found = []
    for form in (mhc.sinkhorn_plain, mhc.sinkhorn):
        leaf = logits.clone().requires_grad_()
        (form(leaf, 20, 1e-6) * weight).sum().backward()
        found.append(leaf.grad)
    torch.testing.assert_close(*found, rtol=1e-12, atol=1e-14)


def test_one_matrix_that_needs_a_gradient_gets_it():
    leaf = torch.randn(1, 1, 4, 4, requires_grad=True)
    mhc.sinkhorn(leaf, 20, 1e-6)[..., 0, 0].sum().backward()
    assert float(leaf.grad.abs().sum()) > 0


def test_write_back_is_the_same_with_and_without_gradients():
    shapes = ((2, 3, 4, 8), (2, 3, 8), (2, 3, 4), (2, 3, 4, 4))
    streams, y, c, b = (torch.randn(s, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) for s in shapes)
    with torch.no_grad():
        fast = mhc.write_back(streams, y, c, b)
    formula = c[..., None] * y[..., None, :] + torch.einsum("btjk,btjd->btkd", b, streams)
    torch.testing.assert_close(fast, formula, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(mhc.write_back(streams, y, c, b), formula, rtol=1e-12, atol=1e-12)


def test_rounding_lets_gradients_straight_through():
    x = torch.randn(3, 32, requires_grad=True)
    formats.E2M1_E4M3.roundtrip(x).mul(torch.arange(32.0)).sum().backward()
    assert torch.equal(x.grad, torch.arange(32.0).expand(3, 32))


def test_whole_pass_has_the_slope_that_differences_show(monkeypatch):
    """Without rounding the loss is smooth nearly everywhere: its gradient agrees with finite differences in float64."""
    monkeypatch.setattr(formats.BlockFormat, "roundtrip", lambda self, x: x)
    model, ids = lively(torch.float64), text(33)[None]
    names = ["embed.weight", "layers.2.attn.wkv.weight", "layers.4.attn.compressor.wgate.weight", "layers.1.engram.embed.weight",
             "layers.3.hc_attn_base", "layers.5.attn.attn_sink", "layers.7.ffn.gate.weight", "layers.6.attn.wo_a.weight"]  # fmt: skip
    parameters = dict(model.named_parameters())

    def loss():
        logits, _ = run_pass(model, ids[:, :-1], sparse=False, teach=False)
        return F.cross_entropy(logits.double().flatten(0, 1), ids[0, 1:])

    model.dtype = torch.float64
    gradients = torch.autograd.grad(loss(), [parameters[name] for name in names])
    for name, gradient in zip(names, gradients, strict=True):
        place = int(gradient.abs().argmax())
        flat, step = parameters[name].detach().view(-1), 1e-5
        ends = []
        for sign in (1, -1):
            flat[place] += sign * step
            with torch.no_grad():
                ends.append(float(loss()))
            flat[place] -= sign * step
        slope = (ends[0] - ends[1]) / (2 * step)
        assert slope == pytest.approx(float(gradient.view(-1)[place]), rel=1e-3), name


def test_every_trained_parameter_gets_a_gradient_and_the_index_loss_reaches_the_indexer_alone():
    model, ids = lively(), text(65)[None]
    logits, seen = run_pass(model, ids[:, :-1], sparse=True)
    names = [name for name, _ in model.named_parameters() if of_backbone(name) and not name.endswith((".bias", ".bias_vl"))]
    parameters = [dict(model.named_parameters())[name] for name in names]
    by_text = torch.autograd.grad(logits.logsumexp(-1).sum(), parameters, retain_graph=True, allow_unused=True)
    by_index = torch.autograd.grad(index_loss(seen), parameters, allow_unused=True)
    for name, one, two in zip(names, by_text, by_index, strict=True):
        of_indexer = ".indexer." in name
        if ".experts." in name and one is None:  # nobody chose it
            continue
        assert (one is None or not one.any()) == of_indexer, name
        assert (two is None or not two.any()) != of_indexer, name


# -- the pass ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tokens", [16, 64, 96])
def test_training_pass_gives_the_models_logits(tokens):
    model, ids = lively(torch.float64), torch.stack([text(tokens, 1), text(tokens, 2)])
    with torch.no_grad():
        logits, _ = run_pass(model, ids)
        torch.testing.assert_close(logits, model(ids, path="plain"), rtol=0, atol=1e-9)
        torch.testing.assert_close(logits, model(ids), rtol=0, atol=1e-9)


def test_band_shows_each_query_the_last_window_and_nothing_before_the_start():
    seen = band_mask(3, 4).nonzero()
    places = {(int(n) * 4 + int(q), int(n) * 4 + int(k) - 4) for n, q, k in seen}
    assert places == {(t, s) for t in range(12) for s in range(max(t - 3, 0), t + 1)}


def test_length_that_is_no_multiple_of_the_window_is_refused():
    with pytest.raises(ValueError, match="T = 40, must be a multiple of sliding_window = 16"):
        run_pass(lively(), text(40)[None])


def test_index_loss_is_zero_when_the_scores_are_the_teachers():
    model, ids = lively(), text(64)[None]
    with torch.no_grad():
        _, seen = run_pass(model, ids)
        assert float(index_loss(seen)) > 0
        seen.index_scores = {layer: mass.clamp(min=1e-30).log() for layer, mass in seen.teacher.items()}
        assert float(index_loss(seen)) == pytest.approx(0, abs=1e-5)


# -- the loop ----------------------------------------------------------------------------------------------------


def test_interrupted_run_ends_where_an_uninterrupted_one_ends(tmp_path):
    ids = text(500)
    whole = trainer()
    run(whole, ids, tmp_path / "whole.pt")
    first = trainer()
    first.advance(ids)
    first.save(tmp_path / "part.pt")
    second = trainer(seed=2)  # other start values, all of them replaced by the state
    run(second, ids, tmp_path / "part.pt")
    assert second.step == PLAN.steps and all(torch.equal(whole.masters[n], second.masters[n]) for n in whole.masters)
    for (name, one), two in zip(whole.model.named_parameters(), second.model.parameters(), strict=True):
        if of_backbone(name):
            assert torch.equal(one, two), name


def test_ctrl_c_ends_the_step_at_hand_and_saves(tmp_path):
    mine = trainer()
    advance = mine.advance
    mine.advance = lambda ids: (signal.raise_signal(signal.SIGINT), advance(ids))[1]
    with pytest.raises(KeyboardInterrupt, match="after step 1; the same command goes on"):
        run(mine, text(500), tmp_path / "state.pt")
    again = trainer()
    again.load(tmp_path / "state.pt")
    assert again.step == 1 and all(torch.equal(mine.masters[n], again.masters[n]) for n in mine.masters)


def test_state_of_another_plan_is_refused(tmp_path):
    trainer().save(tmp_path / "state.pt")
    other = Trainer(Model(Config.tiny()), scaled(PLAN, 2), objective, of_backbone)
    with pytest.raises(ValueError, match="was made by another plan"):
        other.load(tmp_path / "state.pt")


def test_shards_add_up_to_the_whole_batch():
    ids, found = text(500), []
    for shards in (1, 2):
        mine = Trainer(Model(Config.tiny(), seed=1), Plan(PLAN.stages, shards=shards), objective, of_backbone)
        mine.advance(ids)
        found.append({name: m.grad for name, m in mine.masters.items()})
    for name in found[0]:
        if found[0][name] is not None:
            torch.testing.assert_close(found[0][name], found[1][name], rtol=1e-3, atol=1e-6, msg=name)


def test_experts_that_get_too_much_lose_bias_and_the_others_gain():
    mine = trainer()
    gate = mine.model.layers[0].ffn.gate
    gate.bias.zero_()
    mine.step = PLAN.warm_up
    mine.balance([{gate: torch.tensor([[0, 1], [0, 1], [0, 2]])}])
    assert torch.equal(gate.bias.sign(), torch.tensor([-1.0, -1, 0, 1, 1, 1]))


def test_model_shows_rounded_masters_and_loss_falls():
    mine, ids = Trainer(Model(Config.tiny(), seed=1), Plan((Stage(12, 4, 64),), warm_up=1), objective, of_backbone), text(64).repeat(8)
    losses = [mine.advance(ids)["loss"] for _ in range(12)]
    assert losses[-1] < losses[0] - 0.5
    for name, parameter in mine.trained.items():
        assert torch.equal(parameter, checkpoint.rounded(name, mine.masters[name].detach())), name
    assert not torch.equal(mine.trained["layers.0.ffn.experts.0.w1.weight"], mine.masters["layers.0.ffn.experts.0.w1.weight"])


def test_samples_are_the_text_and_its_next_tokens():
    ids = torch.arange(100)
    inputs, targets = sample(ids, Stage(1, 5, 16), 7, 3)
    assert inputs.shape == (5, 16) and torch.equal(inputs + 1, targets) and torch.equal(inputs[:, 1:], inputs[:, :-1] + 1)
    assert torch.equal(sample(ids, Stage(1, 5, 16), 7, 3)[0], inputs) and not torch.equal(sample(ids, Stage(1, 5, 16), 7, 4)[0], inputs)


def test_rate_warms_up_and_falls_to_its_floor():
    plan = Plan((Stage(100, 1, 16),), warm_up=10)
    rates = [plan.rate_at(step) for step in range(100)]
    assert rates[9] == 1 and rates[0] == 0.1 and rates[99] == pytest.approx(plan.floor, abs=1e-3)
    assert all(a > b for a, b in zip(rates[10:], rates[11:], strict=False))
    with pytest.raises(ValueError, match="beyond the plan"):
        plan.stage(100)


def test_rate_ends_in_a_linear_descent():
    plan = Plan((Stage(100, 1, 16),), warm_up=10, horizon=200, cool_down=20)
    whole = Plan((Stage(200, 1, 16),), warm_up=10)
    assert [plan.rate_at(step) for step in range(81)] == [whole.rate_at(step) for step in range(81)]
    assert plan.rate_at(90) == pytest.approx(whole.rate_at(90) / 2) and plan.rate_at(99) == pytest.approx(whole.rate_at(99) / 20)


def test_thinned_tables_lack_the_stated_share_of_rows_another_one_at_every_step():
    model, ids = lively(), text(64)[None]
    _, seen = run_pass(model, ids, absent=0.4, salt=3)
    rows = torch.arange(30_000).view(1, -1, 6)
    left = seen.thin(rows, torch.ones(*rows.shape, 2))
    assert left.unique().tolist() == pytest.approx([0.0, 1 / 0.6])
    assert float((left == 0).float().mean()) == pytest.approx(0.4, abs=0.02)
    seen.salt = 4
    again = seen.thin(rows, torch.ones(*rows.shape, 2))
    assert float(((left == 0) & (again == 0)).float().mean()) == pytest.approx(0.16, abs=0.05)
    seen.absent = 0.0
    assert torch.equal(seen.thin(rows, left), left)


# -- the drafter -------------------------------------------------------------------------------------------------


def test_draft_training_sees_what_drafting_sees():
    """The same hidden rows, from windows cut out of a text and from the rings of a cache that read it."""
    model, ids = lively(torch.float64), text(48)[None]
    _, seen = run_pass(model, ids, teach=False)
    anchors = torch.tensor([5, 20, 40])
    steps = anchors[:, None] + torch.arange(5)
    mine = model.drafter.hidden(DraftRun(windows(model, seen.features, seen.places, anchors), steps), ids[0, anchors])
    for row, anchor in zip(mine, anchors.tolist(), strict=True):
        cache = KVCache(model.config)
        model(ids[:, :anchor], cache)
        notes = {}
        model.drafter.propose(cache, ids[:, anchor], notes=notes)
        torch.testing.assert_close(row[None], notes["hidden"][0], rtol=0, atol=1e-9)


def test_drafter_learns_alone(tmp_path):
    model, ids = lively(), text(300)
    before = {name: p.clone() for name, p in model.named_parameters()}
    mine = Trainer(model, Plan((Stage(3, 2, 64),)), drafter_objective, lambda name: name.startswith("mtp."))
    mine.advance(greedy_text(model, ids, tmp_path / "text.pt", rows=2, prompt=8, new=60, batch=2))
    for name, parameter in model.named_parameters():
        if not name.startswith("mtp."):
            assert torch.equal(parameter, before[name]), name
    assert all(master.grad is not None and master.grad.abs().sum() > 0 for name, master in mine.masters.items() if "experts" not in name)


# -- the checkpoint ----------------------------------------------------------------------------------------------


def test_checkpoint_gives_back_exactly_what_was_saved(tmp_path):
    model = lively()
    with pytest.raises(ValueError, match="round it before saving"):
        checkpoint.save(model, tmp_path / "m.safetensors")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(checkpoint.rounded(name, parameter))
    checkpoint.save(model, tmp_path / "m.safetensors", {"note": "x"})
    config, token_map, state, notes = checkpoint.read(tmp_path / "m.safetensors")
    assert config == model.config and torch.equal(token_map, model.token_map) and notes == {"note": "x"}
    assert set(state) == {name for name, _ in model.named_parameters()}
    assert all(torch.equal(state[name], parameter) for name, parameter in model.named_parameters())


def test_rounding_twice_changes_nothing():
    for name in ("layers.0.ffn.experts.3.w2.weight", "layers.1.engram.embed.weight", "embed.weight", "layers.0.hc_attn_fn"):
        once = checkpoint.rounded(name, torch.randn(64, 64))
        assert torch.equal(checkpoint.rounded(name, once), once)


def test_files_that_are_no_checkpoint_are_named(tmp_path):
    (tmp_path / "x.safetensors").write_bytes(b"not one")
    with pytest.raises(ValueError, match="x.safetensors is not a safetensors file"):
        checkpoint.read(tmp_path / "x.safetensors")
    with pytest.raises(FileNotFoundError):
        checkpoint.read(tmp_path / "absent.safetensors")
    with pytest.raises(ValueError, match="name = 'novice', must be one of"):
        Model.pretrained("novice")


def test_training_run_notes_experts_and_choices():
    _, seen = run_pass(lively(), text(64)[None])
    assert isinstance(seen, TrainingRun) and set(seen.chosen_experts) == set(range(8)) and set(seen.choices) == {2, 4, 5, 7}
