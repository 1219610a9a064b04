"""The command line as a user runs it: exit codes, messages, files."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import soundfile

from fakes.service import RunningService
from fakes.triton import Fail, FakeTriton, Hang, Script, tone
from gateway import local
from gateway.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

KEY = "correct-horse"


def run(*arguments: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `speech-gateway` in an empty folder."""
    return subprocess.run(
        [sys.executable, "-I", "-m", "gateway", *arguments],
        cwd=folder,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@pytest.fixture
def nowhere(triton: FakeTriton) -> str:
    """Give an address at which nothing listens any more."""
    triton.stop()
    return triton.address


def test_every_line_of_a_json_log_is_json(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = run("serve", folder=tmp_path, SPEECH_PORT=port, SPEECH_LOG_FORMAT="json")

    entries = [json.loads(line) for line in done.stderr.splitlines()]
    events = [entry["event"] for entry in entries]
    assert events[0] == "gateway.serving"
    assert entries[0]["address"] == f"127.0.0.1:{port}"
    assert events.index("gateway.started") < events.index("gateway.stopped")
    assert any("address already in use" in event for event in events)


def test_a_wrong_setting_is_named_and_ends_it(tmp_path: Path) -> None:
    done = run("serve", folder=tmp_path, SPEECH_PORT="many")

    assert done.returncode == 1
    assert "error: SPEECH_PORT = 'many'" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_setting_is_a_warning(triton: FakeTriton, tmp_path: Path) -> None:
    done = run("check", "--triton", triton.address, folder=tmp_path, SPEECH_PROT="9000")

    assert done.returncode == 0
    assert "warning: SPEECH_PROT is no setting; did you mean SPEECH_PORT?" in done.stderr


@pytest.mark.parametrize("extension", ["wav", "flac"])
def test_say_writes_a_file_with_true_sizes(
    service: RunningService, tmp_path: Path, extension: str
) -> None:
    file = f"hello.{extension}"

    done = run("say", "Hello.", "-o", file, "--url", service.base_url, folder=tmp_path)

    samples, rate = soundfile.read(tmp_path / file)
    assert done.returncode == 0
    assert (len(samples), rate) == (7200, 24_000)
    assert f"{file}: 0.3 s of speech" in done.stderr


def test_say_names_model_and_voice_as_told(
    triton: FakeTriton, service: RunningService, tmp_path: Path
) -> None:
    done = run(
        *("say", "Hello.", "--model", "hibari", "--voice", "fable", "--url", service.base_url),
        folder=tmp_path,
    )

    [request] = triton.seen.requests
    assert done.returncode == 0
    assert (request.target_text, request.voice) == ("Hello.", "fable")
    assert (tmp_path / "speech.wav").exists()


def test_say_finds_the_service_by_its_port(service: RunningService, tmp_path: Path) -> None:
    done = run("say", "Hello.", "--port", str(service.port), folder=tmp_path)

    assert done.returncode == 0


@pytest.mark.parametrize("way", ["flag", "environment"])
def test_say_sends_the_key_that_it_is_given(triton: FakeTriton, tmp_path: Path, way: str) -> None:
    options = ["--api-key", KEY] if way == "flag" else []
    variables = {} if way == "flag" else {"SPEECH_CLIENT_API_KEY": KEY}

    with RunningService(triton, api_keys=f"alice:{KEY}", open_without_key="") as service:
        command = ["say", "Hello.", "--url", service.base_url]
        done = run(*command, *options, folder=tmp_path, **variables)
        refused = run(*command, folder=tmp_path)

    assert done.returncode == 0
    assert refused.returncode == 1
    assert "error: 401: no API key was given" in refused.stderr


def test_check_shows_names_and_no_keys(triton: FakeTriton, tmp_path: Path) -> None:
    (tmp_path / "more").write_text("bob battery-staple\n", encoding="utf-8")

    done = run(
        *("check", "--triton", triton.address),
        folder=tmp_path,
        SPEECH_API_KEYS=f"alice:{KEY}",
        SPEECH_API_KEYS_FILE="more",
        SPEECH_CLIENT_API_KEY=KEY,
    )

    assert done.returncode == 0
    assert "SPEECH_API_KEYS=alice\n" in done.stdout
    assert "SPEECH_API_KEYS_FILE=more\n" in done.stdout
    assert KEY not in done.stdout + done.stderr
    assert "battery" not in done.stdout + done.stderr


def test_a_wrong_key_ends_it_without_being_shown(tmp_path: Path) -> None:
    done = run("serve", folder=tmp_path, SPEECH_API_KEYS=f"alice:{KEY},bob:short")

    assert done.returncode == 1
    assert "error: SPEECH_API_KEYS = (not shown): " in done.stderr
    assert "entry 2" in done.stderr
    assert KEY not in done.stderr
    assert "short" not in done.stderr


def test_say_without_a_service_is_a_clear_error(nowhere: str, tmp_path: Path) -> None:
    done = run("say", "Hello.", "--url", f"http://{nowhere}", folder=tmp_path)

    assert done.returncode == 1
    assert "error: " in done.stderr
    assert nowhere in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_say_shows_what_the_service_refused(service: RunningService, tmp_path: Path) -> None:
    done = run("say", "Hello.", "--voice", "nobody", "--url", service.base_url, folder=tmp_path)

    assert done.returncode == 1
    assert "400: voice 'nobody' is not known" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("file", ["x.xyz", "x"])
def test_say_into_an_unknown_format_is_a_clear_error(
    service: RunningService, tmp_path: Path, file: str
) -> None:
    done = run("say", "Hello.", "-o", file, "--url", service.base_url, folder=tmp_path)

    assert done.returncode == 1
    assert (
        f"cannot write '{file}': the extension must be .wav, .flac, .ogg, .opus, .mp3"
        in done.stderr
    )
    assert not list(tmp_path.iterdir())


def test_say_keeps_what_came_before_a_break_and_fails(
    triton: FakeTriton, service: RunningService, tmp_path: Path
) -> None:
    triton.script = Script([tone(), Fail("boom")])

    done = run("say", "Hello.", "--url", service.base_url, folder=tmp_path)

    samples, _ = soundfile.read(tmp_path / "speech.wav")
    assert done.returncode == 1
    assert "speech.wav holds what came before" in done.stderr
    assert len(samples) == 2400


def test_check_speaks_and_says_so(triton: FakeTriton, tmp_path: Path) -> None:
    done = run("check", "--triton", triton.address, folder=tmp_path)

    assert done.returncode == 0
    assert "model hibari: speaks (0.30 s" in done.stdout
    assert "voices: heart, fable" in done.stdout
    assert f"SPEECH_TRITON_ADDRESS={triton.address}" in done.stdout


def test_check_without_triton_says_why(nowhere: str, tmp_path: Path) -> None:
    done = run("check", "--triton", nowhere, folder=tmp_path)

    assert done.returncode == 1
    assert "model hibari: NOT READY: Triton cannot be reached" in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("script", "settings", "words"),
    [
        pytest.param(Script([tone(), Fail("boom")]), {}, "boom", id="failed"),
        pytest.param(
            Script([Hang()]), {"SPEECH_FIRST_AUDIO_TIMEOUT_SECONDS": "0.2"}, "silent", id="silent"
        ),
        pytest.param(Script([]), {}, "DOES NOT SPEAK", id="no audio"),
    ],
)
def test_check_of_a_model_that_does_not_speak_says_why(
    triton: FakeTriton, tmp_path: Path, script: Script, settings: dict[str, str], words: str
) -> None:
    triton.script = script

    done = run("check", "--triton", triton.address, folder=tmp_path, **settings)

    assert done.returncode == 1
    assert "model hibari: DOES NOT SPEAK" in done.stdout
    assert words in done.stdout


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--port", "0"], "SPEECH_PORT: port 0 is not possible"),
        (["--port", "8001"], "these must differ"),
        (["--port", "8002"], "these must differ"),
        (["--triton", "127.0.0.1:65535"], "port 65536 is not possible"),
    ],
    ids=["no-port", "tritons", "tritons-metrics", "no-room-for-metrics"],
)
def test_up_refuses_impossible_ports(tmp_path: Path, options: list[str], words: str) -> None:
    done = run("up", *options, folder=tmp_path)

    assert done.returncode == 1
    assert words in done.stderr


