"""`diff`: say what differs between two model repositories."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.diff import differences

if TYPE_CHECKING:
    import argparse

DIFFERENT = 1


def add(commands: Any) -> None:
    """Declare the command."""
    diff = commands.add_parser("diff", help="say what differs between two model repositories")
    diff.add_argument("old", type=Path, metavar="A")
    diff.add_argument("new", type=Path, metavar="B")
    diff.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print a line for each difference; return DIFFERENT where there is one, else 0."""
    lines = differences(options.old, options.new)
    for line in lines:
        print(line)
    return DIFFERENT if lines else 0
