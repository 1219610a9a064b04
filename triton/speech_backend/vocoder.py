"""The vocoder: windows of many utterances decoded in one batch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from speech_backend.batches import cheapest_batches
from speech_backend.bicodec import BiCodecDecoder
from speech_backend.shapes import FixedShapes, Graphs
from speech_backend.tokens import GLOBAL_TOKENS
from speech_backend.windows import WINDOW_LENGTHS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from speech_backend.shapes import Compute
    from speech_wire import Tensors

INPUTS = ("semantic_tokens", "length", "global_tokens")


class Vocoder:
    """BiCodec's decoder; `dtype` (a name of torch's) is that of its convolutions.

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
        self._decoder = BiCodecDecoder.load(model_dir / "BiCodec", device, getattr(torch, dtype))
        self._compute: Compute = self._decoder.decode
        if torch.device(device).type == "cuda":
            forward = self._decoder.forward
            # One compilation for all shapes; a graph is captured of each of them.
            joined = torch.compile(forward, dynamic=True) if compiled else forward
            self._compute = FixedShapes(self._decoder.check, Graphs(joined, device).capture)
        for length in WINDOW_LENGTHS:
            self.decode([_silence(length)])

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, str]) -> Vocoder:
        """Load what the model's configuration says, for a process of its own."""
        torch.set_num_threads(int(parameters["threads"]))
        model_dir = Path(parameters["model_dir"])
        return cls(
            model_dir,
            parameters["device"],
            parameters["dtype"],
            compiled=parameters["compile"] == "true",
        )

    def decode(self, windows: Sequence[Tensors]) -> list[Tensors]:
        """Return the `waveform` of each window's first `length` tokens, float32[1, n].

        Windows that share a batch are padded to one length; what a window sounds like does not
        depend on the others. Raises ValueError for tokens or lengths that cannot be.
        """
        for window in windows:
            _check_length(window)
        order = sorted(range(len(windows)), key=lambda number: _tokens(windows[number]))
        answers: dict[int, Tensors] = {}
        for part in cheapest_batches([_tokens(windows[number]) for number in order]):
            numbers = order[part]
            batch = self._decode_batch([windows[number] for number in numbers])
            answers.update(zip(numbers, batch, strict=True))
        return [answers[number] for number in range(len(windows))]

    def _decode_batch(self, windows: Sequence[Tensors]) -> list[Tensors]:
        semantic = np.zeros((len(windows), max(map(_tokens, windows))), np.int32)
        for row, window in zip(semantic, windows, strict=True):
            row[: _tokens(window)] = window["semantic_tokens"]
        voices, lengths = (
            torch.from_numpy(np.stack([window[name] for window in windows])).long()
            for name in ("global_tokens", "length")
        )
        lengths = lengths[:, 0]
        samples = self._compute(torch.from_numpy(semantic).long(), voices, lengths).cpu().numpy()
        per_token = self._decoder.config.samples_per_token
        return [
            {"waveform": row[None, : length * per_token]}
            for row, length in zip(samples, lengths.tolist(), strict=True)
        ]


def _tokens(window: Tensors) -> int:
    return len(window["semantic_tokens"])


def _check_length(window: Tensors) -> None:
    # Later a window may be padded with tokens that are not its own.
    length, tokens = int(window["length"][0]), _tokens(window)
    if not 1 <= length <= tokens:
        raise ValueError(
            f"length is {length}, of {tokens} semantic tokens; from 1 to all of them are allowed"
        )


def _silence(length: int) -> Tensors:
    return {
        "semantic_tokens": np.zeros(length, np.int32),
        # One token less than there are, since a whole batch without padding takes a shorter way.
        "length": np.array([length - 1], np.int32),
        "global_tokens": np.zeros(GLOBAL_TOKENS, np.int32),
    }
