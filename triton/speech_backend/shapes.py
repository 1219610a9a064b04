"""The vocoder's batches in few shapes, each made ready at the start: CUDA graphs on a GPU.

Launching a thousand small kernels takes the processor longer than the GPU computes them; a
graph launches all of them at once, but only for the shape that it was captured with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import torch

from speech_backend.batches import BATCH_SIZES, batch_size, next_larger

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Compute: TypeAlias = "Callable[..., torch.Tensor]"
"""Half of the decoder, `BiCodecDecoder.frames` or `.waveform`, on the CPU or not: int64[items,
tokens] or float32[items, frames, channels] comes first, int64[items], the lengths, last."""

WARM_UP_ROUNDS = 2
"""Before a capture, so that libraries choose their kernels and get their memory outside of it."""


class FixedShapes:
    """Computes a batch as the next larger one of those that were made ready."""

    def __init__(self, lengths: Sequence[int], ready: Callable[[int, int], Compute]) -> None:
        """Have `ready` prepare each number of items with each length; these rise.

        The largest is the first, since the others can use its memory.
        """
        self._lengths = lengths
        shapes = [(items, length) for length in lengths for items in BATCH_SIZES]
        shapes.sort(key=lambda shape: shape[0] * shape[1], reverse=True)
        self._computes = {shape: ready(*shape) for shape in shapes}

    def __call__(self, first: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        """Return what is made of the items, the last of `others` being their lengths.

        It is as long as what is made of the shape that was made ready; what lies past an item's
        length means nothing. Raises ValueError for a batch that no shape holds.
        """
        items, length = first.shape[:2]
        ready_length = next_larger(length, self._lengths)
        if ready_length is None:
            raise ValueError(
                f"tokens or frames of an item are {length}; allowed are up to {self._lengths[-1]}"
            )
        shape = batch_size(items), ready_length
        rows = torch.arange(shape[0]).clamp(max=items - 1)
        padded = first.new_zeros((*shape, *first.shape[2:]))
        padded[:items, :length] = first
        return self._computes[shape](padded, *(each[rows] for each in others))[:items]


class Graphs:
    """Captures half of a decoder, shape by shape; `batch` makes what it can be captured with.

    What a graph returns is valid until the next one runs. All share their memory, so one of them
    runs at a time.
    """

    def __init__(
        self,
        half: Compute,
        device: torch.device | str,
        batch: Callable[[int, int], tuple[torch.Tensor, ...]],
    ) -> None:
        self._half = half
        self._device = torch.device(device)
        self._batch = batch
        self._memory = torch.cuda.graph_pool_handle()

    @torch.inference_mode()
    def capture(self, items: int, length: int) -> Compute:
        """Return what computes a batch of this shape with one launch."""
        inputs = tuple(each.to(self._device) for each in self._batch(items, length))
        stream = torch.cuda.Stream(self._device)
        stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP_ROUNDS):
                self._half(*inputs)
        torch.cuda.current_stream(self._device).wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._memory):
            made = self._half(*inputs)

        @torch.inference_mode()
        def compute(*given: torch.Tensor) -> torch.Tensor:
            for own, new in zip(inputs, given, strict=True):
                # From pinned memory, so that nobody waits for the GPU's turn with each copy.
                own.copy_(new if new.is_cuda else new.pin_memory(), non_blocking=True)
            graph.replay()
            return made

        return compute
