"""Time of one engine step on one replica: a roofline of the work that is really done, plus overheads.

A decode step over B sequences is

    linear(B) = ((B * linear_slope)^p + (dense + experts * touched(B))^p)^(1/p)
    step(B)   = linear(B) + B * sequence_slope + fixed

with everything that does not depend on B computed once per plan, so that the search may ask for many batch sizes at
almost no cost. Work (FLOPs, bytes, messages of one device) knows no speed; terms are work over the device's rates times
the achieved fractions. The fit of those fractions to measurements goes through the same functions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from app.sizing.columns import Column, Columns
from app.sizing.formula import formula, told_as
from app.sizing.hardware.achieved import Achieved
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.question import Speculative
from app.sizing.serving.communication import LinkSpeed, LinkUse, link_speed, passed_and_waited
from app.sizing.serving.context import Context, context_fixed_s, context_of, context_slope_s
from app.sizing.serving.exchange import Exchange, exchange_fixed_s, exchange_of, exchange_slope_s
from app.sizing.serving.host_weights import (
    HostStep,
    OnHost,
    beside_host_s,
    host_flops_share,
    host_pass_s,
    host_step,
    left_on_accelerators,
    undivided,
)
from app.sizing.serving.plans import Plans, layer_groups
from app.sizing.serving.roofline import smooth_maximum, touched_experts
from app.sizing.serving.streaming import decode_step_s


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
    routed_bytes: Column  # all routed experts
    expert_share: Column  # experts per token over experts; 0 for dense models
    cache_read_bytes: Column  # of one sequence
    cache_flops: Column  # of one sequence
    layers: Column
    reductions: Column  # all-reduces over the devices of a rank
    moe_layers: Column
    latent_layers: Column
    hidden_bytes: Column  # one sequence's activations between layers
    tensor_parallel: Column
    pipeline_parallel: Column
    data_parallel: Column
    exchange: Exchange
    context: Context
    rates: DeviceRates
    link: LinkUse
    host: HostStep | None = None  # its part, where weights lie in its memory


@dataclass(frozen=True, slots=True)
class StepTerms(Columns):
    """Decode-step terms of a plan, in seconds (per sequence where it says slope)."""

    linear_slope_s: Column  # matrix FLOPs of one sequence over the achieved rate
    dense_s: Column  # reading dense weights once
    experts_s: Column  # reading all routed experts once
    attention_slope_s: Column  # cache of one sequence
    attention_fixed_s: Column
    links_slope_s: Column
    links_fixed_s: Column
    host_slope_s: Column
    host_fixed_s: Column
    exponent: Column
    pipeline_parallel: Column
    data_parallel: Column  # ranks whose tokens meet in the layers of experts
    expert_share: Column
    stream_token_s: Column  # of the server in front, for each token of a step; none where nothing is served
    host: HostStep | None = None
    drafted: float = 0.0  # tokens a step verifies beside the one it would compute anyway
    draft_share: float = 0.0  # work of drafting one of them, of a plain step's
    gained: float = 1.0  # tokens a sequence gains per step


@formula(unit="FLOP", source="one multiplication and one addition per weight and token")
def linear_flops(model: ModelArchitecture, tensor_parallel: Column) -> Column:
    """Matrix FLOPs of one sequence's token on one device. Source: counted. Limits: matrices split evenly."""
    return 2 * model.matmul_params / tensor_parallel


@formula(unit="B", source="counts of the configuration")
def dense_bytes(streamed_bytes: Column, tensor_parallel: Column) -> Column:
    """Dense weights that a step reads on one device, pipeline stages passed through. Source: counted. Limits: none."""
    return streamed_bytes / tensor_parallel


@formula(unit="B", source="counts of the configuration")
def routed_bytes(expert_bytes: Column, stage_accelerators: Column) -> Column:
    """All routed experts as they lie on one device. Source: counted. Limits: experts split evenly."""
    return expert_bytes / stage_accelerators


@formula(unit="B", source="Kwon et al. 2023 (arXiv:2309.06180)")
def cache_read_of_layers(
    earlier_layers_read: Column,
    layers: float,
    read_elements: float,
    kv_element_bytes: Column,
    kv_heads: float,
    tensor_parallel: Column,
    context_parallel: Column,
) -> Column:
    """Cache that a step reads of one sequence in the layers so far, per device.

    Source: counted. Limits: what lies in copies is read in full by every rank that keeps one (MLA's latents).
    """
    ranks = np.minimum(kv_heads * context_parallel, tensor_parallel)
    return earlier_layers_read + layers * read_elements * kv_element_bytes / ranks


