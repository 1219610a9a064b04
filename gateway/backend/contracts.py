"""What a model on a Triton declares, and the translation between protobuf and the contract."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from tritonclient.grpc import service_pb2
from tritonclient.utils import (
    deserialize_bytes_tensor,
    np_to_triton_dtype,
    serialize_byte_tensor,
    triton_to_np_dtype,
)

from gateway.errors import BackendFailedError, MisconfiguredError
from gateway.speech.types import TextLimits, Voice
from gateway.text.scripts import foreign_letter
from speech_wire import CANCEL_PARAMETER, OUTPUTS, PcmChunk, SynthesisRequest

if TYPE_CHECKING:
    import numpy.typing as npt

SAMPLE_RATES_HZ = range(8_000, 192_001)
OUTPUT_NAMES = frozenset(spec.name for spec in OUTPUTS)
DTYPES: dict[str, np.dtype[Any]] = {
    "FP32": np.dtype(np.float32),
    "INT32": np.dtype(np.int32),
    "INT64": np.dtype(np.int64),
}
"""Those of every chunk; tritonclient looks for a name one by one."""


@dataclass(frozen=True, slots=True)
class ModelContract:
    """The part of the contract that one model takes, read from its ModelConfig."""

    model: str
    inputs: frozenset[str]
    is_batched: bool
    takes_cancel: bool
    sample_rate_hz: int
    text_limits: TextLimits
    voices: tuple[Voice, ...]
    checkpoint: str

    def request(self, request: SynthesisRequest, request_id: str) -> service_pb2.ModelInferRequest:
        """Return the protobuf with those tensors that the model declares."""
        message = service_pb2.ModelInferRequest(model_name=self.model, id=request_id)
        message.parameters["triton_enable_empty_final_response"].bool_param = True
        for name, array in request.to_tensors().items():
            if name not in self.inputs:
                continue
            add_input(message, name, array, is_batched=self.is_batched)
        return message

    def cancel(self, request_id: str) -> service_pb2.ModelInferRequest | None:
        """Return the request that cancels another, None where the model does not take one."""
        if not self.takes_cancel:
            return None
        message = self.request(SynthesisRequest(target_text=""), request_id)
        message.parameters[CANCEL_PARAMETER].bool_param = True
        return message

    def chunk(self, response: service_pb2.ModelInferResponse) -> PcmChunk:
        """Read a response; raises BackendFailedError where it does not fit the contract.

        `sample_rate_hz` is the model's usual one where the response does not say it.
        """
        try:
            chunk = PcmChunk.from_tensors(
                {
                    output.name: read_output(output, raw)
                    for output, raw in zip(
                        response.outputs, response.raw_output_contents, strict=True
                    )
                    if output.name in OUTPUT_NAMES
                }
            )
            if chunk.sample_rate_hz is not None:
                _checked_rate(chunk.sample_rate_hz)
                return chunk
        except ValueError as error:
            raise BackendFailedError(
                "the model's answer does not fit the contract", detail=str(error)
            ) from error
        return replace(chunk, sample_rate_hz=self.sample_rate_hz)


def read_contract(config: Any, default_sample_rate_hz: int) -> ModelContract:
    """Read Triton's ModelConfig; raises MisconfiguredError for what is no speech model."""
    inputs = frozenset(tensor.name for tensor in config.input)
    outputs = {tensor.name for tensor in config.output}
    if "target_text" not in inputs or "waveform" not in outputs:
        raise MisconfiguredError(
            f"Triton's model '{config.name}' is no speech model: it takes {sorted(inputs)} and "
            f"gives {sorted(outputs)}, a speech model takes target_text and gives waveform; "
            "see SPEECH_MODELS"
        )
    parameters = {key: value.string_value for key, value in config.parameters.items()}
    try:
        return ModelContract(
            model=config.name,
            inputs=inputs,
            is_batched=config.max_batch_size > 0,
            takes_cancel=CANCEL_PARAMETER in parameters,
            sample_rate_hz=_checked_rate(
                int(parameters.get("sample_rate_hz", default_sample_rate_hz))
            ),
            text_limits=_text_limits(parameters),
            voices=tuple(
                Voice(voice["id"], config.name, voice.get("language"))
                for voice in json.loads(parameters.get("voices", "[]"))
            ),
            checkpoint=parameters.get("checkpoint", ""),
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise MisconfiguredError(
            f"the parameters of Triton's model '{config.name}' cannot be read: voices is a JSON "
            'list of {"id", "language"}, scripts one of names, sample_rate_hz and '
            "max_text_characters are numbers",
            detail=repr(error),
        ) from error


def _checked_rate(rate_hz: int) -> int:
    if rate_hz not in SAMPLE_RATES_HZ:
        raise ValueError(f"a sample rate of {rate_hz} Hz; {SAMPLE_RATES_HZ} is possible")
    return rate_hz


def _text_limits(parameters: dict[str, str]) -> TextLimits:
    most = parameters.get("max_text_characters")
    scripts = parameters.get("scripts")
    limits = TextLimits(
        None if most is None else int(most), None if scripts is None else tuple(json.loads(scripts))
    )
    if limits.max_characters is not None and limits.max_characters < 1:
        raise ValueError(f"max_text_characters is {most}; at least 1 is possible")
    foreign_letter("", limits.scripts or ())  # An unknown script shows now, not with a request.
    return limits


def add_input(
    message: service_pb2.ModelInferRequest, name: str, array: npt.NDArray[Any], *, is_batched: bool
) -> None:
    """Add a tensor of the contract to a request, with a batch dimension where there is one."""
    shape = (1, *array.shape) if is_batched else array.shape
    message.inputs.add(name=name, datatype=np_to_triton_dtype(array.dtype), shape=shape)
    is_bytes = array.dtype == np.object_
    message.raw_input_contents.append(
        serialize_byte_tensor(array).item() if is_bytes else array.tobytes()
    )


def read_output(output: Any, raw: bytes) -> npt.NDArray[Any]:
    """Return a tensor of a response as one row; raises ValueError where the bytes do not fit.

    A model with a batch dimension answers with it: [1, n]. The contract's shapes have none.
    """
    datatype = output.datatype
    if datatype == "BYTES":
        return np.asarray(deserialize_bytes_tensor(raw), dtype=np.object_).reshape(-1)
    dtype = DTYPES.get(datatype)
    return np.frombuffer(raw, triton_to_np_dtype(datatype) if dtype is None else dtype)
