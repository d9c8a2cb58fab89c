"""Prefill: the work of a prompt, and the time that it takes on a replica."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from app.sizing.columns import TINY, Column, Columns, Mask
from app.sizing.formula import formula, trace_label
from app.sizing.hardware.achieved import Achieved
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.serving.collectives import (
    ExpertExchange,
    LinkSpeed,
    LinkUse,
    build_expert_exchange,
    exchange_fixed_s,
    exchange_slope_s,
    link_speed,
    transfer_and_latency_s,
)
from app.sizing.serving.host_weights import (
    HostOffload,
    HostPrompt,
    host_flops_share,
    host_part_label,
    host_prompt,
    host_prompt_s,
    remaining_on_accelerators,
    with_host_part_s,
)
from app.sizing.serving.plans import KV_NAMES, Plans
from app.sizing.serving.step import (
    DeviceRates,
    active_expert_share,
    dense_bytes,
    dense_s,
    device_rates,
    expert_copies,
    expert_copy_s,
    experts_per_token_share,
    experts_s,
    routed_bytes,
    smooth_maximum,
    tokenise_s,
    weight_byte_s,
    weights_read_s,
)
from app.sizing.workload import Lengths

FP8_CACHE = KV_NAMES.index("fp8")

MIDPOINT_PERCENTILES = tuple(2.5 + 5 * i for i in range(20))  # midpoints of twenty equally likely ranges of percentiles


@dataclass(frozen=True, slots=True)
class PrefillWork(Columns):
    """Work to prefill one prompt on one device, independent of its speed."""

    prompt_linear_flops: Column  # matrix FLOPs of the prompt
    expert_flops_share: Column  # share of the matrix FLOPs in routed experts
    dense_bytes: Column  # dense weights that one rank reads, B
    routed_bytes: Column  # all routed experts of a device, B
    expert_share: Column  # experts per token divided by all experts; 0 for dense models
    score_flops: Column  # attention FLOPs of the prompt
    fp8_attention: Mask  # whether keys and values come from an FP8 cache; not for latent attention
    prompt_tokens: Column
    new_tokens: Column  # prompt tokens that are not in the cache
    layers: Column
    moe_layers: Column  # layers with routed experts
    expert_copies: Column  # copies of a token that one device sends through the experts of a layer
    graph_tokens: Column  # most tokens of a step with prompts that captured graphs launch
    reductions: Column  # all-reduces per pass over the devices of a rank
    hidden_bytes: Column  # activations of one token between layers, B
    tensor_parallel: Column
    pipeline_parallel: Column
    data_parallel: Column
    exchange: ExpertExchange  # all-to-all exchange of expert parallelism
    overlapped_stages: Column  # pipeline stages that work on different chunks of one prompt at a time
    rates: DeviceRates
    link: LinkUse
    host: HostPrompt | None = None  # the host's part, if weights are in host memory


@dataclass(frozen=True, slots=True)
class PrefillTerms(Columns):
    """Prefill times in seconds: of one prompt if the name says `prompt`, otherwise of one engine step."""

    prompt_linear_s: Column  # time to multiply the prompt, s
    padding_s: Column  # time of a step to multiply the rows that pad its experts, s
    prompt_attention_s: Column  # time of the prompt's attention, s
    prompt_links_s: Column  # link transfers of the prompt, s
    dense_s: Column  # time to read the dense weights once, s
    experts_s: Column  # time to read all routed experts once, s
    prefill_links_s: Column  # link latency of a step, s
    dispatch_s: Column  # host time to launch the layers, s; hidden unless it is longer
    graph_dispatch_s: Column  # the same for a step of at most `graph_tokens`, s
    graph_tokens: Column
    request_s: Column  # engine time to ingest a request and return its first token, s
    tokenise_s: Column  # server time to tokenize a prompt, one after another, s; 0 without a server
    new_tokens: Column
    expert_share: Column
    data_parallel: Column  # data-parallel attention ranks of a replica
    pooled_share: Column  # share of the matrix time in routed experts, which all ranks compute together
    overlapped_stages: Column
    exponent: Column  # sharpness of the roofline's knee
    host: HostPrompt | None = None


@formula(unit="FLOP", source="one multiplication and one addition per parameter and token")
def prompt_linear_flops(
    model: ModelArchitecture, new_tokens: Column | float, encoder_flops: float, tensor_parallel: Column
) -> Column:
    """Matrix FLOPs of a prompt on one device. The output head multiplies only the last token.

    Parameters:
        model: model architecture.
        new_tokens: prompt tokens that are not in the cache.
        encoder_flops: FLOPs of the encoder for the images in the prompt.
        tensor_parallel: tensor-parallel ranks that split the matrices.
    Limits: matrices are split evenly.
    Check:
        >>> round(2 * LLAMA_8B.prompt_matmul_params * 1024 / 1e12, 1)  # Llama-3.1-8B, 1024 tokens, TFLOP
        14.3
    """
    return (
        2 * model.prompt_matmul_params * new_tokens
        + 2 * model.head_matmul_params
        + model.recurrent_flops_per_token * new_tokens
        + encoder_flops
    ) / tensor_parallel


def expert_flops_share(model: ModelArchitecture) -> float:
    """Share of a prompt's matrix FLOPs spent in routed experts, without the output head."""
    return model.routed_matmul_params / model.prompt_matmul_params if model.is_moe else 0.0


