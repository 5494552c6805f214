import torch


def look_back(ids, depth, pad):
    steps, alive = [], torch.ones_like(ids, dtype=torch.bool)          # [B, T]
    for back in range(depth):
        shifted = torch.full_like(ids, -1)                             # [B, T]
        shifted[:, back:] = ids[:, : ids.shape[1] - back]
        alive = alive & (shifted != -1)
        steps.append(torch.where(alive, shifted, pad))
    return torch.stack(steps, dim=-1)                                  # [B, T, depth]


def table_offsets(primes):
    flat = primes.flatten()                                            # [orders * heads]
    return flat.cumsum(0) - flat


def bucket_ids(steps, factors, primes, offsets):
    products = steps * factors                                         # [B, T, depth]
    rolling, columns = products[..., 0], []
    for order in range(len(primes)):
        rolling = rolling ^ products[..., order + 1]                   # [B, T]
        columns.append(rolling.unsqueeze(-1) % primes[order])          # [B, T, heads]
    return torch.cat(columns, dim=-1) + offsets                        # [B, T, orders * heads]


def engram_gate(streams, keys, q_weight, k_weight, eps):
    z = (streams * keys * (q_weight * k_weight)).sum(-1) * streams.shape[-1] ** -0.5  # [B, T, S]
    for part in (streams, keys):
        z = z * torch.rsqrt(part.square().mean(-1) + eps)
    return torch.sigmoid(torch.copysign(z.abs().clamp(min=1e-6).sqrt(), z))


def engram_add(streams, value, gate, live):
    gate = gate * live.unsqueeze(-1)                                   # [B, T, S]
    return streams + gate.unsqueeze(-1) * value.unsqueeze(2)           # [B, T, S, D]
