"""Timings with their conditions: percentiles, the number of samples and the machine's state always travel together."""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass

import torch

P99_SAMPLES = 100  # below this a 99th percentile is the maximum under another name


@dataclass(frozen=True)
class Timing:
    """Seconds per call, and the conditions they were taken under."""

    samples: tuple[float, ...]
    conditions: dict[str, str | int]

    @property
    def n(self) -> int:
        return len(self.samples)

    @property
    def p50(self) -> float:
        return statistics.median(self.samples)

    @property
    def p95(self) -> float:
        return self._percentile(95)

    @property
    def p99(self) -> float | None:
        """None below 100 samples."""
        return self._percentile(99) if self.n >= P99_SAMPLES else None

    def _percentile(self, percent: int) -> float:
        """Nearest rank: the smallest sample with at least that share of samples at or below it."""
        rank = -(-percent * self.n // 100)
        return sorted(self.samples)[rank - 1]

    def __str__(self) -> str:
        p99 = f"{self.p99 * 1e3:.3f}" if self.p99 is not None else f"needs n >= {P99_SAMPLES}"
        return f"p50 {self.p50 * 1e3:.3f}  p95 {self.p95 * 1e3:.3f}  p99 {p99} ms, n = {self.n}; {describe(self.conditions)}"


def conditions(device: torch.device | str = "cpu", **more: str | int) -> dict[str, str | int]:
    """What a timing depends on: device, threads, versions, and what the caller adds (batch, context, cache state …)."""
    device = torch.device(device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    return {"device": f"{device.type} ({name})", "threads": torch.get_num_threads(), "torch": torch.__version__, **more}


def describe(conditions: dict[str, str | int]) -> str:
    """Conditions in one line."""
    return ", ".join(f"{key} {value}" for key, value in conditions.items())


@contextmanager
def threads(count: int):
    """Run with `count` torch threads. Comparisons use one: two on a busy machine can be slower than one."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def compare(
    functions: dict[str, Callable[[], object]], rounds: int = 9, warmup: int = 2, device="cpu", *, settle: int = 0, **more
) -> dict[str, Timing]:
    """Time several functions in turn, A B C A B C …, so that a slow moment of the machine meets all of them.

    settle: untimed calls of a function before each timed one. Functions of a few milliseconds need one: without it each meets
    the caches and the freed memory that the function before it left behind.
    Returns a Timing per name. Raises ValueError for no functions, fewer than one round, a negative warm-up or settle.
    """
    if not functions or rounds < 1 or min(warmup, settle) < 0:
        raise ValueError(f"compare needs functions, rounds >= 1, warmup >= 0 and settle >= 0, got {len(functions)} functions, "
                         f"rounds = {rounds}, warmup = {warmup}, settle = {settle}")  # fmt: skip
    device = torch.device(device)
    samples: dict[str, list[float]] = {name: [] for name in functions}
    for turn in range(warmup + rounds):
        for name, function in functions.items():
            for _ in range(settle):
                function()
            elapsed = _once(function, device)
            if turn >= warmup:
                samples[name].append(elapsed)
    found = conditions(device, **more)
    return {name: Timing(tuple(times), found) for name, times in samples.items()}


def measure(function: Callable[[], object], rounds: int = 100, warmup: int = 3, device="cpu", **more) -> Timing:
    """Time one function `rounds` times."""
    return compare({"it": function}, rounds, warmup, device, **more)["it"]


def _once(function: Callable[[], object], device: torch.device) -> float:
    _wait(device)
    start = time.perf_counter()
    function()
    _wait(device)
    return time.perf_counter() - start


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
