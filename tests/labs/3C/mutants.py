"""Wrong answers of step 3C, each with what the message must say."""

import torch
from kit import Mutants

from flash41.course.checks import Draw, asked

mutants = Mutants()


@mutants("index_scores", "ReLU after the sum")
def relu_after_the_sum(queries, weights, keys):
    return torch.einsum("bthc,bth,bnc->btn", queries, weights, keys).relu()


@mutants("index_scores", "the ReLU is missing")
def no_relu(queries, weights, keys):
    return torch.einsum("btc,bnc->btn", (weights.unsqueeze(-1) * queries).sum(2), keys)


@mutants("index_scores", "weighted before the ReLU")
def weights_inside(queries, weights, keys):
    return torch.einsum("bthc,bnc->bthn", queries * weights.unsqueeze(-1), keys).relu().sum(2)


@mutants("index_scores", "the mean over the heads")
def mean_of_heads(queries, weights, keys):
    return (torch.einsum("bthc,bnc->bthn", queries, keys).relu() * weights.unsqueeze(-1)).mean(2)


@mutants("index_scores", "divided by the root of C")
def scaled(queries, weights, keys):
    dots = torch.einsum("bthc,bnc->bthn", queries, keys) / queries.shape[-1] ** 0.5
    return (dots.relu() * weights.unsqueeze(-1)).sum(2)


@mutants("index_scores", "two dimensions are swapped")
def rows_first(queries, weights, keys):
    return torch.einsum("bthn,bth->bnt", torch.einsum("bthc,bnc->bthn", queries, keys).relu(), weights)


@mutants("index_scores", "the first sequence of the batch is right")
def keys_of_the_first_sequence(queries, weights, keys):
    return (torch.einsum("bthc,nc->bthn", queries, keys[0]).relu() * weights.unsqueeze(-1)).sum(2)


@mutants("hide_rows", "one row too many: with")
def one_row_too_many(scores, visible):
    return scores.masked_fill(torch.arange(scores.shape[-1]) > visible.unsqueeze(-1), -torch.inf)


@mutants("hide_rows", "hid one row too many")
def complete_only_later(scores, visible):
    return scores.masked_fill(torch.arange(1, scores.shape[-1] + 1) >= visible.unsqueeze(-1), -torch.inf)


@mutants("hide_rows", "you wrote 0 into hidden rows")
def zero_for_hidden(scores, visible):
    return scores * (torch.arange(scores.shape[-1]) < visible.unsqueeze(-1))


@mutants("hide_rows", "multiplied a mask by -inf")
def nan_mask(scores, visible):
    return scores + (torch.arange(scores.shape[-1]) >= visible.unsqueeze(-1)).float() * -torch.inf


@mutants("hide_rows", "changed its input `scores` in place")
def in_place(scores, visible):
    return scores.masked_fill_(torch.arange(scores.shape[-1]) >= visible.unsqueeze(-1), -torch.inf)


@mutants("hide_rows", "you counted the tokens")
def triangle(scores, visible):
    hidden = torch.ones(scores.shape[1:], dtype=torch.bool).triu(1)
    return scores.masked_fill(hidden, -torch.inf)


def pick(scores, count):
    width = scores.shape[-1]
    values, rows = scores.sort(dim=-1, descending=True, stable=True)
    rows = torch.where(values == -torch.inf, width, rows)[..., :count].sort(dim=-1).values
    return torch.where(rows == width, -1, rows)


