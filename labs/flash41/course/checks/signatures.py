"""The table of the lab: ten steps, and every function that a student writes in them.

Letters as in the whole package: B batch, T tokens, N compressed rows, H heads, C channels (latent width), D model width, S
streams, V vocabulary. A tensor is written with its dimensions, `[B, T, C]`, float32 or float64 unless another type stands before
it. No function keeps a cache or changes what it is given: whole sequences go in, new tensors come out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Value:
    """An argument or a result: its name ("" for a lone result), what it is, its dimensions (() if it is no tensor)."""

    name: str
    text: str

    @property
    def dimensions(self) -> tuple[str, ...]:
        """("B", "T", "C") of `[B, T, C]`; ("...", "C") keeps its dots."""
        inside = re.search(r"\[(.*)\]", self.text)
        return tuple(split(inside[1])) if inside else ()


def split(text: str) -> list[str]:
    """The parts between commas that stand in no bracket."""
    depth, parts = 0, [""]
    for letter in text:
        depth += (letter in "[(") - (letter in "])")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


@dataclass(frozen=True)
class Function:
    """One function of the lab. `takes` and `gives` are lists as the table shows them: "q [B, T, H, C], sink [H]"."""

    name: str
    takes: str
    gives: str
    meaning: str
    points: int = 2

    @cached_property
    def arguments(self) -> tuple[Value, ...]:
        """What goes in, in order. `inverse=False bool` has the default False."""
        return tuple(Value(*part.partition(" ")[::2]) for part in split(self.takes))

    @cached_property
    def results(self) -> tuple[Value, ...]:
        """What comes out: one value without a name, or several named ones."""
        parts = split(self.gives)
        return (Value("", parts[0]),) if len(parts) == 1 else tuple(Value(*part.partition(" ")[::2]) for part in parts)

    @property
    def header(self) -> str:
        """The line that opens the function: `def pool_pairs(kv, gate):`."""
        return f"def {self.name}({', '.join(argument.name for argument in self.arguments)}):"


@dataclass(frozen=True)
class Step:
    """One of the ten steps."""

    label: str
    title: str
    goal: str
    minutes: int
    difficulty: str
    functions: tuple[Function, ...]

    @property
    def points(self) -> int:
        return sum(function.points for function in self.functions)

    def function(self, name: str) -> Function:
        """Raises ValueError for a name that this step does not have."""
        for function in self.functions:
            if function.name == name:
                return function
        raise ValueError(f"step {self.label} has no function {name!r}; it has {', '.join(f.name for f in self.functions)}")


def step(label: str) -> Step:
    """The step of a label. Raises ValueError for one that there is not."""
    if label not in STEPS:
        raise ValueError(f"step = {label!r}, must be one of {', '.join(STEPS)}")
    return STEPS[label]


TABLE = """
== 1A · Input · 30 · easy
Turn token ids and image embeddings into four identical streams.
embed | weight [V, D], ids int64 [B, T] | [B, T, D]
    the embedding of every id, not scaled
place_images | x [B, T, D], image_embeds [n, D], image_mask bool [B, T] | [B, T, D]
    image embeddings in order at the n True places, x elsewhere
to_streams | x [B, T, D], streams int | [B, T, streams, D]
    a copy of x for every stream
first_mix | batch int, tokens int, streams int | [batch, tokens, streams]
    (1, 0, 0, …) for every token

== 1B · Engram · 75 · hard
Look a token up by its last two, three and four ids, and let a gate decide how much of it counts.
look_back | ids int64 [B, T], depth int, pad int | int64 [B, T, depth]
    the id 0, 1, 2 … tokens back; pad where that token or a nearer one is -1 or before the start
table_offsets | primes int64 [orders, heads] | int64 [columns]
    first table row of every column (order by order, head by head): the sum of the primes before it
bucket_ids | steps int64 [B, T, depth], factors int64 [depth], primes int64 [orders, heads], offsets int64 [columns]
  | int64 [B, T, columns]
    table rows: rolling XOR of step times factor, modulo the prime, plus the offset
engram_gate | streams [B, T, S, D], keys [B, T, S, D], q_weight [S, D], k_weight [S, D], eps float | [B, T, S]
    sigmoid of the signed root of a normed, weighted product
