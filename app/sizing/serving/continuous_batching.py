"""Mean step times of a replica whose prompts and decodes share steps, by the scheduling policy of its engine.

While B sequences decode, B / later of them finish in every step, and as many new prompts take their place; a request
meets the prompts of the B - 1 others. With continuous batching (iteration-level scheduling, Yu et al. 2022, Orca) a
mixing scheduler computes these prompts together with the decodes of the next step; a prefill-first scheduler gives them
steps of their own. In both cases

    prompts_in_step(B) = 1 + (B - 1) / later * steps between polls    prompts of such a step, within its token budget
    tpot(B)            = step(B) + (B - 1) / later * prompt(B)        a prompt adds its own time to the step

By the arrival theorem a request sees the mean number of other sequences, plus itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.columns import LEAST_S, Column, Columns, Mask
from app.sizing.formula import formula, trace_label
from app.sizing.hardware.engines.record import Policy
from app.sizing.hardware.tables import POLICIES, SchedulingColumns
from app.sizing.serving.prefill import (
    PrefillTerms,
    busy_prompts_per_step,
    isolated_prompt_s,
    launch_s,
    pipeline_bubble_s,
    pipelined_share,
    step_linear_s,
    step_padding_s,
)
from app.sizing.serving.step import StepTerms, linear_s, multiply_and_read_s, step_s

PREFILL_FIRST_CODE = POLICIES.index(Policy.PREFILL_FIRST)


@dataclass(frozen=True, slots=True)
class SchedulingTerms(Columns):
    """The scheduler settings that decide how prompts interleave with decode steps, one row per plan."""

    max_batched_tokens: Column  # token budget of a step, tokens
    prefill_first: Mask  # whether prompts have steps of their own, before decodes
    receive_interval_steps: Column  # decode steps between two polls for new requests
    batch_wait_steps: Column  # most steps that a prompt is delayed to batch it with others
    batch_wait_share: Column  # share of the token budget at which this delay ends
    planning_lag_steps: Column  # steps that the scheduler plans ahead

    @classmethod
    def from_rules(cls, rules: SchedulingColumns, max_batched_tokens: Column) -> SchedulingTerms:
        """Terms of the engines' own scheduling rules with the given token budgets per step."""
        return cls(
            max_batched_tokens=max_batched_tokens,
            prefill_first=rules.policy == PREFILL_FIRST_CODE,
            receive_interval_steps=rules.receive_interval_steps,
            batch_wait_steps=rules.batch_wait_steps,
            batch_wait_share=rules.batch_wait_share,
            planning_lag_steps=rules.planning_lag_steps,
        )

    @classmethod
    def mixing_only(cls, max_batched_tokens: Column) -> SchedulingTerms:
        """Terms of a scheduler that mixes prompts and decodes and never delays a prompt."""
        zeros, ones = np.zeros(len(max_batched_tokens)), np.ones(len(max_batched_tokens))
        return cls(max_batched_tokens, zeros > 0, ones, zeros, zeros, zeros)


@dataclass(frozen=True, slots=True)
class Stream(Columns):
    """Requests of one kind on a replica: the times of its steps and prompts, and its scheduler."""

    step: StepTerms  # decode step terms
    prefill: PrefillTerms  # prefill terms of the mean prompt
    scheduling: SchedulingTerms  # scheduler settings
    full_linear_s: Column  # linear layers of a step filled with prompts, s
    unloaded_ttft_s: Column  # TTFT on an idle replica, s
    later_tokens: Column  # tokens of a request after its first
    variation: Column  # mean of the squared coefficients of variation of arrivals and prompts, (ca^2 + cs^2) / 2
    output_variation: Column  # mean of the squared coefficients of variation of arrivals and answers
    ranks_in_step: Column  # 1 if data-parallel ranks start their prompts in the same steps, 0 if independently

    @property
    def entry_s(self) -> Column:
        """Seconds from sending a request until the scheduler can see it: ingest and tokenization."""
        return self.prefill.request_s + self.prefill.tokenise_s


