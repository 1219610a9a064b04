from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from speech_wire import INPUTS, OUTPUTS, ContractError, PcmChunk, SynthesisRequest, TensorSpec
from speech_wire.contract import NUMPY_DTYPES

if TYPE_CHECKING:
    import numpy.typing as npt

    Tensors = dict[str, npt.NDArray[Any]]

TEXT = np.array([b"Hello."], dtype=object)
SILENCE = np.zeros(3, np.float32)
SIDES = [
    *((SynthesisRequest, {"target_text": TEXT}, spec) for spec in INPUTS),
    *((PcmChunk, {"waveform": SILENCE}, spec) for spec in OUTPUTS),
]
SIDE_IDS = [f"{message.__name__}-{spec.name}" for message, _, spec in SIDES]

floats = st.floats(width=32)
int32s = st.integers(-(2**31), 2**31 - 1)
samples = arrays(np.float32, st.integers(0, 40))
voice_tokens = arrays(np.int32, 32)


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


requests = st.builds(
    SynthesisRequest,
    target_text=st.text(),
    reference_wav=maybe(samples),
    global_tokens=maybe(voice_tokens),
    semantic_tokens=maybe(arrays(np.int32, st.integers(0, 40))),
    seed=maybe(st.integers(0, 2**64 - 1)),
    **dict.fromkeys(
        ["reference_text", "voice", "gender", "pitch", "speed_label"], maybe(st.text())
    ),
    **dict.fromkeys(["speed", "temperature", "top_p"], maybe(floats)),
    **dict.fromkeys(["top_k", "max_new_tokens"], maybe(int32s)),
)
chunks = st.builds(
    PcmChunk,
    samples=samples,
    sample_rate_hz=maybe(int32s),
    sample_offset=maybe(st.integers(-(2**63), 2**63 - 1)),
    finish_reason=maybe(st.sampled_from(["stop", "length"])),
    global_tokens=maybe(voice_tokens),
)


def exact(message: SynthesisRequest | PcmChunk) -> dict[str, Any]:
    """Make every field comparable, with its type and, in an array, every bit."""
    values = {field.name: getattr(message, field.name) for field in fields(message)}
    return {
        name: (value.dtype, value.shape, value.tobytes())
        if isinstance(value, np.ndarray)
        else (type(value), repr(value))
        for name, value in values.items()
    }


def zeros(spec: TensorSpec, *shape: int) -> Tensors:
    return {spec.name: np.zeros(shape, NUMPY_DTYPES[spec.dtype])}


@given(requests)
def test_a_request_comes_back_unchanged(request_sent: SynthesisRequest) -> None:
    received = SynthesisRequest.from_tensors(request_sent.to_tensors())

    assert exact(received) == exact(request_sent)


@given(chunks)
def test_a_chunk_comes_back_unchanged(chunk: PcmChunk) -> None:
    received = PcmChunk.from_tensors(chunk.to_tensors())

    assert exact(received) == exact(chunk)


@given(requests)
def test_what_is_not_set_is_not_sent(request_sent: SynthesisRequest) -> None:
    names = {field.name for field in fields(SynthesisRequest)}
    unset = {name for name in names if getattr(request_sent, name) is None}

    tensors = request_sent.to_tensors()

    assert tensors.keys() - {"reference_wav_len"} == names - unset
    assert ("reference_wav_len" in tensors) == (request_sent.reference_wav is not None)


@pytest.mark.parametrize(("message", "others", "spec"), SIDES, ids=SIDE_IDS)
def test_a_wrong_dtype_is_refused_by_name(message: Any, others: Tensors, spec: TensorSpec) -> None:
    length = abs(spec.shape[0])
    tensors = {**others, spec.name: np.zeros(length, np.float64)}

    with pytest.raises(ContractError, match=rf"'{spec.name}' is float64\[{length}\]"):
        message.from_tensors(tensors)


@pytest.mark.parametrize(("message", "others", "spec"), SIDES, ids=SIDE_IDS)
def test_a_batch_dimension_is_refused_by_name(
    message: Any, others: Tensors, spec: TensorSpec
) -> None:
    batch = zeros(spec, 1, abs(spec.shape[0]))

    with pytest.raises(ContractError, match=f"'{spec.name}'"):
        message.from_tensors({**others, **batch})