@formula(unit="FLOP", source="Dao et al. 2022 (arXiv:2205.14135)")
def score_flops(prompt_flops: float, cached_flops: float, tensor_parallel: Column) -> Column:
    """Attention FLOPs of a prompt on one device, without those of its cached prefix.

    Parameters:
        prompt_flops: attention FLOPs of the whole prompt.
        cached_flops: attention FLOPs of the cached prefix.
        tensor_parallel: tensor-parallel ranks that split the heads.
    Limits: causal masks halve the FLOPs; sliding windows bound them.
    Check: 4 TFLOP of which 1 is cached, on two ranks.
        >>> score_flops(4e12, 1e12, 2)
        1500000000000.0
    """
    return (prompt_flops - cached_flops) / tensor_parallel


def prefill_work(
    model: ModelArchitecture,
    plans: Plans,
    link: LinkUse,
    *,
    prompt_tokens: float,
    cached_tokens: float = 0.0,
    encoder_flops: float = 0.0,
    attention_factor: float = 1.0,
) -> PrefillWork:
    """Work to prefill one prompt on one device of every plan.

    `cached_tokens` of the prompt are already in the cache. `attention_factor` is the mean attention of all prompts
    divided by the attention of the prompt with the mean length.
    """
    tp, n = plans.tensor_parallel, len(plans)
    new = max(1.0, prompt_tokens - cached_tokens)
    cached = attention_factor * model.prefill_attention_flops(cached_tokens) if cached_tokens > 0 else 0.0
    exchange = build_expert_exchange(model, plans, forwards=True)
    with trace_label(host_part_label(plans.on_host)):
        flops = prompt_linear_flops(model, new, encoder_flops, tp)
    work = PrefillWork(
        prompt_linear_flops=flops,
        expert_flops_share=np.full(n, expert_flops_share(model)),
        dense_bytes=dense_bytes(plans.streamed_bytes, tp),
        routed_bytes=routed_bytes(plans.expert_bytes, plans.stage_accelerators),
        expert_share=np.full(n, experts_per_token_share(model)),
        score_flops=score_flops(attention_factor * model.prefill_attention_flops(prompt_tokens), cached, tp),
        fp8_attention=(plans.kv == FP8_CACHE) & (not any(g.is_latent for g in model.attention)),
        prompt_tokens=np.full(n, max(1.0, prompt_tokens)),
        new_tokens=np.full(n, new),
        layers=np.full(n, model.num_sublayers / 2),
        moe_layers=np.full(n, float(model.moe_layers)),
        expert_copies=expert_copies(model, tp, plans.data_parallel),
        graph_tokens=plans.scheduling_rules.graph_tokens,
        reductions=model.num_sublayers - exchange.expert_layers,
        hidden_bytes=np.full(n, 2.0 * model.hidden_size),
        tensor_parallel=tp,
        pipeline_parallel=plans.pipeline_parallel,
        data_parallel=plans.data_parallel,
        exchange=exchange,
        overlapped_stages=np.where(plans.pipelines_chunks, plans.pipeline_parallel, 1.0),
        rates=device_rates(plans),
        link=link,
    )
    return work if plans.on_host is None else split_prefill_with_host(model, work, plans.on_host)


