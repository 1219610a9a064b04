from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from engine.__main__ import main
from engine.diff import differences
from engine.errors import EngineError
from engine.render import render_model
from engine.tensorrtllm import read_engine, tensorrtllm_spec
from fakes.engine_folder import write_engine
from speech_wire import ModelSpec, TensorSpec

if TYPE_CHECKING:
    from pathlib import Path

    from speech_wire import ModelSpec as Spec

SPEC = ModelSpec(
    "speaker",
    (TensorSpec("target_text", "BYTES", (1,), optional=False),),
    (TensorSpec("waveform", "FP32", (-1,)),),
    parameters={"threads": "2"},
)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "model.py"
    path.write_text("# one\n", encoding="utf-8")
    return path


def repository(folder: Path, source: Path, *specs: Spec) -> Path:
    for spec in specs:
        render_model(spec, source, folder)
    return folder


def test_the_same_rendered_twice_does_not_differ(tmp_path: Path, source: Path) -> None:
    one, two = (repository(tmp_path / name, source, SPEC) for name in ("a", "b"))

    assert differences(one, two) == []


def test_every_kind_of_difference_is_said_in_words(tmp_path: Path, source: Path) -> None:
    old = repository(tmp_path / "a", source, SPEC, replace(SPEC, name="gone"))
    source.write_text("# two\n", encoding="utf-8")
    voice = TensorSpec("voice", "BYTES", (1,))
    changed = replace(
        SPEC, instances=2, inputs=(voice, *SPEC.inputs), parameters={"threads": "4", "dtype": "x"}
    )
    new = repository(tmp_path / "b", source, changed, replace(SPEC, name="added"))

    assert differences(old, new) == [
        "model gone is not there any more",
        "model added is new",
        "speaker: input[voice] is new",
        "speaker: instance_group[0].count is 2, was 1",
        "speaker: parameters.dtype is new: x",
        "speaker: parameters.threads is 4, was 2",
        "speaker: 1/model.py is sha256 e398205404a3, was sha256 54c592ac3a26",
    ]
    assert "speaker: parameters.dtype is not there any more: x" in differences(new, old)


def test_releases_of_tensorrt_llm_differ_in_names(tmp_path: Path) -> None:
    for name, version in (("a", "0.17.0"), ("b", "1.2.1")):
        engine = read_engine(write_engine(tmp_path / "engine", version))
        render_model(tensorrtllm_spec(engine, 0.5), None, tmp_path / name)

    lines = differences(tmp_path / "a", tmp_path / "b")

    assert lines == [
        "tensorrt_llm: input[min_length] is not there any more",
        "tensorrt_llm: input[min_tokens] is new",
        "tensorrt_llm: input[random_seed] is not there any more",
        "tensorrt_llm: input[seed] is new",
        "tensorrt_llm: parameters.guided_decoding_backend is new",
        "tensorrt_llm: parameters.tokenizer_dir is new",
        "tensorrt_llm: parameters.xgrammar_tokenizer_info_path is new",
    ]


def test_the_command_prints_the_lines(
    tmp_path: Path, source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = repository(tmp_path / "a", source, SPEC)
    new = repository(tmp_path / "b", source, replace(SPEC, decoupled=False))

    assert main(["diff", str(old), str(old)]) == 0
    assert main(["diff", str(old), str(new)]) == 1
    assert capsys.readouterr().out == (
        "speaker: model_transaction_policy.decoupled is not there any more: True\n"
    )


def test_what_is_no_repository_is_named(tmp_path: Path, source: Path) -> None:
    whole = repository(tmp_path / "a", source, SPEC)
    (tmp_path / "b" / "x").mkdir(parents=True)

    with pytest.raises(EngineError, match=r"b is no model repository: it has no MODEL/config\.p"):
        differences(whole, tmp_path / "b")
    (whole / "speaker" / "config.pbtxt").write_text("name: ${name}", encoding="utf-8")
    with pytest.raises(EngineError, match=r"config\.pbtxt is no configuration of a model"):
        differences(whole, whole)


def test_what_a_killed_run_has_left_is_no_model(tmp_path: Path, source: Path) -> None:
    one, two = (repository(tmp_path / name, source, SPEC) for name in ("a", "b"))
    (two / "speaker").rename(two / ".speaker.0123abcd.part")
    render_model(SPEC, source, two)

    assert differences(one, two) == []


def test_every_file_counts_but_for_what_python_makes_of_them(tmp_path: Path, source: Path) -> None:
    one, two = (repository(tmp_path / name, source, SPEC) for name in ("a", "b"))
    (two / "speaker" / "1" / "__pycache__").mkdir()
    for name in ("lib.so", "lib.so.1", "__pycache__/model.pyc"):
        (two / "speaker" / "1" / name).touch()

    assert [line.split(" is ")[0] for line in differences(one, two)] == [
        "speaker: 1/lib.so",
        "speaker: 1/lib.so.1",
    ]
