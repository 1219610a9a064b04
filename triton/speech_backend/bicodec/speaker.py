"""The voice of a reference: ECAPA-TDNN hears it, a perceiver sums it up in a few latents."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional

from speech_backend.bicodec.quantizers import LevelCodebook, LevelQuantizer

if TYPE_CHECKING:
    from speech_backend.bicodec.config import SpeakerConfig

# Not in the configuration: upstream has only this size.
CHANNELS = 512
LATENT_CHANNELS = 3 * CHANNELS
FIRST_KERNEL_FRAMES = 5
DILATIONS = (2, 3, 4)
SCALE = 8
SQUEEZED_CHANNELS = 128

DEPTH = 2
HEADS = 8
HEAD_CHANNELS = 64


class ConvolutionReluNorm(nn.Module):
    """Convolution, then ReLU, then batch norm."""

    def __init__(self, channels: int, output_channels: int, kernel_size: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv1d(channels, output_channels, kernel_size, padding=kernel_size // 2)
        self.bn = nn.BatchNorm1d(output_channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run over [items, channels, frames]."""
        normal: torch.Tensor = self.bn(functional.relu(self.conv(x)))
        return normal


class Res2Convolution(nn.Module):
    """Groups of channels, each convolved together with the result of the one before."""

    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        group = channels // SCALE
        self.convs = nn.ModuleList(
            nn.Conv1d(group, group, 3, padding=dilation, dilation=dilation)
            for _ in range(SCALE - 1)
        )
        self.bns = nn.ModuleList(nn.BatchNorm1d(group) for _ in range(SCALE - 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run over [items, channels, frames]; the last group passes as it is."""
        *groups, untouched = x.chunk(SCALE, dim=1)
        results: list[torch.Tensor] = []
        for group, convolution, norm in zip(groups, self.convs, self.bns, strict=True):
            mixed = group + results[-1] if results else group
            results.append(norm(functional.relu(convolution(mixed))))
        return torch.cat([*results, untouched], dim=1)


class SqueezeExcitation(nn.Module):
    """Weighs the channels by what they hold over the whole reference."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.linear1 = nn.Linear(channels, SQUEEZED_CHANNELS)
        self.linear2 = nn.Linear(SQUEEZED_CHANNELS, channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run over [items, channels, frames]."""
        squeezed = functional.relu(self.linear1(x.mean(-1)))
        return x * torch.sigmoid(self.linear2(squeezed))[:, :, None]


class SpeakerBlock(nn.Module):
    """A residual block of ECAPA-TDNN."""

    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        self.se_res2block = nn.Sequential(
            ConvolutionReluNorm(channels, channels),
            Res2Convolution(channels, dilation),
            ConvolutionReluNorm(channels, channels),
            SqueezeExcitation(channels),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run over [items, channels, frames]."""
        found: torch.Tensor = x + self.se_res2block(x)
        return found


class EcapaLatents(nn.Module):
    """ECAPA-TDNN up to its frames; its pooled speaker vector is used in training only."""

    def __init__(self, mel_bands: int) -> None:
        super().__init__()
        self.layer1 = ConvolutionReluNorm(mel_bands, CHANNELS, FIRST_KERNEL_FRAMES)
        self.layer2, self.layer3, self.layer4 = (
            SpeakerBlock(CHANNELS, dilation) for dilation in DILATIONS
        )
        self.conv = nn.Conv1d(LATENT_CHANNELS, LATENT_CHANNELS, 1)

    def forward(self, mel: torch.Tensor) -> torch.Tensor:
        """Hear [items, mel bands, frames]; returns [items, frames, channels]."""
        second = self.layer2(self.layer1(mel))
        third = self.layer3(second)
        fourth = self.layer4(third)
        return functional.relu(self.conv(torch.cat([second, third, fourth], dim=1))).mT


class CrossAttention(nn.Module):
    """The latents look at the frames and at themselves."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.to_q = nn.Linear(width, HEADS * HEAD_CHANNELS, bias=False)
        self.to_kv = nn.Linear(width, 2 * HEADS * HEAD_CHANNELS, bias=False)
        self.to_out = nn.Linear(HEADS * HEAD_CHANNELS, width, bias=False)

    def forward(self, latents: torch.Tensor, frames: torch.Tensor) -> torch.Tensor:
        """Run over [items, latents, width] and [items, frames, width]."""
        seen = self.to_kv(torch.cat([latents, frames], dim=1)).chunk(2, dim=-1)
        query, key, value = (
            x.unflatten(-1, (HEADS, HEAD_CHANNELS)).transpose(1, 2)
            for x in (self.to_q(latents), *seen)
        )
        found = functional.scaled_dot_product_attention(query, key, value)
        mixed: torch.Tensor = self.to_out(found.transpose(1, 2).flatten(2))
        return mixed


class GatedGelu(nn.Module):
    """The first half of the channels, gated by the second."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Halve the last axis."""
        value, gate = x.chunk(2, dim=-1)
        return value * functional.gelu(gate)


class RootMeanSquareNorm(nn.Module):
    """Scales each vector to a root mean square of 1."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Normalise the last axis."""
        width: int = x.shape[-1]
        return functional.normalize(x, dim=-1) * width**0.5 * self.gamma


class PerceiverLayer(nn.ModuleList):
    """Attention and a feed-forward network, each added to the latents."""

    def __init__(self, width: int) -> None:
        hidden = width * 8 // 3  # four times, less a third for the gate
        widen, narrow = nn.Linear(width, 2 * hidden), nn.Linear(hidden, width)
        super().__init__([CrossAttention(width), nn.Sequential(widen, GatedGelu(), narrow)])

    def forward(self, latents: torch.Tensor, frames: torch.Tensor) -> torch.Tensor:
        """Run over [items, latents, width] and [items, frames, width]."""
        attend, feed_forward = self
        latents = latents + attend(latents, frames)
        fed: torch.Tensor = latents + feed_forward(latents)
        return fed


class PerceiverResampler(nn.Module):
    """Any number of frames to a fixed number of latents."""

    def __init__(self, config: SpeakerConfig) -> None:
        super().__init__()
        width = config.latent_channels
        self.proj_context = nn.Linear(LATENT_CHANNELS, width)
        self.latents = nn.Parameter(torch.empty(config.tokens, width))
        self.layers = nn.ModuleList(PerceiverLayer(width) for _ in range(DEPTH))
        self.norm = RootMeanSquareNorm(width)

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        """Sum up [items, frames, channels] as [items, tokens, width]."""
        frames = self.proj_context(frames)
        latents = self.latents.expand(len(frames), -1, -1)
        for layer in self.layers:
            latents = layer(latents, frames)
        summary: torch.Tensor = self.norm(latents)
        return summary


class SpeakerTokenizer(nn.Module):
    """A mel spectrogram [items, bands, frames] to global tokens [items, tokens]."""

    def __init__(self, config: SpeakerConfig) -> None:
        super().__init__()
        self.speaker_encoder = EcapaLatents(config.mel_bands)
        self.perceiver_sampler = PerceiverResampler(config)
        self.quantizer = LevelQuantizer(config)

    def forward(self, mel: torch.Tensor) -> torch.Tensor:
        """Tokenise."""
        tokens: torch.Tensor = self.quantizer(self.perceiver_sampler(self.speaker_encoder(mel)))
        return tokens


class SpeakerVector(nn.Module):
    """Global tokens [items, tokens] to the vector that conditions the decoder."""

    def __init__(self, config: SpeakerConfig) -> None:
        super().__init__()
        self.quantizer = LevelCodebook(config)
        self.project = nn.Linear(config.latent_channels * config.tokens, config.output_channels)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Look up and project; the latents are flattened channel by channel."""
        vector: torch.Tensor = self.project(self.quantizer(tokens).mT.flatten(1))
        return vector