def split_prefill_with_host(model: ModelArchitecture, work: PrefillWork, on: HostOffload) -> PrefillWork:
    """The prefill work without the part that the host computes, which goes to the `host` field."""
    share, whole = host_flops_share(model, on.experts_share, on.layers_share), work.prompt_linear_flops
    with trace_label("prompt, accelerator part"):
        flops = remaining_on_accelerators(whole, share)
    copies = work.expert_copies * (1 - on.experts_share)
    host = host_prompt(on, whole * share * work.tensor_parallel)
    return replace(work, prompt_linear_flops=flops, expert_copies=copies, host=host)


def add_moved_multiply_time(work: PrefillWork, achieved: Achieved) -> HostPrompt | None:
    """The host's part of a prompt, with the time that the accelerators take to multiply it if its weights are moved to
    them.
    """
    if work.host is None:
        return None
    on_accelerators = replace(work, prompt_linear_flops=work.host.flops / work.tensor_parallel)
    with trace_label("weights moved from the host"):
        none = np.zeros(len(work))  # the copies of tokens are counted once
        copy_s = expert_copy_s(none, work.expert_copies, work.hidden_bytes, work.rates, achieved)
        multiply_s = prompt_linear_s(on_accelerators, work.rates, copy_s, achieved)
        return replace(work.host, moved_multiply_s=multiply_s)


@formula(unit="s/prompt", source="roofline model (Williams et al. 2009)")
def prompt_linear_s(work: PrefillWork, rates: DeviceRates, expert_copy_s: Column, achieved: Achieved) -> Column:
    """Time to multiply one prompt. Grouped products of routed experts achieve less of the rate, and the copies of each
    token are moved to them and back.

    Parameters:
        work: prefill work of one prompt.
        rates: data-sheet rates of the device.
        expert_copy_s: time to move one token's copies through the experts, s.
        achieved: fitted efficiency coefficients.
    Limits: prompts that fill the device.
    Check: 14.3 TFLOP at 0.8 x 0.9 of 1,000 TFLOP/s, no experts, ms.
        >>> fractions = row(linear_compute_fraction=0.8, prefill_compute_fraction=0.9, prefill_expert_fraction=0.5)
        >>> work = row(prompt_linear_flops=14.3e12, expert_flops_share=0.0, new_tokens=1024)
        >>> round(prompt_linear_s(work, row(linear_flops_per_s=1e15), 0.0, fractions) * 1e3, 3)
        19.861
    """
    slower = 1 + work.expert_flops_share * (1 / achieved.prefill_expert_fraction - 1)
    fraction = achieved.linear_compute_fraction * achieved.prefill_compute_fraction
    return work.prompt_linear_flops * slower / (rates.linear_flops_per_s * fraction) + work.new_tokens * expert_copy_s


