"""Time of one decode step on one replica: roofline of compute and memory reads, overheads, and the server in front.

A decode step over B sequences takes

    linear(B) = ((B * linear_slope)^p + (dense + experts * active(B))^p)^(1/p)
    step(B)   = linear(B) + B * sequence_slope + fixed

Everything that does not depend on B is computed once per plan, so the search can evaluate many batch sizes at almost
no cost. Work (FLOPs, bytes and messages of one device) does not depend on any rate. Times are work divided by the
device's rates times the achieved fractions. Calibration fits those fractions to measurements through the same
functions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from app.sizing.columns import LEAST_S, TINY, Column, Columns
from app.sizing.formula import formula, trace_label
from app.sizing.hardware.achieved import Achieved
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.question import Speculative
from app.sizing.serving.collectives import (
    ContextExchange,
    ExpertExchange,
    LinkSpeed,
    LinkUse,
    build_context_exchange,
    build_expert_exchange,
    context_fixed_s,
    context_slope_s,
    exchange_fixed_s,
    exchange_slope_s,
    link_speed,
    transfer_and_latency_s,
)
from app.sizing.serving.host_weights import (
    HostOffload,
    HostStep,
    host_flops_share,
    host_part_label,
    host_pass_s,
    host_step,
    remaining_on_accelerators,
    with_host_part_s,
)
from app.sizing.serving.plans import Plans, layer_groups
from app.sizing.workload import Load


@formula(unit="1", source="independent draws with even routing")
def active_expert_share(tokens: Column, expert_share: Column) -> Column:
    """Share of the routed experts that a batch of tokens activates.

    Parameters:
        tokens: tokens in the batch.
        expert_share: experts per token divided by all experts of a layer.
    Limits: experts are routed evenly.
    Check:
        >>> round(one(active_expert_share(col(32), col(8 / 256))), 3)  # 1 - (1 - 1/32)^32
        0.638
    """
    share = np.minimum(expert_share, 1 - TINY)
    return -np.expm1(tokens * np.log1p(-share))


@formula(unit="s", source="roofline model (Williams et al. 2009) with a fitted knee; neither bound saturates there")
def smooth_maximum(compute_s: Column, memory_s: Column, exponent: Column) -> Column:
    """Roofline with a rounded knee: (a^p + b^p)^(1/p) for compute time a and memory time b.

    Compute decides where the arithmetic intensity (FLOPs per byte read) exceeds the device's ratio of the two rates.

    Parameters:
        compute_s: compute time a, s.
        memory_s: memory time b, s.
        exponent: fitted sharpness p of the knee.
    Limits: compute and reads overlap.
    Check:
        >>> round(one(smooth_maximum(col(3), col(4), col(2))), 6)
        5.0
    """
    high = np.maximum(compute_s, memory_s)
    ratio = np.minimum(compute_s, memory_s) / np.maximum(high, LEAST_S)
    return high * np.exp2(np.log2(1.0 + ratio**exponent) / exponent)


def uses_server(load: Load) -> float:
    """1 where requests arrive through a server; 0 where the engine's own process has them all beforehand."""
    return float(load in (Load.OPEN, Load.CLOSED))


@formula(unit="s/prompt", source="calibration: fitted to measurements")
def tokenise_s(prompt_tokens: Column, served: Column | float, achieved: Achieved) -> Column:
    """Time that a server works on a prompt before the engine sees it.

    Parameters:
        prompt_tokens: tokens of the prompt.
        served: 1 where requests arrive through a server, else 0.
        achieved: fitted coefficients; `tokenise_token_s` is the time per prompt token, s.
    Limits: one process tokenizes prompts one after another.
    Check:
        >>> round(one(tokenise_s(col(2000), 1.0, row(tokenise_token_s=2e-6))), 6)
        0.004
    """
    return served * prompt_tokens * achieved.tokenise_token_s


