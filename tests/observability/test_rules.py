"""Prometheus itself reads our files and runs the alerts' own tests."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from observability.expressions import FOLDER

pytestmark = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed (prometheus)"
)


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "config", "prometheus.yml"),
        ("check", "rules", "--lint=all", "--lint-fatal", "alerts.yml"),
        ("test", "rules", "alerts_test.yml"),
    ],
    ids=["config", "rules", "tests-of-rules"],
)
def test_promtool_has_nothing_to_say(arguments: tuple[str, ...]) -> None:
    done = subprocess.run(
        ["promtool", *arguments],  # noqa: S607  wherever it is installed
        cwd=FOLDER,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.returncode == 0, done.stdout + done.stderr
