"""Each warning is given exactly where it should be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.sizing.answer.warnings import find_warnings
from app.sizing.hardware.parts import Accelerator, Segment
from app.sizing.question import Question
from app.sizing.words import percent
from app.sizing.workload import Lengths, Load, Method, Redundancy, Slo
from tests.examples import CHAT, LLAMA_8B, PRETRAIN
from tests.sizing.answer.given import COST, PRICE, RUN, SPEED, ranked
from tests.sizing.small import BIG, CARD

# Asked for with a spare, and two machines of which either may go.
SAFE = replace(CHAT, redundancy=Redundancy(spare=1))
SPREAD: dict[str, Any] = {"replicas": 2, "spare_replicas": 1, "nodes": 3}


def price(**known: Any) -> Any:
    return replace(COST, price=replace(PRICE, **known))


def slo(percentile: float) -> Slo:
    return Slo(1.0, 0.05, None, percentile)


def codes(workload: Any, accelerator: Accelerator = BIG, **given: Any) -> list[str]:
    found = find_warnings(Question(workload), [ranked(1, accelerator, **given)])
    return [notice.code for notice in found]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"target_utilization": 0.86}, ["no_latency_headroom"]),
        ({"target_utilization": 0.85}, []),
        ({"target_utilization": 0.99, "load": Load.CLOSED}, []),
        ({"slo": slo(89)}, ["average_not_tail"]),
        ({"slo": slo(90)}, []),
        ({"slo": slo(50), "load": Load.OFFLINE}, []),
        ({"model": replace(LLAMA_8B, assumed=("heads",), shape_is_assumed=True)}, ["model_shape_assumed"]),
        ({"model": replace(LLAMA_8B, assumed=("heads",))}, []),
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
    assert codes(workload, **given) == expected


@pytest.mark.parametrize(("accelerator", "expected"), [(BIG, ["training_class_overkill"]), (CARD, [])])
def test_a_few_users_need_no_training_class_hardware(accelerator: Accelerator, expected: list[str]) -> None:
    alone = replace(CHAT, load=Load.CLOSED, peak_per_s=0.0, in_flight=1.0, most_personal_in_flight=8.0)
    assert alone.is_personal
    assert codes(alone, accelerator) == expected


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
    assert codes(workload, **{"performance": RUN} | given) == expected


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
