"""The flags of `speech-gateway bench`; light, since every command's parser reads them."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

from gateway.addresses import check_no_secret, split_address

LADDER = (1, 2, 4, 8, 16, 26)
DEFAULTS: dict[str, Any] = {
    "format": "pcm",
    "field": (),
    "texts": "en",
    "concurrency": LADDER,
    "seed": 0,
    "cancel_rate": 0.0,
    "cancel_within": 2.0,
    "slow_rate": 0.0,
    "slow_bytes": 16_000.0,
    "timeout": 120.0,
    "buffer": 0.2,
    "audible": -50.0,
}
"""The parser knows none of them, so that a flag which says the default is seen to be given."""
EPILOG = """\
TARGET is the base URL of any OpenAI speech server (default: the local service), or
grpc://HOST:PORT of a Triton. `bench compare A B` compares the folders of two runs.
"""


def add_bench(commands: Any) -> argparse.ArgumentParser:
    """Add the command and return its parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "bench", help="measure a speech server under load", epilog=EPILOG
    )
    parser.add_argument("target", nargs="*", metavar="TARGET", help="what to measure (below)")
    parser.add_argument("--calibrate", action="store_true", help="prove the tool on this machine")
    _add_speech(parser.add_argument_group("what is asked for"))
    _add_load(parser.add_argument_group("load"))
    _add_listeners(parser.add_argument_group("listeners"))
    _add_results(parser.add_argument_group("results"))
    parser.set_defaults(unsaid=vars(parser.parse_args([])))
    return parser


def given(options: argparse.Namespace) -> list[str]:
    """Return the names of what the command line says, be it the default."""
    return [name for name, value in options.unsaid.items() if getattr(options, name) != value]


def with_defaults(options: argparse.Namespace) -> argparse.Namespace:
    """Return the options with the default of each that is not given."""
    chosen = {name: value for name, value in vars(options).items() if value is not None}
    return argparse.Namespace(**{**vars(options), **DEFAULTS, **chosen})


def _add_speech(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--model", help="default: the server's first")
    group.add_argument("--voice", help="default: the model's first")
    group.add_argument("--format", help=f"pcm, wav, mp3, opus, aac or flac ({DEFAULTS['format']})")
    group.add_argument(
        "--field",
        action="append",
        metavar="NAME=JSON",
        help="a further field of the body, such as seed=1; may be repeated",
    )
    group.add_argument(
        "--api-key",
        dest="client_api_key",
        metavar="KEY",
        help="better set SPEECH_CLIENT_API_KEY: others see your flags",
    )
    texts = group.add_mutually_exclusive_group()
    texts.add_argument(
        "--texts", choices=("en", "zh"), help=f"built-in sentences ({DEFAULTS['texts']})"
    )
    texts.add_argument("--text-file", type=Path, metavar="FILE", help="a text on each line")
    texts.add_argument(
        "--manifest", type=Path, metavar="FILE", help="lines of id|prompt_text|prompt_wav|text"
    )
    texts.add_argument(
        "--dataset",
        metavar="NAME[:SPLIT]",
        help="of Hugging Face, with id, prompt_text, prompt_audio, target_text",
    )


def _add_load(group: argparse._ArgumentGroup) -> None:
    loads = group.add_mutually_exclusive_group()
    loads.add_argument(
        "--concurrency",
        type=_integers,
        metavar="N,…",
        help="closed loop, a level for each ({})".format(",".join(map(str, LADDER))),
    )
    loads.add_argument(
        "--rate",
        type=_numbers,
        metavar="R,…",
        help="open loop, a level for each: Poisson arrivals a second, however slow the answers",
    )
    group.add_argument(
        "--requests",
        type=_integer,
        metavar="N",
        help="requests of each level (closed: 4 for each client, at least 20)",
    )
    group.add_argument(
        "--duration",
        type=_number,
        metavar="SECONDS",
        help="no request begins later in its level (open: 60)",
    )
    group.add_argument(
        "--warm-up", type=_count, metavar="N", help="discarded before each level (N clients)"
    )
    group.add_argument(
        "--seed", type=_count, help=f"of all that is random ({DEFAULTS['seed']})", metavar="N"
    )


def _add_listeners(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--cancel-rate", type=_share, metavar="SHARE", help="part that hangs up (0)")
    group.add_argument(
        "--cancel-within",
        type=_number,
        metavar="SECONDS",
        help=f"after the request, at a random moment ({DEFAULTS['cancel_within']:g})",
    )
    group.add_argument(
        "--slow-rate", type=_share, metavar="SHARE", help="part that reads slowly (0)"
    )
    group.add_argument(
        "--slow-bytes",
        type=_number,
        metavar="BYTES",
        help=f"that those read in a second ({DEFAULTS['slow_bytes']:g})",
    )
    group.add_argument(
        "--timeout",
        type=_number,
        metavar="SECONDS",
        help=f"patience ({DEFAULTS['timeout']:g})",
    )
    group.add_argument(
        "--buffer",
        type=_number,
        metavar="SECONDS",
        help=f"a player begins so long after the first audio ({DEFAULTS['buffer']:g})",
    )
    group.add_argument(
        "--audible",
        type=_level,
        metavar="DBFS",
        help=f"level from which a sample is heard ({DEFAULTS['audible']:g})",
    )


def _add_results(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--triton",
        type=_address,
        metavar="HOST:PORT",
        help="Triton's gRPC, to report its statistics too",
    )
    group.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="default: bench-DATE-TIME, here"
    )
    group.add_argument("--save-audio", action="store_true", help="keep what was heard, as wav")


def _address(text: str) -> str:
    try:
        check_no_secret(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    try:
        split_address(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} {error}") from error
    return text


def _integers(text: str) -> tuple[int, ...]:
    return tuple(_integer(part) for part in text.split(","))


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(_number(part) for part in text.split(","))


def _integer(text: str) -> int:
    if not text.strip().isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is given; whole numbers from 1 up are possible")
    return int(text)


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is given; whole numbers from 0 up are possible")
    return int(text)


def _number(text: str) -> float:
    value = _float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is given; numbers above 0 are possible")
    return value


def _share(text: str) -> float:
    value = _float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is given; 0 to 1 is possible")
    return value


def _level(text: str) -> float:
    value = _float(text)
    if not math.isfinite(value) or value > 0:
        raise argparse.ArgumentTypeError(f"{text!r} is given; levels up to 0 dBFS are possible")
    return value


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
