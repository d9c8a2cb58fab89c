"""Time of one engine step on one replica: a roofline of the work that is really done, plus overheads.

A decode step over B sequences is

    linear(B) = ((B * linear_slope)^p + (dense + experts * touched(B))^p)^(1/p)
    step(B)   = linear(B) + B * sequence_slope + fixed

with everything that does not depend on B computed once per plan, so that the search may ask for
many batch sizes at almost no cost. Work (FLOPs, bytes, messages of one device) knows no speed;
terms are work over the device's rates times the achieved fractions. The fit of those fractions to
measurements goes through the same functions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from app.sizing.columns import Column, Columns
from app.sizing.hardware.achieved import Achieved
from app.sizing.hardware.links import all_reduce_s
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.question import Speculative
from app.sizing.serving.communication import LinkUse, link_use
from app.sizing.serving.plans import Plans


@dataclass(frozen=True, slots=True)
class DeviceRates(Columns):
    """What a device's data sheet gives."""

    linear_flops_per_s: Column  # in the format that the matrices are multiplied in
    bit16_flops_per_s: Column
    bytes_per_s: Column


@dataclass(frozen=True, slots=True)
class StepWork(Columns):
    """One decode step on one device, whatever its speed; per sequence where it says so."""

    linear_flops: Column  # of one sequence
    dense_bytes: Column
    expert_bytes: Column  # all routed experts
    expert_share: Column  # experts per token over experts; 0 for dense models
    cache_bytes: Column  # of one sequence
    cache_flops: Column  # of one sequence
    layers: Column
    moe_layers: Column
    hidden_bytes: Column  # one sequence's activations between layers
    tensor_parallel: Column
    pipeline_parallel: Column
    rates: DeviceRates
    link: LinkUse


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
    expert_share: Column
    drafted: float = 0.0  # tokens a step verifies beside the one it would compute anyway
    draft_share: float = 0.0  # work of drafting one of them, of a plain step's
    gained: float = 1.0  # tokens a sequence gains per step


def touched_experts(batch: Column, expert_share: Column) -> Column:
    """Share of the routed experts that a batch of tokens touches, routing evenly.

    Check: 8 of 256 experts, 32 tokens: 1 - (1 - 1/32)^32 = 0.638.
    """
    share = np.minimum(expert_share, 1 - 1e-12)
    touched: Column = -np.expm1(batch * np.log1p(-share))
    return touched


def smooth_maximum(a: Column, b: Column, exponent: Column) -> Column:
    """(a^p + b^p)^(1/p): the roofline with a rounded knee, since neither bound saturates there."""
    high, low = np.maximum(a, b), np.minimum(a, b)
    ratio = low / np.maximum(high, 1e-30)
    return high * np.exp2(np.log2(1.0 + ratio**exponent) / exponent)


def device_rates(plans: Plans) -> DeviceRates:
    return DeviceRates(plans.linear_flops_per_s, plans.bit16_flops_per_s, plans.bytes_per_s)


def expert_share_of(model: ModelArchitecture) -> float:
    """Experts per token over experts; 0 for dense models."""
    return model.experts_per_token / model.num_experts if model.is_moe else 0.0


def step_work(model: ModelArchitecture, plans: Plans, *, context_tokens: float) -> StepWork:
    """What one decode step does on one device of every plan.

    Limits: a batch is spread evenly over pipeline stages; experts are routed evenly; MLA's latent
    cache is read in full by every tensor-parallel rank.
    """
    tp, n = plans.tensor_parallel, len(plans)
    cache = np.zeros(n)
    for g in model.attention:
        heads = np.minimum(float(g.kv_heads), tp)
        cache += g.layers * g.read_elements(context_tokens) * plans.kv_element_bytes / heads
    return StepWork(
        linear_flops=2 * model.matmul_params / tp,
        dense_bytes=plans.streamed_bytes / tp,
        expert_bytes=plans.expert_bytes / tp,
        expert_share=np.full(n, expert_share_of(model)),
        cache_bytes=cache + 2 * model.state_bytes_per_sequence / tp,
        cache_flops=(model.decode_attention_flops(context_tokens) + model.recurrent_flops_per_token) / tp,
        layers=np.full(n, float(model.num_layers)),
        moe_layers=np.full(n, float(model.moe_layers)),
        hidden_bytes=np.full(n, 2.0 * model.hidden_size),
        tensor_parallel=tp,
        pipeline_parallel=plans.pipeline_parallel,
        rates=device_rates(plans),
        link=link_use(plans),
    )


