"""Command line: `up`, `serve`, `say`, `check` and the like. Parses, loads the settings, calls."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import math
import os
import re
import signal
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn

import gateway.settings.grpc_log  # noqa: F401  Before gRPC, which the next bring
from gateway import check, local, replicas, say, stats
from gateway.addresses import check_url
from gateway.app import create_app
from gateway.bench.options import add_bench
from gateway.http_parser import FirstHead
from gateway.settings import SettingsError, load_settings, unknown_settings
from gateway.settings.unused import unused_settings
from gateway.telemetry.logging import configure_command_logging, configure_logging

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.settings import Settings

log = logging.getLogger("speech")

OVERRIDES = (
    *("host", "port", "triton_address", "triton_metrics_address"),
    *("client_api_key", "models", "model_dir"),
)
"""Settings that are flags, too, each of those commands that use it."""
EMPTY = re.compile(r"--[\w-]+=")
FAILED = 1
YOUNG_OBJECTS = 5000
"""How many objects must have come, and stayed, before the collector looks through them."""
READER_GONE = 128 + signal.SIGPIPE


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    try:
        code = _main(sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read has left; what is still to be written has to go somewhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE
    return code


def _main(words: Sequence[str]) -> int:
    parser = _parser()
    options, unknown = parser.parse_known_args(words)
    if unknown:
        # The command's own usage says what it takes.
        options.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    end = list(words).index("--") if "--" in words else len(words)
    ours, after_dashes = list(words)[:end], list(words)[end + 1 :]
    if empty := [word for word in ours if not word or EMPTY.fullmatch(word)]:
        what = f"{empty[0]}''" if empty[0] else f"'', after {ours[ours.index('') - 1]!r}"
        parser.error(f"a value is empty ({what}): give one, or leave the flag out")
    if getattr(options, "command", []) not in ([], after_dashes):
        parser.error("a command stands after two dashes: stats -- COMMAND")
    if getattr(options, "url", None) is not None and (options.host, options.port) != (None, None):
        parser.error("--url says where the service is: leave out --host and --port")
    try:
        for warning in unknown_settings():
            print(f"warning: {warning}", file=sys.stderr)
        settings = load_settings(**{name: getattr(options, name) for name in OVERRIDES})
        if options.run in (_check, _serve):
            for warning in unused_settings(settings):
                print(f"warning: {warning}", file=sys.stderr)
        code: int = options.run(settings, options)
    except SettingsError as error:
        print(f"error: {error}", file=sys.stderr)
        return FAILED
    return code


def _parser() -> argparse.ArgumentParser:
    service, running, triton = _service_options(), _running_options(), _triton_options()
    parser = argparse.ArgumentParser(
        "speech-gateway", description="The OpenAI speech API in front of NVIDIA Triton."
    )
    parser.set_defaults(**dict.fromkeys(OVERRIDES))
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    up = commands.add_parser(
        "up", parents=[service, triton], help="start a local Triton and the service"
    )
    up.add_argument(
        "--model-dir", metavar="DIR", help="a checkpoint of Spark-TTS (SPEECH_MODEL_DIR)"
    )
    up.set_defaults(run=lambda settings, _: local.up(settings))
    serve = commands.add_parser("serve", parents=[service, triton], help="run the service alone")
    serve.add_argument(
        "--triton-metrics",
        dest="triton_metrics_address",
        metavar="HOST:PORT",
        help="Triton's metrics page (SPEECH_TRITON_METRICS_ADDRESS)",
    )
    serve.set_defaults(run=_serve)
    _add_say(commands, running)
    probe = commands.add_parser("check", parents=[triton], help="say what works and what not")
    probe.set_defaults(run=_check)
    _add_stats(commands, triton)
    add_bench(commands).set_defaults(run=_bench)
    _add_replicas(commands, running)
    for command in commands.choices.values():
        command.set_defaults(parser=command)
    return parser


def _service_options() -> argparse.ArgumentParser:
    service = argparse.ArgumentParser(add_help=False)
    service.add_argument("--host", help="address of the HTTP service (SPEECH_HOST)")
    service.add_argument("--port", type=int, help="port of the HTTP service (SPEECH_PORT)")
    return service


def _running_options() -> argparse.ArgumentParser:
    running = argparse.ArgumentParser(add_help=False, parents=[_service_options()])
    running.add_argument("--url", type=_url, help="base URL, default from --host and --port")
    return running


def _triton_options() -> argparse.ArgumentParser:
    triton = argparse.ArgumentParser(add_help=False)
    triton.add_argument(
        "--triton",
        dest="triton_address",
        metavar="HOST:PORT",
        help="Triton's gRPC (SPEECH_TRITON_ADDRESS)",
    )
    triton.add_argument("--models", help="Triton models that callers may name (SPEECH_MODELS)")
    return triton


def _add_say(commands: Any, running: argparse.ArgumentParser) -> None:
    speak = commands.add_parser("say", parents=[running], help="speak a text into a file")
    speak.add_argument("text")
    speak.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("speech.wav"),
        help="wav, flac, ogg or mp3 file (%(default)s)",
    )
    speak.add_argument("--model", help="default: the first of the service")
    speak.add_argument("--voice", help="default: the model's first")
    speak.add_argument(
        "--api-key",
        dest="client_api_key",
        metavar="KEY",
        help="better set SPEECH_CLIENT_API_KEY: others see your flags",
    )
    speak.set_defaults(run=_say)


def _add_stats(commands: Any, triton: argparse.ArgumentParser) -> None:
    figures = commands.add_parser(
        "stats",
        parents=[triton],
        help="show what Triton says of itself, or what it did while a command ran",
    )
    ways = figures.add_mutually_exclusive_group()
    _add_watch(ways, stats.WATCH_SECONDS)
    ways.add_argument("command", nargs="*", default=[], help="after --: run it and show the rest")
    figures.add_argument("--json", action="store_true", help="the same as JSON")
    figures.set_defaults(run=_stats)


def _add_replicas(commands: Any, running: argparse.ArgumentParser) -> None:
    seen = commands.add_parser(
        "replicas", parents=[running], help="show the Tritons behind a running service"
    )
    seen.add_argument("--json", action="store_true", help="as JSON")
    _add_watch(seen, replicas.WATCH_SECONDS)
    seen.set_defaults(run=_replicas)


def _add_watch(parser: argparse._ActionsContainer, every_seconds: float) -> None:
    parser.add_argument(
        "--watch",
        nargs="?",
        type=_seconds,
        const=every_seconds,
        metavar="SECONDS",
        help="show it again and again (every %(const)g s) until Ctrl-C",
    )


def _url(text: str) -> str:
    try:
        check_url(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no time to wait; give seconds above 0")
    return seconds


def _check(settings: Settings, _: argparse.Namespace) -> int:
    configure_command_logging()
    return asyncio.run(check.check(settings))


def _stats(settings: Settings, options: argparse.Namespace) -> int:
    configure_command_logging()
    if options.command:
        return stats.around(settings, options.command, as_json=options.json)
    if options.watch:
        return stats.watch(settings, options.watch, as_json=options.json)
    return stats.show(settings, as_json=options.json)


def _bench(settings: Settings, options: argparse.Namespace) -> int:
    try:
        from gateway.bench.command import bench  # noqa: PLC0415  its packages are an extra
    except ModuleNotFoundError as error:
        print(
            f"error: {error}; bench needs its extra: pip install 'speech-gateway[bench]'",
            file=sys.stderr,
        )
        return FAILED
    return bench(settings, options)


def _replicas(settings: Settings, options: argparse.Namespace) -> int:
    return replicas.replicas(
        options.url or local.base_url(settings),
        settings.client_api_key.get_secret_value(),
        as_json=options.json,
        every_seconds=options.watch,
    )


def _collect_seldom() -> None:
    """Spare the collector what lives as long as the process, and most of its turns.

    Nearly all of a request goes by reference counts, and streams are what it would look through.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS)


def _serve(settings: Settings, _: argparse.Namespace) -> int:
    configure_logging(settings.log_level, settings.log_format)
    fields = {
        "address": f"{settings.host}:{settings.port}",
        "api_keys": len(settings.known_keys) or "none, so whoever reaches the port may use it",
        "version": version("speech-gateway"),
    }
    log.info("gateway.serving", extra={"fields": fields})
    app = create_app(settings)
    _collect_seldom()
    uvicorn.run(
        app,
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=math.ceil(settings.shutdown_grace_seconds),
        http=FirstHead,
        loop="uvloop",
    )
    return 0


def _say(settings: Settings, options: argparse.Namespace) -> int:
    return say.say(
        options.url or local.base_url(settings),
        options.text,
        options.output,
        model=options.model,
        voice=options.voice,
        api_key=settings.client_api_key.get_secret_value(),
    )


if __name__ == "__main__":
    sys.exit(main())
