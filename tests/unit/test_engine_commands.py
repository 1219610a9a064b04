"""What `python -m engine all|convert|build` say before they do anything."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from safetensors.numpy import save_file

from engine.__main__ import main
from engine.commands.all_steps import RENDERED
from engine.fixture import write_checkpoint as write_fixture
from engine.sizes import converted_bytes, weights_bytes
from engine.spec import EngineSpec
from fakes.builder import Builder
from fakes.checkpoint import ROWS

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def builder(tmp_path: Path) -> Builder:
    return Builder(tmp_path)


def test_a_dry_run_names_image_commands_folders_and_sizes_and_makes_nothing(
    builder: Builder,
) -> None:
    done = builder.run("all", "--dry-run")

    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    image = "nvcr.io/nvidia/tritonserver:25.02-trtllm-python-py3"
    assert lines[0] == f"image: {image} (TensorRT-LLM 0.17.0.post1, 28 GB), on L4"
    assert [line.split(":")[0] for line in lines if ": " in line] == [
        "image", "download", "convert", "build", "render", "then", "times",
    ]  # fmt: skip
    assert any(line.endswith(" --use_paged_context_fmha disable") for line in lines)
    assert "about 1.0 GB" in lines[3]
    assert not builder.work.exists()


def test_a_dry_run_says_what_is_there(builder: Builder) -> None:
    local = ["--model-dir", str(builder.model_dir)]
    builder.run("all", *local)

    done = builder.run("all", "--dry-run", *local)

    assert done.returncode == 0
    assert done.stdout.count("(there already)") == 3
    assert done.stdout.count("(there, rendered anew)") == 1


@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        ("checkpoint", "rank0.safetensors", "rank0.safetensors has 9 bytes, not 1500000; remove"),
        ("engine", "rank0.engine", "rank0.engine has 9 bytes, not 6000; remove it and run this"),
        ("engine", "manifest.json", "manifest.json cannot be read as a manifest (JSONDecodeError"),
    ],
)
def test_a_dry_run_looks_at_what_is_there(
    builder: Builder, kind: str, name: str, words: str
) -> None:
    local = ["--model-dir", str(builder.model_dir)]
    builder.run("all", *local)
    (broken,) = builder.work.glob(f"{kind}/[!.]*/{name}")
    broken.write_bytes(b"truncated")

    done = builder.run("all", "--dry-run", *local)

    assert done.returncode == 1
    assert f" (there, but it cannot be used: {broken.parent}" in done.stdout
    assert words in done.stdout
    assert done.stdout.count("(there already)") == 2


def test_a_dry_run_measures_weights_that_are_here(builder: Builder) -> None:
    done = builder.run("all", "--dry-run", "--model-dir", str(builder.model_dir))
    fixture = builder.work.parent / "tiny"
    write_fixture(fixture, "tiny", seed=1)

    assert f"download: {builder.model_dir}, about 0.0 GB" in done.stdout
    assert ", about 0.0 GB\n  python3 " in done.stdout
    files = [path for path in fixture.rglob("*") if path.is_file()]
    assert weights_bytes(fixture) == sum(path.stat().st_size for path in files)
    # In float32, as the spec says, but for the header.
    size = (fixture / "LLM" / "model.safetensors").stat().st_size
    spec = EngineSpec(dtype="float32")
    assert converted_bytes(spec, fixture) == pytest.approx(size, rel=0.01)


@pytest.mark.parametrize("name", ["file/work", "/proc/work"])
def test_a_dry_run_says_that_nothing_can_be_written_there(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    work = tmp_path / name

    assert main(["all", "--work", str(work), "--dry-run"]) == 1

    assert (
        f"work: {work} (it cannot be used: {work} cannot be written (N" in capsys.readouterr().out
    )
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_files_that_a_dry_run_names_are_those_that_are_written(builder: Builder) -> None:
    local = ["--model-dir", str(builder.model_dir)]
    planned = builder.run("all", "--dry-run", *local).stdout
    builder.run("all", *local)

    for kind in ("checkpoint", "engine"):
        (folder,) = builder.work.glob(f"{kind}/[!.]*")
        written = sorted(path.name for path in folder.iterdir() if path.name != "manifest.json")
        assert f"  writes {', '.join(written)}\n" in planned
    (repository,) = builder.work.glob("repository/[!.]*")
    assert {path.parent.name for path in repository.glob("*/config.pbtxt")} == set(RENDERED)
    assert {path.parent.parent.name for path in repository.glob("*/1/model.py")} == set(
        RENDERED[1:]
    )


@pytest.mark.parametrize("command", ["convert", "build"])
def test_a_dry_run_of_one_step_prints_its_command(builder: Builder, command: str) -> None:
    done = builder.run(command, "--dry-run", "--extra-build-arg", "fast_build")

    assert done.returncode == 0
    assert done.stdout.startswith("python3 " if command == "convert" else "trtllm-build ")
    assert done.stdout.count("\n") == 1
    assert ("--fast_build" in done.stdout) is (command == "build")


@pytest.mark.parametrize(
    ("command", "options", "words"),
    [
        ("convert", [], " SparkAudio/Spark-TTS-0.5B@main`"),
        ("convert", ["--repository", "me/mine", "--revision", "v1"], " me/mine@v1 --allow 'LLM/*'"),
        ("build", [], "`, with the same options"),
    ],
)
def test_a_step_without_the_one_before_names_that_ones_command(
    builder: Builder, command: str, options: list[str], words: str
) -> None:
    before = {"convert": "download", "build": "convert"}[command]

    done = builder.run(command, *options)

    assert done.returncode == 1
    assert f" is not there; first comes `python -m engine {before} --work {builder.work}" in (
        done.stderr
    )
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--dtype", "float16"], "error: dtype 'float16' is not allowed"),
        (["--trtllm-version", "9.9"], "error: no image has TensorRT-LLM 9.9; there are: 0.17.0, "),
        (["--max-sequence", "3000"], "error: sequences of 3000 tokens with prompts of 32768 are"),
        (["--extra-build-arg", "max_batch=1"], "has no option 'max_batch'; did you mean max_b"),
        (["--extra-convert-arg", "workers"], "convert_checkpoint.py's option workers is ''"),
        (["--tensor-parallel", "2"], "error: an engine for 2 GPUs can be made with convert and"),
        (["--pruned-head"], "error: an engine with a pruned head can be made with convert and"),
        (
            ["--model-dir", "/nowhere"],
            "error: /nowhere is no folder; --model-dir is that of Spark-TTS",
        ),
    ],
)
def test_wrong_input_is_a_sentence(builder: Builder, arguments: list[str], words: str) -> None:
    done = builder.run("all", *arguments)

    assert done.returncode == 1
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert not builder.work.exists()


@pytest.mark.parametrize(
    ("arguments", "image"),
    [
        (["--trtllm-version", "0.20.0"], "25.07"),
        (["--image", "25.06"], "25.06"),
        (["--image", "26.07"], "26.07"),
    ],
)
def test_image_and_version_follow_from_each_other(
    builder: Builder, arguments: list[str], image: str
) -> None:
    done = builder.run("all", "--dry-run", *arguments)

    assert f"tritonserver:{image}-trtllm-python-py3 (TensorRT-LLM " in done.stdout


def test_a_pruned_engine_is_converted_and_built(builder: Builder) -> None:
    local = ["--model-dir", str(builder.model_dir), "--pruned-head"]
    write_pruned_source(builder.model_dir)

    converted = builder.run("convert", *local)
    built = builder.run("build", *local)

    assert (converted.returncode, built.returncode) == (0, 0), converted.stderr + built.stderr
    assert builder.made() == {"pruned", "checkpoint", "engine"}


def write_pruned_source(model_dir: Path) -> None:
    rows = np.zeros((ROWS, 2), np.float32)
    save_file({"model.embed_tokens.weight": rows}, model_dir / "LLM" / "model.safetensors")
    path = model_dir / "LLM" / "config.json"
    config = json.loads(path.read_text(encoding="utf-8")) | {"hidden_size": rows.shape[1]}
    path.write_text(json.dumps(config), encoding="utf-8")


def test_a_work_folder_below_a_file_is_named(builder: Builder) -> None:
    builder.work = builder.work.parent / "machine" / "gpus" / "work"  # "gpus" is a file

    done = builder.run("all", "--model-dir", str(builder.model_dir))

    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {builder.work}/checkpoint is a file or lies below one, ")
