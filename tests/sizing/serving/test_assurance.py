"""How sure a service is: what it was sized for holds with what was asked, and more confidence never takes less."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.sizing.estimate import estimate_deployment
from app.sizing.model.formats import WEIGHT_FORMATS
from app.sizing.question import Constraints, Deployment, Question
from app.sizing.recommend import recommend_hardware
from app.sizing.result import BillFactor, Estimate, Level, Ranked
from app.sizing.serving.assurance import has_speed_limits, log_slack, success_probability
from app.sizing.serving.margins import Margins
from app.sizing.snapshot import Catalog
from app.sizing.uncertainty import NORMAL
from app.sizing.workload import InferenceWorkload, Load, Redundancy, Slo
from tests.examples import CHAT, LLAMA_70B, col, row
from tests.sizing.serving.given import STEADY, varied
from tests.sizing.test_properties import WORKLOADS, cheapest

CONFIDENCES = st.floats(0.5, 0.95)
STANDING = np.array([NORMAL.inv_cdf(c) for c in (0.5, 0.8, 0.9)])


def asked(workload: InferenceWorkload, confidence: float, limit: int = 3) -> Question:
    return Question(workload, Constraints(confidence=confidence), limit=limit)


@pytest.mark.parametrize(
    ("slack", "probability"),
    [
        ((0.3, 0.1, -0.1), NORMAL.cdf((STANDING[1] + STANDING[2]) / 2)),  # runs out half way from 80 to 90 %
        ((0.1, 0.0, -0.1), 0.8),
        ((0.2, -0.2, 0.3), NORMAL.cdf(STANDING[1] / 2)),  # what has run out stays out
        ((0.5, 0.4, 0.4), 0.999),  # nothing more is lost: nothing is surer
        ((0.0, 0.0, 0.0), 0.9),
        ((-9.0, -9.0, -9.0), 0.001),
        ((-0.1, -0.2, -0.3), NORMAL.cdf(-STANDING[1])),  # the line goes on below
    ],
)
def test_surety_is_where_slack_runs_out(slack: tuple[float, ...], probability: float) -> None:
    assert success_probability(STANDING, np.array([slack]).T) == pytest.approx([probability], abs=1e-3)


def test_each_column_runs_out_by_itself() -> None:
    slack = np.array([[0.3, 0.3], [0.1, -0.1], [-0.1, -0.3]])
    one, two = success_probability(STANDING, slack)
    assert one > 0.8 > two > 0.5


def test_slack_is_of_what_falls_shortest() -> None:
    """Ten requests a second asked of two replicas of eight each; a token may take 30 ms and takes 25."""
    first = row(
        margins=Margins.without_margin(1),
        fastest_tpot_s=col(0.025),
        tpot_limit_s=col(0.030),
        fastest_ttft_s=col(0.1),
        ttft_limit_s=col(np.inf),
    )
    speed: Any = row(unloaded=first, capacity_per_s=col(8), slo_batch=col(20))
    start = col(100)
    assert log_slack(STEADY, speed, col(2), start).tolist() == pytest.approx([np.log(1.2)])
    assert log_slack(STEADY, speed, col(1), start).tolist() == pytest.approx([np.log(0.8)])
    closed = varied(load=Load.CLOSED, in_flight=36.0)
    assert log_slack(closed, speed, col(2), start).tolist() == pytest.approx([np.log(20 / 18)])
    alone = varied(load=Load.CLOSED, in_flight=2.0)  # one on each
    assert log_slack(alone, speed, col(2), start).tolist() == pytest.approx([np.log(1.2)])
    # a single request meets its limits whatever the batch that does
    short: Any = row(unloaded=first, capacity_per_s=col(8), slo_batch=col(0.5))
    assert log_slack(alone, short, col(2), start).tolist() == pytest.approx([np.log(1.2)])
    assert log_slack(closed, short, col(2), start)[0] < 0
    assert log_slack(varied(load=Load.OFFLINE), speed, col(2), start).tolist() == [0]
    # 16,000 over two of eight a second are 1,000 s, of 1,100 after the start
    volume = varied(load=Load.OFFLINE, volume_requests=16_000.0, deadline_s=1_200.0)
    assert log_slack(volume, speed, col(2), start).tolist() == pytest.approx([np.log(1.1)])
    assert log_slack(replace(volume, deadline_s=None), speed, col(2), start).tolist() == [0]
    assert log_slack(replace(volume, deadline_s=90.0), speed, col(2), start)[0] < -9


def test_speed_is_asked_for_by_a_rate_or_by_limits() -> None:
    quick = Slo(None, 0.05, None, 95)
    assert has_speed_limits(STEADY)
    assert has_speed_limits(varied(load=Load.CLOSED, slo=quick))
    assert not has_speed_limits(varied(load=Load.CLOSED))
    assert not has_speed_limits(varied(load=Load.OFFLINE, slo=quick))


def test_what_was_sized_holds_with_the_confidence_asked_for(catalog: Catalog) -> None:
    for confidence in (0.5, 0.8, 0.87):
        for ranked in recommend_hardware(
            asked(replace(CHAT, model=LLAMA_70B), confidence, limit=20), catalog
        ).recommendations:
            found = ranked.estimate.assurance
            assert found is not None
            assert found.asked == confidence
            assert (found.meets_slo or 0) >= confidence - 1e-9
            assert found.fits >= confidence - 1e-9
            assert found.meets_deadline is None
            levels = {level.confidence: level for level in found.by_level}
            shown = {0.5, 0.8, 0.9, 0.95, confidence}
            assert set(levels) == shown if ranked.rank == 1 else {confidence} <= set(levels) <= shown
            assert levels[confidence].total_accelerators == ranked.estimate.deployment.total_accelerators
            assert ranked.estimate.cost is not None
            assert levels[confidence].usd_per_hour == pytest.approx(ranked.estimate.cost.usd_per_hour)


RATES = (0.7, 6.0, 14.0)


@pytest.mark.parametrize("peak_per_s", RATES)
def test_each_level_needs_what_the_deployment_needs_at_that_confidence(catalog: Catalog, peak_per_s: float) -> None:
    workload = replace(CHAT, model=LLAMA_70B, peak_per_s=peak_per_s, redundancy=Redundancy(spare=1))
    first = recommend_hardware(asked(workload, 0.8), catalog).recommendations[0].estimate
    for level in own_levels(first).values():
        fixed = replace(first.deployment, replicas=None, spare_replicas=None, total_accelerators=None, nodes=None)
        again = estimate_deployment(asked(workload, level.confidence), fixed, catalog)
        assert again.assurance is not None
        if level.total_accelerators is None:
            assert (again.assurance.meets_slo or 0) < level.confidence
            continue
        assert again.deployment.total_accelerators == level.total_accelerators
        assert (again.assurance.meets_slo or 0) >= level.confidence - 1e-6


@pytest.mark.slow
@given(WORKLOADS, st.sampled_from(["nvidia-h100-sxm5-80gb", "nvidia-l40s", "amd-mi300x"]))
def test_what_an_estimate_leaves_open_is_sized_for_the_confidence_where_any_size_holds_with_it(
    catalog: Catalog, workload: InferenceWorkload, accelerator: str
) -> None:
    fixed = Deployment(accelerator, engine="vllm", tensor_parallel=8, pipeline_parallel=1, weight_format="bf16")
    found = [estimate_deployment(asked(workload, c), fixed, catalog) for c in (0.5, 0.7, 0.8, 0.95)]
    replicas = []
    for one in found:
        assert one.assurance is not None
        (level,) = (n for n in one.assurance.by_level if n.confidence == one.assurance.asked)
        if level.total_accelerators is None:  # no number is enough: sized for the median, or for the load alone
            assert (one.deployment.replicas or 0) >= 1
            assert (one.assurance.meets_slo or 0) < one.assurance.asked
        else:
            assert one.deployment.total_accelerators == level.total_accelerators
            replicas.append(one.deployment.replicas or 0)
    # the largest batch follows the confidence, and the simulation of each has its own noise
    assert all(more >= 0.9 * less - 1 for less, more in pairwise(replicas))


@pytest.mark.parametrize("confidence", [0.5, 0.7, 0.95])
def test_levels_of_machines_of_any_size_never_cost_less_with_more_confidence(
    catalog: Catalog, confidence: float
) -> None:
    """Machines of eight are paid whole, and other options of single ones may cost less at some levels."""
    workload = replace(CHAT, model=LLAMA_70B, peak_per_s=40.0)
    first = recommend_hardware(asked(workload, confidence, limit=5), catalog).recommendations[0].estimate
    assert first.assurance is not None
    costs = [level.cost for level in first.assurance.by_level]
    assert costs == sorted(costs)


@pytest.mark.slow
@given(WORKLOADS, CONFIDENCES, CONFIDENCES)
def test_more_confidence_never_costs_less(
    catalog: Catalog, workload: InferenceWorkload, one: float, other: float
) -> None:
    """But for the largest batch, which formulas set by the confidence before the number is simulated."""
    low, high = sorted((one, other))
    less, more = (cheapest(recommend_hardware(asked(workload, c, limit=1), catalog)) for c in (low, high))
    assert more >= less * 0.7


def test_a_bill_names_no_limit_that_no_simulated_load_reaches(catalog: Catalog) -> None:
    """One user of a small model: TPOT stays far below its limit with all the requests that were simulated."""
    alone = replace(CHAT, load=Load.CLOSED, in_flight=1.0, peak_per_s=0.0, slo=Slo(10.0, 0.2, None, 95.0))
    question = asked(alone, 0.8, limit=1)
    question = replace(question, constraints=replace(question.constraints, accelerators=("nvidia-l40s",)))
    (ranked,) = recommend_hardware(question, catalog).recommendations
    assert ranked.estimate.assurance is not None
    assert BillFactor.LIMITS not in {line.factor for line in ranked.estimate.assurance.bill}


def test_a_bill_and_the_levels_agree_on_what_the_median_prediction_needs(catalog: Catalog) -> None:
    """Near a latency limit, a confidence decides how many sequences a replica runs at the same time."""
    near = replace(
        CHAT,
        model=LLAMA_70B,
        load=Load.CLOSED,
        in_flight=100.0,
        peak_per_s=0.0,
        average_per_s=0.0,
        input_tokens=replace(CHAT.input_tokens, mean=2000.0, p95=2000.0),
        output_tokens=replace(CHAT.output_tokens, mean=400.0, p95=400.0),
        slo=Slo(2.0, 0.06, None, 95.0),
    )
    question = asked(near, 0.8, limit=1)
    question = replace(question, constraints=replace(question.constraints, accelerators=("nvidia-l40s",)))
    (ranked,) = recommend_hardware(question, catalog).recommendations
    assert ranked.estimate.assurance is not None
    bill = {line.factor: line for line in ranked.estimate.assurance.bill}
    each, likely = ranked.estimate.deployment.accelerators_per_replica or 1, own_levels(ranked.estimate)[0.5]
    before = bill.get(BillFactor.LIMITS, bill[BillFactor.PREDICTED]).total_accelerators
    assert bill[BillFactor.CONFIDENCE].multiplier > 1.4
    assert before <= (likely.total_accelerators or 0) <= before + 2 * each
    assert math.prod(line.multiplier for line in bill.values()) * bill[BillFactor.PREDICTED].total_accelerators == (
        pytest.approx(ranked.estimate.deployment.total_accelerators)
    )


POOL_NOISE = 0.04  # what the simulations of two pools of the same replicas may differ in probability


def own_levels(found: Estimate) -> dict[float, Level]:
    """The levels that the deployment itself serves, or no number of it."""
    assert found.assurance is not None
    return {level.confidence: level for level in found.assurance.by_level if level.deployment is None}


def sized(found: Estimate) -> list[float]:
    return [level.total_accelerators or float("inf") for level in own_levels(found).values()]


@pytest.mark.slow
@settings(max_examples=6)
@given(WORKLOADS, CONFIDENCES)
def test_a_deployment_is_as_sure_as_it_was_sized_for_and_posted_back_says_the_same(
    catalog: Catalog, workload: InferenceWorkload, confidence: float
) -> None:
    for ranked in recommend_hardware(asked(workload, confidence), catalog).recommendations:
        found = ranked.estimate
        assert found.assurance is not None
        assert (found.assurance.meets_slo or 0) >= confidence - 1e-6
        assert found.assurance.fits >= confidence - 1e-6
        assert all(b >= a for a, b in pairwise(sized(found)))
        again = estimate_deployment(asked(workload, confidence), found.deployment, catalog)
        assert again.assurance is not None
        if found.deployment.pools is not None:  # levels are sums of two pools, which neither distinguishes
            assert again.assurance.meets_slo == pytest.approx(found.assurance.meets_slo, rel=1e-9)
            continue
        served = {level.confidence: level for level in again.assurance.by_level}
        assert {c: served[c] for c in own_levels(found)} == own_levels(found)
        for level in found.assurance.by_level:  # another deployment is named where it costs less
            if level.deployment is not None:
                assert level.confidence != confidence and level.cost < served[level.confidence].cost
        assert again.assurance.meets_slo == pytest.approx(found.assurance.meets_slo, rel=1e-12)
        # what a level takes carries the load with that confidence
        for level in own_levels(found).values():
            if level.total_accelerators is not None and level.confidence >= confidence:
                replicas = level.total_accelerators // (found.deployment.accelerators_per_replica or 1)
                spare = workload.redundancy.spare
                larger = replace(found.deployment, replicas=replicas - spare, total_accelerators=None, nodes=None)
                carried = estimate_deployment(asked(workload, level.confidence), larger, catalog).assurance
                assert carried is not None
                # The replicas that fill the machines are a pool of another size, which is drawn anew.
                drawn_anew = replicas - spare != found.deployment.replicas
                assert (carried.meets_slo or 0) >= level.confidence - (POOL_NOISE if drawn_anew else 1e-6)


def weights_read_s(workload: InferenceWorkload, ranked: Ranked) -> float:
    """Seconds of one device to read its share of the layers' weights."""
    deployment = ranked.estimate.deployment
    stored = WEIGHT_FORMATS[deployment.weight_format or ""]
    streamed = workload.model.weights_bytes(stored) - workload.model.idle_bytes(stored)
    return streamed / (deployment.tensor_parallel or 1) / (ranked.accelerator.memory_bytes_per_s or np.inf)


