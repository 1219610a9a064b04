"""What BiCodec's `config.yaml` says of the network, checked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from pathlib import Path


class BiCodecConfigError(ValueError):
    """A `config.yaml` that lacks something, or describes a network that is not built here."""


@dataclass(frozen=True, slots=True)
class MelConfig:
    """The spectrogram of the reference: magnitudes in slaney's mel bands, not logarithmic."""

    sample_rate_hz: int
    fft_samples: int
    window_samples: int
    hop_samples: int
    low_hz: float
    high_hz: float
    bands: int


@dataclass(frozen=True, slots=True)
class VocosConfig:
    """A stack of ConvNeXt blocks; `condition_channels` is None where nothing conditions it."""

    input_channels: int
    width: int
    hidden_width: int
    layers: int
    output_channels: int
    condition_channels: int | None
    plain_stages: int


@dataclass(frozen=True, slots=True)
class WaveConfig:
    """The transposed convolutions that make samples of frames."""

    input_channels: int
    channels: int
    rates: tuple[int, ...]
    kernel_sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SemanticConfig:
    """The codebook of the semantic tokens."""

    channels: int
    codebook_size: int
    code_channels: int


@dataclass(frozen=True, slots=True)
class SpeakerConfig:
    """The global tokens: `tokens` of them, each one of `math.prod(levels)` codes."""

    mel_bands: int
    output_channels: int
    latent_channels: int
    tokens: int
    levels: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BiCodecConfig:
    """The network's sizes; only what inference needs."""

    mel: MelConfig
    encoder: VocosConfig
    prenet: VocosConfig
    wave: WaveConfig
    semantic: SemanticConfig
    speaker: SpeakerConfig

    @property
    def samples_per_token(self) -> int:
        """Samples that the decoder makes of one semantic token."""
        return math.prod(self.wave.rates)

    @property
    def global_codes(self) -> int:
        """How many values a global token may have."""
        return math.prod(self.speaker.levels)

    @classmethod
    def from_file(cls, path: Path) -> BiCodecConfig:
        """Read upstream's `config.yaml`; raises BiCodecConfigError, or OSError without a file."""
        try:
            sections = yaml.safe_load(path.read_text(encoding="utf-8"))["audio_tokenizer"]
            config = cls(
                mel=_mel(sections["mel_params"]),
                encoder=_vocos(sections["encoder"]),
                prenet=_vocos(sections["prenet"]),
                wave=_wave(sections["decoder"]),
                semantic=_semantic(sections["quantizer"]),
                speaker=_speaker(sections["speaker_encoder"]),
            )
        except KeyError as error:
            raise BiCodecConfigError(f"{path} has no entry {error}") from error
        except (TypeError, yaml.YAMLError) as error:
            raise BiCodecConfigError(f"{path} is not a BiCodec configuration: {error}") from error
        except BiCodecConfigError as error:
            raise BiCodecConfigError(f"{path}: {error}") from error
        return config


def _mel(section: dict[str, Any]) -> MelConfig:
    rate = section["sample_rate"]
    return MelConfig(
        sample_rate_hz=rate,
        fft_samples=section["n_fft"],
        window_samples=section["win_length"],
        hop_samples=section["hop_length"],
        low_hz=section["mel_fmin"],
        high_hz=rate / 2 if section["mel_fmax"] is None else section["mel_fmax"],
        bands=section["num_mels"],
    )


def _vocos(section: dict[str, Any]) -> VocosConfig:
    ratios = section.get("sample_ratios", [1, 1])
    _only(all(ratio == 1 for ratio in ratios), "sample_ratios", ratios, "ones")
    final_tanh = section.get("use_tanh_at_final", False)
    _only(not final_tanh, "use_tanh_at_final", final_tanh, "false")
    return VocosConfig(
        input_channels=section["input_channels"],
        width=section["vocos_dim"],
        hidden_width=section["vocos_intermediate_dim"],
        layers=section["vocos_num_layers"],
        output_channels=section["out_channels"],
        condition_channels=section.get("condition_dim"),
        plain_stages=len(ratios),
    )


def _wave(section: dict[str, Any]) -> WaveConfig:
    rates, kernels = tuple(section["rates"]), tuple(section["kernel_sizes"])
    fits = len(rates) == len(kernels) and all(
        kernel >= rate and (kernel - rate) % 2 == 0
        for kernel, rate in zip(kernels, rates, strict=False)
    )
    allowed = "one for each rate, not below it, odd or even as it is"
    _only(fits, "kernel_sizes", list(kernels), allowed)
    return WaveConfig(section["input_channel"], section["channels"], rates, kernels)


def _semantic(section: dict[str, Any]) -> SemanticConfig:
    return SemanticConfig(section["input_dim"], section["codebook_size"], section["codebook_dim"])


def _speaker(section: dict[str, Any]) -> SpeakerConfig:
    quantizers = section["fsq_num_quantizers"]
    _only(quantizers == 1, "fsq_num_quantizers", quantizers, "1")
    return SpeakerConfig(
        mel_bands=section["input_dim"],
        output_channels=section["out_dim"],
        latent_channels=section["latent_dim"],
        tokens=section["token_num"],
        levels=tuple(section["fsq_levels"]),
    )


def _only(holds: bool, name: str, given: object, allowed: str) -> None:  # noqa: FBT001
    if not holds:
        raise BiCodecConfigError(f"{name} is {given}; this decoder knows {allowed}")
