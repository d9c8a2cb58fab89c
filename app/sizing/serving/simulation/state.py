"""Mutable state of a replica simulation, and the heap of running sequences by finishing time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from app.sizing.serving.simulation.record import (
    GAP_BINS_PER_DOUBLING,
    GAP_DOUBLINGS,
    Counts,
    Replica,
    Requests,
    Seconds,
)

# Indices of State.clock: seconds, bytes and sums
NOW, LAST_STEP, LAST_TOKEN, INGESTED, CONTEXTS, LEFT, RESERVED = 0, 1, 2, 3, 4, 5, 6
RUNNING_S, WAITING_S, CACHE_S, BUSY_S, ALLOCATED, MEASURED_FROM, MEASURED_TO = 7, 8, 9, 10, 11, 12, 13
# Indices of State.number
ISSUED, VISIBLE, ADMITTED, FINISHED, DECODING, DECODED, PREFILLING, RETURNED = 0, 1, 2, 3, 4, 5, 6, 7
SINCE_LOOK, WAITED, PREEMPTED, HITS, NEWEST, COUNTED, FREE, ABOVE_WINDOWS, WANTED = 8, 9, 10, 11, 12, 13, 14, 15, 16


class State(NamedTuple):
    """Everything that changes during a simulation. Decoding sequences occupy slots."""

    clock: Seconds  # seconds, bytes and sums, by index
    number: Counts  # counters, by index
    ready_s: Seconds  # when the scheduler can see each request, s
    arrival_s: Seconds  # arrival of each request, s
    first_s: Seconds  # first token of each request, s
    finish_s: Seconds  # last token of each request, s
    began_s: Seconds  # first admission of each prompt, s
    done: Counts  # computed tokens of a prompt or of a recomputation
    target: Counts  # tokens to compute before the next output token
    made: Counts  # output tokens so far
    prefilling: Counts  # requests in prefill, in order
    returned: Counts  # stack of preempted requests, the latest on top
    slot_request: Counts  # request of each slot
    slot_base: Counts  # context of a slot's request when it started decoding, minus the steps decoded until then
    heap: Counts  # slots as a heap by finishing step
    heap_key: Counts  # finishing step of each heap entry
    free: Counts  # stack of empty slots
    newer: Counts  # next newer slot in the order of admission
    older: Counts  # next older slot in the order of admission
    room: Seconds  # bytes that a request holds during prefill
    allocated_at: Seconds  # tokens ever allocated when a request was admitted
    gaps: Counts  # histogram of gaps between tokens


def initial_state(r: Replica, q: Requests) -> State:
    """State before the first event."""
    n = len(q.input_tokens)
    slots = int(min(r.max_sequences, n))
    moments, numbers = np.zeros(14), np.zeros(17, np.int64)
    numbers[NEWEST], numbers[FREE] = -1, slots
    widest = int(r.window_tokens.max()) if len(r.window_tokens) else 0
    numbers[ABOVE_WINDOWS] = int(q.input_tokens.min()) >= widest

    def unset_times() -> Seconds:
        return np.full(n, np.nan)

    def zero_counts(size: int) -> Counts:
        return np.zeros(size, np.int64)

    return State(
        moments,
        numbers,
        unset_times(),
        unset_times(),
        unset_times(),
        unset_times(),
        unset_times(),
        zero_counts(n),
        zero_counts(n),
        zero_counts(n),
        zero_counts(slots),
        zero_counts(n),
        zero_counts(slots),
        zero_counts(slots),
        zero_counts(slots),
        zero_counts(slots),
        np.arange(slots, dtype=np.int64),
        zero_counts(slots),
        zero_counts(slots),
        np.zeros(n),
        np.zeros(n),
        zero_counts(GAP_DOUBLINGS * GAP_BINS_PER_DOUBLING),
    )


def push_slot(s: State, slot: int, key: int) -> None:
    """Insert a slot into the heap."""
    at = s.number[DECODING]
    s.heap[at], s.heap_key[at] = slot, key
    while at > 0:
        above = (at - 1) >> 1
        if s.heap_key[above] <= s.heap_key[at]:
            break
        s.heap[above], s.heap[at] = s.heap[at], s.heap[above]
        s.heap_key[above], s.heap_key[at] = s.heap_key[at], s.heap_key[above]
        at = above


def sift_down(s: State, at: int, size: int) -> None:
    """Restore the heap order below an index."""
    while True:
        least = at
        for below in range(2 * at + 1, 2 * at + 3):
            if below < size and s.heap_key[below] < s.heap_key[least]:
                least = below
        if least == at:
            return
        s.heap[least], s.heap[at] = s.heap[at], s.heap[least]
        s.heap_key[least], s.heap_key[at] = s.heap_key[at], s.heap_key[least]
        at = least


def remove_slot(s: State, at: int) -> int:
    """Remove the slot at a heap index, and return the slot."""
    slot, last = s.heap[at], s.number[DECODING] - 1
    key = s.heap_key[at]
    s.heap[at], s.heap_key[at] = s.heap[last], s.heap_key[last]
    if at < last:
        if s.heap_key[at] < key:
            while at > 0 and s.heap_key[(at - 1) >> 1] > s.heap_key[at]:
                above = (at - 1) >> 1
                s.heap[above], s.heap[at] = s.heap[at], s.heap[above]
                s.heap_key[above], s.heap_key[at] = s.heap_key[at], s.heap_key[above]
                at = above
        else:
            sift_down(s, at, last)
    return int(slot)


def start_decoding(s: State, i: int, context: int, left: int) -> None:
    """Start decoding a request; it becomes the newest sequence."""
    s.number[FREE] -= 1
    slot = s.free[s.number[FREE]]
    s.slot_request[slot], s.slot_base[slot] = i, context - s.number[DECODED]
    s.older[slot], s.newer[slot] = s.number[NEWEST], -1
    if s.number[NEWEST] >= 0:
        s.newer[s.number[NEWEST]] = slot
    s.number[NEWEST] = slot
    push_slot(s, slot, s.number[DECODED] + left)
    s.number[DECODING] += 1
    s.clock[CONTEXTS] += context
    s.clock[LEFT] += left


def stop_decoding(s: State, at: int) -> int:
    """Stop decoding the sequence at a heap index, and return its request."""
    left = s.heap_key[at] - s.number[DECODED]
    slot = remove_slot(s, at)
    s.number[DECODING] -= 1
    s.clock[CONTEXTS] -= s.slot_base[slot] + s.number[DECODED]
    s.clock[LEFT] -= left
    if s.older[slot] >= 0:
        s.newer[s.older[slot]] = s.newer[slot]
    if s.newer[slot] >= 0:
        s.older[s.newer[slot]] = s.older[slot]
    else:
        s.number[NEWEST] = s.older[slot]
    s.free[s.number[FREE]] = slot
    s.number[FREE] += 1
    return int(s.slot_request[slot])
