"""Words about a whole answer: summary, assumptions, warnings, comparisons and what-ifs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from app.sizing.assumptions import Assumed, Assumptions
from app.sizing.cost import deployment_cost
from app.sizing.hardware import Accelerator, PricingModel
from app.sizing.inference import Judged
from app.sizing.market import Market
from app.sizing.model import ModelArchitecture
from app.sizing.plan import default_weight_formats
from app.sizing.precision import WEIGHT_FORMATS
from app.sizing.rejections import Rejection, Rejections
from app.sizing.replicas import fleet, replicas_needed, spare_replicas
from app.sizing.result import Change, Estimate, Notice, Ranked, Reason
from app.sizing.training import Run, run_at
from app.sizing.training_plan import TrainingPlans
from app.sizing.workload import (
    Deployment,
    Economics,
    InferenceWorkload,
    Load,
    Method,
    Objective,
    Question,
    Redundancy,
    TrainingWorkload,
)

SERVING_ASSUMPTIONS = (
    "runtime_overhead_gib",
    "graph_overhead_gib",
    "parallel_overhead_gib",
    "weights_load_overhead",
    "max_sequences",
    "model_load_gb_per_s",
    "engine_start_s",
)

# Bytes per second and machine beyond which a data set has to be fed by more than one disk or share.
FAST_INGEST_BYTES_PER_S = 1e9

OBJECTIVE_WORDS = {
    Objective.COST: "the lowest cost",
    Objective.LATENCY: "the lowest latency",
    Objective.THROUGHPUT: "the highest throughput per accelerator",
    Objective.ENERGY: "the least energy per unit of work",
    Objective.BALANCED: "a balance of cost, latency and energy",
}


def usd(value: float) -> str:
    """Dollars as a buyer writes them: whole above a hundred, cents above one, two figures below a cent."""
    if value >= 100:
        return f"{value:,.0f} USD"
    return f"{value:,.2f} USD" if value >= 0.1 or value <= 0 else f"{value:.2g} USD"


def load_words(workload: InferenceWorkload) -> str:
    """The second question: one user, or a service, and how big."""
    unit = "samples" if workload.model.sample else "requests"
    if workload.load is Load.OPEN:
        return f"a service of {workload.peak_per_s:.3g} {unit}/s at peak"
    if workload.load is Load.OFFLINE:
        return "offline work with no latency limit"
    if workload.in_flight <= 1:
        return "one user at a time"
    return f"{workload.in_flight:g} {unit} {'in a static batch' if workload.load is Load.BATCH else 'in flight'}"


def purpose(question: Question) -> str:
    """The three questions before buying: training or serving, one user or a service, what counts."""
    workload, goal = question.workload, OBJECTIVE_WORDS[question.objective]
    if isinstance(workload, TrainingWorkload):
        what = "train" if workload.phase == "training" else f"fine-tune ({workload.method.value})"
        unit = "samples" if workload.in_samples else "tokens"
        limit = workload.deadline_s / 86400
        span = f"{limit:.3g} days" if limit >= 2 else f"{limit * 24:.3g} hours"
        return f"You {what} {workload.model.name} on {workload.units:.3g} {unit} within {span}, and look for {goal}"
    return f"You serve {workload.model.name} (no training), {load_words(workload)}, and look for {goal}"


def hardware_words(estimate: Estimate, market: Market) -> str:
    """How many of what, where, in one clause."""
    d = estimate.deployment
    name = market.accelerators[market.accelerator_index[d.accelerator]].name
    count = d.total_accelerators or 0
    place = d.provider or "no listed price"
    pricing = d.pricing_model.value.replace("_", " ") if d.pricing_model else "unpriced"
    region = "" if d.region in (None, "unspecified") else f", {d.region}"
    where = f"owned ({d.system})" if pricing == "owned" else f"at {place}{region}, {pricing}"
    return f"{count:,} x {name} {where}"


def price_words(estimate: Estimate) -> str:
    cost = estimate.cost
    if cost is None or cost.usd_per_hour is None:
        return "no price is known"
    if cost.usd_total is not None:
        return f"{usd(cost.usd_total)} for the run ({usd(cost.usd_per_hour)} per hour)"
    per = "" if cost.usd_per_million is None else f", {usd(cost.usd_per_million)} per million {cost.per_million}"
    return f"{usd(cost.usd_per_hour)} per hour{per}"


def summary(question: Question, ranked: Sequence[Ranked], rejected: Sequence[Rejection], market: Market) -> str:
    """Two or three sentences a buyer can read."""
    opening = purpose(question)
    if not ranked:
        near = rejected[0].text if rejected else "The catalogue is empty."
        return f"{opening}. Nothing in the catalogue can do this within the limits. Nearest miss: {near}"
    first = ranked[0].estimate
    d = first.deployment
    if isinstance(question.workload, TrainingWorkload):
        layout = f"{d.framework}, {d.accelerators_per_replica:,} accelerators"
        days = (first.performance.days or 0.0) if first.performance else 0.0
        span = f"{days:.3g} days" if days >= 2 else f"{days * 24:.3g} hours"
        middle = f"Take {hardware_words(first, market)} ({layout}): {span}, {price_words(first)}."
    else:
        spare = f" and {d.spare_replicas} spare" if d.spare_replicas else ""
        middle = (
            f"Take {hardware_words(first, market)} as {d.replicas} replica{'s' if d.replicas != 1 else ''}{spare} of "
            f"{d.accelerators_per_replica} in {d.weight_format} on {d.engine}: {price_words(first)}."
        )
    closing = ""
    if len(ranked) > 1:
        second = ranked[1].estimate
        closing = f" Next best: {hardware_words(second, market)}, {price_words(second)}."
    return f"{opening}. {middle}{closing}"


def assumptions(question: Question) -> tuple[Assumed, ...]:
    """What was assumed rather than asked or derived, as it mattered to this workload."""
    assumed, workload = question.assumptions, question.workload
    shape = tuple(Assumed("model_shape", text, "text", "only part of the model was given") for text in workload.model.assumed)
    money = assumed.echo(
        "load_power_fraction", "host_power_fraction", "list_price_position", "server_host_usd", "workstation_host_usd",
        "maintenance_fraction_per_year",
    )  # fmt: skip
    if isinstance(workload, TrainingWorkload):
        write = "checkpoint_write_gb_per_s_per_machine" if workload.synchronous_checkpoints else "checkpoint_copy_gb_per_s"
        names = ["training_memory_margin", "validation_overhead", "interruptions_per_accelerator_day", "restart_minutes", write]
        names += ["retained_checkpoints", "dataset_bytes_per_token"]
        if PricingModel.SPOT in question.constraints.pricing_models:
            names.append("spot_interruptions_per_machine_day")
        if assumed.network_oversubscription > 1:
            names.append("network_oversubscription")
        return (*shape, *assumed.echo(*names), *money)
    slo = workload.slo
    stated = [
        Assumed(name, value * 1e3, "ms", f"limit that p{slo.percentile:g} of requests must meet")
        for name, value in (("ttft_ms", slo.ttft_s), ("tpot_ms", slo.tpot_s), ("e2e_ms", slo.e2e_s))
        if value is not None
    ]
    if workload.load is Load.OPEN:
        stated.append(Assumed("peak_requests_per_s", workload.peak_per_s, "1/s", "load that is planned for"))
        stated.append(Assumed("average_requests_per_s", workload.average_per_s, "1/s", "load that prices a million tokens"))
        stated.append(Assumed("target_utilization", workload.target_utilization, "1", "share of capacity planned to be used"))
    if not question.constraints.weight_formats:
        formats = default_weight_formats(workload.model, personal=workload.personal)
        stated.append(
            Assumed("weight_formats", ", ".join(sorted(formats)), "text", "judged by default: 16 and 8 bits, 4 bits for personal use")
        )
    return (*shape, *stated, *assumed.echo(*SERVING_ASSUMPTIONS), *money)


def warnings(question: Question, ranked: Sequence[Ranked], market: Market) -> tuple[Notice, ...]:
    """Known mistakes, where this request or its answer comes near one."""
    workload = question.workload
    notices: list[Notice] = []
    if workload.model.shape_is_assumed:
        notices.append(Notice("model_shape_assumed", f"Part of the model was assumed: {'; '.join(workload.model.assumed)}."))
    if isinstance(workload, InferenceWorkload):
        if workload.load is Load.OPEN and workload.target_utilization > 0.85:
            notices.append(
                Notice("no_latency_headroom", f"A target utilisation of {workload.target_utilization:.0%} leaves no room: "
                       "queues grow steeply beyond 85 %, and p99 with them.")
            )  # fmt: skip
        if workload.load is Load.OPEN and workload.peak_per_s * workload.tokens_per_request > 0 and workload.slo.percentile < 90:
            notices.append(
                Notice("average_not_tail", f"The limits hold for p{slo_text(workload)} only; users feel the tail. Plan by p95 or p99.")
            )
    if not ranked:
        return tuple(notices)
    first = ranked[0].estimate
    a = market.accelerators[market.accelerator_index[first.deployment.accelerator]]
    if isinstance(workload, InferenceWorkload):
        if a.training_class and workload.personal:
            notices.append(Notice("training_class_overkill", f"{a.name} is training-class hardware; a few users leave most of it idle."))
        stored = WEIGHT_FORMATS.get(first.deployment.weight_format or "bf16")
        native = WEIGHT_FORMATS[workload.model.native_format]
        if stored is not None and stored.nominal_bits < min(16, native.nominal_bits):
            notices.append(
                Notice("accuracy_check_owed", f"The best plan stores weights in {stored.name}, below the published "
                       f"{native.name}: check accuracy on your own task before buying.")
            )  # fmt: skip
        at_once = replicas_lost_with_a_machine(first.deployment)
        if workload.redundancy.label != "none" and at_once > (first.deployment.spare_replicas or 0):
            notices.append(
                Notice("machine_failure_exceeds_redundancy", f"A machine holds {at_once} replicas, more than the {first.deployment.spare_replicas} kept "
                       "spare: losing one machine is an outage. Ask for more redundancy, or for smaller machines.")
            )  # fmt: skip
        if workload.redundancy.label == "none" and workload.load is Load.OPEN and (first.deployment.replicas or 0) == 1:
            notices.append(
                Notice("no_redundancy", "One replica carries the service: its loss is an outage. Ask for redundancy n+1 to price a spare.")
            )
    elif first.cost is not None and first.cost.purchase_usd is not None and first.performance is not None:
        share = (first.performance.days or 0) / (question.economics.horizon_months * 30.4)
        notices.append(
            Notice("purchase_outlasts_run", f"The run uses {min(share, 1):.0%} of the {question.economics.horizon_months:g} months over which "
                   f"{usd(first.cost.purchase_usd)} of hardware are spread; its cost here assumes that other work pays for the rest.")
        )  # fmt: skip
    if isinstance(workload, TrainingWorkload) and not a.training_class and workload.method is Method.FULL:
        notices.append(
            Notice("inference_hardware_for_training", f"{a.name} is built for inference; a training run on it depends on slow links and has no headroom.")
        )  # fmt: skip
    ingest = first.performance.required_ingest_bytes_per_s if first.performance is not None else None
    if ingest is not None and ingest / max(1, first.deployment.nodes or 1) > FAST_INGEST_BYTES_PER_S:
        notices.append(
            Notice("data_pipeline_limit", f"The run reads {ingest / 1e9:.2g} GB/s of data: storage and decoding must keep up, or more "
                   "accelerators only wait.")
        )  # fmt: skip
    if a.segment in ("consumer", "edge"):
        what = "a consumer part" if a.segment == "consumer" else "an embedded module sold on development kits"
        notices.append(
            Notice("consumer_hardware", f"{a.name} is {what}: no data-centre support, mostly no ECC memory, and its driver "
                   "licence may forbid data-centre use.")
        )  # fmt: skip
    price = first.cost.price if first.cost is not None else None
    if price is not None and price.as_of and months_between(price.as_of, market.prices_as_of) > 6:
        notices.append(
            Notice(
                "stale_price", f"The price of the best plan is of {price.as_of}; the newest in the catalogue is of {market.prices_as_of}."
            )
        )
    if price is not None and price.pricing_model == "spot":
        notices.append(Notice("spot_interruptions", "Spot capacity can be taken back at any time; no interruption is priced in."))
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


def limiting_resource(bottleneck: str | None, a: Accelerator) -> str:
    """What an accelerator has of the resource that limits a plan, in words."""
    if bottleneck == "compute":
        rate = max(a.flops_per_s.get("bf16", 0.0), a.flops_per_s.get("fp16", 0.0))
        return f"{rate / 1e12:,.4g} TFLOP/s in 16 bit"
    if bottleneck == "memory_capacity":
        return f"{(a.memory_bytes or 0) / 2**30:,.3g} GiB"
    if bottleneck == "interconnect":
        return f"{a.scaleup_bytes_per_s / 1e9:,.3g} GB/s of link"
    return f"{(a.memory_bytes_per_s or 0) / 1e12:,.3g} TB/s of memory bandwidth"


def compared(estimates: tuple[Estimate, ...], question: Question, feasible: int, market: Market) -> tuple[Estimate, ...]:
    """Each estimate with a sentence on where it stands: the best first says why it leads, the others what they lack."""
    if not estimates:
        return estimates
    best = estimates[0]
    types = f"the {feasible} accelerator types" if feasible > 1 else "the accelerator types"
    why = (
        f"Of {types} that meet the limits it has {OBJECTIVE_WORDS[question.objective]}: {hardware_words(best, market)}, {price_words(best)}."
        if feasible > 1
        else "It is the only accelerator type that meets the limits."
    )
    reasons = [Reason("choice", why, "feasible_accelerators", float(feasible), "types")]
    if len(estimates) > 1:
        reasons.append(against(estimates[1], best, market, lead="The runner-up is {name}: it"))
    told = [replace(best, explanation=(*reasons, *best.explanation))]
    told += [replace(e, explanation=(*e.explanation, against(e, best, market, lead="Beside the best, {name}"))) for e in estimates[1:]]
    return tuple(told)


def against(mine: Estimate, best: Estimate, market: Market, *, lead: str) -> Reason:
    """What a plan lacks beside the best: money, time, and the resource that limits it."""

    def accelerator(e: Estimate) -> Accelerator:
        return market.accelerators[market.accelerator_index[e.deployment.accelerator]]

    parts: list[str] = []
    money = ratio(spent(mine), spent(best))
    if money is not None:
        same = abs(money - 1) < 0.005
        parts.append("costs as much" if same else f"costs {abs(money - 1):.0%} {'more' if money > 1 else 'less'}")
    time = ratio(duration_s(mine), duration_s(best))
    if time is not None:
        parts.append("is as fast" if abs(time - 1) < 0.05 else f"takes {time:.2g} times as long")
    has = limiting_resource(mine.bottleneck, accelerator(mine))
    other = limiting_resource(mine.bottleneck, accelerator(best))
    count, others = mine.deployment.total_accelerators or 0, best.deployment.total_accelerators or 0
    resource = f"{count:,} with {has} each against {others:,} with {other}"
    text = f"{lead.format(name=accelerator(mine).name)} {' and '.join(parts) or 'has no known price'}; {resource}."
    return Reason("comparison", text, "cost_ratio", money or 0.0, "1")


def ratio(a: float | None, b: float | None) -> float | None:
    return a / b if a is not None and b is not None and b > 0 else None


def spent(e: Estimate) -> float | None:
    """USD of the run, or per hour."""
    if e.cost is None:
        return None
    return e.cost.usd_total if e.cost.usd_total is not None else e.cost.usd_per_hour


def duration_s(e: Estimate) -> float | None:
    """Seconds of the run, or of a typical request."""
    p = e.performance
    if p is None:
        return None
    return p.days * 86400 if p.days is not None else p.e2e.p50_s if p.e2e is not None else None


def first_of(estimates: Sequence[Estimate]) -> str:
    """The best answer of a changed question, in a clause."""
    if not estimates:
        return "still nothing fits"
    e = estimates[0]
    return f"{e.deployment.total_accelerators:,} x {e.deployment.accelerator}, {price_words(e)}"


def sensitivity(workload: InferenceWorkload, judged: Judged, assumed: Assumptions, economics: Economics) -> tuple[Change, ...]:
    """What the best plan would cost with more load, less redundancy or a tighter plan."""
    if workload.load is not Load.OPEN:
        return ()

    def cost_of(changed: InferenceWorkload) -> float:
        replicas = replicas_needed(changed, judged.speed.capacity_per_s, judged.speed.slo_batch)
        placed = fleet(judged.plans, replicas, spare_replicas(changed.redundancy, replicas))
        cost = deployment_cost(judged.plans.c, placed.nodes, np.zeros(len(judged)), assumed, economics)
        return float(cost.usd_per_hour.min())

    now = cost_of(workload)
    if not np.isfinite(now) or now <= 0:
        return ()
    cases = [("twice the peak load", replace(workload, peak_per_s=2 * workload.peak_per_s))]
    if workload.redundancy.label != "none":
        cases.append(("no redundancy", replace(workload, redundancy=Redundancy())))
    else:
        cases.append(("redundancy n+1", replace(workload, redundancy=Redundancy(spare=1))))
    if workload.target_utilization > 0.5:
        cases.append(("half of each replica kept free (target utilisation 0.5)", replace(workload, target_utilization=0.5)))
    told = [Change(label, f"the cheapest plan costs {usd(cost_of(w))} per hour instead of {usd(now)}") for label, w in cases]
    return (*told, *rent_or_buy(judged))


def rent_or_buy(judged: Judged) -> tuple[Change, ...]:
    """The cheapest way to own what the load needs against the cheapest way to rent it."""
    hourly, owned = judged.cost.usd_per_hour, ~np.isnan(judged.cost.purchase_usd)
    if owned.all() or not owned.any():
        return ()
    buy = int(np.flatnonzero(owned)[np.argmin(hourly[owned])])
    rent = int(np.flatnonzero(~owned)[np.argmin(hourly[~owned])])
    price = float(judged.cost.purchase_usd[buy])
    text = f"owning costs {usd(price)} up front and {usd(float(hourly[buy]))} per hour over the horizon, renting {usd(float(hourly[rent]))} per hour"
    return (Change("rent or buy", text),)


def training_sensitivity(
    workload: TrainingWorkload, plans: TrainingPlans, run: Run, market: Market, assumed: Assumptions
) -> tuple[Change, ...]:
    """What twice the machines would do to the duration, with the same layout."""
    degree = run.data_parallel * 2
    each = workload.global_batch / (degree * plans.micro_batch)
    if float(each[0]) < 1 or float(each[0]) % 1:
        return (
            Change("twice the accelerators", "the global batch does not divide further at this micro-batch: more accelerators would idle"),
        )
    other = run_at(workload, plans, degree, market, assumed)
    share = float((run.wall_s / other.wall_s)[0])
    return (Change("twice the accelerators", f"the run is {share:.2f} times as fast, for {2 / share:.2f} times the money"),)


def impossible(deployment: Deployment, model: ModelArchitecture, market: Market, rejections: Rejections) -> Estimate:
    """An estimate of something never made to run together, or of a shape the model does not have."""
    index = market.accelerator_index[deployment.accelerator]
    known = rejections.by_accelerator.get(index)
    name = market.accelerators[index].name
    wanted = " ".join(str(v) for v in (deployment.engine or deployment.framework, deployment.weight_format, deployment.kv_format) if v)
    if known is not None and known.code == "missing_data":
        text, code = known.text, known.code
    elif known is not None:
        text, code = f"{wanted or 'This'} was never made to run on {name}, as far as the catalogue knows.", "unsupported"
    else:
        text = (
            f"No layout of {model.name} on {name} agrees with the deployment: {model.num_heads} attention heads and "
            f"{model.kv_heads} key/value heads must divide by tensor_parallel, and the machine must hold a replica."
        )
        code = "no_layout"
    return Estimate(deployment, False, None, None, None, None, (Reason(code, text, "fits", 0.0, "1"),))
