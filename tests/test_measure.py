"""Percentiles, sample counts and conditions stay together."""

import time

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
    with measure.threads(2):
        with pytest.raises(RuntimeError), measure.threads(1):
            assert torch.get_num_threads() == 1
            raise RuntimeError
        assert torch.get_num_threads() == 2


def test_nothing_to_time_is_refused():
    with pytest.raises(ValueError, match="rounds = 0"):
        measure.measure(lambda: None, rounds=0)


def test_a_negative_warm_up_is_refused_and_does_not_eat_rounds():
    with pytest.raises(ValueError, match="warmup = -3"):
        measure.measure(lambda: None, rounds=5, warmup=-3)


def test_percentiles_are_samples_and_times_are_shown_in_milliseconds():
    seven = measure.Timing(tuple(n / 1000 for n in range(1, 8)), {"batch": 1})
    assert seven.p95 == 0.007 and measure.Timing((0.25,), {}).p95 == 0.25
    assert str(seven) == "p50 4.000  p95 7.000  p99 needs n >= 100 ms, n = 7; batch 1"


def test_a_call_is_timed_from_its_start_to_its_end():
    assert 0.002 <= measure.measure(lambda: time.sleep(0.002), rounds=3).p50 < 1
