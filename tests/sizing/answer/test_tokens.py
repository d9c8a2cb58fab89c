"""Explanations of token streams: memory adds up, percentiles are ordered, and the full resource is named."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from app.sizing.answer.tokens import TokenAnswerWriter, latency_percentiles, weights_reason
from app.sizing.assumptions import Assumptions
from app.sizing.estimate import estimate_deployment
from app.sizing.question import Deployment, Question
from app.sizing.result import Estimate
from app.sizing.units import GIB
from app.sizing.workload import Load
from tests.examples import CHAT, col, row
from tests.sizing.small import SMALL

WORDS = TokenAnswerWriter()
BIG = Deployment("acme-big", tensor_parallel=1, pipeline_parallel=1, weight_format="bf16", system="big-8")


def found(**changes: Any) -> Estimate:
    return estimate_deployment(Question(replace(CHAT, **changes)), BIG, SMALL)


def memory_table(**changed: float) -> Any:
    known = {
        "weights_bytes": 16e9,
        "kv_pool_bytes": 40e9,
        "cache_bytes_per_sequence": 1280 * 131_072.0,
        "longest_sequence_bytes": 8192 * 131_072.0,
        "activation_bytes": 2e9,
        "overhead_bytes": 3e9,
        "capacity_bytes": 85e9,
        "usable_bytes": 76e9,
        "sequences": 200.0,
        "max_sequences": 1024.0,
    }
    return row(host=None, **{name: col(value) for name, value in (known | changed).items()})


# Nothing waits of idle sessions.
ALONE: Any = row(data_parallel=col(1))
IDLE: dict[str, Any] = {
    "plans": ALONE,
    "speed": row(prefix_reservation=None),
    "operation": row(idle_sessions=None, prefix_bytes=None),
}


def kept(*, counted: bool = True) -> dict[str, Any]:
    """30 idle sessions of a GiB each, together with four running ones."""
    operation = row(idle_sessions=col(30), prefix_bytes=col(30 * GIB), batch=col(4))
    return {"plans": ALONE, "speed": row(prefix_reservation=row(hits_counted=[counted])), "operation": operation}


def test_idle_sessions_take_their_part_of_the_cache() -> None:
    table = {"kv_pool_bytes": 50 * GIB, "held_bytes_per_sequence": 1.5 * GIB, "usable_bytes": 72 * GIB}
    judged: Any = row(memory=memory_table(**table), **kept())
    memory = WORDS.device_memory(CHAT, judged, 0)
    assert (memory.prefix_cache_bytes, memory.idle_sessions) == (30 * GIB, 30)
    assert memory.max_concurrent_sequences == 20  # of the 50 that fit alone
    text = WORDS.memory_reason(CHAT, judged, 0, "", "Llama").text
    assert text.endswith(
        " At this load, 6 GiB of it goes to 4 running sequences and 30 GiB to the prefixes of 30 idle sessions."
    )
    uncounted: Any = row(memory=memory_table(**table), **kept(counted=False))
    memory = WORDS.device_memory(CHAT, uncounted, 0)
    assert (memory.prefix_cache_bytes, memory.idle_sessions, memory.max_concurrent_sequences) == (None, None, 50)


def test_memory_binds_where_prefixes_do() -> None:
    judged: Any = row(speed=row(prefix_reservation=row(limits_capacity=[True])), memory=None)
    assert WORDS.is_full(judged, 0, Assumptions())


def test_memory_is_read_out_with_what_its_cache_holds() -> None:
    judged: Any = row(memory=memory_table(), **IDLE)
    memory = WORDS.device_memory(CHAT, judged, 0)
    assert memory.total_bytes == pytest.approx(16e9 + 40e9 + 2e9 + 3e9)
    # 131 072 bytes a token; sequences of 1024 in and 256 out, the longest of 8192
    assert memory.kv_cache_tokens == math.floor(40e9 / 131_072)
    assert memory.max_concurrent_sequences == math.floor(40e9 / (8192 * 131_072))
    nothing: Any = row(memory=memory_table(cache_bytes_per_sequence=0.0, longest_sequence_bytes=0.0), **IDLE)
    without = WORDS.device_memory(CHAT, nothing, 0)
    assert (without.kv_cache_tokens, without.max_concurrent_sequences) == (None, None)


def test_where_memory_goes_in_words() -> None:
    judged: Any = row(
        memory=memory_table(weights_bytes=15 * GIB, usable_bytes=72 * GIB, kv_pool_bytes=50 * GIB), **IDLE
    )
    reason = WORDS.memory_reason(CHAT, judged, 0, "on one accelerator", "Llama in BF16")
    # 50 GiB of sequences of 8192 tokens of 128 KiB, a GiB each
    assert reason.text == (
        "Llama in BF16 takes 15.0 GiB of 72.0 GiB usable memory on one accelerator. That leaves 50.0 GiB for the KV "
        "cache: room for 50 sequences of 8,192 tokens."
    )
    assert reason.value == pytest.approx(50.0)
    plain: Any = row(memory=memory_table(longest_sequence_bytes=0.0), **IDLE)
    assert WORDS.memory_reason(CHAT, plain, 0, "", "BERT").quantity == "weights_gib"
    assert weights_reason("BERT", 0.41, 72.0).text == "BERT takes 0.41 GiB of 72.0 GiB usable memory."


@pytest.mark.parametrize(
    ("slo_batch", "sequences", "batch", "full"),
    [
        (300.0, 200.0, 199.0, True),
        (300.0, 200.0, 20.0, False),  # it could be, but few are under way
        (100.0, 200.0, 199.0, False),  # the limits bind first
        (2000.0, 1024.0, 1024.0, False),  # the engine's own bound
    ],
)
def test_memory_binds_where_it_is_full_before_the_limits_are(
    slo_batch: float, sequences: float, batch: float, full: bool
) -> None:
    judged: Any = row(
        memory=memory_table(sequences=sequences),
        speed=row(rank_batch=col(slo_batch), prefix_reservation=None),
        plans=ALONE,
        operation=row(batch=col(batch)),
    )
    assert WORDS.is_full(judged, 0, Assumptions()) == full


def test_percentiles_are_a_rows_own_and_none_where_the_queue_never_empties() -> None:
    mean = col(0.12, 0.22)
    operation: Any = row(
        ttft_mean_s=mean, ttft_p50_s=col(0.1, 0.2), ttft_p95_s=col(0.3, 0.5), ttft_p99_s=col(0.4, float("inf"))
    )
    found = latency_percentiles(operation, "ttft", 1)
    assert (found.mean_s, found.p50_s, found.p95_s, found.p99_s) == (0.22, 0.2, 0.5, None)


def test_performance_is_of_the_whole_deployment() -> None:
    once = found().performance
    assert once is not None
    assert once.output_tokens_per_s == pytest.approx((once.requests_per_s_capacity or 0) * 256)
    assert once.total_tokens_per_s == pytest.approx((once.requests_per_s_capacity or 0) * (1024 + 256))
    assert [(i.quantity, i.statistic) for i in once.intervals] == [
        (name, statistic) for statistic in ("p50", "mean") for name in ("tpot_s", "ttft_s", "e2e_s")
    ]
    assert once.interval.low < (once.output_tokens_per_s or 0) < once.interval.high
    assert (once.unstable_above_requests_per_s or 0) >= 5.0


def test_a_whole_request_lies_between_what_its_parts_add_up_to() -> None:
    once = found().performance
    assert once is not None
    token, first, whole = once.intervals[:3]
    assert once.e2e is not None and once.ttft is not None and once.tpot is not None
    e2e, ttft, tpot = (waits.p50_s or 0 for waits in (once.e2e, once.ttft, once.tpot))
    later = (e2e - ttft) / tpot  # tokens of the median request
    assert whole.low == pytest.approx(first.low + later * token.low)
    assert whole.high == pytest.approx(first.high + later * token.high)
    static = found(load=Load.BATCH, in_flight=4.0, peak_per_s=0.0, average_per_s=0.0).performance
    assert static is not None and static.e2e is not None and static.e2e.p50_s is not None
    whole = static.intervals[2]  # requests of static batches were measured as a whole
    assert whole.high == pytest.approx(static.e2e.p50_s * math.exp(0.7))


def test_cost_lies_between_where_it_is_spread_over_what_the_hardware_does() -> None:
    """A fixed rate of requests costs what its machines cost, however fast they are."""
    opened, offline = found(), found(load=Load.OFFLINE)
    assert opened.performance is not None and offline.performance is not None and offline.cost is not None
    assert "usd_per_million_tokens" not in [i.quantity for i in opened.performance.intervals]
    (cost,) = [i for i in offline.performance.intervals if i.quantity == "usd_per_million_tokens"]
    rate, per_million = offline.performance.interval, offline.cost.usd_per_million or 0
    output = offline.performance.output_tokens_per_s or 0
    assert (cost.low * rate.high, cost.high * rate.low) == pytest.approx([per_million * output] * 2)
    assert {i.quantity for i in offline.performance.intervals} == {"tpot_s", "usd_per_million_tokens"}


def test_offline_work_has_no_latencies_and_closed_loops_no_rate_to_be_unstable_at() -> None:
    offline = found(load=Load.OFFLINE).performance
    closed = found(load=Load.CLOSED, in_flight=4.0, peak_per_s=0.0, average_per_s=0.0).performance
    assert offline is not None and closed is not None
    assert (offline.ttft, offline.e2e, offline.unstable_above_requests_per_s) == (None, None, None)
    assert offline.tpot is not None
    assert closed.ttft is not None
    assert closed.unstable_above_requests_per_s is None
