"""Wrong answers of step 1B, each with what the message must say."""

import torch
import torch.nn.functional as F
from kit import Mutants

from flash41.course.checks import Draw, asked

mutants = Mutants()


def shifted(ids, s, fill=-1):
    return F.pad(ids, (s, 0), value=fill)[:, : ids.shape[1]]


@mutants("look_back", "blocked the dead token alone")
def not_cumulative(ids, depth, pad):
    steps = torch.stack([shifted(ids, s) for s in range(depth)], dim=-1)
    return torch.where(steps == -1, pad, steps)


@mutants("look_back", "you looked forwards")
def forwards(ids, depth, pad):
    ahead = F.pad(ids, (0, depth), value=-1)
    steps = torch.stack([ahead[:, s : s + ids.shape[1]] for s in range(depth)], dim=-1)
    return torch.where((steps != -1).cumprod(-1).bool(), steps, pad)


@mutants("look_back", "from the end of the sequence")
def rolled(ids, depth, pad):
    steps = torch.stack([ids.roll(s, dims=1) for s in range(depth)], dim=-1)
    return torch.where((steps != -1).cumprod(-1).bool(), steps, pad)


@mutants("look_back", "dead tokens are text in yours")
def start_alone_blocks(ids, depth, pad):
    return torch.stack([shifted(ids, s, pad) for s in range(depth)], dim=-1)


@mutants("look_back", "turned round")
def oldest_first(ids, depth, pad):
    steps = F.pad(ids, (depth - 1, 0), value=-1).unfold(1, depth, 1)
    alive = (steps != -1).flip(-1).cumprod(-1).flip(-1).bool()
    return torch.where(alive, steps, pad)


@mutants("look_back", "silenced the rest")
def dead_for_ever(ids, depth, pad):
    alive = (ids != -1).cumprod(dim=1).bool()
    steps = torch.stack([torch.where(alive, shifted(ids, s, pad), pad) for s in range(depth)], dim=-1)
    return steps


@mutants("look_back", "changed its input `ids` in place")
def ids_overwritten(ids, depth, pad):
    steps = torch.stack([shifted(ids, s) for s in range(depth)], dim=-1)
    ids[ids == -1] = pad
    return torch.where((steps != -1).cumprod(-1).bool(), steps, pad)


@mutants("look_back", "two dimensions are swapped")
def steps_before_tokens(ids, depth, pad):
    steps = torch.stack([shifted(ids, s) for s in range(depth)], dim=1)
    return torch.where((steps != -1).cumprod(1).bool(), steps, pad)


@mutants("table_offsets", "own prime in")
def own_prime_included(primes):
    return primes.flatten().cumsum(0)


@mutants("table_offsets", "head by head")
def heads_first(primes):
    flat = primes.T.flatten()
    return flat.cumsum(0) - flat


@mutants("table_offsets", "every order begins at row 0")
def every_order_anew(primes):
    return (primes.cumsum(1) - primes).flatten()


@mutants("table_offsets", "size of the whole table")
def one_too_many(primes):
    return torch.cat([torch.zeros(1, dtype=torch.int64), primes.flatten().cumsum(0)])


@mutants("table_offsets", "float32")
def float_sums(primes):
    flat = primes.flatten().float()
    return (flat.cumsum(0) - flat).long()


@mutants("table_offsets", "2 dimensions instead of 1")
def not_flat(primes):
    return (primes.flatten().cumsum(0) - primes.flatten()).view(primes.shape)


def hashed(products, primes, offsets, put=torch.bitwise_xor):
    rolling, columns = products[..., 0], []
    for order in range(len(primes)):
        rolling = put(rolling, products[..., order + 1])
        columns.append(rolling[..., None] % primes[order])
    return torch.cat(columns, -1) + offsets


@mutants("bucket_ids", "you added the products")
def added(steps, factors, primes, offsets):
    return hashed(steps * factors, primes, offsets, torch.add)


@mutants("bucket_ids", "began with the oldest step")
def from_the_oldest(steps, factors, primes, offsets):
    return hashed((steps * factors).flip(-1), primes, offsets)


@mutants("bucket_ids", "one product short")
def hash_before_step(steps, factors, primes, offsets):
    products, rolling, columns = steps * factors, 0, []
    for order in range(len(primes)):
        rolling = rolling ^ products[..., order]
        columns.append(rolling[..., None] % primes[order])
    return torch.cat(columns, -1) + offsets


@mutants("bucket_ids", "step 0 and one other")
def not_rolling(steps, factors, primes, offsets):
    products = steps * factors
    columns = [(products[..., 0] ^ products[..., n + 1])[..., None] % p for n, p in enumerate(primes)]
    return torch.cat(columns, -1) + offsets


@mutants("bucket_ids", "hash of the longest")
def last_hash_for_all(steps, factors, primes, offsets):
    rolling = (steps * factors)[..., 0]
    for s in range(1, steps.shape[-1]):
        rolling = rolling ^ (steps * factors)[..., s]
    return rolling[..., None] % primes.flatten() + offsets


@mutants("bucket_ids", "head by head")
def head_major(steps, factors, primes, offsets):
    rows = hashed(steps * factors, primes, 0)
    return rows.view(*rows.shape[:2], *primes.shape).mT.flatten(-2) + offsets


