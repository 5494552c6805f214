"""Right answers that compute in float64; what stands for a float is left there."""

import torch


def look_back(ids, depth, pad):
    x = torch.nn.functional.pad(ids.double(), (depth - 1, 0), value=-1)
    steps = x.unfold(1, depth, 1).flip(-1)
    alive = (steps >= 0).double().cumprod(-1)
    return (alive * steps + (1 - alive) * pad).long()


def table_offsets(primes):
    flat = primes.double().flatten()
    return torch.cat([flat.new_zeros(1), flat[:-1]]).cumsum(0).long()


def bucket_ids(steps, factors, primes, offsets):
    """A hash of 63 bits does not fit into a float64, its two halves do."""
    rolling, columns = steps[..., 0] * factors[0], []
    for order, divisors in enumerate(primes.double(), start=1):
        rolling = rolling ^ (steps[..., order] * factors[order])
        high, low = (rolling >> 32).double()[..., None], (rolling & 0xFFFFFFFF).double()[..., None]
        shifted = torch.remainder(high, divisors) * torch.remainder(torch.tensor(2.0**32, dtype=torch.float64), divisors)
        columns.append(torch.remainder(shifted + low, divisors))
    return torch.cat(columns, -1).long() + offsets


def engram_gate(streams, keys, q_weight, k_weight, eps):
    x, k, q, w = (part.double() for part in (streams, keys, q_weight, k_weight))
    size = torch.sqrt((x.pow(2).mean(-1) + eps) * (k.pow(2).mean(-1) + eps))
    z = ((x * q) * (k * w)).sum(-1) / size / x.shape[-1] ** 0.5
    return 0.5 * (1 + torch.tanh(torch.copysign(torch.sqrt(torch.clamp(z.abs(), min=1e-6)), z) / 2))


def engram_add(streams, value, gate, live):
    opened = gate.double().masked_fill(~live[..., None], 0)
    return torch.baddbmm(streams.double().flatten(0, 1), opened.flatten(0, 1)[:, :, None],
                         value.double().flatten(0, 1)[:, None]).view(streams.shape)  # fmt: skip
