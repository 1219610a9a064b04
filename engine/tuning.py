"""What may be set of a tritonserver beside its models, its ports and its callers."""

from __future__ import annotations

from dataclasses import dataclass

from engine.errors import EngineError

TRACED_SINCE = (2, 57)
"""Older ones crash when a request that is traced is cancelled (triton-inference-server/server,
pull request 8144)."""


@dataclass(frozen=True)
class Tuning:
    """Times are in seconds; None leaves what Triton has.

    `keepalive_seconds` is how often the server asks a silent client whether it is there,
    `ping_interval_seconds` how often a client may ask: Triton's own five minutes hang up on
    clients that keep a tunnel open. `trace_url` takes OTLP over HTTP; of the requests that bring
    no trace along, one in `trace_rate` is traced. `cache_bytes` is for models of a repository of
    your own: a model that streams has no cache. `rate_limits` are resources, `NAME:COUNT`.
    """

    keepalive_seconds: float | None = None
    keepalive_timeout_seconds: float | None = None
    keepalive_without_calls: bool = False
    ping_interval_seconds: float = 10.0
    trace_url: str | None = None
    trace_rate: int = 1000
    cache_bytes: int | None = None
    rate_limits: tuple[str, ...] = ()
    metrics_interval_seconds: float = 2.0
    exit_seconds: int = 8

    def check(self, triton_version: tuple[int, int] | None) -> None:
        """Raise EngineError for what this version of Triton cannot do."""
        if self.trace_url and (triton_version is None or triton_version < TRACED_SINCE):
            found = "of unknown version" if triton_version is None else _dotted(triton_version)
            raise EngineError(
                f"--trace-url needs Triton {_dotted(TRACED_SINCE)}, this one is {found}: older "
                "ones crash when a traced request is cancelled"
            )

    def flags(self) -> list[str]:
        """Return tritonserver's."""
        times = {
            "grpc-keepalive-time": self.keepalive_seconds,
            "grpc-keepalive-timeout": self.keepalive_timeout_seconds,
            "grpc-http2-min-recv-ping-interval-without-data": self.ping_interval_seconds,
            "metrics-interval-ms": self.metrics_interval_seconds,
        }
        flags = [f"--{name}={round(s * 1000)}" for name, s in times.items() if s is not None]
        if self.keepalive_without_calls:
            flags.append("--grpc-keepalive-permit-without-calls=1")
        if self.cache_bytes is not None:
            flags.append(f"--cache-config=local,size={self.cache_bytes}")
        if self.rate_limits:
            flags.append("--rate-limit=execution_count")
            flags += [f"--rate-limit-resource={resource}" for resource in self.rate_limits]
        return [*flags, *self._trace_flags(), f"--exit-timeout-secs={self.exit_seconds}"]

    def _trace_flags(self) -> list[str]:
        if self.trace_url is None:
            return []
        settings = (
            "mode=opentelemetry",
            f"opentelemetry,url={self.trace_url}",
            "opentelemetry,resource=service.name=triton",
            "level=TIMESTAMPS",
            f"rate={self.trace_rate}",
        )
        return [f"--trace-config={setting}" for setting in settings]


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
