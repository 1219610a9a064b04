"""Whether NVIDIA's perf_analyzer and `speech-gateway bench` agree on the same Triton.

`make bench-perf-analyzer` installs the program: the wheel of tritonclient 2.51 is the last that
brings it for Debian 12's C library. Two libraries that it asks for are in nvidia-pytriton's wheel.
Both ask the small voice for one sentence, over gRPC, with as many clients at once.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import files
from pathlib import Path
from typing import TYPE_CHECKING

from tritonclient.grpc import InferenceServerClient
from tritonclient.utils import InferenceServerException

from bench.hop.flags import at_least, program, several
from bench.hop.processes import START_SECONDS, free_port, machine, running

if TYPE_CHECKING:
    from collections.abc import Generator

MODEL, VOICE = "hibari", "heart"
TEXT = "The train to the coast leaves from platform four, and the next one is in half an hour."
LIBRARIES = ("libb64.so.0d", "libcudart.so.12")


@dataclass(frozen=True)
class Load:
    """So many clients that each ask again once they are answered, and requests in all."""

    clients: int
    requests: int


@dataclass(frozen=True)
class Figures:
    """First audio in milliseconds, and requests a second."""

    p50: float
    p90: float
    p99: float
    per_second: float


def perf_analyzer(program: Path, address: str, load: Load, folder: Path) -> Figures:
    """Run it; of a decoupled model it times the first response."""
    data, report = folder / "data.json", folder / "report.csv"
    tensors = {"target_text": TEXT, "voice": VOICE}
    step = {name: {"content": [text], "shape": [1]} for name, text in tensors.items()}
    data.write_text(json.dumps({"data": [step]}))
    command = [str(program), "-m", MODEL, "-u", address, "-i", "grpc", "--streaming", "--async"]
    command += ["--input-data", str(data), "-f", str(report)]
    command += ["--concurrency-range", str(load.clients), "--request-count", str(load.requests)]
    libraries = {"LD_LIBRARY_PATH": str(_libraries(folder))}
    _run(command, libraries)
    (row,) = csv.DictReader(report.open())
    first = (float(row[f"p{percent} latency"]) / 1e3 for percent in (50, 90, 99))
    return Figures(*first, per_second=float(row["Inferences/Second"]))


def ours(address: str, load: Load, folder: Path) -> Figures:
    """Run `speech-gateway bench` against the same Triton."""
    texts, output = folder / "texts.txt", folder / "ours"
    texts.write_text(TEXT)
    command = [sys.executable, "-m", "gateway", "bench", f"grpc://{address}", "--model", MODEL]
    command += ["--voice", VOICE, "--text-file", str(texts), "--output", str(output)]
    command += ["--concurrency", str(load.clients), "--requests", str(load.requests)]
    _run(command, {})
    (level,) = json.loads((output / "summary.json").read_text())["levels"]
    first = level["distributions"]["first_byte_seconds"]
    return Figures(
        *(first[name] * 1e3 for name in ("p50", "p90", "p99")),
        per_second=level["requests_per_second"],
    )


def _run(command: list[str], variables: dict[str, str]) -> None:
    environment = {**os.environ, **variables}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{command[0]} failed:\n{done.stdout}{done.stderr}")


def _libraries(folder: Path) -> Path:
    """Return a folder with what the wheel of nvidia-pytriton has under names of its own."""
    bundled = {path.name: path.locate() for path in files("nvidia-pytriton") or ()}
    for library in LIBRARIES:
        stem, version = library.split(".so.")
        (found,) = (
            path
            for name, path in bundled.items()
            if name.startswith(f"{stem}-") and f".so.{version}" in name
        )
        link = folder / library
        if not link.exists():
            link.symlink_to(str(found))
    return folder


@contextmanager
def small_voice() -> Generator[str, None, None]:
    """Run the real Triton with the small voice; its address."""
    port = free_port()
    command = [sys.executable, "-m", "engine", "serve", "--model", MODEL]
    command += ["--grpc-port", str(port), "--metrics-port", str(free_port())]
    with running(command, port), InferenceServerClient(f"127.0.0.1:{port}") as client:
        until = time.monotonic() + START_SECONDS
        while not _is_ready(client):
            if time.monotonic() > until:
                raise SystemExit(f"Triton's model {MODEL} is not ready")
            time.sleep(0.2)
        yield f"127.0.0.1:{port}"


def _is_ready(client: InferenceServerClient) -> bool:
    try:
        return bool(client.is_model_ready(MODEL))
    except InferenceServerException:
        return False


def main() -> None:
    """Measure in turn and print the medians of the rounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", type=program("bench-perf-analyzer"), help="perf_analyzer")
    parser.add_argument(
        "--clients", type=several, default=(1, 2, 4), help="at once, in turn (1,2,4)"
    )
    parser.add_argument("--rounds", type=at_least(1), default=3, help="of each (%(default)s)")
    parser.add_argument("--requests", type=at_least(2), default=40, help="of a round (%(default)s)")
    options = parser.parse_args()
    print(machine())
    print("first audio p50 / p90 / p99 in ms, requests/s; medians of the rounds, in turn")
    with small_voice() as address:
        for clients in options.clients:
            load = Load(clients, options.requests)
            rounds = [_round(options.program, address, load) for _ in range(options.rounds)]
            of_ours, of_theirs = zip(*rounds, strict=True)
            print(f"  {clients:2} at once, bench          {_median(of_ours)}")
            print(f"  {clients:2} at once, perf_analyzer  {_median(of_theirs)}")


def _round(program: Path, address: str, load: Load) -> tuple[Figures, Figures]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        return ours(address, load, folder), perf_analyzer(program, address, load, folder)


def _median(values: tuple[Figures, ...]) -> str:
    p50, p90, p99, per_second = (
        statistics.median(getattr(value, name) for value in values)
        for name in ("p50", "p90", "p99", "per_second")
    )
    return f"{p50:6.1f} / {p90:6.1f} / {p99:6.1f} ms {per_second:6.2f}/s"


if __name__ == "__main__":
    main()
