"""Known mistakes, where a request or its answer comes near one."""

from __future__ import annotations

from collections.abc import Sequence

from app.sizing.answer.money import usd
from app.sizing.model.formats import WEIGHT_FORMATS
from app.sizing.question import Deployment, Question
from app.sizing.result import Notice, Ranked
from app.sizing.snapshot import Market
from app.sizing.workload import InferenceWorkload, Load, Method, TrainingWorkload

# Bytes per second and machine beyond which a data set has to be fed by more than one disk or share.
FAST_INGEST_BYTES_PER_S = 1e9


def warnings(question: Question, ranked: Sequence[Ranked], market: Market) -> tuple[Notice, ...]:
    """Known mistakes, where this request or its answer comes near one."""
    workload = question.workload
    notices: list[Notice] = []
    if workload.model.shape_is_assumed:
        notices.append(
            Notice("model_shape_assumed", f"Part of the model was assumed: {'; '.join(workload.model.assumed)}.")
        )
    if isinstance(workload, InferenceWorkload):
        if workload.load is Load.OPEN and workload.target_utilization > 0.85:
            notices.append(
                Notice(
                    "no_latency_headroom",
                    f"A target utilisation of {workload.target_utilization:.0%} leaves no room: "
                    "queues grow steeply beyond 85 %, and p99 with them.",
                )
            )
        if (
            workload.load is Load.OPEN
            and workload.peak_per_s * workload.tokens_per_request > 0
            and workload.slo.percentile < 90
        ):
            notices.append(
                Notice(
                    "average_not_tail",
                    f"The limits hold for p{slo_text(workload)} only; users feel the tail. Plan by p95 or p99.",
                )
            )
    if not ranked:
        return tuple(notices)
    first = ranked[0].estimate
    a = market.accelerators[market.accelerator_index[first.deployment.accelerator]]
    if isinstance(workload, InferenceWorkload):
        if a.training_class and workload.personal:
            notices.append(
                Notice(
                    "training_class_overkill",
                    f"{a.name} is training-class hardware; a few users leave most of it idle.",
                )
            )
        stored = WEIGHT_FORMATS.get(first.deployment.weight_format or "bf16")
        native = WEIGHT_FORMATS[workload.model.native_format]
        if stored is not None and stored.nominal_bits < min(16, native.nominal_bits):
            notices.append(
                Notice(
                    "accuracy_check_owed",
                    f"The best plan stores weights in {stored.name}, below the published "
                    f"{native.name}: check accuracy on your own task before buying.",
                )
            )
        at_once = replicas_lost_with_a_machine(first.deployment)
        if workload.redundancy.label != "none" and at_once > (first.deployment.spare_replicas or 0):
            notices.append(
                Notice(
                    "machine_failure_exceeds_redundancy",
                    f"A machine holds {at_once} replicas, more than the {first.deployment.spare_replicas} kept "
                    "spare: losing one machine is an outage. Ask for more redundancy, or for smaller machines.",
                )
            )
        if workload.redundancy.label == "none" and workload.load is Load.OPEN and (first.deployment.replicas or 0) == 1:
            notices.append(
                Notice(
                    "no_redundancy",
                    "One replica carries the service: its loss is an outage. Ask for redundancy n+1 to price a spare.",
                )
            )
    elif first.cost is not None and first.cost.purchase_usd is not None and first.performance is not None:
        share = (first.performance.days or 0) / (question.economics.horizon_months * 30.4)
        notices.append(
            Notice(
                "purchase_outlasts_run",
                f"The run uses {min(share, 1):.0%} of the {question.economics.horizon_months:g} months over which "
                f"{usd(first.cost.purchase_usd)} of hardware are spread; its cost here assumes that other work pays for the rest.",
            )
        )
    if isinstance(workload, TrainingWorkload) and not a.training_class and workload.method is Method.FULL:
        notices.append(
            Notice(
                "inference_hardware_for_training",
                f"{a.name} is built for inference; a training run on it depends on slow links and has no headroom.",
            )
        )
    ingest = first.performance.required_ingest_bytes_per_s if first.performance is not None else None
    if ingest is not None and ingest / max(1, first.deployment.nodes or 1) > FAST_INGEST_BYTES_PER_S:
        notices.append(
            Notice(
                "data_pipeline_limit",
                f"The run reads {ingest / 1e9:.2g} GB/s of data: storage and decoding must keep up, or more "
                "accelerators only wait.",
            )
        )
    if a.segment in ("consumer", "edge"):
        what = "a consumer part" if a.segment == "consumer" else "an embedded module sold on development kits"
        notices.append(
            Notice(
                "consumer_hardware",
                f"{a.name} is {what}: no data-centre support, mostly no ECC memory, and its driver "
                "licence may forbid data-centre use.",
            )
        )
    price = first.cost.price if first.cost is not None else None
    if price is not None and price.as_of and months_between(price.as_of, market.prices_as_of) > 6:
        notices.append(
            Notice(
                "stale_price",
                f"The price of the best plan is of {price.as_of}; the newest in the catalogue is of {market.prices_as_of}.",
            )
        )
    if price is not None and price.pricing_model == "spot":
        notices.append(
            Notice("spot_interruptions", "Spot capacity can be taken back at any time; no interruption is priced in.")
        )
    return tuple(notices)


def replicas_lost_with_a_machine(d: Deployment) -> int:
    """Replicas that go down with one machine: those packed on it, or the one that spans it."""
    placed = (d.replicas or 0) + (d.spare_replicas or 0)
    return -(-placed // max(1, d.nodes or 1))


def slo_text(workload: InferenceWorkload) -> str:
    return f"{workload.slo.percentile:g}"


def months_between(earlier: str, later: str) -> float:
    """Months between two ISO dates, by their year and month."""

    def months(text: str) -> float:
        parts = text.split("-")
        return int(parts[0]) * 12 + (int(parts[1]) if len(parts) > 1 else 6)

    return months(later) - months(earlier)
