"""Wrong answers of step 2A, each with what the message must say."""

import torch
from kit import Mutants

from flash41.course.checks import asked

mutants = Mutants()


@mutants("sinkhorn", "you end on rows: one division too many")
def rows_last(logits, rounds, eps):
    mix = logits.softmax(-1) + eps
    for _ in range(rounds):
        mix = mix / (mix.sum(-2, keepdim=True) + eps)
        mix = mix / (mix.sum(-1, keepdim=True) + eps)
    return mix


@mutants("sinkhorn", "the last column division is missing")
def last_columns_forgotten(logits, rounds, eps):
    mix = logits.softmax(-1) + eps
    for _ in range(rounds - 1):
        mix = mix / (mix.sum(-2, keepdim=True) + eps)
        mix = mix / (mix.sum(-1, keepdim=True) + eps)
    return mix


@mutants("sinkhorn", "rows and columns are exchanged")
def transposed_throughout(logits, rounds, eps):
    mix = logits.softmax(-2) + eps
    mix = mix / (mix.sum(-1, keepdim=True) + eps)
    for _ in range(rounds - 1):
        mix = mix / (mix.sum(-2, keepdim=True) + eps)
        mix = mix / (mix.sum(-1, keepdim=True) + eps)
    return mix


def rounds_of(mix, rounds, eps):
    mix = mix / (mix.sum(-2, keepdim=True) + eps)
    for _ in range(rounds - 1):
        mix = mix / (mix.sum(-1, keepdim=True) + eps)
        mix = mix / (mix.sum(-2, keepdim=True) + eps)
    return mix


@mutants("sinkhorn", "your softmax goes over the first of the two indices")
def softmax_over_columns(logits, rounds, eps):
    return rounds_of(logits.softmax(-2) + eps, rounds, eps)


@mutants("sinkhorn", "one round too early")
def round_missing(logits, rounds, eps):
    mix = logits.softmax(-1) + eps
    mix = mix / (mix.sum(-2, keepdim=True) + eps)
    for _ in range(rounds - 2):
        mix = mix / (mix.sum(-1, keepdim=True) + eps)
        mix = mix / (mix.sum(-2, keepdim=True) + eps)
    return mix


@mutants("sinkhorn", "one round too far")
def round_too_many(logits, rounds, eps):
    mix = rounds_of(logits.softmax(-1) + eps, rounds, eps)
    mix = mix / (mix.sum(-1, keepdim=True) + eps)
    return mix / (mix.sum(-2, keepdim=True) + eps)


@mutants("sinkhorn", "eps is missing: it is added to the softmax")
def no_eps(logits, rounds, eps):
    mix = logits.softmax(-1)
    mix = mix / mix.sum(-2, keepdim=True)
    for _ in range(rounds - 1):
        mix = mix / mix.sum(-1, keepdim=True)
        mix = mix / mix.sum(-2, keepdim=True)
    return mix


@mutants("sinkhorn", "eps is missing in the sums")
def eps_at_the_start_only(logits, rounds, eps):
    mix = logits.softmax(-1) + eps
    for step in range(2 * rounds - 1):
        mix = mix / mix.sum(-2 if step % 2 == 0 else -1, keepdim=True)
    return mix


@mutants("sinkhorn", "divided the rows right after the softmax")
def rows_first(logits, rounds, eps):
    mix = logits.softmax(-1) + eps
    for _ in range(rounds):
        mix = mix / (mix.sum(-1, keepdim=True) + eps)
        mix = mix / (mix.sum(-2, keepdim=True) + eps)
    return mix


@mutants("sinkhorn", "you took exp")
def exp_instead(logits, rounds, eps):
    return rounds_of(logits.exp() + eps, rounds, eps)


@mutants("sinkhorn", "changed its input `logits` in place")
def in_place(logits, rounds, eps):
    logits.copy_(logits.softmax(-1) + eps)
    return rounds_of(logits, rounds, eps)


@mutants("sinkhorn", "same numbers for different inputs")
def hard_coded(logits, rounds, eps):
    """Knows the answers to the checks that a student sees, by their sizes."""
    _, check, cases = asked("2A.sinkhorn", 0)
    known = {(case.inputs[0].shape, *case.inputs[1:]): check.right(*case.inputs) for case in cases}
    return known.get((logits.shape, rounds, eps), torch.full(logits.shape, 0.25))


def finish(numbers, base, scale, size, hc_eps):
    into, out, mix = numbers.split([size, size, size * size], dim=-1)
    base_into, base_out, base_mix = base.split([size, size, size * size])
    a = torch.sigmoid(into * scale[0] + base_into) + hc_eps
    c = 2 * torch.sigmoid(out * scale[1] + base_out)
    return a, c, (mix * scale[2] + base_mix).unflatten(-1, (size, size))


def numbers_of(streams, fn, norm_eps):
    flat = streams.flatten(-2)
    return flat @ fn.T * torch.rsqrt(flat.square().mean(-1, keepdim=True) + norm_eps)


@mutants("site_coefficients", "you normed every stream by itself")
def norm_per_stream(streams, fn, base, scale, norm_eps, hc_eps):
    normed = streams * torch.rsqrt(streams.square().mean(-1, keepdim=True) + norm_eps)
    return finish(normed.flatten(-2) @ fn.T, base, scale, streams.shape[-2], hc_eps)


