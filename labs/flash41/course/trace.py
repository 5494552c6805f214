"""One run of a model, recorded: a passage goes in, one token comes out, drafts follow. Nothing on the map is invented.

    trace(model, text)        what each of the ten blocks did: shapes, a few values, bytes written and read, experts, chosen rows
    visibility(model, text)   which rows each selecting layer chose for each token, and from which candidates

    python -m flash41.course.trace --write      from the trained apprentice and PASSAGE, into course/data/
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass

import torch
from torch import Tensor

from .. import ced
from ..cache import KVCache
from ..dspark import Draft, verify
from ..formats import E4M3_E8M0
from ..indexer import NONE
from ..model import Model
from ..tokenizer import Tokenizer
from .records import FOLDER
from .traffic import total_bytes

PASSAGE = """BANQUO.
Good sir, why do you start; and seem to fear
Things that do sound so fair? I' the name of truth,
Are ye fantastical, or that indeed
Which outwardly ye show? My noble partner
You greet with present grace and great prediction
Of noble having and of royal hope,
That he seems rapt withal: to me you speak not.
If you can look into the seeds of time,
And say which grain will grow and which will not,
Speak then to me, who neither beg nor fear
Your favours nor your hate."""  # of the validation text: the apprentice has not seen it


@dataclass
class Run:
    """A prompt, the token after it, and the drafts after that. notes: intermediates; held: used bytes by kind of state."""

    model: Model
    words: Tokenizer
    ids: Tensor
    logits: Tensor
    notes: dict
    held: dict
    cache: KVCache
    token: int
    draft: Draft
    kept: int

    def last(self, name: str) -> Tensor:
        """The noted value of the prompt's last token."""
        return self.notes[name][0][0, -1]


@torch.no_grad()
def run(model: Model, text: str, words: Tokenizer | None = None) -> Run:
    """Prefill, the most likely next token, drafts after it, their verification in one more pass.

    Raises ValueError for a text without two tokens."""
    words, notes, held = words or Tokenizer.load(), {}, {}
    ids = torch.tensor([words.encode(text)])                           # [1, T]
    if ids.numel() < 2:
        raise ValueError(f"text = {text!r}, must be at least two tokens")
    cache = KVCache(model.config)
    logits = model(ids, cache, notes=notes)                            # [1, T, V]
    for part in cache.report():
        held[part.name] = held.get(part.name, 0) + part.used
    token = logits[:, -1].argmax(-1)                                   # [1]
    draft = model.drafter.propose(cache, token)
    kept, _ = verify(model(torch.cat([token[:, None], draft.tokens], 1), cache), draft)
    return Run(model, words, ids, logits, notes, held, cache, int(token), draft, int(kept))


def trace(model: Model, text: str, words: Tokenizer | None = None) -> dict[str, list[dict]]:
    """Facts of one run, label of a block -> [{"what": …, "value": …}], as `show_map(trace=…)` shows them."""
    done = run(model, text, words)
    makers = {"1A": _input, "1B": _engram, "2A": _mixing, "3A": _schedule, "3B": _rows, "3C": _choice,
              "4A": _attention, "6A": _cache, "5A": _experts, "6B": _head}  # fmt: skip
    return {label: [{"what": what, "value": value} for what, value in maker(done)] for label, maker in makers.items()}


def _input(r: Run):
    yield "tokens of the passage", r.ids.shape[1]
    yield "the last four", ", ".join(f"{int(i)} {_quoted(r.words.decode([i]))}" for i in r.ids[0, -4:])
    yield "embedding of the last token", _values(r.model.embed.weight[r.ids[0, -1]])
    yield "streams", _shape(1, r.ids.shape[1], r.model.config.hc_mult, r.model.config.hidden_size)


