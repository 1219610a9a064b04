"""What a figure cannot be compared without: machine, versions, commit."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("speech-gateway", "aiohttp", "av", "grpcio", "numpy", "tritonclient")
ROOT = Path(__file__).parents[2]


def describe() -> dict[str, Any]:
    """Describe the machine that makes the load; the one that is measured may be another."""
    return {
        "machine": {
            "cpu": _cpu_model(),
            "cores": len(os.sched_getaffinity(0)),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "gpus": _gpus(),
            "load_average_at_start": os.getloadavg()[0],
            "system": platform.platform(),
        },
        "versions": {"python": platform.python_version(), **_versions()},
        "commit": _commit(),
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _gpus() -> list[str]:
    command = shutil.which("nvidia-smi")
    if command is None:
        return []
    query = ["--query-gpu=name,driver_version", "--format=csv,noheader"]
    return _output(command, *query).splitlines()


def _versions() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def _commit() -> str:
    """Return the checkout's commit, empty where the package is not run from one."""
    git = shutil.which("git")
    if git is None or not _output(git, "-C", str(ROOT), "ls-files", "gateway/bench/machine.py"):
        return ""
    commit = _output(git, "-C", str(ROOT), "rev-parse", "HEAD")
    changed = _output(git, "-C", str(ROOT), "status", "--porcelain", "--untracked-files=no")
    return f"{commit} with changes" if changed else commit


def _output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""
