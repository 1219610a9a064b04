"""A random BiCodec checkpoint in upstream's layout: the names of its files and tensors, its sizes.

Needs numpy, yaml and safetensors. Both sizes have the same layers, kernels, strides and
dilations, so what a token can reach is the same; `tiny` has narrow ones.
"""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import yaml
from safetensors.numpy import save_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy.typing as npt

Size: TypeAlias = Literal["tiny", "full"]
Tensors: TypeAlias = "Iterator[tuple[str, npt.NDArray[Any]]]"

FULL: dict[str, dict[str, Any]] = {
    "mel_params": {
        "sample_rate": 16000,
        "n_fft": 1024,
        "win_length": 640,
        "hop_length": 320,
        "mel_fmin": 10,
        "mel_fmax": None,
        "num_mels": 128,
    },
    "encoder": {
        "input_channels": 1024,
        "vocos_dim": 384,
        "vocos_intermediate_dim": 2048,
        "vocos_num_layers": 12,
        "out_channels": 1024,
        "sample_ratios": [1, 1],
    },
    "decoder": {
        "input_channel": 1024,
        "channels": 1536,
        "rates": [8, 5, 4, 2],
        "kernel_sizes": [16, 11, 8, 4],
    },
    "quantizer": {
        "input_dim": 1024,
        "codebook_size": 8192,
        "codebook_dim": 8,
        "commitment": 0.25,
        "codebook_loss_weight": 2.0,
        "use_l2_normlize": True,
        "threshold_ema_dead_code": 0.2,
    },
    "speaker_encoder": {
        "input_dim": 128,
        "out_dim": 1024,
        "latent_dim": 128,
        "token_num": 32,
        "fsq_levels": [4, 4, 4, 4, 4, 4],
        "fsq_num_quantizers": 1,
    },
    "prenet": {
        "input_channels": 1024,
        "vocos_dim": 384,
        "vocos_intermediate_dim": 2048,
        "vocos_num_layers": 12,
        "out_channels": 1024,
        "condition_dim": 1024,
        "sample_ratios": [1, 1],
        "use_tanh_at_final": False,
    },
    "postnet": {
        "input_channels": 1024,
        "vocos_dim": 384,
        "vocos_intermediate_dim": 2048,
        "vocos_num_layers": 6,
        "out_channels": 1024,
        "use_tanh_at_final": False,
    },
}
TINY: dict[str, dict[str, Any]] = {
    "encoder": {
        "input_channels": 32,
        "vocos_dim": 16,
        "vocos_intermediate_dim": 32,
        "out_channels": 32,
    },
    "decoder": {"input_channel": 32, "channels": 64},
    "quantizer": {"input_dim": 32, "codebook_size": 8192},
    "speaker_encoder": {"out_dim": 32, "latent_dim": 16},
    "prenet": {
        "input_channels": 32,
        "vocos_dim": 16,
        "vocos_intermediate_dim": 32,
        "out_channels": 32,
        "condition_dim": 32,
    },
    "postnet": {
        "input_channels": 32,
        "vocos_dim": 16,
        "vocos_intermediate_dim": 32,
        "out_channels": 32,
    },
}

# ECAPA-TDNN's sizes stand in no configuration; nor do the perceiver's heads.
ECAPA_CHANNELS = 512
ECAPA_LATENTS = 3 * ECAPA_CHANNELS
BOTTLENECK = 128
ATTENTION = 8 * 64


def network(size: Size) -> dict[str, dict[str, Any]]:
    """Return the section `audio_tokenizer` of a `config.yaml`."""
    sections = copy.deepcopy(FULL)
    if size == "tiny":
        for name, changes in TINY.items():
            sections[name].update(changes)
    return sections


def write_bicodec(folder: Path, size: Size, seed: int) -> None:
    """Write `config.yaml` and `model.safetensors`; the same seed writes the same bytes."""
    sections = network(size)
    folder.mkdir(parents=True)
    text = yaml.safe_dump({"audio_tokenizer": sections}, sort_keys=False)
    (folder / "config.yaml").write_text(text, encoding="utf-8")
    save_file(dict(Random(seed).bicodec(sections)), folder / "model.safetensors")


