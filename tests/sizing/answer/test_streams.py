"""What an answer says of a simulation: the load it is of, its limits, its knee, what holds it up. Explanations of
token streams: memory adds up, percentiles are ordered, and the full resource is named.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.sizing.answer.streams import (
    TokenAnswerWriter,
    arrival_process,
    build_load_curve,
    build_simulation,
    class_limit_reasons,
    knee_reasons,
    latency_percentiles,
    load_text,
    weights_reason,
    with_simulation,
)
from app.sizing.assumptions import Assumptions
from app.sizing.columns import GIB
from app.sizing.estimate import estimate_deployment
from app.sizing.question import Deployment, Question
from app.sizing.result import Estimate
from app.sizing.serving.finalists import SimulatedReplicas
from app.sizing.serving.margins import Margins
from app.sizing.workload import Lengths, Load, Slo
from tests.examples import CHAT, col, present, row
from tests.sizing.answer.given import SPEED
from tests.sizing.serving.given import varied
from tests.sizing.serving.test_load_curves import curve
from tests.sizing.small import SMALL

OPEN = varied(peak_per_s=6.0, output_tokens=Lengths(101.0), slo=Slo(0.4, 0.05, None, 95.0))
CLOSED = varied(load=Load.CLOSED, in_flight=6.0, output_tokens=Lengths(101.0))


def texts(load: float, workload: Any = OPEN, **changes: Any) -> list[str]:
    return [reason.text for reason in class_limit_reasons(workload, curve(**changes), load)]


def test_a_limit_shows_its_percentile_the_load_and_the_load_that_exceeds_it() -> None:
    assert texts(2.0) == [
        "p95 TTFT is 200 ms (limit 400 ms) at 2 requests/s per replica. It exceeds the limit above 2.83 requests/s per "
        "replica.",
        "p95 TPOT is 20 ms (limit 50 ms) at 2 requests/s per replica.",
    ]
    assert texts(5.0) == []  # the queue never empties


def test_a_limit_that_is_never_met_is_passed_nowhere() -> None:
    (first, _) = texts(2.0, replace(OPEN, slo=Slo(0.05, 0.05, None, 95.0)))
    assert first == "p95 TTFT is 200 ms (limit 50 ms) at 2 requests/s per replica."


def test_the_load_is_shown_in_the_unit_of_its_arrivals() -> None:
    assert load_text(OPEN, 1.0) == "1 request/s per replica"
    assert load_text(CLOSED, 3.0) == "3 requests in flight per replica"


def test_arrival_processes_are_distinguished() -> None:
    assert arrival_process(OPEN) == "poisson"
    assert arrival_process(replace(OPEN, burstiness=2.0)) == "bursty"
    assert arrival_process(CLOSED) == "closed"
    assert arrival_process(replace(CLOSED, requests=100.0)) == "burst"


def test_a_simulation_is_read_at_the_load_of_a_replica() -> None:
    found = build_simulation(OPEN, curve(), 2.0, 3.0)
    assert (found.requests, found.policy, found.arrivals) == (10_000, "mixed", "poisson")
    assert found.mean_batch == pytest.approx(4.0)
    assert found.goodput_share == pytest.approx(0.9)
    assert found.goodput_per_s == pytest.approx(0.9 * 2 * 3)
    assert found.queue.p95_s == pytest.approx(0.02)


def test_a_curve_is_of_the_whole_deployment_and_goes_on_to_collapse() -> None:
    loads = np.array([1.0, 2.0, 3.0, 3.5, 3.8, 4.0])
    long: dict[str, Any] = dict.fromkeys(("answered_per_s", "running", "cache_share", "preempted"), loads / 4)
    waits = np.repeat(curve().waits_s, 2, axis=0)
    found = build_load_curve(OPEN, replace(curve(), loads=loads, waits_s=waits, goodput_share=loads[::-1], **long), 3.0)
    assert len(found.points) == 9
    assert [p.requests_per_s for p in found.points] == sorted(p.requests_per_s for p in found.points)
    assert found.points[-1].requests_per_s == pytest.approx(12.0)
    assert found.points[-1].ttft_p95_s == pytest.approx(0.8)  # as long as it was simulated
    closed = build_load_curve(CLOSED, curve(closed=True, stable_below=np.inf), 2.0)
    assert [p.in_flight for p in closed.points] == [2, 4, 8]
    assert closed.points[1].output_tokens_per_s == pytest.approx(2 * 2 * 101)


def test_a_knee_is_shown_if_enough_loads_were_simulated() -> None:
    assert list(knee_reasons(OPEN, curve(), 1.0)) == []
    loads, table = np.array([1.0, 2.0, 4.0, 8.0]), np.concatenate([curve().waits_s, 4 * curve().waits_s[-1:]])
    (reason,) = knee_reasons(OPEN, replace(curve(), loads=loads, waits_s=table, answered_per_s=loads), 1.0)
    assert reason.text.startswith("Waiting times start to climb above 2 requests/s per replica (planned: 1).")


def test_a_run_that_ends_says_how_long_it_takes() -> None:
    judged: Any = type("Row", (), {"fleet": type("Fleet", (), {"replicas": col(3)})})
    runs = SimulatedReplicas(
        (curve(closed=True, stable_below=np.inf),), col(100), Margins.without_margin(1), np.ones(1, np.int64)
    )
    found = with_simulation(replace(CLOSED, requests=60.0), SPEED, judged, runs, 0)
    assert found.days == pytest.approx(60 / (3 * 2.0) / 86_400)
    steady = with_simulation(CLOSED, SPEED, judged, runs, 0)
    assert (steady.days, steady.load_curve is None, found.load_curve) == (None, False, None)


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
ALONE: Any = row(data_parallel=col(1), small_engine=[False])
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


def test_a_server_reports_the_tokens_of_its_longest_sequences() -> None:
    # 32,768 bytes per token, and 100 MB in windows, which a short sequence fills as a long one does
    request, longest = (tokens * 32_768.0 + 100e6 for tokens in (1280, 8192))
    table = memory_table(cache_bytes_per_sequence=request, longest_sequence_bytes=longest)
    server: Any = row(memory=table, **IDLE)
    assert WORDS.device_memory(CHAT, server, 0).kv_cache_tokens == math.floor(40e9 / (longest / 8192))
    # an engine that is started with 200 sequences has as many windows
    small: Any = row(memory=table, **(IDLE | {"plans": row(data_parallel=col(1), small_engine=[True])}))
    assert WORDS.device_memory(CHAT, small, 0).kv_cache_tokens == math.floor((40e9 - 200 * 100e6) / 32_768)


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
    once = present(found().performance)
    assert once.output_tokens_per_s == pytest.approx((once.requests_per_s_capacity or 0) * 256)
    assert once.total_tokens_per_s == pytest.approx((once.requests_per_s_capacity or 0) * (1024 + 256))
    assert [(i.quantity, i.statistic) for i in once.intervals] == [
        (name, statistic) for statistic in ("p50", "mean") for name in ("tpot_s", "ttft_s", "e2e_s")
    ]
    assert once.interval.low < (once.output_tokens_per_s or 0) < once.interval.high
    assert (once.unstable_above_requests_per_s or 0) >= 5.0


def test_a_whole_request_lies_between_what_its_parts_add_up_to() -> None:
    once = present(found().performance)
    token, first, whole = once.intervals[:3]
    assert once.e2e is not None and once.ttft is not None and once.tpot is not None
    e2e, ttft, tpot = (waits.p50_s or 0 for waits in (once.e2e, once.ttft, once.tpot))
    later = (e2e - ttft) / tpot  # tokens of the median request
    assert whole.low == pytest.approx(first.low + later * token.low)
    assert whole.high == pytest.approx(first.high + later * token.high)
    static = present(found(load=Load.BATCH, in_flight=4.0, peak_per_s=0.0, average_per_s=0.0).performance)
    assert static.e2e is not None and static.e2e.p50_s is not None
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
    offline = present(found(load=Load.OFFLINE).performance)
    closed = found(load=Load.CLOSED, in_flight=4.0, peak_per_s=0.0, average_per_s=0.0).performance
    assert closed is not None
    assert (offline.ttft, offline.e2e, offline.unstable_above_requests_per_s) == (None, None, None)
    assert offline.tpot is not None
    assert closed.ttft is not None
    assert closed.unstable_above_requests_per_s is None
