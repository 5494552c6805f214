"""The package's own functions under the lab's signatures."""

from types import SimpleNamespace

import torch

from flash41 import indexer
from flash41.attention import Attention


def index_scores(queries, weights, keys):
    return indexer.scores(queries, weights, keys)


def may_choose(scores, visible, blocks=None, size=1):
    """The scores of all rows that a layer would choose if it had no limit: what `Attention._choose` does not hide."""
    width = scores.shape[-1]
    config = SimpleNamespace(index_topk=width, candidate_block_size=size, candidate_source_layer_id=-1)
    layer = SimpleNamespace(config=config, layer=0, _scan=lambda *ignored: scores)
    run = SimpleNamespace(plain=True, note=lambda *ignored: None)
    rows, _ = Attention._choose(layer, None, None, visible, blocks, None, width, run)
    return scores.masked_fill(~indexer.as_mask(rows, width), -torch.inf)


def hide_rows(scores, visible):
    return may_choose(scores, visible)


def candidate_blocks(scores, visible, size, count):
    return indexer.candidate_blocks(scores, visible, SimpleNamespace(candidate_block_size=size, candidate_topk_blocks=count))


def inside_blocks(scores, blocks, size):
    return may_choose(scores, torch.full(scores.shape[:2], scores.shape[-1]), blocks, size)


def top_rows(scores, count):
    return indexer.best(scores, count)
