"""Machines that a model is never laid out on."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from app.sizing.columns import Codes, Column, Columns, Mask
from app.sizing.training.reach import cluster_memory_bytes, machines_able_to_hold
from tests.examples import LLAMA_70B, PRETRAIN, col


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