class Random:
    """Tensors whose sizes keep the signal's own size from layer to layer, so nothing saturates."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def bicodec(self, sections: dict[str, dict[str, Any]]) -> Tensors:
        """Yield every tensor of the checkpoint, those that only training needs included."""
        yield from self._encoder("encoder", sections["encoder"])
        yield from self._prenet("prenet", sections["prenet"])
        yield from self._prenet("postnet", sections["postnet"])
        yield from self._wave_generator("decoder.model", sections["decoder"])
        yield from self._semantic("quantizer", sections["quantizer"])
        yield from self._speaker("speaker_encoder", sections["speaker_encoder"])

    def _normal(self, *shape: int, scale: float = 1.0) -> npt.NDArray[np.float32]:
        return self._random.standard_normal(shape, dtype=np.float32) * np.float32(scale)

    def _near_one(self, *shape: int) -> npt.NDArray[np.float32]:
        return self._random.uniform(0.7, 1.3, shape).astype(np.float32)

    def _layer(self, name: str, *shape: int, bias: bool = True) -> Tensors:
        """Yield a linear layer or convolution [out, in, kernel]."""
        yield f"{name}.weight", self._normal(*shape, scale=math.prod(shape[1:]) ** -0.5)
        if bias:
            yield f"{name}.bias", self._normal(shape[0], scale=0.1)

    def _weight_normed(
        self, name: str, shape: tuple[int, ...], outputs: int, size: float
    ) -> Tensors:
        """Yield a convolution as magnitude and direction; `size` is the magnitude's mean."""
        yield f"{name}.weight_g", size * self._near_one(shape[0], 1, 1)
        yield f"{name}.weight_v", self._normal(*shape)
        yield f"{name}.bias", self._normal(outputs, scale=0.1)

    def _layer_norm(self, name: str, width: int) -> Tensors:
        yield f"{name}.weight", self._near_one(width)
        yield f"{name}.bias", self._normal(width, scale=0.1)

    def _norm(self, name: str, width: int, condition: int | None) -> Tensors:
        if condition is None:
            yield from self._layer_norm(name, width)
        else:
            for part, centre in (("scale", 1.0), ("shift", 0.0)):
                yield (
                    f"{name}.{part}.weight",
                    self._normal(width, condition, scale=0.3 / condition**0.5),
                )
                yield f"{name}.{part}.bias", centre + self._normal(width, scale=0.1)

    def _batch_norm(self, name: str, channels: int) -> Tensors:
        yield from self._layer_norm(name, channels)
        yield f"{name}.running_mean", np.abs(self._normal(channels, scale=0.4))
        yield f"{name}.running_var", self._near_one(channels) / 2
        yield f"{name}.num_batches_tracked", np.array(1, dtype=np.int64)

    def _vocos(
        self,
        name: str,
        channels: int,
        section: dict[str, Any],
        layers: int,
        condition: int | None = None,
    ) -> Tensors:
        width, hidden = section["vocos_dim"], section["vocos_intermediate_dim"]
        yield from self._layer(f"{name}.embed", width, channels, 7)
        yield from self._norm(f"{name}.norm", width, condition)
        for block in (f"{name}.convnext.{index}" for index in range(layers)):
            yield from self._layer(f"{block}.dwconv", width, 1, 7)
            yield from self._norm(f"{block}.norm", width, condition)
            yield from self._layer(f"{block}.pwconv1", hidden, width)
            yield from self._layer(f"{block}.pwconv2", width, hidden)
            yield f"{block}.gamma", self._near_one(width) / math.sqrt(layers)
        yield from self._layer_norm(f"{name}.final_layer_norm", width)

    def _plain_stages(self, name: str, section: dict[str, Any]) -> Tensors:
        for stage in range(2):
            yield from self._vocos(f"{name}.{stage}.1", section["vocos_dim"], section, layers=2)

    def _encoder(self, name: str, section: dict[str, Any]) -> Tensors:
        layers = section["vocos_num_layers"]
        yield from self._vocos(f"{name}.encoder", section["input_channels"], section, layers)
        yield from self._plain_stages(f"{name}.downsample", section)
        yield from self._layer(f"{name}.project", section["out_channels"], section["vocos_dim"])

    def _prenet(self, name: str, section: dict[str, Any]) -> Tensors:
        width, layers = section["vocos_dim"], section["vocos_num_layers"]
        condition = section.get("condition_dim")
        yield from self._layer(f"{name}.linear_pre", width, section["input_channels"])
        yield from self._plain_stages(f"{name}.downsample", section)
        yield from self._vocos(f"{name}.vocos_backbone", width, section, layers, condition)
        yield from self._layer(f"{name}.linear", section["out_channels"], width)

    def _wave_generator(self, name: str, section: dict[str, Any]) -> Tensors:
        channels = section["channels"]
        yield from self._weight_normed(
            f"{name}.0", (channels, section["input_channel"], 7), channels, 0.8
        )
        stages = zip(section["kernel_sizes"], section["rates"], strict=True)
        for index, (kernel, rate) in enumerate(stages, start=1):
            block, half = f"{name}.{index}.block", channels // 2
            yield f"{block}.0.alpha", self._near_one(1, channels, 1)
            # Weight norm is over the first axis, which here is that of the inputs.
            size = 0.8 * math.sqrt(rate / 2)
            yield from self._weight_normed(f"{block}.1", (channels, half, kernel), half, size)
            for unit in (2, 3, 4):
                yield from self._residual_unit(f"{block}.{unit}.block", half)
            channels = half
        yield f"{name}.5.alpha", self._near_one(1, channels, 1)
        yield from self._weight_normed(f"{name}.6", (1, channels, 7), 1, 0.1)

    def _residual_unit(self, name: str, channels: int) -> Tensors:
        for index, kernel in ((0, 7), (2, 1)):
            yield f"{name}.{index}.alpha", self._near_one(1, channels, 1)
            layer = f"{name}.{index + 1}"
            yield from self._weight_normed(layer, (channels, channels, kernel), channels, 0.4)

    def _semantic(self, name: str, section: dict[str, Any]) -> Tensors:
        channels, code = section["input_dim"], section["codebook_dim"]
        yield from self._weight_normed(f"{name}.in_project", (code, channels, 1), code, 1.0)
        yield from self._weight_normed(f"{name}.out_project", (channels, code, 1), channels, 1.0)
        yield f"{name}.codebook.weight", self._normal(section["codebook_size"], code)
        yield f"{name}.cluster_size", self._near_one(section["codebook_size"])

    def _speaker(self, name: str, section: dict[str, Any]) -> Tensors:
        latent, tokens = section["latent_dim"], section["token_num"]
        yield from self._ecapa(f"{name}.speaker_encoder", section["input_dim"], section["out_dim"])
        yield from self._perceiver(f"{name}.perceiver_sampler", latent, tokens)
        digits = len(section["fsq_levels"])
        yield from self._layer(f"{name}.quantizer.project_in", digits, latent)
        yield from self._layer(f"{name}.quantizer.project_out", latent, digits)
        yield from self._layer(f"{name}.project", section["out_dim"], latent * tokens)

    def _ecapa(self, name: str, bands: int, outputs: int) -> Tensors:
        channels = ECAPA_CHANNELS
        yield from self._heard(f"{name}.layer1", channels, bands, 5)
        for block in (f"{name}.layer{index}.se_res2block" for index in (2, 3, 4)):
            yield from self._heard(f"{block}.0", channels, channels, 1)
            for group in range(7):
                yield from self._layer(f"{block}.1.convs.{group}", channels // 8, channels // 8, 3)
                yield from self._batch_norm(f"{block}.1.bns.{group}", channels // 8)
            yield from self._heard(f"{block}.2", channels, channels, 1)
            yield from self._layer(f"{block}.3.linear1", BOTTLENECK, channels)
            yield from self._layer(f"{block}.3.linear2", channels, BOTTLENECK)
        yield from self._layer(f"{name}.conv", ECAPA_LATENTS, ECAPA_LATENTS, 1)
        yield from self._layer(f"{name}.pool.linear1", BOTTLENECK, 3 * ECAPA_LATENTS, 1)
        yield from self._layer(f"{name}.pool.linear2", ECAPA_LATENTS, BOTTLENECK, 1)
        yield from self._batch_norm(f"{name}.bn", 2 * ECAPA_LATENTS)
        yield from self._layer(f"{name}.linear", outputs, 2 * ECAPA_LATENTS)

    def _heard(self, name: str, channels: int, inputs: int, kernel: int) -> Tensors:
        yield from self._layer(f"{name}.conv", channels, inputs, kernel)
        yield from self._batch_norm(f"{name}.bn", channels)

    def _perceiver(self, name: str, width: int, tokens: int) -> Tensors:
        hidden = width * 8 // 3
        yield f"{name}.latents", self._normal(tokens, width)
        yield from self._layer(f"{name}.proj_context", width, ECAPA_LATENTS)
        for layer in (f"{name}.layers.{index}" for index in range(2)):
            yield from self._layer(f"{layer}.0.to_q", ATTENTION, width, bias=False)
            yield from self._layer(f"{layer}.0.to_kv", 2 * ATTENTION, width, bias=False)
            yield from self._layer(f"{layer}.0.to_out", width, ATTENTION, bias=False)
            yield from self._layer(f"{layer}.1.0", 2 * hidden, width)
            yield from self._layer(f"{layer}.1.2", width, hidden)
        yield f"{name}.norm.gamma", self._near_one(width)
