"""What models need of their Python is known before Triton starts."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from engine.errors import EngineError
from engine.packages import check_packages
from engine.render import model_source, render_model
from engine.site import Site
from engine.spark import spark_specs
from fakes.checkpoint import write_checkpoint

if TYPE_CHECKING:
    from pathlib import Path

MODELS = ("llm", "vocoder", "audio_tokenizer", "spark_tts")
PACKAGES = {"torch", "transformers", "tokenizers", "safetensors", "yaml", "vllm"}


def render(folder: Path, llm: str = "transformers") -> Path:
    write_checkpoint(folder / "spark")
    for spec in spark_specs(Site(folder / "spark", llm=llm, device="cuda")):
        render_model(spec, model_source(spec.name), folder / "repository")
    return folder / "repository"


def python_without(folder: Path, *absent: str) -> dict[str, str]:
    """Return an environment whose python3 has all packages but those."""
    program = folder / "bin" / "python3"
    program.parent.mkdir()
    words = " ".join(absent)
    program.write_text(f"#!/bin/sh\necho {words}\n", encoding="utf-8")
    program.chmod(0o755)
    return {"PATH": str(program.parent)}


@pytest.mark.parametrize(
    ("absent", "models", "words"),
    [
        (
            "torch",
            MODELS,
            "model 'llm' needs the extra spark: pip install 'speech-gateway[spark]' (",
        ),
        ("torch", ["vocoder"], "model 'vocoder' needs the extra spark: pip install 'speech-gatewa"),
        ("yaml", MODELS, "model 'vocoder' needs the extra spark"),
        ("tokenizers", ["spark_tts"], "model 'spark_tts' needs the extra spark"),
        ("transformers", ["audio_tokenizer"], "python3 has no transformers)"),
    ],
)
def test_a_package_that_is_not_there_is_named_with_its_extra(
    absent: str, models: list[str], words: str, tmp_path: Path
) -> None:
    repository = render(tmp_path)

    with pytest.raises(EngineError) as caught:
        check_packages(repository, models, python_without(tmp_path, absent))

    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("absent", ["transformers", "tokenizers"])
def test_of_an_extra_all_is_asked_that_a_source_imports(absent: str, tmp_path: Path) -> None:
    repository, environment = render(tmp_path), python_without(tmp_path, absent)
    source = "from speech_backend.audio_tokenizer import x\nfrom speech_backend.spark import y\n"
    (repository / "vocoder" / "1" / "model.py").write_text(source, encoding="utf-8")

    with pytest.raises(EngineError, match=rf"needs the extra spark: .* has no {absent}\)$"):
        check_packages(repository, ["vocoder"], environment)


def test_vllm_has_an_extra_of_its_own(tmp_path: Path) -> None:
    repository, environment = render(tmp_path, "vllm"), python_without(tmp_path, "vllm")

    with pytest.raises(EngineError, match=r"needs the extra vllm: pip .*\[vllm\]' \(.* no vllm\)$"):
        check_packages(repository, MODELS, environment)
    check_packages(repository, MODELS[1:], environment)


def test_with_all_packages_nothing_is_said(tmp_path: Path) -> None:
    check_packages(render(tmp_path), MODELS, python_without(tmp_path))


def test_what_needs_nothing_does_not_ask(tmp_path: Path) -> None:
    repository = render(tmp_path)
    for name in MODELS:
        (repository / name / "1" / "model.py").write_text("import numpy\n", encoding="utf-8")

    check_packages(repository, MODELS, {"PATH": ""})


def test_a_python_that_is_missing_or_does_not_run_is_named(tmp_path: Path) -> None:
    repository, environment = render(tmp_path), python_without(tmp_path)

    with pytest.raises(EngineError, match="no python3 is on PATH"):
        check_packages(repository, MODELS, {"PATH": "/nowhere"})
    program = tmp_path / "bin" / "python3"
    program.write_text("#!/bin/sh\necho no libpython >&2; exit 127\n", encoding="utf-8")
    with pytest.raises(EngineError, match=r"bin/python3 does not run, .*: no libpython"):
        check_packages(repository, MODELS, environment)


def test_this_python_is_really_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of these two it has one, whatever lies in the folder that it is started in."""
    repository = render(tmp_path)
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").touch()
    monkeypatch.chdir(tmp_path)
    source = repository / "vocoder" / "1" / "model.py"
    bin_folder = os.path.dirname(sys.executable)  # noqa: PTH120  it is a link, and stays one

    with pytest.raises(EngineError, match=r"has no torch\)$"):
        check_packages(repository, ["vocoder"], {"PATH": bin_folder})
    source.write_text("from speech_backend.spark import load_speaker\n", encoding="utf-8")
    check_packages(repository, ["vocoder"], {"PATH": bin_folder})


def test_serve_says_so_before_triton_starts(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "spark")
    program = tmp_path / "bin" / "tritonserver"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'error: Triton was asked'; exit 5\n", encoding="utf-8")
    program.chmod(0o755)
    options = ["--model", "spark_tts", "--model-dir", str(tmp_path / "spark")]
    where = ["--grpc-port", "28975", "--metrics-port", "28976"]

    done = subprocess.run(
        [sys.executable, "-I", "-m", "engine", "serve", *options, *where],
        env={**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.returncode == 1
    words = "error: model 'llm' needs the extra spark: pip install 'speech-gateway[spark]' ("
    assert done.stderr.startswith(words)
    assert done.stderr.count("\n") == 1
