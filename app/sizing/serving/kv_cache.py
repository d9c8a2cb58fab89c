"""KV cache of a plan: bytes per token and sequence, and reusable prefixes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Column, Columns, Mask
from app.sizing.formula import formula, trace_label
from app.sizing.model.architecture import AttentionGroup, ModelArchitecture
from app.sizing.serving.drafting import draft_attention
from app.sizing.serving.plans import Plans, layer_groups
from app.sizing.workload import InferenceWorkload


@dataclass(frozen=True, slots=True)
class PrefixCopies(Columns):
    """Copies of cached prefixes in host memory."""

    room_bytes: Column  # host memory of one device, B
    load_s: Column  # time to load the own prefix of a session, s


@dataclass(frozen=True, slots=True)
class Prefixes(Columns):
    """Prefixes that the next turns of idle sessions will read, on one device."""

    own_bytes: Column  # prefix of one session beyond the shared part, B
    shared_bytes: Column  # prefix that all sessions share, B
    turn_gap_s: float  # pause between two turns of a session, s
    host: PrefixCopies | None = None  # copies in host memory; None if they stay on the device

    @property
    def host_room_bytes(self) -> Column:
        """Host memory of one device for copies, B; 0 if they stay on the device."""
        return np.zeros(len(self)) if self.host is None else self.host.room_bytes

    def fit(self, rate_per_s: Column, running_bytes: Column, waiting_bytes: Column, pool_bytes: Column) -> Mask:
        """Whether running sequences and idle prefixes fit in the pool, or in the pool and in host memory.

        The host has a copy of every prefix, and sends that of a session once per request.
        """
        met: Mask = running_bytes + waiting_bytes <= pool_bytes
        if self.host is not None:
            sends = rate_per_s * self.host.load_s <= 1
            met = met | ((running_bytes <= pool_bytes) & (waiting_bytes <= self.host.room_bytes) & sends)
        return met


@formula(unit="s", source="bytes over the rate of the device's slot")
def host_prefix_load_s(own_bytes: Column, load_bytes_per_s: Column) -> Column:
    """Time to load the cached prefix of a session from host memory.

    Parameters:
        own_bytes: prefix of one session on one device, B.
        load_bytes_per_s: rate at which a device copies from host memory, B/s.
    Limits: every hit counts as a load, also of prefixes that are still on the device; no load overlaps with computing.
    Check: 2.9 GB over a slot of 64 GB/s at 0.7 of its rate.
        >>> round(one(host_prefix_load_s(col(2.9e9), col(0.7 * 64e9))) * 1e3, 1)
        64.7
    """
    return own_bytes / load_bytes_per_s


@formula(unit="B", source="Kwon et al. 2023 (arXiv:2309.06180)")
def cache_bytes_of_layers(
    earlier_layers_bytes: Column,
    layers: float,
    held_elements: Column | float,
    kv_element_bytes: Column,
    kv_heads: float,
    tensor_parallel: Column,
    context_parallel: Column,
    pipeline_parallel: Column,
) -> Column:
    """KV cache (MHA, GQA, MLA) of one sequence on one device in the layer groups counted so far.

    With GQA, groups of query heads share a KV head, so `kv_heads` is small. Tensor-parallel ranks share the heads,
    pipeline stages the layers, and context-parallel ranks the tokens of a head.

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
    """Cache of one sequence of `context_tokens` on one device of every plan, that of a draft included, B."""
    total, draft = np.zeros(len(plans)), draft_attention(model, plans.speculative)
    for label, group in layer_groups(model):
        with trace_label(label or ("model" if draft is not None else "")):
            total = add_layers_bytes(total, group, group.cached_elements(context_tokens), plans)
    if draft is not None:
        with trace_label("draft"):
            total = cache_bytes_of_layers(
                total,
                draft.layers,
                draft.cached_elements(context_tokens),
                plans.kv_element_bytes,
                float(draft.kv_heads),
                plans.tensor_parallel,
                plans.context_parallel,
                np.ones(len(plans)),  # all layers of the draft are on one stage
            )
    return cache_bytes_per_sequence(total, model, plans.tensor_parallel, plans.pipeline_parallel)


@formula(unit="1", source="vLLM 0.7: worker/cache_engine.py, VLLM_MLA_CUDA_MEM_ALIGN_KV_CACHE, 2026-11-26")
def latent_padding_factor(kv_elements: float, kv_element_bytes: Column, alignment_bytes: Column) -> Column:
    """Factor by which the cached latents of a token grow where an engine aligns them.

    Parameters:
        kv_elements: elements of a latent.
        kv_element_bytes: bytes per element of the cache format.
        alignment_bytes: multiple to which the engine pads a latent, B; 0 without padding.
    Check: 576 elements of 16 bit are padded from 1,152 to 1,280 bytes.
        >>> latent_padding_factor(576.0, col(2), col(256)).tolist()
        [1.1111111111111112]
    """
    stored = kv_elements * kv_element_bytes
    unit = np.maximum(alignment_bytes, 1.0)
    return np.where(alignment_bytes > 0, np.ceil(stored / unit) * unit / stored, 1.0)


