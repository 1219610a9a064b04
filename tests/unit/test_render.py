from __future__ import annotations

import ast
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from google.protobuf import text_format
from hibari.voices import VOICES
from tritonclient.grpc import model_config_pb2

from engine.catalogue import find_specs, hibari_spec
from engine.errors import EngineError
from engine.render import model_config, model_source, render_model
from engine.site import Site
from speech_wire import INPUTS, OUTPUTS, ModelSpec

if TYPE_CHECKING:
    from google.protobuf.message import Message

REPOSITORY_ROOT = Path(__file__).parents[2]
MODEL_SOURCES = sorted((REPOSITORY_ROOT / "triton" / "models").glob("*/model.py"))
SPEC = ModelSpec("speaker", INPUTS, OUTPUTS, parameters={"voices": '[{"id": "é\\n\\""}]'})


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "model.py"
    path.write_bytes(b"# what Triton runs \xc3\xa9\r\n")
    return path


def parsed(folder: Path) -> Message:
    text = (folder / "config.pbtxt").read_text(encoding="utf-8")
    return text_format.Parse(text, model_config_pb2.ModelConfig())


@pytest.mark.parametrize(
    "spec",
    [SPEC, replace(SPEC, max_batch_size=4, decoupled=False, instances=3), hibari_spec()],
    ids=["all tensors", "batching", "hibari"],
)
def test_the_written_configuration_reads_back_equal(
    spec: ModelSpec, source: Path, tmp_path: Path
) -> None:
    folder = render_model(spec, source, tmp_path / "repository")

    assert folder == tmp_path / "repository" / spec.name
    assert parsed(folder) == model_config(spec)


def test_the_configuration_says_what_the_spec_says() -> None:
    config = model_config(SPEC)

    assert (config.name, config.backend) == ("speaker", "python")
    assert config.model_transaction_policy.decoupled
    assert [(i.name, list(i.dims), i.optional) for i in config.input] == [
        (spec.name, list(spec.shape), spec.optional) for spec in INPUTS
    ]
    assert [i.name for i in config.input if not i.optional] == ["target_text"]
    assert [(o.name, list(o.dims)) for o in config.output] == [
        (spec.name, list(spec.shape)) for spec in OUTPUTS
    ]
    assert config.parameters["voices"].string_value == SPEC.parameters["voices"]


def test_a_model_that_answers_once_is_not_decoupled() -> None:
    config = model_config(replace(SPEC, decoupled=False))

    assert not config.model_transaction_policy.decoupled


@pytest.mark.parametrize(
    ("name", "triton_type"),
    [
        ("target_text", "STRING"),
        ("speed", "FP32"),
        ("top_k", "INT32"),
        ("sample_offset", "INT64"),
        ("seed", "UINT64"),
    ],
)
def test_a_tensor_has_tritons_type(name: str, triton_type: str) -> None:
    config = model_config(SPEC)

    (tensor,) = [tensor for tensor in [*config.input, *config.output] if tensor.name == name]
    assert model_config_pb2.DataType.Name(tensor.data_type) == f"TYPE_{triton_type}"


def test_a_batch_size_of_zero_is_written_out(source: Path, tmp_path: Path) -> None:
    """Protobuf's text leaves a zero out, and Triton then chooses a batch size itself."""
    folder = render_model(SPEC, source, tmp_path / "repository")

    lines = (folder / "config.pbtxt").read_text(encoding="utf-8").splitlines()
    assert lines.count("max_batch_size: 0") == 1


def test_the_source_is_copied_byte_for_byte(source: Path, tmp_path: Path) -> None:
    folder = render_model(SPEC, source, tmp_path / "repository")

    assert (folder / "1" / "model.py").read_bytes() == source.read_bytes()


def test_rendering_again_replaces_the_model_and_nothing_else(source: Path, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    folder = render_model(SPEC, source, repository)
    render_model(replace(SPEC, name="other"), source, repository)
    (folder / "2").mkdir()
    source.write_bytes(b"# newer\n")

    render_model(replace(SPEC, instances=2), source, repository)

    assert (folder / "1" / "model.py").read_bytes() == b"# newer\n"
    assert parsed(folder) == model_config(replace(SPEC, instances=2))
    assert {path.name for path in folder.iterdir()} == {"1", "config.pbtxt"}
    assert {path.name for path in repository.iterdir()} == {"speaker", "other"}


def test_a_missing_source_is_named_and_leaves_the_old_model(source: Path, tmp_path: Path) -> None:
    folder = render_model(SPEC, source, tmp_path)

    with pytest.raises(EngineError, match=r"'speaker' has no source at .*absent\.py"):
        render_model(SPEC, tmp_path / "absent.py", tmp_path)

    assert (folder / "1" / "model.py").is_file()


def test_hibaris_source_is_the_checkouts() -> None:
    assert model_source("hibari") in MODEL_SOURCES


@pytest.mark.parametrize("path", MODEL_SOURCES, ids=lambda path: path.parent.name)
def test_a_models_source_has_at_most_30_statements(path: Path) -> None:
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    statements = [node for node in nodes if isinstance(node, ast.stmt)]

    docstrings = [s for s in statements if isinstance(s, ast.Expr) and is_text(s.value)]
    assert len(statements) - len(docstrings) <= 30


def is_text(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def test_hibari_offers_only_voices_whose_files_are_present(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIBARI_HOME", str(tmp_path))
    offered_before = json.loads(hibari_spec().parameters["voices"])
    (tmp_path / VOICES["emma"]["file"]).touch()

    offered = json.loads(hibari_spec().parameters["voices"])

    bundled = {"id": "heart", "language": "en-US"}
    assert offered_before == [bundled]
    assert {voice["id"]: voice["language"] for voice in offered} == {
        "heart": "en-US",
        "emma": VOICES["emma"]["language"],
    }


def test_an_unknown_model_is_refused_with_those_there_are() -> None:
    with pytest.raises(EngineError, match=r"'nobody' is not known; there are: hibari"):
        find_specs("nobody", Site())


def test_a_folder_that_holds_no_model_is_not_replaced(source: Path, tmp_path: Path) -> None:
    mine = tmp_path / "repository" / "speaker" / "mine.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine", encoding="utf-8")

    with pytest.raises(EngineError, match="speaker holds no model and is not replaced"):
        render_model(SPEC, source, tmp_path / "repository")

    assert mine.read_text(encoding="utf-8") == "mine"
