"""The service on a port of its own, and a browser before it; made once for all tests of the page."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
import uvicorn

from app.config import Settings
from app.main import create_app
from artefacts.service import DAY

if TYPE_CHECKING:
    from tests.page.browser import Browser


@pytest.fixture(scope="session")
def service(sqlite_url: str) -> Iterator[str]:
    """Address of the real application over the seeded SQLite file, warm."""
    app = create_app(Settings(database_url=sqlite_url, today=DAY, access_log="off"))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()
    app.state.sessions.kw["bind"].dispose()


@pytest.fixture(scope="session")
def browser(service: str) -> Iterator[Browser]:
    """A Chromium of the system: make test-page installs none."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    assert chromium and driver, "apt-get install chromium chromium-driver"
    # Installed by make test-page alone.
    from tests.page.browser import Browser  # noqa: PLC0415

    made = Browser(chromium, driver, service)
    yield made
    made.window.quit()
