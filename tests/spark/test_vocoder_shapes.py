"""The vocoder's batches in fixed shapes, with the decoder itself in the place of CUDA graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from speech_backend.batches import BATCH_SIZES
from speech_backend.bicodec import BiCodecDecoder
from speech_backend.shapes import FixedShapes
from speech_backend.vocoder import Vocoder
from speech_backend.windows import WINDOW_LENGTHS

if TYPE_CHECKING:
    from pathlib import Path

    from speech_backend.shapes import Compute

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def decoder(tiny_folder: Path) -> BiCodecDecoder:
    return BiCodecDecoder.load(tiny_folder)


class Ready:
    """Makes plain calls of the decoder ready, which accept one shape as a graph does."""

    def __init__(self, decoder: BiCodecDecoder) -> None:
        self.shapes: list[tuple[int, int]] = []
        self.called: list[tuple[int, int]] = []
        self._decoder = decoder

    def __call__(self, items: int, tokens: int) -> Compute:
        self.shapes.append((items, tokens))

        def compute(*inputs: torch.Tensor) -> torch.Tensor:
            assert [tuple(each.shape) for each in inputs] == [
                (items, tokens),
                (items, 32),
                (items,),
            ]
            self.called.append((items, tokens))
            with torch.inference_mode():
                return self._decoder(*inputs)

        return compute


def random_batch(items: int, tokens: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(items)
    semantic = torch.randint(0, 8192, (items, tokens), generator=random)
    voices = torch.randint(0, 4096, (items, 32), generator=random)
    return semantic, voices, torch.randint(1, tokens + 1, (items,), generator=random)


@pytest.mark.parametrize(("items", "shape"), [(1, 1), (2, 2), (3, 4), (5, 8), (9, 16), (16, 16)])
def test_a_batch_is_computed_in_the_next_larger_shape_and_sounds_the_same(
    decoder: BiCodecDecoder, items: int, shape: int
) -> None:
    ready = Ready(decoder)
    shapes = FixedShapes(decoder.check, ready)
    batch = random_batch(items, 48)

    samples = shapes(*batch)

    assert ready.called == [(shape, 48)]
    expected = decoder.decode(*batch)
    assert samples.shape == expected.shape
    np.testing.assert_allclose(samples.numpy(), expected.numpy(), atol=1e-5)


def test_every_window_has_its_shapes_and_the_largest_is_made_ready_first(
    decoder: BiCodecDecoder,
) -> None:
    ready = Ready(decoder)

    FixedShapes(decoder.check, ready)

    assert set(ready.shapes) == {(i, tokens) for i in BATCH_SIZES for tokens in WINDOW_LENGTHS}
    assert ready.shapes[0] == (max(BATCH_SIZES), max(WINDOW_LENGTHS))


def test_what_fits_no_shape_is_refused(decoder: BiCodecDecoder) -> None:
    shapes = FixedShapes(decoder.check, Ready(decoder))
    semantic, voices, lengths = random_batch(2, 48)

    with pytest.raises(ValueError, match="windows are of 50 tokens; allowed are"):
        shapes(*random_batch(1, 50))
    with pytest.raises(ValueError, match="semantic tokens are 0 to 8192"):
        shapes(semantic.clamp(max=0) + torch.tensor([[0], [8192]]), voices, lengths)


def window(tokens: int, length: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(tokens + length)
    return {
        "semantic_tokens": random.integers(0, 8192, tokens).astype(np.int32),
        "length": np.array([length], np.int32),
        "global_tokens": random.integers(0, 4096, 32).astype(np.int32),
    }


def test_windows_of_unequal_lengths_sound_as_each_does_alone(tiny_folder: Path) -> None:
    vocoder = Vocoder(tiny_folder.parent)
    windows = [window(*each) for each in ((160, 150), (48, 48), (512, 400), (96, 1), (48, 30))]

    together = vocoder.decode(windows)

    for answer, each in zip(together, windows, strict=True):
        [alone] = vocoder.decode([each])
        assert answer["waveform"].shape == alone["waveform"].shape == (1, 320 * each["length"][0])
        np.testing.assert_allclose(answer["waveform"], alone["waveform"], atol=1e-5)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ((0, 1), "length is 1, of 0 semantic tokens; from 1 to all of them are allowed"),
        ((48, 57), "length is 57, of 48 semantic tokens"),
        ((48, 0), "length is 0, of 48 semantic tokens"),
    ],
)
def test_a_length_is_of_its_own_tokens_whatever_they_are_padded_to(
    tiny_folder: Path, wrong: tuple[int, int], words: str
) -> None:
    vocoder = Vocoder(tiny_folder.parent)

    for others in ([window(96, 96)], []):
        with pytest.raises(ValueError, match=words):
            vocoder.decode([window(*wrong), *others])
