"""The golden pack as models: configurations, weights and expected values of tests/golden."""

import sys
from functools import cache
from pathlib import Path

import torch

from flash41.config import Config
from flash41.model import Model

GOLDEN = Path(__file__).parent / "golden"
sys.path.append(str(GOLDEN))
import read_pack  # noqa: E402

PACKS = ("t8", "t6", "t8-yarn-far")
PREFIX = {"t8": 41, "t6": 41, "t8-yarn-far": 112}  # tokens of row 0 that the intermediates belong to


@cache
def expected(name: str) -> dict:
    """Array name -> expected value."""
    return read_pack.golden(name)


def prompts(name: str, device="cpu") -> torch.Tensor:
    """The prompts, int64 [rows, T]."""
    ids = torch.from_numpy(expected(name)["ids"])
    return ids.reshape(-1, ids.shape[-1]).to(device)


@cache
def model(name: str, dtype=torch.float32, device="cpu") -> Model:
    """The pack's model. Shared between tests: do not change it; `fresh` gives one to break."""
    return fresh(name, dtype, device)


def fresh(name: str, dtype=torch.float32, device="cpu") -> Model:
    """The pack's model, newly built."""
    config = Config.from_json(GOLDEN / f"{name}.json")
    built = Model(config, token_map=torch.from_numpy(expected(name)["token_map"]), dtype=dtype, device=device)
    built.load_state_dict({key: torch.from_numpy(value) for key, value in read_pack.weights(name).items()})
    return built