@dataclass(frozen=True, slots=True)
class DecodeCadence(Columns):
    """Mean step times of a replica where a request sees `batch` sequences, itself included."""

    streamed_step_s: Column  # decode step, no faster than the server streams its tokens, s
    tpot_s: Column  # mean time per output token, s
    added_prompt_s: Column  # time that one prompt of another request adds, s
    mean_step_s: Column  # mean length of the step that is running when a request arrives, s
    prefill_own_s: Column  # steps that compute a request's own prompt, decodes in them included, s
    arriving_prompts: Column  # other prompts that are queued when the scheduler starts on one
    prompts_per_full_step: Column  # prompts that fill one step
    prompt_service_s: Column  # time of the replica per prompt while prompts are always queued, s
    scheduler_delay_s: Column  # delay that the scheduler's rules add before the first step of a prompt, s


@formula(unit="tokens", source="the prompt yields the first token")
def later_tokens(output_tokens: Column | float) -> Column:
    """Tokens of a request after its first; each takes a decode step.

    Parameters:
        output_tokens: tokens of the answer, at least one.
    Limits: returns at least one token, also for answers of one token.
    Check:
        >>> one(later_tokens(col(256)))
        255.0
    """
    return np.maximum(output_tokens - 1.0, 1.0)


@formula(unit="s", source="sum of ingest, tokenization and prefill")
def unloaded_ttft_s(request_s: Column, tokenise_s: Column, prefill_s: Column) -> Column:
    """TTFT on an idle replica.

    Parameters:
        request_s: time to ingest a request, s.
        tokenise_s: time to tokenize the prompt, s.
        prefill_s: time of the prompt's own steps, s.
    Limits: network time is excluded.
    Check:
        >>> round(one(unloaded_ttft_s(col(0.002), col(0.003), col(0.1))), 3)
        0.105
    """
    return request_s + tokenise_s + prefill_s


@formula(unit="prompts", source="steady state: a new prompt replaces every finished sequence")
def arriving_prompts_per_step(batch: Column, later_tokens: Column) -> Column:
    """Prompts of other requests that arrive during one decode step.

    Parameters:
        batch: sequences that a request sees, itself included.
        later_tokens: tokens of a request after its first.
    Limits: a steady state, in which every finished sequence is followed by another.
    Check:
        >>> one(arriving_prompts_per_step(col(33), col(128)))  # 32 others, each finishing once in 128 steps
        0.25
    """
    return np.maximum(batch - 1, 0.0) / later_tokens


@formula(unit="prompts", source="token budget of a step minus its decodes")
def prompts_per_full_step(max_batched_tokens: Column, prefill_first: Mask, batch: Column, new_tokens: Column) -> Column:
    """Prompts that fill one step, or the share of a long prompt that does.

    Parameters:
        max_batched_tokens: token budget of a step, tokens.
        prefill_first: whether prompts have steps of their own.
        batch: sequences that decode in the same step where the scheduler mixes.
        new_tokens: tokens of a prompt that are not in the prefix cache.
    Limits: all prompts have the same length.
    Check:
        >>> one(prompts_per_full_step(col(2048), col(0) > 0, col(48), col(500)))  # (2048 - 48) / 500
        4.0
    """
    return np.maximum(max_batched_tokens - np.where(prefill_first, 0.0, batch), 1.0) / new_tokens


@formula(unit="steps", source="TensorRT-LLM documentation: batch_wait_timeout_iters, batch_wait_max_tokens_ratio")
def mean_batch_wait_steps(
    batch_wait_steps: Column, batch_wait_share: Column, prompts_per_full_step: Column, arriving_prompts_per_step: Column
) -> Column:
    """Steps for which a scheduler delays the first prompt to batch it with later ones.

    Parameters:
        batch_wait_steps: most steps that a prompt is delayed (TensorRT-LLM: `batch_wait_timeout_iters`).
        batch_wait_share: share of the token budget at which the wait ends (`batch_wait_max_tokens_ratio`).
        prompts_per_full_step: prompts that fill a step.
        arriving_prompts_per_step: prompts of other requests that arrive during one decode step.
    Limits: a mean; arrivals are taken as even.
    Check:
        >>> one(mean_batch_wait_steps(col(20), col(0.5), col(4), col(0.25)))  # 2 prompts, one every 4 steps
        8.0
    """
    return np.minimum(
        batch_wait_steps, batch_wait_share * prompts_per_full_step / np.maximum(arriving_prompts_per_step, 1e-9)
    )


