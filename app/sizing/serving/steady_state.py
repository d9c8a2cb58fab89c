"""Steady state of one replica: a closed loop with a fixed number in flight, or an open loop and its queue.

In a closed loop of C clients, one cycle of a client is a first token and the tokens after it; throughput is C divided
by the length of a cycle. While one client's tokens are decoded, the prompts of the C - 1 others arrive, in proportion
to the share of the cycle that decoding takes:

    decoding = later * step + (C - 1) * prompt * decoding / (cycle without the own prompt)

Prompts queue as in the machine repairman model: one server and C clients, each absent while its tokens are decoded.
In an open loop, prompts queue as in M/G/1 where a step holds one prompt, and less where it holds several: prompts wait
behind each other (head-of-line blocking).
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np

from app.sizing.columns import TINY, Column, Columns, Mask
from app.sizing.formula import formula, suspend_recording, trace_label
from app.sizing.serving.continuous_batching import DecodeCadence, SchedulingTerms, Stream, decode_cadence
from app.sizing.serving.interfaces import bisect_largest
from app.sizing.serving.prefill import seconds_per_prompt
from app.sizing.serving.step import step_s
from app.sizing.workload import Load

FIXED_POINT_PASSES = 3  # iterations until the decoding batch and the cycle time agree


@dataclass(frozen=True, slots=True)
class SteadyState(Columns):
    """Means of a replica in the steady state."""

    batch: Column  # mean sequences running
    tpot_s: Column  # mean time per output token, s
    ttft_s: Column  # mean TTFT, s
    rate_per_s: Column  # request rate, requests/s
    queue_wait_s: Column  # part of TTFT: wait behind other prompts, s
    slot_wait_s: Column  # part of TTFT: wait for a free sequence slot, s
    prefill_own_s: Column  # part of TTFT: steps that compute the own prompt, s
    mean_step_s: Column  # mean length of the step that is running when a request arrives, s
    added_prompt_s: Column  # time that one prompt of another request adds, s
    prompts_per_token: Column  # prompts of other requests that arrive per output token
    queued_share: Column  # share of requests that find a queue of prompts
    slots_full_share: Column  # share of requests that find all sequence slots busy


@formula(unit="sequences", source="token budget of a step: its decodes and the prompts that replace them")
def token_budget_sequences(scheduling: SchedulingTerms, later_tokens: Column, new_tokens: Column) -> Column:
    """Sequences for which a step's token budget suffices, together with the prompts that replace them.

    Parameters:
        scheduling: scheduler settings: `max_batched_tokens` is the token budget of a step.
        later_tokens: tokens of a request after its first.
        new_tokens: tokens of a prompt that are not in the prefix cache.
    Limits: the scheduler mixes prompts and decodes; unlimited (infinite) where prompts have steps of their own.
    Check:
        >>> one(token_budget_sequences(row(max_batched_tokens=col(2048), prefill_first=col(0) > 0), col(256), col(768)))
        512.0
    """
    mixed = np.maximum(scheduling.max_batched_tokens * later_tokens / (later_tokens + new_tokens), 1.0)
    return np.where(scheduling.prefill_first, np.inf, mixed)


def stream_sequence_budget(stream: Stream) -> Column:
    """Sequences for which the token budget of a stream's steps suffices."""
    return token_budget_sequences(stream.scheduling, stream.later_tokens, stream.prefill.new_tokens)


@formula(unit="sequences", source="requests in flight, up to the sequence limit")
def steady_batch(in_flight: Column, max_sequences: Column) -> Column:
    """Sequences that run in a steady state, at least one.

    Parameters:
        in_flight: requests in flight.
        max_sequences: sequences that can run at the same time.
    Check:
        >>> one(steady_batch(col(100), col(64)))
        64.0
    """
    return np.maximum(np.minimum(in_flight, max_sequences), 1.0)


