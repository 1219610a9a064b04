"""The settings of what the service tells about itself."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings

SHORTEST_INTERVAL_SECONDS = 0.1
COLLECTOR = re.compile(r"https?://[^/\s?#@]+(/[^\s?#]*)?")


class TelemetrySettings(BaseSettings):
    """The settings of what the service tells about itself."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """How much is logged."""
    log_format: Literal["text", "json"] = "text"
    """How a log line is written: words and key=value, or a JSON object."""
    otlp_endpoint: str = ""
    """Base URL of an OTLP/HTTP collector of traces (`http://collector:4318`); empty: no traces."""
    statistics_interval_seconds: float = Field(default=5.0, ge=0, le=30)
    """How often Triton is asked for the statistics that /metrics shows; 0: never."""

    @field_validator("statistics_interval_seconds")
    @classmethod
    def _is_never_or_a_while(cls, value: float) -> float:
        # More than 30 s would look like figures that are stale.
        if 0 < value < SHORTEST_INTERVAL_SECONDS:
            raise ValueError("must be 0 (never), or from 0.1 to 30")
        return value

    @field_validator("otlp_endpoint")
    @classmethod
    def _is_collector(cls, value: str) -> str:
        if value and not COLLECTOR.fullmatch(value):
            raise ValueError(
                "must be empty or like http://collector:4318, the port of OTLP over HTTP; a "
                "password goes into OTEL_EXPORTER_OTLP_HEADERS"
            )
        return value
