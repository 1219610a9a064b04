from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

import httpx
import pytest

from tritonserver.processes import Process, free_ports

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.triton]


def test_up_serves_a_checkpoint(checkpoint: Path) -> None:
    ports = free_ports()
    where = ("--port", str(ports.http), "--triton", ports.triton)
    command = (sys.executable, "-I", "-m", "gateway", "up", *where)
    process = Process(*command, "--model-dir", str(checkpoint))

    process.wait_for("ready: ", 120)
    models = httpx.get(f"{ports.url}/v1/models").json()["data"]
    ready = httpx.get(f"{ports.url}/readyz").status_code

    assert [model["id"] for model in models] == ["spark_tts"]
    assert ready == 200
    assert process.stop(signal.SIGTERM) == 0
