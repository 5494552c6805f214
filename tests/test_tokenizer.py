"""Text to ids and back, and the file that says how."""

import json
import lzma
import random
import sys
import unicodedata
from pathlib import Path

import pytest
import torch

from flash41.tokenizer import DEFAULT, WORDS, Tokenizer

sys.path.append(str(Path(__file__).parents[1] / "tools"))
from train_tokenizer import learn, write

LINE = "HAMLET.\nTo be, or not to be: that is the question:"
TOKENS = ["H", "AM", "L", "ET", ".", "\nTo", " be", ",", " or", " not", " to", " be", ":", " that", " is", " the", " qu", "est",
          "ion", ":"]  # fmt: skip
IDS = [72, 685, 76, 547, 46, 436, 306, 44, 538, 325, 289, 306, 58, 330, 326, 267, 593, 395, 399, 58]


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.load()


@pytest.fixture(scope="module")
def validation():
    return lzma.open(DEFAULT.with_name("validation.txt.xz"), "rt", encoding="utf-8").read()


def test_a_line_of_hamlet_has_these_ids(tokenizer):
    assert tokenizer.encode(LINE) == IDS
    assert [tokenizer.token_bytes(index).decode() for index in IDS] == TOKENS


def test_the_file_holds_1024_different_tokens(tokenizer):
    tokens = json.loads(DEFAULT.read_text(encoding="utf-8"))["tokens"]
    assert len(tokens) == len(set(tokens)) == tokenizer.vocab_size == 1024
    assert tokens[-2:] == ["<pad>", "<noise>"] and (tokenizer.pad_id, tokenizer.noise_id) == (1022, 1023)
    assert DEFAULT.stat().st_size < 10_000


def test_both_texts_are_plain_lines_without_a_trace_of_markup(validation):
    train = lzma.open(DEFAULT.with_name("train.txt.xz"), "rt", encoding="utf-8").read()
    assert len(train) > 4_000_000 and 150_000 < len(validation) < 250_000
    for text in (train, validation):
        assert text.isascii() and text.endswith("\n") and "\n\n\n\n" not in text
        assert not set(text) & set("\r\t\\_*#<>|@$`{}~=") and not any(line != line.strip() for line in text.splitlines())
    assert validation.startswith("Macbeth\n\nACT I\n") and "\n\n\nTwelfth Night\n\nACT I\n" in validation
    assert "MACBETH.\n" not in train and "MALVOLIO.\n" not in train


def test_validation_text_comes_back_and_a_token_holds_more_than_two_bytes(tokenizer, validation):
    ids = tokenizer.encode(validation)
    assert tokenizer.decode(ids) == tokenizer.decode(torch.tensor(ids)) == validation
    assert len(validation) / len(ids) > 2.4


@pytest.mark.parametrize("text", ["", " ", "\n\n\n", "\r\n\t x", "_under_score__", "x=3.14",
                                  "Đây là tiếng Việt", "中文，句號。", "👩\u200d👧 e\u0301",
                                  "\0\x7f\u200b\u2028\ufffd", "<pad><noise>", "'tis o'er ''", "١٢٣ ½ ﬁ"])  # fmt: skip
def test_any_text_comes_back(tokenizer, text):
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text and max(ids, default=0) < 1022
    assert "".join(WORDS.findall(text)) == text


def test_a_thousand_random_texts_come_back(tokenizer):
    draw = random.Random(0)
    legal = [chr(point) for point in range(0x30000) if unicodedata.category(chr(point)) != "Cs"]
    alphabet = [*" \n'ab.\t" * 20_000, *legal]
    for _ in range(1000):
        text = "".join(draw.choices(alphabet, k=30))
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_a_space_or_line_feed_before_a_word_belongs_to_it():
    assert WORDS.findall("I mark'd\nAnd,  so\n\nHAMLET.\n12 x") == [
        "I", " mark'd", "\nAnd", ",", " ", " so", "\n", "\nHAMLET", ".", "\n1", "2", " x"]  # fmt: skip


def test_encoding_in_pieces_cut_between_words_gives_the_same_ids(tokenizer, validation):
    words = WORDS.findall(validation[:20_000])
    assert sum((tokenizer.encode(word) for word in words), []) == tokenizer.encode(validation[:20_000])


def test_compressed_ids_ignore_case_and_outer_space_but_keep_broken_characters_apart(tokenizer):
    compressed = tokenizer.token_map()
    assert compressed.dtype == torch.int64 and compressed.shape == (1024,)
    assert compressed.unique().tolist() == list(range(tokenizer.compressed_size)) and tokenizer.compressed_size == 762
    alike = [tokenizer.ids[token] for token in (b" the", b"\nThe")]
    assert compressed[alike].unique().numel() == 1
    assert compressed[128:256].unique().numel() == 128 and compressed[1022] != compressed[1023]


def test_bad_ids_and_bad_texts_are_refused(tokenizer):
    for index in (-1, 1024):
        with pytest.raises(ValueError, match=f"id = {index}: must be 0 … 1023"):
            tokenizer.decode([5, index])
    with pytest.raises(TypeError):
        tokenizer.token_bytes(1.0)
    with pytest.raises(TypeError, match="needs a str, got bytes"):
        tokenizer.encode(b"bytes")
    with pytest.raises(ValueError, match="half a surrogate pair"):
        tokenizer.encode("a\ud800")
    assert tokenizer.decode([255]) == "\ufffd"


@pytest.mark.parametrize("content, reason", [
    ("{", "Expecting"),
    ("[]", "indices"),
    ('{"merges": []}', "tokens"),
    ('{"tokens": ["a"]}', "1 tokens, must be 1024"),
    (json.dumps({"tokens": [3]}), "encode"),
    (json.dumps({"tokens": ["\u4e2d"]}), "latin-1"),
    (json.dumps({"tokens": ["a"] * 1024}), "first 256"),
    (json.dumps({"tokens": [chr(i) for i in range(256)] + ["ab"] * 768}), "last 2 must be <pad>, <noise>"),
    (json.dumps({"tokens": [chr(i) for i in range(256)] + ["ab"] * 766 + ["<pad>", "<noise>"]}), "765 of them appear twice"),
])  # fmt: skip
def test_a_broken_file_is_named_with_the_reason(tmp_path, content, reason):
    path = tmp_path / "broken.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=f"broken.json is not a vocabulary.*{reason}"):
        Tokenizer.load(path)


def test_learning_merges_takes_the_most_frequent_neighbours_first_and_is_repeatable(validation):
    assert learn("aab aab aab ab")[256:] == [b"ab", b"aab", b" aab", b"<pad>", b"<noise>"]
    text = validation[:30_000]
    first, second = learn(text, size=400), learn(text, size=400)
    assert first == second and len(set(first)) == 400 and first[-2:] == [b"<pad>", b"<noise>"]


def test_a_learned_vocabulary_survives_its_file(validation, tmp_path):
    tokens = learn(validation[:100_000])
    write(tokens, tmp_path / "own.json")
    own = Tokenizer.load(tmp_path / "own.json")
    assert own.tokens == tokens and own.decode(own.encode(LINE)) == LINE


@pytest.mark.slow
def test_the_vocabulary_is_what_the_training_text_teaches():
    text = lzma.open(DEFAULT.with_name("train.txt.xz"), "rt", encoding="utf-8").read()
    assert learn(text) == Tokenizer.load().tokens
