"""1A. Checks of the input: embedding, image places, streams, first mix."""

from __future__ import annotations

import torch
from torch import Tensor

from .cases import Case, Check, Draw

# -- embed ---------------------------------------------------------------------------------------------------------


def embed(weight: Tensor, ids: Tensor) -> Tensor:
    return torch.stack([torch.stack([weight[row] for row in line]) for line in ids.tolist()])  # [B, T, D]


def embed_cases(draw: Draw):
    batch, tokens, vocab, width = draw.number(2, 3), draw.number(4, 6), draw.number(9, 12), draw.number(14, 17)
    ids = draw.integers(0, vocab, batch, tokens)
    ids[0, 0], ids[-1, -1] = 0, vocab - 1
    yield Case("a batch, with the first and the last id", draw.normal(vocab, width), ids)
    square = draw.number(5, 8)
    yield Case("a table as wide as it is long", draw.normal(square, square), draw.integers(0, square, batch, tokens))
    same = torch.full((batch, tokens), draw.number(1, vocab - 1))
    yield Case("the same id at every place", draw.normal(vocab, width), same)
    yield Case("one token", draw.normal(vocab, width), draw.integers(0, vocab, 1, 1))
    yield Case("float64", draw.normal(vocab, width, dtype=torch.float64), draw.integers(0, vocab, batch, tokens))


EMBED_SUSPECTS = {
    "you multiplied by the root of D, as the first transformer did: this model does not scale":
        lambda weight, ids: embed(weight, ids) * weight.shape[1] ** 0.5,
    "you divided by the root of D: this model does not scale": lambda weight, ids: embed(weight, ids) / weight.shape[1] ** 0.5,
    "you counted the rows from 1: id 0 is the first row": lambda weight, ids: embed(weight, ids - 1),
    "your rows are one too far down: id 0 is the first row": lambda weight, ids: embed(weight.roll(-1, 0), ids),
    "you picked columns of the table: an id picks a row": lambda weight, ids: embed(weight.T, ids),
    "you brought every row to length 1: it stays as it is":
        lambda weight, ids: embed(weight / weight.norm(dim=1, keepdim=True), ids),
    "you brought every row to root mean square 1: the layers norm later, the embedding stays as it is":
        lambda weight, ids: embed(weight / weight.square().mean(1, keepdim=True).sqrt(), ids),
    "you added the token's position: rows depend on the id alone":
        lambda weight, ids: embed(weight, ids) + torch.arange(ids.shape[1]).unsqueeze(1),
}

# -- place_images --------------------------------------------------------------------------------------------------


def place_images(x: Tensor, image_embeds: Tensor, image_mask: Tensor, which=lambda b, t, nth, own: nth) -> Tensor:
    """Wrong on purpose: `which` image a place gets that is token t of sequence b, the nth of all, the own-th of its sequence."""
    out, nth = x.clone(), 0
    for b, line in enumerate(image_mask.tolist()):
        for own, t in enumerate(place for place, image in enumerate(line) if image):
            out[b, t] = image_embeds[which(b, t, nth, own)]
            nth += 1
    return out


def image_cases(draw: Draw):
    tokens, width = draw.number(5, 7), draw.choice([3, 8, 9])
    half = torch.zeros(2, tokens, dtype=torch.bool)                                    # [2, T]
    half[0, -1] = half[1, 0] = half[0, 1] = half[1, 1] = True  # so that no other order is right by chance
    inner = half[:, 2:-1].flatten()                                                    # [2 * (T - 3)]
    inner[draw.shuffled(len(inner))[: tokens - 4]] = True
    half[:, 2:-1] = inner.view(2, -1)
    x = draw.normal(2, tokens, width)
    yield Case("two sequences, half of the places are images", x, draw.normal(tokens, width), half)
    span, place = torch.zeros(3, tokens, dtype=torch.bool), draw.number(1, tokens - 3)
    span[1, place : place + 2] = True
    yield Case("one span, in the second of three sequences", draw.normal(3, tokens, width), draw.normal(2, width), span)
    none, every = torch.zeros(2, tokens, dtype=torch.bool), torch.ones(2, tokens, dtype=torch.bool)
    yield Case("no image", x, draw.normal(0, width), none)
    yield Case("nothing but images", x, draw.normal(2 * tokens, width), every)
    yield Case("one token, an image", draw.normal(1, 1, width), draw.normal(1, width), every[:1, :1])
    wide = draw.normal(2, tokens, width, dtype=torch.float64)
    yield Case("float64", wide, draw.normal(2, width, dtype=torch.float64), span[:2])


