"""Command line of the engine: `render` writes a model repository, `serve` runs a Triton on it.

`fixture` writes a checkpoint of random weights to try it all without the real ones.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine import runs
from engine.catalogue import DEFAULT_MODEL, MODELS, find_specs
from engine.errors import EngineError, ServerDiedError
from engine.installation import find_installation
from engine.render import model_source, render_model
from engine.server import Listen, TritonServer
from engine.site import Site
from engine.spark import TRANSFORMERS
from engine.supervisor import Patience, Supervisor

if TYPE_CHECKING:
    from collections.abc import Sequence

log = logging.getLogger(__name__)

FAILED = 1
SERVER_DIED = 3
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return 0, 1 (could not start) or 3 (the server died while serving)."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    try:
        options.run(options)
    except ServerDiedError as error:
        print(f"error: {error}", file=sys.stderr)
        return SERVER_DIED
    except (EngineError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return FAILED
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("speech-engine", description="Prepare and run Triton.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    models = _model_options()
    render = commands.add_parser("render", parents=[models], help="write a model repository")
    render.add_argument("output", type=Path, help="the folder to write into")
    render.add_argument(
        "--triton-address",
        default=Site.triton_address,
        metavar="HOST:PORT",
        help="that server's gRPC, as its own models reach it (%(default)s)",
    )
    render.set_defaults(run=_render)
    serve = commands.add_parser("serve", parents=[models], help="run Triton and watch over it")
    serve.add_argument("--repository", type=Path, help="a repository that is rendered already")
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    serve.add_argument("--grpc-port", type=_port, default=8001, help="default %(default)s")
    serve.add_argument("--metrics-port", type=_port, default=8002, help="default %(default)s")
    for name, default, meaning in (
        ("--start-timeout", Patience.start_seconds, "until ready"),
        ("--probe-every", Patience.probe_every_seconds, "between two words really spoken"),
        ("--probe-timeout", Patience.probe_seconds, "that such a word may take"),
    ):
        serve.add_argument(
            name, type=float, default=default, help=f"seconds {meaning} ({default:g})"
        )
    serve.set_defaults(run=_serve)
    _add_fixture(commands)
    return parser


def _add_fixture(commands: Any) -> None:
    fixture = commands.add_parser(
        "fixture", help="write a checkpoint of random weights in the layout of Spark-TTS-0.5B"
    )
    fixture.add_argument("output", type=Path, metavar="DIR", help="the folder to write into")
    size = fixture.add_mutually_exclusive_group(required=True)
    for name, meaning in (("tiny", "few and narrow layers, 32 MB"), ("full", "real sizes, 4 GB")):
        size.add_argument(f"--{name}", dest="size", action="store_const", const=name, help=meaning)
    fixture.add_argument("--seed", type=int, default=0, help="default %(default)s")
    fixture.set_defaults(run=_fixture)


def _model_options() -> argparse.ArgumentParser:
    models = argparse.ArgumentParser(add_help=False)
    models.add_argument(
        "--model",
        action="append",
        help=f"a model to serve (repeatable): {', '.join(MODELS)}; default {DEFAULT_MODEL}",
    )
    models.add_argument("--model-dir", type=Path, help="the checkpoint of spark_tts")
    models.add_argument(
        "--llm",
        default=Site.llm,
        metavar="NAME",
        help=f"{TRANSFORMERS}, or a model of the repository with tensorrt_llm's tensors",
    )
    models.add_argument(
        "--max-sequence-tokens",
        type=int,
        default=Site.max_sequence_tokens,
        help="the longest prompt and output together that this one takes (%(default)s)",
    )
    models.add_argument("--device", default=Site.device, help="torch's name (%(default)s)")
    models.add_argument("--dtype", default=Site.dtype, help="torch's name (%(default)s)")
    return models


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 2**16:
        raise argparse.ArgumentTypeError(f"{text!r} is no port; 1 to 65535 are")
    return int(text)


def _render(options: argparse.Namespace) -> None:
    _render_all(options, options.triton_address, options.output)


def _render_all(options: argparse.Namespace, triton_address: str, repository: Path) -> list[str]:
    """Render what the options name, and print each model's folder; return the models' names."""
    site = Site(
        options.model_dir,
        options.llm,
        triton_address,
        options.max_sequence_tokens,
        options.device,
        options.dtype,
    )
    specs = [spec for name in options.model or [DEFAULT_MODEL] for spec in find_specs(name, site)]
    for spec in specs:
        print(render_model(spec, model_source(spec.name), repository))
    return [spec.name for spec in specs]


def _fixture(options: argparse.Namespace) -> None:
    try:
        from engine.fixture import write_checkpoint  # noqa: PLC0415  an optional extra
    except ImportError as error:
        raise EngineError(
            f"a checkpoint is written with {error.name}: pip install 'speech-gateway[spark]'"
        ) from error
    size_bytes = write_checkpoint(options.output, options.size, options.seed)
    print(f"{options.output}: {size_bytes / 1e6:,.0f} MB")


class _Stop(BaseException):
    """Raised in the main thread by SIGINT and SIGTERM, wherever it waits."""


def _serve(options: argparse.Namespace) -> None:
    for number in STOP_SIGNALS:
        signal.signal(number, _raise_stop)
    if stale := runs.remove_stale():
        log.warning("engine.stale_run_removed prefixes=%s", ",".join(stale))
    runs.check_free()
    listen = Listen(options.host, options.grpc_port, options.metrics_port)
    with closing(runs.Run()) as run:
        server = _server(options, run.folder, listen, run.region_prefix)
        try:
            patience = Patience(options.start_timeout, options.probe_every, options.probe_timeout)
            supervisor = Supervisor(server, patience)
            supervisor.start()
            log.info(
                "engine.ready grpc=%s models=%s",
                listen.local(listen.grpc_port),
                ",".join(server.models),
            )
            supervisor.run()
        except _Stop:
            log.info("engine.stopping")
        finally:
            for number in STOP_SIGNALS:
                signal.signal(number, signal.SIG_IGN)
            server.stop()


def _raise_stop(*_: object) -> None:
    raise _Stop


def _server(
    options: argparse.Namespace, work: Path, listen: Listen, region_prefix: str
) -> TritonServer:
    installation = find_installation(work)
    if options.repository is not None:
        repository = options.repository
        models = options.model or sorted(p.parent.name for p in repository.glob("*/config.pbtxt"))
    else:
        repository = work / "repository"
        models = _render_all(options, listen.local(listen.grpc_port), repository)
    return TritonServer(installation, repository, models, listen, region_prefix)


if __name__ == "__main__":
    sys.exit(main())