@formula(unit="s", source="calibration: one server process streams tokens one after another")
def decode_step_s(engine_step_s: Column, batch: Column, stream_token_s: Column) -> Column:
    """Time of a decode step that is no faster than the server streams its tokens.

    Parameters:
        engine_step_s: decode step of the engine, s.
        batch: sequences that decode.
        stream_token_s: time of the server per streamed token, s.
    Limits: one server process in front of each replica.
    Check:
        >>> one(decode_step_s(col(0.01), col(512), col(50e-6)))
        0.0256
    """
    return np.maximum(engine_step_s, batch * stream_token_s)


@dataclass(frozen=True, slots=True)
class DeviceRates(Columns):
    """Data-sheet rates of one device."""

    linear_flops_per_s: Column  # matrix rate in the format of the multiplication
    bit16_flops_per_s: Column  # matrix rate in 16 bit
    bytes_per_s: Column  # memory bandwidth
    clock_cycle_s: Column  # time per clock cycle of all multiprocessors together; 0 if unknown


@dataclass(frozen=True, slots=True)
class StepWork(Columns):
    """Work of one decode step on one device, independent of its speed; per sequence where stated."""

    linear_flops: Column  # matrix FLOPs per sequence
    dense_bytes: Column  # dense weights that one rank reads, B
    routed_bytes: Column  # all routed experts of a device, B
    expert_share: Column  # experts per token divided by all experts; 0 for dense models
    cache_read_bytes: Column  # KV cache and states read per sequence, B
    cache_flops: Column  # attention and state FLOPs per sequence
    layers: Column
    reductions: Column  # all-reduces per step over the devices of a rank
    moe_layers: Column  # layers with routed experts
    expert_copies: Column  # copies of a sequence's token that one device sends through the experts of a layer
    latent_layers: Column  # layers with latent attention (MLA)
    hidden_bytes: Column  # activations of one token between layers, B
    tensor_parallel: Column
    pipeline_parallel: Column
    data_parallel: Column
    exchange: ExpertExchange  # all-to-all exchange of expert parallelism
    context: ContextExchange  # exchange of context parallelism
    rates: DeviceRates
    link: LinkUse
    host: HostStep | None = None  # the host's part, if weights are in host memory


@dataclass(frozen=True, slots=True)
class StepTerms(Columns):
    """Decode-step times of a plan, in seconds; a `slope` is per sequence in the batch."""

    linear_slope_s: Column  # time to multiply one sequence's token, s
    dense_s: Column  # time to read the dense weights once, s
    experts_s: Column  # time to read all routed experts once, s
    attention_slope_s: Column  # attention over one sequence's cache, s
    attention_fixed_s: Column  # latency of the attention kernels, s
    links_slope_s: Column  # link transfers per token, s
    links_fixed_s: Column  # link latency per step, s
    host_slope_s: Column  # host time per sequence, s
    host_fixed_s: Column  # host time per step, s
    exponent: Column  # sharpness of the roofline's knee
    pipeline_parallel: Column
    data_parallel: Column  # ranks whose tokens share the expert layers
    expert_share: Column
    stream_token_s: Column  # server time per streamed token, s; 0 without a server
    host: HostStep | None = None
    drafted_tokens: float = 0.0  # drafted tokens that a step verifies in addition to the next one
    draft_share: float = 0.0  # time to draft one token, as a share of a plain pass
    accepted_tokens_per_step: float = 1.0  # tokens that a sequence gains per step


@formula(unit="FLOP", source="one multiplication and one addition per parameter and token")
def linear_flops(model: ModelArchitecture, tensor_parallel: Column) -> Column:
    """Matrix FLOPs of one sequence's token on one device.

    Parameters:
        model: model architecture, which gives the parameters that a token multiplies.
        tensor_parallel: tensor-parallel ranks that split the matrices.
    Limits: matrices are split evenly.
    Check: Llama-3.1-8B on one device, GFLOP.
        >>> round(linear_flops(LLAMA_8B, 1) / 1e9, 2)
        15.01
    """
    return 2 * model.matmul_params / tensor_parallel


