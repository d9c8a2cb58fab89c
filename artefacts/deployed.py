"""docs/deployed.md: published deployments and prices of hosted APIs, compared with the answers of the service."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from starlette.testclient import TestClient

from app.sizing.columns import HOURS_PER_MONTH
from app.sizing.words import percent, provider_name
from artefacts.decisions import format_number, merge_requests
from artefacts.service import ROOT, service_client

ENTRIES = Path(__file__).with_suffix(".json")
PAGE = ROOT / "docs" / "deployed.md"
LEVELS = (0.5, 0.8)
GOAL = 3.0
RENTED: dict[str, Any] = {"constraints": {"environments": ["cloud"]}}
HEAD = """# Published deployments and API prices, compared

`make artefacts PART=deployed` writes this page from the running service and `artefacts/deployed.json`. The page is a
comparison only: no factor, margin or default of Headroom is fitted to it. `tests/test_deployed.py` checks the
figures."""
DEPLOYMENTS = """## Published deployments and the answers of Headroom

Ten deployments whose operators state model, work and hardware: four services and six training runs. Each request
restricts the hardware to the operator's type, or to the nearest one with a price. The columns 50 % and 80 % give the
accelerators of the answer at that confidence, and the ratio to the stated number; "not reached" means that no answer
has this confidence. Operators of services report averages, so the limits of the requests apply to p50."""
SERVICES = """## Own cost and the cheapest hosted API

Twelve services whose average load equals their peak, so that no machine is idle at night. The price of the API is the
lowest in the catalog for the same tokens (observed on {observed}). The goal is a ratio of at most {goal:.0f} on rented
machines; the last column also allows owned machines."""
CAUSES = "### Ratios above the goal, and their causes"


def published_deployments() -> list[dict[str, Any]]:
    """Every published deployment: operator, statement, sources, request, assumptions, and why the answer differs."""
    entries: list[dict[str, Any]] = json.loads(ENTRIES.read_text())["deployments"]
    return entries


def compared_services() -> list[dict[str, Any]]:
    """Every service that is compared with hosted APIs: title, request, and the cause of a ratio above the goal."""
    entries: list[dict[str, Any]] = json.loads(ENTRIES.read_text())["services"]
    return entries


def post_request(client: TestClient, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to a request. Raises ValueError if the service refuses the request."""
    response = client.post(path, json=body)
    if response.status_code != 200:
        raise ValueError(response.text)
    answer: dict[str, Any] = response.json()
    return answer


def first_option(answer: Mapping[str, Any]) -> dict[str, Any] | None:
    """The first recommendation of an answer, or the estimate."""
    ranked = answer.get("recommendations", [answer])
    return ranked[0] if ranked else None


def accelerators_at(client: TestClient, deployment: Mapping[str, Any], confidence: float) -> int | None:
    """Accelerators of the answer at a confidence; None if the answer does not reach it."""
    body = merge_requests(deployment["request"], {"constraints": {"confidence": confidence}})
    option = first_option(post_request(client, deployment["call"], body))
    if option is None:
        return None
    reached = option["confidence"].get("meets_slo") or option["confidence"].get("meets_deadline") or 0.0
    return int(option["deployment"]["total_accelerators"]) if reached >= confidence else None


def format_count_and_ratio(count: int | None, stated: int) -> str:
    return "not reached" if count is None else f"{count:,} ({count / stated:.2f})"


def deployment_row(deployment: Mapping[str, Any], counts: list[int | None]) -> str:
    """A published deployment as a table row."""
    ours = [format_count_and_ratio(count, deployment["accelerators"]) for count in counts]
    hardware = f"{deployment['hardware']} ({deployment['accelerators']:,} accelerators)"
    cells = deployment["operator"], deployment["model"], deployment["stated"], hardware, *ours, deployment["why"]
    return f"| {' | '.join(cells)} |"


def deployment_notes(deployment: Mapping[str, Any]) -> str:
    """Sources, assumptions and request of a published deployment."""
    sources = ", ".join(f"<{source}>" for source in deployment["sources"])
    title = f"**{deployment['operator']}, {deployment['model']}** ({deployment['date']}; {sources})"
    request = f"`POST {deployment['call']}` `{json.dumps(deployment['request'])}`"
    return f"{title}. {deployment['assumed']}\n\n{request}"


