"""What one deployment would do: what it leaves open is chosen, then it is judged as a whole."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from app.errors import Conflict
from app.sizing.answer.assumed import assumptions
from app.sizing.answer.described import described
from app.sizing.answer.serving import judge_deployments
from app.sizing.answer.summary import impossible
from app.sizing.answer.training import training_estimates
from app.sizing.answer.verification import verification
from app.sizing.answer.warnings import warnings
from app.sizing.assumptions import Assumptions
from app.sizing.decisions.machines import Candidates, candidates, oversubscribed, unpriced
from app.sizing.decisions.rejections import Rejections, Unread
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.question import Constraints, Deployment, Question
from app.sizing.result import Estimate, Maximum, Ranked
from app.sizing.serving.asked import check_speculation, holding, sequences_of, settings_asked
from app.sizing.serving.kinds import able, kind_of
from app.sizing.serving.margins import Margins
from app.sizing.serving.measured import Memory, Settings, Speed
from app.sizing.serving.options import measures, stable_key
from app.sizing.serving.plans import Plans
from app.sizing.serving.search import complete, fixed_plans, margins_asked, options_of, replicas_of
from app.sizing.snapshot import Snapshot
from app.sizing.training.counts import counts_of
from app.sizing.training.finalists import judge as judge_runs
from app.sizing.training.layouts import check_layout
from app.sizing.training.maximum import largest, with_value
from app.sizing.training.scaling import alike, curve_of
from app.sizing.training.search import any_fits, chosen_run, layouts_for, size_asked
from app.sizing.workload import InferenceWorkload, TrainingWorkload


def estimate(question: Question, deployment: Deployment, market: Snapshot) -> Estimate:
    """Judge one deployment; what it leaves open is chosen as `recommend` would choose it.

    Raises Conflict for a deployment that contradicts itself or the catalogue.
    """
    question = replace(question, assumptions=question.assumptions.noted())
    found = judge_deployment(question, deployment, market)
    accelerator = market.accelerators[market.accelerator_index[found.deployment.accelerator]]
    alone = (Ranked(rank=1, score=1.0, estimate=found, accelerator=accelerator),)
    return replace(
        found,
        summary=described(question, alone[0]),
        warnings=warnings(question, alone, market.prices_as_of),
        verification=verification(question, alone),
        assumptions=assumptions(question, deployment),
    )


def judge_deployment(question: Question, deployment: Deployment, market: Snapshot) -> Estimate:
    """The deployment on the machines that are sold or can be owned with it."""
    check_consistency(deployment, training=isinstance(question.workload, TrainingWorkload))
    constraints = Constraints(
        accelerators=(deployment.accelerator,),
        pricing_models=(deployment.pricing_model,) if deployment.pricing_model else (),
    )
    unread, workload = Unread(market.accelerators), question.workload
    zones = workload.redundancy.zones if isinstance(workload, InferenceWorkload) else 1
    sought = (market, constraints, question.economics, question.assumptions, unread)
    machines = candidates(*sought, fixed=deployment, zones=zones)
    if not len(machines):
        named = deployment.system or deployment.provider or deployment.region or deployment.instance_type
        if named or deployment.pricing_model:
            raise Conflict(
                "The catalogue has no such listing: the system and offer named do not sell this accelerator together. "
                "Leave them out, or take both from GET /catalog/offers."
                + (" Several zones take rented machines of named regions only." if zones > 1 else "")
            )
        machines = unpriced(market, deployment, question.assumptions)
    if isinstance(question.workload, TrainingWorkload):
        return estimate_training(question, question.workload, deployment, machines, market)
    return estimate_inference(question, question.workload, deployment, machines, market)


def refused(deployment: Deployment, model: ModelArchitecture, market: Snapshot, rejections: Rejections) -> Estimate:
    """What was never made to run together, or has no layout."""
    index = market.accelerator_index[deployment.accelerator]
    return impossible(deployment, model, market.accelerators[index], rejections.by_accelerator.get(index))


def check_consistency(d: Deployment, *, training: bool) -> None:
    """Refuse what is not modelled and numbers that contradict one another; nothing given is ignored."""
    experts = d.expert_parallel or 1
    if not training and (d.tensor_parallel or d.accelerators_per_replica or experts) % experts:
        raise Conflict(
            "expert_parallel must divide the tensor-parallel degree: whole experts lie on the ranks that share each "
            "layer."
        )
    if not training and (d.context_parallel or 1) > 1:
        raise Conflict("context_parallel above 1 is not modelled for serving; leave it out or give 1.")
    size = d.accelerators_per_replica
    if size is not None and d.tensor_parallel is not None and d.pipeline_parallel is not None:
        shape = d.tensor_parallel * d.pipeline_parallel * (d.context_parallel or 1) * (d.data_parallel or 1)
        if shape != size:
            raise Conflict(
                f"The degrees of parallelism make {shape} accelerators per replica, but {size} were given; "
                "leave one out."
            )
    if size is not None and d.replicas is not None and d.total_accelerators is not None:
        used = size * (d.replicas + (d.spare_replicas or 0))
        if used > d.total_accelerators:
            raise Conflict(
                f"The replicas and spares take {used} accelerators; total_accelerators is {d.total_accelerators}."
            )


def estimate_inference(
    question: Question, workload: InferenceWorkload, deployment: Deployment, machines: Candidates, market: Snapshot
) -> Estimate:
    """Choose what is open among the plans of this accelerator, then judge the complete deployment."""
    constraints = replace(question.constraints, accelerators=(deployment.accelerator,), kv_formats=())
    rejections = Rejections(market.accelerators)
    plans = fixed_plans(
        workload.model,
        market,
        machines,
        constraints,
        rejections,
        deployment,
        question.assumptions,
        phase=kind_of(workload).phase,
        personal=workload.personal,
    )
    if not len(plans):
        return refused(deployment, workload.model, market, rejections)
    held = holding(deployment, plans)
    if not held.any():
        raise Conflict(
            f"The replicas and spares do not fit into nodes {deployment.nodes}: give more nodes or fewer replicas, or "
            "leave nodes out."
        )
    plans = plans.take(held)
    check_speculation(deployment, workload)
    plan, settings = chosen_plan(question, workload, plans, deployment, market)
    (found,) = judge_deployments(question, workload, plan, market, settings, deployment)
    echoed = replace(
        found.deployment,
        engine_version=deployment.engine_version,
        speculative=deployment.speculative,
        expert_parallel=deployment.expert_parallel or 1,
    )
    return replace(found, deployment=echoed)


def chosen_plan(
    question: Question, workload: InferenceWorkload, plans: Plans, deployment: Deployment, market: Snapshot
) -> tuple[Plans, Settings]:
    """The plan least short of memory and limits, then the cheapest, the quickest and the smallest, with its settings.

    Sized for the confidence asked for, and where a plan does not hold with it, as predicted.
    """
    kind, assumed = kind_of(workload), question.assumptions
    asked = settings_asked(deployment, plans, workload.redundancy)

    def found(by: Margins) -> tuple[Memory, Speed]:
        memory = kind.memory(workload, plans, assumed, asked, by)
        alone = kind.alone(workload, plans, memory, assumed, deployment.speculative, by)
        return memory, kind.speed(workload, memory, alone, assumed)

    margins = margins_asked(question, workload, plans, market)
    memory, speed = found(margins)
    held = able(workload, memory, speed)
    if not held.all():
        margins = margins.only(held)
        memory, speed = found(margins)
    replicas = replicas_of(question, workload, plans, speed.capacity_per_s, speed.slo_batch, asked)
    most = asked.max_sequences
    if most is None:
        most = sequences_of(workload, memory, speed)
    settings = replace(complete(memory, speed, replicas, asked), max_sequences=most)
    if len(plans) == 1:
        return plans, settings
    operation = kind.operate(workload, memory, speed, replicas)
    options = options_of(
        question,
        workload,
        plans,
        settings,
        slo_batch=speed.slo_batch,
        capacity_per_s=speed.capacity_per_s,
        rate_per_s=operation.rate_per_s / margins.rate,
        e2e_p50_s=kind.latency_s(operation, margins),
    )
    merit = measures(workload, options)
    short = np.where(held, 0.0, np.maximum(1.0, memory.needed_bytes / memory.usable_bytes))
    usd = np.where(np.isnan(merit.usd), 0.0, merit.usd)
    row = np.lexsort((stable_key(options), merit.latency_s, usd, short))[:1]
    return plans.take(row), settings.take(row)


def estimate_training(
    question: Question, workload: TrainingWorkload, deployment: Deployment, machines: Candidates, market: Snapshot
) -> Estimate:
    """The layout asked for, or the fastest that fits the accelerators asked for, at the maximum where one is wanted."""
    check_layout(workload, deployment)
    assumed, economics, rejections = question.assumptions, question.economics, Rejections(market.accelerators)
    machines = oversubscribed(machines, assumed)
    maximum: Maximum | None = None
    if question.maximize is not None:
        sought = (question.maximize, question.constraints, assumed)
        workload, deployment, maximum = at_maximum(*sought, workload, deployment, machines, market)
    counts = counts_of(workload)
    layouts = layouts_for(workload, market, machines, question.constraints, rejections, assumed, fixed=deployment)
    if not len(layouts):
        return refused(deployment, workload.model, market, rejections)
    chosen = chosen_run(workload, counts, layouts, deployment, assumed, economics)
    if chosen is None:
        raise Conflict(
            "The layout cannot be laid out: tensor_parallel * pipeline_parallel * context_parallel * data_parallel "
            "must equal the accelerators, expert_parallel must divide the ranks that share a stage, the data-parallel "
            "degree must divide the global batch into whole micro-batches, and several machines are filled whole."
        )
    plans, run = chosen
    judged = judge_runs(counts, plans, run, workload.deadline_s, assumed, economics, trace=question.trace)
    (found,) = training_estimates(workload, judged, market, question.assumptions)
    curve = curve_of(counts, alike(layouts, plans), assumed, economics)
    return replace(found, scaling=curve, maximum=maximum)


def at_maximum(
    quantity: str,
    constraints: Constraints,
    assumed: Assumptions,
    workload: TrainingWorkload,
    deployment: Deployment,
    machines: Candidates,
    market: Snapshot,
) -> tuple[TrainingWorkload, Deployment, Maximum]:
    """The question at the largest value of a quantity that fits the accelerators asked for, or one machine, with the
    confidence asked.
    """
    size = size_asked(deployment) or deployment.data_parallel or int(machines.node.accelerators_per_node[0])
    if deployment.data_parallel is None:
        deployment = replace(deployment, accelerators_per_replica=size)

    def fitting_layout(w: TrainingWorkload, d: Deployment) -> bool:
        layouts = layouts_for(w, market, machines, constraints, Unread(market.accelerators), assumed, fixed=d)
        return any_fits(w, counts_of(w), layouts, d, assumed)

    maximum = largest(quantity, workload, deployment, size, fitting_layout)
    return *with_value(workload, deployment, maximum.quantity, maximum.value, size), maximum