@formula(unit="s", source="the scheduler sees a request when the running step ends")
def closed_entry_s(entry_s: Column, mean_step_s: Column, scheduler_delay_s: Column) -> Column:
    """Time from an answer to the first step of the next prompt in a closed loop, while other sequences run.

    An answer arrives when a step ends, so the next prompt waits at least one step.

    Parameters:
        entry_s: ingest and tokenization of the request, s.
        mean_step_s: mean length of the running step, s.
        scheduler_delay_s: delay that the scheduler's rules add, s.
    Limits: a mean.
    Check:
        >>> round(one(closed_entry_s(col(0.005), col(0.02), col(0.0))), 3)  # shorter than a step: one step
        0.02
    """
    return np.maximum(entry_s + mean_step_s / 2, mean_step_s) + scheduler_delay_s


@formula(unit="s", source="renewal theory: a request arrives at a random time of the running step")
def open_entry_s(entry_s: Column, mean_step_s: Column, scheduler_delay_s: Column) -> Column:
    """Time from sending a request to its first step, while other sequences run.

    Parameters:
        entry_s: ingest and tokenization of the request, s.
        mean_step_s: mean length of the running step, s.
        scheduler_delay_s: delay that the scheduler's rules add, s.
    Limits: a mean; requests arrive independently of the steps.
    Check:
        >>> round(one(open_entry_s(col(0.005), col(0.02), col(0.0))), 3)
        0.015
    """
    return entry_s + mean_step_s / 2 + scheduler_delay_s


@formula(unit="1", source="mean sequences beyond the request itself")
def closed_overlap_share(batch: Column) -> Column:
    """Share of a closed loop's requests that meet other sequences on the replica.

    Parameters:
        batch: mean sequences running.
    Check:
        >>> one(closed_overlap_share(col(1.25)))
        0.25
    """
    return np.clip(batch - 1, 0.0, 1.0)


@formula(unit="s", source="mean of an idle and a running replica")
def queue_free_ttft_s(unloaded_ttft_s: Column, entry_s: Column, prefill_own_s: Column, overlap_share: Column) -> Column:
    """TTFT without queueing: between that of an idle replica and that of a replica that runs other sequences.

    Parameters:
        unloaded_ttft_s: TTFT on an idle replica, s.
        entry_s: time from sending a request to its first step while others run, s.
        prefill_own_s: time of the steps that compute the own prompt while others run, s.
        overlap_share: share of requests that meet other sequences.
    Limits: a mean.
    Check:
        >>> round(one(queue_free_ttft_s(col(0.1), col(0.02), col(0.14), col(0.5))), 3)
        0.13
    """
    return unloaded_ttft_s + overlap_share * (entry_s + prefill_own_s - unloaded_ttft_s)


@formula(unit="s", source="Little's law (Little 1961) with the arrival theorem (Reiser and Lavenberg 1980)")
def decoding_s(
    later_tokens: Column,
    streamed_step_s: Column,
    batch: Column,
    prompt_delay_s: Column,
    first_token_s: Column,
    prompt_service_s: Column,
) -> Column:
    """Time from a request's first token to its last: D = later * step + (B - 1) * prompt * D / (D + first - service).

    Parameters:
        later_tokens: tokens of a request after its first.
        streamed_step_s: decode step, s.
        batch: sequences of the loop, B.
        prompt_delay_s: time that one prompt of another request adds, s.
        first_token_s: time to the first token, s.
        prompt_service_s: time of the replica per prompt, s.
    Limits: a mean.
    Check:
        >>> one(decoding_s(col(200), col(0.02), col(11), col(0.01), col(0.01), col(0.01)))  # 200 * 20 + 10 * 10 ms
        4.1
    """
    away = np.maximum(first_token_s - prompt_service_s, 0.0)
    tokens = later_tokens * streamed_step_s
    short = tokens + np.maximum(batch - 1, 0.0) * prompt_delay_s - away
    return (short + np.sqrt(short**2 + 4 * tokens * away)) / 2


@formula(unit="s", source="mean value analysis (Reiser and Lavenberg 1980), Schweitzer approximation (1979)")
def mva_wait_s(batch: Column, prompt_service_s: Column, think_s: Column) -> Column:
    """Mean wait of a client for a server shared with all others: R = s + s (C - 1) R / (Z + R), minus the service time
    s.

    Parameters:
        batch: clients of the loop, C.
        prompt_service_s: service time s, s.
        think_s: time Z between a client's visits, s.
    Limits: one server.
    Check:
        >>> round(one(mva_wait_s(col(4), col(1), col(1e-9))), 6)  # no think time: behind all three others
        3.0
    """
    short = batch * prompt_service_s - think_s
    return (short + np.sqrt(short**2 + 4 * prompt_service_s * think_s)) / 2 - prompt_service_s


