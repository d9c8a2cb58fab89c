"""Requests and their stages are spans of the client's trace; a collector that does not answer delays no request."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from fastapi import FastAPI, Request
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.responses import JSONResponse, Response
from starlette.testclient import TestClient

from app.api import middleware, problems, traces
from app.api.admission import Admission, RequestSlot
from app.work import stage
from tests.api.test_middleware import SPAN, TRACE

PARENT = {"traceparent": f"00-{TRACE}-{SPAN}-01"}


def staged() -> Response:
    """An answer in stages, one inside another."""
    with stage("read"):
        pass
    with stage("search"), stage("simulate"):
        pass
    return JSONResponse({})


def app_with(provider: TracerProvider | None) -> FastAPI:
    app, admission = FastAPI(), Admission(at_once=1, most_waiting=4, limit_s=5)

    @app.post("/asked/{id}")
    async def asked(request: Request) -> Response:
        return await RequestSlot(admission, request).answer_shared(staged)

    @app.get("/broken")
    async def broken() -> None:
        raise ValueError("in vain")

    problems.install(app)
    middleware.install_request_middleware(app, access_log=middleware.OFF, tracer=traces.build_tracer(provider))
    return app


@pytest.fixture
def exported() -> Iterator[tuple[TestClient, InMemorySpanExporter]]:
    provider, exporter = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with TestClient(app_with(provider)) as client:
        yield client, exporter
    provider.shutdown()


def by_name(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in exporter.get_finished_spans()}


def identity(span: ReadableSpan) -> str:
    assert span.context is not None
    return f"{span.context.span_id:016x}"


def parent(span: ReadableSpan) -> str:
    return "" if span.parent is None else f"{span.parent.span_id:016x}"


def test_stages_stand_in_the_request_and_the_request_in_the_trace_that_was_sent(
    exported: tuple[TestClient, InMemorySpanExporter],
) -> None:
    client, exporter = exported
    answer = client.post("/asked/7?PASSWORD=s3cret", headers=PARENT)
    spans = by_name(exporter)
    request = spans["POST /asked/{id}"]
    assert answer.headers["traceresponse"] == f"00-{TRACE}-{identity(request)}-01"
    assert parent(request) == SPAN and {f"{span.context.trace_id:032x}" for span in spans.values()} == {TRACE}
    assert parent(spans["answer"]) == identity(request)
    assert parent(spans["read"]) == parent(spans["search"]) == identity(spans["answer"])
    assert parent(spans["simulate"]) == identity(spans["search"])
    attributes = dict(request.attributes or {})
    assert attributes.pop("headroom.request_id") == answer.headers["x-request-id"]
    assert attributes == {
        "http.request.method": "POST",
        "http.route": "/asked/{id}",
        "http.response.status_code": 200,
    }


def test_a_failure_is_one_without_what_was_said(exported: tuple[TestClient, InMemorySpanExporter]) -> None:
    client, exporter = exported
    client.get("/broken")
    span = by_name(exporter)["GET /broken"]
    assert not span.status.is_ok and span.events == () and parent(span) == ""


def test_who_asks_not_to_be_sampled_is_not(exported: tuple[TestClient, InMemorySpanExporter]) -> None:
    client, exporter = exported
    answer = client.post("/asked/7", headers={"traceparent": f"00-{TRACE}-{SPAN}-00"})
    assert answer.headers["traceresponse"].startswith(f"00-{TRACE}-") and exporter.get_finished_spans() == ()


def test_health_checks_and_scrapes_are_none(exported: tuple[TestClient, InMemorySpanExporter]) -> None:
    client, exporter = exported
    for path in ("/livez", "/readyz", "/metrics"):
        client.get(path)
    assert exporter.get_finished_spans() == ()


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"},
    ],
)
def test_without_a_collector_nothing_is_traced(environment: dict[str, str]) -> None:
    assert traces.build_provider(environment) is None and traces.build_tracer(None) is None


def test_without_a_collector_nothing_of_it_is_imported() -> None:
    asked = (
        "import sys, app.api.middleware; print([m for m in sys.modules if 'opentelemetry.sdk' in m or '.otlp' in m])"
    )
    assert subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True).stdout == "[]\n"


class Collector(BaseHTTPRequestHandler):
    taken: list[tuple[str, bytes]] = []

    def do_POST(self) -> None:
        self.taken.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """It says nothing."""


def test_a_collector_gets_them_by_otlp(monkeypatch: pytest.MonkeyPatch) -> None:
    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        provider = traces.build_provider()
        assert isinstance(provider, TracerProvider)
        TestClient(app_with(provider)).post("/asked/7", headers=PARENT)
        traces.flush_traces(provider)
        server.shutdown()
    (path, body), *_ = Collector.taken
    (sent,) = ExportTraceServiceRequest.FromString(body).resource_spans
    assert path == "/v1/traces" and sent.scope_spans[0].spans[0].trace_id.hex() == TRACE
    assert ("service.name", "headroom") in {(each.key, each.value.string_value) for each in sent.resource.attributes}


@pytest.mark.parametrize("frozen", [False, True])
def test_an_absent_or_frozen_collector_delays_no_request(frozen: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "SHUTDOWN_EXPORT_S", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        if frozen:
            silent.listen(1)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        provider = traces.build_provider()
        assert isinstance(provider, TracerProvider)
        began = time.monotonic()
        assert TestClient(app_with(provider)).post("/asked/7").status_code == 200
        traces.flush_traces(provider)
        assert time.monotonic() - began < 1.5


def test_wrong_variables_are_reported_and_do_no_harm(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "0")
    assert traces.build_provider() is None
    assert "traces_not_exported" in capsys.readouterr().out
