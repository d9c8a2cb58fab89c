"""A pool that reads prompts, as the search expects it. The best split: compared with every split, and ranked only
if it is better than one engine for both.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from app.sizing.columns import at
from app.sizing.decisions.cost import RESOURCE_LIMITS, Cost
from app.sizing.decisions.ranking import objective_score
from app.sizing.decisions.search import Search
from app.sizing.estimate import estimate_deployment
from app.sizing.hardware.parts import SystemKind
from app.sizing.pools import search as search_room
from app.sizing.pools.estimate import DISAGGREGATING_ENGINES, max_concurrent_prompts
from app.sizing.pools.parts import decode_reserve_s, decode_workload, prefill_workload
from app.sizing.pools.search import (
    DECODE_DEPLOYMENT,
    MAX_CLOSE_RATIO,
    MAX_SIMULATED_PAIRS,
    PoolPairs,
    SimulatedPool,
    better_split,
    disaggregating_plans,
    late_share,
    leading_plans,
    least_pair_score,
    least_usd_per_hour,
    machine_locations,
    max_load,
    may_split,
    next_row,
    pair_transfer,
    pairing_keys,
    prefill_options,
    rank_pairs,
    requires_one_stage,
    simulate_pool,
    transfer_carries_load,
)
from app.sizing.question import Constraints, Deployment, Objective, Question
from app.sizing.recommend import recommend_hardware
from app.sizing.serving.curve_ends import Extent
from app.sizing.serving.finalists import simulate_replicas
from app.sizing.serving.options import Options
from app.sizing.serving.search import confidence_margins, enumerate_allowed_plans, search_plans
from app.sizing.snapshot import Catalog
from app.sizing.workload import InferenceWorkload, Lengths, Load, Router, Slo
from tests.examples import CHAT, LLAMA_70B, col, present, row
from tests.sizing.pools.given import LINK, READS, at_rate, pool_estimate
from tests.sizing.serving.given import STEADY
from tests.sizing.small import CARD, SMALL, SYSTEMS, snapshot, system
from tests.sizing.test_across import LATENT, MODEL


def test_the_largest_load_is_where_just_as_many_are_late_as_may_be() -> None:
    wait, service = col(0.1, 1.0, 10.0, 0.0), col(0.5, 0.5, 0.5, 0.5)
    load = max_load(wait, service, 2.0, 0.05)
    assert load[3] == 0.0
    assert (np.diff(load[:3]) > 0).all()
    assert late_share(load[:3], wait[:3], service[:3], 2.0) == pytest.approx([0.05] * 3, rel=1e-4)


def test_fewer_are_late_the_longer_they_may_wait_and_the_less_varies() -> None:
    waits, half = col(-1, 0, 1, 2), np.exp(-0.5)
    assert late_share(col(0.5), waits, col(1), 1.0) == pytest.approx([0.5, 0.5, 0.5 * half**2, 0.5 * half**4])
    assert late_share(col(0.5), waits, col(1), 2.0) == pytest.approx([0.5, 0.5, 0.5 * half, 0.5 * half**2])
    assert late_share(col(0.5), col(2), col(2), 2.0) == pytest.approx([0.5 * half])
    assert late_share(col(0.5), waits, col(0), 1.0).tolist() == [0.5, 0.5, 0.0, 0.0]


def test_what_is_expected_of_readers_is_near_what_their_schedulers_do() -> None:
    workload = replace(prefill_workload(at_rate(400.0), 0.0, 1.0), slo=Slo(0.3, None, None, 95))
    question = Question(workload)
    plans = enumerate_allowed_plans(Search.start(question, SMALL).of(workload))
    options = prefill_options(Search.start(question, SMALL).of(workload), plans)
    runs = present(simulate_replicas(Search.start(question, SMALL).of(workload), options.plans, options.settings))
    simulated, _ = runs.planned_capacity(workload)
    assert options.capacity_per_s == pytest.approx(simulated, rel=0.25)


ANY = np.zeros(0, np.int64)
ONE_CARD_USD_PER_HOUR = 0.8
# The small catalogue with cards whose network is known.
WIRED = system("card-1", SystemKind.CLOUD_INSTANCE, CARD, 1, ram_bytes=64e9, network_bytes_per_s=12.5e9)
MARKET = snapshot(systems=(*SYSTEMS[:2], WIRED))
ROUNDS = [
    at_rate(
        rate,
        input_tokens=Lengths(prompt),
        output_tokens=Lengths(answer),
        max_context_tokens=prompt + answer,
        slo=Slo(ttft_s, tpot_s, None, 95),
    )
    for (rate, ttft_s), (prompt, answer, tpot_s) in product(
        [(50.0, 0.5), (400.0, 0.5), (1500.0, 0.3), (4000.0, 1.0)],
        [
            (800.0, 200.0, 0.02),
            (4000.0, 50.0, 0.01),
            (200.0, 800.0, 0.01),
            (6000.0, 400.0, 0.02),
            (2000.0, 100.0, 0.005),
        ],
    )
]

# Long prompts, short answers and a tight limit per token: two pools cost the least.
SPLIT = at_rate(
    200.0,
    input_tokens=Lengths(4000.0),
    output_tokens=Lengths(50.0),
    max_context_tokens=4050.0,
    slo=Slo(1.0, 0.004, None, 95),
)


def cheapest(options: Options, part: InferenceWorkload, **how: Any) -> dict[tuple[int, int, int], float]:
    """The least that a pool costs as simulated, of all its plans, by engine and cache."""
    found: dict[tuple[int, int, int], float] = {}
    for number in range(len(options)):
        one = options.take(np.array([number]))
        sized = simulate_pool(Search.start(Question(part), MARKET).of(part), one, **how)
        if sized is not None:
            key = int(one.plans.engine[0]), int(one.plans.kv[0]), int(machine_locations(one.plans, MARKET)[0])
            found[key] = min(found.get(key, np.inf), at(sized.options.cost.usd_per_hour, 0))
    return found


@pytest.mark.parametrize("workload", ROUNDS, ids=lambda w: f"{w.peak_per_s:g}-{w.input_tokens.mean:g}")
def test_the_split_found_is_within_three_per_cent_or_one_card_of_the_best_of_all(workload: InferenceWorkload) -> None:
    question = Question(workload)
    plans = enumerate_allowed_plans(Search.start(question, MARKET).of(workload))
    found = better_split(Search.start(question, MARKET).of(workload), plans, ANY)
    asked = prefill_workload(workload, decode_reserve_s(workload), 2.0), decode_workload(workload, 0.0)
    reads, writes = (search_plans(Search.start(question, MARKET).of(part), plans) for part in asked)
    assert len(reads) and len(writes)
    least_read, least_written = cheapest(reads, asked[0]), cheapest(writes, asked[1], asked=DECODE_DEPLOYMENT)
    every = [usd + least_written[key] for key, usd in least_read.items() if key in least_written]
    assert (found is None) == (not every)
    if found is not None:
        assert found[1].score <= max(1.03 * min(every), min(every) + ONE_CARD_USD_PER_HOUR)


@pytest.mark.slow
def test_two_pools_come_first_only_where_they_are_better() -> None:
    first = 0
    for workload, objective in product((*ROUNDS[::3], SPLIT), Objective):
        question = Question(workload, objective=objective)
        answer = recommend_hardware(question, MARKET)
        if objective is Objective.COST:
            assert answer.recommendations == recommend_hardware(question, MARKET).recommendations
        if not answer.recommendations:
            continue
        split = [ranked.estimate.deployment.pools is not None for ranked in answer.recommendations]
        assert not any(split[1:])
        scores = [ranked.score for ranked in answer.recommendations]
        assert scores == sorted(scores, reverse=True)
        if split[0]:
            first += 1
            posted = estimate_deployment(replace(question), answer.recommendations[0].estimate.deployment, MARKET)
            assert posted.performance == answer.recommendations[0].estimate.performance
            assert posted.cost == answer.recommendations[0].estimate.cost
            if objective is Objective.COST and len(answer.recommendations) > 1:
                costs = [r.estimate.cost.usd_per_hour or 0 for r in answer.recommendations if r.estimate.cost]
                assert costs[0] < min(costs[1:])
    assert first > 0


def test_pools_need_a_known_network() -> None:
    for catalog, many in ((MARKET, True), (SMALL, False)):
        plans = enumerate_allowed_plans(Search.start(Question(ROUNDS[0]), catalog).of(ROUNDS[0]))
        card = catalog.accelerator_index[CARD.slug]
        assert (card in disaggregating_plans(plans, catalog, ANY).accelerator) == many


@pytest.mark.parametrize("bytes_per_s", [12.5e9, 1e9, 0.1e9])
def test_the_way_between_pools_is_no_fuller_than_a_service_is_planned_to_be(bytes_per_s: float) -> None:
    catalog = snapshot(systems=(*SYSTEMS[:2], replace(WIRED, network_bytes_per_s=bytes_per_s)))
    splits = 0
    for workload in ROUNDS[::2]:
        plans = enumerate_allowed_plans(Search.start(Question(workload), catalog).of(workload))
        found = better_split(Search.start(Question(workload), catalog).of(workload), plans, ANY)
        if found is not None:
            splits += 1
            assert found[1].transfer.requests_per_s_capacity * workload.target_utilization >= workload.peak_per_s
            assert found[0].performance is not None and not found[0].performance.overloaded
    assert splits > 0 or bytes_per_s < 1e9


def test_limits_of_number_hold_for_both_pools_together() -> None:
    workload = ROUNDS[1]
    for most in (1, 8, 16, 64):
        question = Question(workload, Constraints(max_accelerators=most))
        plans = enumerate_allowed_plans(Search.start(question, MARKET).of(workload))
        found = better_split(Search.start(question, MARKET).of(workload), plans, ANY)
        assert found is None or (found[0].deployment.total_accelerators or 0) <= most


def test_a_pair_runs_one_engine_and_keeps_one_kind_of_cache() -> None:
    question = Question(ROUNDS[0])
    plans = enumerate_allowed_plans(Search.start(question, MARKET).of(ROUNDS[0]))
    pairs = present(rank_pairs(Search.start(question, MARKET).of(ROUNDS[0]), plans, ANY))
    assert (pairs.reads.plans.engine == pairs.writes.plans.engine).all()
    assert (pairs.reads.plans.kv == pairs.writes.plans.kv).all()
    assert (machine_locations(pairs.reads.plans, MARKET) == machine_locations(pairs.writes.plans, MARKET)).all()
    usd = pairs.ranking_measures(question, ROUNDS[0]).usd
    assert (np.diff(usd) >= 0).all()


@pytest.mark.parametrize(
    "changes",
    [
        {"load": Load.CLOSED, "in_flight": 8.0},
        {"load": Load.OFFLINE},
        {"output_tokens": Lengths(1.0)},
    ],
)
def test_pools_are_looked_for_where_answers_are_written_at_a_rate(changes: dict[str, Any]) -> None:
    workload = replace(STEADY, **changes)
    question = Question(workload)
    plans = enumerate_allowed_plans(Search.start(question, MARKET).of(workload))
    assert better_split(Search.start(question, MARKET).of(workload), plans, ANY) is None


def test_a_split_is_shown_if_it_is_better_by_more_than_a_near_tie() -> None:
    workload, question = ROUNDS[1], Question(ROUNDS[1])
    share = question.assumptions.near_tie_share
    search = Search.start(question, MARKET).of(workload)
    plans = enumerate_allowed_plans(search)

    def score(one_pool: float) -> float | None:
        found = better_split(search, plans, ANY, simulated_score=one_pool)
        return None if found is None else found[1].score

    best = present(score(np.inf))
    assert score(best / (1 - 1.5 * share)) == best and score(best / (1 - 0.5 * share)) is None
    assert better_split(search, plans, ANY, expected_score=best / 2) is None


def test_pairs_are_ranked_by_the_sums_of_both_pools_and_the_narrower_one() -> None:
    """Readers serve 3 x 10 and writers 2 x 20; both together cost 14 USD, take 12 accelerators and 9 kW."""
    reads: Any = row(
        fleet=row(replicas=col(3), accelerators=col(8)),
        capacity_per_s=col(10),
        e2e_p50_s=col(0.2),
        daily_usd_per_hour=col(10),
        daily=row(power_w=col(6000)),
        plans=row(offered=row(grid_g_per_kwh=col(40))),
    )
    writes: Any = row(
        fleet=row(replicas=col(2), accelerators=col(4)),
        capacity_per_s=col(20),
        e2e_p50_s=col(2.0),
        daily_usd_per_hour=col(4),
        daily=row(power_w=col(3000)),
        plans=row(offered=row(grid_g_per_kwh=col(400))),
    )
    workload, pair = at_rate(20.0), PoolPairs(reads, writes, (ANY, ANY))
    question = Question(workload)
    factor = question.assumptions.split_first_token_factor
    for transfer_s in (0.0, 0.5):
        found = pair.ranking_measures(question, workload, transfer_s)
        assert found.usd.tolist() == [14]
        assert found.latency_s.tolist() == pytest.approx([0.2 * factor + transfer_s + 2.0])
        assert found.throughput_per_accelerator.tolist() == pytest.approx([30 / 12])
        assert found.joules_per_unit.tolist() == pytest.approx([9000 / (10 * workload.tokens_per_request)])
        # 6 kW at 40 g/kWh and 3 kW at 400 g/kWh: 1.44 kg in an hour
        assert found.carbon_kg_per_unit == pytest.approx([1.44 / (10 * workload.tokens_per_request * 3600)])
    busy = pair.ranking_measures(question, at_rate(80.0))  # of a mean of 40, 30 are served
    assert busy.joules_per_unit.tolist() == pytest.approx([9000 / (30 * workload.tokens_per_request)])


def test_of_each_kind_of_plan_the_best_by_every_figure_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four accelerators, four engines and three formats, ten plans of each; the best ones found one by one."""
    draw = np.random.default_rng(11)
    count = 480
    kinds = np.array(list(product((0, 1, 2, 4), (0, 1, 2, 3), (0, 1, 15))) * 10)
    place = draw.integers(0, 2, count)
    figures = {name: draw.permutation(count) + 1.0 for name in ("usd", "power", "latency", "replicas", "rate", "cards")}
    figures["usd"] = np.ceil(figures["usd"] / 200)  # equally many machines
    each: Any = draw.permutation(count) + 1.0
    plans: Any = row(accelerator=kinds[:, 0], engine=kinds[:, 1], kv=kinds[:, 2])
    taken: list[int] = []
    options: Any = row(
        plans=plans,
        fleet=row(replicas=figures["replicas"], accelerators=figures["cards"]),
        capacity_per_s=figures["rate"],
        daily_usd_per_hour=figures["usd"],
        daily=row(power_w=figures["power"]),
        e2e_p50_s=figures["latency"],
        take=lambda rows: taken.extend(rows.tolist()),
    )
    monkeypatch.setattr(search_room, "machine_locations", lambda *_: place)
    leading_plans(options, SMALL, each)
    cards = figures["cards"] / (figures["replicas"] * figures["rate"])
    best = set()
    for kind in {(*k, p) for k, p in zip(map(tuple, kinds.tolist()), place.tolist(), strict=True)}:
        rows = [i for i in range(count) if (*kinds[i].tolist(), place[i]) == kind]
        for figure in (figures["usd"], figures["power"], figures["latency"], cards):
            best.add(min(rows, key=lambda i: (figure[i], each[i])))
    assert taken == sorted(best)


