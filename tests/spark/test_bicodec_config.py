from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from engine.fixture.bicodec import network
from speech_backend.bicodec import BiCodecConfig, BiCodecConfigError

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark


def written(folder: Path, sections: dict[str, Any]) -> Path:
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump({"audio_tokenizer": sections}), encoding="utf-8")
    return path


def test_upstreams_configuration_is_read(tmp_path: Path) -> None:
    config = BiCodecConfig.from_file(written(tmp_path, network("full")))

    assert config.samples_per_token == 320
    assert config.global_codes == 4096
    assert config.mel.high_hz == 8000
    assert config.encoder.condition_channels is None
    assert config.prenet.condition_channels == 1024
    assert config.prenet.plain_stages == 2


@pytest.mark.parametrize(
    ("section", "entry", "value", "message"),
    [
        ("encoder", "sample_ratios", [2, 2], r"sample_ratios is \[2, 2\].*knows ones"),
        ("prenet", "use_tanh_at_final", True, "use_tanh_at_final is True"),
        ("speaker_encoder", "fsq_num_quantizers", 2, "fsq_num_quantizers is 2"),
        ("decoder", "kernel_sizes", [16, 10, 8, 4], r"kernel_sizes is \[16, 10, 8, 4\]"),
        ("decoder", "kernel_sizes", [16, 11, 8], "kernel_sizes is .*one for each rate"),
    ],
)
def test_a_network_that_is_not_built_here_is_an_error(
    tmp_path: Path, section: str, entry: str, value: object, message: str
) -> None:
    sections = network("full")
    sections[section][entry] = value
    path = written(tmp_path, sections)

    with pytest.raises(BiCodecConfigError, match=rf"config\.yaml: {message}"):
        BiCodecConfig.from_file(path)


def test_a_missing_entry_is_named(tmp_path: Path) -> None:
    sections = network("full")
    del sections["prenet"]["vocos_dim"]
    path = written(tmp_path, sections)

    with pytest.raises(BiCodecConfigError, match=r"config\.yaml has no entry 'vocos_dim'"):
        BiCodecConfig.from_file(path)


@pytest.mark.parametrize("text", ["", "audio_tokenizer: 5", "a: [", "- 1"])
def test_another_file_is_an_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(BiCodecConfigError, match="not a BiCodec configuration"):
        BiCodecConfig.from_file(path)