@formula(unit="prompts", source="arrivals between two polls and during batching delays")
def arriving_prompts(
    arriving_prompts_per_step: Column, receive_interval_steps: Column, mean_batch_wait_steps: Column | float
) -> Column:
    """Other prompts that are queued when the scheduler starts on one.

    Parameters:
        arriving_prompts_per_step: prompts of other requests that arrive during one decode step.
        receive_interval_steps: decode steps between two polls for new requests.
        mean_batch_wait_steps: steps for which the scheduler waits for more prompts.
    Limits: a mean.
    Check:
        >>> one(arriving_prompts(col(0.25), col(1), 3.0))
        1.0
    """
    return arriving_prompts_per_step * (receive_interval_steps + mean_batch_wait_steps)


@formula(unit="prompts", source="Agrawal et al. 2024 (arXiv:2403.02310)")
def prompts_in_step(arriving_prompts: Column, prompts_per_full_step: Column) -> Column:
    """Prompts that one step computes: all that are queued, up to the token budget.

    Parameters:
        arriving_prompts: other prompts that are queued.
        prompts_per_full_step: prompts that fill a step.
    Limits: a mean.
    Check:
        >>> one(prompts_in_step(col(2.5), col(3)))
        3.0
    """
    return np.minimum(1 + arriving_prompts, prompts_per_full_step)


@formula(unit="tokens", source="equal time of matrix multiplications")
def equivalent_tokens(
    batch: Column,
    prefill_first: Mask,
    prompts_in_step: Column,
    step_padding_s: Column,
    step: StepTerms,
    prefill: PrefillTerms,
) -> Column:
    """Decode tokens whose matrix multiplications take as long as the prompts and decodes of a step together.

    Parameters:
        batch: sequences that decode.
        prefill_first: whether prompts have steps of their own.
        prompts_in_step: prompts that the step computes.
        step_padding_s: time to multiply the rows that pad the experts of these prompts, s.
        step: decode step terms; `linear_slope_s` is the multiplication time of one decode token, s.
        prefill: prefill terms; `prompt_linear_s` is the multiplication time of one prompt, s.
    Limits: prompts and decodes share one pass over the weights.
    Check:
        >>> step, prompt = row(linear_slope_s=0.125), row(prompt_linear_s=1.0)
        >>> one(equivalent_tokens(col(32), col(0) > 0, col(2), col(0.5), step, prompt))  # 32 + (2 * 1 + 0.5) / 0.125
        52.0
    """
    decodes = np.where(prefill_first, 0.0, batch)
    prompts_s = prompts_in_step * prefill.prompt_linear_s + step_padding_s
    return decodes + prompts_s / np.maximum(step.linear_slope_s, LEAST_S)


@formula(unit="s", source="sum of linear layers, attention and communication")
def prompts_extra_s(
    prompts_linear_s: Column,
    prompts_in_step: Column,
    prefill: PrefillTerms,
    prefill_first: Mask,
    streamed_step_s: Column,
) -> Column:
    """Time that the prompts of a step add to the decodes of the same step.

    Kernel launches overlap with computation and count only where they take longer.

    Parameters:
        prompts_linear_s: time that prompts add to the linear layers of the step, s.
        prompts_in_step: prompts that the step computes.
        prefill: prefill terms: attention and communication of one prompt, communication latency and dispatch of a
            step, s.
        prefill_first: whether prompts have steps of their own.
        streamed_step_s: decode step, s; it hides dispatch where the scheduler mixes.
    Limits: linear layers, attention and communication do not overlap.
    Check:
        >>> launch = dict(dispatch_s=0.01, graph_dispatch_s=0.0, graph_tokens=0, new_tokens=1000)
        >>> prompt = row(prompt_attention_s=0.002, prompt_links_s=0.001, prefill_links_s=0.004, **launch)
        >>> round(one(prompts_extra_s(col(0.03), col(2), prompt, col(0) > 0, col(0.02))), 3)  # 30 + 2 * 3 ms
        0.036
    """
    each = prefill.prompt_attention_s + prefill.prompt_links_s
    latency = np.where(prefill_first, prefill.prefill_links_s, 0.0)
    tokens = prompts_in_step * prefill.new_tokens
    launched = launch_s(prefill.dispatch_s, prefill.graph_dispatch_s, prefill.graph_tokens, tokens)
    exposed_dispatch = launched - np.where(prefill_first, 0.0, streamed_step_s)
    return np.maximum(prompts_linear_s + prompts_in_step * each + latency, exposed_dispatch)


