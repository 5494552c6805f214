"""Weights on disk: every parameter in the format in which it is used, in one safetensors file.

    routed experts     E2M1 with one E8M0 scale per 32 inputs           4.25 bits a number, as in the release
    Engram tables      E4M3 with one E8M0 scale per 32 channels          8.25 bits, as in the release
    hc_*, biases, sinks  float32                                         as in the release
    all else           bfloat16                                          the release has FP8 for most matrices

What is stored is exactly what is used: `rounded` gives the values that a parameter can have, training looks at the model through
it, and `load` gives the same values back.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from .config import Config
from .formats import E2M1_E8M0, E4M3_E8M0, BlockFormat

HOME = Path(__file__).parent / "weights"
BLOCKED = ((re.compile(r"\.ffn\.experts\.\d+\.w[123]\.weight$"), E2M1_E8M0), (re.compile(r"\.engram\.embed\.weight$"), E4M3_E8M0))
WIDE = re.compile(r"(\.hc_\w+|\.gate\.bias|\.gate\.bias_vl|\.attn_sink)$")


def storage(name: str) -> BlockFormat | torch.dtype:
    """How the parameter of that name is kept."""
    for pattern, fmt in BLOCKED:
        if pattern.search(name):
            return fmt
    return torch.float32 if WIDE.search(name) else torch.bfloat16


def rounded(name: str, values: Tensor) -> Tensor:
    """The nearest values that the parameter can have on disk, in the dtype of `values`."""
    kind = storage(name)
    return kind.roundtrip(values) if isinstance(kind, BlockFormat) else values.to(kind).to(values.dtype)


def save(model: nn.Module, path: str | Path, notes: dict[str, str] | None = None) -> None:
    """Write a model's parameters, its configuration and its token map. Raises ValueError where a value is not exactly storable."""
    tensors = {"token_map": model.token_map.to("cpu", torch.int32)}
    for name, parameter in model.named_parameters():
        values, kind = parameter.detach().cpu(), storage(name)
        if not torch.equal(rounded(name, values), values):
            raise ValueError(f"{name} holds values that its format does not: round it before saving")
        if isinstance(kind, BlockFormat):
            tensors[f"{name}.codes"], tensors[f"{name}.scales"] = kind.encode(values)
        else:
            tensors[name] = values.to(kind)
    save_file({name: t.contiguous() for name, t in tensors.items()}, path, {"config": json.dumps(model.config.to_dict())} | (notes or {}))


def read(path: str | Path) -> tuple[Config, Tensor, dict[str, Tensor], dict[str, str]]:
    """Configuration, token map [V], parameters as float32 by released name, and the notes of a file that `save` wrote.

    Raises OSError if it cannot be read, ValueError if it is something else.
    """
    try:
        with safe_open(path, "pt") as file:
            notes, stored = dict(file.metadata() or {}), {name: file.get_tensor(name) for name in file.keys()}
    except OSError:
        raise
    except Exception as error:  # the library's own error type
        raise ValueError(f"{path} is not a safetensors file: {error}") from None
    if "config" not in notes or "token_map" not in stored:
        raise ValueError(f"{path} holds no configuration and token map: not a file of this course")
    token_map, state = stored.pop("token_map").long(), {}
    for name, tensor in stored.items():
        if name.endswith(".codes"):
            base = name.removesuffix(".codes")
            state[base] = storage(base).decode(tensor, stored[f"{base}.scales"])
        elif not name.endswith(".scales"):
            state[name] = tensor.float()
    return Config(**json.loads(notes.pop("config"))), token_map, state, notes


def path_of(name: str) -> Path:
    """The file of a model that comes with the package. Raises ValueError with the names that there are."""
    path = HOME / f"{name}.safetensors"
    if not path.exists():
        raise ValueError(f"name = {name!r}, must be one of {sorted(p.stem for p in HOME.glob('*.safetensors'))}")
    return path
