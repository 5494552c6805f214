"""Right answers with loops over every index."""

import math

import torch


def window_mask(tokens, window):
    mask = torch.zeros(tokens, tokens, dtype=torch.bool)
    for t in range(tokens):
        for other in range(max(0, t - window + 1), t + 1):
            mask[t, other] = True
    return mask


def chosen_mask(rows, width):
    mask = torch.zeros(rows.shape[0], rows.shape[1], width, dtype=torch.bool)
    for b in range(rows.shape[0]):
        for t in range(rows.shape[1]):
            for row in rows[b, t].tolist():
                if row != -1:
                    mask[b, t, row] = True
    return mask


def attend(q, keys, seen, sink):
    out = torch.zeros_like(q)
    for b in range(q.shape[0]):
        for t in range(q.shape[1]):
            for h in range(q.shape[2]):
                places = [k for k in range(keys.shape[1]) if seen[b, t, k]]
                scores = [float(q[b, t, h].double() @ keys[b, k].double()) / math.sqrt(q.shape[3]) for k in places]
                top = max([*scores, float(sink[h])])
                below = sum(math.exp(s - top) for s in scores) + math.exp(float(sink[h]) - top)
                for k, s in zip(places, scores, strict=True):
                    out[b, t, h] += math.exp(s - top) / below * keys[b, k]
    return out


def turn_back(core, positions, frequencies):
    out = core.clone()
    first = core.shape[3] - 2 * len(frequencies)
    for b in range(core.shape[0]):
        for t in range(core.shape[1]):
            for i in range(len(frequencies)):
                angle = float(positions[b, t]) * float(frequencies[i])
                cos, sin = math.cos(angle), math.sin(angle)
                for h in range(core.shape[2]):
                    x, y = core[b, t, h, first + 2 * i], core[b, t, h, first + 2 * i + 1]
                    out[b, t, h, first + 2 * i] = x * cos + y * sin
                    out[b, t, h, first + 2 * i + 1] = y * cos - x * sin
    return out


def grouped_output(core, wo_a, wo_b, groups):
    batch, tokens, heads, width = core.shape
    rank, each = wo_a.shape[0] // groups, heads // groups
    out = torch.zeros(batch, tokens, wo_b.shape[0], dtype=core.dtype)
    for b in range(batch):
        for t in range(tokens):
            low = []
            for row in range(groups * rank):
                total, group = 0.0, row // rank
                for h in range(each):
                    total = total + core[b, t, group * each + h] @ wo_a[row, h * width : (h + 1) * width]
                low.append(total)
            for d in range(wo_b.shape[0]):
                out[b, t, d] = sum(wo_b[d, row] * low[row] for row in range(len(low)))
    return out
