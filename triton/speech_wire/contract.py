"""Tensor names, dtypes and shapes of a speech model, and the description of a model.

The names are those of Spark-TTS's own Triton runtime, so that existing deployments fit; what
ours adds is optional. A speech model is decoupled: one request in, waveform chunks out, then
Triton's FINAL flag.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

DataType: TypeAlias = Literal["BOOL", "BYTES", "FP32", "INT32", "INT64", "UINT64"]
Tensors: TypeAlias = "dict[str, npt.NDArray[Any]]"

INVALID_INPUT = "invalid_input: "
"""Marks a model's error as the caller's fault.

Triton's stream carries errors as text without a code; what follows this mark is shown to the
caller, every other error is the model's own and is only logged.
"""

CANCEL_PARAMETER = "speech_cancel"
"""A request with this parameter (true) cancels the one that has the same request id.

It goes over the same stream, its inputs are ignored, and both end with FINAL. A model that
obeys says so with this word as a parameter of its configuration; the others are cancelled with
their RPC, which crashes Triton 2.51 now and then (see triton/README.md).
"""

NUMPY_DTYPES: Mapping[DataType, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    "BYTES": np.dtype(np.object_),
    "FP32": np.dtype(np.float32),
    "INT32": np.dtype(np.int32),
    "INT64": np.dtype(np.int64),
    "UINT64": np.dtype(np.uint64),
}


class ContractError(ValueError):
    """A tensor does not fit the contract; the message names it, what came and what fits."""


@dataclass(frozen=True, slots=True, eq=False)
class TensorSpec:
    """One tensor: `shape` counts elements, -1 is any length; no batch dimension.

    Each is itself alone, so that tables of them are found fast.
    """

    name: str
    dtype: DataType
    shape: tuple[int, ...]
    optional: bool = True

    def check(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return `array` if dtype and shape fit, else raise ContractError."""
        if not self._fits(array.shape) or array.dtype != NUMPY_DTYPES[self.dtype]:
            raise ContractError(
                f"tensor '{self.name}' is {array.dtype}{list(array.shape)}, "
                f"the contract wants {self.dtype}{list(self.shape)}"
            )
        return array

    def _fits(self, shape: tuple[int, ...]) -> bool:
        if len(shape) == len(self.shape) == 1:  # Of every chunk's tensors, so without a loop.
            return self.shape[0] in (-1, shape[0])
        return len(shape) == len(self.shape) and all(
            want in (-1, given) for given, want in zip(shape, self.shape, strict=True)
        )


INPUTS = (
    TensorSpec("target_text", "BYTES", (1,), optional=False),
    TensorSpec("reference_text", "BYTES", (1,)),
    TensorSpec("reference_wav", "FP32", (-1,)),
    TensorSpec("reference_wav_len", "INT32", (1,)),
    TensorSpec("global_tokens", "INT32", (32,)),
    TensorSpec("semantic_tokens", "INT32", (-1,)),
    TensorSpec("voice", "BYTES", (1,)),
    TensorSpec("gender", "BYTES", (1,)),
    TensorSpec("pitch", "BYTES", (1,)),
    TensorSpec("speed_label", "BYTES", (1,)),
    TensorSpec("speed", "FP32", (1,)),
    TensorSpec("seed", "UINT64", (1,)),
    TensorSpec("temperature", "FP32", (1,)),
    TensorSpec("top_p", "FP32", (1,)),
    TensorSpec("top_k", "INT32", (1,)),
    TensorSpec("max_new_tokens", "INT32", (1,)),
)
OUTPUTS = (
    TensorSpec("waveform", "FP32", (-1,), optional=False),
    TensorSpec("sample_rate", "INT32", (1,)),
    TensorSpec("sample_offset", "INT64", (1,)),
    TensorSpec("finish_reason", "BYTES", (1,)),
    TensorSpec("global_tokens", "INT32", (32,)),
)


@dataclass(frozen=True, slots=True)
class Queue:
    """How many requests may wait for a model in Triton, and for how long; what is more is refused.

    Triton has such a queue only for a model that joins requests (`batches_dynamically`).
    """

    requests: int
    seconds: float


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model as Triton is told of it; `engine render` writes its configuration from this.

    `parameters` are strings, as Triton's are; a speech model of ours says there which `voices`
    it has (a JSON list of `{"id", "language"}`) and its `sample_rate_hz`. With
    `batches_dynamically`, Triton joins waiting requests, of any lengths, up to `max_batch_size`.
    """

    name: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    backend: str = "python"
    decoupled: bool = True
    max_batch_size: int = 0
    batches_dynamically: bool = False
    queue: Queue | None = None
    instances: int = 1
    parameters: Mapping[str, str] = field(default_factory=dict)
