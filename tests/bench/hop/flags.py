"""Values of the tools' flags: what cannot be is said by argparse, in words."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def at_least(least: int) -> Callable[[str], int]:
    """Return what reads a whole number that is no less."""

    def read(text: str) -> int:
        if not text.strip().isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(
                f"{text!r} is given; whole numbers from {least} up are possible"
            )
        return int(text)

    return read


def several(text: str) -> tuple[int, ...]:
    """Read whole numbers from 1 up, with commas between them."""
    return tuple(map(at_least(1), text.split(",")))


def program(installed_by: str) -> Callable[[str], Path]:
    """Return what reads the path of a program that this target of make installs."""

    def read(text: str) -> Path:
        if not (Path(text).is_file() and os.access(text, os.X_OK)):
            raise argparse.ArgumentTypeError(
                f"there is no program {text!r}; make {installed_by} installs it"
            )
        return Path(text)

    return read
