"""The configuration of the TensorRT-LLM engine on the real Triton, with another backend in it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tritonclient.grpc import service_pb2

from engine.control import TritonControl, open_stub
from engine.render import model_source, render_model
from engine.site import Site
from engine.spark import spark_specs
from fakes.engine_folder import write_engine
from speech_wire import LoopbackAccess
from tritonserver.processes import Ports, Process, free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator

TESTS = Path(__file__).parents[1]
STAGE = TESTS / "tritonserver" / "stages" / "model.py"
SOURCES = {"vocoder": STAGE, "audio_tokenizer": STAGE}


@pytest.fixture(scope="module")
def ports(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ports]:
    """Serve what is rendered for an engine; a scripted model runs in its place."""
    ports, folder = free_ports(), tmp_path_factory.mktemp("models")
    rows = json.loads((checkpoint / "LLM" / "config.json").read_text())["vocab_size"]
    engine = write_engine(folder / "engine", "0.20.0", vocab_size=rows)
    site = Site(checkpoint, llm="tensorrtllm", engine_dir=engine, triton_address=ports.triton)
    for spec in spark_specs(site):
        source = TESTS / "spark" / "llm" / "model.py" if spec.backend != "python" else None
        source = source or SOURCES.get(spec.name, model_source(spec.name))
        render_model(spec, source, folder / "repository")
    config = folder / "repository" / "tensorrt_llm" / "config.pbtxt"
    text = config.read_text(encoding="utf-8").replace('"tensorrtllm"', '"python"')
    value = f"value {{ string_value: {json.dumps(str(checkpoint))} }}"
    config.write_text(f'{text}parameters {{ key: "model_dir" {value} }}\n', encoding="utf-8")
    where = ("--grpc-port", str(ports.grpc), "--metrics-port", str(ports.metrics))
    repository = ("--repository", str(folder / "repository"))
    process = Process(sys.executable, "-I", "-m", "engine", "serve", *repository, *where)
    try:
        # It says so only after the front has spoken, through this model.
        process.wait_for("engine.ready", 120)
        yield ports
    finally:
        code = process.stop()
    assert code == 0


def test_the_front_speaks_through_an_engines_configuration(ports: Ports) -> None:
    control = TritonControl(ports.triton, LoopbackAccess(), "", "")

    assert control.speak("spark_tts", "Hello.", 30) > 0


def test_triton_reads_it_as_it_was_meant(ports: Ports) -> None:
    request = service_pb2.ModelConfigRequest(name="tensorrt_llm")

    config = open_stub(ports.triton, LoopbackAccess()).ModelConfig(request).config

    inputs = {tensor.name: tensor for tensor in config.input}
    assert inputs["input_lengths"].HasField("reshape")
    assert inputs["input_ids"].allow_ragged_batch
    assert config.dynamic_batching.default_queue_policy.max_queue_size == 256
    assert config.parameters["gpt_model_type"].string_value == "inflight_fused_batching"
    # The backend asks for it, and empty is off.
    assert "tokenizer_dir" in config.parameters
