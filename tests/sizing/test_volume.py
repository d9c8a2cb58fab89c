"""Relations of offline work with a volume and a deadline, over random requests on the real catalogue."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from app.sizing.decisions.search import Search
from app.sizing.estimate import estimate_deployment
from app.sizing.finalists import find_finalists
from app.sizing.question import Constraints, Deployment, Objective, Question
from app.sizing.recommend import recommend_hardware
from app.sizing.result import Estimate
from app.sizing.snapshot import Catalog
from app.sizing.workload import InferenceWorkload, Lengths, Load, Slo
from tests.examples import CHAT, LLAMA_8B, LLAMA_70B, registered

SLOW = settings(max_examples=12)
HOUR_S, DAY_S = 3600.0, 86_400.0
VOLUMES = st.builds(
    lambda model, volume, hours, prompt, output: replace(
        CHAT,
        model=model,
        load=Load.OFFLINE,
        peak_per_s=0.0,
        average_per_s=0.0,
        input_tokens=Lengths(prompt) if model.sample is None else Lengths(1.0),
        output_tokens=Lengths(output) if model.kind.value == "decoder" else Lengths(0.0),
        slo=Slo(None, None, None, 95.0),
        max_context_tokens=prompt + output,
        volume_requests=volume,
        deadline_s=hours * HOUR_S,
    ),
    st.sampled_from([LLAMA_8B, LLAMA_70B, registered("BAAI/bge-m3"), registered("google/vit-base-patch16-224")]),
    st.floats(1e4, 1e8),
    st.floats(1, 500),
    st.floats(16, 500),
    st.floats(2, 500),
)
CONFIDENCES = st.sampled_from([0.5, 0.8, 0.95])
BOARDS = ("nvidia-h100-sxm5-80gb", "nvidia-h200-sxm-141gb", "amd-mi300x")  # mostly sold by the eight
TYPES = st.sampled_from([(), BOARDS])


def score(question: Question, catalog: Catalog) -> float:
    """What the best is ranked by, USD of the whole volume; infinite where nothing is done in time."""
    found = find_finalists(Search.start(replace(question, limit=1), catalog))
    return next(iter(found.scores), math.inf)


def best(question: Question, catalog: Catalog) -> Estimate:
    """The first recommendation of a question that has one."""
    found = find_finalists(Search.start(replace(question, limit=1), catalog)).estimates
    assume(found)
    return found[0]


def times(workload: InferenceWorkload, *, volume: float = 1.0, time: float = 1.0) -> InferenceWorkload:
    """The workload with its volume and its deadline multiplied by factors."""
    requests, limit_s = asked(workload)
    return replace(workload, volume_requests=requests * volume, deadline_s=limit_s * time)


def asked(workload: InferenceWorkload) -> tuple[float, float]:
    """(requests, seconds) of a volume with a deadline."""
    assert workload.volume_requests is not None
    assert workload.deadline_s is not None
    return workload.volume_requests, workload.deadline_s


def taken(e: Estimate) -> tuple[float, float]:
    """(seconds, USD) that a volume takes."""
    assert e.performance is not None
    assert e.performance.days is not None
    assert e.cost is not None
    return e.performance.days * DAY_S, e.cost.usd_total or 0.0


@SLOW
@given(VOLUMES, CONFIDENCES, st.floats(1, 4))
def test_more_volume_never_costs_less_and_more_time_never_costs_more(
    catalog: Catalog, workload: InferenceWorkload, confidence: float, factor: float
) -> None:
    question = Question(workload, Constraints(confidence=confidence))
    usd, rounding = score(question, catalog), 1 + 1e-9
    assert usd <= score(replace(question, workload=times(workload, volume=factor)), catalog) * rounding
    assert score(replace(question, workload=times(workload, time=factor)), catalog) <= usd * rounding
    assert score(replace(question, workload=replace(workload, deadline_s=None)), catalog) <= usd * rounding


@SLOW
@given(VOLUMES, CONFIDENCES, TYPES)
def test_what_is_recommended_is_in_time_as_sure_as_asked_and_fills_its_machines(
    catalog: Catalog, workload: InferenceWorkload, confidence: float, types: tuple[str, ...]
) -> None:
    question = Question(workload, Constraints(confidence=confidence, accelerators=types))
    units = 1.0 if workload.model.sample is not None else workload.tokens_per_request
    scores = find_finalists(Search.start(question, catalog)).scores
    for ranked, usd_ranked in zip(recommend_hardware(question, catalog).recommendations, scores, strict=True):
        e, d, sure = ranked.estimate, ranked.estimate.deployment, ranked.estimate.assurance
        seconds, usd = taken(e)
        assert seconds <= asked(workload)[1] * (1 + 1e-9)
        assert e.cost is not None
        assert usd == pytest.approx((e.cost.usd_per_hour or 0.0) * seconds / HOUR_S)
        assert sure is not None
        assert (sure.meets_deadline or 0.0) >= confidence - 1e-3
        level = next(level for level in sure.by_level if level.confidence == confidence)
        assert level.total_accelerators == d.total_accelerators
        assert level.usd_total == pytest.approx(usd_ranked)
        assert usd_ranked >= usd * (1 - 1e-9)
        assert e.cost.usd_per_million == pytest.approx(usd / asked(workload)[0] / units * 1e6)
        again = estimate_deployment(question, d, catalog)
        assert (again.performance, again.cost) == (e.performance, e.cost)
        assert again.assurance is not None
        assert replace(again.assurance, by_level=()) == replace(sure, by_level=())
        for own, shown in zip(again.assurance.by_level, sure.by_level, strict=True):
            if shown.deployment is None:
                assert shown == own
            else:  # the first option names another deployment at a level where it costs less
                assert ranked.rank == 1 and shown.confidence != confidence and shown.cost < own.cost
        size, each = d.accelerators_per_replica or 1, (d.total_accelerators or 0) // (d.nodes or 1)
        assert d.replicas == (d.nodes or 1) * (each // size) if size <= each else d.replicas  # no room for one more


@SLOW
@given(VOLUMES, CONFIDENCES, st.integers(2, 6))
def test_many_times_the_volume_in_as_many_times_the_time_after_the_start_is_the_same_fleet(
    catalog: Catalog, workload: InferenceWorkload, confidence: float, factor: int
) -> None:
    question = Question(workload, Constraints(confidence=confidence))
    found = best(question, catalog)
    (requests, limit_s), (seconds, _) = asked(workload), taken(found)
    assert found.performance is not None
    start = found.performance.cold_start_s or 0.0
    longer = replace(workload, volume_requests=requests * factor, deadline_s=start + (limit_s - start) * factor)
    unsized = replace(found.deployment, replicas=None, spare_replicas=None, nodes=None, total_accelerators=None)
    other = estimate_deployment(replace(question, workload=longer), unsized, catalog)
    # a share below one batch takes as long as a batch: then fewer do
    assert (other.deployment.replicas or 0) <= (found.deployment.replicas or 0)
    if requests > 1e3 * (found.deployment.replicas or 0) * (found.deployment.max_batch or 0):
        assert other.deployment.replicas == found.deployment.replicas
        assert taken(other)[0] == pytest.approx(start + (seconds - start) * factor)


@SLOW
@given(VOLUMES, st.integers(1, 40), TYPES)
def test_no_other_number_of_replicas_is_in_time_for_less(
    catalog: Catalog, workload: InferenceWorkload, replicas: int, types: tuple[str, ...]
) -> None:
    """As predicted, on the same machines in the same layout."""
    question = Question(workload, Constraints(confidence=0.5, accelerators=types))
    found = best(question, catalog)
    fixed = replace(found.deployment, spare_replicas=None, nodes=None, total_accelerators=None, replicas=replicas)
    seconds, usd = taken(estimate_deployment(question, fixed, catalog))
    assert seconds > asked(workload)[1] * (1 + 1e-9) or taken(found)[1] <= usd * (1 + 1e-9)


@SLOW
@given(VOLUMES, st.sampled_from(Objective))
def test_limits_are_kept_and_lifting_them_is_never_worse(
    catalog: Catalog, workload: InferenceWorkload, objective: Objective
) -> None:
    limited = Question(workload, Constraints(max_accelerators=8, max_usd_per_hour=20.0), objective=objective)
    assert score(replace(limited, constraints=Constraints()), catalog) <= score(limited, catalog) * (1 + 1e-9)
    found = best(limited, catalog)
    assert (found.deployment.total_accelerators or 0) <= 8
    assert found.cost is not None
    assert (found.cost.usd_per_hour or 0.0) <= 20


@SLOW
@given(VOLUMES, CONFIDENCES, st.sampled_from(BOARDS))
def test_a_type_with_everything_open_is_what_is_recommended_of_it(
    catalog: Catalog, workload: InferenceWorkload, confidence: float, accelerator: str
) -> None:
    found = best(Question(workload, Constraints(confidence=confidence, accelerators=(accelerator,))), catalog)
    other = estimate_deployment(
        Question(workload, Constraints(confidence=confidence)), Deployment(accelerator), catalog
    )
    assert (other.deployment, other.performance, other.cost) == (found.deployment, found.performance, found.cost)


def test_what_is_left_open_of_a_deployment_is_sized_for_the_volume(catalog: Catalog) -> None:
    limits = Slo(None, None, None, 95)
    workload = replace(CHAT, load=Load.OFFLINE, slo=limits, volume_requests=5e6, deadline_s=24 * HOUR_S)
    found = estimate_deployment(Question(workload), Deployment("nvidia-h100-sxm5-80gb"), catalog)
    assert found.assurance is not None
    assert (found.assurance.meets_deadline or 0.0) >= 0.8
    d = found.deployment
    assert (d.replicas or 0) * (d.accelerators_per_replica or 0) == d.total_accelerators
