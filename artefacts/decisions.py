"""docs/decisions.md: questions of buyers, the current answers, and the reasons to accept them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from app.sizing.words import percent
from artefacts.service import ROOT, worked_requests

QUESTIONS = Path(__file__).with_suffix(".json")
PAGE = ROOT / "docs" / "decisions.md"
HEAD = """# Questions of buyers and their answers

`make artefacts` writes this page from the running service: the request, the current answer, and manually written
reasons to accept it. `tests/test_decisions.py` checks the answers against these reasons. Figures are median predictions
for the recommended hardware: capacity, 95th percentiles of TTFT and TPOT, or days. `2 + 1 of 4 (TP4)` means two
replicas and one spare of four accelerators each, with tensor parallelism of four. `documented` means that a source
documents the combination. A price is shown with its basis and its date.
"""
SHOWN = 3


def buyer_questions() -> list[dict[str, Any]]:
    """Every question: title, endpoint, request (or a worked request with changes), and reasons."""
    questions: list[dict[str, Any]] = json.loads(QUESTIONS.read_text())
    return questions


def merge_requests(body: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A request with some fields replaced."""
    parts = {k: merge_requests(body.get(k) or {}, v) if isinstance(v, dict) else v for k, v in changes.items()}
    return {**body, **parts}


def request_of(question: Mapping[str, Any]) -> dict[str, Any]:
    worked = worked_requests()[question["body"]] if "body" in question else {}
    return merge_requests(worked, question.get("request", {}))


def request_link(question: Mapping[str, Any]) -> str:
    changes = json.dumps(question.get("request", {}))
    if "body" not in question:
        return f"`POST {question['call']}` `{changes}`"
    also = f" with `{changes}`" if "request" in question else ""
    return f"`POST {question['call']}` [{question['body']}](../tests/api/bodies/{question['body']}.json){also}"


def format_number(value: float | None, unit: str = "") -> str:
    return "–" if value is None else f"{value:,.4g}{unit}" if abs(value) < 1e4 else f"{value:,.0f}{unit}"


def format_layout(deployment: Mapping[str, Any]) -> str:
    """Replicas, accelerators, format and engine of a deployment as one phrase."""
    degrees = ("tensor_parallel", "TP"), ("pipeline_parallel", "PP"), ("data_parallel", "DP")
    split = " ".join(f"{label}{deployment[name]}" for name, label in degrees if (deployment.get(name) or 1) > 1)
    if deployment.get("framework"):
        return ", ".join(filter(None, (deployment["framework"], split)))
    spare = f" + {deployment['spare_replicas']}" if deployment["spare_replicas"] else ""
    each = " ".join(filter(None, (str(deployment["accelerators_per_replica"]), split and f"({split})")))
    return f"{deployment['replicas']}{spare} of {each}, {deployment['weight_format']} {deployment['engine']}"


def table_row(estimate: Mapping[str, Any]) -> str:
    d, cost, speed = estimate["deployment"], estimate.get("cost") or {}, estimate.get("performance") or {}
    offer = d.get("offer") or {}
    where = " ".join(str(x) for x in (offer.get("provider"), offer.get("region"), offer.get("pricing_model")) if x)
    days, rate = speed.get("days"), speed.get("requests_per_s_capacity")
    waits = [(speed.get(name) or {}).get("p95") for name in ("ttft_ms", "tpot_ms")]
    capacity = f"{format_number(days)} days" if days is not None else f"{format_number(rate)} requests/s"
    if None not in waits:
        capacity += f", TTFT {format_number(waits[0])} ms, TPOT {format_number(waits[1])} ms"
    price = cost.get("price") or {}
    seen = f"{price['kind']}, {price['observed']}" if price else "–"
    money = format_number(cost.get("usd_per_hour")), format_number(cost.get("usd_total")), seen
    laid_out = f"{format_layout(d)} ({estimate['support']})" if estimate.get("support") else format_layout(d)
    cells = f"{d.get('total_accelerators'):,} x {d['accelerator']}", where or "–", laid_out, capacity, *money
    return f"| {' | '.join(cells)} |"


def question_section(question: Mapping[str, Any], answer: Mapping[str, Any]) -> Iterator[str]:
    yield f"## {question['title']}"
    yield request_link(question)
    yield f"> {answer['summary']}"
    ranked = answer.get("recommendations", [answer])[:SHOWN]
    if ranked and ranked[0].get("performance"):
        head = "| hardware | offer | layout | performance | USD/h | USD in total | price |\n|" + " --- |" * 7
        yield "\n".join([head, *(table_row(estimate) for estimate in ranked)])
    notices = [f"- `{notice['code']}`: {notice['text']}" for notice in answer.get("warnings", ())]
    changes = [f"- {change['change']}: {change['effect']}" for change in answer.get("sensitivity", ())]
    if notices:
        yield "Warnings:\n\n" + "\n".join(notices)
    less = [
        f"- {c['if']}: {c['total_accelerators']} x {c['accelerator']} at {c['provider']}, "
        f"{c['usd_per_hour']:.2f} USD/h ({percent(c['saves_share'])} less); {c['risk']}"
        for c in answer.get("cheaper_if", ())
    ]
    if less:
        yield "Cheaper, if accepted:\n\n" + "\n".join(less)
    hosted = answer.get("hosted_api")
    if hosted:
        yield f"Hosted API: {hosted['text']}"
    if changes:
        yield "Changes of the answer:\n\n" + "\n".join(changes)
    yield "Reasons to accept it:\n\n" + "\n".join(f"- {reason}" for reason in question["reasons"])


def write_decisions(client: TestClient) -> None:
    parts = [HEAD]
    for question in buyer_questions():
        answer = client.post(question["call"], json=request_of(question)).json()
        parts += question_section(question, answer)
    PAGE.write_text("\n\n".join(part.rstrip() for part in parts) + "\n")
