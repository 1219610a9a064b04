"""The command `download` in a process of its own, with a small Hub's address in its environment."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from fakes.hub import FakeHub

ENGINE = [sys.executable, "-I", "-m", "engine"]


def download(
    hub: FakeHub | str, work: Path, *arguments: str, **more: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*ENGINE, "download", "--work", str(work), *arguments],
        env=environment(hub, **more),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def environment(hub: FakeHub | str, **more: str) -> dict[str, str]:
    endpoint = hub if isinstance(hub, str) else hub.endpoint
    plain = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    home = {"HF_HOME": "/nonexistent", "HF_HUB_DISABLE_TELEMETRY": "1"}
    return {**plain, **home, "HF_ENDPOINT": endpoint, "NO_PROXY": "127.0.0.1", **more}
