"""Right answers with loops over every index."""

import math

import torch


def look_back(ids, depth, pad):
    out = torch.full((*ids.shape, depth), pad)
    for b in range(ids.shape[0]):
        for t in range(ids.shape[1]):
            for s in range(depth):
                if t - s < 0 or ids[b, t - s] == -1:
                    break
                out[b, t, s] = ids[b, t - s]
    return out


def table_offsets(primes):
    offsets, row = [], 0
    for order in primes.tolist():
        for prime in order:
            offsets.append(row)
            row += prime
    return torch.tensor(offsets)


def bucket_ids(steps, factors, primes, offsets):
    out = torch.zeros(*steps.shape[:2], len(offsets), dtype=torch.int64)
    for b in range(steps.shape[0]):
        for t in range(steps.shape[1]):
            column, rolling = 0, int(steps[b, t, 0]) * int(factors[0])
            for order in range(primes.shape[0]):
                rolling ^= int(steps[b, t, order + 1]) * int(factors[order + 1])
                for head in range(primes.shape[1]):
                    out[b, t, column] = int(offsets[column]) + rolling % int(primes[order, head])
                    column += 1
    return out


def engram_gate(streams, keys, q_weight, k_weight, eps):
    batch, tokens, count, width = streams.shape
    gates = torch.zeros(batch, tokens, count)
    for b in range(batch):
        for t in range(tokens):
            for s in range(count):
                x, k = streams[b, t, s].tolist(), keys[b, t, s].tolist()
                size_x = math.sqrt(sum(v * v for v in x) / width + eps)
                size_k = math.sqrt(sum(v * v for v in k) / width + eps)
                product = sum(x[d] * float(q_weight[s, d]) * float(k_weight[s, d]) * k[d] for d in range(width))
                z = product / (math.sqrt(width) * size_x * size_k)
                root = math.sqrt(max(abs(z), 1e-6))
                gates[b, t, s] = 1 / (1 + math.exp(-root if z >= 0 else root))
    return gates


def engram_add(streams, value, gate, live):
    out = streams.clone()
    for b in range(out.shape[0]):
        for t in range(out.shape[1]):
            for s in range(out.shape[2]):
                for d in range(out.shape[3]):
                    if live[b, t]:
                        out[b, t, s, d] += gate[b, t, s] * value[b, t, d]
    return out