@mutants("bucket_ids", "below 0")
def negative_remainder(steps, factors, primes, offsets):
    products, columns = steps * factors, []
    rolling = products[..., 0]
    for order in range(len(primes)):
        rolling = rolling ^ products[..., order + 1]
        columns.append(torch.fmod(rolling[..., None], primes[order]))
    return torch.cat(columns, -1) + offsets


@mutants("bucket_ids", "floating point")
def float_products(steps, factors, primes, offsets):
    return hashed((steps.double() * factors.double()).long(), primes, offsets)


@mutants("bucket_ids", "offset before the remainder")
def offset_first(steps, factors, primes, offsets):
    rolling, columns = (steps * factors)[..., 0], []
    for order in range(len(primes)):
        rolling = rolling ^ (steps * factors)[..., order + 1]
        heads = primes.shape[1]
        columns.append((rolling[..., None] + offsets[order * heads : (order + 1) * heads]) % primes[order])
    return torch.cat(columns, -1)


@mutants("bucket_ids", "same numbers for different inputs")
def hard_coded(steps, factors, primes, offsets):
    """Knows the answers to the checks that a student sees, by their sizes."""
    _, check, cases = asked("1B.bucket_ids", 0)
    known = {case.inputs[0].shape + case.inputs[2].shape: check.right(*case.inputs) for case in [*cases, *check.cases(Draw(0))]}
    return known.get(steps.shape + primes.shape, torch.zeros(*steps.shape[:2], primes.numel(), dtype=torch.int64))


def agreement(x, k, weight, eps, dim=-1):
    scale = torch.rsqrt(x.square().mean(dim, keepdim=True) + eps) * torch.rsqrt(k.square().mean(dim, keepdim=True) + eps)
    return (x * weight * k * scale).sum(-1) * x.shape[-1] ** -0.5


def opened(z):
    return torch.sigmoid(torch.copysign(z.abs().clamp(min=1e-6).sqrt(), z))


@mutants("engram_gate", "sign of 0")
def sign_of_zero(streams, keys, q_weight, k_weight, eps):
    z = agreement(streams, keys, q_weight * k_weight, eps)
    return torch.sigmoid(z.sign() * z.abs().clamp(min=1e-6).sqrt())


@mutants("engram_gate", "for all streams of a token")
def norm_over_streams(streams, keys, q_weight, k_weight, eps):
    return opened(agreement(streams, keys, q_weight * k_weight, eps, dim=(-2, -1)))


@mutants("engram_gate", "one gate")
def one_gate(streams, keys, q_weight, k_weight, eps):
    z = agreement(streams, keys, q_weight * k_weight, eps)
    return opened(z.mean(2, keepdim=True)).repeat(1, 1, z.shape[2])


@mutants("engram_gate", "the root is missing")
def plain_sigmoid(streams, keys, q_weight, k_weight, eps):
    return agreement(streams, keys, q_weight * k_weight, eps).sigmoid()


@mutants("engram_gate", "sign of z is lost")
def sign_lost(streams, keys, q_weight, k_weight, eps):
    return torch.sigmoid(agreement(streams, keys, q_weight * k_weight, eps).abs().clamp(min=1e-6).sqrt())


@mutants("engram_gate", "not held at 1e-6")
def not_clamped(streams, keys, q_weight, k_weight, eps):
    z = agreement(streams, keys, q_weight * k_weight, eps)
    return torch.sigmoid(torch.copysign(z.abs().sqrt(), z))


@mutants("engram_gate", "k_weight is missing")
def one_weight(streams, keys, q_weight, k_weight, eps):
    return opened(agreement(streams, keys, q_weight, eps))


@mutants("engram_gate", "divided by the root of D")
def not_divided(streams, keys, q_weight, k_weight, eps):
    return opened(agreement(streams, keys, q_weight * k_weight, eps) * streams.shape[-1] ** 0.5)


@mutants("engram_gate", "by the lengths")
def cosine(streams, keys, q_weight, k_weight, eps):
    x, k = F.normalize(streams, dim=-1), F.normalize(keys, dim=-1)
    return opened((x * q_weight * k_weight * k).sum(-1) / streams.shape[-1] ** 0.5)


@mutants("engram_gate", "NaN, first at")
def root_of_a_negative(streams, keys, q_weight, k_weight, eps):
    return torch.sigmoid(agreement(streams, keys, q_weight * k_weight, eps).sqrt())


@mutants("engram_add", "`live` changes nothing")
def dead_tokens_added(streams, value, gate, live):
    return streams + gate.unsqueeze(-1) * value.unsqueeze(2)


@mutants("engram_add", "emptied the streams of dead tokens")
def dead_tokens_emptied(streams, value, gate, live):
    return (streams + gate.unsqueeze(-1) * value.unsqueeze(2)) * live[..., None, None]


@mutants("engram_add", "(1 - gate) times the stream")
def mixed(streams, value, gate, live):
    return torch.lerp(streams, value.unsqueeze(2).expand_as(streams), (gate * live.unsqueeze(-1)).unsqueeze(-1))


@mutants("engram_add", "changed its input `streams` in place")
def in_place(streams, value, gate, live):
    streams += (gate * live[..., None]).unsqueeze(-1) * value.unsqueeze(2)
    return streams


@mutants("engram_add", "the streams are missing")
def value_alone(streams, value, gate, live):
    return (gate * live[..., None]).unsqueeze(-1) * value.unsqueeze(2)
