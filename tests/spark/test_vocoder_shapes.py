"""The vocoder's batches in fixed shapes, with the decoder itself in the place of CUDA graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from speech_backend.batches import BATCH_SIZES
from speech_backend.bicodec import BiCodecDecoder
from speech_backend.shapes import FixedShapes
from speech_backend.vocoder import CUT_LENGTHS, Vocoder
from speech_backend.windows import WINDOW_LENGTHS

if TYPE_CHECKING:
    from pathlib import Path

    from speech_backend.shapes import Compute

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def decoder(tiny_folder: Path) -> BiCodecDecoder:
    return BiCodecDecoder.load(tiny_folder)


class Ready:
    """Makes plain calls of half of the decoder ready, which accept one shape as a graph does.

    They return the same tensor each time, and any call spoils what the others have returned.
    """

    def __init__(self, half: Compute) -> None:
        self.shapes: list[tuple[int, int]] = []
        self.called: list[tuple[int, int]] = []
        self.lengths: list[list[int]] = []
        self._half = half
        self._made: dict[tuple[int, int], torch.Tensor] = {}

    def __call__(self, items: int, length: int) -> Compute:
        self.shapes.append((items, length))

        def compute(first: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
            assert first.shape[:2] == (items, length)
            assert {len(each) for each in others} == {items}
            self.called.append((items, length))
            self.lengths.append(others[-1].tolist())
            with torch.inference_mode():
                made = self._half(first, *others)
            for other in self._made.values():
                other.fill_(torch.nan)
            return self._made.setdefault((items, length), torch.empty_like(made)).copy_(made)

        return compute


def random_batch(items: int, tokens: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(items)
    semantic = torch.randint(0, 8192, (items, tokens), generator=random)
    voices = torch.randint(0, 4096, (items, 32), generator=random)
    return semantic, voices, torch.randint(1, tokens + 1, (items,), generator=random)


@pytest.mark.parametrize(("items", "shape"), [(1, 1), (2, 2), (3, 4), (5, 8), (9, 16), (16, 16)])
@pytest.mark.parametrize("tokens", [40, 48])
def test_a_batch_is_computed_in_the_next_larger_shape_and_sounds_the_same(
    decoder: BiCodecDecoder, items: int, shape: int, tokens: int
) -> None:
    tokens_ready, frames_ready = Ready(decoder.frames), Ready(decoder.waveform)
    frames, waveform = FixedShapes((48, 96), tokens_ready), FixedShapes((24, 96), frames_ready)
    batch = random_batch(items, tokens)

    samples = waveform(frames(*batch)[:, :tokens], batch[-1])

    assert tokens_ready.called == [(shape, 48)]
    assert frames_ready.called == [(shape, 96)]
    expected = decoder.decode(*batch)
    assert samples.shape == (items, 96 * 320)
    np.testing.assert_allclose(samples[:, : tokens * 320].numpy(), expected.numpy(), atol=1e-5)


def test_every_length_has_its_shapes_and_the_largest_is_made_ready_first(
    decoder: BiCodecDecoder,
) -> None:
    ready = Ready(decoder.frames)

    FixedShapes(WINDOW_LENGTHS, ready)

    assert set(ready.shapes) == {(i, tokens) for i in BATCH_SIZES for tokens in WINDOW_LENGTHS}
    assert ready.shapes[0] == (max(BATCH_SIZES), max(WINDOW_LENGTHS))


def test_what_fits_no_shape_is_refused(decoder: BiCodecDecoder) -> None:
    shapes = FixedShapes((24, 48), Ready(decoder.frames))

    with pytest.raises(ValueError, match="of an item are 50; allowed are up to 48"):
        shapes(*random_batch(1, 50))


def test_the_longest_window_has_its_shapes() -> None:
    assert CUT_LENGTHS[-1] == WINDOW_LENGTHS[-1]
    assert list(CUT_LENGTHS) == sorted({*CUT_LENGTHS})


def window(tokens: int, length: int, kept: tuple[int, ...] | None = None) -> dict[str, np.ndarray]:
    random = np.random.default_rng(tokens + length)
    return {
        "semantic_tokens": random.integers(0, 8192, tokens).astype(np.int32),
        "length": np.array([length], np.int32),
        "kept_tokens": np.array(kept or (0, length), np.int32),
        "global_tokens": random.integers(0, 4096, 32).astype(np.int32),
    }


@pytest.fixture(scope="module")
def vocoder(tiny_folder: Path) -> Vocoder:
    return Vocoder.load(tiny_folder.parent)


def test_windows_of_unequal_lengths_sound_as_each_does_alone(vocoder: Vocoder) -> None:
    shapes: tuple[Any, ...] = (
        (160, 150), (48, 48), (512, 400), (96, 1), (48, 30), (256, 240, (67, 170)), (96, 90, (1, 9))
    )  # fmt: skip
    windows = [window(*shape) for shape in shapes]

    together = vocoder.decode(windows)

    for answer, each in zip(together, windows, strict=True):
        [alone] = vocoder.decode([each])
        count = 320 * np.diff(each["kept_tokens"])[0]
        assert answer["waveform"].shape == alone["waveform"].shape == (1, count)
        np.testing.assert_allclose(answer["waveform"], alone["waveform"], atol=1e-5)


@pytest.mark.parametrize(
    "kept", [(0, 150), (0, 12), (3, 4), (10, 20), (67, 83), (139, 140), (140, 150), (149, 150)]
)
def test_a_part_sounds_as_it_does_in_the_whole(
    decoder: BiCodecDecoder, vocoder: Vocoder, kept: tuple[int, int]
) -> None:
    given = window(160, 150, kept)
    tokens, voice = (
        torch.from_numpy(given[name]).long()[None] for name in ("semantic_tokens", "global_tokens")
    )
    whole = decoder.decode(tokens[:, :150], voice, torch.tensor([150])).numpy()

    [part] = vocoder.decode([given])

    expected = whole[:, 320 * kept[0] : 320 * kept[1]]
    np.testing.assert_allclose(part["waveform"], expected, atol=1e-6)


@pytest.mark.parametrize(
    ("length", "kept", "cut"),
    [
        (146, (67, 79), 10 + 12 + 10),
        (79, (0, 12), 12 + 10),
        (140, (67, 140), 10 + 73),
        (12, (3, 11), 12),
        (1, (0, 1), 1),
    ],
    ids=["between", "first", "last", "all are near", "one token"],
)
def test_the_wave_generator_gets_what_is_kept_and_ten_frames_to_each_side(
    decoder: BiCodecDecoder, length: int, kept: tuple[int, int], cut: int
) -> None:
    given: list[torch.Size] = []

    def waveform(frames: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        given.append(frames.shape)
        return decoder.waveform(frames, lengths)

    vocoder = Vocoder(decoder, decoder.frames, waveform)
    given.clear()

    vocoder.decode([window(length, length, kept)])

    assert given == [(1, cut, decoder.config.wave.input_channels)]


def test_what_a_graph_returns_is_read_before_the_next_one_runs(decoder: BiCodecDecoder) -> None:
    frames, waveform = Ready(decoder.frames), Ready(decoder.waveform)
    vocoder = Vocoder(
        decoder, FixedShapes(WINDOW_LENGTHS, frames), FixedShapes(CUT_LENGTHS, waveform)
    )
    lengths = (40, 500, 41, 150, 390, 33)
    windows = [window(512, length, (length // 4, length // 2)) for length in lengths]
    windows += [window(48, 30), window(48, 48), window(96, 90)]

    together = vocoder.decode(windows)

    assert len(frames.called) > len(WINDOW_LENGTHS) + 1
    assert len(waveform.called) > len(WINDOW_LENGTHS) + 1
    for answer, each in zip(together, windows, strict=True):
        [alone] = vocoder.decode([each])
        assert np.isfinite(alone["waveform"]).all()
        np.testing.assert_allclose(answer["waveform"], alone["waveform"], atol=1e-5)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ((0, 1), "length is 1, of 0 semantic tokens; from 1 to all of them are allowed"),
        ((48, 57), "length is 57, of 48 semantic tokens"),
        ((48, 0), "length is 0, of 48 semantic tokens"),
        ((48, 30, (0, 31)), r"kept_tokens are \[0, 31\]; allowed are two numbers, the first token"),
        ((48, 30, (9, 9)), "of 0 to 29 and the one after the last, up to 30"),
        ((48, 30, (-1, 9)), r"kept_tokens are \[-1, 9\]"),
        ((48, 30, (5,)), r"kept_tokens are \[5\]"),
        ((48, 30, (1, 2, 3)), r"kept_tokens are \[1, 2, 3\]"),
    ],
)
def test_what_is_asked_is_of_its_own_tokens_whatever_they_are_padded_to(
    vocoder: Vocoder, wrong: Any, words: str
) -> None:
    for others in ([window(96, 96)], []):
        with pytest.raises(ValueError, match=words):
            vocoder.decode([window(*wrong), *others])


def test_a_code_that_there_is_not_never_reaches_a_graph(vocoder: Vocoder) -> None:
    wrong = window(48, 48)
    wrong["semantic_tokens"][-1] = 8192

    with pytest.raises(ValueError, match=r"semantic tokens are \d+ to 8192"):
        vocoder.decode([wrong])
