"""Fits a default answer into its size limit: removes what other endpoints can return first and the decisive parts
last.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import fields
from itertools import accumulate
from typing import Any

import orjson

from app.export.lines import FILING_FIELDS
from app.sizing.assumptions.answer import AnswerAssumptions
from app.sizing.assumptions.day import DayAssumptions
from app.sizing.assumptions.hardware import HardwareAssumptions
from app.sizing.assumptions.machines import MachineAssumptions
from app.sizing.assumptions.serving import ServingAssumptions
from app.sizing.assumptions.training import TrainingAssumptions

MAX_BYTES = 29_999
# Bytes of the echoed request that count towards MAX_BYTES. A larger request, such as a pasted model configuration, and
# the caller's own labels come on top.
LARGEST_REQUEST_COUNTED = 2_000
OMITTED_COUNT_BYTES = len(b',"assumptions_omitted":100')
WHOLE_RANKS = 3
REJECTIONS_SHOWN, FEWER_REJECTIONS, FEWEST_REJECTIONS = 12, 10, 8
FAILURE_INTERVALS = 6
COMPARISON_CODES = ("comparison", "near_tie")
ALWAYS_KEPT_CODES = ("memory", *COMPARISON_CODES)
ASSUMPTION_GROUPS = (
    AnswerAssumptions,
    DayAssumptions,
    HardwareAssumptions,
    MachineAssumptions,
    ServingAssumptions,
    TrainingAssumptions,
)
# Assumptions, least decisive first. GET /catalog/assumptions lists their default values.
ASSUMPTION_ORDER = tuple(field.name for room in ASSUMPTION_GROUPS for field in reversed(fields(room)))

Document = dict[str, Any]


def json_bytes(document: Any) -> bytes:
    return orjson.dumps(document)


def fit_to_size(document: Document) -> bytes:
    """Returns the answer as JSON within 30 KB, reduced step by step until it fits."""
    counted = {name: value for name, value in document["request"].items() if name not in FILING_FIELDS}
    words, rest = len(json_bytes(document["request"])) - len(json_bytes(counted)), len(json_bytes(counted))
    room = MAX_BYTES + words + max(0, rest - LARGEST_REQUEST_COUNTED)
    leaner = list(accumulate(STEPS, lambda found, step: step(found), initial=document))
    first = bisect_left(leaner, -room, key=lambda found: -len(json_bytes(found)))
    document = leaner[min(first, len(leaner) - 1)]
    for step in (
        _drop_entries(_default_assumptions, room),
        *LAST_STEPS,
        _drop_entries(_rejections_from_last, room),
        _for_ranks_after(_keep_comparison_reasons, after=1),
    ):
        body = json_bytes(document)
        if len(body) <= room:
            return body
        document = step(document)
    return json_bytes(document)


def _drop_entries(droppable: Callable[[Document], list[Document]], room: int) -> Callable[[Document], Document]:
    """Returns a step that drops as many entries of a list as necessary."""

    def drop_excess(document: Document) -> Document:
        excess = len(json_bytes(document)) + OMITTED_COUNT_BYTES - room
        drop: list[Document] = []
        for entry in droppable(document):
            if excess <= 0:
                break
            drop.append(entry)
            excess -= len(json_bytes(entry)) + 1
        kept = {key: [e for e in document[key] if not any(e is d for d in drop)] for key in ("assumptions", "rejected")}
        omitted = len(document["assumptions"]) - len(kept["assumptions"])
        return {**document, **kept, **({"assumptions_omitted": omitted} if omitted else {})}

    return drop_excess


def _default_assumptions(document: Document) -> list[Document]:
    usual = {a["name"]: a for a in document["assumptions"] if not a["asked"]}
    return [usual[name] for name in ASSUMPTION_ORDER if name in usual]


def _rejections_from_last(document: Document) -> list[Document]:
    return list(reversed(document["rejected"]))


def _for_ranks_after(change: Callable[[Document], Document], *, after: int) -> Callable[[Document], Document]:
    """Returns a step that changes every rank below the first `after` ranks."""

    def change_ranks(document: Document) -> Document:
        ranks = document["recommendations"]
        return {**document, "recommendations": [*ranks[:after], *map(change, ranks[after:])]}

    return change_ranks


def _limit_rejections(most: int) -> Callable[[Document], Document]:
    return lambda document: {**document, "rejected": document["rejected"][:most]}


def _keep_essential_reasons(option: Document) -> Document:
    """Keeps the reasons on memory and comparison; POST /estimate returns the rest."""
    return {
        **option,
        "explanation": [reason for reason in option["explanation"] if reason["code"] in ALWAYS_KEPT_CODES],
    }


def _without_placement(option: Document) -> Document:
    """Removes the placement reason. The redundancy is the same for all ranks, and POST /estimate returns it."""
    return {**option, "explanation": [reason for reason in option["explanation"] if reason["code"] != "placement"]}


def _without_measurements(option: Document) -> Document:
    """Removes the published measurements nearest to the option; POST /estimate returns them."""
    return {**option, "nearest_measurements": []}


def _without_bill(option: Document) -> Document:
    """Removes the cost lines; POST /estimate returns them."""
    return {**option, "cost": {**option["cost"], "parts": None}}


def _without_alternatives(option: Document) -> Document:
    """Removes the other acquisition options; POST /estimate returns them."""
    return {key: value for key, value in option.items() if key != "alternatives"}


def _without_other_levels(option: Document) -> Document:
    """Keeps the requested confidence level only; POST /estimate returns the others."""
    sure = option["confidence"]
    asked = [level for level in sure["by_level"] if level["confidence"] == sure["asked"]]
    return {**option, "confidence": {**sure, "by_level": asked}}


def _without_means(option: Document) -> Document:
    """Removes the intervals of means that accompany those of medians; POST /estimate returns them."""
    speed = option.get("performance", {})
    kept = [i for i in speed.get("intervals", []) if "statistic" in i or not i["quantity"].endswith("_ms")]
    return {**option, "performance": {**speed, "intervals": kept}} if "intervals" in speed else option


def _without_intervals(option: Document) -> Document:
    """Removes all performance intervals; POST /estimate returns them."""
    speed = {key: value for key, value in option.get("performance", {}).items() if key != "intervals"}
    return {**option, "performance": speed} if speed else option


def _keep_comparison_reasons(option: Document) -> Document:
    """Keeps only the reasons that compare the option with the first; POST /estimate returns the others."""
    return {**option, "explanation": [reason for reason in option["explanation"] if reason["code"] in COMPARISON_CODES]}


def _thin_failure_minutes(parts: int) -> Callable[[Document], Document]:
    """Returns a step that thins the minutes of each failure to about `parts` intervals, including both ends; POST
    /estimate returns all.
    """

    def thin_minutes(minutes: list[Document]) -> list[Document]:
        return [*minutes[: -1 : max(1, -(-len(minutes) // parts))], minutes[-1]]

    def thin_failures(option: Document) -> Document:
        day = option.get("day")
        if day is None:
            return option
        losses = [{**loss, "minutes": thin_minutes(loss["minutes"])} for loss in day["failures"]]
        return {**option, "day": {**day, "failures": losses}}

    return thin_failures


def _halve_load_curve(option: Document) -> Document:
    """Keeps every other point of the load curve, including both ends; POST /estimate returns all."""
    speed = option.get("performance", {})
    curve = speed.get("load_curve")
    if not curve:
        return option
    points = curve["points"]
    kept = [*points[:-1:2], points[-1]]
    return {**option, "performance": {**speed, "load_curve": {**curve, "points": kept}}}


def _without_metrics(document: Document) -> Document:
    """Removes the descriptions of the metrics; the OpenAPI document explains them."""
    return {k: v for k, v in document.items() if k != "metrics"}


def _without_assumption_reasons(document: Document) -> Document:
    """Removes the reasons of assumed values; GET /catalog/assumptions lists them."""
    shortened = [
        {**a, "source": "assumed"} if a["source"].startswith("assumed") else a for a in document["assumptions"]
    ]
    return {**document, "assumptions": shortened}


STEPS: tuple[Callable[[Document], Document], ...] = (
    _for_ranks_after(_thin_failure_minutes(FAILURE_INTERVALS), after=0),
    _limit_rejections(REJECTIONS_SHOWN),
    _for_ranks_after(_without_measurements, after=WHOLE_RANKS),
    _for_ranks_after(_without_alternatives, after=WHOLE_RANKS),
    _for_ranks_after(_without_bill, after=WHOLE_RANKS),
    _for_ranks_after(_keep_essential_reasons, after=WHOLE_RANKS + 1),
    _for_ranks_after(_keep_essential_reasons, after=WHOLE_RANKS),
    _for_ranks_after(_without_placement, after=1),
    _for_ranks_after(_without_means, after=1),
    _without_metrics,
    _limit_rejections(FEWER_REJECTIONS),
    _for_ranks_after(_without_other_levels, after=WHOLE_RANKS),
    _for_ranks_after(_without_alternatives, after=1),
    _without_assumption_reasons,
    _for_ranks_after(_without_measurements, after=1),
    _limit_rejections(FEWEST_REJECTIONS),
    _for_ranks_after(_halve_load_curve, after=0),
    _for_ranks_after(_without_means, after=0),
)
LAST_STEPS = (
    _for_ranks_after(_keep_essential_reasons, after=WHOLE_RANKS - 1),
    _for_ranks_after(_without_bill, after=1),
    _for_ranks_after(_keep_essential_reasons, after=1),
    _for_ranks_after(_without_other_levels, after=1),
    _for_ranks_after(_without_intervals, after=1),
    _for_ranks_after(_thin_failure_minutes(1), after=0),
)
