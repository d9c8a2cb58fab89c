"""Words about a whole answer: its summary, and why there is none."""

from __future__ import annotations

from collections.abc import Sequence

from app.sizing.answer.money import price_words
from app.sizing.hardware.parts import SOCKET, Accelerator
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.question import Deployment, Objective, Pools, Question
from app.sizing.result import Estimate, Ranked, Reason, Rejection
from app.sizing.units import SECONDS_PER_DAY
from app.sizing.words import counted, figure, large, measured, span
from app.sizing.workload import InferenceWorkload, Load, TrainingWorkload

OBJECTIVE_WORDS = {
    Objective.COST: "the lowest cost",
    Objective.LATENCY: "the lowest latency",
    Objective.THROUGHPUT: "the highest throughput per accelerator",
    Objective.ENERGY: "the least energy per unit of work",
    Objective.BALANCED: "a balance of cost, latency and energy",
}


def load_words(workload: InferenceWorkload) -> str:
    """The second question: one user, or a service, and how big."""
    unit = "samples" if workload.model.sample else "requests"
    if workload.load is Load.OPEN:
        kinds = ", as recorded" if workload.trace is not None else ""
        if workload.classes:
            kinds = f", {' and '.join(c.name for c in workload.classes)} together"
        return f"a service of {measured(workload.peak_per_s, unit.removesuffix('s'))}/s at peak{kinds}"
    if workload.volume_requests is not None:
        within = "" if workload.deadline_s is None else f" within {span(workload.deadline_s / SECONDS_PER_DAY)}"
        return f"{counted(workload.volume_requests, unit.removesuffix('s'))} offline{within}"
    if workload.load is Load.OFFLINE:
        return "offline work with no latency limit"
    if workload.requests is not None:
        return f"a run of {counted(workload.requests, unit.removesuffix('s'))}, {figure(workload.in_flight)} in flight"
    if workload.in_flight <= 1:
        return "one user at a time"
    return f"{figure(workload.in_flight)} {unit} {'in a static batch' if workload.load is Load.BATCH else 'in flight'}"


def work_words(workload: InferenceWorkload | TrainingWorkload) -> str:
    """The first two questions before buying: training or serving, one user or a service."""
    if isinstance(workload, TrainingWorkload):
        what = "train" if workload.phase == "training" else f"fine-tune ({workload.method.value})"
        unit = "samples" if workload.in_samples else "tokens"
        limit = workload.deadline_s / SECONDS_PER_DAY
        amount = f"{large(workload.units)} {unit}"
        return f"You {what} {workload.model.name} on {amount} within {span(limit)}"
    return f"You serve {workload.model.name} (no training), {load_words(workload)}"


def purpose(question: Question) -> str:
    """The three questions before buying: the two of the work, and what counts."""
    return f"{work_words(question.workload)}, and look for {OBJECTIVE_WORDS[question.objective]}"


def hardware_words(ranked: Ranked) -> str:
    """How many of what, where, in one clause."""
    d, name = ranked.estimate.deployment, ranked.accelerator.name
    if d.pools is not None:
        return pools_words(d.pools, d.engine)
    count = d.total_accelerators or 0
    place = d.provider or "no listed price"
    pricing = d.pricing_model.value.replace("_", " ") if d.pricing_model else "unpriced"
    region = "" if d.region in (None, "unspecified") else f", {d.region}"
    where = f"owned ({d.system})" if pricing == "owned" else f"at {place}{region}, {pricing}"
    if ranked.accelerator.kind == SOCKET and d.instance_type is not None:  # a small instance is part of one
        return f"{d.nodes or 0:,} x {d.instance_type} ({name}) {where}"
    return f"{count:,} x {name} {where}"


def pools_words(pools: Pools, engine: str | None) -> str:
    """Both pools of a split service."""
    told = [
        f"{counted(pool.replicas or 0, 'replica')} of {pool.accelerators_per_replica} x {pool.accelerator} in "
        f"{pool.weight_format} for {name}"
        for name, pool in (("prefill", pools.prefill), ("decode", pools.decode))
    ]
    return f"two pools on {engine}: {told[0]}, {told[1]}"


def summary(question: Question, ranked: Sequence[Ranked], rejected: Sequence[Rejection]) -> str:
    """Two or three sentences a buyer can read."""
    opening = purpose(question)
    if not ranked:
        near = rejected[0].text if rejected else "The catalogue is empty."
        return f"{opening}. Nothing in the catalogue can do this within the limits. Nearest miss: {near}"
    first = ranked[0].estimate
    d = first.deployment
    days = None if first.performance is None else first.performance.days
    lasting = "" if days is None else f"{span(days)}, "
    if isinstance(question.workload, TrainingWorkload):
        layout = f"{d.framework}, {counted(d.accelerators_per_replica or 0, 'accelerator')}"
        middle = f"Take {hardware_words(ranked[0])} ({layout}): {lasting}{price_words(first)}."
    elif d.pools is not None:
        middle = f"Take {hardware_words(ranked[0])}: {price_words(first)}."
    else:
        spare = f" and {d.spare_replicas} spare" if d.spare_replicas else ""
        middle = (
            f"Take {hardware_words(ranked[0])} as {counted(d.replicas or 0, 'replica')}{spare} of "
            f"{d.accelerators_per_replica} in {d.weight_format} on {d.engine}: {lasting}{price_words(first)}."
        )
    closing = f" Sized to hold with {question.constraints.confidence:.0%} probability."
    if len(ranked) > 1:
        closing += f" Next best: {hardware_words(ranked[1])}, {price_words(ranked[1].estimate)}."
    return f"{opening}. {middle}{closing}"


def impossible(
    deployment: Deployment, model: ModelArchitecture, accelerator: Accelerator, known: Rejection | None
) -> Estimate:
    """An estimate of what does not run together, or of a shape the model does not have; `known` is why the accelerator
    was turned down before any layout was tried.
    """
    name, rule = accelerator.name, "" if known is None else known.rule
    if known is not None and known.code == "missing_data":
        text, code = known.text, known.code
    elif known is not None:
        text, code = f"{known.text} {rule}".rstrip(), "unsupported"
    else:
        text = (
            f"No layout of {model.name} on {name} agrees with the deployment: {model.num_heads} attention heads and "
            f"{model.kv_heads} key/value heads must divide by tensor_parallel, and the machine must hold a replica."
        )
        code = "no_layout"
    reasons = (Reason(code, text, "fits", 0.0, "1"),)
    return Estimate(deployment, False, None, None, None, None, reasons, rule=rule)
