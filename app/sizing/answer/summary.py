"""Summary of a whole answer, and the reason where there is no recommendation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.sizing.answer.money import describe_price
from app.sizing.hardware.parts import SOCKET, Accelerator, PricingModel
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.product_names import format_name, product_name, provider_name
from app.sizing.question import Deployment, Objective, Pools, Question
from app.sizing.result import Estimate, Ranked, Reason, Rejection
from app.sizing.units import SECONDS_PER_DAY
from app.sizing.words import format_count, format_duration, format_large_number, format_number, format_quantity, percent
from app.sizing.workload import InferenceWorkload, Load, Method, TrainingWorkload

OBJECTIVE_WORDS = {
    Objective.COST: "the lowest cost",
    Objective.LATENCY: "the lowest latency",
    Objective.THROUGHPUT: "the highest throughput per accelerator",
    Objective.ENERGY: "the lowest energy per unit of work",
    Objective.BALANCED: "the best balance of cost, latency and energy",
}
ORDER_WORDS = {
    Objective.COST: "cheapest option first",
    Objective.LATENCY: "lowest latency first",
    Objective.THROUGHPUT: "highest throughput per accelerator first",
    Objective.ENERGY: "lowest energy per unit of work first",
    Objective.BALANCED: "best balance of cost, latency and energy first",
}
METHOD_WORDS = {
    Method.FULL: "Full fine-tuning",
    Method.LORA: "LoRA fine-tuning",
    Method.QLORA: "QLoRA fine-tuning",
}
# Nouns for the devices of a kind; every other kind is an accelerator.
DEVICE_WORDS = {"gpu": "GPU", "cpu": "CPU"}


def describe_load(workload: InferenceWorkload) -> str:
    """Load as it follows "Serving MODEL": "at up to 5 requests/s", "to one user at a time"."""
    unit = "sample" if workload.model.sample else "request"
    if workload.load is Load.OPEN:
        kinds = " (recorded traffic)" if workload.trace is not None else ""
        if workload.classes:
            kinds = f" ({' and '.join(c.name for c in workload.classes)} together)"
        return f"at up to {format_quantity(workload.peak_per_s, unit)}/s{kinds}"
    if workload.volume_requests is not None:
        within = (
            "" if workload.deadline_s is None else f" within {format_duration(workload.deadline_s / SECONDS_PER_DAY)}"
        )
        return f"for {format_count(workload.volume_requests, f'offline {unit}')}{within}"
    if workload.load is Load.OFFLINE:
        return "offline without latency limits"
    if workload.requests is not None:
        return (
            f"for a run of {format_count(workload.requests, unit)} with {format_number(workload.in_flight)} in flight"
        )
    if workload.in_flight <= 1:
        return "to one user at a time"
    batch = f"{format_number(workload.in_flight)} {unit}s"
    return f"in static batches of {batch}" if workload.load is Load.BATCH else f"with {batch} in flight"


def describe_workload(workload: InferenceWorkload | TrainingWorkload) -> str:
    """Workload in one clause: training or serving, the model and how much of it."""
    if isinstance(workload, TrainingWorkload):
        name = workload.model.name
        what = f"Training {name}" if workload.phase == "training" else f"{METHOD_WORDS[workload.method]} of {name}"
        unit = "samples" if workload.in_samples else "tokens"
        limit = workload.deadline_s / SECONDS_PER_DAY
        amount = f"{format_large_number(workload.units)} {unit}"
        return f"{what} on {amount} within {format_duration(limit)}"
    return f"Serving {workload.model.name} {describe_load(workload)}"


def describe_question(question: Question) -> str:
    """Workload and objective: "Serving MODEL at up to 5 requests/s, cheapest option first"."""
    return f"{describe_workload(question.workload)}, {ORDER_WORDS[question.objective]}"


def describe_hardware(ranked: Ranked) -> str:
    """Count, name and seller of the hardware: "8 × NVIDIA H100 from Lambda (us-east-1, on demand)"."""
    d, name = ranked.estimate.deployment, ranked.accelerator.name
    if d.pools is not None:
        return describe_pools(d.pools, d.engine, ranked.names)
    if ranked.accelerator.kind == SOCKET and d.instance_type is not None:  # a small instance is part of a socket
        return f"{d.nodes or 0:,} × {d.instance_type} ({name}) {describe_seller(d, ranked.names)}"
    return f"{d.total_accelerators or 0:,} × {name} {describe_seller(d, ranked.names)}"


def describe_seller(d: Deployment, names: Mapping[str, str]) -> str:
    """Seller, region and pricing model: "from Lambda (us-east-1, on demand)", "(purchase, Acme Server 8x Big)".

    Parameters:
        names: names of systems by slug; a slug that is not listed stays as it is.
    """
    if d.pricing_model is PricingModel.OWNED:
        return f"(purchase, {names.get(d.system or '', f'system {d.system}')})"
    pricing = d.pricing_model.value.replace("_", " ") if d.pricing_model else "no listed price"
    terms = pricing if d.region in (None, "unspecified") else f"{d.region}, {pricing}"
    return f"from {provider_name(d.provider)} ({terms})" if d.provider else f"({terms})"


def describe_pools(pools: Pools, engine: str | None, names: Mapping[str, str]) -> str:
    """Both pools of a service that separates prefill from decode.

    Parameters:
        names: names of accelerators by slug; a slug that is not listed stays as it is.
    """
    prefill, decode = (
        f"{format_count(pool.replicas or 0, f'{name} replica')} ({pool.accelerators_per_replica} × "
        f"{names.get(pool.accelerator, pool.accelerator)} each, {format_name(pool.weight_format or '')})"
        for name, pool in (("prefill", pools.prefill), ("decode", pools.decode))
    )
    return f"two pools with {product_name(engine or '')}: {prefill} and {decode}"


def describe_layout(ranked: Ranked) -> str:
    """Layout of a deployment: "3 replicas and 1 spare, 2 GPUs each, BF16, vLLM", "FSDP on 8 GPUs"."""
    d = ranked.estimate.deployment
    size, device = d.accelerators_per_replica or 0, DEVICE_WORDS.get(ranked.accelerator.kind, "accelerator")
    if d.framework is not None:
        return f"{product_name(d.framework)} on {format_count(size, device)}"
    taken = f"one {device}" if size == 1 else format_count(size, device)
    replicas, spares = format_count(d.replicas or 0, "replica"), d.spare_replicas or 0
    spare = f" and {format_count(spares, 'spare')}" if spares else ""
    placed = f"{replicas} on {taken}" if (d.replicas or 0) + spares == 1 else f"{replicas}{spare}, {taken} each"
    return f"{placed}, {format_name(d.weight_format or '')}, {product_name(d.engine or '')}"


def write_summary(question: Question, ranked: Sequence[Ranked], rejected: Sequence[Rejection]) -> str:
    """Summary of an answer for a buyer: the request, the recommendation with its cost, and the next best option.

    The decision memo cuts the request off at ". Recommended: ".
    """
    opening = describe_question(question)
    if not ranked:
        near = rejected[0].text if rejected else "The catalog is empty."
        return f"{opening}. No hardware in the catalog meets the limits. Closest option: {near}"
    first = ranked[0].estimate
    days = None if first.performance is None else first.performance.days
    hardware, lasting = describe_hardware(ranked[0]), ""
    if first.deployment.pools is None:
        hardware = f"{hardware}: {describe_layout(ranked[0])}"
        lasting = "" if days is None else f" Duration: {format_duration(days)}."
    middle = f"Recommended: {hardware}.{lasting} Cost: {describe_price(first)}."
    closing = f" At least {percent(question.constraints.confidence)} likely to meet every limit."
    if len(ranked) > 1:
        closing += f" Next best: {describe_hardware(ranked[1])}, {describe_price(ranked[1].estimate)}."
    return f"{opening}. {middle}{closing}"


def impossible_estimate(
    deployment: Deployment, model: ModelArchitecture, accelerator: Accelerator, rejection: Rejection | None
) -> Estimate:
    """Estimate of a deployment that cannot run: software, hardware or layout do not fit the model.

    Parameters:
        rejection: why the accelerator was rejected before any layout was tried; None if no layout matches.
    """
    name, rule = accelerator.name, "" if rejection is None else rejection.rule
    if rejection is not None and rejection.code == "missing_data":
        text, code = rejection.text, rejection.code
    elif rejection is not None:
        text, code = f"{rejection.text} {rule}".rstrip(), "unsupported"
    else:
        text = (
            f"No layout of {model.name} on {name} matches the deployment. tensor_parallel must divide "
            f"{model.num_heads} attention heads and {model.kv_heads} key/value heads, and the machine must hold a "
            "replica."
        )
        code = "no_layout"
    reasons = (Reason(code, text, "fits", 0.0, "1"),)
    return Estimate(deployment, False, None, None, None, None, reasons, rule=rule)