def test_writing_starts_after_reading_and_the_transfer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader's first token at the limit twice, and the transfer; the reader keeps what writing and it need."""
    workload = at_rate(100.0, slo=Slo(0.5, 0.02, 9.0, 95))
    search = Search.start(Question(workload), MARKET).of(workload)
    plans = enumerate_allowed_plans(search)
    pairs = present(rank_pairs(search, plans, ANY))
    pair = pairs.take(np.flatnonzero(pairs.reads.accelerator != pairs.writes.accelerator)[:1])
    parts: list[InferenceWorkload] = []
    pools: list[Options] = []

    def pool(of: Any, options: Any, *_: Any) -> Any:
        parts.append(of.workload)
        pools.append(options)
        return row(first_token_s=lambda _: 0.02, options=options)

    monkeypatch.setattr(search_room, "simulate_pool", pool)
    way = row(seconds=0.03, link="network", requests_per_s_capacity=1e9)
    monkeypatch.setattr(search_room, "pair_transfer", lambda *_: way)
    found, _ = search_room.simulate_pair(search, pair)
    assert found is not None
    later = search.question.assumptions.split_first_token_factor
    assert parts[0] == prefill_workload(workload, decode_reserve_s(workload) + 0.03, later)
    assert parts[1] == decode_workload(workload, later * 0.02 + 0.03)
    assert parts[1].slo.ttft_s == pytest.approx(0.5 - 2 * 0.02 - 0.03)
    for simulated, ranked in zip(pools, (pair.reads, pair.writes), strict=True):
        assert simulated.accelerator == ranked.accelerator
    reader = Deployment(MARKET.accelerators[int(pair.reads.accelerator[0])].slug, engine="vllm")
    assert pools[0].settings.max_sequences == max_concurrent_prompts(reader, MARKET)
    measured = PoolPairs(found.reads.options, found.writes.options, pair.plan_rows).ranking_measures(
        search.question, workload, 0.03
    )
    assert found.score == pytest.approx(float(objective_score(search.question.objective, measured)[0]))
    way.requests_per_s_capacity = 1.0
    assert search_room.simulate_pair(search, pair) == (None, 1)
    monkeypatch.setattr(search_room, "simulate_pool", lambda *_: None)
    assert search_room.simulate_pair(search, pair) == (None, 0)
    monkeypatch.setattr(
        search_room, "simulate_pool", lambda *at: pool(*at) if at[-1] is not DECODE_DEPLOYMENT else None
    )
    assert search_room.simulate_pair(search, pair) == (None, 1)


