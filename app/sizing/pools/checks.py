"""Validates requests for two pools: an unsupported combination is rejected with the accepted values, never ignored."""

from __future__ import annotations

from collections.abc import Sequence

from app.errors import Conflict
from app.sizing.product_names import product_name
from app.sizing.question import Deployment, Pools, Question
from app.sizing.serving.layouts import context_splits
from app.sizing.workload import InferenceWorkload, Load, TrainingWorkload

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
