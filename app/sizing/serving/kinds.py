"""The two serving backends: autoregressive token generation, and models that answer in a single forward pass.

This module is the only place that chooses between them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Generic, Protocol, TypeVar

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, Mask
from app.sizing.formula import trace_label
from app.sizing.hardware.achieved import Achieved, ideal
from app.sizing.question import Speculative
from app.sizing.serving.batch import batch_terms, of_batch_s, work_of
from app.sizing.serving.cache import aged_output_tokens, prefixes_of
from app.sizing.serving.communication import LinkSpeed, LinkUse, link_speed, link_use
from app.sizing.serving.flow import SteadyState, steady_state
from app.sizing.serving.load import StreamAlone, StreamSpeed, unloaded_stream, stream_by, stream_speed
from app.sizing.serving.margins import Margins
from app.sizing.serving.measured import Alone, Best, Limit, Memory, Operation, Settings, Speed
from app.sizing.serving.memory import ServingMemory, serving_memory
from app.sizing.serving.operation import StreamOperation, stream_operating_point, running
from app.sizing.serving.pace import Scheduled, Stream, stream_of
from app.sizing.serving.plans import Plans
from app.sizing.serving.prefill import (
    PrefillTerms,
    attention_of_lengths,
    prefill_terms,
    prefill_work,
)
from app.sizing.serving.prefixes import at_once, speed_with_prefixes, with_idle
from app.sizing.serving.single_pass import (
    BatchAlone,
    BatchSpeed,
    batch_memory,
    batches_per_s,
    e2e_limit_s,
    operate_single_pass,
    single_pass_alone,
    single_pass_speed,
)
from app.sizing.serving.step import StepTerms, speculating, step_terms, step_work
from app.sizing.serving.streaming import served
from app.sizing.workload import InferenceWorkload, Load

M = TypeVar("M", bound=Memory)
A = TypeVar("A", bound=Alone)
S = TypeVar("S", bound=Speed)
R = TypeVar("R", bound=Operation)


class ServingBackend(Protocol, Generic[M, A, S, R]):
    """Interface that estimates memory, speed and operating point of one kind of serving."""

    phase: str  # phase of the software stacks that support it

    def memory(
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
        speculative: Speculative | None = None,
        margins: Margins | None = None,
    ) -> A:
        """Latency of one request on an idle replica of every plan; no margins if none are given."""
        ...

    def by(self, workload: InferenceWorkload, alone: A, margins: Margins) -> A:
        """The same unloaded latency with other margins."""
        ...

    def limits(self, alone: A) -> tuple[Limit, ...]:
        """Limits that a request must meet on an idle replica, in the order in which they are checked."""
        ...

    def speed(self, workload: InferenceWorkload, memory: M, alone: A, assumed: Assumptions) -> S:
        """Capacity of one replica of every plan."""
        ...

    def latency_s(self, operation: R, margins: Margins) -> Column:
        """Median end-to-end latency in seconds, with the margins."""
        ...

    def best(
        self,
        workload: InferenceWorkload,
        plans: Plans,
        memory: M,
        speed: S,
        operation: R,
        assumed: Assumptions,
        speculative: Speculative | None = None,
    ) -> Best:
        """Upper bound of the hardware: no software can be faster at the same batch."""
        ...

    def operating_point(self, workload: InferenceWorkload, memory: M, speed: S, replicas: Column) -> R:
        """Operating point of one replica at its share of the load."""
        ...


class AutoregressiveServing:
    """Models that generate tokens one after another with a KV cache."""

    phase = "inference"

    def memory(
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
            offline=workload.load is Load.OFFLINE,
            settings=settings,
            unforeseen_share=None if margins is None else margins.memory_share,
        )
        prefixes = prefixes_of(workload, plans)
        return memory if prefixes is None else replace(memory, prefixes=prefixes)

    def unloaded_latency(
        self,
        workload: InferenceWorkload,
        plans: Plans,
        memory: ServingMemory,
        assumed: Assumptions,
        speculative: Speculative | None = None,
        margins: Margins | None = None,
    ) -> StreamAlone:
        """Unloaded latency of a stream on every plan, with the expected prefix-cache hits and without hits."""
        achieved = plans.achieved
        step, link, links = self.steps(workload, plans, achieved, assumed, speculative)

        def unloaded_with(workload_part: InferenceWorkload) -> StreamAlone:
            prompts = self.prompts(workload_part, plans, achieved, link, links)
            return unloaded_stream(workload_part, plans, memory, step, *prompts, margins)

        if memory.prefixes is None:
            return unloaded_with(workload)
        with trace_label("no hits"):
            cold = unloaded_with(workload.without_hits)
        with trace_label("hits"):
            return replace(unloaded_with(workload), cold=cold)

    def by(self, workload: InferenceWorkload, alone: StreamAlone, margins: Margins) -> StreamAlone:
        """The same unloaded latency with other margins."""
        return stream_by(workload, alone, margins)

    def speed(
        self, workload: InferenceWorkload, memory: ServingMemory, alone: StreamAlone, assumed: Assumptions
    ) -> StreamSpeed:
        """Capacity of one replica over all its data-parallel ranks.

        Where prefix-cache hits count, the cached prefixes of idle sessions also take memory.
        """
        with trace_label("" if memory.prefixes is None else "hits"):
            speed = stream_speed(workload, memory, alone, assumed)
        with_prefixes = speed_with_prefixes(workload, memory, speed, assumed)
        return with_prefixes.times(with_prefixes.data_parallel)

    def steps(
        self,
        workload: InferenceWorkload,
        plans: Plans,
        achieved: Achieved,
        assumed: Assumptions,
        speculative: Speculative | None,
    ) -> tuple[StepTerms, LinkUse, LinkSpeed]:
        """Terms of a decode step, and the use and speed of the links, which prefill uses too."""
        link = link_use(plans, assumed)
        links = link_speed(link, achieved)
        answer = workload.output_tokens
        context = workload.input_tokens.mean + aged_output_tokens(answer.mean, answer.squared_variation) / 2
        work = step_work(workload.model, plans, link, context_tokens=context)
        step = step_terms(work, achieved, links, served(workload.load))
        return speculating(step, workload.model, speculative), link, links

    def prompts(
        self, workload: InferenceWorkload, plans: Plans, achieved: Achieved, link: LinkUse, links: LinkSpeed
    ) -> tuple[PrefillTerms, list[PrefillTerms]]:
        """Prefill terms of a mean prompt, and of a long prompt (one per traffic class if there are several)."""
        prompt = workload.input_tokens
        spread = attention_of_lengths(workload.model, prompt)
        prefill = self.prompt(workload, plans, achieved, link, links, prompt.mean, spread)
        tail = workload.long_prompt(workload.slo.percentile)
        if tail <= prompt.mean and not workload.classes:
            return prefill, [prefill]
        longest = [part.long_prompt(part.slo.percentile) for part in map(workload.single_class_workload, workload.classes)] or [tail]
        with trace_label("long prompt"):
            return prefill, [self.prompt(workload, plans, achieved, link, links, tokens) for tokens in longest]

    def prompt(
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
        return prefill_terms(work, achieved, links, served(workload.load))

    def limits(self, alone: StreamAlone) -> tuple[Limit, ...]:
        """The TPOT limit, then the TTFT limit."""
        tpot, ttft, margins = alone.fastest_tpot_s, alone.fastest_ttft_s, alone.margins
        tpot_limit, ttft_limit = alone.tpot_limit_s * margins.tpot, alone.ttft_limit_s * margins.ttft
        return (
            Limit(
                "too_slow_per_token",
                "{name} takes {needed} ms per output token (TPOT) with no other load on {on}. "
                "The limit is {available} ms.",
                tpot * margins.tpot,
                tpot_limit,
                tpot <= alone.tpot_limit_s,
                tpot <= tpot_limit,
            ),
            Limit(
                "too_slow_to_first_token",
                "{name} takes {needed} ms to the first token (TTFT) of a long prompt with no other load on {on}. "
                "The limit is {available} ms.",
                ttft * margins.ttft,
                ttft_limit,
                ttft <= alone.ttft_limit_s,
                ttft <= ttft_limit,
            ),
        )

    def latency_s(self, operation: StreamOperation, margins: Margins) -> Column:
        """Median end-to-end latency in seconds."""
        return margins.request_s(operation.ttft_p50_s, operation.e2e_p50_s)

    def best(
        self,
        workload: InferenceWorkload,
        plans: Plans,
        memory: ServingMemory,
        speed: StreamSpeed,
        operation: StreamOperation,
        assumed: Assumptions,
        speculative: Speculative | None = None,
    ) -> Best:
        """Upper bound with all nominal rates fully achieved and no queueing."""
        whole = ideal(len(plans))
        if plans.on_host is not None:
            plans = replace(plans, on_host=plans.on_host.at_best())
        step, link, links = self.steps(workload, plans, whole, assumed, speculative)
        prefill = self.prompt(workload, plans, whole, link, links, workload.input_tokens.mean)
        scheduled = Scheduled.mixed(memory.max_batched_tokens)
        stream = stream_of(step, prefill, scheduled, output_tokens=workload.output_tokens.mean)
        ranks = plans.data_parallel
        at = self.unhindered(workload, stream, running(operation.batch / ranks))
        most = self.unhindered(workload, stream, speed.rank_batch) if workload.load is Load.OPEN else at
        return Best(most.rate_per_s * ranks, at.tpot_s, stream.idle_s)

    def unhindered(self, workload: InferenceWorkload, stream: Stream, batch: Column) -> SteadyState:
        """Steady state of `batch` concurrent sequences that are all admitted at once."""
        return steady_state(Load.BATCH if workload.load is Load.BATCH else Load.OFFLINE, stream, batch, batch)

    def operating_point(
        self, workload: InferenceWorkload, memory: ServingMemory, speed: StreamSpeed, replicas: Column
    ) -> StreamOperation:
        """Operating point of one replica at its share of the load."""
        ranks = speed.data_parallel
        rank = speed.times(1 / ranks)
        operation = stream_operating_point(workload, at_once(workload, memory, rank), rank, replicas * ranks)
        return with_idle(memory, operation).times(ranks)


class SingleForwardServing:
    """Models that answer a request in one forward pass: encoders, vision, speech, diffusion."""

    phase = "sample_inference"

    def memory(
        self,
        workload: InferenceWorkload,
        plans: Plans,
        assumed: Assumptions,
        settings: Settings,
        margins: Margins | None = None,
    ) -> Memory:
        """Memory of every plan."""
        unforeseen = None if margins is None else margins.memory_share
        return batch_memory(work_of(workload), plans, assumed, settings, unforeseen)

    def unloaded_latency(
        self,
        workload: InferenceWorkload,
        plans: Plans,
        memory: Memory,
        assumed: Assumptions,
        speculative: Speculative | None = None,
        margins: Margins | None = None,
    ) -> BatchAlone:
        """Latency of one request on an idle device; speculative decoding does not apply."""
        return single_pass_alone(workload, plans, work_of(workload), assumed, margins)

    def by(self, workload: InferenceWorkload, alone: BatchAlone, margins: Margins) -> BatchAlone:
        """The same unloaded latency with other margins."""
        return replace(alone, margins=margins, e2e_limit_s=e2e_limit_s(workload, margins))

    def speed(self, workload: InferenceWorkload, memory: Memory, alone: BatchAlone, assumed: Assumptions) -> BatchSpeed:
        """Capacity of one replica of every plan."""
        return single_pass_speed(workload, memory, alone)

    def limits(self, alone: BatchAlone) -> tuple[Limit, ...]:
        """The end-to-end latency limit."""
        needed, margin = alone.fastest_e2e_s, alone.margins.rate
        return (
            Limit(
                "too_slow",
                "{name} needs {needed} ms for a request and the batch before it on {on}. "
                "The limit is {available} ms.",
                needed * margin,
                alone.e2e_limit_s * margin,
                needed <= alone.e2e_limit_s,
                needed <= alone.e2e_limit_s * margin,
            ),
        )

    def latency_s(self, operation: Operation, margins: Margins) -> Column:
        """Median end-to-end latency in seconds."""
        return operation.e2e_p50_s * margins.rate

    def best(
        self,
        workload: InferenceWorkload,
        plans: Plans,
        memory: Memory,
        speed: BatchSpeed,
        operation: Operation,
        assumed: Assumptions,
        speculative: Speculative | None = None,
    ) -> Best:
        """Upper bound with all nominal rates fully achieved; all results of a batch arrive together."""
        terms = batch_terms(work_of(workload), plans, ideal(len(plans)))
        most = speed.slo_batch if workload.load is Load.OPEN else operation.batch
        whole = of_batch_s(terms, operation.batch)
        return Best(batches_per_s(most, of_batch_s(terms, most)), whole, whole)

    def operating_point(self, workload: InferenceWorkload, memory: Memory, speed: BatchSpeed, replicas: Column) -> Operation:
        """Operating point of one replica at its share of the load."""
        return operate_single_pass(workload, memory, speed, replicas)


AUTOREGRESSIVE, SINGLE_PASSES = AutoregressiveServing(), SingleForwardServing()


def serving_backend(workload: InferenceWorkload) -> ServingBackend[Any, Any, Any, Any]:
    """Serving backend of a workload."""
    return SINGLE_PASSES if workload.single_pass else AUTOREGRESSIVE


def able(workload: InferenceWorkload, memory: Memory, speed: Speed) -> Mask:
    """Mask of plans that fit in memory and meet the latency limits without load, with their margins."""
    met: Mask = memory.fits & speed.serves
    for limit in serving_backend(workload).limits(speed.alone):
        met = met & limit.met
    return met
