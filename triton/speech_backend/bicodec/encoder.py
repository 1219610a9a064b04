"""The half of BiCodec that makes tokens of a reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from speech_backend.bicodec.config import BiCodecConfig
from speech_backend.bicodec.mel import MelSpectrogram
from speech_backend.bicodec.quantizers import SemanticQuantizer
from speech_backend.bicodec.speaker import SpeakerTokenizer
from speech_backend.bicodec.vocos import FeatureEncoder
from speech_backend.bicodec.weights import keep_float32_exact, read_tensors

if TYPE_CHECKING:
    from pathlib import Path

PREFIXES = (
    "encoder.",
    "quantizer.in_project.",
    "quantizer.codebook.",
    "speaker_encoder.speaker_encoder.layer",
    "speaker_encoder.speaker_encoder.conv.",
    "speaker_encoder.perceiver_sampler.",
    "speaker_encoder.quantizer.project_in.",
)


class BiCodecEncoder(nn.Module):
    """Tokens of one reference, always in float32: a token is a comparison, and must not flip."""

    def __init__(self, config: BiCodecConfig) -> None:
        super().__init__()
        self.config = config
        self.mel = MelSpectrogram(config.mel)
        self.encoder = FeatureEncoder(config.encoder)
        self.quantizer = SemanticQuantizer(config.semantic)
        self.speaker_encoder = SpeakerTokenizer(config.speaker)

    @classmethod
    def load(cls, folder: Path, device: torch.device | str = "cpu") -> BiCodecEncoder:
        """Read `config.yaml` and this half of `model.safetensors`; ends TF32 in this process.

        Raises BiCodecConfigError, OSError without the files, and RuntimeError with the names of
        tensors that are missing, left over or of another shape.
        """
        keep_float32_exact()
        encoder = cls(BiCodecConfig.from_file(folder / "config.yaml"))
        encoder.load_state_dict(read_tensors(folder / "model.safetensors", PREFIXES))
        return encoder.to(device).eval().requires_grad_(requires_grad=False)

    @torch.inference_mode()
    def semantic_tokens(self, features: torch.Tensor) -> torch.Tensor:
        """Return a token for each of wav2vec2's feature frames [frames, channels]."""
        tokens: torch.Tensor = self.quantizer(self.encoder(features[None]))[0]
        return tokens

    @torch.inference_mode()
    def global_tokens(self, samples: torch.Tensor) -> torch.Tensor:
        """Return the tokens of the voice in samples [samples] at the configuration's rate."""
        tokens: torch.Tensor = self.speaker_encoder(self.mel(samples[None]))[0]
        return tokens
