"""Breakpoints of a recommendation: the smallest change of one parameter that makes another accelerator type rank
first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

import orjson

from app.api.knobs import Parameter, tunable_parameters
from app.api.questions import apply_merge_patch, build_recommend_question
from app.api.schemas.flips import Breakpoint, StableRange, TopOption
from app.api.schemas.requests import RecommendRequest
from app.catalog.snapshot import CatalogIndex, CatalogStore
from app.errors import AppError
from app.sizing.answer.money import describe_price
from app.sizing.recommend import recommend_hardware
from app.sizing.result import Answer
from app.sizing.whatif.change import find_threshold
from app.sizing.words import format_name
from app.sizing.workload import InferenceWorkload

Part = dict[str, Any]
NO_OPTION = "nothing"
# Sets of weight formats that are tried for a service.
FORMATS = (("bf16", "fp16"), ("fp8",), ("int4-awq", "int4-gptq", "nvfp4", "mxfp4"))
MAX_PROBES = 80


@dataclass(slots=True)
class RequestProbe:
    """Answers a request with one part changed and caches the results."""

    request: RecommendRequest
    catalog_index: CatalogIndex
    catalog_store: CatalogStore
    today: date
    results: dict[bytes, TopOption] = field(default_factory=dict)

    def top_option(self, patch: Part) -> TopOption:
        """Returns the first-ranked option for the request with a patch; `NO_OPTION` if the patched request is not
        valid.
        """
        key = orjson.dumps(patch, option=orjson.OPT_SORT_KEYS)
        if key not in self.results:
            self.results[key] = self._find_top_option(patch)
        return self.results[key]

    def recommend_patched(self, patch: Part) -> Answer:
        """Returns the recommendation for the request with a patch, limited to the first rank."""
        body = apply_merge_patch(self.request.model_dump(mode="json", exclude_unset=True), patch)
        body |= {"limit": 1, "rejected_limit": 0, "trace": False, "as_of": self.today.isoformat()}
        changed = RecommendRequest.model_validate_json(orjson.dumps(body), strict=True)
        question = build_recommend_question(changed, self.catalog_index, self.catalog_store, self.today)
        return recommend_hardware(replace(question, ranking_only=True), self.catalog_index.catalog)

    def feasible_answer(self, patch: Part) -> Answer | None:
        """Returns the recommendation for the request with a patch; None if it is invalid or no option meets the
        limits.
        """
        try:
            answer = self.recommend_patched(patch)
        except (AppError, ValueError):
            return None
        return answer if answer.recommendations else None

    def _find_top_option(self, patch: Part) -> TopOption:
        answer = self.feasible_answer(patch)
        if answer is None:
            return TopOption(NO_OPTION, NO_OPTION, "")
        first = answer.recommendations[0]
        pools = first.estimate.deployment.pools
        if pools is None:
            return TopOption(first.accelerator.slug, first.accelerator.name, describe_price(first.estimate))
        sides = f"two pools of {pools.prefill.accelerator} and {pools.decode.accelerator}"
        return TopOption(sides, sides, describe_price(first.estimate))


def find_breakpoints(
    asker: RequestProbe, runners_up: list[tuple[str, str]]
) -> tuple[TopOption, list[Breakpoint], list[StableRange]]:
    """Returns the current first option, every breakpoint found, and the ranges in which nothing changes."""
    now = asker.top_option({})
    question = build_recommend_question(asker.request, asker.catalog_index, asker.catalog_store, asker.today)
    flips: list[Breakpoint] = []
    holds: list[StableRange] = []
    for knob in tunable_parameters(asker.request, question, runners_up):
        nearest = list(_parameter_breakpoints(asker, knob, now)) if len(asker.results) < MAX_PROBES else []
        flips += nearest
        tried = [v for steps in knob.steps for v in steps]
        if not nearest and tried and len(asker.results) < MAX_PROBES:
            low, high = min(*tried, knob.now), max(*tried, knob.now)
            text = (
                f"{knob.label} from {knob.format_value(low)} to {knob.format_value(high)}: {now.name} still ranks "
                "first."
            )
            holds.append(StableRange(knob.name, text[0].upper() + text[1:], low, high))
    if isinstance(question.workload, InferenceWorkload):
        flips += _format_breakpoints(asker, now, question.constraints.weight_formats)
    return now, flips, holds


def _parameter_breakpoints(asker: RequestProbe, knob: Parameter, now: TopOption) -> Iterator[Breakpoint]:
    """Yields the nearest breakpoint of one parameter in each direction."""
    for steps in knob.steps:
        turn = find_threshold(lambda v: asker.top_option(_patch_to(knob, v)).type, knob.now, steps, knob.tolerance)
        if turn is None:
            continue
        patch = knob.patch(turn.value)
        then = asker.top_option(patch)
        moved = knob.describe_change(turn.value)
        yield Breakpoint(
            knob.name,
            _describe_change(moved, then, now),
            then.type,
            patch,
            knob.now,
            _round_value(turn.value),
            knob.unit,
        )


def _patch_to(knob: Parameter, value: float) -> Part:
    """Returns the patch for a parameter value; empty for the current value."""
    return {} if value == knob.now else knob.patch(value)


def _format_breakpoints(asker: RequestProbe, now: TopOption, asked: tuple[str, ...]) -> Iterator[Breakpoint]:
    """Yields the weight formats that make another type rank first."""
    for formats in FORMATS:
        if set(asked) == set(formats):
            continue
        patch: Part = {"constraints": {"weight_formats": [*formats]}}
        then = asker.top_option(patch)
        if then.type not in (now.type, NO_OPTION):
            words = f"weights in {' or '.join(map(format_name, formats))}"
            yield Breakpoint("weight_formats", _describe_change(words, then, now), then.type, patch)


def _describe_change(moved: str, then: TopOption, now: TopOption) -> str:
    """Returns one sentence on a change and its consequence."""
    lead = moved[0].upper() + moved[1:]
    if then.type == NO_OPTION:
        return f"{lead}: no option meets the limits."
    if now.type == NO_OPTION:
        return f"{lead}: {then.name} meets the limits at {then.price}."
    return f"{lead}: {then.name} ranks first at {then.price}. As requested, {now.name} ranks first at {now.price}."


def _round_value(value: float) -> float:
    """Rounds a value to the four digits used in the patch."""
    return float(f"{value:.4g}")
