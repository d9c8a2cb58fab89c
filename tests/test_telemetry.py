"""A scrape returns the counted events, of one process and of several as one."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient
from typer.testing import CliRunner

from app import cli, metrics_folder, server, telemetry
from app.api.routes import health
from app.server.listening import ListenerConfig


def scraped(text: bytes) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Every sample of a scrape, by name and labels."""
    families = text_string_to_metric_families(text.decode())
    return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}


def of(text: bytes, name: str, **labels: str) -> float:
    return scraped(text)[name, frozenset(labels.items())]


def value(name: str, **labels: str) -> float:
    return of(telemetry.prometheus_text(), name, **labels)


def test_a_request_is_counted_by_its_template_and_class_of_status() -> None:
    with telemetry.in_flight():
        assert value("headroom_requests_in_flight") >= 1
        telemetry.record_request("GET", "/of/a/{test}", 204, 0.03)
    labels = {"method": "GET", "route": "/of/a/{test}", "status": "2xx"}
    assert value("headroom_request_seconds_count", **labels) == 1
    assert value("headroom_request_seconds_sum", **labels) == pytest.approx(0.03)
    assert value("headroom_request_seconds_bucket", le="0.025", **labels) == 0
    assert value("headroom_request_seconds_bucket", le="0.05", **labels) == 1


def test_every_value_of_a_closed_label_counts_from_nought() -> None:
    for reason in ("overloaded", "too-many-at-once", "out-of-time", "client-gone", "connections"):
        assert value("headroom_shed_total", reason=reason) >= 0
    before = value("headroom_shed_total", reason="overloaded")
    telemetry.record_shed("overloaded")
    assert value("headroom_shed_total", reason="overloaded") == before + 1


def test_days_and_moments_of_the_catalogue_are_seconds() -> None:
    telemetry.record_catalog_loaded(7, published="2026-11-20T12:00:00+00:00", prices_as_of="2026-11-19")
    assert value("headroom_catalogue_version") == 7
    assert value("headroom_catalogue_published_timestamp_seconds") == 1795176000
    assert value("headroom_prices_timestamp_seconds") == 1795046400


def test_memory_and_processor_time_of_this_process_are_reported() -> None:
    pid = str(os.getpid())
    assert value("process_resident_memory_bytes", pid=pid) > 10e6
    assert value("process_cpu_seconds_total", pid=pid) > 0


WORKER = """
import sys
from app import telemetry
telemetry.record_shed("overloaded")
telemetry.set_queue_length("long", waiting=3, computing=1)
telemetry.record_catalog_loaded(int(sys.argv[1]), published="2026-11-20", prices_as_of="2026-11-19")
print("counted", flush=True)
sys.stdin.readline()
sys.stdout.buffer.write(telemetry.prometheus_text())
"""


def test_one_scrape_has_what_all_workers_counted_and_levels_of_the_living() -> None:
    with metrics_folder.share_metrics():
        folder = Path(os.environ[metrics_folder.FOLDER])
        pair = [
            subprocess.Popen([sys.executable, "-c", WORKER, n], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            for n in ("4", "5")
        ]
        for each in pair:
            assert each.stdout is not None
            assert each.stdout.readline() == b"counted\n"
        pair[0].kill()
        pair[0].communicate()
        text, _ = pair[1].communicate(b"\n")
        pids = [str(each.pid) for each in pair]
    assert of(text, "headroom_shed_total", reason="overloaded") == 2  # what the dead counted stays
    assert of(text, "headroom_line_length", line="long") == 3
    assert of(text, "headroom_catalogue_version") == 5
    shown = {dict(labels)["pid"] for name, labels in scraped(text) if name == "process_resident_memory_bytes"}
    assert pids[1] in shown and pids[0] not in shown
    assert not folder.exists() and metrics_folder.FOLDER not in os.environ


@pytest.mark.parametrize(("workers", "share"), [("1", False), ("2", True)])
def test_workers_that_are_served_with_share_what_they_count(
    workers: str, share: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders: list[str | None] = []

    class Served:
        """Stands for one process and for several: notes what they share."""

        started, out_of_memory = True, False

        def __init__(self, *_: object) -> None:
            pass

        def run(self, *_: object) -> int:
            folders.append(os.environ.get(metrics_folder.FOLDER))
            return 0

    monkeypatch.setattr(server, "Server", Served)
    monkeypatch.setattr(server, "Workers", Served)
    monkeypatch.setattr(ListenerConfig, "bind_socket", lambda _: None)
    assert CliRunner().invoke(cli.cli, ["serve", "--workers", workers]).exit_code == 0
    assert [folder is not None for folder in folders] == [share]
    assert metrics_folder.FOLDER not in os.environ


def test_what_a_killed_service_left_is_cleared_away_and_what_another_uses_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left = tmp_path / f"{metrics_folder.PREFIX}left"
    left.mkdir()
    (left / "counter_1.db").write_bytes(b"")
    with metrics_folder.share_metrics():
        used = Path(os.environ[metrics_folder.FOLDER])
        assert not left.exists() and used.parent == tmp_path
        with metrics_folder.share_metrics():
            assert used.exists()


def test_without_a_place_for_files_workers_count_for_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with metrics_folder.share_metrics():
        assert metrics_folder.FOLDER not in os.environ
    assert "metrics_not_shared" in capsys.readouterr().out


FORKED = """
import os, sys
from app.metrics_folder import share_metrics
with share_metrics():
    from app import telemetry
    telemetry.record_shed("overloaded")
    telemetry.leave_counting_to_workers()
    if os.fork() == 0:
        telemetry.record_catalog_loaded(7, published="2026-11-20T00:00:00Z", prices_as_of="2026-11-20")
        sys.stdout.write(f"parent {os.getppid()}\\n{telemetry.prometheus_text().decode()}")
        sys.stdout.flush()
        os._exit(0)
    os.wait()
"""


def test_a_parent_that_forks_workers_does_not_count_as_one() -> None:
    ended = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, check=True)
    parent, _, shown = ended.stdout.partition("\n")
    assert "headroom_catalogue_version 7.0" in shown
    assert 'headroom_shed_total{reason="overloaded"} 0.0' in shown
    assert f'pid="{parent.split()[1]}"' not in shown and shown.count("process_resident_memory_bytes{pid=") == 1


def test_a_scrape_is_text_that_a_parser_takes_and_has_the_requests_before_it(client: TestClient) -> None:
    client.get("/livez")
    answer = client.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert answer.headers["cache-control"] == "no-store"
    before = of(answer.content, "headroom_request_seconds_count", method="GET", route="/livez", status="2xx")
    client.get("/livez")
    after = client.get("/metrics").content
    assert of(after, "headroom_request_seconds_count", method="GET", route="/livez", status="2xx") == before + 1
    assert of(after, "headroom_build_info", version="0.3.0") == 1


def test_labels_are_few_and_none_is_a_path_that_somebody_made_up(client: TestClient) -> None:
    for i in range(50):
        client.get(f"/recommendations/rec_{i:028x}")
        client.get(f"/made/up/{i}")
        client.request(f"ODD{i}", "/livez")
    samples = scraped(client.get("/metrics").content)
    routes = {dict(labels)["route"] for name, labels in samples if "request_seconds" in name}
    assert not [route for route in routes if "made" in route or "rec_" in route]
    assert {dict(labels)["method"] for name, labels in samples if "request_seconds" in name} <= {
        *("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "other")
    }


def test_it_can_be_switched_off() -> None:
    app = FastAPI()
    health.install_metrics(app, on=False)
    assert TestClient(app).get("/metrics").status_code == 404
