"""The vocoder: windows of many utterances decoded in one batch."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from speech_backend.batches import cheapest_batches
from speech_backend.bicodec import FIELD_FRAMES, BiCodecDecoder
from speech_backend.shapes import FixedShapes, Graphs
from speech_backend.tokens import GLOBAL_TOKENS
from speech_backend.windows import WINDOW_LENGTHS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from speech_backend.shapes import Compute
    from speech_wire import Tensors

INPUTS = ("semantic_tokens", "length", "kept_tokens", "global_tokens")

CUT_LENGTHS = (24, 48, 64, 96, 128, 160, 192, 224, 256, 288, 384, 512)
"""Frames, in rising order, that the wave generator is made ready for on a GPU. They are closer to
each other than WINDOW_LENGTHS, since it is nineteen twentieths of the work."""


class Vocoder:
    """BiCodec's decoder, whose wave generator gets of a window only what is kept and hears.

    `frames` and `waveform` compute the decoder's halves, in any way; what they return may be
    overwritten by their next call.
    """

    def __init__(self, decoder: BiCodecDecoder, frames: Compute, waveform: Compute) -> None:
        """Decode each length of window once."""
        self._check, self._samples_per_token = decoder.check, decoder.config.samples_per_token
        self._frames, self._waveform = frames, waveform
        for length in WINDOW_LENGTHS:
            self.decode([_silence(length)])

    @classmethod
    def load(
        cls,
        model_dir: Path,
        device: str = "cpu",
        dtype: str = "float32",
        *,
        compiled: bool = False,
    ) -> Vocoder:
        """Load `BiCodec/` of a Spark-TTS checkpoint; `dtype`, torch's name, is of convolutions.

        On a GPU every shape of a batch is a CUDA graph, of kernels that torch.compile has joined
        if `compiled`: a minute more at the start, and up to half of the time of a batch.
        """
        decoder = BiCodecDecoder.load(model_dir / "BiCodec", device, getattr(torch, dtype))
        if torch.device(device).type != "cuda":
            return cls(decoder, decoder.frames, decoder.waveform)
        # One compilation for all shapes; a graph is captured of each of them.
        frames, waveform = (
            torch.compile(half, dynamic=True) if compiled else half
            for half in (decoder.frames, decoder.waveform)
        )
        silence = partial(_silent_frames, decoder.config.wave.input_channels)
        return cls(
            decoder,
            FixedShapes(WINDOW_LENGTHS, Graphs(frames, device, _silent_tokens).capture),
            FixedShapes(CUT_LENGTHS, Graphs(waveform, device, silence).capture),
        )

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, str]) -> Vocoder:
        """Load what the model's configuration says, for a process of its own."""
        torch.set_num_threads(int(parameters["threads"]))
        model_dir = Path(parameters["model_dir"])
        return cls.load(
            model_dir,
            parameters["device"],
            parameters["dtype"],
            compiled=parameters["compile"] == "true",
        )

    @torch.inference_mode()
    def decode(self, windows: Sequence[Tensors]) -> list[Tensors]:
        """Return the `waveform` of each window's `kept_tokens`, float32[1, n].

        These are int32[2], the first one and the one after the last, of the first `length` of its
        `semantic_tokens`. Windows that share a batch are padded to one length; what a window
        sounds like does not depend on the others. Raises ValueError for tokens, lengths or parts
        that cannot be.
        """
        cuts = [_cut(window) for window in windows]
        frames = self._cut_frames(windows, cuts)
        rows: dict[int, torch.Tensor] = {}
        for numbers in cheapest_batches([len(cut) for cut in cuts]):
            samples = self._samples([frames[number] for number in numbers])
            rows.update(zip(numbers, samples, strict=True))
        for device in {each.device for each in frames.values() if each.is_cuda}:
            # Once for all batches: each wait for another process's turn on the GPU costs more.
            torch.cuda.synchronize(device)
        return [
            {"waveform": rows[number][None, self._kept(window, cuts[number])].numpy()}
            for number, window in enumerate(windows)
        ]

    def _cut_frames(
        self, windows: Sequence[Tensors], cuts: Sequence[range]
    ) -> dict[int, torch.Tensor]:
        """Return the frames of each cut, float32[frames, channels], by the window's number."""
        batches = cheapest_batches([_tokens(window) for window in windows])
        # All of them first, so that nothing is computed beside a window that is refused.
        inputs = [self._token_batch([windows[n] for n in numbers]) for numbers in batches]
        found = {}
        for numbers, batch in zip(batches, inputs, strict=True):
            for row, number in zip(self._frames(*batch), numbers, strict=True):
                # A copy, since the next batch is written where this one is.
                found[number] = row[cuts[number].start : cuts[number].stop].clone()
        return found

    def _token_batch(self, windows: Sequence[Tensors]) -> tuple[torch.Tensor, ...]:
        semantic = np.zeros((len(windows), max(map(_tokens, windows))), np.int32)
        for row, window in zip(semantic, windows, strict=True):
            row[: _tokens(window)] = window["semantic_tokens"]
        voices, lengths = (
            torch.from_numpy(np.stack([window[name] for window in windows])).long()
            for name in ("global_tokens", "length")
        )
        batch = (torch.from_numpy(semantic).long(), voices, lengths[:, 0])
        self._check(*batch)
        return batch

    def _samples(self, frames: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return the samples of each, float32[items, samples of the longest or more].

        They are on the CPU, once the GPU has done what it was asked.
        """
        lengths = torch.tensor([len(each) for each in frames])
        padded = torch.nn.utils.rnn.pad_sequence(list(frames), batch_first=True)
        samples = self._waveform(padded, lengths)
        host = torch.empty(samples.shape, pin_memory=samples.is_cuda)
        return host.copy_(samples, non_blocking=True)

    def _kept(self, window: Tensors, cut: range) -> slice:
        first, stop = (int(token) - cut.start for token in window["kept_tokens"])
        return slice(first * self._samples_per_token, stop * self._samples_per_token)


def _tokens(window: Tensors) -> int:
    return len(window["semantic_tokens"])


def _cut(window: Tensors) -> range:
    """Return the tokens whose frames are heard in the kept ones; ValueError where none can be."""
    length, tokens = int(window["length"][0]), _tokens(window)
    # Later a window may be padded with tokens that are not its own.
    if not 1 <= length <= tokens:
        raise ValueError(
            f"length is {length}, of {tokens} semantic tokens; from 1 to all of them are allowed"
        )
    match window["kept_tokens"].tolist():
        case [first, stop] if 0 <= first < stop <= length:
            return range(max(0, first - FIELD_FRAMES), min(length, stop + FIELD_FRAMES))
        case kept:
            raise ValueError(
                f"kept_tokens are {kept}; allowed are two numbers, the first token of 0 to "
                f"{length - 1} and the one after the last, up to {length}"
            )


def _silence(length: int) -> Tensors:
    return {
        "semantic_tokens": np.zeros(length, np.int32),
        "length": np.array([length], np.int32),
        "kept_tokens": np.array([0, length], np.int32),
        "global_tokens": np.zeros(GLOBAL_TOKENS, np.int32),
    }


def _silent_tokens(items: int, tokens: int) -> tuple[torch.Tensor, ...]:
    """Return a batch of the decoder's first half: semantic tokens, global tokens, lengths."""
    return (
        torch.zeros((items, tokens), dtype=torch.long),
        torch.zeros((items, GLOBAL_TOKENS), dtype=torch.long),
        torch.full((items,), tokens),
    )


def _silent_frames(channels: int, items: int, frames: int) -> tuple[torch.Tensor, ...]:
    """Return a batch of its second half: frames, lengths."""
    return torch.zeros((items, frames, channels)), torch.full((items,), frames)
