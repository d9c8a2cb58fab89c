"""The steady state of one replica: so many requests always in flight, or a rate of them.

In a closed loop of C clients a turn is a first token and the tokens after it, and throughput is C over a turn. While
one client's tokens come, so do the prompts of the C - 1 others, in the share of the turn that this takes:

    decoding = later * step + (C - 1) * prompt * decoding / (turn without the own prompt)

Prompts queue as at a machine repairman's: one server beside C clients, each away for as long as its tokens take. Of a
rate, prompts queue as in M/G/1 where a step holds one, and by less where it holds several.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Column, Columns, Mask
from app.sizing.formula import formula, told_as, unrecorded
from app.sizing.serving.measured import largest
from app.sizing.serving.pace import Pace, Scheduled, Stream, pace
from app.sizing.serving.prefill import prompt_s
from app.sizing.serving.step import step_s
from app.sizing.workload import Load

PASSES = 3  # until the sequences that decode and the turn agree


@dataclass(frozen=True, slots=True)
class Flow(Columns):
    """A steady state, means."""

    batch: Column  # sequences running
    tpot_s: Column
    ttft_s: Column
    rate_per_s: Column
    queue_s: Column  # of TTFT, behind other prompts
    place_s: Column  # of TTFT, for one of the sequences that run
    own_s: Column  # of TTFT, steps of the own prompt
    beat_s: Column  # a step that is waited for
    prompt_s: Column  # that one of the others' prompts adds
    per_token: Column  # prompts of others that come for every token
    waits: Column  # share of requests that find a queue of prompts
    full: Column  # share that find no place


@formula(unit="sequences", source="a step's tokens are those of its sequences and of their successors' prompts")
def fed_sequences(scheduled: Scheduled, later_tokens: Column, new_tokens: Column) -> Column:
    """Sequences that a step's tokens leave room for beside the prompts that follow them. Source: counted.

    Limits: where the scheduler mixes.
    """
    mixed = np.maximum(scheduled.max_batched_tokens * later_tokens / (later_tokens + new_tokens), 1.0)
    return np.where(scheduled.prefill_first, np.inf, mixed)


def fed(stream: Stream) -> Column:
    """The same of a stream."""
    return fed_sequences(stream.scheduled, stream.later_tokens, stream.prefill.new_tokens)


@formula(unit="sequences", source="as many as are in flight, up to what fits")
def steady_batch(in_flight: Column, most: Column) -> Column:
    """Sequences that run in a steady state. Source: counted. Limits: at least one."""
    return np.maximum(np.minimum(in_flight, most), 1.0)


@formula(unit="s", source="what comes is seen when the running step ends")
def closed_entry_s(entry_s: Column, beat_s: Column, held_back_s: Column) -> Column:
    """From an answer to the first step of the next prompt, others running: an answer comes as a step ends, so that an
    entry shorter than a step lasts one.

    Source: counted. Limits: in the mean.
    """
    return np.maximum(entry_s + beat_s / 2, beat_s) + held_back_s


@formula(unit="s", source="a request comes at any time of the running step")
def open_entry_s(entry_s: Column, beat_s: Column, held_back_s: Column) -> Column:
    """From sending a request to its first step, others running. Source: renewal theory. Limits: in the mean."""
    return entry_s + beat_s / 2 + held_back_s


@formula(unit="1", source="counted")
def accompanied(batch: Column) -> Column:
    """Share of requests of a closed loop that meet others. Source: counted. Limits: none."""
    return np.clip(batch - 1, 0.0, 1.0)


@formula(unit="s", source="on a replica that runs others, or on an idle one")
def base_s(idle_s: Column, entry_s: Column, own_s: Column, accompanied: Column) -> Column:
    """TTFT without a queue. Source: counted. Limits: in the mean."""
    return idle_s + accompanied * (entry_s + own_s - idle_s)


@formula(unit="s", source="conservation of throughput in a closed loop")
def decoding_s(
    later_tokens: Column, streamed_step_s: Column, batch: Column, prompt_s: Column, first_s: Column, server_s: Column
) -> Column:
    """From a request's first token to its last: D = later * step + (B - 1) * prompt * D / (D + first - server).

    Source: Little 1961; a client meets the loop without itself (Reiser and Lavenberg 1980).
    Limits: in the mean.
    Check:
        >>> one(decoding_s(col(200), col(0.02), col(11), col(0.01), col(0.01), col(0.01)))  # 200 * 20 + 10 * 10 ms
        4.1
    """
    away = np.maximum(first_s - server_s, 0.0)
    tokens = later_tokens * streamed_step_s
    short = tokens + np.maximum(batch - 1, 0.0) * prompt_s - away
    return (short + np.sqrt(short**2 + 4 * tokens * away)) / 2


@formula(unit="s", source="Reiser and Lavenberg 1980: mean value analysis, Schweitzer's closure")
def repairman_wait_s(batch: Column, server_s: Column, away_s: Column) -> Column:
    """Wait of a client for a server that all others use too: R = s + s (C - 1) R / (Z + R), less s.

    Source: Schweitzer 1979. Limits: one server, clients away for Z.
    Check:
        >>> round(one(repairman_wait_s(col(4), col(1), col(1e-9))), 6)  # never away: behind all three others
        3.0
    """
    short = batch * server_s - away_s
    return (short + np.sqrt(short**2 + 4 * server_s * away_s)) / 2 - server_s


@formula(unit="s", source="Kingman 1961; Sakasegawa 1977 (Ann. Inst. Stat. Math. 29)")
def shared_wait_s(load: Column, taken: Column, server_s: Column, at_once: Column, variation: Column) -> Column:
    """Mean wait for a server that takes several at once, each `server_s` of its time; infinite at saturation. Of what
    it takes at once, `taken` is the share that is: its load, or less where it is faster while less is in it.

    Source: Sakasegawa 1977: as M/G/1, but a queue is the rarer the more are taken at once.
    Limits: independent arrivals.
    Check:
        >>> round(one(shared_wait_s(col(0.8), col(0.8), col(1), col(1), col(1.0))), 3)  # M/M/1: 0.8 / 0.2
        4.0
    """
    idle = np.maximum(1 - load, 1e-12)
    power = np.sqrt(2 * (np.maximum(at_once, 1.0) + 1)) - 1
    return np.where(load >= 1, np.inf, variation * server_s * np.minimum(taken, 1.0) ** power / idle)


@formula(unit="s", source="clients that answers of one step let send again")
def burst_wait_s(arriving: Column, fill: Column, server_s: Column) -> Column:
    """Wait behind prompts that came with the own one. Source: counted. Limits: prompts go before decodes."""
    return np.maximum(1 + arriving - np.maximum(fill, 1.0), 0.0) / 2 * server_s


@formula(unit="s", source="least of what a loop and a queue can make of it")
def closed_wait_s(prefill_first: Mask, burst_wait_s: Column, repairman_wait_s: Column, shared_wait_s: Column) -> Column:
    """Wait behind others' prompts in a closed loop; where prompts go first no answer comes while they are computed.

    Source: counted. Limits: in the mean.
    """
    return np.where(prefill_first, burst_wait_s, np.minimum(repairman_wait_s, shared_wait_s))


@formula(unit="requests/s", source="Little's law")
def loop_rate_per_s(batch: Column, first_s: Column, decoding_s: Column, tokenise_s: Column) -> Column:
    """Requests per second of a closed loop, no more than are made tokens of one after another.

    Source: Little 1961. Limits: a steady state.
    Check:
        >>> round(one(loop_rate_per_s(col(32), col(0.32), col(5.1), col(0.0))), 3)
        5.904
    """
    return np.minimum(batch / (first_s + decoding_s), 1 / np.maximum(tokenise_s, 1e-12))


@formula(unit="s", source="requests beyond what runs at once wait for a place")
def place_wait_s(in_flight: Column, most: Column, rate_per_s: Column) -> Column:
    """Wait for one of the sequences that run. Source: Little 1961. Limits: first come, first served."""
    return np.maximum(in_flight - most, 0.0) / rate_per_s


@formula(unit="s", source="sum of the parts")
def mean_ttft_s(base_s: Column, wait_s: Column, place_wait_s: Column) -> Column:
    """TTFT in the mean. Source: sum of the parts. Limits: none."""
    return base_s + wait_s + place_wait_s


@formula(unit="sequences", source="Little's law")
def decoding_batch(batch: Column, first_s: Column, decoding_s: Column) -> Column:
    """Sequences of a loop that decode. Source: Little 1961. Limits: at least one."""
    return np.maximum(batch * decoding_s / (first_s + decoding_s), 1.0)


@formula(unit="1", source="definition")
def load_of(rate_per_s: Column, server_s: Column) -> Column:
    """Share of a server's time that is taken. Source: definition. Limits: none."""
    return rate_per_s * server_s


