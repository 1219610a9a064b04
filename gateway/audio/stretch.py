"""Faster or slower speech at the same pitch, on a stream: FFmpeg's atempo filter through PyAV."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, cast

import av
import av.filter
import numpy as np

from gateway.audio.pcm import finite

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

BLOCK_SAMPLES = 1024
"""What the filter is fed at a time: its choices would follow the caller's cuts otherwise."""
SLOWEST_STEP = 0.5
"""atempo goes no lower; two of them in a row do."""


class Stretcher:
    """Takes float32 mono chunks and gives them `speed` times as fast.

    Speed 1 passes through untouched. The filter works on windows of some 40 ms and is fed in
    blocks, so it holds back about 0.15 s, which `flush` returns.
    """

    def __init__(self, speed: float, sample_rate_hz: int) -> None:
        self._rate_hz = sample_rate_hz
        self._position = 0
        self._waiting = np.zeros(0, np.float32)
        self._graph = None if speed == 1.0 else _graph(speed, sample_rate_hz)

    def push(self, samples: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return what is ready after these samples."""
        if self._graph is None:
            return samples
        waiting = np.concatenate([self._waiting, finite(samples)])
        whole = len(waiting) - len(waiting) % BLOCK_SAMPLES
        for start in range(0, whole, BLOCK_SAMPLES):
            self._feed(self._graph, waiting[start : start + BLOCK_SAMPLES])
        self._waiting = waiting[whole:]
        return _ready(self._graph)

    def flush(self) -> npt.NDArray[np.float32]:
        """Return what was held back; call it once, at the end."""
        if self._graph is None or self._position + len(self._waiting) == 0:
            return np.zeros(0, np.float32)
        if len(self._waiting):
            self._feed(self._graph, self._waiting)
        self._graph.push(None)
        return _ready(self._graph)

    def _feed(self, graph: av.filter.Graph, samples: npt.NDArray[np.float32]) -> None:
        plane = samples.reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(plane, format="flt", layout="mono")
        frame.sample_rate = self._rate_hz
        frame.time_base = Fraction(1, self._rate_hz)
        frame.pts = self._position
        self._position += len(samples)
        graph.push(frame)


def _ready(graph: av.filter.Graph) -> npt.NDArray[np.float32]:
    pieces = [np.zeros(0, np.float32)]
    while True:
        try:
            frame = cast("av.AudioFrame", graph.pull())
        except (av.error.BlockingIOError, av.error.EOFError):
            return np.concatenate(pieces)
        pieces.append(frame.to_ndarray()[0])


def _graph(speed: float, rate_hz: int) -> av.filter.Graph:
    graph = av.filter.Graph()
    source = graph.add_abuffer(
        format="flt", sample_rate=rate_hz, layout="mono", time_base=Fraction(1, rate_hz)
    )
    steps = [graph.add("atempo", f"{step:.6f}") for step in _steps(speed)]
    graph.link_nodes(source, *steps, graph.add("abuffersink")).configure()
    return graph


def _steps(speed: float) -> Iterator[float]:
    while speed < SLOWEST_STEP:
        yield SLOWEST_STEP
        speed /= SLOWEST_STEP
    yield speed
