"""The whole path against numbers that independent implementations produced: logits, decode, intermediates, drafts.

Tolerances are those of the pack's README (tests/golden); "exact" is equality.
"""

import re

import golden_pack
import numpy as np
import pytest
import torch

from flash41.cache import KVCache
from flash41.indexer import as_mask, rows_of_blocks

EACH = pytest.mark.parametrize("name", golden_pack.PACKS)
PATHS = pytest.mark.parametrize("path", ["plain", "fast"])

TOLERANCES = {  # first pattern that matches; 0 is exact
    r"^(final\.hidden|attn\.\d+\.out|index\.\d+\.score|dspark\.main_x)$": 1e-4,
    r"^engram\.\d+\.gate$|^hc\..*\.(pre|comb)$|^index\.\d+\.weights$|^moe\.\d+\.weights$": 1e-5,
    r"^hc\..*\.post$": 2e-5,
    r"^engram\.\d+\.out$|^moe\.\d+\.out$": 5e-4,
    r"^block\.|^final\.collapsed$": 1e-3,
    r"^compressor\.\d+\.(latent|tail_)|^attn\.\d+\.core": 5e-5,
    r"\.(hash_ids|kv|rows|rows_packed|rows_scale|key|query|topk|mask|indices|main_kv)$": 0,
}


def tolerance(key):
    return next(bound for pattern, bound in TOLERANCES.items() if re.search(pattern, key))


def largest(ours, theirs):
    ours, theirs = np.asarray(ours, dtype=np.float64), np.asarray(theirs, dtype=np.float64)
    assert ours.shape == theirs.shape
    same = (ours == theirs) | (np.isinf(ours) & (ours == theirs))
    return float(np.abs(np.where(same, 0, ours - np.where(same, 0, theirs))).max(initial=0))


def argmax_agrees(ours, theirs):
    return np.array_equal(np.asarray(ours).argmax(-1), theirs.argmax(-1))


@EACH
@PATHS
def test_logits_of_one_pass(name, path, device):
    g = golden_pack.expected(name)
    logits = golden_pack.model(name, device=device)(golden_pack.prompts(name, device), path=path).cpu().numpy()
    theirs = g["logits"].reshape(logits.shape)
    assert largest(logits, theirs) <= 1e-4 and argmax_agrees(logits, theirs)


@EACH
@PATHS
def test_logits_after_prompts_of_many_lengths(name, path, device):
    g = golden_pack.expected(name)
    assert "prefill.lengths" in g or name == "t8-yarn-far"  # the far pack stores one length only
    ids = golden_pack.prompts(name, device)
    for column, length in enumerate(g.get("prefill.lengths", [])):
        last = golden_pack.model(name, device=device)(ids[:, :length], path=path)[:, -1].cpu().numpy()
        theirs = g["prefill.last_logits"][:, column]
        assert largest(last, theirs) <= 1e-4 and argmax_agrees(last, theirs), f"prompt of {length}"


@EACH
@PATHS
@pytest.mark.parametrize("storage", ["packed", "float"])
def test_decode_step_by_step(name, path, storage, device):
    model, g, ids = golden_pack.model(name, device=device), golden_pack.expected(name), golden_pack.prompts(name, device)[:1]
    for key in (key for key in g if re.fullmatch(r"decode\.P\d+\.logits", key)):
        prompt = int(re.search(r"P(\d+)", key)[1])
        cache = KVCache(model.config, storage=storage, device=device)
        model(ids[:, :prompt], cache, path=path)
        steps = [model(ids[:, t : t + 1], cache, path=path)[0, 0].cpu().numpy() for t in range(prompt, prompt + len(g[key]))]
        assert largest(steps, g[key]) <= 1e-4 and argmax_agrees(steps, g[key]), key


