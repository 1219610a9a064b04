"""Spans in OpenTelemetry's terms, sent to a collector by OTLP over HTTP.

Importing this needs the extra `tracing`. What is not said here (headers, sampling, batches) the
library reads from its own OTEL_ variables.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from gateway.errors import SpeechError

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from opentelemetry import trace

    from gateway.speech.span import Attribute, Headers

log = logging.getLogger("speech.tracing")

PATH = "/v1/traces"
CLOSE_SECONDS = 2.0
"""How long a collector may take to the last spans at shutdown."""
SERVER_ERROR = 500
PROPAGATOR = TraceContextTextMapPropagator()
"""W3C's traceparent and tracestate; baggage may hold anything, so it is not passed on."""


class OtlpSpan:
    """A Span that is OpenTelemetry's."""

    def __init__(self, tracer: Tracer, span: trace.Span) -> None:
        self._tracer = tracer
        self._span = span

    @contextmanager
    def child(
        self, name: str, *, is_call: bool = False, **attributes: Attribute
    ) -> Generator[OtlpSpan, None, None]:
        """See Span.child."""
        kind = SpanKind.CLIENT if is_call else SpanKind.INTERNAL
        span = self._tracer.start_span(name, set_span_in_context(self._span), kind)
        with _ending(span):
            child = OtlpSpan(self._tracer, span)
            child.set(**attributes)
            yield child

    def set(self, **attributes: Attribute) -> None:
        """See Span.set."""
        for name, value in attributes.items():
            if value is not None:
                self._span.set_attribute(f"speech.{name}", value)

    def fail(self, error: SpeechError) -> None:
        """See Span.fail."""
        _fail(self._span, error)

    def headers(self) -> Headers:
        """See Span.headers."""
        carrier: dict[str, str] = {}
        PROPAGATOR.inject(carrier, set_span_in_context(self._span))
        return tuple(carrier.items())

    def answered(self, method: str, route: str | None, status: int | None) -> None:
        """Note what is known of an HTTP request at its end."""
        self._span.update_name(f"{method} {route}" if route else method)
        if route:
            self._span.set_attribute("http.route", route)
        if status is not None:
            self._span.set_attribute("http.response.status_code", status)
            if status >= SERVER_ERROR:
                self._span.set_status(StatusCode.ERROR)


class OtlpTracer:
    """Begins a request's span, and sends those that have ended, from a thread of its own.

    A collector that is away costs requests nothing: spans wait for it, the oldest are given up
    first, and the library warns of that.
    """

    def __init__(self, endpoint: str) -> None:
        own = {"service.name": "speech-gateway", "service.version": version("speech-gateway")}
        resource = Resource.create(own).merge(OTELResourceDetector().detect())
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        exporter = OTLPSpanExporter(f"{endpoint.rstrip('/').removesuffix(PATH)}{PATH}")
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("gateway")

    @contextmanager
    def request(
        self, method: str, path: str, request_id: str, headers: Mapping[str, str]
    ) -> Generator[OtlpSpan, None, None]:
        """Begin the span of an HTTP request, as a part of its caller's where it says so."""
        attributes = {"http.request.method": method, "url.path": path}
        parent = PROPAGATOR.extract(headers)
        span = self._tracer.start_span(method, parent, SpanKind.SERVER, attributes)
        with _ending(span):
            request = OtlpSpan(self._tracer, span)
            request.set(request_id=request_id)
            yield request

    async def aclose(self) -> None:
        """Send what has ended, for at most CLOSE_SECONDS."""
        # The library would wait 30 s for a collector that is away.
        sending = threading.Thread(target=self._provider.shutdown, name="last-spans", daemon=True)
        sending.start()
        await asyncio.to_thread(sending.join, CLOSE_SECONDS)
        if sending.is_alive():
            log.warning("tracing.spans_lost", extra={"fields": {"seconds": CLOSE_SECONDS}})


@contextmanager
def _ending(span: trace.Span) -> Generator[None, None, None]:
    try:
        yield
    except (asyncio.CancelledError, GeneratorExit):
        span.set_attribute("speech.cancelled", value=True)
        raise
    except Exception as error:
        _fail(span, error)
        raise
    finally:
        span.end()


def _fail(span: trace.Span, error: Exception) -> None:
    # Never its message, which may quote the text.
    code, status = type(error).__name__, SERVER_ERROR
    if isinstance(error, SpeechError):
        code, status = error.code, error.status
    span.set_attribute("error.type", code)
    if status >= SERVER_ERROR:
        span.set_status(StatusCode.ERROR)
