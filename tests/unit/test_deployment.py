"""What is deployed on Modal: the settings, what they make of containers, and what Modal is told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine import modal_app, modal_server, modal_tunnel
from engine.__main__ import main
from engine.commands.specs import read_workplace, spec_options
from engine.deployment import CERTIFICATES, SECRET, Deployment, access_options
from engine.errors import EngineError
from engine.tunnelled import MAX_AGE_SECONDS, STOP_SECONDS
from gateway import modal_app as modal_gateway
from gateway.settings import Settings

ROOT = Path(__file__).parents[2]
DAY_SECONDS = 24 * 3600
VARIABLES = {"SPEECH_MODAL_REVISION": "abc", "SPEECH_MODAL_CAPACITY": "4"}


def test_a_container_reads_what_was_deployed() -> None:
    deployed = Deployment.read({**VARIABLES, "PATH": "/bin", "SPEECH_MODAL_FALLBACK_GPUS": "L40S"})

    assert (deployed.revision, deployed.capacity, deployed.gpus) == ("abc", 4, ["L4", "L40S"])
    assert Deployment.read(deployed.variables()) == deployed


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("CAPCITY", "4", "SPEECH_MODAL_CAPCITY is no setting; there are: SPEECH_MODAL_MODEL"),
        ("CAPACITY", "four", "SPEECH_MODAL_CAPACITY is 'four', and must be a whole number"),
        ("TUNNEL", "plain", "SPEECH_MODAL_TUNNEL is 'plain'; there are: h2, raw"),
        ("MODEL", "llm", "SPEECH_MODAL_MODEL is 'llm'; there are: spark_tts, hibari"),
        ("MIN_CONTAINERS", "5", "5 to 4 Tritons"),
        ("CAPACITY", "0", "SPEECH_MODAL_CAPACITY is 0; 1 to 32768 are possible"),
        ("STARTUP_SECONDS", "0", "SPEECH_MODAL_STARTUP_SECONDS is 0; 1 to 43200 are possible"),
        ("SCALEDOWN_SECONDS", "1", "SPEECH_MODAL_SCALEDOWN_SECONDS is 1; 2 to 3600 are possible"),
        ("MAX_CONTAINERS", "0", "SPEECH_MODAL_MAX_CONTAINERS is 0; 1 to 10000 are possible"),
        ("GATEWAY", "foo", "SPEECH_MODAL_GATEWAY is 'foo', and must be a URL like https://"),
        ("REGION", "nowhere", "SPEECH_MODAL_REGION is 'nowhere', and must be one of Modal's reg"),
        ("REGISTRY", "a b", "SPEECH_MODAL_REGISTRY is 'a b', and must be a name of 1 to 55"),
        ("SECRET", "", "SPEECH_MODAL_SECRET is '', and must be a name"),
        ("REVISION", "", "SPEECH_MODAL_REVISION is '', and must be a commit, branch or tag"),
        ("PYTHON", "python", "SPEECH_MODAL_PYTHON is 'python', and must be the whole path"),
        ("QUANTIZATION", "fp8", "SPEECH_MODAL_QUANTIZATION is 'fp8'; there are: none, int8, int4"),
        ("COOL_DOWN_SECONDS", "9", "SPEECH_MODAL_COOL_DOWN_SECONDS has no effect: without SPEECH"),
        ("FALLBACK_GPUS", "A10", "does not run on 'A10'"),
        ("GPU", "B9", "B9"),
    ],
)
def test_a_wrong_setting_is_named(name: str, text: str, words: str) -> None:
    with pytest.raises(EngineError) as caught:
        Deployment.read({f"SPEECH_MODAL_{name}": text})

    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [("GPU", "H100"), ("FALLBACK_GPUS", "L40S"), ("QUANTIZATION", "int8"), ("REVISION", "abc")],
)
def test_what_a_model_without_weights_does_not_use_is_refused(name: str, text: str) -> None:
    given = {"SPEECH_MODAL_MODEL": "hibari", f"SPEECH_MODAL_{name}": text}

    with pytest.raises(EngineError, match=f"_{name} has no effect: SPEECH_MODAL_MODEL is hibari"):
        Deployment.read(given)


def test_a_wrong_setting_is_one_sentence_where_modal_reads_the_file() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-m", "modal", "deploy", "-m", "engine.modal_app"],
        env={"PATH": os.environ["PATH"], "SPEECH_MODAL_REGION": "nowhere"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    said = done.stdout + done.stderr
    assert done.returncode == 1
    assert said.startswith("error: SPEECH_MODAL_REGION is 'nowhere', and must be one of Modal's")
    assert said.count("\n") == 1


def test_what_is_served_is_what_the_steps_have_made() -> None:
    """The steps are commands of the engine, whose own folders must be those that serving names."""
    deployed = Deployment.read(VARIABLES)
    program, *build = deployed.step("build")
    options = spec_options().parse_args(build[4:])
    place = read_workplace(options)

    served = deployed.serve([])
    assert build[:4] == ["-I", "-m", "engine", "build"]
    assert place.spec == deployed.spec
    assert served[served.index("--model-dir") + 1] == str(place.weights)
    assert served[served.index("--engine-dir") + 1] == str(place.engine)
    assert program == served[0]
    assert deployed.step("download")[4:] == ["download", "--work", "/work", "--revision", "abc"]


def test_the_commands_are_understood(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is unknown to the engine's own command line but what no command knows."""
    secrets = {SECRET: "x", **dict.fromkeys(CERTIFICATES.values(), "PEM")}
    access = access_options("raw", secrets, tmp_path)
    deployed = Deployment()
    commands = [deployed.step(name) for name in ("download", "convert", "build")]
    commands += [deployed.render("repository"), deployed.serve(access)]

    for command in commands:
        with pytest.raises(SystemExit):
            main([*command[4:], "--nothing"])
        assert capsys.readouterr().err.endswith("unrecognized arguments: --nothing\n")