def intermediates(name, path, device):
    """Everything the pack stores about the first tokens of row 0, computed by us, under the pack's names."""
    model, ids = golden_pack.model(name, device=device), golden_pack.prompts(name, device)[:1]
    notes, cache = {}, KVCache(model.config, device=device)
    model(ids[:, : golden_pack.PREFIX[name]], cache, path=path, notes=notes)
    notes = {key: [part.cpu() for part in parts] for key, parts in notes.items()}
    found = {key: torch.cat(parts, dim=1)[0].numpy() for key, parts in notes.items() if key != "candidates"}
    rows = rows_of_blocks(torch.cat(notes["candidates"], dim=1)[0], model.config.candidate_block_size)
    found["candidates.mask"] = as_mask(rows, golden_pack.PREFIX[name]).numpy()
    for layer in model.config.kv_source_layer_ids:
        rows, keys = (values.cpu() for values in cache.read_rows(layer))
        found |= {f"compressor.{layer}.rows": rows[0].numpy(), f"index.{layer}.key": keys[0].numpy()}
        stored = cache.rows[layer].tensors
        found[f"compressor.{layer}.rows_packed"] = stored["codes"][0, : rows.shape[1]].cpu().numpy()
        found[f"compressor.{layer}.rows_scale"] = stored["scales"][0, : rows.shape[1]].cpu().numpy()
        found[f"compressor.{layer}.latent"] = found[f"compressor.{layer}.latent"][-rows.shape[1] :]
        if layer in cache.tail and golden_pack.PREFIX[name] % 2:
            for place, part in enumerate(("kv", "gate")):
                found[f"compressor.{layer}.tail_{part}"] = cache.tail[layer][0, :1, place].cpu().numpy()
    return found


@EACH
@PATHS
def test_every_stored_intermediate(name, path, device):
    g, found = golden_pack.expected(name), intermediates(name, path, device)
    outside = r"^(ids|token_map|logits|prefill\.|decode\.|rope\.|gap\.|dspark\.(anchor|t\d)|engram\.(primes|multipliers|offsets))"
    wanted = [key for key in g if not re.match(outside, key)]
    compared = [key for key in wanted if key in found]
    assert set(wanted) == set(compared), sorted(set(wanted) - set(compared))
    for key in compared:
        ours, theirs = found[key], g[key]
        if key.endswith((".main_kv", "main_x")):
            theirs = theirs[: len(ours)]
        assert largest(ours, theirs) <= tolerance(key), key


@EACH
def test_engram_constants(name):
    model, g = golden_pack.model(name), golden_pack.expected(name)
    if "engram.primes" not in g:
        assert name == "t8-yarn-far"
        return
    assert np.array_equal(np.array(model.config.engram_primes), g["engram.primes"])
    for row, layer in enumerate(model.config.engram_layer_ids):
        engram = model.layers[layer].engram
        assert np.array_equal(engram.factors.numpy(), g["engram.multipliers"][row])
        assert np.array_equal(engram.first.numpy(), g["engram.offsets"][row])


@EACH
def test_drafts(name, device):
    model, g, ids = golden_pack.model(name, device=device), golden_pack.expected(name), golden_pack.prompts(name, device)[:1]
    for t in g["dspark.anchor_positions"].tolist():
        cache, notes = KVCache(model.config, device=device), {}
        anchor = model(ids[:, : t + 1], cache)[:, -1].argmax(-1)
        draft = model.drafter.propose(cache, anchor, notes=notes)
        assert torch.cat([anchor, draft.tokens[0]]).tolist() == g[f"dspark.t{t}.tokens"].tolist()
        assert largest(draft.logits[0].cpu(), g[f"dspark.t{t}.logits"]) <= 1e-4
        assert largest(draft.confidence[0].cpu(), g[f"dspark.t{t}.confidence"]) <= 2e-4
        for key in (key for key in g if key.startswith(f"dspark.t{t}.") and key.count(".") > 2 or key.endswith(f"t{t}.hidden")):
            short = key.removeprefix(f"dspark.t{t}.")
            short = re.sub(r"^(\d)\.moe_indices$", lambda m: f"moe.{int(m[1]) + model.config.num_hidden_layers}.indices", short)
            assert largest(notes[short][0][0].cpu(), g[key]) <= (5e-4 if short == "hidden" else 0), key


@EACH
def test_draft_context_of_the_whole_row(name):
    model, g, notes = golden_pack.model(name), golden_pack.expected(name), {}
    model(golden_pack.prompts(name)[:1], notes=notes)
    for key in (key for key in g if re.search(r"dspark\.(main_x|\d\.main_kv)$", key)):
        assert largest(notes[key][0][0], g[key]) <= tolerance(key), key