@formula(unit="stages", source="Pollaczek 1930 for the queue of a pipeline; at most its stages")
def busy_stages(
    prompts_extra_s: Column,
    prompts_in_step: Column,
    arriving_prompts: Column,
    streamed_step_s: Column,
    variation: Column,
    step: StepTerms,
) -> Column:
    """Pipeline stages that compute prompts at the same time.

    With load y of one stage and variation h, the number of prompts in the pipeline is k = y / (1 + y / k) + h; a step's
    own prompts are the lower bound and the number of stages is the upper bound.

    Parameters:
        prompts_extra_s: time that the prompts of a step add, s.
        prompts_in_step: prompts that one step computes.
        arriving_prompts: other prompts that are queued.
        streamed_step_s: decode step, s.
        variation: mean of the squared coefficients of variation of arrivals and prompts.
        step: decode step terms; `pipeline_parallel` is the number of stages.
    Limits: prompts of one kind.
    Check:
        >>> round(one(busy_stages(col(0.02), col(1), col(1), col(0.02), col(2.0), row(pipeline_parallel=4))), 2)
        2.73
    """
    load = arriving_prompts * prompts_extra_s / np.maximum(prompts_in_step * streamed_step_s, LEAST_S)
    queued = (variation + np.sqrt(variation**2 + 4 * variation * load)) / 2
    return np.clip(np.maximum(prompts_in_step, queued), 1.0, np.maximum(step.pipeline_parallel, 1.0))


@formula(unit="s", source="mean over continuous batching")
def added_prompt_s(prompts_extra_s: Column, prompts_in_step: Column, busy_stages: Column | float) -> Column:
    """Time that one prompt adds to the decode tokens of other requests.

    Parameters:
        prompts_extra_s: time that the prompts of a step add, s.
        prompts_in_step: prompts that one step computes.
        busy_stages: pipeline stages that compute prompts at the same time.
    Limits: a mean.
    Check:
        >>> one(added_prompt_s(col(0.04), col(2), 1.0))
        0.02
    """
    return prompts_extra_s / (prompts_in_step * busy_stages)


@formula(unit="1", source="arrivals at a rank during its batching delay")
def gathered_share(
    arriving_prompts_per_step: Column, mean_batch_wait_steps: Column | float, ranks_in_step: Column
) -> Column:
    """Share of prompts that every data-parallel rank starts in the same step.

    Ranks may delay a prompt until each of them has one. Without a delay, requests of equal length that are sent
    together also end together, so that the next prompts start together on all ranks.

    Parameters:
        arriving_prompts_per_step: prompts of other requests that arrive during one decode step.
        mean_batch_wait_steps: steps for which a rank waits for the prompts of the other ranks.
        ranks_in_step: 1 if the ranks start their prompts in the same steps without a delay, else 0.
    Limits: a mean.
    Check:
        >>> one(gathered_share(col(0.01), 60.0, col(0)))  # a prompt every hundred steps; the rank waits for sixty
        0.6
        >>> one(gathered_share(col(0.01), 0.0, col(1)))  # equal requests
        1.0
    """
    return np.maximum(np.minimum(arriving_prompts_per_step * mean_batch_wait_steps, 1.0), ranks_in_step)


