"""Admission of requests: they arrive, become visible to the scheduler, and get room in the cache and in a step."""

from __future__ import annotations

from app.sizing.serving.simulation.record import MIXED, SWAPPED, Replica, Requests
from app.sizing.serving.simulation.state import (
    ADMITTED,
    ALLOCATED,
    DECODING,
    HITS,
    INGESTED,
    ISSUED,
    LAST_STEP,
    NOW,
    PREFILLING,
    RESERVED,
    RETURNED,
    SINCE_LOOK,
    VISIBLE,
    WAITED,
    State,
    jit_compiled,
)
from app.sizing.serving.simulation.steps import held_bytes, reserved_output_bytes, sequence_cache_bytes


@jit_compiled
def issue_request(r: Replica, q: Requests, s: State, at_s: float) -> None:
    """Send the next request: it is tokenized after those before it, then ingested."""
    i = s.number[ISSUED]
    if i >= len(q.input_tokens):
        return
    s.arrival_s[i] = at_s
    s.clock[INGESTED] = max(s.clock[INGESTED], at_s) + r.tokenise_token_s * q.input_tokens[i]
    s.ready_s[i] = s.clock[INGESTED] + r.ingest_s
    s.number[ISSUED] = i + 1


@jit_compiled
def poll_requests(r: Replica, s: State) -> None:
    """Make requests visible to the scheduler that were ready when it planned the step."""
    idle = s.number[DECODING] == 0 and s.number[PREFILLING] == 0
    if s.number[DECODING] > 0 and s.number[SINCE_LOOK] % r.receive_interval_steps != 0:
        return
    by = s.clock[NOW] if idle or r.planning_lag_steps == 0 else s.clock[LAST_STEP]
    while s.number[VISIBLE] < s.number[ISSUED] and s.ready_s[s.number[VISIBLE]] <= by:
        s.number[VISIBLE] += 1


@jit_compiled
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
    in_cache = since * r.cache_token_bytes <= r.cache_bytes - held
    return int(prefix) if in_cache else int(min(prefix, q.shared_tokens))


@jit_compiled
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
        s.clock[ALLOCATED] += prompt - s.done[i] + left
    s.room[i] = taken
    s.clock[RESERVED] += taken
    s.prefilling[s.number[PREFILLING]] = i
    s.number[PREFILLING] += 1
    return float(taken)


@jit_compiled
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


@jit_compiled
def chunk_tokens(r: Replica, tokens: int) -> int:
    """Tokens of one prompt that a step computes; with several ranks, one of them computes it."""
    return int(min(tokens, max(r.max_batched_tokens // r.ranks, 1))) if r.ranks > 1 and r.chunked else int(tokens)


@jit_compiled
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


@jit_compiled
def next_prompt_tokens(q: Requests, s: State) -> int:
    """Prompt tokens of the next request to admit; 0 if there is none."""
    if s.number[RETURNED] > 0:
        i = s.returned[s.number[RETURNED] - 1]
        return int(q.input_tokens[i] + s.made[i])
    return int(q.input_tokens[s.number[ADMITTED]]) if s.number[ADMITTED] < s.number[VISIBLE] else 0


@jit_compiled
def waiting_requests(s: State) -> int:
    """Visible requests that are not admitted, preempted ones included."""
    return int(s.number[VISIBLE] - s.number[ADMITTED] + s.number[RETURNED])
