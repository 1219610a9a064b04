"""`serve` with an engine for another machine ends with a sentence, before Triton starts."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from engine.__main__ import main
from engine.errors import EngineError
from engine.fits import check_sources
from fakes.builder import ENGINE, Builder
from fakes.checkpoint import write_checkpoint
from fakes.trtllm import FakeMachine

if TYPE_CHECKING:
    from pathlib import Path

OWN_ENVIRONMENT = 'parameters { key: "EXECUTION_ENV_PATH" value { string_value: "/e.tar.gz" } }\n'
"""So that nothing is asked of the environment of these tests, which has no torch."""

PORTS = ("--grpc-port", "28973", "--metrics-port", "28974")


@pytest.fixture
def builder(tmp_path: Path) -> Builder:
    """Give a work folder with a repository for an L4."""
    builder = Builder(tmp_path)
    done = builder.run("all", "--model-dir", str(builder.model_dir))
    assert done.returncode == 0, done.stderr
    for config in builder.work.glob("repository/[!.]*/*/config.pbtxt"):
        if "python" in (text := config.read_text(encoding="utf-8")):
            config.write_text(text + OWN_ENVIRONMENT, encoding="utf-8")
    return builder


def serve(builder: Builder, **machine: str | bool | None) -> str:
    """Serve the repository on such a machine, whose tritonserver ends at once; return the words."""
    other = FakeMachine(builder.work / "other", **machine).install()  # type: ignore[arg-type]
    program = other.folder / "bin" / "tritonserver"
    program.write_text("#!/bin/sh\necho 'error: Triton was asked'; exit 5\n", encoding="utf-8")
    program.chmod(0o755)
    (repository,) = builder.work.glob("repository/[!.]*")
    done = subprocess.run(
        [*ENGINE, "serve", "--repository", str(repository), *PORTS],
        env=other.environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        ({"version": "0.18.0"}, "was built by TensorRT-LLM 0.17.0.post1, here is 0.18.0, and an"),
        ({"gpus": "NVIDIA L40S, 8.9, 570.1\n"}, "was built on L4, here there is NVIDIA L40S, and"),
        ({"has_driver": False}, "error: no GPU: nvidia-smi is not on PATH; it needs a machine"),
    ],
    ids=["another release", "another GPU", "no GPU"],
)
def test_an_engine_that_does_not_fit_is_known_before_triton_starts(
    builder: Builder, machine: dict[str, str], words: str
) -> None:
    found = serve(builder, **machine)

    assert words in found
    assert found.count("\n") == 1


@pytest.mark.parametrize(
    ("pattern", "content", "words"),
    [
        ("work/engine/L4-*/rank0.engine", b"", "rank0.engine has 0 bytes, not 6000; build it agai"),
        ("work/engine/L4-*/manifest.json", b"{}", "manifest.json cannot be read as a manifest (Ke"),
        ("Spark*/BiCodec/model.safetensors", b"", "model.safetensors is no safetensors file (0 by"),
    ],
)
def test_what_broke_after_it_was_rendered_is_known_before_triton_starts(
    builder: Builder, pattern: str, content: bytes, words: str
) -> None:
    (path,) = builder.work.parent.glob(pattern)
    path.write_bytes(content)

    found = serve(builder)

    assert words in found
    assert found.count("\n") == 1


@pytest.mark.parametrize("version", ["0.17.0.post1", None], ids=["the same", "none in Python"])
def test_an_engine_that_fits_is_served(builder: Builder, version: str | None) -> None:
    assert "Triton was asked" in serve(builder, version=version)


STAGES = ["audio_tokenizer", "llm", "vocoder"]


@pytest.mark.parametrize(
    ("models", "words"),
    [
        (
            ["llm", "spark_tts", "vocoder"],
            "there would be llm, spark_tts, vocoder; render it again",
        ),
        (
            ["audio_tokenizer", "spark_tts", "vocoder"],
            "model 'spark_tts' of .* calls 'llm' as its llm, .*; add --model llm, or leave --model",
        ),
        (["spark_tts"], "calls 'llm' as its llm, which would not be served: there would be spark_"),
    ],
    ids=["not there", "not chosen", "alone"],
)
def test_a_front_without_its_stages_is_known_before_triton_starts(
    models: list[str], words: str, tmp_path: Path
) -> None:
    write_checkpoint(tmp_path / "spark")
    repository = tmp_path / "repository"
    given = ["--model", "spark_tts", "--model-dir", str(tmp_path / "spark")]
    assert main(["render", str(repository), *given]) == 0
    check_sources(repository, ["spark_tts", *STAGES])
    if "audio_tokenizer" not in models:
        shutil.rmtree(repository / "audio_tokenizer")

    with pytest.raises(EngineError, match=words):
        check_sources(repository, models)
