"""What a check is made of: seeded inputs, a plain right answer, and the wrong answers that people give."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor


class Draw:
    """Random inputs, the same for the same seed."""

    def __init__(self, seed: int):
        self.generator = torch.Generator().manual_seed(seed)

    def normal(self, *shape: int, dtype=torch.float32) -> Tensor:
        """Normal numbers of deviation 1."""
        return torch.randn(shape, generator=self.generator, dtype=torch.float64).to(dtype)

    def uniform(self, *shape: int, low: float = 0.0, high: float = 1.0) -> Tensor:
        return torch.rand(shape, generator=self.generator) * (high - low) + low

    def integers(self, low: int, high: int, *shape: int) -> Tensor:
        """Whole numbers low … high - 1, int64."""
        return torch.randint(low, high, shape, generator=self.generator)

    def number(self, low: int, high: int) -> int:
        """One whole number low … high, both included: for sizes."""
        return int(torch.randint(low, high + 1, (), generator=self.generator))

    def choice(self, options):
        return options[self.number(0, len(options) - 1)]

    def flags(self, *shape: int, chance: float = 0.5) -> Tensor:
        """bool, True with that chance."""
        return torch.rand(shape, generator=self.generator) < chance

    def shuffled(self, count: int) -> Tensor:
        """0 … count - 1 in random order, int64."""
        return torch.randperm(count, generator=self.generator)


class Case:
    """One call: what is special about it, in words, and the inputs in the order of the table; keywords by name."""

    def __init__(self, words: str, *inputs, **keywords):
        self.words, self.inputs, self.keywords = words, inputs, keywords


@dataclass(frozen=True)
class Check:
    """The check of one function.

    right: the answer, written plainly; it and the suspects get float64 in place of float32. cases: makes the inputs from a Draw,
    sizes included, so that another seed asks something else. suspects: wrong answers that people give, by what to tell them; one
    that raises is no suspect there. tolerance: of the largest number of a result; 0 is equality.
    """

    right: Callable
    cases: Callable[[Draw], Iterable[Case]]
    suspects: dict[str, Callable] = field(default_factory=dict)
    tolerance: float = 1e-5


def widened(value):
    """float64 in place of float32 and float16, inside lists and tuples too."""
    if isinstance(value, Tensor):
        return value.double() if value.dtype in (torch.float16, torch.bfloat16, torch.float32) else value.clone()
    return type(value)(widened(part) for part in value) if isinstance(value, list | tuple) else value
