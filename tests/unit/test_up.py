"""What `speech-gateway up` starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway import local
from gateway.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path


def test_up_hands_the_checkpoint_to_the_engine_and_the_models_to_the_service(
    tmp_path: Path,
) -> None:
    triton, service = local._children(Settings(_env_file=None, model_dir=str(tmp_path)))

    assert f"--model spark_tts --model-dir {tmp_path}" in " ".join(triton._command)
    assert "--models spark_tts" in " ".join(service._command)


def test_up_tells_the_service_where_tritons_own_metrics_are() -> None:
    triton, service = local._children(Settings(_env_file=None, triton_address="[::1]:9001"))

    assert "--metrics-port 9002" in " ".join(triton._command)
    assert "--triton-metrics [::1]:9002" in " ".join(service._command)


def test_up_tells_nothing_of_metrics_that_nobody_asks_for() -> None:
    _, service = local._children(Settings(_env_file=None, statistics_interval_seconds=0))

    assert "--triton-metrics" not in service._command
