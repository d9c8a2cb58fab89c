"""Time of one engine step on one replica: a roofline of the work that is really done, plus overheads.

A decode step over B sequences is

    linear(B) = ((B * linear_slope)^p + (dense + experts * touched(B))^p)^(1/p)
    step(B)   = linear(B) + B * sequence_slope + fixed

with everything that does not depend on B computed once per plan, so that the search may ask for
many batch sizes at almost no cost.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Column, Columns
from app.sizing.communication import LinkRates, achieved_bytes_per_s, all_reduce_s
from app.sizing.model import ModelArchitecture
from app.sizing.plan import Plans


@dataclass(frozen=True, slots=True)
class StepTerms(Columns):
    """Decode-step terms of a plan, in seconds (per sequence where it says slope)."""

    linear_slope_s: Column  # matrix FLOPs of one sequence over the achieved rate
    dense_s: Column  # reading dense weights once
    experts_s: Column  # reading all routed experts once
    attention_slope_s: Column  # cache of one sequence
    attention_fixed_s: Column
    collective_slope_s: Column
    collective_fixed_s: Column
    host_slope_s: Column
    host_fixed_s: Column
    exponent: Column
    pipeline_parallel: Column
    expert_share: float  # experts per token over experts; 0 for dense models


def touched_experts(batch: Column, expert_share: float) -> Column:
    """Share of the routed experts that a batch of tokens touches, routing evenly.

    Check: 8 of 256 experts, 32 tokens: 1 - (1 - 1/32)^32 = 0.638.
    """
    if expert_share <= 0:
        return np.zeros_like(batch)
    if expert_share >= 1:
        return np.ones_like(batch)
    share: Column = -np.expm1(batch * np.log1p(-expert_share))
    return share


def smooth_maximum(a: Column, b: Column, exponent: Column) -> Column:
    """(a^p + b^p)^(1/p): the roofline with a rounded knee, since neither bound saturates there."""
    high, low = np.maximum(a, b), np.minimum(a, b)
    ratio = low / np.maximum(high, 1e-30)
    return high * np.exp2(np.log2(1.0 + ratio**exponent) / exponent)


def step_terms(model: ModelArchitecture, plans: Plans, rates: LinkRates, *, context_tokens: float) -> StepTerms:
    """Everything of a decode step that does not depend on the batch.

    Limits: a batch is spread evenly over pipeline stages; experts are routed evenly; two
    all-reduces per layer; MLA's latent cache is read in full by every tensor-parallel rank.
    """
    tp, s = plans.tensor_parallel, plans.s
    memory = plans.bytes_per_s * s.linear_memory_fraction
    cache = np.zeros(len(plans))
    for g in model.attention:
        heads = np.minimum(float(g.kv_heads), tp)
        cache += g.layers * g.read_elements(context_tokens) * plans.kv_element_bytes / heads
    cache += 2 * model.state_bytes_per_sequence / tp
    by_bytes = cache / (plans.bytes_per_s * s.attention_memory_fraction)
    flops = model.decode_attention_flops(context_tokens) + model.recurrent_flops_per_token
    by_flops = flops / tp / (plans.bit16_flops_per_s * s.attention_compute_fraction)
    layers = float(model.num_layers)
    link_bytes = achieved_bytes_per_s(plans.c.m.link, plans.c.m.link_bytes_per_s, rates)
    one_hidden = 2.0 * model.hidden_size
    fixed = np.where(tp > 1, 2 * layers * rates.latency_s[plans.c.m.link], 0.0)
    slope = np.where(tp > 1, 2 * layers * 2 * (tp - 1) / tp * one_hidden / link_bytes, 0.0)
    hops = plans.pipeline_parallel - 1
    across = (plans.nodes_per_replica > 1) & (plans.accelerators_per_replica > plans.c.m.domain)
    network = np.where(np.isnan(plans.c.m.network_bytes_per_s), 1e9, plans.c.m.network_bytes_per_s)
    hop_bytes = np.where(across, network * rates.network_fraction, np.minimum(link_bytes, 1e15))
    fixed = fixed + hops * np.where(across, rates.network_latency_s, rates.latency_s[plans.c.m.link])
    slope = slope + hops * one_hidden / hop_bytes
    return StepTerms(
        linear_slope_s=2 * model.matmul_params / tp / (plans.linear_flops_per_s * s.linear_compute_fraction),
        dense_s=plans.streamed_bytes / tp / memory,
        experts_s=plans.expert_bytes / tp / memory,
        attention_slope_s=np.maximum(by_bytes, by_flops),
        attention_fixed_s=layers * s.attention_latency_s,
        collective_slope_s=slope,
        collective_fixed_s=fixed,
        host_slope_s=s.sequence_overhead_s,
        host_fixed_s=layers * s.layer_overhead_s + s.step_overhead_s,
        exponent=s.roofline_exponent,
        pipeline_parallel=plans.pipeline_parallel,
        expert_share=model.experts_per_token / model.num_experts if model.is_moe else 0.0,
    )


def linear_s(terms: StepTerms, batch: Column) -> Column:
    """Linear layers of one step: FLOPs against bytes, knee rounded."""
    read = terms.dense_s + terms.experts_s * touched_experts(batch, terms.expert_share)
    return smooth_maximum(batch * terms.linear_slope_s, read, terms.exponent)


def decode_step_s(terms: StepTerms, batch: Column) -> Column:
    """Seconds in which `batch` sequences each gain one token.

    With a pipeline the batch runs as one micro-batch per stage, each passing every stage.
    Check: 16 GB of weights on a device that achieves 2.9 TB/s is at least 5.5 ms.
    """
    micro = np.maximum(1.0, batch / terms.pipeline_parallel)
    slope = terms.attention_slope_s + terms.collective_slope_s
    return (
        linear_s(terms, micro)
        + micro * slope
        + batch * terms.host_slope_s
        + terms.attention_fixed_s
        + terms.collective_fixed_s
        + terms.host_fixed_s
    )


@dataclass(frozen=True, slots=True)
class PrefillTerms(Columns):
    """Prefill of one prompt, in seconds."""

    linear_s: Column
    attention_s: Column
    collective_s: Column
    dispatch_s: Column  # host time to launch the layers, hidden unless it is longer
    request_s: Column

    @property
    def device_s(self) -> Column:
        """How long the prompt occupies the replica."""
        return np.maximum(self.linear_s + self.attention_s + self.collective_s, self.dispatch_s)


def prefill_terms(
    model: ModelArchitecture,
    plans: Plans,
    rates: LinkRates,
    *,
    prompt_tokens: float,
    cached_tokens: float = 0.0,
    encoder_flops: float = 0.0,
) -> PrefillTerms:
    """Time to process one prompt of which `cached_tokens` are already in the cache.

    The head multiplies only the last token; `encoder_flops` are those of the images that come with it. Attention's achieved fraction grows with the prompt:
    f * s / (s + s_half). Check: Llama-3.1-8B, 1024 tokens: 2 * 7.50e9 * 1024 = 15.4 TFLOP of
    matrices, 19 ms at 801 TFLOP/s.
    """
    tp, s = plans.tensor_parallel, plans.s
    new = max(1.0, prompt_tokens - cached_tokens)
    flops = 2 * model.prompt_matmul_params * new + 2 * model.head_matmul_params + model.recurrent_flops_per_token * new + encoder_flops
    by_flops = flops / tp / (plans.linear_flops_per_s * s.linear_compute_fraction)
    share = model.experts_per_token / model.num_experts if model.is_moe else 0.0
    touched = touched_experts(np.full(len(plans), new), share)
    by_bytes = (plans.streamed_bytes + plans.expert_bytes * touched) / tp / (plans.bytes_per_s * s.linear_memory_fraction)
    scores = model.prefill_attention_flops(prompt_tokens) - (model.prefill_attention_flops(cached_tokens) if cached_tokens > 0 else 0.0)
    fraction = s.attention_compute_fraction * prompt_tokens / (prompt_tokens + s.attention_half_length_tokens)
    layers = float(model.num_layers)
    link_bytes = achieved_bytes_per_s(plans.c.m.link, plans.c.m.link_bytes_per_s, rates)
    message = np.full(len(plans), new * 2.0 * model.hidden_size)
    collective = 2 * layers * all_reduce_s(message, tp, link_bytes, rates.latency_s[plans.c.m.link])
    return PrefillTerms(
        linear_s=smooth_maximum(by_flops, by_bytes, s.roofline_exponent),
        attention_s=scores / tp / (plans.bit16_flops_per_s * fraction),
        collective_s=collective,
        dispatch_s=layers * s.prefill_layer_overhead_s,
        request_s=s.request_overhead_s,
    )
