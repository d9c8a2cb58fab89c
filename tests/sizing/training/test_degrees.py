"""Data-parallel degrees: they divide the batch, fill machines, and stay where there are links. What layouts do at
the least, against what their runs come to. Machines that a model is never laid out on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Codes, Column, Columns, Mask, column
from app.sizing.decisions.ranking import objective_score
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.question import Economics, Objective
from app.sizing.training.counts import counts_of
from app.sizing.training.degrees import (
    LEADERS_PER_TYPE,
    MAX_DIVISORS,
    batch_divisors,
    cluster_memory_bytes,
    degree_for_accelerators,
    fills_machines,
    forms_cluster,
    forms_slice,
    has_interconnect,
    is_divisor,
    is_legal_degree,
    is_well_connected,
    least_accelerator_s,
    legal_degrees,
    lower_bound_measures,
    lowest_bounds_per_type,
    machines_able_to_hold,
    search_degrees,
)
from app.sizing.training.run import build_run_parts, run_at, run_cost
from app.sizing.training.search import CostedRuns, run_measures
from tests.examples import LLAMA_70B, PRETRAIN, col, registered, row
from tests.sizing.small import SMALL, snapshot
from tests.sizing.training.counted import COUNTS
from tests.sizing.training.layouts import plans_of

DENSE = replace(COUNTS, is_moe=False, global_batch=64.0)
MIXTURE = registered("Qwen/Qwen3-30B-A3B")


def plans(**columns: Any) -> Any:
    known: dict[str, float] = {
        "tensor_parallel": 1,
        "context_parallel": 1,
        "expert_parallel": 1,
        "micro_batch_sequences": 2,
        "ranks": 4,
        "accelerators_per_node": 8,
    }
    machine = row(
        scale_up_accelerators=col(columns.pop("reach", 8)),
        largest_scale_up=col(columns.pop("largest", 8)),
        training_class=np.array([columns.pop("training_class", True)]),
        torus=np.array([columns.pop("torus", False)]),
    )
    node = row(network_bytes_per_s=col(columns.pop("network", 50e9)))
    stack = row(single_accelerator=np.array([columns.pop("single", False)]))
    given = {name: col(value) for name, value in (known | columns).items()}
    return row(**given, machine=machine, node=node, stack=stack)


def test_divisors_of_a_batch_ascend_and_many_are_thinned_evenly() -> None:
    assert batch_divisors(12).tolist() == [1, 2, 3, 4, 6, 12]
    many = batch_divisors(55_440)  # a number with 120 divisors
    assert len(many) <= MAX_DIVISORS
    assert (many[0], many[-1]) == (1, 55_440)
    assert is_divisor(many, column([55_440])).all()
    assert not is_divisor(col(5), col(12)).any()


def test_degrees_of_a_search_are_divisors_and_four_sizes_to_an_octave() -> None:
    assert search_degrees(33, 36.3).tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 14, 16, 20, 24, 28, 32, 33]


@pytest.mark.parametrize(("degree", "allowed"), [(1, True), (32, True), (3, True), (19, False), (64, False)])
def test_a_degree_divides_the_batch_or_one_near_it_into_whole_micro_batches(degree: float, allowed: bool) -> None:
    # 64 sequences in micro-batches of 2 are 32 shares; three take 66, which is near, and 19 take 76
    assert is_legal_degree(DENSE, plans(), col(degree))[0] == allowed


def test_samples_may_leave_the_last_micro_batch_part_full_but_not_empty() -> None:
    samples = replace(DENSE, in_samples=True)
    assert is_legal_degree(samples, plans(), col(3))[0]
    assert not is_legal_degree(samples, plans(), col(33))[0]


def test_a_framework_of_one_accelerator_has_one_replica() -> None:
    assert is_legal_degree(DENSE, plans(single=True), col(1))[0]
    assert not is_legal_degree(DENSE, plans(single=True), col(2))[0]


@pytest.mark.parametrize(("degree", "allowed"), [(2, False), (4, True), (8, True)])
def test_experts_spread_evenly_over_the_ranks_that_share_a_batch(degree: float, allowed: bool) -> None:
    # groups of 8 out of 2 ranks for each replica
    found = is_legal_degree(replace(DENSE, is_moe=True), plans(expert_parallel=8, tensor_parallel=2), col(degree))
    assert found[0] == allowed


@pytest.mark.parametrize(("accelerators", "degree", "allowed"), [(16, 4, True), (10, 2.5, False), (2, 0.5, False)])
def test_accelerators_asked_for_make_a_whole_degree_or_none(accelerators: float, degree: float, allowed: bool) -> None:
    found, able = degree_for_accelerators(DENSE, plans(), col(accelerators))
    assert (found[0], able[0]) == (degree, allowed)


@pytest.mark.parametrize(("accelerators", "full"), [(3, True), (8, True), (12, False), (16, True)])
def test_beyond_the_first_machine_machines_are_filled(accelerators: float, full: bool) -> None:
    assert fills_machines(plans(), col(accelerators))[0] == full


def test_several_machines_need_a_network_or_a_domain_that_spans_them() -> None:
    assert has_interconnect(plans(network=np.nan), col(8))[0]
    assert not has_interconnect(plans(network=np.nan), col(16))[0]
    assert has_interconnect(plans(network=np.nan, reach=64), col(16))[0]
    assert has_interconnect(plans(), col(16))[0]


def test_inference_hardware_has_no_clusters() -> None:
    assert forms_cluster(plans(training_class=False), col(8))[0]
    assert not forms_cluster(plans(training_class=False), col(16))[0]
    assert forms_cluster(plans(), col(16))[0]
    assert not forms_cluster(plans(), col(12))[0]


def test_a_torus_is_rented_in_slices_that_its_topologies_name() -> None:
    sizes = np.arange(1.0, 600.0)
    flat, cubic = (sizes[forms_slice(plans(torus=True, reach=reach), sizes)].tolist() for reach in (256, 4096))
    assert flat == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]  # 512 are two pods
    assert cubic == [1, 2, 4, 8, 16, 32, 64, 128, 192, 256, 320, 384, 448, 512, 576]
    assert forms_slice(plans(), sizes).all()
    assert not forms_cluster(plans(torus=True, reach=4096, accelerators_per_node=4), col(28))[0]


def test_a_run_stays_in_one_machine_where_one_of_its_type_holds_it() -> None:
    small = plans(reach=4, largest=8)
    assert [bool(is_well_connected(small, col(n))[0]) for n in (2, 4, 8, 16)] == [True, True, False, True]
    single = plans(reach=1, largest=8)
    assert [bool(is_well_connected(single, col(n))[0]) for n in (1, 2, 8, 64)] == [True, False, False, False]
    assert is_well_connected(plans(reach=1, largest=1), col(64))[0]


@pytest.mark.parametrize("model", [LLAMA_70B, MIXTURE])
def test_degrees_of_a_table_are_those_that_every_rule_allows(model: ModelArchitecture) -> None:
    """Of a mixture long sequences are split too: ranks that share a batch hold its experts."""
    length = 32768.0 if model.is_moe else 4096.0
    workload = replace(PRETRAIN, model=model, global_batch=48, units_per_sequence=length)
    table = plans_of(SMALL, workload, accelerator="acme-big", framework="megatron")
    counts = replace(COUNTS, global_batch=48.0, is_moe=model.is_moe)
    found = legal_degrees(counts, table)
    number = found.degrees_per_row()
    assert number.max() > 1
    for i in range(0, len(table), 7):
        one = table.take(np.array([i]))
        tried = search_degrees(48, 48 * 1.1).tolist()
        able = [
            d for d in tried if is_legal_degree(counts, one, col(d))[0] and forms_cluster(one, one.ranks * float(d))[0]
        ]
        rows = np.full(number[i], i)
        assert found.degree_at(rows, np.arange(number[i])).tolist() == able


ASSUMED = Assumptions()


def test_every_micro_batch_passes_all_ranks() -> None:
    # a million tokens in micro-batches of 4 sequences of 1,000: 250 of them, on 8 ranks for 2 s each
    counts: Any = row(units=1e6, units_per_sequence=1000.0)
    assert least_accelerator_s(counts, col(4), col(8), col(2)).tolist() == [4000.0]


PLACED = snapshot(region_countries={"us-1": "US", "eu-1": "DE", "eu-2": "FR"})  # so that grids are known


@pytest.mark.parametrize("objective", Objective)
@pytest.mark.parametrize("degree", [1.0, 4.0, 64.0])
def test_no_run_does_better_than_the_least(objective: Objective, degree: float) -> None:
    workload = replace(PRETRAIN, global_batch=1024, units=1e10)
    counts = counts_of(workload)
    plans = plans_of(PLACED, workload, accelerator="acme-big")
    parts = build_run_parts(counts, plans, ASSUMED)
    run = run_at(counts, plans, np.full(len(plans), degree), ASSUMED, parts)
    judged = CostedRuns(np.arange(len(plans)), plans, run, run_cost(plans, run, ASSUMED, Economics()))
    least = objective_score(objective, lower_bound_measures(counts, plans, parts.time))
    found = objective_score(objective, run_measures(counts, judged))
    assert (least <= found * (1 + 1e-12)).all()
    known = objective not in (Objective.LATENCY, Objective.BALANCED)
    assert (least > 0.05 * found).any() == known


def test_the_least_of_each_type_come_first() -> None:
    accelerator = np.repeat([4, 2], [LEADERS_PER_TYPE + 3, 2])
    bound = np.arange(float(len(accelerator)))[::-1]
    found = lowest_bounds_per_type(accelerator, bound)
    assert sorted(found[accelerator[found] == 4].tolist()) == list(range(3, LEADERS_PER_TYPE + 3))
    assert sorted(found[accelerator[found] == 2].tolist()) == [LEADERS_PER_TYPE + 3, LEADERS_PER_TYPE + 4]
    assert len(lowest_bounds_per_type(accelerator[:0], bound[:0])) == 0


@dataclass(frozen=True, slots=True)
class Node(Columns):
    accelerator: Codes
    accelerators_per_node: Column
    memory_bytes: Column
    network_bytes_per_s: Column


@dataclass(frozen=True, slots=True)
class Offered(Columns):
    node: Node


@dataclass(frozen=True, slots=True)
class Some(Columns):
    offered: Offered
    training_class: Mask
    scale_up_accelerators: Column


# Cards of 24 GB alone and in fours without a network; eights of 80 GB with and without a network; a rack of 72.
SOME = Some(
    Offered(
        Node(
            np.array([0, 0, 1, 1, 2]),
            col(1, 4, 8, 8, 4),
            col(24e9, 24e9, 80e9, 80e9, 180e9),
            col(np.nan, 50e9, 50e9, np.nan, np.nan),
        )
    ),
    np.array([False, False, True, True, True]),
    col(1, 4, 8, 8, 72),
)


def test_memory_that_may_be_joined() -> None:
    assert cluster_memory_bytes(SOME).tolist() == pytest.approx([24e9, 96e9, np.inf, 640e9, 72 * 180e9])  # type: ignore[arg-type]


def test_of_a_type_that_is_too_small_the_largest_machine_stays_to_tell_by_how_much() -> None:
    """70.6e9 parameters are 141 GB in 16 bit; an eighth as many fit even one card of 24 GB."""
    left = machines_able_to_hold(replace(PRETRAIN, model=LLAMA_70B), SOME)  # type: ignore[arg-type]
    assert left.offered.node.accelerators_per_node.tolist() == [4, 8, 8, 4]
    assert machines_able_to_hold(PRETRAIN, SOME) is SOME  # type: ignore[arg-type, comparison-overlap]
