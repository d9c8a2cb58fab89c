"""The whole way from a workload to an answer, in reading order.

    candidates -> plans -> memory -> speed -> replicas and cost -> best plan per type -> words

`recommend` searches the catalogue, `estimate` judges one deployment. Both end in the same
estimate of a complete deployment, so what is recommended and what is estimated cannot differ.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from app.errors import Conflict
from app.sizing import narrate
from app.sizing.assumptions import Assumptions
from app.sizing.candidates import RUN_PRICING, Candidates, candidates
from app.sizing.columns import Column, Mask, column
from app.sizing.communication import link_rates
from app.sizing.cost import deployment_cost, within_limits
from app.sizing.explain import serving_estimate
from app.sizing.explain_training import training_estimate
from app.sizing.hardware import Environment, PricingModel
from app.sizing.inference import Judged, Settings, measure_memory, measure_speed, measures, place, search
from app.sizing.market import LINKS, Machines, Market, link_of
from app.sizing.plan import Plans, build_plans
from app.sizing.ranking import Measures, best_per_accelerator, score_of
from app.sizing.rejections import Rejections
from app.sizing.result import Answer, Change, Considered, Estimate, Ranked, Reason
from app.sizing.training import Run, run_at, smallest_run
from app.sizing.training_plan import TrainingPlans, build_training_plans
from app.sizing.workload import (
    Constraints,
    Deployment,
    InferenceWorkload,
    Question,
    TrainingWorkload,
)


@dataclass(frozen=True, slots=True)
class Found:
    """Finalists of a search, best first, with what was counted on the way."""

    estimates: tuple[Estimate, ...]
    scores: tuple[float, ...]
    rejections: Rejections
    plans: int
    feasible_accelerators: int
    sensitivity: tuple[Change, ...]


def recommend(question: Question, market: Market) -> Answer:
    """Rank the hardware that can run a workload, and say why the rest was turned down."""
    found = find(question, market)
    rejected = found.rejections.nearest()
    sensitivity = found.sensitivity
    if not found.estimates:
        sensitivity = tuple(what_would_give(question, market, rejected[0].text if rejected else ""))
    ranked = tuple(
        Ranked(rank=i + 1, score=found.scores[0] / s if s > 0 else 1.0, estimate=e)
        for i, (e, s) in enumerate(zip(found.estimates, found.scores, strict=True))
    )
    return Answer(
        summary=narrate.summary(question, ranked, rejected, market),
        assumptions=narrate.assumptions(question),
        warnings=narrate.warnings(question, ranked, market),
        recommendations=ranked,
        rejected=tuple(rejected[: question.rejected_limit]),
        rejected_by_code=dict(sorted(Counter(r.code for r in rejected).items())),
        considered=Considered(len(market.accelerators), found.plans, found.feasible_accelerators),
        sensitivity=sensitivity,
    )


def find(question: Question, market: Market) -> Found:
    """Search for either kind of workload."""
    if isinstance(question.workload, TrainingWorkload):
        return find_training(question, question.workload, market)
    return find_inference(question, question.workload, market)


def find_inference(question: Question, workload: InferenceWorkload, market: Market) -> Found:
    """Judge every serving plan; the best of each accelerator type becomes a finalist."""
    rejections = Rejections(market)
    constraints, economics, assumed = question.constraints, question.economics, question.assumptions
    machines = candidates(market, constraints, economics, assumed, rejections)
    plans = build_plans(
        workload.model, market, machines, constraints, rejections,
        phase="sample_inference" if workload.single_pass else "inference", personal=workload.personal,
    )  # fmt: skip
    judged = search(workload, plans, market, constraints, economics, assumed, rejections)
    if not len(judged):
        return Found((), (), rejections, len(plans), 0, ())
    merit = measures(workload, judged)
    best = best_per_accelerator(judged.accelerator, question.objective, merit, stable_key(judged))
    scores = score_of(question.objective, merit)[best]
    chosen = best[: question.limit]
    estimates = tuple(finalist(question, workload, judged.take(np.array([row])), market) for row in chosen.tolist())
    estimates = narrate.compared(estimates, question, len(best), market)
    changes = narrate.sensitivity(workload, judged, assumed, economics)
    return Found(estimates, tuple(float(s) for s in scores[: question.limit]), rejections, len(plans), len(best), changes)


def stable_key(judged: Judged) -> Column:
    """Orders plans that are equal in everything that matters: fewer devices, then catalogue order."""
    plans = judged.plans
    return judged.fleet.accelerators(plans) * 1e6 + plans.accelerators_per_replica * 1e3 + plans.stack


def finalist(question: Question, workload: InferenceWorkload, row: Judged, market: Market) -> Estimate:
    """A chosen plan judged again as the complete deployment that is echoed."""
    settings = Settings(
        max_batch=row.speed.slo_batch,
        max_batched_tokens=getattr(row.memory, "max_batched_tokens", None),
        memory_fraction=row.memory.memory_fraction,
        replicas=row.fleet.replicas,
        spare_replicas=row.fleet.spare_replicas,
    )
    return judge_deployment(question, workload, row.plans, market, settings)


def judge_deployment(
    question: Question, workload: InferenceWorkload, plans: Plans, market: Market, settings: Settings, extra: tuple[Reason, ...] = ()
) -> Estimate:  # fmt: skip
    """The estimate of the one plan in `plans` with these engine settings."""
    assumed = question.assumptions
    memory = measure_memory(workload, plans, market, assumed, settings)
    speed = measure_speed(workload, plans, memory, market, settings)
    judged = place(workload, plans, memory, speed, assumed, question.economics, settings)
    return serving_estimate(
        workload, judged, market, load_bytes_per_s=assumed.model_load_gb_per_s * 1e9, start_s=assumed.engine_start_s,
        trace=question.trace, extra=extra,
    )  # fmt: skip


def find_training(question: Question, workload: TrainingWorkload, market: Market) -> Found:
    """Judge every layout at the smallest size that fits and meets the deadline."""
    rejections = Rejections(market)
    constraints, economics, assumed = question.constraints, question.economics, question.assumptions
    rates = link_rates(market)
    machines = candidates(market, constraints, economics, assumed, rejections, pricing=run_pricing(constraints))
    layouts = build_training_plans(workload, market, machines, constraints, rejections)
    plans, run, fits, timely = smallest_run(workload, layouts, rates, market, assumed)
    rejections.reject(
        np.setdiff1d(layouts.accelerator, plans.accelerator), "no_layout",
        "No division of the global batch over {name} fills whole machines.",
    )  # fmt: skip
    rejections.lost(
        plans.accelerator, fits, code="out_of_memory",
        text="{name} needs {needed} GiB on each accelerator at its best layout; {available} may be used.",
        needed=run.memory.total_bytes / 2**30, available=run.memory.usable_bytes / 2**30, unit="gib",
    )  # fmt: skip
    plans, run, timely = plans.take(fits), run.take(fits), timely[fits]
    rejections.lost(
        plans.accelerator, timely, code="too_slow",
        text="{name} needs {needed} days at the largest size judged; {available} are allowed.",
        needed=run.wall_s / 86400, available=np.full(len(plans), workload.deadline_s / 86400), unit="days",
    )  # fmt: skip
    plans, run = plans.take(timely), run.take(timely)
    cost = deployment_cost(plans.c, run.nodes, np.where(run.nodes > 1, run.nodes, 0.0), assumed, economics)
    keep = within_limits(plans.accelerator, run.nodes * plans.c.m.count, cost, constraints, rejections)
    plans, run, cost = plans.take(keep), run.take(keep), cost.take(keep)
    if not len(plans):
        return Found((), (), rejections, len(layouts), 0, ())
    rate = workload.global_batch * workload.units_per_sequence / run.step.step_s
    usd = cost.usd_per_hour * run.wall_s / 3600
    merit = Measures(usd, run.wall_s, rate / run.devices, cost.power_w * run.wall_s / workload.units)
    tie = run.devices * 1e4 + plans.tensor_parallel * 100 + plans.micro_batch
    best = best_per_accelerator(plans.accelerator, question.objective, merit, tie)
    scores = score_of(question.objective, merit)[best]
    estimates = tuple(
        training_estimate(
            workload, plans.take(np.array([r])), run.take(np.array([r])), cost.take(np.array([r])), rates, market, assumed,
            fits=True, trace=question.trace,
        )
        for r in best[: question.limit].tolist()
    )  # fmt: skip
    changes = narrate.training_sensitivity(workload, plans.take(best[:1]), run.take(best[:1]), rates, market, assumed)
    return Found(
        narrate.compared(estimates, question, len(best), market), tuple(float(s) for s in scores[: question.limit]), rejections,
        len(layouts), len(best), changes,
    )  # fmt: skip


def run_pricing(constraints: Constraints) -> tuple[PricingModel, ...]:
    """Pricing models of a run where none are named: on demand, and owned where own machines are asked for."""
    own = constraints.max_purchase_usd is not None or constraints.environments == (Environment.ON_PREM,)
    return (*RUN_PRICING, PricingModel.OWNED) if own else RUN_PRICING


def what_would_give(question: Question, market: Market, nearest: str) -> list[Change]:
    """For an answer without a recommendation: which single limit, lifted, makes one possible."""
    limits = question.constraints
    relaxed: list[tuple[str, Question]] = []

    def without(label: str, **changes: object) -> None:
        relaxed.append((label, replace(question, constraints=replace(limits, **changes))))  # type: ignore[arg-type]

    if limits.max_accelerators is not None:
        without(f"lift max_accelerators ({limits.max_accelerators})", max_accelerators=None)
    if limits.max_usd_per_hour is not None:
        without(f"lift max_usd_per_hour ({limits.max_usd_per_hour:g})", max_usd_per_hour=None)
    if limits.max_purchase_usd is not None:
        without(f"lift max_purchase_usd ({limits.max_purchase_usd:,.0f})", max_purchase_usd=None)
    if limits.max_power_w is not None:
        without(f"lift max_power_kw ({limits.max_power_w / 1e3:g})", max_power_w=None)
    if limits.accelerators or limits.vendors:
        without("allow other accelerators", accelerators=(), vendors=())
        if limits.max_accelerators is not None:
            without("allow other accelerators and any number", accelerators=(), vendors=(), max_accelerators=None)
    if limits.weight_formats:
        without("allow other weight formats", weight_formats=())
    if limits.environments or limits.providers or limits.regions or limits.pricing_models:
        without("allow every environment, provider, region and pricing model", environments=(), providers=(), regions=(), pricing_models=())
    workload = question.workload
    if isinstance(workload, InferenceWorkload):
        slo = workload.slo
        doubled = replace(
            slo, ttft_s=slo.ttft_s and slo.ttft_s * 2, tpot_s=slo.tpot_s and slo.tpot_s * 2, e2e_s=slo.e2e_s and slo.e2e_s * 2
        )
        relaxed.append(("double every latency limit", replace(question, workload=replace(workload, slo=doubled))))
    else:
        relaxed.append(("double the deadline", replace(question, workload=replace(workload, deadline_s=2 * workload.deadline_s))))
    changes = [] if not nearest else [Change("none", f"nothing fits; the nearest miss: {nearest}")]
    for label, other in relaxed:
        estimates = find(replace(other, limit=1), market).estimates
        changes.append(Change(label, narrate.first_of(estimates)))
    return changes


def estimate(question: Question, deployment: Deployment, market: Market) -> Estimate:
    """Judge one deployment; what it leaves open is chosen as `recommend` would choose it.

    Raises Conflict for a deployment that contradicts itself or the catalogue.
    """
    for name in ("expert_parallel", "context_parallel"):
        if (getattr(deployment, name) or 1) > 1:
            raise Conflict(f"{name} above 1 is not modelled; leave it out or give 1.")
    constraints = Constraints(
        accelerators=(deployment.accelerator,),
        pricing_models=(deployment.pricing_model,) if deployment.pricing_model else (),
    )
    rejections = Rejections(market)
    machines = candidates(market, constraints, question.economics, question.assumptions, rejections, fixed=deployment)
    if not len(machines):
        named = deployment.system or deployment.provider or deployment.region or deployment.instance_type
        if named or deployment.pricing_model:
            raise Conflict(
                "The catalogue has no such listing: the system and offer named do not sell this accelerator together. "
                "Leave them out, or take both from GET /catalog/offers."
            )
        machines = unpriced(market, deployment)
    if isinstance(question.workload, TrainingWorkload):
        return estimate_training(question, question.workload, deployment, machines, market)
    return estimate_inference(question, question.workload, deployment, machines, market)


def unpriced(market: Market, deployment: Deployment) -> Candidates:
    """A machine of the accelerator's usual size where nobody in the catalogue sells one."""
    index = market.accelerator_index[deployment.accelerator]
    accelerator = market.accelerators[index]
    wanted = deployment.accelerators_per_replica or deployment.total_accelerators or 1
    count = float(max(accelerator.typical_node_size, 1 if wanted <= 1 else min(wanted, accelerator.typical_node_size)))
    link, rate, domain = link_of(accelerator, count=count, topology="")
    nan = column([None])
    machine = Machines(
        accelerator=np.array([index]), count=column([count]), memory_bytes=column([accelerator.memory_bytes]),
        link=np.array([LINKS.index(link)]), link_bytes_per_s=column([rate]), domain=column([domain]),
        network_bytes_per_s=nan, power_w=nan, on_prem=np.array([True]), workstation=np.array([False]),
    )  # fmt: skip
    power = count * ((accelerator.power_w or 350.0) + 150.0)
    return Candidates(
        machine=np.array([-1]), listing=np.array([-1]), m=machine, usd_per_hour=nan, purchase_usd=nan,
        draw_w=column([power * 0.75]), rated_w=column([power]), ram_bytes=nan,
    )  # fmt: skip


