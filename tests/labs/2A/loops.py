"""Right answers with loops over every index."""

import math

import torch


def _balance(rows, rounds, eps):
    """One matrix as a list of lists of floats."""
    size, mix = len(rows), []
    for row in rows:
        weights = [math.exp(value - max(row)) for value in row]
        mix.append([weight / sum(weights) + eps for weight in weights])
    for turn in range(rounds):
        if turn > 0:
            for j in range(size):
                total = sum(mix[j]) + eps
                mix[j] = [value / total for value in mix[j]]
        for k in range(size):
            total = sum(mix[j][k] for j in range(size)) + eps
            for j in range(size):
                mix[j][k] /= total
    return mix


def sinkhorn(logits, rounds, eps):
    size = logits.shape[-1]
    flat = logits.reshape(-1, size, size)
    out = [_balance(matrix.tolist(), rounds, eps) for matrix in flat]
    return torch.tensor(out, dtype=logits.dtype).reshape(logits.shape)


def _sigmoid(value):
    return 1 / (1 + math.exp(-value))


def site_coefficients(streams, fn, base, scale, norm_eps, hc_eps):
    batch, tokens, size, width = streams.shape
    a, c = (torch.empty(batch, tokens, size, dtype=streams.dtype) for _ in range(2))
    m = torch.empty(batch, tokens, size, size, dtype=streams.dtype)
    for b in range(batch):
        for t in range(tokens):
            values = [float(streams[b, t, s, d]) for s in range(size) for d in range(width)]
            root = math.sqrt(sum(value**2 for value in values) / len(values) + norm_eps)
            numbers = [sum(w * v for w, v in zip(row, values, strict=True)) / root for row in fn.tolist()]
            for i in range(size):
                a[b, t, i] = _sigmoid(numbers[i] * float(scale[0]) + float(base[i])) + hc_eps
                c[b, t, i] = 2 * _sigmoid(numbers[size + i] * float(scale[1]) + float(base[size + i]))
                for k in range(size):
                    at = 2 * size + size * i + k
                    m[b, t, i, k] = numbers[at] * float(scale[2]) + float(base[at])
    return a, c, m


def collapse(streams, a):
    batch, tokens, size, width = streams.shape
    out = torch.zeros(batch, tokens, width, dtype=streams.dtype)
    for b in range(batch):
        for t in range(tokens):
            for d in range(width):
                for i in range(size):
                    out[b, t, d] += a[b, t, i] * streams[b, t, i, d]
    return out


def write_back(streams, y, c, b):
    out = torch.zeros_like(streams)
    for n in range(streams.shape[0]):
        for t in range(streams.shape[1]):
            for k in range(streams.shape[2]):
                new = c[n, t, k] * y[n, t]
                for j in range(streams.shape[2]):
                    new = new + b[n, t, j, k] * streams[n, t, j]
                out[n, t, k] = new
    return out