@formula(unit="s", source="M/G/1 (Kingman 1961), extended to M/G/c by Sakasegawa 1977 (Ann. Inst. Stat. Math. 29)")
def shared_server_wait_s(
    load: Column,
    busy_share: Column,
    prompt_service_s: Column,
    prompts_at_once: Column,
    variation: Column,
    pooled: Column | float = 1.0,
) -> Column:
    """Mean wait for a server that takes several prompts at a time, as in M/G/1 with a rarer queue; infinite at
    saturation. Servers behind one router that balances their load have one queue: M/G/c.

    Parameters:
        load: offered load (rho) of the server, `server_load`.
        busy_share: share of its prompt slots that are busy: the load, or less where a lighter load is served faster.
        prompt_service_s: server time per prompt, s.
        prompts_at_once: prompts that the server takes at a time.
        variation: mean of the squared coefficients of variation of arrivals and prompts.
        pooled: servers behind one router.
    Limits: independent arrivals; within 4 % of Erlang C where the queue matters (loads of 0.7 and more).
    Check:
        >>> round(one(shared_server_wait_s(col(0.8), col(0.8), col(1), col(1), col(1.0))), 3)  # M/M/1: 0.8 / 0.2
        4.0
    """
    idle = np.maximum(1 - load, TINY) * pooled
    power = np.sqrt(2 * (np.maximum(prompts_at_once, 1.0) * pooled + 1)) - 1
    return np.where(load >= 1, np.inf, variation * prompt_service_s * np.minimum(busy_share, 1.0) ** power / idle)


@formula(unit="1", source="Sakasegawa 1977 (Ann. Inst. Stat. Math. 29)")
def queued_share(load: Column, prompts_at_once: Column, pooled: Column | float) -> Column:
    """Share of requests that find a queue of prompts; for one server its load, for several less.

    Parameters:
        load: offered load (rho) of the server, `server_load`.
        prompts_at_once: prompts that the server takes at a time.
        pooled: servers behind one router.
    Limits: independent arrivals.
    Check: a load of 0.8 on four servers; Erlang C is 0.596.
        >>> round(one(queued_share(col(0.8), col(1), col(4))), 3)
        0.617
    """
    at_once = np.maximum(prompts_at_once, 1.0)
    power = (np.sqrt(2 * (at_once * pooled + 1)) - 1) / (np.sqrt(2 * (at_once + 1)) - 1)
    share: Column = np.minimum(load, 1.0) ** power
    return share


@formula(unit="s", source="answers of one step trigger new prompts together")
def burst_wait_s(arriving_prompts: Column, prompts_per_full_step: Column, prompt_service_s: Column) -> Column:
    """Mean wait behind prompts that arrived together with the own one.

    Parameters:
        arriving_prompts: other prompts that are queued when the scheduler starts on one.
        prompts_per_full_step: prompts that fill a step.
        prompt_service_s: time of the replica per prompt, s.
    Limits: prompts have steps of their own, before decodes.
    Check:
        >>> one(burst_wait_s(col(5), col(2), col(0.1)))  # 6 prompts, 2 of them in the first step
        0.2
    """
    return np.maximum(1 + arriving_prompts - np.maximum(prompts_per_full_step, 1.0), 0.0) / 2 * prompt_service_s


@formula(unit="s", source="minimum of the closed-loop and open-queue waits")
def closed_wait_s(
    prefill_first: Mask, burst_wait_s: Column, mva_wait_s: Column, shared_server_wait_s: Column
) -> Column:
    """Mean wait behind other prompts in a closed loop.

    Where prompts have steps of their own, no answer is sent while they are computed, so only bursts queue.

    Parameters:
        prefill_first: whether prompts have steps of their own.
        burst_wait_s: wait behind prompts that arrived together with the own one, s.
        mva_wait_s: wait by mean value analysis, s.
        shared_server_wait_s: wait as in an open queue, s.
    Limits: a mean.
    Check:
        >>> one(closed_wait_s(col(0) > 0, col(0.3), col(0.2), col(0.1)))
        0.1
    """
    return np.where(prefill_first, burst_wait_s, np.minimum(mva_wait_s, shared_server_wait_s))


