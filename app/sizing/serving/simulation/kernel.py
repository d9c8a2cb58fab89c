"""Event loop of a scheduler simulation: admission of requests, steps and their times. `c_source` translates it to C.

It uses plain loops over arrays with basic arithmetic and square roots only. Every processor rounds these alike, so the
same requests give the same times everywhere.

Consecutive steps that only decode are advanced together: contexts grow by one token per step, so their times sum in
closed form until a request finishes, another can be admitted, or the cache is full.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from app.sizing.serving.simulation.native import run_loop
from app.sizing.serving.simulation.record import (
    GAP_BINS_PER_DOUBLING,
    MIXED,
    SWAPPED,
    Counts,
    Dispatch,
    Gaps,
    Replica,
    Requests,
    Routed,
    Seconds,
    SimulationResult,
    field_types,
)
from app.sizing.serving.simulation.state import (
    ABOVE_WINDOWS,
    ADMITTED,
    ALLOCATED,
    BUSY_S,
    CACHE_S,
    CONTEXTS,
    COUNTED,
    DECODED,
    DECODING,
    FINISHED,
    HITS,
    INGESTED,
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
    start_decoding,
    stop_decoding,
)


def linear_s(r: Replica, tokens: float) -> float:
    """Time of a step's linear layers for `tokens` tokens, s."""
    if tokens <= r.linear_exact:
        place = int(tokens)
        part = tokens - place
    else:
        beyond = (tokens - r.linear_exact) / r.linear_stride
        place = r.linear_exact + int(beyond)
        part = beyond - int(beyond)
    if place >= len(r.linear_s) - 1:
        last = len(r.linear_s) - 1
        place, part = last - 1, part + (place - last + 1)
    return float(r.linear_s[place] + part * (r.linear_s[place + 1] - r.linear_s[place]))


