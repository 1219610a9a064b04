"""The settings of what the service tells about itself."""

from __future__ import annotations

from typing import Literal

from pydantic_settings import BaseSettings


class TelemetrySettings(BaseSettings):
    """The settings of what the service tells about itself."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """How much is logged."""
    log_format: Literal["text", "json"] = "text"
    """How a log line is written: words and key=value, or a JSON object."""
