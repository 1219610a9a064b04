"""A TOML file of names that an operator writes: its content, and errors that name the line."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from gateway.settings import SettingsError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from pathlib import Path

NAME = re.compile(r"[^\x00-\x1f\x7f/\\]{1,256}")
"""What a name may be: any letters, nothing that steers a terminal or names a path."""
HEADER = re.compile(r"\s*\[([^\]]*)\]")
QUOTES_AND_SPACES = str.maketrans("", "", "\"' ")


class TomlFile:
    """What stands in a file; raises SettingsError for what is no TOML."""

    def __init__(self, name: str, text: str) -> None:
        self._name = name
        self._lines = text.splitlines()
        try:
            self.content = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise SettingsError(f"{name}: {error}") from error

    @classmethod
    def read(cls, path: Path, setting: str) -> TomlFile:
        """Read the file that this setting names; raises SettingsError naming both."""
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"{setting} = {str(path)!r}: {error}") from error
        return cls(str(path), text)

    def check_name(self, key: str, table: str) -> None:
        """Raise SettingsError unless the key, in this table, is fit to be a name."""
        if not NAME.fullmatch(key):
            what = "must have 1 to 256 characters, no slash and no control character"
            raise self.error(key, table, what)

    def error(self, key: str, table: str, what: str) -> SettingsError:
        """Return the error for a key in a table ("": at the top), with its line."""
        where = f"[{table}] " if table else ""
        return SettingsError(f"{self._name}, line {self._line(key, table)}: {where}{key!r} {what}")

    def _line(self, key: str, table: str) -> int:
        """Return the number of the key's line, else of the first in it, else of its table's."""
        wanted = _plain(f"{table}.{key}" if table else key)
        within, inside, nearest, depth = "", 0, 1, 0
        for number, line in enumerate(self._lines, 1):
            if header := HEADER.match(line):
                path = within = _plain(header[1])
            else:
                key_here = _plain(line.partition("=")[0])
                path = f"{within}.{key_here}" if within else key_here
            if path == wanted:
                return number
            if path.startswith(f"{wanted}."):
                inside = inside or number
            elif wanted.startswith(f"{path}.") and len(path) > depth:
                nearest, depth = number, len(path)
        return inside or nearest


def _plain(path: str) -> str:
    return path.translate(QUOTES_AND_SPACES)