@formula(unit="B", source="counted from the model configuration")
def dense_bytes(streamed_bytes: Column, tensor_parallel: Column) -> Column:
    """Dense weights that one rank reads per step, over all pipeline stages that the step passes through.

    Parameters:
        streamed_bytes: dense weights of the replica that every step reads, B.
        tensor_parallel: tensor-parallel ranks that split them.
    Check: 16 GB over four ranks.
        >>> dense_bytes(16e9, 4)
        4000000000.0
    """
    return streamed_bytes / tensor_parallel


@formula(unit="B", source="counted from the model configuration")
def routed_bytes(expert_bytes: Column, stage_accelerators: Column) -> Column:
    """Weights of all routed experts stored on one device.

    Parameters:
        expert_bytes: routed experts of the replica, B.
        stage_accelerators: accelerators that share the experts of each layer.
    Limits: experts are split evenly.
    Check: 90 GB over eight accelerators.
        >>> routed_bytes(90e9, 8)
        11250000000.0
    """
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
    """KV cache that one device reads per step and sequence in the layer groups counted so far.

    With GQA, few KV heads serve all query heads, so a token reads less. `AttentionGroup.read_elements` counts the
    elements over the context.

    Parameters:
        earlier_layers_read: bytes from the layer groups counted before, B.
        layers: layers in this group.
        read_elements: cache elements that one token's attention reads in one layer.
        kv_element_bytes: bytes per element of the cache format.
        kv_heads: KV heads of a layer.
        tensor_parallel: tensor-parallel ranks that share the KV heads.
        context_parallel: ranks that share the tokens of a sequence's cache.
    Limits: a rank that keeps a copy of the cache (MLA's latents) reads all of it.
    Check: Llama-3.1-8B in BF16 at 1,024 tokens: 32 layers, 8 KV heads of 128, keys and values.
        >>> float(cache_read_of_layers(0.0, 32, 2 * 8 * 128 * 1024, 2, 8, 1, 1))
        134217728.0
    """
    ranks = np.minimum(kv_heads * context_parallel, tensor_parallel)
    return earlier_layers_read + layers * read_elements * kv_element_bytes / ranks


@formula(unit="B", source="counted from the model configuration")
def cache_read_bytes(cache_read_of_layers: Column, model: ModelArchitecture, tensor_parallel: Column) -> Column:
    """Cache that one device reads per step and sequence, with recurrent states read and written.

    Parameters:
        cache_read_of_layers: KV cache read in all attention layers, B.
        model: model architecture, which gives the recurrent states of a sequence.
        tensor_parallel: tensor-parallel ranks that split the states.
    Check: 134 MB of cache and 8 MB of states on two ranks; states are read and written.
        >>> cache_read_bytes(134e6, row(state_bytes_per_sequence=8e6), 2)
        142000000.0
    """
    return cache_read_of_layers + 2 * model.state_bytes_per_sequence / tensor_parallel


@formula(unit="FLOP", source="counted from the model configuration")
def cache_flops(attention_flops: float, model: ModelArchitecture, tensor_parallel: Column) -> Column:
    """FLOPs of attention scores and recurrent states of one sequence's token on one device.

    Parameters:
        attention_flops: attention of one token over its context, FLOP.
        model: model architecture, which gives the FLOPs of recurrent layers.
        tensor_parallel: tensor-parallel ranks that split the heads.
    Limits: heads are split evenly.
    Check: 0.8 GFLOP of attention and 0.2 GFLOP of recurrent layers on two ranks.
        >>> cache_flops(0.8e9, row(recurrent_flops_per_token=0.2e9), 2)
        500000000.0
    """
    return (attention_flops + model.recurrent_flops_per_token) / tensor_parallel


def device_rates(plans: Plans) -> DeviceRates:
    """Data-sheet rates of every plan's accelerator."""
    return DeviceRates(
        plans.linear_flops_per_s,
        plans.bit16_flops_per_s,
        plans.bytes_per_s,
        plans.types.table.clock_cycle_s[plans.types.rows],
    )


