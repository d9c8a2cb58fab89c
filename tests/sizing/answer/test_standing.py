"""Where replicas stand and what survives, in words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.sizing.answer.cautions import AnswerContext
from app.sizing.answer.standing import (
    describe_covered_failures,
    describe_machines,
    machine_failure_exceeds_redundancy,
    no_redundancy,
    placement_reasons,
    replica_placement,
    zone_failure_exceeds_redundancy,
    zones_not_verified,
)
from app.sizing.hardware.parts import PricingModel
from app.sizing.question import Deployment, Question
from app.sizing.workload import InferenceWorkload, Load, Redundancy
from tests.examples import CHAT
from tests.sizing.answer.given import DEPLOYMENT, estimated

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


def case(workload: InferenceWorkload, **deployment: Any) -> AnswerContext:
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
    stands = replica_placement(service("n+1", 3), replace(DEPLOYMENT, **placed(3, 1, 1)))
    assert stands is not None
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
    found = machine_failure_exceeds_redundancy(case(workload, **deployment))
    assert (found is None) == (text is None)
    assert found is None or (text or "") in found.text


def test_machines_of_a_caller_may_not_survive_a_zone() -> None:
    assert zone_failure_exceeds_redundancy(case(service("n+1", 3), **placed(4, 2, 3))) is None
    assert zone_failure_exceeds_redundancy(case(service("n+1"), **placed(4, 0, 1))) is None
    found = zone_failure_exceeds_redundancy(case(service("n+1", 3), **placed(3, 1, 1)))
    assert found is not None
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
    found = no_redundancy(case(workload, **deployment))
    assert (found is None) == (text is None)
    assert found is None or found.text.startswith(text or "")


def test_zones_of_a_provider_are_for_the_buyer_to_check() -> None:
    found = zones_not_verified(case(service("n+1", 3)))
    assert found is not None
    assert found.text == (
        "The catalog lists regions but not their zones. Check that sky offers big-8 in 3 zones of us-1."
    )
    assert zones_not_verified(case(service("n+1"))) is None
    assert zones_not_verified(case(service("n+1", 3), pricing_model=PricingModel.OWNED)) is None
    assert zones_not_verified(case(service("n+1", 3), provider=None, pricing_model=None)) is None
