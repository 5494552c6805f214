"""Modified Kneser-Ney: the fast tables against the formula written out with dictionaries."""

from collections import Counter

import numpy as np
import pytest

from flash41.ngram import FALLBACK, KneserNey, chen_goodman, nats_per_byte


def zipf(n, vocab, seed=0):
    """A text with few frequent and many rare tokens, each leaning on the one before."""
    drawn = np.random.default_rng(seed).zipf(1.5, size=n) - 1
    return (drawn + np.roll(drawn, 1) // 2) % vocab


class Dictionaries:
    """The textbook formula, one probability at a time."""

    def __init__(self, ids, order, vocab):
        self.order, self.vocab, self.counts = order, vocab, {}
        grams = {size: [tuple(ids[i : i + size]) for i in range(len(ids) - size + 1)] for size in range(1, order + 1)}
        self.counts[order] = Counter(grams[order])
        for size in range(1, order):
            self.counts[size] = Counter(longer[1:] for longer in set(grams[size + 1]))
        self.discounts = {size: self.discount(counts) for size, counts in self.counts.items()}

    @staticmethod
    def discount(counts):
        n = [sum(1 for c in counts.values() if c == k) for k in range(5)]
        if 0 in n[1:]:
            return [0, 0.5, 1, 1.5]
        y = n[1] / (n[1] + 2 * n[2])
        d = [0, 1 - 2 * y * n[2] / n[1], 2 - 3 * y * n[3] / n[2], 3 - 4 * y * n[4] / n[3]]
        return d if all(0 <= d[k] <= k for k in range(4)) else [0, 0.5, 1, 1.5]

    def p(self, word, context):
        lower = self.p(word, context[1:]) if context else 1 / self.vocab
        counts, d = self.counts[len(context) + 1], self.discounts[len(context) + 1]
        after = [c for gram, c in counts.items() if gram[:-1] == context]
        if not after:
            return lower
        own = counts.get((*context, word), 0)
        gamma = sum(d[min(c, 3)] for c in after) / sum(after)
        return max(own - d[min(own, 3)], 0) / sum(after) + gamma * lower


@pytest.mark.parametrize("vocab, order", [(300, 1), (300, 2), (300, 3), (300, 5), (12, 4)])
def test_log_prob_equals_the_formula_written_with_dictionaries(vocab, order):
    train, text = zipf(1500, vocab), zipf(80, vocab, seed=1)
    slow, fast = Dictionaries(train.tolist(), order, vocab), KneserNey(order, vocab).fit(train)
    ids = text.tolist()
    expected = [slow.p(word, tuple(ids[max(0, at - order + 1) : at])) for at, word in enumerate(ids)]
    np.testing.assert_allclose(fast.log_prob(text), np.log(expected), rtol=1e-12)
    for size, level in enumerate(fast.levels, start=1):
        np.testing.assert_allclose(level.discounts, slow.discounts[size], rtol=1e-12)
    assert any(level.discounts is not FALLBACK for level in fast.levels)


@pytest.mark.parametrize("vocab, order", [(40, 5), (1024, 5), (3, 2), (1, 3)])
def test_probabilities_sum_to_one_after_seen_and_unseen_contexts(vocab, order):
    train = zipf(3000, min(vocab, 30))
    model = KneserNey(order, vocab).fit(train)
    unseen = [vocab - 1] * (order - 1)
    contexts = [[], train[:1].tolist(), train[100 : 100 + order - 1].tolist(), unseen, [*unseen[1:], int(train[7])]]
    for context in contexts:
        p = [np.exp(model.log_prob([*context, word])[-1]) for word in range(vocab)]
        assert abs(sum(p) - 1) < 1e-12 and min(p) > 0


def test_only_the_last_order_minus_one_tokens_matter_and_the_first_has_no_context():
    train = zipf(2000, 30)
    model = KneserNey(3, 30).fit(train)
    assert model.log_prob([1, 2, 0, 1, 3])[-1] == model.log_prob([0, 1, 3])[-1] == model.log_prob([9, 9, 9, 0, 1, 3])[-1]
    assert model.log_prob([4, 5])[0] == model.log_prob([4])[0]
    assert model.log_prob([]).shape == (0,)


def test_a_token_that_follows_many_others_wins_over_an_equally_frequent_one_that_follows_a_single_one():
    fixed, free = 8, 9
    train = [token for other in range(8) for token in (7, fixed, other, free)]
    model = KneserNey(2, 12).fit(train)
    assert train.count(fixed) == train.count(free)
    assert model.log_prob([11, free])[1] > model.log_prob([11, fixed])[1] + 0.5


def test_discounts_of_chen_and_goodman_by_hand():
    counts = np.array([1] * 10 + [2] * 5 + [3] * 3 + [4] * 2 + [9])
    y = 10 / (10 + 2 * 5)
    np.testing.assert_allclose(chen_goodman(counts), [0, 1 - 2 * y * 5 / 10, 2 - 3 * y * 3 / 5, 3 - 4 * y * 2 / 3])
    assert chen_goodman(np.array([1, 2, 3])) is FALLBACK  # no 4
    assert chen_goodman(np.array([1] * 10 + [2] + [3] * 9 + [4])) is FALLBACK  # D2 would be negative


def test_a_longer_context_predicts_a_repeating_text_better():
    train = np.tile([1, 2, 3, 1, 2, 4], 200)
    losses = [-KneserNey(order, 8).fit(train).log_prob(train[:60]).mean() for order in (1, 2, 4)]
    assert losses == sorted(losses, reverse=True) and losses[-1] < 0.2


def test_loss_per_byte_counts_utf8_bytes():
    assert nats_per_byte(np.array([-1.0, -2.0]), "đa") == pytest.approx(1.0)
    with pytest.raises(ValueError, match="at least one byte"):
        nats_per_byte(np.array([]), "")


def test_wrong_arguments_are_refused_at_the_door():
    with pytest.raises(ValueError, match="order = 7: must be at most 6, 10 bits per id"):
        KneserNey(7, 1024)
    with pytest.raises(ValueError, match="vocab_size = 0: must be a positive integer"):
        KneserNey(2, 0)
    with pytest.raises(ValueError, match=r"ids\[1\] = 12: must be 0 … 11"):
        KneserNey(2, 12).fit([3, 12])
    with pytest.raises(ValueError, match="row of integers"):
        KneserNey(2, 12).fit([0.5])
    with pytest.raises(ValueError, match="at least one token"):
        KneserNey(2, 12).fit([])
    with pytest.raises(ValueError, match="call fit"):
        KneserNey(2, 12).log_prob([1])
