"""Tables of a simulated replica, built with the functions that time a step everywhere else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np

from app.sizing.columns import Column, Columns, concat_tables
from app.sizing.formula import suspend_recording
from app.sizing.hardware.achieved import Achieved
from app.sizing.hardware.engines.record import Policy, Preemption, Scheduler
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.question import Speculative
from app.sizing.serving.collectives import LinkUse
from app.sizing.serving.kv_cache import cache_bytes
from app.sizing.serving.plans import Plans
from app.sizing.serving.prefill import (
    PrefillTerms,
    PrefillWork,
    prefill_terms,
    prefill_work,
    prompt_attention_s,
    step_linear_s,
)
from app.sizing.serving.simulation.record import MIXED, NEVER, PREFILL_FIRST, RECOMPUTED, SWAPPED, Replica, Seconds
from app.sizing.serving.step import (
    StepTerms,
    StepWork,
    linear_s,
    multiply_and_read_s,
    step_s,
    step_terms,
    step_work,
    with_speculative_decoding,
)

STRIDE = 64  # tokens between points of the linear-layer grid above the sequence limit
FAR_TOKENS = 2.0**22  # a context longer than every window, tokens
POINTS_PER_DOUBLING, DOUBLINGS = 8, 21  # grid of prompt lengths: points per doubling, and doublings
PROMPT_TOKENS, DOUBLE_PROMPT_TOKENS = (
    1024.0,
    2048.0,
)  # prompt lengths from which the multiplication time per token is taken, tokens
TIME_RESOLUTION_S = 2.0**-40  # times are multiples of it, which removes rounding differences between processors, s
MAX_SEQUENCES_PER_RANK = 8192  # most sequences per rank in the tables
MIN_LINEAR_S = 1e-30  # least multiplication time, reached where a host computes everything, s
SWAP_BYTES_PER_S = 25e9  # device to host memory over PCIe 4.0 x16 after protocol overhead, bytes/s
POLICY_CODES: Mapping[Policy, int] = MappingProxyType(
    {Policy.MIXED: MIXED, Policy.PREFILL_FIRST: PREFILL_FIRST, Policy.STATIC: MIXED}
)
PREEMPTION_CODES: Mapping[Preemption, int] = MappingProxyType(
    {Preemption.RECOMPUTE: RECOMPUTED, Preemption.SWAP: SWAPPED, Preemption.NONE: NEVER}
)


@lru_cache(maxsize=1)
def prompt_grid() -> Column:
    """Prompt lengths whose attention is computed, tokens."""
    eighths = 1 + np.arange(POINTS_PER_DOUBLING) / POINTS_PER_DOUBLING
    return np.append(np.outer(2.0 ** np.arange(DOUBLINGS), eighths).ravel(), 2.0**DOUBLINGS)


@lru_cache(maxsize=16)
def grid_attention_flops(model: ModelArchitecture) -> Column:
    """Attention FLOPs of a prompt of each length of the grid."""
    return np.array([model.prefill_attention_flops(float(tokens)) for tokens in prompt_grid()])


@dataclass(frozen=True, slots=True)
class ReplicaWork:
    """Work and cache of one replica, independent of its speed.

    `contexts` are zero tokens, the ends of the model's attention windows, and a context beyond all of them; attention
    and cache grow linearly between these points.
    """

    contexts: Column  # context lengths, tokens
    at_contexts: StepWork  # decode step work, a row per context
    cache_bytes: Column  # KV cache of a sequence at each context on one device, bytes
    prompts: PrefillWork  # prefill work, a row per prompt length of the grid
    pair: PrefillWork  # prefill work of prompts of 1,024 and 2,048 tokens, fixed parts included
    model: ModelArchitecture


def context_breakpoints(model: ModelArchitecture) -> Column:
    """Context lengths at which the growth of a sequence's attention or cache changes, tokens."""
    ends = {end for g in model.attention for end in (g.window_tokens, g.read_tokens) if end}
    return np.array([0.0, *sorted(ends), FAR_TOKENS])


