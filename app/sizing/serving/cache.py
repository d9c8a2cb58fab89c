"""What caches take of a device: sequences at any length, and the prefixes that idle sessions leave behind."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Column, Columns
from app.sizing.formula import formula, told_as
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.serving.plans import Plans, layer_groups
from app.sizing.workload import InferenceWorkload


@dataclass(frozen=True, slots=True)
class Prefixes(Columns):
    """What the next turns of idle sessions will read: bytes on one device."""

    own_bytes: Column  # of each session
    shared_bytes: Column  # of what every session begins with
    turn_gap_s: float


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
    """Cache of one sequence in the layers so far: heads split over tensor-parallel ranks, layers over stages, and the
    tokens of a head over context-parallel ones.

    Source: counted. Limits: heads are copied once there are more ranks than parts.
    Check:
        >>> one(cache_bytes_of_layers(col(0), 40, 2 * 40 * 128, col(2), 40, col(1), col(1), col(1)))  # OPT-13B, a token
        819200.0
        >>> one(cache_bytes_of_layers(col(0), 61, 576, col(2), 1, col(8), col(8), col(1)))  # DeepSeek-R1: an eighth
        8784.0
    """
    ranks = np.minimum(kv_heads * context_parallel, tensor_parallel)
    return earlier_layers_bytes + layers * held_elements * kv_element_bytes / (ranks * pipeline_parallel)


@formula(unit="B", source="counts of the configuration")
def cache_bytes_per_sequence(
    cache_bytes_of_layers: Column, model: ModelArchitecture, tensor_parallel: Column, pipeline_parallel: Column
) -> Column:
    """Cache of one sequence on one device: keys and values of attention, and states of recurrent layers.

    Source: counted. Limits: layers are spread evenly over pipeline stages.
    """
    return cache_bytes_of_layers + model.state_bytes_per_sequence / (tensor_parallel * pipeline_parallel)


def cache_bytes(model: ModelArchitecture, context_tokens: float, plans: Plans) -> Column:
    """Cache of one sequence of so many tokens on one device of every plan."""
    total = np.zeros(len(plans))
    for label, group in layer_groups(model):
        with told_as(label):
            total = cache_bytes_of_layers(
                total,
                group.layers,
                group.held_elements(context_tokens),
                plans.kv_element_bytes,
                float(group.kv_heads),
                plans.tensor_parallel,
                plans.context_parallel,
                plans.pipeline_parallel,
            )
    return cache_bytes_per_sequence(total, model, plans.tensor_parallel, plans.pipeline_parallel)


@formula(unit="tokens", source="what runs at a time has run the longer the longer it takes")
def aged_output_tokens(output_tokens: float, output_variation: float) -> float:
    """Mean output of what runs at a time, of which a half is there; `output_variation` is the squared one of lengths.

    Source: renewal theory. Limits: tokens come at one pace.
    Check:
        >>> aged_output_tokens(200.0, 0.25)
        250.0
    """
    return output_tokens * (1 + output_variation)


@formula(unit="B", source="documentation of the engines on what is set aside")
def held_bytes(half_bytes: Column, whole_bytes: Column, output_reserve_share: Column) -> Column:
    """Cache of one sequence in the mean while it runs: what is there, and the share of the rest that is set aside.

    Source: Kwon et al. 2023 (arXiv:2309.06180) for blocks given as a sequence grows. Limits: a steady state.
    """
    return half_bytes + output_reserve_share * (whole_bytes - half_bytes)


def caches_of(
    model: ModelArchitecture,
    plans: Plans,
    final_tokens: float,
    output_tokens: float,
    output_variation: float,
    longest_tokens: float,
) -> tuple[Column, Column, Column]:
    """Cache of a request at its end, in the mean over what runs, and of the longest context."""
    final = cache_bytes(model, final_tokens, plans)
    prompt, aged = final_tokens - output_tokens, aged_output_tokens(output_tokens, output_variation)
    with told_as("half of the output there"):
        half = cache_bytes(model, prompt + aged / 2, plans)
    with told_as("the output there"):
        whole = cache_bytes(model, prompt + aged, plans)
    with told_as("longest context"):
        longest = cache_bytes(model, longest_tokens, plans)
    rules = plans.scheduling
    return final, held_bytes(half, whole, np.where(rules.reserves, 1.0, rules.output_reserve_share)), longest


def prefixes_of(workload: InferenceWorkload, plans: Plans) -> Prefixes | None:
    """Prefixes of idle sessions; None where none are waited for.

    The last window of sliding layers and one state of recurrent ones go with a session's own part.
    """
    if not workload.keeps_prefixes:
        return None
    model, prompt, shared = workload.model, workload.input_tokens.mean, workload.shared_prefix_fraction
    own_bytes = shared_bytes = np.zeros(len(plans))
    if workload.cached_prefix_fraction > shared:
        with told_as("prefix of a session"):
            own_bytes = cache_bytes(model, prompt * (workload.cached_prefix_fraction - shared), plans)
    if shared > 0:
        with told_as("prefix that all share"):
            shared_bytes = cache_bytes(model, prompt * shared, plans)
    return Prefixes(own_bytes, shared_bytes, workload.turn_gap_s)
