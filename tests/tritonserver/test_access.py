"""A Triton that asks for certificates and a secret: its models still reach each other."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tritonclient.grpc import service_pb2

from engine.__main__ import main
from engine.control import TritonControl, open_stub
from engine.errors import EngineError
from engine.render import model_source, render_model
from engine.site import Site
from engine.spark import spark_specs
from speech_wire import LoopbackAccess
from tritonserver.processes import Process, free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator

TESTS = Path(__file__).parents[1]
SOURCES = {
    "llm": TESTS / "spark" / "llm" / "model.py",
    "vocoder": TESTS / "tritonserver" / "stages" / "model.py",
    "audio_tokenizer": TESTS / "tritonserver" / "stages" / "model.py",
}
SECRET = "a-secret-of-this-test-run"  # noqa: S105  a test's
SECRET_HEADER = {"triton-grpc-protocol-speech": SECRET}


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give an authority, a server's certificate for `triton.test`, and a client's."""
    folder = tmp_path_factory.mktemp("pki")

    def openssl(*words: str) -> None:
        command = [shutil.which("openssl") or "openssl", *words]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    signed = ("-CA", "root.pem", "-CAkey", "root.key", "-addext", "basicConstraints=CA:FALSE")
    for name, more in (("root", ()), ("alone", ()), ("server", signed), ("client", signed)):
        subject = ("-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:triton.test")
        openssl(
            "req", "-x509", *key, *subject, *more, "-keyout", f"{name}.key", "-out", f"{name}.pem"
        )
    (folder / "secret").write_text(SECRET, encoding="utf-8")
    return folder


@dataclass(frozen=True)
class Case:
    """What the engine is told, and what a client of it needs: file names of the pki."""

    options: dict[str, str]
    root: str
    pair: str | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def client(self, pki: Path, **changed: Any) -> LoopbackAccess:
        pem, key = (f"{pki / self.pair}.{end}" if self.pair else None for end in ("pem", "key"))
        access = LoopbackAccess(str(pki / self.root), pem, key, "triton.test", self.headers)
        return replace(access, **changed)


CASES = {
    "its own authority": Case({"certificate": "alone.pem", "key": "alone.key"}, "alone.pem"),
    "mutual, with a secret": Case(
        {
            "certificate": "server.pem",
            "key": "server.key",
            "root": "root.pem",
            "client-root": "root.pem",
            "own-certificate": "client.pem",
            "own-key": "client.key",
        },
        "root.pem",
        "client",
        SECRET_HEADER,
    ),
}


@dataclass(frozen=True)
class Secured:
    """A running engine, its address, and the case that it serves."""

    process: Process
    address: str
    case: Case

    def speak(self, access: LoopbackAccess) -> int:
        """Have the front speak, as a client from outside."""
        return TritonControl(self.address, access, "", "").speak("spark_tts", "Hello.", 30)


@pytest.fixture(scope="module", params=CASES)
def secured(
    request: pytest.FixtureRequest,
    checkpoint: Path,
    pki: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Secured]:
    case, ports, repository = CASES[request.param], free_ports(), tmp_path_factory.mktemp("models")
    for spec in spark_specs(Site(checkpoint, triton_address=ports.triton)):
        render_model(spec, SOURCES.get(spec.name, model_source(spec.name)), repository)
    where = ("--grpc-port", str(ports.grpc), "--metrics-port", str(ports.metrics))
    files = [w for name, file in case.options.items() for w in (f"--tls-{name}", str(pki / file))]
    secret = ["--secret-file", str(pki / "secret")] if case.headers else []
    process = Process(
        *(sys.executable, "-I", "-m", "engine", "serve", "--repository", str(repository), *where),
        *(*files, *secret, "--tls-name", "triton.test"),
    )
    try:
        # It says so only after the front has spoken a word, through its stages.
        process.wait_for("engine.ready", 120)
        yield Secured(process, ports.triton, case)
    finally:
        code = process.stop()
    assert code == 0
    assert not [line for line in process.lines if SECRET in line]


def test_the_front_reaches_its_stages_for_a_caller_who_has_what_it_takes(
    secured: Secured, pki: Path
) -> None:
    assert secured.speak(secured.case.client(pki)) > 0


def test_a_caller_without_it_is_not_heard(secured: Secured, pki: Path) -> None:
    whole = secured.case.client(pki)
    lacking = [
        replace(whole, root=None),
        replace(whole, root=str(pki / "client.pem")),
        replace(whole, name="elsewhere.test"),
    ]
    if secured.case.pair:
        lacking.append(replace(whole, certificate=None, key=None))
    if secured.case.headers:
        lacking += [replace(whole, headers={}), replace(whole, headers={"x": SECRET})]

    for access in lacking:
        with pytest.raises(EngineError):
            secured.speak(access)


def test_verify_passes_with_the_same_options(
    secured: Secured, pki: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = secured.case
    pair = ["--tls-certificate", f"{pki}/{case.pair}.pem", "--tls-key", f"{pki}/{case.pair}.key"]
    secret = ["--secret-file", str(pki / "secret")] if case.headers else []
    options = ["--tls-root", str(pki / case.root), "--tls-name", "triton.test"]

    code = main(["verify", secured.address, *options, *(pair if case.pair else []), *secret])

    assert code == 0, capsys.readouterr().out


def test_nobody_learns_the_secret_from_a_models_configuration(secured: Secured, pki: Path) -> None:
    access = secured.case.client(pki)
    request = service_pb2.ModelConfigRequest(name="spark_tts")

    answer = open_stub(secured.address, access).ModelConfig(request, metadata=access.metadata())

    assert answer.config.parameters["llm"].string_value == "llm"
    assert SECRET not in str(answer)
    assert ".pem" not in str(answer)
