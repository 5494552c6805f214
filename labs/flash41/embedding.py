"""1A. Input: token ids -> embeddings -> four identical residual streams, and where each token stands.

Sources: official model code; the geometry of cached batches is ours.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


def embed_streams(
    weight: Tensor, ids: Tensor, streams: int, image_embeds: Tensor | None = None, image_mask: Tensor | None = None
) -> Tensor:
    """x = Embed[ids], no scaling, image positions overwritten, copied to every stream.  ids [B, T] -> [B, T, S, D].

    image_embeds [number of image tokens, D] fill the True places of image_mask [B, T] in order. Padding may hold any id.
    """
    x = weight[ids]                                                    # [B, T, D]
    if image_mask is not None:
        x = x.masked_scatter(image_mask.unsqueeze(-1), image_embeds.to(x.dtype))
    return x.unsqueeze(2).expand(-1, -1, streams, -1)                  # [B, T, S, D]


@dataclass(frozen=True)
class Places:
    """Where the T tokens of a forward pass stand in their sequences. Padding stands on the left of the live tokens.

    start [B]: tokens already in the cache; live [B, T] bool; positions [B, T], -1 for padding. All on the model's device.
    """

    start: Tensor
    live: Tensor
    positions: Tensor

    @classmethod
    def of(cls, start: Tensor, live: Tensor) -> Places:
        order = live.cumsum(1) - 1                                     # [B, T]
        return cls(start, live, torch.where(live, start[:, None] + order, -1))

    @property
    def counts(self) -> Tensor:
        """Live tokens per sequence, [B]."""
        return self.live.sum(1)

    def last(self, tokens: int) -> Places:
        """The same for the last `tokens` columns; what lies before them counts as held already."""
        live = self.live[:, -tokens:]
        return Places(self.start + self.counts - live.sum(1), live, self.positions[:, -tokens:])

    def join(self, history: Tensor, new: Tensor) -> Tensor:
        """History of every sequence directly followed by its live tokens: [B, W, ...], [B, T, ...] -> [B, W + T, ...].

        history ends with the newest held token. Slot k then stands at position (last position) - (W + T - 1 - k); where
        padding stood between the two, the history moves right over it.
        """
        both = torch.cat([history, new], dim=1)                        # [B, W + T, ...]
        if bool(self.live.all()):
            return both
        padding = (~self.live).sum(1, keepdim=True)                    # [B, 1]
        slot = torch.arange(both.shape[1], device=both.device)         # [W + T]
        source = torch.where(slot < history.shape[1] + padding, (slot - padding).clamp(min=0), slot)  # [B, W + T]
        return both[torch.arange(len(both), device=both.device)[:, None], source]

    def joined_positions(self, history: int) -> Tensor:
        """Position of every slot of `join` with a history of that length, [B, W + T]; below 0: nothing stood there."""
        last = self.start + self.counts - 1                            # [B]
        slot = torch.arange(history + self.live.shape[1], device=last.device)
        return last[:, None] - (len(slot) - 1 - slot)
