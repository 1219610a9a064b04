"""The two codebooks: semantic tokens (learnt vectors), global tokens (a grid of levels)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional

if TYPE_CHECKING:
    from speech_backend.bicodec.config import SemanticConfig, SpeakerConfig

# The grid's outermost levels are reached a little before tanh saturates.
LEVEL_MARGIN = 1e-3


class SemanticQuantizer(nn.Module):
    """Frames to the tokens whose code points in the most similar direction."""

    def __init__(self, config: SemanticConfig) -> None:
        super().__init__()
        self.in_project = nn.Conv1d(config.channels, config.code_channels, 1)
        self.codebook = nn.Embedding(config.codebook_size, config.code_channels)

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        """Quantise [items, frames, channels]; a frame's own length does not change the order."""
        projected = self.in_project(frames.mT).mT
        directions = functional.normalize(self.codebook.weight)
        return (projected @ directions.T).argmax(-1)


class SemanticCodebook(nn.Module):
    """Tokens to frames."""

    def __init__(self, config: SemanticConfig) -> None:
        super().__init__()
        self.codebook = nn.Embedding(config.codebook_size, config.code_channels)
        self.out_project = nn.Conv1d(config.code_channels, config.channels, 1)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Look up [items, frames] as [items, frames, channels]."""
        frames: torch.Tensor = self.out_project(self.codebook(tokens).mT).mT
        return frames


class LevelQuantizer(nn.Module):
    """Finite scalar quantisation: each channel is rounded to one of a few levels.

    A token's digits, the least significant first, are its channels' levels.
    """

    def __init__(self, config: SpeakerConfig) -> None:
        super().__init__()
        self.levels = config.levels
        self.project_in = nn.Linear(config.latent_channels, len(config.levels))

    def forward(self, latents: torch.Tensor) -> torch.Tensor:
        """Quantise [items, tokens, channels]."""
        places = enumerate(zip(self.project_in(latents).unbind(-1), self.levels, strict=True))
        digits = [
            _digit(channel, levels) * math.prod(self.levels[:place])
            for place, (channel, levels) in places
        ]
        return torch.stack(digits).sum(0)


def _digit(channel: torch.Tensor, levels: int) -> torch.Tensor:
    half = (levels - 1) * (1 + LEVEL_MARGIN) / 2
    # An even number of levels has none at zero, so they are shifted by half a level.
    offset = 0.5 if levels % 2 == 0 else 0.0
    bounded = torch.tanh(channel + math.atanh(offset / half)) * half - offset
    return bounded.round().long() + levels // 2


class LevelCodebook(nn.Module):
    """Global tokens to their channels' levels, scaled to -1 … 1, and on to latents."""

    def __init__(self, config: SpeakerConfig) -> None:
        super().__init__()
        self.levels = config.levels
        self.project_out = nn.Linear(len(config.levels), config.latent_channels)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Look up [items, tokens] as [items, tokens, channels]."""
        codes = []
        for levels in self.levels:
            half = levels // 2
            codes.append((tokens % levels - half) / half)
            tokens = tokens // levels
        weight = self.project_out.weight
        latents: torch.Tensor = self.project_out(torch.stack(codes, -1).to(weight.dtype))
        return latents
