"""The two serving backends: autoregressive token generation, and models that answer in a single forward pass.

This module is the only place that chooses between them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Generic, Protocol, TypeVar

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, Mask
from app.sizing.formula import trace_label
from app.sizing.hardware.achieved import Achieved, ideal_coefficients
from app.sizing.serving.capacity import (
    StreamOperatingPoint,
    StreamSpeed,
    UnloadedStream,
    running_sequences,
    stream_operating_point,
    stream_speed,
    unloaded_stream,
    with_stream_margins,
)
from app.sizing.serving.collectives import LinkSpeed, LinkUse, link_speed, link_use
from app.sizing.serving.continuous_batching import SchedulingTerms, Stream, build_stream
from app.sizing.serving.interfaces import (
    HardwareBound,
    LatencyLimit,
    Memory,
    OperatingPoint,
    Settings,
    Speed,
    UnloadedLatency,
)
from app.sizing.serving.kv_cache import idle_session_prefixes, length_biased_output_tokens
from app.sizing.serving.margins import Margins
from app.sizing.serving.memory import ServingMemory, serving_memory
from app.sizing.serving.plans import Plans
from app.sizing.serving.prefill import (
    PrefillTerms,
    attention_length_factor,
    prefill_terms,
    prefill_work,
)
from app.sizing.serving.prefix_capacity import add_idle_sessions, limit_sequences, speed_with_prefixes
from app.sizing.serving.single_pass import (
    BatchSpeed,
    UnloadedBatch,
    batch_cycle_s,
    batch_memory,
    batch_terms,
    batches_per_s,
    e2e_limit_s,
    request_sample_work,
    single_pass_operating_point,
    single_pass_speed,
    unloaded_single_pass,
)
from app.sizing.serving.steady_state import SteadyState, steady_state
from app.sizing.serving.step import StepTerms, step_terms, step_work, uses_server, with_speculative_decoding
from app.sizing.workload import InferenceWorkload, Load, Slo

M = TypeVar("M", bound=Memory)
A = TypeVar("A", bound=UnloadedLatency)
S = TypeVar("S", bound=Speed)
R = TypeVar("R", bound=OperatingPoint)


class ServingBackend(Protocol, Generic[M, A, S, R]):
    """Interface that estimates memory, speed and operating point of one kind of serving."""

    phase: str  # phase of the software stacks that support it

    def estimate_memory(
        self,
        workload: InferenceWorkload,
        plans: Plans,
        assumed: Assumptions,
        settings: Settings,
        margins: Margins | None = None,
    ) -> M:
        """Memory of every plan; no margins if none are given."""
        ...

    def unloaded_latency(
        self,
        workload: InferenceWorkload,
        plans: Plans,
        memory: M,
        assumed: Assumptions,
        margins: Margins | None = None,
    ) -> A:
        """Latency of one request on an idle replica of every plan; no margins if none are given."""
        ...

    def with_margins(self, workload: InferenceWorkload, alone: A, margins: Margins) -> A:
        """The same unloaded latency with other margins."""
        ...

    def latency_limits(self, alone: A, slo: Slo) -> tuple[LatencyLimit, ...]:
        """Limits that a request must meet on an idle replica, in the order in which they are checked."""
        ...

    def estimate_speed(self, workload: InferenceWorkload, memory: M, alone: A, assumed: Assumptions) -> S:
        """Capacity of one replica of every plan."""
        ...

    def latency_s(self, operation: R, margins: Margins) -> Column:
        """Median end-to-end latency in seconds, with the margins."""
        ...

    def hardware_bound(
        self,
        workload: InferenceWorkload,
        plans: Plans,
        memory: M,
        speed: S,
        operation: R,
        assumed: Assumptions,
    ) -> HardwareBound:
        """Upper bound of the hardware: no software can be faster at the same batch."""
        ...

    def operating_point(self, workload: InferenceWorkload, memory: M, speed: S, replicas: Column) -> R:
        """Operating point of one replica at its share of the load."""
        ...


class AutoregressiveServing:
    """Models that generate tokens one after another with a KV cache."""

    phase = "inference"

    def estimate_memory(
        self,
        workload: InferenceWorkload,
        plans: Plans,
        assumed: Assumptions,
        settings: Settings,
        margins: Margins | None = None,
    ) -> ServingMemory:
        """Memory of every plan."""
        memory = serving_memory(
            workload.model,
            plans,
            assumed,
            final_tokens=workload.tokens_per_request,
            output_tokens=workload.output_tokens.mean,
            output_variation=workload.output_tokens.squared_variation,
            longest_tokens=workload.max_context_tokens,
            in_flight=workload.in_flight,
            prompt_tokens=workload.uncached_prompt_tokens,
            offline=workload.load is Load.OFFLINE,
            settings=settings,
            unforeseen_share=None if margins is None else margins.memory_share,
        )
        prefixes = idle_session_prefixes(workload, plans)
        return memory if prefixes is None else replace(memory, prefixes=prefixes)

    def unloaded_latency(
        self,
        workload: InferenceWorkload,
        plans: Plans,
        memory: ServingMemory,
        assumed: Assumptions,
        margins: Margins | None = None,
    ) -> UnloadedStream:
        """Unloaded latency of a stream on every plan, with the expected prefix-cache hits and without hits."""
        achieved = plans.achieved_rates
        step, link, links = self.step_and_links(workload, plans, achieved, assumed)

        def unloaded_with(workload_part: InferenceWorkload) -> UnloadedStream:
            prompts = self.prefill_of_prompts(workload_part, plans, achieved, link, links)
            return unloaded_stream(workload_part, plans, memory, step, *prompts, margins)

        if memory.prefixes is None:
            return unloaded_with(workload)
        with trace_label("no hits"):
            cold = unloaded_with(workload.without_hits)
        with trace_label("hits"):
            return replace(unloaded_with(workload), without_hits=cold)

    def with_margins(self, workload: InferenceWorkload, alone: UnloadedStream, margins: Margins) -> UnloadedStream:
        """The same unloaded latency with other margins."""
        return with_stream_margins(workload, alone, margins)

    def estimate_speed(
        self, workload: InferenceWorkload, memory: ServingMemory, alone: UnloadedStream, assumed: Assumptions
    ) -> StreamSpeed:
        """Capacity of one replica over all its data-parallel ranks.

        Where prefix-cache hits count, the cached prefixes of idle sessions also take memory.
        """
        with trace_label("" if memory.prefixes is None else "hits"):
            speed = stream_speed(workload, memory, alone, assumed)
        with_prefixes = speed_with_prefixes(workload, memory, speed, assumed)
        return with_prefixes.scale_to_ranks(with_prefixes.data_parallel)

    def step_and_links(
        self,
        workload: InferenceWorkload,
        plans: Plans,
        achieved: Achieved,
        assumed: Assumptions,
    ) -> tuple[StepTerms, LinkUse, LinkSpeed]:
        """Terms of a decode step, and the use and speed of the links, which prefill uses too."""
        link = link_use(plans, assumed)
        links = link_speed(link, achieved)
        answer = workload.output_tokens
        context = workload.input_tokens.mean + length_biased_output_tokens(answer.mean, answer.squared_variation) / 2
        work = step_work(workload.model, plans, link, context_tokens=context)
        step = step_terms(work, achieved, links, uses_server(workload.load))
        return with_speculative_decoding(step, workload.model, plans.speculative), link, links

    def prefill_of_prompts(
        self, workload: InferenceWorkload, plans: Plans, achieved: Achieved, link: LinkUse, links: LinkSpeed
    ) -> tuple[PrefillTerms, list[PrefillTerms]]:
        """Prefill terms of a mean prompt, and of a long prompt (one per traffic class if there are several)."""
        prompt = workload.input_tokens
        spread = attention_length_factor(workload.model, prompt)
        prefill = self.prefill_of_length(workload, plans, achieved, link, links, prompt.mean, spread)
        tail = workload.long_prompt(workload.slo.percentile)
        if tail <= prompt.mean and not workload.classes:
            return prefill, [prefill]
        longest = [
            part.long_prompt(part.slo.percentile) for part in map(workload.single_class_workload, workload.classes)
        ] or [tail]
        with trace_label("long prompt"):
            return prefill, [
                self.prefill_of_length(workload, plans, achieved, link, links, tokens) for tokens in longest
            ]

    def prefill_of_length(
        self,
        workload: InferenceWorkload,
        plans: Plans,
        achieved: Achieved,
        link: LinkUse,
        links: LinkSpeed,
        tokens: float,
        attention_factor: float = 1.0,
    ) -> PrefillTerms:
        """Prefill terms of a prompt of `tokens` tokens."""
        work = prefill_work(
            workload.model,
            plans,
            link,
            prompt_tokens=tokens,
            cached_tokens=tokens * workload.cached_prefix_fraction,
            encoder_flops=workload.encoder_flops_per_request,
            attention_factor=attention_factor,
        )
        terms = prefill_terms(work, achieved, links, uses_server(workload.load), comes_read=workload.comes_read)
        prefixes = None if plans.host_prefixes is None else idle_session_prefixes(workload, plans)
        if prefixes is None or prefixes.host is None:
            return terms
        return replace(terms, request_s=terms.request_s + prefixes.host.load_s)

    def latency_limits(self, alone: UnloadedStream, slo: Slo) -> tuple[LatencyLimit, ...]:
        """The TPOT limit, then the TTFT limit. A limit on the whole request leaves time for both."""
        if slo.e2e_s is None:
            left = "The limit is {available} ms."
        else:
            left = f"The {'end-to-end limit leaves' if slo.tpot_s is None else 'limits leave'} {{available}} ms."
        tpot, ttft, margins = alone.fastest_tpot_s, alone.fastest_ttft_s, alone.margins
        tpot_limit, ttft_limit = alone.tpot_limit_s * margins.tpot, alone.ttft_limit_s * margins.ttft
        return (
            LatencyLimit(
                "too_slow_per_token",
                "{name} takes {needed} ms per output token (TPOT) with no other load on {on}. " + left,
                tpot * margins.tpot,
                tpot_limit,
                tpot <= alone.tpot_limit_s,
                tpot <= tpot_limit,
            ),
            LatencyLimit(
                "too_slow_to_first_token",
                "{name} takes {needed} ms to the first token (TTFT) of a long prompt with no other load on {on}. "
                + left,
                ttft * margins.ttft,
                ttft_limit,
                ttft <= alone.ttft_limit_s,
                ttft <= ttft_limit,
            ),
        )

    def latency_s(self, operation: StreamOperatingPoint, margins: Margins) -> Column:
        """Median end-to-end latency in seconds."""
        return margins.request_s(operation.ttft_p50_s, operation.e2e_p50_s)

    def hardware_bound(
        self,
        workload: InferenceWorkload,
        plans: Plans,
        memory: ServingMemory,
        speed: StreamSpeed,
        operation: StreamOperatingPoint,
        assumed: Assumptions,
    ) -> HardwareBound:
        """Upper bound with all nominal rates fully achieved and no queueing."""
        whole = ideal_coefficients(len(plans))
        if plans.on_host is not None:
            plans = replace(plans, on_host=plans.on_host.at_full_rate())
        step, link, links = self.step_and_links(workload, plans, whole, assumed)
        prefill = self.prefill_of_length(workload, plans, whole, link, links, workload.input_tokens.mean)
        scheduled = SchedulingTerms.mixing_only(memory.max_batched_tokens)
        tokens = workload.output_tokens.mean
        stream = build_stream(step, prefill, scheduled, output_tokens=tokens, ranks_in_step=True)
        ranks = plans.data_parallel
        at = self.unqueued_steady_state(workload, stream, running_sequences(operation.batch / ranks))
        most = self.unqueued_steady_state(workload, stream, speed.rank_batch) if workload.load is Load.OPEN else at
        return HardwareBound(most.rate_per_s * ranks, at.tpot_s, stream.unloaded_ttft_s)

    def unqueued_steady_state(self, workload: InferenceWorkload, stream: Stream, batch: Column) -> SteadyState:
        """Steady state of `batch` concurrent sequences that are all admitted at once."""
        return steady_state(Load.BATCH if workload.load is Load.BATCH else Load.OFFLINE, stream, batch, batch)

    def operating_point(
        self, workload: InferenceWorkload, memory: ServingMemory, speed: StreamSpeed, replicas: Column
    ) -> StreamOperatingPoint:
        """Operating point of one replica at its share of the load."""
        ranks = speed.data_parallel
        rank = speed.scale_to_ranks(1 / ranks)
        operation = stream_operating_point(workload, limit_sequences(workload, memory, rank), rank, replicas * ranks)
        return add_idle_sessions(memory, operation).scale_to_ranks(ranks)


class SingleForwardServing:
    """Models that answer a request in one forward pass: encoders, vision, speech, diffusion."""

    phase = "sample_inference"

    def estimate_memory(
        self,
        workload: InferenceWorkload,
        plans: Plans,
        assumed: Assumptions,
        settings: Settings,
        margins: Margins | None = None,
    ) -> Memory:
        """Memory of every plan."""
        unforeseen = None if margins is None else margins.memory_share
        return batch_memory(request_sample_work(workload), plans, assumed, settings, unforeseen)

    def unloaded_latency(
        self,
        workload: InferenceWorkload,
        plans: Plans,
        memory: Memory,
        assumed: Assumptions,
        margins: Margins | None = None,
    ) -> UnloadedBatch:
        """Latency of one request on an idle device; speculative decoding does not apply."""
        return unloaded_single_pass(workload, plans, request_sample_work(workload), assumed, margins)

    def with_margins(self, workload: InferenceWorkload, alone: UnloadedBatch, margins: Margins) -> UnloadedBatch:
        """The same unloaded latency with other margins."""
        return replace(alone, margins=margins, e2e_limit_s=e2e_limit_s(workload, margins))

    def estimate_speed(
        self, workload: InferenceWorkload, memory: Memory, alone: UnloadedBatch, assumed: Assumptions
    ) -> BatchSpeed:
        """Capacity of one replica of every plan."""
        return single_pass_speed(workload, memory, alone)

    def latency_limits(self, alone: UnloadedBatch, slo: Slo) -> tuple[LatencyLimit, ...]:
        """The end-to-end latency limit."""
        needed, margin = alone.fastest_e2e_s, alone.margins.rate
        return (
            LatencyLimit(
                "too_slow",
                "{name} takes {needed} ms on {on} to answer a request that waits for one batch. "
                "The limit is {available} ms.",
                needed * margin,
                alone.e2e_limit_s * margin,
                needed <= alone.e2e_limit_s,
                needed <= alone.e2e_limit_s * margin,
            ),
        )

    def latency_s(self, operation: OperatingPoint, margins: Margins) -> Column:
        """Median end-to-end latency in seconds."""
        return operation.e2e_p50_s * margins.rate

    def hardware_bound(
        self,
        workload: InferenceWorkload,
        plans: Plans,
        memory: Memory,
        speed: BatchSpeed,
        operation: OperatingPoint,
        assumed: Assumptions,
    ) -> HardwareBound:
        """Upper bound with all nominal rates fully achieved; all results of a batch arrive together."""
        terms = batch_terms(request_sample_work(workload), plans, ideal_coefficients(len(plans)))
        most = speed.slo_batch if workload.load is Load.OPEN else operation.batch
        whole = batch_cycle_s(terms, operation.batch)
        return HardwareBound(batches_per_s(most, batch_cycle_s(terms, most)), whole, whole)

    def operating_point(
        self, workload: InferenceWorkload, memory: Memory, speed: BatchSpeed, replicas: Column
    ) -> OperatingPoint:
        """Operating point of one replica at its share of the load."""
        return single_pass_operating_point(workload, memory, speed, replicas)


AUTOREGRESSIVE, SINGLE_FORWARD = AutoregressiveServing(), SingleForwardServing()


def serving_backend(workload: InferenceWorkload) -> ServingBackend[Any, Any, Any, Any]:
    """Serving backend of a workload."""
    return SINGLE_FORWARD if workload.single_pass else AUTOREGRESSIVE


def meets_unloaded_limits(workload: InferenceWorkload, memory: Memory, speed: Speed) -> Mask:
    """Mask of plans that fit in memory and meet the latency limits without load, with their margins."""
    met: Mask = memory.fits & speed.has_capacity
    for limit in serving_backend(workload).latency_limits(speed.unloaded, workload.slo):
        met = met & limit.met
    return met
