"""The promised resilience holds for every recommendation on the real catalogue, at a consistent cost."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.sizing.estimate import estimate_deployment
from app.sizing.hardware.parts import UNNAMED_REGIONS, Environment
from app.sizing.question import Constraints, Deployment, Question
from app.sizing.recommend import recommend_hardware
from app.sizing.snapshot import Catalog
from app.sizing.workload import FailureDomain, InferenceWorkload, Lengths, Load, Redundancy
from tests.examples import CHAT, LLAMA_8B, LLAMA_70B, registered, services_of
from tests.sizing.scores import best_score, shown_performance

SLOW = settings(max_examples=15)
LOADS = st.builds(
    lambda model, load, count, prompt, output: replace(
        CHAT,
        model=model,
        load=load,
        peak_per_s=count,
        average_per_s=count / 2,
        in_flight=float(math.ceil(4 * count)),
        input_tokens=Lengths(prompt),
        output_tokens=Lengths(output),
        max_context_tokens=2 * (prompt + output),
    ),
    st.sampled_from([LLAMA_8B, LLAMA_70B, registered("Qwen/Qwen3-30B-A3B")]),
    st.sampled_from([Load.OPEN, Load.OPEN, Load.CLOSED, Load.BATCH]),
    st.floats(0.05, 200),
    st.floats(50, 4000),
    st.floats(2, 800),
)
SURVIVED = st.builds(
    lambda label, zones, domain: Redundancy.from_label(
        label, zones=max(zones, 3) if domain is FailureDomain.ZONE else zones, domain=domain
    ),
    st.sampled_from(["none", "n+1", "n+1", "n+2", "2n"]),
    st.integers(1, 4),
    st.sampled_from(FailureDomain),
)
WHERE = st.sampled_from([(), (Environment.CLOUD,), (Environment.ON_PREM,)])


def by_hand(d: Deployment, zones: int) -> list[tuple[int, int]]:
    """(zone, replicas) of every machine or group that a replica spans: in turn, as a person would spread them."""
    machines, size = d.nodes or 0, d.accelerators_per_replica or 1
    across = -(-size * machines // (d.total_accelerators or 1))
    hosts, total = machines // across, (d.replicas or 0) + (d.spare_replicas or 0)
    each, odd = divmod(total, hosts)
    return [(host % zones, each + (host < odd)) for host in range(hosts)]


def least_left(hosts: list[tuple[int, int]], redundancy: Redundancy) -> int:
    """Replicas left after the worst loss, each counted."""
    total, k = sum(held for _, held in hosts), redundancy.domains_lost
    machines = sorted(held for _, held in hosts)[::-1]
    zones = sorted((sum(h for z, h in hosts if z == zone) for zone in range(redundancy.zones)), reverse=True)
    lost = {
        FailureDomain.ACCELERATOR: k,
        FailureDomain.MACHINE: sum(machines[:k]),
        FailureDomain.ZONE: sum(zones[:k]),
    }[redundancy.domain]
    if redundancy.zones > 1 and k:
        lost = max(lost, zones[0])
    return total - lost


@pytest.mark.slow
@SLOW
@given(LOADS, SURVIVED, WHERE)
def test_any_loss_leaves_what_was_promised(
    catalog: Catalog, workload: InferenceWorkload, redundancy: Redundancy, where: tuple[Environment, ...]
) -> None:
    question = Question(replace(workload, redundancy=redundancy), Constraints(environments=where), limit=30)
    for ranked in recommend_hardware(question, catalog).recommendations:
        for d in services_of(ranked.estimate.deployment):
            hosts = by_hand(d, redundancy.zones)
            assert {zone for zone, _ in hosts} == set(range(redundancy.zones))
            assert min(held for _, held in hosts) >= 1
            assert least_left(hosts, redundancy) >= (d.replicas or 0), d
            if redundancy.double:
                assert sum(held for _, held in hosts) >= 2 * (d.replicas or 0)
        assert redundancy.zones == 1 or d.region not in UNNAMED_REGIONS
        reasons = [r for r in ranked.estimate.explanation if r.code == "placement"]
        assert bool(reasons) == bool(redundancy.domains_lost or redundancy.zones > 1)


def test_a_plan_that_survives_less_would_be_noticed() -> None:
    small = Deployment("a", accelerators_per_replica=2, replicas=3, spare_replicas=1, nodes=2, total_accelerators=16)
    assert by_hand(small, 2) == [(0, 2), (1, 2)]
    assert least_left(by_hand(small, 1), Redundancy(spare=1)) == 2
    assert least_left(by_hand(small, 2), Redundancy(spare=1, zones=2, domain=FailureDomain.ACCELERATOR)) == 2
    assert least_left(by_hand(small, 1), Redundancy(spare=1, domain=FailureDomain.ACCELERATOR)) == 3


@pytest.mark.slow
@SLOW
@given(LOADS, st.integers(1, 4), st.sampled_from([FailureDomain.ACCELERATOR, FailureDomain.MACHINE]), WHERE)
def test_more_redundancy_or_load_never_costs_less(
    catalog: Catalog,
    workload: InferenceWorkload,
    zones: int,
    domain: FailureDomain,
    where: tuple[Environment, ...],
) -> None:
    def usd(busier: float = 1.0, **redundancy: Any) -> float:
        asked = replace(
            workload,
            peak_per_s=workload.peak_per_s * busier,
            in_flight=math.ceil(workload.in_flight * busier),
            redundancy=Redundancy(zones=zones, domain=domain) if not redundancy else Redundancy(**redundancy),
        )
        return best_score(Question(asked, Constraints(environments=where), limit=1), catalog)

    more = [usd(spare=spare, zones=zones, domain=domain) for spare in (0, 1, 2)]
    double = usd(double=True, zones=zones, domain=domain)
    assert np.all(np.diff([m for m in more if m < math.inf]) >= 0), more
    assert double >= more[1]
    assert usd(1.5, spare=1, zones=zones, domain=domain) >= more[1]
    if domain is FailureDomain.ACCELERATOR:
        assert usd(spare=1, zones=zones) >= more[1]
    if zones > 2:
        assert usd(spare=2, zones=zones, domain=FailureDomain.ZONE) >= usd(spare=2, zones=zones)


@pytest.mark.slow
@SLOW
@given(LOADS, SURVIVED)
def test_what_is_recommended_and_posted_back_stands_the_same(
    catalog: Catalog, workload: InferenceWorkload, redundancy: Redundancy
) -> None:
    question = Question(replace(workload, redundancy=redundancy), limit=2)
    for ranked in recommend_hardware(question, catalog).recommendations:
        again = estimate_deployment(question, ranked.estimate.deployment, catalog)
        assert (again.deployment, again.cost) == (ranked.estimate.deployment, ranked.estimate.cost)
        assert shown_performance(again, ranked.rank) == shown_performance(ranked.estimate, ranked.rank)
        # the same machines with their replicas left open carry no less, and are no more
        d = ranked.estimate.deployment
        open_size = replace(d, replicas=None, spare_replicas=None, total_accelerators=None)
        given_machines = estimate_deployment(question, open_size, catalog).deployment
        assert given_machines.nodes == d.nodes
        assert (given_machines.replicas or 0) >= (d.replicas or 0)