@formula(unit="1", source="data-parallel ranks step together: a prompt on one rank delays all")
def dp_straggler_factor(
    arriving_per_step: Column,
    prompts_in_step: Column,
    shared_work_share: Column,
    data_parallel: Column,
    waiting_prompts_share: Column | float,
) -> Column:
    """Factor by which prompts of all data-parallel ranks slow down one rank, compared with its own prompts alone.

    Ranks step together. If prompts occupy a share n of one rank's steps, a share 1 - (1 - n)^d of all steps holds a
    prompt of some rank; only n does where the ranks start their prompts in the same steps.

    Parameters:
        arriving_per_step: prompts that arrive at one rank during one decode step.
        prompts_in_step: prompts that one step computes.
        shared_work_share: share of a prompt's time in which all ranks work on it, as in the all-to-all of experts.
        data_parallel: data-parallel ranks.
        waiting_prompts_share: share of prompts that every rank starts in the same step.
    Limits: prompts arrive at each rank independently; ranks hold equally many sequences.
    Check:
        >>> one(dp_straggler_factor(col(0.5), col(1), col(0), col(2), 0.0))  # three of four steps instead of two
        1.5
        >>> one(dp_straggler_factor(col(0.5), col(1), col(0), col(2), 1.0))
        1.0
    """
    own = np.clip(arriving_per_step / prompts_in_step, 1e-9, 1.0)
    independent = np.where(data_parallel > 1, (1 - (1 - own) ** data_parallel) / own, 1.0)
    factor = waiting_prompts_share + (1 - waiting_prompts_share) * independent
    return 1 + (factor - 1) * (1 - shared_work_share)


@formula(unit="s/token", source="Agrawal et al. 2024 (arXiv:2403.02310), on generation stalls of continuous batching")
def mean_tpot_s(streamed_step_s: Column, arriving_prompts_per_step: Column, prompt_stall_s: Column) -> Column:
    """Mean time per output token with iteration-level scheduling: a decode step plus the prompts that replace finished
    sequences.

    Sequences join and leave the batch at every step (continuous batching).

    Parameters:
        streamed_step_s: decode step, s.
        arriving_prompts_per_step: prompts of other requests that arrive during one decode step.
        prompt_stall_s: time for which one prompt delays the decodes, s.
    Limits: requests of equal mean length.
    Check:
        >>> one(mean_tpot_s(col(0.02), col(0.0), col(0.01)))  # no other load: only its own prompt
        0.02
    """
    return streamed_step_s + arriving_prompts_per_step * prompt_stall_s


@formula(unit="s", source="renewal theory: the interval met at a random time is weighted by its length")
def mean_step_s(
    mean_tpot_s: Column,
    streamed_step_s: Column,
    arriving_prompts_per_step: Column,
    prompt_stall_s: Column,
    prompts_extra_s: Column,
    prefill_first: Mask,
) -> Column:
    """Mean length of the step that is running when a request arrives, weighted by duration.

    Parameters:
        mean_tpot_s: mean time per output token, s.
        streamed_step_s: decode step, s.
        arriving_prompts_per_step: prompts of other requests that arrive during one decode step.
        prompt_stall_s: time for which one prompt delays the decodes, s.
        prompts_extra_s: length of a step of prompts, s, where they have steps of their own.
        prefill_first: whether prompts have steps of their own; a mixing scheduler has one kind of step.
    Limits: a mean.
    Check:
        >>> round(one(mean_step_s(col(0.03), col(0.02), col(0.1), col(0.1), col(0.1), col(1) > 0)), 4)
        0.0467
    """
    weighted = (streamed_step_s**2 + arriving_prompts_per_step * prompt_stall_s * prompts_extra_s) / mean_tpot_s
    return np.where(prefill_first, weighted, mean_tpot_s)


