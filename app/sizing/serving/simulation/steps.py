"""Times and cache bytes of a step, read from the tables of a replica."""

from __future__ import annotations

from app.sizing.serving.simulation.record import Replica
from app.sizing.serving.simulation.state import (
    ABOVE_WINDOWS,
    CONTEXTS,
    DECODED,
    DECODING,
    LEFT,
    RESERVED,
    State,
    jit_compiled,
)


@jit_compiled
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


@jit_compiled
def prompt_attention_total_s(r: Replica, tokens: float) -> float:
    """Attention time of the first `tokens` tokens of a prompt, s."""
    if tokens <= 0:
        return 0.0
    doubling, least = 0, 1.0
    while tokens >= 2 * least and 8 * (doubling + 1) < len(r.prompt_attention_s) - 1:
        least *= 2
        doubling += 1
    within = min((tokens - least) / least * 8, 8.0) if tokens > least else 0.0
    place = min(8 * doubling + int(within), len(r.prompt_attention_s) - 2)
    part = within + 8 * doubling - place
    each = r.prompt_attention_s[place] + part * (r.prompt_attention_s[place + 1] - r.prompt_attention_s[place])
    return float(tokens * each)


@jit_compiled
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


@jit_compiled
def sequence_cache_bytes(r: Replica, tokens: int) -> float:
    """KV cache of a sequence of `tokens` tokens, bytes."""
    held = r.cache_fixed_bytes + r.cache_token_bytes * tokens
    for j in range(len(r.window_tokens)):
        held += r.window_cache_bytes[j] * min(tokens, r.window_tokens[j])
    return float(held)


@jit_compiled
def held_bytes(r: Replica, s: State) -> float:
    """KV cache that all sequences hold, those in prefill included, bytes."""
    held = s.clock[RESERVED] + r.cache_fixed_bytes * s.number[DECODING] + r.cache_token_bytes * s.clock[CONTEXTS]
    return float(held + window_totals(r, s, 0)[1])


@jit_compiled
def reserved_output_bytes(r: Replica, s: State) -> float:
    """Cache reserved for the remaining output of decoding sequences, bytes."""
    return float(r.output_reserve_share * r.cache_token_bytes * s.clock[LEFT])


@jit_compiled
def decode_step_s(r: Replica, s: State, ahead: int) -> float:
    """Time of a decode-only step, `ahead` steps from now, s."""
    busy = s.number[DECODING]
    attention = r.attention_token_s * (s.clock[CONTEXTS] + ahead * busy) + window_totals(r, s, ahead)[0]
    return float(r.decode_s[busy] + attention / max(min(busy, r.stages), 1))