def test_a_queue_without_end_leaves_the_whole_limit_to_decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = SimulatedPool(STEADY, row(fleet=row(replicas=col(1))), row(curves=None))  # type: ignore[arg-type]
    for wait_s, counted in ((0.3, 0.3), (np.inf, 0.0)):
        monkeypatch.setattr(search_room, "waits_at", lambda *_, wait_s=wait_s: {"ttft_p95_s": col(wait_s)})
        assert pool.first_token_s(95) == counted


def rows_tried(
    monkeypatch: pytest.MonkeyPatch,
    pairs: list[dict[str, Any]],
    carries: tuple[bool, ...] | None = None,
    **limits: float,
) -> tuple[list[int], float | None]:
    """Pairs that are simulated, in order, and the simulated score of the best.

    A pair has its score by formulas, the accelerator types and plan rows of its pools, and its simulated score or the
    pool that cannot serve. `grew` is the pool that simulations make larger, `carries` says whose transfer carries the
    load.
    """
    tried: list[int] = []

    def columns(name: str) -> Any:
        return tuple(np.array([pair.get(name, (n, n))[side] for n, pair in enumerate(pairs)]) for side in (0, 1))

    def simulated(_: Any, number: Any) -> tuple[Any, int]:
        tried.append(int(number[0]))
        pair = pairs[tried[-1]]
        failed = pair.get("fails")
        return (row(score=pair.get("simulated", pair["score"])), 1) if failed is None else (None, failed)

    types, caches = columns("types"), np.array([pair.get("cache", 0) for pair in pairs])
    ranked = row(
        reads=row(accelerator=types[0]),
        writes=row(accelerator=types[1], plans=row(engine=np.zeros(len(pairs), np.int64), kv=caches)),
        plan_rows=columns("plans"),
        ranking_measures=lambda *_: None,
        take=lambda number: number,
    )
    monkeypatch.setattr(search_room, "rank_pairs", lambda *_: ranked)
    monkeypatch.setattr(search_room, "objective_score", lambda *_: np.array([pair["score"] for pair in pairs]))
    monkeypatch.setattr(search_room, "simulate_pair", simulated)
    monkeypatch.setattr(search_room, "pool_that_grew", lambda number, _: pairs[int(number[0])].get("grew", 0))
    monkeypatch.setattr(search_room, "pair_transfer", lambda _, number, __: carries is None or carries[int(number[0])])
    monkeypatch.setattr(search_room, "transfer_carries_load", lambda _, transfer: transfer)
    monkeypatch.setattr(search_room, "pair_estimate", lambda *_: None)
    every: Any = row(accelerator=np.concatenate(types))
    found = better_split(Search.start(Question(STEADY), SMALL).of(STEADY), every, ANY, **limits)
    return tried, None if found is None else found[1].score