@formula(unit="1", source="Little's law, were there no queue")
def loop_load(batch: Column, base_s: Column, decoding_s: Column, server_s: Column) -> Column:
    """Share of its time that a loop's prompts would take of a server. Source: Little 1961. Limits: at most."""
    return batch * server_s / (base_s + decoding_s)


def closed_turn(
    stream: Stream, in_flight: Column, sequences: Column, *, queued: bool = False, passes: int = PASSES
) -> Flow:
    """The steady state with so many in flight, of which `sequences` run at once; `queued`: more wait than can run."""
    batch, most = steady_batch(in_flight, sequences), fed(stream)
    first, decoding = np.zeros(len(batch)), np.minimum(batch, most)
    for left in reversed(range(passes)):
        with unrecorded() if left else nullcontext():
            at = pace(stream, decoding, queued=queued)
            first, tokens, wait = turned(stream, batch, first, at, queued=queued)
            decoding = np.minimum(decoding_batch(batch, first, tokens), most)
    rate = loop_rate_per_s(batch, first, tokens, stream.prefill.tokenise_s)
    place = place_wait_s(in_flight, sequences, rate)
    return Flow(
        batch=batch,
        tpot_s=tokens / stream.later_tokens,
        ttft_s=mean_ttft_s(first - wait, wait, place),
        rate_per_s=rate,
        queue_s=wait,
        place_s=place,
        own_s=at.own_s,
        beat_s=at.beat_s,
        prompt_s=at.prompt_s,
        per_token=np.maximum(batch - 1, 0.0) / stream.later_tokens,
        waits=np.minimum(rate * at.server_s, 1.0),
        full=(in_flight > sequences).astype(float),
    )


