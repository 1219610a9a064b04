"""`build`: build the engine of a checkpoint that `convert` has made."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from engine.build import build_command
from engine.commands.specs import read_workplace, spec_options

if TYPE_CHECKING:
    import argparse


def add(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "build", parents=[spec_options()], help="build the engine of the checkpoint, on its GPU"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Build it, and print its folder."""
    place = read_workplace(options)
    if options.dry_run:
        print(shlex.join(build_command(place.spec, place.checkpoint, place.engine)))
    else:
        place.build()
        print(place.engine)
