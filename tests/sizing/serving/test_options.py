"""Fixed settings of a request: the estimate uses them, and unusable ones are refused. A day decides by what it
costs as it is paid: the cheapest day is first, a flat one is a service without hours. Figures that plans are
ranked by, worked by hand.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.errors import Conflict
from app.sizing.assumptions import Assumptions
from app.sizing.day import start_times_s, supply_per_s
from app.sizing.estimate import estimate_deployment
from app.sizing.hardware.parts import PricingModel
from app.sizing.model.sample import SampleWork
from app.sizing.question import Constraints, Deployment, DraftMethod, Objective, Question, Speculative
from app.sizing.recommend import recommend_hardware
from app.sizing.result import Answer
from app.sizing.serving import options as options_room
from app.sizing.serving.interfaces import Settings
from app.sizing.serving.memory import serving_memory
from app.sizing.serving.options import (
    Options,
    check_speculation,
    default_max_sequences,
    duration_s,
    hardware_holds_replicas,
    measures,
    replicas_filling_hardware,
    requested_replicas,
    requested_settings,
    served_per_s,
    stable_key,
    startup_terms,
    throughput_per_s,
    units_per_request,
)
from app.sizing.serving.search import evaluate_plans
from app.sizing.workload import HOURS, InferenceWorkload, Lengths, Load, Redundancy, Shares, Slo
from tests.examples import CHAT, col, row
from tests.sizing.serving.given import DENSE, STEADY, on_big, varied
from tests.sizing.small import SMALL, offer, snapshot


@pytest.mark.parametrize(("load", "most"), [(Load.OPEN, 12), (Load.CLOSED, 100), (Load.OFFLINE, 12)])
def test_sequences_where_none_are_fixed(load: Load, most: float) -> None:
    plans, memory = on_big(tensor_parallel=2), cast(Any, row(sequences=col(100)))
    speed: Any = row(sequence_limit=col(12))
    assert default_max_sequences(varied(load=load), plans, memory, speed).tolist() == [most]
    none: Any = row(sequences=col(0))
    slow: Any = row(sequence_limit=col(0.5))
    assert default_max_sequences(varied(load=load), plans, none, slow).tolist() == [1]


def test_a_closed_loop_leaves_a_server_at_its_own_limit() -> None:
    """It reserves memory for that many sequences, whatever the KV cache holds."""
    plans, closed = on_big(tensor_parallel=2), varied(load=Load.CLOSED)
    memory = serving_memory(closed.model, plans, Assumptions(), final_tokens=9e4, longest_tokens=9e4)
    assert memory.sequences[0] < 256
    speed: Any = row(sequence_limit=col(12))
    assert default_max_sequences(closed, plans, memory, speed).tolist() == [1024]
    fixed = replace(memory, max_sequences=col(64), sequences=col(7))
    assert default_max_sequences(closed, plans, fixed, speed).tolist() == [64]


def test_settings_a_caller_fixes_are_those_judged() -> None:
    plans = on_big(tensor_parallel=2)
    known = {"max_batch": 16, "max_batched_tokens": 2048, "memory_fraction": 0.5, "spare_replicas": 2, "replicas": 3}
    found_ = requested_settings(Deployment("acme-big", **known), plans, Redundancy())  # type: ignore[arg-type]
    values = (found_.max_sequences, found_.max_batched_tokens, found_.memory_fraction, found_.spare_replicas)
    assert [v.tolist() for v in values if v is not None] == [[16], [2048], [0.5], [2]]
    assert found_.replicas is not None
    assert found_.replicas.tolist() == [3]
    assert requested_settings(Deployment("acme-big"), plans, Redundancy()) == Settings()
    judged = evaluate_plans(Question(STEADY), STEADY, plans, found_)
    assert judged.fleet.replicas.tolist() == [3]
    assert judged.fleet.spare_replicas.tolist() == [2]
    assert judged.memory.sequences.tolist() == [16]


@pytest.mark.parametrize(
    ("fixed", "replicas"),
    [
        ({}, None),
        ({"replicas": 5}, 5),
        ({"total_accelerators": 16}, 8),  # two each
        ({"total_accelerators": 16, "spare_replicas": 3}, 5),
        ({"total_accelerators": 17}, 8),
        ({"total_accelerators": 1}, 1),
        ({"nodes": 2}, 8),
        ({"nodes": 2, "total_accelerators": 4}, 2),
    ],
)
def test_replicas_fill_what_was_asked_for(fixed: dict[str, Any], replicas: float | None) -> None:
    found_ = requested_replicas(Deployment("acme-big", **fixed), on_big(tensor_parallel=2), Redundancy())
    assert (None if found_ is None else found_.tolist()) == (None if replicas is None else [replicas])


@pytest.mark.parametrize(
    ("fixed", "expected"),
    [
        # machines of eight, two to a replica: (replicas, spares, machines) with one machine to lose
        ({"nodes": 2}, (4, 4, 2)),
        ({"total_accelerators": 16}, (4, 4, 2)),
        ({"nodes": 2, "spare_replicas": 1}, (7, 1, 2)),
        ({"nodes": 1}, (4, 0, 1)),  # nothing would be left: the machine is counted for all it does
        ({"nodes": 4, "replicas": 3}, (3, 1, 4)),  # one on each of four
        ({"total_accelerators": 32, "replicas": 3}, (3, 1, 4)),
        ({"replicas": 3}, (3, 3, 2)),
        ({"replicas": 3, "spare_replicas": 1}, (3, 1, 2)),
        ({"replicas": 3, "spare_replicas": 1, "nodes": 1}, (3, 1, 1)),
    ],
)
def test_machines_a_caller_fixed_are_those_paid_for(fixed: dict[str, Any], expected: tuple[int, int, int]) -> None:
    safe, plans = varied(redundancy=Redundancy(spare=1)), on_big(tensor_parallel=2)
    asked = requested_settings(Deployment("acme-big", **fixed), plans, safe.redundancy)
    placed = evaluate_plans(Question(safe), safe, plans, asked).fleet
    assert (placed.replicas[0], placed.spare_replicas[0], placed.nodes[0]) == expected


def test_machines_hold_what_is_put_on_them() -> None:
    plans = on_big(tensor_parallel=2)
    assert hardware_holds_replicas(Deployment("acme-big", replicas=9), plans).tolist() == [True]
    assert hardware_holds_replicas(Deployment("acme-big", replicas=8, nodes=2), plans).tolist() == [True]
    assert hardware_holds_replicas(Deployment("acme-big", replicas=8, spare_replicas=1, nodes=2), plans).tolist() == [
        False
    ]
    assert hardware_holds_replicas(Deployment("acme-big", replicas=8, total_accelerators=16), plans).tolist() == [True]
    assert hardware_holds_replicas(
        Deployment("acme-big", replicas=8, spare_replicas=1, total_accelerators=16), plans
    ).tolist() == [False]
    assert hardware_holds_replicas(Deployment("acme-big", replicas=9, total_accelerators=16), plans).tolist() == [False]
    # threes leave two of eight idle: two machines hold four of them
    threes = on_big(tensor_parallel=1, pipeline_parallel=3)
    assert replicas_filling_hardware(Deployment("acme-big", nodes=2), threes) == col(4)
    assert replicas_filling_hardware(Deployment("acme-big", total_accelerators=19), threes) == col(5)
    assert replicas_filling_hardware(Deployment("acme-big"), threes) is None


def test_drafting_needs_tokens_and_the_layer_it_drafts_with() -> None:
    def check(method: DraftMethod, workload: InferenceWorkload = STEADY) -> None:
        check_speculation(Speculative(method, 2, 0.5), workload)

    check(DraftMethod.EAGLE)
    check_speculation(None, varied(model=replace(DENSE, sample=SampleWork(flops=1e9))))
    with pytest.raises(Conflict, match="multi-token"):
        check(DraftMethod.MTP)
    check(DraftMethod.MTP, varied(model=replace(DENSE, mtp_params=1_000_000)))
    with pytest.raises(Conflict, match="generates tokens"):
        check(DraftMethod.NGRAM, varied(model=replace(DENSE, sample=SampleWork(flops=1e9))))


QUICK = settings(max_examples=10)
NIGHT: Shares = (0.02,) * 9 + (0.5,) + (1.0,) * 5 + (0.3,) * 4 + (0.02,) * 5
FLAT: Shares = (1.0,) * HOURS
BUSY = replace(CHAT, peak_per_s=300.0, average_per_s=150.0)
RENT = Constraints(accelerators=("acme-big",), pricing_models=(PricingModel.ON_DEMAND, PricingModel.RESERVED_1Y))
SHARES = st.lists(st.floats(0.01, 1), min_size=HOURS - 1, max_size=HOURS - 1).map(lambda some: (*some, 1.0))


def daily(shares: Shares, workload: InferenceWorkload = BUSY) -> InferenceWorkload:
    mean = workload.peak_per_s * sum(shares) / HOURS if shares else workload.average_per_s
    return replace(workload, hourly_shares=shares, average_per_s=mean)


def usd_per_day(answer: Answer) -> list[float]:
    costs = [r.estimate.cost for r in answer.recommendations]
    return [c.usd_per_day for c in costs if c is not None and c.usd_per_day is not None]


def test_hours_that_are_given_back_beat_a_commitment_and_a_flat_day_does_not() -> None:
    paid = [
        recommend_hardware(Question(daily(shares), RENT), SMALL).recommendations[0].estimate.deployment.pricing_model
        for shares in (NIGHT, FLAT, ())
    ]
    assert paid == [PricingModel.ON_DEMAND, PricingModel.RESERVED_1Y, PricingModel.RESERVED_1Y]


def test_small_machines_that_follow_the_load_beat_a_large_one_that_costs_less_at_the_peak() -> None:
    """One machine at 17.60 USD an hour carries the peak; 24 small ones at 2 cost more then and less over the day."""
    catalog = snapshot(offers=(offer("big-8", 17.6), offer("card-1", 2.0)))
    patient = replace(CHAT, peak_per_s=10.0, slo=Slo(20.0, 0.5, None, 95))
    question = Question(patient, Constraints(pricing_models=(PricingModel.ON_DEMAND,)))
    first = [
        recommend_hardware(replace(question, workload=workload), catalog)
        .recommendations[0]
        .estimate.deployment.accelerator
        for workload in (patient, daily(NIGHT, patient))
    ]
    assert first == ["acme-big", "acme-card"]


@QUICK
@given(SHARES, st.floats(0.5, 400), st.sampled_from([(), RENT.pricing_models, (PricingModel.OWNED,)]))
def test_the_cheapest_day_is_first_and_is_the_reported_day(
    shares: Shares, peak_per_s: float, pricing: tuple[PricingModel, ...]
) -> None:
    workload = daily(shares, replace(CHAT, peak_per_s=peak_per_s))
    question = Question(workload, Constraints(pricing_models=pricing))
    answer = recommend_hardware(question, SMALL)
    days = usd_per_day(answer)
    assert days == sorted(days)
    for ranked in answer.recommendations:
        cost = ranked.estimate.cost
        assert cost is not None
        assert cost.usd_per_hour is not None
        assert cost.usd_per_day is not None
        assert cost.usd_per_day <= 24 * cost.usd_per_hour * (1 + 1e-12)
        again = estimate_deployment(question, ranked.estimate.deployment, SMALL)
        assert again.cost is not None
        assert again.cost.usd_per_day == cost.usd_per_day
        assert again.day is not None
        assert again.day.autoscaled.usd_per_day == pytest.approx(cost.usd_per_day, rel=1e-12)


@QUICK
@given(SHARES, st.integers(0, HOURS - 1), st.floats(0, 1), st.floats(0.5, 400))
def test_more_in_any_hour_never_makes_the_best_day_cheaper(
    shares: Shares, hour: int, more: float, peak_per_s: float
) -> None:
    higher = tuple(min(1.0, share + more * (i == hour)) for i, share in enumerate(shares))
    busy = replace(CHAT, peak_per_s=peak_per_s)
    before, after = (
        usd_per_day(recommend_hardware(Question(daily(s, busy), limit=3), SMALL)) for s in (shares, higher)
    )
    if before:
        assert after[0] >= before[0] * (1 - 1e-9)


@QUICK
@given(st.floats(0.5, 400), st.sampled_from(list(Objective)))
def test_a_flat_day_ranks_as_a_service_without_hours(peak_per_s: float, objective: Objective) -> None:
    busy = replace(CHAT, peak_per_s=peak_per_s, average_per_s=peak_per_s)
    flat, plain = (
        recommend_hardware(Question(replace(busy, hourly_shares=shares), objective=objective), SMALL)
        for shares in (FLAT, ())
    )
    assert [r.estimate.deployment for r in flat.recommendations] == [
        r.estimate.deployment for r in plain.recommendations
    ]
    assert [r.score for r in flat.recommendations] == pytest.approx([r.score for r in plain.recommendations])


def options(load: Load = Load.OPEN, **changed: Any) -> tuple[InferenceWorkload, Options]:
    workload = varied(load=load, **changed)
    judged = evaluate_plans(
        Question(workload), workload, on_big(), Settings(replicas=np.full(1, 3.0), spare_replicas=np.ones(1))
    )
    return workload, judged.options


def test_cost_is_spread_over_the_real_load_and_throughput_is_the_capacity() -> None:
    workload, found_ = options()
    capacity, usd = found_.capacity_per_s[0], found_.cost.usd_per_hour[0]
    assert throughput_per_s(workload, found_).tolist() == pytest.approx([3 * capacity])
    assert served_per_s(workload, found_).tolist() == [4]  # the mean
    by = measures(workload, found_)
    assert by.usd.tolist() == [usd]
    assert by.latency_s.tolist() == found_.e2e_p50_s.tolist()
    # three replicas work, a spare idles: four accelerators of one machine of eight
    assert found_.fleet.accelerators.tolist() == [8]
    assert by.throughput_per_accelerator[0] == pytest.approx(3 * capacity / 8)
    assert by.joules_per_unit[0] == pytest.approx(found_.cost.power_w[0] / (4 * 1001))


def test_closed_and_offline_loads_count_what_they_do() -> None:
    workload, found_ = options(Load.CLOSED, in_flight=64.0)
    assert throughput_per_s(workload, found_).tolist() == pytest.approx([3 * found_.rate_per_s[0]])
    assert served_per_s(workload, found_).tolist() == pytest.approx([3 * found_.rate_per_s[0]])
    assert measures(workload, found_).usd.tolist() == found_.cost.usd_per_hour.tolist()
    offline, free = options(Load.OFFLINE)
    per_s = 3 * free.capacity_per_s[0]
    assert per_s == pytest.approx(3 * free.rate_per_s[0])
    assert measures(offline, free).usd[0] == pytest.approx(free.cost.usd_per_hour[0] / (per_s * 1001))


def test_work_that_ends_counts_all_it_costs_and_how_long_it_takes() -> None:
    workload, found_ = options(Load.OFFLINE, volume_requests=1e6)
    seconds = found_.cold_start_s[0] + 1e6 / (3 * found_.capacity_per_s[0])
    assert duration_s(1e6, found_).tolist() == pytest.approx([seconds])
    assert served_per_s(workload, found_).tolist() == pytest.approx([1e6 / seconds])
    by = measures(workload, found_)
    assert by.usd[0] == pytest.approx(found_.cost.usd_per_hour[0] * seconds / 3600)
    assert by.latency_s.tolist() == pytest.approx([seconds])
    assert by.joules_per_unit[0] == pytest.approx(found_.cost.power_w[0] * seconds / 1e6 / 1001)


def test_units_are_tokens_or_samples() -> None:
    assert units_per_request(STEADY) == 1001
    assert units_per_request(varied(input_tokens=Lengths(0.0), output_tokens=Lengths(0.0))) == 1
    assert units_per_request(varied(model=replace(DENSE, sample=SampleWork(flops=1e9)))) == 1


def test_equal_plans_are_ordered_by_accelerators_replica_machines_and_stack() -> None:
    def key(accelerators: int, replica: int, machines: int, stack: int) -> float:
        options: Any = row(
            fleet=row(accelerators=col(accelerators)),
            plans=row(
                accelerators_per_replica=col(replica),
                nodes_per_replica=col(machines),
                stacks=SimpleNamespace(rows=np.array([stack])),
            ),
        )
        return float(stable_key(options)[0])

    ordered = [(8, 8, 2, 9000), (16, 4, 1, 9000), (16, 8, 1, 9000), (16, 8, 2, 6), (16, 8, 2, 7)]
    assert [*sorted(ordered, key=lambda each: key(*each))] == ordered


def test_a_day_follows_the_load_with_the_times_of_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scaled as assumed for a service: starts, the supply of the store and the delay before replicas stop."""
    workload, plans = daily(NIGHT, STEADY), on_big()
    known = replace(Assumptions(), scale_in_delay_s=100.0, scale_to_zero_after_s=200.0, autoscaler_reaction_s=50.0)
    question = Question(workload, assumptions=known)
    judged = evaluate_plans(question, workload, plans, Settings())
    seen: list[Any] = []

    def idle(load: Any, at: Any, redundancy: Redundancy, fleet: Any, *on: Any) -> Any:
        seen.append((load, at, redundancy, fleet, on))
        return col(0.25)

    monkeypatch.setattr(options_room, "idle_shares", idle)
    found = options_room.daily_means(
        question, workload, plans, judged.fleet, judged.cost, judged.options.capacity_per_s
    )
    ((load, at, redundancy, fleet, on),) = seen
    assumed = question.assumptions
    starting = startup_terms(workload, plans, assumed)
    assert load.max() <= STEADY.peak_per_s and redundancy is workload.redundancy and fleet is judged.fleet
    assert (at.capacity_per_s, at.most_replicas) == (judged.options.capacity_per_s, judged.fleet.replicas)
    assert (at.target_utilization, at.keep_s) == (assumed.target_utilization, assumed.scale_in_delay_s)
    assert at.start_s == start_times_s(starting, 1.0, assumed) + assumed.autoscaler_reaction_s
    assert at.supply_per_s == supply_per_s(starting, assumed)
    assert on == (plans.accelerators_per_replica, plans.accelerators_per_node)
    assert found.usd_per_hour == pytest.approx(
        0.75 * judged.cost.usd_per_hour
    )  # rented by the hour: a quarter is not paid
    assert found.power_w == pytest.approx(0.75 * judged.cost.power_w)
    flat = options_room.daily_means(
        question, replace(workload, hourly_shares=()), plans, judged.fleet, judged.cost, judged.options.capacity_per_s
    )
    assert flat.usd_per_hour is judged.cost.usd_per_hour and not flat.idle_share.any()
