"""Command line of the engine: prepares Triton's models, and runs a Triton on them."""

from __future__ import annotations

import argparse
import logging
import re
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from engine import quiet_grpc  # noqa: F401  before whatever else imports gRPC
from engine.commands import (
    all_steps,
    build,
    certs,
    convert,
    diff,
    download,
    fixture,
    ready,
    render,
    serve,
    verify,
)
from engine.errors import SERVER_DIED, EngineError, ServerDiedError, in_words
from engine.tool import KILLED_BY_SIGNAL, ToolError

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = (all_steps, download, convert, build, render, diff, serve, ready, verify, fixture, certs)

EMPTY = re.compile(r"--[\w-]+=")
"""An option whose value is a variable that was not set, most often."""

FAILED = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code.

    0, 1 (could not start; two repositories differ), 3 (the server died while serving), or that of
    the tool that failed.
    """
    parser = argparse.ArgumentParser("speech-engine", description="Prepare and run Triton.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="of_command")
    for command in COMMANDS:
        command.add(commands)
    words = sys.argv[1:] if arguments is None else arguments
    options, unknown = parser.parse_known_args(words)
    if unknown:
        # With the usage of the command: argparse's own error has that of all.
        commands.choices[options.of_command].error(f"unrecognized arguments: {' '.join(unknown)}")
    if empty := [word for word in words if not word or EMPTY.fullmatch(word)]:
        what = f"{empty[0]}''" if empty[0] else f"'', after {words[words.index('') - 1]!r}"
        parser.error(f"a value is empty ({what}): give one, or leave the option out")
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    try:
        return options.run(options) or 0
    except ServerDiedError as error:
        print(f"error: {error}", file=sys.stderr)
        return SERVER_DIED
    except ToolError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except EngineError as error:
        print(f"error: {error}", file=sys.stderr)
        return FAILED
    except OSError as error:
        print(f"error: {_option_of(error, options)}{in_words(error)}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return KILLED_BY_SIGNAL + signal.SIGINT


def _option_of(error: OSError, options: argparse.Namespace) -> str:
    """Return the option that named the file, "" where none did."""
    paths = {str(path): name for name, path in vars(options).items() if isinstance(path, Path)}
    name = paths.get(str(error.filename), "")
    return f"--{name.replace('_', '-')}: " if name.endswith("_file") else ""


if __name__ == "__main__":
    sys.exit(main())
