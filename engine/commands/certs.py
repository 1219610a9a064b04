"""`certs`: make an authority, and with it the pairs of Triton and the gateway."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import EngineError

if TYPE_CHECKING:
    import argparse


def add(commands: Any) -> None:
    """Declare the command."""
    certs = commands.add_parser(
        "certs", help="make a certificate authority, and with it pairs for Triton and the gateway"
    )
    certs.add_argument("folder", type=Path, metavar="DIR", help="the folder to write into")
    certs.add_argument(
        "--name",
        action="append",
        metavar="HOST",
        help="a name or IP address of Triton (repeatable); default triton.internal and "
        "localhost's, with --rotate those that it had",
    )
    certs.add_argument(
        "--rotate", action="store_true", help="replace both pairs, by the authority that is there"
    )
    certs.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Write them, and print which file belongs where."""
    try:
        from engine import certs  # noqa: PLC0415  an optional extra
    except ImportError as error:
        raise EngineError(
            f"certificates are made with {error.name}: pip install 'speech-gateway[certs]'"
        ) from error
    now = datetime.now(timezone.utc)
    if options.rotate:
        certs.rotate(options.folder, options.name, now)
    else:
        certs.make(options.folder, options.name or certs.DEFAULT_NAMES, now)
    print(
        f"{options.folder}: for Triton server.pem, server-key.pem, ca.pem; for the gateway "
        "client.pem, client-key.pem, ca.pem; ca-key.pem is needed for new pairs alone: keep it "
        "elsewhere"
    )
