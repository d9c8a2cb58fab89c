"""Breakpoints of a recommendation: the smallest change of one parameter that makes another accelerator type rank
first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

import orjson

from app.api.knobs import Knob, knobs_of
from app.api.merging import apply_merge_patch
from app.api.questions import recommend_question
from app.api.schemas.requests import RecommendRequest
from app.catalog.directory import CatalogIndex
from app.catalog.snapshot import CatalogStore
from app.errors import AppError
from app.sizing.answer.money import describe_price
from app.sizing.product_names import format_name
from app.sizing.recommend import recommend_hardware
from app.sizing.result import Answer
from app.sizing.turning import find_threshold
from app.sizing.workload import InferenceWorkload

Part = dict[str, Any]
NOTHING = "nothing"
# Sets of weight formats that are tried for a service.
FORMATS = (("bf16", "fp16"), ("fp8",), ("int4-awq", "int4-gptq", "nvfp4", "mxfp4"))
MOST_ASKED = 80


@dataclass(frozen=True, slots=True)
class First:
    """First-ranked option: accelerator type (or a pair of pools, or nothing), its name and its price as text."""

    type: str
    name: str
    price: str


@dataclass(frozen=True, slots=True)
class Flip:
    """A change of the request that makes another type rank first. `value` is None if no number changes."""

    knob: str
    text: str
    first: str
    request: Part
    now: float | None = None
    value: float | None = None
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Hold:
    """A range of one parameter within which the same type stays first."""

    knob: str
    text: str
    low: float
    high: float


@dataclass(slots=True)
class RequestProbe:
    """Answers a request with one part changed and caches the results."""

    request: RecommendRequest
    catalog_index: CatalogIndex
    catalog_store: CatalogStore
    today: date
    known: dict[bytes, First] = field(default_factory=dict)

    def first(self, patch: Part) -> First:
        """Returns the first-ranked option for the request with a patch; `NO_OPTION` if the patched request is not
        valid.
        """
        key = orjson.dumps(patch, option=orjson.OPT_SORT_KEYS)
        if key not in self.known:
            self.known[key] = self._ask(patch)
        return self.known[key]

    def answer(self, patch: Part) -> Answer:
        """Returns the recommendation for the request with a patch, limited to the first rank."""
        body = apply_merge_patch(self.request.model_dump(mode="json", exclude_unset=True), patch)
        body |= {"limit": 1, "rejected_limit": 0, "trace": False, "as_of": self.today.isoformat()}
        changed = RecommendRequest.model_validate_json(orjson.dumps(body), strict=True)
        question = recommend_question(changed, self.catalog_index, self.catalog_store, self.today)
        return recommend_hardware(replace(question, briefly=True), self.catalog_index.market)

    def answered(self, patch: Part) -> Answer | None:
        """Returns the recommendation for the request with a patch; None if it is invalid or no option meets the
        limits.
        """
        try:
            answer = self.answer(patch)
        except (AppError, ValueError):
            return None
        return answer if answer.recommendations else None

    def _ask(self, patch: Part) -> First:
        answer = self.answered(patch)
        if answer is None:
            return First(NOTHING, NOTHING, "")
        first = answer.recommendations[0]
        pools = first.estimate.deployment.pools
        if pools is None:
            return First(first.accelerator.slug, first.accelerator.name, describe_price(first.estimate))
        sides = f"two pools of {pools.prefill.accelerator} and {pools.decode.accelerator}"
        return First(sides, sides, describe_price(first.estimate))


def flips_of(asker: RequestProbe, runners_up: list[tuple[str, str]]) -> tuple[First, list[Flip], list[Hold]]:
    """Returns the current first option, every breakpoint found, and the ranges in which nothing changes."""
    now = asker.first({})
    question = recommend_question(asker.request, asker.catalog_index, asker.catalog_store, asker.today)
    flips: list[Flip] = []
    holds: list[Hold] = []
    for knob in knobs_of(asker.request, question, runners_up):
        nearest = list(_of_knob(asker, knob, now)) if len(asker.known) < MOST_ASKED else []
        flips += nearest
        tried = [v for steps in knob.steps for v in steps]
        if not nearest and tried and len(asker.known) < MOST_ASKED:
            low, high = min(*tried, knob.now), max(*tried, knob.now)
            text = f"{knob.label} from {knob.amount(low)} to {knob.amount(high)}: {now.name} still ranks first."
            holds.append(Hold(knob.name, text[0].upper() + text[1:], low, high))
    if isinstance(question.workload, InferenceWorkload):
        flips += _of_formats(asker, now, question.constraints.weight_formats)
    return now, flips, holds


def _of_knob(asker: RequestProbe, knob: Knob, now: First) -> Iterator[Flip]:
    """Yields the nearest breakpoint of one parameter in each direction."""
    for steps in knob.steps:
        turn = find_threshold(lambda v: asker.first(_moved(knob, v)).type, knob.now, steps, knob.closeness)
        if turn is None:
            continue
        patch = knob.patch(turn.value)
        then = asker.first(patch)
        moved = knob.describe_change(turn.value)
        yield Flip(knob.name, _told(moved, then, now), then.type, patch, knob.now, _value(turn.value), knob.unit)


def _moved(knob: Knob, value: float) -> Part:
    """Returns the patch for a parameter value; empty for the current value."""
    return {} if value == knob.now else knob.patch(value)


def _of_formats(asker: RequestProbe, now: First, asked: tuple[str, ...]) -> Iterator[Flip]:
    """Yields the weight formats that make another type rank first."""
    for formats in FORMATS:
        if set(asked) == set(formats):
            continue
        patch: Part = {"constraints": {"weight_formats": [*formats]}}
        then = asker.first(patch)
        if then.type not in (now.type, NOTHING):
            words = f"weights in {' or '.join(map(format_name, formats))}"
            yield Flip("weight_formats", _told(words, then, now), then.type, patch)


def _told(moved: str, then: First, now: First) -> str:
    """Returns one sentence on a change and its consequence."""
    lead = moved[0].upper() + moved[1:]
    if then.type == NOTHING:
        return f"{lead}: no option meets the limits."
    if now.type == NOTHING:
        return f"{lead}: {then.name} meets the limits at {then.price}."
    return f"{lead}: {then.name} ranks first ({then.price}) instead of {now.name} ({now.price} in this request)."


def _value(value: float) -> float:
    """Rounds a value to the four digits used in the patch."""
    return float(f"{value:.4g}")
