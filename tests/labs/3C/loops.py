"""Right answers with loops over every index."""

import math

import torch


def index_scores(queries, weights, keys):
    batch, tokens, heads, width = queries.shape
    out = torch.zeros(batch, tokens, keys.shape[1], dtype=queries.dtype)
    for b in range(batch):
        for t in range(tokens):
            for n in range(keys.shape[1]):
                total = 0.0
                for h in range(heads):
                    dot = sum(float(queries[b, t, h, c]) * float(keys[b, n, c]) for c in range(width))
                    if dot > 0:
                        total += float(weights[b, t, h]) * dot
                out[b, t, n] = total
    return out


def hide_rows(scores, visible):
    out = scores.clone()
    for b in range(scores.shape[0]):
        for t in range(scores.shape[1]):
            for n in range(int(visible[b, t]), scores.shape[2]):
                out[b, t, n] = -math.inf
    return out


def best_of(line, count):
    """The count best places of a list, one after the other; the first of equal ones."""
    left, found = list(line), []
    while len(found) < count:
        top = max(left)
        if top == -math.inf:
            break
        found.append(left.index(top))
        left[found[-1]] = -math.inf
    return sorted(found) + [-1] * (count - len(found))


def candidate_blocks(scores, visible, size, count):
    batch, tokens, rows = scores.shape
    blocks = math.ceil(rows / size)
    out = torch.zeros(batch, tokens, min(count, blocks), dtype=torch.int64)
    for b in range(batch):
        for t in range(tokens):
            line = scores[b, t].tolist()
            best = [max(line[i * size : (i + 1) * size]) for i in range(blocks)]
            if visible[b, t] > 0:
                best[(int(visible[b, t]) - 1) // size] = math.inf
            out[b, t] = torch.tensor(best_of(best, min(count, blocks)))
    return out


def inside_blocks(scores, blocks, size):
    out = scores.clone()
    for b in range(scores.shape[0]):
        for t in range(scores.shape[1]):
            for n in range(scores.shape[2]):
                if n // size not in blocks[b, t].tolist():
                    out[b, t, n] = -math.inf
    return out


def top_rows(scores, count):
    batch, tokens, rows = scores.shape
    out = torch.zeros(batch, tokens, min(count, rows), dtype=torch.int64)
    for b in range(batch):
        for t in range(tokens):
            out[b, t] = torch.tensor(best_of(scores[b, t].tolist(), min(count, rows)), dtype=torch.int64)
    return out
