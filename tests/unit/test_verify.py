"""`engine verify` against a fake Triton: each thing that can be wrong is found, and named."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from engine import certs
from engine.__main__ import main
from engine.checks import SENTENCE, Heard, check_stream
from engine.errors import EngineError
from engine.verify import Verdict, Verifier
from fakes.counting import CountingTriton
from fakes.door import server_credentials
from fakes.script import Fail, Hang, Misplaced, Script, tone, tones
from fakes.triton import FakeTriton
from speech_wire import LoopbackAccess, PcmChunk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GOOD = Script(tones(30))  # 3 s of sound, as 44 characters take.


@pytest.fixture
def triton() -> Iterator[CountingTriton]:
    with CountingTriton(GOOD) as fake:
        yield fake


def verify(triton: CountingTriton, model: str = "hibari") -> Verdict:
    ticks = iter(range(1000))
    verifier = Verifier(triton.address, LoopbackAccess(), clock=lambda: float(next(ticks)))
    return verifier.verify(model)


def wrong(verdict: Verdict) -> dict[str, str]:
    return {check.name: check.found for check in verdict.checks if not check.passed}


def test_what_is_right_passes_and_is_measured(triton: CountingTriton) -> None:
    verdict = verify(triton)

    assert wrong(verdict) == {}
    assert verdict.passed
    assert (verdict.triton, verdict.model) == ("2.51.0", "hibari")
    assert [check.name for check in verdict.checks] == [
        *("ready", "contract", "stream", "length", "loudness", "statistics"),
    ]
    assert [request.target_text for request in triton.seen.requests] == [SENTENCE]
    # The clock ticks once at the start and once for each of the 30 chunks.
    assert verdict.figures == {
        "first_audio_seconds": 1.0,
        "total_seconds": 30.0,
        "audio_seconds": 3.0,
        "real_time_factor": 10.0,
        "loudness_dbfs": pytest.approx(-9.0, abs=4),
        "requests_hibari": 1,
    }


@pytest.mark.parametrize(
    ("script", "check", "words"),
    [
        (Script(tones(30), is_ready=False), "ready", "server ready, model not ready"),
        (Script(tones(3)), "length", "0.30 s of sound, 1.0 to 8.7 s are usual"),
        (Script(tones(100)), "length", "10.00 s of sound"),
        (Script([np.zeros(72_000, np.float32)]), "loudness", "-120.0 dBFS, -50 to -3 are"),
        (Script([np.ones(72_000, np.float32)]), "loudness", "0.0 dBFS"),
        (Script([np.full(72_000, np.nan, np.float32)]), "loudness", "that are no numbers"),
        (Script([*tones(30), Fail("out of memory")]), "stream", "out of memory"),
        (Script([*tones(30), Misplaced(tone())]), "stream", "begins at 72001 instead of 72000"),
        (Script(tones(30), sends_final=False), "stream", "without Triton's final response"),
        (Script(tones(30), is_batched=True), "contract", "it has a batch dimension"),
    ],
    ids=[
        *("not ready", "too short", "too long", "silent", "full scale", "not a number"),
        *("failed", "gap", "no final", "upstream"),
    ],
)
def test_what_is_wrong_is_found(
    triton: CountingTriton, script: Script, check: str, words: str
) -> None:
    triton.script = script

    found = wrong(verify(triton))

    assert words in found[check]


def test_speech_that_was_cut_is_found() -> None:
    heard = Heard([PcmChunk(tone(), 24_000, 0, "length")], has_ended=True)

    assert check_stream(heard, "").found == "it was cut: length"


def test_tensors_that_differ_from_the_contract_are_named(triton: CountingTriton) -> None:
    triton.script = Script(tones(30), is_speech_model=False)
    found = wrong(verify(triton))

    assert found["contract"] == ("INPUT0 is unknown; target_text is missing; waveform is missing")


def test_a_failure_that_triton_counted_is_said_and_may_be_anothers(triton: CountingTriton) -> None:
    triton.servicer.fails = 1

    verdict = verify(triton)

    assert wrong(verdict) == {}
    assert verdict.checks[-1].found == "requests: hibari 1 and 1 failed"


def test_an_answer_that_is_a_refusal_is_no_silence(triton: CountingTriton) -> None:
    triton.servicer.unloaded = ("gone",)

    with pytest.raises(EngineError, match="refuses ModelConfig: NOT_FOUND"):
        Verifier(triton.address, LoopbackAccess()).verify("gone")


def test_a_model_that_is_not_there_is_told_with_those_that_are(triton: CountingTriton) -> None:
    with pytest.raises(EngineError, match="has no model 'nobody' loaded; it has hibari"):
        Verifier(triton.address, LoopbackAccess()).verify("nobody")


def test_where_nothing_is_heard_there_are_no_times(
    triton: CountingTriton, capsys: pytest.CaptureFixture[str]
) -> None:
    triton.script = Script([Hang()])

    assert main(["verify", triton.address, "--timeout", "0.2"]) == 1
    assert main(["verify", triton.address, "--timeout", "0.2", "--json"]) == 1

    text, line = capsys.readouterr().out.rsplit("\n", 2)[:2]
    assert "BAD stream: it did not end within --timeout 0.2 s (DEADLINE_EXCEEDED)" in text
    assert text.endswith("  no audio came, so there are no times")
    figures = json.loads(line)["figures"]
    assert {name for name in figures if not name.startswith("requests_")} == {
        *("audio_seconds", "loudness_dbfs"),
    }


@pytest.mark.parametrize("given", [["--tls-certificate", "a.pem"], ["--tls-key", "a.pem"]])
def test_half_of_a_pair_is_named(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """GRPC would abort the process."""
    assert main(["verify", "127.0.0.1:1", "--tls", *given]) == 1
    assert "error: --tls-certificate and --tls-key belong together\n" in capsys.readouterr().err


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pki")
    for name, days in (("ours", 0), ("theirs", 0), ("old", 366)):
        certs.make(folder / name, ["127.0.0.1"], datetime.now(timezone.utc) - timedelta(days=days))
    return folder


@pytest.mark.parametrize(
    ("root", "certificate", "key", "words"),
    [
        ("ours/ca-key", "ours/client", "ours/client-key", "--tls-root PKI/ours/ca-key.pem is no c"),
        ("ours/ca", "ours/client", "theirs/client-key", "client-key.pem is not the key of --tls-c"),
        ("ours/ca", "ours/server", "ours/server-key", "--tls-certificate PKI/ours/server.pem is n"),
        ("ours/ca", "old/client", "old/client-key", "PKI/old/client.pem has expired"),
        ("ours/ca", "absent", "absent", "--tls-certificate PKI/absent.pem cannot be read: No such"),
    ],
)
def test_wrong_files_of_tls_are_named_before_anything_is_asked(
    pki: Path, root: str, certificate: str, key: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {"root": root, "certificate": certificate, "key": key}
    given = [word for name in files for word in (f"--tls-{name}", f"{pki / files[name]}.pem")]

    assert main(["verify", "127.0.0.1:1", *given]) == 1
    assert words.replace("PKI", str(pki)) in capsys.readouterr().err


@pytest.mark.parametrize(
    ("server", "given", "words"),
    [
        ("ours", ["--tls-root", "theirs/ca.pem"], "; --tls-root names the authority that sig"),
        ("old", ["--tls-root", "old/ca.pem"], "certificate has expired"),
        ("ours", ["--tls-root", "ours/ca.pem", "--tls-name", "a.b"], "and --tls-name says which"),
        ("ours", ["--tls-root", "ours/ca.pem"], "authority that it knows (--tls-certificate)"),
        ("ours", [], "so does one that wants TLS (--tls-root)"),
    ],
    ids=["another authority", "expired", "another name", "mutual", "no TLS"],
)
def test_what_is_wrong_with_the_other_end_is_told(
    pki: Path, server: str, given: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [str(pki / word) if word.endswith(".pem") else word for word in given]

    with FakeTriton(credentials=server_credentials(pki / server, is_mutual=True)) as triton:
        assert main(["verify", triton.address, *given]) == 1

    assert words in capsys.readouterr().err


def test_a_sentence_that_triton_did_not_count_is_found(triton: CountingTriton) -> None:
    triton.servicer.counts = False

    assert wrong(verify(triton)) == {"statistics": "requests: none counted"}


def test_json_is_a_line_for_each_model(
    triton: CountingTriton, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["verify", triton.address, "--json"])

    (line,) = capsys.readouterr().out.splitlines()
    told: dict[str, Any] = json.loads(line)
    assert code == 0
    assert told["passed"] is True
    assert (told["model"], told["triton"], told["address"]) == ("hibari", "2.51.0", triton.address)
    assert {check["name"]: check["passed"] for check in told["checks"]}["loudness"] is True
    assert told["figures"]["audio_seconds"] == 3.0


def test_a_seed_goes_to_the_model(triton: CountingTriton) -> None:
    assert main(["verify", triton.address, "--seed", "5"]) == 0
    assert main(["verify", triton.address]) == 0

    assert [request.seed for request in triton.seen.requests] == [5, None]


def test_what_is_wrong_ends_with_1_and_is_said(
    triton: CountingTriton, capsys: pytest.CaptureFixture[str]
) -> None:
    triton.script = Script(tones(3))

    code = main(["verify", triton.address, "--model", "hibari"])

    out, err = capsys.readouterr()
    assert code == 1
    assert "  BAD length: 0.30 s of sound, 1.0 to 8.7 s are usual\n" in out
    assert "  ok  ready: server ready, model ready\n" in out
    assert err == "error: not as it should be: hibari\n"


def test_a_triton_that_is_not_there_is_named() -> None:
    with pytest.raises(EngineError, match=r"127\.0\.0\.1:1 does not answer: UNAVAILABLE"):
        Verifier("127.0.0.1:1", LoopbackAccess()).speech_models()


def test_a_triton_without_a_speech_model_says_what_it_has(triton: CountingTriton) -> None:
    triton.script = Script(is_speech_model=False)

    with pytest.raises(EngineError, match="no model that speaks; it has hibari"):
        Verifier(triton.address, LoopbackAccess()).speech_models()


def test_a_certificate_without_tls_is_refused(tmp_path: Path) -> None:
    assert main(["verify", "127.0.0.1:1", "--tls-certificate", str(tmp_path)]) == 1


def test_a_proxys_tokens_go_with_each_call(triton: CountingTriton, tmp_path: Path) -> None:
    file = tmp_path / "headers"
    file.write_text("modal-key=wk-1\nmodal-secret=ws-a=b\n", "utf-8")

    assert main(["verify", triton.address, "--headers-file", str(file)]) == 0

    tokens = {"modal-key": "wk-1", "modal-secret": "ws-a=b"}
    assert triton.seen.metadata
    assert all(tokens.items() <= given.items() for given in triton.seen.metadata)


@pytest.mark.parametrize("line", ["modal-key", "Modal-Key=wk-1"])
def test_a_line_that_is_no_header_is_named(
    line: str, triton: CountingTriton, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "headers"
    file.write_text(f"a=b\n{line}\n", "utf-8")

    assert main(["verify", triton.address, "--headers-file", str(file)]) == 1
    assert f"{file}, line 2: must be name=value" in capsys.readouterr().err


def test_a_secret_is_not_sent_in_clear_to_the_internet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "secret").write_text("correct-horse-battery", "utf-8")

    code = main(["verify", "192.88.99.1:8001", "--secret-file", str(tmp_path / "secret")])

    error = capsys.readouterr().err
    assert code == 1
    assert "others can read what goes to 192.88.99.1 without TLS" in error
    assert "correct-horse" not in error
