"""A model of the same Triton, as its configuration describes it, and its tensors in protobuf."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from tritonclient.grpc import model_config_pb2, service_pb2
from tritonclient.utils import triton_to_np_dtype

from speech_backend.serving import InvalidInputError
from speech_backend.stages import StageError
from speech_wire import DRAWS_SEEDS, INVALID_INPUT

if TYPE_CHECKING:
    from collections.abc import Mapping

    import grpc
    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Sibling:
    """What requests to a model need to know.

    Its inputs with their types, its batch dimension, and whether it draws anew without a seed.
    """

    name: str
    dtypes: Mapping[str, str]
    is_batched: bool
    draws_seeds: bool = False

    @classmethod
    def from_config(cls, config: Any) -> Sibling:
        """Read Triton's ModelConfig."""
        dtypes = {tensor.name: _dtype_name(tensor.data_type) for tensor in config.input}
        draws_seeds = config.parameters[DRAWS_SEEDS].string_value == "true"
        return cls(config.name, dtypes, config.max_batch_size > 0, draws_seeds)

    def those_of(self, *names: str) -> list[str]:
        """Return those of `names` that the model has; raises StageError if it has none.

        One that has an input under two names ignores the one that is not its own.
        """
        if had := [name for name in names if name in self.dtypes]:
            return had
        raise StageError(
            f"model '{self.name}' has no input {' or '.join(names)}; it has {sorted(self.dtypes)}"
        )

    def request(self, tensors: Mapping[str, npt.ArrayLike], request_id: str) -> Any:
        """Return a ModelInferRequest; arrays come without batch dimension and of any number type.

        Raises StageError for a tensor that the model does not have.
        """
        message = service_pb2.ModelInferRequest(model_name=self.name, id=request_id)
        for name, values in tensors.items():
            (own_name,) = self.those_of(name)
            dtype = self.dtypes[own_name]
            array = np.asarray(values, triton_to_np_dtype(dtype))
            shape = (1, *array.shape) if self.is_batched else array.shape
            message.inputs.add(name=name, datatype=dtype, shape=shape)
            message.raw_input_contents.append(array.tobytes())
        return message

    def output(self, response: Any, name: str) -> npt.NDArray[Any]:
        """Return a tensor of a ModelInferResponse, flat, in the type that it came in.

        Upstream's models answer in other shapes and types than their configuration says. Raises
        StageError where it is missing.
        """
        for tensor, raw in zip(response.outputs, response.raw_output_contents, strict=True):
            if tensor.name == name:
                return np.frombuffer(raw, triton_to_np_dtype(tensor.datatype))
        given = [tensor.name for tensor in response.outputs]
        raise StageError(f"model '{self.name}' answered with {given}, without '{name}'")

    def check_id(self, response: Any, request_id: str) -> None:
        """Raise StageError unless the response is the answer to this request."""
        if response.id != request_id:
            raise StageError(
                f"model '{self.name}' answered request '{response.id}' instead of '{request_id}'"
            )


def call_failed(model: str, error: grpc.RpcError) -> Exception:
    """Return what a status of gRPC means: InvalidInputError where the model blames its caller."""
    return stage_failed(model, error.details() or "", f"{error.code().name} ")


def stage_failed(model: str, words: str, status: str = "") -> Exception:
    """Return what a model's own words mean."""
    if INVALID_INPUT in words:
        return InvalidInputError(words.split(INVALID_INPUT, 1)[1])
    return StageError(f"model '{model}' failed: {status}{words}")


def _dtype_name(data_type: int) -> str:
    name: str = model_config_pb2.DataType.Name(data_type).removeprefix("TYPE_")
    return "BYTES" if name == "STRING" else name
