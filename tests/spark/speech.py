"""A whole random tokenizer checkpoint in upstream's layout, a narrow wav2vec2 included."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import yaml
from transformers import Wav2Vec2Config, Wav2Vec2FeatureExtractor, Wav2Vec2Model

from spark.checkpoint import network, write_bicodec

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = {
    "highpass_cutoff_freq": 40,
    "sample_rate": 16000,
    "segment_duration": 2.4,
    "max_val_duration": 12,
    "latent_hop_length": 320,
    "ref_segment_duration": 6,
    "volume_normalize": True,
}


def write_spark(folder: Path, seed: int) -> None:
    """Write `config.yaml`, `BiCodec/` (tiny) and `wav2vec2-large-xlsr-53/` (24 narrow layers)."""
    write_bicodec(folder / "BiCodec", "tiny", seed)
    (folder / "config.yaml").write_text(yaml.safe_dump(SETTINGS), encoding="utf-8")
    width = network("tiny")["encoder"]["input_channels"]
    write_wav2vec2(folder / "wav2vec2-large-xlsr-53", width, seed)


def write_wav2vec2(folder: Path, width: int, seed: int) -> None:
    """Write a random model with the layout of wav2vec2-large-xlsr-53, but `width` channels."""
    config = Wav2Vec2Config(
        hidden_size=width,
        num_hidden_layers=24,
        num_attention_heads=2,
        intermediate_size=2 * width,
        conv_dim=[16] * 7,
        conv_bias=True,
        feat_extract_norm="layer",
        do_stable_layer_norm=True,
        num_conv_pos_embedding_groups=4,
        apply_spec_augment=False,
        layerdrop=0.0,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = Wav2Vec2Model(config)
        for parameter in model.parameters():
            if parameter.ndim > 1:  # the usual start is so faint that every clip would sound alike
                torch.nn.init.normal_(parameter, std=parameter[0].numel() ** -0.5)
    model.save_pretrained(folder)
    Wav2Vec2FeatureExtractor(do_normalize=True, return_attention_mask=True).save_pretrained(folder)