def turned(stream: Stream, batch: Column, first: Column, at: Pace, *, queued: bool) -> tuple[Column, Column, Column]:
    """Seconds of a turn at this pace: to the first token, of the tokens after it, and of the first the queue."""
    base = at.own_s
    if not queued:
        entry = closed_entry_s(stream.entry_s, at.beat_s, at.held_back_s)
        base = base_s(stream.idle_s, entry, at.own_s, accompanied(batch))
    tokens = decoding_s(
        stream.later_tokens, at.streamed_step_s, batch, at.prompt_s, np.maximum(first, base), at.server_s
    )
    load = loop_load(batch, base, tokens, at.server_s)
    wait = closed_wait_s(
        stream.scheduled.prefill_first,
        burst_wait_s(at.arriving, at.fill, at.server_s),
        repairman_wait_s(batch, at.server_s, tokens + base - at.own_s),
        shared_wait_s(load, load, at.server_s, at.fill, stream.variation),
    )
    return base + wait, tokens, wait


@dataclass(frozen=True, slots=True)
class Arriving(Columns):
    """Whether so many running sequences finish no faster than requests arrive."""

    stream: Stream
    rate_per_s: Column
    sequences: Column

    def holds(self, batch: Column) -> Mask:
        """At this batch."""
        met: Mask = open_rate_per_s(self.stream, batch, self.sequences) <= self.rate_per_s
        return met


@formula(unit="sequences", source="the arrival theorem: a request sees those that are there, and itself")
def seen(batch: Column, most: Column) -> Column:
    """Sequences that a request of a rate sees. Source: Sevcik and Mitrani 1981. Limits: no more than fit."""
    return np.minimum(batch + 1, np.maximum(most, 1.0))


@formula(unit="requests/s", source="Little's law")
def rate_per_s(batch: Column, later_tokens: Column, token_s: Column) -> Column:
    """Requests per second that keep so many sequences running in the mean.

    Source: Little 1961. Limits: a steady state.
    Check:
        >>> round(one(rate_per_s(col(32), col(255), col(0.0212549))), 3)
        5.904
    """
    return batch / (later_tokens * token_s)


def open_rate_per_s(stream: Stream, batch: Column, sequences: Column) -> Column:
    """Rate at which so many run in the mean."""
    most = np.minimum(sequences, fed(stream))
    return rate_per_s(batch, stream.later_tokens, pace(stream, seen(batch, most)).tpot_s)