def add_layers_bytes(total: Column, group: AttentionGroup, held_elements: Column | float, plans: Plans) -> Column:
    """Cache bytes counted so far, with those of a group of the model's layers."""
    aligned = plans.memory_rules.latent_alignment_bytes
    if group.is_latent and aligned.any():
        held_elements = held_elements * latent_padding_factor(group.kv_elements, plans.kv_element_bytes, aligned)
    return cache_bytes_of_layers(
        total,
        group.layers,
        held_elements,
        plans.kv_element_bytes,
        float(group.kv_heads),
        plans.tensor_parallel,
        plans.context_parallel,
        plans.pipeline_parallel,
    )


@formula(unit="tokens", source="vLLM: v1/kv_cache_interface.py, SlidingWindowSpec")
def step_tokens_after_window(max_batched_tokens: Column, context_tokens: float, window_tokens: float) -> Column:
    """Tokens of a step that a layer holds in addition to its sliding window while a prompt is read.

    Parameters:
        max_batched_tokens: token budget of one step.
        context_tokens: context of the sequence.
        window_tokens: window of the layer.
    Check: a window of 1,024 in a context of 262,144, with steps of 8,192 tokens.
        >>> step_tokens_after_window(col(8192), 262_144, 1024).tolist()
        [8191.0]
    """
    return np.minimum(max_batched_tokens - 1.0, context_tokens - window_tokens)


@formula(unit="B", source="vLLM: model_executor/layers/deepseek_compressor.py; v1/kv_cache_interface.py, 2026-11-27")
def compressor_states_bytes(
    earlier_bytes: Column, step_state_bytes: float, step_tokens: Column, pipeline_parallel: Column
) -> Column:
    """Bytes counted before, and the states that compressors hold for the tokens of a step on one device.

    Parameters:
        earlier_bytes: cache of a step counted before, B.
        step_state_bytes: states of one token in all layers, B.
        step_tokens: tokens of a step.
        pipeline_parallel: pipeline stages.
    Limits: tensor-parallel ranks keep copies; layouts that pad groups of layers need up to a fifth more.
    Check: DeepSeek-V4-Flash with steps of 8,192 tokens, GB; a fit to start-up logs gives 3.2.
        >>> flash = registered("deepseek-ai/DeepSeek-V4-Flash")
        >>> round(one(compressor_states_bytes(col(0), flash.step_state_bytes, col(8191), col(1))) / 1e9, 2)
        2.74
    """
    return earlier_bytes + step_state_bytes * step_tokens / pipeline_parallel


def longest_sequence_bytes(
    model: ModelArchitecture, longest_tokens: float, max_batched_tokens: Column, plans: Plans
) -> Column:
    """Cache that an engine reserves for the longest context on one device of every plan, B."""
    with trace_label("longest context"):
        longest = cache_bytes(model, longest_tokens, plans)
    holds_step, extra = plans.memory_rules.window_holds_step, np.zeros(len(plans))
    for label, group in layer_groups(model) if holds_step.any() else ():
        if group.window_tokens is not None and group.window_tokens < longest_tokens:
            with trace_label(f"{label}, step" if label else "step"):
                tokens = step_tokens_after_window(max_batched_tokens, longest_tokens, group.window_tokens)
                extra = add_layers_bytes(extra, group, group.cached_elements(1.0) * tokens, plans)
    if model.step_state_bytes and holds_step.any():
        with trace_label("states of a step"):
            tokens = step_tokens_after_window(max_batched_tokens, longest_tokens, 0.0)
            extra = compressor_states_bytes(extra, model.step_state_bytes, tokens, plans.pipeline_parallel)
    return longest + np.where(holds_step, extra, 0.0)


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
) -> tuple[Column, Column]:
    """Cache of a request at its end, and its mean over running requests, B."""
    final = cache_bytes(model, final_tokens, plans)
    prompt, aged = final_tokens - output_tokens, length_biased_output_tokens(output_tokens, output_variation)
    with trace_label("half of the output generated"):
        half = cache_bytes(model, prompt + aged / 2, plans)
    with trace_label("whole output generated"):
        whole = cache_bytes(model, prompt + aged, plans)
    rules = plans.scheduling_rules
    reserve = np.where(rules.reserves_whole_request, 1.0, rules.output_reserve_share)
    return final, mean_cache_bytes(half, whole, reserve)


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
    host = plans.host_prefixes
    if host is None:
        return Prefixes(own_bytes, shared_bytes, workload.turn_gap_s)
    load_s = host_prefix_load_s(own_bytes, host.load_bytes_per_s)
    return Prefixes(own_bytes, shared_bytes, workload.turn_gap_s, PrefixCopies(host.room_bytes, load_s))