@formula(unit="requests/s", source="Little's law")
def loop_rate_per_s(batch: Column, first_token_s: Column, decoding_s: Column, tokenise_s: Column) -> Column:
    """Request rate of a closed loop, at most the rate at which one process tokenizes prompts.

    Parameters:
        batch: requests in the loop.
        first_token_s: time to the first token, s.
        decoding_s: time from the first token to the last, s.
        tokenise_s: time to tokenize one prompt, s.
    Limits: a steady state.
    Check:
        >>> round(one(loop_rate_per_s(col(32), col(0.32), col(5.1), col(0.0))), 3)
        5.904
    """
    return np.minimum(batch / (first_token_s + decoding_s), 1 / np.maximum(tokenise_s, TINY))


@formula(unit="s", source="Little's law (Little 1961)")
def slot_wait_s(in_flight: Column, max_sequences: Column, rate_per_s: Column) -> Column:
    """Mean wait of a request for an open slot in the batch, with a fixed number of requests in flight (closed loop).

    Parameters:
        in_flight: requests in flight.
        max_sequences: sequences that can run at the same time (vLLM: `max_num_seqs`, or what the KV cache holds).
        rate_per_s: request rate, requests/s.
    Limits: first come, first served.
    Check:
        >>> one(slot_wait_s(col(100), col(64), col(12.0)))
        3.0
    """
    return np.maximum(in_flight - max_sequences, 0.0) / rate_per_s


@formula(unit="s", source="sum of its parts")
def mean_ttft_s(queue_free_ttft_s: Column, queue_wait_s: Column, slot_wait_s: Column) -> Column:
    """Mean TTFT.

    Parameters:
        queue_free_ttft_s: TTFT without queueing, s.
        queue_wait_s: wait behind other prompts, s.
        slot_wait_s: wait for a free sequence slot, s.
    Check:
        >>> round(one(mean_ttft_s(col(0.2), col(0.1), col(0.05))), 3)
        0.35
    """
    return queue_free_ttft_s + queue_wait_s + slot_wait_s


@formula(unit="sequences", source="Little's law")
def decoding_batch(batch: Column, first_token_s: Column, decoding_s: Column) -> Column:
    """Sequences of a closed loop that decode, at least one: the share of a cycle that follows the first token.

    Parameters:
        batch: sequences of the loop.
        first_token_s: time to the first token, s.
        decoding_s: time from the first token to the last, s.
    Check:
        >>> one(decoding_batch(col(32), col(1.0), col(7.0)))
        28.0
    """
    return np.maximum(batch * decoding_s / (first_token_s + decoding_s), 1.0)


@formula(unit="1", source="definition")
def server_load(rate_per_s: Column, prompt_service_s: Column) -> Column:
    """Offered load (rho) of the prompt server: request rate times prompt time; the queue grows without bound from 1.

    Parameters:
        rate_per_s: request rate, requests/s.
        prompt_service_s: server time per prompt, s.
    Check:
        >>> one(server_load(col(5), col(0.1)))
        0.5
    """
    return rate_per_s * prompt_service_s


@formula(unit="1", source="Little's law without queueing")
def loop_server_load(batch: Column, queue_free_ttft_s: Column, decoding_s: Column, prompt_service_s: Column) -> Column:
    """Offered load (rho) of the prompt server in a closed loop, as if its prompts never queued.

    Parameters:
        batch: sequences of the loop.
        queue_free_ttft_s: TTFT without queueing, s.
        decoding_s: time from the first token to the last, s.
        prompt_service_s: server time per prompt, s.
    Limits: an upper bound.
    Check:
        >>> round(one(loop_server_load(col(32), col(0.3), col(6.1), col(0.1))), 3)
        0.5
    """
    return batch * prompt_service_s / (queue_free_ttft_s + decoding_s)


