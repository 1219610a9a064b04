"""`speech-gateway stats`, as a user runs it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from fakes.statistics import model_statistics
from gateway.backend.statistics import STAGES, Duration, ModelStatistics, ReplicaStatistics
from gateway.stats_table import since

if TYPE_CHECKING:
    from pathlib import Path

    from fakes.triton import FakeTriton

STATS = (sys.executable, "-I", "-m", "gateway", "stats")
SPEAKS = "import sys; print('spoken'); sys.exit(7)"
MODEL = ModelStatistics(
    name="hibari",
    version="1",
    last_inference_seconds=None,
    inferences=10,
    executions=5,
    stages={stage: Duration(10, 2.0) for stage in STAGES},
)


def stats(triton: FakeTriton, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*STATS, "--triton", triton.address, *arguments],
        cwd=folder,
        env=os.environ | {"SPEECH_CONNECT_TIMEOUT_SECONDS": "1"},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def row(text: str, model: str) -> list[str]:
    """Return the cells of the model's line."""
    [line] = [line for line in text.splitlines() if line.split()[:1] == [model]]
    return line.split()


def test_a_table_shows_means_and_counts(triton: FakeTriton, tmp_path: Path) -> None:
    triton.statistics.models = [
        model_statistics("hibari", requests=12, failed=2, executions=6, stage_ms=1.5)
    ]
    triton.statistics.unready = {"vocoder": "unloaded"}

    done = stats(triton, folder=tmp_path)

    assert done.returncode == 0
    assert f"Triton {triton.address}: ready, version 2.51.0" in done.stdout
    assert row(done.stdout, "hibari") == [
        *("hibari", "1", "yes", "12", "2", "1.50", "4.50", "2.00", "6", "never"),
    ]
    assert row(done.stdout, "vocoder")[:4] == ["vocoder", "1", "NO", "-"]
    assert "not ready: vocoder: unloaded" in done.stdout
    assert "decoupled" in done.stdout


def test_a_server_that_is_not_ready_or_hides_its_version_says_so(
    triton: FakeTriton, tmp_path: Path
) -> None:
    triton.statistics.is_ready = False
    triton.statistics.refused = frozenset({"ServerMetadata"})

    assert "NOT READY, version unknown" in stats(triton, folder=tmp_path).stdout


def test_json_has_every_figure(triton: FakeTriton, tmp_path: Path) -> None:
    triton.statistics.models = [model_statistics("hibari", requests=2, stage_ms=500)]

    done = stats(triton, "--json", folder=tmp_path)

    [replica] = json.loads(done.stdout)["replicas"]
    [model] = replica["models"]
    assert (replica["replica"], replica["version"]) == (triton.address, "2.51.0")
    assert model["stages"]["queue"] == {"count": 2, "seconds": 1.0}
    assert replica["states"][0]["is_ready"] is True


@pytest.mark.parametrize("options", [(), ("--json",), ("--", sys.executable, "-c", SPEAKS)])
def test_without_triton_the_error_says_where_to_look(
    triton: FakeTriton, tmp_path: Path, options: tuple[str, ...]
) -> None:
    triton.stop()

    done = stats(triton, *options, folder=tmp_path)

    assert done.returncode == 1
    assert f"error: Triton at {triton.address}: Triton cannot be reached" in done.stderr
    assert "SPEECH_TRITON_ADDRESS" in done.stderr
    assert "spoken" not in done.stdout
    assert "Traceback" not in done.stderr


def test_a_command_is_run_and_only_what_it_did_is_shown(
    triton: FakeTriton, service: Any, tmp_path: Path
) -> None:
    triton.statistics.models = [model_statistics("hibari", requests=5)]
    triton.script = replace(triton.script, by_text=_counting(triton))
    say = ("say", "Hello.", "--url", service.base_url)

    done = stats(triton, "--", *STATS[:-1], *say, folder=tmp_path)

    assert done.returncode == 0
    assert "while the command ran" in done.stdout
    assert row(done.stdout, "hibari")[3] == "3"


def _counting(triton: FakeTriton) -> Any:
    """Return a script that makes Triton count 3 requests more."""

    def steps(_: Any) -> Any:
        triton.statistics.models = [model_statistics("hibari", requests=8)]
        return triton.script.steps

    return steps


def test_the_exit_code_is_the_commands(triton: FakeTriton, tmp_path: Path) -> None:
    done = stats(triton, "--", sys.executable, "-c", SPEAKS, folder=tmp_path)

    assert done.returncode == 7
    assert done.stdout.startswith("spoken\n")


def test_as_json_the_commands_words_do_not_mix_with_ours(
    triton: FakeTriton, tmp_path: Path
) -> None:
    done = stats(triton, "--json", "--", sys.executable, "-c", SPEAKS, folder=tmp_path)

    shown = json.loads(done.stdout)
    assert shown["command"] == [sys.executable, "-c", SPEAKS]
    assert (shown["exit_code"], shown["notes"]) == (7, [])
    assert shown["seconds"] > 0
    assert "spoken" in done.stderr


