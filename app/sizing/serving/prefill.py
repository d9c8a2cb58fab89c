"""Prefill: the work of a prompt and the time it takes on a replica."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from app.sizing.columns import Column, Columns
from app.sizing.formula import formula, told_as
from app.sizing.hardware.achieved import Achieved
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.serving.communication import LinkSpeed, LinkUse, link_speed, passed_and_waited
from app.sizing.serving.exchange import Exchange, exchange_fixed_s, exchange_of, exchange_slope_s
from app.sizing.serving.host_weights import (
    HostPrompt,
    OnHost,
    beside_host_s,
    host_flops_share,
    host_prompt,
    host_prompt_s,
    left_on_accelerators,
    undivided,
)
from app.sizing.serving.plans import Plans
from app.sizing.serving.roofline import smooth_maximum, touched_experts
from app.sizing.serving.step import (
    DeviceRates,
    dense_bytes,
    dense_s,
    device_rates,
    expert_share_of,
    experts_s,
    routed_bytes,
    weights_read_s,
)
from app.sizing.serving.streaming import tokenise_s
from app.sizing.workload import Lengths

MIDDLES = tuple(2.5 + 5 * i for i in range(20))  # percentiles of twenty lengths as likely


@dataclass(frozen=True, slots=True)
class PrefillWork(Columns):
    """Prefill of one prompt on one device, whatever its speed."""

    prompt_linear_flops: Column
    expert_flops_share: Column  # of them, of routed experts
    dense_bytes: Column
    routed_bytes: Column
    expert_share: Column
    score_flops: Column
    prompt_tokens: Column
    new_tokens: Column  # of which are not in the cache yet
    layers: Column
    reductions: Column  # all-reduces over the devices of a rank
    hidden_bytes: Column  # one token's activations between layers
    tensor_parallel: Column
    pipeline_parallel: Column
    data_parallel: Column
    exchange: Exchange
    overlapped_stages: Column  # stages that work on different chunks of one prompt at a time
    rates: DeviceRates
    link: LinkUse
    host: HostPrompt | None = None  # its part, where weights lie in its memory


@dataclass(frozen=True, slots=True)
class PrefillTerms(Columns):
    """Prefill in seconds: of one prompt where it says prompt, of one step of the engine otherwise."""

    prompt_linear_s: Column
    prompt_attention_s: Column
    prompt_links_s: Column
    dense_s: Column  # reading dense weights once
    experts_s: Column
    prefill_links_s: Column
    dispatch_s: Column  # host time to launch the layers, hidden unless it is longer
    request_s: Column
    tokenise_s: Column  # one prompt after another; none where nothing is served
    new_tokens: Column
    expert_share: Column
    data_parallel: Column  # ranks of a replica
    pooled_share: Column  # of multiplying, what all ranks do together for the prompts of any of them
    overlapped_stages: Column
    exponent: Column
    host: HostPrompt | None = None


@formula(unit="FLOP", source="one multiplication and one addition per weight and token")
def prompt_linear_flops(
    model: ModelArchitecture, new_tokens: Column | float, encoder_flops: float, tensor_parallel: Column
) -> Column:
    """Matrix FLOPs of a prompt on one device: the head multiplies only the last token; `encoder_flops` are those of
    the images that come with it.

    Source: counted. Limits: matrices split evenly.
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
    """Share of a prompt's matrix FLOPs that routed experts take, the head left out."""
    return model.routed_matmul_params / model.prompt_matmul_params if model.is_moe else 0.0


