from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from engine.fixture import write_checkpoint
from speech_backend.audio_tokenizer import AudioTokenizer
from speech_backend.reference import BadReferenceError

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

pytestmark = pytest.mark.spark

RATE = 16_000


@pytest.fixture(scope="module")
def spark_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("spark")
    write_checkpoint(folder, "tiny", seed=1)
    return folder


@pytest.fixture(scope="module")
def tokenizer(spark_folder: Path) -> AudioTokenizer:
    return AudioTokenizer(spark_folder)


def noise(seconds: float, seed: int = 0) -> npt.NDArray[np.float32]:
    """Make noise of one amplitude, whose volume is the same wherever it is cut."""
    random = np.random.default_rng(seed)
    slow = np.repeat(random.standard_normal(int(seconds * RATE / 4)), 4)
    return (np.sign(slow) * 0.25).astype(np.float32)


def test_tokens_of_three_seconds(tokenizer: AudioTokenizer) -> None:
    global_tokens, semantic_tokens = tokenizer.tokenize(noise(3.0))

    assert global_tokens.dtype == semantic_tokens.dtype == np.int32
    assert global_tokens.shape == (32,)
    assert 0 <= global_tokens.min() < global_tokens.max() < 4096
    # wav2vec2's convolutions see 400 samples and step by 320.
    assert semantic_tokens.shape == ((3 * RATE - 400) // 320 + 1,)
    assert 0 <= semantic_tokens.min() < semantic_tokens.max() < 8192
    assert len(np.unique(semantic_tokens)) > 20


def test_another_instance_gives_the_same_tokens(
    spark_folder: Path, tokenizer: AudioTokenizer
) -> None:
    samples = noise(1.0)
    first, again = tokenizer.tokenize(samples), AudioTokenizer(spark_folder).tokenize(samples)

    np.testing.assert_array_equal(first[0], again[0])
    np.testing.assert_array_equal(first[1], again[1])


def test_a_short_clip_has_the_voice_of_its_repetition(tokenizer: AudioTokenizer) -> None:
    clip = noise(2.5)
    six_seconds = np.tile(clip, 3)[: 6 * RATE]

    short, long = tokenizer.tokenize(clip), tokenizer.tokenize(six_seconds)

    np.testing.assert_array_equal(short[0], long[0])
    assert len(short[1]) < len(long[1])


def test_the_voice_is_that_of_the_first_six_seconds(tokenizer: AudioTokenizer) -> None:
    clip, other = noise(6.0), noise(6.0, seed=1)
    first = tokenizer.tokenize(clip)

    longer = tokenizer.tokenize(np.concatenate([clip, other]))

    np.testing.assert_array_equal(first[0], longer[0])
    assert (first[0] != tokenizer.tokenize(other)[0]).any()


def test_tokens_do_not_depend_on_the_volume(tokenizer: AudioTokenizer) -> None:
    loud, soft = tokenizer.tokenize(noise(1.0) * 2), tokenizer.tokenize(noise(1.0) / 2)

    np.testing.assert_array_equal(loud[0], soft[0])
    np.testing.assert_array_equal(loud[1], soft[1])


def test_a_bad_recording_is_an_error(tokenizer: AudioTokenizer) -> None:
    with pytest.raises(BadReferenceError, match="is silent"):
        tokenizer.tokenize(np.zeros(RATE, dtype=np.float32))