def test_say_refuses_text_that_is_no_text(service: RunningService, tmp_path: Path) -> None:
    """A terminal that is not UTF-8 hands over bytes that no one can read."""
    done = run("say", "caf\udce9", "--url", service.base_url, folder=tmp_path)

    assert done.returncode == 1
    assert "error: the text is not in the terminal's encoding" in done.stderr


def test_say_that_is_refused_leaves_an_older_file_alone(
    service: RunningService, tmp_path: Path
) -> None:
    (tmp_path / "speech.wav").write_bytes(b"older")

    done = run("say", "Hi.", "--voice", "nobody", "--url", service.base_url, folder=tmp_path)

    assert done.returncode == 1
    assert "holds what came before" not in done.stderr
    assert (tmp_path / "speech.wav").read_bytes() == b"older"


@pytest.mark.parametrize(("keys", "is_named"), [("", False), (KEY, True)])
def test_the_line_to_try_has_a_place_for_the_key_where_one_is_needed(
    keys: str, *, is_named: bool
) -> None:
    line = local._ready_line(Settings(_env_file=None, api_keys=keys))

    assert ("-H 'authorization: Bearer YOUR_KEY'" in line) is is_named
    assert KEY not in line


def test_without_the_cpu_voice_the_line_shows_where_the_voices_are() -> None:
    line = local._ready_line(Settings(_env_file=None, models="spark_tts"))

    assert line.endswith("; voices: http://127.0.0.1:8080/v1/audio/voices")