def closed_loop(
    stream: Stream, in_flight: Column, sequences: Column, *, queued: bool = False, passes: int = FIXED_POINT_PASSES
) -> SteadyState:
    """Steady state of a closed loop.

    Parameters:
        stream: requests of one kind on the replica.
        in_flight: requests in flight.
        sequences: how many of them can run at the same time.
        queued: whether more requests wait than can run.
        passes: iterations until the decoding batch and the cycle time agree.
    """
    batch, token_budget = steady_batch(in_flight, sequences), stream_sequence_budget(stream)
    first, decoding = np.zeros(len(batch)), np.minimum(batch, token_budget)
    for remaining in reversed(range(passes)):
        with suspend_recording() if remaining else nullcontext():
            cadence = decode_cadence(stream, decoding, queued=queued)
            first, tokens, wait = closed_loop_iteration(stream, batch, first, cadence, queued=queued)
            decoding = np.minimum(decoding_batch(batch, first, tokens), token_budget)
    rate = loop_rate_per_s(batch, first, tokens, stream.prefill.tokenise_s)
    slot_wait = slot_wait_s(in_flight, sequences, rate)
    return SteadyState(
        batch=batch,
        tpot_s=tokens / stream.later_tokens,
        ttft_s=mean_ttft_s(first - wait, wait, slot_wait),
        rate_per_s=rate,
        queue_wait_s=wait,
        slot_wait_s=slot_wait,
        prefill_own_s=cadence.prefill_own_s,
        mean_step_s=cadence.mean_step_s,
        added_prompt_s=cadence.added_prompt_s,
        prompts_per_token=np.maximum(batch - 1, 0.0) / stream.later_tokens,
        queued_share=np.minimum(rate * cadence.prompt_service_s, 1.0),
        slots_full_share=(in_flight > sequences).astype(float),
    )


def closed_loop_iteration(
    stream: Stream, batch: Column, first: Column, cadence: DecodeCadence, *, queued: bool
) -> tuple[Column, Column, Column]:
    """One iteration of the closed loop: seconds to the first token, seconds of the later tokens, and the prompt queue
    wait.
    """
    base = cadence.prefill_own_s
    if not queued:
        entry = closed_entry_s(stream.entry_s, cadence.mean_step_s, cadence.scheduler_delay_s)
        base = queue_free_ttft_s(stream.unloaded_ttft_s, entry, cadence.prefill_own_s, closed_overlap_share(batch))
    tokens = decoding_s(
        stream.later_tokens,
        cadence.streamed_step_s,
        batch,
        cadence.added_prompt_s,
        np.maximum(first, base),
        cadence.prompt_service_s,
    )
    load = loop_server_load(batch, base, tokens, cadence.prompt_service_s)
    wait = closed_wait_s(
        stream.scheduling.prefill_first,
        burst_wait_s(cadence.arriving_prompts, cadence.prompts_per_full_step, cadence.prompt_service_s),
        mva_wait_s(batch, cadence.prompt_service_s, tokens + base - cadence.prefill_own_s),
        shared_server_wait_s(load, load, cadence.prompt_service_s, cadence.prompts_per_full_step, stream.variation),
    )
    return base + wait, tokens, wait


@dataclass(frozen=True, slots=True)
class OpenLoopBatch(Columns):
    """Test whether a batch of running sequences finishes no faster than requests arrive."""

    stream: Stream
    rate_per_s: Column
    sequences: Column

    def holds(self, batch: Column) -> Mask:
        """Whether the batch finishes at most `batch_rate_per_s` requests/s."""
        below_rate: Mask = open_rate_per_s(self.stream, batch, self.sequences) <= self.rate_per_s
        return below_rate


@formula(unit="sequences", source="arrival theorem (Sevcik and Mitrani 1981)")
def sequences_seen(batch: Column, max_sequences: Column) -> Column:
    """Sequences that a request of an open loop sees, itself included (arrival theorem).

    Parameters:
        batch: mean sequences running.
        max_sequences: sequences that can run at the same time.
    Check:
        >>> one(sequences_seen(col(31.5), col(64)))
        32.5
    """
    return np.minimum(batch + 1, np.maximum(max_sequences, 1.0))


