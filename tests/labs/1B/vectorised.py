"""Right answers without a loop over tokens, by other operations than the master's."""

import torch
import torch.nn.functional as F


def look_back(ids, depth, pad):
    at = torch.arange(ids.shape[1]).unsqueeze(1) - torch.arange(depth)  # [T, depth]
    steps = ids[:, at.clamp(min=0)]
    dead = (at < 0) | (steps == -1)
    return steps.masked_fill(dead.cummax(dim=-1).values, pad)


def table_offsets(primes):
    return torch.tril(torch.ones(primes.numel(), primes.numel(), dtype=torch.int64), -1) @ primes.flatten()


def bucket_ids(steps, factors, primes, offsets):
    products = torch.einsum("bts,s->bts", steps, factors)
    hashes = [products[..., 0]]
    for product in products.unbind(-1)[1:]:
        hashes.append(torch.bitwise_xor(hashes[-1], product))
    hashed = torch.stack(hashes[1:], dim=-1).repeat_interleave(primes.shape[1], dim=-1)
    return torch.remainder(hashed, primes.reshape(-1)).add(offsets)


def engram_gate(streams, keys, q_weight, k_weight, eps):
    x, k = (F.rms_norm(part, part.shape[-1:], eps=eps) for part in (streams, keys))
    z = torch.einsum("btsd,sd,sd,btsd->bts", x, q_weight, k_weight, k) / streams.shape[-1] ** 0.5
    root = z.abs().clamp_min(1e-6) ** 0.5
    return torch.where(z < 0, torch.sigmoid(-root), torch.sigmoid(root))


def engram_add(streams, value, gate, live):
    added = streams + torch.einsum("bts,btd->btsd", gate, value)
    return torch.where(live[:, :, None, None], added, streams)
