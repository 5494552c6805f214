"""The ten steps as one model: a student's functions, put together, reproduce the tiny model's logits and drafts.

Given here is what no step asks for: matrix products with the weights, RoPE frequencies, the rounding of index keys and window
rows, and the order of things. Whole prompts, no cache.
"""

from __future__ import annotations

import linecache
from pathlib import Path
from types import SimpleNamespace

import torch
from torch import Tensor

from ...config import Config
from ...engram import multipliers
from ...formats import E2M1_E8M0, E4M3_E8M0
from ...layers import layer_frequencies
from ...model import Model
from ...tokenizer import Tokenizer
from .reading import code_of, find
from .signatures import STEPS


def compose(folder: str | Path, *, seed: int = 0) -> str:
    """Read all functions of the lab out of the notebooks of a folder, run the tiny model with them, compare with the package's.

    Returns one line that says how close they are. Raises ValueError naming the functions that are missing, AssertionError where
    the logits or the drafts differ.
    """
    model, own = tiny_model(seed), Composition(functions_of(folder))
    ids = torch.randint(0, model.config.vocab_size, (2, 47), generator=torch.Generator().manual_seed(seed))
    expected = model(ids, path="plain")
    logits, features = own.logits(model, ids)
    error = float((logits - expected).abs().max())
    if logits.shape != expected.shape or not error <= 1e-3 * float(expected.abs().max()):
        shapes = f"{list(logits.shape)}, the model's {list(expected.shape)}"
        raise AssertionError(f"the logits differ by up to {error:.3g}; yours have shape {shapes}")
    price = own.bytes_per_token(Config.flash())
    drafts = own.draft(model, ids, expected[:, -1].argmax(-1), features)[0]
    if drafts.tolist() != reference_drafts(model, ids, expected).tolist():
        raise AssertionError("the logits agree, the drafts do not: look at step 6B")
    return (f"{len(vars(own.f))} functions, one model: logits {list(logits.shape)} equal the package's to {error:.1e}, drafts "
            f"{list(drafts.shape)} all; at the released sizes it costs {price} bytes per token")  # fmt: skip


def speak(folder: str | Path, prompt: str = "MACBETH.\nIs this a ", tokens: int = 40) -> str:
    """The prompt and what the trained small model goes on with, every number of it made by the functions of the folder.

    Greedy, the whole text again for each of the `tokens` new tokens. Raises ValueError as `compose` does, and for an empty prompt.
    """
    if not prompt:
        raise ValueError("prompt = '', must hold at least one character")
    own, model, tokenizer = Composition(functions_of(folder)), Model.pretrained(), Tokenizer.load()
    ids = torch.tensor([tokenizer.encode(prompt)])                                     # [1, T]
    for _ in range(tokens):
        ids = torch.cat([ids, own.logits(model, ids)[0][:, -1:].argmax(-1)], dim=1)
    return tokenizer.decode(ids[0])


def functions_of(folder: str | Path) -> dict[str, object]:
    """Name -> function, out of every notebook and script below a folder. Raises ValueError for what is not there."""
    cells = []
    for path in sorted(Path(folder).rglob("*")):
        if path.suffix in (".ipynb", ".py") and ".ipynb_checkpoints" not in path.parts:
            cells += code_of(path)
    names = {function.name: label for label, entry in STEPS.items() for function in entry.functions}
    found = find(cells, list(names))
    if absent := [f"{names[name]}.{name} ({entry.state})" for name, entry in found.items() if entry.state != "written"]:
        raise ValueError(f"{folder} lacks {len(absent)} functions: {', '.join(absent)}")
    return {name: load(entry.source, name, names[name]) for name, entry in found.items()}


def load(source: str, name: str, label: str):
    """Execute the source of one function and return it. Error messages show its lines."""
    file, space = f"<{label}.{name}>", {"__name__": name}
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec"), space)
    return space[name]


def tiny_model(seed: int) -> Model:
    """Config.tiny() in float64 with weights that make every part matter: gains, biases and sinks are not all alike."""
    model = Model(Config.tiny(), dtype=torch.float64)
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=draw, dtype=torch.float64)
            if parameter.dim() > 1 and not name.endswith(("q_weight", "k_weight")):
                parameter.copy_(noise * (1.5 * parameter.shape[-1] ** -0.5))
            else:
                parameter.copy_(noise * 0.3 + (0 if name.endswith(("bias", "bias_vl", "base", "sink")) else 1))
    return model