def experts_per_token_share(model: ModelArchitecture) -> float:
    """Experts per token divided by all experts of a layer; 0 for dense models."""
    return model.experts_per_token / model.num_experts if model.is_moe else 0.0


def expert_copies(model: ModelArchitecture, tensor_parallel: Column, data_parallel: Column) -> Column:
    """Copies of one token that each device sends through the experts of a layer; 0 for dense models.

    Tensor-parallel ranks split every expert, and each of them reads all copies. Ranks of data-parallel attention keep
    whole experts, and the devices of a rank share its copies.
    """
    copies = float(model.experts_per_token) if model.is_moe else 0.0
    return copies / np.where(data_parallel > 1, tensor_parallel, 1.0)


@formula(unit="s/token", source="kernel tables of ai-dynamo/aiconfigurator: grouped products over the width of experts")
def expert_copy_s(
    moe_layers: Column, expert_copies: Column, hidden_bytes: Column, rates: DeviceRates, achieved: Achieved
) -> Column:
    """Time to gather, permute and sum the copies of one token that pass the experts of all layers.

    Its bytes do not depend on the width of an expert, so experts that are narrow or split over many ranks achieve
    little of the matrix rate.

    Parameters:
        moe_layers: layers with routed experts.
        expert_copies: copies of the token that the device moves in each of them.
        hidden_bytes: a copy, B.
        rates: data-sheet rates of the device.
        achieved: fitted coefficients; `expert_copy_passes` is how often a copy is read or written.
    Limits: the kernels move copies while they do not multiply.
    Check: 48 layers, 8 copies of 4 KB, moved 5 times at 3.35 TB/s, us.
        >>> round(expert_copy_s(48, 8, 4096, row(bytes_per_s=3.35e12), row(expert_copy_passes=5)) * 1e6, 3)
        2.348
    """
    return moe_layers * expert_copies * hidden_bytes * achieved.expert_copy_passes / rates.bytes_per_s


def step_work(model: ModelArchitecture, plans: Plans, link: LinkUse, *, context_tokens: float) -> StepWork:
    """Work of one decode step on one device of every plan.

    The batch is assumed to be spread evenly over pipeline stages. `context_tokens` is the mean context of a
    sequence.
    """
    tp, n = plans.tensor_parallel, len(plans)
    cache = np.zeros(n)
    for label, g in layer_groups(model):
        with trace_label(label):
            of_layers = g.layers, g.read_elements(context_tokens), plans.kv_element_bytes, float(g.kv_heads)
            cache = cache_read_of_layers(cache, *of_layers, tp, plans.context_parallel)
    exchange = build_expert_exchange(model, plans)
    with trace_label(host_part_label(plans.on_host)):
        flops, read = linear_flops(model, tp), cache_read_bytes(cache, model, tp)
        scores = cache_flops(model.decode_attention_flops(context_tokens), model, tp)
    work = StepWork(
        linear_flops=flops,
        dense_bytes=dense_bytes(plans.streamed_bytes, tp),
        routed_bytes=routed_bytes(plans.expert_bytes, plans.stage_accelerators),
        expert_share=np.full(n, experts_per_token_share(model)),
        cache_read_bytes=read,
        cache_flops=scores,
        layers=np.full(n, model.num_sublayers / 2),
        reductions=model.num_sublayers - exchange.expert_layers,
        moe_layers=np.full(n, float(model.moe_layers)),
        expert_copies=expert_copies(model, tp, plans.data_parallel),
        latent_layers=np.full(n, float(sum(g.layers * g.is_latent for g in model.attention))),
        hidden_bytes=np.full(n, 2.0 * model.hidden_size),
        tensor_parallel=tp,
        pipeline_parallel=plans.pipeline_parallel,
        data_parallel=plans.data_parallel,
        exchange=exchange,
        context=build_context_exchange(model, plans),
        rates=device_rates(plans),
        link=link,
    )
    return work if plans.on_host is None else split_step_with_host(model, work, plans.on_host)


