"""`serve`: run Triton on a repository, rendered for it or given, and watch over it."""

from __future__ import annotations

import logging
import signal
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine import runs
from engine.access import is_loopback
from engine.commands.models import given_site_options, model_options, render_models
from engine.commands.server import (
    add_access_options,
    add_tuning_options,
    read_access,
    read_tuning,
)
from engine.commands.values import check_distinct, port, refuse_unused, seconds
from engine.errors import EngineError
from engine.fits import check_checkpoints, check_engines, check_sources
from engine.installation import BUNDLED, IMAGE, check_own_stubs, find_installation
from engine.mps import multi_process_service
from engine.packages import check_packages
from engine.render import rendered_models
from engine.server import Conduct, Listen, TritonServer
from engine.site import Site
from engine.supervisor import Patience, Supervisor

if TYPE_CHECKING:
    import argparse

log = logging.getLogger(__name__)

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def add(commands: Any) -> None:
    """Declare the command."""
    serve = commands.add_parser(
        "serve", parents=[model_options()], help="run Triton and watch over it"
    )
    serve.add_argument(
        "--repository",
        type=Path,
        help="a repository that is rendered already; all of its models, or those of --model",
    )
    serve.add_argument(
        "--installation",
        metavar="DIR",
        help=f"the folder of a tritonserver, or {BUNDLED}; default: on PATH, {IMAGE}, {BUNDLED}",
    )
    serve.add_argument("--host", default="127.0.0.1", help="gRPC's address (%(default)s)")
    serve.add_argument("--grpc-port", type=port, default=8001, help="default %(default)s")
    serve.add_argument(
        "--metrics-host", default=Listen.metrics_host, help="the metrics' address (%(default)s)"
    )
    serve.add_argument("--metrics-port", type=port, default=8002, help="default %(default)s")
    add_access_options(serve)
    add_tuning_options(serve)
    serve.add_argument(
        "--mps",
        action="store_true",
        default=None,
        help="have the models' processes compute on the GPU at once, not in turns: begin CUDA's "
        "Multi-Process Service beside Triton",
    )
    for name, default, meaning in (
        ("--start-timeout", Patience.start_seconds, "until ready"),
        ("--probe-every", Patience.probe_every_seconds, "between two words really spoken"),
        ("--probe-timeout", Patience.probe_seconds, "that such a word may take"),
    ):
        serve.add_argument(
            name, type=seconds, default=default, help=f"seconds {meaning} ({default:g})"
        )
    serve.set_defaults(run=run)


class _Stop(BaseException):
    """Raised in the main thread by SIGINT and SIGTERM, wherever it waits."""


def run(options: argparse.Namespace) -> None:
    """Serve until told to stop; raises EngineError if it cannot, ServerDiedError if it ends."""
    for number in STOP_SIGNALS:
        signal.signal(number, _raise_stop)
    with suppress(_Stop):
        _serve(options)


def _serve(options: argparse.Namespace) -> None:
    if stale := runs.remove_stale():
        log.warning("engine.stale_run_removed prefixes=%s", ",".join(stale))
    runs.check_free()
    access = read_access(options)
    access.check(options.host, is_insecure=options.insecure)
    if options.insecure and is_loopback(options.host):
        log.warning("--insecure has no effect: this machine alone reaches %s", options.host)
    conduct = Conduct(access, read_tuning(options))
    listen = Listen(options.host, options.grpc_port, options.metrics_port, options.metrics_host)
    if options.repository is None and (options.device or Site.device) == "cpu":
        refuse_unused(options, ["mps"], "on a CPU there is no GPU to share; add --device cuda")
    with ExitStack() as stack:
        this_run = stack.enter_context(closing(runs.Run()))
        clients: dict[str, str] = {}
        if options.mps:
            clients = stack.enter_context(multi_process_service(this_run.folder / runs.MPS))
        server = _server(options, listen, this_run, conduct, clients)
        try:
            patience = Patience(options.start_timeout, options.probe_every, options.probe_timeout)
            supervisor = Supervisor(server, patience)
            supervisor.start()
            log.info(
                "engine.ready grpc=%s models=%s",
                listen.grpc_address(),
                ",".join(server.models),
            )
            supervisor.run()
        except _Stop:
            log.info("engine.stopping")
            raise
        finally:
            _ignore_stops()
            server.stop()


def _raise_stop(*_: object) -> None:
    # What is left to do is to clean up, which a second signal would break off.
    _ignore_stops()
    raise _Stop


def _ignore_stops() -> None:
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _choose(repository: Path, wanted: list[str] | None) -> list[str]:
    """Return the models to serve: all of the repository, or those that are wanted."""
    found = rendered_models(repository)
    check_distinct("--model", wanted or ())
    if missing := [model for model in wanted or () if model not in found]:
        raise EngineError(f"{repository} has no model '{missing[0]}'; it has {', '.join(found)}")
    return wanted or found


def _server(
    options: argparse.Namespace,
    listen: Listen,
    this_run: runs.Run,
    conduct: Conduct,
    more_environment: dict[str, str],
) -> TritonServer:
    installation = find_installation(this_run.folder, options.installation)
    environment = {**installation.environment, **more_environment}
    installation = replace(installation, environment=environment)
    conduct.tuning.check(installation.version)
    if options.repository is not None:
        if unused := given_site_options(options):
            raise EngineError(
                f"--repository is rendered already, and --{unused[0].replace('_', '-')} is for "
                "rendering one; leave one of them out"
            )
        repository = options.repository
        models = _choose(repository, options.model)
        check_own_stubs(repository, models)
        check_sources(repository, models)
        check_checkpoints(repository, models)
    else:
        repository = this_run.folder / "repository"
        models = render_models(options, listen.grpc_address(), repository)
    check_engines(repository, models)
    check_packages(repository, models, installation.environment)
    return TritonServer(installation, repository, models, listen, this_run, conduct)
