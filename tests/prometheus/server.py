"""A real Prometheus that asks each second, with our own configuration and rules."""

from __future__ import annotations

import math
import threading
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import httpx
import yaml

from observability.expressions import FOLDER
from tritonserver.processes import Process

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WAIT_SECONDS = 30.0


class Prometheus:
    """Started at once; every question goes through its HTTP API."""

    def __init__(self, folder: Path, port: int, target: str) -> None:
        config = yaml.safe_load((FOLDER / "prometheus.yml").read_text(encoding="utf-8"))
        config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        config["rule_files"] = [str(FOLDER / "alerts.yml")]
        config["scrape_configs"][0]["static_configs"][0]["targets"] = [target]
        file = folder / "prometheus.yml"
        file.write_text(yaml.safe_dump(config), encoding="utf-8")
        self._url = f"http://127.0.0.1:{port}/api/v1"
        self._process = Process(
            "prometheus",
            f"--config.file={file}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        )
        self._process.wait_for("Server is ready to receive web requests")

    def stop(self) -> None:
        self._process.stop()

    def get(self, path: str, **parameters: str) -> Any:
        """Return the data of an answer; fails where the question is wrong."""
        answer = httpx.get(f"{self._url}/{path}", params=parameters).json()
        assert answer["status"] == "success", answer
        return answer["data"]

    def series(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """Return labels and values that an expression has now, where they are numbers."""
        found = self.get("query", query=expression)["result"]
        series = [(sample["metric"], float(sample["value"][1])) for sample in found]
        return [(labels, value) for labels, value in series if not math.isnan(value)]

    def total(self, expression: str) -> float:
        """Return the sum of what an expression gives now."""
        return sum(value for _, value in self.series(expression))

    def triton_requests(self) -> float:
        """Return by how much Triton's counters have grown, also where they began anew."""
        found = self.get("query", query="triton_inference_requests_total[1h]")["result"]
        values = ([float(value) for _, value in series["values"]] for series in found)
        return sum(new - old if new >= old else new for v in values for old, new in pairwise(v))


def until(holds: Callable[[], bool], what: str, seconds: float = WAIT_SECONDS) -> None:
    """Return once something holds; fails, naming it, if it never does."""
    deadline = time.monotonic() + seconds
    ticks = threading.Event()
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        ticks.wait(0.05)  # Other processes give no event to wait for.