@formula(unit="s", source="kernel tables of ai-dynamo/aiconfigurator: grouped products over tokens per expert")
def padding_s(work: PrefillWork, rates: DeviceRates, achieved: Achieved) -> Column:
    """Time that a step with prompts multiplies the rows that pad its experts.

    Products of r rows take as long as r + r_half at the rate of many rows: tiles are filled up, and each expert starts
    anew. With E experts, k per token, a step takes the time of r_half * E / k more tokens.

    Parameters:
        work: prefill work of one prompt.
        rates: data-sheet rates of the device.
        achieved: fitted coefficients: r_half is `expert_half_rows`.
    Limits: experts are routed evenly, and every expert has tokens.
    Check: prompts of 1,000 tokens, 60 % of 14 TFLOP in experts, 8 of 128 a token, at 0.8 x 0.5 of 1,000 TFLOP/s, ms.
        >>> fractions = row(linear_compute_fraction=0.8, prefill_compute_fraction=1.0, prefill_expert_fraction=0.5)
        >>> fractions = row(**vars(fractions), expert_half_rows=30.0)
        >>> work = dict(prompt_linear_flops=14e12, expert_flops_share=0.6, expert_share=1 / 16)
        >>> work = row(**work, new_tokens=1000.0, data_parallel=1.0)
        >>> round(float(padding_s(work, row(linear_flops_per_s=1e15), fractions)) * 1e3, 3)  # 480 tokens
        10.08
    """
    token_flops = work.prompt_linear_flops * work.expert_flops_share / work.new_tokens
    fraction = achieved.linear_compute_fraction * achieved.prefill_compute_fraction * achieved.prefill_expert_fraction
    tokens = achieved.expert_half_rows / (np.maximum(work.expert_share, TINY) * work.data_parallel)
    return tokens * token_flops / (rates.linear_flops_per_s * fraction)


@formula(unit="1", source="routed experts are spread over all data-parallel ranks")
def pooled_share(expert_flops_share: Column, data_parallel: Column, achieved: Achieved) -> Column:
    """Share of a prompt's matrix time spent in routed experts, which all data-parallel ranks compute together.

    Parameters:
        expert_flops_share: share of the matrix FLOPs spent in routed experts.
        data_parallel: data-parallel attention ranks of the replica.
        achieved: fitted efficiency coefficients.
    Limits: experts are routed evenly.
    Check: half of the FLOPs in experts that achieve half of the rate.
        >>> round(float(pooled_share(0.5, 8, row(prefill_expert_fraction=0.5))), 3)
        0.667
    """
    experts = expert_flops_share / achieved.prefill_expert_fraction
    return np.where(data_parallel > 1, experts / (1 - expert_flops_share + experts), 0.0)


@formula(unit="s/prompt", source="derived: the other ranks have no prompt")
def isolated_prompt_linear_s(prompt_linear_s: Column, pooled_share: Column, data_parallel: Column) -> Column:
    """Time to multiply a prompt while the other ranks have none: all ranks share its experts' part.

    Parameters:
        prompt_linear_s: time to multiply a prompt while every rank has one, s.
        pooled_share: share of that time spent in routed experts.
        data_parallel: data-parallel attention ranks of the replica.
    Limits: experts are routed evenly.
    Check:
        >>> float(isolated_prompt_linear_s(1.0, 0.5, 4))  # half of it, and a quarter of the other half
        0.625
    """
    return prompt_linear_s * (1 - pooled_share * (1 - 1 / data_parallel))


@formula(unit="s/prompt", source="FlashAttention-2 and -3 throughput over length (arXiv:2307.08691, arXiv:2407.08608)")
def prompt_attention_s(work: PrefillWork, rates: DeviceRates, achieved: Achieved) -> Column:
    """Attention time of one prompt of s tokens, at f s / (s + s_half) of the 16-bit rate.

    With an FP8 KV cache, engines quantize the queries too where their kernels multiply in FP8, and the rate is
    `attention_fp8_speedup` times as high; less than 1 where kernels convert keys and values instead.

    Parameters:
        work: prefill work of one prompt.
        rates: data-sheet rates of the device.
        achieved: fitted coefficients: f is `attention_compute_fraction`, s_half `attention_half_length_tokens`.
    Limits: fused attention kernels; latent attention (MLA) takes the 16-bit rate.
    Check: 1 TFLOP for 1,000 tokens at half of 0.6 of 1,000 TFLOP/s, and 1.25 times as fast in FP8, ms.
        >>> tokens, per_s = dict(score_flops=1e12, prompt_tokens=1000.0), row(bit16_flops_per_s=1e15)
        >>> fractions = row(
        ...     attention_compute_fraction=0.6, attention_half_length_tokens=1000.0, attention_fp8_speedup=1.25
        ... )
        >>> work = [row(fp8_attention=f, **tokens) for f in (False, True)]
        >>> [round(float(prompt_attention_s(w, per_s, fractions)) * 1e3, 3) for w in work]
        [3.333, 2.667]
    """
    fraction = (
        achieved.attention_compute_fraction
        * work.prompt_tokens
        / (work.prompt_tokens + achieved.attention_half_length_tokens)
    )
    speedup = np.where(work.fp8_attention, achieved.attention_fp8_speedup, 1.0)
    return work.score_flops / (rates.bit16_flops_per_s * fraction * speedup)


