from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from fakes.checkpoint import write_checkpoint

if TYPE_CHECKING:
    from pathlib import Path

ENGINE = [sys.executable, "-I", "-m", "engine"]
ANY = "0.0.0.0"  # noqa: S104  nothing listens there


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Put a tritonserver first on PATH that ends at once."""
    program = tmp_path / "bin" / "tritonserver"
    program.parent.mkdir()
    program.write_text(
        "#!/bin/sh\necho 'E0101 1 x.cc:1] no such model'; exit 5\n", encoding="utf-8"
    )
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}


def engine(
    folder: Path, *arguments: str, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*ENGINE, *arguments],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_render_writes_the_model_and_prints_its_folder(tmp_path: Path) -> None:
    done = engine(tmp_path, "render", "--model", "hibari", "repository")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "repository/hibari\n"
    written = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    assert written == {"repository/hibari/config.pbtxt", "repository/hibari/1/model.py"}


@pytest.mark.parametrize("command", [["render", "repository"], ["serve"]], ids=["render", "serve"])
def test_an_unknown_model_ends_with_1_and_names_those_there_are(
    command: list[str], tmp_path: Path, environment: dict[str, str]
) -> None:
    done = engine(tmp_path, *command, "--model", "nobody", env=environment)

    assert done.returncode == 1
    assert done.stderr.endswith(
        "error: model 'nobody' is not known; there are: hibari, spark_tts\n"
    )


def test_serve_knows_no_language_model_but_those_that_it_renders(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    write_checkpoint(tmp_path / "spark")
    options = ["--model", "spark_tts", "--model-dir", "spark", "--llm", "foo"]

    done = engine(tmp_path, "serve", *options, env=environment)

    assert done.returncode == 1
    words = "error: --llm foo is not known: there are transformers, vllm, tensorrtllm, and"
    assert done.stderr.startswith(words)


def test_a_taken_port_ends_with_1_and_is_named(tmp_path: Path, environment: dict[str, str]) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]

        done = engine(tmp_path, "serve", "--grpc-port", str(port), env=environment)

    assert done.returncode == 1
    assert done.stderr.startswith(f"error: Triton's gRPC port 127.0.0.1:{port} cannot be taken")
    assert "Traceback" not in done.stderr


def test_no_command_is_a_usage_error(tmp_path: Path) -> None:
    done = engine(tmp_path)

    assert done.returncode == 2
    assert "COMMAND" in done.stderr


def test_a_server_that_dies_at_the_start_ends_with_1_and_its_own_words(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    """3 is for a server that dies while it serves: that one may be started again."""
    found = engine(
        tmp_path, "serve", "--grpc-port", "28971", "--metrics-port", "28972", env=environment
    )

    assert found.returncode == 1
    assert "exit code 5" in found.stderr
    assert "no such model" in found.stderr


@pytest.mark.parametrize(("host", "is_for_nothing"), [("127.0.0.1", True), (ANY, False)])
def test_a_word_for_others_is_for_nothing_where_no_others_are(
    tmp_path: Path, environment: dict[str, str], host: str, *, is_for_nothing: bool
) -> None:
    ports = ["--grpc-port", "28971", "--metrics-port", "28972"]

    found = engine(tmp_path, "serve", "--insecure", "--host", host, *ports, env=environment)

    words = f"WARNING --insecure has no effect: this machine alone reaches {host}\n"
    assert (words in found.stderr) is is_for_nothing
    assert "exit code 5" in found.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--grpc-port", "70000"], "'70000' is no port"),
        (["--grpc-port", "28971", "--metrics-port", "28971"], "cannot share port 28971"),
    ],
    ids=["out-of-range", "the-same-twice"],
)
def test_impossible_ports_are_named(
    tmp_path: Path, environment: dict[str, str], options: list[str], words: str
) -> None:
    found = engine(tmp_path, "serve", *options, env=environment)

    assert found.returncode in (1, 2)
    assert words in found.stderr


def test_a_folder_that_cannot_be_written_is_a_plain_error(tmp_path: Path) -> None:
    found = engine(tmp_path, "render", "--model", "hibari", "/proc/nothing")

    assert found.returncode == 1
    assert found.stderr.startswith("error: ")


@pytest.mark.parametrize(
    "option",
    [
        "--model-dir=x",
        "--engine-dir=x",
        "--llm=transformers",
        "--kv-cache-fraction=0.5",
        "--max-sequence-tokens=9000",
        "--instances=vocoder=2",
        "--device=cpu",
        "--dtype=float32",
        "--pruned-head",
    ],
)
def test_what_a_rendered_repository_would_not_use_is_refused(
    tmp_path: Path, environment: dict[str, str], option: str
) -> None:
    """Also where it says what is the default: the repository may say something else."""
    found = engine(tmp_path, "serve", "--repository", ".", option, env=environment)

    assert found.returncode == 1
    assert f"is rendered already, and {option.split('=', maxsplit=1)[0]} is for" in found.stderr


@pytest.mark.parametrize(
    ("repository", "words"),
    [
        ("nowhere", "nowhere is no model repository: it has no MODEL/config.pbtxt"),
        ("here", "here has no model 'nobody'; it has hibari"),
    ],
)
def test_a_repository_without_the_model_is_refused(
    tmp_path: Path, environment: dict[str, str], repository: str, words: str
) -> None:
    engine(tmp_path, "render", "here")
    options = ["--repository", repository, "--model", "nobody"]

    found = engine(tmp_path, "serve", *options, env=environment)

    assert (found.returncode, found.stderr) == (1, f"error: {words}\n")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("config.pbtxt", b"", "here/hibari/config.pbtxt is empty; render it again"),
        (
            "config.pbtxt",
            b"\xff",
            "here/hibari/config.pbtxt is no configuration of a model: it is n",
        ),
        (
            "config.pbtxt",
            b'name: "hi',
            "here/hibari/config.pbtxt is no configuration of a model: 1",
        ),
        (
            "config.pbtxt",
            b'name: "hi"',
            "here/hibari holds model 'hi', and a model's folder has it",
        ),
        ("1/model.py", b"", "here/hibari/1/model.py has no TritonPythonModel; was it written to"),
        ("1/model.py", b"class Triton(", "here/hibari/1/model.py is no whole Python file ('(' was"),
        ("1/model.py", b"\0", "here/hibari/1/model.py is no whole Python file (source code"),
        ("1/model.py", None, "here/hibari has no source: 1/model.py is missing; render it again"),
    ],
)
def test_a_repository_that_is_not_whole_is_refused(
    tmp_path: Path, environment: dict[str, str], name: str, content: bytes | None, words: str
) -> None:
    engine(tmp_path, "render", "here")
    (tmp_path / "here" / "hibari" / name).unlink()
    if content is not None:
        (tmp_path / "here" / "hibari" / name).write_bytes(content)

    found = engine(tmp_path, "serve", "--repository", "here", env=environment)

    assert found.returncode == 1
    assert found.stderr.startswith(f"error: {words}")
    assert found.stderr.count("\n") == 1


def test_a_stop_while_rendering_is_a_stop(tmp_path: Path, environment: dict[str, str]) -> None:
    """What it reads then is a pipe, at which it waits."""
    model_dir, engine_dir = tmp_path / "Spark-TTS-0.5B", tmp_path / "engine"
    write_checkpoint(model_dir)
    engine_dir.mkdir()
    (engine_dir / "rank0.engine").write_bytes(b"engine")
    os.mkfifo(engine_dir / "config.json")
    options = ["--model", "spark_tts", "--model-dir", str(model_dir), "--llm", "tensorrtllm"]
    process = subprocess.Popen(
        [*ENGINE, "serve", *options, "--engine-dir", str(engine_dir)],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )

    with (engine_dir / "config.json").open("w"):
        process.send_signal(signal.SIGTERM)
        _, words = process.communicate(timeout=30)

    assert process.returncode == 0
    assert "Traceback" not in words


def test_a_host_that_is_not_this_machines_is_no_taken_port(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    options = ["serve", "--host", "192.0.2.1", "--insecure"]

    done = engine(tmp_path, *options, env=environment)

    assert done.returncode == 1
    assert "error: 192.0.2.1 is no address of this machine: " in done.stderr


def test_an_argument_that_a_command_does_not_have_is_told_with_its_usage(tmp_path: Path) -> None:
    done = engine(tmp_path, "serve", "--port", "1")

    assert done.returncode == 2
    assert done.stderr.startswith("usage: speech-engine serve ")
    words = "speech-engine serve: error: unrecognized arguments: --port 1\n"
    assert done.stderr.endswith(words)


@pytest.mark.parametrize(
    ("content", "words"),
    [("short", "the secret has 5 characters"), (None, "secret is not there")],
)
def test_what_is_wrong_with_a_secret_names_its_option(
    tmp_path: Path, environment: dict[str, str], content: str | None, words: str
) -> None:
    if content is not None:
        (tmp_path / "secret").write_text(content, "utf-8")

    done = engine(tmp_path, "serve", "--secret-file", "secret", env=environment)

    assert done.returncode == 1
    assert words in done.stderr
    assert done.stderr.startswith("error: --secret-file")
