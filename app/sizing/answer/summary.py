"""Summaries of an answer and of a deployment, comparisons with the best one, and the assumptions used."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from app.sizing.answer.familiarity import PASSED, difference_words
from app.sizing.answer.money import confident_usd, describe_price, format_usd
from app.sizing.answer.warnings import describe_hosts
from app.sizing.assumptions import Assumed, Assumptions
from app.sizing.columns import GIB, GIGA, ROUNDING, SECONDS_PER_DAY, TERA
from app.sizing.decisions.places import list_countries
from app.sizing.decisions.prices import run_pricing, service_pricing
from app.sizing.hardware.parts import COUNTED, SOCKET, Accelerator, Commitment, PricingModel
from app.sizing.model.architecture import ModelArchitecture, ModelKind
from app.sizing.model.formats import AUTO_KV
from app.sizing.question import MEDIAN_CONFIDENCE, Deployment, Economics, Objective, Pools, Question
from app.sizing.result import Estimate, Percentiles, Performance, Ranked, Reason, Rejection, RunnerUp, SharedFleet
from app.sizing.serving.plans import default_weight_formats
from app.sizing.words import (
    describe_pricing,
    format_count,
    format_distinct_numbers,
    format_duration,
    format_large_number,
    format_name,
    format_number,
    format_quantity,
    percent,
    product_name,
    provider_name,
)
from app.sizing.workload import InferenceWorkload, Load, Method, TrainingWorkload


def collect_assumptions(question: Question, deployment: Deployment | None = None) -> tuple[Assumed, ...]:
    """Assumptions of an answer: values that the question left open, and every assumed number that was read.

    Call this last, after all numbers were read. Formats that a `deployment` fixes are not assumptions.
    """
    workload = question.workload
    shape = tuple(
        Assumed(
            "model_shape", text, "text", "description of the model or sample that the answer uses", "typical shapes"
        )
        for text in workload.model.assumed
    )
    return (
        *shape,
        *workload.derived,
        *considered_choices(question, deployment),
        *question.assumptions.with_recording().used_assumptions(),
        *electricity_of_country(question.economics),
    )


def electricity_of_country(economics: Economics) -> Iterable[Assumed]:
    """The electricity price, where it is that of the country of the request."""
    price = economics.country_price
    if price is not None:
        reason = f"mean price of industry in {price.country}, {price.period}"
        limits = Assumptions.allowed_range("electricity_usd_per_kwh")
        yield Assumed("electricity_usd_per_kwh", price.usd_per_kwh, "USD/kWh", reason, price.source, limits)


def considered_choices(question: Question, deployment: Deployment | None) -> Iterable[Assumed]:
    """Formats, pricing models and price types that were considered: requested ones or the defaults."""
    workload, limits, fixed = question.workload, question.constraints, deployment or Deployment("")
    if fixed.pricing_model is None:
        ends = isinstance(workload, TrainingWorkload) or workload.is_finite
        payable = (run_pricing if ends else service_pricing)(limits)
        is_requested = bool(limits.pricing_models) or limits.commitment is not Commitment.NONE
        yield _assumed_names("pricing_models", payable if is_requested else (), payable, "pricing models considered")
    if deployment is None:
        reason = "price types considered; by default those a seller has published or quoted, and surveys of sellers"
        yield _assumed_names("price_kinds", limits.price_kinds, COUNTED, reason)
    if not isinstance(workload, InferenceWorkload):
        return
    if fixed.weight_format is None:
        usual = sorted(default_weight_formats(workload.model, personal=workload.is_personal))
        reason = f"weight formats considered; by default {_usual_formats(workload)}"
        yield _assumed_names("weight_formats", limits.weight_formats, usual, reason)
    if fixed.kv_format is None and not workload.single_pass:
        reason = "KV cache formats considered; auto: FP8 where the checkpoint states it, else 16 bit"
        yield _assumed_names("kv_formats", limits.kv_formats, (AUTO_KV,), reason)
    drafting = fixed.speculative or limits.speculative
    if drafting is not None:
        gained = f"{drafting.tokens_per_step:.2f} tokens per step"
        reason = f"what a verified step gains at the requested acceptance rate of {drafting.acceptance_rate:g}"
        yield _assumed_names("speculative", (gained,), (), reason)


def _usual_formats(workload: InferenceWorkload) -> str:
    """The weight formats that are considered unless the request names some."""
    if workload.model.kind is not ModelKind.DECODER:
        return "16 bits and the published format"
    return "16 bits, 8 bits and the published format, and 4 bits for personal use"


def _assumed_names(name: str, requested: Iterable[str], usual: Iterable[str], reason: str) -> Assumed:
    """The requested names, or the default ones."""
    names = tuple(requested)
    return Assumed(name, ", ".join(names or usual), "text", reason, "assumed: usual value", asked=bool(names))


OBJECTIVE_WORDS = {
    Objective.COST: "the lowest cost",
    Objective.LATENCY: "the lowest latency",
    Objective.THROUGHPUT: "the highest throughput per accelerator",
    Objective.ENERGY: "the lowest energy per unit of work",
    Objective.CARBON: "the least carbon per unit of work",
    Objective.BALANCED: "the best balance of cost, latency and energy",
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
    """Workload and objective: "Serving MODEL at up to 5 requests/s. Objective: lowest cost"."""
    objective = OBJECTIVE_WORDS[question.objective].removeprefix("the ")
    return f"{describe_workload(question.workload)}. Objective: {objective}"


def describe_hardware(ranked: Ranked) -> str:
    """Count, name and seller of the hardware: "8 × NVIDIA H100 from Lambda (us-east-1, on demand)"."""
    d, name = ranked.estimate.deployment, ranked.accelerator.name
    price = None if ranked.estimate.cost is None else ranked.estimate.cost.price
    countries = frozenset() if price is None else frozenset(price.countries or ())
    if d.pools is not None:
        return describe_pools(d.pools, d.engine, ranked.names, countries)
    if ranked.accelerator.kind == SOCKET and d.instance_type is not None:  # a small instance is part of a socket
        return f"{d.nodes or 0:,} × {d.instance_type} ({name}) {describe_seller(d, ranked.names, countries)}"
    return f"{d.total_accelerators or 0:,} × {name} {describe_seller(d, ranked.names, countries)}"


def describe_seller(d: Deployment, names: Mapping[str, str], countries: frozenset[str] = frozenset()) -> str:
    """Seller, region and pricing model: "from Lambda (us-east-1, on demand)", "(purchase, Acme Server 8x Big)".

    Parameters:
        names: names of systems by slug; a slug that is not listed stays as it is.
        countries: countries in one of which the machines are if no region is known.
    """
    if d.uses_inventory:
        return "(yours)"
    if d.pricing_model is PricingModel.OWNED:
        return f"(purchase, {names.get(d.system or '', f'system {d.system}')})"
    pricing = describe_pricing(d.pricing_model) if d.pricing_model else "no listed price"
    region = None if d.region == "unspecified" else d.region
    terms = f"{region}, {pricing}" if region else pricing + (f", in {list_countries(countries)}" if countries else "")
    return f"from {provider_name(d.provider)} ({terms})" if d.provider else f"({terms})"


def describe_pools(
    pools: Pools, engine: str | None, names: Mapping[str, str], countries: frozenset[str] = frozenset()
) -> str:
    """Both pools of a service that separates prefill from decode, with their spares and sellers.

    Parameters:
        names: names of accelerators and systems by slug; a slug that is not listed stays as it is.
        countries: countries of the seller's data centers; they count if both pools have one seller.
    """
    placed = countries if pools.prefill.provider == pools.decode.provider else frozenset[str]()
    prefill, decode = (
        f"{describe_replicas(pool, f'{name} replica')} on {pool.accelerators_per_replica} × "
        f"{names.get(pool.accelerator, pool.accelerator)}{each_of(pool)} "
        f"{describe_seller(pool, names, placed)} in {format_name(pool.weight_format or '')}"
        for name, pool in (("prefill", pools.prefill), ("decode", pools.decode))
    )
    return f"two pools with {product_name(engine or '')}: {prefill}, and {decode}"


def describe_replicas(d: Deployment, replica: str = "replica") -> str:
    """Replicas and spares of a deployment: "3 replicas and 1 spare"."""
    spares = f" and {format_count(d.spare_replicas, 'spare')}" if d.spare_replicas else ""
    return f"{format_count(d.replicas or 0, replica)}{spares}"


def each_of(d: Deployment) -> str:
    """Return " each" if a deployment has several replicas or spares, else nothing."""
    return "" if (d.replicas or 0) + (d.spare_replicas or 0) == 1 else " each"


def describe_layout(ranked: Ranked) -> str:
    """Layout of a deployment: "3 replicas and 1 spare, 2 GPUs each, BF16, vLLM", "FSDP on 8 GPUs"."""
    d = ranked.estimate.deployment
    size, device = d.accelerators_per_replica or 0, DEVICE_WORDS.get(ranked.accelerator.kind, "accelerator")
    if d.framework is not None:
        return f"{product_name(d.framework)} on {format_count(size, device)}"
    taken = f"one {device}" if size == 1 else format_count(size, device)
    each = each_of(d)
    placed = f"{describe_replicas(d)}{',' if each else ' on'} {taken}{each}"
    return f"{placed}, {format_name(d.weight_format or '')}, {product_name(d.engine or '')}"


def write_summary(question: Question, ranked: Sequence[Ranked], closest: Rejection | None, note: str = "") -> str:
    """Summary of an answer for a buyer: the request, the recommendation with its cost, and the next best option.

    `note` follows the text of the closest rejected option where nothing is recommended.

    The decision memo cuts the request off at ". Recommended: ".
    """
    if not ranked:
        near = closest.text if closest is not None else "The catalog is empty."
        none = "None of your hardware" if question.constraints.stock else "No hardware in the catalog"
        return f"{describe_workload(question.workload)}. {none} meets the limits. Closest option: {near}{note}"
    opening, first = describe_question(question), ranked[0].estimate
    days = None if first.performance is None else first.performance.days
    hardware, lasting = describe_hardware(ranked[0]), ""
    if first.deployment.pools is None:
        hardware = f"{hardware}: {describe_layout(ranked[0])}"
        lasting = "" if days is None else f" Duration: {format_duration(days)}."
    apart = describe_separate_services(first.shared, question.assumptions.near_tie_share)
    price, *merits = figures_of_merit(first, question.objective)
    middle = f"Recommended: {apart}{describe_offload(first)}{hardware}.{lasting} Cost: {price}."
    middle += "".join(f" {merit[0].upper()}{merit[1:]}." for merit in merits)
    closing = f" At least {percent(question.constraints.confidence)} likely to meet every limit."
    if len(ranked) > 1:
        others = ", ".join(figures_of_merit(ranked[1].estimate, question.objective))
        closing += f" Next best: {describe_hardware(ranked[1])}, {others}."
        closing += "".join(f" {r.text}" for r in first.explanation if r.code == "published_use" and PASSED in r.text)
    return f"{opening}. {middle}{closing}"


def figures_of_merit(estimate: Estimate, objective: Objective) -> list[str]:
    """Price of an option, then the other figures by which the objective ranks: "median latency 1,610 ms"."""
    p, cost, figures = estimate.performance, estimate.cost, [describe_price(estimate)]
    if objective is Objective.COST and (total := cost_of_all_models(estimate)) is not None:
        figures.append(f"{format_usd(total)}/h for all models")
    balanced = objective is Objective.BALANCED
    if (balanced or objective is Objective.LATENCY) and p is not None and p.e2e is not None and p.e2e.p50_s:
        figures.append(f"median latency {format_number(p.e2e.p50_s * 1e3)} ms")
    if objective is Objective.THROUGHPUT and p is not None and p.requests_per_s_capacity is not None:
        each = p.requests_per_s_capacity / max(1, estimate.deployment.total_accelerators or 1)
        figures.append(f"throughput {format_quantity(each, 'request')}/s per accelerator")
    if cost is None:
        return figures
    if (balanced or objective is Objective.ENERGY) and cost.kwh_per_million is not None:
        figures.append(f"energy {format_number(cost.kwh_per_million)} kWh per million {cost.million_of}")
    if objective is Objective.CARBON and cost.carbon is not None and cost.carbon.kg_per_million is not None:
        figures.append(f"carbon {format_number(cost.carbon.kg_per_million * 1e3)} g CO2e per million {cost.million_of}")
    return figures


def describe_separate_services(fleet: SharedFleet | None, share: float) -> str:
    """Separate services for the traffic classes, where they cost less than one shared service; else empty.

    Parameters:
        share: largest difference that counts as a near tie, from 0 to 1.
    """
    theirs = None if fleet is None else fleet.separate_usd_per_hour
    if fleet is None or theirs is None or (fleet.usd_per_hour or 0.0) <= theirs * (1 + share):
        return ""
    each = "; ".join(
        f"{s.name} on {s.total_accelerators:,} × {s.accelerator_name} ({product_name(s.engine or '')}, "
        f"{format_usd(s.usd_per_hour or 0.0)}/h)"
        for s in fleet.separate_services
    )
    return (
        f"{format_count(len(fleet.separate_services), 'separate service')}, {each}; together {format_usd(theirs)}/h. "
        "Request each class alone for its full plan. One shared service needs "
    )


def describe_offload(estimate: Estimate) -> str:
    """Text about parts in host memory, as it precedes the hardware in a summary; empty if everything stays on
    accelerators.
    """
    moved = next((reason.text for reason in estimate.explanation if reason.code == "offload"), "")
    return f"offload to host memory. {moved} Hardware: " if moved else ""


def impossible_estimate(
    deployment: Deployment, model: ModelArchitecture, accelerator: Accelerator, rejection: Rejection | None
) -> Estimate:
    """Estimate of a deployment that cannot run: software, hardware or layout do not fit the model.

    Parameters:
        rejection: why the accelerator was rejected; None if no layout matches.
    """
    name, rule = accelerator.name, "" if rejection is None else rejection.rule
    fixes_ranks = (deployment.tensor_parallel or 1) > 1
    if rejection is not None and rejection.code == "missing_data":
        text, code = rejection.text, rejection.code
    elif rejection is not None and not (rejection.code == "no_layout" and fixes_ranks):
        text, code = f"{rejection.text} {rule}".rstrip(), "unsupported"
    else:
        text = (
            f"No layout of {model.name} on {name} matches the deployment. tensor_parallel must divide "
            f"{model.num_heads} attention heads, and divide or be a multiple of {model.kv_heads} key/value heads; the "
            "machine must hold a replica."
        )
        code = "no_layout"
    reasons = (Reason(code, text, "fits", 0.0, "1"),)
    return Estimate(deployment, False, None, None, None, None, reasons, rule=rule)


# Text of the maximum, by the quantity that a request maximizes.
MAXIMUM_TEXTS = {
    "parameters": "the largest model that fits",
    "sequence_length": "the longest sequences that fit",
    "micro_batch": "the largest micro-batch that fits",
}
SMALLEST_SHOWN_PROBABILITY = 0.005  # probabilities closer to 0 or 1 are not shown as a number


def describe_deployment(question: Question, ranked: Ranked) -> str:
    """Summary of one deployment in two to four sentences."""
    estimate, workload = ranked.estimate, question.workload
    if estimate.memory is None:
        return f"{describe_workload(workload)}. {estimate.explanation[0].text}"
    layout = "" if estimate.deployment.pools is not None else f": {describe_layout(ranked)}"
    taken = f"{describe_workload(workload)}{describe_maximum(estimate)} on {describe_hardware(ranked)}{layout}"
    if not estimate.fits or estimate.performance is None:
        priced = "" if estimate.cost is None else f" {describe_cost(estimate)}."
        reasons = {reason.code: reason.text for reason in estimate.explanation}
        return f"{taken}. {reasons.get('out_of_memory', estimate.explanation[0].text)}{priced}"
    if isinstance(workload, TrainingWorkload):
        done = describe_run(workload, estimate.performance)
    else:
        done = describe_service(workload, estimate.performance)
    fit = None if estimate.assurance is None else estimate.assurance.fits
    unsure = fit is not None and fit < question.constraints.confidence
    fitting = f"It is {percent(fit or 0.0)} likely to fit" if unsure else "It fits"
    return f"{taken}. {fitting} {done}.{describe_probability(estimate)} {describe_cost(estimate)}."


def describe_maximum(estimate: Estimate) -> str:
    """Largest value that fits, as part of a sentence; empty if the request did not ask for one."""
    if estimate.maximum is None:
        return ""
    value = f"{format_large_number(estimate.maximum.value)} {estimate.maximum.unit}"
    return f", with {MAXIMUM_TEXTS[estimate.maximum.quantity]} ({value}),"


def describe_cost(estimate: Estimate) -> str:
    """Cost of the deployment, where it is known."""
    priced = estimate.cost is not None and estimate.cost.usd_per_hour is not None
    return f"It costs {describe_price(estimate)}" if priced else "Its price is unknown"


def describe_run(workload: TrainingWorkload, speed: Performance) -> str:
    """Duration of a run compared with its deadline, as it follows "It fits"."""
    days, limit = speed.days or 0.0, workload.deadline_s / SECONDS_PER_DAY
    if days <= limit:
        return f"and takes {format_duration(days)}, within the deadline of {format_duration(limit)}"
    return f"but takes {format_duration(days)}, longer than the deadline of {format_duration(limit)}"


def describe_service(workload: InferenceWorkload, speed: Performance) -> str:
    """Capacity of a service and its latency, as it follows "It fits"."""
    unit = "samples" if workload.model.sample else "requests"
    capacity = speed.requests_per_s_capacity or speed.samples_per_s or 0.0
    rate = format_quantity(capacity, unit.removesuffix("s"))
    if workload.load is Load.OFFLINE:
        return f"and serves {rate}/s"
    if workload.load is Load.OPEN and capacity < workload.peak_per_s * (1 - ROUNDING):
        carried, requested = format_distinct_numbers(capacity, workload.peak_per_s)
        part = f"only {carried}" if capacity else "none"
        return f"but serves {part} of the requested {requested} {unit}/s within the limits"
    waits = describe_latencies(speed)
    if workload.load is Load.OPEN:
        return f"and serves up to {rate}/s within the limits. At peak, {waits}"
    return f"and serves {rate}/s. With this load, {waits}"


def describe_latencies(speed: Performance) -> str:
    """The first two known latencies, each with its median and its p95."""
    latencies = {"TTFT": speed.ttft, "TPOT": speed.tpot, "end-to-end latency": speed.e2e}
    waits = [f"{name} is {format_latency(times)}" for name, times in latencies.items() if times is not None]
    return " and ".join(waits[:2])


def format_latency(times: Percentiles) -> str:
    """Median and p95 in milliseconds, or in seconds from ten seconds up."""
    usual, tail = (
        "unbounded" if s is None else f"{format_number(s)} s" if s >= 10 else f"{format_number(s * 1e3)} ms"
        for s in (times.p50_s, times.p95_s)
    )
    return f"{usual} (p95 {tail})"


def describe_probability(estimate: Estimate) -> str:
    """Probability that the deployment meets every limit, or the deadline of work without other limits."""
    sure = estimate.assurance
    chance = None if sure is None else sure.meets_deadline if sure.meets_slo is None else sure.meets_slo
    if chance is None or chance < SMALLEST_SHOWN_PROBABILITY:
        return ""
    likely = "almost certain" if chance > 1 - SMALLEST_SHOWN_PROBABILITY else f"{percent(chance)} likely"
    return f" It is {likely} to meet {'the deadline' if sure is None or sure.meets_slo is None else 'every limit'}."


# Differences that rounding hides: whole percents for money, two digits for time.
ROUNDS_TO_0_PERCENT = 0.005
ROUNDS_TO_ONE = 0.05
FAR_PURCHASE = 2.0  # ratio of purchase prices over that of costs from which a comparison states the purchases
KNOWN_SOFTWARE = "use whichever you know"  # how to choose between near ties of software
# What options of a near tie have in common, by objective: for one option and for several.
NEAR_TIE_WORDS = {
    Objective.COST: ("costs about the same", "cost about the same"),
    Objective.LATENCY: ("is about as fast", "are about as fast"),
    Objective.THROUGHPUT: ("has about the same throughput", "have about the same throughput"),
    Objective.ENERGY: ("uses about as much energy", "use about as much energy"),
    Objective.CARBON: ("causes about as much carbon", "cause about as much carbon"),
    Objective.BALANCED: ("performs about as well", "perform about as well"),
}


def limiting_resource(bottleneck: str | None, a: Accelerator) -> str:
    """Amount of the limiting resource that one accelerator has: "80 GiB of memory"; empty for the host.

    The amount comes before " of ".
    """
    if bottleneck == "compute":
        rate = max(a.flops_per_s.get("bf16", 0.0), a.flops_per_s.get("fp16", 0.0))
        return f"{format_number(rate / TERA)} TFLOP/s of 16-bit compute"
    if bottleneck == "memory_capacity":
        return f"{format_number((a.memory_bytes or 0) / GIB)} GiB of memory"
    if bottleneck == "interconnect":
        return f"{format_number(a.scaleup_bytes_per_s / GIGA)} GB/s of link bandwidth"
    if bottleneck == "host":
        return ""  # data sheets of accelerators say nothing about the host
    return f"{format_number((a.memory_bytes_per_s or 0) / TERA)} TB/s of memory bandwidth"


def add_comparisons(
    ranked: tuple[Ranked, ...], question: Question, feasible: int, use: Reason | None = None
) -> tuple[Ranked, ...]:
    """Recommendations with their comparison: why the best one leads, and how the others differ from it.

    Parameters:
        use: what published use has to do with the first place; None if nothing.
    """
    if not ranked:
        return ranked
    best, share = ranked[0], question.assumptions.near_tie_share
    why = "This is the only accelerator type that meets the limits."
    if len(question.constraints.stock) == 1:
        why = "Your accelerator type meets the limits."
    elif question.constraints.stock:
        why = "This is the only one of your accelerator types that meets the limits."
    if feasible > 1:
        lead = f"is within {percent(max(share, 1 / best.score - 1))} of" if best.score < 1 - ROUNDING else "has"
        why = (
            f"Of the {feasible} accelerator types that meet the limits, this one {lead} "
            f"{OBJECTIVE_WORDS[question.objective]}: {describe_hardware(best)}, "
            f"{', '.join(figures_of_merit(best.estimate, question.objective))}."
        )
    reasons = [Reason("choice", why, "feasible_accelerators", float(feasible), "types")]
    if use is not None:
        reasons.append(use)
    if len(ranked) > 1:
        reasons.append(compare_with_best(ranked[1], best, lead="Next best: {name}. It"))
        if question.objective is Objective.COST and abs(worse_share(ranked[1], best)) <= share:
            text = f"{reasons[-1].text} The difference in cost is a near tie: choose by availability."
            reasons[-1] = replace(reasons[-1], text=text)
    if question.objective is Objective.ENERGY:
        reasons.extend(price_of_saved_energy(ranked))
    others = ((r, compare_with_best(r, best, lead="Compared with the best option, {name}")) for r in ranked[1:])
    return (
        with_explanation(
            best, (*reasons, *find_near_ties(ranked, question.objective, share), *best.estimate.explanation)
        ),
        *(
            with_explanation(
                r,
                (
                    *r.estimate.explanation,
                    lacks,
                    *find_near_ties((r,), question.objective, share),
                    *host_reasons(r),
                ),
            )
            for r, lacks in others
        ),
    )


def price_of_saved_energy(ranked: tuple[Ranked, ...]) -> Iterator[Reason]:
    """What the first option costs more than the cheapest one, per kWh that it saves; nothing where it is cheapest."""
    best = ranked[0].estimate.cost
    priced = [r for r in ranked if r.estimate.cost is not None and r.estimate.cost.usd_per_million is not None]
    if best is None or best.usd_per_million is None or best.kwh_per_million is None or not priced:
        return
    cheapest = min(priced, key=lambda r: spent_usd(r.estimate) or math.inf)
    other = cheapest.estimate.cost
    if cheapest is ranked[0] or other is None or other.usd_per_million is None or other.kwh_per_million is None:
        return
    saved_kwh, more_usd = other.kwh_per_million - best.kwh_per_million, best.usd_per_million - other.usd_per_million
    if saved_kwh <= 0 or more_usd <= 0:
        return
    text = (
        f"Compared with the cheapest option, {describe_hardware(cheapest)}, it saves {format_number(saved_kwh)} kWh "
        f"and costs {format_usd(more_usd)} more per million {best.million_of}: {format_usd(more_usd / saved_kwh)} per "
        "kWh saved."
    )
    yield Reason("price_of_saved_energy", text, "usd_per_saved_kwh", more_usd / saved_kwh, "USD/kWh")


def host_reasons(ranked: Ranked) -> tuple[Reason, ...]:
    """Reason that names the instruction set of hosts that are not x86-64; the first option has it as a warning."""
    text = describe_hosts(ranked.hosts)
    return (Reason("host_architecture", text, "hosts", float(len(ranked.hosts)), "types"),) if text else ()


def find_near_ties(ranked: tuple[Ranked, ...], objective: Objective, share: float) -> tuple[Reason, ...]:
    """Near ties of the first of these options: another engine, or the next accelerator type at a similar price.

    Where cost is the objective, the comparison with the next accelerator type says so itself.

    Parameters:
        share: largest difference that counts as a near tie, from 0 to 1.
    """
    first, near, choice = ranked[0], [], KNOWN_SOFTWARE
    if first.runner_up is not None:
        near.append(describe_runner_up(first.runner_up))
    if len(ranked) > 1 and objective is not Objective.COST and relative_cost(ranked[1], first) <= 1 + share:
        worse = worse_share(ranked[1], first)
        near.append((ranked[1].accelerator.name, worse))
        choice = "choose by availability" if worse <= share else choice
    return near_tie_reason([(name, worse) for name, worse in near if worse <= share], objective, choice)


def worse_share(other: Ranked, first: Ranked) -> float:
    """How much worse an option's value of the objective is than that of the first, as a share."""
    return first.score / other.score - 1


