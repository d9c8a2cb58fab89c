"""Each observed value is judged, or it stands among those that are not judged; health says nothing about the latter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from functools import cache
from typing import Any

import pytest

from app.sizing.diagnosis import case
from app.sizing.diagnosis.case import (
    Case,
    DevicesObservation,
    LoadObservation,
    MemoryObservation,
    Observations,
    ScalePoint,
    ServiceObservation,
    TrainingObservation,
    build_case,
)
from app.sizing.diagnosis.coverage import LOWER_IS_WORSE, expected_values, unjudged_quantities
from app.sizing.diagnosis.diagnose import Diagnosis, diagnose
from app.sizing.estimate import estimate_deployment
from app.sizing.question import Deployment, Question
from app.sizing.result import Estimate
from app.sizing.snapshot import Catalog
from app.sizing.workload import Slo
from tests.examples import PRETRAIN, present
from tests.sizing.compare.given import HEAVY
from tests.sizing.diagnosis.given import (
    PLANNED_RUN,
    PLANNED_SERVICE,
    RUNS,
    SERVES,
    case_by_hand,
    expected,
    run,
    service,
)
from tests.sizing.small import SMALL

KINDS: dict[str, Any] = {
    "service": ServiceObservation,
    "training": TrainingObservation,
    "devices": DevicesObservation,
    "memory": MemoryObservation,
}
LISTS = {
    "by_load": (LoadObservation(3.0, ttft_p95_s=100.0), LoadObservation(6.0, ttft_p95_s=200.0)),
    "scales": (ScalePoint(8, 8000.0), ScalePoint(32, 3200.0)),
}
# Values with an expectation of 0, or without one: a value that is clearly too much.
CLEARLY_BAD = {"error_share": 0.5, "evaluation_share": 0.9}
LARGEST = {"utilization", "clock_share", "slowest_clock_share", "link_width_share", "cache_usage", "prefix_hit_share"}
EVERY = [
    (serves, group, field.name)
    for serves in (True, False)
    for group, kind in KINDS.items()
    if group != ("training" if serves else "service")
    for field in fields(kind)
]


@pytest.fixture(autouse=True, scope="module")
def each_deployment_is_estimated_once() -> Iterator[None]:
    """Hundreds of observations are of the same two deployments."""
    known: dict[str, Estimate] = {}

    def estimate(question: Question, deployment: Deployment, catalog: Catalog) -> Estimate:
        if catalog is not SMALL:
            return estimate_deployment(question, deployment, catalog)
        key = repr((question, deployment))
        if key not in known:
            known[key] = estimate_deployment(question, deployment, catalog)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(case, "estimate_deployment", estimate)
        yield


@cache
def everything_observed(serves: bool) -> dict[str, float | None]:
    """Expected values where everything is known."""
    observed = Observations(replace(service(), ttft_p95_s=0.1)) if serves else Observations(training=run())
    question = Question(HEAVY) if serves else Question(PRETRAIN)
    return expected_values(build_case(question, SERVES if serves else RUNS, SMALL, observed))


def diagnosed(serves: bool, group: str, **seen: Any) -> Diagnosis:
    observed = replace(Observations(), **{group: KINDS[group](**seen)})
    question = Question(HEAVY) if serves else Question(PRETRAIN)
    return diagnose(question, SERVES if serves else RUNS, SMALL, observed)


def is_named(name: str, found: Diagnosis) -> bool:
    return bool(found.findings) or name in found.not_judged


@pytest.mark.parametrize(("serves", "group", "name"), EVERY)
def test_a_value_alone_at_ten_times_its_expectation_is_found_or_named(serves: bool, group: str, name: str) -> None:
    if name in LISTS:
        assert is_named(name, diagnosed(serves, group, **{name: LISTS[name]}))
        return
    usual = everything_observed(serves).get(name)
    factor = 0.1 if name in LOWER_IS_WORSE else 10.0
    bad = CLEARLY_BAD.get(name, (usual or 1.0) * factor)
    bad = max(bad, 5.0) if name == "waiting" else bad
    found = diagnosed(serves, group, **{name: min(bad, 1.0) if name in LARGEST else bad})
    assert is_named(name, found) and found.healthy is not True


@pytest.mark.parametrize(("serves", "group", "name"), [one for one in EVERY if one[2] not in LISTS])
@pytest.mark.parametrize("noise", [0.9, 1.1])
def test_a_value_alone_near_its_expectation_is_no_finding(serves: bool, group: str, name: str, noise: float) -> None:
    usual = everything_observed(serves).get(name)
    if not usual or name in ("temperature_c", "needed_cache_bytes", "failed_allocation_bytes"):
        return
    noisy = usual * min(noise, 1.0) if name in LARGEST else usual * noise
    if name == "requests_per_s":
        noisy = 30.0 * noise  # the expectation is the capacity
    found = diagnosed(serves, group, **{name: noisy})
    assert found.findings == () and found.healthy is (None if name in found.not_judged else True)


def test_nothing_observed_is_neither_healthy_nor_ill() -> None:
    for question, asked in ((Question(HEAVY), SERVES), (Question(PRETRAIN), RUNS)):
        found = diagnose(question, asked, SMALL, Observations())
        assert found.healthy is None and "No observed value" in found.summary
    alone = diagnosed(True, "devices", power_w=500.0)
    assert alone.healthy is None and alone.not_judged == ("power_w",)


@pytest.mark.parametrize("rank", ["ttft_p95_s", "ttft_p99_s", "tpot_p95_s", "tpot_p99_s"])
def test_a_percentile_is_judged_against_its_own_without_the_median(rank: str) -> None:
    p = present(expected(True).performance)
    usual = getattr(getattr(p, rank[:4]), rank[5:])
    found = diagnosed(True, "service", **{rank: 20 * usual})
    assert [f.code for f in found.findings] == ["slow_tail"] and "median is unknown" in found.findings[0].text
    assert found.findings[0].evidence[0].expected == pytest.approx(usual * 1e3)
    assert diagnosed(True, "service", **{rank: usual}).healthy is True


@pytest.mark.parametrize("percentile", [50.0, 95.0, 99.0])
@pytest.mark.parametrize("name", [each.name for each in fields(Slo) if each.name in ("ttft_s", "tpot_s")])
def test_a_percentile_beyond_the_limit_that_the_workload_states_is_a_finding(name: str, percentile: float) -> None:
    p = present(expected(True).performance)
    seen = getattr(getattr(p, name[:4]), f"p{percentile:g}_s")
    observed = Observations(service=ServiceObservation(**{f"{name[:4]}_p{percentile:g}_s": seen}))
    for times, assumed_times, codes in ((0.99, None, ["limit_missed"]), (1.01, None, []), (0.99, 1.0, [])):
        slo = replace(Slo(None, None, None, percentile, assumed_times), **{name: times * seen})
        found = diagnose(Question(replace(HEAVY, slo=slo)), SERVES, SMALL, observed)
        assert [f.code for f in found.findings] == codes


@pytest.mark.parametrize(
    ("percentile", "codes"), [(50.0, []), (90.0, []), (97.0, ["limit_missed"]), (99.9, ["limit_missed"])]
)
def test_a_lower_percentile_than_that_of_the_limit_must_meet_it(percentile: float, codes: list[str]) -> None:
    p = present(expected(True).performance)
    seen = present(present(p.ttft).p95_s)
    workload = replace(HEAVY, slo=Slo(0.9 * seen, None, None, percentile))
    found = diagnose(Question(workload), SERVES, SMALL, Observations(service=ServiceObservation(ttft_p95_s=seen)))
    assert [f.code for f in found.findings] == codes
    assert all(f.text.endswith(f" ms at p{percentile:g}.") for f in found.findings)


def test_a_queue_below_the_capacity_is_found_and_one_above_is_overload() -> None:
    p = present(expected(True).performance)
    assert p.requests_per_s_capacity is not None
    low = p.requests_per_s_capacity / 3
    found = diagnosed(True, "service", requests_per_s=low, waiting=40.0)
    assert [f.code for f in found.findings] == ["queue_below_capacity"]
    codes = [f.code for f in diagnosed(True, "service", requests_per_s=9 * low, waiting=40.0).findings]
    assert codes == ["overloaded"]
    assert diagnosed(True, "service", requests_per_s=30.0, waiting=0.5).healthy is True


def test_what_has_no_expected_value_is_named() -> None:
    """Latencies of tokens need an expectation of them; queue and inter-token times need a simulation."""
    seen = {"ttft_p50_s": 0.1, "tpot_p95_s": 0.1, "queue_p50_s": 0.02, "inter_token_p99_s": 0.06}
    tokens, simulated = ("ttft_p50_s", "tpot_p95_s"), ("inter_token_p99_s", "queue_p50_s")
    for unknown, names in (
        ({}, ()),
        ({"ttft": None}, tokens[:1]),
        ({"simulation": None}, simulated),
        ({"ttft": None, "tpot": None, "simulation": None}, (*tokens, *simulated)),
    ):
        performance = replace(PLANNED_SERVICE, **unknown)  # type: ignore[arg-type]
        found = unjudged_quantities(case_by_hand(performance=performance, **seen), ())
        assert sorted(found) == sorted(names)
    assert set(unjudged_quantities(case_by_hand(performance=None, **seen), ())) == set(seen)


def of_run(**seen: Any) -> Case:
    return case_by_hand(performance=PLANNED_RUN, workload=PRETRAIN, **seen)


def test_steps_of_another_size_are_not_judged() -> None:
    # The planned step has 10 s * 1,000 tokens/s.
    assert unjudged_quantities(of_run(tokens_per_s=100.0, tokens_per_step=2000.0), ()) == (
        "tokens_per_s",
        "tokens_per_step",
    )
    assert unjudged_quantities(of_run(tokens_per_s=900.0, tokens_per_step=9000.0), ()) == ()


def test_a_value_that_deviates_without_a_finding_is_not_judged() -> None:
    assert unjudged_quantities(of_run(memory_peak_bytes=3 * 60e9), ()) == ("memory_peak_bytes",)
    assert unjudged_quantities(of_run(memory_peak_bytes=60e9), ()) == ()
