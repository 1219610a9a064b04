"""Values of options, read strictly: each says what it was given and what it takes."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

from engine.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

INT_MAX = 2**31 - 1
"""Of the whole numbers that Triton reads; to greater ones it answers with all of its help."""
LEAST_SECONDS = 0.001
MOST_SECONDS = INT_MAX // 1000
LEAST_CACHE_BYTES = 1024
"""Triton 2.51 starts with so small a cache, and not with one of 1 byte."""
MOST_CACHE_BYTES = 2**47 - 1
"""More a process cannot address."""
RESOURCE = re.compile(r"[^:\s]+:\d{1,10}(:\d{1,10})?", re.ASCII)
DEVICE = re.compile(r"cpu|cuda(:\d+)?")
ADDRESS = re.compile(r"(?:\[[0-9A-Fa-f:.]+(?:%\w+)?\]|[\w.-]+):(\d{1,5})", re.ASCII)
COLLECTOR = re.compile(r"https?://[^/\s?#]+(/\S*)?")


def seconds(text: str) -> float:
    """Return seconds that Triton can read as milliseconds: 0.001 to 2147483 (24 days)."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not LEAST_SECONDS <= value <= MOST_SECONDS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no number of seconds from {LEAST_SECONDS:g} to {MOST_SECONDS}"
        )
    return value


def share(text: str) -> float:
    """Return a number from 0 to 1, both of them included."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 to 1")
    return value


def positive(text: str) -> int:
    """Return a whole number from 1 to 2147483647."""
    return _counted(text, 1, INT_MAX, "whole number")


def whole(text: str) -> int:
    """Return a whole number from 0 to 2147483647."""
    return _counted(text, 0, INT_MAX, "whole number")


def cache_bytes(text: str) -> int:
    """Return the size of a response cache, 1024 to 140737488355327 bytes."""
    return _counted(text, LEAST_CACHE_BYTES, MOST_CACHE_BYTES, "number of bytes")


def _counted(text: str, least: int, most: int, kind: str) -> int:
    # What has more digits than that Python may refuse to read.
    is_read = text.isdecimal() and len(text.lstrip("0")) <= len(str(most))
    if not is_read or not least <= int(text) <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is no {kind} from {least} to {most}")
    return int(text)


def resource(text: str) -> str:
    """Return a resource of Triton's rate limiter."""
    numbers = text.split(":")[1:]
    if not RESOURCE.fullmatch(text) or any(int(number) > INT_MAX for number in numbers):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no NAME:COUNT or NAME:COUNT:DEVICE, both from 0 to {INT_MAX}"
        )
    return text


def port(text: str) -> int:
    """Return a port that can be listened on."""
    if not text.isdecimal() or not 0 < int(text) < 2**16:
        raise argparse.ArgumentTypeError(f"{text!r} is no port; 1 to 65535 are")
    return int(text)


def address(text: str) -> str:
    """Return HOST:PORT, with brackets around an IPv6 address."""
    found = ADDRESS.fullmatch(text)
    if not found or not 0 < int(found[1]) < 2**16:
        raise argparse.ArgumentTypeError(
            f"{text!r} must be HOST:PORT, without a scheme, the port from 1 to 65535"
        )
    return text


def device(text: str) -> str:
    """Return a device that torch computes on here."""
    if not DEVICE.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no device; cpu, cuda and cuda:NUMBER are")
    return text


def collector(text: str) -> str:
    """Return the URL of an OTLP collector."""
    if not COLLECTOR.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no URL of a collector, such as http://collector:4318/v1/traces"
        )
    return text


def refuse_unused(options: argparse.Namespace, names: Iterable[str], reason: str) -> None:
    """Raise EngineError for the first of these that was given; None stands for one that was not."""
    for name in names:
        if (value := getattr(options, name, None)) is not None:
            shown = "" if value is True or isinstance(value, list) else f" {value}"
            raise EngineError(f"--{name.replace('_', '-')}{shown} has no effect: {reason}")


def check_distinct(option: str, names: Sequence[str]) -> None:
    """Raise EngineError for a name that the option was given twice."""
    for name in names:
        if names.count(name) > 1:
            raise EngineError(f"{option} names '{name}' twice; give it once")