@pytest.mark.slow
@given(WORKLOADS, st.sampled_from(Load), st.integers(1, 200))
def test_intervals_contain_the_prediction_and_stay_inside_physics(
    catalog: Catalog, workload: InferenceWorkload, load: Load, in_flight: int
) -> None:
    """A token takes at least the reading of the weights, and no rate is above what the matrices multiply."""
    workload = replace(workload, load=load, in_flight=float(in_flight))
    if load is not Load.OPEN:
        workload = replace(workload, peak_per_s=0.0, average_per_s=0.0, target_utilization=1.0)
    for ranked in recommend_hardware(asked(workload, 0.8), catalog).recommendations:
        found = ranked.estimate.performance
        assert found is not None
        assert found.interval.low <= (found.output_tokens_per_s or 0) <= found.interval.high
        waits = {f"{n}_s": p for n in ("tpot", "ttft", "e2e") if (p := getattr(found, n)) is not None}
        for interval in found.intervals:
            if interval.quantity in waits:
                point = getattr(waits[interval.quantity], f"{interval.statistic}_s") or 0
                assert interval.low <= point * (1 + 1e-9)
                assert point <= interval.high * (1 + 1e-9)
            assert 0 < interval.low <= interval.high
            if interval.quantity == "tpot_s" and ranked.estimate.deployment.pools is None:
                assert interval.low >= weights_read_s(workload, ranked) * (1 - 1e-9)
        rates = ranked.accelerator.flops_per_s.values()
        sent = 2 * workload.model.matmul_params * found.interval.high
        assert sent <= max(rates) * (ranked.estimate.deployment.total_accelerators or 0)


def test_many_times_the_replicas_are_no_answer(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a tight limit leaves replicas little to do, no number of them is shown."""
    question = asked(replace(CHAT, model=LLAMA_70B, slo=Slo(0.6, 0.05, None, 95)), 0.5, limit=12)
    deployments = [r.estimate.deployment for r in recommend_hardware(question, catalog).recommendations]
    monkeypatch.setattr("app.sizing.serving.assurance.MOST_TIMES", 2.0)

    def levels() -> list[tuple[int | None, ...]]:
        found = [estimate_deployment(question, deployment, catalog).assurance for deployment in deployments]
        return [tuple(level.total_accelerators for level in a.by_level) for a in found if a is not None]

    shown = levels()
    monkeypatch.setattr("app.sizing.serving.assurance.MOST_TIMES", np.inf)
    for capped, whole in zip(shown, levels(), strict=True):
        most = 2 * (whole[0] or 0)
        assert capped == tuple(n if n is not None and n <= most else None for n in whole)
    assert [capped for capped in shown if None in capped] != [whole for whole in levels() if None in whole]
