"""What one deployment would do: what it leaves open is chosen, then it is judged as a whole."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from app.errors import Conflict
from app.sizing import narrate
from app.sizing.assumptions import Assumptions
from app.sizing.candidates import Candidates, candidates, machine_power_w
from app.sizing.columns import Column, column
from app.sizing.explain import serving_estimate
from app.sizing.inference import Judged, Settings, measure_memory, measure_speed, measures, place
from app.sizing.market import LINKS, Machines, Market, link_of
from app.sizing.model import ModelArchitecture
from app.sizing.plan import Plans, build_plans
from app.sizing.rejections import Rejections
from app.sizing.result import Estimate
from app.sizing.training_estimate import estimate_training
from app.sizing.workload import Constraints, Deployment, Drafting, InferenceWorkload, Load, Question, TrainingWorkload

# Accelerators one host can carry where no listing says otherwise.
LARGEST_HOST = 16


def estimate(question: Question, deployment: Deployment, market: Market) -> Estimate:
    """Judge one deployment; what it leaves open is chosen as `recommend` would choose it.

    Raises Conflict for a deployment that contradicts itself or the catalogue.
    """
    check_consistency(deployment, training=isinstance(question.workload, TrainingWorkload))
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
        machines = unpriced(market, deployment, question.assumptions)
    if isinstance(question.workload, TrainingWorkload):
        return estimate_training(question, question.workload, deployment, machines, market)
    return estimate_inference(question, question.workload, deployment, machines, market)


def check_consistency(d: Deployment, *, training: bool) -> None:
    """Refuse what is not modelled and numbers that contradict one another; nothing given is ignored."""
    experts = d.expert_parallel or 1
    if not training and (d.tensor_parallel or d.accelerators_per_replica or experts) % experts:
        raise Conflict("expert_parallel must divide the tensor-parallel degree: whole experts lie on the ranks that share each layer.")
    if not training and (d.context_parallel or 1) > 1:
        raise Conflict("context_parallel above 1 is not modelled for serving; leave it out or give 1.")
    size = d.accelerators_per_replica
    if size is not None and d.tensor_parallel is not None and d.pipeline_parallel is not None:
        shape = d.tensor_parallel * d.pipeline_parallel * (d.context_parallel or 1) * (d.data_parallel or 1)
        if shape != size:
            raise Conflict(f"The degrees of parallelism make {shape} accelerators per replica, but {size} were given; leave one out.")
    if size is not None and d.replicas is not None and d.total_accelerators is not None:
        used = size * (d.replicas + (d.spare_replicas or 0))
        if used > d.total_accelerators:
            raise Conflict(f"The replicas and spares take {used} accelerators; total_accelerators is {d.total_accelerators}.")


def unpriced(market: Market, deployment: Deployment, assumed: Assumptions) -> Candidates:
    """A machine of the accelerator's usual size where nobody in the catalogue sells one."""
    index = market.accelerator_index[deployment.accelerator]
    accelerator = market.accelerators[index]
    wanted = deployment.accelerators_per_replica or deployment.total_accelerators or 1
    count = float(wanted if accelerator.typical_node_size < wanted <= LARGEST_HOST else accelerator.typical_node_size)
    link, rate, domain = link_of(accelerator, count=count, topology="")
    nan = column([None])
    machine = Machines(
        accelerator=np.array([index]), count=column([count]), memory_bytes=column([accelerator.memory_bytes]),
        link=np.array([LINKS.index(link)]), link_bytes_per_s=column([rate]), domain=column([domain]),
        network_bytes_per_s=nan, power_w=nan, on_prem=np.array([True]), workstation=np.array([False]),
    )  # fmt: skip
    rated = machine_power_w(market, machine, assumed)
    return Candidates(
        machine=np.array([-1]), listing=np.array([-1]), m=machine, usd_per_hour=nan, purchase_usd=nan,
        draw_w=rated * assumed.load_power_fraction, rated_w=rated, ram_bytes=nan,
    )  # fmt: skip


def fixed_plans(
    model: ModelArchitecture, market: Market, machines: Candidates, constraints: Constraints, rejections: Rejections,
    deployment: Deployment, assumed: Assumptions, *, phase: str, personal: bool,
) -> Plans:  # fmt: skip
    """Plans of a fixed deployment: in machines on sale, or in a host of its own where its layout is larger than any of them."""
    plans = build_plans(model, market, machines, constraints, rejections, phase=phase, personal=personal, fixed=deployment)
    if len(plans) or deployment.system or deployment.provider or deployment.pricing_model:
        return plans
    host = unpriced(market, deployment, assumed)
    return build_plans(model, market, host, constraints, Rejections(market), phase=phase, personal=personal, fixed=deployment)


