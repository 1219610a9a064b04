"""`fixture`: write a checkpoint of random weights, to try it all without the real ones."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from engine.commands.values import whole
from engine.errors import EngineError


def add(commands: Any) -> None:
    """Declare the command."""
    fixture = commands.add_parser(
        "fixture", help="write a checkpoint of random weights in the layout of Spark-TTS-0.5B"
    )
    fixture.add_argument("output", type=Path, metavar="DIR", help="the folder to write into")
    size = fixture.add_mutually_exclusive_group(required=True)
    for name, meaning in (("tiny", "few and narrow layers, 32 MB"), ("full", "real sizes, 4 GB")):
        size.add_argument(f"--{name}", dest="size", action="store_const", const=name, help=meaning)
    fixture.add_argument("--seed", type=whole, default=0, help="default %(default)s")
    fixture.add_argument(
        "--speech-seconds",
        type=_speech_seconds,
        metavar="SECONDS",
        help="how long it speaks on average (2.56): 0.32 to 20.48, in steps of 0.32",
    )
    fixture.set_defaults(run=run)


def _speech_seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no number of seconds; 0.32 to 20.48 are, in steps of 0.32"
        ) from None


def run(options: argparse.Namespace) -> None:
    """Write it, and print its size."""
    try:
        from engine.fixture import SPEECH_SECONDS, write_checkpoint  # noqa: PLC0415  an extra
    except ImportError as error:
        raise EngineError(
            f"a checkpoint is written with {error.name}: pip install 'speech-gateway[spark]'"
        ) from error
    given = options.speech_seconds
    seconds = SPEECH_SECONDS if given is None else given
    size_bytes = write_checkpoint(options.output, options.size, options.seed, seconds)
    print(f"{options.output}: {size_bytes / 1e6:,.0f} MB")
