"""Our BiCodec against the reference modules, with the same random weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import soundfile
import torch

from engine.fixture import write_checkpoint
from engine.fixture.bicodec import write_bicodec
from speech_backend.audio_tokenizer import AudioTokenizer
from speech_backend.bicodec import BiCodecDecoder, BiCodecEncoder
from speech_backend.reference import even_volume, prepare

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

# The reference is a year old and warns of what it uses.
pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]

RATE = 16_000
HOP = 320


@pytest.fixture(scope="module", params=["tiny", "full"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp(request.param) / "BiCodec"
    write_bicodec(path, request.param, seed=7)
    return path


@pytest.fixture(scope="module")
def decoder(folder: Path) -> BiCodecDecoder:
    return BiCodecDecoder.load(folder)


@pytest.fixture(scope="module")
def encoder(folder: Path) -> BiCodecEncoder:
    return BiCodecEncoder.load(folder)


@pytest.fixture(scope="module")
def reference(folder: Path) -> Any:
    from spark_tts_lib.models.bicodec import BiCodec  # noqa: PLC0415 - not in `make test-spark`

    return BiCodec.load_from_checkpoint(folder)


def random_tokens(items: int, tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(items * tokens)
    semantic = torch.randint(0, 8192, (items, tokens), generator=random)
    return semantic, torch.randint(0, 4096, (items, 32), generator=random)


def speech(seconds: float, rate: int = RATE, seed: int = 0) -> npt.NDArray[np.float64]:
    """Make a buzz with moving formants and pauses: not speech, but as uneven."""
    random = np.random.default_rng(seed)
    time = np.arange(int(seconds * rate)) / rate
    pitch = 120 + 30 * np.sin(2 * np.pi * 0.7 * time + seed)
    phase = 2 * np.pi * np.cumsum(pitch) / rate
    weights = random.uniform(0, 1, (12, 1)) * (1 + np.sin(np.outer(random.uniform(1, 9, 12), time)))
    harmonics = np.sin(np.outer(np.arange(1, 13), phase))
    envelope = np.clip(np.sin(2 * np.pi * 1.3 * time), 0, 1)
    samples = (weights * harmonics).sum(0) * envelope + 0.01 * random.standard_normal(len(time))
    return 0.6 * samples / np.abs(samples).max()


def test_every_tensor_that_the_reference_has_is_written(
    reference: Any, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    """It prints what it misses; the spectrogram's window and filters are no weights."""
    type(reference).load_from_checkpoint(folder)

    missed = [line for line in capsys.readouterr().out.splitlines() if line]
    assert [line for line in missed if "mel_transformer" not in line] == []


@pytest.mark.parametrize("frames", [1, 120])
def test_semantic_tokens_are_identical(
    encoder: BiCodecEncoder, reference: Any, frames: int
) -> None:
    channels = encoder.config.encoder.input_channels
    features = torch.randn(frames, channels, generator=torch.Generator().manual_seed(frames))

    tokens, _ = reference.tokenize({"feat": features[None], "ref_wav": torch.randn(1, 96_000)})

    assert torch.equal(encoder.semantic_tokens(features), tokens[0])


@pytest.mark.parametrize("seed", range(3))
def test_global_tokens_are_identical(encoder: BiCodecEncoder, reference: Any, seed: int) -> None:
    samples = torch.from_numpy(speech(6.0, seed=seed)).float()
    features = torch.zeros(1, 1, encoder.config.encoder.input_channels)

    _, tokens = reference.tokenize({"feat": features, "ref_wav": samples[None]})

    assert torch.equal(encoder.global_tokens(samples), tokens.flatten())


def test_the_mel_spectrogram_is_the_same(encoder: BiCodecEncoder, reference: Any) -> None:
    samples = torch.from_numpy(speech(6.0)).float()[None]
    expected = reference.mel_transformer(samples)

    mel = encoder.mel(samples)

    assert mel.shape == expected.shape == (1, 128, 301)
    assert (mel - expected).abs().max() <= 1e-5 * expected.abs().max()


def test_the_voices_vector_is_the_same(decoder: BiCodecDecoder, reference: Any) -> None:
    _, voices = random_tokens(4, 1)

    with torch.inference_mode():
        expected = reference.speaker_encoder.detokenize(voices[:, None])
        vector = decoder.speaker_encoder(voices)

    torch.testing.assert_close(vector, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("items", "tokens"), [(1, 1), (2, 25)])
def test_the_waveform_is_the_same(
    decoder: BiCodecDecoder, reference: Any, items: int, tokens: int
) -> None:
    semantic, voices = random_tokens(items, tokens)
    expected = reference.detokenize(semantic, voices[:, None]).squeeze(1)

    waveform = decoder.decode(semantic, voices, torch.full((items,), tokens))

    assert waveform.shape == expected.shape
    assert (waveform - expected).abs().max() <= 1e-5 * expected.abs().max()


def test_an_item_of_a_padded_batch_is_the_references(
    decoder: BiCodecDecoder, reference: Any
) -> None:
    lengths = [1, 8, 30, 17]
    semantic, voices = random_tokens(4, 30)

    together = decoder.decode(semantic, voices, torch.tensor(lengths))

    for item, length in enumerate(lengths):
        one = slice(item, item + 1)
        alone = reference.detokenize(semantic[one, :length], voices[one, None]).flatten()
        assert (together[item, : length * HOP] - alone).abs().max() <= 1e-5


@pytest.mark.parametrize("gain", [0.02, 0.15, 0.5, 1.0])
def test_the_volume_is_the_references(gain: float) -> None:
    from spark_tts_lib.utils.audio import audio_volume_normalize  # noqa: PLC0415

    samples = (speech(3.0) * gain).astype(np.float32)

    expected = audio_volume_normalize(samples.astype(np.float64))

    np.testing.assert_allclose(even_volume(samples), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    ("seconds", "rate", "channels"), [(3.3, RATE, 1), (7.0, 24_000, 2), (1.0, 44_100, 1)]
)
def test_a_recordings_tokens_are_identical(
    tmp_path: Path, seconds: float, rate: int, channels: int
) -> None:
    from spark_tts_lib.models.audio_tokenizer import BiCodecTokenizer  # noqa: PLC0415

    write_checkpoint(tmp_path / "spark", "tiny", seed=3)
    left = speech(seconds, rate)
    frames = np.stack([left, speech(seconds, rate, seed=1)][:channels], axis=1)
    soundfile.write(tmp_path / "clip.flac", frames, rate, subtype="PCM_16")
    their = BiCodecTokenizer(tmp_path / "spark", torch.device("cpu"))
    expected_global, expected_semantic = their.tokenize(tmp_path / "clip.flac")

    interleaved, _ = soundfile.read(tmp_path / "clip.flac", dtype="float32")
    samples = prepare(interleaved.ravel(), rate, channels)
    global_tokens, semantic_tokens = AudioTokenizer(tmp_path / "spark").tokenize(samples)

    np.testing.assert_array_equal(global_tokens, expected_global.flatten().numpy())
    np.testing.assert_array_equal(semantic_tokens, expected_semantic[0].numpy())
