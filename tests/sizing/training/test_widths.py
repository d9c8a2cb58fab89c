"""Bytes of a parameter by what a framework keeps in 32 bit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.sizing.hardware.recipes import Recipes, TrainingRecipe
from app.sizing.training.counts import counts_of
from app.sizing.training.recipes import Recipe
from app.sizing.training.widths import ParamBytes, param_bytes, param_kinds
from app.sizing.workload import Method
from tests.examples import PRETRAIN, PRETRAIN_COUNTS

MIXED = PRETRAIN_COUNTS.recipe


def bytes_of(run: Recipe = MIXED, *, sharded: bool = False, **recipe: Any) -> ParamBytes:
    """Of one recipe."""
    said = Recipes.from_recipes([TrainingRecipe("pytorch", **{"optimizer_implementation": "fused", **recipe})])
    return param_bytes(run, param_kinds(run, said, np.array([sharded])))


@pytest.mark.parametrize(
    ("weights", "sharded", "each"),
    [
        ("master", False, (2, 2, 12, 0)),
        ("sharded", True, (4, 4, 8, 0)),
        ("sharded", False, (4, 4, 8, 2)),  # on one device it computes under autocast
        ("autocast", True, (4, 4, 8, 2)),
        ("16bit", False, (2, 2, 4, 0)),
    ],
)
def test_weights_gradients_and_states(weights: str, sharded: bool, each: tuple[float, ...]) -> None:
    found = bytes_of(weights=weights, sharded=sharded)
    assert (found.weights[0], found.gradients[0], found.states[0], found.casts[0]) == each
    assert bytes_of(weights=weights, sharded=sharded, gradients="32bit").gradients[0] == (
        2 if weights == "16bit" else 4
    )


def test_what_an_implementation_copies_and_where_states_lie() -> None:
    assert bytes_of(optimizer_implementation="foreach").update.tolist() == [4]
    assert bytes_of(optimizer_implementation="foreach", weights="16bit").update.tolist() == [2]
    assert bytes_of().update.tolist() == [0]
    assert (bytes_of(gradients="copied").states[0], bytes_of(gradients="copied").update[0]) == (12, 4)
    assert bytes_of(optimizer_implementation="paged").on_host.tolist() == [True]
    assert bytes_of(optimizer_implementation="in_backward").in_backward.tolist() == [True]
    assert bytes_of().lasting.tolist() == [True]
    assert bytes_of(weights="16bit").lasting.tolist() == [False]


def test_adapters_are_as_wide_as_their_recipe_says() -> None:
    lora = counts_of(replace(PRETRAIN, phase="fine_tuning", method=Method.QLORA)).recipe
    wide = bytes_of(lora, adapter_precision="fp32", kbit_widening=True)
    assert (wide.adapters[0], wide.gradients[0], wide.states[0], wide.ends[0]) == (4, 4, 8, 4)
    narrow = bytes_of(lora, adapter_precision="16bit")
    assert (narrow.adapters[0], narrow.gradients[0], narrow.states[0], narrow.ends[0]) == (2, 2, 4, 2)
    assert bytes_of(lora, adapter_precision="autocast", kbit_widening=True).head_casts.tolist() == [2]
