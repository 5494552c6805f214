import torch


def index_scores(queries, weights, keys):
    dots = torch.einsum("bthc,bnc->bthn", queries, keys).relu()        # [B, T, H, N]
    return (weights.unsqueeze(-1) * dots).sum(2)                       # [B, T, N]


def hide_rows(scores, visible):
    row = torch.arange(scores.shape[-1], device=scores.device)         # [N]
    return scores.masked_fill(row >= visible.unsqueeze(-1), -torch.inf)  # [B, T, N]


def candidate_blocks(scores, visible, size, count):
    blocks = -(-scores.shape[-1] // size)
    padded = torch.nn.functional.pad(scores, (0, blocks * size - scores.shape[-1]), value=-torch.inf)
    best = padded.unflatten(-1, (blocks, size)).amax(-1)               # [B, T, blocks]
    newest = (visible - 1) // size                                     # [B, T]; -1 where nothing is visible
    best = best.masked_fill(torch.arange(blocks) == newest.unsqueeze(-1), torch.inf)
    return top_rows(best, count)                                       # [B, T, min(count, blocks)]


def inside_blocks(scores, blocks, size):
    block = torch.arange(scores.shape[-1]) // size                     # [N]
    inside = (block == blocks.unsqueeze(-1)).any(2)                    # [B, T, N]
    return scores.masked_fill(~inside, -torch.inf)


def top_rows(scores, count):
    width = scores.shape[-1]
    values, rows = scores.sort(dim=-1, descending=True, stable=True)   # [B, T, N] each
    rows = torch.where(values == -torch.inf, width, rows)[..., :count]  # [B, T, min(count, N)]
    rows = rows.sort(dim=-1).values
    return torch.where(rows == width, -1, rows)