def estimate_inference(
    question: Question, workload: InferenceWorkload, deployment: Deployment, machines: Candidates, market: Market
) -> Estimate:
    """Choose what is open among the plans of this accelerator, then judge the complete deployment."""
    assumed, economics = question.assumptions, question.economics
    constraints = replace(question.constraints, accelerators=(deployment.accelerator,), kv_formats=())
    rejections = Rejections(market)
    plans = build_plans(
        workload.model, market, machines, constraints, rejections, fixed=deployment,
        phase="sample_inference" if workload.single_pass else "inference", personal=workload.personal,
    )  # fmt: skip
    if not len(plans):
        return narrate.impossible(deployment, workload.model, market, rejections)

    def fixed(value: float | None) -> Column | None:
        return None if value is None else np.full(len(plans), float(value))

    settings = Settings(
        max_batch=fixed(deployment.max_batch),
        max_batched_tokens=fixed(deployment.max_batched_tokens),
        memory_fraction=fixed(deployment.memory_fraction),
        replicas=replicas_asked(deployment, plans),
        spare_replicas=fixed(deployment.spare_replicas),
    )
    memory = measure_memory(workload, plans, market, assumed, settings)
    speed = measure_speed(workload, plans, memory, market, settings)
    judged = place(workload, plans, memory, speed, assumed, economics, settings)
    merit = measures(workload, judged)
    short = np.where(memory.fits, 0.0, memory.needed_bytes / memory.usable_bytes)
    usd = np.where(np.isnan(merit.usd), 0.0, merit.usd)
    row = np.lexsort((stable_key(judged), merit.latency_s, usd, short))[:1]
    chosen = judged.take(row)
    settings = Settings(
        max_batch=settings.max_batch[row] if settings.max_batch is not None else np.maximum(1.0, chosen.speed.slo_batch),
        max_batched_tokens=getattr(chosen.memory, "max_batched_tokens", None),
        memory_fraction=chosen.memory.memory_fraction,
        replicas=chosen.fleet.replicas,
        spare_replicas=chosen.fleet.spare_replicas,
    )
    return judge_deployment(question, workload, chosen.plans, market, settings)


