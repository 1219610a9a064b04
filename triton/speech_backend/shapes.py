"""The vocoder's batches in few shapes, each made ready at the start: CUDA graphs on a GPU.

Launching a thousand small kernels takes the processor longer than the GPU computes them; a
graph launches all of them at once, but only for the shape that it was captured with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import torch

from speech_backend.batches import BATCH_SIZES, batch_size
from speech_backend.tokens import GLOBAL_TOKENS
from speech_backend.windows import WINDOW_LENGTHS

if TYPE_CHECKING:
    from collections.abc import Callable

Compute: TypeAlias = "Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]"
"""Samples of semantic tokens [items, tokens], global tokens [items, 32] and lengths [items]."""

WARM_UP_ROUNDS = 2
"""Before a capture, so that libraries choose their kernels and get their memory outside of it."""


class FixedShapes:
    """Computes a batch as the next larger one of those that were made ready.

    Only items are added; tokens come in WINDOW_LENGTHS already. `check` raises ValueError for
    what must not reach a GPU.
    """

    def __init__(self, check: Callable[..., None], ready: Callable[[int, int], Compute]) -> None:
        """Have `ready` prepare each number of items and tokens.

        The largest is the first, since the others can use its memory.
        """
        self._check = check
        shapes = [(items, tokens) for tokens in WINDOW_LENGTHS for items in BATCH_SIZES]
        shapes.sort(key=lambda shape: shape[0] * shape[1], reverse=True)
        self._computes = {shape: ready(*shape) for shape in shapes}

    def __call__(
        self, semantic: torch.Tensor, voices: torch.Tensor, lengths: torch.Tensor
    ) -> torch.Tensor:
        """Return the samples of the batch; ValueError for one that no shape holds."""
        self._check(semantic, voices, lengths)
        items, tokens = semantic.shape
        rows = torch.arange(batch_size(items)).clamp(max=items - 1)
        compute = self._computes.get((len(rows), tokens))
        if compute is None:
            raise ValueError(f"windows are of {tokens} tokens; allowed are {WINDOW_LENGTHS}")
        return compute(semantic[rows], voices[rows], lengths[rows])[:items]


class Graphs:
    """Captures a decoder, shape by shape. What a graph returns is valid until the next one runs.

    All share their memory, so one of them runs at a time.
    """

    def __init__(self, decoder: Compute, device: torch.device | str) -> None:
        self._decoder = decoder
        self._device = torch.device(device)
        self._memory = torch.cuda.graph_pool_handle()

    @torch.inference_mode()
    def capture(self, items: int, tokens: int) -> Compute:
        """Return what computes a batch of this shape with one launch."""
        inputs = (
            torch.zeros((items, tokens), dtype=torch.long, device=self._device),
            torch.zeros((items, GLOBAL_TOKENS), dtype=torch.long, device=self._device),
            torch.full((items,), tokens, device=self._device),
        )
        stream = torch.cuda.Stream(self._device)
        stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP_ROUNDS):
                self._decoder(*inputs)
        torch.cuda.current_stream(self._device).wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._memory):
            samples = self._decoder(*inputs)

        @torch.inference_mode()
        def compute(*given: torch.Tensor) -> torch.Tensor:
            for own, new in zip(inputs, given, strict=True):
                own.copy_(new)
            graph.replay()
            return samples

        return compute