def speculating(terms: StepTerms, model: ModelArchitecture, option: Speculative | None) -> StepTerms:
    """The same terms with tokens drafted and verified together, where that is asked for."""
    if option is None:
        return terms
    return replace(
        terms, drafted=float(option.draft_tokens), draft_share=option.draft_share(model), gained=option.tokens_per_step
    )


def step_terms(work: StepWork, k: Achieved) -> StepTerms:
    """Everything of a decode step that does not depend on the batch; two all-reduces per layer.

    Check: 16 GB of weights at 0.87 of 3.35 TB/s are read in 5.5 ms.
    """
    tp, rates, link = work.tensor_parallel, work.rates, work.link
    memory = rates.bytes_per_s * k.linear_memory_fraction
    by_bytes = work.cache_bytes / (rates.bytes_per_s * k.attention_memory_fraction)
    by_flops = work.cache_flops / (rates.bit16_flops_per_s * k.attention_compute_fraction)
    count = 2 * work.layers
    hops = work.pipeline_parallel - 1
    shared = tp > 1
    return StepTerms(
        linear_slope_s=work.linear_flops / (rates.linear_flops_per_s * k.linear_compute_fraction),
        dense_s=work.dense_bytes / memory,
        experts_s=work.expert_bytes / (memory * k.expert_memory_fraction),
        attention_slope_s=np.maximum(by_bytes, by_flops),
        attention_fixed_s=work.layers * k.attention_latency_s,
        collective_slope_s=np.where(shared, count * all_reduce_s(work.hidden_bytes, tp, link.bytes_per_s(k)), 0.0)
        + hops * work.hidden_bytes / link.hop_bytes_per_s(k),
        collective_fixed_s=np.where(shared, count * link.latency_s(k), 0.0) + hops * link.hop_latency_s(k),
        host_slope_s=k.sequence_overhead_s,
        host_fixed_s=work.layers * k.layer_overhead_s + work.moe_layers * k.moe_layer_overhead_s + k.step_overhead_s,
        exponent=k.roofline_exponent,
        pipeline_parallel=work.pipeline_parallel,
        expert_share=work.expert_share,
    )


def linear_s(terms: StepTerms, batch: Column) -> Column:
    """Linear layers of one step: FLOPs against bytes, knee rounded."""
    read = terms.dense_s + terms.experts_s * touched_experts(batch, terms.expert_share)
    return smooth_maximum(batch * terms.linear_slope_s, read, terms.exponent)


def decode_step_s(terms: StepTerms, batch: Column) -> Column:
    """Seconds in which `batch` sequences each gain one token.

    With a pipeline the batch runs as one micro-batch per stage, each passing every stage. A speculating
    step multiplies every drafted token too, reads weights and cache once, and gains several tokens.
    Check: 16 GB of weights on a device that achieves 2.9 TB/s is at least 5.5 ms.
    """
    if not terms.drafted:
        return forward_s(terms, batch, 1.0)
    drafting = terms.drafted * terms.draft_share * forward_s(terms, batch, 1.0)
    return (forward_s(terms, batch, 1.0 + terms.drafted) + drafting) / terms.gained


def forward_s(terms: StepTerms, batch: Column, tokens: float) -> Column:
    """Seconds of one pass over `batch` sequences with `tokens` new tokens each."""
    micro = np.maximum(1.0, batch / terms.pipeline_parallel)
    slope = terms.attention_slope_s + tokens * terms.collective_slope_s
    return (
        linear_s(terms, micro * tokens)
        + micro * slope
        + batch * terms.host_slope_s
        + terms.attention_fixed_s
        + terms.collective_fixed_s
        + terms.host_fixed_s
    )