def replica_work(
    model: ModelArchitecture, plans: Plans, link: LinkUse, *, encoder_flops: float = 0.0
) -> tuple[ReplicaWork, ...]:
    """Work of the replica of every plan; `encoder_flops` is the FLOPs of the image encoder per request."""
    contexts, grid, count = context_breakpoints(model), prompt_grid(), len(plans)
    with suspend_recording():
        steps = concat_tables([step_work(model, plans, link, context_tokens=float(c)) for c in contexts])
        held = np.stack([cache_bytes(model, float(c), plans) for c in contexts])
        one = prefill_work(model, plans, link, prompt_tokens=1.0)
        pairs = concat_tables(
            [
                prefill_work(model, plans, link, prompt_tokens=tokens, encoder_flops=encoder_flops)
                for tokens in (PROMPT_TOKENS, DOUBLE_PROMPT_TOKENS)
            ]
        )
    scores = grid_attention_flops(model)

    def work_of(row: int) -> ReplicaWork:
        prompts = replace(
            one.take(np.full(len(grid), row)),
            score_flops=scores / plans.tensor_parallel[row],
            prompt_tokens=grid,
            new_tokens=grid,
        )
        at_contexts, of_pair = np.arange(row, len(steps), count), np.arange(row, len(pairs), count)
        return ReplicaWork(contexts, steps.take(at_contexts), held[:, row], prompts, pairs.take(of_pair), model)

    return tuple(map(work_of, range(count)))


@dataclass(frozen=True, slots=True)
class PiecewiseLinear:
    """A quantity of one sequence by its context c: fixed + token * c + sum of window * min(c, W)."""

    fixed: float  # value at context 0
    token: float  # growth per token
    windows: Column  # additional growth per token within each window


def piecewise_linear(contexts: Column, values: Column) -> PiecewiseLinear:
    """Piecewise-linear function through the given values.

    Check: 2 per token up to 100 tokens, then 1.
        >>> piecewise_linear(col(0, 100, 1100), col(5, 205, 1205))
        PiecewiseLinear(fixed=5.0, token=1.0, windows=array([1.]))
    """
    slopes = np.diff(values) / np.diff(contexts)
    return PiecewiseLinear(float(values[0]), float(slopes[-1]), slopes[:-1] - slopes[1:])


def round_to_resolution_s(seconds: Column) -> Seconds:
    """Times rounded to a grain that sums keep exactly, s."""
    return np.rint(seconds / TIME_RESOLUTION_S) * TIME_RESOLUTION_S


def repeat_terms(terms: StepTerms, count: int) -> StepTerms:
    """The terms of one plan, repeated for `count` batches."""
    return terms.take(np.zeros(count, np.int64))


def build_replica(
    work: ReplicaWork,
    achieved: Achieved,
    scheduler: Scheduler,
    *,
    pool_bytes: float,
    host_cache_bytes: float = 0.0,
    overlaps: bool = False,
    speculative: Speculative | None = None,
    served: float = 1.0,
) -> Replica:
    """Simulated replica from its work, one row of coefficients, and its scheduler.

    Parameters:
        pool_bytes: KV pool of one device of a rank, bytes.
        host_cache_bytes: host memory of such a device for cached prefixes, bytes.
        overlaps: whether the chunks of one prompt follow each other through pipeline stages.
        served: 1 where requests arrive through a server, else 0.
    """
    ranks = int(work.at_contexts.data_parallel[0])
    most = int(min(scheduler.max_sequences, MAX_SEQUENCES_PER_RANK)) * ranks
    with suspend_recording():
        terms = speculating_terms(work, achieved, speculative, served)
        pair = prefill_terms(work.pair, repeat_coefficients(achieved, work.pair), served=served)
        scores_s = prompt_attention_s(work.prompts, work.prompts.rates, repeat_coefficients(achieved, work.prompts))
        first = replace(repeat_terms(terms, 1), stream_token_s=np.zeros(1))
        decode = step_s(repeat_terms(first, most + 1), np.maximum(np.ceil(np.arange(most + 1.0) / ranks), 1.0))
        tokens = linear_grid(most, ranks, int(scheduler.max_batched_tokens), pair, first)
        linear = linear_by_tokens(first, pair, tokens / ranks)
    verified = (
        1 + terms.drafted_tokens * terms.draft_share
    ) / terms.accepted_tokens_per_step  # passes over a context per output token
    attention = piecewise_linear(work.contexts, terms.attention_slope_s * verified)
    cache = piecewise_linear(work.contexts, work.cache_bytes)
    return Replica(
        **scheduler_fields(scheduler, ranks),
        **prompt_seconds(pair, 0.0 if first.host is not None else float(first.linear_slope_s[0])),
        max_sequences=most,
        decode_s=round_to_resolution_s(decode),
        linear_s=round_to_resolution_s(linear),
        linear_exact=most,
        linear_stride=STRIDE * ranks,
        prompt_attention_s=scores_s / work.prompts.prompt_tokens,
        stages=int(work.at_contexts.pipeline_parallel[0]),
        ranks=ranks,
        pooled_share=float(pair.pooled_share[0]),
        stages_overlap=overlaps,
        attention_token_s=attention.token / ranks,
        window_tokens=work.contexts[1:-1].astype(np.int64),
        window_attention_s=attention.windows / ranks,
        cache_fixed_bytes=cache.fixed,
        cache_token_bytes=cache.token,
        window_cache_bytes=cache.windows,
        cache_bytes=float(pool_bytes) * ranks,
        host_cache_bytes=float(host_cache_bytes) * ranks,
        swap_token_s=cache.token / SWAP_BYTES_PER_S,
        stream_token_s=float(terms.stream_token_s[0]) / ranks,
    )