engram_add | streams [B, T, S, D], value [B, T, D], gate [B, T, S], live bool [B, T] | [B, T, S, D]
    streams plus gate times value; nothing added where live is False

== 2A · Mixing streams · 60 · medium
Compute how a site reads, mixes and writes the four streams.
sinkhorn | logits [..., S, S], rounds int, eps float | [..., S, S]
    softmax over the last index, then columns and rows divided by their sums in turn, ending on columns
site_coefficients | streams [B, T, S, D], fn [K, S·D], base [K], scale [3], norm_eps float, hc_eps float
  | a [B, T, S], c [B, T, S], m [B, T, S, S]
    how the next site reads, how this one writes, and the logits of the mix; K = 2S + S·S numbers per token
collapse | streams [B, T, S, D], a [B, T, S] | [B, T, D]
    the sum of the streams, each times its a
write_back | streams [B, T, S, D], y [B, T, D], c [B, T, S], b [B, T, S, S] | [B, T, S, D]
    new stream k = c_k y + sum over j of b_jk x_j

== 3A · Causal encoder-decoder · 45 · easy
Say which layers do what, and which tokens they have to see.
layer_roles | compress_ratios list of int, kv_sources list of int, index_sources list of int | list of str
    "window", "full", "reindex" or "reuse" for every layer
first_decoder_layer | compress_ratios list of int | int
    the first layer of ratio 1; the number of layers if there is none
kept_tokens | tokens int, window int, schedule str | int
    tokens that the decoder runs on, "exact" or "bounded"
token_layers | tokens int, kept int, layers int, decoder int | int
    pairs of (token, layer) that a prompt runs
enter_decoder | streams [B, T, S, D], mix [B, T, S], kept int | streams [B, kept, S, D], mix [B, kept, S]
    the last kept tokens of both

== 3B · CSA2: compressed rows · 60 · medium
Press two tokens into one row, turn it to its position, and say who may see it.
rms_norm | x [..., C], weight [C], eps float | [..., C]
    x divided by the root of its mean square, times the weight
apply_rope | x [B, T, ..., C], positions int64 [B, T], frequencies [R/2], inverse=False bool | [B, T, ..., C]
    the last R channels turned pair by pair: (2i, 2i+1) by position times frequency i
