"""A container on Modal, without Modal: runs the class that is deployed, with a played Triton.

Run as a program: Modal's own calls are replaced before the file that makes them is read. It prints
a line of JSON for each that was made.
"""

from __future__ import annotations

import itertools
import json
import os
import warnings
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import modal
import modal.experimental

from engine.errors import ServerDiedError
from fakes.modal_plane import FakeDict

if TYPE_CHECKING:
    from collections.abc import Generator

KEY = "ta-1"
DICTS: dict[str, FakeDict] = {}


def say(what: str, *details: Any) -> None:
    os.write(1, f"{json.dumps([what, *details])}\n".encode())


@contextmanager
def forward(port: int, **options: Any) -> Generator[SimpleNamespace, None, None]:
    say("forward", port, options)
    yield SimpleNamespace(tls_socket=("tls.example", 443), tcp_socket=("tcp.example", 41234))
    say("closed")


def replace_modal() -> None:
    os.environ["MODAL_TASK_ID"] = KEY
    modal.Dict.from_name = lambda name, **_: DICTS.setdefault(name, FakeDict())
    modal.forward = forward
    modal.experimental.stop_fetching_inputs = lambda: say("no more inputs")
    modal.Function.spawn = lambda _, *given: say("spawn", *given)
    # That there are no volumes here.
    warnings.simplefilter("ignore")


def main() -> None:
    replace_modal()

    from engine.modal_tunnel import Tunnel, registry  # noqa: PLC0415  see above

    container: Any = Tunnel()
    container.hold.local("one that has died")
    container.hold.local("")
    of_this_one, beats = registry.get, itertools.count()
    registry.get = lambda *_: next(beats)
    container.hold.local("one that is free")
    registry.get = of_this_one
    say("published", *map(json.loads, registry.content.values()))
    # The Triton reads this process's input, and dies of it.
    try:
        container.hold.local(KEY)
    except ServerDiedError as error:
        say("died", str(error))
    say("left", registry.content)
    # What its exit hook does, which Modal runs and a caller cannot.
    container.triton.stop()


if __name__ == "__main__":
    main()
