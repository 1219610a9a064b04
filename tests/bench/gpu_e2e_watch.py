"""What `gpu_e2e.py` sees of the machine and of a run: processors, GPU, figures, a table."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import urllib.request
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

VERSIONS = ("torch", "vllm", "transformers", "numpy", "nvidia-pytriton", "spark-tts-lib")
COLUMNS = {
    "windows": lambda row: "early" if "early" in row["front"] else "exact",
    "clients": lambda row: row["clients"],
    "first audio, ms": lambda row: " / ".join(f"{value:.0f}" for value in row["first audio ms"]),
    "RTF": lambda row: f"{row['rtf']:.3f}",
    "audio s / s": lambda row: f"{row['audio s per s']:.0f}",
    "underruns": lambda row: row["underruns"],
    "gap p99, ms": lambda row: f"{row['gap p99 ms']:.0f}",
    "LLM step, ms": lambda row: f"{row['step ms']:.2f}",
    "vocoder, ms": lambda row: f"{row['vocoder ms']:.1f}",
    "failed": lambda row: row["failed"],
}


def machine() -> dict[str, Any]:
    """Say what this runs on."""
    found = {"python": platform.python_version(), "processors": psutil.cpu_count()}
    for name in VERSIONS:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return {**found, "gpu": smi("--query-gpu=name,driver_version,memory.total")}


def smi(query: str) -> list[str]:
    """Ask nvidia-smi; without one there is nothing to tell."""
    if shutil.which("nvidia-smi") is None:
        return []
    command = ["nvidia-smi", query, "--format=csv,noheader"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()


def gpu_memory() -> dict[str, list[str]]:
    """Return what is used of the GPU's memory, all in all and by each process."""
    return {
        "all": smi("--query-gpu=memory.used"),
        "processes": smi("--query-compute-apps=pid,used_memory"),
    }


def llm_steps(port: int) -> tuple[float, float]:
    """Return the language model's steps so far and their seconds; 0 where it does not count."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
        text = page.read().decode()
    found = [
        re.search(rf"^speech_llm_{name}_total{{[^}}]*}} (\S+)", text, re.MULTILINE)
        for name in ("steps", "step_seconds")
    ]
    steps, seconds = (float(match[1]) if match else 0.0 for match in found)
    return steps, seconds


def step(before: tuple[float, float], after: tuple[float, float]) -> dict[str, float]:
    """Return how long a step took in between."""
    steps, seconds = after[0] - before[0], after[1] - before[1]
    return {"step ms": 1000 * seconds / steps if steps else 0.0}


def figures(level: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a level of `speech-gateway bench` says, in the words of our table."""
    spread = {name: value or {} for name, value in level["distributions"].items()}
    first, gap = spread["first_byte_seconds"], spread["gap_seconds"]
    vocoder = level["triton"].get("vocoder", {})
    stages = vocoder.get("mean_seconds", {})
    return {
        "first audio ms": [1000 * first.get(name, 0) for name in ("p50", "p90", "p99")],
        "rtf": spread["rtf"].get("p50", 0),
        "complete s": spread["total_seconds"].get("p50", 0),
        "audio s per s": level["audio_seconds_per_second"],
        "audio s": level["audio_seconds"] / max(1, level["ok"]),
        "underruns": level["underruns"],
        "gap p99 ms": 1000 * gap.get("p99", 0),
        "failed": level["requests"] - level["ok"],
        "examples": level["examples"],
        "wall s": level["wall_seconds"],
        "vocoder ms": 1000 * sum(stages.values()),
        "vocoder": vocoder,
    }


class Processes:
    """The processes of the servers, by what they do."""

    def __init__(self, roots: Mapping[str, int]) -> None:
        self._roots = roots

    @contextmanager
    def watched(self) -> Iterator[dict[str, float]]:
        """Fill in, at the end, the processor seconds that each used in the block."""
        used: dict[str, float] = {}
        before = self._seconds()
        yield used
        for name, seconds in self._seconds().items():
            spent = seconds - before.get(name, 0.0)
            if spent > 0.05:
                used[name] = round(spent, 2)

    def _seconds(self) -> dict[str, float]:
        found = {}
        for root in self._roots.values():
            family = [psutil.Process(root)]
            family += family[0].children(recursive=True)
            for process in family:
                with suppress(psutil.Error):
                    times = process.cpu_times()
                    found[f"{_role(process)} {process.pid}"] = times.user + times.system
        return found


def _role(process: psutil.Process) -> str:
    words = process.cmdline()
    if words and "stub" in words[0]:
        return next((part.split("/")[-3] for part in words if part.endswith("/model.py")), "stub")
    return " ".join(words[:3])[-40:] or process.name()


def table(rows: Sequence[Any]) -> str:
    """Return the levels as Markdown."""
    lines = [f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
    for row in rows if isinstance(rows, list) else []:
        if "error" in row:
            lines.append(f"| {row['front']} | {row['clients']} | {row['error'][-200:]} |")
            continue
        lines.append(f"| {' | '.join(str(cell(row)) for cell in COLUMNS.values())} |")
    return "\n".join(lines)