@formula(unit="B", source="counts of the configuration")
def cache_read_bytes(cache_read_of_layers: Column, model: ModelArchitecture, tensor_parallel: Column) -> Column:
    """Cache that a step reads of one sequence, and recurrent states read and written. Source: counted. Limits: none."""
    return cache_read_of_layers + 2 * model.state_bytes_per_sequence / tensor_parallel


@formula(unit="FLOP", source="counts of the configuration")
def cache_flops(attention_flops: float, model: ModelArchitecture, tensor_parallel: Column) -> Column:
    """Scores and states of one sequence's token on one device. Source: counted. Limits: heads split evenly."""
    return (attention_flops + model.recurrent_flops_per_token) / tensor_parallel


def device_rates(plans: Plans) -> DeviceRates:
    """Data-sheet rates of every plan."""
    return DeviceRates(plans.linear_flops_per_s, plans.bit16_flops_per_s, plans.bytes_per_s)


def expert_share_of(model: ModelArchitecture) -> float:
    """Experts per token over experts; 0 for dense models."""
    return model.experts_per_token / model.num_experts if model.is_moe else 0.0


def step_work(model: ModelArchitecture, plans: Plans, link: LinkUse, *, context_tokens: float) -> StepWork:
    """What one decode step does on one device of every plan.

    Limits: a batch is spread evenly over pipeline stages.
    """
    tp, n = plans.tensor_parallel, len(plans)
    cache = np.zeros(n)
    for label, g in layer_groups(model):
        with told_as(label):
            of_layers = g.layers, g.read_elements(context_tokens), plans.kv_element_bytes, float(g.kv_heads)
            cache = cache_read_of_layers(cache, *of_layers, tp, plans.context_parallel)
    exchange = exchange_of(model, plans)
    with told_as(undivided(plans.on_host)):
        flops, read = linear_flops(model, tp), cache_read_bytes(cache, model, tp)
        scores = cache_flops(model.decode_attention_flops(context_tokens), model, tp)
    work = StepWork(
        linear_flops=flops,
        dense_bytes=dense_bytes(plans.streamed_bytes, tp),
        routed_bytes=routed_bytes(plans.expert_bytes, plans.stage_accelerators),
        expert_share=np.full(n, expert_share_of(model)),
        cache_read_bytes=read,
        cache_flops=scores,
        layers=np.full(n, float(model.num_layers)),
        reductions=2 * float(model.num_layers) - exchange.expert_layers,
        moe_layers=np.full(n, float(model.moe_layers)),
        latent_layers=np.full(n, float(sum(g.layers * g.is_latent for g in model.attention))),
        hidden_bytes=np.full(n, 2.0 * model.hidden_size),
        tensor_parallel=tp,
        pipeline_parallel=plans.pipeline_parallel,
        data_parallel=plans.data_parallel,
        exchange=exchange,
        context=context_of(model, plans),
        rates=device_rates(plans),
        link=link,
    )
    return work if plans.on_host is None else shared_with_host(model, work, plans.on_host)


def shared_with_host(model: ModelArchitecture, work: StepWork, on: OnHost) -> StepWork:
    """The same with the host's part taken out, and told beside it."""
    with told_as("left to the accelerators"):
        with told_as("of matrices"):
            flops = left_on_accelerators(work.linear_flops, host_flops_share(model, on.experts_share, on.layers_share))
        with told_as("of the cache"):
            read = left_on_accelerators(work.cache_read_bytes, on.layers_share)
        with told_as("of attention"):
            scores = left_on_accelerators(work.cache_flops, on.layers_share)
    host = host_step(model, on, work.cache_read_bytes * work.tensor_parallel)
    return replace(work, linear_flops=flops, cache_read_bytes=read, cache_flops=scores, host=host)


def speculating(terms: StepTerms, model: ModelArchitecture, option: Speculative | None) -> StepTerms:
    """The same terms with tokens drafted and verified together, where that is asked for."""
    if option is None:
        return terms
    return replace(
        terms, drafted=float(option.draft_tokens), draft_share=option.draft_share(model), gained=option.tokens_per_step
    )