@formula(unit="requests/s", source="Little's law")
def batch_rate_per_s(batch: Column, later_tokens: Column, mean_tpot_s: Column) -> Column:
    """Request rate at which `batch` sequences run on average, by Little's law.

    Little's law: batch = rate * time from the first to the last token. `open_loop` solves it for the batch at a given
    rate.

    Parameters:
        batch: mean sequences running.
        later_tokens: tokens of a request after its first.
        mean_tpot_s: mean time per output token, s.
    Limits: a steady state.
    Check:
        >>> round(one(batch_rate_per_s(col(32), col(255), col(0.0212549))), 3)
        5.904
    """
    return batch / (later_tokens * mean_tpot_s)


def open_rate_per_s(stream: Stream, batch: Column, sequences: Column) -> Column:
    """Request rate at which `batch` sequences run on average, requests/s, where at most `sequences` run at the same
    time.
    """
    max_sequences = np.minimum(sequences, stream_sequence_budget(stream))
    return batch_rate_per_s(
        batch, stream.later_tokens, decode_cadence(stream, sequences_seen(batch, max_sequences)).tpot_s
    )


@formula(unit="1", source="Poisson arrivals see time averages (Wolff 1982)")
def open_overlap_share(batch: Column, rate_per_s: Column, unloaded_ttft_s: Column) -> Column:
    """Share of an open loop's requests that meet other sequences on the replica.

    Parameters:
        batch: mean sequences running.
        rate_per_s: request rate, requests/s.
        unloaded_ttft_s: TTFT on an idle replica, s.
    Limits: the number of sequences is Poisson-distributed, as with independent arrivals.
    Check:
        >>> round(one(open_overlap_share(col(1.0), col(2.0), col(0.1))), 3)  # 1 - exp(-1.2)
        0.699
    """
    return 1 - np.exp(-batch - rate_per_s * unloaded_ttft_s)


@formula(unit="1", source="Sakasegawa 1977 (Ann. Inst. Stat. Math. 29)")
def slots_full_share(batch: Column, max_sequences: Column, pooled: Column | float = 1.0) -> Column:
    """Share of an open loop's requests that find all sequence slots busy, an approximation of Erlang C.

    Parameters:
        batch: mean sequences running.
        max_sequences: sequences that can run at the same time.
        pooled: replicas behind one router; a request waits only if the slots of all are busy.
    Limits: independent arrivals.
    Check:
        >>> round(one(slots_full_share(col(0.8), col(1))), 3)  # M/M/1: the load
        0.8
    """
    share: Column = np.minimum(batch / max_sequences, 1.0) ** (np.sqrt(2 * (max_sequences * pooled + 1)) - 1)
    return share


@formula(unit="s", source="Sakasegawa 1977 (Ann. Inst. Stat. Math. 29)")
def open_slot_wait_s(
    slots_full_share: Column,
    rate_per_s: Column,
    saturation_per_s: Column,
    output_variation: Column,
    pooled: Column | float = 1.0,
) -> Column:
    """Mean wait of a request for an open slot in the batch at a request rate (open loop), as in M/G/c; infinite at
    saturation.

    Parameters:
        slots_full_share: share of requests that find all slots busy.
        rate_per_s: request rate, requests/s.
        saturation_per_s: rate at which the queue grows without bound, requests/s.
        output_variation: mean of the squared coefficients of variation of arrivals and answers.
        pooled: replicas behind one router; the first free slot of any ends the wait.
    Limits: independent arrivals.
    Check:
        >>> round(one(open_slot_wait_s(col(0.8), col(8.0), col(10.0), col(1.0))), 3)  # 1 / 10 * 0.8 / 0.2
        0.4
    """
    load = rate_per_s / saturation_per_s
    wait = output_variation / saturation_per_s * slots_full_share / np.maximum(1 - load, TINY) / pooled
    return np.where(load >= 1, np.inf, wait)