def _engram(r: Run):
    c = r.model.config
    columns = c.engram_n_heads * (c.engram_max_ngram_size - 1)
    for layer in c.engram_layer_ids:
        yield f"layer {layer}: table rows of the last token", _list(r.last(f"engram.{layer}.hash_ids"))
        yield f"layer {layer}: its gates, one per stream", _values(r.last(f"engram.{layer}.gate"))
    yield "bytes fetched per token", len(c.engram_layer_ids) * columns * E4M3_E8M0.row_bytes(c.engram_head_dim)


def _mixing(r: Run):
    middle = r.model.config.num_hidden_layers // 2
    mix = r.last(f"hc.{middle}.attn.comb")                             # [S, S]
    yield f"layer {middle}: collapse weights A of the last token", _values(r.last(f"hc.{middle}.attn.pre"))
    yield "write-back weights C", _values(r.last(f"hc.{middle}.attn.post"))
    yield "first row of the mixing matrix B", _values(mix[0])
    yield "column sums of B", _values(mix.sum(0))


def _schedule(r: Run):
    c, tokens = r.model.config, r.ids.shape[1]
    yield "encoder layers run on", f"{tokens} tokens"
    yield "decoder layers need", f"the last {ced.replay_tokens(c, tokens, 'bounded')}"
    yield "token-layers", f"{ced.token_layers(c, tokens, 'bounded'):,} instead of {ced.token_layers(c, tokens, 'exact'):,}"
    bounded = int(r.model(r.ids, schedule="bounded")[0, -1].argmax())
    yield "next token, exact and bounded", f"{_quoted(r.words.decode([r.token]))} and {_quoted(r.words.decode([bounded]))}"


def _rows(r: Run):
    for layer, store in r.cache.rows.items():
        ratio = r.model.config.compress_ratios[layer]
        rows = r.notes[f"compressor.{layer}.latent"][0]                # [1, N, C]
        yield f"layer {layer}, ratio {ratio}: rows of {r.ids.shape[1]} tokens", f"{rows.shape[1]} of {store.row_bytes} B"
        yield "the newest of them, before rounding", _values(rows[0, -1])
    yield "layers that borrow these rows", r.model.config.roles.count("reuse") + r.model.config.roles.count("reindex")


def _choice(r: Run):
    c = r.model.config
    for layer in c.index_source_layer_ids:
        chosen = _chosen(r.last(f"index.{layer}.topk"))
        seen = r.ids.shape[1] // c.compress_ratios[layer]
        yield f"layer {layer}: the last token chose {len(chosen)} of {seen} rows", _runs(chosen)
    groups = _chosen(r.last("candidates"))
    yield f"candidate groups of {c.candidate_block_size} rows", _runs(groups)
    yield "index keys read in one step", f"{total_bytes(c, 'decode', r.ids.shape[1] + 1)['reads']['keys']:,} B"


def _attention(r: Run):
    c, layer = r.model.config, r.model.config.num_hidden_layers - 1
    window, rows = min(r.ids.shape[1], c.sliding_window), len(_chosen(r.last(f"index.{c.index_source(layer)}.topk")))
    core = r.notes[f"attn.{layer}.core"][0]                            # [1, T, H, C]
    yield f"layer {layer}: keys that the last token reads", f"{window} + {rows} = {window + rows}"
    yield "output of all heads", _shape(*core.shape)
    yield "head 0 of the last token", _values(core[0, -1, 0])
    yield "sinks of the heads", _values(r.model.layers[layer].attn.attn_sink)


def _cache(r: Run):
    held, tokens = r.held, r.ids.shape[1]
    sums = total_bytes(r.model.config, "decode", tokens + 1, drafter=True)
    kept = held["rows"] + held["index keys"]
    yield "bytes written for the context", f"{held['rows']:,} + {held['index keys']:,} = {kept:,}"
    yield "per token", f"{kept / tokens:g} B"
    yield "window rings", f"{held['window'] + held['draft']:,} B"
    yield "read in the next decode step", f"{sum(sums['reads'].values()):,} B"
    yield "written in it", f"{sum(sums['writes'].values()):,} B"