@formula(unit="FLOP", source="Dao et al. 2022 (arXiv:2205.14135)")
def score_flops(prompt_flops: float, cached_flops: float, tensor_parallel: Column) -> Column:
    """Attention of a prompt on one device, less that of the part that is cached.

    Source: counted. Limits: causal masks halve the work, windows bound it.
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
    """What one prompt of which `cached_tokens` are already in the cache costs on one device of every plan.

    `attention_factor`: of prompts of this mean, attention over that of the mean one.
    """
    tp, n = plans.tensor_parallel, len(plans)
    new = max(1.0, prompt_tokens - cached_tokens)
    cached = attention_factor * model.prefill_attention_flops(cached_tokens) if cached_tokens > 0 else 0.0
    exchange = exchange_of(model, plans)
    with told_as(undivided(plans.on_host)):
        flops = prompt_linear_flops(model, new, encoder_flops, tp)
    work = PrefillWork(
        prompt_linear_flops=flops,
        expert_flops_share=np.full(n, expert_flops_share(model)),
        dense_bytes=dense_bytes(plans.streamed_bytes, tp),
        routed_bytes=routed_bytes(plans.expert_bytes, plans.stage_accelerators),
        expert_share=np.full(n, expert_share_of(model)),
        score_flops=score_flops(attention_factor * model.prefill_attention_flops(prompt_tokens), cached, tp),
        prompt_tokens=np.full(n, max(1.0, prompt_tokens)),
        new_tokens=np.full(n, new),
        layers=np.full(n, float(model.num_layers)),
        reductions=2 * float(model.num_layers) - exchange.expert_layers,
        hidden_bytes=np.full(n, 2.0 * model.hidden_size),
        tensor_parallel=tp,
        pipeline_parallel=plans.pipeline_parallel,
        data_parallel=plans.data_parallel,
        exchange=exchange,
        overlapped_stages=np.where(plans.small_engine, plans.pipeline_parallel, 1.0),
        rates=device_rates(plans),
        link=link,
    )
    return work if plans.on_host is None else shared_with_host(model, work, plans.on_host)


def shared_with_host(model: ModelArchitecture, work: PrefillWork, on: OnHost) -> PrefillWork:
    """The same with the host's part of the matrices taken out, and told beside it."""
    share, whole = host_flops_share(model, on.experts_share, on.layers_share), work.prompt_linear_flops
    with told_as("prompt left to the accelerators"):
        flops = left_on_accelerators(whole, share)
    return replace(work, prompt_linear_flops=flops, host=host_prompt(on, whole * share * work.tensor_parallel))


def moved(work: PrefillWork, achieved: Achieved) -> HostPrompt | None:
    """The host's part, with what multiplying it takes on the accelerators."""
    if work.host is None:
        return None
    theirs = replace(work, prompt_linear_flops=work.host.flops / work.tensor_parallel)
    with told_as("moved from the host"):
        return replace(work.host, moved_multiply_s=prompt_linear_s(theirs, work.rates, achieved))


@formula(unit="s/prompt", source="roofline")
def prompt_linear_s(work: PrefillWork, rates: DeviceRates, achieved: Achieved) -> Column:
    """Multiplying one prompt; routed experts, of which each gets a part of its tokens, achieve less of the rate.

    Source: Williams et al. 2009. Limits: prompts that fill the device.
    """
    slower = 1 + work.expert_flops_share * (1 / achieved.prefill_expert_fraction - 1)
    fraction = achieved.linear_compute_fraction * achieved.prefill_compute_fraction
    return work.prompt_linear_flops * slower / (rates.linear_flops_per_s * fraction)


@formula(unit="1", source="routed experts lie on all data-parallel ranks")
def pooled_share(expert_flops_share: Column, data_parallel: Column, achieved: Achieved) -> Column:
    """Share of a prompt's multiplying that routed experts take, which all ranks do together.

    Source: counted. Limits: experts are routed evenly.
    """
    experts = expert_flops_share / achieved.prefill_expert_fraction
    return np.where(data_parallel > 1, experts / (1 - expert_flops_share + experts), 0.0)


@formula(unit="s/prompt", source="the other ranks have no prompt")
def lone_prompt_linear_s(prompt_linear_s: Column, pooled_share: Column, data_parallel: Column) -> Column:
    """Multiplying a prompt while the other ranks have none: its experts' part is spread over all of them.

    Source: counted. Limits: experts are routed evenly.
    Check:
        >>> one(lone_prompt_linear_s(col(1.0), col(0.5), col(4)))  # half of it, and a quarter of the other half
        0.625
    """
    return prompt_linear_s * (1 - pooled_share * (1 - 1 / data_parallel))


