"""`python -m engine all` and its parts, killed and resumed, on a fake machine with a fake Hub."""

from __future__ import annotations

import signal
import subprocess
from typing import TYPE_CHECKING

import psutil
import pytest

from fakes.builder import ENGINE, Builder
from fakes.hub import COMMIT, FakeHub

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MODELS = ["audio_tokenizer", "spark_tts", "tensorrt_llm", "vocoder"]
TOOLS = ("convert_checkpoint.py", "trtllm-build")


@pytest.fixture
def builder(tmp_path: Path) -> Builder:
    return Builder(tmp_path)


@pytest.fixture
def hub(builder: Builder) -> Iterator[FakeHub]:
    paths = [path for path in builder.model_dir.rglob("*") if path.is_file()]
    files = {str(path.relative_to(builder.model_dir)): path.read_bytes() for path in paths}
    with FakeHub(files) as fake:
        builder.hub = fake
        yield fake


@pytest.mark.usefixtures("hub")
def test_all_goes_from_the_hub_to_a_model_repository(builder: Builder) -> None:
    done = builder.run("all")

    assert done.returncode == 0, done.stderr
    (repository,) = builder.work.glob("repository/[!.]*")
    (weights,) = builder.work.glob("weights/[!.]*")
    (engine,) = builder.work.glob("engine/[!.]*")
    assert done.stdout.splitlines()[-3:] == [
        f"weights: {weights}",
        f"engine: {engine}",
        f"repository: {repository}",
    ]
    assert sorted(path.name for path in repository.iterdir()) == MODELS
    (engine,) = builder.work.glob("engine/[!.]*")
    assert str(engine) in (repository / "tensorrt_llm" / "config.pbtxt").read_text()
    assert f"--revision {COMMIT}" in done.stderr


def test_done_once_it_needs_neither_hub_nor_gpu_nor_tools(builder: Builder, hub: FakeHub) -> None:
    builder.run("all")
    hub.status = 503
    for path in (builder.machine.folder / "bin").iterdir():
        path.unlink()

    done = builder.run("all")

    assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("hub")
def test_the_steps_are_there_one_by_one(builder: Builder) -> None:
    for command, kinds in (
        ("download", {"weights"}),
        ("convert", {"weights", "checkpoint"}),
        ("build", {"weights", "checkpoint", "engine"}),
    ):
        own = [*ENGINE, "download", "--work", str(builder.work)]
        full = builder.command(command) if command != "download" else own
        done = subprocess.run(
            full, env=builder.environment(), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert builder.made() == kinds


def test_local_weights_are_used_where_they_are(builder: Builder) -> None:
    done = builder.run("all", "--model-dir", str(builder.model_dir))

    assert done.returncode == 0, done.stderr
    assert builder.made() == {"checkpoint", "engine", "repository"}


@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize("tool", TOOLS)
def test_killed_in_a_step_the_next_run_makes_it_anew(builder: Builder, tool: str) -> None:
    process, pid = builder.until_it_waits(tool)
    stand_in = psutil.Process(pid)

    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=20)

    assert psutil.wait_procs([stand_in], timeout=10)[1] == []
    earlier = {"weights"} if tool == TOOLS[0] else {"weights", "checkpoint"}
    assert builder.made() == earlier
    done = builder.run("all")
    assert done.returncode == 0, done.stderr
    (engine,) = builder.work.glob("engine/[!.]*")
    assert sorted(p.name for p in engine.iterdir()) == [
        "config.json",
        "manifest.json",
        "model.cache",
        "rank0.engine",
    ]
    assert (engine / "rank0.engine").stat().st_size > len("half")


def test_what_a_killed_tools_worker_writes_is_not_in_the_next_engine(builder: Builder) -> None:
    local = ["--model-dir", str(builder.model_dir)]
    process, worker = builder.until_it_waits("trtllm-build", *local, mishap="worker")
    try:
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=20)

        done = builder.run("all", *local)

        assert psutil.pid_exists(worker)
    finally:
        psutil.Process(worker).kill()
    assert done.returncode == 0, done.stderr
    (engine,) = builder.work.glob("engine/[!.]*")
    assert "rank1.engine" not in {path.name for path in engine.iterdir()}


def test_killed_in_the_download_it_never_uses_what_is_half(builder: Builder, hub: FakeHub) -> None:
    hub.hangs_in = "LLM/model.safetensors"
    hub.script = {hub.hangs_in: [1_000_000]}
    with subprocess.Popen(
        builder.command("all"), env=builder.environment(), stderr=subprocess.DEVNULL
    ) as process:
        assert hub.hanging.wait(60)
        process.send_signal(signal.SIGKILL)
    hub.hangs_in = None
    hub.released.set()
    assert builder.made() == set()
    convert = builder.run("convert")
    assert convert.returncode == 1
    assert "@main is not there; first comes `python -m engine download --work " in convert.stderr

    done = builder.run("all")

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("event", "words"),
    [("shutil.copyfile", "/vocoder/"), ("os.rename", "/repository/L4-")],
    ids=["half of the models", "all of them"],
)
def test_killed_while_it_renders_the_next_run_renders_anew(
    builder: Builder, event: str, words: str
) -> None:
    local = ["--model-dir", str(builder.model_dir)]

    killed = builder.killed_at(event, words, "all", *local)

    assert killed.returncode == -signal.SIGKILL
    assert builder.made() == {"checkpoint", "engine"}
    done = builder.run("all", *local)
    assert done.returncode == 0, done.stderr
    (repository,) = builder.work.glob("repository/[!.]*")
    assert sorted(path.name for path in repository.iterdir()) == MODELS
    assert list(builder.work.glob("repository/.*.part")) == []


@pytest.mark.parametrize("tool", TOOLS)
def test_a_stop_reaches_the_tool_whose_exit_code_is_ours(builder: Builder, tool: str) -> None:
    process, pid = builder.until_it_waits(tool, "--model-dir", str(builder.model_dir))
    stand_in = psutil.Process(pid)

    process.send_signal(signal.SIGTERM)
    _, words = process.communicate(timeout=20)

    assert process.returncode == 9
    assert "ended with 9. Its last lines:" in words
    assert "Traceback" not in words
    assert psutil.wait_procs([stand_in], timeout=10)[1] == []


def test_a_tools_exit_code_is_ours(builder: Builder) -> None:
    model_dir = str(builder.model_dir)

    done = builder.run("all", "--model-dir", model_dir, STAND_IN="trtllm-build=fail")

    assert done.returncode == 7
    assert "[E] no kernel for this layer" in done.stderr


def test_a_machine_that_cannot_is_known_before_the_download(builder: Builder, hub: FakeHub) -> None:
    (builder.machine.folder / "bin" / "nvidia-smi").unlink()

    done = builder.run("all")

    assert done.returncode == 1
    assert done.stderr.startswith("error: no GPU: nvidia-smi is not on PATH")
    assert hub.asked == []
