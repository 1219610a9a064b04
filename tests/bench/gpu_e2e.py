"""The whole chain on a GPU, with random weights of full size: `make gpu-e2e`.

Writes a checkpoint, starts the real Triton with Spark-TTS's models and the gateway in front, and
loads it with `speech-gateway bench`: windows that are exact, and windows that are heard earlier.
Beside it the vocoder alone and the reference pipeline. Needs no network. What is measured is in
`--out` as soon as it is there; nothing is asserted. `--tiny` tries the script on any machine.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import wave
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gpu_e2e_watch as watch
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FRONTS = {
    "spark_tts": ("--first-chunk", "12"),
    "spark_tts_early": ("--look-ahead", "10", "--first-chunk", "8"),
}
"""Windows: exact, and heard earlier."""

CONCURRENCY = (1, 2, 4, 8, 16, 32, 64)
SPEECH_SECONDS = "5.12"
TEXTS = (
    "Your table is booked for seven this evening.",
    "The train to the coast leaves from platform four in half an hour.",
    "She opened the letter at the kitchen table and read it twice.",
    "In the mornings he could see the boats go out to sea.",
)
GRPC, METRICS, HTTP = 18_001, 18_002, 18_080
BEGIN_SECONDS = 420.0


class Chain:
    """One run: its options, its folder, and its results, which are written as they come."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.work: Path = options.work.absolute()
        self.work.mkdir(parents=True, exist_ok=True)
        self.checkpoint = self.work / "spark"
        self.results: dict[str, Any] = {"machine": watch.machine()}
        self.began = time.monotonic()

    def keep(self, name: str, value: Any) -> None:
        """Write a result down."""
        self.results[name] = value
        text = json.dumps(self.results, indent=1)
        self.options.out.write_text(text, encoding="utf-8")
        print(f"[{time.monotonic() - self.began:.0f} s] {name}: {json.dumps(value)[:1500]}")
        sys.stdout.flush()

    def part(self, name: str, work: Callable[[], Any]) -> None:
        """Measure a part; one that fails is noted, and the next goes on."""
        if name not in self.options.parts:
            return
        try:
            self.keep(name, work())
        except Exception as error:  # noqa: BLE001  the other parts are worth having
            self.keep(name, f"{type(error).__name__}: {error}")

    def prepare(self) -> None:
        """Write checkpoint, voices and texts."""
        if not self.checkpoint.is_dir():
            size = "--tiny" if self.options.tiny else "--full"
            speech = ("--speech-seconds", SPEECH_SECONDS)
            part = self.checkpoint.with_suffix(".part")
            self.command("fixture", "engine", "fixture", size, *speech, str(part))
            part.rename(self.checkpoint)
        write_voice(self.work / "voice.wav")
        voices = "".join(f'[{front}.noise]\nreference = "voice.wav"\n' for front in FRONTS)
        (self.work / "voices.toml").write_text(voices, encoding="utf-8")
        (self.work / "texts.txt").write_text("\n".join(TEXTS) + "\n", encoding="utf-8")

    def command(self, log: str, module: str, *arguments: str, seconds: float = 300) -> str:
        """Run a module of Python to its end and return what it printed."""
        command = [sys.executable, "-m", module, *arguments]
        done = subprocess.run(
            command, cwd=self.work, capture_output=True, text=True, timeout=seconds, check=False
        )
        (self.work / f"{log}.log").write_text(done.stdout + done.stderr, encoding="utf-8")
        if done.returncode:
            raise RuntimeError(f"{command} ended with {done.returncode}: {done.stderr[-1500:]}")
        return done.stdout

    def alone(self, part: str, *arguments: str) -> Any:
        """Measure a part of gpu_e2e_alone.py."""
        script = str(Path(__file__).with_name("gpu_e2e_alone.py"))
        device = ("--device", self.options.device)
        command = [sys.executable, script, part, str(self.checkpoint), *arguments, *device]
        with (self.work / f"{part}.log").open("w", encoding="utf-8") as errors:
            done = subprocess.run(
                *(command,), cwd=self.work, stdout=subprocess.PIPE, stderr=errors, text=True,
                timeout=300, check=False,
            )  # fmt: skip
        if not done.stdout.strip():
            raise RuntimeError((self.work / f"{part}.log").read_text(encoding="utf-8")[-1500:])
        return json.loads(done.stdout.splitlines()[-1])

    def render(self) -> Path:
        """Write the repository: two fronts of the same stages."""
        options, repository = self.options, self.work / "repository"
        shutil.rmtree(repository, ignore_errors=True)
        how = ["--llm", options.llm, "--device", options.device, "--dtype", options.dtype]
        how += ["--compile"] if options.compile else []
        how += ["--max-sequence-tokens", "8192", "--triton-address", f"127.0.0.1:{GRPC}"]
        for front, windows in FRONTS.items():
            folder = self.work / f"rendered-{front}"
            models = ("--model", "spark_tts", "--model-dir", str(self.checkpoint))
            self.command("render", "engine", "render", *models, *how, *windows, str(folder))
            if not repository.exists():
                shutil.copytree(folder, repository)
                continue
            shutil.copytree(folder / "spark_tts", repository / front)
            config = repository / front / "config.pbtxt"
            text = config.read_text(encoding="utf-8").replace(
                'name: "spark_tts"', f'name: "{front}"', 1
            )
            config.write_text(text, encoding="utf-8")
        return repository

    def chain(self) -> Any:
        """Start everything, load it at each level, stop everything."""
        with ExitStack() as stack:
            began = time.monotonic()
            triton = stack.enter_context(self.triton(self.render()))
            ready_seconds = time.monotonic() - began
            gateway = stack.enter_context(self.gateway())
            self.keep("start", {"seconds": ready_seconds, "memory": watch.gpu_memory()})
            processes = watch.Processes({"triton": triton.pid, "gateway": gateway.pid})
            levels = []
            for front in FRONTS:
                for clients in self.options.concurrency:
                    try:
                        levels.append(self.level(front, clients, processes))
                    except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
                        levels.append({"front": front, "clients": clients, "error": str(error)})
                    self.keep("chain", levels)
        return levels

    @contextmanager
    def started(self, log: str, module: str, *arguments: str, **environment: str) -> Iterator[Any]:
        """Run a server until the end of the block."""
        with (self.work / f"{log}.log").open("w", encoding="utf-8") as words:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                cwd=self.work,
                env={**os.environ, **environment},
                stdout=words,
                stderr=subprocess.STDOUT,
            )
            try:
                yield process
            finally:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(60)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()

    def wait(self, log: str, process: Any, is_ready: Callable[[str], bool]) -> None:
        """Wait until a server is ready; raises RuntimeError with its last words if it cannot."""
        path, due = self.work / f"{log}.log", time.monotonic() + BEGIN_SECONDS
        while True:
            words = path.read_text(encoding="utf-8", errors="replace")
            if is_ready(words):
                return
            if process.poll() is not None or time.monotonic() > due:
                raise RuntimeError(f"{log} is not ready: {words[-2500:]}")
            time.sleep(0.3)

    @contextmanager
    def triton(self, repository: Path) -> Iterator[Any]:
        """Run Triton."""
        ports = ("--grpc-port", str(GRPC), "--metrics-port", str(METRICS))
        patience = ("--start-timeout", str(BEGIN_SECONDS), "--probe-every", "3600")
        serve = ("serve", "--repository", str(repository), *ports, *patience)
        serve += ("--mps",) if self.options.mps else ()
        with self.started("triton", "engine", *serve) as process:
            self.wait("triton", process, lambda words: "engine.ready" in words)
            yield process

    @contextmanager
    def gateway(self) -> Iterator[Any]:
        """Run the gateway."""
        settings = {
            "MODELS": ",".join(FRONTS),
            "TRITON_ADDRESS": f"127.0.0.1:{GRPC}",
            "PORT": str(HTTP),
            "VOICES_FILE": str(self.work / "voices.toml"),
            "CACHE_DIR": str(self.work / "cache"),
            "MAX_CONCURRENT_REQUESTS": "128",
            "MAX_WAITING_REQUESTS": "256",
            "LOG_LEVEL": "warning",
        }
        environment = {f"SPEECH_{name}": value for name, value in settings.items()}
        with self.started("gateway", "gateway", "serve", **environment) as process:
            self.wait("gateway", process, lambda _: answers(f"http://127.0.0.1:{HTTP}/readyz"))
            yield process

    def level(self, front: str, clients: int, processes: watch.Processes) -> dict[str, Any]:
        """Load one front with so many clients."""
        folder = self.work / f"bench-{front}-{clients}-{int(time.time())}"
        count = self.options.requests or max(12, 10 * clients)
        load = ("--concurrency", str(clients), "--requests", str(count))
        voice = ("--model", front, "--voice", "noise", "--text-file", str(self.work / "texts.txt"))
        where = (f"http://127.0.0.1:{HTTP}", "--triton", f"127.0.0.1:{GRPC}")
        before = watch.llm_steps(METRICS)
        with processes.watched() as busy:
            self.command(
                f"bench-{front}-{clients}", "gateway", "bench", *where, *load, *voice,
                "--output", str(folder), seconds=120,
            )  # fmt: skip
        [level] = json.loads((folder / "summary.json").read_text(encoding="utf-8"))["levels"]
        return {
            "front": front,
            "clients": clients,
            **watch.figures(level),
            **watch.step(before, watch.llm_steps(METRICS)),
            "memory": watch.gpu_memory(),
            "processors": busy,
        }


