"""Without an extra, the service answers all else, and each feature that needs it names it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.api import traces
from app.cli import cli
from app.command.ending import run_command
from app.db import make_engine
from app.extras import MissingExtra, defer_import, import_extra

BODY = Path(__file__).parent / "api" / "bodies" / "recommend-inference-8b-small-team.json"
HIDDEN = ("lxml", "xlsxwriter", "mcp", "mcp_types", "psycopg", "opentelemetry.sdk", "opentelemetry.exporter")
# A service in a process in which the packages of all extras are missing.
SERVICE = f"""
import json, sys
sys.modules.update(dict.fromkeys({HIDDEN!r}))
from starlette.testclient import TestClient
from app.config import Settings
from app.main import create_app
url, body = sys.argv[1:]
with TestClient(create_app(Settings(database_url=url, access_log="off", log_level="error"))) as client:
    answer = client.post("/recommend", content=body, headers={{"content-type": "application/json"}}).json()
    bill = f"/recommendations/{{answer['id']}}/bill-of-materials?rank=1&format="
    found = {{form: client.get(bill + form) for form in ("json", "csv", "html", "oci", "xlsx", "cxml", "ubl")}}
    call = {{"jsonrpc": "2.0", "id": 1, "method": "ping"}}
    found["mcp"] = client.post("/mcp", json=call, headers={{"accept": "application/json, text/event-stream"}})
print(json.dumps({{name: [r.status_code, r.json() if r.status_code == 501 else None] for name, r in found.items()}}))
"""


def hide(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Makes imports of these packages fail, as if they were not installed."""
    for name in names:
        monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.slow
def test_a_service_without_extras_answers_and_names_the_extra_of_each_other_feature(sqlite_url: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SERVICE, sqlite_url, BODY.read_text()], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert [found[name][0] for name in ("json", "csv", "html", "oci")] == [200] * 4
    for name, extra in (("xlsx", "export"), ("cxml", "export"), ("ubl", "export"), ("mcp", "mcp")):
        status, problem = found[name]
        assert (status, problem["type"], problem["extra"]) == (501, "/problems/missing-extra", extra), name
        assert f"needs the extra `{extra}`, which is not installed." in problem["detail"]


def test_a_postgresql_database_needs_its_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "app.postgres", raising=False)
    hide(monkeypatch, "psycopg")
    with pytest.raises(MissingExtra, match="HEADROOM_DATABASE_URL needs the extra `postgres`"):
        make_engine("postgresql+psycopg://user@host/name")


def test_a_collector_needs_the_exporter(monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, "opentelemetry.sdk.trace")
    collector = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}
    with pytest.raises(MissingExtra, match="OTEL_ variables needs the extra `otel`"):
        traces.check_exporter(collector)
    traces.check_exporter({**collector, "OTEL_SDK_DISABLED": "true"})
    traces.check_exporter({})


@pytest.mark.parametrize(
    ("setting", "value", "hidden", "extra"),
    [
        ("HEADROOM_DATABASE_URL", "postgresql+psycopg://user@host/name", "psycopg", "postgres"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318", "opentelemetry.sdk.trace", "otel"),
        (
            "HEADROOM_PUNCHOUT_BUYERS",
            '[{"name": "b", "hosts": ["b.example"], "identity": "b", "secrets": ["0123456789ab"]}]',
            "lxml.etree",
            "export",
        ),
    ],
)
def test_the_service_does_not_start_with_a_setting_that_lacks_its_extra(
    setting: str,
    value: str,
    hidden: str,
    extra: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(setting, value)
    monkeypatch.delitem(sys.modules, "app.postgres", raising=False)
    hide(monkeypatch, hidden)
    result = CliRunner().invoke(cli, ["serve"])
    assert isinstance(result.exception, MissingExtra)

    def serve() -> None:
        raise result.exception or AssertionError

    assert run_command(serve) == 1
    assert f"needs the extra `{extra}`" in capsys.readouterr().err


def test_a_missing_module_of_the_service_itself_is_no_missing_extra() -> None:
    with pytest.raises(ModuleNotFoundError):
        import_extra("app.no_such_module", "export", "It")


def test_a_deferred_module_fails_at_its_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, "xlsxwriter")
    deferred = defer_import("xlsxwriter", "export", "The format xlsx")
    with pytest.raises(MissingExtra, match=r"The format xlsx needs the extra `export`"):
        deferred.Workbook()
