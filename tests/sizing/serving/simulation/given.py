"""Replicas and requests that a queue's theory knows the answer for."""

from __future__ import annotations

from typing import Any

import numpy as np

from app.sizing.columns import Column
from app.sizing.serving.simulation import PREFILL_FIRST, Replica, Requests, SimulationResult, simulate_replica
from app.sizing.serving.simulation.record import Counts

NONE, NO_WINDOWS = np.zeros(0), np.zeros(0, np.int64)


def replica(**changes: Any) -> Replica:
    """A replica whose every step takes 10 ms, and each token of a prompt 10 us more."""
    usual: dict[str, Any] = {
        "policy": 0,
        "chunked": True,
        "max_batched_tokens": 8192,
        "max_sequences": 256,
        "preemption": 0,
        "receive_interval_steps": 1,
        "batch_wait_steps": 0,
        "batch_wait_share": 0.0,
        "planning_lag_steps": 0,
        "decode_s": np.full(4097, 0.01),
        "linear_s": np.arange(200) * 1e-5,
        "linear_exact": 199,
        "linear_stride": 1,
        "prompt_equivalent": 1.0,
        "prompt_fixed_tokens": 0.0,
        "padding_equivalent": 0.0,
        "expert_share": 0.0,
        "prompt_token_s": 0.0,
        "prompt_step_s": 0.0,
        "dispatch_s": 0.0,
        "graph_dispatch_s": 0.0,
        "graph_tokens": 0,
        "prompt_attention_s": np.zeros(169),
        "stages": 1,
        "ranks": 1,
        "pooled_share": 0.0,
        "stages_overlap": False,
        "attention_token_s": 0.0,
        "window_tokens": NO_WINDOWS,
        "window_attention_s": NONE,
        "cache_fixed_bytes": 0.0,
        "cache_token_bytes": 1.0,
        "window_cache_bytes": NONE,
        "cache_bytes": 1e12,
        "host_cache_bytes": 0.0,
        "output_reserve_share": 0.0,
        "swap_token_s": 0.0,
        "ingest_s": 0.0,
        "tokenise_token_s": 0.0,
        "stream_token_s": 0.0,
    }
    return Replica(**usual | changes)


def one_at_a_time(**changes: Any) -> Replica:
    """A queue's server: each prompt is a step of its own, and gives the only token."""
    return replica(policy=PREFILL_FIRST, chunked=False, max_batched_tokens=1, **changes)


def requests(
    input_tokens: Column | Counts | int,
    output_tokens: Column | Counts | int,
    *,
    count: int = 1000,
    arrival_s: Column = NONE,
    in_flight: int = 0,
    **changes: Any,
) -> Requests:
    """Requests of these lengths, alike where a number is given."""

    def each(tokens: Any) -> Counts:
        return np.broadcast_to(np.asarray(tokens, dtype=np.int64), (count,)).copy()

    usual: dict[str, Any] = {"prefix_tokens": np.zeros(count, np.int64), "shared_tokens": 0, "reuse_gap_s": 0.0}
    return Requests(
        arrival_s=arrival_s,
        in_flight=in_flight,
        input_tokens=each(input_tokens),
        output_tokens=each(output_tokens),
        **usual | changes,
    )


def poisson(rate: float, count: int, seed: int = 1) -> Column:
    """Times of arrival."""
    return np.cumsum(np.random.default_rng(seed).exponential(1 / rate, count))


def ttft_s(found: SimulationResult) -> Column:
    """From sending a request to its first token."""
    return found.first_token_s - found.arrival_s


def simulated(r: Replica, q: Requests, warm: int = 0, wanted: int | None = None) -> SimulationResult:
    """The whole of it, unless said otherwise."""
    return simulate_replica(r, q, warm=warm, wanted=len(q.input_tokens) if wanted is None else wanted)
