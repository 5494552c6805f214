"""Breaks the model path on purpose, one line at a time, and names the test that notices: python tools/mutate.py > tests/MUTATIONS.md

Each mutation replaces one piece of text in a copy of the package and runs the tests of the path until the first failure.
A mutation that no test notices is printed as SURVIVED and makes the exit status 1.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = ["tests/test_formats.py", "tests/test_blocks.py", "tests/test_cache.py", "tests/test_golden.py", "tests/test_model.py", "tests/test_dspark.py"]
TRAINING = ["tests/test_training.py", "tests/test_tokenizer.py", "tests/test_ngram.py", "tests/test_evaluate.py"]  # of "training"

# (block, what is broken, file, text, replacement)
MUTATIONS = [
    ("1A", "embeddings scaled", "embedding.py", "x = weight[ids] ", "x = weight[ids] * 8 "),
    ("1A", "padding counted as a token", "embedding.py", "order = live.cumsum(1) - 1", "order = torch.ones_like(live).cumsum(1) - 1"),
    ("1A", "history not moved over padding", "embedding.py", "(slot - padding).clamp(min=0)", "slot"),
    ("1B", "look-back not cumulative", "engram.py", ".cumprod(dim=-1).bool()", ""),
    ("1B", "even multipliers", "engram.py", "drawn * 2 + 1", "drawn * 2"),
    ("1B", "sign instead of copysign at zero", "engram.py", "torch.copysign(z.abs().clamp(min=1e-6).sqrt(), z)", "z.sign() * z.abs().sqrt()"),
    ("2A", "row instead of column sums last", "mhc.py", "mix = mix / (mix.sum(-2, keepdim=True) + eps)\n    return", "return"),
    ("2A", "B contracted over its second index", "mhc.py", "baddbmm_(b.mT.flatten(0, 1)", "baddbmm_(b.flatten(0, 1)"),
    ("2A", "post weights without the 2", "mhc.py", "c = 2 * torch.sigmoid", "c = torch.sigmoid"),
    ("3A", "decoder enters one layer late", "ced.py", "return ratios.index(1) if", "return ratios.index(1) + 1 if"),
    ("3A", "window not cut at the replay", "block.py", "torch.where(dropped > 0, self.places.start, self.window_start)", "self.window_start"),
    ("3A", "rows written for the replayed tokens only", "model.py", "        block.attn.write_rows(block.attn_norm(mhc.collapse(streams, mix)), run)\n        run.keep_last(kept)\n        run.rows_written = True\n", "        run.keep_last(kept)\n"),
    ("3B", "rows rotated to j instead of j * r", "compressor.py", "rope_table(row * ratio, frequencies)", "rope_table(row, frequencies)"),
    ("3B", "row visible one token late", "compressor.py", "(positions + 1) // ratio", "positions // ratio"),
    ("3B", "one gate for all channels", "compressor.py", "gate.softmax(dim=2)", "gate.mean(-1, keepdim=True).softmax(dim=2)"),
    ("3C", "no ReLU", "indexer.py", ".relu_()", ""),
    ("3C", "keys from the rotated latent", "attention.py", "keys = self.indexer.keys(latents)", "keys = self.indexer.keys(rotated(latents, visible_rows(places.start + places.counts - 1, self.ratio) - latents.shape[1], self.ratio, self.frequencies))"),
    ("3C", "newest block not forced", "indexer.py", "top.masked_fill(forced, torch.inf)", "top"),
    ("4A", "half-split pairs", "layers.py", ".unflatten(-1, (-1, 2)).contiguous()", ".unflatten(-1, (2, -1)).mT.contiguous()"),
    ("4A", "no inverse rotation", "attention.py", "for part in rope), inverse=True)", "for part in rope), inverse=False)"),
    ("4A", "window one token too long", "attention.py", "(near > t - size)", "(near >= t - size)"),
    ("5A", "bias kept in the weights", "moe.py", "weights = s.gather", "weights = (s + bias).gather"),
    ("5A", "shared expert scaled", "moe.py", "self.shared_experts(flat)", "1.5 * self.shared_experts(flat)"),
    ("5A", "gate clamped on both sides", "moe.py", ".clamp_(max=limit)", ".clamp_(-limit, limit)"),
    ("6A", "stale ring: slot off by one", "cache.py", "tensor[sequence, position % slots]", "tensor[sequence, (position + 1) % slots]"),
    ("6A", "odd channels in the low nibble", "formats.py", "out.copy_(pairs | (pairs >> 4))", "out.copy_((pairs << 4) | (pairs >> 8))"),
    ("6A", "index keys not counted", "state.py", '("rows", cache.rows[layer]), ("index keys", cache.index_keys[layer])', '("rows", cache.rows[layer]),'),
    ("6B", "drafts see only earlier drafts", "dspark.py", "seen.unsqueeze(1).expand(-1, x.shape[1], -1)", "seen.unsqueeze(1).expand(-1, x.shape[1], -1).tril(held.shape[1])"),
    ("6B", "confidence from the normed stream", "dspark.py", "torch.cat([hidden[:, step], embedded]", "torch.cat([last.norm(hidden[:, step]), embedded]"),
    ("6B", "refused drafts committed", "generate.py", "model.commit(run, kept + 1)", "model.commit(run, kept * 0 + ids.shape[1])"),
    ("training", "Sinkhorn's gradient without its second term", "mhc.py", "gradient.sub_((gradient * mix).sum(step % 2, keepdim=True)).div_(total)", "gradient.div_(total)"),
    ("training", "no gradient through rounding", "formats.py", "return gradient, None", "return gradient * 0, None"),
    ("training", "indexer teaches the latents", "indexer.py", "self.wk(latents.detach())", "self.wk(latents)"),
    ("training", "band of one token too many", "trainable.py", "(key > query)", "(key >= query)"),
    ("training", "teacher sees invisible rows", "trainable.py", "far.masked_fill(~seen.unsqueeze(2), -1e30).softmax(-1).sum(2) * seen", "far.softmax(-1).sum(2)"),
    ("training", "experts balanced the wrong way", "trainer.py", "torch.sign(load.mean() - load)", "torch.sign(load - load.mean())"),
    ("training", "state without expert biases", "trainer.py", "parameters[name].copy_(bias)", "pass"),
    ("training", "drafter sees one token too many", "train_drafter.py", "anchors[:, None] - torch.arange(size, 0, -1", "anchors[:, None] + 1 - torch.arange(size, 0, -1"),
    ("training", "newest rows off by one", "experiments.py", "(counts - most).unsqueeze(-1)", "(counts - most + 1).unsqueeze(-1)"),
    ("training", "one discount for two and more", "ngram.py", "np.minimum(counts, 3)", "np.minimum(counts, 2)"),
    ("training", "merges in the wrong order", "tokenizer.py", "best = min(joined", "best = max(joined"),
]  # fmt: skip


def first_failure(labs: Path, tests: list[str]) -> str | None:
    """The first test that fails on the package under `labs`, or None."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", *tests]
    environment = os.environ | {"PYTHONPATH": str(labs), "OMP_NUM_THREADS": "1"}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    found = re.search(r"^(?:FAILED|ERROR) tests/(\S+)", run.stdout, re.M)
    return found[1] if found else None if run.returncode == 0 else f"pytest ended with {run.returncode}"


def mutated(labs: Path, file: str, text: str, replacement: str) -> str:
    """Put the mutation into the copy; returns the original text. Raises ValueError unless the text stands there exactly once."""
    path = labs / "flash41" / file
    source = path.read_text(encoding="utf-8")
    if source.count(text) < 1:
        raise ValueError(f"{file} does not hold {text!r}")
    path.write_text(source.replace(text, replacement), encoding="utf-8")
    return source


def main() -> int:
    survived = 0
    print("# Mutations\n\nMade by `python tools/mutate.py`: each line was broken alone, and the named test was the first to fail.\n")
    print("| block | broken | file | first test that went red |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        labs = Path(folder) / "labs"
        shutil.copytree(ROOT / "labs", labs, ignore=shutil.ignore_patterns("__pycache__"))
        for block, what, file, text, replacement in MUTATIONS:
            source = mutated(labs, file, text, replacement)
            test = first_failure(labs, TRAINING if block == "training" else TESTS)
            survived += test is None
            print(f"| {block} | {what} | `{file}` | {f'`{test}`' if test else '**SURVIVED**'} |", flush=True)
            (labs / "flash41" / file).write_text(source, encoding="utf-8")
    return bool(survived)


if __name__ == "__main__":
    sys.exit(main())
