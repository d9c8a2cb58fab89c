"""The daily profile of recommendations and estimates; workloads without hourly shares have none. The estimate of a
service: its deployment, and sentences whose numbers are the tables' own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.sizing.answer.passes import PassAnswerWriter
from app.sizing.answer.serving import (
    answer_writer,
    bottleneck_reason,
    fleet_reasons,
    limit_reasons,
    out_of_memory_reason,
)
from app.sizing.answer.streams import TokenAnswerWriter
from app.sizing.assumptions import Assumptions
from app.sizing.columns import GIB
from app.sizing.estimate import estimate_deployment
from app.sizing.question import Constraints, Deployment, Question
from app.sizing.recommend import recommend_hardware
from app.sizing.snapshot import Catalog
from app.sizing.workload import Lengths, Load, Redundancy, Slo, smooth_day
from tests.examples import CHAT, LLAMA_70B, col, present, registered, row
from tests.sizing.answer.given import DEPLOYMENT
from tests.sizing.small import SMALL

DAILY = replace(CHAT, peak_per_s=60.0, average_per_s=20.0, hourly_shares=smooth_day(3.0, Assumptions()))


def test_the_first_recommendation_has_a_day_and_posted_back_it_is_the_same(catalog: Catalog) -> None:
    question = Question(DAILY)
    first, *others = recommend_hardware(question, catalog).recommendations
    day = present(first.estimate.day)
    assert all(other.estimate.day is None for other in others)
    assert estimate_deployment(question, first.estimate.deployment, catalog).day == day
    placed = (first.estimate.deployment.replicas or 0) + (first.estimate.deployment.spare_replicas or 0)
    assert max(hour.replicas for hour in day.hours) == placed
    assert day.fixed.replica_hours == placed * 24
    assert first.estimate.cost is not None
    assert first.estimate.cost.peak_usd_per_hour is not None
    assert day.fixed.usd_per_day == pytest.approx(first.estimate.cost.peak_usd_per_hour * 24)


def test_without_hours_there_is_no_day_and_with_them_the_cheapest_day_is_first(catalog: Catalog) -> None:
    plain, daily = (recommend_hardware(Question(w), catalog) for w in (replace(DAILY, hourly_shares=()), DAILY))
    assert plain.recommendations[0].estimate.day is None
    costs = [r.estimate.cost for r in daily.recommendations]
    days = [cost.usd_per_day for cost in costs if cost is not None and cost.usd_per_day is not None]
    assert len(days) == len(daily.recommendations)
    assert days == sorted(days)
    assert daily.recommendations[0].estimate.day is not None
    assert daily.recommendations[0].estimate.day.autoscaled.usd_per_day == pytest.approx(days[0])


def test_failures_are_shown_for_the_deployed_fleet(catalog: Catalog) -> None:
    """Without redundancy a lost zone leaves half of two; waits are those of the simulated load curve."""
    workload = replace(DAILY, redundancy=Redundancy(zones=2))
    (first, *_) = recommend_hardware(Question(workload), catalog).recommendations
    day = present(first.estimate.day)
    assert [failure.what for failure in day.failures] == ["replica", "machine", "zone"]
    lost = [failure.lost_replicas for failure in day.failures]
    assert lost == sorted(lost)
    assert lost[2] >= (first.estimate.deployment.replicas or 0) // 2
    assert all(failure.minutes[0].ttft_p95_s is not None for failure in day.failures)
    whole = present(first.estimate.performance)
    assert whole.ttft is not None
    assert day.failures[0].minutes[-1].ttft_p95_s == pytest.approx(whole.ttft.p95_s, rel=0.1)


def test_each_kind_of_serving_has_its_words() -> None:
    assert isinstance(answer_writer(CHAT), TokenAnswerWriter)
    assert isinstance(answer_writer(replace(CHAT, model=registered("google/vit-base-patch16-224"))), PassAnswerWriter)


def test_a_bottleneck_shows_its_share_of_a_step() -> None:
    shares = {"compute": 1.0, "memory_bandwidth": 6.0, "interconnect": 2.0, "host": 1.0}
    found = bottleneck_reason("memory_bandwidth", shares)
    assert found.text == "Bottleneck: memory bandwidth (60 % of each step)."
    assert found.value == pytest.approx(0.6)
    assert "of each step" not in bottleneck_reason("memory_capacity", shares).text


@pytest.mark.parametrize(("percentile", "shown", "ms"), [(50, 50, 200), (90, 95, 400), (95, 95, 400), (99, 99, 800)])
def test_a_limit_is_held_against_the_percentile_next_above(percentile: float, shown: int, ms: int) -> None:
    judged: Any = row(
        operation=row(
            **{f"{q}_p{p}_s": col(v) for q in ("ttft", "tpot", "e2e") for p, v in ((50, 0.2), (95, 0.4), (99, 0.8))}
        )
    )
    (found,) = limit_reasons(replace(CHAT, slo=Slo(1.6, None, None, percentile)), judged, 0)
    limit = "1,600 ms" if percentile == shown else f"1,600 ms at p{percentile:g}"
    assert found.text == f"p{shown} TTFT is {ms} ms (limit {limit})."
    assert found.code == "ttft_ms"
    assert found.value == pytest.approx(ms)
    endless: Any = row(operation=row(ttft_p95_s=col(float("inf")), tpot_p95_s=col(0.1), e2e_p95_s=col(1.0)))
    assert limit_reasons(replace(CHAT, slo=Slo(1.6, None, None, 95)), endless, 0) == []


def fleet(workload: Any, used: float = 0.55, **deployment: Any) -> list[str]:
    d = replace(DEPLOYMENT, **deployment)
    judged: Any = row(
        operation=row(utilization=col(used), overloaded=col(used) > 1),
        plans=row(
            accelerators_per_node=col(8.0),
            nodes_per_replica=col(1.0),
            accelerators_per_replica=col(2.0),
            scale_up_domain=col(8.0),
        ),
        speed=row(slo_batch=col(20)),
        options=row(fleet=row(replicas=col(d.replicas or 1)), capacity_per_s=col(1.25)),
    )
    return [r.text for r in fleet_reasons(workload, judged, 0, d, "Acme Big", 0.8)]


def test_how_full_replicas_are_and_what_stays_idle() -> None:
    # 3 replicas and a spare of 2 fill the machine of 8; without the spare two stand idle
    assert fleet(CHAT) == [
        "At peak the 3 replicas are 55 % busy; 1 spare. With 80 % confidence, the limits hold and the load is at most "
        "70 % of the saturation rate, above which queues never empty."
    ]
    assert fleet(CHAT, spare_replicas=0)[1] == (
        "2 of the 8 accelerators you pay for stay idle, because each machine has 8 × Acme Big."
    )
    owned = fleet(CHAT, spare_replicas=0, provider="inventory")[1]
    assert owned == "2 of your 8 accelerators stay idle, because each machine has 8 × Acme Big."
    assert fleet(replace(CHAT, load=Load.OFFLINE)) == []
    assert fleet(CHAT, replicas=1)[0].startswith("At peak the replica is 55 % busy")
    assert fleet(CHAT, replicas=1, used=0.002)[0].startswith("At peak the replica is less than 1 % busy")


def test_an_overload_states_the_served_share_of_the_load() -> None:
    assert fleet(CHAT, used=1.33)[0] == "3 replicas can serve 3.75 of the 5 requests/s within the limits."
    closed = replace(CHAT, load=Load.CLOSED, in_flight=70.0)
    assert fleet(closed, used=1.2)[0] == "3 replicas can serve 60 of the 70 concurrent requests within the limits."
    assert fleet(closed) == []


def test_by_how_much_a_plan_does_not_fit() -> None:
    judged: Any = row(memory=row(needed_bytes=col(100 * GIB), usable_bytes=col(72 * GIB)))
    found = out_of_memory_reason(judged, 0)
    assert found.text == "The model does not fit: each accelerator needs 100.0 GiB but has 72.0 GiB usable."
    assert found.value == pytest.approx(100.0)


def test_an_estimate_is_complete_and_posted_back_gives_itself() -> None:
    found = estimate_deployment(
        Question(CHAT), Deployment("acme-big", system="big-8", provider="sky", region="us-1"), SMALL
    )
    d = found.deployment
    assert found.fits
    assert (d.system, d.provider, d.region, d.instance_type, d.engine) == ("big-8", "sky", "us-1", "big-8", "vllm")
    assert (d.accelerators_per_replica or 0) == (d.tensor_parallel or 0) * (d.pipeline_parallel or 0)
    assert d.total_accelerators == 8 * (d.nodes or 0)
    assert [r.code for r in found.explanation][:2] == ["memory", "bottleneck"]
    assert [r.code for r in found.explanation][-2:] == ["price", "bill"]
    again = estimate_deployment(Question(CHAT), d, SMALL)
    assert (again.deployment, again.memory, again.performance, again.cost) == (
        d,
        found.memory,
        found.performance,
        found.cost,
    )


def test_what_does_not_fit_has_no_speed_and_no_price() -> None:
    asked = Deployment("acme-card", tensor_parallel=1, pipeline_parallel=1, weight_format="bf16", engine="vllm")
    found = estimate_deployment(Question(replace(CHAT, model=LLAMA_70B)), asked, SMALL)
    assert (found.fits, found.performance, found.cost, found.bottleneck) == (False, None, None, "memory_capacity")
    # 141 GB of weights against 24 GiB
    assert found.explanation[0].value == pytest.approx(131.4, rel=0.05)


def test_the_bottleneck_names_prefill_where_it_takes_most_of_the_compute() -> None:
    shares = {"compute": 0.6, "memory_bandwidth": 0.1, "interconnect": 0.1, "host": 0.2}
    assert (
        "prefill of prompts (compute) (60 % of each step)" in bottleneck_reason("compute", shares, prefill_s=0.5).text
    )
    assert bottleneck_reason("compute", shares, prefill_s=0.2).text == "Bottleneck: compute (60 % of each step)."
    assert "prefill" not in bottleneck_reason("host", shares, prefill_s=0.5).text


def test_long_prompts_are_not_bound_by_the_host(catalog: Catalog) -> None:
    """At one request at a time a decode step waits for the host, but prompts of 100,000 tokens take longer."""
    long = replace(
        CHAT,
        model=LLAMA_70B,
        peak_per_s=0.5,
        average_per_s=0.5,
        input_tokens=Lengths(100_000, 128_000),
        output_tokens=Lengths(500, 1000),
        max_context_tokens=129_000,
        slo=Slo(20.0, 0.06, None, 95),
    )
    for ranked in recommend_hardware(Question(long, limit=2), catalog).recommendations:
        reasons = {reason.code: reason for reason in ranked.estimate.explanation}
        assert "prefill" in reasons["bottleneck"].text, ranked.accelerator.name


def test_processors_are_counted_as_processors(catalog: Catalog) -> None:
    busy = replace(CHAT, model=LLAMA_70B, slo=Slo(0.1, 0.01, None, 95))
    answer = recommend_hardware(Question(busy, Constraints(segments=("cpu",)), rejected_limit=200), catalog)
    counted = [r for r in answer.rejected if r.unit == "ms"]
    assert counted and all("CPU" in r.text and " accelerator" not in r.text for r in counted)