def attention_length_factor(model: ModelArchitecture, lengths: Lengths) -> float:
    """Mean attention FLOPs over prompt lengths, divided by those of the mean prompt; attention grows with the squared
    length.
    """
    at_mean = model.prefill_attention_flops(lengths.mean)
    if at_mean <= 0 or lengths.squared_variation == 0:
        return 1.0
    each = [model.prefill_attention_flops(max(lengths.quantile(p), 1.0)) for p in MIDPOINT_PERCENTILES]
    return sum(each) / len(each) / at_mean


@formula(unit="s", source="fitted to benchmark measurements")
def dispatch_s(work: PrefillWork, achieved: Achieved) -> Column:
    """Host time to launch the layers of a prefill step.

    Parameters:
        work: prefill work of one prompt.
        achieved: fitted overheads.
    Limits: one value per engine. Experts launch more kernels: routing, two grouped products, the sum.
    Check: 32 layers at 50 us, and 30 of experts at 100 us in addition.
        >>> engine = row(prefill_layer_overhead_s=50e-6, prefill_moe_layer_overhead_s=100e-6)
        >>> [round(dispatch_s(row(layers=32, moe_layers=n), engine), 9) for n in (0, 30)]
        [0.0016, 0.0046]
    """
    dense = work.layers * achieved.prefill_layer_overhead_s
    return dense + work.moe_layers * achieved.prefill_moe_layer_overhead_s


@formula(unit="s", source="vLLM: FULL_AND_PIECEWISE graphs up to max_cudagraph_capture_size; measured on one H100")
def launch_s(dispatch_s: Column, graph_dispatch_s: Column, graph_tokens: Column, step_tokens: Column) -> Column:
    """Host time to launch a step with prompts: less if captured graphs hold as many tokens.

    Parameters:
        dispatch_s: time to launch the layers one by one, s.
        graph_dispatch_s: time to launch them from graphs, s.
        graph_tokens: most tokens that a graph holds.
        step_tokens: prompt tokens in the step.
    Limits: decodes that share the step do not count.
    Check: graphs of up to 512 tokens.
        >>> [one(launch_s(col(0.02), col(0.001), col(512), col(tokens))) for tokens in (512, 513)]
        [0.001, 0.02]
    """
    return np.where(step_tokens <= graph_tokens, graph_dispatch_s, dispatch_s)