@formula(unit="1", source="Poisson arrivals see time averages")
def meets_others(batch: Column, rate_per_s: Column, idle_s: Column) -> Column:
    """Share of requests of a rate that meet others. Source: Wolff 1982. Limits: as many as of independent arrivals."""
    return 1 - np.exp(-batch - rate_per_s * idle_s)


@formula(unit="1", source="Sakasegawa 1977 (Ann. Inst. Stat. Math. 29)")
def all_taken(batch: Column, most: Column) -> Column:
    """Share of requests of a rate that find all places taken. Source: Sakasegawa 1977. Limits: independent arrivals."""
    share: Column = np.minimum(batch / most, 1.0) ** (np.sqrt(2 * (most + 1)) - 1)
    return share


@formula(unit="s", source="Sakasegawa 1977 (Ann. Inst. Stat. Math. 29)")
def no_place_wait_s(
    all_taken: Column, rate_per_s: Column, saturation_per_s: Column, output_variation: Column
) -> Column:
    """Mean wait of a rate's requests for one of the sequences that run; infinite at saturation.

    Source: Sakasegawa 1977, M/G/c. Limits: independent arrivals.
    """
    load = rate_per_s / saturation_per_s
    wait = output_variation / saturation_per_s * all_taken / np.maximum(1 - load, 1e-12)
    return np.where(load >= 1, np.inf, wait)


def open_turn(stream: Stream, rate: Column, sequences: Column, saturation: Column | None = None) -> Flow:
    """The steady state at a request rate below saturation."""
    with unrecorded():
        sequences = np.minimum(sequences, fed(stream))
        batch = largest(np.zeros(len(rate)), sequences, Arriving(stream, rate, sequences))
        if saturation is None:
            saturation = closed_turn(stream, sequences, sequences, queued=True).rate_per_s
    at = pace(stream, seen(batch, sequences))
    others = meets_others(batch, rate, stream.idle_s)
    base = base_s(stream.idle_s, open_entry_s(stream.entry_s, at.beat_s, at.held_back_s), at.own_s, others)
    load = load_of(rate, at.server_s)
    behind = shared_wait_s(load, load, at.server_s, at.fill, stream.variation)
    full = all_taken(batch, sequences)
    place = no_place_wait_s(full, rate, saturation, stream.output_variation)
    return Flow(
        batch=batch,
        tpot_s=at.tpot_s,
        ttft_s=mean_ttft_s(base, behind, place),
        rate_per_s=rate,
        queue_s=behind,
        place_s=place,
        own_s=at.own_s,
        beat_s=at.beat_s,
        prompt_s=at.prompt_s,
        per_token=np.maximum(seen(batch, sequences) - 1, 0.0) / stream.later_tokens,
        waits=np.minimum(load, 1.0),
        full=full,
    )


@formula(unit="s", source="a static batch starts together")
def static_ttft_s(request_s: Column, batch: Column, prefill_s: Column) -> Column:
    """TTFT of a static batch: every prompt is computed before the first token of any counts.

    Source: definition of the benchmark. Limits: no request joins later.
    """
    return request_s + batch * prefill_s


@formula(unit="requests/s", source="Little's law")
def static_rate_per_s(batch: Column, static_ttft_s: Column, later_tokens: Column, streamed_step_s: Column) -> Column:
    """Requests per second of static batches one after another. Source: counted. Limits: equal lengths."""
    return batch / (static_ttft_s + later_tokens * streamed_step_s)


def static_turn(stream: Stream, in_flight: Column, sequences: Column) -> Flow:
    """Batches that start together and end together, one after another."""
    batch, none = steady_batch(in_flight, sequences), np.zeros(len(in_flight))
    with told_as("static batch"):
        prompt = prompt_s(stream.prefill, stream.scheduled.max_batched_tokens, batch)
    decode = step_s(stream.step, batch)
    first = static_ttft_s(stream.prefill.request_s, batch, prompt)
    rate = static_rate_per_s(batch, first, stream.later_tokens, decode)
    place = place_wait_s(in_flight, sequences, rate)
    late = mean_ttft_s(first, none, place)
    return Flow(batch, decode, late, rate, none, place, batch * prompt, none, none, none, none, none)


def steady_flow(load: Load, stream: Stream, in_flight: Column, sequences: Column) -> Flow:
    """What a replica does with so many requests in flight of which `sequences` run at once, in the long run."""
    if load is Load.BATCH:
        return static_turn(stream, in_flight, sequences)
    return closed_turn(stream, in_flight, sequences, queued=load is Load.OFFLINE)
