"""The recipe that a run's memory rests on, as it is told."""

from __future__ import annotations

from dataclasses import replace

from app.sizing.answer.recipe import recipe_of_row, recipe_reason
from app.sizing.hardware.recipes import RecipeSaid
from app.sizing.snapshot import Snapshot
from app.sizing.workload import Method
from tests.sizing.training.layouts import SINGLE, WORKLOAD, one


def test_what_is_said_of_adapters_goes_with_adapters(market: Snapshot) -> None:
    for method, adapted in ((Method.FULL, 0), (Method.LORA, 2), (Method.QLORA, 3)):
        workload = replace(WORKLOAD, method=method)
        found = recipe_of_row(workload, one(market, framework="fsdp", zero_stage=0), 0)
        assert found is not None
        told = (found.adapter_precision, found.adapter_dropout, found.kbit_widening)
        assert sum(value is not None for value in told) == adapted


def test_recomputation_is_the_layouts_own(market: Snapshot) -> None:
    for layout, said, told in (("none", None, "none"), ("selective", "attention", "attention"), ("full", None, "full")):
        plans = one(
            market, activation_checkpointing=layout, zero_stage=1, recipe=RecipeSaid(recomputation=said), **SINGLE
        )
        found = recipe_of_row(WORKLOAD, plans, 0)
        assert found is not None and found.recomputation == told


def test_one_sentence_names_whose_recipe_it_is() -> None:
    (said,) = recipe_reason(RecipeSaid(name="torchtune 0.6", loss="chunked", kernels="eager"))
    assert said.text.startswith("Memory by the recipe of torchtune 0.6: eager kernels;")
    assert recipe_reason(None) == ()
