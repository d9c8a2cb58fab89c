"""The requested deployment: it keeps its size, and open settings take the best of every layout. The most that
given hardware trains.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.catalog.snapshot import CatalogStore
from app.errors import Conflict
from app.sizing.assumptions import Assumptions
from app.sizing.decisions.ranking import PublishedUse
from app.sizing.estimate import estimate_deployment
from app.sizing.question import Constraints, Deployment, Question
from app.sizing.snapshot import Catalog
from app.sizing.training import given as given_room
from app.sizing.training.counts import counts_of
from app.sizing.training.given import (
    any_layout_fits,
    batch_deviation,
    best_requested_run,
    layouts_at_size,
    rank_requested_runs,
    requested_accelerators,
)
from app.sizing.training.run import fits_memory
from tests.examples import LLAMA_70B, col, present, row
from tests.sizing.small import SMALL
from tests.sizing.training.layouts import IN_PLACE, WORKLOAD, asked, plans_of

COUNTS, ASSUMED = counts_of(WORKLOAD), Assumptions()
QUESTION = Question(WORKLOAD, Constraints(confidence=0.5))
LAYOUTS = plans_of(SMALL, WORKLOAD, accelerator="acme-big", micro_batch_sequences=1)
PAIRS = plans_of(SMALL, WORKLOAD, accelerator="acme-big", framework="megatron", tensor_parallel=2)


@pytest.mark.parametrize("machines", [*range(1, 17), 24, 40, 48, 63, 64])
def test_every_size_of_a_cluster_is_laid_out_with_the_nearest_batch(machines: int) -> None:
    """64 sequences asked: each replica takes as many of its micro-batches as come nearest."""
    found = present(
        best_requested_run(WORKLOAD, COUNTS, LAYOUTS, Deployment("acme-big", total_accelerators=8 * machines), QUESTION)
    )
    share = float(found.run.data_parallel[0] * found.plans.micro_batch_sequences[0])
    assert found.run.accelerators[0] == 8 * machines
    assert found.run.batch[0] == max(1, int(64 / share + 0.5)) * share
    assert found.run.step.step_s[0] > 0


def test_how_far_a_batch_is_counts_beyond_what_is_near() -> None:
    run: Any = row(batch=col(64, 60, 128))
    assert batch_deviation(COUNTS, run).tolist() == [0, 0, 1]


def test_a_cluster_fills_whole_machines_where_it_can() -> None:
    degrees, rows = layouts_at_size(COUNTS, LAYOUTS, Deployment("acme-big", total_accelerators=16))
    assert (degrees * LAYOUTS.take(rows).ranks == 16).all()
    assert (LAYOUTS.take(rows).accelerators_per_node == 8).all()


def test_the_size_a_caller_fixed() -> None:
    assert requested_accelerators(Deployment("x")) is None
    assert requested_accelerators(Deployment("x", total_accelerators=64)) == 64
    assert requested_accelerators(Deployment("x", accelerators_per_replica=16, total_accelerators=64)) == 16


def chosen(**fixed: Any) -> tuple[float, float, float]:
    """(accelerators, seconds, USD) of the chosen run."""
    found = present(best_requested_run(WORKLOAD, COUNTS, LAYOUTS, Deployment("acme-big", **fixed), QUESTION))
    run = found.run
    assert fits_memory(found.plans, run, ASSUMED)[0]
    return float(run.accelerators[0]), float(run.wall_s[0]), float(run.nodes[0])


def test_a_size_asked_for_is_kept_and_the_fastest_layout_taken() -> None:
    sizes = [8, 16, 64]
    found = [chosen(accelerators_per_replica=size) for size in sizes]
    assert [accelerators for accelerators, _, _ in found] == sizes
    assert [nodes for _, _, nodes in found] == [1, 2, 8]
    seconds = [wall for _, wall, _ in found]
    assert seconds == sorted(seconds, reverse=True)


def test_a_degree_asked_for_is_the_degree() -> None:
    found = present(best_requested_run(WORKLOAD, COUNTS, LAYOUTS, Deployment("acme-big", data_parallel=4), QUESTION))
    assert set(found.run.data_parallel.tolist()) == {4}


def test_nothing_is_chosen_where_nothing_can_be_laid_out() -> None:
    # seven accelerators have no half of a pair
    seven = Deployment("acme-big", accelerators_per_replica=7)
    assert best_requested_run(WORKLOAD, COUNTS, PAIRS, seven, QUESTION) is None


def test_a_degree_and_a_size_must_agree() -> None:
    both = Deployment("acme-big", data_parallel=4, accelerators_per_replica=8)
    degrees, rows = layouts_at_size(COUNTS, LAYOUTS, both)
    assert set(degrees.tolist()) == {4}
    assert set(LAYOUTS.take(rows).ranks.tolist()) == {2}
    # three replicas of two are paid as a machine of eight
    whole = layouts_at_size(COUNTS, PAIRS, Deployment("acme-big", data_parallel=3, total_accelerators=8))
    assert (PAIRS.take(whole[1]).ranks * whole[0] <= 8).all() and len(whole[1])
    assert not len(
        layouts_at_size(COUNTS, PAIRS, Deployment("acme-big", data_parallel=3, accelerators_per_replica=8))[1]
    )


def test_a_larger_model_stops_fitting() -> None:
    one = Deployment("acme-big", accelerators_per_replica=1)
    large = replace(WORKLOAD, model=LLAMA_70B)
    layouts = plans_of(SMALL, large, accelerator="acme-big", micro_batch_sequences=1)
    assert not any_layout_fits(counts_of(large), layouts, one, ASSUMED)
    assert any_layout_fits(COUNTS, LAYOUTS, Deployment("acme-big", accelerators_per_replica=8), ASSUMED)


def test_a_run_on_unlisted_hosts_posted_back_is_the_same(catalog: Catalog) -> None:
    first = asked(catalog, accelerator="nvidia-b100-sxm", data_parallel=12, tensor_parallel=1, pipeline_parallel=1)
    assert first.deployment.nodes == 2
    again = estimate_deployment(Question(WORKLOAD, Constraints(confidence=0.5)), first.deployment, catalog)
    assert (again.deployment, again.performance, again.cost) == (first.deployment, first.performance, first.cost)


@pytest.mark.parametrize("quantity", ["parameters", "sequence_length", "micro_batch"])
def test_the_maximum_fits_and_the_next_does_not(catalog: Catalog, quantity: str) -> None:
    workload = replace(WORKLOAD, phase="fine_tuning", global_batch=16)
    found = asked(catalog, workload, maximize=quantity, accelerators_per_replica=8)
    assert found.fits
    assert found.maximum is not None
    assert found.memory is not None
    assert found.memory.total_bytes <= found.memory.usable_bytes
    value, more = found.maximum.value, found.maximum.too_large
    assert more > value
    if quantity == "sequence_length":
        longer = replace(workload, units_per_sequence=more)
        assert not asked(catalog, longer, accelerators_per_replica=8, **IN_PLACE).fits
        assert asked(catalog, replace(workload, units_per_sequence=value), accelerators_per_replica=8).fits
    if quantity == "parameters":
        assert 2e10 < value < 2e11  # 640 GB of memory, states offloaded or sharded


def test_more_accelerators_take_larger_models(catalog: Catalog) -> None:
    sizes = [asked(catalog, WORKLOAD, maximize="parameters", accelerators_per_replica=n).maximum for n in (1, 8, 64)]
    values = [m.value for m in sizes if m is not None]
    assert values == sorted(values)
    assert values[0] < values[2]


def test_nothing_to_maximize_is_said(catalog: Catalog, catalog_store: CatalogStore) -> None:
    with pytest.raises(Conflict, match="samples"):
        resnet = replace(
            WORKLOAD, model=catalog_store.find_model("microsoft/resnet-50"), units_per_sequence=1.0, global_batch=256
        )
        asked(catalog, resnet, maximize="sequence_length", accelerators_per_replica=8)
    with pytest.raises(Conflict, match="Nothing fits"):
        asked(catalog, replace(WORKLOAD, model=LLAMA_70B), maximize="micro_batch", accelerators_per_replica=1)


def test_runs_that_do_not_surely_fit_are_ordered_by_their_share_of_what_they_may_take() -> None:
    """Twice and 1.2 times the allowed bytes, whatever their number; then the nearer batch, then those in time."""

    def order(**changed: Any) -> list[int]:
        known = {"total": (100.0, 120.0), "allowed": (50.0, 100.0), "wall": (10.0, 10.0), "batch": (64.0, 64.0)}
        known |= {
            "fits": (True, True),
            "sure": (False, False),
            "last": (False, False),
            "score": (1.0, 2.0),
            "recipes": (0.0, 0.0),
        }
        known |= changed
        of = {name: np.array(values) for name, values in known.items()}
        costed: Any = row(
            plans=row(
                stack=row(margins=row(time_factor=np.ones(2))),
                use_at=lambda _: PublishedUse.measured(*of["recipes"]),
                last_resort=of["last"],
                offered=row(listing=np.zeros(2, dtype=int)),
                pipeline_parallel=np.ones(2),
            ),
            run=row(memory=row(total_bytes=of["total"]), wall_s=of["wall"], batch=of["batch"], accelerators=np.ones(2)),
            cost=row(usd_per_hour=np.ones(2)),
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(given_room, "fits_memory", lambda *_: of["fits"])
            patch.setattr(given_room, "run_fits_at_confidence", lambda *_: of["sure"])
            patch.setattr(given_room, "allowed_bytes", lambda *_: of["allowed"])
            patch.setattr(given_room, "comparison_score", lambda *_: of["score"])
            patch.setattr(given_room, "run_measures", lambda *_: row(usd=np.ones(2)))
            patch.setattr(given_room, "stable_run_key", lambda _: np.array([0.0, 1.0]))
            workload = replace(WORKLOAD, deadline_s=100.0)
            return list(rank_requested_runs(workload, COUNTS, costed, QUESTION).tolist())

    assert order() == [1, 0]
    assert order(allowed=(100.0, 50.0)) == [0, 1]
    assert order(sure=(True, False), allowed=(50.0, 100.0)) == [0, 1]  # what surely fits misses nothing
    assert order(fits=(True, False)) == [0, 1]
    both: dict[str, Any] = {"sure": (True, True)}
    assert order(**both) == [0, 1]
    assert order(**both, score=(2.0, 1.0)) == [1, 0]
    assert order(**both, score=(1.0, 1.0)) == [0, 1]
    assert order(**both, score=(1.0, 1.01), recipes=(0.0, 9.0)) == [1, 0]  # a near tie with more published use
    assert order(**both, score=(1.0, 2.0), recipes=(0.0, 9.0)) == [0, 1]
    assert order(**both, wall=(101.0, 10.0)) == [1, 0]  # late
    assert order(**both, wall=(300.0, 200.0)) == [1, 0]  # the less late
    assert order(**both, batch=(128.0, 64.0)) == [1, 0]
    assert order(**both, batch=(128.0, 64.0), last=(False, True)) == [0, 1]
