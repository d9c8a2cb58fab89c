"""KV cache on a device: sequences of any length, and the prefixes that idle sessions leave in the cache."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Column, Columns
from app.sizing.formula import formula, trace_label
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.serving.plans import Plans, layer_groups
from app.sizing.workload import InferenceWorkload


@dataclass(frozen=True, slots=True)
class Prefixes(Columns):
    """Prefixes that the next turns of idle sessions will read, on one device."""

    own_bytes: Column  # prefix of one session beyond the shared part, B
    shared_bytes: Column  # prefix that all sessions share, B
    turn_gap_s: float  # pause between two turns of a session, s


@formula(unit="B", source="Kwon et al. 2023 (arXiv:2309.06180)")
def cache_bytes_of_layers(
    earlier_layers_bytes: Column,
    layers: float,
    held_elements: float,
    kv_element_bytes: Column,
    kv_heads: float,
    tensor_parallel: Column,
    context_parallel: Column,
    pipeline_parallel: Column,
) -> Column:
    """Cache of one sequence on one device in the layer groups counted so far.

    Tensor-parallel ranks share the heads, pipeline stages the layers, and context-parallel ranks the tokens of a
    head.

    Parameters:
        earlier_layers_bytes: bytes from the layer groups counted before, B.
        layers: layers in this group.
        held_elements: cache elements of one sequence in one layer.
        kv_element_bytes: bytes per element of the cache format.
        kv_heads: KV heads of a layer.
        tensor_parallel: tensor-parallel ranks.
        context_parallel: ranks that share the tokens of a sequence's cache.
        pipeline_parallel: pipeline stages.
    Limits: ranks beyond the number of parts keep copies.
    Check:
        >>> one(cache_bytes_of_layers(col(0), 40, 2 * 40 * 128, col(2), 40, col(1), col(1), col(1)))  # OPT-13B, a token
        819200.0
        >>> one(cache_bytes_of_layers(col(0), 61, 576, col(2), 1, col(8), col(8), col(1)))  # DeepSeek-R1: an eighth
        8784.0
    """
    ranks = np.minimum(kv_heads * context_parallel, tensor_parallel)
    return earlier_layers_bytes + layers * held_elements * kv_element_bytes / (ranks * pipeline_parallel)


@formula(unit="B", source="counted from the model configuration")
def cache_bytes_per_sequence(
    cache_bytes_of_layers: Column, model: ModelArchitecture, tensor_parallel: Column, pipeline_parallel: Column
) -> Column:
    """Cache of one sequence on one device: keys and values of attention layers, and states of recurrent layers.

    Parameters:
        cache_bytes_of_layers: KV cache of all attention layers, B.
        model: model architecture, which gives the recurrent states of a sequence.
        tensor_parallel: tensor-parallel ranks that split the states.
        pipeline_parallel: pipeline stages.
    Limits: layers are spread evenly over pipeline stages.
    Check: 100 MB of KV cache and 8 MB of states over four ranks.
        >>> cache_bytes_per_sequence(100e6, row(state_bytes_per_sequence=8e6), 4, 1)
        102000000.0
    """
    return cache_bytes_of_layers + model.state_bytes_per_sequence / (tensor_parallel * pipeline_parallel)


def cache_bytes(model: ModelArchitecture, context_tokens: float, plans: Plans) -> Column:
    """Cache of one sequence of `context_tokens` on one device of every plan, B."""
    total = np.zeros(len(plans))
    for label, group in layer_groups(model):
        with trace_label(label):
            total = cache_bytes_of_layers(
                total,
                group.layers,
                group.cached_elements(context_tokens),
                plans.kv_element_bytes,
                float(group.kv_heads),
                plans.tensor_parallel,
                plans.context_parallel,
                plans.pipeline_parallel,
            )
    return cache_bytes_per_sequence(total, model, plans.tensor_parallel, plans.pipeline_parallel)


@formula(unit="tokens", source="renewal theory (length-biased sampling)")
def length_biased_output_tokens(output_tokens: float, output_variation: float) -> float:
    """Mean final output of the sequences that run at a given moment; on average they have generated half of it.

    Long outputs run longer, so a snapshot contains more of them (length-biased sampling).

    Parameters:
        output_tokens: mean output of all requests.
        output_variation: squared coefficient of variation of output lengths.
    Limits: tokens come at a constant rate.
    Check:
        >>> length_biased_output_tokens(200.0, 0.25)
        250.0
    """
    return output_tokens * (1 + output_variation)


@formula(unit="B", source="paged attention, Kwon et al. 2023 (arXiv:2309.06180); documentation of the engines")
def mean_cache_bytes(half_bytes: Column, whole_bytes: Column, output_reserve_share: Column) -> Column:
    """Mean cache of a running sequence: what it has written, and the share of the rest that the engine reserves.

    Parameters:
        half_bytes: cache of a sequence with half of its output, B.
        whole_bytes: cache of a sequence with its whole output, B.
        output_reserve_share: share of the remaining output that the engine reserves; 0 with paged attention.
    Limits: a steady state.
    Check: halfway between 1.0 and 1.2 GB if half of the rest is reserved.
        >>> round(mean_cache_bytes(1.0e9, 1.2e9, 0.5))
        1100000000
    """
    return half_bytes + output_reserve_share * (whole_bytes - half_bytes)


def sequence_cache_bytes(
    model: ModelArchitecture,
    plans: Plans,
    final_tokens: float,
    output_tokens: float,
    output_variation: float,
    longest_tokens: float,
) -> tuple[Column, Column, Column]:
    """Cache of a request at its end, its mean over running requests, and the cache of the longest context, B."""
    final = cache_bytes(model, final_tokens, plans)
    prompt, aged = final_tokens - output_tokens, length_biased_output_tokens(output_tokens, output_variation)
    with trace_label("half of the output generated"):
        half = cache_bytes(model, prompt + aged / 2, plans)
    with trace_label("whole output generated"):
        whole = cache_bytes(model, prompt + aged, plans)
    with trace_label("longest context"):
        longest = cache_bytes(model, longest_tokens, plans)
    rules = plans.scheduling_rules
    return (
        final,
        mean_cache_bytes(half, whole, np.where(rules.reserves_whole_request, 1.0, rules.output_reserve_share)),
        longest,
    )


def idle_session_prefixes(workload: InferenceWorkload, plans: Plans) -> Prefixes | None:
    """Prefixes of idle sessions on every plan; None if the workload does not keep them.

    A session's own part includes the last window of sliding-window layers and one state of recurrent layers.
    """
    if not workload.keeps_prefixes:
        return None
    model, prompt, shared = workload.model, workload.input_tokens.mean, workload.shared_prefix_fraction
    own_bytes = shared_bytes = np.zeros(len(plans))
    if workload.cached_prefix_fraction > shared:
        with trace_label("prefix of one session"):
            own_bytes = cache_bytes(model, prompt * (workload.cached_prefix_fraction - shared), plans)
    if shared > 0:
        with trace_label("prefix shared by all sessions"):
            shared_bytes = cache_bytes(model, prompt * shared, plans)
    return Prefixes(own_bytes, shared_bytes, workload.turn_gap_s)
