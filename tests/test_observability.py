"""Dashboard and alerts ask for what /metrics has, by its labels, and every alert says what to do."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from starlette.testclient import TestClient

from app import telemetry
from tests.test_telemetry import scraped

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "deploy" / "observability"
RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"] for rule in group["rules"]
]
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "dashboard.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
ASKED = [
    *((rule["alert"], rule["expr"]) for rule in RULES),
    *(
        (panel["title"], target["expr"].replace("$__rate_interval", "5m"))
        for panel in PANELS
        for target in panel["targets"]
    ),
]
OF_A_SCRAPE = {"job", "instance"}
MOST_LINES = 5


@cache
def there() -> dict[str, dict[str, set[str]]]:
    """Values of each label of each sample of a scrape, some of everything having happened."""
    telemetry.record_request("POST", "/recommend", 200, 0.1)
    telemetry.record_stages("/recommend", {"search": 0.1})
    telemetry.expect_endpoints(["erp"])
    found: dict[str, dict[str, set[str]]] = {"up": {}}
    for name, labels in scraped(telemetry.prometheus_text()):
        for label, value in labels:
            found.setdefault(name, {}).setdefault(label, set()).add(value)
        found.setdefault(name, {})
    return found


def selectors(asked: str) -> list[promql_parser.VectorSelector]:
    """Every series that an expression asks for."""
    found: list[promql_parser.VectorSelector] = []

    def visit(node: Any) -> None:
        if isinstance(node, promql_parser.VectorSelector):
            found.append(node)
        elif isinstance(node, promql_parser.MatrixSelector):
            found.append(node.vector_selector)

    promql_parser.walk(promql_parser.parse(asked), visit)
    return found


@pytest.mark.parametrize(("title", "asked"), ASKED, ids=[title for title, _ in ASKED])
def test_queried_series_exist(title: str, asked: str) -> None:
    named = selectors(asked)
    assert {each.name for each in named} == set(re.findall(r"\b(?:headroom|process)_\w+|\bup\b", asked)), title
    for each in named:
        labels = there()[str(each.name)]
        for matcher in each.matchers.matchers:
            if matcher.name in OF_A_SCRAPE or "$" in matcher.value:
                assert matcher.name in OF_A_SCRAPE | labels.keys()
            else:
                assert set(matcher.value.split("|")) <= labels[matcher.name], (title, matcher.name)
    by = {label.strip() for group in re.findall(r"\bby \(([^)]*)\)", asked) for label in group.split(",")}
    assert by <= OF_A_SCRAPE.union(*(there()[str(each.name)] for each in named))


def test_the_parser_refuses_text_that_is_no_expression() -> None:
    with pytest.raises(ValueError, match="unclosed"):
        promql_parser.parse("sum by (rate(")


def test_every_metric_of_ours_is_on_the_dashboard() -> None:
    drawn = {str(each.name) for _, asked in ASKED[len(RULES) :] for each in selectors(asked)}
    counted = {re.sub(r"_(bucket|sum|count)$", "", name) for name in there() if name.startswith("headroom_")}
    drawn = {re.sub(r"_(bucket|sum|count)$", "", name) for name in drawn}
    assert counted - drawn == {"headroom_build_info"}  # which its variables are from


def test_panels_do_not_overlap_and_have_names_of_their_own() -> None:
    places = [
        (x, y)
        for panel in DASHBOARD["panels"]
        for at in [panel["gridPos"]]
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(places) == len(set(places)) and max(x for x, _ in places) < 24
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    assert len({panel["title"] for panel in PANELS}) == len(PANELS)


def test_what_a_legend_or_a_summary_names_is_a_label_that_is_left() -> None:
    for panel in PANELS:
        for target in panel["targets"]:
            left = set(re.findall(r"\w+", " ".join(re.findall(r"\bby \(([^)]*)\)", target["expr"]))))
            named = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            assert named <= left or " by " not in target["expr"], panel["title"]
    for rule in RULES:
        left = set(re.findall(r"\w+", " ".join(re.findall(r"\bby \(([^)]*)\)", rule["expr"])))) or OF_A_SCRAPE
        assert set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])) <= left, rule["alert"]


def test_alerts_have_what_prometheus_takes_and_no_more() -> None:
    assert len({rule["alert"] for rule in RULES}) == len(RULES) > 10
    for rule in RULES:
        assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert re.fullmatch(r"\d+[mh]", rule.get("for", "1m")) and rule["annotations"]["summary"].endswith(".")
    scrape = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    assert [FOLDER / name for name in scrape["rule_files"]] == [FOLDER / "alerts.yml"]
    assert {job["job_name"] for job in scrape["scrape_configs"]} == {"headroom"}


def test_every_alert_has_a_paragraph_that_says_what_to_do_and_none_stands_alone() -> None:
    sections = re.split(r"^## ", (ROOT / "docs" / "alerts.md").read_text(), flags=re.MULTILINE)[1:]
    paragraphs = {title: text.strip() for title, _, text in (each.partition("\n") for each in sections)}
    assert list(paragraphs) == [rule["alert"] for rule in RULES]
    for title, text in paragraphs.items():
        assert "\n\n" not in text and 2 <= len(text.splitlines()) <= MOST_LINES, title
    metrics = {name for text in paragraphs.values() for name in re.findall(r"`(headroom_\w+)`", text)}
    assert all(any(name.startswith(each) for name in there()) for each in metrics)


def test_routes_that_are_asked_for_are_served(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    assert {route for _, asked in ASKED for route in re.findall(r'route="([^"]+)"', asked)} <= paths.keys()
