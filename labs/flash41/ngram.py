"""Interpolated modified Kneser-Ney: what counting alone can predict, the yardstick for the small trained model.

    p_n(w | h) = max(c(hw) - D(c(hw)), 0) / c(h·)  +  gamma(h) p_n-1(w | h')        h' = h without its oldest token
    gamma(h)   = (D1 N1(h·) + D2 N2(h·) + D3 N3+(h·)) / c(h·)                       p_0 = 1 / V
    Y = n1 / (n1 + 2 n2),   D_k = k - (k + 1) Y n_k+1 / n_k   for k = 1, 2, 3 (D3 for all counts from 3 on)

c is the count of an n-gram at the longest order and, below it, the number of different tokens seen before the n-gram.
n_k: n-grams with c = k. N_k(h·): those of them that begin with h. Where h was never seen, p_n = p_n-1.
Letters: n tokens of text, V vocabulary.
Source: Chen & Goodman 1998, "An empirical study of smoothing techniques", §3; the lowest order mixes with 1 / V as KenLM does.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

FALLBACK = np.array([0.0, 0.5, 1.0, 1.5])  # discounts where the counts of counts are too few to compute them, as in KenLM


class Level(NamedTuple):
    """One order: sorted n-gram keys with (c - D) / c(h·), sorted context keys with gamma."""

    grams: np.ndarray
    share: np.ndarray
    contexts: np.ndarray
    gamma: np.ndarray
    discounts: np.ndarray


class KneserNey:
    """`KneserNey(order, vocab_size).fit(ids).log_prob(ids)`. An n-gram is one int64: its ids side by side, oldest first."""

    def __init__(self, order: int, vocab_size: int):
        """order: longest n-gram, in tokens. ValueError where an n-gram of that length doesn't fit into 63 bits."""
        for name, value in (("order", order), ("vocab_size", vocab_size)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name} = {value!r}: must be a positive integer")
        self.order, self.vocab_size, self.bits = order, vocab_size, max(1, (vocab_size - 1).bit_length())
        if order * self.bits > 63:
            raise ValueError(f"order = {order}: must be at most {63 // self.bits}, {self.bits} bits per id have to fit into 63")
        self.levels: list[Level] = []

    def fit(self, ids: Iterable[int]) -> KneserNey:
        """Count a training text, ids [n], and keep one table per order. Returns itself. ValueError if the text is empty."""
        ids = self.check(ids)
        if not len(ids):
            raise ValueError("fit needs at least one token")
        longest = min(self.order, len(ids))  # a shorter text has no longer n-grams
        levels = [self.level(*np.unique(self.keys(ids, longest), return_counts=True))]
        for size in range(longest - 1, 0, -1):
            kinds = np.unique(self.keys(ids, size + 1))
            levels.append(self.level(*np.unique(kinds & self.mask(size), return_counts=True)))
        self.levels = levels[::-1]
        return self

    def level(self, grams: np.ndarray, counts: np.ndarray) -> Level:
        """The table of one order from its n-gram keys, sorted, and their counts, [kinds] each."""
        discounts = chen_goodman(counts)
        taken = discounts[np.minimum(counts, 3)]                                 # [kinds]
        contexts, first = np.unique(grams >> self.bits, return_index=True)       # [contexts]
        totals = np.add.reduceat(counts, first)                                  # [contexts]
        gamma = np.add.reduceat(taken, first) / totals                           # [contexts]
        spread = np.repeat(totals, np.diff(np.append(first, len(grams))))        # [kinds]
        return Level(grams, (counts - taken) / spread, contexts, gamma, discounts)

    def log_prob(self, ids: Iterable[int]) -> np.ndarray:
        """ln p of each token given up to order - 1 before it; the first token has none.  ids [n] -> float64 [n], in nats."""
        if not self.levels:
            raise ValueError("log_prob needs a fitted model: call fit(ids) first")
        ids = self.check(ids)
        p = np.full(len(ids), 1 / self.vocab_size)                               # [n]
        for size, level in enumerate(self.levels[: len(ids)], start=1):
            keys = self.keys(ids, size)                                          # [n - size + 1]
            gamma = look_up(level.contexts, level.gamma, keys >> self.bits, absent=1.0)
            p[size - 1 :] = look_up(level.grams, level.share, keys, absent=0.0) + gamma * p[size - 1 :]
        return np.log(p)

    def check(self, ids: Iterable[int]) -> np.ndarray:
        """ids as int64 [n]. ValueError names the first id outside the vocabulary, or a shape that is no row of integers."""
        row = np.asarray(ids if hasattr(ids, "__len__") else list(ids))
        if row.ndim != 1 or (row.size and row.dtype.kind not in "iu"):
            raise ValueError(f"ids: must be one row of integers, got shape {row.shape} of {row.dtype}")
        wrong = np.flatnonzero((row < 0) | (row >= self.vocab_size))
        if wrong.size:
            raise ValueError(f"ids[{wrong[0]}] = {row[wrong[0]]}: must be 0 … {self.vocab_size - 1}")
        return row.astype(np.int64)

    def keys(self, ids: np.ndarray, size: int) -> np.ndarray:
        """Key of every n-gram of `size` tokens.  ids [n] -> int64 [n - size + 1]."""
        keys = np.zeros(len(ids) - size + 1, dtype=np.int64)
        for place in range(size):
            keys = keys << self.bits | ids[place : place + len(keys)]
        return keys

    def mask(self, size: int) -> int:
        """Bits of the newest `size` tokens of a key."""
        return (1 << size * self.bits) - 1


def chen_goodman(counts: np.ndarray) -> np.ndarray:
    """[0, D1, D2, D3] from the counts of one order; FALLBACK where a count of counts is zero or a discount leaves 0 … k."""
    n1, n2, n3, n4 = (int((counts == k).sum()) for k in (1, 2, 3, 4))
    if not (n1 and n2 and n3 and n4):
        return FALLBACK
    y = n1 / (n1 + 2 * n2)
    found = np.array([0, 1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3])
    return found if ((found >= 0) & (found <= np.arange(4))).all() else FALLBACK


def look_up(keys: np.ndarray, values: np.ndarray, wanted: np.ndarray, absent: float) -> np.ndarray:
    """values[i] where keys[i] == wanted, `absent` where no key is.  keys, values [k] sorted by key, wanted [n] -> [n]."""
    place = np.searchsorted(keys, wanted).clip(max=len(keys) - 1)
    return np.where(keys[place] == wanted, values[place], absent)


def nats_per_byte(log_probs: np.ndarray, text: str) -> float:
    """Mean loss in nats per UTF-8 byte of `text`, whatever the tokens: comparable between tokenizers and with models."""
    size = len(text.encode("utf-8"))
    if not size:
        raise ValueError("nats_per_byte needs a text of at least one byte")
    return float(-np.sum(log_probs) / size)
