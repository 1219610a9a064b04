"""The half of BiCodec that makes sound of tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from speech_backend.bicodec.config import BiCodecConfig
from speech_backend.bicodec.padding import pad_frames
from speech_backend.bicodec.quantizers import SemanticCodebook
from speech_backend.bicodec.speaker import SpeakerVector
from speech_backend.bicodec.vocos import Prenet
from speech_backend.bicodec.wave_generator import WaveGenerator
from speech_backend.bicodec.weights import keep_float32_exact, read_tensors

if TYPE_CHECKING:
    from pathlib import Path

RECEPTIVE_TOKENS = 67
"""A token moves samples of this many tokens to each side of its own, and none beyond.

The prenet has 19 convolutions that see three frames to each side, the wave generator sees ten.
"""

PREFIXES = (
    "quantizer.codebook.",
    "quantizer.out_project.",
    "speaker_encoder.quantizer.project_out.",
    "speaker_encoder.project.",
    "prenet.",
    "decoder.",
)


class BiCodecDecoder(nn.Module):
    """Sound of semantic and global tokens, for many requests in one batch."""

    def __init__(self, config: BiCodecConfig) -> None:
        super().__init__()
        self.config = config
        self.quantizer = SemanticCodebook(config.semantic)
        self.speaker_encoder = SpeakerVector(config.speaker)
        self.prenet = Prenet(config.prenet)
        self.decoder = WaveGenerator(config.wave)

    @classmethod
    def load(
        cls,
        folder: Path,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> BiCodecDecoder:
        """Read `config.yaml` and this half of `model.safetensors`; ends TF32 in this process.

        `dtype` is for the wave generator's convolutions, which are 95 % of the work.
        Raises BiCodecConfigError, OSError without the files, and RuntimeError with the names of
        tensors that are missing, left over or of another shape.
        """
        keep_float32_exact()
        decoder = cls(BiCodecConfig.from_file(folder / "config.yaml"))
        decoder.load_state_dict(read_tensors(folder / "model.safetensors", PREFIXES))
        decoder.decoder.cast(dtype)
        return decoder.to(device).eval().requires_grad_(requires_grad=False)

    @torch.inference_mode()
    def decode(
        self, semantic: torch.Tensor, global_tokens: torch.Tensor, lengths: torch.Tensor
    ) -> torch.Tensor:
        """Make the sound of a batch: float32 [items, samples_per_token * tokens], within ±1.

        `semantic` is [items, tokens], of which an item has its first `lengths` [items];
        `global_tokens` is [items, 32]. Give them on the CPU: they are checked before they leave
        it, as an index out of range would end a GPU's process. Samples past an item's length are
        zero, and those before it are what the item alone would give, to rounding. ValueError
        says what does not fit.
        """
        self.check(semantic, global_tokens, lengths)
        device = self.quantizer.codebook.weight.device
        padded = None if bool((lengths == semantic.shape[1]).all()) else lengths.to(device)
        return self(semantic.to(device), global_tokens.to(device), padded)

    def forward(
        self,
        semantic: torch.Tensor,
        global_tokens: torch.Tensor,
        lengths: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Do what `decode` does, unchecked and on the device; without lengths none is padded."""
        return self.waveform(self.frames(semantic, global_tokens, lengths), lengths)

    def frames(
        self,
        semantic: torch.Tensor,
        global_tokens: torch.Tensor,
        lengths: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return what the wave generator hears, a frame a token: float32[items, tokens, channels].

        As `forward`, unchecked. Past an item's length they mean nothing.
        """
        pads = None if lengths is None else pad_frames(lengths, semantic.shape[1])
        voice = self.speaker_encoder(global_tokens)
        found: torch.Tensor = self.prenet(self.quantizer(semantic), voice, pads) + voice[:, None]
        return found

    def waveform(self, frames: torch.Tensor, lengths: torch.Tensor | None = None) -> torch.Tensor:
        """Return the sound of frames: float32[items, samples_per_token * frames], within ±1.

        Where frames were cut out of a longer sequence, the samples of FIELD_FRAMES next to each
        cut are not those of the whole. Past an item's length they are zero.
        """
        pads = None if lengths is None else pad_frames(lengths, frames.shape[1])
        samples: torch.Tensor = self.decoder(frames.mT, pads)
        return samples

    def check(
        self, semantic: torch.Tensor, global_tokens: torch.Tensor, lengths: torch.Tensor
    ) -> None:
        """Raise ValueError for what `decode` refuses; `forward` must not get it."""
        items, tokens = semantic.shape
        expected = (items, self.config.speaker.tokens)
        if tuple(global_tokens.shape) != expected or tuple(lengths.shape) != (items,):
            raise ValueError(
                f"{items} rows of semantic tokens need global tokens {list(expected)} and "
                f"{items} lengths, not {list(global_tokens.shape)} and {list(lengths.shape)}"
            )
        _check_range("semantic tokens", semantic, 0, self.config.semantic.codebook_size - 1)
        _check_range("global tokens", global_tokens, 0, self.config.global_codes - 1)
        _check_range("lengths", lengths, 1, tokens)


def _check_range(name: str, values: torch.Tensor, lowest: int, highest: int) -> None:
    if values.numel() == 0:
        raise ValueError(f"there are no {name}")
    low, high = (int(value) for value in values.aminmax())
    if low < lowest or high > highest:
        raise ValueError(f"{name} are {low} to {high}; allowed are {lowest} to {highest}")