@pytest.mark.parametrize(
    ("message", "others", "spec"),
    [side for side in SIDES if side[2].shape != (-1,)],
    ids=[name for name, side in zip(SIDE_IDS, SIDES, strict=True) if side[2].shape != (-1,)],
)
def test_a_wrong_length_is_refused_by_name(message: Any, others: Tensors, spec: TensorSpec) -> None:
    longer = zeros(spec, spec.shape[0] + 1)

    with pytest.raises(ContractError, match=f"'{spec.name}'"):
        message.from_tensors({**others, **longer})


def test_a_wrong_array_is_refused_before_it_is_sent() -> None:
    request_sent = SynthesisRequest("Hello.", global_tokens=np.zeros(31, np.int32))

    with pytest.raises(ContractError, match="'global_tokens'"):
        request_sent.to_tensors()


@pytest.mark.parametrize(
    ("message", "name"),
    [(SynthesisRequest, "target_text"), (PcmChunk, "waveform")],
    ids=["request", "chunk"],
)
def test_a_missing_required_tensor_is_named(message: Any, name: str) -> None:
    with pytest.raises(ContractError, match=name):
        message.from_tensors({})


@pytest.mark.parametrize(
    ("message", "others"),
    [(SynthesisRequest, {"target_text": TEXT}), (PcmChunk, {"waveform": SILENCE})],
    ids=["request", "chunk"],
)
def test_an_unknown_tensor_is_named(message: Any, others: Tensors) -> None:
    with pytest.raises(ContractError, match=r"\['volume'\]"):
        message.from_tensors({**others, "volume": np.ones(1, np.float32)})


@pytest.mark.parametrize(
    ("message", "tensors", "name"),
    [
        (SynthesisRequest, {}, "target_text"),
        (SynthesisRequest, {"target_text": TEXT}, "voice"),
        (PcmChunk, {"waveform": SILENCE}, "finish_reason"),
    ],
    ids=["target_text", "voice", "finish_reason"],
)
def test_invalid_utf8_is_named(message: Any, tensors: Tensors, name: str) -> None:
    invalid = np.array([b"caf\xe9"], dtype=object)

    with pytest.raises(ContractError, match=f"'{name}' is not valid UTF-8"):
        message.from_tensors({**tensors, name: invalid})


def test_reference_wav_is_cut_to_its_stated_length() -> None:
    tensors = SynthesisRequest("Hello.", reference_wav=np.arange(5, dtype=np.float32)).to_tensors()
    tensors["reference_wav_len"] = np.array([3], np.int32)

    received = SynthesisRequest.from_tensors(tensors)

    assert received.reference_wav is not None
    assert received.reference_wav.tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("specs", [INPUTS, OUTPUTS], ids=["inputs", "outputs"])
def test_tensor_names_are_unique(specs: tuple[TensorSpec, ...]) -> None:
    names = [spec.name for spec in specs]

    assert len(names) == len(set(names))


def test_every_input_but_the_length_is_a_field_of_the_request() -> None:
    names = {spec.name for spec in INPUTS}

    assert names - {"reference_wav_len"} == {field.name for field in fields(SynthesisRequest)}


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"top_k": 2**40}, "top_k"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**64}, "seed"),
        ({"target_text": "a lone \ud800"}, "target_text"),
    ],
    ids=["too-large", "negative", "beyond-64-bits", "surrogate"],
)
def test_a_value_that_does_not_fit_is_refused_by_name(fields: dict[str, Any], name: str) -> None:
    """Nothing wraps round or is replaced on its way into a tensor."""
    with pytest.raises(ContractError, match=f"'{name}'"):
        SynthesisRequest(**{"target_text": "x", **fields}).to_tensors()


def test_a_negative_length_and_text_that_is_no_bytes_are_refused_by_name() -> None:
    text = SynthesisRequest("x").to_tensors()

    with pytest.raises(ContractError, match="reference_wav_len"):
        SynthesisRequest.from_tensors({**text, "reference_wav_len": np.array([-1], np.int32)})
    with pytest.raises(ContractError, match="target_text"):
        SynthesisRequest.from_tensors({"target_text": np.array(["str"], np.object_)})