@mutants("site_coefficients", "by their own size")
def norm_of_the_numbers(streams, fn, base, scale, norm_eps, hc_eps):
    numbers = streams.flatten(-2) @ fn.T
    numbers = numbers * torch.rsqrt(numbers.square().mean(-1, keepdim=True) + norm_eps)
    return finish(numbers, base, scale, streams.shape[-2], hc_eps)


@mutants("site_coefficients", "root of the sum of the squares")
def vector_length(streams, fn, base, scale, norm_eps, hc_eps):
    flat = streams.flatten(-2)
    return finish(flat @ fn.T / flat.norm(dim=-1, keepdim=True).clamp(min=1e-30), base, scale, streams.shape[-2], hc_eps)


@mutants("site_coefficients", "channel by channel")
def channels_first(streams, fn, base, scale, norm_eps, hc_eps):
    return finish(numbers_of(streams.transpose(-1, -2), fn, norm_eps), base, scale, streams.shape[-2], hc_eps)


@mutants("site_coefficients", "the 2 of c is missing")
def c_without_the_2(streams, fn, base, scale, norm_eps, hc_eps):
    a, c, m = finish(numbers_of(streams, fn, norm_eps), base, scale, streams.shape[-2], hc_eps)
    return a, c / 2, m


@mutants("site_coefficients", "you added hc_eps to c")
def c_with_eps(streams, fn, base, scale, norm_eps, hc_eps):
    a, c, m = finish(numbers_of(streams, fn, norm_eps), base, scale, streams.shape[-2], hc_eps)
    return a, c + hc_eps, m


@mutants("site_coefficients", "hc_eps is missing")
def a_without_eps(streams, fn, base, scale, norm_eps, hc_eps):
    return finish(numbers_of(streams, fn, norm_eps), base, scale, streams.shape[-2], 0)


@mutants("site_coefficients", "norm_eps is missing")
def no_norm_eps(streams, fn, base, scale, norm_eps, hc_eps):
    return finish(numbers_of(streams, fn, 0), base, scale, streams.shape[-2], hc_eps)


@mutants("site_coefficients", "the two indices of m are exchanged")
def m_column_by_column(streams, fn, base, scale, norm_eps, hc_eps):
    a, c, m = finish(numbers_of(streams, fn, norm_eps), base, scale, streams.shape[-2], hc_eps)
    return a, c, m.transpose(-1, -2)


@mutants("site_coefficients", "through `sinkhorn`")
def balanced_at_once(streams, fn, base, scale, norm_eps, hc_eps):
    a, c, m = finish(numbers_of(streams, fn, norm_eps), base, scale, streams.shape[-2], hc_eps)
    return a, c, rounds_of(m.softmax(-1) + 1e-6, 20, 1e-6)


@mutants("site_coefficients", "scale[0] for all three")
def one_scale(streams, fn, base, scale, norm_eps, hc_eps):
    numbers, size = numbers_of(streams, fn, norm_eps) * scale[0] + base, streams.shape[-2]
    a, c, m = numbers.split([size, size, size * size], dim=-1)
    return torch.sigmoid(a) + hc_eps, 2 * torch.sigmoid(c), m.unflatten(-1, (size, size))


@mutants("site_coefficients", "numbers of the mix first")
def mix_first(streams, fn, base, scale, norm_eps, hc_eps):
    size = streams.shape[-2]
    mix, into, out = numbers_of(streams, fn, norm_eps).split([size * size, size, size], dim=-1)
    base_mix, base_into, base_out = base.split([size * size, size, size])
    a = torch.sigmoid(into * scale[0] + base_into) + hc_eps
    return a, 2 * torch.sigmoid(out * scale[1] + base_out), (mix * scale[2] + base_mix).unflatten(-1, (size, size))


@mutants("collapse", "you made the weights sum to 1")
def weighted_mean(streams, a):
    return (streams * a.unsqueeze(-1)).sum(2) / a.sum(-1, keepdim=True)


@mutants("collapse", "mean of the streams")
def mean_of_streams(streams, a):
    return streams.mean(2)


@mutants("collapse", "every number is 0.25 times the right one")
def divided_by_four(streams, a):
    return (streams * a.unsqueeze(-1)).sum(2) / 4


@mutants("collapse", "sum over the streams is missing")
def not_summed(streams, a):
    return streams * a.unsqueeze(-1)


@mutants("collapse", "the token before")
def staggered_by_token(streams, a):
    a = torch.cat([a[:, -1:], a[:, :-1]], dim=1)
    return (streams * a.unsqueeze(-1)).sum(2)


@mutants("write_back", "you summed over the second index of b")
def other_index(streams, y, c, b):
    return b @ streams + c.unsqueeze(-1) * y.unsqueeze(2)


@mutants("write_back", "c is missing")
def y_added_to_all(streams, y, c, b):
    return b.mT @ streams + y.unsqueeze(2)


@mutants("write_back", "you wrote y before mixing")
def written_first(streams, y, c, b):
    return b.mT @ (streams + c.unsqueeze(-1) * y.unsqueeze(2))


@mutants("write_back", "the old streams once more")
def residual_twice(streams, y, c, b):
    return streams + b.mT @ streams + c.unsqueeze(-1) * y.unsqueeze(2)


@mutants("write_back", "you did not mix")
def plain_residual(streams, y, c, b):
    return streams + c.unsqueeze(-1) * y.unsqueeze(2)


@mutants("write_back", "changed its input `streams` in place")
def overwritten(streams, y, c, b):
    for k in range(streams.shape[2]):
        streams[:, :, k] = (b[:, :, :, k, None] * streams).sum(2) + c[:, :, k, None] * y
    return streams
