"""The way into a fake Triton: TLS, and restricted protocols as Triton has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

if TYPE_CHECKING:
    from pathlib import Path

STREAMS = "ModelStreamInfer"
HEADER = "triton-grpc-protocol-"


class Door(grpc.aio.ServerInterceptor):
    """Sees what each call brings with it, and refuses those without the header `opens_for`.

    `opens_for` is name and value of a restricted protocol's key; `is_draining` answers as Triton
    does between SIGTERM and its end.
    """

    def __init__(self) -> None:
        self.metadata: list[dict[str, str]] = []
        self.opens_for: tuple[str, str] | None = None
        self.is_draining = False

    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        given = dict(details.invocation_metadata)
        self.metadata.append(given)
        if self.opens_for is not None:
            name, value = self.opens_for
            if given.get(f"{HEADER}{name}") != value:
                words = f"This protocol is restricted, expecting header '{HEADER}{name}'"
                return _refusal(details.method, words)
        if self.is_draining and not details.method.endswith(STREAMS):
            return _refusal(details.method, "Server is not ready")
        return await continuation(details)


def _refusal(method: str, words: str) -> Any:
    async def one(_: Any, context: Any) -> None:
        await context.abort(grpc.StatusCode.UNAVAILABLE, words)

    if method.endswith(STREAMS):
        return grpc.stream_stream_rpc_method_handler(one)
    return grpc.unary_unary_rpc_method_handler(one)


def server_credentials(folder: Path, *, is_mutual: bool = False) -> grpc.ServerCredentials:
    """Return what a Triton with the pair of `engine certs` in this folder has."""
    pair = ((folder / "server-key.pem").read_bytes(), (folder / "server.pem").read_bytes())
    ca = (folder / "ca.pem").read_bytes() if is_mutual else None
    return grpc.ssl_server_credentials([pair], ca, require_client_auth=is_mutual)
