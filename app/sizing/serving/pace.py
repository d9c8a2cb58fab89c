"""How prompts and tokens share a replica's steps, in the mean, by the policy of its scheduler.

While B sequences decode, a step ends B / later of them, and as many prompts come in their place. Where the scheduler
mixes, they are computed beside the decodes of the next step; where prompts go first, in steps of their own. Either way

    together(B) = 1 + (B - 1) / later * steps between looks           prompts of such a step, as its tokens allow
    tpot(B)     = step(B) + (B - 1) / later * prompt(B)               what one of them adds to a step

A request sees one more than are there in the mean (the arrival theorem), itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Column, Columns, Mask
from app.sizing.formula import formula, told_as
from app.sizing.hardware.engines.scheduling import Policy
from app.sizing.hardware.tables import POLICIES, SchedulingColumns
from app.sizing.serving.prefill import (
    PrefillTerms,
    busy_prompts_per_step,
    linear_of_step_s,
    lone,
    prompt_s,
)
from app.sizing.serving.step import StepTerms, linear_s, read_and_multiply, step_s

FIRST = POLICIES.index(Policy.PREFILL_FIRST)


@dataclass(frozen=True, slots=True)
class Scheduled(Columns):
    """What of a scheduler decides how prompts come between tokens."""

    max_batched_tokens: Column
    prefill_first: Mask
    receive_interval_steps: Column
    batch_wait_steps: Column
    batch_wait_share: Column
    planning_lag_steps: Column

    @classmethod
    def by(cls, rules: SchedulingColumns, max_batched_tokens: Column) -> Scheduled:
        """As engines have it, with so many tokens of a step."""
        return cls(
            max_batched_tokens=max_batched_tokens,
            prefill_first=rules.policy == FIRST,
            receive_interval_steps=rules.receive_interval_steps,
            batch_wait_steps=rules.batch_wait_steps,
            batch_wait_share=rules.batch_wait_share,
            planning_lag_steps=rules.planning_lag_steps,
        )

    @classmethod
    def mixed(cls, max_batched_tokens: Column) -> Scheduled:
        """A scheduler that mixes and waits for nothing."""
        none, one = np.zeros(len(max_batched_tokens)), np.ones(len(max_batched_tokens))
        return cls(max_batched_tokens, none > 0, one, none, none, none)


@dataclass(frozen=True, slots=True)
class Stream(Columns):
    """Requests of one kind on a replica: seconds of its steps and prompts, and its scheduler."""

    step: StepTerms
    prefill: PrefillTerms  # of the mean prompt
    scheduled: Scheduled
    full_linear_s: Column  # of a step that is full of prompts
    idle_s: Column  # TTFT on an idle replica
    later_tokens: Column  # after the first
    variation: Column  # (ca^2 + cs^2) / 2 of arrivals and prompts
    output_variation: Column  # the same of arrivals and outputs

    @property
    def entry_s(self) -> Column:
        """Before the scheduler sees a request."""
        return self.prefill.request_s + self.prefill.tokenise_s


@dataclass(frozen=True, slots=True)
class Pace(Columns):
    """What a replica's steps come to where a request sees so many sequences, itself included."""

    streamed_step_s: Column
    tpot_s: Column
    prompt_s: Column  # that one of the others' prompts adds
    beat_s: Column  # of a step, prompts included, as somebody meets it who comes
    own_s: Column  # steps of the own prompt, the decodes beside it included
    arriving: Column  # prompts that come while one waits to be seen
    fill: Column  # prompts of a full step
    server_s: Column  # of one prompt, where all steps are full
    held_back_s: Column  # until the scheduler looks, and starts on what it sees


@formula(unit="tokens", source="the first token comes of the prompt")
def later_tokens(output_tokens: Column | float) -> Column:
    """Tokens of a request after its first, each of which takes a decode step. Source: counted. Limits: at least one."""
    return np.maximum(output_tokens - 1.0, 1.0)


@formula(unit="s", source="ingest, tokenising and the prompt's own steps")
def alone_s(request_s: Column, tokenise_s: Column, prefill_s: Column) -> Column:
    """TTFT on an idle replica. Source: counted. Limits: the network is not counted."""
    return request_s + tokenise_s + prefill_s


@formula(unit="prompts", source="every sequence is followed by another")
def per_step(batch: Column, later_tokens: Column) -> Column:
    """Prompts of others that come in the time of one decode step. Source: counted. Limits: a steady state."""
    return np.maximum(batch - 1, 0.0) / later_tokens


