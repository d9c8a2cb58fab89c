"""The service in the process of one command."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from fastapi import FastAPI
from starlette.testclient import TestClient

from app.command.settings import load_settings
from app.config import Settings
from app.main import create_app
from headroom_client import Headroom


@contextmanager
def open_local_client() -> Iterator[Headroom]:
    """Open a client of a service in this process, with the settings of the environment."""
    with open_local_service() as (_, client):
        yield client


@contextmanager
def open_local_service() -> Iterator[tuple[FastAPI, Headroom]]:
    """Open a service in this process and a client of it, with the settings of the environment."""
    app = create_app(quiet_settings())
    with logs_to_stderr(), TestClient(app, raise_server_exceptions=False) as http:
        yield app, Headroom(http=http, retries=0)


@contextmanager
def logs_to_stderr() -> Iterator[None]:
    """Send the logs of a service in this process to standard error, so that standard output holds only the answer."""
    previous = structlog.get_config()["logger_factory"]
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    try:
        yield
    finally:
        structlog.configure(logger_factory=previous)


def quiet_settings() -> Settings:
    """Settings of the service for one command: no access log, and of other events those that need attention."""
    return load_settings().model_copy(update={"access_log": "off", "log_level": "warning"})