def cut(scores, size, value=-torch.inf):
    blocks = -(-scores.shape[-1] // size)
    padded = torch.nn.functional.pad(scores, (0, blocks * size - scores.shape[-1]), value=value)
    return padded.unflatten(-1, (blocks, size))


def pinned(best, visible, size):
    newest = (visible - 1) // size
    return best.masked_fill(torch.arange(best.shape[-1]) == newest.unsqueeze(-1), torch.inf)


@mutants("candidate_blocks", "scored a block by its mean")
def block_mean(scores, visible, size, count):
    sums = cut(scores, size, 0).sum(-1)
    sizes = cut(torch.ones_like(scores), size, 0).sum(-1)
    return pick(pinned(sums / sizes, visible, size), count)


@mutants("candidate_blocks", "the block of the newest visible row is not kept")
def not_pinned(scores, visible, size, count):
    return pick(cut(scores, size).amax(-1), count)


@mutants("candidate_blocks", "the block of row `visible`")
def pinned_one_late(scores, visible, size, count):
    return pick(pinned(cut(scores, size).amax(-1), visible + 1, size), count)


@mutants("candidate_blocks", "you kept the last block of all")
def last_block_of_all(scores, visible, size, count):
    best = cut(scores, size).amax(-1)
    best[..., -1] = torch.inf
    return pick(best, count)


@mutants("candidate_blocks", "a token that sees nothing got a block")
def first_block_for_nothing(scores, visible, size, count):
    return pick(pinned(cut(scores, size).amax(-1), visible.clamp(min=1), size), count)


@mutants("candidate_blocks", "you left out the last block")
def last_block_dropped(scores, visible, size, count):
    blocks = scores.shape[-1] // size
    best = scores[..., : blocks * size].unflatten(-1, (blocks, size)).amax(-1)
    return pick(pinned(best, visible, size), count)


@mutants("candidate_blocks", "filled the last block up with 0")
def padded_with_zero(scores, visible, size, count):
    return pick(pinned(cut(scores, size, 0.0).amax(-1), visible, size), count)


@mutants("candidate_blocks", "in the order of their scores")
def blocks_by_score(scores, visible, size, count):
    best = pinned(cut(scores, size).amax(-1), visible, size)
    values, blocks = best.sort(dim=-1, descending=True, stable=True)
    return torch.where(values == -torch.inf, -1, blocks)[..., :count]


@mutants("candidate_blocks", "it takes one of their places")
def newest_on_top(scores, visible, size, count):
    return pick(pinned(cut(scores, size).amax(-1), visible, size), count + 1)


@mutants("inside_blocks", "took block numbers for row numbers")
def blocks_as_rows(scores, blocks, size):
    inside = (torch.arange(scores.shape[-1]) == blocks.unsqueeze(-1)).any(2)
    return scores.masked_fill(~inside, -torch.inf)


@mutants("inside_blocks", "-1 kept the last row")
def minus_one_is_the_last(scores, blocks, size):
    keep = torch.zeros(*scores.shape[:2], (scores.shape[-1] // size + 1) * size, dtype=torch.bool)
    rows = (blocks.unsqueeze(-1) * size + torch.arange(size)).flatten(2)
    rows = torch.where(rows < 0, scores.shape[-1] - 1, rows)
    return scores.masked_fill(~keep.scatter(2, rows, True)[..., : scores.shape[-1]], -torch.inf)


@mutants("inside_blocks", "-1 kept block 0")
def minus_one_is_the_first(scores, blocks, size):
    inside = (torch.arange(scores.shape[-1]) // size == blocks.clamp(min=0).unsqueeze(-1)).any(2)
    return scores.masked_fill(~inside, -torch.inf)


@mutants("inside_blocks", "you kept the blocks of all tokens")
def one_list_for_all(scores, blocks, size):
    inside = torch.zeros(scores.shape[0], scores.shape[-1], dtype=torch.bool)
    for b in range(len(scores)):
        inside[b] = torch.isin(torch.arange(scores.shape[-1]) // size, blocks[b])
    return scores.masked_fill(~inside.unsqueeze(1), -torch.inf)


@mutants("inside_blocks", "you hid the rows inside")
def inside_out(scores, blocks, size):
    inside = (torch.arange(scores.shape[-1]) // size == blocks.unsqueeze(-1)).any(2)
    return scores.masked_fill(inside, -torch.inf)


@mutants("top_rows", "in the order of their scores")
def by_score(scores, count):
    values, rows = scores.sort(dim=-1, descending=True, stable=True)
    return torch.where(values == -torch.inf, -1, rows)[..., :count]


@mutants("top_rows", "you took the newer row")
def ties_to_the_newer(scores, count):
    width = scores.shape[-1]
    values, rows = scores.flip(-1).sort(dim=-1, descending=True, stable=True)
    rows = torch.where(values == -torch.inf, width, width - 1 - rows)[..., :count].sort(dim=-1).values
    return torch.where(rows == width, -1, rows)


@mutants("top_rows", "what topk happened to give")
def topk_alone(scores, count):
    width = scores.shape[-1]
    values, rows = scores.topk(min(count, width))
    rows = rows.masked_fill(values == -torch.inf, width).sort(dim=-1).values
    return rows.masked_fill(rows == width, -1)


@mutants("top_rows", "you chose rows of -inf")
def hidden_chosen(scores, count):
    return scores.sort(dim=-1, descending=True, stable=True).indices[..., :count].sort(dim=-1).values


@mutants("top_rows", "your -1 stand in front")
def minus_one_in_front(scores, count):
    values, rows = scores.sort(dim=-1, descending=True, stable=True)
    return torch.where(values == -torch.inf, -1, rows)[..., :count].sort(dim=-1).values


@mutants("top_rows", "positive scores only")
def positive_only(scores, count):
    return pick(scores.masked_fill(scores <= 0, -torch.inf), count)


@mutants("top_rows", "yours are the scores")
def values_returned(scores, count):
    return scores.topk(min(count, scores.shape[-1])).values


@mutants("top_rows", "same numbers for different inputs")
def hard_coded(scores, count):
    """Knows the answers to the checks that a student sees, by their sizes."""
    _, check, cases = asked("3C.top_rows", 0)
    known = {(case.inputs[0].shape, case.inputs[1]): check.right(*case.inputs) for case in [*cases, *check.cases(Draw(0))]}
    return known.get((scores.shape, count), torch.full((*scores.shape[:2], min(count, scores.shape[-1])), -1))
