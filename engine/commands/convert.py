"""`convert`: make a TensorRT-LLM checkpoint of weights that are here."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from engine.commands.specs import read_workplace, spec_options
from engine.convert import convert_command

if TYPE_CHECKING:
    import argparse


def add(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "convert", parents=[spec_options()], help="make TensorRT-LLM's checkpoint of the weights"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Make it, and print its folder."""
    place = read_workplace(options)
    if options.dry_run:
        script = place.scripts.find(place.spec)
        print(shlex.join(convert_command(place.spec, place.llm, place.checkpoint, script)))
    else:
        place.convert()
        print(place.checkpoint)
