"""Byte-level BPE with 1,024 ids: how text becomes the numbers that the small trained model reads.

    ids 0 … 255      the bytes            every text has an encoding, whatever its script
    ids 256 … 1021   merged byte strings  in the order in which they were learned from the training text
    ids 1022, 1023   <pad>, <noise>       never made from text; <noise> fills the drafter's open places

A text is cut into words first (a leading space or line feed belongs to its word), then every word is merged on its own: of all
neighbours whose joined bytes are a token, the pair with the lowest id goes first. Source: Sennrich et al. 2016 (BPE); the
cutting before merging and the byte alphabet follow GPT-2. The merges are learned by tools/train_tokenizer.py.
"""

from __future__ import annotations

import json
import lzma
import operator
import re
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor

from .engram import compress_vocabulary

VOCAB_SIZE = 1024
SPECIAL = ("<pad>", "<noise>")
DEFAULT = Path(__file__).with_name("weights") / "tokenizer.json"
LETTER = r"[^\W\d_]"
WORDS = re.compile(
    rf"[ \n]?{LETTER}+(?:'{LETTER}+)*"  # a word, with apostrophes inside: " mark'd"
    r"|[ \n]?\d"                        # one digit
    r"|[ \n]?[^\w\s]+"                  # punctuation
    r"|\s+(?!\S)"                       # white space, but the last one before a word belongs to that word
    r"|[\s\S]"                          # the rest, one character each: with this no text is lost
)  # fmt: skip


class Tokenizer:
    """Text to ids and back. `Tokenizer.load()` reads the course's vocabulary of 1,024 ids."""

    def __init__(self, tokens: list[bytes]):
        """tokens: the bytes of every id, special tokens last. ValueError unless 256 bytes come first and no two are alike."""
        if tokens[:256] != [bytes([value]) for value in range(256)]:
            raise ValueError("tokens: the first 256 must be the single bytes 0 … 255 in order")
        if [token.decode("latin-1") for token in tokens[-len(SPECIAL) :]] != list(SPECIAL):
            raise ValueError(f"tokens: the last {len(SPECIAL)} must be {', '.join(SPECIAL)}")
        self.tokens, self.pad_id, self.noise_id = list(tokens), len(tokens) - 2, len(tokens) - 1
        self.ids = {token: index for index, token in enumerate(tokens[: -len(SPECIAL)])}
        if len(self.ids) != len(tokens) - len(SPECIAL):
            raise ValueError(f"tokens: {len(tokens) - len(SPECIAL) - len(self.ids)} of them appear twice")
        self.known: dict[str, list[int]] = {}

    @classmethod
    def load(cls, path: str | Path | None = None) -> Tokenizer:
        """Read a vocabulary file. ValueError names the file if it is not JSON, or not 1,024 strings made of bytes."""
        path = DEFAULT if path is None else Path(path)
        try:
            texts = json.loads(path.read_text(encoding="utf-8"))["tokens"]
            tokens = [text.encode("latin-1") for text in texts]
            if len(tokens) != VOCAB_SIZE:
                raise ValueError(f"{len(tokens)} tokens, must be {VOCAB_SIZE}")
            return cls(tokens)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} is not a vocabulary of this tokenizer: {error}") from error

    @property
    def vocab_size(self) -> int:
        """Number of ids."""
        return len(self.tokens)

    @property
    def compressed_size(self) -> int:
        """Number of different compressed ids, what `engram_compressed_vocab_size` has to be."""
        return int(self.token_map().max()) + 1

    def encode(self, text: str) -> list[int]:
        """Ids of a text; no special tokens. TypeError if it is not a str, ValueError if it holds half a surrogate pair."""
        if not isinstance(text, str):
            raise TypeError(f"encode needs a str, got {type(text).__name__}")
        if len(self.known) > 100_000:  # words remembered: what an endless stream of new ones may cost
            self.known.clear()
        ids: list[int] = []
        for word in WORDS.findall(text):
            if word not in self.known:
                self.known[word] = self.merge(word)
            ids += self.known[word]
        return ids

    def merge(self, word: str) -> list[int]:
        """Ids of one word: join the neighbours whose joined bytes have the lowest id, until none are left."""
        try:
            parts = [bytes([value]) for value in word.encode("utf-8")]
        except UnicodeEncodeError as error:
            raise ValueError(f"encode: {word!r} holds half a surrogate pair, which UTF-8 cannot write") from error
        while True:
            joined = [left + right for left, right in zip(parts, parts[1:], strict=False)]
            best = min(joined, key=lambda token: self.ids.get(token, VOCAB_SIZE), default=b"")
            if best not in self.ids:
                return [self.ids[part] for part in parts]
            parts = join(parts, best)

    def token_bytes(self, index: int) -> bytes:
        """Bytes of one id; a special token's are its name. ValueError if there is no such id, TypeError if it is no integer."""
        index = operator.index(index)
        if not 0 <= index < self.vocab_size:
            raise ValueError(f"id = {index}: must be 0 … {self.vocab_size - 1}")
        return self.tokens[index]

    def decode(self, ids: Iterable[int] | Tensor) -> str:
        """Text of a row of ids; bytes that are no UTF-8 become U+FFFD. ValueError if an id does not exist."""
        ids = ids.tolist() if isinstance(ids, Tensor) else ids
        return b"".join(map(self.token_bytes, ids)).decode("utf-8", errors="replace")

    def token_map(self) -> Tensor:
        """Compressed Engram id of every token: those that differ only in case, accents or outer space share one.  int64 [V]."""
        texts = [token.decode("utf-8", errors="replace") for token in self.tokens]
        return torch.tensor(compress_vocabulary(texts, [token.decode("latin-1") for token in self.tokens]))


def join(parts: list[bytes], token: bytes) -> list[bytes]:
    """Put neighbours together, from left to right, wherever their joined bytes are `token`."""
    joined, place = [], 0
    while place < len(parts):
        two = place + 1 < len(parts) and parts[place] + parts[place + 1] == token
        joined.append(token if two else parts[place])
        place += 1 + two
    return joined


def corpus(split: str) -> str:
    """The course's text: "train" or "validation". ValueError for another name."""
    if split not in ("train", "validation"):
        raise ValueError(f"split = {split!r}, must be 'train' or 'validation'")
    return lzma.decompress(DEFAULT.with_name(f"{split}.txt.xz").read_bytes()).decode("utf-8")