def prompt_attention_total_s(r: Replica, tokens: float) -> float:
    """Attention time of the first `tokens` tokens of a prompt, s."""
    if tokens <= 0:
        return 0.0
    doubling = min(max(int(tokens).bit_length() - 1, 0), (len(r.prompt_attention_s) - 2) // 8)
    least = float(1 << doubling)
    within = min((tokens - least) / least * 8, 8.0) if tokens > least else 0.0
    place = min(8 * doubling + int(within), len(r.prompt_attention_s) - 2)
    part = within + 8 * doubling - place
    each = r.prompt_attention_s[place] + part * (r.prompt_attention_s[place + 1] - r.prompt_attention_s[place])
    return float(tokens * each)


def window_totals(r: Replica, s: State, ahead: int) -> tuple[float, float, float]:
    """Attention time of sliding windows `ahead` steps from now, the cache they hold, and its growth per step."""
    attention, held, growth, busy = 0.0, 0.0, 0.0, s.number[DECODING]
    for j in range(len(r.window_tokens)):
        width = r.window_tokens[j]
        inside, below = width * busy, 0
        if s.number[ABOVE_WINDOWS] == 0:
            inside = 0
            for i in range(busy):
                context = s.slot_base[s.heap[i]] + s.number[DECODED] + ahead
                inside += min(context, width)
                below += context < width
        attention += r.window_attention_s[j] * inside
        held += r.window_cache_bytes[j] * inside
        growth += r.window_cache_bytes[j] * below
    return attention, held, growth


def sequence_cache_bytes(r: Replica, tokens: int) -> float:
    """KV cache of a sequence of `tokens` tokens, bytes."""
    held = r.cache_fixed_bytes + r.cache_token_bytes * tokens
    for j in range(len(r.window_tokens)):
        held += r.window_cache_bytes[j] * min(tokens, r.window_tokens[j])
    return float(held)


def held_bytes(r: Replica, s: State) -> float:
    """KV cache that all sequences hold, those in prefill included, bytes."""
    held = s.clock[RESERVED] + r.cache_fixed_bytes * s.number[DECODING] + r.cache_token_bytes * s.clock[CONTEXTS]
    return float(held + window_totals(r, s, 0)[1])


def reserved_output_bytes(r: Replica, s: State) -> float:
    """Cache reserved for the remaining output of decoding sequences, bytes."""
    return float(r.output_reserve_share * r.cache_token_bytes * s.clock[LEFT])


def decode_step_s(r: Replica, s: State, ahead: int) -> float:
    """Time of a decode-only step, `ahead` steps from now, s."""
    busy = s.number[DECODING]
    attention = r.attention_token_s * (s.clock[CONTEXTS] + ahead * busy) + window_totals(r, s, ahead)[0]
    return float(r.decode_s[busy] + attention / max(min(busy, r.stages), 1))


def issue_request(r: Replica, q: Requests, s: State, at_s: float) -> None:
    """Send the next request: it is tokenized after those before it, then ingested."""
    i = s.number[ISSUED]
    if i >= len(q.input_tokens):
        return
    s.arrival_s[i] = at_s
    s.clock[INGESTED] = max(s.clock[INGESTED], at_s) + r.tokenise_token_s * q.input_tokens[i]
    s.ready_s[i] = s.clock[INGESTED] + r.ingest_s
    s.number[ISSUED] = i + 1


def poll_requests(r: Replica, s: State) -> None:
    """Make requests visible to the scheduler that were ready when it planned the step."""
    idle = s.number[DECODING] == 0 and s.number[PREFILLING] == 0
    every = r.receive_interval_steps
    if every > 1 and s.number[DECODING] > 0 and s.number[SINCE_LOOK] % every != 0:
        return
    by = s.clock[NOW] if idle or r.planning_lag_steps == 0 else s.clock[LAST_STEP]
    while s.number[VISIBLE] < s.number[ISSUED] and s.ready_s[s.number[VISIBLE]] <= by:
        s.number[VISIBLE] += 1


def cached_tokens(r: Replica, q: Requests, s: State, i: int, held: float) -> int:
    """Prompt tokens found in the prefix cache: the shared part, and the session's own part unless it was evicted."""
    prefix = q.prefix_tokens[i]
    if prefix <= q.shared_tokens:
        return int(prefix)
    left_s, low, high = s.arrival_s[i] - q.reuse_gap_s, 0, s.number[ADMITTED]
    while low < high:
        middle = (low + high) // 2
        if s.arrival_s[middle] <= left_s:
            low = middle + 1
        else:
            high = middle
    since = s.clock[ALLOCATED] - (s.allocated_at[low - 1] if low > 0 else 0.0)
    in_cache = since * r.cache_token_bytes <= max(r.cache_bytes - held, r.host_cache_bytes)
    return int(prefix) if in_cache else int(min(prefix, q.shared_tokens))


def admit_prompt(r: Replica, q: Requests, s: State, held: float) -> float:
    """Start the next prompt if there is room for it; return the bytes it takes, or a negative number if it must
    wait.
    """
    back, busy = s.number[RETURNED] > 0, s.number[DECODING] + s.number[PREFILLING]
    if (not back and s.number[ADMITTED] >= s.number[VISIBLE]) or busy >= r.max_sequences:
        return -1.0
    i = s.returned[s.number[RETURNED] - 1] if back else s.number[ADMITTED]
    prompt, left = q.input_tokens[i] + s.made[i], q.output_tokens[i] - s.made[i]
    taken = sequence_cache_bytes(r, prompt) + r.output_reserve_share * r.cache_token_bytes * left
    if held + taken > r.cache_bytes and busy > 0:
        return -1.0
    s.target[i], s.done[i] = prompt, 0
    if back:
        s.number[RETURNED] -= 1
        s.done[i] = prompt - 1 if r.preemption == SWAPPED else 0
    else:
        s.done[i] = min(cached_tokens(r, q, s, i, held), prompt - 1)
        s.number[ADMITTED] += 1
        s.began_s[i] = s.clock[NOW]
        s.number[HITS] += s.done[i]
        s.allocated_at[i] = s.clock[ALLOCATED]
        s.clock[ALLOCATED] += prompt - min(s.done[i], q.shared_tokens) + left
    s.room[i] = taken
    s.clock[RESERVED] += taken
    s.prefilling[s.number[PREFILLING]] = i
    s.number[PREFILLING] += 1
    return float(taken)


def waits_for_batch(r: Replica, q: Requests, s: State, budget: int) -> bool:
    """Whether prompts are delayed until more of them fill a step."""
    if r.batch_wait_steps == 0 or s.number[DECODING] == 0 or s.number[PREFILLING] > 0:
        return False
    tokens, i = 0, s.number[ADMITTED]
    while i < s.number[VISIBLE] and tokens < budget:
        tokens += q.input_tokens[i]
        i += 1
    if tokens == 0 or tokens >= r.batch_wait_share * budget or s.number[WAITED] >= r.batch_wait_steps:
        s.number[WAITED] = 0
        return False
    return True


def chunk_tokens(r: Replica, tokens: int) -> int:
    """Tokens of one prompt that a step computes; with several ranks, one of them computes it."""
    return int(min(tokens, max(r.max_batched_tokens // r.ranks, 1))) if r.ranks > 1 and r.chunked else int(tokens)


def plan_step(r: Replica, q: Requests, s: State) -> int:
    """Admit prompts up to the token budget of a step; return the prompt tokens that the step computes."""
    poll_requests(r, s)
    budget = max(r.max_batched_tokens - (s.number[DECODING] if r.policy == MIXED else 0), 1)
    if waits_for_batch(r, q, s, budget):
        return 0
    tokens = 0
    for j in range(s.number[PREFILLING]):
        tokens += chunk_tokens(r, s.target[s.prefilling[j]] - s.done[s.prefilling[j]])
    if tokens >= budget:
        return budget
    if s.number[RETURNED] == 0 and s.number[ADMITTED] >= s.number[VISIBLE]:
        return int(tokens)
    held = held_bytes(r, s) + reserved_output_bytes(r, s)
    while tokens < budget:
        if not r.chunked and tokens > 0 and tokens + next_prompt_tokens(q, s) > budget:
            break
        taken = admit_prompt(r, q, s, held)
        if taken < 0:
            break
        held += taken
        i = s.prefilling[s.number[PREFILLING] - 1]
        tokens += chunk_tokens(r, s.target[i] - s.done[i])
    return int(min(tokens, budget)) if r.chunked else int(tokens)


def next_prompt_tokens(q: Requests, s: State) -> int:
    """Prompt tokens of the next request to admit; 0 if there is none."""
    if s.number[RETURNED] > 0:
        i = s.returned[s.number[RETURNED] - 1]
        return int(q.input_tokens[i] + s.made[i])
    return int(q.input_tokens[s.number[ADMITTED]]) if s.number[ADMITTED] < s.number[VISIBLE] else 0


def waiting_requests(s: State) -> int:
    """Visible requests that are not admitted, preempted ones included."""
    return int(s.number[VISIBLE] - s.number[ADMITTED] + s.number[RETURNED])


def record_time(s: State, lasts_s: float, held: float) -> None:
    """Add a time interval to the measured totals."""
    if s.number[FINISHED] >= s.number[WANTED]:
        return
    s.clock[RUNNING_S] += lasts_s * (s.number[DECODING] + s.number[PREFILLING])
    s.clock[WAITING_S] += lasts_s * (s.number[VISIBLE] - s.number[ADMITTED] + s.number[RETURNED])
    s.clock[CACHE_S] += lasts_s * held
    s.clock[BUSY_S] += lasts_s


def record_gaps(s: State, gap_s: float, tokens: int) -> None:
    """Count tokens by the time since the previous token."""
    left = int(gap_s * 1e6)
    doubling = max(left.bit_length() - GAP_BINS_PER_DOUBLING.bit_length(), 0)
    left = left >> doubling
    if left >= GAP_BINS_PER_DOUBLING:
        doubling, left = doubling + 1, left - GAP_BINS_PER_DOUBLING
    s.gaps[min(doubling * GAP_BINS_PER_DOUBLING + left, len(s.gaps) - 1)] += tokens


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


def finish_request(r: Replica, q: Requests, s: State, i: int, warm: int) -> None:
    """Record that a request is answered; in a closed loop its client sends the next one."""
    s.finish_s[i] = s.clock[NOW]
    s.number[FINISHED] += 1
    s.number[COUNTED] += warm <= i < s.number[WANTED]
    if s.number[FINISHED] == warm:
        s.clock[MEASURED_FROM] = s.clock[NOW]
        s.clock[RUNNING_S], s.clock[WAITING_S], s.clock[CACHE_S], s.clock[BUSY_S] = 0.0, 0.0, 0.0, 0.0
        for k in range(len(s.gaps)):
            s.gaps[k] = 0
    if s.number[FINISHED] <= s.number[WANTED]:
        s.clock[MEASURED_TO] = s.clock[NOW]
    if len(q.arrival_s) == 0:
        issue_request(r, q, s, s.clock[NOW])


def finish_due(r: Replica, q: Requests, s: State, warm: int) -> None:
    """Finish every request that has its last token."""
    while s.number[DECODING] > 0 and s.heap_key[0] <= s.number[DECODED]:
        finish_request(r, q, s, stop_decoding(s, 0), warm)


def last_chunk_excess_s(r: Replica, tokens: int) -> float:
    """Time by which the last chunk of a prompt takes longer than its first, s: the last attends to the whole prompt."""
    first = min(r.max_batched_tokens, tokens)
    last_s = prompt_attention_total_s(r, tokens) - prompt_attention_total_s(r, tokens - first)
    return float(max(last_s - prompt_attention_total_s(r, first), 0.0))


def launch_s(r: Replica, tokens: int) -> float:
    """Least time of a step with prompts that has this number of tokens, s."""
    return r.graph_dispatch_s if tokens <= r.graph_tokens else r.dispatch_s


def run_prompt_step(r: Replica, q: Requests, s: State, tokens: int, warm: int) -> None:
    """Run one step that computes `tokens` prompt tokens, together with decodes where the scheduler mixes them."""
    equivalent, links_s, attention_s, left, whole = 0.0, r.prompt_token_s * tokens / r.ranks, 0.0, tokens, 0
    most_tokens, most_equivalent, most_attention_s, longer_s = 0.0, 0.0, 0.0, 0.0
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
            if r.stages_overlap and r.chunked:
                longer_s = max(longer_s, last_chunk_excess_s(r, s.target[i]))
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
    equivalent += r.padding_equivalent * min(tokens * r.expert_share, 1.0)
    busy = s.number[DECODING] if r.policy == MIXED else 0
    extra_s = linear_s(r, busy + equivalent) - linear_s(r, float(busy)) + links_s + attention_s
    # Decodes wait until the last chunk has left all stages, unless other prompts fill them.
    filled = r.stages_overlap and (busy == 0 or s.number[PREFILLING] > whole)
    share = 1.0 / r.stages if filled else 1.0 / min(r.stages, max(whole + waiting_requests(s), 1))
    # With more prompts, the first stage waits while the others compute the last chunk.
    idle_s = longer_s * (1 - share) if s.number[PREFILLING] - whole + waiting_requests(s) > 0 else 0.0
    held = held_bytes(r, s)
    dispatch_s = launch_s(r, busy + tokens)
    if busy > 0:
        dispatch_s *= share if r.stages_overlap else 1.0  # a stage launches its own layers
        lasts_s = max(decode_step_s(r, s, 0) + extra_s * share, dispatch_s, busy * r.stream_token_s) + idle_s
        record_time(s, lasts_s, held)
        advance_decodes(s, 1, lasts_s, lasts_s, lasts_s)
    else:
        extra_s = max(linear_s(r, equivalent) + links_s + attention_s + r.prompt_step_s, dispatch_s)
        lasts_s = extra_s * share + idle_s
        record_time(s, lasts_s, held)
        s.clock[LAST_STEP] = s.clock[NOW]
        s.clock[NOW] += lasts_s
        s.number[SINCE_LOOK] += 1
        if s.number[DECODING] == 0:
            s.clock[LAST_TOKEN] = s.clock[NOW]
    finish_due(r, q, s, warm)
    begin_decoding(r, q, s, max(extra_s * (1 - share) - idle_s, 0.0), warm)


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


def steps_until(step_s: float, growth_s: float, time_s: float) -> int:
    """Steps that take `time_s` in total; the first takes `step_s`, each later one `growth_s` more than the one
    before.
    """
    if growth_s < 1e-9 * step_s:
        return math.ceil(time_s / step_s)
    half = step_s - growth_s / 2
    return math.ceil((math.sqrt(half * half + 2 * growth_s * time_s) - half) / growth_s)


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
    every = r.receive_interval_steps
    late = (s.number[SINCE_LOOK] + until) % every if every > 1 else 0
    return int(min(steps, until + (every - late if late else 0)))


def growth_bytes(r: Replica, s: State) -> float:
    """KV cache that one step of all decoding sequences adds, bytes."""
    return float(r.cache_token_bytes * s.number[DECODING] + window_totals(r, s, 0)[2])


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


def dispatch_requests(a: Routed, d: Dispatch) -> None:
    """Send every request to the replica with the least work left; of idle replicas, to the one that is idle longest."""
    last = len(d.free_s) - 1
    for i in range(len(a.arrival_s)):
        least = d.order[0]
        prompt_s = a.prompt_token_s * (a.input_tokens[i] - a.prefix_tokens[i])
        free_s = max(d.free_s[0], a.arrival_s[i]) + (prompt_s + a.answer_s)
        d.replica[i] = least
        d.carried_s[least] += prompt_s + a.output_token_s * a.output_tokens[i]
        place = 0
        while place < last and (
            d.free_s[place + 1] < free_s or (d.free_s[place + 1] == free_s and d.order[place + 1] < least)
        ):
            d.free_s[place], d.order[place] = d.free_s[place + 1], d.order[place + 1]
            place += 1
        d.free_s[place], d.order[place] = free_s, least


def choose_replicas(sent: Routed, replicas: int) -> Dispatch:
    """The replica that gets each request behind a router, and the work that each of `replicas` got.

    With one server per replica, waits are those of one queue in front of all servers (Kiefer and Wolfowitz 1955).
    """
    idle, order = np.zeros(replicas), np.arange(replicas)
    found = Dispatch(idle, order, np.zeros(replicas), np.zeros(len(sent.arrival_s), np.int64))
    run_loop(dispatch_requests, sent, found)
    return found


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
FIELD_TYPES = MappingProxyType({record: tuple(field_types(record).values()) for record in (Replica, Requests)})


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
    run_loop(run_events, r, q, s, warm=warm)
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