def _experts(r: Run):
    for layer in range(r.model.config.num_hidden_layers):
        chosen, weights = r.last(f"moe.{layer}.indices"), r.last(f"moe.{layer}.weights")
        mix = (f"{int(expert)} × {weight:.2f}" for expert, weight in zip(chosen, weights, strict=True))
        yield f"layer {layer}: experts of the last token", ", ".join(mix)


def _head(r: Run):
    chance, ids = r.logits[0, -1].softmax(-1).topk(3)
    best = (f"{_quoted(r.words.decode([i]))} {p:.3f}" for p, i in zip(chance.tolist(), ids.tolist(), strict=True))
    yield "most likely next tokens", ", ".join(best)
    yield "drafts after the first of them", ", ".join(_quoted(r.words.decode([i])) for i in r.draft.tokens[0])
    yield "confidence, before the sigmoid", _values(r.draft.confidence[0], 5)
    yield "drafts that the model confirms", f"{r.kept} of {r.draft.tokens.shape[1]}"


def visibility(model: Model, text: str, words: Tokenizer | None = None) -> dict:
    """Tokens of a text, and as hexadecimal masks (bit j = row or group j) what each selecting layer chose for each of them."""
    done, c = run(model, text, words), model.config
    chosen = {layer: done.notes[f"index.{layer}.topk"][0][0] for layer in c.index_source_layer_ids}  # [T, K] each
    return {
        "window": c.sliding_window, "topk": c.index_topk, "group": c.candidate_block_size, "groups": c.candidate_topk_blocks,
        "candidateSource": c.candidate_source_layer_id,
        "layers": [{"role": role, "ratio": c.compress_ratios[i], "rows": c.kv_source(i), "choice": c.index_source(i)}
                   for i, role in enumerate(c.roles)],
        "tokens": [done.words.decode([i]) for i in done.ids[0]],
        "chosen": {str(layer): [_mask(rows) for rows in each] for layer, each in chosen.items()},
        "candidates": [_mask(groups) for groups in done.notes["candidates"][0][0]],
    }  # fmt: skip


def _mask(places: Tensor) -> str:
    return f"{sum(1 << place for place in _chosen(places)):x}"


def _chosen(places: Tensor) -> list[int]:
    return [int(place) for place in places if place != NONE]


def _list(values) -> str:
    return ", ".join(str(int(value)) for value in values)


def _runs(places: list[int]) -> str:
    """Ascending places with neighbours drawn together: 0–3, 7."""
    starts = [place for place in places if place - 1 not in places]
    ends = [place for place in places if place + 1 not in places]
    return ", ".join(f"{a}" if a == b else f"{a}–{b}" for a, b in zip(starts, ends, strict=True)) or "none"


def _values(values: Tensor, count: int = 4) -> str:
    shown = ", ".join(f"{value:.3f}" for value in values[:count].tolist())
    return shown + (f", … ({len(values)})" if len(values) > count else "")


def _shape(*sizes: int) -> str:
    return " × ".join(map(str, sizes))


def _quoted(text: str) -> str:
    return "“" + text.replace("\n", "⏎") + "”"


def write(model: Model, text: str = PASSAGE) -> None:
    """Write both records into course/data/, one line each."""
    FOLDER.mkdir(exist_ok=True)
    for name, record in (("trace", trace(model, text)), ("visibility", visibility(model, text))):
        line = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
        (FOLDER / f"{name}.json").write_text(line + "\n", encoding="utf-8")


def main() -> None:
    """Print the trace of the apprentice, or write both records."""
    parser = argparse.ArgumentParser(description="What the trained apprentice does with one passage, block by block.")
    parser.add_argument("--write", action="store_true", help="write the records that the pages show")
    writes, model = parser.parse_args().write, Model.pretrained("apprentice")
    if writes:
        return write(model)
    for label, facts in trace(model, PASSAGE).items():
        print(label, *(f"    {fact['what']}: {fact['value']}" for fact in facts), sep="\n")


if __name__ == "__main__":
    main()
