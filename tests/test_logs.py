"""The log is lines of JSON, and its loss breaks nothing."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import structlog
from fastapi import FastAPI
from starlette.testclient import TestClient

from app import logs
from app.api import middleware


def test_a_line_is_an_object_whatever_it_tells(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure_json_logging("info")
    structlog.get_logger("headroom").warning("noticed", of='"\n{}\u2028\ud800')
    structlog.get_logger("headroom").debug("not_noticed")
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["of"] == '"\n{}\u2028\ud800' and line.isascii()


def test_a_full_disk_under_the_log_breaks_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    logs.configure_json_logging("info")
    app = FastAPI()
    app.get("/")(lambda: "there")
    middleware.install_request_middleware(app, access_log=middleware.ON)
    with Path("/dev/full").open("w", buffering=1) as full:
        monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(OSError, match="No space"):
            print("lost", flush=True)  # noqa: T201
        assert [TestClient(app).get("/").status_code for _ in range(2)] == [200, 200]
        monkeypatch.undo()
        with pytest.raises(OSError, match="No space"):
            full.close()
