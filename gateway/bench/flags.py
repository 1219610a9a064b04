"""What the flags of `speech-gateway bench` say together: the body's fields, and what has no use."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gateway.addresses import check_no_secret, check_url, split_address
from gateway.bench.options import given
from gateway.bench.requests import BenchError

if TYPE_CHECKING:
    import argparse

GRPC = "grpc://"
FLAGS = {"client_api_key": "--api-key", "target": "TARGET"}
"""Those that are not called as their option."""
OWN_FLAGS = {
    "model": "--model",
    "voice": "--voice",
    "response_format": "--format",
    "input": "--texts, --text-file, --manifest or --dataset",
}
"""What says a field of the body that no --field may say."""


def check_used(options: argparse.Namespace) -> None:
    """Raise BenchError for a flag that would change nothing, or a TARGET that is none."""
    for target in options.target if options.target[:1] != ["compare"] else ():
        _check_target(target)
    is_grpc = options.target[:1] and options.target[0].startswith(GRPC)
    unused = {
        "cancel_within": "nobody hangs up; add --cancel-rate, or"
        if not options.cancel_rate
        else "",
        "slow_bytes": "nobody reads slowly; add --slow-rate, or" if not options.slow_rate else "",
        "field": "a grpc:// target has no body;" if is_grpc else "",
        "client_api_key": "a grpc:// target asks for no key;" if is_grpc else "",
    }
    for name in given(options):
        reason = unused.get(name, "")
        if options.calibrate and name != "calibrate":
            reason = "--calibrate measures this tool, with a load of its own;"
        elif options.target[:1] == ["compare"] and name not in ("calibrate", "target"):
            reason = "compare reads what two runs have left;"
        if reason:
            shown = FLAGS.get(name, f"--{name.replace('_', '-')}")
            raise BenchError(f"{shown} has no effect: {reason} leave it out")


def _check_target(target: str) -> None:
    try:
        if not target.startswith(GRPC):
            check_url(target)
            return
        check_no_secret(target)
    except ValueError as error:
        raise BenchError(f"TARGET: {error}") from error
    try:
        split_address(target.removeprefix(GRPC))
    except ValueError as error:
        raise BenchError(f"TARGET {target!r}: {error}") from error


def body_fields(options: argparse.Namespace) -> dict[str, Any]:
    """Return the fields that --field adds to a body; raises BenchError for one said twice."""
    fields: dict[str, Any] = {}
    for name, value in map(_field, options.field):
        if name in OWN_FLAGS or name in fields:
            other = OWN_FLAGS.get(name, "another --field")
            raise BenchError(f"--field {name}: {other} says that already; give it once")
        fields[name] = value
    return fields


def _field(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    try:
        if name.strip():
            return name, json.loads(value)
    except json.JSONDecodeError:
        pass
    raise BenchError(f"--field {text}: NAME=JSON is right, such as seed=1")