@formula(unit="s/sequence", source="roofline")
def linear_slope_s(work: StepWork, rates: DeviceRates, achieved: Achieved) -> Column:
    """Multiplying one sequence's token. Source: Williams et al. 2009. Limits: large batches."""
    return work.linear_flops / (rates.linear_flops_per_s * achieved.linear_compute_fraction)


@formula(unit="s", source="roofline")
def dense_s(dense_bytes: Column, rates: DeviceRates, achieved: Achieved) -> Column:
    """Reading dense weights once.

    Source: Williams et al. 2009. Limits: nothing of them stays in on-chip memory.
    Check:
        >>> round(16.06e9 / (3.35e12 * 0.87) * 1e3, 1)  # Llama-3.1-8B in BF16 at 0.87 of an H100's rate, ms
        5.5
    """
    return dense_bytes / (rates.bytes_per_s * achieved.linear_memory_fraction)


@formula(unit="s", source="roofline")
def experts_s(routed_bytes: Column, rates: DeviceRates, achieved: Achieved) -> Column:
    """Reading all routed experts once. Source: Williams et al. 2009. Limits: grouped kernels."""
    return routed_bytes / (rates.bytes_per_s * achieved.linear_memory_fraction * achieved.expert_memory_fraction)


@formula(unit="s/sequence", source="roofline")
def attention_slope_s(work: StepWork, rates: DeviceRates, achieved: Achieved) -> Column:
    """Attention of one sequence over its cache: reading it or multiplying it, whichever takes longer.

    Source: Williams et al. 2009. Limits: paged kernels that read each block once.
    """
    return np.maximum(
        work.cache_read_bytes / (rates.bytes_per_s * achieved.attention_memory_fraction),
        work.cache_flops / (rates.bit16_flops_per_s * achieved.attention_compute_fraction),
    )


@formula(unit="s", source="fitted to measurements")
def attention_fixed_s(work: StepWork, achieved: Achieved) -> Column:
    """Latency of attention's kernels. Source: calibration. Limits: captured graphs."""
    return work.layers * achieved.attention_latency_s


@formula(unit="s", source="fitted to measurements")
def host_fixed_s(work: StepWork, achieved: Achieved) -> Column:
    """Launching and scheduling a step. Source: calibration. Limits: one value per engine and maker."""
    return (
        work.layers * achieved.layer_overhead_s
        + work.moe_layers * achieved.moe_layer_overhead_s
        + work.latent_layers * achieved.latent_layer_overhead_s
        + achieved.step_overhead_s
    )


def step_terms(
    work: StepWork, achieved: Achieved, speed: LinkSpeed | None = None, served: Column | float = 1.0
) -> StepTerms:
    """Everything of a decode step that does not depend on the batch; `served` is 1 where tokens go through a server."""
    rates, links = work.rates, link_speed(work.link, achieved) if speed is None else speed
    degrees = work.tensor_parallel, work.pipeline_parallel
    slope, fixed = passed_and_waited(work.reductions, work.hidden_bytes, *degrees, work.link, links)
    if work.exchange.expert_layers.any():
        slope = slope + exchange_slope_s(work.exchange, work.link)
        fixed = fixed + exchange_fixed_s(work.exchange, links)
    if work.context.layers.any():
        slope = slope + context_slope_s(work.context, links)
        fixed = fixed + context_fixed_s(work.context, links)
    return StepTerms(
        linear_slope_s=linear_slope_s(work, rates, achieved),
        dense_s=dense_s(work.dense_bytes, rates, achieved),
        experts_s=experts_s(work.routed_bytes, rates, achieved),
        attention_slope_s=attention_slope_s(work, rates, achieved),
        attention_fixed_s=attention_fixed_s(work, achieved),
        links_slope_s=slope,
        links_fixed_s=fixed,
        host_slope_s=achieved.sequence_overhead_s,
        host_fixed_s=host_fixed_s(work, achieved),
        exponent=achieved.roofline_exponent,
        pipeline_parallel=work.pipeline_parallel,
        data_parallel=work.data_parallel,
        expert_share=work.expert_share,
        stream_token_s=served * achieved.stream_token_s,
        host=work.host,
    )