def prefill_terms(
    work: PrefillWork,
    achieved: Achieved,
    speed: LinkSpeed | None = None,
    served: Column | float = 1.0,
    *,
    comes_read: bool = False,
) -> PrefillTerms:
    """Prefill times of every plan.

    `served` is 1 if prompts arrive through a server, 0 if the engine's own process has them. Prompts that come with
    their KV cache (`comes_read`) join the next decode step: no server ingests them, and no prefill step is launched.
    """
    rates, links = work.rates, link_speed(work.link, achieved) if speed is None else speed
    byte_s, prompt_bytes = weight_byte_s(rates, achieved), work.new_tokens * work.hidden_bytes
    degrees = work.tensor_parallel, work.pipeline_parallel
    copy_s = expert_copy_s(work.moe_layers, work.expert_copies, work.hidden_bytes, rates, achieved)
    with trace_label("prompt"):
        transfer, latency = transfer_and_latency_s(work.reductions, prompt_bytes, *degrees, work.link, links)
    if work.exchange.expert_layers.any():
        transfer = transfer + work.new_tokens * exchange_slope_s(work.exchange, work.link)
        latency = latency + exchange_fixed_s(work.exchange, links)
    return PrefillTerms(
        prompt_linear_s=prompt_linear_s(work, rates, copy_s, achieved),
        padding_s=padding_s(work, rates, achieved) if work.expert_share.any() else np.zeros(len(work)),
        prompt_attention_s=prompt_attention_s(work, rates, achieved),
        prompt_links_s=transfer,
        dense_s=dense_s(work.dense_bytes, byte_s),
        experts_s=experts_s(work.routed_bytes, byte_s, achieved),
        prefill_links_s=latency,
        dispatch_s=np.zeros(len(work)) if comes_read else dispatch_s(work, achieved),
        graph_dispatch_s=np.zeros(len(work)) if comes_read else work.layers * achieved.layer_overhead_s,
        graph_tokens=work.graph_tokens,
        request_s=np.zeros(len(work)) if comes_read else achieved.request_overhead_s,
        tokenise_s=tokenise_s(work.prompt_tokens, 0.0 if comes_read else served, achieved),
        new_tokens=work.new_tokens,
        expert_share=work.expert_share,
        data_parallel=work.data_parallel,
        pooled_share=pooled_share(work.expert_flops_share, work.data_parallel, achieved),
        overlapped_stages=work.overlapped_stages,
        exponent=achieved.roofline_exponent,
        host=add_moved_multiply_time(work, achieved),
    )


@formula(unit="prompts", source="steps filled to the engine's token budget, Agrawal et al. 2024 (arXiv:2403.02310)")
def busy_prompts_per_step(max_batched_tokens: Column, new_tokens: Column) -> Column:
    """Prompts in one step, or the share of a long prompt, while many prompts wait.

    Parameters:
        max_batched_tokens: token budget of one engine step.
        new_tokens: prompt tokens that are not in the cache.
    Limits: prompts of one length.
    Check:
        >>> busy_prompts_per_step(8192, 1024)
        8.0
    """
    return max_batched_tokens / new_tokens


@formula(unit="prompts", source="steps filled to the engine's token budget, Agrawal et al. 2024 (arXiv:2403.02310)")
def prompts_per_step(max_batched_tokens: Column, new_tokens: Column, waiting_prompts: Column | float) -> Column:
    """Prompts in one step, or the share of a long prompt, while `waiting_prompts` wait.

    Parameters:
        max_batched_tokens: token budget of one engine step.
        new_tokens: prompt tokens that are not in the cache.
        waiting_prompts: prompts that are ready to be computed.
    Limits: prompts of one length.
    Check: the budget holds eight prompts, but three wait.
        >>> float(prompts_per_step(8192, 1024, 3))
        3.0
    """
    return np.minimum(max_batched_tokens / new_tokens, np.maximum(waiting_prompts, 1.0))


@formula(unit="s", source="roofline model (Williams et al. 2009) with a rounded knee")
def prefill_linear_s(
    prompts_per_step: Column, each_linear_s: Column, step_padding_s: Column, weights_read_s: Column, exponent: Column
) -> Column:
    """Time of the linear layers of a prefill step.

    Parameters:
        prompts_per_step: prompts in the step.
        each_linear_s: time to multiply one prompt, s.
        step_padding_s: time to multiply the rows that pad experts, s.
        weights_read_s: time to read the weights, s.
        exponent: fitted sharpness of the roofline's knee.
    Limits: compute and reads overlap.
    Check:
        >>> round(float(prefill_linear_s(2.0, 0.01, 0.01, 0.04, 2.0)), 6)
        0.05
    """
    return smooth_maximum(prompts_per_step * each_linear_s + step_padding_s, weights_read_s, exponent)