def answers(url: str) -> bool:
    """Whether a page is there."""
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def write_voice(path: Path) -> None:
    """Write six seconds of noise, in 16 bits at 16 kHz."""
    noise = np.random.default_rng(3).uniform(-0.5, 0.5, 96_000)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes((noise * 32767).astype("<i2").tobytes())


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path, help="a folder for the checkpoint (4 GB) and the logs")
    parser.add_argument("--out", type=Path, default=Path("gpu_e2e.json"))
    parser.add_argument("--tiny", action="store_true", help="a tiny checkpoint")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", default="float16", help="of the vocoder")
    parser.add_argument("--llm", default="vllm")
    parser.add_argument("--compile", action="store_true", help="compile the vocoder")
    parser.add_argument("--mps", action="store_true", help="CUDA's Multi-Process Service")
    parser.add_argument("--concurrency", type=int, nargs="+", default=CONCURRENCY)
    parser.add_argument("--requests", type=int, help="of each level; default: 10 for each client")
    parser.add_argument("--parts", nargs="+", default=("vocoder", "reference", "chain"))
    chain = Chain(parser.parse_args())
    chain.prepare()
    chain.part("vocoder", lambda: chain.alone("vocoder"))
    chain.part("reference", lambda: chain.alone("reference", str(chain.work / "voice.wav")))
    chain.part("chain", chain.chain)
    print(watch.table(chain.results.get("chain", [])))


if __name__ == "__main__":
    main()
