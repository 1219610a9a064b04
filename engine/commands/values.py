"""Values of options, read strictly: each says what it was given and what it takes."""

from __future__ import annotations

import argparse
import math
import re
from typing import TYPE_CHECKING

from engine.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

RESOURCE = re.compile(r"[^:\s]+:\d+(:\d+)?")
DEVICE = re.compile(r"cpu|cuda(:\d+)?")
ADDRESS = re.compile(r"(?:\[[0-9A-Fa-f:.]+(?:%\w+)?\]|[\w.-]+):(\d{1,5})", re.ASCII)
COLLECTOR = re.compile(r"https?://[^/\s?#]+(/\S*)?")


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
