"""`speech-gateway stats`: what each Triton says of itself, as a table or as JSON.

It asks the Tritons of the settings, not a running service.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gateway.backend.poller import DEADLINE_SECONDS
from gateway.backend.statistics import ask_statistics
from gateway.backend.triton import TritonSynthesizer
from gateway.errors import SpeechError
from gateway.stats_table import since, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.backend.statistics import ReplicaStatistics, Target
    from gateway.settings import Settings

    Answers = dict[str, ReplicaStatistics | SpeechError]

CLEAR = "\033[H\033[2J"
WATCH_SECONDS = 2.0
FAILED = 1
NO_COMMAND = 127


def show(settings: Settings, *, as_json: bool) -> int:
    """Print what there is once; return 1 if a Triton did not answer."""
    answers = asyncio.run(_ask_all(settings))
    _print(answers, as_json=as_json)
    return _code(answers)


def watch(settings: Settings, seconds: float, *, as_json: bool) -> int:
    """Print it again and again until Ctrl-C, a line each time if as JSON; return 0."""

    async def again_and_again() -> None:
        while True:
            answers = await _ask_all(settings)
            if sys.stdout.isatty() and not as_json:
                print(CLEAR, end="")
            _print(answers, as_json=as_json)
            await asyncio.sleep(seconds)

    with suppress(KeyboardInterrupt):
        asyncio.run(again_and_again())
    return 0


def around(settings: Settings, command: Sequence[str], *, as_json: bool) -> int:
    """Run the command, print what the Tritons did meanwhile; return the command's exit code.

    As JSON, what the command prints goes to standard error. Without an answer before it, it does
    not run; without one after it, an exit code of 0 becomes 1.
    """
    before = asyncio.run(_ask_all(settings))
    if _code(before) == FAILED:
        _print(before, as_json=False)
        return FAILED
    started = time.monotonic()
    try:
        code = _run(command, to_stderr=as_json)
    except OSError as error:
        print(f"error: cannot run {command[0]!r}: {error.strerror}", file=sys.stderr)
        return NO_COMMAND
    ran = {"command": list(command), "exit_code": code, "seconds": time.monotonic() - started}
    after = asyncio.run(_ask_all(settings))
    meanwhile, notes = _differences(before, after)
    if not as_json:
        print(f"\nwhile the command ran ({ran['seconds']:.1f} s):")
    _print(meanwhile, as_json=as_json, **ran, notes=notes)
    return code or _code(after)


def _differences(before: Answers, after: Answers) -> tuple[Answers, list[str]]:
    meanwhile: Answers = {}
    notes = [f"Triton {name} is no longer one of ours" for name in before if name not in after]
    for name, now in after.items():
        meanwhile[name], then = now, before.get(name)
        if isinstance(now, SpeechError):
            continue
        if then is None or isinstance(then, SpeechError):
            notes.append(f"Triton {name} is new; its figures are those since it started")
            continue
        meanwhile[name], changes = since(then, now)
        notes += [f"Triton {name}: {change}" for change in changes]
    return meanwhile, notes


async def _ask_all(settings: Settings) -> Answers:
    synthesizer = TritonSynthesizer(settings)
    try:
        refused: Answers = {**await synthesizer.probe_all()}
        replicas = synthesizer.targets()
        seconds = settings.connect_timeout_seconds + DEADLINE_SECONDS
        answers = await asyncio.gather(*(_ask(each, settings.models, seconds) for each in replicas))
    except SpeechError as error:
        return {settings.triton_address: error}
    finally:
        await synthesizer.aclose()
    names = (replica.name for replica in replicas)
    return dict(zip(names, answers, strict=True)) | refused


async def _ask(
    replica: Target, served: Sequence[str], seconds: float
) -> ReplicaStatistics | SpeechError:
    try:
        return await ask_statistics(replica, served, seconds)
    except SpeechError as error:
        return error


def _code(answers: Answers) -> int:
    return FAILED if any(isinstance(answer, SpeechError) for answer in answers.values()) else 0


def _print(answers: Answers, *, as_json: bool, **more: Any) -> None:
    """Print to standard output what there is, to standard error what there is not."""
    shown = {name: a for name, a in answers.items() if not isinstance(a, SpeechError)}
    if as_json:
        replicas = [{"replica": name} | _plain(each) for name, each in shown.items()]
        print(json.dumps({"replicas": replicas, **more}), flush=True)
    else:
        for name, each in shown.items():
            print(table(name, each, time.time()), flush=True)
        for note in more.get("notes", ()):
            print(f"note: {note}")
    for name, error in answers.items():
        if isinstance(error, SpeechError):
            print(
                f"error: Triton at {name}: {error.message} ({error.detail}); "
                "--triton HOST:PORT (SPEECH_TRITON_ADDRESS) says where it is",
                file=sys.stderr,
            )


def _plain(statistics: ReplicaStatistics) -> dict[str, Any]:
    fields = asdict(statistics)
    return {name: fields[name] for name in ("is_ready", "version", "models", "states")}


def _run(command: Sequence[str], *, to_stderr: bool) -> int:
    """Return the exit code, 128 + n for one that signal n ended, as shells have it."""
    # Ctrl-C is for the command; the figures are printed all the same.
    previous = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        stdout = sys.stderr if to_stderr else None
        code = subprocess.run(command, stdout=stdout, check=False).returncode
    finally:
        signal.signal(signal.SIGINT, previous)
    return code if code >= 0 else 128 - code
