"""Warnings about known mistakes in a request or its answer: one small function each, in the order shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.sizing.answer.cautions import AnswerContext, find_cautions
from app.sizing.answer.money import format_usd
from app.sizing.answer.overkill import CheapestOption, overkill_warning
from app.sizing.answer.prices import price_not_firm, quantity_warning, stale_price
from app.sizing.answer.standing import (
    machine_failure_exceeds_redundancy,
    no_redundancy,
    zone_failure_exceeds_redundancy,
    zones_not_verified,
)
from app.sizing.hardware.parts import Accelerator
from app.sizing.model.formats import WEIGHT_FORMATS
from app.sizing.product_names import format_name
from app.sizing.question import Question
from app.sizing.result import Notice, Ranked
from app.sizing.units import GB, HOURS_PER_DAY, HOURS_PER_MONTH
from app.sizing.words import format_number, percent
from app.sizing.workload import InferenceWorkload, Load, Method

SMALLEST_SHOWN_SHARE = 0.01  # smaller shares are shown as "less than 1 %"


@dataclass(frozen=True, slots=True)
class TopAnswer(AnswerContext):
    """The first recommendation, its accelerator and the question."""

    accelerator: Accelerator


def find_warnings(
    question: Question, ranked: Sequence[Ranked], cheapest: CheapestOption | None = None
) -> tuple[Notice, ...]:
    """Warnings about the request and its first recommendation.

    Parameters:
        cheapest: cheapest option that a search found; None for a given deployment.
    """
    notices = [of_request(question) for of_request in REQUEST_WARNINGS]
    if ranked:
        best = TopAnswer(question, ranked[0].estimate, ranked[0].accelerator)
        notices += [
            overkill_warning(question, ranked[0], cheapest),
            price_not_firm(ranked),
            *(of_answer(best) for of_answer in ANSWER_WARNINGS),
        ]
        notices += find_cautions(question, ranked)
    return tuple(notice for notice in notices if notice is not None)


def model_shape_assumed(question: Question) -> Notice | None:
    model = question.workload.model
    if not model.shape_is_assumed:
        return None
    return Notice("model_shape_assumed", f"Part of the model's architecture is assumed: {'; '.join(model.assumed)}.")


def no_latency_headroom(question: Question) -> Notice | None:
    workload, assumed = question.workload, question.assumptions
    if not isinstance(workload, InferenceWorkload) or workload.load is not Load.OPEN:
        return None
    most = assumed.headroom_utilization
    if workload.target_utilization <= most:
        return None
    return Notice(
        "no_latency_headroom",
        f"A target utilization of {percent(workload.target_utilization)} leaves no headroom: "
        f"queues and p99 latency grow steeply above {most * 100:g} %.",
    )


def average_not_tail(question: Question) -> Notice | None:
    workload, assumed = question.workload, question.assumptions
    if not isinstance(workload, InferenceWorkload) or workload.load is not Load.OPEN:
        return None
    if workload.peak_per_s * workload.tokens_per_request <= 0 or workload.slo.percentile >= assumed.tail_percentile:
        return None
    covered = f"The limits apply only to p{workload.slo.percentile:g}, but users notice slow requests."
    return Notice("average_not_tail", f"{covered} Plan for p95 or p99.")


def accuracy_check_owed(best: TopAnswer) -> Notice | None:
    if best.serving_workload is None:
        return None
    stored = WEIGHT_FORMATS.get(best.estimate.deployment.weight_format or "bf16")
    native = WEIGHT_FORMATS[best.serving_workload.model.native_format]
    if stored is None or stored.nominal_bits >= min(16, native.nominal_bits):
        return None
    return Notice(
        "accuracy_check_owed",
        f"Weights are stored in {format_name(stored.name)}, with fewer bits than the published "
        f"{format_name(native.name)}. Check accuracy on your own task before buying.",
    )


def purchase_outlasts_run(best: TopAnswer) -> Notice | None:
    cost, performance = best.estimate.cost, best.estimate.performance
    if cost is None or cost.purchase_usd is None or performance is None or performance.days is None:
        return None
    horizon = best.question.economics.horizon_months
    share = performance.days * HOURS_PER_DAY / (horizon * HOURS_PER_MONTH)
    used = percent(min(share, 1)) if share >= SMALLEST_SHOWN_SHARE else f"less than {percent(SMALLEST_SHOWN_SHARE)}"
    return Notice(
        "purchase_outlasts_run",
        f"The run uses {used} of the {horizon:g} months over which {format_usd(cost.purchase_usd)} of hardware "
        "is spread. Its cost assumes that other work pays for the rest.",
    )


def inference_hardware_for_training(best: TopAnswer) -> Notice | None:
    if (
        best.training_workload is None
        or best.accelerator.training_class
        or best.training_workload.method is not Method.FULL
    ):
        return None
    name, several = best.accelerator.name, (best.estimate.deployment.total_accelerators or 0) > 1
    risk = (
        "Slow links between accelerators can limit the run." if several else "Test a few steps before you rely on it."
    )
    return Notice(
        "inference_hardware_for_training",
        f"{name} is not built for training. {risk}",
    )


def data_pipeline_limit(best: TopAnswer) -> Notice | None:
    performance, machines = best.estimate.performance, max(1, best.estimate.deployment.nodes or 1)
    ingest = None if performance is None else performance.required_ingest_bytes_per_s
    if ingest is None or ingest / machines <= best.question.assumptions.fast_ingest_gb_per_s_per_machine * GB:
        return None
    return Notice(
        "data_pipeline_limit",
        f"The run reads {format_number(ingest / GB)} GB/s of data. Storage and decoding must keep up; otherwise the "
        "accelerators wait for data.",
    )


def consumer_hardware(best: TopAnswer) -> Notice | None:
    what = {"consumer": "a consumer part", "edge": "an embedded module sold on development kits"}
    segment = best.accelerator.segment
    if segment not in what:
        return None
    return Notice(
        "consumer_hardware",
        f"{best.accelerator.name} is {what[segment]}. It has no data-center support and usually no ECC memory, and its "
        "driver license may forbid data-center use.",
    )


def spot_interruptions(best: TopAnswer) -> Notice | None:
    price = None if best.estimate.cost is None else best.estimate.cost.price
    if price is None or price.pricing_model != "spot":
        return None
    priced = (
        "duration and cost include interruptions at an assumed rate"
        if best.training_workload
        else "the cost does not include interruptions"
    )
    return Notice("spot_interruptions", f"The provider can reclaim spot capacity at any time; {priced}.")


REQUEST_WARNINGS: tuple[Callable[[Question], Notice | None], ...] = (
    model_shape_assumed,
    no_latency_headroom,
    average_not_tail,
)
ANSWER_WARNINGS: tuple[Callable[[TopAnswer], Notice | None], ...] = (
    accuracy_check_owed,
    machine_failure_exceeds_redundancy,
    zone_failure_exceeds_redundancy,
    no_redundancy,
    zones_not_verified,
    purchase_outlasts_run,
    inference_hardware_for_training,
    data_pipeline_limit,
    consumer_hardware,
    stale_price,
    quantity_warning,
    spot_interruptions,
)
