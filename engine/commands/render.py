"""`render`: write a model repository."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.commands.models import model_options, render_models
from engine.commands.values import address
from engine.site import Site

if TYPE_CHECKING:
    import argparse


def add(commands: Any) -> None:
    """Declare the command."""
    render = commands.add_parser(
        "render", parents=[model_options()], help="write a model repository"
    )
    render.add_argument("output", type=Path, help="the folder to write into")
    render.add_argument(
        "--triton-address",
        type=address,
        metavar="HOST:PORT",
        help=f"that server's gRPC, as spark_tts reaches its stages; default {Site.triton_address}",
    )
    render.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Write it, and print each model's folder."""
    render_models(options, options.triton_address, options.output)
