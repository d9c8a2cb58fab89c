"""Workloads of the two pools, the KV cache transfer between them, and checks of requests for two pools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, replace

import numpy as np

from app.errors import Conflict
from app.sizing.assumptions import Assumptions
from app.sizing.columns import TINY, Column, one
from app.sizing.decisions.machines import find_machines
from app.sizing.decisions.rejections import NullRejections
from app.sizing.decisions.search import Search
from app.sizing.formula import formula
from app.sizing.hardware.parts import KINDS, known_network_bytes_per_s
from app.sizing.question import Constraints, Deployment, Pools, Question
from app.sizing.result import Estimate, Interval, LoadPoint, Percentiles, Performance, Transfer
from app.sizing.serving.choice import fixed_deployment_plans
from app.sizing.serving.kinds import AUTOREGRESSIVE
from app.sizing.serving.kv_cache import cache_bytes
from app.sizing.serving.layouts import context_splits
from app.sizing.serving.plans import Plans
from app.sizing.serving.search import with_own_measurements
from app.sizing.words import product_name
from app.sizing.workload import InferenceWorkload, Lengths, Load, Slo, TrainingWorkload
from app.sizing.workload.inference import MAX_SEQUENCE_TOKENS

# Fields that each pool sets for itself.
PER_POOL_FIELDS = (
    "accelerators_per_replica",
    "replicas",
    "spare_replicas",
    "nodes",
    "tensor_parallel",
    "pipeline_parallel",
    "expert_parallel",
    "data_parallel",
    "context_parallel",
    "max_batch",
    "max_batched_tokens",
    "scheduler",
    "weights_on_host",
)


def check_pools(
    question: Question, deployment: Deployment, pools: Pools, disaggregating_engines: Sequence[str]
) -> InferenceWorkload:
    """The workload, if two pools can serve it.

    Raises Conflict for a workload or deployment that two pools do not support.
    """
    workload = question.workload
    if question.companions:
        raise Conflict("Companions share the accelerators of one deployment. Omit companions or deployment.pools.")
    if isinstance(workload, InferenceWorkload) and workload.classes:
        raise Conflict(
            "Traffic classes have separate limits, and there is no method to divide these between two pools. "
            "Omit traffic.classes or deployment.pools."
        )
    if isinstance(workload, TrainingWorkload) or workload.single_pass:
        raise Conflict("deployment.pools requires a model that generates tokens: other models have no decode phase.")
    both = [name for name in PER_POOL_FIELDS if getattr(deployment, name) is not None]
    if both:
        raise Conflict(f"With deployment.pools, set {', '.join(both)} in prefill and in decode, not in deployment.")
    if deployment.engine is not None and deployment.engine not in disaggregating_engines:
        raise Conflict(
            f"{product_name(deployment.engine)} has no known support for separate pools. "
            f"Set engine to one of: {', '.join(disaggregating_engines)}."
        )
    formats = {pool.kv_format for pool in (pools.prefill, pools.decode) if pool.kv_format is not None}
    if len(formats) > 1:
        raise Conflict("Both pools need the same kv_format, because the prefill pool sends its KV cache to the other.")
    open_counts = [name for name, pool in named_pools(pools) if not pool.fixes_hardware]
    if open_counts and workload.load is not Load.OPEN and workload.deadline_s is None:
        raise Conflict(
            f"Set replicas and accelerators_per_replica of {' and '.join(open_counts)}: the size of a pool determines "
            "its share of the work. Pools can only be sized for peak_requests_per_s or for a deadline."
        )
    check_total(deployment, pools)
    check_contexts(workload, pools)
    return workload


def named_pools(pools: Pools) -> tuple[tuple[str, Deployment], ...]:
    """Both pools with their names."""
    return (("prefill", pools.prefill), ("decode", pools.decode))


def check_contexts(workload: InferenceWorkload, pools: Pools) -> None:
    """Raise Conflict for context parallelism that engines do not support between pools.

    Engines transfer only MLA latents, either whole or split in the same way as in the decode pool. Sources: SGLang's
    docs/docs/advanced_features/dcp.mdx and vllm-project/vllm pull request 50611, read 2026-11-23.
    """
    written, kept = ((pool.context_parallel or 1) for _, pool in named_pools(pools))
    if max(written, kept) > 1 and not context_splits(workload.model).latent:
        raise Conflict(
            "Between pools, engines transfer whole KV caches, or MLA latents split over ranks. "
            f"{workload.model.name} has no MLA latents: omit context_parallel."
        )
    if written not in (1, kept):
        raise Conflict(
            "The prefill pool must split the KV cache like the decode pool. "
            "Set the same context_parallel in both pools, or omit it in prefill."
        )


def check_total(deployment: Deployment, pools: Pools) -> None:
    """Raise Conflict for a total that differs from the sum of both pools, or that the pools do not specify."""
    total, counts = deployment.total_accelerators, [pool.total_accelerators for _, pool in named_pools(pools)]
    if total is None:
        return
    if None in counts or sum(count or 0 for count in counts) != total:
        raise Conflict("total_accelerators must be the sum of both pools. Set it in prefill and in decode, or omit it.")


FIRST_TOKEN = Lengths(1.0)
MIN_LIMIT_S = 1e-6  # remainder of a limit that is already used up


def remaining_limit_s(limit_s: float | None, used_s: float) -> float | None:
    """Remainder of a latency limit in seconds; None if there is no limit."""
    return None if limit_s is None else max(limit_s - used_s, MIN_LIMIT_S)


def decode_reserve_s(workload: InferenceWorkload) -> float:
    """Part of the TTFT limit that is reserved for admission to the decode pool, in seconds: up to one TPOT limit."""
    slo = workload.slo
    return 0.0 if slo.tpot_s is None or slo.ttft_s is None else min(slo.tpot_s, slo.ttft_s / 2)


def reported_percentile(percentile: float) -> str:
    """The reported percentile that is equal to or next above the requested one."""
    return "p95" if 50 < percentile <= 95 else "p99" if percentile > 95 else "p50"


def ttft_at_limit_s(performance: Performance | None, percentile: float) -> float:
    """TTFT at the percentile of the limits, in seconds; 0 where the queue grows without bound."""
    ttft = None if performance is None else performance.ttft
    return 0.0 if ttft is None else getattr(ttft, f"{reported_percentile(percentile)}_s") or 0.0


@formula(unit="s", source="published benchmarks of disaggregated and aggregated serving")
def split_ttft_s(read_s: Column, split_first_token_factor: float) -> Column:
    """TTFT of a split service, without KV cache transfer and admission to the decode pool.

    A router, two servers and two schedulers process the request instead of one of each.

    Parameters:
        read_s: TTFT of the prefill pool, in seconds.
        split_first_token_factor: assumed ratio of the split service's TTFT to that of the prefill pool.
    Limits: one factor for all engines, loads and prompt lengths.
    Check: 0.3 s * 2 = 0.6 s.
        >>> float(split_ttft_s(0.3, 2.0))
        0.6
    """
    return read_s * split_first_token_factor


def prefill_workload(workload: InferenceWorkload, reserved_s: float, factor: float) -> InferenceWorkload:
    """Workload of the prefill pool: the prompts with one output token each.

    `reserved_s` of the TTFT limit is reserved for transfer and decode pool. The rest is divided by `factor` to get the
    pool's own limit.
    """
    slo, trace = workload.slo, workload.trace
    available_s = remaining_limit_s(slo.e2e_s if slo.ttft_s is None else slo.ttft_s, reserved_s)
    return replace(
        workload,
        output_tokens=FIRST_TOKEN,
        slo=Slo(None if available_s is None else available_s / factor, None, None, slo.percentile),
        trace=None if trace is None else replace(trace, output_tokens=np.ones_like(trace.output_tokens)),
    )


def with_client_ttft(found: Estimate, factor: float) -> Estimate:
    """Prefill estimate with TTFT as the client sees it, after the request moves to the decode pool."""
    p = found.performance
    if p is None or p.ttft is None:
        return found

    def client_wait_s(wait_s: float | None) -> float | None:
        return None if wait_s is None else one(split_ttft_s(np.array([wait_s]), factor))

    def rescale_interval(interval: Interval) -> Interval:
        if interval.quantity != "ttft_s":
            return interval
        return replace(interval, low=interval.low * factor, high=interval.high * factor)

    def rescale_point(point: LoadPoint) -> LoadPoint:
        return replace(point, ttft_p50_s=point.ttft_p50_s * factor, ttft_p95_s=point.ttft_p95_s * factor)

    curve = p.load_curve
    return replace(
        found,
        performance=replace(
            p,
            ttft=Percentiles(*map(client_wait_s, astuple(p.ttft))),
            intervals=tuple(map(rescale_interval, p.intervals)),
            load_curve=None if curve is None else replace(curve, points=tuple(map(rescale_point, curve.points))),
        ),
    )


def decode_workload(workload: InferenceWorkload, before_s: float) -> InferenceWorkload:
    """Workload of the decode pool: outputs after prompts whose KV cache is already there, except for the last prompt
    token.

    `before_s` is the time that a request has already taken when it arrives.
    """
    slo, trace, prompt = workload.slo, workload.trace, workload.input_tokens.mean
    return replace(
        workload,
        cached_prefix_fraction=max(0.0, 1 - 1 / prompt),
        shared_prefix_fraction=MAX_SEQUENCE_TOKENS / prompt,  # never evicted: a prompt arrives with its KV cache
        turn_gap_s=0.0,
        comes_read=True,
        encoder_flops_per_request=0.0,
        slo=Slo(
            remaining_limit_s(slo.ttft_s, before_s), slo.tpot_s, remaining_limit_s(slo.e2e_s, before_s), slo.percentile
        ),
        trace=None if trace is None else replace(trace, prefix_tokens=np.maximum(trace.input_tokens - 1, 0)),
    )


NETWORK, SCALE_UP = "network", "scale_up"


@formula(unit="s", source="definition: bytes over bandwidth of the slower side")
def transfer_s(
    sent_bytes: Column, sending_bytes_per_s: Column, received_bytes: Column, taking_bytes_per_s: Column
) -> Column:
    """Time to transfer a prompt's KV cache between two pools: that of the slower side.

    All accelerators of a replica send or receive in parallel, each over its own link.

    Parameters:
        sent_bytes: bytes that one accelerator of the prefill pool sends.
        sending_bytes_per_s: bandwidth of its link, in bytes/s.
        received_bytes: bytes that one accelerator of the decode pool receives.
        taking_bytes_per_s: bandwidth of its link, in bytes/s.
    Limits: the transfer starts when the whole prompt is read, on otherwise idle links.
    Check: 4,096 tokens of Llama 3.1 70B in 16 bits are 1.34 GB; four accelerators each send a quarter at 35 GB/s.
        >>> round(float(transfer_s(1.34e9 / 4, 35e9, 1.34e9 / 8, 35e9)) * 1e3, 2)
        9.57
    """
    sending = sent_bytes / np.maximum(sending_bytes_per_s, 1.0)
    return np.maximum(sending, received_bytes / np.maximum(taking_bytes_per_s, 1.0))


@formula(unit="1/s", source="definition")
def transfer_capacity_per_s(replicas: Column, device_bytes: Column, device_bytes_per_s: Column) -> Column:
    """KV caches that the links of one pool carry per second if they carry nothing else.

    Parameters:
        replicas: replicas of the pool, times their data-parallel ranks.
        device_bytes: bytes of a cache that one accelerator sends or receives.
        device_bytes_per_s: bandwidth of one accelerator's link, in bytes/s.
    Limits: all replicas get the same number of requests.
    Check: two replicas; each accelerator sends 335 MB of a cache at 35 GB/s.
        >>> round(float(transfer_capacity_per_s(2.0, 335e6, 35e9)), 1)
        209.0
    """
    return replicas * device_bytes_per_s / np.maximum(device_bytes, 1.0)


def shares_domain(prefill: Plans, decode: Plans, accelerators: float) -> bool:
    """Whether both pools are in one scale-up domain that spans machines."""
    alike = bool(prefill.accelerator[0] == decode.accelerator[0])
    domain, machine = one(decode.scale_up_domain), one(decode.accelerators_per_node)
    return alike and domain > machine and accelerators <= domain


def pool_link_bytes_per_s(plan: Plans, assumed: Assumptions, *, in_domain: bool) -> float:
    """Achieved bandwidth of one accelerator on the link between the pools, in bytes/s."""
    achieved, node = plan.achieved_rates, plan.node
    if in_domain:
        return one(node.link_bytes_per_s * achieved.scale_up_bandwidth_fraction)
    return one(known_network_bytes_per_s(node.network_bytes_per_s, assumed) * achieved.network_bandwidth_fraction)


def estimate_transfer(
    workload: InferenceWorkload,
    prefill: Plans,
    decode: Plans,
    replicas: tuple[float, float],
    accelerators: float,
    assumed: Assumptions,
) -> Transfer:
    """KV cache transfer between one plan of each pool, with the given numbers of replicas."""
    prompt, in_domain = workload.input_tokens.mean, shares_domain(prefill, decode, accelerators)
    sides = [
        (cache_bytes(workload.model, prompt, plan), pool_link_bytes_per_s(plan, assumed, in_domain=in_domain))
        for plan in (prefill, decode)
    ]
    (sent, sending), (received, taking) = sides
    seconds = one(transfer_s(sent, np.array([sending]), received, np.array([taking])))
    ranks = [count * one(plan.data_parallel) for count, plan in zip(replicas, (prefill, decode), strict=True)]
    carried = [
        one(transfer_capacity_per_s(np.array([count]), held, np.array([rate])))
        for count, (held, rate) in zip(ranks, sides, strict=True)
    ]
    capacity = min(carried)
    request_bytes = prompt_cache_bytes(workload, decode)
    return Transfer(
        request_bytes=request_bytes,
        seconds=seconds,
        link=SCALE_UP if in_domain else NETWORK,
        bytes_per_s=request_bytes / max(seconds, TINY),
        requests_per_s_capacity=capacity,
        utilization=None,
    )


def deployment_plan(search: Search[InferenceWorkload], deployment: Deployment) -> Plans:
    """The single plan of a complete deployment."""
    plans = fixed_deployment_plans(
        search.workload.model,
        search.catalog,
        find_machines(search, deployment, KINDS),
        Constraints(accelerators=(deployment.accelerator,)),
        NullRejections(search.catalog.accelerators),
        deployment,
        search.question.assumptions,
        phase=AUTOREGRESSIVE.phase,
        personal=False,
    ).take(np.zeros(1, np.int64))
    return with_own_measurements(search.workload, search.catalog, plans, deployment.engine_version)


def prompt_cache_bytes(workload: InferenceWorkload, plan: Plans) -> float:
    """KV cache of a mean prompt in bytes, counted once even if several ranks keep copies."""
    one_device = np.ones(1)
    whole = replace(plan, tensor_parallel=one_device, context_parallel=one_device, pipeline_parallel=one_device)
    return one(cache_bytes(workload.model, workload.input_tokens.mean, whole))
