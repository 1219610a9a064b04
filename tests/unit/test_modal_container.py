"""The class that is deployed, run as Modal runs it, with Modal's own calls replaced."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.deployment import CERTIFICATES, SECRET

TESTS = Path(__file__).parents[1]
TRITON = f"""#!{sys.executable}
import sys
print("INFO engine.ready", flush=True)
sys.stdin.readline()
print("error: no more memory", flush=True)
sys.exit(3)
"""
SECRETS = {SECRET: "correct-horse-battery", **dict.fromkeys(CERTIFICATES.values(), "PEM")}
SERVER = """
import threading
from engine.modal_server import Server
container = Server._get_user_cls()
container.start._get_raw_f()(container())
threading.Event().wait(20)
"""
H2 = ({"h2_enabled": True}, {"address": "tls.example:443", "tls": "system"})
RAW = (
    {"unencrypted": True},
    {"address": "tcp.example:41234", "tls": "private", "server_name": "triton.internal"},
)


def run_until_triton_dies(
    folder: Path, *arguments: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    program = folder / "triton"
    program.write_text(TRITON, "utf-8")
    program.chmod(0o700)
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(TESTS), **SECRETS, **variables}
    return subprocess.run(
        [sys.executable, *arguments],
        input="die\n",
        env=env | {"SPEECH_MODAL_PYTHON": str(program)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def steps_of_a_container(folder: Path, tunnel: str) -> list[Any]:
    """Return what a container did whose Triton has died."""
    program = TESTS / "fakes" / "modal_container.py"
    done = run_until_triton_dies(folder, str(program), SPEECH_MODAL_TUNNEL=tunnel)
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]


@pytest.mark.parametrize(("tunnel", "expected"), [("h2", H2), ("raw", RAW)])
def test_a_container_serves_and_holds_until_its_triton_dies(
    tmp_path: Path, tunnel: str, expected: tuple[Any, dict[str, str]]
) -> None:
    options, place = expected

    forwarded, *spawned, published, fetching, died, left, closed = steps_of_a_container(
        tmp_path, tunnel
    )

    assert forwarded == ["forward", 8001, options]
    # Its own, and that of another which is still there and has not got it; not of one that is gone.
    assert spawned == [["spawn", "ta-1"], ["spawn", "one that is free"]]
    assert published[1].items() >= {**place, "capacity": 8}.items()
    assert fetching == ["no more inputs"]
    assert "no more memory" in died[1]
    assert (left, closed) == (["left", {}], ["closed"])


def test_a_server_s_container_ends_with_its_triton(tmp_path: Path) -> None:
    """It would be kept else, and answer nobody."""
    done = run_until_triton_dies(tmp_path, "-c", SERVER)

    assert done.returncode == 3, done.stderr
    assert "no more memory" in done.stdout