def test_secrets_lie_in_files_for_this_user_alone(tmp_path: Path) -> None:
    options = access_options("h2", {SECRET: "correct-horse-battery"}, tmp_path)

    file = Path(options[1])
    assert options == ["--secret-file", str(file)]
    assert file.read_text("utf-8") == "correct-horse-battery"
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("tunnel", "secrets", "words"),
    [
        ("h2", {}, "'h2' needs SPEECH_TRITON_SECRET"),
        ("raw", {SECRET: "x" * 16}, "'raw' needs SPEECH_TRITON_CERTIFICATE, SPEECH_TRITON_KEY"),
    ],
)
def test_no_tunnel_is_open_to_all(
    tmp_path: Path, tunnel: str, secrets: dict[str, str], words: str
) -> None:
    with pytest.raises(EngineError, match=words):
        access_options(tunnel, secrets, tmp_path)


def test_the_steps_have_their_volumes_and_the_build_its_gpu() -> None:
    volumes = {"/work/weights": "speech-weights", "/work/engine": "speech-engines"}
    for step in (modal_app.download, modal_app.build, modal_app.render):
        assert {path: v.name for path, v in step.info().volumes.items()} == volumes

    assert modal_app.build.info().gpus == [("L4", 1)]
    assert modal_app.build.info().timeout == 4 * 3600
    assert modal_app.download.info().gpus == []


def test_the_server_speaks_http_2_and_is_opened_by_tokens() -> None:
    info = modal_server.Server.info()

    assert (info.port, info.h2_enabled, info.unauthenticated) == (8001, True, False)
    assert info.startup_timeout > Deployment().startup_seconds
    assert info.gpus == [("L4", 1)]
    # Whoever does not stop is killed after these, which has to be seen, and the last lines read.
    assert info.exit_grace_period >= STOP_SECONDS + 2
    assert "speech-triton" in info.secrets[0]


def test_the_gateway_is_one_process_that_answers_many() -> None:
    info = modal_gateway.speech.info()

    assert info.concurrency_info is not None
    assert info.concurrency_info.max_inputs == 1000
    assert info.timeout > Settings(_env_file=None).request_timeout_seconds
    assert (info.gpus, list(info.volumes)) == ([], ["/cache"])


def test_an_input_is_held_no_longer_than_it_may() -> None:
    assert MAX_AGE_SECONDS < modal_tunnel.INPUT_SECONDS < DAY_SECONDS


def test_the_tunnel_is_of_the_kind_that_is_deployed() -> None:
    """Which is read when the file is, so by another process; and nothing asks for a token."""
    code = (
        "import engine.modal_tunnel as m\n"
        "from types import SimpleNamespace as N\n"
        "m.modal.forward = lambda port, **options: print(port, options)\n"
        "m.forward(8001); print(m.address(N(tcp_socket=('raw', 1), tls_socket=('tls', 443))))\n"
        "print(hasattr(m, 'scale') and m.scale.info().schedule)\n"
        "print(m.serving['gpu'], m.serving['max_containers'], m.SCALER_SECONDS)"
    )

    def said(**variables: str) -> list[str]:
        env = {"PATH": os.environ["PATH"], **variables}
        command = [sys.executable, "-I", "-c", code]
        return subprocess.check_output(command, env=env, text=True, cwd=ROOT).splitlines()

    assert said() == ["8001 {'h2_enabled': True}", "('tls', 443)", "False", "['L4'] 4 600"]
    others = {"SPEECH_MODAL_TUNNEL": "raw", "SPEECH_MODAL_MODEL": "hibari"}
    others["SPEECH_MODAL_COOL_DOWN_SECONDS"] = "900"
    found = said(**others, SPEECH_MODAL_GATEWAY="https://x", SPEECH_MODAL_MAX_CONTAINERS="2")
    assert found[:2] == ["8001 {'unencrypted': True}", "('raw', 1)"]
    assert found[2] not in ("False", "None")
    assert found[3] == "None 2 1800"