@formula(unit="prompts", source="tokens of a step beside the decodes")
def fill(max_batched_tokens: Column, prefill_first: Mask, batch: Column, new_tokens: Column) -> Column:
    """Prompts of a full step, or the share of a long one. Source: counted. Limits: prompts of one length."""
    return np.maximum(max_batched_tokens - np.where(prefill_first, 0.0, batch), 1.0) / new_tokens


@formula(unit="steps", source="TensorRT-LLM: batch_wait_timeout_iters, batch_wait_max_tokens_ratio")
def company_steps(batch_wait_steps: Column, batch_wait_share: Column, fill: Column, per_step: Column) -> Column:
    """Steps for which the first of some prompts waits for the others. Source: documentation. Limits: in the mean."""
    return np.minimum(batch_wait_steps, batch_wait_share * fill / np.maximum(per_step, 1e-9))


@formula(unit="prompts", source="what comes between two looks, and while company is waited for")
def arriving(per_step: Column, receive_interval_steps: Column, company_steps: Column | float) -> Column:
    """Other prompts that are there when a scheduler starts on one. Source: counted. Limits: in the mean."""
    return per_step * (receive_interval_steps + company_steps)


@formula(unit="prompts", source="what is there, up to what fits into a step")
def together(arriving: Column, fill: Column) -> Column:
    """Prompts of one step. Source: Agrawal et al. 2024 (arXiv:2403.02310). Limits: in the mean."""
    return np.minimum(1 + arriving, fill)


@formula(unit="tokens", source="the same multiplying")
def equal_tokens(
    batch: Column, prefill_first: Mask, together: Column, step: StepTerms, prefill: PrefillTerms
) -> Column:
    """Tokens of decoding that multiply as long as a step's prompts and what is decoded beside them.

    Source: counted. Limits: prompts and decodes share one reading of the weights.
    """
    beside = np.where(prefill_first, 0.0, batch)
    return beside + together * prefill.prompt_linear_s / np.maximum(step.linear_slope_s, 1e-30)


@formula(unit="s", source="sum of the parts of a step")
def prompts_s(
    prompts_linear_s: Column, together: Column, prefill: PrefillTerms, prefill_first: Mask, streamed_step_s: Column
) -> Column:
    """What a step's prompts take beyond the decodes beside them; launching is hidden unless it takes longer.

    Source: counted. Limits: parts do not overlap.
    """
    each = prefill.prompt_attention_s + prefill.prompt_links_s
    apart = np.where(prefill_first, prefill.prefill_links_s, 0.0)
    least = prefill.dispatch_s - np.where(prefill_first, 0.0, streamed_step_s)
    return np.maximum(prompts_linear_s + together * each + apart, least)


@formula(unit="stages", source="a pipeline computes as many prompts as there are, up to its stages")
def stages_filled(
    prompts_s: Column, together: Column, arriving: Column, streamed_step_s: Column, variation: Column, step: StepTerms
) -> Column:
    """Stages that work on prompts at once: the prompts of a step, or those in the system where they queue for stages.

    With load y of one stage and variation h, k = y / (1 + y / k) + h.
    Source: Pollaczek 1930 for what queues. Limits: prompts of one kind.
    """
    load = arriving * prompts_s / np.maximum(together * streamed_step_s, 1e-30)
    queued = (variation + np.sqrt(variation**2 + 4 * variation * load)) / 2
    return np.clip(np.maximum(together, queued), 1.0, np.maximum(step.pipeline_parallel, 1.0))


@formula(unit="s", source="continuous batching in the mean")
def added_s(prompts_s: Column, together: Column, stages_filled: Column | float) -> Column:
    """What one prompt adds to the time of the others' tokens. Source: counted. Limits: in the mean."""
    return prompts_s / (together * stages_filled)


@formula(unit="1", source="prompts of a rank that come while it waits for those of others")
def gathered_share(per_step: Column, company_steps: Column | float) -> Column:
    """Share of prompts that wait until every rank has one, where the wait is long enough for that.

    Source: counted. Limits: in the mean.
    Check:
        >>> one(gathered_share(col(0.01), 60.0))  # a prompt every hundred steps, of which sixty are waited
        0.6
    """
    return np.minimum(per_step * company_steps, 1.0)


@formula(unit="1", source="ranks step together: a prompt of one of them holds up all")
def lockstep(
    others: Column, together: Column, pooled: Column, data_parallel: Column, gathered: Column | float
) -> Column:
    """How many times as long prompts hold up a rank as those of its own would; `pooled` is the share of a prompt's time
    that all ranks work on it, `gathered` that of prompts that wait until every rank has one.

    With a share n of a rank's steps that hold prompts, 1 - (1 - n)^d of all steps hold some; n where they are gathered.
    Source: counted. Limits: prompts come to each rank on their own; ranks have as many sequences.
    Check:
        >>> one(lockstep(col(0.5), col(1), col(0), col(2), 0.0))  # three steps of four instead of two
        1.5
        >>> one(lockstep(col(0.5), col(1), col(0), col(2), 1.0))
        1.0
    """
    own = np.clip(others / together, 1e-9, 1.0)
    apart = np.where(data_parallel > 1, (1 - (1 - own) ** data_parallel) / own, 1.0)
    more = gathered + (1 - gathered) * apart
    return 1 + (more - 1) * (1 - pooled)


