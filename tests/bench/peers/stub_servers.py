"""Two servers of speech with an engine that says silence: `PYTHON stub_servers.py NAME PORT`.

Runs in the peers' environment; what is not the engine is theirs.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import uvicorn

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from fastapi import FastAPI

PIECES = 10
SAMPLES = 2400


async def _pieces() -> AsyncGenerator[bytes, None]:
    for _ in range(PIECES):
        yield bytes(2 * SAMPLES)


def supertonic_server() -> FastAPI:
    """Return supertonic-server's app."""
    from supertonic_server import server  # noqa: PLC0415
    from supertonic_server.config import Settings  # noqa: PLC0415

    class Engine:
        sample_rate = 24_000
        voice_names = ("F1",)
        lang_codes = ("en",)

        def __init__(self, _: Any) -> None: ...

        def load(self) -> None: ...

        async def warmup(self) -> None: ...

        def stream(self, _: str, **__: Any) -> AsyncGenerator[bytes, None]:
            return _pieces()

        def shutdown(self) -> None: ...

    server.SupertonicEngine = Engine
    return server.build_app(Settings(serve_ui=False))


def fastkokoro() -> FastAPI:
    """Return fastkokoro's app."""
    from fastkokoro.config import Settings  # noqa: PLC0415
    from fastkokoro.server import create_app  # noqa: PLC0415

    def create_stream(_: str, **__: Any) -> AsyncGenerator[bytes, None]:
        return _pieces()

    engine = SimpleNamespace(
        resolve_request=lambda voice, lang: (voice, lang or "en-us"),
        create_stream=create_stream,
        create=lambda *_, **__: np.zeros(PIECES * SAMPLES, np.int16).tobytes(),
    )
    return create_app(engine=engine, settings=Settings.from_env())


if __name__ == "__main__":
    make = {"supertonic-server": supertonic_server, "fastkokoro": fastkokoro}[sys.argv[1]]
    uvicorn.run(make(), host="127.0.0.1", port=int(sys.argv[2]), access_log=False)