@formula(unit="sequences", source="one micro-batch per pipeline stage")
def micro_batch(batch: Column, pipeline_parallel: Column) -> Column:
    """Sequences that one stage computes at a time. Source: counted. Limits: an even spread."""
    return np.maximum(1.0, batch / pipeline_parallel)


@formula(unit="s", source="roofline")
def multiply_s(step_tokens: Column, linear_slope_s: Column) -> Column:
    """Multiplying the tokens of a step. Source: Williams et al. 2009. Limits: as the fractions."""
    return step_tokens * linear_slope_s


@formula(unit="s", source="roofline")
def weights_read_s(dense_s: Column, experts_s: Column, touched_experts: Column) -> Column:
    """Reading the weights that a step's tokens touch. Source: Williams et al. 2009. Limits: even routing."""
    return dense_s + experts_s * touched_experts


@formula(unit="s", source="roofline with a rounded knee")
def linear_s(multiply_s: Column, weights_read_s: Column, exponent: Column) -> Column:
    """Linear layers of one step: FLOPs against bytes. Source: Williams et al. 2009. Limits: they overlap."""
    return smooth_maximum(multiply_s, weights_read_s, exponent)


@formula(unit="s", source="sum of the parts of a step")
def forward_s(
    linear_s: Column, micro_batch: Column, tokens_per_sequence: float, batch: Column, terms: StepTerms
) -> Column:
    """One pass over a batch: each micro-batch passes every stage. Source: counted. Limits: parts do not overlap."""
    slope = terms.attention_slope_s + tokens_per_sequence * terms.links_slope_s
    fixed = terms.attention_fixed_s + terms.links_fixed_s + terms.host_fixed_s
    return linear_s + micro_batch * slope + batch * terms.host_slope_s + fixed


@formula(unit="s", source="Leviathan et al. 2023 (arXiv:2211.17192)")
def engine_step_s(forward_s: Column, plain_forward_s: Column | float, terms: StepTerms) -> Column:
    """Seconds in which each sequence gains one token: a speculating step drafts, verifies, and gains several.

    Source: Leviathan et al. 2023. Limits: drafts are accepted independently.
    """
    return (forward_s + terms.drafted * terms.draft_share * plain_forward_s) / terms.gained


def read_and_multiply(terms: StepTerms, tokens: Column) -> tuple[Column, Column]:
    """Seconds of multiplying so many tokens, and of reading the weights that they touch."""
    read = terms.dense_s
    if terms.experts_s.any():
        touched = touched_experts(tokens * terms.data_parallel, terms.expert_share)
        read = weights_read_s(terms.dense_s, terms.experts_s, touched)
    return multiply_s(tokens, terms.linear_slope_s), read


def pass_s(terms: StepTerms, batch: Column, tokens_per_sequence: float = 1.0) -> Column:
    """Seconds of one pass over `batch` sequences with so many new tokens each."""
    micro = micro_batch(batch, terms.pipeline_parallel)
    tokens = micro if tokens_per_sequence == 1 else micro * tokens_per_sequence
    linear = linear_s(*read_and_multiply(terms, tokens), terms.exponent)
    with told_as("" if terms.host is None else "on the accelerators"):
        forward = forward_s(linear, micro, tokens_per_sequence, batch, terms)
    return forward if terms.host is None else beside_host_s(forward, host_part_s(terms, tokens, micro, batch))


def host_part_s(terms: StepTerms, tokens: Column, micro: Column, batch: Column) -> Column:
    """Seconds that the host takes of a pass; zeros where no weights lie in its memory."""
    if terms.host is None:
        return np.zeros(len(batch))
    with told_as("layers on the host"):
        touched = touched_experts(tokens, terms.expert_share)
    return host_pass_s(terms.host, tokens, touched, micro, batch)


def step_s(terms: StepTerms, batch: Column) -> Column:
    """Seconds in which `batch` sequences each gain one token."""
    plain: Column | float = 0.0
    if terms.drafted:
        with told_as("drafting"):
            plain = pass_s(terms, batch)
    forward = pass_s(terms, batch, 1.0 + terms.drafted)
    return decode_step_s(engine_step_s(forward, plain, terms), batch, terms.stream_token_s)
