"""Prefill: the work of a prompt and the time it takes on a replica."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Column, Columns
from app.sizing.hardware.achieved import Achieved
from app.sizing.hardware.links import all_reduce_s
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.serving.communication import LinkUse, link_use
from app.sizing.serving.plans import Plans
from app.sizing.serving.step import DeviceRates, device_rates, expert_share_of, smooth_maximum, touched_experts


@dataclass(frozen=True, slots=True)
class PrefillWork(Columns):
    """Prefill of one prompt on one device, whatever its speed."""

    linear_flops: Column
    dense_bytes: Column
    expert_bytes: Column
    expert_share: Column
    score_flops: Column
    prompt_tokens: Column
    new_tokens: Column  # of which are not in the cache yet
    layers: Column
    hidden_bytes: Column  # one token's activations between layers
    tensor_parallel: Column
    pipeline_parallel: Column
    overlapped_stages: Column  # stages that work on different chunks of one prompt at a time
    rates: DeviceRates
    link: LinkUse


@dataclass(frozen=True, slots=True)
class PrefillTerms(Columns):
    """Prefill in seconds: of one prompt where it says slope, of one step of the engine otherwise."""

    linear_slope_s: Column
    attention_slope_s: Column
    collective_slope_s: Column
    dense_s: Column  # reading dense weights once
    experts_s: Column
    collective_fixed_s: Column
    dispatch_s: Column  # host time to launch the layers, hidden unless it is longer
    request_s: Column
    queued_share: Column
    new_tokens: Column
    expert_share: Column
    overlapped_stages: Column
    exponent: Column


def prefill_work(
    model: ModelArchitecture,
    plans: Plans,
    *,
    prompt_tokens: float,
    cached_tokens: float = 0.0,
    encoder_flops: float = 0.0,
) -> PrefillWork:
    """What one prompt of which `cached_tokens` are already in the cache costs on one device of every plan.

    The head multiplies only the last token; `encoder_flops` are those of the images that come with
    it. Check: Llama-3.1-8B, 1024 tokens: 2 * 7.50e9 * 1024 = 15.4 TFLOP of matrices, 19 ms at 801 TFLOP/s.
    """
    tp, n = plans.tensor_parallel, len(plans)
    new = max(1.0, prompt_tokens - cached_tokens)
    flops = (
        2 * model.prompt_matmul_params * new
        + 2 * model.head_matmul_params
        + model.recurrent_flops_per_token * new
        + encoder_flops
    )
    scores = model.prefill_attention_flops(prompt_tokens) - (
        model.prefill_attention_flops(cached_tokens) if cached_tokens > 0 else 0.0
    )
    return PrefillWork(
        linear_flops=flops / tp,
        dense_bytes=plans.streamed_bytes / tp,
        expert_bytes=plans.expert_bytes / tp,
        expert_share=np.full(n, expert_share_of(model)),
        score_flops=scores / tp,
        prompt_tokens=np.full(n, max(1.0, prompt_tokens)),
        new_tokens=np.full(n, new),
        layers=np.full(n, float(model.num_layers)),
        hidden_bytes=np.full(n, 2.0 * model.hidden_size),
        tensor_parallel=tp,
        pipeline_parallel=plans.pipeline_parallel,
        overlapped_stages=np.where(plans.small_engine, plans.pipeline_parallel, 1.0),
        rates=device_rates(plans),
        link=link_use(plans),
    )


def prefill_terms(work: PrefillWork, k: Achieved) -> PrefillTerms:
    """Terms of prefill; attention's achieved fraction grows with the prompt: f * s / (s + s_half)."""
    tp, rates, link = work.tensor_parallel, work.rates, work.link
    memory = rates.bytes_per_s * k.linear_memory_fraction
    fraction = k.attention_compute_fraction * work.prompt_tokens / (work.prompt_tokens + k.attention_half_length_tokens)
    message = work.new_tokens * work.hidden_bytes
    count = np.where(tp > 1, 2 * work.layers, 0.0)
    hops = work.pipeline_parallel - 1
    return PrefillTerms(
        linear_slope_s=work.linear_flops
        / (rates.linear_flops_per_s * k.linear_compute_fraction * k.prefill_compute_fraction),
        attention_slope_s=work.score_flops / (rates.bit16_flops_per_s * fraction),
        collective_slope_s=count * all_reduce_s(message, tp, link.bytes_per_s(k))
        + hops * message / link.hop_bytes_per_s(k),
        dense_s=work.dense_bytes / memory,
        experts_s=work.expert_bytes / (memory * k.expert_memory_fraction),
        collective_fixed_s=count * link.latency_s(k) + hops * link.hop_latency_s(k),
        dispatch_s=work.layers * k.prefill_layer_overhead_s,
        request_s=k.request_overhead_s,
        queued_share=k.queued_share,
        new_tokens=work.new_tokens,
        expert_share=work.expert_share,
        overlapped_stages=work.overlapped_stages,
        exponent=k.roofline_exponent,
    )


def prefill_step_s(t: PrefillTerms, prompts: Column) -> Column:
    """Seconds of one engine step that carries `prompts` prompts, or that share of a long one."""
    read = t.dense_s + t.experts_s * touched_experts(prompts * t.new_tokens, t.expert_share)
    linear = smooth_maximum(prompts * t.linear_slope_s, read, t.exponent)
    device = linear + prompts * (t.attention_slope_s + t.collective_slope_s) + t.collective_fixed_s
    return np.maximum(device, t.dispatch_s)


def prefill_s(t: PrefillTerms, chunk_tokens: Column, together: Column) -> Column:
    """Seconds of the replica per prompt when `together` of them wait: steps are filled up to `chunk_tokens`.

    Where stages overlap, n chunks pass p of them in n + p - 1 turns of a p-th of a step.
    Check: a prompt of three chunks takes three steps; 16 prompts of 512 tokens share one step of 8192.
    """
    per_step = np.minimum(chunk_tokens / t.new_tokens, np.maximum(together, 1.0))
    chunks = np.ceil(t.new_tokens / chunk_tokens)
    turns = (chunks + t.overlapped_stages - 1) / (chunks * t.overlapped_stages)
    return prefill_step_s(t, per_step) / per_step * turns
