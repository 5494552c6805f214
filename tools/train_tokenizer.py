"""Learns the 766 merges of the tokenizer from the training text: python tools/train_tokenizer.py (half a minute)."""
import json
import lzma
import sys
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "labs"))
from flash41.tokenizer import DEFAULT, SPECIAL, VOCAB_SIZE, WORDS, join


def learn(text: str, size: int = VOCAB_SIZE) -> list[bytes]:
    """Vocabulary of at most `size` tokens: bytes, merges, special tokens.

    Each step adds the joined neighbours that are most frequent over all words of the text, each word times its count; among
    equals the smallest byte string. It ends early when nothing is left that occurs twice.
    """
    counted = Counter(WORDS.findall(text))
    words = [[bytes([value]) for value in word.encode("utf-8")] for word in counted]
    times = list(counted.values())
    count: Counter[bytes] = Counter()                       # joined neighbours -> occurrences in the text
    where: defaultdict[bytes, set[int]] = defaultdict(set)  # joined neighbours -> words that may hold them
    for index in range(len(words)):
        tally(words, times, index, 1, count, where)
    tokens = [bytes([value]) for value in range(256)]
    while len(tokens) < size - len(SPECIAL):
        best = min(count, key=lambda token: (-count[token], token), default=b"")
        if count[best] < 2:
            break
        tokens.append(best)
        for index in where.pop(best):
            tally(words, times, index, -1, count, where)
            words[index] = join(words[index], best)
            tally(words, times, index, 1, count, where)
        del count[best]
    return tokens + [name.encode() for name in SPECIAL]


def tally(words, times, index: int, sign: int, count: Counter, where: defaultdict) -> None:
    """Add (sign 1) or take away (-1) the neighbours of one word."""
    for left, right in pairwise(words[index]):
        count[left + right] += sign * times[index]
        if sign > 0:
            where[left + right].add(index)


def write(tokens: list[bytes], path: Path = DEFAULT) -> None:
    """Vocabulary file: each token as a string whose characters U+0000 … U+00FF are its bytes, sixteen to a line."""
    shown = [json.dumps(token.decode("latin-1")) for token in tokens]
    lines = [", ".join(shown[start : start + 16]) for start in range(0, len(shown), 16)]
    path.write_text('{"tokens": [\n' + ",\n".join(lines) + "\n]}\n", encoding="utf-8")


if __name__ == "__main__":
    write(learn(lzma.open(DEFAULT.with_name("train.txt.xz"), "rt", encoding="utf-8").read()))