@formula(unit="s", source="Agrawal et al. 2024 (arXiv:2403.02310)")
def prefill_own_s(
    prompts_extra_s: Column,
    prompts_in_step: Column,
    pipelined_share: Column | float,
    max_batched_tokens: Column,
    prefill: PrefillTerms,
    prefill_first: Mask,
    streamed_step_s: Column,
) -> Column:
    """Time of the steps that compute a request's own prompt, the decodes in them included.

    Parameters:
        prompts_extra_s: time that the prompts of a step add, s.
        prompts_in_step: prompts of a step, below 1 where a prompt takes several steps.
        pipelined_share: share of this time that remains where chunks pass pipeline stages one behind another.
        max_batched_tokens: token budget of a step, tokens.
        prefill: prefill terms; `new_tokens` is the uncached length of the prompt, tokens.
        prefill_first: whether prompts have steps of their own.
        streamed_step_s: decode step that each chunk of the prompt shares where the scheduler mixes, s.
    Limits: chunked prefill.
    Check:
        >>> prompt = row(new_tokens=4096)  # two chunks: 2 * 50 ms, and two decode steps of 20 ms
        >>> round(one(prefill_own_s(col(0.05), col(0.5), 1.0, col(2048), prompt, col(0) > 0, col(0.02))), 2)
        0.14
    """
    chunks = np.ceil(prefill.new_tokens / max_batched_tokens)
    return prompts_extra_s / np.minimum(prompts_in_step, 1.0) * pipelined_share + np.where(
        prefill_first, 0.0, chunks * streamed_step_s
    )


@formula(unit="s", source="steps filled with prompts")
def prompt_service_s(
    full_linear_s: Column,
    streamed_step_s: Column,
    decode_linear_s: Column,
    prompts_per_full_step: Column,
    prefill: PrefillTerms,
    prefill_first: Mask,
    step: StepTerms,
    bubble_s: Column | float,
) -> Column:
    """Time of the replica per prompt while prompts are always queued.

    Parameters:
        full_linear_s: linear layers of a step filled with prompts, s.
        streamed_step_s: decode step, s.
        decode_linear_s: linear layers of a step that only decodes, s.
        prompts_per_full_step: prompts that fill a step.
        prefill: prefill terms: attention and communication of one prompt, communication latency of a prompt step, s.
        prefill_first: whether prompts have steps of their own.
        step: decode step terms; `pipeline_parallel` is the number of stages.
        bubble_s: time that the stages wait for the last chunk of a prompt, s.
    Limits: all pipeline stages are busy.
    Check:
        >>> prompt = row(prompt_attention_s=0.002, prompt_links_s=0.0, prefill_links_s=0.0)
        >>> one_stage = row(pipeline_parallel=1)
        >>> round(one(prompt_service_s(col(0.05), col(0.02), col(0.01), col(4), prompt, col(0) > 0, one_stage, 0.0)), 4)
        0.017
    """
    each = prefill.prompt_attention_s + prefill.prompt_links_s
    stages = np.maximum(step.pipeline_parallel, 1.0)
    prompts = (
        np.maximum(full_linear_s - np.where(prefill_first, 0.0, decode_linear_s), 0.0) / prompts_per_full_step + each
    )
    rest = np.where(prefill_first, prefill.prefill_links_s / stages, streamed_step_s)
    return prompts / stages + rest / prompts_per_full_step + bubble_s


@formula(unit="requests/s", source="Little's law")
def running_rate_per_s(slo_batch: Column, prefill_own_s: Column, mean_tpot_s: Column, later_tokens: Column) -> Column:
    """Rate at which all sequences that the limits allow are running: in prefill or in decode.

    Parameters:
        slo_batch: largest batch within the limits, at which the engine is started, sequences.
        prefill_own_s: steps that compute a request's own prompt, s.
        mean_tpot_s: time per output token while all of them run, s.
        later_tokens: tokens of a request after its first.
    Limits: an upper bound; it matters for long prompts.
    Check: two sequences, each 6 s in prefill and 500 tokens of 20 ms in decode.
        >>> one(running_rate_per_s(col(2), col(6.0), col(0.02), col(500)))
        0.125
    """
    return slo_batch / np.maximum(prefill_own_s + later_tokens * mean_tpot_s, LEAST_S)


