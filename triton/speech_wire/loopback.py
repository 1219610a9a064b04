"""How a model reaches the gRPC of the Triton that it runs in."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

LOOPBACK_VARIABLE = "TRITON_LOOPBACK_FILE"
"""The environment variable of a Triton that names the file: its port, and what that asks for.

A model's configuration would be the wrong place: whoever may ask Triton for it can read it.
"""


@dataclass(frozen=True, slots=True)
class LoopbackAccess:
    """PEM files for TLS (`root` of the server, own `certificate` and `key`), and who it must be.

    Without `root` the port has no TLS, an empty one stands for the system's authorities; `name` is
    what the server's certificate says, where the address is not it; `headers` go with every call.
    `address` (host:port) is where that Triton listens, whatever the model's configuration says: the
    headers are a secret that must not go to another server. None where it is not known here.
    """

    root: str | None = None
    certificate: str | None = None
    key: str | None = None
    name: str | None = None
    headers: Mapping[str, str] | None = None
    address: str | None = None

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Return the headers as gRPC takes them."""
        return tuple((self.headers or {}).items())

    def write(self, path: Path) -> None:
        """Write a file that only this user can read."""
        descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(asdict(self), file)

    @classmethod
    def read(cls, path: Path) -> LoopbackAccess:
        """Read what `write` wrote; raises OSError, ValueError or TypeError for anything else."""
        return cls(**json.loads(path.read_text(encoding="utf-8")))