def estimate_inference(
    question: Question, workload: InferenceWorkload, deployment: Deployment, machines: Candidates, market: Market
) -> Estimate:
    """Choose what is open among the plans of this accelerator, then judge the complete deployment."""
    assumed, economics = question.assumptions, question.economics
    constraints = replace(question.constraints, accelerators=(deployment.accelerator,), kv_formats=())
    rejections = Rejections(market)
    phase = "sample_inference" if workload.single_pass else "inference"
    plans = fixed_plans(
        workload.model, market, machines, constraints, rejections, deployment, assumed, phase=phase, personal=workload.personal
    )
    if not len(plans):
        return narrate.impossible(deployment, workload.model, market, rejections)
    check_speculation(deployment, workload)

    def fixed(value: float | None) -> Column | None:
        return None if value is None else np.full(len(plans), float(value))

    settings = Settings(
        max_batch=fixed(deployment.max_batch),
        max_batched_tokens=fixed(deployment.max_batched_tokens),
        memory_fraction=fixed(deployment.memory_fraction),
        replicas=replicas_asked(deployment, plans),
        spare_replicas=fixed(deployment.spare_replicas),
        engine_version=deployment.engine_version,
        speculative=deployment.speculative,
    )
    memory = measure_memory(workload, plans, market, assumed, settings)
    speed = measure_speed(workload, plans, memory, settings)
    judged = place(workload, plans, memory, speed, assumed, economics, settings)
    merit = measures(workload, judged)
    short = np.where(memory.fits, 0.0, memory.needed_bytes / memory.usable_bytes)
    usd = np.where(np.isnan(merit.usd), 0.0, merit.usd)
    row = np.lexsort((stable_key(judged), merit.latency_s, usd, short))[:1]
    chosen = judged.take(row)
    settings = Settings(
        max_batch=settings.max_batch[row] if settings.max_batch is not None else np.maximum(1.0, batch_of(workload, chosen)),
        max_batched_tokens=getattr(chosen.memory, "max_batched_tokens", None),
        memory_fraction=chosen.memory.memory_fraction,
        replicas=chosen.fleet.replicas,
        spare_replicas=chosen.fleet.spare_replicas,
        engine_version=deployment.engine_version,
        speculative=deployment.speculative,
    )
    found = judge_deployment(question, workload, chosen.plans, market, settings)
    return replace(found, deployment=replace(found.deployment, expert_parallel=deployment.expert_parallel or 1))


def batch_of(workload: InferenceWorkload, judged: Judged) -> Column:
    """Most sequences at once where the caller fixed none: what meets the limits at a request rate, else all that run."""
    return judged.speed.slo_batch if workload.load is Load.OPEN else judged.speed.max_batch


def check_speculation(d: Deployment, workload: InferenceWorkload) -> None:
    """Refuse drafting that the model or the workload has no use for."""
    if d.speculative is None:
        return
    if workload.single_pass:
        raise Conflict("speculative decoding goes with models that generate tokens.")
    if d.speculative.method is Drafting.MTP and not workload.model.mtp_params:
        raise Conflict(f"{workload.model.name} has no multi-token prediction layer; use draft_model, eagle or ngram.")


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


def judge_deployment(
    question: Question, workload: InferenceWorkload, plans: Plans, market: Market, settings: Settings
) -> Estimate:  # fmt: skip
    """The estimate of the one plan in `plans` with these engine settings."""
    assumed = question.assumptions
    memory = measure_memory(workload, plans, market, assumed, settings)
    speed = measure_speed(workload, plans, memory, settings)
    judged = place(workload, plans, memory, speed, assumed, question.economics, settings)
    return serving_estimate(
        workload, judged, market, settings, load_bytes_per_s=assumed.model_load_gb_per_s * 1e9, start_s=assumed.engine_start_s,
        trace=question.trace,
    )  # fmt: skip


def stable_key(judged: Judged) -> Column:
    """Orders plans that are equal in everything that matters: fewer devices, then catalogue order."""
    plans = judged.plans
    return judged.fleet.accelerators(plans) * 1e6 + plans.accelerators_per_replica * 1e3 + plans.stack
