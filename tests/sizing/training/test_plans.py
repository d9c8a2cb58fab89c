"""The candidate table of training: machines, frameworks and layouts that go together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.decisions.machines import find_candidates
from app.sizing.decisions.rejections import Rejections
from app.sizing.hardware.parts import SystemKind
from app.sizing.hardware.recipes import VOCABULARIES, RecipeSettings
from app.sizing.question import Constraints, Economics
from app.sizing.snapshot import Catalog
from app.sizing.training.plans import TrainingPlans
from app.sizing.training.search import training_layouts
from app.sizing.workload import TrainingWorkload
from tests.examples import PRETRAIN
from tests.sizing.small import ACCELERATORS, BIG, OFFERS, SMALL, snapshot, system
from tests.sizing.training.layouts import plans_of


def judged(workload: TrainingWorkload = PRETRAIN, of: Catalog = SMALL) -> tuple[TrainingPlans, dict[str, str]]:
    """Every plan, and types without one and why."""
    rejections = Rejections(of.accelerators)
    found = find_candidates(of, Constraints(), Economics(), Assumptions(), rejections)
    plans = training_layouts(workload, of, found, Constraints(), rejections, Assumptions())
    return plans, {of.accelerators[i].slug: r.code for i, r in rejections.by_accelerator.items()}


def table(**fixed: Any) -> TrainingPlans:
    return plans_of(SMALL, PRETRAIN, accelerator="acme-big", **fixed)


def test_types_that_nothing_trains_on_fall_out_with_that_reason() -> None:
    plans, reasons = judged()
    frameworks = {SMALL.engines[code] for code in plans.framework[plans.accelerator == 0].tolist()}
    assert SMALL.accelerator_index["acme-big"] == 0
    assert frameworks == {"megatron", "fsdp"}  # documented: what only rules say runs does not compete
    assert "acme-big" not in reasons
    plans, reasons = judged(replace(PRETRAIN, precision="mxfp8"))
    assert len(plans) == 0
    assert {reasons[slug] for slug in ("acme-big", "acme-card")} == {"no_framework"}


@pytest.mark.parametrize("lacks", [{"flops_per_s": {"fp16": 1e15}}, {"memory_bytes_per_s": None}])
def test_a_type_without_a_rate_is_not_guessed(lacks: dict[str, Any]) -> None:
    plans, reasons = judged(of=snapshot(accelerators=[replace(BIG, **lacks), *ACCELERATORS[1:]]))
    assert SMALL.accelerator_index["acme-big"] not in plans.accelerator
    assert reasons["acme-big"] == "missing_data"


def test_ranks_are_all_degrees_but_the_data_parallel_one() -> None:
    found = table(framework="megatron")
    assert found.ranks.tolist() == (found.tensor_parallel * found.pipeline_parallel).tolist()
    assert found.ranks.max() == 8 * 16


@pytest.mark.parametrize(("count", "degrees"), [(1, {1}), (2, {1, 2}), (8, {1, 2, 4, 8})])
def test_a_model_is_split_no_further_than_a_machines_links_reach(count: float, degrees: set[float]) -> None:
    # the pipeline alone goes from machine to machine
    own = system("own", SystemKind.CLOUD_INSTANCE, BIG, count, network_bytes_per_s=400e9)
    price = replace(OFFERS[0], system="own", instance_type="own", accelerator_count=count)
    plans, _ = judged(of=snapshot(systems=[own], offers=[price]))
    rented = plans.take(plans.node.accelerators_per_node == count)
    assert set(rented.tensor_parallel.tolist()) == degrees
    assert set(rented.pipeline_parallel.tolist()) == {1, 2, 4, 8, 16}


@pytest.mark.parametrize("wanted", [True, False])
def test_what_a_deployment_says_of_a_framework_replaces_its_habit(wanted: bool) -> None:
    assert set(table(framework="megatron").sequence_parallel.tolist()) == {True}
    assert set(table(framework="megatron", sequence_parallel=wanted).sequence_parallel.tolist()) == {wanted}


@pytest.mark.parametrize("name", ["loss", "kernels", "weights", "gradients", "optimizer_implementation"])
def test_what_a_deployment_says_of_a_recipe_replaces_the_frameworks(name: str) -> None:
    for place, said in enumerate(VOCABULARIES[name]):
        plans = table(framework="megatron", recipe=RecipeSettings(**cast(Any, {name: said})))
        assert set(getattr(plans.stack.recipe, name).tolist()) == {place}


def test_what_is_asked_of_kernels_and_chunks_is_in_every_row() -> None:
    assert table().flash_attention.all()
    assert not table(flash_attention=False).flash_attention.any()
    assert set(table(virtual_pipeline=2).asked_virtual_pipeline.tolist()) == {2}
    assert set(table().asked_virtual_pipeline.tolist()) == {0}


def test_one_framework_is_named_or_those_that_differ_are_judged() -> None:
    engines = [SMALL.engines[i] for i in np.unique(table().framework).tolist()]
    assert engines == ["fsdp", "megatron"]
    assert [SMALL.engines[i] for i in np.unique(table(framework="fsdp").framework).tolist()] == ["fsdp"]