@formula(unit="s", source="sum of the parts of a step")
def prefill_step_s(prefill_linear_s: Column, prompts_per_step: Column, prefill: PrefillTerms) -> Column:
    """Time of one engine step with `prompts_per_step` prompts. Launches are hidden unless they take longer.

    Parameters:
        prefill_linear_s: time of the linear layers, s.
        prompts_per_step: prompts in the step.
        prefill: prefill times of the plan.
    Limits: no decode shares the step.
    Check: 50 ms of linear layers, two prompts at 4 ms of attention and 1 ms of links, 2 ms of latencies.
        >>> times = row(prompt_attention_s=0.004, prompt_links_s=0.001, prefill_links_s=0.002)
        >>> times = row(**vars(times), dispatch_s=0.01, graph_tokens=0, graph_dispatch_s=0.0, new_tokens=9000)
        >>> round(float(prefill_step_s(0.05, 2, times)), 6)
        0.062
    """
    each = prefill.prompt_attention_s + prefill.prompt_links_s
    device = prefill_linear_s + prompts_per_step * each + prefill.prefill_links_s
    tokens = prompts_per_step * prefill.new_tokens
    launched = launch_s(prefill.dispatch_s, prefill.graph_dispatch_s, prefill.graph_tokens, tokens)
    lasts: Column = np.maximum(device, launched)
    return lasts


@formula(unit="1", source="chunked pipeline parallelism, lmsys.org/blog/2026-01-15-chunked-pipeline")
def pipelined_share(prompt_s: Column, prefill: PrefillTerms, max_batched_tokens: Column) -> Column:
    """Share of its steps' total time that a prompt takes where its chunks follow each other through pipeline stages.

    n chunks leave p stages after the n chunks of the first stage and the last chunk of the p - 1 others. The last
    chunk attends to the whole prompt: its attention takes 2 - 1/n times that of the mean chunk.

    Parameters:
        prompt_s: all steps of the prompt, one stage after another, s.
        prefill: prefill times of the prompt; `overlapped_stages` is 1 where no chunks overlap.
        max_batched_tokens: token budget of a step, tokens.
    Limits: causal attention without a window; no cached prefix.
    Check: 4 chunks in 4 stages, without attention and with nothing else.
        >>> prompts = [row(prompt_attention_s=a, new_tokens=8192, overlapped_stages=4) for a in (0.0, 1.0)]
        >>> [one(pipelined_share(col(1.0), prompt, col(2048))) for prompt in prompts]
        [0.4375, 0.578125]
    """
    chunks = np.ceil(prefill.new_tokens / max_batched_tokens)
    last_chunk = 1 + prefill.prompt_attention_s / prompt_s * (chunks - 1) / chunks
    stages = prefill.overlapped_stages
    share: Column = (chunks + (stages - 1) * last_chunk) / (chunks * stages)
    return share


@formula(unit="s/prompt", source="chunked pipeline parallelism, lmsys.org/blog/2026-01-15-chunked-pipeline")
def pipeline_bubble_s(prefill: PrefillTerms, max_batched_tokens: Column) -> Column:
    """Time that the first stage waits between two queued prompts, because at most one chunk per stage is under way.

    The last chunk of a prompt takes `2 A (n - 1) / n^2` longer than the first chunk of the next one, for n chunks and
    an attention of A; p - 1 of p stages still compute it.

    Parameters:
        prefill: prefill times of the mean prompt.
        max_batched_tokens: token budget of a step, tokens.
    Limits: as for `pipelined_share`.
    Check: 2 s of attention in 10 chunks: 0.36 s, of which three of four stages remain.
        >>> prompt = row(prompt_attention_s=2.0, new_tokens=20480, overlapped_stages=4)
        >>> round(one(pipeline_bubble_s(prompt, col(2048))), 3)
        0.27
    """
    chunks = np.ceil(prefill.new_tokens / max_batched_tokens)
    longer: Column = 2 * prefill.prompt_attention_s * (chunks - 1) / chunks**2
    return longer * (1 - 1 / prefill.overlapped_stages)


