"""`verify`: look at a Triton from outside, and have its models speak a sentence."""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.access import CALLERS, HEADER, is_private
from engine.commands.server import read_secret
from engine.commands.values import address, check_distinct, seconds
from engine.errors import EngineError
from engine.tls_files import read_part
from engine.verify import Verifier
from speech_wire import LoopbackAccess
from speech_wire.certificates import CertificateError, Pair, check_authority, check_pair

if TYPE_CHECKING:
    from engine.verify import Verdict


HEADER_NAME = re.compile(r"[0-9a-z_.-]+")


def add(commands: Any) -> None:
    """Declare the command."""
    verify = commands.add_parser(
        "verify", help="look at a running Triton and have its models speak a sentence"
    )
    verify.add_argument("address", type=address, metavar="HOST:PORT", help="its gRPC")
    verify.add_argument("--model", action="append", help="repeatable; default: all that speak")
    verify.add_argument("--json", action="store_true", help="print JSON, a line for each model")
    verify.add_argument(
        "--timeout", type=seconds, default=60.0, help="seconds for the sentence (60)"
    )
    verify.add_argument("--seed", type=_seed, help="says the same each time; default: by chance")
    verify.add_argument("--tls", action="store_true", help="TLS, by an authority of the system's")
    verify.add_argument("--tls-root", metavar="FILE", help="TLS, by this authority (PEM)")
    verify.add_argument("--tls-certificate", metavar="FILE", help="mutual TLS: what is shown")
    verify.add_argument("--tls-key", metavar="FILE", help="its key")
    verify.add_argument("--tls-name", help="the name in the server's certificate, if another one")
    verify.add_argument("--secret-file", type=Path, metavar="FILE", help="what callers need")
    verify.add_argument(
        "--headers-file",
        type=Path,
        metavar="FILE",
        help="name=value, a line each: a proxy's tokens",
    )
    verify.set_defaults(run=run)


def _seed(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**64:
        raise argparse.ArgumentTypeError(f"{text!r} is no seed; 0 to 2^64 - 1 are")
    return int(text)


def run(options: argparse.Namespace) -> None:
    """Print what was found; raises EngineError where anything is wrong."""
    check_distinct("--model", options.model or ())
    verifier = Verifier(options.address, _access(options), options.timeout)
    models = options.model or verifier.speech_models()
    verdicts = [verifier.verify(model, options.seed) for model in models]
    for verdict in verdicts:
        print(_as_json(verdict) if options.json else _as_text(verdict))
    if failed := [verdict.model for verdict in verdicts if not verdict.passed]:
        raise EngineError(f"not as it should be: {', '.join(failed)}")


def _access(options: argparse.Namespace) -> LoopbackAccess:
    if options.tls and options.tls_root:
        raise EngineError(
            "--tls has no effect: --tls-root names the authority that counts, and --tls is for the "
            "system's; leave one of them out"
        )
    root = options.tls_root or ("" if options.tls else None)
    if root is None and (options.tls_certificate or options.tls_key or options.tls_name):
        raise EngineError("without --tls or --tls-root there is no TLS")
    if (options.tls_certificate is None) != (options.tls_key is None):
        raise EngineError("--tls-certificate and --tls-key belong together")
    _check_files(options)
    secret = read_secret(options.secret_file)
    headers = read_headers(options.headers_file)
    if secret is not None:
        check_distinct("--secret-file, beside --headers-file,", [*headers, f"{HEADER}{CALLERS}"])
        headers[f"{HEADER}{CALLERS}"] = secret
    host = options.address.rpartition(":")[0].strip("[]")
    if root is None and headers and not is_private(host):
        raise EngineError(
            f"others can read what goes to {host} without TLS, and the secret would: give --tls or "
            "--tls-root"
        )
    return LoopbackAccess(root, options.tls_certificate, options.tls_key, options.tls_name, headers)


def _check_files(options: argparse.Namespace) -> None:
    try:
        if options.tls_root is not None:
            check_authority(read_part("--tls-root", Path(options.tls_root)))
        if options.tls_certificate is not None:
            shown = read_part("--tls-certificate", Path(options.tls_certificate))
            check_pair(Pair("client", shown, read_part("--tls-key", Path(options.tls_key))))
    except CertificateError as error:
        raise EngineError(str(error)) from error


def read_headers(path: Path | None) -> dict[str, str]:
    """Return the headers that a file names; raises EngineError for a line that names none."""
    headers: dict[str, str] = {}
    for number, line in enumerate(_lines(path), 1):
        name, is_there, value = line.strip().partition("=")
        where = f"{path}, line {number}"
        if not is_there or not HEADER_NAME.fullmatch(name):
            raise EngineError(
                f"{where}: must be name=value, the name of a-z, 0-9, _, . and - as gRPC has it"
            )
        if name.endswith("-bin"):
            raise EngineError(
                f"{where}: {name} is for bytes, and a line is text; take another name"
            )
        if not (value.isascii() and value.isprintable()):
            raise EngineError(
                f"{where}: {name} has characters that no header can carry; printable ASCII it can"
            )
        if name in headers:
            raise EngineError(f"{where}: {name} is there twice; give it once")
        headers[name] = value
    return headers


def _lines(path: Path | None) -> list[str]:
    try:
        return [] if path is None else path.read_text(encoding="utf-8").splitlines()
    except ValueError as error:
        raise EngineError(
            f"--headers-file {path} is no text; it has name=value, a line each"
        ) from (error)


def _as_json(verdict: Verdict) -> str:
    return json.dumps(asdict(verdict) | {"passed": verdict.passed})


def _as_text(verdict: Verdict) -> str:
    figures = verdict.figures
    timing = "  no audio came, so there are no times"
    if "first_audio_seconds" in figures:
        timing = (
            f"  first audio after {figures['first_audio_seconds']:.3f} s, all after "
            f"{figures['total_seconds']:.3f} s, {figures['real_time_factor']:.3f} of its length"
        )
    lines = [
        f"{verdict.model} at {verdict.address}, Triton {verdict.triton}",
        *(f"  {'ok ' if c.passed else 'BAD'} {c.name}: {c.found}" for c in verdict.checks),
        timing,
    ]
    return "\n".join(lines)
