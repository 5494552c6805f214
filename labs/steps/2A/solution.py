import torch


def sinkhorn(logits, rounds, eps):
    mix = logits.softmax(-1) + eps                                     # [..., S, S]
    mix = mix / (mix.sum(-2, keepdim=True) + eps)
    for _ in range(rounds - 1):
        mix = mix / (mix.sum(-1, keepdim=True) + eps)
        mix = mix / (mix.sum(-2, keepdim=True) + eps)
    return mix


def site_coefficients(streams, fn, base, scale, norm_eps, hc_eps):
    width = streams.shape[-2]
    flat = streams.flatten(-2)                                         # [B, T, S * D]
    numbers = flat @ fn.mT * torch.rsqrt(flat.square().mean(-1, keepdim=True) + norm_eps)  # [B, T, 2S + S*S]
    into, out, mix = numbers.split([width, width, width**2], dim=-1)
    base_into, base_out, base_mix = base.split([width, width, width**2])
    a = torch.sigmoid(into * scale[0] + base_into) + hc_eps            # [B, T, S]
    c = 2 * torch.sigmoid(out * scale[1] + base_out)                   # [B, T, S]
    return a, c, (mix * scale[2] + base_mix).unflatten(-1, (width, width))  # [B, T, S, S]


def collapse(streams, a):
    return (streams * a.unsqueeze(-1)).sum(2)                          # [B, T, D]


def write_back(streams, y, c, b):
    mixed = torch.einsum("btjk,btjd->btkd", b, streams)                # [B, T, S, D]
    return c.unsqueeze(-1) * y.unsqueeze(2) + mixed