def reference_drafts(model: Model, ids: Tensor, logits: Tensor) -> Tensor:
    """What the package drafts after these tokens, [B, block]."""
    from ...cache import KVCache

    cache = KVCache(model.config, len(ids))
    model(ids, cache, path="plain")
    return model.drafter.propose(cache, logits[:, -1].argmax(-1)).tokens


class Weights:
    """The weights below a prefix: `w("wq_a", x)` multiplies x by `prefix.wq_a.weight`."""

    def __init__(self, tensors: dict[str, Tensor], prefix: str = ""):
        self.tensors, self.prefix = tensors, prefix

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[self.prefix + name]

    def __call__(self, name: str, x: Tensor) -> Tensor:
        return x @ self[name + ".weight"].mT

    def at(self, name: str) -> Weights:
        return Weights(self.tensors, f"{self.prefix}{name}.")


class Composition:
    """All functions of the lab under their names, in `f`, and the path through them."""

    def __init__(self, functions: dict[str, object]):
        self.f = SimpleNamespace(**functions)

    @torch.no_grad()
    def logits(self, model: Model, ids: Tensor, schedule: str = "exact") -> tuple[Tensor, list[Tensor]]:
        """Logits [B, T, V] and what the drafter reads.  ids [B, T]. A bounded schedule gives those of the last window."""
        c, f, w = model.config, self.f, Weights(model.state_dict())
        batch, tokens = ids.shape
        streams = f.to_streams(f.embed(w["embed.weight"], ids), c.hc_mult)             # [B, T, S, D]
        mix = f.first_mix(batch, tokens, c.hc_mult).to(streams.dtype)                  # [B, T, S]
        ratios = list(c.compress_ratios[: c.num_hidden_layers])
        roles = f.layer_roles(ratios, list(c.kv_source_layer_ids), list(c.index_source_layer_ids))
        run = SimpleNamespace(c=c, roles=roles, early=None, blocks=None, positions=torch.arange(tokens).expand(batch, -1))
        steps = f.look_back(model.token_map[ids], c.engram_max_ngram_size, int(model.token_map[c.engram_pad_token_id]))
        decoder, features = f.first_decoder_layer(ratios), []
        for layer in range(c.num_hidden_layers):
            own = w.at(f"layers.{layer}")
            if layer in c.engram_layer_ids:
                streams = self.remember(own.at("engram"), c, layer, streams, steps[:, -streams.shape[1] :])
            if layer == decoder:
                run.early = self.norm(c, own, "attn_norm", f.collapse(streams, mix))    # its rows come from every token
                kept = f.kept_tokens(tokens, c.sliding_window, schedule)
                streams, mix = f.enter_decoder(streams, mix, kept)
                run.positions = run.positions[:, tokens - kept :]
            if layer in c.dspark_target_layer_ids:
                features.append(streams.mean(2))
            streams, mix = self.block(own, run, layer, streams, mix, self.attention)
        return w("head", self.norm(c, w, "norm", f.collapse(streams, mix))), features

    def norm(self, c: Config, w: Weights, name: str, x: Tensor) -> Tensor:
        return self.f.rms_norm(x, w[name + ".weight"], c.rms_norm_eps)

    def remember(self, w: Weights, c: Config, layer: int, streams: Tensor, steps: Tensor) -> Tensor:
        """Engram: fetch, gate, add."""
        primes = torch.tensor(c.engram_primes[c.engram_layer_ids.index(layer)])
        rows = self.f.bucket_ids(steps, multipliers(c, layer), primes, self.f.table_offsets(primes))
        width, dim = streams.shape[-2:]
        keys, value = w("wkv", w["embed.weight"][rows].flatten(-2)).split([width * dim, dim], dim=-1)
        gate = self.f.engram_gate(streams, keys.unflatten(-1, (width, dim)), w["q_weight"], w["k_weight"], c.rms_norm_eps)
        return self.f.engram_add(streams, value, gate, torch.ones(streams.shape[:2], dtype=torch.bool))

    def block(self, w: Weights, run, layer: int, streams: Tensor, mix: Tensor, attention) -> tuple[Tensor, Tensor]:
        """Two sites: attention and experts, each with its own coefficients, each reading with the mix of the one before."""
        c, f = run.c, self.f
        for site in ("attn", "ffn"):
            parameters = (w[f"hc_{site}_{name}"] for name in ("fn", "base", "scale"))
            following, out, logits = f.site_coefficients(streams, *parameters, c.rms_norm_eps, c.hc_eps)
            x = self.norm(c, w, f"{site}_norm", f.collapse(streams, mix))
            y = attention(w.at("attn"), run, layer, x) if site == "attn" else self.experts(w.at("ffn"), c, layer, x)
            streams = f.write_back(streams, y, out, f.sinkhorn(logits, c.hc_sinkhorn_iters, c.hc_eps))
            mix = following
        return streams, mix

    def experts(self, w: Weights, c: Config, layer: int, x: Tensor) -> Tensor:
        """Routed experts and the shared one."""
        flat, number, count = x.flatten(0, 1), c.n_routed_experts, c.num_experts_per_tok
        if layer >= c.num_hidden_layers:
            number, count = c.dspark_n_routed_experts, c.dspark_num_experts_per_tok
        matrices = [tuple(w[f"experts.{i}.w{k}.weight"] for k in (1, 2, 3)) for i in range(number)]
        chosen, weights = self.f.route(flat, w["gate.weight"], w["gate.bias"], count, c.routed_scaling_factor)
        shared = self.f.swiglu(flat, *(w[f"shared_experts.w{k}.weight"] for k in (1, 2, 3)), c.swiglu_limit)
        return (self.f.mix_experts(flat, chosen, weights, matrices, c.swiglu_limit) + shared).view(x.shape)

    def attention(self, w: Weights, run, layer: int, x: Tensor) -> Tensor:
        """A layer of the model: its window, and the rows that it owns or borrows."""
        f, c, tokens = self.f, run.c, x.shape[1]
        q, low, turn = self.queries(w, c, layer, x, run.positions)
        keys = E4M3_E8M0.roundtrip(f.apply_rope(self.norm(c, w, "kv_norm", w("wkv", x)), run.positions, turn))
        seen = f.window_mask(tokens, c.sliding_window).expand(len(x), -1, -1)           # [B, T, T]
        if run.roles[layer] == "full":
            self.write_rows(w, run, layer, x if run.early is None else run.early, turn)
        if run.roles[layer] in ("full", "reindex"):
            self.choose(w.at("indexer"), run, layer, x, low, turn)
        if run.roles[layer] != "window":
            keys = torch.cat([keys, run.rows], dim=1)                                  # [B, T + N, C]
            seen = torch.cat([seen, f.chosen_mask(run.chosen, run.rows.shape[1])], dim=-1)
        return self.answer(w, c, q, keys, seen, run.positions, turn)

    def queries(self, w: Weights, c: Config, layer: int, x: Tensor, positions: Tensor):
        low, turn = self.norm(c, w, "q_norm", w("wq_a", x)), layer_frequencies(c, layer).to(x.dtype)
        q = w("wq_b", low).unflatten(-1, (c.num_attention_heads, c.head_dim))           # [B, T, H, C]
        return self.f.apply_rope(q, positions, turn), low, turn

    def answer(self, w: Weights, c: Config, q, keys, seen, positions, turn) -> Tensor:
        core = self.f.turn_back(self.f.attend(q, keys, seen, w["attn_sink"]), positions, turn)
        return self.f.grouped_output(core, w["wo_a.weight"], w["wo_b.weight"], c.o_groups)

    def write_rows(self, w: Weights, run, layer: int, x: Tensor, turn: Tensor) -> None:
        """Compressed rows and index keys of a source layer, for the layers that follow."""
        f, c, ratio = self.f, run.c, run.c.compress_ratios[layer]
        kv = w("compressor.wkv", x)                                                    # [B, T, C]
        kv = kv if ratio == 1 else f.pool_pairs(kv, w("compressor.wgate", x))          # [B, N, C]
        latent = self.norm(c, w, "compressor.norm", kv)
        at = f.row_positions(latent.shape[1], ratio).expand(len(x), -1)                # [B, N]
        keys = self.norm(c, w, "indexer.k_norm", w("indexer.wk", latent))
        run.keys = E2M1_E8M0.roundtrip(f.apply_rope(keys, at, turn))
        rows = f.apply_rope(latent, at, turn).float()
        scales = f.group_scales(rows, 16)
        codes = f.nearest_codes(rows / scales.float().repeat_interleave(16, dim=-1))
        run.rows = f.unpack_row(f.pack_codes(codes), scales).to(x.dtype)

    def choose(self, w: Weights, run, layer: int, x: Tensor, low: Tensor, turn: Tensor) -> None:
        """The rows of every token, and at their source the blocks that later layers choose inside."""
        f, c = self.f, run.c
        queries = w("wq_b", low).unflatten(-1, (c.index_n_heads, c.index_head_dim))
        queries = E2M1_E8M0.roundtrip(f.apply_rope(queries, run.positions, turn))
        weights = w("weights_proj", x) * c.index_head_dim**-0.5 * c.index_n_heads**-0.5
        visible = f.visible_rows(run.positions, c.compress_ratios[layer])
        scores = f.hide_rows(f.index_scores(queries, weights, run.keys), visible)
        if run.blocks is not None:
            scores = f.inside_blocks(scores, run.blocks, c.candidate_block_size)
        run.chosen = f.top_rows(scores, c.index_topk)
        if layer == c.candidate_source_layer_id:
            run.blocks = f.candidate_blocks(scores, visible, c.candidate_block_size, c.candidate_topk_blocks)

    @torch.no_grad()
    def draft(self, model: Model, ids: Tensor, anchor: Tensor, features: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Drafts [B, block] after the anchor [B], their logits [B, block, V] and confidences [B, block]."""
        c, f, w = model.config, self.f, Weights(model.state_dict())
        block = torch.full((len(ids), c.dspark_block_size), c.dspark_noise_token_id)
        block[:, 0] = anchor
        first, last = w.at("mtp.0"), w.at(f"mtp.{c.num_nextn_predict_layers - 1}")
        main = self.norm(c, first, "main_norm", first("main_proj", torch.cat(features, dim=-1)))[:, -c.sliding_window :]
        run = SimpleNamespace(c=c, main=main, before=torch.arange(ids.shape[1])[-c.sliding_window :].expand(len(ids), -1),
                              positions=ids.shape[1] + torch.arange(block.shape[1]).expand(len(ids), -1))  # fmt: skip
        streams = f.to_streams(f.embed(w["embed.weight"], block), c.hc_mult)
        mix = f.first_mix(*block.shape, c.hc_mult).to(streams.dtype)
        for index in range(c.num_nextn_predict_layers):
            streams, mix = self.block(w.at(f"mtp.{index}"), run, c.num_hidden_layers + index, streams, mix, self.draft_attention)
        hidden = f.collapse(streams, mix)                                              # [B, block, D]
        logits, token, found = w("head", self.norm(c, last, "norm", hidden)), anchor, []
        for step in range(block.shape[1]):
            table, head = last["markov_head.embed.weight"], last["markov_head.head.weight"]
            sure = f.confidence(hidden[:, step], table[token], last["confidence_head.proj.weight"])
            drafted = f.markov_logits(logits[:, step], token, table, head)
            token = drafted.argmax(-1)
            found.append((token, drafted, sure))
        return tuple(torch.stack(parts, dim=1) for parts in zip(*found, strict=True))

    def draft_attention(self, w: Weights, run, layer: int, x: Tensor) -> Tensor:
        """A draft block: the window of the drafter's own context and every draft, none hidden from another."""
        c, (q, _, turn) = run.c, self.queries(w, run.c, layer, x, run.positions)
        rows = [self.f.apply_rope(self.norm(c, w, "kv_norm", w("wkv", part)), at, turn)
                for part, at in ((run.main, run.before), (x, run.positions))]  # fmt: skip
        keys = E4M3_E8M0.roundtrip(torch.cat(rows, dim=1))                             # [B, W + block, C]
        seen = torch.ones(len(x), x.shape[1], keys.shape[1], dtype=torch.bool)
        return self.answer(w, c, q, keys, seen, run.positions, turn)

    def bytes_per_token(self, c: Config) -> int:
        return self.f.bytes_per_token(c.head_dim, c.index_head_dim, [c.compress_ratios[layer] for layer in c.kv_source_layer_ids])