@formula(unit="s/token", source="continuous batching in the mean")
def token_s(streamed_step_s: Column, per_step: Column, held_up_s: Column) -> Column:
    """Seconds per output token: each of the other sequences' successors adds its prompt.

    Source: Agrawal et al. 2024 (arXiv:2403.02310) on stalls. Limits: lengths of equal mean.
    Check:
        >>> one(token_s(col(0.02), col(0.0), col(0.01)))  # alone: no prompt but its own
        0.02
    """
    return streamed_step_s + per_step * held_up_s


@formula(unit="s", source="what is met at a time is the longer the longer it lasts")
def beat_s(
    token_s: Column,
    streamed_step_s: Column,
    per_step: Column,
    held_up_s: Column,
    prompts_s: Column,
    prefill_first: Mask,
) -> Column:
    """The step that somebody meets who comes: of decodes with their prompts, or of either. Source: renewal theory.

    Limits: in the mean.
    """
    either = (streamed_step_s**2 + per_step * held_up_s * prompts_s) / token_s
    return np.where(prefill_first, either, token_s)


@formula(unit="s", source="each chunk of a prompt is computed beside a step of the others")
def own_s(
    prompts_s: Column,
    together: Column,
    turns: Column | float,
    max_batched_tokens: Column,
    prefill: PrefillTerms,
    prefill_first: Mask,
    streamed_step_s: Column,
) -> Column:
    """Steps of the own prompt. Source: Agrawal et al. 2024 (arXiv:2403.02310). Limits: chunked prefill."""
    chunks = np.ceil(prefill.new_tokens / max_batched_tokens)
    return prompts_s / np.minimum(together, 1.0) * turns + np.where(prefill_first, 0.0, chunks * streamed_step_s)


@formula(unit="s", source="steps that hold as many prompts as they can")
def server_s(
    full_linear_s: Column,
    streamed_step_s: Column,
    decode_linear_s: Column,
    fill: Column,
    prefill: PrefillTerms,
    prefill_first: Mask,
    step: StepTerms,
) -> Column:
    """Seconds of a replica per prompt where prompts never end. Source: counted. Limits: full stages."""
    each = prefill.prompt_attention_s + prefill.prompt_links_s
    stages = np.maximum(step.pipeline_parallel, 1.0)
    prompts = np.maximum(full_linear_s - np.where(prefill_first, 0.0, decode_linear_s), 0.0) / fill + each
    beside = np.where(prefill_first, prefill.prefill_links_s / stages, streamed_step_s)
    return prompts / stages + beside / fill


@formula(unit="s", source="steps planned ahead, steps between looks, steps in which company is waited for")
def held_back_s(
    beat_s: Column, token_s: Column, company_steps: Column | float, per_step: Column, scheduled: Scheduled
) -> Column:
    """What a scheduler's own rules add to the wait. Source: documentation of the engines. Limits: in the mean."""
    looks = (scheduled.receive_interval_steps - 1) / 2
    company = company_steps * (1 + 1 / (1 + per_step * company_steps)) / 2
    return scheduled.planning_lag_steps * beat_s + (looks + company) * token_s


@formula(unit="1", source="counted")
def chunk_turns(new_tokens: Column, max_batched_tokens: Column, overlapped_stages: Column) -> Column:
    """Share of its steps' time that a prompt takes where its chunks pass stages one behind another.

    Source: chunked prefill (arXiv:2403.02310). Limits: chunks take equally long.
    """
    chunks = np.ceil(new_tokens / max_batched_tokens)
    return (chunks + overlapped_stages - 1) / (chunks * overlapped_stages)


def idle_first_token_s(prefill: PrefillTerms, max_batched_tokens: Column) -> Column:
    """TTFT of a prompt on an idle replica."""
    return alone_s(prefill.request_s, prefill.tokenise_s, prompt_s(lone(prefill), max_batched_tokens, 1.0))


