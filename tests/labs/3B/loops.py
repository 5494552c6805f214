"""Right answers with loops over every index."""

import math

import torch


def rms_norm(x, weight, eps):
    out = torch.empty_like(x)
    rows = x.reshape(-1, x.shape[-1])
    flat = out.view(-1, x.shape[-1])
    for i, row in enumerate(rows):
        root = math.sqrt(sum(float(v) ** 2 for v in row) / len(row) + eps)
        for c in range(len(row)):
            flat[i, c] = float(row[c]) / root * float(weight[c])
    return out


def apply_rope(x, positions, frequencies, inverse=False):
    out = x.clone()
    first = x.shape[-1] - 2 * len(frequencies)
    for b in range(x.shape[0]):
        for t in range(x.shape[1]):
            for i, frequency in enumerate(frequencies):
                angle = float(positions[b, t]) * float(frequency)
                if inverse:
                    angle = -angle
                even, odd = x[b, t, ..., first + 2 * i], x[b, t, ..., first + 2 * i + 1]
                out[b, t, ..., first + 2 * i] = even * math.cos(angle) - odd * math.sin(angle)
                out[b, t, ..., first + 2 * i + 1] = even * math.sin(angle) + odd * math.cos(angle)
    return out


def pool_pairs(kv, gate):
    batch, tokens, width = kv.shape
    rows = torch.zeros(batch, tokens // 2, width, dtype=kv.dtype)
    for b in range(batch):
        for j in range(tokens // 2):
            for c in range(width):
                first, second = float(gate[b, 2 * j, c]), float(gate[b, 2 * j + 1, c])
                top = max(first, second)
                e1, e2 = math.exp(first - top), math.exp(second - top)
                rows[b, j, c] = (e1 * kv[b, 2 * j, c] + e2 * kv[b, 2 * j + 1, c]) / (e1 + e2)
    return rows


def row_positions(rows, ratio):
    positions = []
    for row in range(rows):
        positions.append(row * ratio)
    return torch.tensor(positions, dtype=torch.int64)


def visible_rows(positions, ratio):
    out = torch.zeros_like(positions)
    for b in range(positions.shape[0]):
        for t in range(positions.shape[1]):
            while (out[b, t] + 1) * ratio <= positions[b, t] + 1:
                out[b, t] += 1
    return out
