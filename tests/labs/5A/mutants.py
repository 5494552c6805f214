"""Wrong answers of step 5A, each with what the message must say."""

import torch
import torch.nn.functional as F
from kit import Mutants

from flash41.course.checks import Draw, asked

mutants = Mutants()


def score(x, weight):
    return F.softplus(x @ weight.mT).sqrt()


def chosen(ranked, count):
    return ranked.topk(count, dim=-1).indices.sort(dim=-1).values


def shared(weights, count, scale):
    return scale * (weights / (weights.sum(-1, keepdim=True) + 1e-20) if count > 1 else weights)


@mutants("route", "the bias weighs in yours")
def bias_weighs(x, weight, bias, count, scale):
    ranked = score(x, weight) + bias
    experts = chosen(ranked, count)
    return experts, shared(ranked.gather(-1, experts), count, scale)


@mutants("route", "does not take part in the choice")
def no_bias(x, weight, bias, count, scale):
    s = score(x, weight)
    experts = chosen(s, count)
    return experts, shared(s.gather(-1, experts), count, scale)


@mutants("route", "your score is a softmax")
def softmax_scores(x, weight, bias, count, scale):
    s = (x @ weight.mT).softmax(-1)
    experts = chosen(s + bias, count)
    return experts, shared(s.gather(-1, experts), count, scale)


@mutants("route", "your score is a sigmoid")
def sigmoid_scores(x, weight, bias, count, scale):
    s = (x @ weight.mT).sigmoid()
    experts = chosen(s + bias, count)
    return experts, shared(s.gather(-1, experts), count, scale)


@mutants("route", "not divided by their sum")
def not_normalised(x, weight, bias, count, scale):
    s = score(x, weight)
    experts = chosen(s + bias, count)
    return experts, s.gather(-1, experts) * scale


@mutants("route", "a single expert keeps its own score")
def one_is_divided_too(x, weight, bias, count, scale):
    s = score(x, weight)
    experts = chosen(s + bias, count)
    weights = s.gather(-1, experts)
    return experts, scale * weights / weights.sum(-1, keepdim=True)


@mutants("route", "1e-06 that you added")
def large_eps(x, weight, bias, count, scale):
    s = score(x, weight)
    experts = chosen(s + bias, count)
    weights = s.gather(-1, experts)
    return experts, scale * (weights / (weights.sum(-1, keepdim=True) + 1e-6) if count > 1 else weights)


@mutants("route", "leaves the range of float32")
def naive_softplus(x, weight, bias, count, scale):
    s = torch.log(1 + torch.exp(x @ weight.mT)).sqrt()
    experts = chosen(s + bias, count)
    return experts, shared(s.gather(-1, experts), count, scale)


@mutants("route", "have to ascend")
def order_of_score(x, weight, bias, count, scale):
    s = score(x, weight)
    experts = (s + bias).topk(count, dim=-1).indices
    return experts, shared(s.gather(-1, experts), count, scale)


@mutants("route", "left the weights behind")
def sorted_too_late(x, weight, bias, count, scale):
    experts, weights = order_of_score(x, weight, bias, count, scale)
    return experts.sort(-1).values, weights


@mutants("route", "`scale` is missing")
def scaled_before_the_sum(x, weight, bias, count, scale):
    s = score(x, weight)
    experts = chosen(s + bias, count)
    weights = s.gather(-1, experts)
    return experts, weights * scale / (weights * scale).sum(-1, keepdim=True) if count > 1 else weights


def expert(x, w1, w2, w3, limit, weight=None):
    hidden = F.silu((x @ w1.mT).clamp(max=limit)) * (x @ w3.mT).clamp(-limit, limit)
    return (hidden if weight is None else hidden * weight) @ w2.mT


@mutants("swiglu", "your gate is held on both sides")
def same_clamp(x, w1, w2, w3, limit, weight=None):
    hidden = F.silu((x @ w1.mT).clamp(-limit, limit)) * (x @ w3.mT).clamp(-limit, limit)
    return (hidden if weight is None else hidden * weight) @ w2.mT


@mutants("swiglu", "your up value is not held")
def up_not_clamped(x, w1, w2, w3, limit, weight=None):
    hidden = F.silu((x @ w1.mT).clamp(max=limit)) * (x @ w3.mT)
    return (hidden if weight is None else hidden * weight) @ w2.mT


@mutants("swiglu", "you held silu(gate)")
def clamped_late(x, w1, w2, w3, limit, weight=None):
    hidden = F.silu(x @ w1.mT).clamp(max=limit) * (x @ w3.mT).clamp(-limit, limit)
    return (hidden if weight is None else hidden * weight) @ w2.mT