def open_loop(
    stream: Stream,
    rate: Column,
    sequences: Column,
    saturation: Column | None = None,
    pooled: Column | float = 1.0,
) -> SteadyState:
    """Steady state of an open loop at a request rate below saturation.

    Parameters:
        stream: requests of one kind on the replica.
        rate: request rate, requests/s.
        sequences: sequences that can run at the same time.
        saturation: rate at which the queue grows without bound, requests/s; computed if omitted.
        pooled: replicas behind one router that balances their load.
    """
    with suspend_recording():
        sequences = np.minimum(sequences, stream_sequence_budget(stream))
        batch = bisect_largest(np.zeros(len(rate)), sequences, OpenLoopBatch(stream, rate, sequences))
        if saturation is None:
            saturation = closed_loop(stream, sequences, sequences, queued=True).rate_per_s
    cadence = decode_cadence(stream, sequences_seen(batch, sequences))
    overlap = open_overlap_share(batch, rate, stream.unloaded_ttft_s)
    entry = open_entry_s(stream.entry_s, cadence.mean_step_s, cadence.scheduler_delay_s)
    base = queue_free_ttft_s(stream.unloaded_ttft_s, entry, cadence.prefill_own_s, overlap)
    load = server_load(rate, cadence.prompt_service_s)
    queue_wait = shared_server_wait_s(
        load, load, cadence.prompt_service_s, cadence.prompts_per_full_step, stream.variation, pooled
    )
    full = slots_full_share(batch, sequences, pooled)
    slot_wait = open_slot_wait_s(full, rate, saturation, stream.output_variation, pooled)
    return SteadyState(
        batch=batch,
        tpot_s=cadence.tpot_s,
        ttft_s=mean_ttft_s(base, queue_wait, slot_wait),
        rate_per_s=rate,
        queue_wait_s=queue_wait,
        slot_wait_s=slot_wait,
        prefill_own_s=cadence.prefill_own_s,
        mean_step_s=cadence.mean_step_s,
        added_prompt_s=cadence.added_prompt_s,
        prompts_per_token=np.maximum(sequences_seen(batch, sequences) - 1, 0.0) / stream.later_tokens,
        queued_share=queued_share(load, cadence.prompts_per_full_step, pooled),
        slots_full_share=full,
    )


@formula(unit="s", source="definition of the static-batch benchmark")
def static_ttft_s(request_s: Column, batch: Column, prefill_s: Column) -> Column:
    """TTFT of a static batch: every prompt is computed before any first token counts.

    Parameters:
        request_s: time to ingest a request, s.
        batch: requests of a batch.
        prefill_s: time of one prompt, s.
    Limits: no request joins a running batch.
    Check:
        >>> round(one(static_ttft_s(col(0.01), col(8), col(0.05))), 3)
        0.41
    """
    return request_s + batch * prefill_s


@formula(unit="requests/s", source="Little's law")
def static_rate_per_s(batch: Column, static_ttft_s: Column, later_tokens: Column, streamed_step_s: Column) -> Column:
    """Request rate of static batches that follow each other.

    Parameters:
        batch: requests of a batch.
        static_ttft_s: time to the first token of the batch, s.
        later_tokens: tokens of a request after its first.
        streamed_step_s: decode step, s.
    Limits: answers of equal length.
    Check:
        >>> one(static_rate_per_s(col(8), col(0.4), col(80), col(0.02)))
        4.0
    """
    return batch / (static_ttft_s + later_tokens * streamed_step_s)


def static_batches(stream: Stream, in_flight: Column, sequences: Column) -> SteadyState:
    """Steady state of static batches: requests of a batch start and end together, and batches follow each other."""
    batch, zeros = steady_batch(in_flight, sequences), np.zeros(len(in_flight))
    with trace_label("static batch"):
        prompt = seconds_per_prompt(stream.prefill, stream.scheduling.max_batched_tokens, batch)
    decode = step_s(stream.step, batch)
    first = static_ttft_s(stream.prefill.request_s, batch, prompt)
    rate = static_rate_per_s(batch, first, stream.later_tokens, decode)
    slot_wait = slot_wait_s(in_flight, sequences, rate)
    ttft = mean_ttft_s(first, zeros, slot_wait)
    return SteadyState(batch, decode, ttft, rate, zeros, slot_wait, batch * prompt, zeros, zeros, zeros, zeros, zeros)


def steady_state(load: Load, stream: Stream, in_flight: Column, sequences: Column) -> SteadyState:
    """Steady state of a replica with `in_flight` requests, of which `sequences` can run at the same time."""
    if load is Load.BATCH:
        return static_batches(stream, in_flight, sequences)
    return closed_loop(stream, in_flight, sequences, queued=load is Load.OFFLINE)