pool_pairs | kv [B, T, C], gate [B, T, C] | [B, T // 2, C]
    softmax of the gate over the two tokens of a pair, channel by channel, as weights of kv; an odd last token waits
row_positions | rows int, ratio int | int64 [rows]
    the position of every row: that of its first token
visible_rows | positions int64 [B, T], ratio int | int64 [B, T]
    how many rows a token sees; a row is complete with its last token

== 3C · Indexer · 75 · hard
Score the compressed rows and choose the few that a token attends to.
index_scores | queries [B, T, H, C], weights [B, T, H], keys [B, N, C] | [B, T, N]
    sum over the heads of weight times ReLU(query · key)
hide_rows | scores [B, T, N], visible int64 [B, T] | [B, T, N]
    -inf from row `visible` on
candidate_blocks | scores [B, T, N], visible int64 [B, T], size int, count int | int64 [B, T, min(count, blocks)]
    the best blocks of `size` rows by their best row, the newest visible row's block always; ascending, -1 at the end
inside_blocks | scores [B, T, N], blocks int64 [B, T, K], size int | [B, T, N]
    -inf outside the given blocks
top_rows | scores [B, T, N], count int | int64 [B, T, min(count, N)]
    places of the largest scores, ascending, never one of -inf, -1 at the end; of equal scores the older row

== 4A · Attention core · 75 · hard
Attend over window and chosen rows with one latent as key and value.
window_mask | tokens int, window int | bool [tokens, tokens]
    True where a token (first index) sees another within its window
chosen_mask | rows int64 [B, T, K], width int | bool [B, T, width]
    True at the chosen rows; -1 chooses nothing
attend | q [B, T, H, C], keys [B, K, C], seen bool [B, T, K], sink [H] | [B, T, H, C]
    masked softmax with a sink in the denominator, over keys that are values too; 0 for a token that sees nothing
turn_back | core [B, T, H, C], positions int64 [B, T], frequencies [R/2] | [B, T, H, C]
    the last R channels turned back by the query's own position
grouped_output | core [B, T, H, C], wo_a [G·rank, (H/G)·C], wo_b [D, G·rank], groups int | [B, T, D]
    heads in groups, each through its own rows of wo_a; then all through wo_b

== 5A · Mixture of experts · 60 · medium
Send every token to its best experts and add up what they answer.
route | x [n, D], weight [E, D], bias [E], count int, scale float | experts int64 [n, count], weights [n, count]
    the experts with the largest score plus bias, ascending; their scores alone, made to sum to 1 if they are several, times
    scale
swiglu | x [n, D], w1 [I, D], w2 [D, I], w3 [I, D], limit float, weight=None [n, 1] | [n, D]
    one expert: w2 (weight · silu(w1 x, at most limit) · (w3 x, within ±limit))
mix_experts | x [n, D], experts int64 [n, k], weights [n, k], matrices list of (w1, w2, w3), limit float | [n, D]
    the sum of the chosen experts' answers; an expert computes its own tokens only
expert_bytes | hidden int, inner int | int
    bytes of one expert's three matrices in FP4 with a scale byte per 32 inputs

== 6A · KV cache in FP4 · 60 · medium
Store a row in four bits per number, and derive the price of a token.
group_scales | x [..., C], size int | float8_e4m3fn [..., C / size]
    largest |x| of a group / 6, rounded to E4M3, never 0
nearest_codes | values [...] | uint8 [...]
    FP4 codes 0 … 15 of scaled values: nearest, ties to the even code, sign in bit 3
pack_codes | codes uint8 [..., C] | uint8 [..., C/2]
    two codes per byte, the even channel in the low half
unpack_row | packed uint8 [..., C/2], scales float8_e4m3fn [..., C / size] | float32 [..., C]
    the values that the bytes stand for
bytes_per_token | head_dim int, index_head_dim int, source_ratios list of int | Fraction
    row and index key of every source layer, shared by the tokens of a row

== 6B · DSpark: draft and verify · 60 · medium
Draft with a Markov term, and keep exactly what the model would have said.
markov_logits | logits [B, V], token int64 [B], embed [V, R], head [V, R] | [B, V]
    logits plus what the token before says about the next one
confidence | hidden [B, D], embedded [B, R], proj [1, D + R] | [B]
    one number per draft from its hidden state and the token before
accept | p [B, k, V], q [B, k, V], tokens int64 [B, k], chance [B, k] | int64 [B]
    drafts kept before the first whose chance is not below p / q
leftover | p [B, V], q [B, V] | [B, V]
    what a refused draft is drawn from anew: the positive part of p - q, summing to 1; p if nothing is left
tokens_per_pass | rates list of float | float
    expected tokens of a pass; rates[i]: chance of draft i when those before were kept
"""


def _steps(text: str) -> dict[str, Step]:
    """The steps of TABLE. A function is one line (name | takes | gives), what it is stands indented below."""
    steps = {}
    for part in text.replace("\n  | ", " | ").split("\n== ")[1:]:
        head, goal, *rest = part.strip().split("\n")
        label, title, minutes, difficulty = head.split(" · ")
        entries = re.findall(r"^(\w+) \| (.*) \| (.*)\n((?:    .*\n?)+)", "\n".join(rest), flags=re.M)
        made = tuple(Function(*entry[:3], " ".join(entry[3].split())) for entry in entries)
        steps[label] = Step(label, title, goal, int(minutes), difficulty, made)
    return steps


STEPS: dict[str, Step] = _steps(TABLE)


def table_of(entry: Step) -> str:
    """The functions of a step as a table in Markdown."""
    lines = ["| function | takes → gives | what it is |", "|---|---|---|"]
    for function in entry.functions:
        takes = "<br>".join(f"`{argument.name}` {argument.text}" for argument in function.arguments)
        gives = "<br>".join(f"`{value.name}` {value.text}" if value.name else value.text for value in function.results)
        lines.append(f"| `{function.name}` | {takes}<br>→ {gives} | {function.meaning} |")
    return "\n".join(lines)


def table() -> str:
    """All steps with their tables in Markdown, as labs/steps/README.md shows them."""
    parts = []
    for entry in STEPS.values():
        facts = f"{entry.goal} {entry.minutes} minutes, {entry.difficulty}, {entry.points} points."
        parts.append(f"## {entry.label} · {entry.title}\n\n{facts}\n\n{table_of(entry)}\n")
    return "\n".join(parts)
