"""Certificates and keys as settings give them: PEM itself, or the path of a file of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

GIVEN = "(given)"
BLOCK = re.compile(rb"-----BEGIN ([A-Z ]+)-----\s[^-]+-----END \1-----")


@dataclass(frozen=True, slots=True)
class Pem:
    """What was read; only where it came from is ever shown."""

    origin: str
    content: bytes = field(repr=False)

    @classmethod
    def read(cls, text: str, kind: str) -> Pem:
        """Take PEM (in one line, too: backslash and n for its ends) or read the file of that path.

        `kind` ends the label of its blocks: CERTIFICATE or PRIVATE KEY. Raises ValueError,
        which never holds the content.
        """
        if text.lstrip().startswith("-----BEGIN"):
            origin, content = GIVEN, text.replace("\\n", "\n").strip().encode() + b"\n"
        else:
            origin, content = text, _content(Path(text))
        labels = [label.decode() for label in BLOCK.findall(content)]
        if not any(label.endswith(kind) for label in labels):
            there = f"of a {' and a '.join(labels)}" if labels else "no PEM at all"
            raise ValueError(f"holds no PEM of a {kind}, but {there}")
        return cls(origin, content)

    @property
    def is_file(self) -> bool:
        """Whether it was read from the file `origin`."""
        return self.origin != GIVEN

    def __str__(self) -> str:
        return self.origin


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"is neither PEM nor a file that can be read: {error.strerror}") from error
