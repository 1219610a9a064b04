"""Looks at the machine's GPUs, through nvidia-smi, which comes with the driver."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.errors import EngineError
from engine.spec import CAPABILITIES

if TYPE_CHECKING:
    from engine.spec import EngineSpec

NVIDIA_SMI = "nvidia-smi"
CALL_SECONDS = 30
QUERY = ("--query-gpu=name,compute_cap,driver_version,uuid", "--format=csv,noheader")
VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU as its driver describes it."""

    name: str
    capability: tuple[int, int]
    driver: str
    uuid: str


def find_gpus(timeout_seconds: float = CALL_SECONDS) -> list[Gpu]:
    """Return this machine's GPUs; raises EngineError where there is none or no answer."""
    program = shutil.which(NVIDIA_SMI)
    if program is None:
        raise EngineError(
            f"no GPU: {NVIDIA_SMI} is not on PATH; it needs a machine with NVIDIA's driver, and a "
            "container started with --gpus all"
        )
    try:
        done = subprocess.run(
            [program, *QUERY], capture_output=True, text=True, check=False, timeout=timeout_seconds
        )
    except subprocess.TimeoutExpired as error:
        raise EngineError(
            f"{NVIDIA_SMI} does not answer within {timeout_seconds:g} s; the driver hangs, and "
            "the machine must be started again"
        ) from error
    if done.returncode != 0 or not done.stdout.strip():
        words = (done.stderr or done.stdout).strip() or "it lists none"
        raise EngineError(
            f"no GPU: {NVIDIA_SMI} says: {words}; check the driver, and that the container was "
            "started with --gpus all"
        )
    return [_read(line) for line in done.stdout.splitlines()]


def _read(line: str) -> Gpu:
    name, capability, driver, uuid = (part.strip() for part in f",,,{line}".rsplit(",", 3))
    name = name.lstrip(",")
    major, _, minor = capability.partition(".")
    if not (major.isdecimal() and minor.isdecimal()):
        raise EngineError(
            f"{NVIDIA_SMI} says '{line}', without a compute capability; is the driver too old?"
        )
    return Gpu(name, (int(major), int(minor)), driver, uuid)


def is_named(name: str, word: str) -> bool:
    """Return whether a GPU's name has this word, one of CAPABILITIES: an L40 is no L4."""
    return re.search(rf"\b{re.escape(word)}\b", name) is not None


def check_gpu(spec: EngineSpec) -> tuple[Gpu, dict[str, str]]:
    """Return a GPU of the spec's kind, and variables that show a program none of another kind.

    There are none where all are of one kind. Raises EngineError where there are too few of it:
    another GPU of the same capability would do, but its kernels were timed elsewhere.
    """
    gpus = find_gpus()
    capability = CAPABILITIES[spec.gpu]
    right = [gpu for gpu in gpus if is_named(gpu.name, spec.gpu) and gpu.capability == capability]
    if len(right) < spec.world_size:
        there = ", ".join(f"{gpu.name} (compute capability {_dotted(gpu)})" for gpu in gpus)
        raise EngineError(
            f"the engine is for {spec.world_size} {spec.gpu} (compute capability "
            f"{capability[0]}.{capability[1]}), here there is: {there}; build on the GPU that "
            "serves, or name this one with --gpu"
        )
    uuids = ",".join(gpu.uuid for gpu in right)
    return right[0], {} if right == gpus else {VISIBLE: uuids}


def _dotted(gpu: Gpu) -> str:
    return f"{gpu.capability[0]}.{gpu.capability[1]}"
