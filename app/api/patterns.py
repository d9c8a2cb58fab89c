"""Cheaper usage patterns that the request left open: each is recommended again and reported with its saving and
trade-off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from app.api.schemas.flips import Pattern, Saving
from app.api.schemas.requests import RecommendRequest
from app.sizing.model.formats import WEIGHT_FORMATS
from app.sizing.question import Question
from app.sizing.result import Answer
from app.sizing.workload import InferenceWorkload, Load

Part = dict[str, Any]
FEW_BITS = ["int4-awq", "int4-gptq", "nvfp4", "mxfp4"]
ACCURACY = "an accuracy check on your own tasks"
RESTARTS = {
    True: "spare replicas and request retries, because replicas can be reclaimed at any time",
    False: "a restart policy with checkpoints, and spare days before the deadline",
}


def first_cost_usd(answer: Answer) -> float | None:
    """Returns the cost of the first recommendation in USD: the total of a run, or the mean per hour of a service."""
    cost = answer.recommendations[0].estimate.cost if answer.recommendations else None
    if cost is None:
        return None
    if cost.usd_total is not None:
        return cost.usd_total
    return cost.usd_per_hour if cost.usd_per_day is None else cost.usd_per_day / 24


def open_patterns(
    request: RecommendRequest, question: Question, smaller: Callable[[str], str | None]
) -> Iterator[Pattern]:
    """Yields the patterns that a request left open. `smaller` returns the next smaller model of a family."""
    body = request.model_dump(mode="json", exclude_unset=True)
    limits, workload = body.get("constraints", {}), question.workload
    less = smaller(workload.model.name)
    if less is not None and isinstance(body["workload"].get("model"), str):
        yield Pattern("smaller_model", f"Smaller model {less}", ACCURACY, {"workload": {"model": less}})
    serves = isinstance(workload, InferenceWorkload)
    yield from (
        _service_patterns(limits, workload)
        if isinstance(workload, InferenceWorkload)
        else _run_patterns(body["workload"])
    )
    if not limits.get("pricing_models"):
        spot = {"constraints": {"pricing_models": ["spot"]}}
        yield Pattern("spot", "Spot capacity", RESTARTS[serves], spot)
        if "commitment" not in limits and isinstance(workload, InferenceWorkload) and workload.load is Load.OPEN:
            bound = {"constraints": {"commitment": "3y"}}
            yield Pattern(
                "commit", "A commitment of up to three years", "payment for the full term, used or not", bound
            )


def _service_patterns(limits: Part, workload: InferenceWorkload) -> Iterator[Pattern]:
    """Yields lower-precision formats for weights and KV cache."""
    if not workload.model.attention:
        return
    if not limits.get("weight_formats") and WEIGHT_FORMATS[workload.model.native_format].nominal_bits > 4:
        yield Pattern("quantise", "4-bit weights", ACCURACY, {"constraints": {"weight_formats": FEW_BITS}})
    if not limits.get("kv_formats") and not workload.single_pass:
        text, owes = "8-bit KV cache", f"{ACCURACY}, especially with long contexts"
        yield Pattern("quantise_cache", text, owes, {"constraints": {"kv_formats": ["fp8"]}})


def _run_patterns(workload: Part) -> Iterator[Pattern]:
    """Yields fine-tuning methods that train fewer parameters."""
    if workload["phase"] != "fine_tuning":
        return
    method = workload.get("method", "lora")
    fewer = {
        "full": ("lora", "LoRA adapters instead of all weights"),
        "lora": ("qlora", "QLoRA with a 4-bit base model"),
    }
    if method in fewer:
        name, text = fewer[method]
        yield Pattern(name, text, ACCURACY, {"workload": {"method": name}})


def rank_savings(
    patterns: Iterable[Pattern], now_usd: float | None, answer: Callable[[Part], Answer | None], near_tie_share: float
) -> list[Saving]:
    """Returns the patterns that save more than a near tie, largest saving first."""
    savings = []
    for pattern in patterns if now_usd else ():
        then = answer(pattern.patch)
        usd = None if then is None else first_cost_usd(then)
        if then is not None and usd is not None and now_usd and usd < now_usd * (1 - near_tie_share):
            savings.append(Saving(pattern, then.recommendations[0].accelerator.slug, usd, 1 - usd / now_usd))
    return sorted(savings, key=lambda saving: -saving.saves_share)
