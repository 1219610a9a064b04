"""The channel to the server's own port, with what that asks for."""

from __future__ import annotations

import os
from pathlib import Path

import grpc
import grpc.aio

from speech_wire import LOOPBACK_VARIABLE, LoopbackAccess

CHANNEL_OPTIONS = [
    # Raw stubs keep gRPC's 4 MiB limit; a reference of 60 s is 3.8 MB.
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # gRPC's own back-off grows to two minutes; this server is on the same machine.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
]


def read_access() -> LoopbackAccess:
    """Return what the server's environment says, nothing without it."""
    path = os.environ.get(LOOPBACK_VARIABLE)
    return LoopbackAccess.read(Path(path)) if path else LoopbackAccess()


def open_channel(address: str, access: LoopbackAccess) -> grpc.aio.Channel:
    """Return a channel of the running loop; raises OSError for a file that cannot be read."""
    if access.root is None:
        return grpc.aio.insecure_channel(address, CHANNEL_OPTIONS)
    pems = (access.root, access.key, access.certificate)
    credentials = grpc.ssl_channel_credentials(*(Path(p).read_bytes() if p else None for p in pems))
    name = [("grpc.ssl_target_name_override", access.name)] if access.name else []
    return grpc.aio.secure_channel(address, credentials, [*CHANNEL_OPTIONS, *name])
