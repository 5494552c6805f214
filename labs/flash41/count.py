"""`flash41 count`: parameters, active parameters and bytes of the release, counted on a model that has shapes and no memory.

The vision tower is not part of this package; its figure is computed from its shapes and labelled so.
Sources: the census of the release's shard headers; report §4.2.1 for "8B" and "16B" active.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from math import prod

import torch

from .config import Config
from .formats import E2M1_E8M0
from .model import Model

GROUPS = {  # the first pattern that is found in a parameter's name decides
    "DSpark": r"^mtp\.",
    "Engram tables": r"engram\.embed",
    "Engram projections": r"engram",
    "routed experts": r"ffn\.experts",
    "shared experts": r"shared_experts",
    "routers": r"ffn\.gate",
    "indexers": r"indexer",
    "compressors": r"compressor",
    "mHC": r"\.hc_",
    "embed, head": r"^(embed|head)\.",
    "norms": r"(attn_norm|ffn_norm|^norm)\.",
    "attention": r"\.attn\.",
}
FP8 = r"attn\.(wq_a|wq_b|wkv|wo_a|wo_b)|indexer\.wq_b|shared_experts|engram\.(wkv|embed)|main_proj"
F32 = r"hc_|attn_sink|gate\.bias"


def shapes(config: Config) -> dict[str, torch.Size]:
    """Shape of every parameter under its released name. Experts of a layer are alike, so two of them stand for all."""
    small = {"n_routed_experts": 2, "num_experts_per_tok": 1, "dspark_n_routed_experts": 2, "dspark_num_experts_per_tok": 1}
    return {name: p.shape for name, p in Model(config.replace(**small), device="meta").named_parameters()}


def copies(name: str, config: Config) -> int:
    """How many parameters of the full model one parameter of `shapes` stands for."""
    if "ffn.experts." not in name:
        return 1
    experts = config.dspark_n_routed_experts if name.startswith("mtp.") else config.n_routed_experts
    return experts if ".experts.0." in name else 0


def true_shape(name: str, shape, config: Config) -> tuple[int, ...]:
    """Routers were built for two experts; here they get their rows back."""
    if "ffn.gate" not in name:
        return tuple(shape)
    return (config.dspark_n_routed_experts if name.startswith("mtp.") else config.n_routed_experts, *shape[1:])


def table(config: Config) -> list[tuple[str, tuple[int, ...], int]]:
    """(name, shape, copies) of every kind of parameter."""
    return [(name, true_shape(name, shape, config), n) for name, shape in shapes(config).items() if (n := copies(name, config))]


def groups(rows) -> dict[str, int]:
    """Parameters per group."""
    found = Counter()
    for name, shape, n in rows:
        found[next(group for group, pattern in GROUPS.items() if re.search(pattern, name))] += n * prod(shape)
    return dict(found)


def vision(hidden: int = 5120) -> int:
    """Vision tower, aligner and delimiters, by formula: 32 layers of width 1024, patches of 14 x 14 x 3, three delimiters."""
    width, inner, patch, merged = 1024, 2816, 14 * 14 * 3, 1024 * 9
    layer = (width + 1) * 4 * width + 3 * width * inner + 2 * width
    return (patch + 1) * width + 32 * layer + width + (merged + 1) * hidden + (hidden + 1) * hidden + 3 * hidden


def active(rows, config: Config) -> dict[str, int]:
    """Matrix parameters that one token passes through (norms, biases, tables and vectors left out), in prefill and decode."""
    decoder = config.compress_ratios.index(1)

    def size(name: str, shape, n: int, last: int) -> int:
        layer = re.match(r"layers\.(\d+)\.", name)
        if len(shape) < 2 or not layer or "engram.embed" in name or "engram.q_" in name or "engram.k_" in name:
            return 0
        if int(layer[1]) >= last:
            return 0
        return prod(shape) * (config.num_experts_per_tok if "ffn.experts" in name else n)

    encoder = sum(size(*row, decoder) for row in rows)
    writes = sum(prod(shape) for name, shape, _ in rows if re.match(rf"layers\.{decoder}\.attn\.(compressor\.wkv|indexer\.wk)\.", name))
    body = sum(size(*row, config.num_hidden_layers) for row in rows)
    head = config.vocab_size * config.hidden_size
    return {"encoder layers": encoder, "prefill": encoder + writes, "layers": body, "decode": body + head}


def disk_bytes(rows, vision_parameters: int) -> dict[str, int]:
    """Bytes of the checkpoint: FP4 experts, FP8 linears and tables, a scale byte per 32 or per 32 x 32, BF16, F32."""
    found = Counter()
    for name, shape, n in rows:
        count = prod(shape)
        if "ffn.experts" in name:
            found["FP4"] += n * count // 2
            found["E8M0"] += n * count // 32
        elif re.search(FP8, name):
            found["FP8"] += count
            found["E8M0"] += count // 32 if "engram.embed" in name else prod(-(-side // 32) for side in shape)
        else:
            found["F32" if re.search(F32, name) else "BF16"] += (4 if re.search(F32, name) else 2) * count
    found["BF16"] += 2 * vision_parameters
    return dict(found)


def summary(config: Config) -> dict:
    """All figures as one JSON-ready object."""
    rows = table(config)
    by_group = groups(rows) | {"vision (by formula)": vision(config.hidden_size)}
    backbone = sum(n for group, n in by_group.items() if group not in ("DSpark", "Engram tables"))
    expert = 3 * config.hidden_size * config.moe_intermediate_size
    size = disk_bytes(rows, by_group["vision (by formula)"])
    return {
        "groups": by_group, "backbone": backbone, "total": sum(by_group.values()), "active": active(rows, config),
        "bytes": size, "total bytes": sum(size.values()),
        "one expert": {"parameters": expert, "bytes": expert * E2M1_E8M0.row_bytes(32) // 32},
    }  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def main(args: argparse.Namespace) -> int:
    """Print the figures of the released configuration."""
    found = summary(Config.flash())
    if args.json:
        print(json.dumps(found, indent=2))
        return 0
    lines = [*found["groups"].items(), ("backbone (no tables, no drafter)", found["backbone"]), ("all", found["total"])]
    lines += [(f"active, {name}", n) for name, n in found["active"].items()]
    lines += [(f"bytes, {name}", n) for name, n in found["bytes"].items()] + [("bytes, all", found["total bytes"])]
    for name, n in lines:
        print(f"{name:<34}{n:>20,}")
    return 0
