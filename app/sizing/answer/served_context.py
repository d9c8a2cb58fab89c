"""Context that servers are started with: as long as the model and the KV cache allow, apart from the planning length.

Planning takes a long prompt with a long answer. A server that is limited to this length refuses the few longer
requests, so it gets a limit of its own. Benchmarks start the same server. Memory and speed do not depend on it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Quantiles, column
from app.sizing.question import Deployment
from app.sizing.result import Estimate, Performance
from app.sizing.workload import InferenceWorkload
from app.sizing.workload.inference import group_populations
from app.sizing.workload.lengths import Lengths

QUANTILES = 1000  # quantiles of prompts and of answers that stand for the requests
CACHE_BLOCK_TOKENS = 64  # largest block in which engines divide their KV cache


class ContextLimit(StrEnum):
    """What limits the served context."""

    REQUESTED = "requested"
    WINDOW = "window"
    CACHE = "cache"
    PLANNED = "planned"  # neither a window nor a cache is known


@dataclass(frozen=True, slots=True)
class ServedContext:
    """Longest sequence that a server accepts, what limits it, and the share of requests that are longer."""

    tokens: int
    limit: ContextLimit
    refused_share: float


def served_context(
    workload: InferenceWorkload, estimate: Estimate, assumed: Assumptions, *, slots: int = 1
) -> ServedContext:
    """The served context of a deployment: as requested, else the smaller of the model's window and the KV cache.

    An engine does not start if its cache is too small for one sequence. The cache limit therefore leaves a margin for
    the error of the predicted memory, unless the planning length itself needs it.

    Parameters:
        estimate: the deployment with its memory, of two pools that of the fuller one.
        slots: slots for which the engine reserves the whole context at start; 1 if it shares its cache.
    """
    planned = math.ceil(workload.max_context_tokens)
    if any(a.name == "max_context_tokens" and a.asked for a in workload.derived):
        return ServedContext(planned, ContextLimit.REQUESTED, share_longer_than(workload, planned))
    window, memory = workload.model.max_context_tokens, estimate.memory
    held = None if memory is None else memory.kv_cache_tokens
    bears = math.inf
    if held is not None:
        share = assumed.served_cache_share * held / (ranks_of_replica(estimate.deployment) * slots)
        bears = math.floor(share / CACHE_BLOCK_TOKENS) * CACHE_BLOCK_TOKENS
    tokens = max(planned, min(window or math.inf, bears))
    if math.isinf(tokens):
        tokens, limit = planned, ContextLimit.PLANNED
    else:
        limit = ContextLimit.WINDOW if window is not None and tokens >= window else ContextLimit.CACHE
    return ServedContext(int(tokens), limit, share_longer_than(workload, tokens))


def batch_in_flight(p: Performance | None) -> int:
    """Sequences of a replica at the peak, as an integer; at least one."""
    return max(1, round((p and p.batch_at_peak) or 1))


def ranks_of_replica(d: Deployment) -> int:
    """Data-parallel ranks of a replica, each of which has a KV cache of its own; of two pools the larger number."""
    pools = () if d.pools is None else (d.pools.prefill, d.pools.decode)
    return max([d.data_parallel or 1, *(pool.data_parallel or 1 for pool in pools)])


def share_longer_than(workload: InferenceWorkload, tokens: float) -> float:
    """Share of a workload's requests whose prompt and answer together have more tokens.

    Recorded requests are counted. Otherwise prompt and answer are independent.
    """
    if workload.single_pass:
        return 0.0
    if workload.trace is not None:
        return float(np.mean(workload.trace.input_tokens + workload.trace.output_tokens > tokens))
    if not workload.classes:
        return share_of_sums(workload.input_tokens, workload.output_tokens, tokens)
    parts = group_populations(workload.classes)
    return sum(part.share * share_of_sums(part.input_tokens, part.output_tokens, tokens) for part in parts)


@lru_cache(maxsize=64)
def share_of_sums(prompt: Lengths, answer: Lengths, tokens: float) -> float:
    """Share of independent pairs of a prompt and an answer that have more tokens than `tokens` together.

    Check: of answers of 1 to 100 tokens after prompts of 100 tokens, one in ten makes more than 190.
        >>> share_of_sums(Lengths(100), Lengths.uniform(1, 100), 190)
        0.1
    """
    at = Quantiles(column((np.arange(QUANTILES) + 0.5) / QUANTILES))
    answers = np.sort(answer.draw_lengths(at))
    shorter = np.searchsorted(answers, tokens - prompt.draw_lengths(at), side="right")
    return round(1.0 - float(shorter.mean()) / QUANTILES, 9)