def test_a_second_pair_is_simulated_for_other_types_with_a_close_score(monkeypatch: pytest.MonkeyPatch) -> None:
    close, far = 10.0 * MAX_CLOSE_RATIO, 10.1 * MAX_CLOSE_RATIO
    for score, types, follows in ((close, (1, 0), True), (far, (1, 0), False), (close, (0, 1), False)):
        second = {"score": score, "types": types, "simulated": 9.0}
        pairs = [{"score": 10.0, "types": (0, 1)}, second, {"score": 10.5, "types": (0, 1), "simulated": 1.0}]
        assert rows_tried(monkeypatch, pairs) == (([0, 1], 9.0) if follows else ([0], 10.0))


def test_a_pair_with_another_cache_follows_if_formulas_place_it_before_the_best(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = {"score": 10.0, "types": (0, 1), "simulated": 10.5}
    for score, cache, tried in ((10.4, 1, [0, 1]), (10.6, 1, [0]), (10.4, 0, [0])):
        second = {"score": score, "types": (0, 1), "cache": cache, "simulated": 10.4}
        # The last pair is too expensive to follow; its types complete the range.
        pairs = [first, second, {"score": 20.0, "types": (1, 1)}]
        assert rows_tried(monkeypatch, pairs)[0] == tried


def test_pairs_have_the_same_types_only_where_both_pools_have(monkeypatch: pytest.MonkeyPatch) -> None:
    every = list(product(range(3), repeat=2))
    for first, second in product(every, every):
        # The last pair is too expensive to follow; its types complete the range.
        pairs = [{"score": 1.0, "types": first}, {"score": 1.0, "types": second}, {"score": 2.0, "types": (2, 2)}]
        assert rows_tried(monkeypatch, pairs)[0] == ([0] if first == second else [0, 1]), (first, second)


@pytest.mark.parametrize(("fails", "next_pair"), [(0, 2), (1, 1)])
def test_pairs_with_a_pool_that_cannot_serve_are_not_simulated(
    monkeypatch: pytest.MonkeyPatch, fails: int, next_pair: int
) -> None:
    plans = ((5, 7), (5, 8), (6, 7), (6, 8))
    same: dict[str, Any] = {"types": (0, 0)}
    pairs = [{"score": 10.0 + n, "plans": plan, **same} for n, plan in enumerate(plans)]
    pairs[0]["fails"] = fails
    assert rows_tried(monkeypatch, pairs) == ([0, next_pair], 10.0 + next_pair)


def test_pools_that_simulations_find_too_expensive_leave_the_place_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pair costs more than the best single pool: a pair of the same types with other prefill plans follows."""
    pairs: list[dict[str, Any]] = [
        {"score": 10.0, "types": (0, 0), "plans": (0, 0), "simulated": 16.0},
        {"score": 10.1, "types": (0, 0), "plans": (0, 1), "simulated": 11.0},
        {"score": 10.2, "types": (0, 0), "plans": (1, 0), "simulated": 12.0},
    ]
    assert rows_tried(monkeypatch, pairs, simulated_score=15.0) == ([0, 2], 12.0)
    pairs[0]["grew"] = 1
    assert rows_tried(monkeypatch, pairs, simulated_score=15.0) == ([0, 1], 11.0)


def test_a_type_whose_pools_cannot_serve_leaves_the_place_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two pools of a type fail: its third one is not tried, and pairs of other types still are."""
    pairs: list[dict[str, Any]] = [
        *({"score": 10.0 + n, "types": (0, 0), "plans": (n, n), "fails": 0} for n in range(3)),
        {"score": 20.0, "types": (1, 0), "plans": (4, 1)},
        {"score": 21.0, "types": (1, 1), "plans": (4, 5), "simulated": 19.0},
    ]
    assert rows_tried(monkeypatch, pairs) == ([0, 1, 3, 4], 19.0)


def test_the_number_of_options_does_not_change_the_first_one(catalog: Catalog) -> None:
    """The best pools of a service need not be of the type that is best in one pool."""
    lengths = replace(CHAT.input_tokens, mean=8000.0, p95=8000.0), replace(CHAT.output_tokens, mean=300.0, p95=300.0)
    asked = replace(CHAT, model=LLAMA_70B, peak_per_s=20.0, average_per_s=20.0, slo=Slo(5.0, 0.03, None, 95.0))
    asked = replace(asked, input_tokens=lengths[0], output_tokens=lengths[1])
    one, five = (
        recommend_hardware(Question(asked, limit=limit), catalog).recommendations[0].estimate.deployment
        for limit in (1, 5)
    )
    assert one == five
    assert one.pools is not None


def test_the_first_of_equal_pairs_is_kept_and_must_be_better_than_what_it_replaces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pairs = [{"score": 10.0, "simulated": 9.0}, {"score": 10.0, "simulated": 9.0}]
    assert rows_tried(monkeypatch, pairs) == ([0, 1], 9.0)
    near_tie = 1 - Question(STEADY).assumptions.near_tie_share
    assert rows_tried(monkeypatch, pairs, simulated_score=9.0 / near_tie)[1] is None
    assert rows_tried(monkeypatch, pairs, simulated_score=9.1 / near_tie)[1] == 9.0
    assert rows_tried(monkeypatch, pairs, expected_score=10.0) == ([], None)
    assert rows_tried(monkeypatch, pairs, expected_score=10.1) == ([0, 1], 9.0)
    # Simulations find the single pool far worse than formulas: pairs that formulas place between the two may be better.
    assert rows_tried(monkeypatch, pairs, expected_score=10.0, simulated_score=11.0) == ([0, 1], 9.0)


def test_only_pairs_whose_transfer_carries_the_load_are_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [{"score": 10.0}, {"score": 10.1}, {"score": 10.2}]
    for carries in product((True, False), repeat=3):
        wanted = [n for n, carried in enumerate(carries) if carried][:MAX_SIMULATED_PAIRS]
        assert rows_tried(monkeypatch, pairs, carries)[0] == wanted
    ways = {True: LINK, False: replace(LINK, requests_per_s_capacity=1.0)}
    monkeypatch.undo()
    monkeypatch.setattr(search_room, "pair_transfer", lambda _, number, __: ways[bool(number[0] > 1)])
    open_pairs, listed = np.array([False, True, True, True]), SimpleNamespace(take=lambda rows: rows)
    assert next_row(Question(STEADY), STEADY, listed, open_pairs) == np.array([2])  # type: ignore[arg-type]
    assert open_pairs.tolist() == [False, False, True, True]


def test_a_transfer_carries_the_load_up_to_the_target_utilization() -> None:
    most = LINK.requests_per_s_capacity * STEADY.target_utilization
    assert transfer_carries_load(at_rate(most), LINK) and not transfer_carries_load(at_rate(1.001 * most), LINK)


def test_the_transfer_of_a_pair_has_the_replicas_of_each_pool_and_all_accelerators(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reads, writes = (
        row(plans=name, fleet=row(replicas=col(replicas), accelerators=col(count)))
        for name, replicas, count in (("prefill", 3, 8), ("decode", 2, 16))
    )
    given: list[Any] = []
    monkeypatch.setattr(search_room, "estimate_transfer", lambda *arguments: given.extend(arguments))
    question = Question(STEADY)
    pair_transfer(STEADY, row(reads=reads, writes=writes), question)  # type: ignore[arg-type]
    assert given == [STEADY, "prefill", "decode", (3.0, 2.0), 24.0, question.assumptions]


def test_locations_are_equal_where_provider_and_region_are() -> None:
    listings = MARKET.listings
    codes = machine_locations(row(offered=row(listing=np.arange(len(listings)))), MARKET)  # type: ignore[arg-type]
    offers = [None if offer < 0 else MARKET.offers[offer] for offer in listings.offer.tolist()]
    places = [None if offer is None else (offer.provider, offer.region) for offer in offers]
    assert len(set(places)) > 3 and None in places
    for (one, here), (other, there) in product(zip(codes, places, strict=True), repeat=2):
        assert (one == other) == (here == there)


def test_pools_are_compatible_with_one_engine_one_cache_format_and_one_location(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kinds = list(product((1, 2), (0, 3), (-1, 5)))
    engine, kv, place = (np.array(column) for column in zip(*kinds, strict=True))
    plans: Any = row(engine=engine, kv=kv)
    monkeypatch.setattr(search_room, "machine_locations", lambda *_: place)
    keys = pairing_keys(plans, SMALL)
    assert (keys[:, None] == keys).tolist() == np.eye(len(kinds), dtype=bool).tolist()


def test_plans_can_be_pools_on_their_engines_in_device_memory_with_a_known_network() -> None:
    able, unable = (SMALL.engines.index(name) for name in (DISAGGREGATING_ENGINES[0], "ollama"))
    kinds = list(product((able, unable), (False, True), (1e9, np.nan), (1, 2)))
    engine, offloads, network, accelerator = (np.array(column) for column in zip(*kinds, strict=True))
    plans: Any = row(
        engine=engine,
        offloads_weights=offloads,
        node=row(network_bytes_per_s=network),
        accelerator=accelerator,
        take=lambda rows: [kind for kind, taken in zip(kinds, rows, strict=True) if taken],
    )
    both = [(able, False, 1e9, 1), (able, False, 1e9, 2)]
    assert disaggregating_plans(plans, SMALL, ANY) == both  # type: ignore[comparison-overlap]
    assert disaggregating_plans(plans, SMALL, np.array([2])) == both[1:]  # type: ignore[comparison-overlap]


def test_decode_pools_of_vllm_have_one_stage() -> None:
    plans: Any = row(engine=np.arange(len(SMALL.engines)))
    one = requires_one_stage(plans, SMALL)
    assert [name for name, needs in zip(SMALL.engines, one, strict=True) if needs] == ["vllm"]


@pytest.mark.parametrize(("model", "splits"), [(MODEL, {1.0}), (LATENT, {1.0, 4.0, 8.0})], ids=["heads", "latents"])
def test_only_decode_pools_split_contexts_and_only_of_latents(
    monkeypatch: pytest.MonkeyPatch, model: Any, splits: set[float]
) -> None:
    workload = at_rate(100.0, model=model, slo=Slo(0.5, 0.02, None, 95))
    search = Search.start(Question(workload), MARKET).of(workload)
    plans = enumerate_allowed_plans(search)
    assert set(plans.context_parallel) > {1.0}
    pools: list[tuple[Any, set[float]]] = []

    def searched(at: Any, some: Any, **how: Any) -> Any:
        assert how.get("breaks_ties", True) == bool(pools)
        pools.append((at.workload, set(some.context_parallel)))
        return search_plans(at, some, **how)

    monkeypatch.setattr(search_room, "search_plans", searched)
    rank_pairs(search, plans, ANY)
    (writing, written), (_, reading) = pools
    assert (reading, written) == ({1.0}, splits)
    assert writing == decode_workload(workload, 0.0)


def test_prompts_are_read_in_what_the_decode_pool_leaves_and_no_pair_lacks_a_pool(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    workload = at_rate(100.0, slo=Slo(0.5, 0.02, None, 95))
    search = Search.start(Question(workload), MARKET).of(workload)
    plans = enumerate_allowed_plans(search)
    options = search_plans(search, plans)
    empty, parts = options.take(ANY), list[InferenceWorkload]()

    def pools_are(reads: Options, writes: Options) -> None:
        def reading(at: Any, _: Any) -> Options:
            parts.append(at.workload)
            return reads

        monkeypatch.setattr(search_room, "prefill_options", reading)
        monkeypatch.setattr(search_room, "search_plans", lambda *_, **__: writes)

    for both in ((options, empty), (empty, options), (empty, empty)):
        pools_are(*both)
        assert rank_pairs(search, plans, ANY) is None
    factor = search.question.assumptions.split_first_token_factor
    assert set(map(repr, parts)) == {repr(prefill_workload(workload, decode_reserve_s(workload), factor))}
    pools_are(options, options)
    for most in (4, 8, 16):
        limited = replace(search, question=Question(workload, Constraints(max_accelerators=most)))
        pairs = present(rank_pairs(limited, plans, ANY))
        assert (pairs.reads.fleet.accelerators + pairs.writes.fleet.accelerators <= most).all()


def test_plans_that_are_too_expensive_for_a_better_pair_are_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = at_rate(2.0, slo=Slo(0.5, 0.02, None, 95))
    question = Question(workload)
    search = Search.start(question, MARKET).of(workload)
    plans = enumerate_allowed_plans(search)
    searched: list[int] = []

    def counting(at: Any, some: Any, **how: Any) -> Any:
        searched.append(len(some))
        return search_plans(at, some, **how)

    def pairs_below(most_usd: float) -> list[float]:
        searched.clear()
        pairs = rank_pairs(search, plans, ANY, most_usd)
        if pairs is None:
            return []
        score = objective_score(question.objective, pairs.ranking_measures(question, workload))
        return [float(usd) for usd in score[score < most_usd]]

    monkeypatch.setattr(search_room, "search_plans", counting)
    every, whole = pairs_below(np.inf), list(searched)
    assert pairs_below(1.01 * every[0])[0] == every[0]
    assert all(some < of_all for some, of_all in zip(searched, whole, strict=True))
    assert not pairs_below(every[0] / 100) and not searched
    writes = search_plans(search.unrecorded().of(decode_workload(workload, 0.0)), plans, breaks_ties=False)
    least = least_usd_per_hour(workload, writes.plans)
    assert (least > 0).all() and (least <= writes.daily_usd_per_hour).all()


def test_prefill_pools_are_searched_only_where_a_pair_may_win(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = at_rate(2.0, slo=Slo(0.5, 0.02, None, 95))
    bounds, searched, ratios = list[float](), list[Any](), list[float]()

    def noting(function: Any, notes: list[Any]) -> Any:
        def call(*given: Any) -> Any:
            result = function(*given)
            notes.append(result)
            return result

        return call

    monkeypatch.setattr(search_room, "least_pair_score", noting(least_pair_score, bounds))
    monkeypatch.setattr(search_room, "prefill_options", noting(prefill_options, searched))
    for objective in set(Objective) - {Objective.CARBON}:
        search = Search.start(Question(workload, objective=objective), MARKET).of(workload)
        plans = enumerate_allowed_plans(search)
        pairs = present(rank_pairs(search, plans, ANY))
        assert searched.pop()
        score = objective_score(objective, pairs.ranking_measures(search.question, workload)).min()
        ratios.append(bounds[-1] / score)
        assert rank_pairs(search, plans, ANY, bounds[-1]) is None and not searched
    assert all(0.2 < ratio <= 1 for ratio in ratios)


def test_a_split_takes_attention_and_more_than_one_token() -> None:
    assert may_split(Question(STEADY), replace(STEADY, output_tokens=Lengths(2.0)))
    for changes in ({"output_tokens": Lengths(1.0)}, {"load": Load.CLOSED}, {"model": replace(MODEL, attention=())}):
        assert not may_split(Question(STEADY), replace(STEADY, **changes))
    assert may_split(Question(STEADY, Constraints(kv_formats=("fp8",))), STEADY)


def test_a_pool_is_simulated_where_its_replicas_have_capacity(monkeypatch: pytest.MonkeyPatch) -> None:
    search = Search.start(Question(STEADY), SMALL).of(STEADY)
    options: Any = row(plans="plans", settings="settings")
    monkeypatch.setattr(search_room, "size_fleet", lambda *_: "sized")
    for capacity, serves in ((None, False), (col(5), True), (col(0), False), (col(5, 0), False)):
        runs = None if capacity is None else row(capacity_at_confidence=lambda _, c=capacity: (c, c))
        monkeypatch.setattr(
            search_room, "simulate_replicas", lambda *_, runs=runs, extent: None if extent is Extent.WHOLE else runs
        )
        found: Any = simulate_pool(search, options)
        assert (found is not None) == serves
        assert found is None or (found.options, found.simulated) == ("sized", runs)


def test_what_a_request_fixes_of_a_scheduler_is_what_its_estimate_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    search = Search.start(Question(STEADY), SMALL).of(STEADY)
    fixed = present(DECODE_DEPLOYMENT.scheduler)
    chosen = replace(fixed, policy=None)
    runs: Any = row(with_whole_curves=lambda _, workload: ("whole", workload))
    options: Any = row(plans=None, settings=None)
    pool = SimulatedPool(STEADY, options, runs)
    for own, asked, shown in (
        (chosen, None, chosen),
        (chosen, DECODE_DEPLOYMENT, chosen.with_settings(fixed)),
        (None, DECODE_DEPLOYMENT, None),
        (None, None, None),
    ):
        made = pool_estimate(READS, deployment=Deployment("acme-big", scheduler=own))

        shown_runs: list[Any] = []

        def estimate(*_: Any, simulated_replicas: Any, made: Any = made, runs: list[Any] = shown_runs) -> Any:
            runs.append(simulated_replicas)
            return (made,)

        monkeypatch.setattr(search_room, "estimate_deployments", estimate)
        assert pool.build_estimate(search, asked).deployment.scheduler == shown
        assert shown_runs == [("whole", STEADY)]


def test_what_a_split_states_is_what_asking_for_it_gives() -> None:
    workload = ROUNDS[1]
    search = Search.start(Question(workload), MARKET).of(workload)
    found = present(better_split(search, enumerate_allowed_plans(search), ANY))
    asked = estimate_deployment(Question(workload), found[0].deployment, MARKET)
    assert asked.deployment == found[0].deployment
    assert asked.performance == found[0].performance and asked.cost == found[0].cost


@pytest.mark.parametrize(
    ("tokenise_token_s", "every"), [(2e-6, False), (1e-3, True)], ids=["accelerators", "tokenizer"]
)
def test_readers_carry_the_load_at_which_as_many_are_late_as_may_be(tokenise_token_s: float, every: bool) -> None:
    """The slower of accelerators and tokenizer serves; a long prompt leaves the wait the rest of the limit."""
    prompts = Lengths(800.0, 1200.0)
    workload = replace(
        prefill_workload(at_rate(400.0, input_tokens=prompts, max_context_tokens=6000.0), 0.0, 1.0),
        slo=Slo(None, None, None, 95),
        burstiness=1.5,
        router=Router.RANDOM,
        target_utilization=1.0,
    )
    catalog = snapshot(systems=(*SYSTEMS[:2], WIRED), tokenise_token_s=tokenise_token_s)
    search = Search.start(Question(workload), catalog).of(workload)
    plans = enumerate_allowed_plans(search)
    free = search_plans(search, plans)
    assert prefill_options(search, plans).capacity_per_s.tolist() == free.capacity_per_s.tolist()
    margins = confidence_margins(search, free.plans)
    assert (margins.rate != 1).all() and (margins.ttft != 1).all()
    service_s = np.maximum(1 / (free.capacity_per_s * margins.rate), 800.0 * tokenise_token_s)
    alone_s = service_s * workload.long_prompt(95) / 800.0
    # Prompts that take the limit alone have no place in any queue.
    needed_s = alone_s * margins.ttft
    ttft_s = 2 * needed_s.max() if every else (needed_s.min() + needed_s.max()) / 2
    able = np.flatnonzero(needed_s < ttft_s)
    assert (len(able) == len(free)) == every
    limited = search.of(replace(workload, slo=Slo(float(ttft_s), None, None, 95)))
    found = prefill_options(limited, plans)
    assert found.accelerator.tolist() == free.accelerator[able].tolist()
    wait_s, served_s = ttft_s / margins.ttft[able] - alone_s[able], service_s[able]
    load = found.capacity_per_s * (served_s * margins.rate[able])
    variation = 1.5**2 + prompts.squared_variation
    assert late_share(load, wait_s, served_s, variation) == pytest.approx([0.05] * len(able), rel=1e-3)
    most = int(found.fleet.accelerators.min())
    few = prefill_options(replace(limited, question=Question(workload, Constraints(max_accelerators=most))), plans)
    assert len(few) < len(found) and set(few.fleet.accelerators) == {most}


@pytest.mark.parametrize("limit", RESOURCE_LIMITS, ids=lambda limit: limit.name)
def test_a_pair_needs_the_sum_of_what_its_pools_need(limit: Any) -> None:
    """Prefill needs 10, 20 and so on of each resource, and decode a tenth of that."""
    names = ("usd_per_hour", "purchase_usd", "power_w", "rated_w", "tco_usd", "carbon_kg")

    def pool(each: float) -> Any:
        cost = Cost(*(col(each * (n + 1)) for n in range(len(names))))
        return row(accelerator=np.zeros(1, np.int64), cost=cost, fleet=row(accelerators=col(each)))

    pair = PoolPairs(pool(10.0), pool(1.0), (ANY, ANY))
    needed = float(limit.needed(col(11.0), Cost(*(col(11.0 * (n + 1)) for n in range(len(names)))))[0])
    for most, within in ((needed, True), (needed - 0.5, False)):
        question = Question(STEADY, Constraints(**{limit.field: most * limit.per_unit}))
        assert pair.within_constraints(Search.start(question, SMALL)).tolist() == [within]
