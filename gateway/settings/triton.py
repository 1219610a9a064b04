"""The settings of the way to Triton, and of its models."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, ValidationInfo, field_validator
from pydantic_settings import BaseSettings

from gateway.settings.values import Listed, Maybe


class TritonSettings(BaseSettings):
    """The settings of the way to Triton, and of its models."""

    triton_address: str = "127.0.0.1:8001"
    """host:port of Triton's gRPC."""
    triton_metrics_address: Maybe[str] = None
    """host:port of Triton's own metrics page, whose figures of the GPU /metrics has too."""
    model_dir: Maybe[Path] = None
    """Checkpoint of Spark-TTS: `up` starts a Triton that speaks with it."""
    models: Listed[str] = Field(
        default_factory=lambda given: ("spark_tts" if given.get("model_dir") else "hibari",),
        min_length=1,
    )
    """Triton models that callers may name, separated by commas."""
    tokenizer_model: str = Field(default="audio_tokenizer", min_length=1)
    """Triton model that turns recordings into tokens."""
    default_sample_rate_hz: int = Field(default=16_000, ge=8_000, le=192_000)
    """Sample rate of models that do not say it themselves (Spark-TTS's upstream: 16 000)."""
    connect_timeout_seconds: float = Field(default=5.0, ge=0.1)
    """How long an attempt to connect to Triton may take (0.1 is the least that gRPC keeps)."""
    first_audio_timeout_seconds: float = Field(default=30.0, gt=0)
    """How long Triton may take to the first audio of each segment."""
    gap_timeout_seconds: float = Field(default=10.0, gt=0)
    """How long Triton may be silent between two chunks: a killed model says nothing at all."""

    @field_validator("triton_address", "triton_metrics_address")
    @classmethod
    def _has_port(cls, value: str | None) -> str | None:
        if value is None:
            return None
        host, _, port = value.rpartition(":")
        is_port = port.isascii() and port.isdecimal() and 0 < int(port) < 2**16
        if not host or "/" in value or not is_port:
            raise ValueError("must be host:port, with a port from 1 to 65535 and no scheme")
        return value

    @field_validator("models")
    @classmethod
    def _speak_with_the_checkpoint(
        cls, value: tuple[str, ...], others: ValidationInfo
    ) -> tuple[str, ...]:
        if others.data.get("model_dir") and "spark_tts" not in value:
            raise ValueError("must hold spark_tts where SPEECH_MODEL_DIR is set")
        return value