def relative_cost(other: Ranked, first: Ranked) -> float:
    """Cost of another option over that of the first; 1 where it is unknown."""
    return ratio_or_none(spent_usd(other.estimate), spent_usd(first.estimate)) or 1.0


def describe_runner_up(runner_up: RunnerUp) -> tuple[str, float]:
    """The runner-up engine as text ("SGLang in FP8"), and how much worse it is as a share."""
    stored = f" in {format_name(runner_up.weight_format)}" if runner_up.weight_format else ""
    return f"{product_name(runner_up.engine)}{stored}", runner_up.worse


def near_tie_reason(
    near: list[tuple[str, float]], objective: Objective, choice: str = KNOWN_SOFTWARE
) -> tuple[Reason, ...]:
    """The near tie as a reason: each option of `near` with how much worse it is, and how to choose."""
    if not near:
        return ()
    notes = [f" ({difference_words(w, objective)})" if abs(w) >= ROUNDS_TO_0_PERCENT else "" for _, w in near]
    one, several = NEAR_TIE_WORDS[objective]
    if len(near) == 1:
        text = f"{near[0][0]} {one}{notes[0]}; {choice}."
    else:
        text = f"{' and '.join(n + note for (n, _), note in zip(near, notes, strict=True))} {several}; {choice}."
    return (Reason("near_tie", text, "difference", min(worse for _, worse in near), "1"),)


