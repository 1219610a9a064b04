"""`speech-gateway bench` as a user runs it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from fakes.service import RunningService
from fakes.triton import FakeTriton, Hang, Script, tones
from gateway.__main__ import main

if TYPE_CHECKING:
    from pathlib import Path


def bench(*arguments: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", "-m", "gateway", "bench", *arguments],
        cwd=folder,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_run_leaves_all_its_files(triton: FakeTriton, tmp_path: Path) -> None:
    triton.script = Script(tones(5))
    with RunningService(triton, api_keys="correct-horse") as service:
        done = bench(
            *(service.base_url, "--concurrency", "1,2", "--requests", "6", "--save-audio"),
            *("--api-key=correct-horse", "--field", "seed=7", "-o", "run"),
            folder=tmp_path,
        )

    assert done.returncode == 0, done.stderr
    assert "c2" in done.stdout
    run = tmp_path / "run"
    names = {path.name for path in run.iterdir()}
    assert names == {"audio", "report.html", "requests.csv", "requests.jsonl", "summary.json"}
    assert len(list((run / "audio").iterdir())) == 12
    summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    assert [level["ok"] for level in summary["levels"]] == [6, 6]
    assert (summary["model"], summary["voice"]) == ("hibari", "heart")
    # Who reads a report need not learn the key.
    assert not any("correct-horse" in p.read_text("utf-8") for p in run.iterdir() if p.is_file())
    assert {request.seed for request in triton.seen.requests} == {7}


def test_a_triton_is_measured_directly(triton: FakeTriton, tmp_path: Path) -> None:
    done = bench(
        *(f"grpc://{triton.address}", "--model", "hibari", "--rate", "50", "--requests", "20"),
        *("-o", "run"),
        folder=tmp_path,
    )

    assert done.returncode == 0, done.stderr
    [level] = json.loads((tmp_path / "run" / "summary.json").read_text("utf-8"))["levels"]
    assert (level["name"], level["ok"], level["audio_seconds"]) == ("r50", 20, pytest.approx(6.0))


def test_a_run_that_is_broken_off_keeps_its_complete_levels(
    triton: FakeTriton, tmp_path: Path
) -> None:
    complete = 1 + 3  # The warm-up and the requests of the first level.
    triton.script = Script(
        by_text=lambda _: tones() if triton.seen.started.count <= complete else [Hang()]
    )
    load = ["--concurrency", "1,2", "--requests", "3", "-o", "run"]
    command = [sys.executable, "-I", "-m", "gateway", "bench", f"grpc://{triton.address}"]
    with subprocess.Popen(
        [*command, "--model", "hibari", *load], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    ) as process:
        assert triton.seen.started.wait(complete + 2, timeout=120)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)

    assert process.returncode == 1
    assert "broken off" in errors
    assert "Traceback" not in errors
    summary = json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))
    assert summary["interrupted"]
    assert [level["name"] for level in summary["levels"]] == ["c1"]
    assert "broken off" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["http://127.0.0.1:9", "--model", "m", "--voice", "v"], "failed; the last: no connection"),
        (["http://127.0.0.1:9"], "http://127.0.0.1:9 cannot be reached: "),
        (["grpc://127.0.0.1:9"], "needs --model"),
        (["grpc://127.0.0.1:9", "--model", "m"], "Triton cannot be reached"),
        (["--format", "midi"], "--format midi is not possible; pcm, wav, mp3"),
        (["--field", "seed=x"], "--field seed=x: NAME=JSON"),
        (["--cancel-rate", "0.7", "--slow-rate", "0.7"], "more than all together"),
        (["--text-file", "none.txt"], "none.txt cannot be read"),
        (["compare", "a"], "compare takes the folders of two runs; 1 are given"),
        (["compare", "a", "b"], "a/summary.json: No such file"),
        (["http://a", "http://b"], "one TARGET at a time"),
        (["foo"], "TARGET: 'foo' is no base URL: must be like http://127.0.0.1:8080"),
        (["grpc://foo", "--model", "m"], "TARGET 'grpc://foo': must be host:port"),
        (["--calibrate", "--rate", "5"], "--rate has no effect: --calibrate measures this tool"),
        (["--calibrate", "http://a"], "TARGET has no effect: --calibrate measures this tool"),
        (["compare", "a", "b", "-o", "c"], "--output has no effect: compare reads what two runs"),
        (["--cancel-within", "1"], "nobody hangs up; add --cancel-rate, or leave it out"),
        (["--cancel-within", "2"], "--cancel-within has no effect: nobody hangs up"),
        (["--calibrate", "--format", "pcm"], "--format has no effect: --calibrate measures this"),
        (["--slow-bytes", "1"], "nobody reads slowly; add --slow-rate, or leave it out"),
        (["grpc://a:1", "--field", "seed=1"], "--field has no effect: a grpc:// target has no bo"),
        (["grpc://a:1", "--api-key", "x" * 8], "--api-key has no effect: a grpc:// target asks f"),
        (["--field", "=1"], "--field =1: NAME=JSON is right, such as seed=1"),
        (["--field", "model=1"], "--field model: --model says that already"),
        (["--field", "seed=1", "--field", "seed=2"], "--field seed: another --field says that al"),
    ],
)
def test_what_cannot_be_done_is_said(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)

    code = main(["bench", *arguments])

    assert code == 1
    assert words in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("names", "asked"),
    [([], "/v1/models"), (["--model", "hibari"], "/v1/audio/voices")],
)
def test_a_server_that_never_answers_is_not_waited_for_without_end(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    names: list[str],
    asked: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"

        code = main(["bench", url, "--timeout", "0.1", *names])

    assert code == 1
    words = f"error: {url}{asked} has not answered within 0.1 s (--timeout): check that a speech "
    assert words in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", ["afile", "afile/run", "/proc/run"])
def test_a_folder_that_cannot_be_is_said_before_anything_is_sent(
    triton: FakeTriton, tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    (tmp_path / "afile").write_text("mine", encoding="utf-8")

    code = main(["bench", f"grpc://{triton.address}", "--model", "m", "-o", str(tmp_path / place)])

    assert code == 1
    said = capsys.readouterr().err
    assert "cannot write into" in said
    assert "name another folder with --output" in said
    assert triton.seen.started.count == 0
    assert [path.name for path in tmp_path.iterdir()] == ["afile"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--concurrency", "1,0"], "'0' is given; whole numbers from 1 up are possible"),
        (["--concurrency", "x"], "'x' is given; whole numbers from 1 up are possible"),
        (["--rate", "inf"], "'inf' is given; numbers above 0 are possible"),
        (["--rate", "x"], "'x' is given; numbers above 0 are possible"),
        (["--cancel-rate", "2"], "'2' is given; 0 to 1 is possible"),
        (["--cancel-rate", "x"], "'x' is given; 0 to 1 is possible"),
        (["--audible", "nan"], "'nan' is given; levels up to 0 dBFS are possible"),
        (["--seed", "x"], "'x' is given; whole numbers from 0 up are possible"),
        (["--texts", "en", "--text-file", "a"], "not allowed with"),
        (["--bogus"], "usage: speech-gateway bench"),
        (["--warm-up", "-1"], "'-1' is given; whole numbers from 0 up are possible"),
        (["--triton", "bogus"], "'bogus' must be host:port"),
        (["--rate", "2", "--concurrency", "2"], "not allowed with"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    with pytest.raises(SystemExit):
        main(["bench", *arguments])

    assert words in capsys.readouterr().err
