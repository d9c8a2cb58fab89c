"""Evaluates one deployment: chooses what it leaves open, then judges the complete deployment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import isfinite, log

import numpy as np

from app.errors import Conflict
from app.sizing.answer.decision_value import choose_verification
from app.sizing.answer.money import compare_hosted_api, with_carbon_reasons
from app.sizing.answer.serving import estimate_deployments
from app.sizing.answer.summary import (
    collect_assumptions,
    describe_deployment,
    describe_runner_up,
    impossible_estimate,
    near_tie_reason,
)
from app.sizing.answer.training import build_training_estimates
from app.sizing.answer.warnings import find_warnings
from app.sizing.assumptions import Assumptions
from app.sizing.classes import shared_fleet
from app.sizing.decisions.machines import (
    Candidates,
    apply_oversubscription,
    filter_by_size,
    find_machines,
    find_wider_machines,
    max_connected_accelerators,
    min_connected_accelerators,
)
from app.sizing.decisions.prices import quotes_of_other_quantities
from app.sizing.decisions.rejections import NullRejections, Rejections
from app.sizing.decisions.search import Search, Workload
from app.sizing.evidence import Setting, lower_is_better
from app.sizing.measured import MeasuredFigure, MeasuredStacks
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.packing import add_packing, add_separate_companions
from app.sizing.pools.estimate import estimate_pools
from app.sizing.question import (
    Constraints,
    Deployment,
    Objective,
    Question,
    find_within_longer_limits,
    list_with_fewer_hits,
)
from app.sizing.result import Estimate, MaximumThatFits, Ranked, Reason, RunnerUp
from app.sizing.serving.choice import ChosenPlan, choose_plan, fixed_deployment_plans
from app.sizing.serving.finalists import simulate_replicas, with_carrying_replicas
from app.sizing.serving.kinds import serving_backend
from app.sizing.serving.offload import with_host_weights
from app.sizing.serving.options import (
    check_context,
    check_experts,
    check_speculation,
    hardware_holds_replicas,
    requested_settings,
)
from app.sizing.serving.search import with_own_measurements
from app.sizing.snapshot import Catalog
from app.sizing.training.counts import Counts, counts_of
from app.sizing.training.finalists import assess_finalists as judge_runs
from app.sizing.training.given import (
    any_layout_fits,
    best_requested_run,
    find_maximum,
    requested_accelerators,
    with_quantity,
    without_unrequested_offload,
)
from app.sizing.training.layouts import check_layout
from app.sizing.training.plans import meets_deadline_at_confidence
from app.sizing.training.run import run_fits_at_confidence
from app.sizing.training.search import CostedRuns, comparison_score, training_layouts
from app.sizing.workload import InferenceWorkload, TrainingWorkload


def estimate_deployment(question: Question, deployment: Deployment, catalog: Catalog) -> Estimate:
    """Judge one deployment; fields that it leaves open are chosen as a recommendation would choose them.

    Raises Conflict for a deployment that contradicts itself or the catalog.
    """
    workload = effective_workload(question.workload, deployment)
    question = replace(question, workload=workload, assumptions=question.assumptions.with_recording())
    search, found = judge_within_limits(question, deployment, catalog)
    question, found = search.question, with_carbon_reasons(search.question, found)
    accelerator = catalog.accelerators[catalog.accelerator_index[found.deployment.accelerator]]
    names, hosts = catalog.names_in(found.deployment), catalog.other_hosts_in(found.deployment)
    ranked = (Ranked(rank=1, score=1.0, estimate=found, accelerator=accelerator, names=names, hosts=hosts),)
    return replace(
        found,
        summary=describe_deployment(question, ranked[0]),
        warnings=find_warnings(question, ranked),
        verification=choose_verification(question, ranked, catalog.host_counts),
        assumptions=collect_assumptions(question, deployment),
        hosted_api=compare_hosted_api(question, catalog, found),
        shared=shared_fleet(search, found),
    )


def judge_within_limits(
    question: Question, deployment: Deployment, catalog: Catalog
) -> tuple[Search[Workload], Estimate]:
    """Judge a deployment within the limits: longer ones, where the request leaves them open and no number of its
    replicas meets the usual ones.
    """

    def judge(asked: Question) -> tuple[Search[Workload], Estimate]:
        return judge_with_fewer_hits(Search.start(asked, catalog), deployment)

    usual = judge(question)
    relaxed = None
    if not is_within_reach(usual[1]):
        relaxed = find_within_longer_limits(question, judge, lambda other: is_within_reach(other[1]))
    return usual if relaxed is None else relaxed


def judge_with_fewer_hits(search: Search[Workload], deployment: Deployment) -> tuple[Search[Workload], Estimate]:
    """The deployment with every hit of its prefix cache, or with fewer where it then needs less hardware."""
    best = judge_for_quantity(search, judge_deployment(search, deployment), deployment)
    is_sized = deployment.replicas is None and not deployment.fixes_hardware
    for question in list_with_fewer_hits(search.question):
        needed, total = accelerators_needed(best[1]), best[1].deployment.total_accelerators or 0
        if is_sized or needed > total:
            other = search.ask(question)
            found = judge_for_quantity(other, judge_deployment(other, deployment), deployment)
            best = found if accelerators_needed(found[1]) < needed else best
    return best


def accelerators_needed(found: Estimate) -> float:
    """Accelerators that a deployment needs at the requested confidence; infinite where no number is enough."""
    sure = found.assurance
    asked = [level for level in sure.by_level if level.confidence == sure.asked] if sure is not None else []
    return min((level.total_accelerators or np.inf for level in asked), default=np.inf)


def judge_for_quantity(
    search: Search[Workload], found: Estimate, deployment: Deployment
) -> tuple[Search[Workload], Estimate]:
    """The deployment at a price for the number of its machines, where it does not name the price and there is one."""
    wrong = quotes_of_other_quantities((found,), search.catalog)
    if not wrong:
        return search, found
    limits = search.question.constraints
    limits = replace(limits, excluded_listings=(*limits.excluded_listings, *wrong))
    other_search = replace(search, question=replace(search.question, constraints=limits))
    try:
        other = judge_deployment(other_search, deployment)
    except Conflict:
        return search, found
    if other.cost is None or other.cost.price is None:
        return search, found
    return judge_for_quantity(other_search, other, deployment)


def is_within_reach(found: Estimate) -> bool:
    """Whether some number of replicas of a deployment meets the limits at the requested confidence, if it fits."""
    return not found.fits or found.assurance is None or isfinite(accelerators_needed(found))


def effective_workload(
    workload: InferenceWorkload | TrainingWorkload, deployment: Deployment
) -> InferenceWorkload | TrainingWorkload:
    """The workload that the engine sees: without a prefix cache, no prompt tokens are cached."""
    off = deployment.scheduler is not None and deployment.scheduler.prefix_cache is False
    if not off or not isinstance(workload, InferenceWorkload):
        return workload
    return replace(workload.without_session_hits or workload, uncounted_prefix_fraction=0.0).without_hits


def judge_deployment(search: Search[Workload], deployment: Deployment) -> Estimate:
    """Judge the deployment on machines with a firm current price, or on others where those do not hold it.

    Machines with a firm price also give way where they only hold the accelerators one by one, and others that connect
    them carry clearly more, or meet limits that no number of these does.
    """
    question, catalog = search.question, search.catalog
    if deployment.pools is not None:
        without_companions = replace(search, question=replace(question, companions=()))
        split = estimate_pools(without_companions, deployment, deployment.pools, judge_deployment)
        return add_separate_companions(search, split)
    check_consistency(deployment, training=isinstance(question.workload, TrainingWorkload))
    size = min_connected_accelerators(search, deployment)
    together = max(size, connectable_accelerators(search, deployment))
    firm = filter_by_size(find_machines(search, deployment), question, deployment)
    connected = max_connected_accelerators(firm)
    found = judge_on_machines(search, firm, deployment) if connected >= size else None
    within_reach = found is None or is_within_reach(found) or deployment.fixes_hardware or deployment.fixes_layout
    if not within_reach:
        usual = catalog.accelerators[catalog.accelerator_index[deployment.accelerator]].typical_node_size
        size, together = max(size, usual), max(together, usual)
    if found is not None and found.fits and connected >= together:
        return found
    wider = find_wider_machines(search, deployment, together, size)
    connects_more = max_connected_accelerators(wider) > connected
    if found is None:
        return judge_on_machines(search, wider if connects_more else firm, deployment)
    if np.array_equal(wider.listing, firm.listing) or (found.fits and not connects_more):
        return found
    other = judge_on_machines(search, wider, deployment)
    better = carries_more(other, found, question.assumptions) if found.fits else other.fits
    if not within_reach:
        better = other.fits and is_within_reach(other)
    return other if better else found


def connectable_accelerators(search: Search[Workload], deployment: Deployment) -> int:
    """Accelerators that a service may use together: the requested total, where one machine can hold that many."""
    total = deployment.total_accelerators or 1
    small = total <= search.question.assumptions.largest_host_accelerators and deployment.nodes is None
    return total if small and isinstance(search.workload, InferenceWorkload) else 1


def carries_more(estimate: Estimate, other: Estimate, assumed: Assumptions) -> bool:
    """Whether one deployment of a service fits and carries more requests than another by more than a near tie."""
    if estimate.performance is None or other.performance is None or not estimate.fits:
        return False
    capacity, least = estimate.performance.requests_per_s_capacity, other.performance.requests_per_s_capacity
    return (capacity or 0.0) > (least or 0.0) * (1 + assumed.near_tie_share)


def judge_on_machines(search: Search[Workload], machines: Candidates, deployment: Deployment) -> Estimate:
    """Judge the deployment on one of these machines."""
    if isinstance(search.workload, TrainingWorkload):
        return estimate_training(search.of(search.workload), deployment, machines)
    return estimate_inference(search.of(search.workload), deployment, machines)


def infeasible_estimate(
    deployment: Deployment, model: ModelArchitecture, catalog: Catalog, rejections: Rejections
) -> Estimate:
    """Estimate of a deployment without a supported combination or layout."""
    index = catalog.accelerator_index[deployment.accelerator]
    return impossible_estimate(deployment, model, catalog.accelerators[index], rejections.by_accelerator.get(index))


def check_consistency(d: Deployment, *, training: bool) -> None:
    """Reject fields that contradict each other or are not modeled; no given field is ignored."""
    if not training:
        check_ranks(d)
    size = d.accelerators_per_replica
    if size is not None and d.tensor_parallel is not None and d.pipeline_parallel is not None:
        shape = d.tensor_parallel * d.pipeline_parallel * (d.data_parallel or 1)
        # In serving, context parallelism shares the tensor-parallel ranks.
        shape *= (d.context_parallel or 1) if training else 1
        if shape != size:
            raise Conflict(
                f"The degrees of parallelism multiply to {shape} accelerators per replica, but "
                f"accelerators_per_replica is {size}. Omit one of them."
            )
    least = size or (d.tensor_parallel or 1) * (d.pipeline_parallel or 1) * (d.data_parallel or 1)
    if not training and d.total_accelerators is not None and least > d.total_accelerators:
        raise Conflict(f"One replica needs {least} accelerators, but total_accelerators is {d.total_accelerators}.")
    if size is not None and d.replicas is not None and d.total_accelerators is not None:
        used = size * (d.replicas + (d.spare_replicas or 0))
        if used > d.total_accelerators:
            raise Conflict(
                f"The replicas and spares need {used} accelerators, but total_accelerators is {d.total_accelerators}."
            )


def check_ranks(d: Deployment) -> None:
    """Reject parallel degrees of a serving layout over which experts cannot be placed."""
    experts, data = d.expert_parallel or 1, d.data_parallel or 1
    if data == 1 and (d.tensor_parallel or d.accelerators_per_replica or experts) % experts:
        raise Conflict(
            "expert_parallel must divide tensor_parallel, because the ranks that share a layer hold whole experts. "
            "With data_parallel above 1, all ranks of a stage share the experts."
        )
    if data > 1 and d.expert_parallel is not None and experts != (d.tensor_parallel or experts // data) * data:
        raise Conflict(
            "With data_parallel above 1, all ranks of a stage share the experts. Set expert_parallel to "
            "tensor_parallel × data_parallel, or omit it."
        )


def estimate_inference(search: Search[InferenceWorkload], deployment: Deployment, machines: Candidates) -> Estimate:
    """Choose the open fields among the plans of this accelerator, then judge the complete deployment."""
    check_experts(deployment, search.workload)
    check_context(deployment, search.workload)
    constraints = replace(search.question.constraints, accelerators=(deployment.accelerator,), kv_formats=())
    rejections = Rejections(search.catalog.accelerators)
    plans = fixed_deployment_plans(
        search.workload.model,
        search.catalog,
        machines,
        constraints,
        rejections,
        deployment,
        search.question.assumptions,
        phase=serving_backend(search.workload).phase,
        personal=search.workload.is_personal,
        prompt_tokens=search.workload.uncached_prompt_tokens,
    )
    if not len(plans):
        return infeasible_estimate(deployment, search.workload.model, search.catalog, rejections)
    plans = with_own_measurements(search.workload, search.catalog, plans, deployment.engine_version)
    holds = hardware_holds_replicas(deployment, plans)
    if not holds.any():
        raise Conflict(
            "The replicas and spares do not fit into the given nodes or total_accelerators. Increase these, reduce "
            "the replicas, or omit them."
        )
    plans = with_host_weights(search, plans.take(holds), deployment)
    check_speculation(deployment.speculative, search.workload)
    choice = choose_plan(search, plans, deployment)
    settings = choice.settings
    runs = choice.simulated or simulate_replicas(search, choice.plan, settings, deployment)
    if runs is not None:
        requested = requested_settings(deployment, choice.plan, search.workload.redundancy)
        settings = with_carrying_replicas(search.question, search.workload, choice.plan, settings, requested, runs)
    (found,) = estimate_deployments(search, choice.plan, settings, simulated_replicas=runs)
    found = add_packing(search, found, choice.plan)
    scheduler = found.deployment.scheduler
    echoed = replace(
        found.deployment,
        engine_version=deployment.engine_version,
        skip_mm_profiling=deployment.skip_mm_profiling,
        scheduler=scheduler and scheduler.with_settings(deployment.scheduler),
        expert_parallel=deployment.expert_parallel or found.deployment.expert_parallel,
    )
    reasons = choice_reasons(search.question, deployment, choice, echoed)
    return replace(found, deployment=echoed, explanation=(*found.explanation, *reasons))


def choice_reasons(
    question: Question, requested: Deployment, choice: ChosenPlan, chosen_deployment: Deployment
) -> tuple[Reason, ...]:
    """Remarks on the choice: another engine that is almost as good, and accelerators that stay unused."""
    reasons: tuple[Reason, ...] = ()
    if requested.engine is None and choice.runner_up is not None:
        reasons = near_tie_reason(
            [describe_runner_up(choice.runner_up)],
            Objective.THROUGHPUT if requested.fixes_hardware else question.objective,
        )
    unused = (requested.total_accelerators or 0) - (chosen_deployment.total_accelerators or 0)
    if unused > 0:
        text = (
            f"{unused:,} of {requested.total_accelerators:,} requested accelerators are unused: "
            "adding them does not increase capacity."
        )
        reasons = (*reasons, Reason("accelerators_left", text, "accelerators_left", float(unused), "accelerators"))
    return reasons


def estimate_training(search: Search[TrainingWorkload], deployment: Deployment, machines: Candidates) -> Estimate:
    """Judge the requested layout, or the best on the requested accelerators, at the maximum where one is requested."""
    workload = search.workload
    check_layout(workload, deployment)
    assumed, rejections = search.question.assumptions, Rejections(search.catalog.accelerators)
    machines = apply_oversubscription(machines, assumed)
    maximum: MaximumThatFits | None = None
    if search.question.maximize is not None:
        sought = (search.question.maximize, search.question.constraints, assumed)
        workload, deployment, maximum = maximize_quantity(*sought, workload, deployment, machines, search.catalog)
    counts = counts_of(workload)
    layouts = training_layouts(
        workload, search.catalog, machines, search.question.constraints, rejections, assumed, fixed=deployment
    )
    layouts = without_unrequested_offload(layouts, deployment)
    if not len(layouts):
        return infeasible_estimate(deployment, workload.model, search.catalog, rejections)
    runs = best_requested_run(workload, counts, layouts, deployment, search.question)
    if runs is None:
        raise layout_conflict(deployment)
    best = runs.take(np.zeros(1, dtype=np.int64))
    judged = judge_runs(counts, best.plans, best.run, workload.deadline_s, search.question, layouts)
    (found,) = build_training_estimates(search.of(workload), judged)
    if deployment.framework is None:
        runner_up = runner_up_framework(search.of(workload), counts, runs)
        reasons = (
            () if runner_up is None else near_tie_reason([describe_runner_up(runner_up)], search.question.objective)
        )
        found = replace(found, explanation=(*found.explanation, *reasons))
    found = replace(found, deployment=replace(found.deployment, framework_version=deployment.framework_version))
    return replace(found, scaling=judged.scaling, maximum=maximum)


def runner_up_framework(search: Search[TrainingWorkload], counts: Counts, runs: CostedRuns) -> RunnerUp | None:
    """The best framework that was not chosen, where it is feasible and almost as good."""
    plans, compared = runs.plans, comparison_score(counts, runs, search.question)
    able = run_fits_at_confidence(plans, runs.run, search.question.assumptions)
    able &= meets_deadline_at_confidence(plans.stack.margins, runs.run.wall_s, search.workload.deadline_s)
    others = np.flatnonzero(able & (plans.framework != plans.framework[0]))
    if not able[0] or not len(others):
        return None
    best = others[np.argmin(compared[others])]
    worse = max(0.0, float(compared[best] / compared[0] - 1))
    if worse > search.question.assumptions.near_tie_share:
        return None
    return RunnerUp(search.catalog.engines[plans.framework[best]], None, worse)


def layout_conflict(d: Deployment) -> Conflict:
    """Error for a deployment that no run can use: its parallel degrees, or else its number of accelerators."""
    degrees = d.tensor_parallel, d.pipeline_parallel, d.context_parallel, d.data_parallel, d.expert_parallel
    if any(degree is not None for degree in degrees):
        return Conflict(
            "The layout is not possible: tensor_parallel × pipeline_parallel × context_parallel × data_parallel "
            "must equal the number of accelerators, and expert_parallel must divide the ranks of a stage."
        )
    return Conflict(
        f"No allowed framework can split this run over that number of {d.accelerator} accelerators. Change the number "
        "of accelerators, the framework or the precision."
    )


def maximize_quantity(
    quantity: str,
    constraints: Constraints,
    assumed: Assumptions,
    workload: TrainingWorkload,
    deployment: Deployment,
    machines: Candidates,
    catalog: Catalog,
) -> tuple[TrainingWorkload, Deployment, MaximumThatFits]:
    """The question at the largest value of a quantity that fits.

    It must fit the requested accelerators, or one machine, at the requested confidence.
    """
    size = requested_accelerators(deployment) or deployment.data_parallel or int(machines.node.accelerators_per_node[0])
    if deployment.data_parallel is None:
        deployment = replace(deployment, accelerators_per_replica=size)

    def fitting_layout(w: TrainingWorkload, d: Deployment) -> bool:
        layouts = training_layouts(
            w, catalog, machines, constraints, NullRejections(catalog.accelerators), assumed, fixed=d
        )
        return any_layout_fits(counts_of(w), without_unrequested_offload(layouts, d), d, assumed)

    maximum = find_maximum(quantity, workload, deployment, size, fitting_layout)
    return *with_quantity(workload, deployment, maximum.quantity, maximum.value, size), maximum


ELASTICITY_STEP = 1.1  # factor on times to see how a prediction follows it
LEAST_ELASTICITY = 0.05  # below it, a figure says nothing about times
MOST_ELASTICITY = 3.0  # near saturation, waits depend on times more steeply than any measurement is exact


def predict_figures(
    question: Question, deployment: Deployment, catalog: Catalog, measured: Mapping[str, float], statistic: str
) -> tuple[Setting, tuple[MeasuredFigure, ...]]:
    """Setting of a measured deployment, and each measured figure with its prediction and how that follows times.

    Parameters:
        catalog: the catalog without measurements.
        measured: measured values, by the name of their quantity.
        statistic: which latency was measured, "mean" or "p50".

    Raises Conflict for a deployment that is not predicted to run.
    """

    def predict(**factors: float) -> tuple[Estimate, dict[str, float]]:
        followed = catalog if not factors else catalog.with_measurements(MeasuredStacks((), **factors))
        found = estimate_deployment(question, deployment, followed)
        return found, comparable_figures(found, statistic)

    found, expected = predict()
    if found.setting is None or not expected:
        reason = found.explanation[0].text if found.explanation else found.rule
        raise Conflict(f"This deployment is not predicted to run, so its measurement cannot be compared. {reason}")
    serves = isinstance(question.workload, InferenceWorkload)
    slower = predict(step_time=ELASTICITY_STEP)[1]
    slower_prompts = predict(prefill_time=ELASTICITY_STEP)[1] if serves else expected
    figures = tuple(
        MeasuredFigure(
            name,
            value,
            expected[name],
            elasticity(name, expected[name], slower[name]),
            elasticity(name, expected[name], slower_prompts[name]),
        )
        for name, value in sorted(measured.items())
        if name in expected and name in slower and name in slower_prompts
    )
    return found.setting, tuple(f for f in figures if f.step_elasticity >= LEAST_ELASTICITY)


def comparable_figures(found: Estimate, statistic: str) -> dict[str, float]:
    """Predicted quantities that a measurement can be compared with, by name; only those that are known."""
    p = found.performance
    if p is None:
        return {}
    values = {
        "output_tokens_per_s": p.output_tokens_per_s,
        "ttft_s": None if p.ttft is None else getattr(p.ttft, f"{statistic}_s"),
        "tpot_s": None if p.tpot is None else getattr(p.tpot, f"{statistic}_s"),
        "tokens_per_s": p.tokens_per_s,
    }
    return {name: value for name, value in values.items() if value is not None and value > 0 and isfinite(value)}


def elasticity(name: str, before: float, after: float) -> float:
    """Change of the logarithm of a time, or of the inverse of a rate, per change of a factor on times."""
    slower = after / before if lower_is_better(name) else before / after
    return min(max(log(slower) / log(ELASTICITY_STEP), 0.0), MOST_ELASTICITY)
