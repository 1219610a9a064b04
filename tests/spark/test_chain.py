"""From the Hub's files to a sentence: every step is killed once; TensorRT-LLM's tools stand in."""

from __future__ import annotations

import json
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from engine.diff import differences
from fakes.builder import ENGINE, Builder
from fakes.hub import FakeHub
from spark.server import SparkServer, served
from tritonserver.processes import Ports, free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.triton]

SEED = "1"
"""A random model may write a sentence of any length, but the same one for a seed."""


@pytest.fixture(scope="module")
def builder(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Builder]:
    builder = Builder(tmp_path_factory.mktemp("chain"))
    paths = [path for path in checkpoint.rglob("*") if path.is_file()]
    files = {str(path.relative_to(checkpoint)): path.read_bytes() for path in paths}
    with FakeHub(files) as hub:
        builder.hub = hub
        yield builder


@pytest.fixture(scope="module")
def ports() -> Ports:
    return free_ports()


@pytest.fixture(scope="module")
def repository(builder: Builder, ports: Ports) -> Path:
    """Make everything, killed once in each step; return the model repository."""
    options = ("--triton-address", ports.triton, "--device", "cpu")
    made: set[str] = set()
    assert killed_at(builder, "/weights/", *options) == made
    for tool, before in (("convert_checkpoint.py", "weights"), ("trtllm-build", "checkpoint")):
        made |= {before}
        process, _ = builder.until_it_waits(tool, *options)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=20)
        assert builder.made() == made
    made |= {"engine"}
    assert killed_at(builder, "/repository/", *options) == made

    done = builder.run("all", *options)

    assert done.returncode == 0, done.stderr
    (repository,) = builder.work.glob("repository/[!.]*")
    return repository


def killed_at(builder: Builder, words: str, *options: str) -> set[str]:
    """Run all up to the first file that is renamed in these folders; return what is complete."""
    killed = builder.killed_at("os.rename", words, "all", *options)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    return builder.made()


@pytest.fixture(scope="module")
def server(
    builder: Builder, repository: Path, ports: Ports, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkServer]:
    """Serve the weights that were fetched, their language model run by transformers."""
    folder = tmp_path_factory.mktemp("repository")
    (weights,) = builder.work.glob("weights/[!.]*")
    options = ["--model", "spark_tts", "--model-dir", weights, "--triton-address", ports.triton]
    subprocess.run([*ENGINE, "render", *options, folder], check=True, timeout=60)
    # All but the language model is what the chain has rendered.
    assert {line.split(":")[0] for line in differences(repository, folder)} == {
        "model tensorrt_llm is not there any more",
        "model llm is new",
        "spark_tts",
    }
    yield from served(ports, "--repository", str(folder))


@pytest.mark.usefixtures("server")
def test_a_chain_that_was_killed_in_every_step_ends_in_a_model_that_verify_passes(
    ports: Ports,
) -> None:
    found = subprocess.run(
        [*ENGINE, "verify", ports.triton, "--model", "spark_tts", "--json", "--seed", SEED],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    told = json.loads(found.stdout)
    assert [check for check in told["checks"] if not check["passed"]] == []
    assert (found.returncode, found.stderr) == (0, "")
    assert (told["model"], told["passed"], told["triton"]) == ("spark_tts", True, "2.51.0")
    for model in ("llm", "vocoder", "spark_tts"):
        assert told["figures"][f"requests_{model}"] >= 1
