"""The options of `serve` that say who may call Triton and how it is tuned."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from engine.access import Access, Tls, check_secret
from engine.commands.values import (
    cache_bytes,
    check_distinct,
    collector,
    positive,
    refuse_unused,
    resource,
    seconds,
    whole,
)
from engine.errors import EngineError
from engine.tuning import Tuning

if TYPE_CHECKING:
    import argparse

TLS_FILES = ("certificate", "key", "root", "client_root", "own_certificate", "own_key")
COUNT = re.compile(r":\d+")
"""In a resource, between its name and its device."""


def add_access_options(parser: argparse.ArgumentParser) -> None:
    """Declare what callers need."""
    group = parser.add_argument_group("callers", "all files are PEM; they are read at the start")
    for name, meaning in (
        ("certificate", "TLS: the server's certificate"),
        ("key", "its key"),
        ("root", "who signed it; default: it did itself"),
        ("client-root", "mutual TLS: only clients that this one signed are let in"),
        ("own-certificate", "mutual TLS: what models show to their own server; default: its own"),
        ("own-key", "its key"),
    ):
        group.add_argument(f"--tls-{name}", type=Path, metavar="FILE", help=meaning)
    group.add_argument("--tls-name", help=f"a name in the server's certificate ({Tls.name})")
    group.add_argument(
        "--secret-file",
        type=Path,
        metavar="FILE",
        help="its first line is needed by callers, in the header triton-grpc-protocol-speech",
    )
    group.add_argument(
        "--insecure",
        action="store_true",
        help="the network is private: whoever reaches the address may call, or listen",
    )


def read_access(options: argparse.Namespace) -> Access:
    """Return what the options say; raises EngineError for a file that is missing or half a pair."""
    files = {name: getattr(options, f"tls_{name}") for name in TLS_FILES}
    for path in files.values():
        if path is not None and not path.is_file():
            raise EngineError(f"{path} is no file that can be read")
    if files["own_certificate"] and files["own_key"] and not files["client_root"]:
        reason = "models show it under mutual TLS alone; add --tls-client-root, or leave it out"
        refuse_unused(options, ["tls_own_certificate"], reason)
    for certificate, key in (("certificate", "key"), ("own_certificate", "own_key")):
        if (files[certificate] is None) != (files[key] is None):
            raise EngineError(
                f"--tls-{certificate} and --tls-{key} belong together".replace("_", "-")
            )
    if files["certificate"] is None and (any(files.values()) or options.tls_name is not None):
        raise EngineError("without --tls-certificate and --tls-key there is no TLS")
    name = Tls.name if options.tls_name is None else options.tls_name
    tls = Tls(**files, name=name) if files["certificate"] else None
    return Access(tls, read_secret(options.secret_file))


def read_secret(path: Path | None) -> str | None:
    """Return the first line of a file, None without one; raises EngineError for no secret."""
    if path is None:
        return None
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except ValueError as error:
        raise EngineError(f"{path} is no text: its first line is the secret") from error
    secret = lines[0].strip() if lines else ""
    if not secret:
        raise EngineError(f"the first line of {path} is empty, and it should be the secret")
    try:
        check_secret(secret)
    except EngineError as error:
        raise EngineError(f"--secret-file {path}: {error}") from error
    return secret


def add_tuning_options(parser: argparse.ArgumentParser) -> None:
    """Declare how Triton is tuned."""
    group = parser.add_argument_group("tuning", "times are in seconds")
    for name, default, meaning in (
        ("keepalive", Tuning.keepalive_seconds, "how often a silent client is asked (7200)"),
        ("keepalive-timeout", None, "how long it may take to answer (20)"),
        ("ping-interval", Tuning.ping_interval_seconds, "how often a client may ask (10)"),
        ("metrics-interval", Tuning.metrics_interval_seconds, "how old GPU figures may be (2)"),
    ):
        group.add_argument(f"--{name}", type=seconds, default=default, help=meaning)
    group.add_argument(
        "--keepalive-without-calls", action="store_true", help="also while nothing is asked for"
    )
    group.add_argument(
        "--exit-timeout",
        type=whole,
        default=Tuning.exit_seconds,
        help="how long what is in flight may take at the end (%(default)s)",
    )
    group.add_argument(
        "--trace-url", type=collector, metavar="URL", help="traces, as OTLP over HTTP (Triton 2.57)"
    )
    group.add_argument(
        "--trace-rate",
        type=positive,
        help="one request in so many is traced, and all that bring a trace along "
        f"({Tuning.trace_rate})",
    )
    group.add_argument(
        "--cache-bytes",
        type=cache_bytes,
        help="response cache, for models of your own that ask for it",
    )
    group.add_argument(
        "--rate-limit",
        type=resource,
        action="append",
        default=[],
        metavar="NAME:COUNT",
        help="a resource that models of your own share (repeatable)",
    )


def read_tuning(options: argparse.Namespace) -> Tuning:
    """Return what the options say; raises EngineError for one that would change nothing."""
    if options.trace_url is None:
        refuse_unused(options, ["trace_rate"], "nothing is traced; add --trace-url")
    resources = [COUNT.sub("", limit, count=1) for limit in options.rate_limit]
    check_distinct("--rate-limit", resources)
    return Tuning(
        keepalive_seconds=options.keepalive,
        keepalive_timeout_seconds=options.keepalive_timeout,
        keepalive_without_calls=options.keepalive_without_calls,
        ping_interval_seconds=options.ping_interval,
        trace_url=options.trace_url,
        trace_rate=options.trace_rate or Tuning.trace_rate,
        cache_bytes=options.cache_bytes,
        rate_limits=tuple(options.rate_limit),
        metrics_interval_seconds=options.metrics_interval,
        exit_seconds=options.exit_timeout,
    )