@formula(unit="s/prompt", source="chunked prefill, Agrawal et al. 2024 (arXiv:2403.02310)")
def prefill_s(prefill_step_s: Column, prompts_per_step: Column) -> Column:
    """Replica time per prompt with chunked prefill, one pipeline stage after another.

    Parameters:
        prefill_step_s: time of one engine step, s.
        prompts_per_step: prompts in the step, or the share of a long prompt.
    Limits: the chunks of one prompt take equally long.
    Check:
        >>> one(prefill_s(col(0.1), col(1 / 3)))  # three chunks of 0.1 s
        0.30000000000000004
    """
    return prefill_step_s / prompts_per_step


@formula(unit="s", source="kernel tables of ai-dynamo/aiconfigurator: grouped products over tokens per expert")
def step_padding_s(prefill: PrefillTerms, prompts_per_step: Column) -> Column:
    """Time that a step multiplies the rows that pad its experts; few tokens activate few experts.

    Parameters:
        prefill: prefill terms; `padding_s` is the time with all experts active, s.
        prompts_per_step: prompts in the step, or the share of a long prompt.
    Check: of 16 tokens and of 4, with one expert of eight per token.
        >>> prompts = row(padding_s=0.01, new_tokens=16.0, data_parallel=1.0, expert_share=1 / 8)
        >>> step_padding_s(prompts, col(1, 0.25)).tolist()
        [0.01, 0.005]
    """
    rows = prompts_per_step * prefill.new_tokens * prefill.data_parallel * prefill.expert_share
    return prefill.padding_s * np.minimum(rows, 1.0)


def step_linear_s(prefill: PrefillTerms, per_step: Column) -> Column:
    """Time of the linear layers of a step with `per_step` prompts, the host's part included."""
    read = prefill.dense_s
    active = np.ones(len(per_step))
    if prefill.experts_s.any() or prefill.host is not None:
        active = active_expert_share(per_step * prefill.new_tokens * prefill.data_parallel, prefill.expert_share)
        read = weights_read_s(prefill.dense_s, prefill.experts_s, active)
    with trace_label("" if prefill.host is None else "accelerator part"):
        padding = step_padding_s(prefill, per_step)
        linear = prefill_linear_s(per_step, prefill.prompt_linear_s, padding, read, prefill.exponent)
    if prefill.host is None:
        return linear
    return with_host_part_s(linear, host_prompt_s(prefill.host, per_step, active))


def isolated_prompt_terms(prefill: PrefillTerms) -> PrefillTerms:
    """The prefill times of a prompt while no other rank has one."""
    if not prefill.pooled_share.any():
        return prefill
    own = isolated_prompt_linear_s(prefill.prompt_linear_s, prefill.pooled_share, prefill.data_parallel)
    return replace(prefill, prompt_linear_s=own)


def seconds_per_prompt(
    prefill: PrefillTerms, max_batched_tokens: Column, waiting_prompts: Column | float | None
) -> Column:
    """Replica time per prompt, one stage after another, while `waiting_prompts` wait. None: as many as a step holds."""
    if waiting_prompts is None:
        per_step = busy_prompts_per_step(max_batched_tokens, prefill.new_tokens)
    else:
        per_step = prompts_per_step(max_batched_tokens, prefill.new_tokens, waiting_prompts)
    return prefill_s(prefill_step_s(step_linear_s(prefill, per_step), per_step, prefill), per_step)


def isolated_prompt_s(prefill: PrefillTerms, max_batched_tokens: Column) -> Column:
    """Time of a prompt on an idle replica, where chunks may follow each other through the pipeline stages, s."""
    alone = isolated_prompt_terms(prefill)
    prompt = seconds_per_prompt(alone, max_batched_tokens, 1.0)
    if not (alone.overlapped_stages > 1).any():
        return prompt
    return prompt * pipelined_share(prompt, alone, max_batched_tokens)
