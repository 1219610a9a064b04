"""A repository is rendered whole or not at all, whatever kills who renders it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from engine.__main__ import main
from engine.errors import EngineError
from engine.render import render_models, rendered_models
from fakes.builder import KILL_ITSELF
from fakes.checkpoint import write_checkpoint
from speech_wire import INPUTS, OUTPUTS, ModelSpec

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SPEC = ModelSpec("a", INPUTS, OUTPUTS)
MODELS = {"audio_tokenizer", "llm", "spark_tts", "vocoder"}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    write_checkpoint(tmp_path / "spark")
    assert main(command(tmp_path / "repository", "67")) == 0
    return tmp_path / "repository"


def command(repository: Path, look_ahead: str) -> list[str]:
    options = ["--model-dir", str(repository.parent / "spark"), "--look-ahead", look_ahead]
    return ["render", str(repository), "--model", "spark_tts", *options]


def killed(repository: Path, words: str) -> None:
    """Render another look-ahead up to a rename with these words in its names."""
    arguments = [KILL_ITSELF, "os.rename", words, *command(repository, "10")]
    done = subprocess.run([sys.executable, "-I", "-c", *arguments], check=False, timeout=60)
    assert done.returncode == -9


@contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-I", *arguments], text=True, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def content(repository: Path) -> dict[str, bytes]:
    files = [path for path in repository.rglob("*") if path.is_file()]
    return {str(path.relative_to(repository)): path.read_bytes() for path in files}


def test_a_refusal_for_one_model_replaces_none(repository: Path) -> None:
    (repository / "spark_tts" / "config.pbtxt").rename(repository / "spark_tts" / "mine.txt")
    before = content(repository)

    assert main(command(repository, "10")) == 1

    assert content(repository) == before


def test_a_source_that_is_missing_leaves_all_and_nothing_beside(tmp_path: Path) -> None:
    (tmp_path / "model.py").touch()
    sources = {"a": tmp_path / "model.py", "b": tmp_path}
    models = [(replace(SPEC, name=name), source) for name, source in sources.items()]
    repository = tmp_path / "repository"

    with pytest.raises(EngineError, match="model 'b' has no source"):
        render_models(models, repository)

    assert not repository.exists()


def test_a_disk_that_fails_leaves_all_and_nothing_beside(tmp_path: Path) -> None:
    (tmp_path / "model.py").touch()
    # A name that is as long as one may be has no room for the words beside it.
    names = ["a", "b" * 250]
    models = [(replace(SPEC, name=name), tmp_path / "model.py") for name in names]

    with pytest.raises(OSError, match="too long"):
        render_models(models, tmp_path / "repository")

    assert list((tmp_path / "repository").iterdir()) == []


@pytest.mark.parametrize("words", ["vocoder", "spark_tts"])
def test_who_is_killed_between_two_models_leaves_nothing_that_is_served(
    repository: Path, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    killed(repository, words)

    ports = ["--grpc-port", "28971", "--metrics-port", "28972"]
    assert main(["diff", str(repository), str(repository)]) == 1
    assert main(["serve", "--repository", str(repository), *ports]) == 1

    words = "was rendered half: audio_tokenizer, llm, spark_tts, vocoder belong together, and some"
    assert capsys.readouterr().err.count(f"error: {repository} {words}") == 2


def test_rendering_again_mends_it_and_leaves_nothing_of_the_killed(repository: Path) -> None:
    killed(repository, "spark_tts")

    assert main(command(repository, "10")) == 0

    assert rendered_models(repository) == sorted(MODELS)
    assert {path.name for path in repository.iterdir()} == MODELS


def test_another_model_does_not_mend_what_it_is_no_part_of(repository: Path) -> None:
    killed(repository, "spark_tts")

    assert main(["render", str(repository), "--model", "hibari"]) == 0

    with pytest.raises(EngineError, match="audio_tokenizer, llm, spark_tts, vocoder belong toget"):
        rendered_models(repository)


def test_who_is_killed_before_the_first_rename_changes_nothing(repository: Path) -> None:
    before = content(repository)

    killed(repository, ".unfinished")

    models = {name: data for name, data in content(repository).items() if name[0] != "."}
    assert models == before
    assert rendered_models(repository) == sorted(MODELS)


@pytest.mark.parametrize("ending", [signal.SIGCONT, signal.SIGKILL])
def test_who_renders_where_another_does_waits_for_its_end_or_death(
    repository: Path, ending: signal.Signals
) -> None:
    # Once all is written, and nothing has its name yet.
    stop_itself = ["-c", KILL_ITSELF.replace("SIGKILL", "SIGSTOP"), "os.rename", ".unfinished"]
    with running(*stop_itself, *command(repository, "20")) as first:
        os.waitid(os.P_PID, first.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        with running("-m", "engine", *command(repository, "10")) as second:
            assert second.stderr is not None
            said = second.stderr.readline()
            first.send_signal(ending)
            first_errors = first.communicate(timeout=60)[1]
            errors = second.communicate(timeout=60)[1]

    holder = f"process {first.pid} on {os.uname().nodename}"
    assert said == f"INFO engine.waiting folder={repository} reason={holder} is making it\n"
    assert (first_errors, errors, second.returncode) == ("", "", 0)
    assert b'"10"' in content(repository)["spark_tts/config.pbtxt"]
    assert {path.name for path in repository.iterdir()} == MODELS