def split_step_with_host(model: ModelArchitecture, work: StepWork, on: HostOffload) -> StepWork:
    """The step's work without the part that the host computes, which goes to the `host` field."""
    with trace_label("accelerator part"):
        with trace_label("matrices"):
            flops = remaining_on_accelerators(
                work.linear_flops, host_flops_share(model, on.experts_share, on.layers_share)
            )
        with trace_label("cache reads"):
            read = remaining_on_accelerators(work.cache_read_bytes, on.layers_share)
        with trace_label("attention"):
            scores = remaining_on_accelerators(work.cache_flops, on.layers_share)
    host = host_step(model, on, work.cache_read_bytes * work.tensor_parallel)
    copies = work.expert_copies * (1 - on.experts_share)
    return replace(work, linear_flops=flops, cache_read_bytes=read, cache_flops=scores, expert_copies=copies, host=host)


def with_speculative_decoding(terms: StepTerms, model: ModelArchitecture, option: Speculative | None) -> StepTerms:
    """The terms with speculative decoding, which verifies drafted tokens together; unchanged if `option` is None."""
    if option is None:
        return terms
    return replace(
        terms,
        drafted_tokens=float(option.draft_tokens),
        draft_share=option.draft_share(model),
        accepted_tokens_per_step=option.tokens_per_step,
    )


@formula(unit="s/sequence", source="roofline model (Williams et al. 2009)")
def linear_slope_s(work: StepWork, rates: DeviceRates, expert_copy_s: Column, achieved: Achieved) -> Column:
    """Time to multiply one sequence's token.

    Parameters:
        work: decode-step work of one device.
        rates: data-sheet rates of the device.
        expert_copy_s: time to move the token's copies through the experts, s.
        achieved: fitted efficiency coefficients.
    Limits: large batches.
    Check: 16 GFLOP at 0.8 of 1,000 TFLOP/s and 2 us for its copies, us.
        >>> work, rates = row(linear_flops=16e9), row(linear_flops_per_s=1e15)
        >>> round(linear_slope_s(work, rates, 2e-6, row(linear_compute_fraction=0.8)) * 1e6, 3)
        22.0
    """
    return work.linear_flops / (rates.linear_flops_per_s * achieved.linear_compute_fraction) + expert_copy_s


READ_SHARPNESS = 4.0  # exponent of the knee between the two bounds of reading weights


@formula(unit="s/B", source="roofline model (Williams et al. 2009); bytes in flight by Little's law (1961)")
def weight_byte_s(rates: DeviceRates, achieved: Achieved) -> Column:
    """Time to read one byte of weights: by a share of the memory bandwidth, or by what multiprocessors request.

    Parameters:
        rates: data-sheet rates of the device.
        achieved: fitted coefficients; `read_bytes_per_clock` is what a multiprocessor requests per clock cycle.
    Limits: only the multiprocessors of NVIDIA GPUs are known.
    Check: an A100 (108 multiprocessors at 1.41 GHz) with kernels that request 6 B per clock reads 900 GB/s.
        >>> rates = row(bytes_per_s=2.039e12, clock_cycle_s=1 / (108 * 1.41e9))
        >>> kernels = row(linear_memory_fraction=0.9, read_bytes_per_clock=6)
        >>> round(1e-9 / float(weight_byte_s(rates, kernels)))
        900
    """
    by_memory_s = 1 / (rates.bytes_per_s * achieved.linear_memory_fraction)
    by_requests_s = rates.clock_cycle_s / achieved.read_bytes_per_clock
    return (by_memory_s**READ_SHARPNESS + by_requests_s**READ_SHARPNESS) ** (1 / READ_SHARPNESS)


@formula(unit="s", source="roofline model (Williams et al. 2009)")
def dense_s(dense_bytes: Column, weight_byte_s: Column) -> Column:
    """Time to read the dense weights once.

    Parameters:
        dense_bytes: dense weights that one rank reads per step, B.
        weight_byte_s: time to read one byte of weights, s/B.
    Limits: no weights stay in on-chip memory.
    Check: Llama-3.1-8B in BF16 at 0.87 of an H100's memory bandwidth, ms.
        >>> round(one(dense_s(col(16.06e9), col(1 / (0.87 * 3.35e12)))) * 1e3, 1)
        5.5
    """
    return dense_bytes * weight_byte_s


