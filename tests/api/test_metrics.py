"""GET /metrics is what Prometheus reads, with all that happened before."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.testclient import TestClient

from app.api.routes import health
from tests.test_telemetry import of, scraped


def test_a_scrape_is_text_that_a_parser_takes_and_has_the_requests_before_it(client: TestClient) -> None:
    client.get("/livez")
    answer = client.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert answer.headers["cache-control"] == "no-store"
    before = of(answer.content, "headroom_request_seconds_count", method="GET", route="/livez", status="2xx")
    client.get("/livez")
    after = client.get("/metrics").content
    assert of(after, "headroom_request_seconds_count", method="GET", route="/livez", status="2xx") == before + 1
    assert of(after, "headroom_build_info", version="0.2.0") == 1


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
