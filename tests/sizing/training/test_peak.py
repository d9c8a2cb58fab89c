"""What an accelerator holds at the peak of a step, worked by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.sizing.training.memory import (
    HeldBytes,
    TrainingMemory,
    adapter_gradient_bytes,
    adapter_state_bytes,
    forward_bytes,
    gathered_bytes,
    gradient_bytes,
    optimizer_state_bytes,
    own_master,
    peak_bytes,
    usable_bytes,
    weights_bytes,
)
from tests.examples import col, row
from tests.sizing.training.counted import COUNTS, layout

YES, NO = np.array([True]), np.array([False])
RECIPE = COUNTS.recipe
FACTORS: Any = row(
    training_workspace_factor=col(1.5),
    training_loss_factor=col(2),
    training_activation_factor=col(1.25),
    training_fragmentation_fraction=col(0.1),
    training_collective_bytes=col(7),
    training_context_bytes=col(11),
)


def held(**changed: Any) -> HeldBytes:
    """Numbers that tell the parts apart; a test says what differs."""
    columns: dict[str, Any] = {
        "weights_bytes": col(1000),
        "gathered_bytes": col(3),
        "gradient_bytes": col(200),
        "gradients_in_backward": NO,
        "optimizer_bytes": col(500),
        "host_bytes": col(0),
        "in_flight_bytes": col(80),
        "recomputed_bytes": col(20),
        "loss_beyond_bytes": col(10),
        "logits_chunk_bytes": col(5),
        "update_bytes": col(50),
        "communicates": YES,
    }
    return HeldBytes(**columns | changed)


def test_forward_ends_with_activations_and_the_largest_workspace() -> None:
    assert forward_bytes(held(), FACTORS).tolist() == [80 * 1.25 + 20 * 1.5 + 3]
    assert forward_bytes(held(loss_beyond_bytes=col(40)), FACTORS).tolist() == [100 + 40 * 2 + 3]
    assert forward_bytes(held(logits_chunk_bytes=col(90)), FACTORS).tolist() == [100 + 90 + 3]


@pytest.mark.parametrize(
    ("changed", "gradients", "activations", "late"),
    [
        ({}, 200, 133, False),  # 200 + 133 at the end of forward, 200 + 50 in the update
        ({"update_bytes": col(134)}, 200, 134, True),
        ({"update_bytes": col(133)}, 200, 133, False),
        ({"gradients_in_backward": YES}, 200, 50, True),  # 133 alone, against 250
        ({"gradients_in_backward": YES, "in_flight_bytes": col(800)}, 0, 1033, False),
    ],
)
def test_the_peak_is_the_end_of_forward_or_the_update(
    changed: dict[str, Any], gradients: float, activations: float, late: bool
) -> None:
    found = peak_bytes(held(**changed), FACTORS)
    assert found.gradient_bytes.tolist() == [gradients]
    assert found.activation_bytes.tolist() == [activations]
    assert found.in_update.tolist() == [late]
    slack = 0.1 * (500 + gradients + activations)
    assert found.overhead_bytes[0] == pytest.approx(11 + 7 + slack)
    alone = peak_bytes(held(**changed, communicates=NO), FACTORS)
    assert alone.overhead_bytes[0] == pytest.approx(11 + slack)


def test_memory_fits_up_to_what_may_be_used() -> None:
    one, two, three, four, five = (col(v) for v in (1, 20, 300, 4000, 50000))
    found = TrainingMemory(one, two, three, four, five, col(60000), col(54321), col(0), NO)
    assert found.total_bytes.tolist() == [54321]
    assert found.fits.tolist() == [True]
    assert replace(found, usable_bytes=col(54320)).fits.tolist() == [False]
    assert usable_bytes(col(80), col(0.5)).tolist() == [40]


def test_weights_are_their_own_master_copy_where_they_are_sharded_in_mixed_precision() -> None:
    sharded = layout(sharded_master=True, zero_stage=3)
    assert own_master(sharded, RECIPE).tolist() == [True]
    assert own_master(layout(sharded_master=True, zero_stage=2), RECIPE).tolist() == [False]
    assert own_master(layout(zero_stage=3), RECIPE).tolist() == [False]
    assert own_master(sharded, replace(RECIPE, mixed=False)).tolist() == [False]


def test_bytes_of_each_state() -> None:
    """Two bytes of weights, four where they are a master copy; adapters in four bytes beside a base of half a byte."""
    base = replace(RECIPE, base_bytes_per_param=0.5, adapter_bytes_per_param=4.0)
    assert weights_bytes(col(100), NO, col(10), base).tolist() == [100 * 0.5 + 10 * 4]
    assert weights_bytes(col(100), YES, col(10), base).tolist() == [100 * 4 + 10 * 4]
    assert optimizer_state_bytes(col(100), NO, NO, RECIPE).tolist() == [1200]
    assert optimizer_state_bytes(col(100), YES, NO, RECIPE).tolist() == [800]
    assert optimizer_state_bytes(col(100), NO, YES, RECIPE).tolist() == [1600]
    assert adapter_state_bytes(col(10), replace(RECIPE, adapter_state_bytes_per_param=8.0)).tolist() == [80]
    assert adapter_gradient_bytes(col(10), base).tolist() == [40]
    assert gradient_bytes(col(100), NO, layout(), RECIPE).tolist() == [200]
    assert gradient_bytes(col(100), YES, layout(), RECIPE).tolist() == [400]
    wide = layout(fp32_gradients=True)
    assert gradient_bytes(col(100), NO, wide, RECIPE).tolist() == [400]
    assert gradient_bytes(col(100), NO, wide, replace(RECIPE, mixed=False)).tolist() == [200]
    assert gathered_bytes(YES, layout(), 100.0, 300.0, RECIPE).tolist() == [400 * 2 / 4]
    assert gathered_bytes(NO, layout(), 100.0, 300.0, RECIPE).tolist() == [0]
