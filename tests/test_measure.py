"""Percentiles, sample counts and conditions stay together."""

import pytest
import torch

from flash41 import measure


def test_p99_exists_only_from_100_samples_on():
    few = measure.Timing(tuple(float(s) for s in range(99)), {})
    many = measure.Timing(tuple(float(s) for s in range(1, 101)), {})
    assert few.p99 is None and "needs n >= 100" in str(few)
    assert (many.p50, many.p95, many.p99) == (50.5, 95.0, 99.0)


def test_functions_are_timed_in_turn_and_warm_up_is_not_counted():
    calls = []
    timings = measure.compare({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, rounds=7, warmup=2, context=16)
    assert "".join(calls) == "ab" * 9
    assert timings["a"].n == timings["b"].n == 7
    assert timings["a"].conditions["context"] == 16 and timings["a"].conditions["threads"] == torch.get_num_threads()


def test_thread_count_is_restored_after_a_failure():
    before = torch.get_num_threads()
    with pytest.raises(RuntimeError), measure.threads(1):
        assert torch.get_num_threads() == 1
        raise RuntimeError
    assert torch.get_num_threads() == before


def test_nothing_to_time_is_refused():
    with pytest.raises(ValueError, match="rounds = 0"):
        measure.measure(lambda: None, rounds=0)


def test_a_negative_warm_up_is_refused_and_does_not_eat_rounds():
    with pytest.raises(ValueError, match="warmup = -3"):
        measure.measure(lambda: None, rounds=5, warmup=-3)
