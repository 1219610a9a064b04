"""Send many streams through a real Triton with Spark-TTS, break some off, and see what is left.

`python tests/bench/soak.py` writes a checkpoint of random weights, serves it, speaks one stream
at a time and then many at once, and prints how they ended and what each process holds. It ends
with 1 if a stream hung or failed, or if shared memory is left.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from engine.fixture import write_checkpoint
from spark.server import SparkServer
from speech_wire import SynthesisRequest
from tritonserver.processes import free_ports

if TYPE_CHECKING:
    from spark.server import Call

SHORT = (30, 120)
PARTS = 5
VOICE = np.arange(32, dtype=np.int32)
TEXTS = ("Yes.", "The sea was calm that morning.", "It rained, and nobody was on the road. " * 3)


class Soak:
    """Speaks streams and counts how they end."""

    def __init__(self, server: SparkServer, aborts: float) -> None:
        self.server = server
        self.endings: Counter[str] = Counter()
        self._aborts = aborts
        self._random = random.Random(1)
        self._started = time.monotonic()
        self._stubs = {Path(stub.cmdline()[1]).parents[1].name: stub for stub in server.stubs}
        (self._triton,) = server.process.children("tritonserver")

    def speak(self, streams: int, at_once: int) -> None:
        """Speak so many streams, and print a line for each part of them."""
        for part in range(PARTS):
            count = streams * (part + 1) // PARTS - streams * part // PARTS
            plans = [(self._random.random(), self._random.random()) for _ in range(count)]
            with ThreadPoolExecutor(at_once) as threads:
                self.endings.update(threads.map(self._one, plans))
            self.report(at_once)

    def _one(self, plan: tuple[float, float]) -> str:
        """Speak one stream; a lot below `aborts` breaks it off, at a moment that `when` chooses."""
        lot, when = plan
        request = SynthesisRequest(TEXTS[int(when * 1000) % 3], global_tokens=VOICE)
        call = self.server.call(request)
        try:
            if lot < self._aborts:
                return _break_off(call, when)
            call.whole()
        except grpc.RpcError as error:
            hung = error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            return "hung" if hung else f"failed: {error.code().name}"
        if call.heard.errors:
            return f"failed: {call.heard.errors[0][:60]}"
        return "whole" if call.heard.finals == 1 else "without end"

    def report(self, at_once: int) -> None:
        """Print a line of the table."""
        held = {"server": self._triton, **self._stubs}
        megabytes = [f"{process.memory_info().rss / 1e6:.0f}" for process in held.values()]
        if not self.endings:
            print("| s | at once | whole | broken off | other |", " | ".join(held), "MB |")
            print("|---|" + "---|" * (4 + len(held)))
            return
        seconds = time.monotonic() - self._started
        whole, aborted = self.endings["whole"], self.endings["broken off"]
        other = self.endings.total() - whole - aborted
        cells = [f"{seconds:.0f}", at_once, whole, aborted, other, *megabytes]
        print("|", " | ".join(str(cell) for cell in cells), "|", flush=True)


def _break_off(call: Call, when: float) -> str:
    """Cancel at once, after a moment or after the first chunk; listen to the end."""
    if when > 0.6:
        next(iter(call), None)
    elif when > 0.3:
        time.sleep(when - 0.3)
    call.cancel()
    call.whole()
    return "broken off" if not call.heard.errors else f"failed: {call.heard.errors[0][:60]}"


def main() -> int:
    """Run the soak; return 1 where something was left or did not end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--alone", type=int, default=1000, help="streams one after the other")
    parser.add_argument("--together", type=int, default=9000, help="streams --at-once after them")
    parser.add_argument("--at-once", type=int, default=16)
    parser.add_argument(
        "--short", action="store_true", help="30 and 120, less than a minute instead of an hour"
    )
    parser.add_argument("--aborts", type=float, default=0.2, help="share that is broken off")
    parser.add_argument("--model-dir", type=Path, help="a checkpoint instead of random weights")
    options = parser.parse_args()
    if options.short:
        options.alone, options.together = SHORT
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = options.model_dir or Path(folder) / "checkpoint"
        if options.model_dir is None:
            write_checkpoint(checkpoint, "tiny", seed=1)
        started = time.monotonic()
        server = SparkServer(free_ports(), "--model", "spark_tts", "--model-dir", str(checkpoint))
        print(f"ready after {time.monotonic() - started:.1f} s, {len(server.regions())} regions")
        soak = Soak(server, options.aborts)
        soak.report(0)
        soak.speak(options.alone, 1)
        soak.speak(options.together, options.at_once)
        code = server.process.stop()
    left = server.regions()
    bad = {how: n for how, n in soak.endings.items() if how not in ("whole", "broken off")}
    print(f"exit code {code}, shared memory left: {left}, other endings: {bad}")
    return 1 if code or left or bad else 0


if __name__ == "__main__":
    sys.exit(main())
