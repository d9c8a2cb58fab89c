"""Compiled event loop of a scheduler simulation.

It uses plain loops over arrays with basic arithmetic and square roots only. Every processor rounds these alike, so the
same requests give the same times everywhere.

Consecutive steps that only decode are advanced together: contexts grow by one token per step, so their times sum in
closed form until a request finishes, another can be admitted, or the cache is full.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar, get_type_hints

import numpy as np

from app.sizing.serving.simulation.admission import chunk_tokens, issue_request, plan_step, waiting_requests
from app.sizing.serving.simulation.record import (
    GAP_BINS_PER_DOUBLING,
    MIXED,
    SWAPPED,
    Counts,
    Gaps,
    Replica,
    Requests,
    Seconds,
    SimulationResult,
)
from app.sizing.serving.simulation.state import (
    ADMITTED,
    BUSY_S,
    CACHE_S,
    CONTEXTS,
    COUNTED,
    DECODED,
    DECODING,
    FINISHED,
    HITS,
    ISSUED,
    LAST_STEP,
    LAST_TOKEN,
    LEFT,
    MEASURED_FROM,
    MEASURED_TO,
    NEWEST,
    NOW,
    PREEMPTED,
    PREFILLING,
    RESERVED,
    RETURNED,
    RUNNING_S,
    SINCE_LOOK,
    VISIBLE,
    WAITED,
    WAITING_S,
    WANTED,
    State,
    initial_state,
    jit_compiled,
    start_decoding,
    stop_decoding,
)
from app.sizing.serving.simulation.steps import (
    decode_step_s,
    held_bytes,
    linear_s,
    prompt_attention_total_s,
    window_totals,
)


@jit_compiled
def record_time(s: State, lasts_s: float, held: float) -> None:
    """Add a time interval to the measured totals."""
    if s.number[FINISHED] >= s.number[WANTED]:
        return
    s.clock[RUNNING_S] += lasts_s * (s.number[DECODING] + s.number[PREFILLING])
    s.clock[WAITING_S] += lasts_s * (s.number[VISIBLE] - s.number[ADMITTED] + s.number[RETURNED])
    s.clock[CACHE_S] += lasts_s * held
    s.clock[BUSY_S] += lasts_s


@jit_compiled
def record_gaps(s: State, gap_s: float, tokens: int) -> None:
    """Count tokens by the time since the previous token."""
    left, doubling = int(gap_s * 1e6), 0
    while left >= 2 * GAP_BINS_PER_DOUBLING:
        left //= 2
        doubling += 1
    if left >= GAP_BINS_PER_DOUBLING:
        doubling, left = doubling + 1, left - GAP_BINS_PER_DOUBLING
    s.gaps[min(doubling * GAP_BINS_PER_DOUBLING + left, len(s.gaps) - 1)] += tokens


@jit_compiled
def advance_decodes(s: State, steps: int, first_s: float, lasts_s: float, last_s: float) -> None:
    """Add `steps` tokens to every decoding sequence."""
    busy = s.number[DECODING]
    end = s.clock[NOW] + lasts_s
    record_gaps(s, s.clock[NOW] + first_s - s.clock[LAST_TOKEN], busy)
    if steps > 1:
        record_gaps(s, (lasts_s - first_s) / (steps - 1), busy * (steps - 1))
    s.clock[LAST_STEP], s.clock[NOW], s.clock[LAST_TOKEN] = end - last_s, end, end
    s.number[DECODED] += steps
    s.number[SINCE_LOOK] += steps
    s.clock[CONTEXTS] += steps * busy
    s.clock[LEFT] -= steps * busy


@jit_compiled
def finish_request(r: Replica, q: Requests, s: State, i: int, warm: int) -> None:
    """Record that a request is answered; in a closed loop its client sends the next one."""
    s.finish_s[i] = s.clock[NOW]
    s.number[FINISHED] += 1
    s.number[COUNTED] += warm <= i < s.number[WANTED]
    if s.number[FINISHED] == warm:
        s.clock[MEASURED_FROM] = s.clock[NOW]
        s.clock[RUNNING_S], s.clock[WAITING_S], s.clock[CACHE_S], s.clock[BUSY_S] = 0.0, 0.0, 0.0, 0.0
        s.gaps[:] = 0
    if s.number[FINISHED] <= s.number[WANTED]:
        s.clock[MEASURED_TO] = s.clock[NOW]
    if len(q.arrival_s) == 0:
        issue_request(r, q, s, s.clock[NOW])


@jit_compiled
def finish_due(r: Replica, q: Requests, s: State, warm: int) -> None:
    """Finish every request that has its last token."""
    while s.number[DECODING] > 0 and s.heap_key[0] <= s.number[DECODED]:
        finish_request(r, q, s, stop_decoding(s, 0), warm)


@jit_compiled
def run_prompt_step(r: Replica, q: Requests, s: State, tokens: int, warm: int) -> None:
    """Run one step that computes `tokens` prompt tokens, together with decodes where the scheduler mixes them."""
    equivalent, links_s, attention_s, left, whole = 0.0, r.prompt_token_s * tokens / r.ranks, 0.0, tokens, 0
    most_tokens, most_equivalent, most_attention_s = 0.0, 0.0, 0.0
    for j in range(s.number[PREFILLING]):
        i = s.prefilling[j]
        chunk = min(left, chunk_tokens(r, s.target[i] - s.done[i]))
        if r.preemption == SWAPPED and s.made[i] > 0:
            links_s += 2 * r.swap_token_s * s.target[i]
        scores_s = prompt_attention_total_s(r, s.done[i] + chunk) - prompt_attention_total_s(r, s.done[i])
        attention_s += scores_s
        s.done[i] += chunk
        left -= chunk
        own = chunk * r.prompt_equivalent
        if s.done[i] == s.target[i]:
            own += r.prompt_fixed_tokens
            whole += 1
        equivalent += own
        most_tokens, most_equivalent = max(most_tokens, float(chunk)), max(most_equivalent, own)
        most_attention_s = max(most_attention_s, scores_s)
        if left == 0:
            break
    if r.ranks > 1:
        fullest = max(equivalent, r.ranks * most_equivalent)
        equivalent = fullest + r.pooled_share * (equivalent - fullest)
        attention_s = max(attention_s / r.ranks, most_attention_s)
        links_s += r.prompt_token_s * max(most_tokens - tokens / r.ranks, 0.0)
    busy = s.number[DECODING] if r.policy == MIXED else 0
    extra_s = linear_s(r, busy + equivalent) - linear_s(r, float(busy)) + links_s + attention_s
    share = 1.0 / r.stages if r.stages_overlap else 1.0 / min(r.stages, max(whole + waiting_requests(s), 1))
    held = held_bytes(r, s)
    if busy > 0:
        lasts_s = max(decode_step_s(r, s, 0) + extra_s * share, r.dispatch_s, busy * r.stream_token_s)
        record_time(s, lasts_s, held)
        advance_decodes(s, 1, lasts_s, lasts_s, lasts_s)
    else:
        extra_s = max(linear_s(r, equivalent) + links_s + attention_s + r.prompt_step_s, r.dispatch_s)
        lasts_s = extra_s * share
        record_time(s, lasts_s, held)
        s.clock[LAST_STEP] = s.clock[NOW]
        s.clock[NOW] += lasts_s
        s.number[SINCE_LOOK] += 1
        if s.number[DECODING] == 0:
            s.clock[LAST_TOKEN] = s.clock[NOW]
    finish_due(r, q, s, warm)
    begin_decoding(r, q, s, extra_s * (1 - share), warm)


@jit_compiled
def begin_decoding(r: Replica, q: Requests, s: State, later_s: float, warm: int) -> None:
    """Emit the first token of every prompt that is complete; the others keep their order."""
    pending, count = 0, s.number[PREFILLING]
    for j in range(count):
        i = s.prefilling[j]
        if s.done[i] < s.target[i]:
            s.prefilling[pending] = i
            pending += 1
            continue
        s.clock[RESERVED] -= s.room[i]
        if s.made[i] == 0:
            s.first_s[i] = s.clock[NOW] + later_s
        s.made[i] += 1
        if s.made[i] >= q.output_tokens[i]:
            s.number[PREFILLING] -= 1
            finish_request(r, q, s, i, warm)
            s.number[PREFILLING] += 1
        else:
            start_decoding(s, i, s.target[i], q.output_tokens[i] - s.made[i])
    s.number[PREFILLING] = pending
    if s.number[DECODING] == 0 and pending == 0:
        s.clock[RESERVED] = 0.0


@jit_compiled
def preempt_newest(q: Requests, s: State) -> None:
    """Preempt the newest sequence: it loses its cache and is admitted again before all others."""
    slot, at = s.number[NEWEST], 0
    while s.heap[at] != slot:
        at += 1
    left = s.heap_key[at] - s.number[DECODED]
    i = stop_decoding(s, at)
    s.made[i] = q.output_tokens[i] - left
    s.returned[s.number[RETURNED]] = i
    s.number[RETURNED] += 1
    s.number[PREEMPTED] += 1


@jit_compiled
def steps_until(step_s: float, growth_s: float, time_s: float) -> int:
    """Steps that take `time_s` in total; the first takes `step_s`, each later one `growth_s` more than the one
    before.
    """
    if growth_s < 1e-9 * step_s:
        return int(np.ceil(time_s / step_s))
    half = step_s - growth_s / 2
    return int(np.ceil((np.sqrt(half * half + 2 * growth_s * time_s) - half) / growth_s))


@jit_compiled
def steps_ahead(r: Replica, s: State, step_s: float, growth_s: float, room: float) -> int:
    """Decode-only steps until another event may happen."""
    steps = max(s.heap_key[0] - s.number[DECODED], 1)
    steps = min(steps, max(int(room), 1))
    if waiting_requests(s) > 0:
        held_back = r.batch_wait_steps > 0 and s.number[RETURNED] == 0
        return int(min(steps, max(r.batch_wait_steps - s.number[WAITED], 1))) if held_back else int(steps)
    if s.number[VISIBLE] == s.number[ISSUED]:
        return int(steps)
    time_s = s.ready_s[s.number[VISIBLE]] - s.clock[NOW]
    until = max(steps_until(step_s, growth_s, time_s), 1) if time_s > 0 else 1
    late = (s.number[SINCE_LOOK] + until) % r.receive_interval_steps
    return int(min(steps, until + (r.receive_interval_steps - late if late else 0)))


@jit_compiled
def growth_bytes(r: Replica, s: State) -> float:
    """KV cache that one step of all decoding sequences adds, bytes."""
    return float(r.cache_token_bytes * s.number[DECODING] + window_totals(r, s, 0)[2])


@jit_compiled
def run_decode_steps(r: Replica, q: Requests, s: State, warm: int) -> None:
    """Decode until another event may happen."""
    held, grows = held_bytes(r, s), growth_bytes(r, s)
    while held + grows > r.cache_bytes and s.number[DECODING] > 1:
        preempt_newest(q, s)
        held, grows = held_bytes(r, s), growth_bytes(r, s)
    room = (r.cache_bytes - held) / grows if grows > 0 else 1e18
    first_s = decode_step_s(r, s, 0)
    growth_s = decode_step_s(r, s, 1) - first_s
    steps = steps_ahead(r, s, first_s, growth_s, room)
    floor_s = s.number[DECODING] * r.stream_token_s
    last_s = first_s + (steps - 1) * growth_s
    lasts_s = max(steps * (first_s + last_s) / 2, steps * floor_s)
    record_time(s, lasts_s, held + grows * (steps / 2))
    if waiting_requests(s) > 0:
        s.number[WAITED] += steps
    advance_decodes(s, steps, max(first_s, floor_s), lasts_s, max(last_s, floor_s))
    finish_due(r, q, s, warm)


@jit_compiled
def run_events(r: Replica, q: Requests, s: State, warm: int) -> None:
    """Run all events until the measured requests are answered."""
    if len(q.arrival_s) > 0:
        for i in range(len(q.arrival_s)):
            issue_request(r, q, s, q.arrival_s[i])
    else:
        for _ in range(min(q.in_flight, len(q.input_tokens))):
            issue_request(r, q, s, 0.0)
    while s.number[COUNTED] < s.number[WANTED] - warm:
        tokens = plan_step(r, q, s)
        if tokens > 0:
            run_prompt_step(r, q, s, tokens, warm)
        elif s.number[DECODING] > 0:
            run_decode_steps(r, q, s, warm)
        elif s.number[VISIBLE] < s.number[ISSUED]:
            s.clock[NOW] = max(s.clock[NOW], s.ready_s[s.number[VISIBLE]])
            s.clock[LAST_TOKEN] = s.clock[NOW]
        else:
            break


RecordT = TypeVar("RecordT", Replica, Requests)
# Conversions by the declared type of a field.
FIELD_CASTS: Mapping[Any, Callable[[Any], Any]] = MappingProxyType(
    {
        int: int,
        float: float,
        bool: bool,
        Seconds: partial(np.ascontiguousarray, dtype=np.float64),
        Counts: partial(np.ascontiguousarray, dtype=np.int64),
    }
)
FIELD_TYPES = MappingProxyType({record: tuple(get_type_hints(record).values()) for record in (Replica, Requests)})


def cast_fields(record: RecordT) -> RecordT:
    """The same record with every field converted to its declared type, for which the loop is compiled."""
    types = FIELD_TYPES[type(record)]
    return type(record)(*(FIELD_CASTS[kind](value) for kind, value in zip(types, record, strict=True)))


def simulate_replica(r: Replica, q: Requests, *, warm: int, wanted: int) -> SimulationResult:
    """Simulate until requests `warm` to `wanted` are answered; only these are measured, the others keep the replica
    busy.

    Limits: lengths of at least one token; arrivals in order.
    """
    r, q = cast_fields(r), cast_fields(q)
    s = initial_state(r, q)
    s.number[WANTED] = wanted
    run_events(r, q, s, warm)
    measured, clock = slice(warm, wanted), s.clock
    lasts_s = max(clock[MEASURED_TO] - clock[MEASURED_FROM], 1e-12)
    requests = max(int(s.number[FINISHED]), 1)
    return SimulationResult(
        arrival_s=s.arrival_s[measured],
        began_s=s.began_s[measured],
        first_token_s=s.first_s[measured],
        finish_s=s.finish_s[measured],
        gaps=Gaps(s.gaps),
        from_s=float(clock[MEASURED_FROM]),
        to_s=float(clock[MEASURED_TO]),
        running=float(clock[RUNNING_S] / lasts_s),
        waiting=float(clock[WAITING_S] / lasts_s),
        cache_share=float(clock[CACHE_S] / lasts_s / r.cache_bytes) if r.cache_bytes > 0 else 0.0,
        busy_share=float(clock[BUSY_S] / lasts_s),
        preempted=s.number[PREEMPTED] / requests,
        hit_tokens=s.number[HITS] / requests,
        finished=max(min(requests, wanted) - warm, 0),
    )
