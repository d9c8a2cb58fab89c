"""The client behind a tool call: its address counts, and its work stops when it has gone."""

from __future__ import annotations

import json
import socket
import time
from typing import Any
from urllib.parse import urlsplit

import pytest

from app.api import admission
from app.api.admission import Job
from app.work import Abandoned

CALL = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {
        "name": "compare",
        "arguments": {
            "workload": {
                "phase": "inference",
                "model": "deepseek-ai/DeepSeek-V3",
                "traffic": {"peak_requests_per_s": 21, "input_tokens": 1021, "output_tokens": 255},
            },
            "options": [{"name": f"up to {n}", "constraints": {"max_accelerators": n}} for n in range(8, 16)],
        },
    },
}


class Watch:
    """Jobs that were started, with the error that ended each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.jobs: list[Job] = []

        class Watched(Job):
            def __init__(job, *args: Any, **kwargs: Any) -> None:  # noqa: N805
                super().__init__(*args, **kwargs)
                self.jobs.append(job)

        monkeypatch.setattr(admission, "Job", Watched)

    def wait(self, done: Any) -> None:
        until = time.monotonic() + 20
        while not done() and time.monotonic() < until:
            time.sleep(0.02)
        assert done()


def send_call(live: str, source: str) -> socket.socket:
    """Sends a tool call from an address of this machine."""
    host, port = urlsplit(live).hostname, urlsplit(live).port
    content = json.dumps(CALL).encode()
    head = (
        f"POST /mcp HTTP/1.1\r\nhost: {host}:{port}\r\ncontent-type: application/json\r\n"
        f"accept: application/json, text/event-stream\r\ncontent-length: {len(content)}\r\n\r\n"
    )
    connection = socket.create_connection((str(host), int(port or 0)), source_address=(source, 0))
    connection.sendall(head.encode() + content)
    return connection


def test_a_tool_call_has_its_clients_address_and_stops_when_the_client_has_gone(
    live: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = Watch(monkeypatch)
    connection = send_call(live, "127.0.0.7")
    watch.wait(lambda: bool(watch.jobs))
    (job,) = watch.jobs
    assert job.caller == "127.0.0.7"
    connection.close()
    began = time.monotonic()
    watch.wait(job.future.done)
    assert isinstance(job.future.exception(), Abandoned)
    assert time.monotonic() - began < 1