@mutants("swiglu", "w1 and w3 are exchanged")
def exchanged(x, w1, w2, w3, limit, weight=None):
    return expert(x, w3, w2, w1, limit, weight)


@mutants("swiglu", "the weight changes nothing")
def weight_forgotten(x, w1, w2, w3, limit, weight=None):
    return expert(x, w1, w2, w3, limit)


@mutants("swiglu", "you multiplied x by the weight")
def weight_on_x(x, w1, w2, w3, limit, weight=None):
    return expert(x if weight is None else x * weight, w1, w2, w3, limit)


@mutants("swiglu", "you took sigmoid for silu")
def plain_glu(x, w1, w2, w3, limit, weight=None):
    hidden = (x @ w1.mT).clamp(max=limit).sigmoid() * (x @ w3.mT).clamp(-limit, limit)
    return (hidden if weight is None else hidden * weight) @ w2.mT


@mutants("swiglu", "w2 is missing")
def no_way_back(x, w1, w2, w3, limit, weight=None):
    hidden = F.silu((x @ w1.mT).clamp(max=limit)) * (x @ w3.mT).clamp(-limit, limit)
    return hidden if weight is None else hidden * weight


@mutants("mix_experts", "`=` overwrites")
def overwritten(x, experts, weights, matrices, limit):
    out = torch.zeros_like(x)
    for index, own in enumerate(matrices):
        token, slot = (experts == index).nonzero(as_tuple=True)
        out[token] = expert(x[token], *own, limit, weights[token, slot, None])
    return out


@mutants("mix_experts", "0 times NaN")
def every_expert(x, experts, weights, matrices, limit):
    dense = weights.new_zeros(len(x), len(matrices)).scatter(-1, experts, weights)
    return torch.stack([expert(x, *own, limit, dense[:, i : i + 1]) for i, own in enumerate(matrices)]).sum(0)


@mutants("mix_experts", "the weights are missing")
def unweighted(x, experts, weights, matrices, limit):
    out = torch.zeros_like(x)
    for index, own in enumerate(matrices):
        token = (experts == index).any(-1).nonzero()[:, 0]
        out[token] += expert(x[token], *own, limit)
    return out


@mutants("mix_experts", "the weight of its first")
def first_weight(x, experts, weights, matrices, limit):
    out = torch.zeros_like(x)
    for index, own in enumerate(matrices):
        token, _ = (experts == index).nonzero(as_tuple=True)
        out[token] += expert(x[token], *own, limit, weights[token][:, :1])
    return out


@mutants("mix_experts", "the slot for the expert")
def slot_for_expert(x, experts, weights, matrices, limit):
    return sum(expert(x, *matrices[slot], limit, weights[:, slot, None]) for slot in range(experts.shape[1]))


@mutants("mix_experts", "changed its input `x` in place")
def in_place(x, experts, weights, matrices, limit):
    out = x
    for index, own in enumerate(matrices):
        token, slot = (experts == index).nonzero(as_tuple=True)
        out[token] += expert(x[token], *own, limit, weights[token, slot, None])
    return out


@mutants("mix_experts", "same numbers for different inputs")
def hard_coded(x, experts, weights, matrices, limit):
    """Knows the answers to the checks that a student sees, by the sum of the tokens."""
    _, check, cases = asked("5A.mix_experts", 0)
    known = {}
    for case in [*cases, *check.cases(Draw(0))]:
        x_, _, weights_, *_ = case.inputs
        known[round(float(x_.sum() + weights_.sum()), 3)] = check.right(*case.inputs)
    return known.get(round(float(x.sum() + weights.sum()), 3), torch.zeros(x.shape))


@mutants("expert_bytes", "the scales are missing")
def codes_alone(hidden, inner):
    return 3 * hidden * inner // 2


@mutants("expert_bytes", "one scale for the whole expert")
def scale_per_expert(hidden, inner):
    return 3 * hidden * inner // 2 + 1


@mutants("expert_bytes", "as in a row of the cache")
def groups_of_16(hidden, inner):
    return 3 * (hidden * inner // 2 + hidden * inner // 16)


@mutants("expert_bytes", "two matrices")
def two_matrices(hidden, inner):
    return 2 * (hidden * inner // 2 + hidden * inner // 32)


@mutants("expert_bytes", "yours is a float")
def a_float(hidden, inner):
    return 3 * hidden * inner * 4.25 / 8