def deployment_section(client: TestClient) -> Iterator[str]:
    """The comparison with published deployments."""
    entries = published_deployments()
    counts = {entry["key"]: [accelerators_at(client, entry, level) for level in LEVELS] for entry in entries}
    head = (
        "operator",
        "model",
        "work as stated",
        "hardware as stated",
        "50 % (ratio)",
        "80 % (ratio)",
        "why they differ",
    )
    rows = [deployment_row(entry, counts[entry["key"]]) for entry in entries]
    yield DEPLOYMENTS
    yield "\n".join([f"| {' | '.join(head)} |", "|" + " --- |" * len(head), *rows])
    for phase, named in (("inference", "services"), ("training", "training runs")):
        medians = []
        for column, level in enumerate(LEVELS):
            pairs = [
                (counts[e["key"]][column], e["accelerators"])
                for e in entries
                if e["request"]["workload"]["phase"] == phase
            ]
            ratios = [count / stated for count, stated in pairs if count is not None]
            medians.append(f"{median(ratios):.2f} at {percent(level)} confidence")
        yield f"Median ratio of the {named}: {', '.join(medians)}."
    yield "### Sources, assumptions and requests"
    yield from (deployment_notes(entry) for entry in entries)


def own_and_hosted(client: TestClient, service: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Own cost per hour and that of the cheapest hosted API, for a request with changes, and the option itself."""
    answer = post_request(client, "/recommend", merge_requests(service["request"], changes))
    option, hosts = first_option(answer), (answer.get("hosted_api") or {}).get("hosts")
    if option is None or not hosts:
        raise ValueError(f"{service['key']}: no option or no hosted API")
    own, hosted = option["cost"]["usd_per_hour"], hosts[0]["usd_per_month"] / HOURS_PER_MONTH
    host = {"host": hosts[0]["provider"], "hosted": hosted, "observed": answer["hosted_api"]["observed"]}
    return {"option": option, "own": own, **host, "ratio": own / hosted}


def service_row(service: Mapping[str, Any], rented: Mapping[str, Any], any_price: Mapping[str, Any]) -> str:
    traffic, deployment = service["request"]["workload"]["traffic"], rented["option"]["deployment"]
    cells = (
        service["title"],
        service["request"]["workload"]["model"],
        f"{format_number(traffic['peak_requests_per_s'])}",
        f"{deployment['total_accelerators']:,} x {deployment['accelerator']}",
        f"{rented['own']:.2f}",
        f"{rented['hosted']:.2f} ({provider_name(rented['host'])})",
        f"{rented['ratio']:.2f}",
        f"{any_price['ratio']:.2f}",
    )
    return f"| {' | '.join(cells)} |"


def cause_of_ratio(service: Mapping[str, Any], rented: Mapping[str, Any]) -> str:
    """Why a ratio exceeds the goal: the bill of the option, and the cause."""
    bill = rented["option"]["confidence"]["bill"]
    start = bill[0]["usd_per_hour"] / rented["hosted"]
    factors = [
        f"{line['factor'].replace('_', ' ')} {line['multiplier']:.2f}" for line in bill[1:] if line["multiplier"] != 1
    ]
    product = " × ".join([f"predicted rate of full machines {start:.2f}", *factors])
    return f"- **{service['title']}**, {rented['ratio']:.2f} = {product}. {service.get('cause', '')}".rstrip()


def service_section(client: TestClient) -> Iterator[str]:
    """The comparison with hosted APIs."""
    services = compared_services()
    rented = {service["key"]: own_and_hosted(client, service, RENTED) for service in services}
    any_price = {service["key"]: own_and_hosted(client, service, {}) for service in services}
    head = (
        *("service", "model", "requests/s", "rented", "own USD/h", "API USD/h", "ratio"),
        "ratio, rented or owned",
    )
    rows = [service_row(service, rented[service["key"]], any_price[service["key"]]) for service in services]
    above = [service for service in services if rented[service["key"]]["ratio"] > GOAL]
    yield SERVICES.format(observed=max(each["observed"] for each in rented.values()), goal=GOAL)
    yield "\n".join([f"| {' | '.join(head)} |", "|" + " --- |" * len(head), *rows])
    yield f"{len(services) - len(above)} of {len(services)} services meet the goal."
    if above:
        yield CAUSES
        yield "\n".join(cause_of_ratio(service, rented[service["key"]]) for service in above)
    yield "### Requests"
    listed = [f"- {service['title']}: `POST /recommend` `{json.dumps(service['request'])}`" for service in services]
    yield "\n".join([f"The rented machines add `{json.dumps(RENTED)}`.", "", *listed])


def page(client: TestClient) -> str:
    parts = [HEAD, *deployment_section(client), *service_section(client)]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def write() -> None:
    with service_client() as client:
        PAGE.write_text(page(client))
