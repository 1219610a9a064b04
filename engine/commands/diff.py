"""`diff`: say what differs between two model repositories."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.diff import differences

if TYPE_CHECKING:
    import argparse


def add(commands: Any) -> None:
    """Declare the command."""
    diff = commands.add_parser("diff", help="say what differs between two model repositories")
    diff.add_argument("old", type=Path, metavar="A")
    diff.add_argument("new", type=Path, metavar="B")
    diff.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print a line for each difference, nothing where there is none."""
    for line in differences(options.old, options.new):
        print(line)