@formula(unit="s/prompt", source="roofline; the achieved fraction grows with the prompt")
def prompt_attention_s(work: PrefillWork, rates: DeviceRates, achieved: Achieved) -> Column:
    """Attention of one prompt: f s / (s + s_half) of the 16-bit rate.

    Source: FlashAttention-2 and 3 over length (arXiv:2307.08691, arXiv:2407.08608). Limits: fused kernels.
    """
    fraction = (
        achieved.attention_compute_fraction
        * work.prompt_tokens
        / (work.prompt_tokens + achieved.attention_half_length_tokens)
    )
    return work.score_flops / (rates.bit16_flops_per_s * fraction)


def attention_of_lengths(model: ModelArchitecture, lengths: Lengths) -> float:
    """Attention of prompts in the mean over that of the mean prompt: it grows with the square of a prompt."""
    at_mean = model.prefill_attention_flops(lengths.mean)
    if at_mean <= 0 or lengths.squared_variation == 0:
        return 1.0
    each = [model.prefill_attention_flops(max(lengths.quantile(p), 1.0)) for p in MIDDLES]
    return sum(each) / len(each) / at_mean


@formula(unit="s", source="fitted to measurements")
def dispatch_s(work: PrefillWork, achieved: Achieved) -> Column:
    """Host time to launch the layers of a prefill step. Source: calibration. Limits: one value per engine."""
    return work.layers * achieved.prefill_layer_overhead_s


def prefill_terms(
    work: PrefillWork, achieved: Achieved, speed: LinkSpeed | None = None, served: Column | float = 1.0
) -> PrefillTerms:
    """Terms of prefill; `served` is 1 where prompts come through a server, 0 from the engine's own process."""
    rates, links = work.rates, link_speed(work.link, achieved) if speed is None else speed
    degrees, prompt_bytes = (work.tensor_parallel, work.pipeline_parallel), work.new_tokens * work.hidden_bytes
    with told_as("prompt"):
        passed, waited = passed_and_waited(work.reductions, prompt_bytes, *degrees, work.link, links)
    if work.exchange.expert_layers.any():
        passed = passed + work.new_tokens * exchange_slope_s(work.exchange, work.link)
        waited = waited + exchange_fixed_s(work.exchange, links)
    return PrefillTerms(
        prompt_linear_s=prompt_linear_s(work, rates, achieved),
        prompt_attention_s=prompt_attention_s(work, rates, achieved),
        prompt_links_s=passed,
        dense_s=dense_s(work.dense_bytes, rates, achieved),
        experts_s=experts_s(work.routed_bytes, rates, achieved),
        prefill_links_s=waited,
        dispatch_s=dispatch_s(work, achieved),
        request_s=achieved.request_overhead_s,
        tokenise_s=tokenise_s(work.prompt_tokens, served, achieved),
        new_tokens=work.new_tokens,
        expert_share=work.expert_share,
        data_parallel=work.data_parallel,
        pooled_share=pooled_share(work.expert_flops_share, work.data_parallel, achieved),
        overlapped_stages=work.overlapped_stages,
        exponent=achieved.roofline_exponent,
        host=moved(work, achieved),
    )


@formula(unit="prompts", source="steps are filled up to the engine's budget of tokens")
def busy_prompts_per_step(max_batched_tokens: Column, new_tokens: Column) -> Column:
    """Prompts of one step, or the share of a long one, where many wait.

    Source: Agrawal et al. 2024 (arXiv:2403.02310). Limits: prompts of one length.
    """
    return max_batched_tokens / new_tokens