def replicas_asked(deployment: Deployment, plans: Plans) -> Column | None:
    """Replicas the caller fixed: by their number, or by the accelerators or machines they fill."""
    if deployment.replicas is not None:
        return np.full(len(plans), float(deployment.replicas))
    spare = deployment.spare_replicas or 0
    total: Column | None = None
    if deployment.total_accelerators is not None:
        total = np.full(len(plans), float(deployment.total_accelerators))
    elif deployment.nodes is not None:
        total = deployment.nodes * plans.c.m.count
    return None if total is None else np.maximum(1.0, np.floor(total / plans.accelerators_per_replica) - spare)


def estimate_training(
    question: Question, workload: TrainingWorkload, deployment: Deployment, machines: Candidates, market: Market
) -> Estimate:
    """The layout asked for, or the fastest that fits the accelerators asked for."""
    assumed, rates = question.assumptions, link_rates(market)
    rejections = Rejections(market)
    layouts = build_training_plans(workload, market, machines, Constraints(), rejections, fixed=deployment)
    if not len(layouts):
        return narrate.impossible(deployment, workload.model, market, rejections)
    plans, run, fits, timely = training_runs(workload, layouts, deployment, market, assumed)
    if not len(plans):
        raise Conflict(
            "The layout cannot be laid out: tensor_parallel * pipeline_parallel * data_parallel must equal the accelerators, "
            "the data-parallel degree must divide the global batch into whole micro-batches, and several machines need a "
            "known network."
        )
    cost = deployment_cost(plans.c, run.nodes, np.where(run.nodes > 1, run.nodes, 0.0), assumed, question.economics)
    total = np.nan_to_num(cost.usd_per_hour, nan=0.0) * run.wall_s
    short = np.where(fits, 0.0, run.memory.total_bytes / run.memory.usable_bytes)
    key = total if deployment.total_accelerators is None and deployment.data_parallel is None else run.wall_s
    row = np.lexsort((total, key, ~timely, short))[:1]
    return training_estimate(
        workload, plans.take(row), run.take(row), cost.take(row), rates, market, assumed,
        fits=bool(fits[row][0]), trace=question.trace,
    )  # fmt: skip