@formula(unit="s", source="roofline model (Williams et al. 2009)")
def experts_s(routed_bytes: Column, weight_byte_s: Column, achieved: Achieved) -> Column:
    """Time to read all routed experts once.

    Parameters:
        routed_bytes: routed experts stored on one device, B.
        weight_byte_s: time to read one byte of dense weights, s/B.
        achieved: fitted efficiency coefficients.
    Limits: grouped matrix kernels.
    Check: 11.25 GB at 0.8 of 3.35 TB/s for dense weights, of which expert kernels achieve 0.9, ms.
        >>> round(float(experts_s(11.25e9, 1 / (0.8 * 3.35e12), row(expert_memory_fraction=0.9))) * 1e3, 3)
        4.664
    """
    return routed_bytes * weight_byte_s / achieved.expert_memory_fraction


@formula(unit="s/sequence", source="roofline model (Williams et al. 2009)")
def attention_slope_s(work: StepWork, rates: DeviceRates, achieved: Achieved) -> Column:
    """Time of one sequence's attention over its context: reading its cache or multiplying it, whichever takes longer.

    It grows with the context, because `cache_read_bytes` is proportional to the tokens read
    (`AttentionGroup.read_elements`), up to a window.

    Parameters:
        work: decode-step work of one device.
        rates: data-sheet rates of the device.
        achieved: fitted efficiency coefficients.
    Limits: paged-attention kernels that read each block once.
    Check: 134 MB at 0.8 of 3.35 TB/s takes longer than 0.5 GFLOP at 0.5 of 1,000 TFLOP/s, us.
        >>> work = row(cache_read_bytes=134e6, cache_flops=0.5e9)
        >>> rates = row(bytes_per_s=3.35e12, bit16_flops_per_s=1e15)
        >>> fractions = row(attention_memory_fraction=0.8, attention_compute_fraction=0.5)
        >>> round(float(attention_slope_s(work, rates, fractions)) * 1e6, 3)
        50.0
    """
    return np.maximum(
        work.cache_read_bytes / (rates.bytes_per_s * achieved.attention_memory_fraction),
        work.cache_flops / (rates.bit16_flops_per_s * achieved.attention_compute_fraction),
    )


@formula(unit="s", source="fitted to benchmark measurements")
def attention_fixed_s(work: StepWork, achieved: Achieved) -> Column:
    """Latency of the attention kernels of a step.

    Parameters:
        work: decode-step work of one device.
        achieved: fitted overheads.
    Limits: captured graphs.
    Check: 32 layers at 2 us each.
        >>> round(attention_fixed_s(row(layers=32), row(attention_latency_s=2e-6)), 9)
        6.4e-05
    """
    return work.layers * achieved.attention_latency_s


@formula(unit="s", source="fitted to benchmark measurements")
def host_fixed_s(work: StepWork, achieved: Achieved) -> Column:
    """Host time to schedule and launch a step.

    Parameters:
        work: decode-step work of one device.
        achieved: fitted overheads.
    Limits: one set of values per engine and accelerator vendor.
    Check: 32 layers at 5 us, 16 expert layers at 10 us more, no latent attention, and 1 ms per step.
        >>> work = row(layers=32, moe_layers=16, latent_layers=0)
        >>> layer = dict(layer_overhead_s=5e-6, moe_layer_overhead_s=10e-6, latent_layer_overhead_s=0.0)
        >>> round(host_fixed_s(work, row(step_overhead_s=1e-3, **layer)), 9)
        0.00132
    """
    return (
        work.layers * achieved.layer_overhead_s
        + work.moe_layers * achieved.moe_layer_overhead_s
        + work.latent_layers * achieved.latent_layer_overhead_s
        + achieved.step_overhead_s
    )


