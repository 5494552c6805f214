"""Right answers without a loop, by other operations than the master's: products of matrices, additions of -inf, ranks."""

import torch


def index_scores(queries, weights, keys):
    dots = torch.clamp_min(queries.transpose(1, 2) @ keys.mT.unsqueeze(1), 0)            # [B, H, T, N]
    return torch.einsum("bhtn,bth->btn", dots, weights)


def hide_rows(scores, visible):
    shown = torch.arange(scores.shape[-1]).lt(visible[..., None])
    return torch.where(shown, scores, torch.tensor(-torch.inf, dtype=scores.dtype))


def inside_blocks(scores, blocks, size):
    count = -(-scores.shape[-1] // size)
    chosen = torch.zeros(*blocks.shape[:2], count + 1, dtype=torch.bool).scatter(2, blocks % (count + 1), True)
    rows = chosen[..., :count].repeat_interleave(size, dim=2)[..., : scores.shape[-1]]
    return scores + torch.zeros_like(scores).masked_fill(~rows, -torch.inf)


def top_rows(scores, count):
    """A row is chosen if fewer than `count` rows are better, or as good and older."""
    rows = scores.shape[-1]
    at = torch.arange(rows)
    mine, other = scores[..., :, None], scores[..., None, :]                            # [B, T, N, 1], [B, T, 1, N]
    ahead = (other > mine) | ((other == mine) & (at < at[:, None]))
    chosen = (ahead.sum(-1) < count) & scores.gt(-torch.inf)                            # [B, T, N]
    places = torch.where(chosen, at, rows).sort(-1).values[..., : min(count, rows)]
    return places.where(places < rows, -torch.ones((), dtype=torch.int64))


def candidate_blocks(scores, visible, size, count):
    rows = scores.shape[-1]
    blocks = (rows + size - 1) // size
    at = torch.arange(rows).div(size, rounding_mode="floor").expand_as(scores)
    best = torch.full((*scores.shape[:2], blocks), -torch.inf, dtype=scores.dtype)
    best = best.scatter_reduce(2, at, scores, "amax")                                   # [B, T, blocks]
    forced = torch.zeros(*visible.shape, blocks + 1, dtype=scores.dtype)
    slot = torch.where(visible > 0, (visible - 1).div(size, rounding_mode="floor"), blocks)
    forced = forced.scatter(2, slot[..., None], torch.inf)[..., :blocks]
    return top_rows(torch.maximum(best, torch.where(forced > 0, forced, -torch.inf)), count)
