"""The largest value that fits, by bisection, and the sizes of a curve, on hand-made questions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.errors import Conflict
from app.sizing.question import Deployment
from app.sizing.training.given import find_maximum, round_down_to_step, with_quantity
from app.sizing.training.scaling import curve_sizes
from tests.examples import PRETRAIN, col, row
from tests.sizing.serving.given import DENSE

RUN = replace(PRETRAIN, model=DENSE, global_batch=8)


@pytest.mark.parametrize(("quantity", "most"), [("sequence_length", 5000.0), ("micro_batch", 37.0)])
def test_the_largest_is_found_by_bisection(quantity: str, most: float) -> None:
    def fits(run: Any, deployment: Deployment) -> bool:
        value = run.units_per_sequence if quantity == "sequence_length" else deployment.micro_batch_sequences or 0
        return bool(value <= most)

    answer = find_maximum(quantity, RUN, Deployment("any"), 2, fits)
    step = 128 if quantity == "sequence_length" else 1
    assert (answer.quantity, answer.value, answer.too_large) == (
        quantity,
        most // step * step,
        most // step * step + step,
    )


def test_the_largest_model_is_found_to_a_fifth_of_a_percent() -> None:
    answer = find_maximum("parameters", RUN, Deployment("any"), 1, lambda run, _: run.model.total_params <= 7e9)
    assert 7e9 / 1.01 < answer.value < 7e9 * 1.01
    assert 1 < answer.too_large / answer.value <= 1.002
    every = find_maximum("micro_batch", RUN, Deployment("any"), 1, lambda *_: True)
    assert (every.value, every.too_large) == (65536, 65536)
    with pytest.raises(Conflict, match="smallest size, 128 tokens"):
        find_maximum("sequence_length", RUN, Deployment("any"), 1, lambda *_: False)


def test_other_sizes_of_the_same_question() -> None:
    """A batch of 512 in shares of 3 x 8 sequences is 504; one of eight is a single share."""
    run, fixed = with_quantity(PRETRAIN, Deployment("any"), "micro_batch", 3.0, 8)
    assert (run.global_batch, fixed.micro_batch_sequences) == (504, 3)
    assert with_quantity(RUN, Deployment("any"), "micro_batch", 64.0, 8)[0].global_batch == 512
    # 40 sequences are 2.5 shares of 16, and 56 are 3.5: a half rounds up in both
    halves = [
        with_quantity(replace(RUN, global_batch=n), Deployment("any"), "micro_batch", 2.0, 8)[0] for n in (40, 56)
    ]
    assert [each.global_batch for each in halves] == [48, 64]
    assert with_quantity(RUN, Deployment("any"), "sequence_length", 256.0, 8)[0].units_per_sequence == 256
    assert [round_down_to_step("sequence_length", v) for v in (100.0, 300.0)] == [128, 256]
    assert [round_down_to_step("micro_batch", v) for v in (0.5, 3.7)] == [1, 3]
    assert round_down_to_step("parameters", 123.4) == 123.4


def test_sizes_of_a_curve() -> None:
    cluster: Any = row(accelerators_per_node=col(6), machine=row(training_class=np.array([True])))
    sizes = curve_sizes(cluster, 18).tolist()
    assert sizes[:8] == [1, 2, 4, 6, 12, 18, 24, 36]  # what was chosen and twice that among them
    assert sizes[-1] == 6 * 2048
    cluster.machine.training_class = np.array([False])
    assert curve_sizes(cluster, 3).tolist() == [1, 2, 3, 4, 6]
