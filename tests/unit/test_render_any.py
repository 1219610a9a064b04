"""Whatever a model is like, Triton reads what is written of it as what was meant."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import model_config_pb2

from engine.render import TRITON_TYPES, model_config, render_model
from speech_wire import ModelSpec, Queue, TensorSpec

NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,20}", fullmatch=True)
TENSORS = st.builds(
    TensorSpec,
    NAMES,
    st.sampled_from(sorted(TRITON_TYPES)),
    st.lists(st.integers(-1, 2**31), min_size=1, max_size=4).map(tuple),
    st.booleans(),
)
SPECS = st.builds(
    ModelSpec,
    name=NAMES,
    inputs=st.lists(TENSORS, max_size=5).map(tuple),
    outputs=st.lists(TENSORS, max_size=5).map(tuple),
    backend=st.sampled_from(["python", "tensorrtllm"]),
    decoupled=st.booleans(),
    max_batch_size=st.integers(0, 2**31 - 1),
    batches_dynamically=st.booleans(),
    queue=st.none() | st.builds(Queue, st.integers(0, 2**31 - 1), st.floats(0, 3600)),
    instances=st.integers(1, 64),
    parameters=st.dictionaries(st.text(), st.text(), max_size=5),
)


@given(SPECS)
def test_what_is_written_reads_back_as_what_was_meant(spec: ModelSpec) -> None:
    with tempfile.TemporaryDirectory() as folder:
        written = render_model(spec, None, Path(folder)) / "config.pbtxt"
        config = text_format.Parse(written.read_bytes(), model_config_pb2.ModelConfig())

    assert config == model_config(spec)
    assert (config.name, config.backend) == (spec.name, spec.backend)
    assert config.max_batch_size == spec.max_batch_size
    assert config.model_transaction_policy.decoupled == spec.decoupled
    assert config.instance_group[0].count == spec.instances
    given_tensors = [
        (tensor.name, tuple(tensor.dims)) for tensor in [*config.input, *config.output]
    ]
    assert given_tensors == [(t.name, t.shape) for t in (*spec.inputs, *spec.outputs)]
    assert [tensor.optional for tensor in config.input] == [t.optional for t in spec.inputs]
    assert {k: v.string_value for k, v in config.parameters.items()} == spec.parameters
    policy = config.dynamic_batching.default_queue_policy
    assert policy.max_queue_size == (spec.queue.requests if spec.queue else 0)
    waits = spec.queue.seconds * 1e6 if spec.queue else 0
    assert policy.default_timeout_microseconds == pytest.approx(waits, abs=1)
