"""The four moments of a step, and what there is at the highest."""

from __future__ import annotations

from typing import Any

import pytest

from app.sizing.training.moments import (
    BACKWARD,
    GRADIENTS,
    LOSS,
    MOMENTS,
    UPDATE,
    MemoryParts,
    activation_parts_at,
    bytes_at_moments,
    find_peak,
)
from tests.examples import col, row

FACTORS: Any = row(
    training_fragmentation_fraction=col(0.1), training_collective_bytes=col(7), training_context_bytes=col(11)
)


def held(**changed: Any) -> MemoryParts:
    """Numbers that tell the parts apart; a test says what differs."""
    columns: dict[str, Any] = {
        "weights_bytes": col(1000),
        "optimizer_bytes": col(500),
        "host_bytes": col(0),
        "gradient_bytes": col(200),
        "lasting_gradient_bytes": col(0),
        "head_gradient_bytes": col(2),
        "kept_bytes": col(150),
        "logits_bytes": col(80),
        "last_norm_bytes": col(6),
        "working_bytes": col(60),
        "last_bytes": col(9),
        "loss_gathered_bytes": col(4),
        "backward_gathered_bytes": col(5),
        "update_bytes": col(8),
        "communicators": col(2),
    }
    return MemoryParts(**columns | changed)


@pytest.mark.parametrize(
    ("changed", "moment", "gradients", "activations"),
    [
        ({}, LOSS, 0, 150 + 80 + 6 + 4),
        ({"lasting_gradient_bytes": col(200)}, LOSS, 200, 240),  # summed over micro-batches: there already
        ({"working_bytes": col(90)}, BACKWARD, 2, 150 + 90 + 5),
        ({"logits_bytes": col(10)}, BACKWARD, 2, 150 + 60 + 5),
        ({"last_bytes": col(50)}, GRADIENTS, 200, 50),
        ({"update_bytes": col(50)}, UPDATE, 200, 50),
    ],
)
def test_the_peak_is_the_highest_of_four(
    changed: dict[str, Any], moment: int, gradients: float, activations: float
) -> None:
    found = find_peak(held(**changed), FACTORS)
    assert MOMENTS[int(found.moment[0])] == MOMENTS[moment]
    assert (found.gradient_bytes[0], found.activation_bytes[0]) == (gradients, activations)
    parts = activation_parts_at(held(**changed), found.moment)
    each = (parts.kept_bytes, parts.working_bytes, parts.logits_bytes, parts.gathered_bytes, parts.update_bytes)
    assert sum(float(p[0]) for p in each) == activations
    assert found.overhead_bytes[0] == pytest.approx(11 + 2 * 7 + 0.1 * (gradients + activations))
    alone = find_peak(held(**changed, communicators=col(0)), FACTORS)
    assert alone.overhead_bytes[0] == pytest.approx(found.overhead_bytes[0] - 14)


def test_every_moment_is_reported() -> None:
    found = bytes_at_moments(held())
    each = (found.loss_bytes, found.backward_bytes, found.gradients_bytes, found.update_bytes)
    assert [float(m[0]) for m in each] == [240, 217, 209, 208]
