"""What frameworks keep, looked up by plans."""

from __future__ import annotations

import numpy as np
import pytest

from app.sizing.hardware.recipes import Recipes, TrainingRecipe
from app.sizing.training.keeping import build_framework_bytes_table, framework_bytes
from tests.examples import PRETRAIN_COUNTS, col

SHARDED = TrainingRecipe("pytorch", weights="sharded")
EVERY = TrainingRecipe("pytorch", kernels="fused", selective="every_second_layer")


@pytest.mark.parametrize("stack", [0, 1])
@pytest.mark.parametrize("stage", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("checkpointing", [0, 1, 2])
def test_a_plan_finds_what_would_be_counted_for_it(stack: int, stage: float, checkpointing: int) -> None:
    recipes = Recipes.from_recipes([SHARDED, EVERY])
    table = build_framework_bytes_table(PRETRAIN_COUNTS, recipes, flash=True)
    place = table.row_indices(np.array([stack]), col(stage), np.array([checkpointing]))
    found, own = table.rows.take(place), recipes.take(np.array([stack]))
    counted = framework_bytes(PRETRAIN_COUNTS, own, np.array([stage >= 3]), np.array([checkpointing]), flash=True)
    for part in ("layer", "params"):
        for name in getattr(found, part).__slots__:
            assert getattr(getattr(found, part), name)[0] == getattr(getattr(counted, part), name)[0], name


def test_every_second_layer_keeps_half_of_all_and_half_of_the_inputs() -> None:
    def kept(checkpointing: int) -> float:
        rows = framework_bytes(
            PRETRAIN_COUNTS, Recipes.from_recipes([EVERY]), np.array([False]), np.array([checkpointing]), flash=True
        )
        return float((rows.layer.kept_hidden + rows.layer.kept_split)[0])

    assert kept(1) == pytest.approx((kept(0) + kept(2)) / 2)
    assert kept(2) == 2 * 4096
