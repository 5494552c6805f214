"""Wrong answers of step 1A, each with what the message must say."""

import math

import torch
import torch.nn.functional as F
from kit import Mutants

from flash41.course.checks import Draw, asked

mutants = Mutants()


@mutants("embed", "the root of D")
def scaled(weight, ids):
    return weight[ids] * math.sqrt(weight.shape[-1])


@mutants("embed", "counted the rows from 1")
def counted_from_one(weight, ids):
    return weight[ids - 1]


@mutants("embed", "columns of the table")
def columns(weight, ids):
    return weight.T[ids]


@mutants("embed", "two dimensions are swapped")
def channels_before_tokens(weight, ids):
    return F.embedding(ids, weight).transpose(1, 2)


@mutants("embed", "changed its input `weight` in place")
def renormed(weight, ids):
    return F.embedding(ids, weight, max_norm=1.0)


@mutants("embed", "added the token's position")
def positions_added(weight, ids):
    return weight[ids] + torch.arange(ids.shape[1]).view(1, -1, 1)


@mutants("embed", "same numbers for different inputs")
def hard_coded(weight, ids):
    """Knows the answers to the checks that a student sees, by their sizes."""
    _, check, cases = asked("1A.embed", 0)
    known = {case.inputs[0].shape + case.inputs[1].shape: check.right(*case.inputs) for case in [*cases, *check.cases(Draw(0))]}
    return known.get(weight.shape + ids.shape, torch.zeros(*ids.shape, weight.shape[1]))


@mutants("place_images", "changed its input `x` in place")
def overwritten(x, image_embeds, image_mask):
    x[image_mask] = image_embeds
    return x


@mutants("place_images", "anew with the first image in every sequence")
def filled_per_row(x, image_embeds, image_mask):
    x = x.clone()
    for b in range(len(x)):
        x[b, image_mask[b]] = image_embeds[: int(image_mask[b].sum())]
    return x


@mutants("place_images", "one sequence after the other")
def tokens_first(x, image_embeds, image_mask):
    out, k = x.clone(), 0
    for t in range(x.shape[1]):
        for b in range(x.shape[0]):
            if image_mask[b, t]:
                out[b, t] = image_embeds[k]
                k += 1
    return out


@mutants("place_images", "it takes the place")
def added(x, image_embeds, image_mask):
    x = x.clone()
    x[image_mask] += image_embeds
    return x


@mutants("place_images", "token t the image number t")
def broadcast(x, image_embeds, image_mask):
    return torch.where(image_mask.unsqueeze(-1), image_embeds, x)


@mutants("place_images", "one too far: the first place gets image 0")
def place_count_from_one(x, image_embeds, image_mask):
    nth = image_mask.flatten().cumsum(0).view(image_mask.shape) % max(len(image_embeds), 1)
    return torch.where(image_mask[..., None], image_embeds[nth], x) if len(image_embeds) else x


@mutants("place_images", "False places")
def mask_inverted(x, image_embeds, image_mask):
    return x.masked_scatter(~image_mask.unsqueeze(-1), image_embeds)


@mutants("to_streams", "divided x among the streams")
def shared_out(x, streams):
    return x.unsqueeze(2).repeat(1, 1, streams, 1) / streams


@mutants("to_streams", "cut the channels")
def cut(x, streams):
    return x.view(*x.shape[:2], streams, -1)


@mutants("to_streams", "two dimensions are swapped")
def streams_before_tokens(x, streams):
    return torch.stack([x] * streams, dim=1)


@mutants("to_streams", "repeated the tokens")
def tangled(x, streams):
    return torch.cat([x] * streams, dim=1).reshape(x.shape[0], x.shape[1], streams, x.shape[2])


@mutants("to_streams", "always make four streams")
def four_streams(x, streams):
    return torch.stack([x, x, x, x], dim=2)


@mutants("to_streams", "first stream alone")
def one_stream_filled(x, streams):
    out = torch.zeros(*x.shape[:2], streams, x.shape[2], dtype=x.dtype)
    out[:, :, 0] = x
    return out


@mutants("first_mix", "mixed all streams alike")
def uniform(batch, tokens, streams):
    return torch.ones(batch, tokens, streams) / streams


@mutants("first_mix", "its numbers are int64")
def whole_numbers(batch, tokens, streams):
    return F.one_hot(torch.zeros(batch, tokens, dtype=torch.long), streams)


@mutants("first_mix", "only the first token")
def first_token_only(batch, tokens, streams):
    mix = torch.zeros(batch, tokens, streams)
    mix[:, 0, 0] = 1
    return mix


@mutants("first_mix", "1 dimensions instead of 3")
def one_token_for_all(batch, tokens, streams):
    return torch.tensor([1.0] + [0.0] * (streams - 1))


@mutants("first_mix", "moves on from token to token")
def identity(batch, tokens, streams):
    return torch.eye(tokens, streams).repeat(batch, 1, 1)
