"""From frames to samples: transposed convolutions and dilated residual units, snake between."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from speech_backend.bicodec.padding import finer, silence

if TYPE_CHECKING:
    from speech_backend.bicodec.config import WaveConfig

FIELD_FRAMES = 10
"""A frame moves samples of this many frames to each side of its own, and none beyond."""

KERNEL_FRAMES = 7
DILATIONS = (1, 3, 9)
EPSILON = 1e-9


class Snake(nn.Module):
    """x + sin(alpha x)^2 / alpha, with an alpha for each channel.

    It is computed in float32 whatever the convolutions' dtype: in float16 a small alpha would
    make 0 times infinity.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(1, channels, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply to [items, channels, frames]."""
        exact = x.to(self.alpha.dtype)
        curved = torch.sin(self.alpha * exact).square() / (self.alpha + EPSILON)
        return (exact + curved).to(x.dtype)


class EdgeConvolution(nn.Conv1d):
    """A convolution where dtypes meet: it takes its input in any, and answers in its own."""

    def __init__(self, channels: int, output_channels: int) -> None:
        super().__init__(channels, output_channels, KERNEL_FRAMES, padding=KERNEL_FRAMES // 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run over [items, channels, frames]."""
        return super().forward(x.to(self.weight.dtype))


class ResidualUnit(nn.Module):
    """Adds what a dilated convolution finds around each frame."""

    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        padding = KERNEL_FRAMES // 2 * dilation
        self.block = nn.ModuleList(
            [
                Snake(channels),
                nn.Conv1d(channels, channels, KERNEL_FRAMES, padding=padding, dilation=dilation),
                Snake(channels),
                nn.Conv1d(channels, channels, 1),
            ]
        )

    def forward(self, x: torch.Tensor, pads: torch.Tensor | None) -> torch.Tensor:
        """Run over [items, channels, frames]."""
        snake, around, second_snake, mix = self.block
        y = around(silence(snake(x), pads))
        found: torch.Tensor = x + mix(second_snake(y))
        return found


class UpsamplingBlock(nn.Module):
    """Makes `rate` frames of each, with half the channels."""

    def __init__(self, channels: int, kernel_size: int, rate: int) -> None:
        super().__init__()
        self.rate = rate
        half, padding = channels // 2, (kernel_size - rate) // 2
        self.block = nn.ModuleList(
            [
                Snake(channels),
                nn.ConvTranspose1d(channels, half, kernel_size, stride=rate, padding=padding),
                *(ResidualUnit(half, dilation) for dilation in DILATIONS),
            ]
        )

    def forward(self, x: torch.Tensor, pads: torch.Tensor | None) -> torch.Tensor:
        """Run over [items, channels, frames]; `pads` are those of the input."""
        snake, upsample, *units = self.block
        x = upsample(silence(snake(x), pads))
        pads = finer(pads, self.rate)
        for unit in units:
            x = unit(x, pads)
        return x


class WaveGenerator(nn.Module):
    """[items, channels, frames] to samples [items, frames * product of the rates], within ±1."""

    def __init__(self, config: WaveConfig) -> None:
        super().__init__()
        self.rates = config.rates
        stages = enumerate(zip(config.kernel_sizes, config.rates, strict=True))
        last = config.channels >> len(config.rates)
        self.model = nn.ModuleList(
            [
                EdgeConvolution(config.input_channels, config.channels),
                *(
                    UpsamplingBlock(config.channels >> i, *kernel_and_rate)
                    for i, kernel_and_rate in stages
                ),
                Snake(last),
                EdgeConvolution(last, 1),
            ]
        )

    def cast(self, dtype: torch.dtype) -> None:
        """Compute all convolutions in `dtype` but the last, which would round the samples."""
        for module in self.modules():
            convolves = isinstance(module, (nn.Conv1d, nn.ConvTranspose1d))
            if convolves and module is not self.model[-1]:
                module.to(dtype)

    def forward(self, x: torch.Tensor, pads: torch.Tensor | None) -> torch.Tensor:
        """Make samples, zeros where the pads are."""
        first, *blocks, snake, last = self.model
        x = first(silence(x, pads))
        for block, rate in zip(blocks, self.rates, strict=True):
            x = block(x, pads)
            pads = finer(pads, rate)
        x = last(silence(snake(x), pads))
        return silence(torch.tanh(x), pads).squeeze(1)
