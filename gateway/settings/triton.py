"""The settings of the way to Triton, and of its models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, NoDecode

from gateway.addresses import split_address
from gateway.pem import Pem
from gateway.settings.values import DICT, HOST, METADATA, MODEL, Listed, Maybe, Tls

OTHER_SOURCES = "dns://host:port, file://path, modal://name of a Dict"


class TritonSettings(BaseSettings):
    """The settings of the way to Triton, and of its models."""

    triton_address: str = "127.0.0.1:8001"
    """Tritons' gRPC: host:port, several with commas; or dns://, file://, modal:// that tells."""
    triton_metrics_address: Maybe[str] = None
    """host:port of Triton's own metrics page, whose figures of the GPU /metrics has too."""
    discovery_interval_seconds: float = Field(default=5.0, ge=0.05)
    """How often a file, DNS or a registry is asked for the addresses."""
    discovery_stale_seconds: float = Field(default=45.0, gt=0)
    """How long an entry of a registry may stand still; three of its heartbeats are sensible."""
    triton_tls: Tls = "off"
    """How Tritons prove who they are: not at all, as the machine trusts, by triton_ca."""
    triton_ca: Annotated[Pem | None, NoDecode] = None
    """Certificate of the authority that signed Triton's: a file, or PEM itself."""
    triton_client_cert: Annotated[Pem | None, NoDecode] = None
    """Certificate that the gateway shows to Triton: a file, or PEM itself."""
    triton_client_key: Annotated[Pem | None, NoDecode] = None
    """The key that belongs to it."""
    triton_server_name: str = ""
    """The name in Triton's certificate, where it is not the host that is connected to."""
    triton_metadata: SecretStr = SecretStr("")
    """name=value, separated by commas: sent with each call. Secret."""
    triton_plaintext: Literal["private", "any"] = "private"
    """Where Tritons may be spoken to without TLS: on private addresses, or anywhere."""
    replica_max_streams: Maybe[Annotated[int, Field(ge=1)]] = None
    """Streams that one Triton gets at once, where its address does not say it; else no bound."""
    probe_interval_seconds: float = Field(default=5.0, ge=0.05)
    """How often each Triton is asked whether it and its models are ready."""
    probe_timeout_seconds: float = Field(default=5.0, gt=0)
    """How long a connected Triton may take to answer that; three in a row give it up."""
    deep_probe_interval_seconds: float = Field(default=0.0, ge=0)
    """How often each Triton has to really speak a word; 0: never."""
    max_ejected_share: float = Field(default=0.5, ge=0, lt=1)
    """The largest share of the Tritons that may be left out because their calls failed."""
    slow_start_seconds: float = Field(default=10.0, ge=0)
    """How long a Triton that is ready again takes to have its full share of the load; 0: none."""
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

    @field_validator("triton_metrics_address")
    @classmethod
    def _has_port(cls, value: str | None) -> str | None:
        if value is not None:
            split_address(value)
        return value

    @field_validator("triton_address")
    @classmethod
    def _is_address(cls, value: str) -> str:
        scheme, _, rest = value.rpartition("://")
        if scheme == "modal" and not DICT.fullmatch(rest):
            raise ValueError(f"{rest!r} is no name of a Dict: 1 to 63 letters, digits, ., - and _")
        if scheme in ("file", "modal") and rest:
            return value
        try:
            for address in rest.split("," if not scheme else "\n"):
                split_address(address.strip())
        except ValueError as error:
            raise ValueError(f"{error}; or several, with commas; or {OTHER_SOURCES}") from error
        if scheme not in ("", "dns"):
            raise ValueError(f"must be host:port, without {scheme}://; or {OTHER_SOURCES}")
        return value

    @field_validator("triton_ca", "triton_client_cert", mode="before")
    @classmethod
    def _read_certificate(cls, value: Any) -> object:
        return _pem(value, "CERTIFICATE")

    @field_validator("triton_client_key", mode="before")
    @classmethod
    def _read_key(cls, value: Any) -> object:
        return _pem(value, "PRIVATE KEY")

    @field_validator("triton_metadata")
    @classmethod
    def _has_pairs(cls, value: SecretStr) -> SecretStr:
        names: list[str] = []
        for number, pair in enumerate(_listed(value), 1):
            if not METADATA.fullmatch(pair):
                raise ValueError(
                    f"entry {number} must be name=value, the name in lower case and the value "
                    "visible ASCII without a comma"
                )
            name = pair.partition("=")[0]
            if name in names:
                raise ValueError(f"entry {number} has the name of entry {names.index(name) + 1}")
            names.append(name)
        return value

    @field_validator("triton_server_name")
    @classmethod
    def _is_name(cls, value: str) -> str:
        if value and not HOST.fullmatch(value):
            raise ValueError("must be empty or the name in Triton's certificate: triton.internal")
        return value

    @field_validator("model_dir")
    @classmethod
    def _is_there(cls, value: Path | None) -> Path | None:
        if value is not None and not value.is_dir():
            raise ValueError("must be empty or the folder of a checkpoint, and is no folder")
        return value

    @field_validator("models", "tokenizer_model")
    @classmethod
    def _are_names(cls, value: tuple[str, ...] | str) -> tuple[str, ...] | str:
        names = (value,) if isinstance(value, str) else value
        for name in names:
            if not MODEL.fullmatch(name):
                raise ValueError(f"{name!r} is no name of a model: no space and no slash is in one")
            if names.count(name) > 1:
                raise ValueError(f"{name!r} is there twice")
        return value

    @property
    def metadata_pairs(self) -> tuple[tuple[str, str], ...]:
        """`triton_metadata` as gRPC takes it; secret."""
        pairs = (pair.partition("=") for pair in _listed(self.triton_metadata))
        return tuple((name, value) for name, _, value in pairs)

    @field_validator("models")
    @classmethod
    def _speak_with_the_checkpoint(
        cls, value: tuple[str, ...], others: ValidationInfo
    ) -> tuple[str, ...]:
        if others.data.get("model_dir") and "spark_tts" not in value:
            raise ValueError("must hold spark_tts where SPEECH_MODEL_DIR is set")
        return value


def _pem(value: Any, kind: str) -> object:
    return (Pem.read(value, kind) if value else None) if isinstance(value, str) else value


def _listed(value: SecretStr) -> list[str]:
    entries = (entry.strip() for entry in value.get_secret_value().split(","))
    return [entry for entry in entries if entry]