def training_runs(
    workload: TrainingWorkload, layouts: TrainingPlans, deployment: Deployment, market: Market, assumed: Assumptions
) -> tuple[TrainingPlans, Run, Mask, Mask]:  # fmt: skip
    """Runs at the degree the caller fixed, or at the smallest that fits and is in time."""
    shape = layouts.tensor_parallel * layouts.pipeline_parallel
    wanted = deployment.data_parallel
    devices = deployment.accelerators_per_replica or deployment.total_accelerators
    if wanted is None and devices is None:
        return smallest_run(workload, layouts, link_rates(market), market, assumed)
    degree = np.full(len(layouts), float(wanted)) if wanted is not None else float(devices or 1) / shape
    each = workload.global_batch / (degree * layouts.micro_batch)
    whole = (degree >= 1) & (np.mod(degree, 1) == 0) & (np.mod(each, 1) == 0) & (each >= 1)
    size = shape * degree
    machine = layouts.c.m
    wired = ~np.isnan(machine.network_bytes_per_s) | (size <= machine.domain)
    joined = (size <= machine.count) | ((np.mod(size, machine.count) == 0) & wired)
    if not (whole & joined).any():
        joined = size >= 1
    keep = whole & joined
    plans, degree = layouts.take(keep), degree[keep]
    run = run_at(workload, plans, degree, link_rates(market), market, assumed)
    ram = np.where(np.isnan(plans.c.ram_bytes), np.inf, plans.c.ram_bytes)
    return plans, run, run.memory.fits & (run.memory.host_bytes <= 0.8 * ram), run.wall_s <= workload.deadline_s
