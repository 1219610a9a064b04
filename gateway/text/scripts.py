"""Which letters of a text a voice cannot read."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import regex

if TYPE_CHECKING:
    from collections.abc import Sequence


def foreign_letter(text: str, scripts: Sequence[str]) -> str | None:
    """Return the first letter that is of none of these scripts ("Latin"), None if there is none.

    Letters that many scripts share never count. Raises ValueError for a script that Unicode does
    not know.
    """
    found = _foreign(tuple(scripts)).search(text)
    return found[0] if found else None


@lru_cache(maxsize=64)
def _foreign(scripts: tuple[str, ...]) -> regex.Pattern[str]:
    known = "".join(rf"\p{{Script={name}}}" for name in ("Common", "Inherited", *scripts))
    try:
        return regex.compile(rf"[\p{{L}}--[{known}]]", regex.V1)
    except regex.error as error:
        raise ValueError(f"scripts {list(scripts)}: {error}; Unicode's names are meant") from error
