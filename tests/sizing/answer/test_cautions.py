"""Each caution is given exactly where it should be, with its numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.sizing.answer.cautions import SLOW_CASE, describe_level, find_cautions, lowest_probability
from app.sizing.question import Question
from app.sizing.result import Assurance, DeviceMemory, Interval, Level, Performance, PrefixCache
from app.sizing.units import GIB
from app.sizing.values.classes import SharedFleet
from app.sizing.values.latencies import Percentiles
from app.sizing.words import format_duration
from app.sizing.workload import Lengths, Load, Slo
from tests.examples import CHAT, PRETRAIN
from tests.sizing.answer.given import RUN, ranked
from tests.sizing.small import CARD

# 100 output tokens/s, at worst 80; 5 requests/s at 70 % of what it carries
SERVED = Performance(
    Interval("output_tokens_per_s", 80.0, 120.0),
    "measured",
    intervals=(Interval("ttft_s", 0.1, 0.4, "p50"), Interval("tpot_s", 0.01, 0.02, "p50")),
    sources=4,
    output_tokens_per_s=100.0,
    requests_per_s_capacity=7.0,
    utilization_at_peak=0.7,
    batch_at_peak=10.0,
    ttft=Percentiles(0.2, 0.2, 0.45, 0.6),
    tpot=Percentiles(0.015, 0.015, 0.02, 0.03),
)
# five days of fourteen, at worst seven
TRAINED = replace(
    RUN, basis="calibrated", sources=4, interval=Interval("tokens_per_s", 80.0, 120.0), tokens_per_s=100.0
)
MEMORY = DeviceMemory(
    weights_bytes=40.0 * GIB,
    kv_cache_bytes=30.0 * GIB,
    activation_bytes=4.0 * GIB,
    overhead_bytes=2.0 * GIB,
    gradient_bytes=0.0,
    optimizer_bytes=0.0,
    capacity_bytes=80.0 * GIB,
    usable_bytes=76.0 * GIB,
    kv_cache_tokens=20_000.0,
)


def texts_of(
    workload: Any = CHAT, assurance: Assurance | None = None, memory: Any = None, **performance: Any
) -> list[str]:
    base = TRAINED if workload is PRETRAIN else SERVED
    found = ranked(performance=replace(base, **performance))
    found = replace(found, estimate=replace(found.estimate, assurance=assurance, memory=memory))
    return [f"{n.code}: {n.text}" for n in find_cautions(Question(workload), (found,))]


def codes(*args: Any, **given: Any) -> list[str]:
    return [text.split(":")[0] for text in texts_of(*args, **given)]


def sure(*levels: Level, asked: float = 0.8, meets: float = 0.84) -> Assurance:
    return Assurance(asked, 0.99, meets, None, levels)


def test_a_comfortable_answer_has_none() -> None:
    assert codes() == []
    assert codes(PRETRAIN) == []
    assert codes(memory=MEMORY) == []


def test_options_without_performance_have_no_cautions() -> None:
    assert find_cautions(Question(CHAT), ()) == []
    assert find_cautions(Question(CHAT), (ranked(performance=None),)) == []


@pytest.mark.parametrize(
    ("levels", "asked", "expected"),
    [
        (((0.8, 8, 8.0), (0.9, 10, 10.0)), 0.8, []),
        (((0.8, 8, 8.0), (0.9, 12, 12.0)), 0.8, ["thin_margin"]),  # one and a half times as much
        (((0.8, 8, None), (0.9, 16, None)), 0.8, ["thin_margin"]),
        (((0.8, 8, 8.0), (0.9, None, None)), 0.8, ["thin_margin"]),
        (((0.8, None, None), (0.9, None, None)), 0.8, []),
        (((0.8, 8, 8.0), (0.95, 8, 8.0)), 0.95, []),  # nothing beyond is shown
        (((0.8, 8, 8.0), (0.9, 40, 40.0)), 0.85, []),  # the level asked for is not there
    ],
)
def test_a_cliff_behind_the_confidence_asked_for(levels: Any, asked: float, expected: list[str]) -> None:
    shown = tuple(Level(c, n, usd_per_hour=usd) for c, n, usd in levels)
    assert codes(assurance=sure(*shown, asked=asked, meets=asked + 0.04)) == expected


def test_a_cliff_in_numbers() -> None:
    hourly = sure(Level(0.8, 8, usd_per_hour=16.0), Level(0.9, 16, usd_per_hour=32.0))
    (text,) = texts_of(assurance=hourly)
    assert text == (
        "thin_margin: Sized for 80 % confidence with 8 accelerators (16.00 USD/h); 90 % confidence needs "
        "16 accelerators (32.00 USD/h). Run the benchmark before buying, or set confidence to 0.9."
    )
    (text,) = texts_of(assurance=sure(Level(0.8, 8), Level(0.9, None)))
    assert "no number of these accelerators reaches 90 % (load and limits: 84 % likely)" in text
    assert describe_level(Level(0.9, 1)) == "1 accelerator"
    assert describe_level(Level(0.9, 1024, usd_total=5000.0)) == "1,024 accelerators (5,000 USD)"


def test_what_misses_the_confidence_asked_for_has_no_margin_to_be_thin() -> None:
    cliff = (Level(0.8, 8), Level(0.9, None))
    assert codes(assurance=sure(*cliff, meets=0.7)) == []
    assert codes(assurance=sure(*cliff, meets=0.86)) == []  # surer by more than a little
    assert lowest_probability(Assurance(0.8, 0.9, None, 0.6, ())) == 0.6
    assert lowest_probability(Assurance(0.8, 0.9, None, None, ())) == 0.9


def test_the_low_end_misses_the_load() -> None:
    # carries 5 / 0.9 = 5.56 requests/s as predicted, at worst 80 % of that
    (text,) = texts_of(utilization_at_peak=0.9)
    assert text.startswith(f"low_end_misses_load: {SLOW_CASE} the deployment serves 4.44 of the 5 requests/s at peak.")
    assert codes(utilization_at_peak=0.79) == []
    assert codes(utilization_at_peak=1.1) == []  # overloaded as predicted
    assert codes(replace(CHAT, load=Load.OFFLINE), utilization_at_peak=0.9) == []
    assert codes(utilization_at_peak=None) == []
    assert codes(interval=Interval("output_tokens_per_s", 0.0, 120.0)) == ["low_end_misses_load"]


def test_the_slow_end_misses_a_limit() -> None:
    # p95 0.45 s, and at worst twice that: within a second
    assert codes(replace(CHAT, slo=Slo(0.9, None, None, 95))) == []
    (text,) = texts_of(replace(CHAT, slo=Slo(0.8, None, None, 95)))
    assert "p95 TTFT is 900 ms; the limit is 800 ms." in text
    (text,) = texts_of(replace(CHAT, slo=Slo(None, 0.02, None, 99.0)), tpot=Percentiles(0.015, 0.015, 0.018, 0.019))
    assert "p99 TPOT is 25 ms; the limit is 20 ms." in text
    assert codes(replace(CHAT, slo=Slo(0.3, None, None, 50))) == ["low_end_misses_limit"]  # 0.2, at worst 0.4
    assert codes(replace(CHAT, slo=Slo(0.4, None, None, 95))) == []  # missed as predicted
    assert codes(replace(CHAT, slo=Slo(None, None, 1.0, 95))) == []  # no interval of that


def test_the_low_end_misses_the_deadline() -> None:
    late = replace(PRETRAIN, deadline_s=6 * 86400.0)
    assert cautions_of_run(late) == ["low_end_misses_deadline"]  # 5 days, at worst 6.25
    assert cautions_of_run(replace(PRETRAIN, deadline_s=6.5 * 86400.0)) == []
    assert cautions_of_run(replace(PRETRAIN, deadline_s=4 * 86400.0)) == []  # late as predicted


def test_a_deadline_that_is_nearly_used() -> None:
    both = ["low_end_misses_deadline", "deadline_nearly_used"]
    assert cautions_of_run(replace(PRETRAIN, deadline_s=5.5 * 86400.0)) == both  # 91 %
    assert cautions_of_run(replace(PRETRAIN, deadline_s=5.6 * 86400.0)) == both[:1]  # 89 %


def test_spans_are_shown_in_days_or_hours() -> None:
    (notice, *_) = find_cautions(Question(replace(PRETRAIN, deadline_s=6 * 86400.0)), (ranked(performance=TRAINED),))
    assert "takes 6.25 days, 104 % of the 6 days allowed" in notice.text
    assert format_duration(0.25) == "6 hours"


def cautions_of_run(workload: Any) -> list[str]:
    return [n.code for n in find_cautions(Question(workload), (ranked(performance=TRAINED),))]


def test_a_service_fills_memory_with_what_its_peak_holds() -> None:
    # 10 sequences of 1,280 tokens of the 20,000 that 30 GiB hold: 46 + 19.2 of 76 GiB
    assert codes(memory=MEMORY) == []
    (text,) = texts_of(memory=MEMORY, batch_at_peak=15.0)  # 46 + 28.8 = 74.8 of 76
    assert text.startswith("memory_nearly_full: Memory is 98 % full (74.8 of 76.0 GiB usable).")
    assert codes(replace(CHAT, load=Load.OFFLINE), memory=MEMORY, batch_at_peak=15.0) == []
    assert codes(replace(CHAT, output_tokens=Lengths(0.0)), memory=replace(MEMORY, kv_cache_tokens=None)) == []


def test_hits_that_are_counted_must_survive() -> None:
    kept = PrefixCache(True, 200.0, 56 * GIB, 60.0, 9.02, 1.81)
    cached = Question(replace(CHAT, cached_prefix_fraction=0.9, turn_gap_s=60.0))

    def prefix_texts(prefixes: PrefixCache | None) -> list[str]:
        first = ranked(performance=SERVED)
        first = replace(first, estimate=replace(first.estimate, prefixes=prefixes))
        return [f"{n.code}: {n.text}" for n in find_cautions(cached, (first,))]

    assert prefix_texts(None) == []
    assert prefix_texts(kept) == [
        "prefix_cache_must_survive: 90 % of each prompt is counted as cached. Every replica must keep 200 idle "
        "sessions "
        "(56 GiB) for the 60 s between turns. Route all requests of a session to the same replica. "
        "Without cache hits, the same load needs at least 9.02 times the replicas; with 120 s between turns, it needs "
        "at least 1.81 times the replicas."
    ]
    (text,) = prefix_texts(replace(kept, times_without_hits=None, times_at_twice_the_gap=1.001))
    assert text.endswith(
        "Without cache hits, the same load misses the limits; with 120 s between turns, it may need no more replicas."
    )
    (text,) = prefix_texts(replace(kept, counted=False))
    assert text == (
        "prefix_hits_not_counted: Prefix cache hits are not counted, although 90 % of each prompt could be cached. "
        "With 60 s between turns, each replica would have to keep 200 idle sessions (56 GiB); it serves more without "
        "them. A shorter gap or a prefix shared by all requests changes this."
    )


def test_a_run_holds_all_of_it() -> None:
    assert codes(PRETRAIN, memory=MEMORY) == ["memory_nearly_full"]
    assert codes(PRETRAIN, memory=replace(MEMORY, usable_bytes=80.0 * GIB)) == []  # 95 %
    assert codes(PRETRAIN, memory=replace(MEMORY, usable_bytes=0.0)) == []


def test_a_data_sheet_above_results() -> None:
    first = ranked(performance=replace(SERVED, basis="roofline"))
    behind = [
        ranked(rank, CARD, performance=replace(SERVED, basis=b)) for rank, b in ((2, "roofline"), (3, "calibrated"))
    ]
    (notice,) = find_cautions(Question(CHAT), (first, *behind))
    assert notice.code == "roofline_above_calibrated"
    assert "Acme Card, ranked 3, is based on published benchmarks" in notice.text
    assert find_cautions(Question(CHAT), (first, behind[0])) == []
    assert find_cautions(Question(CHAT), (behind[1], first)) == []
    assert find_cautions(Question(CHAT), (first, ranked(2, CARD, performance=None))) == []


@pytest.mark.parametrize(
    ("sources", "begins"), [(0, ["No source has"]), (1, ["Only one source has"]), (2, []), (None, [])]
)
def test_one_source(sources: int | None, begins: list[str]) -> None:
    texts = [text.removeprefix("one_source_only: ") for text in texts_of(sources=sources)]
    assert [text[: len(b)] for text, b in zip(texts, begins, strict=True)] == begins


@pytest.mark.parametrize("cheaper", ["apart", "together", None])
def test_sharing_that_costs_more_than_going_apart(cheaper: str | None) -> None:
    fleet = SharedFleet(1, 9.0, (), (), cheaper, 1.0, "Apart they cost less.")
    found = ranked(performance=SERVED)
    found = replace(found, estimate=replace(found.estimate, shared=fleet))
    apart_texts = [n.text for n in find_cautions(Question(CHAT), (found,)) if n.code == "cheaper_apart"]
    assert apart_texts == (["Apart they cost less."] if cheaper == "apart" else [])
