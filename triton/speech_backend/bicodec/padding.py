"""Batches of unequal lengths: the frames past an item's end, and how they are kept silent."""

from __future__ import annotations

import torch


def pad_frames(lengths: torch.Tensor, frames: int) -> torch.Tensor:
    """Return where the frames of each item lie past its end, as bool [items, 1, frames]."""
    return torch.arange(frames, device=lengths.device)[None, None] >= lengths[:, None, None]


def finer(pads: torch.Tensor | None, rate: int) -> torch.Tensor | None:
    """Return the same pads for `rate` times as many frames."""
    return None if pads is None else pads.repeat_interleave(rate, dim=-1)


def silence(x: torch.Tensor, pads: torch.Tensor | None) -> torch.Tensor:
    """Zero the pads of [items, channels, frames], as a convolution finds beyond a lone item's end.

    Biases make every layer's pads non-zero again, so this precedes each convolution that looks
    at neighbouring frames. None, where no item is padded, costs nothing.
    """
    return x if pads is None else x.masked_fill(pads, 0.0)
