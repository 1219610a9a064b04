"""The vocoder: windows of many utterances decoded in one batch."""

from __future__ import annotations

import os
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
"""Frames that the wave generator, nine tenths of the work, is made ready for on a GPU."""


class Vocoder:
    """BiCodec's decoder; `dtype` (a name of torch's) is that of its convolutions.

    The wave generator decodes of a window only what is kept and what it hears around that.
    On a GPU every shape of a batch is a CUDA graph, of kernels that torch.compile has joined if
    `compiled`: a minute more at the start, and up to half of the time of a batch.
    """

    def __init__(
        self,
        model_dir: Path,
        device: str = "cpu",
        dtype: str = "float32",
        *,
        compiled: bool = False,
    ) -> None:
        """Load `BiCodec/` of a Spark-TTS checkpoint and decode each length of window once."""
        decoder = BiCodecDecoder.load(model_dir / "BiCodec", device, getattr(torch, dtype))
        self._check, self._samples_per_token = decoder.check, decoder.config.samples_per_token
        self._device = torch.device(device)
        self._frames: Compute = decoder.frames
        self._waveform: Compute = decoder.waveform
        if self._device.type == "cuda":
            # One compilation for all shapes; a graph is captured of each of them.
            frames, waveform = (
                torch.compile(half, dynamic=True) if compiled else half
                for half in (decoder.frames, decoder.waveform)
            )
            channels = decoder.config.wave.input_channels
            silence = partial(_silent_frames, channels)
            self._frames = FixedShapes(
                WINDOW_LENGTHS, Graphs(frames, device, _silent_tokens).capture
            )
            self._waveform = FixedShapes(CUT_LENGTHS, Graphs(waveform, device, silence).capture)
        for length in WINDOW_LENGTHS:
            self.decode([_silence(length)])

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, str]) -> Vocoder:
        """Load what the model's configuration says, for a process of its own."""
        torch.set_num_threads(int(parameters["threads"]))
        # Where processes share a GPU through MPS, what writes tokens comes first.
        os.environ.setdefault("CUDA_MPS_CLIENT_PRIORITY", "1")
        model_dir = Path(parameters["model_dir"])
        return cls(
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
        if self._device.type == "cuda":
            # Once for all batches: each wait for another process's turn on the GPU costs more.
            torch.cuda.synchronize(self._device)
        return [
            {"waveform": rows[number][None, self._kept(window, cuts[number])].numpy()}
            for number, window in enumerate(windows)
        ]

    def _cut_frames(
        self, windows: Sequence[Tensors], cuts: Sequence[range]
    ) -> dict[int, torch.Tensor]:
        """Return the frames of each cut, float32[frames, channels], by the window's number."""
        found = {}
        for numbers in cheapest_batches([_tokens(window) for window in windows]):
            batch = self._token_batch([windows[number] for number in numbers])
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
    first, stop = (int(token) for token in window["kept_tokens"])
    if not 0 <= first < stop <= length:
        raise ValueError(f"kept tokens are {first} to before {stop}, of {length} tokens")
    return range(max(0, first - FIELD_FRAMES), min(length, stop + FIELD_FRAMES))


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
