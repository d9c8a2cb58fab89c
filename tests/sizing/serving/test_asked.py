"""Fixed settings of a request: the estimate uses them, and unusable ones are refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.errors import Conflict
from app.sizing.model.sample import SampleWork
from app.sizing.question import Deployment, DraftMethod, Question, Speculative
from app.sizing.serving.asked import (
    check_speculation,
    default_max_sequences,
    hardware_holds_replicas,
    replicas_filling_hardware,
    requested_replicas,
    requested_settings,
)
from app.sizing.serving.measured import Settings
from app.sizing.serving.search import evaluate_plans
from app.sizing.workload import InferenceWorkload, Load, Redundancy
from tests.examples import col, row
from tests.sizing.serving.given import DENSE, STEADY, on_big, varied


@pytest.mark.parametrize(("load", "most"), [(Load.OPEN, 12), (Load.CLOSED, 100), (Load.OFFLINE, 12)])
def test_sequences_where_none_are_fixed(load: Load, most: float) -> None:
    memory: Any = row(sequences=col(100))
    speed: Any = row(rank_batch=col(12))
    assert default_max_sequences(varied(load=load), memory, speed).tolist() == [most]
    none: Any = row(sequences=col(0))
    slow: Any = row(rank_batch=col(0.5))
    assert default_max_sequences(varied(load=load), none, slow).tolist() == [1]


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
        check_speculation(Deployment("acme-big", speculative=Speculative(method, 2, 0.5)), workload)

    check(DraftMethod.EAGLE)
    check_speculation(Deployment("acme-big"), varied(model=replace(DENSE, sample=SampleWork(flops=1e9))))
    with pytest.raises(Conflict, match="multi-token"):
        check(DraftMethod.MTP)
    check(DraftMethod.MTP, varied(model=replace(DENSE, mtp_params=1_000_000)))
    with pytest.raises(Conflict, match="generates tokens"):
        check(DraftMethod.NGRAM, varied(model=replace(DENSE, sample=SampleWork(flops=1e9))))
