"""Wrong answers of step 4A, each with what the message must say."""

import torch
from kit import Mutants

from flash41.course.checks import Draw, asked

mutants = Mutants()


def distance(tokens):
    at = torch.arange(tokens)
    return at.unsqueeze(1) - at


@mutants("window_mask", "one token too many")
def one_too_many(tokens, window):
    return (distance(tokens) >= 0) & (distance(tokens) <= window)


@mutants("window_mask", "a token does not see itself")
def without_itself(tokens, window):
    return (distance(tokens) > 0) & (distance(tokens) <= window)


@mutants("window_mask", "ends before the token itself")
def ends_before_itself(tokens, window):
    return (distance(tokens) > 0) & (distance(tokens) < window)


@mutants("window_mask", "your mask is transposed")
def transposed(tokens, window):
    return ((distance(tokens) >= 0) & (distance(tokens) < window)).mT


@mutants("window_mask", "looks both ways")
def both_ways(tokens, window):
    return distance(tokens).abs() < window


@mutants("window_mask", "has no window")
def causal_only(tokens, window):
    return torch.ones(tokens, tokens, dtype=torch.bool).tril()


@mutants("window_mask", "pieces of `window`")
def pieces(tokens, window):
    piece = torch.arange(tokens) // window
    return (distance(tokens) >= 0) & (piece.unsqueeze(1) == piece)


@mutants("chosen_mask", "-1 chose the last row")
def minus_one_is_the_last(rows, width):
    mask = torch.zeros(*rows.shape[:2], width, dtype=torch.bool)
    for b in range(rows.shape[0]):
        for t in range(rows.shape[1]):
            mask[b, t, rows[b, t]] = True
    return mask


@mutants("chosen_mask", "-1 chose row 0")
def minus_one_is_the_first(rows, width):
    return torch.zeros(*rows.shape[:2], width, dtype=torch.bool).scatter(-1, rows.clamp(min=0), True)


@mutants("chosen_mask", "every token has its own list")
def one_list_for_all(rows, width):
    return (rows.flatten(1).unsqueeze(-1) == torch.arange(width)).any(1, keepdim=True).expand(-1, rows.shape[1], -1)


@mutants("chosen_mask", "same numbers for different inputs")
def hard_coded(rows, width):
    """Knows the answers to the checks that a student sees, by their sizes."""
    _, check, cases = asked("4A.chosen_mask", 0)
    known = {(case.inputs[0].shape, case.inputs[1]): check.right(*case.inputs) for case in [*cases, *check.cases(Draw(0))]}
    return known.get((rows.shape, width), torch.zeros(*rows.shape[:2], width, dtype=torch.bool))


def scored(q, keys, seen, scale=None):
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    return (torch.einsum("bthc,bkc->bthk", q, keys) * scale).masked_fill(~seen.unsqueeze(2), -torch.inf)


def with_sink(scores, sink):
    return torch.cat([scores, sink.expand(scores.shape[:3]).unsqueeze(-1)], dim=-1).softmax(-1)


@mutants("attend", "the scale is missing")
def no_scale(q, keys, seen, sink):
    return with_sink(scored(q, keys, seen, 1.0), sink)[..., :-1] @ keys.unsqueeze(1)


@mutants("attend", "it is the root of C")
def divided_by_c(q, keys, seen, sink):
    return with_sink(scored(q, keys, seen, 1 / q.shape[-1]), sink)[..., :-1] @ keys.unsqueeze(1)


@mutants("attend", "divided the sink by the root of C")
def scaled_sink(q, keys, seen, sink):
    scores = torch.einsum("bthc,bkc->bthk", q, keys).masked_fill(~seen.unsqueeze(2), -torch.inf)
    scores = torch.cat([scores, sink.expand(scores.shape[:3]).unsqueeze(-1)], dim=-1) * q.shape[-1] ** -0.5
    return scores.softmax(-1)[..., :-1] @ keys.unsqueeze(1)


@mutants("attend", "the sink is missing")
def no_sink(q, keys, seen, sink):
    return scored(q, keys, seen).softmax(-1) @ keys.unsqueeze(1)


@mutants("attend", "the sink has no effect")
def sink_given_back(q, keys, seen, sink):
    p = with_sink(scored(q, keys, seen), sink)[..., :-1]
    return (p / p.sum(-1, keepdim=True).clamp(min=1e-30)) @ keys.unsqueeze(1)


@mutants("attend", "the sink has no effect")
def sink_added_to_scores(q, keys, seen, sink):
    return (scored(q, keys, seen) + sink.unsqueeze(-1)).softmax(-1).nan_to_num() @ keys.unsqueeze(1)


@mutants("attend", "you put the sink into the numerator")
def sink_in_the_numerator(q, keys, seen, sink):
    p = with_sink(scored(q, keys, seen), sink)
    return (p[..., :-1] + p[..., -1:]) @ keys.unsqueeze(1)


@mutants("attend", "once per key")
def sink_per_key(q, keys, seen, sink):
    s = scored(q, keys, seen)
    top = torch.maximum(s.amax(-1, keepdim=True), sink.unsqueeze(-1))
    e = (s - top).exp()
    return e / (e + (sink.unsqueeze(-1) - top).exp()).sum(-1, keepdim=True) @ keys.unsqueeze(1)