def with_explanation(ranked: Ranked, explanation: tuple[Reason, ...]) -> Ranked:
    return replace(ranked, estimate=replace(ranked.estimate, explanation=explanation))


def cost_words(ratio: float) -> str:
    """How a cost compares with another one, from their ratio: "costs 25 % less", "costs 3 times as much"."""
    if abs(ratio - 1) < ROUNDS_TO_0_PERCENT:
        return "costs the same"
    if ratio >= 2:
        return f"costs {format_number(ratio)} times as much"
    return f"costs {percent(abs(ratio - 1))} {'more' if ratio > 1 else 'less'}"


def compare_with_best(mine: Ranked, best: Ranked, *, lead: str) -> Reason:
    """How an option differs from the best one: cost, time, and the resource that limits it.

    Parameters:
        lead: start of the sentence, with a placeholder for the accelerator's name.
    """
    parts: list[str] = []
    money = ratio_or_none(confident_usd(mine.estimate), confident_usd(best.estimate))
    asked = best.estimate.assurance.asked if best.estimate.assurance is not None else 0.0
    confidence = "" if money is None or asked <= MEDIAN_CONFIDENCE else f" at {percent(asked)} confidence"
    if money is None:
        money = ratio_or_none(cost_of_all_models(mine.estimate), cost_of_all_models(best.estimate))
        confidence = "" if money is None else " for all models"
    if money is None:
        money = ratio_or_none(spent_usd(mine.estimate), spent_usd(best.estimate))
    if money is not None:
        parts.append(cost_words(money) + confidence)
    time = ratio_or_none(duration_s(mine.estimate), duration_s(best.estimate))
    if time is not None:
        same = abs(time - 1) < ROUNDS_TO_ONE
        done = mine.estimate.performance
        per = "" if done is None or done.days is not None else " per request"
        slower = (
            f"takes {format_number(time)} times as long{per}"
            if time > 1
            else f"takes {percent(1 - time)} less time{per}"
        )
        parts.append("is equally fast" if same else slower)
    limit = mine.estimate.bottleneck
    has, other = limiting_resource(limit, mine.accelerator), limiting_resource(limit, best.accelerator)
    count = mine.estimate.deployment.total_accelerators or 0
    others = best.estimate.deployment.total_accelerators or 0
    numbers = format_count(count, "accelerator")
    each, other_each = (" each" if n > 1 else "" for n in (count, others))
    amount = other.partition(" of ")[0]  # the resource is named once
    resource = f"It uses {numbers} with {has}{each}; the best option uses {others:,} with {amount}{other_each}"
    if mixes_types(mine.estimate.deployment) or mixes_types(best.estimate.deployment):
        resource = f"It uses {describe_accelerators(mine)}; the best option uses {describe_accelerators(best)}"
    elif SOCKET in (mine.accelerator.kind, best.accelerator.kind):  # an instance may be part of a socket
        resource = f"It uses {describe_machines(mine)}; the best option uses {describe_machines(best)}"
    elif has == other:
        shared, per = (f", each with {has}", f" with {has}{each}") if has else ("", "")
        resource = f"It uses {numbers}; the best option uses {others:,}{shared}"
        if count == others:
            resource = f"Both use {numbers}{per}"
    name = mine.accelerator.name
    text = f"{lead.format(name=name)} {' and '.join(parts) or 'has no known price'}. {resource}."
    bought, own = (0.0 if e.cost is None else e.cost.purchase_usd or 0.0 for e in (mine.estimate, best.estimate))
    if bought and own and money and not 1 / FAR_PURCHASE < bought / own / money < FAR_PURCHASE:
        text += f" Its purchase costs {format_usd(bought)} instead of {format_usd(own)}."
    return Reason("comparison", text, "cost_ratio", money or 0.0, "1")


