"""Patterns that cost less and that the question left open: each is asked, and told with its saving and what it owes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from app.api.schemas.requests import RecommendRequest
from app.sizing.model.formats import WEIGHT_FORMATS
from app.sizing.question import Question
from app.sizing.result import Answer
from app.sizing.workload import InferenceWorkload, Load

Part = dict[str, Any]
FEW_BITS = ["int4-awq", "int4-gptq", "nvfp4", "mxfp4"]
ACCURACY = "an accuracy check on your own tasks"
RESTARTS = {
    True: "replicas that may be taken back at any time: spares, and requests sent again",
    False: "a restart policy: checkpoints, and days of grace before the deadline",
}


@dataclass(frozen=True, slots=True)
class Pattern:
    """A change of the request that buyers make to pay less, and what it owes."""

    name: str
    text: str
    owes: str
    patch: Part


@dataclass(frozen=True, slots=True)
class Saving:
    """A pattern as it was answered: what is first then, what it costs, the share of the money that it saves."""

    pattern: Pattern
    first: str
    usd: float
    saves_share: float


def usd_of(answer: Answer) -> float | None:
    """What an answer's first recommendation is paid: a run's money, or a service's in the mean of an hour."""
    cost = answer.recommendations[0].estimate.cost if answer.recommendations else None
    if cost is None:
        return None
    if cost.usd_total is not None:
        return cost.usd_total
    return cost.usd_per_hour if cost.usd_per_day is None else cost.usd_per_day / 24


def patterns_of(
    request: RecommendRequest, question: Question, smaller: Callable[[str], str | None]
) -> Iterator[Pattern]:
    """Patterns that a question left open; `smaller` names the next smaller model of a family."""
    said = request.model_dump(mode="json", exclude_unset=True)
    limits, workload = said.get("constraints", {}), question.workload
    less = smaller(workload.model.name)
    if less is not None and isinstance(said["workload"].get("model"), str):
        yield Pattern("smaller_model", f"{less} instead", ACCURACY, {"workload": {"model": less}})
    serves = isinstance(workload, InferenceWorkload)
    yield from _of_service(limits, workload) if isinstance(workload, InferenceWorkload) else _of_run(said["workload"])
    if not limits.get("pricing_models"):
        spot = {"constraints": {"pricing_models": ["spot"]}}
        yield Pattern("spot", "Spot capacity", RESTARTS[serves], spot)
        if "commitment" not in limits and isinstance(workload, InferenceWorkload) and workload.load is Load.OPEN:
            bound = {"constraints": {"commitment": "3y"}}
            yield Pattern("commit", "A commitment of up to three years", "paid for, used or not", bound)


def _of_service(limits: Part, workload: InferenceWorkload) -> Iterator[Pattern]:
    """Formats of weights and of the cache."""
    if not workload.model.attention:
        return
    if not limits.get("weight_formats") and WEIGHT_FORMATS[workload.model.native_format].nominal_bits > 4:
        yield Pattern("quantise", "Weights in 4 bits", ACCURACY, {"constraints": {"weight_formats": FEW_BITS}})
    if not limits.get("kv_formats") and not workload.single_pass:
        text, owes = "The cache in 8 bits", f"{ACCURACY}, over long contexts above all"
        yield Pattern("quantise_cache", text, owes, {"constraints": {"kv_formats": ["fp8"]}})


def _of_run(workload: Part) -> Iterator[Pattern]:
    """Less of a model trained."""
    if workload["phase"] != "fine_tuning":
        return
    method = workload.get("method", "lora")
    fewer = {"full": ("lora", "Adapters (LoRA) in place of all weights"), "lora": ("qlora", "A base in 4 bits (QLoRA)")}
    if method in fewer:
        name, text = fewer[method]
        yield Pattern(name, text, ACCURACY, {"workload": {"method": name}})


def savings_of(
    patterns: Iterable[Pattern], now_usd: float | None, answer: Callable[[Part], Answer | None], near_tie_share: float
) -> list[Saving]:
    """Those that save more than a near tie, the most first."""
    found = []
    for pattern in patterns if now_usd else ():
        then = answer(pattern.patch)
        usd = None if then is None else usd_of(then)
        if then is not None and usd is not None and now_usd and usd < now_usd * (1 - near_tie_share):
            found.append(Saving(pattern, then.recommendations[0].accelerator.slug, usd, 1 - usd / now_usd))
    return sorted(found, key=lambda saving: -saving.saves_share)