@mutants("attend", "a token that sees nothing became NaN")
def nan_for_nothing(q, keys, seen, sink):
    s = scored(q, keys, seen)
    top = s.amax(-1, keepdim=True)
    e = (s - top).exp()
    return e / (e.sum(-1, keepdim=True) + (sink.unsqueeze(-1) - top).exp()) @ keys.unsqueeze(1)


@mutants("attend", "still in the denominator")
def hidden_afterwards(q, keys, seen, sink):
    p = with_sink(scored(q, keys, torch.ones_like(seen)), sink)[..., :-1]
    return (p * seen.unsqueeze(2)) @ keys.unsqueeze(1)


@mutants("attend", "True means visible")
def mask_inverted(q, keys, seen, sink):
    return with_sink(scored(q, keys, ~seen), sink)[..., :-1] @ keys.unsqueeze(1)


@mutants("attend", "hid keys by a score of 0")
def hidden_by_zero(q, keys, seen, sink):
    scores = scored(q, keys, torch.ones_like(seen)) * seen.unsqueeze(2)
    return with_sink(scores, sink)[..., :-1] @ keys.unsqueeze(1)


@mutants("attend", "overflows")
def no_largest_taken_away(q, keys, seen, sink):
    e = scored(q, keys, seen).exp()
    return e / (e.sum(-1, keepdim=True) + sink.exp().unsqueeze(-1)) @ keys.unsqueeze(1)


@mutants("attend", "softmax goes over the heads")
def softmax_over_heads(q, keys, seen, sink):
    return scored(q, keys, seen).softmax(2) @ keys.unsqueeze(1)


@mutants("attend", "changed its input `q` in place")
def query_scaled_in_place(q, keys, seen, sink):
    q *= q.shape[-1] ** -0.5
    return with_sink(scored(q, keys, seen, 1.0), sink)[..., :-1] @ keys.unsqueeze(1)


def turned(core, angles, half=False):
    cos, sin, width = angles.cos(), angles.sin(), 2 * angles.shape[-1]
    moving = core[..., -width:]
    a, b = moving.chunk(2, dim=-1) if half else (moving[..., 0::2], moving[..., 1::2])
    parts = [a * cos - b * sin, a * sin + b * cos]
    moved = torch.cat(parts, dim=-1) if half else torch.stack(parts, dim=-1).flatten(-2)
    return torch.cat([core[..., :-width], moved], dim=-1)


@mutants("turn_back", "you turned forward")
def forward(core, positions, frequencies):
    return turned(core, (positions.unsqueeze(-1) * frequencies).unsqueeze(2))


@mutants("turn_back", "nothing is turned")
def not_turned(core, positions, frequencies):
    return core.clone()


@mutants("turn_back", "channel i with channel i + R/2")
def half_split(core, positions, frequencies):
    return turned(core, -(positions.unsqueeze(-1) * frequencies).unsqueeze(2), half=True)


@mutants("turn_back", "counted the tokens from 0")
def own_positions(core, positions, frequencies):
    return turned(core, -(torch.arange(core.shape[1]).unsqueeze(-1) * frequencies).unsqueeze(1))


@mutants("turn_back", "every head by its own number")
def head_numbers(core, positions, frequencies):
    return turned(core, -torch.arange(core.shape[2]).unsqueeze(-1) * frequencies)


@mutants("turn_back", "the first R channels")
def first_channels(core, positions, frequencies):
    width = 2 * len(frequencies)
    back = turned(core[..., :width], -(positions.unsqueeze(-1) * frequencies).unsqueeze(2))
    return torch.cat([back, core[..., width:]], dim=-1)


def pressed(heads, wo_a, groups):
    return torch.einsum("btgi,gri->btgr", heads, wo_a.unflatten(0, (groups, -1)))


@mutants("grouped_output", "dealt the heads out in turn")
def interleaved_heads(core, wo_a, wo_b, groups):
    heads = core.unflatten(2, (-1, groups)).transpose(2, 3).flatten(3)
    return pressed(heads, wo_a, groups).flatten(2) @ wo_b.mT


@mutants("grouped_output", "wo_a is not grouped")
def wo_a_not_grouped(core, wo_a, wo_b, groups):
    heads = core.flatten(2).unflatten(-1, (groups, -1))
    return torch.einsum("btgi,ri->btr", heads, wo_a) @ wo_b.mT


@mutants("grouped_output", "dealt the rows of wo_a out in turn")
def interleaved_rows(core, wo_a, wo_b, groups):
    heads = core.flatten(2).unflatten(-1, (groups, -1))
    low = torch.einsum("btgi,rgi->btgr", heads, wo_a.unflatten(0, (-1, groups)))
    return low.flatten(2) @ wo_b.mT


@mutants("grouped_output", "groups' answers are interleaved")
def interleaved_answers(core, wo_a, wo_b, groups):
    heads = core.flatten(2).unflatten(-1, (groups, -1))
    return pressed(heads, wo_a, groups).transpose(2, 3).flatten(2) @ wo_b.mT


@mutants("grouped_output", "channels before heads")
def channels_first(core, wo_a, wo_b, groups):
    heads = core.transpose(2, 3).flatten(2).unflatten(-1, (groups, -1))
    return pressed(heads, wo_a, groups).flatten(2) @ wo_b.mT


@mutants("grouped_output", "wo_b is missing")
def low_returned(core, wo_a, wo_b, groups):
    heads = core.flatten(2).unflatten(-1, (groups, -1))
    return pressed(heads, wo_a, groups).flatten(2)
