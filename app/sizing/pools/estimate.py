"""Estimates a deployment with two pools: each pool is sized as a service of its own, then both are combined.

The prefill pool reads a prompt and sends its KV cache to the decode pool, which admits the request when it has room.
The last prefill step produces the first token. The client receives it when the decode pool continues from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from app.sizing.decisions.search import Search, Workload
from app.sizing.hardware.engines import ENGINES, engine_named
from app.sizing.hardware.engines.record import Policy, SchedulerSettings
from app.sizing.pools.joined import PoolEstimates, combine_estimates, failed_estimate
from app.sizing.pools.loads import (
    balance_pools,
    finite_rate_per_s,
    finite_run,
    first_wave,
    with_first_wave,
    with_volume,
)
from app.sizing.pools.parts import (
    check_pools,
    decode_reserve_s,
    decode_workload,
    deployment_plan,
    estimate_transfer,
    prefill_workload,
    ttft_at_limit_s,
    with_client_ttft,
)
from app.sizing.question import Deployment, Pools
from app.sizing.result import Estimate, Transfer
from app.sizing.snapshot import Catalog
from app.sizing.workload import InferenceWorkload, Load

Judge = Callable[[Search[Workload], Deployment], Estimate]
DISAGGREGATING_ENGINES = tuple(name for name, engine in ENGINES.items() if engine.splits_pools)
MIXED_SCHEDULER = SchedulerSettings(
    policy=Policy.MIXED
)  # for the decode pool: transferred prompts need no prefill step


def estimate_pools(search: Search[Workload], deployment: Deployment, pools: Pools, judge: Judge) -> Estimate:
    """Estimate of both pools and the transfer between them; `judge` estimates one deployment.

    Raises Conflict for pools that contradict one another or the rest of the deployment.
    """
    workload = check_pools(search.question, deployment, pools, DISAGGREGATING_ENGINES)

    def estimate_pool(part: InferenceWorkload, pool: Deployment) -> Estimate:
        allowed = replace(search.question.constraints, engines=DISAGGREGATING_ENGINES)
        return judge(search.ask(replace(search.question, workload=part, constraints=allowed)), pool)

    later = search.question.assumptions.split_first_token_factor

    def estimate_prefill(part: InferenceWorkload, reserved_s: float, pool: Deployment) -> Estimate:
        return with_client_ttft(estimate_pool(prefill_workload(part, reserved_s, later), pool), later)

    requested, steady = (
        inherit_deployment(deployment, pools),
        replace(workload, requests=None),
    )  # most of a finite run is steady
    first = choose_pools(steady, requested, estimate_pool, estimate_prefill, search.catalog)
    if not (first.prefill.fits and first.decode.fits):
        return failed_estimate(deployment, first)
    layouts = Pools(
        keep_open_counts(first.prefill, requested.prefill), keep_open_counts(first.decode, requested.decode)
    )
    transfer = pool_transfer(search.of(workload), first)
    reading, writing, rate_per_s = workload, workload, None
    if workload.load is Load.CLOSED:
        reading, writing, rate_per_s = balance_pools(steady, first.prefill, first.decode, transfer.seconds)
    prefill = estimate_prefill(reading, decode_reserve_s(workload) + transfer.seconds, layouts.prefill)
    before_s = ttft_at_limit_s(prefill.performance, workload.slo.percentile) + transfer.seconds
    decode = estimate_pool(decode_workload(writing, before_s), layouts.decode)
    found = PoolEstimates(prefill, decode)
    again = pool_transfer(search.of(workload), found)
    if again.link != transfer.link:
        complete = Pools(prefill.deployment, decode.deployment)
        return estimate_pools(search, replace(deployment, pools=complete), complete, judge)
    if workload.load in (Load.BATCH, Load.OFFLINE) and prefill.performance and decode.performance:
        rate_per_s = finite_rate_per_s(workload, prefill.performance, decode.performance, again)
    if workload.requests is not None and rate_per_s is not None:
        burst = estimate_prefill(first_wave(workload), decode_reserve_s(workload) + transfer.seconds, layouts.prefill)
        found, rate_per_s = apply_finite_run(workload, found, burst, again, rate_per_s)
    return with_volume(
        search.question,
        workload,
        combine_estimates(workload, deployment, found, again, rate_per_s, search.catalog),
        found.in_order,
    )


def apply_finite_run(
    workload: InferenceWorkload, found: PoolEstimates, burst: Estimate, transfer: Transfer, rate_per_s: float
) -> tuple[PoolEstimates, float]:
    """Both pools in a finite run, and their joint throughput over the whole run, in requests/s."""
    assert workload.requests is not None and burst.performance is not None and found.decode.performance is not None
    run = finite_run(workload, burst.performance, found.decode.performance, transfer.seconds, rate_per_s)
    return PoolEstimates(with_first_wave(found.prefill, run), found.decode), workload.requests / run.seconds


def inherit_deployment(deployment: Deployment, pools: Pools) -> Pools:
    """Deployments of both pools; fields that a pool does not set are inherited from the common deployment."""
    inherited = ("engine", "engine_version", "weight_format", "kv_format", "memory_fraction")
    placed = ("system", "provider", "region", "pricing_model", "instance_type")

    def with_inherited(pool: Deployment) -> Deployment:
        names = (*inherited, *placed) if pool.accelerator == deployment.accelerator else inherited
        inherited_values = {name: getattr(deployment, name) for name in names if getattr(pool, name) is None}
        return replace(pool, **inherited_values)

    kv_format = pools.prefill.kv_format or pools.decode.kv_format or deployment.kv_format
    prefill, decode = (
        with_inherited(replace(pools.prefill, kv_format=kv_format)),
        with_inherited(replace(pools.decode, kv_format=kv_format)),
    )
    decode = replace(decode, scheduler=MIXED_SCHEDULER.with_settings(decode.scheduler))
    drafting = deployment.speculative  # prefill also loads the draft, which reads the prompt
    return Pools(replace(prefill, speculative=drafting), replace(decode, speculative=drafting))


def choose_pools(
    workload: InferenceWorkload,
    requested: Pools,
    estimate_pool: Callable[[InferenceWorkload, Deployment], Estimate],
    estimate_prefill: Callable[[InferenceWorkload, float, Deployment], Estimate],
    catalog: Catalog,
) -> PoolEstimates:
    """Estimates of both pools, each chosen separately, on one engine and with one KV cache format.

    The engine is the decode pool's choice, or else the first engine that runs both pools.
    """
    decode = estimate_pool(decode_workload(workload, 0.0), requested.decode)
    engines = (
        (decode.deployment.engine, *DISAGGREGATING_ENGINES)
        if requested.prefill.engine is None
        else (requested.prefill.engine,)
    )
    found = None
    for engine in dict.fromkeys(engines):
        if engine is None:
            continue
        if found is not None:
            decode = estimate_pool(decode_workload(workload, 0.0), replace(requested.decode, engine=engine))
        reading = replace(requested.prefill, engine=engine, kv_format=decode.deployment.kv_format)
        reading = replace(reading, max_batch=reading.max_batch or max_concurrent_prompts(reading, catalog))
        found = PoolEstimates(estimate_prefill(workload, decode_reserve_s(workload), reading), decode)
        if found.prefill.fits and found.decode.fits:
            return found
    assert found is not None
    return found


def max_concurrent_prompts(pool: Deployment, catalog: Catalog) -> int:
    """Default limit of concurrent prompts in a prefill pool: the engine's `max_num_seqs`, because no prompt stays."""
    accelerator = catalog.accelerators[catalog.accelerator_index[pool.accelerator]]
    scheduling = engine_named(pool.engine or "").scheduling_at(pool.engine_version)
    return scheduling.for_device(accelerator.memory_bytes or 0.0, accelerator.family).max_sequences


def keep_open_counts(found: Estimate, requested: Deployment) -> Deployment:
    """A pool's chosen deployment, with its counts left open where the request left them open."""
    counts = ("replicas", "spare_replicas", "nodes", "total_accelerators")
    open_counts = {name: getattr(requested, name) for name in counts}
    return found.deployment if requested.fixes_hardware else replace(found.deployment, **open_counts)


def pool_transfer(search: Search[InferenceWorkload], found: PoolEstimates) -> Transfer:
    """KV cache transfer between both pools with their current deployments."""
    prefill, decode = found.prefill.deployment, found.decode.deployment
    plans = deployment_plan(search, prefill), deployment_plan(search, decode)
    replicas = float(prefill.replicas or 1), float(decode.replicas or 1)
    total = float((prefill.total_accelerators or 0) + (decode.total_accelerators or 0))
    return estimate_transfer(search.workload, *plans, replicas, total, search.question.assumptions)
