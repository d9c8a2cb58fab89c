"""OpenTelemetry spans of requests and their stages, exported if the OTEL_ environment variables name a collector.

Without a collector, no exporter is imported. A failing collector is logged and never delays a request.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.metadata import version

import structlog
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, SpanKind, Tracer, TracerProvider
from opentelemetry.trace.status import StatusCode

from app.errors import describe_error
from app.extras import import_extra
from app.work import StageListener

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")

SHUTDOWN_EXPORT_S = 2.0  # seconds for the last export when the service stops

log = structlog.get_logger("headroom")
_tracer: ContextVar[Tracer | None] = ContextVar("tracer", default=None)


def is_exporting(environment: Mapping[str, str] = os.environ) -> bool:
    """Returns whether the environment names a collector and does not disable the export."""
    off = (
        environment.get("OTEL_SDK_DISABLED", "").lower() == "true" or environment.get("OTEL_TRACES_EXPORTER") == "none"
    )
    return not off and any(environment.get(name) for name in ENDPOINTS)


def check_exporter(environment: Mapping[str, str] = os.environ) -> None:
    """Raises MissingExtra if the environment names a collector, but the exporter is not installed."""
    if is_exporting(environment):
        for module in ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http.trace_exporter"):
            import_extra(module, "otel", "A collector in the OTEL_ variables")


def build_provider(environment: Mapping[str, str] = os.environ) -> TracerProvider | None:
    """Returns the provider that creates and exports spans; None if no collector is set or export is disabled."""
    if not is_exporting(environment):
        return None
    try:
        return _build_exporting_provider()
    except Exception as error:
        _log_export_failure(error)
        return None


def _log_export_failure(error: Exception) -> None:
    log.error("traces_not_exported", **describe_error(error))


def _build_exporting_provider() -> TracerProvider:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider as Provider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    named = OTELResourceDetector().detect().attributes.get("service.name", "headroom")
    resource = Resource.create({"service.name": named, "service.version": version("headroom")})
    provider = Provider(resource=resource, shutdown_on_exit=False)  # a shutdown on exit would wait for 30 s
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


def flush_traces(provider: TracerProvider | None) -> None:
    """Exports the remaining spans within a short time limit."""
    if provider is not None:
        last = threading.Thread(target=provider.shutdown, daemon=True)  # type: ignore[attr-defined]
        last.start()
        last.join(SHUTDOWN_EXPORT_S)


def build_tracer(provider: TracerProvider | None) -> Tracer | None:
    """Returns the tracer of this service, or None without a provider."""
    return None if provider is None else provider.get_tracer("headroom", version("headroom"))


@contextmanager
def request_span(tracer: Tracer, parent: tuple[str, str, str] | None) -> Iterator[Span]:
    """Runs the block inside the span of a request, as a child of the caller's span if there is one."""
    above = Context()
    if parent is not None:
        of = SpanContext(int(parent[0], 16), int(parent[1], 16), is_remote=True, trace_flags=_parse_flags(parent[2]))
        above = trace.set_span_in_context(NonRecordingSpan(of), above)
    token = _tracer.set(tracer)
    span = tracer.start_span("request", context=above, kind=SpanKind.SERVER)
    try:
        with trace.use_span(span, record_exception=False, set_status_on_exception=False):
            yield span
    finally:
        _tracer.reset(token)
        span.end()


def _parse_flags(sent: str) -> trace.TraceFlags:
    return trace.TraceFlags(int(sent, 16))


def annotate_span(span: Span, *, method: str, route: str, status: int, request_id: str) -> None:
    """Sets the attributes of a finished request on its span; never its query, body or path."""
    span.update_name(f"{method} {route}")
    span.set_attributes(
        {
            "http.request.method": method,
            "http.route": route,
            "http.response.status_code": status,
            "headroom.request_id": request_id,
        }
    )
    if status >= 500:
        span.set_status(StatusCode.ERROR)


class _StageSpans:
    """Listener that forwards the stages of a request to another listener and creates a span for each."""

    def __init__(self, listener: StageListener, tracer: Tracer) -> None:
        self._listener, self._tracer = listener, tracer
        self._above = trace.set_span_in_context(trace.get_current_span())
        self._open: list[Span] = []

    def check(self) -> None:
        self._listener.check()

    def enter(self, stage: str) -> str:
        before = self._listener.enter(stage)
        above = trace.set_span_in_context(self._open[-1]) if self._open else self._above
        self._open.append(self._tracer.start_span(stage, context=above))
        return before

    def leave(self, before: str) -> None:
        self._open.pop().end()
        self._listener.leave(before)


def with_stage_spans(listener: StageListener) -> StageListener:
    """Returns the listener, extended by a span per stage if the current request is traced."""
    tracer = _tracer.get()
    return listener if tracer is None else _StageSpans(listener, tracer)
