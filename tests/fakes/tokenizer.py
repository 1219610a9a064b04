"""Spark-TTS's audio_tokenizer without weights: the tokens tell how long the recording was."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from tritonclient.grpc import model_config_pb2, service_pb2
from tritonclient.utils import np_to_triton_dtype

from fakes.script import Tally

if TYPE_CHECKING:
    import grpc
    import numpy.typing as npt

    from fakes.script import Gate

SAMPLES_PER_TOKEN = 320


def tokens_of(samples: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Return global and semantic tokens of a recording that long, at 16 kHz."""
    count = samples // SAMPLES_PER_TOKEN
    return np.full(32, count, np.int32), np.arange(count, dtype=np.int32)


@dataclass(frozen=True)
class FakeTokenizer:
    """What it does, and how often it ran.

    `is_upstream` is with a batch dimension, and other dtypes and ranks than are declared;
    `gate` is waited at; `status` ends the call; `answer` is what it says instead.
    """

    name: str = "audio_tokenizer"
    checkpoint: str = "one"
    is_upstream: bool = False
    gate: Gate | None = None
    status: tuple[grpc.StatusCode, str] | None = None
    answer: dict[str, npt.NDArray[Any]] | None = None
    runs: Tally = field(default_factory=Tally)

    def config(self) -> model_config_pb2.ModelConfig:
        """Return Triton's configuration of the model."""
        config = model_config_pb2.ModelConfig(name=self.name, backend="python")
        config.max_batch_size = 16 if self.is_upstream else 0
        kinds = {"reference_wav": model_config_pb2.TYPE_FP32}
        for name in ("reference_wav", "reference_wav_len"):
            config.input.add(name=name, data_type=kinds.get(name, model_config_pb2.TYPE_INT32))
        for name in ("global_tokens", "semantic_tokens"):
            config.output.add(name=name, data_type=model_config_pb2.TYPE_INT32, dims=[-1])
        if not self.is_upstream:
            config.parameters["checkpoint"].string_value = self.checkpoint
        return config

    async def infer(self, request: Any, context: Any) -> Any:
        """Answer a ModelInfer."""
        self.runs.add()
        if self.gate is not None:
            await self.gate.wait()
        if self.status is not None:
            await context.abort(*self.status)
        shapes = {tensor.name: list(tensor.shape) for tensor in request.inputs}
        wav, length = request.raw_input_contents
        samples = int(np.frombuffer(length, np.int32)[0])
        batch = [1] if self.is_upstream else []
        assert len(wav) == 4 * samples
        assert shapes == {"reference_wav": [*batch, samples], "reference_wav_len": [*batch, 1]}
        return _response(self.answer or self._tokens(samples))

    def _tokens(self, samples: int) -> dict[str, npt.NDArray[Any]]:
        voice, spoken = tokens_of(samples)
        if self.is_upstream:
            return {"global_tokens": voice[None], "semantic_tokens": spoken.astype(np.int64)}
        return {"global_tokens": voice, "semantic_tokens": spoken}


def _response(arrays: dict[str, npt.NDArray[Any]]) -> Any:
    response = service_pb2.ModelInferResponse()
    for name, array in arrays.items():
        dtype = np_to_triton_dtype(array.dtype)
        response.outputs.add(name=name, datatype=dtype, shape=array.shape)
        response.raw_output_contents.append(array.tobytes())
    return response
