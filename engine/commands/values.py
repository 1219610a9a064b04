"""Values of options, read strictly: each says what it was given and what it takes."""

from __future__ import annotations

import argparse
import math
import re

RESOURCE = re.compile(r"[^:\s]+:\d+(:\d+)?")


def seconds(text: str) -> float:
    """Return a time above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return value


def positive(text: str) -> int:
    """Return a whole number from 1 up."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 up")
    return int(text)


def whole(text: str) -> int:
    """Return a whole number from 0 up."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 0 up")
    return int(text)


def resource(text: str) -> str:
    """Return a resource of Triton's rate limiter."""
    if not RESOURCE.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no NAME:COUNT or NAME:COUNT:DEVICE")
    return text
