"""What two pools cannot be asked for: refused with what is accepted, never ignored."""

from __future__ import annotations

from collections.abc import Sequence

from app.errors import Conflict
from app.sizing.question import Deployment, Pools, Question
from app.sizing.serving.layouts import splits_of
from app.sizing.workload import InferenceWorkload, Load, TrainingWorkload

# Said of each pool, not of both.
OF_A_POOL = (
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
    question: Question, deployment: Deployment, pools: Pools, splitting: Sequence[str]
) -> InferenceWorkload:
    """The workload, where two pools can serve it."""
    workload = question.workload
    if question.companions:
        raise Conflict("Companions stand on the cards of one deployment: leave them or deployment.pools out.")
    if isinstance(workload, InferenceWorkload) and workload.classes:
        raise Conflict(
            "Each of several classes has limits of its own, which no one knows how to part between two pools: leave "
            "traffic.classes or deployment.pools out."
        )
    if isinstance(workload, TrainingWorkload) or workload.single_pass:
        raise Conflict("deployment.pools is for models that generate tokens: others have no decode to keep apart.")
    both = [name for name in OF_A_POOL if getattr(deployment, name) is not None]
    if both:
        raise Conflict(f"With deployment.pools {', '.join(both)} is said of each pool: put it into prefill and decode.")
    if deployment.engine is not None and deployment.engine not in splitting:
        raise Conflict(
            f"{deployment.engine} keeps no pools apart that the catalogue knows of; these engines do: "
            f"{', '.join(splitting)}."
        )
    formats = {pool.kv_format for pool in (pools.prefill, pools.decode) if pool.kv_format is not None}
    if len(formats) > 1:
        raise Conflict("Both pools keep the cache in one kv_format, because it is sent from one to the other.")
    open_counts = [name for name, pool in named(pools) if not pool.sized]
    if open_counts and workload.load is not Load.OPEN and workload.deadline_s is None:
        raise Conflict(
            f"Say replicas and accelerators_per_replica of {' and '.join(open_counts)}: how much of the work each pool "
            "holds follows from its size. Pools are sized for peak_requests_per_s, or for a deadline."
        )
    check_total(deployment, pools)
    check_contexts(workload, pools)
    return workload


def named(pools: Pools) -> tuple[tuple[str, Deployment], ...]:
    """Both pools by their names."""
    return (("prefill", pools.prefill), ("decode", pools.decode))


def check_contexts(workload: InferenceWorkload, pools: Pools) -> None:
    """Refuse contexts split over ranks that engines do not send from pool to pool.

    SGLang's docs/docs/advanced_features/dcp.mdx and vllm-project/vllm pull request 50611, read 2026-11-23: of latents,
    whole or split alike where they are written.
    """
    written, kept = ((pool.context_parallel or 1) for _, pool in named(pools))
    if max(written, kept) > 1 and not splits_of(workload.model).latent:
        raise Conflict(
            "Between pools engines send whole caches, or those of latents (MLA) split over ranks, and "
            f"{workload.model.name} keeps none: leave context_parallel out."
        )
    if written not in (1, kept):
        raise Conflict(
            "A prefill pool with context_parallel sends a cache split as the decode pool keeps it: give both the same, "
            "or leave it out of prefill."
        )


def check_total(deployment: Deployment, pools: Pools) -> None:
    """Refuse a total that is not that of both pools, and one that has nothing to be parted by."""
    total, counts = deployment.total_accelerators, [pool.total_accelerators for _, pool in named(pools)]
    if total is None:
        return
    if None in counts or sum(count or 0 for count in counts) != total:
        raise Conflict(
            "total_accelerators is that of both pools together: say it in prefill and in decode, or leave it out."
        )
