"""Stacks of ConvNeXt blocks over frames, as in Vocos: both halves of the codec have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional

from speech_backend.bicodec.padding import silence

if TYPE_CHECKING:
    from speech_backend.bicodec.config import VocosConfig

EPSILON = 1e-6
KERNEL_FRAMES = 7
PLAIN_LAYERS = 2


class AdaLayerNorm(nn.Module):
    """Layer norm whose scale and shift come from a condition [items, channels]."""

    def __init__(self, width: int, condition_channels: int) -> None:
        super().__init__()
        self.scale = nn.Linear(condition_channels, width)
        self.shift = nn.Linear(condition_channels, width)

    def forward(self, x: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        """Normalise [items, frames, width]."""
        normal = functional.layer_norm(x, x.shape[-1:], eps=EPSILON)
        scale, shift = self.scale(condition)[:, None], self.shift(condition)[:, None]
        return torch.addcmul(shift, normal, scale)


class PlainLayerNorm(nn.LayerNorm):
    """Layer norm with the signature of AdaLayerNorm, for stacks that nothing conditions."""

    def __init__(self, width: int) -> None:
        super().__init__(width, eps=EPSILON)

    def forward(self, x: torch.Tensor, condition: torch.Tensor | None = None) -> torch.Tensor:  # noqa: ARG002
        """Normalise [items, frames, width]."""
        return super().forward(x)


def _norm(width: int, condition_channels: int | None) -> nn.Module:
    if condition_channels is None:
        return PlainLayerNorm(width)
    return AdaLayerNorm(width, condition_channels)


def _convolution(channels: int, width: int, groups: int = 1) -> nn.Conv1d:
    return nn.Conv1d(channels, width, KERNEL_FRAMES, padding=KERNEL_FRAMES // 2, groups=groups)


class ConvNeXtBlock(nn.Module):
    """Looks three frames to each side in every channel, then mixes the channels of a frame."""

    def __init__(self, width: int, hidden_width: int, condition_channels: int | None) -> None:
        super().__init__()
        self.dwconv = _convolution(width, width, groups=width)
        self.norm = _norm(width, condition_channels)
        self.pwconv1 = nn.Linear(width, hidden_width)
        self.pwconv2 = nn.Linear(hidden_width, width)
        self.gamma = nn.Parameter(torch.ones(width))

    def forward(
        self, x: torch.Tensor, condition: torch.Tensor | None, pads: torch.Tensor | None
    ) -> torch.Tensor:
        """Add to [items, width, frames] what the block finds in it."""
        y = self.dwconv(silence(x, pads)).transpose(1, 2)
        y = self.pwconv2(functional.gelu(self.pwconv1(self.norm(y, condition))))
        return x + (self.gamma * y).transpose(1, 2)


class VocosBackbone(nn.Module):
    """Embedding, blocks and norms: [items, channels, frames] to [items, frames, width]."""

    def __init__(self, channels: int, config: VocosConfig, layers: int, *, plain: bool) -> None:
        super().__init__()
        condition_channels = None if plain else config.condition_channels
        self.embed = _convolution(channels, config.width)
        self.norm = _norm(config.width, condition_channels)
        self.convnext = nn.ModuleList(
            ConvNeXtBlock(config.width, config.hidden_width, condition_channels)
            for _ in range(layers)
        )
        self.final_layer_norm = PlainLayerNorm(config.width)

    def forward(
        self,
        x: torch.Tensor,
        condition: torch.Tensor | None = None,
        pads: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Run the stack; `condition` is [items, channels], `pads` as `silence` takes them."""
        x = self.embed(silence(x, pads)).transpose(1, 2)
        x = self.norm(x, condition).transpose(1, 2)
        for block in self.convnext:
            x = block(x, condition, pads)
        normal: torch.Tensor = self.final_layer_norm(x.transpose(1, 2))
        return normal


class PlainStage(nn.ModuleDict):
    """A stage that would change the frame rate in other models of the family.

    At a ratio of 1 its three paths (convolution, repetition, pooling) are each the input itself
    and their sum is three times it; a small unconditioned backbone follows.
    """

    def __init__(self, config: VocosConfig) -> None:
        # Upstream's sequence has the sampling, without parameters here, as its element 0.
        super().__init__({"1": VocosBackbone(config.width, config, PLAIN_LAYERS, plain=True)})

    def forward(self, x: torch.Tensor, pads: torch.Tensor | None) -> torch.Tensor:
        """Run over [items, frames, width]."""
        staged: torch.Tensor = self["1"](3 * x.mT, pads=pads)
        return staged


class PlainStages(nn.ModuleList):
    """The stages one after the other."""

    def __init__(self, config: VocosConfig) -> None:
        super().__init__(PlainStage(config) for _ in range(config.plain_stages))

    def forward(self, x: torch.Tensor, pads: torch.Tensor | None = None) -> torch.Tensor:
        """Run over [items, frames, width]."""
        for stage in self:
            x = stage(x, pads)
        return x


class FeatureEncoder(nn.Module):
    """From wav2vec2's features to what the semantic codebook quantises."""

    def __init__(self, config: VocosConfig) -> None:
        super().__init__()
        self.encoder = VocosBackbone(config.input_channels, config, config.layers, plain=True)
        self.downsample = PlainStages(config)
        self.project = nn.Linear(config.width, config.output_channels)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Encode [items, frames, channels]."""
        encoded: torch.Tensor = self.project(self.downsample(self.encoder(features.mT)))
        return encoded


class Prenet(nn.Module):
    """From semantic codes to what the wave generator takes, in the voice of the condition."""

    def __init__(self, config: VocosConfig) -> None:
        super().__init__()
        self.linear_pre = nn.Linear(config.input_channels, config.width)
        self.downsample = PlainStages(config)
        self.vocos_backbone = VocosBackbone(config.width, config, config.layers, plain=False)
        self.linear = nn.Linear(config.width, config.output_channels)

    def forward(
        self, codes: torch.Tensor, condition: torch.Tensor, pads: torch.Tensor | None
    ) -> torch.Tensor:
        """Run over [items, frames, channels]."""
        x = self.downsample(self.linear_pre(codes), pads)
        prepared: torch.Tensor = self.linear(self.vocos_backbone(x.mT, condition, pads))
        return prepared