def step_terms(
    work: StepWork, achieved: Achieved, speed: LinkSpeed | None = None, served: Column | float = 1.0
) -> StepTerms:
    """All times of a decode step that do not depend on the batch.

    `served` is 1 if tokens pass through a server, 0 if the engine's own process has the requests.
    """
    rates, links = work.rates, link_speed(work.link, achieved) if speed is None else speed
    byte_s, degrees = weight_byte_s(rates, achieved), (work.tensor_parallel, work.pipeline_parallel)
    copy_s = expert_copy_s(work.moe_layers, work.expert_copies, work.hidden_bytes, rates, achieved)
    slope, fixed = transfer_and_latency_s(work.reductions, work.hidden_bytes, *degrees, work.link, links)
    if work.exchange.expert_layers.any():
        slope = slope + exchange_slope_s(work.exchange, work.link)
        fixed = fixed + exchange_fixed_s(work.exchange, links)
    if work.context.layers.any():
        slope = slope + context_slope_s(work.context, links)
        fixed = fixed + context_fixed_s(work.context, links)
    return StepTerms(
        linear_slope_s=linear_slope_s(work, rates, copy_s, achieved),
        dense_s=dense_s(work.dense_bytes, byte_s),
        experts_s=experts_s(work.routed_bytes, byte_s, achieved),
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
    """Sequences that one pipeline stage computes at a time.

    Parameters:
        batch: sequences of the replica or rank.
        pipeline_parallel: pipeline stages.
    Limits: sequences are spread evenly over the stages.
    Check:
        >>> float(micro_batch(64, 4))
        16.0
    """
    return np.maximum(1.0, batch / pipeline_parallel)


@formula(unit="s", source="roofline model (Williams et al. 2009)")
def multiply_s(step_tokens: Column, linear_slope_s: Column) -> Column:
    """Time to multiply the tokens of a step.

    Parameters:
        step_tokens: tokens in the step.
        linear_slope_s: time to multiply one token, s.
    Check: 64 tokens at 20 us each.
        >>> round(multiply_s(64, 20e-6), 9)
        0.00128
    """
    return step_tokens * linear_slope_s


@formula(unit="s", source="roofline model (Williams et al. 2009)")
def weights_read_s(dense_s: Column, experts_s: Column, active_expert_share: Column) -> Column:
    """Time to read the weights that a step's tokens use.

    Parameters:
        dense_s: time to read the dense weights, s.
        experts_s: time to read all routed experts, s.
        active_expert_share: share of the routed experts that the tokens activate.
    Limits: experts are routed evenly.
    Check: 2 ms of dense weights and half of 8 ms of experts.
        >>> weights_read_s(0.002, 0.008, 0.5)
        0.006
    """
    return dense_s + experts_s * active_expert_share


@formula(unit="s", source="roofline model (Williams et al. 2009) with a rounded knee")
def linear_s(multiply_s: Column, weights_read_s: Column, exponent: Column) -> Column:
    """Time of the linear layers of one step: compute against weight reads, by arithmetic intensity (roofline).

    A larger batch raises the arithmetic intensity: it reads the same weights for more tokens.

    Parameters:
        multiply_s: time to multiply the step's tokens, s.
        weights_read_s: time to read the weights, s.
        exponent: fitted sharpness of the roofline's knee.
    Limits: compute and reads overlap.
    Check:
        >>> round(float(linear_s(0.003, 0.004, 2.0)), 6)
        0.005
    """
    return smooth_maximum(multiply_s, weights_read_s, exponent)


@formula(unit="s", source="sum of the parts of a step")
def forward_s(
    linear_s: Column, micro_batch: Column, tokens_per_sequence: float, batch: Column, terms: StepTerms
) -> Column:
    """Time of one pass over a batch, in which each micro-batch passes every stage.

    Parameters:
        linear_s: time of the linear layers, s.
        micro_batch: sequences that one stage computes at a time.
        tokens_per_sequence: new tokens of each sequence; above 1 with speculative decoding.
        batch: sequences in the batch.
        terms: decode-step times of the plan.
    Limits: linear layers, attention, links and host time do not overlap.
    Check: 8 ms of linear layers, 16 sequences at 0.1 ms of attention and 0.01 ms of links, 1.5 ms of fixed
    latencies.
        >>> slopes = dict(attention_slope_s=1e-4, links_slope_s=1e-5, host_slope_s=0.0)
        >>> latencies = dict(attention_fixed_s=2e-4, links_fixed_s=3e-4, host_fixed_s=1e-3)
        >>> round(forward_s(0.008, 16, 1.0, 16, row(**slopes, **latencies)), 6)
        0.01126
    """
    slope = terms.attention_slope_s + tokens_per_sequence * terms.links_slope_s
    fixed = terms.attention_fixed_s + terms.links_fixed_s + terms.host_fixed_s
    return linear_s + micro_batch * slope + batch * terms.host_slope_s + fixed


@formula(unit="s", source="Leviathan et al. 2023 (arXiv:2211.17192)")
def engine_step_s(forward_s: Column, plain_forward_s: Column | float, terms: StepTerms) -> Column:
    """Engine time in which each sequence gains one token; a speculative step drafts, verifies and accepts several.

    Parameters:
        forward_s: time of the verifying pass, s.
        plain_forward_s: time of a pass with one token per sequence, s; drafting costs a share of it.
        terms: decode-step times of the plan.
    Limits: drafted tokens are accepted independently of one another.
    Check: a pass of 12 ms, three drafts at a tenth of a 10 ms pass each, and 2 accepted tokens per step.
        >>> drafts = row(drafted_tokens=3.0, draft_share=0.1, accepted_tokens_per_step=2.0)
        >>> round(engine_step_s(0.012, 0.010, drafts), 6)
        0.0075
    """
    return (forward_s + terms.drafted_tokens * terms.draft_share * plain_forward_s) / terms.accepted_tokens_per_step


def multiply_and_read_s(terms: StepTerms, tokens: Column) -> tuple[Column, Column]:
    """Time to multiply `tokens`, and time to read the weights that they use, s."""
    read = terms.dense_s
    if terms.experts_s.any():
        active = active_expert_share(tokens * terms.data_parallel, terms.expert_share)
        read = weights_read_s(terms.dense_s, terms.experts_s, active)
    return multiply_s(tokens, terms.linear_slope_s), read


def forward_pass_s(terms: StepTerms, batch: Column, tokens_per_sequence: float = 1.0) -> Column:
    """Time of one pass over `batch` sequences with `tokens_per_sequence` new tokens each, the host's part included."""
    micro = micro_batch(batch, terms.pipeline_parallel)
    tokens = micro if tokens_per_sequence == 1 else micro * tokens_per_sequence
    linear = linear_s(*multiply_and_read_s(terms, tokens), terms.exponent)
    with trace_label("" if terms.host is None else "accelerator part"):
        forward = forward_s(linear, micro, tokens_per_sequence, batch, terms)
    return forward if terms.host is None else with_host_part_s(forward, host_part_s(terms, tokens, micro, batch))


def host_part_s(terms: StepTerms, tokens: Column, micro: Column, batch: Column) -> Column:
    """Time that the host spends on a pass; zero if no weights are in its memory."""
    if terms.host is None:
        return np.zeros(len(batch))
    with trace_label("layers on the host"):
        touched = active_expert_share(tokens, terms.expert_share)
    return host_pass_s(terms.host, tokens, touched, micro, batch)


def step_s(terms: StepTerms, batch: Column) -> Column:
    """Time in which `batch` sequences each gain one token, as the server streams it."""
    plain: Column | float = 0.0
    if terms.drafted_tokens:
        with trace_label("drafting"):
            plain = forward_pass_s(terms, batch)
    forward = forward_pass_s(terms, batch, 1.0 + terms.drafted_tokens)
    return decode_step_s(engine_step_s(forward, plain, terms), batch, terms.stream_token_s)