def test_a_command_that_a_signal_ends_has_the_shells_code(
    triton: FakeTriton, tmp_path: Path
) -> None:
    kills = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"

    assert stats(triton, "--", sys.executable, "-c", kills, folder=tmp_path).returncode == 143


def test_a_command_that_is_not_there_is_named(triton: FakeTriton, tmp_path: Path) -> None:
    done = stats(triton, "--", "no-such-command", folder=tmp_path)

    assert done.returncode == 127
    assert "error: cannot run 'no-such-command'" in done.stderr


def test_a_triton_that_is_gone_after_the_command_is_an_error(
    triton: FakeTriton, service: Any, tmp_path: Path
) -> None:
    triton.script = replace(triton.script, by_text=_refusing(triton))
    say = ("say", "Hello.", "--url", service.base_url)

    done = stats(triton, "--", *STATS[:-1], *say, folder=tmp_path)

    assert done.returncode == 1
    assert "0.3 s of speech" in done.stderr
    assert f"error: Triton at {triton.address}: Triton refuses the gateway" in done.stderr


def _refusing(triton: FakeTriton) -> Any:
    """Return a script that makes Triton keep its statistics to itself."""

    def steps(_: Any) -> Any:
        triton.statistics.refused = frozenset({"ModelStatistics"})
        return triton.script.steps

    return steps


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_watching_goes_on_until_ctrl_c(triton: FakeTriton, options: tuple[str, ...]) -> None:
    command = [*STATS, "--triton", triton.address, "--watch", "0.05", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout
        assert running.stderr
        seen = 0
        while seen < 2:
            line = running.stdout.readline()
            assert line
            seen += triton.address.encode() in line
        running.send_signal(signal.SIGINT)
        running.stdout.read()
        assert running.stderr.read() == b""

    assert running.returncode == 0


@pytest.mark.parametrize(
    "options", [["--watch", "0"], ["--watch", "x"], ["--watch", "1", "--", "x"]]
)
def test_what_makes_no_sense_is_refused(
    triton: FakeTriton, tmp_path: Path, options: list[str]
) -> None:
    done = stats(triton, *options, folder=tmp_path)

    assert done.returncode == 2
    assert "--watch" in done.stderr


def statistics(*models: ModelStatistics) -> ReplicaStatistics:
    return ReplicaStatistics(is_ready=True, version="2.51.0", models=models, states=())


def test_the_difference_is_what_was_added() -> None:
    later = replace(
        MODEL,
        inferences=14,
        executions=7,
        stages={stage: Duration(13, 2.5) for stage in STAGES},
    )

    meanwhile, notes = since(statistics(MODEL), statistics(later))

    [model] = meanwhile.models
    assert (model.inferences, model.executions) == (4, 2)
    assert model.stages["queue"] == Duration(3, 0.5)
    assert notes == []


def test_a_model_that_was_loaded_anew_has_its_own_figures_and_a_note() -> None:
    younger = replace(MODEL, inferences=2)

    meanwhile, notes = since(statistics(MODEL), statistics(younger))

    assert meanwhile.models == (younger,)
    assert notes == ["hibari was loaded anew; its figures are those since then"]


def test_a_model_whose_counts_have_outrun_those_before_was_loaded_anew_all_the_same() -> None:
    stages = {stage: Duration(30, 1.5) for stage in STAGES}
    younger = replace(MODEL, inferences=30, executions=30, stages=stages)

    meanwhile, notes = since(statistics(MODEL), statistics(younger))

    assert meanwhile.models == (younger,)
    assert len(notes) == 1


def test_a_command_stands_after_two_dashes(triton: FakeTriton, tmp_path: Path) -> None:
    done = stats(triton, sys.executable, folder=tmp_path)
    of_both = stats(triton, sys.executable, "--", "-V", folder=tmp_path)

    for refused in (done, of_both):
        assert refused.returncode == 2
        assert "stats -- COMMAND" in refused.stderr
        assert "Python 3" not in refused.stdout


@pytest.mark.parametrize("options", [(), ("--watch", "0.05", "--json")])
def test_a_reader_who_leaves_is_no_error(triton: FakeTriton, options: tuple[str, ...]) -> None:
    command = [*STATS, "--triton", triton.address, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout
        assert running.stderr
        running.stdout.close()
        assert running.stderr.read() == b""

    assert running.returncode == 128 + signal.SIGPIPE


def test_models_that_come_and_go_are_told() -> None:
    other = replace(MODEL, name="llm")

    meanwhile, notes = since(statistics(MODEL), statistics(other))

    assert meanwhile.models == (other,)
    assert notes == ["hibari (version 1) is no longer there"]
