"""Wrong answers of step 6B, each with what the message must say."""

import torch
from kit import Mutants

from flash41.course.checks import Draw, asked

mutants = Mutants()


@mutants("markov_logits", "embed and head are exchanged")
def tables_swapped(logits, token, embed, head):
    return logits + head[token] @ embed.mT


@mutants("markov_logits", "the term alone")
def term_alone(logits, token, embed, head):
    return embed[token] @ head.mT


@mutants("markov_logits", "the token that the logits prefer")
def own_choice(logits, token, embed, head):
    return logits + embed[logits.argmax(-1)] @ head.mT


@mutants("markov_logits", "before the first sequence for all")
def first_token_for_all(logits, token, embed, head):
    return logits + embed[token[0]] @ head.mT


@mutants("markov_logits", "you reshaped head")
def reshaped(logits, token, embed, head):
    return logits + embed[token] @ head.view(head.shape[1], head.shape[0])


@mutants("markov_logits", "the root of R")
def scaled(logits, token, embed, head):
    return logits + embed[token] @ head.mT / embed.shape[1] ** 0.5


@mutants("markov_logits", "changed its input `logits` in place")
def added_in_place(logits, token, embed, head):
    logits += embed[token] @ head.mT
    return logits


@mutants("markov_logits", "two dimensions are swapped")
def transposed(logits, token, embed, head):
    return (logits + embed[token] @ head.mT).mT


@mutants("markov_logits", "same numbers for different inputs")
def hard_coded(logits, token, embed, head):
    """Knows the answers to the checks that a student sees, by their sizes."""
    _, check, cases = asked("6B.markov_logits", 0)
    known = {case.inputs[0].shape: check.right(*case.inputs) for case in [*cases, *check.cases(Draw(0))]}
    return known.get(logits.shape, torch.zeros_like(logits))


@mutants("confidence", "went through sigmoid")
def with_sigmoid(hidden, embedded, proj):
    return torch.sigmoid(torch.cat([hidden, embedded], -1) @ proj[0])


@mutants("confidence", "the wrong way round")
def concatenated_backwards(hidden, embedded, proj):
    return torch.cat([embedded, hidden], -1) @ proj[0]


@mutants("confidence", "one number per sequence is [B]")
def dimension_kept(hidden, embedded, proj):
    return torch.cat([hidden, embedded], -1) @ proj.mT


@mutants("confidence", "name the last one")
def squeezed(hidden, embedded, proj):
    return (torch.cat([hidden, embedded], -1) @ proj.mT).squeeze()


@mutants("confidence", "you normed the hidden state")
def after_the_norm(hidden, embedded, proj):
    hidden = hidden * hidden.square().mean(-1, keepdim=True).add(1e-20).rsqrt()
    return torch.cat([hidden, embedded], -1) @ proj[0]


@mutants("confidence", "the token before is missing")
def hidden_alone(hidden, embedded, proj):
    return hidden @ proj[0, : hidden.shape[1]]


@mutants("accept", "behind a refused one")
def counted_after_the_refusal(p, q, tokens, chance):
    at = tokens.unsqueeze(-1)
    return (chance < (p.gather(-1, at) / q.gather(-1, at)).squeeze(-1)).sum(1)


def stands(chance, p, q, tokens, compare=torch.lt):
    at = tokens.unsqueeze(-1)
    return compare(chance, (p.gather(-1, at) / q.gather(-1, at)).squeeze(-1))


@mutants("accept", "so that chance 0 keeps nothing that p rules out")
def not_strict(p, q, tokens, chance):
    return stands(chance, p, q, tokens, torch.le).long().cumprod(1).sum(1)


@mutants("accept", "the model's p over the drafter's q")
def ratio_upside_down(p, q, tokens, chance):
    return stands(chance, q, p, tokens).long().cumprod(1).sum(1)


@mutants("accept", "compared chance with p alone")
def not_divided(p, q, tokens, chance):
    return (chance < p.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)).long().cumprod(1).sum(1)


@mutants("accept", "the greedy rule")
def first_choice_only(p, q, tokens, chance):
    return (p.argmax(-1) == tokens).long().cumprod(1).sum(1)


@mutants("accept", "yours says 0")
def first_refusal(p, q, tokens, chance):
    return (~stands(chance, p, q, tokens)).int().argmax(1)


@mutants("accept", "the place after it")
def one_place_on(p, q, tokens, chance):
    return stands(chance, torch.cat([p[:, 1:], p[:, :1]], 1), q, tokens).long().cumprod(1).sum(1)


@mutants("accept", "along the drafts, dimension 1")
def along_the_batch(p, q, tokens, chance):
    return stands(chance, p, q, tokens).long().cumprod(0).sum(1)


@mutants("accept", "count the drafts alone")
def with_the_models_token(p, q, tokens, chance):
    return stands(chance, p, q, tokens).long().cumprod(1).sum(1) + 1


@mutants("leftover", "yours does not sum to 1")
def not_renormalised(p, q):
    return (p - q).clamp(min=0)


@mutants("leftover", "negative numbers in it")
def not_clamped(p, q):
    return p - q


@mutants("leftover", "without its sign")
def absolute(p, q):
    rest = (p - q).abs()
    return torch.where(rest.sum(-1, keepdim=True) > 0, rest / rest.sum(-1, keepdim=True), p)


@mutants("leftover", "yours is p itself")
def drawn_from_p_again(p, q):
    return p.clone()


@mutants("leftover", "yours is 0 / 0")
def nothing_left(p, q):
    rest = (p - q).clamp(min=0)
    return rest / rest.sum(-1, keepdim=True)


@mutants("leftover", "in all sequences")
def asked_the_whole_batch(p, q):
    rest = (p - q).clamp(min=0)
    return p if rest.sum() == 0 else rest / rest.sum(-1, keepdim=True)


@mutants("leftover", "1e-8 to the divisor")
def small_number_in_the_divisor(p, q):
    rest = (p - q).clamp(min=0)
    return rest / (rest.sum(-1, keepdim=True) + 1e-8)


@mutants("leftover", "the sum over all sequences")
def one_sum(p, q):
    rest = (p - q).clamp(min=0)
    return torch.where(rest.sum(-1, keepdim=True) > 0, rest / rest.sum(), p)


@mutants("leftover", "changed its input `p` in place")
def subtracted_in_place(p, q):
    p -= q
    rest = p.clamp_(min=0)
    return rest / rest.sum(-1, keepdim=True)


@mutants("tokens_per_pass", "so their rates multiply")
def rates_added(rates):
    return 1 + sum(rates)


@mutants("tokens_per_pass", "the model's own token is missing")
def drafts_alone(rates):
    expected, kept = 0.0, 1.0
    for rate in rates:
        kept *= rate
        expected += kept
    return expected


@mutants("tokens_per_pass", "the first rate for all")
def published_formula(rates):
    """(1 - a^(k + 1)) / (1 - a), which holds for equal rates."""
    if not rates or rates[0] == 1:
        return 1.0 + len(rates)
    return (1 - rates[0] ** (len(rates) + 1)) / (1 - rates[0])


@mutants("tokens_per_pass", "shorter prefixes count too")
def all_or_nothing(rates):
    kept = 1.0
    for rate in rates:
        kept *= rate
    return 1 + kept


@mutants("tokens_per_pass", "the last draft is missing")
def one_too_few(rates):
    expected, kept = 0.0, 1.0
    for rate in rates:
        expected += kept
        kept *= rate
    return expected if rates else 1.0