@formula(unit="s", source="engine documentation: steps planned ahead, polling interval, batching delay")
def scheduler_delay_s(
    mean_step_s: Column,
    mean_tpot_s: Column,
    mean_batch_wait_steps: Column | float,
    arriving_prompts_per_step: Column,
    scheduling: SchedulingTerms,
) -> Column:
    """Delay that the scheduler's own rules add before the first step of a prompt.

    Parameters:
        mean_step_s: mean length of the step that is running when a request arrives, s.
        mean_tpot_s: mean time per output token, s.
        mean_batch_wait_steps: steps for which the first prompt waits for others.
        arriving_prompts_per_step: prompts of other requests that arrive during one decode step.
        scheduling: scheduler settings: steps planned ahead and decode steps between polls.
    Limits: a mean.
    Check:
        >>> rules = row(planning_lag_steps=1, receive_interval_steps=5)  # 1 step ahead, and 2 on average until the poll
        >>> one(scheduler_delay_s(col(0.02), col(0.02), 0.0, col(0.1), rules))
        0.06
    """
    polling = (scheduling.receive_interval_steps - 1) / 2
    batching = mean_batch_wait_steps * (1 + 1 / (1 + arriving_prompts_per_step * mean_batch_wait_steps)) / 2
    return scheduling.planning_lag_steps * mean_step_s + (polling + batching) * mean_tpot_s


def idle_first_token_s(prefill: PrefillTerms, max_batched_tokens: Column) -> Column:
    """TTFT of a prompt on an idle replica, s."""
    return unloaded_ttft_s(
        prefill.request_s,
        prefill.tokenise_s,
        isolated_prompt_s(prefill, max_batched_tokens),
    )


def build_stream(
    step: StepTerms,
    prefill: PrefillTerms,
    scheduling: SchedulingTerms,
    *,
    output_tokens: Column | float,
    variation: Column | float = 1.0,
    output_variation: Column | float = 1.0,
    ranks_in_step: bool = False,
) -> Stream:
    """Terms of requests of one kind on the replicas of every plan.

    Parameters:
        step: decode step terms.
        prefill: prefill terms of the mean prompt.
        scheduling: scheduler settings.
        output_tokens: mean tokens of an answer.
        variation: mean of the squared coefficients of variation of arrivals and prompts.
        output_variation: the same of arrivals and answers.
        ranks_in_step: whether data-parallel ranks start their prompts in the same steps.
    """
    rows = np.ones(len(step))
    prompts_filling_step = busy_prompts_per_step(scheduling.max_batched_tokens, prefill.new_tokens)
    with trace_label("step filled with prompts"):
        linear = mixed_linear_s(step, prefill, rows * 0.0, prompts_filling_step, scheduling.prefill_first)
    with trace_label("no other load"):
        idle = idle_first_token_s(prefill, scheduling.max_batched_tokens)
    later = rows * later_tokens(output_tokens)
    varied = (rows * variation, rows * output_variation)
    return Stream(step, prefill, scheduling, linear, idle, later, *varied, rows * ranks_in_step)


def mixed_linear_s(
    step: StepTerms, prefill: PrefillTerms, batch: Column, prompts: Column, prefill_first: Mask
) -> Column:
    """Time of the linear layers of a step that computes `prompts` prompts and the decodes of a batch, s.

    Where the host computes part of the layers, the prompts alone count.
    """
    host, padding = prefill.host, step_padding_s(prefill, prompts)
    if host is None:
        tokens = equivalent_tokens(batch, prefill_first, prompts, padding, step, prefill)
        return linear_s(*multiply_and_read_s(step, tokens), step.exponent)
    with trace_label("layers on the host"):
        on_host = step_linear_s(prefill, prompts)
    if host.has_host_part.all():
        return on_host
    tokens = equivalent_tokens(batch, prefill_first, prompts, padding, step, prefill)
    return np.where(host.has_host_part, on_host, linear_s(*multiply_and_read_s(step, tokens), step.exponent))


@formula(unit="s", source="prompts and decodes share one pass over the weights")
def prompts_linear_s(whole_linear_s: Column, decode_linear_s: Column, prefill_first: Mask) -> Column:
    """Time that prompts add to the linear layers of a step.

    Parameters:
        whole_linear_s: linear layers of the step with prompts and decodes, s.
        decode_linear_s: linear layers of the decodes alone, s.
        prefill_first: whether prompts have steps of their own.
    Check:
        >>> round(one(prompts_linear_s(col(0.03), col(0.01), col(0) > 0)), 3)  # weights are read once for both
        0.02
    """
    return np.maximum(whole_linear_s - np.where(prefill_first, 0.0, decode_linear_s), 0.0)


