"""What a fake speech model does with a request, and what it saw of it."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from tritonclient.grpc import model_config_pb2

from speech_wire import CANCEL_PARAMETER, INPUTS, OUTPUTS, SynthesisRequest, TensorSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import grpc
    import numpy.typing as npt

WAIT_SECONDS = 10.0
TRITON_TYPES = {
    "BYTES": model_config_pb2.TYPE_STRING,
    "FP32": model_config_pb2.TYPE_FP32,
    "INT32": model_config_pb2.TYPE_INT32,
    "INT64": model_config_pb2.TYPE_INT64,
    "UINT64": model_config_pb2.TYPE_UINT64,
}
VOICES = ({"id": "heart", "language": "en"}, {"id": "fable", "language": "en"})
SPARK_INPUTS = (
    *("global_tokens", "semantic_tokens", "reference_text"),
    *("gender", "pitch", "speed_label"),
)
NO_SAMPLES = np.zeros(0, np.float32)


class Gate:
    """The model waits at it, in its own thread's event loop, until a test opens it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_open = False
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    def open(self) -> None:
        """Let all that wait go on; call it from any thread."""
        with self._lock:
            self._is_open = True
            for loop, event in self._waiting:
                loop.call_soon_threadsafe(event.set)
            self._waiting.clear()

    async def wait(self) -> None:
        """Return once the gate is open."""
        event = asyncio.Event()
        entry = (asyncio.get_running_loop(), event)
        with self._lock:
            if self._is_open:
                return
            self._waiting.append(entry)
        try:
            await event.wait()
        finally:
            with self._lock:
                if entry in self._waiting:
                    self._waiting.remove(entry)


@dataclass(frozen=True)
class Pause:
    """Wait that long; only for benchmarks, which need a pace."""

    seconds: float


@dataclass(frozen=True)
class Fail:
    """Send an in-stream error message, as Triton reports a model's exception."""

    message: str


@dataclass(frozen=True)
class Abort:
    """End the RPC with this status, as a Triton that shuts down does."""

    code: grpc.StatusCode
    details: str = ""


@dataclass(frozen=True)
class Misplaced:
    """A chunk whose `sample_offset` is not where the last one ended."""

    samples: npt.NDArray[np.float32]


@dataclass(frozen=True)
class Hang:
    """Say nothing more until the call is cancelled, as a killed model does."""


@dataclass(frozen=True)
class Garbage:
    """Answer with a waveform of the wrong dtype."""


Step: TypeAlias = (
    "npt.NDArray[np.float32] | Gate | Pause | Fail | Abort | Misplaced | Hang | Garbage"
)


def tone(samples: int = 2400, rate_hz: int = 24_000, start: int = 0) -> npt.NDArray[np.float32]:
    """Return a piece of a 440 Hz sine, from sample `start` on."""
    at_seconds = np.arange(start, start + samples) / rate_hz
    return (0.5 * np.sin(2 * np.pi * 440 * at_seconds)).astype(np.float32)


def tones(count: int = 3, samples: int = 2400, rate_hz: int = 24_000) -> list[Step]:
    """Return `count` chunks that are one 440 Hz sine together."""
    return [tone(samples, rate_hz, start=index * samples) for index in range(count)]


@dataclass(frozen=True)
class Script:
    """What the model does, step by step: an array is a chunk of samples, the rest is above.

    `is_batched` makes it like Spark-TTS's upstream: a batch dimension, and no output but the
    waveform; `is_spark` like ours, which takes voices as tokens or labels and gives the tokens of
    those it makes (unless `gives_made_voice` is False); `extra_inputs` are declared besides;
    `sends_final` False leaves Triton's FINAL flag out; `by_text` chooses the steps of each
    request.
    """

    steps: Sequence[Step] = field(default_factory=tones)
    sample_rate_hz: int = 24_000
    is_batched: bool = False
    is_spark: bool = False
    gives_made_voice: bool = True
    extra_inputs: Sequence[str] = ()
    checkpoint: str = ""
    is_ready: bool = True
    takes_cancel: bool = True
    takes_speed: bool = False
    is_speech_model: bool = True
    sends_final: bool = True
    max_text_characters: int | None = None
    scripts: Sequence[str] | None = None
    by_text: Callable[[SynthesisRequest], Sequence[Step]] | None = None
    voices: Sequence[dict[str, str]] = VOICES

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The inputs that the model declares."""
        names = {"target_text"} if self.is_batched else {"target_text", "voice", "seed"}
        names |= {"speed"} if self.takes_speed else set()
        names |= {*SPARK_INPUTS} if self.is_spark else set()
        names |= {*self.extra_inputs}
        return tuple(spec for spec in INPUTS if spec.name in names)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The outputs that the model declares."""
        if self.is_batched:
            return tuple(spec for spec in OUTPUTS if spec.name == "waveform")
        return tuple(spec for spec in OUTPUTS if self.is_spark or spec.name != "global_tokens")

    def config(self, name: str) -> model_config_pb2.ModelConfig:
        """Return Triton's configuration of the model."""
        config = model_config_pb2.ModelConfig(name=name, backend="python")
        config.model_transaction_policy.decoupled = True
        config.max_batch_size = 8 if self.is_batched else 0
        if not self.is_speech_model:
            config.input.add(name="INPUT0", data_type=model_config_pb2.TYPE_FP32, dims=[1])
            return config
        for spec in self.inputs:
            kind = TRITON_TYPES[spec.dtype]
            config.input.add(
                name=spec.name, data_type=kind, dims=spec.shape, optional=spec.optional
            )
        for spec in self.outputs:
            config.output.add(name=spec.name, data_type=TRITON_TYPES[spec.dtype], dims=spec.shape)
        if not self.is_batched:
            config.parameters["checkpoint"].string_value = self.checkpoint
            config.parameters["voices"].string_value = json.dumps(list(self.voices))
            config.parameters["sample_rate_hz"].string_value = str(self.sample_rate_hz)
            if self.max_text_characters is not None:
                most = str(self.max_text_characters)
                config.parameters["max_text_characters"].string_value = most
            if self.scripts is not None:
                config.parameters["scripts"].string_value = json.dumps(list(self.scripts))
            if self.takes_cancel:
                config.parameters[CANCEL_PARAMETER].string_value = "true"
        return config


class Tally:
    """Counts what happens in the fake's thread; a test waits for the count."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0

    @property
    def count(self) -> int:
        """How often it has happened."""
        with self._changed:
            return self._count

    def add(self) -> None:
        """Note that it happened."""
        with self._changed:
            self._count += 1
            self._changed.notify_all()

    def wait(self, count: int = 1, timeout: float = WAIT_SECONDS) -> bool:
        """Return whether it has happened `count` times, waiting for it at most `timeout`."""
        with self._changed:
            return self._changed.wait_for(lambda: self._count >= count, timeout)
