"""Parts of the search, on hand-made tables."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.columns import GIB
from app.sizing.decisions.rejections import Rejections
from app.sizing.decisions.search import Search
from app.sizing.hardware.support.records import Work
from app.sizing.question import Constraints, Deployment, Objective, Question
from app.sizing.serving.choice import fixed_deployment_plans
from app.sizing.serving.interfaces import Settings
from app.sizing.serving.kinds import AUTOREGRESSIVE, SINGLE_FORWARD, serving_backend
from app.sizing.serving.margins import Margins
from app.sizing.serving.plans import requested_engines, select_stacks
from app.sizing.serving.search import (
    complete_settings,
    feasible_plans,
    replica_equivalence_key,
    required_replicas,
    search_plans,
)
from app.sizing.workload import InferenceWorkload, Load, Redundancy
from tests.examples import col, row
from tests.sizing.serving.given import DENSE, STEADY, on_big, planned, varied
from tests.sizing.small import SMALL


def test_the_number_of_a_replica_has_a_place_for_everything() -> None:
    """Machine, host of three, stack of five, cache format of sixteen, degrees of 1024: across
    machines the network's kind counts.
    """
    table = SimpleNamespace(machine=np.array([0, 1]))
    plans: Any = row(
        machines=SimpleNamespace(table=table, rows=np.array([1, 1, 1, 0])),
        stacks=SimpleNamespace(table=range(5), rows=np.array([3, 3, 3, 2])),
        nodes_per_replica=col(1, 2, 2, 2),
        accelerators_per_replica=col(8, 16, 16, 16),
        scale_up_domain=col(4, 16, 8, 8),
        kv=np.array([2, 0, 1, 0]),
        hosts=(3, np.array([2, 2, 2, 1])),
        tensor_parallel=col(8, 8, 8, 4),
        pipeline_parallel=col(1, 2, 2, 4),
        data_parallel=col(1, 1, 1, 2),
        context_parallel=col(1, 2, 1, 4),
        linear_flops_per_s=col(1, 1, 1, 1),
    )
    catalog: Any = row(alike=(np.array([6, 7]), np.array([8, 9])))
    found = replica_equivalence_key(plans, catalog).tolist()
    assert found == [
        (((7 * 3 + 2) * 5 + 3) * 16 + 2) * 2**34
        + ((8 * 1024 + 1) * 1024 + 1) * 16,  # in one machine, beyond its domain
        (((7 * 3 + 2) * 5 + 3) * 16 + 0) * 2**34 + ((8 * 1024 + 2) * 1024 + 1) * 16 + 1,  # in a domain of several
        (((9 * 3 + 2) * 5 + 3) * 16 + 1) * 2**34 + ((8 * 1024 + 2) * 1024 + 1) * 16,
        (((8 * 3 + 1) * 5 + 2) * 16 + 0) * 2**34 + ((4 * 1024 + 4) * 1024 + 2) * 16 + 2,
    ]


def test_what_an_engine_is_set_to() -> None:
    speed: Any = row(sequence_limit=col(12), capacity_per_s=col(3), saturation_per_s=col(50))
    memory: Any = row(memory_fraction=col(0.9), max_batched_tokens=col(2048), sequences=col(100))
    found = complete_settings(memory, speed, col(2), Settings(max_sequences=col(7), spare_replicas=col(1)))
    assert found.max_sequences is not None
    assert found.max_sequences.tolist() == [7]
    assert complete_settings(memory, speed, None, Settings()).max_sequences is speed.sequence_limit
    assert found.max_batched_tokens is memory.max_batched_tokens
    assert found.memory_fraction is memory.memory_fraction
    assert [None if v is None else v.tolist() for v in (found.replicas, found.spare_replicas, found.nodes)] == [
        [2],
        [1],
        None,
    ]


def test_replicas_are_what_is_set_or_what_the_load_needs() -> None:
    """Ten requests a second over 2.1 each: five replicas."""

    def found(workload: InferenceWorkload, settings: Settings | None = None) -> list[float]:
        needed = required_replicas(Question(workload), workload, on_big(), col(2.1), col(20), settings or Settings())
        return list(needed)

    busy = varied(redundancy=Redundancy(spare=1))
    assert found(busy) == [5]
    assert found(busy, Settings(replicas=col(2))) == [2]
    assert found(busy, Settings(spare_replicas=col(3))) == [5]
    assert found(varied(load=Load.CLOSED, in_flight=90.0)) == [5]  # ninety over twenty at once
    assert found(varied(load=Load.OFFLINE)) == [8]  # one machine, filled
    # a million at 2.1 a second take ten hours of 13.2 replicas
    assert found(varied(load=Load.OFFLINE, volume_requests=1e6, deadline_s=36_000.0)) == [16]


@pytest.mark.parametrize(
    ("objective", "load", "all_operated"),
    [
        (Objective.COST, Load.OPEN, False),
        (Objective.LATENCY, Load.OPEN, True),
        (Objective.BALANCED, Load.OPEN, True),
        (Objective.COST, Load.OFFLINE, True),
        (Objective.LATENCY, Load.OFFLINE, True),
    ],
)
def test_the_operating_point_is_found_where_it_may_decide(objective: Objective, load: Load, all_operated: bool) -> None:
    constraints = Constraints(weight_formats=("bf16",))
    plans = planned(constraints=constraints)
    workload = varied(load=load)
    question = Question(workload, constraints, objective=objective)
    found = search_plans(Search.start(question, SMALL, Rejections(SMALL.accelerators)).of(workload), plans)
    assert bool(np.isfinite(found.rate_per_s).all()) is all_operated


def test_the_version_of_an_engine_is_asked_for_with_the_engine() -> None:
    asked: list[object] = []

    def stacks_of_version(stacks: object, version: object) -> object:
        asked.append(version)
        return stacks

    catalog: Any = row(
        **{
            name: getattr(SMALL, name)
            for name in ("stacks", "formats", "format_index", "phases", "engines", "published_recipes")
        },
        stacks_of_version=stacks_of_version,
        stacks_cache={},
    )
    for fixed in (None, Deployment("acme-big"), Deployment("acme-big", engine="vllm", engine_version="0.9")):
        select_stacks(catalog, Work("inference"), frozenset({"bf16"}), requested_engines(Constraints(), fixed), fixed)
    assert asked == ["0.9"]


@pytest.mark.parametrize(("said", "hosted"), [({}, True), ({"system": "big-8"}, False), ({"provider": "sky"}, False)])
def test_layouts_larger_than_any_machine_get_a_host(said: dict[str, Any], hosted: bool) -> None:
    """Two cards in one machine, and only single cards are on sale."""
    deployment = Deployment("acme-card", tensor_parallel=2, engine="vllm", weight_format="bf16", **said)
    on_sale = planned(fixed=Deployment("acme-card", system="card-1", engine="vllm", weight_format="bf16"))
    machines = on_sale.machines.table
    rejections = Rejections(SMALL.accelerators)
    found = fixed_deployment_plans(
        DENSE, SMALL, machines, Constraints(), rejections, deployment, Assumptions(), phase="inference", personal=False
    )
    assert (len(found) > 0) is hosted
    if hosted:
        assert set(found.tensor_parallel.tolist()) == {2}


def test_limits_are_judged_one_by_one() -> None:
    alone: Any = row(
        fastest_tpot_s=col(1, 3, 1),
        tpot_limit_s=col(2, 2, 2),
        fastest_ttft_s=col(5, 5, 7),
        ttft_limit_s=col(6, 6, 6),
        margins=Margins.without_margin(3),
    )
    token, first = AUTOREGRESSIVE.latency_limits(alone, STEADY.slo)
    assert token.met.tolist() == [True, False, True]
    assert first.met.tolist() == [True, True, False]
    passes: Any = row(fastest_e2e_s=col(1, 3), e2e_limit_s=col(2, 2), margins=Margins.without_margin(2))
    (whole,) = SINGLE_FORWARD.latency_limits(passes, STEADY.slo)
    assert whole.met.tolist() == [True, False]


@pytest.mark.parametrize(("within", "said"), [(0.5, True), (-0.5, False)])
def test_what_fits_but_for_its_margin_is_said_to_fit_as_predicted(within: float, said: bool) -> None:
    """The engine may take half of the margin more, or less, than the median prediction needs."""
    plans, workload = on_big(), varied()
    question = Question(workload, Constraints(confidence=0.9))
    rejections = Rejections(SMALL.accelerators)
    search = Search.start(question, SMALL, rejections).of(workload)
    margins = Margins(col(1), col(1), col(1), col(0.04))
    plain = serving_backend(workload).estimate_memory(
        workload, plans, question.assumptions, Settings(), Margins.without_margin(1)
    )
    share = plain.needed_bytes / plain.capacity_bytes + within * 0.04
    rows = feasible_plans(search, plans, margins, Settings(memory_fraction=share))[0]
    assert len(rows) == 0
    (rejection,) = rejections.by_accelerator.values()
    assert rejection.code == "out_of_memory"
    assert ("The median prediction meets the limit." in rejection.text) == said
    assert rejection.needed == pytest.approx((plain.needed_bytes[0] + 0.04 * plain.capacity_bytes[0]) / GIB)
    assert rejection.available == pytest.approx(share[0] * plain.capacity_bytes[0] / GIB)
    enough = feasible_plans(search, plans, margins, Settings(memory_fraction=share + 0.04))[0]
    assert enough.tolist() == ([0] if within > 0 else [])