IMAGE_SUSPECTS = {
    "you began anew with the first image in every sequence: the places are counted on through the whole batch":
        lambda x, images, mask: place_images(x, images, mask, lambda b, t, nth, own: own),
    "you went through the tokens first: count the places of one sequence after the other":
        lambda x, images, mask: place_images(x.transpose(0, 1), images, mask.T).transpose(0, 1),
    "you gave token t the image number t: the first True place gets image 0, the next image 1 …":
        lambda x, images, mask: place_images(x, images, mask, lambda b, t, nth, own: t),
    "you gave sequence b the image number b: every True place gets an image of its own":
        lambda x, images, mask: place_images(x, images, mask, lambda b, t, nth, own: b),
    "you put the first image at every place: every place gets its own, in order":
        lambda x, images, mask: place_images(x, images, mask, lambda b, t, nth, own: 0),
    "your images are one too far: the first place gets image 0":
        lambda x, images, mask: place_images(x, images.roll(-1, 0), mask),
    "you took the images from the last one on: they go in order":
        lambda x, images, mask: place_images(x, images.flip(0), mask),
    "your places are one too far to the right": lambda x, images, mask: place_images(x, images, mask.roll(1, 1)),
    "your places are one too far to the left": lambda x, images, mask: place_images(x, images, mask.roll(-1, 1)),
    "you filled the False places: images go where the mask is True": lambda x, images, mask: place_images(x, images, ~mask),
    "you added the image to what stood there: it takes the place":
        lambda x, images, mask: place_images(x, images, mask) + x * mask.unsqueeze(-1),
    "you emptied everything that is no image: x stays there":
        lambda x, images, mask: place_images(torch.zeros_like(x), images, mask),
    "no image was placed": lambda x, images, mask: x,
}

# -- to_streams ----------------------------------------------------------------------------------------------------


def to_streams(x: Tensor, streams: int) -> Tensor:
    return torch.stack([x for _ in range(streams)], dim=2)                             # [B, T, S, D]


def stream_cases(draw: Draw):
    batch, tokens, width = draw.number(2, 3), draw.number(5, 7), draw.choice([8, 12])
    yield Case("four streams", draw.normal(batch, tokens, width), 4)
    yield Case("two streams", draw.normal(batch, tokens, width), 2)
    yield Case("as many streams as tokens", draw.normal(batch, tokens, width), tokens)
    yield Case("one stream", draw.normal(batch, tokens, width), 1)
    yield Case("one token", draw.normal(1, 1, width), draw.number(3, 5))
    yield Case("float64", draw.normal(1, 3, width, dtype=torch.float64), 4)


STREAM_SUSPECTS = {
    "you divided x among the streams: each of them holds all of it": lambda x, streams: to_streams(x, streams) / streams,
    "you filled the first stream alone: all of them hold x":
        lambda x, streams: to_streams(x, streams) * first_mix(*x.shape[:2], streams).unsqueeze(-1),
    "you cut the channels into streams: every stream has all D of them": lambda x, streams: x.unflatten(-1, (streams, -1)),
    "you always make four streams: use the argument": lambda x, streams: to_streams(x, 4),
    "you repeated every channel: the vector is repeated as a whole":
        lambda x, streams: x.repeat_interleave(streams, -1).view(*x.shape[:2], streams, -1),
    "you repeated the tokens and cut anew, so that a token's streams hold other tokens: copy along a dimension of its own":
        lambda x, streams: x.repeat(1, streams, 1).view(*x.shape[:2], streams, -1),
    "you repeated the batch and cut anew, so that a token's streams hold other tokens: copy along a dimension of its own":
        lambda x, streams: x.repeat(streams, 1, 1).view(*x.shape[:2], streams, -1),
    "your streams hold the mean of all tokens: each token keeps its own vector":
        lambda x, streams: to_streams(x.mean(1, keepdim=True).expand_as(x), streams),
}

# -- first_mix -----------------------------------------------------------------------------------------------------


def first_mix(batch: int, tokens: int, streams: int) -> Tensor:
    one = [1.0] + [0.0] * (streams - 1)
    return torch.tensor([[one] * tokens] * batch, dtype=torch.float64)                 # [B, T, S]


def mix_cases(draw: Draw):
    batch, tokens = draw.number(2, 3), draw.number(5, 7)
    yield Case("four streams", batch, tokens, 4)
    yield Case("two streams", draw.number(4, 5), draw.number(6, 8), 2)
    yield Case("as many streams as tokens", batch, tokens, tokens)
    yield Case("one stream", batch, tokens, 1)
    yield Case("one token", 1, 1, draw.number(3, 5))


MIX_SUSPECTS = {
    "you mixed all streams alike: the first mix is 1 at the first stream and 0 at the others":
        lambda b, t, s: torch.full((b, t, s), 1 / s),
    "yours is 1 everywhere: only the first stream gets 1": lambda b, t, s: torch.ones(b, t, s),
    "yours is 0 everywhere: the first stream gets 1": lambda b, t, s: torch.zeros(b, t, s),
    "your 1 stands at the last stream: it belongs to the first": lambda b, t, s: first_mix(b, t, s).flip(-1),
    "your 1 stands at the second stream: streams count from 0": lambda b, t, s: first_mix(b, t, s).roll(1, -1),
    "your 1 moves on from token to token: every token begins with stream 0":
        lambda b, t, s: torch.eye(t, s).expand(b, t, s),
    "only the first token has its 1: every token gets one":
        lambda b, t, s: first_mix(b, t, s) * (torch.arange(t) == 0).view(1, t, 1),
    "0 and 1 are exchanged": lambda b, t, s: 1 - first_mix(b, t, s),
    "you always take four streams: use the argument": lambda b, t, s: first_mix(b, t, 4),
}

CHECKS = {
    "embed": Check(embed, embed_cases, EMBED_SUSPECTS),
    "place_images": Check(place_images, image_cases, IMAGE_SUSPECTS),
    "to_streams": Check(to_streams, stream_cases, STREAM_SUSPECTS),
    "first_mix": Check(first_mix, mix_cases, MIX_SUSPECTS, tolerance=0),
}