@formula(unit="prompts", source="steps are filled up to the engine's budget of tokens")
def prompts_per_step(max_batched_tokens: Column, new_tokens: Column, together: Column | float) -> Column:
    """Prompts of one step, or the share of a long one, where so many wait.

    Source: Agrawal et al. 2024 (arXiv:2403.02310). Limits: prompts of one length.
    """
    return np.minimum(max_batched_tokens / new_tokens, np.maximum(together, 1.0))


@formula(unit="s", source="roofline with a rounded knee")
def prefill_linear_s(
    prompts_per_step: Column, each_linear_s: Column, weights_read_s: Column, exponent: Column
) -> Column:
    """Linear layers of a prefill step. Source: Williams et al. 2009. Limits: reads overlap with computing."""
    return smooth_maximum(prompts_per_step * each_linear_s, weights_read_s, exponent)


@formula(unit="s", source="sum of the parts of a step")
def prefill_step_s(prefill_linear_s: Column, prompts_per_step: Column, prefill: PrefillTerms) -> Column:
    """One engine step that carries so many prompts; launching is hidden unless it takes longer.

    Source: counted. Limits: no decode shares the step.
    """
    each = prefill.prompt_attention_s + prefill.prompt_links_s
    device: Column = prefill_linear_s + prompts_per_step * each + prefill.prefill_links_s
    return np.maximum(device, prefill.dispatch_s)


@formula(unit="s/prompt", source="Agrawal et al. 2024 (arXiv:2403.02310)")
def prefill_s(
    prefill_step_s: Column,
    prompts_per_step: Column,
    new_tokens: Column,
    max_batched_tokens: Column,
    overlapped_stages: Column,
) -> Column:
    """Seconds of the replica per prompt.

    Where stages overlap, n chunks pass p of them in n + p - 1 turns of a p-th of a step.
    Source: chunked prefill (arXiv:2403.02310). Limits: chunks of one prompt take equally long.
    Check:
        >>> one(prefill_s(col(0.1), col(1 / 3), col(300), col(100), col(1)))  # three chunks of 0.1 s
        0.30000000000000004
    """
    chunks = np.ceil(new_tokens / max_batched_tokens)
    turns = (chunks + overlapped_stages - 1) / (chunks * overlapped_stages)
    return prefill_step_s / prompts_per_step * turns


def linear_of_step_s(prefill: PrefillTerms, per_step: Column) -> Column:
    """Seconds of the linear layers of a step with so many prompts, the host's part of them included."""
    read = prefill.dense_s
    touched = np.ones(len(per_step))
    if prefill.experts_s.any() or prefill.host is not None:
        touched = touched_experts(per_step * prefill.new_tokens * prefill.data_parallel, prefill.expert_share)
        read = weights_read_s(prefill.dense_s, prefill.experts_s, touched)
    with told_as("" if prefill.host is None else "on the accelerators"):
        linear = prefill_linear_s(per_step, prefill.prompt_linear_s, read, prefill.exponent)
    if prefill.host is None:
        return linear
    return beside_host_s(linear, host_prompt_s(prefill.host, per_step, touched))


def lone(prefill: PrefillTerms) -> PrefillTerms:
    """The same of a prompt beside which no other rank has one."""
    if not prefill.pooled_share.any():
        return prefill
    own = lone_prompt_linear_s(prefill.prompt_linear_s, prefill.pooled_share, prefill.data_parallel)
    return replace(prefill, prompt_linear_s=own)


def prompt_s(prefill: PrefillTerms, max_batched_tokens: Column, together: Column | float | None) -> Column:
    """Seconds of the replica per prompt when `together` of them wait; None: as many as a step takes."""
    if together is None:
        per_step = busy_prompts_per_step(max_batched_tokens, prefill.new_tokens)
    else:
        per_step = prompts_per_step(max_batched_tokens, prefill.new_tokens, together)
    step = prefill_step_s(linear_of_step_s(prefill, per_step), per_step, prefill)
    return prefill_s(step, per_step, prefill.new_tokens, max_batched_tokens, prefill.overlapped_stages)