def stream_of(
    step: StepTerms,
    prefill: PrefillTerms,
    scheduled: Scheduled,
    *,
    output_tokens: Column | float,
    variation: Column | float = 1.0,
    output_variation: Column | float = 1.0,
) -> Stream:
    """Requests of one kind on every replica."""
    rows = np.ones(len(step))
    full = busy_prompts_per_step(scheduled.max_batched_tokens, prefill.new_tokens)
    with told_as("prompts that fill a step"):
        linear = linear_beside(step, prefill, rows * 0.0, full, scheduled.prefill_first)
    with told_as("alone"):
        idle = idle_first_token_s(prefill, scheduled.max_batched_tokens)
    later = rows * later_tokens(output_tokens)
    return Stream(step, prefill, scheduled, linear, idle, later, rows * variation, rows * output_variation)


def linear_beside(
    step: StepTerms, prefill: PrefillTerms, batch: Column, prompts: Column, prefill_first: Mask
) -> Column:
    """Linear layers of a step with so many prompts beside the decodes of a batch; of prompts alone where a host
    computes part of them.
    """
    host = prefill.host
    if host is None:
        return linear_s(
            *read_and_multiply(step, equal_tokens(batch, prefill_first, prompts, step, prefill)), step.exponent
        )
    with told_as("layers on the host"):
        on_host = linear_of_step_s(prefill, prompts)
    if host.present.all():
        return on_host
    tokens = equal_tokens(batch, prefill_first, prompts, step, prefill)
    return np.where(host.present, on_host, linear_s(*read_and_multiply(step, tokens), step.exponent))


@formula(unit="s", source="weights are read once for decodes and prompts")
def prompts_linear_s(whole_linear_s: Column, decode_linear_s: Column, prefill_first: Mask) -> Column:
    """What prompts add to the linear layers of a step. Source: counted. Limits: none."""
    return np.maximum(whole_linear_s - np.where(prefill_first, 0.0, decode_linear_s), 0.0)


def pace(stream: Stream, batch: Column, *, queued: bool = False) -> Pace:
    """A replica's steps where a request sees `batch` sequences, itself included; `queued`: prompts never run out."""
    step, prefill, scheduled = stream.step, stream.prefill, stream.scheduled
    first, budget = scheduled.prefill_first, scheduled.max_batched_tokens
    decode = step_s(step, batch)
    others = per_step(batch, stream.later_tokens)
    most = fill(budget, first, batch, prefill.new_tokens)
    company: Column | float = 0.0
    if scheduled.batch_wait_steps.any():
        company = company_steps(scheduled.batch_wait_steps, scheduled.batch_wait_share, most, others)
    come = arriving(others, scheduled.receive_interval_steps, company)
    prompts = together(come, most)
    away = np.zeros(len(batch), dtype=bool) if prefill.host is None else prefill.host.present
    decoding = np.zeros(len(batch))
    if not away.all():
        with told_as("decodes"):
            decoding = linear_s(*read_and_multiply(step, batch), step.exponent)
        decoding = np.where(away, 0.0, decoding) if away.any() else decoding
    with told_as("with prompts"):
        both = linear_beside(step, prefill, batch, prompts, first)
    taken = prompts_s(prompts_linear_s(both, decoding, first), prompts, prefill, first, decode)
    stages, turns = stages_and_turns(stream, taken, prompts, others, decode, queued=queued)
    each = added_s(taken, prompts, stages)
    if (step.data_parallel > 1).any():
        pooled = prefill.pooled_share * np.minimum(prompts * prefill.prompt_linear_s / taken, 1.0)
        gathered = gathered_share(others, company)
        each = each * lockstep(others, prompts, pooled, step.data_parallel, gathered)
    tpot = token_s(decode, others, each)
    beat = beat_s(tpot, decode, others, each, taken, first)
    return Pace(
        streamed_step_s=decode,
        tpot_s=tpot,
        prompt_s=each,
        beat_s=beat,
        own_s=own_s(taken, prompts, turns, budget, prefill, first, decode),
        arriving=come,
        fill=most,
        server_s=server_s(stream.full_linear_s, decode, decoding, most, prefill, first, step),
        held_back_s=held_back_s(beat, tpot, company, others, scheduled),
    )


def stages_and_turns(
    stream: Stream, taken: Column, prompts: Column, others: Column, decode: Column, *, queued: bool
) -> tuple[Column | float, Column | float]:
    """Stages that prompts fill, and the share of its steps' time that the own prompt takes."""
    step, prefill = stream.step, stream.prefill
    if not (step.pipeline_parallel > 1).any():
        return 1.0, 1.0
    if queued:
        filled = np.maximum(step.pipeline_parallel, 1.0)
        return filled, 1 / filled
    turns = chunk_turns(prefill.new_tokens, stream.scheduled.max_batched_tokens, prefill.overlapped_stages)
    return stages_filled(taken, prompts, others, decode, stream.variation, step), turns
