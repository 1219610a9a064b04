"""FastAPI that streams ten pieces of silence: what any gateway in Python costs at least.

`python -m bench.hop.bare_stub --port 8000` serves until it is killed.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from starlette.responses import StreamingResponse

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

PIECES = 10
PIECE = bytes(4800)
app = FastAPI()


class Body(BaseModel):
    model: str
    input: str
    voice: str
    response_format: str = "pcm"


async def _pieces() -> AsyncGenerator[bytes, None]:
    for _ in range(PIECES):
        yield PIECE


@app.post("/v1/audio/speech")
async def speak(body: Body) -> StreamingResponse:
    """Answer with a second of silence."""
    return StreamingResponse(_pieces(), media_type=f"audio/{body.response_format}")


@app.get("/health")
async def health() -> dict[str, str]:
    """Say that it is there, to routers that ask."""
    return {"status": "healthy"}


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8000)
    port = parser.parse_args().port
    uvicorn.run(app, host="127.0.0.1", port=port, access_log=False, log_level="warning")


if __name__ == "__main__":
    main()