def scheduler_fields(scheduler: Scheduler, ranks: int) -> dict[str, Any]:
    """Scheduler fields of a replica; budgets of one rank become those of all ranks together."""
    reserves = scheduler.preemption is Preemption.NONE
    return {
        "policy": POLICY_CODES[scheduler.policy],
        "chunked": scheduler.chunked,
        "max_batched_tokens": int(scheduler.max_batched_tokens) * ranks,
        "preemption": PREEMPTION_CODES[scheduler.preemption],
        "receive_interval_steps": scheduler.receive_interval_steps,
        "batch_wait_steps": scheduler.batch_wait_steps,
        "batch_wait_share": float(scheduler.batch_wait_share),
        "planning_lag_steps": scheduler.planning_lag_steps,
        "graph_tokens": int(scheduler.graph_tokens) * ranks,
        "output_reserve_share": 1.0 if reserves else float(scheduler.output_reserve_share),
    }


def prompt_seconds(pair: PrefillTerms, decode_token_s: float) -> dict[str, Any]:
    """Prompt times without attention, by field name of a replica.

    `decode_token_s` is the multiplication time of one decode token, to which prompt tokens are converted; 0 where
    linear layers are timed by prompts.
    """
    each = float(np.diff(pair.prompt_linear_s)[0] / (DOUBLE_PROMPT_TOKENS - PROMPT_TOKENS))
    slope = decode_token_s or max(each, MIN_LINEAR_S)
    return {
        "prompt_equivalent": each / slope,
        "prompt_fixed_tokens": max(float(pair.prompt_linear_s[0]) - each * PROMPT_TOKENS, 0.0) / slope,
        "padding_equivalent": float(pair.padding_s[0] * pair.data_parallel[0]) / slope,
        "expert_share": float(pair.expert_share[0]),
        "prompt_token_s": float(pair.prompt_links_s[0] / PROMPT_TOKENS),
        "prompt_step_s": float(pair.prefill_links_s[0]),
        "dispatch_s": float(pair.dispatch_s[0]),
        "graph_dispatch_s": float(pair.graph_dispatch_s[0]),
        "ingest_s": float(pair.request_s[0]),
        "tokenise_token_s": float(pair.tokenise_s[0] / PROMPT_TOKENS),
    }


def repeat_coefficients(achieved: Achieved, work: Columns) -> Achieved:
    """The one row of coefficients, repeated for every row of a table."""
    return achieved.take(np.zeros(len(work), np.int64))


def speculating_terms(
    work: ReplicaWork, achieved: Achieved, speculative: Speculative | None, served: float
) -> StepTerms:
    """Decode step terms at every context, with speculative decoding where requested."""
    terms = step_terms(work.at_contexts, repeat_coefficients(achieved, work.at_contexts), served=served)
    return with_speculative_decoding(terms, work.model, speculative)


def linear_grid(most: int, ranks: int, max_batched_tokens: int, pair: PrefillTerms, first: StepTerms) -> Column:
    """Token counts at which a step's linear layers are timed: every number of sequences, then every 64th per rank."""
    stride, each = (
        STRIDE * ranks,
        float(pair.prompt_linear_s[0] / PROMPT_TOKENS / max(first.linear_slope_s[0], MIN_LINEAR_S)),
    )
    longest = ranks * max_batched_tokens * max(1.0, each)
    return np.append(np.arange(most + 1.0), most + stride * np.arange(1.0, longest / stride + 2))


def linear_by_tokens(first: StepTerms, pair: PrefillTerms, tokens: Column) -> Column:
    """Time of a step's linear layers at each token count, s.

    Decode tokens are timed where all weights are on the accelerators. Prompt tokens are timed where a host computes
    part of them, because it moves them for many tokens.
    """
    if first.host is None:
        terms = repeat_terms(first, len(tokens))
        return linear_s(*multiply_and_read_s(terms, tokens), terms.exponent)
    prompt = pair.take(np.zeros(len(tokens), np.int64))
    return step_linear_s(prompt, tokens / PROMPT_TOKENS)
