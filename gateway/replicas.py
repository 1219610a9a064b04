"""`speech-gateway replicas`: the Tritons behind a running service, as it sees them."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from collections.abc import Sequence

TIMEOUT_SECONDS = 10.0
WATCH_SECONDS = 2.0
CLEAR = "\x1b[2J\x1b[H"
HEAD = (
    *("NAME", "STATE", "FOR", "IN FLIGHT", "EJECTED", "TLS", "ADDRESS", "MODELS"),
    "LAST ERROR",
)


def replicas(url: str, api_key: str, *, as_json: bool, every_seconds: float | None) -> int:
    """Print them, again and again with `every_seconds`; return 1 if the service cannot be asked."""
    try:
        while True:
            text = _asked(url, api_key, as_json=as_json)
            is_screen = every_seconds is not None and sys.stdout.isatty() and not as_json
            print(f"{CLEAR if is_screen else ''}{text}", flush=True)
            if every_seconds is None:
                return 0
            time.sleep(every_seconds)
    except KeyboardInterrupt:
        return 0
    except (httpx.HTTPError, _RefusedError) as error:
        where = f"{url}: " if isinstance(error, httpx.HTTPError) else ""
        print(f"error: {where}{error or type(error).__name__}", file=sys.stderr)
        return 1


class _RefusedError(Exception):
    """The service answered with an error; the message is its own."""


def _asked(url: str, api_key: str, *, as_json: bool) -> str:
    headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
    answer = httpx.get(f"{url.rstrip('/')}/v1/replicas", headers=headers, timeout=TIMEOUT_SECONDS)
    try:
        body = answer.json()
        if answer.is_success:
            return json.dumps(body) if as_json else text(body)
        message = body["error"]["message"]
    except (ValueError, KeyError, TypeError):
        message = f"{url} is no speech-gateway: {answer.text[:200]!r}"
    raise _RefusedError(f"{answer.status_code}: {message}")


def text(body: dict[str, Any]) -> str:
    """Return the answer for a terminal: the table, and what is wrong with the addresses."""
    problem = body.get("problem")
    told = f"The Tritons cannot be told (SPEECH_TRITON_ADDRESS): {problem}" if problem else ""
    none = "" if body["replicas"] else "no Triton is known (SPEECH_TRITON_ADDRESS names none now)"
    return "\n".join(filter(None, [table(body["replicas"]), told or none]))


def table(those: Sequence[dict[str, Any]]) -> str:
    """Return aligned columns; what is said last has the room that is left."""
    rows = [HEAD, *map(_row, those)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD) - 1)]
    lines = (
        "  ".join([*(text.ljust(width) for text, width in zip(row, widths, strict=False)), row[-1]])
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


def _row(one: dict[str, Any]) -> tuple[str, ...]:
    return (
        one["name"],
        one["state"],
        age(one["state_seconds"]),
        f"{one['in_flight']}/{one['capacity']}",
        str(one["ejections"]),
        one["tls"],
        one["address"],
        ",".join(_models(one)) or "-",
        _last_error(one),
    )


def _models(one: dict[str, Any]) -> list[str]:
    """Return its models, those marked that get nothing new since they differ from the others'."""
    aside = one.get("set_aside", ())
    return [f"{model} (differs)" if model in aside else model for model in one["models"]]


def _last_error(one: dict[str, Any]) -> str:
    seconds = one.get("last_error_seconds")
    ago = "" if seconds is None else f" ({age(seconds)} ago)"
    return f"{one['last_error']}{ago}" if one["last_error"] else "-"


def age(seconds: float) -> str:
    """Return a time in its largest unit: 12s, 3m, 5h, 2d."""
    for unit, length in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f}{unit}"
    return f"{seconds:.0f}s"
