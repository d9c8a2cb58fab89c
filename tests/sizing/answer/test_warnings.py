"""Each caution is given exactly where it should be, with its numbers. Warnings about prices: not firm, too old, or
for too many or too few machines. Where replicas stand and what survives, in words. The stated level of software
support, and the wider intervals of software that only rules support. Each warning is given exactly where it
should be.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.sizing.answer.replica_placement import (
    ReplicaPlacement,
    describe_covered_failures,
    describe_machines,
    placement_reasons,
    replica_placement,
)
from app.sizing.answer.summary import add_comparisons
from app.sizing.answer.warnings import (
    SLOW_CASE,
    USUAL_QUANTITY_ASSUMPTIONS,
    AnswerContext,
    describe_level,
    expected_reason,
    find_cautions,
    find_warnings,
    license_not_included,
    lowest_probability,
    machine_failure_exceeds_redundancy,
    no_redundancy,
    price_not_firm,
    quantity_warning,
    stale_price,
    with_support,
    zone_failure_exceeds_redundancy,
    zones_not_verified,
)
from app.sizing.assumptions import Assumptions
from app.sizing.columns import GIB
from app.sizing.estimate import estimate_deployment
from app.sizing.hardware.hosts import other_host
from app.sizing.hardware.parts import (
    FIRM,
    PRICE_KIND_TEXTS,
    Accelerator,
    Availability,
    PriceKind,
    PricingModel,
    Segment,
)
from app.sizing.model.architecture import OTHER_WEIGHTS_NOTE
from app.sizing.question import Deployment, Pools, Question
from app.sizing.result import (
    Assurance,
    CostSummary,
    DeviceMemory,
    Interval,
    Level,
    Notice,
    Percentiles,
    Performance,
    PrefixCache,
    SharedFleet,
    Unreachable,
)
from app.sizing.words import format_duration, percent
from app.sizing.workload import InferenceWorkload, Lengths, Load, Method, Redundancy, Slo
from tests.examples import CHAT, LLAMA_8B, PRETRAIN, present
from tests.sizing.answer.given import COST, DEPLOYMENT, PRICE, RUN, SPEED, estimated, ranked
from tests.sizing.small import BIG, CARD, SMALL

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
    request_cache_bytes=30.0 * GIB * 1280 / 20_000,
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
        "16 accelerators (32.00 USD/h). Run the benchmark before deciding, or set confidence to 0.9."
    )
    (text,) = texts_of(assurance=sure(Level(0.8, 8), Level(0.9, None)))
    assert "no number of accelerators reaches 90 % (load and limits: 84 % likely)" in text
    assert text.endswith("Set confidence to 0.9 to search for machines that reach it.")
    unreachable = Unreachable("A latency may exceed its limit.", "A looser limit would reach it.")
    (text,) = texts_of(assurance=sure(Level(0.8, 8), Level(0.9, None, unreachable=unreachable)))
    assert text.endswith("Run the benchmark before deciding. A looser limit would reach it.")
    (text,) = texts_of(assurance=sure(Level(0.8, 8, usd_total=78.0), Level(0.9, 8, usd_total=134.0)))
    assert "needs 8 accelerators (134 USD), with settings that take less memory." in text
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
    assert codes(utilization_at_peak=0.79) == codes(utilization_at_peak=0.80005) == []  # 5 of 5 is no news
    assert codes(utilization_at_peak=1.1) == []  # overloaded as predicted
    assert codes(replace(CHAT, load=Load.OFFLINE), utilization_at_peak=0.9) == []
    assert codes(utilization_at_peak=None) == []
    assert codes(interval=Interval("output_tokens_per_s", 0.0, 120.0)) == ["low_end_misses_load"]


def test_the_slow_end_misses_a_limit() -> None:
    # p95 0.45 s, and at worst twice that: within a second
    assert codes(replace(CHAT, slo=Slo(0.9, None, None, 95))) == []
    (text,) = texts_of(replace(CHAT, slo=Slo(0.8, None, None, 95)))
    assert "p95 TTFT is 900 ms, 12 % above the limit of 800 ms." in text
    (text,) = texts_of(replace(CHAT, slo=Slo(None, 0.02, None, 99.0)), tpot=Percentiles(0.015, 0.015, 0.018, 0.019))
    assert "p99 TPOT is 25 ms, 27 % above the limit of 20 ms." in text
    # 0.9 s in the slow case: shown as equal to the limit, so the text says by how much it exceeds it
    (text,) = texts_of(replace(CHAT, slo=Slo(0.8999, None, None, 95)))
    assert "p95 TTFT is 900 ms, slightly above the limit of 900 ms." in text
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
    assert codes(replace(CHAT, output_tokens=Lengths(0.0)), memory=replace(MEMORY, request_cache_bytes=0.0)) == []


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
        "sessions (56 GiB over its 2 accelerators) for the 60 s between turns. Route all requests of a session to the "
        "same replica. Without cache hits, a replica carries at most 11 % of the load that fills it now; with 120 s "
        "between turns, it carries at most 55 % of the load that fills it now."
    ]
    (text,) = prefix_texts(replace(kept, times_without_hits=None, times_at_twice_the_gap=1.001))
    assert text.endswith(
        "Without cache hits, a replica misses the limits; with 120 s between turns, it carries the same load."
    )
    (text,) = prefix_texts(replace(kept, counted=False))
    assert text == (
        "prefix_hits_not_counted: Prefix cache hits are not counted, although 90 % of each prompt could be cached. "
        "With 60 s between turns, each replica would have to keep 200 idle sessions (56 GiB over its 2 accelerators); "
        "it serves more without them. A shorter gap, a prefix shared by all requests or host memory for prefixes "
        '(`constraints.prefix_cache_tiers` ["gpu", "host"]) changes this.'
    )
    (text,) = prefix_texts(replace(kept, host_bytes=640 * GIB))
    assert "Host memory of the replica (640 GiB) holds copies; no published result covers it. Without" in text


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
    ("sources", "known"), [(0, ["no benchmarks"]), (1, ["benchmarks from only one source"]), (2, []), (None, [])]
)
@pytest.mark.parametrize(("host", "where"), [(None, ""), (0.25, " with weights in host memory")])
def test_one_source(sources: int | None, known: list[str], host: float | None, where: str) -> None:
    """Results of a family say nothing about weights in host memory: these have no source, the family may have some."""
    answer = ranked(performance=replace(SERVED, sources=sources))
    deployment = replace(answer.estimate.deployment, engine="llama.cpp", framework=None, weights_on_host=host)
    answer = replace(answer, estimate=replace(answer.estimate, deployment=deployment))
    texts = [notice.text for notice in find_cautions(Question(CHAT), (answer,)) if notice.code == "one_source_only"]
    end = f" of llama.cpp{where} on this hardware family. Run the benchmark before deciding."
    assert texts == [f"The catalog has {each}{end}" for each in known]


def test_only_the_first_caution_recommends_a_benchmark() -> None:
    cliff = sure(Level(0.8, 8, usd_per_hour=8.0), Level(0.9, 16, usd_per_hour=16.0))
    texts = texts_of(sources=0, assurance=cliff)
    assert [text.count("Run the benchmark") for text in texts] == [1, 0]
    assert texts[1].endswith("on this hardware family.")


@pytest.mark.parametrize("cheaper", ["apart", "together", None])
def test_sharing_that_costs_more_than_going_apart(cheaper: str | None) -> None:
    fleet = SharedFleet(1, 9.0, (), (), cheaper, 1.0, "Apart they cost less.")
    found = ranked(performance=SERVED)
    found = replace(found, estimate=replace(found.estimate, shared=fleet))
    apart_texts = [n.text for n in find_cautions(Question(CHAT), (found,)) if n.code == "cheaper_apart"]
    assert apart_texts == (["Apart they cost less."] if cheaper == "apart" else [])


def cost(**terms: Any) -> CostSummary:
    return replace(COST, price=replace(PRICE, terms=replace(PRICE.terms, **terms)))


def case(given: CostSummary | None, **deployment: Any) -> AnswerContext:
    return AnswerContext(Question(CHAT), estimated(cost=given, **deployment))


@pytest.mark.parametrize("kind", PriceKind)
def test_a_price_that_is_not_firm_is_named(kind: PriceKind) -> None:
    found = price_not_firm([ranked(1), ranked(2, cost=cost(kind=kind)), ranked(3, cost=None)])
    assert (found is None) == (kind in FIRM)
    if found is not None:
        assert found.text.startswith("The price of Acme Big (a")
        assert found.text.endswith(") is not a firm offer. Ask for a quote before deciding.")


def test_prices_of_one_kind_are_named_together() -> None:
    parts = (BIG, CARD, BIG)  # two options may have the same accelerator, such as pools and one pool
    found = present(
        price_not_firm([ranked(i + 1, part, cost=cost(kind=PriceKind.ESTIMATE)) for i, part in enumerate(parts)])
    )
    assert found.text.startswith("The prices of Acme Big and Acme Card (an estimate from parts")


@pytest.mark.parametrize(("days", "stale"), [(None, False), (365, False), (366, True)])
def test_an_old_price_is_to_be_asked_for_again(days: int | None, stale: bool) -> None:
    found = stale_price(case(replace(COST, price=replace(PRICE, age_days=days))))
    assert (found is not None) == stale
    if found is not None:
        assert found.text == "The price dates from 2026-01-01, 366 days ago. Ask for a current price before deciding."


@pytest.mark.parametrize(
    ("terms", "deployment", "code"),
    [
        ({}, {}, None),
        ({}, {"nodes": 8, "total_accelerators": 64}, None),
        ({}, {"nodes": 9, "total_accelerators": 72}, "beyond_usual_quantity"),
        ({"kind": PriceKind.BROKER}, {"nodes": 2, "total_accelerators": 9}, "beyond_usual_quantity"),
        ({"kind": PriceKind.ESTIMATE}, {"nodes": 200, "total_accelerators": 1600}, None),  # there is no seller
        # a known limit precedes the usual one
        ({"max_quantity": 100}, {"nodes": 100, "total_accelerators": 800}, None),
        ({"max_quantity": 100}, {"nodes": 101, "total_accelerators": 808}, "above_maximum_quantity"),
        ({"min_quantity": 4}, {"nodes": 3, "total_accelerators": 24}, "below_minimum_quantity"),
        ({"min_quantity": 4}, {"nodes": 4, "total_accelerators": 32}, None),
    ],
)
def test_quantities_are_held_against_the_seller(
    terms: dict[str, Any], deployment: dict[str, Any], code: str | None
) -> None:
    found: Notice | None = quantity_warning(case(cost(**terms), **deployment))
    assert (None if found is None else found.code) == code
    assert quantity_warning(case(None, **deployment)) is None


def test_a_license_that_the_cost_leaves_out_is_named_with_its_price() -> None:
    found = present(license_not_included(case(COST, engine="nim", total_accelerators=8)))
    assert found.text.startswith("NVIDIA NIM needs the license NVIDIA AI Enterprise, which the cost does not include.")
    assert found.text.endswith("For 8 accelerators, that is 3,000 USD a month.")  # 8 x 4,500 / 12
    assert license_not_included(case(COST, engine="vllm", total_accelerators=8)) is None


def test_what_a_feed_saw_last_precedes_what_sellers_usually_have() -> None:
    for quantity, code in ((None, "beyond_usual_quantity"), (8, "above_seen_quantity"), (9, "beyond_usual_quantity")):
        seen = Availability("available", quantity, "2026-11-20T06:00:00Z")
        found = present(
            quantity_warning(
                case(replace(COST, price=replace(PRICE, availability=seen)), nodes=9, total_accelerators=72)
            )
        )
        assert found.code == code
        assert code != "above_seen_quantity" or "had 8 machines when a price feed last looked" in found.text


def test_every_seller_has_a_usual_quantity_and_the_sentence_says_it() -> None:
    assert all(Assumptions.default_value(name) >= 1 for name in USUAL_QUANTITY_ASSUMPTIONS.values())
    assert set(PriceKind) - set(USUAL_QUANTITY_ASSUMPTIONS) == {PriceKind.LAUNCH, PriceKind.PRESS, PriceKind.ESTIMATE}
    found = present(quantity_warning(case(cost(), nodes=54, total_accelerators=432)))
    assert found.text == (
        f"This option uses 432 accelerators. Sellers with this type of price ({PRICE_KIND_TEXTS[PriceKind.PROVIDER]}) "
        "rarely have more than 64 at once. Confirm availability and price."
    )


ALONE: dict[str, Any] = {"replicas": 1, "spare_replicas": 0}


def placed(replicas: int, spares: int, machines: int, size: int = 2) -> dict[str, Any]:
    return {
        "accelerators_per_replica": size,
        "replicas": replicas,
        "spare_replicas": spares,
        "nodes": machines,
        "total_accelerators": 8 * machines,
    }


def service(label: str = "none", zones: int = 1, domain: str | None = None, **changed: Any) -> InferenceWorkload:
    return replace(CHAT, redundancy=Redundancy.from_label(label, zones=zones, domain=domain), **changed)


def standing_case(workload: InferenceWorkload, **deployment: Any) -> AnswerContext:
    return AnswerContext(Question(workload), estimated(**deployment))


@pytest.mark.parametrize(
    ("workload", "deployment", "text"),
    [
        (
            service("n+1", 3),
            placed(4, 2, 6, 8),
            "2 machines in each of 3 zones, 1 replica per machine. Losing any one zone leaves the 4 replicas "
            "needed at peak.",
        ),
        (
            service("n+1"),
            placed(1, 1, 2),
            "2 machines, 1 replica per machine. Losing any one machine leaves the 1 replica needed at peak.",
        ),
        (
            service("n+2", 2),
            placed(9, 9, 6),
            "3 machines in each of 2 zones, 3 replicas per machine. Losing any one zone or any 2 machines leaves the "
            "9 replicas needed at peak.",
        ),
        (
            service("n+1", 3),
            placed(9, 6, 5),
            "5 machines across 3 zones (2, 2, 1), 3 replicas per machine. Losing any one zone leaves the 9 replicas "
            "needed at peak.",
        ),
        (
            service("n+1", domain="accelerator"),
            placed(3, 1, 1),
            "1 machine with 4 replicas. Losing any one accelerator leaves the 3 replicas needed at peak.",
        ),
        (
            service("n+1", load=Load.CLOSED, in_flight=64.0),
            placed(2, 1, 6, 16),
            "6 machines, 2 machines per replica. Losing any one machine leaves the 2 replicas needed for the load.",
        ),
        (
            service("2n", 2, "zone"),
            placed(2, 3, 2),
            "1 machine in each of 2 zones, at most 3 replicas per machine. Losing any one zone leaves the 2 "
            "replicas needed at peak.",
        ),
        (
            service("n+1"),
            placed(3, 1, 1),
            "1 machine with 4 replicas. Losing any one machine leaves 0 replicas, but 3 are needed at peak.",
        ),
        (
            service("none", 3),
            placed(2, 1, 3),
            "1 machine in each of 3 zones, 1 replica per machine. No redundancy was requested, so no failure is "
            "covered.",
        ),
    ],
)
def test_what_stands_where_and_what_survives(workload: InferenceWorkload, deployment: Any, text: str) -> None:
    (reason,) = placement_reasons(workload, replace(DEPLOYMENT, **deployment))
    assert reason.text == text
    assert reason.code == "placement"


def test_redundancy_that_was_not_requested_is_not_mentioned() -> None:
    assert placement_reasons(service(), replace(DEPLOYMENT, **placed(4, 0, 1))) == []
    assert placement_reasons(service("n+1"), Deployment("acme-big")) == []
    assert replica_placement(service("n+1"), replace(DEPLOYMENT, nodes=None)) is None


def test_what_may_be_lost_in_words() -> None:
    assert describe_covered_failures(Redundancy(spare=2)) == "any 2 machines"
    assert describe_covered_failures(Redundancy.from_label("n+2", zones=3, domain="zone")) == "any 2 zones"
    assert (
        describe_covered_failures(Redundancy.from_label("n+2", zones=3, domain="accelerator"))
        == "any one zone or any 2 accelerators"
    )
    assert describe_covered_failures(Redundancy(double=True)) == "any one machine"


def test_a_caller_may_have_fewer_machines_than_zones() -> None:
    stands = present(replica_placement(service("n+1", 3), replace(DEPLOYMENT, **placed(3, 1, 1))))
    assert describe_machines(stands) == "1 machine across 3 zones (1, 0, 0) with 4 replicas"
    assert stands.surviving_replicas == 0


@pytest.mark.parametrize(
    ("workload", "deployment", "text"),
    [
        (service("n+1"), placed(2, 1, 3), None),
        (
            service("n+2"),
            placed(2, 1, 3),
            "A machine runs up to 1 replica. Losing 2 machines leaves 1 replica, but",
        ),
        (service("n+1"), placed(3, 1, 1), "A machine runs up to 4 replicas. Losing one machine leaves 0 replicas"),
        (
            service("n+1"),
            placed(3, 1, 2),
            "A machine runs up to 2 replicas. Losing one machine leaves 2 replicas, but 3 are needed at peak.",
        ),
        (
            service("n+1", domain="accelerator"),
            placed(3, 1, 2),
            "set failure_domain to machine to survive a machine failure",
        ),
        (service("n+1", domain="accelerator"), placed(3, 1, 4, 8), None),
        (service("n+1"), placed(1, 1, 4, 16), None),  # a replica spans two
        (service(), placed(3, 1, 1), None),
    ],
)
def test_a_machine_takes_the_replicas_on_it_with_it(
    workload: InferenceWorkload, deployment: Any, text: str | None
) -> None:
    found = machine_failure_exceeds_redundancy(standing_case(workload, **deployment))
    assert (found is None) == (text is None)
    assert found is None or (text or "") in found.text


def test_machines_of_a_caller_may_not_survive_a_zone() -> None:
    assert zone_failure_exceeds_redundancy(standing_case(service("n+1", 3), **placed(4, 2, 3))) is None
    assert zone_failure_exceeds_redundancy(standing_case(service("n+1"), **placed(4, 0, 1))) is None
    found = present(zone_failure_exceeds_redundancy(standing_case(service("n+1", 3), **placed(3, 1, 1))))
    assert "Losing any one zone leaves 0 replicas, but 3 are needed at peak." in found.text


@pytest.mark.parametrize(
    ("workload", "deployment", "text"),
    [
        (service(), placed(1, 0, 1), "No redundancy: if this replica fails"),
        (
            service(),
            placed(4, 0, 1),
            "No redundancy: all 4 replicas run on one machine, and if it fails, the service is down.",
        ),
        (service(), placed(2, 0, 1), "No redundancy: both replicas run on one machine"),
        (service(), placed(1, 0, 2, 16), "No redundancy: if this replica fails"),
        (service(), placed(5, 0, 2), None),
        (service("n+1"), placed(1, 0, 1), None),
        (service(load=Load.OFFLINE), placed(1, 0, 1), None),
        (
            service(load=Load.CLOSED, in_flight=64.0, most_personal_in_flight=4.0),
            placed(2, 0, 1),
            "No redundancy: both replicas",
        ),
        (service(load=Load.CLOSED, in_flight=1.0, most_personal_in_flight=4.0), placed(1, 0, 1), None),
        (
            service(load=Load.CLOSED, in_flight=64.0, requests=1e4, most_personal_in_flight=4.0),
            placed(1, 0, 1),
            "No redundancy: if this replica fails, the run stops.",
        ),
    ],
)
def test_a_service_that_one_loss_ends(workload: InferenceWorkload, deployment: Any, text: str | None) -> None:
    found = no_redundancy(standing_case(workload, **deployment))
    assert (found is None) == (text is None)
    assert found is None or found.text.startswith(text or "")


@pytest.mark.parametrize(
    ("prefill", "decode", "text"),
    [
        (placed(2, 0, 1), placed(1, 0, 1), "No redundancy: if the only decode replica fails, the service is down."),
        (placed(2, 0, 1), placed(3, 0, 3), "No redundancy: both prefill replicas run on one machine"),
        (placed(2, 0, 2), placed(3, 0, 3), None),
    ],
)
def test_a_pool_that_one_loss_ends(prefill: dict[str, Any], decode: dict[str, Any], text: str | None) -> None:
    case = standing_case(service(), **placed(1, 0, 1))
    pools = Pools(*(replace(DEPLOYMENT, **pool) for pool in (prefill, decode)))
    both = Deployment(accelerator=DEPLOYMENT.accelerator, pools=pools)
    found = no_redundancy(replace(case, estimate=replace(case.estimate, deployment=both)))
    assert (found is None) == (text is None)
    assert found is None or found.text.startswith(text or "")


def test_zones_of_a_provider_are_for_the_buyer_to_check() -> None:
    found = present(zones_not_verified(standing_case(service("n+1", 3))))
    assert found.text == (
        "The catalog lists regions but not their zones. Check that sky offers big-8 in 3 zones of us-1."
    )
    assert zones_not_verified(standing_case(service("n+1"))) is None
    assert zones_not_verified(standing_case(service("n+1", 3), pricing_model=PricingModel.OWNED)) is None
    assert zones_not_verified(standing_case(service("n+1", 3), provider=None, pricing_model=None)) is None


def test_documented_software_is_reported_without_a_warning() -> None:
    found = estimate_deployment(Question(CHAT), Deployment("acme-big", engine="vllm", weight_format="bf16"), SMALL)
    assert (found.support, found.rule) == ("documented", "")
    assert "support_expected" not in {r.code for r in found.explanation}


def test_what_only_rules_say_is_answered_with_wider_intervals_and_posts_back() -> None:
    question = Question(CHAT)
    found = estimate_deployment(question, Deployment("acme-big", engine="sglang", weight_format="bf16"), SMALL)
    assert found.support == "expected"
    (reason,) = (r for r in found.explanation if r.code == "support_expected")
    assert "SGLang computes in BF16 on compute capability 9.0." in reason.text
    assert estimate_deployment(question, found.deployment, SMALL).performance == found.performance
    assert found.performance is not None
    narrow = replace(question, assumptions=replace(Assumptions(), expected_support_widening=1.0))
    plain = present(estimate_deployment(narrow, found.deployment, SMALL).performance)
    wide, usual = found.performance.interval, plain.interval
    assert wide.high / wide.low > usual.high / usual.low


def test_training_says_it_too() -> None:
    run = replace(PRETRAIN, deadline_s=1e9)
    found = estimate_deployment(Question(run), Deployment("acme-big", framework="torchtitan"), SMALL)
    assert found.support == "expected"
    assert with_support(found, run, SMALL, Assumptions(), expected=False).support == "documented"
    assert "TorchTitan computes in BF16" in expected_reason(found, run, SMALL, Assumptions()).text


def test_a_refusal_names_phase_method_and_rule() -> None:
    run = replace(PRETRAIN, precision="mxfp8")
    found = estimate_deployment(Question(run), Deployment("acme-big", framework="megatron"), SMALL)
    assert (found.fits, found.support) == (False, None)
    assert found.rule == "Acme Big has compute capability 9.0; MXFP8 requires 10.0 or higher."
    text = found.explanation[0].text
    assert text.startswith("Megatron-LM does not support training of text generation models in MXFP8 on Acme Big.")


# Asked for with a spare, and two machines of which either may go.
SAFE = replace(CHAT, redundancy=Redundancy(spare=1))
SPREAD: dict[str, Any] = {"replicas": 2, "spare_replicas": 1, "nodes": 3}


def price(**known: Any) -> Any:
    return replace(COST, price=replace(PRICE, **known))


def slo(percentile: float) -> Slo:
    return Slo(1.0, 0.05, None, percentile)


def warnings_codes(workload: Any, accelerator: Accelerator = BIG, **given: Any) -> list[str]:
    found = find_warnings(Question(workload), [ranked(1, accelerator, **given)])
    return [notice.code for notice in found]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"target_utilization": 0.91}, ["no_latency_headroom"]),
        ({"target_utilization": 0.9}, []),
        ({"target_utilization": 0.99, "load": Load.CLOSED}, []),
        ({"slo": slo(89)}, ["average_not_tail"]),
        ({"slo": slo(90)}, []),
        ({"slo": slo(50), "load": Load.OFFLINE}, []),
        ({"model": replace(LLAMA_8B, assumed=("heads",), shape_is_assumed=True)}, ["model_shape_assumed"]),
        ({"model": replace(LLAMA_8B, assumed=("heads",))}, []),
        ({"model": replace(LLAMA_8B, assumed=(f"heads{OTHER_WEIGHTS_NOTE}",))}, ["model_has_other_weights"]),
    ],
)
def test_what_a_request_of_serving_is_warned_of(changes: dict[str, Any], expected: list[str]) -> None:
    found = find_warnings(Question(replace(SAFE, **changes)), ())
    assert [notice.code for notice in found] == expected


@pytest.mark.parametrize(
    ("workload", "given", "expected"),
    [
        (SAFE, SPREAD, []),
        # eight bits where sixteen were published
        (SAFE, SPREAD | {"weight_format": "fp8"}, ["accuracy_check_owed"]),
        # three replicas on one machine, one spare; on two machines two go at once
        (SAFE, SPREAD | {"nodes": 1}, ["machine_failure_exceeds_redundancy"]),
        (SAFE, SPREAD | {"nodes": 2}, ["machine_failure_exceeds_redundancy"]),
        (CHAT, SPREAD | {"nodes": 1}, ["no_redundancy"]),  # all of them go with it
        (CHAT, {"replicas": 1, "spare_replicas": 0}, ["no_redundancy"]),
        (CHAT, {"replicas": 2, "spare_replicas": 0, "nodes": 2}, []),
        (replace(SAFE, redundancy=Redundancy(spare=1, zones=3)), SPREAD, ["zones_not_verified"]),
        (
            replace(SAFE, redundancy=Redundancy(spare=1, zones=2)),
            SPREAD,
            ["zone_failure_exceeds_redundancy", "zones_not_verified"],
        ),
        (replace(CHAT, load=Load.OFFLINE), {"replicas": 1, "spare_replicas": 0}, []),
        (SAFE, SPREAD | {"cost": price(pricing_model="spot")}, ["spot_interruptions"]),
        (SAFE, SPREAD | {"cost": price(age_days=366)}, ["stale_price"]),
        (SAFE, SPREAD | {"cost": price(age_days=None)}, []),
        (SAFE, SPREAD | {"cost": None}, []),
        (SAFE, SPREAD | {"accelerator": replace(BIG, segment=Segment.CONSUMER)}, ["consumer_hardware"]),
        (SAFE, SPREAD | {"accelerator": replace(BIG, segment=Segment.EDGE)}, ["consumer_hardware"]),
        (SAFE, SPREAD | {"accelerator": replace(BIG, segment=Segment.WORKSTATION)}, []),
        (SAFE, SPREAD | {"accelerator": CARD}, []),
    ],
)
def test_what_an_answer_of_serving_is_warned_of(workload: Any, given: dict[str, Any], expected: list[str]) -> None:
    assert warnings_codes(workload, **given) == expected


@pytest.mark.parametrize(
    ("vendor", "segment", "excluded"),
    [
        ("NVIDIA", Segment.CONSUMER, True),
        ("AMD", Segment.CONSUMER, False),
        ("Intel", Segment.CONSUMER, False),
        ("NVIDIA", Segment.EDGE, False),
    ],
)
def test_only_a_license_that_excludes_data_centers_is_named(vendor: str, segment: Segment, excluded: bool) -> None:
    part = replace(BIG, vendor=vendor, segment=segment)
    notices = find_warnings(Question(SAFE), [ranked(1, part, **SPREAD)])
    (text,) = (n.text for n in notices if n.code == "consumer_hardware")
    assert ("license" in text) == excluded


@pytest.mark.parametrize(
    ("redundancy", "machines", "segment", "pricing", "warned"),
    [
        ("n+1", 2, Segment.WORKSTATION, PricingModel.OWNED, True),
        ("n+1", 1, Segment.WORKSTATION, PricingModel.OWNED, False),
        ("none", 4, Segment.WORKSTATION, PricingModel.OWNED, False),
        ("none", 5, Segment.WORKSTATION, PricingModel.OWNED, True),
        ("n+1", 13, Segment.DATACENTER, PricingModel.OWNED, False),
        ("n+1", 13, Segment.WORKSTATION, PricingModel.ON_DEMAND, False),
    ],
)
def test_workstations_are_no_usual_fleet(
    redundancy: str, machines: int, segment: Segment, pricing: PricingModel, warned: bool
) -> None:
    workload = replace(CHAT, redundancy=Redundancy.from_label(redundancy))
    first = ranked(1, replace(BIG, segment=segment), nodes=machines, pricing_model=pricing)
    found = [n for n in find_warnings(Question(workload), [first]) if n.code == "workstation_fleet"]
    assert bool(found) == warned
    assert all(f"buys {machines} machines" in n.text and "`datacenter`" in n.text for n in found)


def test_an_arm_host_is_named_with_the_architecture_of_its_images() -> None:
    host = present(other_host("NVIDIA Grace", BIG.slug))
    first = replace(ranked(1, BIG, **SPREAD), hosts={BIG.name: host})
    (notice,) = (n for n in find_warnings(Question(SAFE), [first]) if n.code == "host_architecture")
    assert "aarch64" in notice.text and "NVIDIA Grace" in notice.text and BIG.name in notice.text
    second = add_comparisons((ranked(1), replace(first, rank=2)), Question(SAFE), 2)[1]
    assert "host_architecture" in [reason.code for reason in second.estimate.explanation]


@pytest.mark.parametrize(("accelerator", "expected"), [(BIG, ["training_class_overkill"]), (CARD, [])])
def test_a_few_users_need_no_training_class_hardware(accelerator: Accelerator, expected: list[str]) -> None:
    alone = replace(CHAT, load=Load.CLOSED, peak_per_s=0.0, in_flight=1.0, most_personal_in_flight=8.0)
    assert alone.is_personal
    assert warnings_codes(alone, accelerator) == expected


@pytest.mark.parametrize(
    ("workload", "given", "expected"),
    [
        (PRETRAIN, {}, []),
        (PRETRAIN, {"cost": replace(COST, purchase_usd=300_000.0)}, ["purchase_outlasts_run"]),
        (
            replace(CHAT, load=Load.OFFLINE, volume_requests=1e6),
            {"cost": replace(COST, purchase_usd=300_000.0), "performance": replace(SPEED, days=0.1)},
            ["purchase_outlasts_run"],
        ),
        (PRETRAIN, {"accelerator": CARD}, ["inference_hardware_for_training"]),
        (replace(PRETRAIN, method=Method.LORA), {"accelerator": CARD}, []),
        # of one machine, then of two
        (PRETRAIN, {"performance": replace(RUN, required_ingest_bytes_per_s=1e13)}, ["data_pipeline_limit"]),
        (PRETRAIN, {"performance": replace(RUN, required_ingest_bytes_per_s=1e3)}, []),
        (PRETRAIN, {"cost": price(pricing_model="spot")}, ["spot_interruptions"]),
        (PRETRAIN, {"weight_format": "fp8", "replicas": 1}, []),
    ],
)
def test_what_an_answer_of_training_is_warned_of(workload: Any, given: dict[str, Any], expected: list[str]) -> None:
    assert warnings_codes(workload, **{"performance": RUN} | given) == expected


def test_a_spot_price_states_its_age() -> None:
    spot = [ranked(cost=price(pricing_model="spot", age_days=days)) for days in (258, 0)]
    old, new = (next(n for n in find_warnings(Question(SAFE), [r]) if n.code == "spot_interruptions") for r in spot)
    assert "was seen 258 days ago" in old.text
    assert "ago" not in new.text


def test_a_run_on_purchased_machines_states_the_used_share_of_their_life() -> None:
    question = Question(PRETRAIN)
    months = question.economics.horizon_months
    # of the months of 730 hours that the horizon has
    for days, share in ((50.0, percent(50 * 24 / (months * 730))), (5.0, "less than 1 %")):
        bought = ranked(cost=replace(COST, purchase_usd=300_000.0), performance=replace(RUN, days=days))
        (notice,) = find_warnings(question, [bought])
        assert f"uses {share} of the {months:g} months" in notice.text
        assert "300,000 USD" in notice.text


def test_without_tokens_there_is_no_tail() -> None:
    idle = replace(SAFE, slo=slo(50), input_tokens=Lengths(0.0), output_tokens=Lengths(0.0))
    assert find_warnings(Question(idle), ()) == ()


@pytest.mark.parametrize(
    ("hosts", "across", "zones", "text"),
    [
        (4, 2, 3, "8 machines across 3 zones (4, 2, 2), 2 machines per replica"),
        (5, 1, 3, "5 machines across 3 zones (2, 2, 1), 1 replica per machine"),
        (6, 2, 3, "4 machines in each of 3 zones, 2 machines per replica"),
        (3, 4, 1, "12 machines, 4 machines per replica"),
    ],
)
def test_machines_of_all_zones_are_counted_whatever_a_replica_spans(
    hosts: int, across: int, zones: int, text: str
) -> None:
    placement = ReplicaPlacement(Redundancy(zones=zones), hosts, hosts, hosts, across, "at peak")
    assert describe_machines(placement) == text
    if "(" in text:
        assert sum(map(int, text[text.index("(") + 1 : text.index(")")].split(","))) == hosts * across
