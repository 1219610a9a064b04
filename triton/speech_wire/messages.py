"""Request and chunk as typed values, and their translation from and to named numpy arrays.

Field names are tensor names, except where a unit belongs in the name. The last step, to
protobuf in the gateway and to pb_utils tensors in a model, is a few lines on each side.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from speech_wire.contract import (
    INPUTS,
    NUMPY_DTYPES,
    OUTPUTS,
    ContractError,
    Tensors,
    TensorSpec,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt


@dataclass(frozen=True, slots=True, eq=False)
class SynthesisRequest:
    """What a speech model is asked to say; everything but the text is optional.

    `reference_wav` is float32 mono at 16 kHz; `global_tokens` int32[32] and `semantic_tokens`
    int32[n] are a voice already tokenised; `speed` is a factor (1.0 is the model's own pace).
    """

    target_text: str
    reference_text: str | None = None
    reference_wav: npt.NDArray[np.float32] | None = None
    global_tokens: npt.NDArray[np.int32] | None = None
    semantic_tokens: npt.NDArray[np.int32] | None = None
    voice: str | None = None
    gender: str | None = None
    pitch: str | None = None
    speed_label: str | None = None
    speed: float | None = None
    seed: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_new_tokens: int | None = None

    def to_tensors(self) -> Tensors:
        """Return the arrays of all that is set, without batch dimension."""
        values: dict[str, Any] = {spec.name: getattr(self, spec.name, None) for spec in INPUTS}
        if self.reference_wav is not None:
            values["reference_wav_len"] = len(self.reference_wav)
        return encode_tensors(INPUTS, values)

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, npt.NDArray[Any]]) -> SynthesisRequest:
        """Read the arrays back; raises ContractError on a missing, unknown or wrong one."""
        values = decode_tensors(INPUTS, tensors)
        length = values.pop("reference_wav_len", None)
        if length is not None and length < 0:
            raise ContractError(f"tensor 'reference_wav_len' is {length}, it counts samples")
        if length is not None and "reference_wav" in values:
            values["reference_wav"] = values["reference_wav"][:length]
        return cls(**values)


@dataclass(frozen=True, slots=True, eq=False)
class PcmChunk:
    """The next samples of an utterance, float32 mono in [-1, 1].

    `sample_offset` is the position of the first sample in the utterance, at `sample_rate_hz`;
    `finish_reason` comes with the last chunk that has samples: "stop" where the model ended by
    itself, "length" where it was cut, at its token limit or because it only repeated itself, so
    that the text may not be wholly spoken; `global_tokens` int32[32] is a voice just made.
    """

    samples: npt.NDArray[np.float32]
    sample_rate_hz: int | None = None
    sample_offset: int | None = None
    finish_reason: str | None = None
    global_tokens: npt.NDArray[np.int32] | None = None

    def to_tensors(self) -> Tensors:
        """Return the arrays of all that is set, without batch dimension."""
        return encode_tensors(
            OUTPUTS,
            {
                "waveform": self.samples,
                "sample_rate": self.sample_rate_hz,
                "sample_offset": self.sample_offset,
                "finish_reason": self.finish_reason,
                "global_tokens": self.global_tokens,
            },
        )

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, npt.NDArray[Any]]) -> PcmChunk:
        """Read the arrays back; raises ContractError on a missing, unknown or wrong one."""
        values = decode_tensors(OUTPUTS, tensors)
        return cls(
            samples=values["waveform"],
            sample_rate_hz=values.get("sample_rate"),
            sample_offset=values.get("sample_offset"),
            finish_reason=values.get("finish_reason"),
            global_tokens=values.get("global_tokens"),
        )


def encode_tensors(specs: tuple[TensorSpec, ...], values: Mapping[str, Any]) -> Tensors:
    """Return the arrays of the values that are not None."""
    return {
        spec.name: spec.check(_to_array(spec, values[spec.name]))
        for spec in specs
        if values.get(spec.name) is not None
    }


def decode_tensors(
    specs: tuple[TensorSpec, ...], tensors: Mapping[str, npt.NDArray[Any]]
) -> dict[str, Any]:
    """Return the values of the arrays; raises ContractError on a missing, unknown or wrong one."""
    known, required = _names(specs)
    if not tensors.keys() <= known.keys():
        unknown = sorted(tensors.keys() - known.keys())
        raise ContractError(f"unknown tensors {unknown}; the contract has {sorted(known)}")
    if not required <= tensors.keys():
        raise ContractError(f"required tensors {sorted(required - tensors.keys())} are missing")
    return {name: _to_value(known[name], array) for name, array in tensors.items()}


@cache  # Each chunk asks for it.
def _names(specs: tuple[TensorSpec, ...]) -> tuple[dict[str, TensorSpec], frozenset[str]]:
    """Return the specs by name, and the names of those that are required."""
    required = frozenset(spec.name for spec in specs if not spec.optional)
    return {spec.name: spec for spec in specs}, required


def _to_array(spec: TensorSpec, value: Any) -> npt.NDArray[Any]:
    if spec.dtype == "BYTES":
        try:
            return np.array([value.encode()], dtype=np.object_)
        except UnicodeEncodeError as error:
            raise ContractError(f"tensor '{spec.name}' cannot be sent as UTF-8: {error}") from error
    if spec.shape == (1,):
        return _scalar(spec, value)
    return np.asarray(value)


def _scalar(spec: TensorSpec, value: float) -> npt.NDArray[Any]:
    dtype = NUMPY_DTYPES[spec.dtype]
    if dtype.kind in "iu":
        allowed = np.iinfo(dtype)
        # numpy would wrap it round without a word.
        if not allowed.min <= value <= allowed.max:
            raise ContractError(
                f"tensor '{spec.name}' is {value}, {spec.dtype} holds "
                f"{allowed.min} to {allowed.max}"
            )
    return np.array([value], dtype=dtype)


def _to_value(spec: TensorSpec, array: npt.NDArray[Any]) -> Any:
    spec.check(array)
    if spec.dtype == "BYTES":
        try:
            return bytes(array[0]).decode()
        except (TypeError, UnicodeDecodeError) as error:
            raise ContractError(f"tensor '{spec.name}' is not valid UTF-8: {error}") from error
    return array.item() if spec.shape == (1,) else array
