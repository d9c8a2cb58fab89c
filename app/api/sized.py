"""An answer in the size of a default one: what can be read elsewhere goes first, what decides goes last."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import fields
from itertools import accumulate
from typing import Any

import orjson

from app.export.lines import OWN_WORDS
from app.sizing.assumptions.answer import AnswerAssumptions
from app.sizing.assumptions.day import DayAssumptions
from app.sizing.assumptions.hardware import HardwareAssumptions
from app.sizing.assumptions.machines import MachineAssumptions
from app.sizing.assumptions.serving import ServingAssumptions
from app.sizing.assumptions.training import TrainingAssumptions

MAX_BYTES = 29_999
LARGEST_REQUEST_COUNTED = (
    2_000  # what a caller sent beyond this, such as a model's configuration, and own words, come on top
)
ROOM_TO_SAY_SO = len(b',"assumptions_omitted":100')
WHOLE_RANKS = 3
MISSES_TOLD, FEWER_MISSES, FEWEST_MISSES = 12, 10, 8
PARTS_OF_A_LOSS = 6
COMPARED = ("comparison", "near_tie")
ALWAYS_TOLD = ("memory", *COMPARED)
ROOMS = (
    AnswerAssumptions,
    DayAssumptions,
    HardwareAssumptions,
    MachineAssumptions,
    ServingAssumptions,
    TrainingAssumptions,
)
# Figures of the inside, least decisive first: GET /catalog/assumptions lists what is usual.
INNER = tuple(field.name for room in ROOMS for field in reversed(fields(room)))

Document = dict[str, Any]


def json_bytes(document: Any) -> bytes:
    return orjson.dumps(document)


def within_size(document: Document) -> bytes:
    """The answer in 30 KB, leaner step by step until it is."""
    asked = {name: value for name, value in document["request"].items() if name not in OWN_WORDS}
    words, rest = len(json_bytes(document["request"])) - len(json_bytes(asked)), len(json_bytes(asked))
    room = MAX_BYTES + words + max(0, rest - LARGEST_REQUEST_COUNTED)
    leaner = list(accumulate(STEPS, lambda found, step: step(found), initial=document))
    first = bisect_left(leaner, -room, key=lambda found: -len(json_bytes(found)))
    document = leaner[min(first, len(leaner) - 1)]
    for step in (_without(_inner, room), *LAST_STEPS, _without(_last_misses, room), _ranked(_only_compared, after=1)):
        body = json_bytes(document)
        if len(body) <= room:
            return body
        document = step(document)
    return json_bytes(document)


def _without(droppable: Callable[[Document], list[Document]], room: int) -> Callable[[Document], Document]:
    """A step that drops of a list as many as need be."""

    def step(document: Document) -> Document:
        excess = len(json_bytes(document)) + ROOM_TO_SAY_SO - room
        drop: list[Document] = []
        for entry in droppable(document):
            if excess <= 0:
                break
            drop.append(entry)
            excess -= len(json_bytes(entry)) + 1
        kept = {key: [e for e in document[key] if not any(e is d for d in drop)] for key in ("assumptions", "rejected")}
        omitted = len(document["assumptions"]) - len(kept["assumptions"])
        return {**document, **kept, **({"assumptions_omitted": omitted} if omitted else {})}

    return step


def _inner(document: Document) -> list[Document]:
    usual = {a["name"]: a for a in document["assumptions"] if not a["asked"]}
    return [usual[name] for name in INNER if name in usual]


def _last_misses(document: Document) -> list[Document]:
    return list(reversed(document["rejected"]))


def _ranked(change: Callable[[Document], Document], *, after: int) -> Callable[[Document], Document]:
    """A step that changes every rank after one."""

    def step(document: Document) -> Document:
        ranks = document["recommendations"]
        return {**document, "recommendations": [*ranks[:after], *map(change, ranks[after:])]}

    return step


def _misses(most: int) -> Callable[[Document], Document]:
    return lambda document: {**document, "rejected": document["rejected"][:most]}


def _briefly(told: Document) -> Document:
    """Memory and where it stands; POST /estimate says the rest."""
    return {**told, "explanation": [reason for reason in told["explanation"] if reason["code"] in ALWAYS_TOLD]}


def _without_standing(told: Document) -> Document:
    """Without where its machines stand; what is promised is the same of every rank, and POST /estimate says it."""
    return {**told, "explanation": [reason for reason in told["explanation"] if reason["code"] != "placement"]}


def _without_neighbours(told: Document) -> Document:
    """Without the published results beside it; POST /estimate says them."""
    return {**told, "nearest_measurements": []}


def _without_bill(told: Document) -> Document:
    """Without the lines of its cost; POST /estimate says them."""
    return {**told, "cost": {**told["cost"], "parts": None}}


def _without_alternatives(told: Document) -> Document:
    """Without other ways to have it; POST /estimate says them."""
    return {key: value for key, value in told.items() if key != "alternatives"}


def _without_other_levels(told: Document) -> Document:
    """Of confidences the one asked for; POST /estimate says the others."""
    sure = told["confidence"]
    asked = [level for level in sure["by_level"] if level["confidence"] == sure["asked"]]
    return {**told, "confidence": {**sure, "by_level": asked}}


def _without_means(told: Document) -> Document:
    """Without the intervals of means beside those of medians; POST /estimate says them."""
    speed = told.get("performance", {})
    kept = [i for i in speed.get("intervals", []) if "statistic" in i or not i["quantity"].endswith("_ms")]
    return {**told, "performance": {**speed, "intervals": kept}} if "intervals" in speed else told


def _without_intervals(told: Document) -> Document:
    """With the interval of its rate alone; POST /estimate says the others."""
    speed = {key: value for key, value in told.get("performance", {}).items() if key != "intervals"}
    return {**told, "performance": speed} if speed else told


def _only_compared(told: Document) -> Document:
    """Of its reasons those that set it beside the first; POST /estimate says the others."""
    return {**told, "explanation": [reason for reason in told["explanation"] if reason["code"] in COMPARED]}


def _with_minutes(parts: int) -> Callable[[Document], Document]:
    """Of each loss the minutes that part it into so many at most, its ends among them; POST /estimate has all."""

    def kept(minutes: list[Document]) -> list[Document]:
        return [*minutes[: -1 : max(1, -(-len(minutes) // parts))], minutes[-1]]

    def step(told: Document) -> Document:
        day = told.get("day")
        if day is None:
            return told
        losses = [{**loss, "minutes": kept(loss["minutes"])} for loss in day["failures"]]
        return {**told, "day": {**day, "failures": losses}}

    return step


def _with_half_the_curve(told: Document) -> Document:
    """With every other point of the load curve, its ends among them; POST /estimate has all."""
    speed = told.get("performance", {})
    curve = speed.get("load_curve")
    if not curve:
        return told
    points = curve["points"]
    kept = [*points[:-1:2], points[-1]]
    return {**told, "performance": {**speed, "load_curve": {**curve, "points": kept}}}


def _without_metrics(document: Document) -> Document:
    """The OpenAPI document says what they mean."""
    return {k: v for k, v in document.items() if k != "metrics"}


def _without_whys(document: Document) -> Document:
    """What was chosen without why; GET /catalog/assumptions says it."""
    told = [{**a, "source": "chosen"} if a["source"].startswith("chosen") else a for a in document["assumptions"]]
    return {**document, "assumptions": told}


STEPS: tuple[Callable[[Document], Document], ...] = (
    _ranked(_with_minutes(PARTS_OF_A_LOSS), after=0),
    _misses(MISSES_TOLD),
    _ranked(_without_neighbours, after=WHOLE_RANKS),
    _ranked(_without_alternatives, after=WHOLE_RANKS),
    _ranked(_without_bill, after=WHOLE_RANKS),
    _ranked(_briefly, after=WHOLE_RANKS + 1),
    _ranked(_briefly, after=WHOLE_RANKS),
    _ranked(_without_standing, after=1),
    _ranked(_without_means, after=1),
    _without_metrics,
    _misses(FEWER_MISSES),
    _ranked(_without_other_levels, after=WHOLE_RANKS),
    _ranked(_without_alternatives, after=1),
    _without_whys,
    _ranked(_without_neighbours, after=1),
    _misses(FEWEST_MISSES),
    _ranked(_with_half_the_curve, after=0),
    _ranked(_without_means, after=0),
)
LAST_STEPS = (
    _ranked(_briefly, after=WHOLE_RANKS - 1),
    _ranked(_without_bill, after=1),
    _ranked(_briefly, after=1),
    _ranked(_without_other_levels, after=1),
    _ranked(_without_intervals, after=1),
    _ranked(_with_minutes(1), after=0),
)