def decode_cadence(stream: Stream, batch: Column, *, queued: bool = False) -> DecodeCadence:
    """Mean step times of a replica where a request sees `batch` sequences, itself included.

    Parameters:
        stream: requests of one kind on the replica.
        batch: sequences that a request sees.
        queued: whether prompts never run out, so that every pipeline stage is busy.
    """
    step, prefill, scheduling = stream.step, stream.prefill, stream.scheduling
    first, budget = scheduling.prefill_first, scheduling.max_batched_tokens
    decode = step_s(step, batch)
    arriving_per_step = arriving_prompts_per_step(batch, stream.later_tokens)
    prompt_limit = prompts_per_full_step(budget, first, batch, prefill.new_tokens)
    wait_steps: Column | float = 0.0
    if scheduling.batch_wait_steps.any():
        wait_steps = mean_batch_wait_steps(
            scheduling.batch_wait_steps, scheduling.batch_wait_share, prompt_limit, arriving_per_step
        )
    queued_prompts = arriving_prompts(arriving_per_step, scheduling.receive_interval_steps, wait_steps)
    prompts = prompts_in_step(queued_prompts, prompt_limit)
    on_host = np.zeros(len(batch), dtype=bool) if prefill.host is None else prefill.host.has_host_part
    decoding = np.zeros(len(batch))
    if not on_host.all():
        with trace_label("decodes"):
            decoding = linear_s(*multiply_and_read_s(step, batch), step.exponent)
        decoding = np.where(on_host, 0.0, decoding) if on_host.any() else decoding
    with trace_label("decodes and prompts"):
        both = mixed_linear_s(step, prefill, batch, prompts, first)
    extra = prompts_extra_s(prompts_linear_s(both, decoding, first), prompts, prefill, first, decode)
    stages, share = stages_and_pipelined_share(stream, extra, prompts, arriving_per_step, decode, queued=queued)
    bubble = pipeline_bubble_s(prefill, budget) if (prefill.overlapped_stages > 1).any() else 0.0
    added = added_prompt_s(extra, prompts, stages)
    if (step.data_parallel > 1).any():
        pooled = prefill.pooled_share * np.minimum(prompts * prefill.prompt_linear_s / extra, 1.0)
        gathered = gathered_share(arriving_per_step, wait_steps, stream.ranks_in_step)
        added = added * dp_straggler_factor(arriving_per_step, prompts, pooled, step.data_parallel, gathered)
    tpot = mean_tpot_s(decode, arriving_per_step, added)
    running_step = mean_step_s(tpot, decode, arriving_per_step, added, extra, first)
    return DecodeCadence(
        streamed_step_s=decode,
        tpot_s=tpot,
        added_prompt_s=added,
        mean_step_s=running_step,
        prefill_own_s=prefill_own_s(extra, prompts, share, budget, prefill, first, decode),
        arriving_prompts=queued_prompts,
        prompts_per_full_step=prompt_limit,
        prompt_service_s=prompt_service_s(
            stream.full_linear_s, decode, decoding, prompt_limit, prefill, first, step, bubble
        ),
        scheduler_delay_s=scheduler_delay_s(running_step, tpot, wait_steps, arriving_per_step, scheduling),
    )


def stages_and_pipelined_share(
    stream: Stream, extra_s: Column, prompts: Column, others: Column, decode: Column, *, queued: bool
) -> tuple[Column | float, Column | float]:
    """Pipeline stages that prompts keep busy, and the share of its steps' time that a request's own prompt takes."""
    step, prefill = stream.step, stream.prefill
    if not (step.pipeline_parallel > 1).any():
        return 1.0, 1.0
    if queued:
        filled = np.maximum(step.pipeline_parallel, 1.0)
        return filled, 1 / filled
    share = pipelined_share(extra_s / np.minimum(prompts, 1.0), prefill, stream.scheduling.max_batched_tokens)
    return np.maximum(busy_stages(extra_s, prompts, others, decode, stream.variation, step), 1 / share), share