def mixes_types(d: Deployment) -> bool:
    """Whether prefill and decode run on different types of accelerators."""
    return d.pools is not None and d.pools.prefill.accelerator != d.pools.decode.accelerator


def describe_accelerators(ranked: Ranked) -> str:
    """Number and name of the accelerators, by pool: "48 × NVIDIA H100 SXM5 80GB and 16 × NVIDIA B200 SXM 180GB"."""
    d = ranked.estimate.deployment
    if d.pools is None or not mixes_types(d):
        return f"{d.total_accelerators or 0:,} × {ranked.accelerator.name}"
    return " and ".join(
        f"{pool.total_accelerators or 0:,} × {ranked.names.get(pool.accelerator, pool.accelerator)}"
        for pool in (d.pools.prefill, d.pools.decode)
    )


def describe_machines(ranked: Ranked) -> str:
    """Number and name of the machines: "7 × c8i.xlarge"."""
    d = ranked.estimate.deployment
    return (
        f"{d.nodes or 1:,} × {d.instance_type or ranked.names.get(d.system or '', d.system) or ranked.accelerator.name}"
    )


def ratio_or_none(a: float | None, b: float | None) -> float | None:
    return a / b if a is not None and b is not None and b > 0 else None


def spent_usd(e: Estimate) -> float | None:
    """USD of the run, per million units of offline work, or per hour as the mean of a day."""
    if e.cost is None:
        return None
    if e.cost.usd_total is not None:
        return e.cost.usd_total
    offline = e.performance is not None and e.performance.e2e is None
    return e.cost.usd_per_million if offline else e.cost.usd_per_hour


def cost_of_all_models(e: Estimate) -> float | None:
    """USD per hour of a service and the models that share its cards; None without them, or over a day."""
    return None if e.packing is None or e.day is not None else e.packing.total_usd_per_hour


def duration_s(e: Estimate) -> float | None:
    """Seconds of the run, or of a median request."""
    p = e.performance
    if p is None:
        return None
    return p.days * SECONDS_PER_DAY if p.days is not None else p.e2e.p50_s if p.e2e is not None else None
