"""The magnitude spectrogram in slaney's mel bands that the speaker encoder hears."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

if TYPE_CHECKING:
    import numpy.typing as npt

    from speech_backend.bicodec.config import MelConfig

# Slaney's scale (Auditory Toolbox, 1998): linear up to 1 kHz, then 27 bands for a factor of 6.4.
LINEAR_HZ_PER_MEL = 200 / 3
BREAK_HZ = 1000.0
BREAK_MEL = BREAK_HZ / LINEAR_HZ_PER_MEL
LOG_STEP = np.log(6.4) / 27


def hz_to_mel(hz: float) -> float:
    """Return slaney's mel of a frequency."""
    if hz < BREAK_HZ:
        return hz / LINEAR_HZ_PER_MEL
    return BREAK_MEL + float(np.log(hz / BREAK_HZ)) / float(LOG_STEP)


def mel_to_hz(mel: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the frequencies of slaney's mels."""
    above = BREAK_HZ * np.exp(LOG_STEP * (np.maximum(mel, BREAK_MEL) - BREAK_MEL))
    return np.where(mel < BREAK_MEL, mel * LINEAR_HZ_PER_MEL, above)


def mel_filters(config: MelConfig) -> npt.NDArray[np.float32]:
    """Return triangles [bands, bins] of equal area, each from its left to its right neighbour."""
    low, high = hz_to_mel(config.low_hz), hz_to_mel(config.high_hz)
    edges = mel_to_hz(np.linspace(low, high, config.bands + 2))[:, None]
    bins = np.linspace(0, config.sample_rate_hz / 2, config.fft_samples // 2 + 1)
    left, centre, right = edges[:-2], edges[1:-1], edges[2:]
    rising, falling = (bins - left) / (centre - left), (right - bins) / (right - centre)
    triangles = np.maximum(0.0, np.minimum(rising, falling)) * 2 / (right - left)
    return triangles.astype(np.float32)


class MelSpectrogram(nn.Module):
    """Samples [items, samples] to [items, bands, samples // hop + 1]."""

    filters: torch.Tensor
    window: torch.Tensor

    def __init__(self, config: MelConfig) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("filters", torch.from_numpy(mel_filters(config)), persistent=False)
        window = torch.hann_window(config.window_samples)
        self.register_buffer("window", window, persistent=False)

    def forward(self, samples: torch.Tensor) -> torch.Tensor:
        """Transform; a frame is centred on its samples, edges are mirrored."""
        spectrum = torch.stft(
            samples,
            self.config.fft_samples,
            hop_length=self.config.hop_samples,
            win_length=self.config.window_samples,
            window=self.window,
            center=True,
            pad_mode="reflect",
            return_complex=True,
        )
        return self.filters @ spectrum.abs()
