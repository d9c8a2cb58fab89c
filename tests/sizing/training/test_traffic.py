"""What ranks send one another, worked by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.sizing.training.traffic import (
    collective_s,
    context_ring_bytes,
    copies_sent,
    expert_exchanges,
    expert_token_bytes,
    hidden_state_bytes,
    layer_passes,
    network_s,
    pipeline_bytes,
    ring_bytes_per_s,
    scale_up_s,
    sharding_bytes,
    sharding_s,
    synchronization_bytes,
    synchronization_s,
    tensor_all_reduce_bytes,
)
from tests.examples import col, row
from tests.sizing.training.counted import COUNTS, layout

NONE, SELECTIVE, FULL = 0, 1, 2
MACHINE: Any = row(
    scale_up_bytes_per_s=col(400e9, 400e9), network_bytes_per_s=col(50e9, 50e9), scale_up_accelerators=col(8, 8)
)
FAR = np.array([False, True])


def test_bytes_take_the_link_they_cross() -> None:
    assert scale_up_s(col(8e9, 8e9), FAR, MACHINE).tolist() == [0.02, 0]
    assert network_s(col(8e9, 8e9), FAR, MACHINE).tolist() == [0, 0.16]


def test_collectives_reach_a_share_of_the_link_and_wait_for_each_message() -> None:
    traffic: Any = row(
        scale_up_s=col(0.3, 0.3), network_s=col(0.2, 0.2), scale_up_messages=col(10, 10), network_messages=col(3, 3)
    )
    achieved: Any = row(
        collective_pcie_fraction=col(0.6, 0.6),
        collective_scale_up_fraction=col(0.75, 0.75),
        collective_network_fraction=col(0.8, 0.8),
        collective_latency_s=col(1e-3, 1e-3),
        collective_network_latency_s=col(5e-3, 5e-3),
    )
    found = collective_s(traffic, np.array([True, False]), achieved)
    assert found.tolist() == pytest.approx([0.5 + 0.25 + 0.010 + 0.015, 0.4 + 0.25 + 0.010 + 0.015])


def test_hidden_states_cross_twice_a_layer_and_pass() -> None:
    hidden = hidden_state_bytes(COUNTS, col(1000))
    assert hidden.tolist() == [1000 * 2 * 100]
    assert [layer_passes(layout(activation_checkpointing=c))[0] for c in (NONE, SELECTIVE, FULL)] == [2, 2, 3]
    # two all-reduces in each of four layers, three passes, each of 2 * 3/4 of the message
    assert tensor_all_reduce_bytes(COUNTS, layout(), col(3), col(200e3))[0] == pytest.approx(
        3 * 2 * 4 * 2 * 3 / 4 * 200e3
    )
    assert pipeline_bytes(col(6), col(200e3), col(4))[0] == 300e3


def test_keys_and_values_go_round_the_ring() -> None:
    # in each pass and once more, to three others: a third of the layers' 480 elements, 2 bytes, two heads over four
    found = context_ring_bytes(COUNTS, layout(context_parallel=4), col(2), col(1000))
    assert found[0] == pytest.approx((2 + 1) * 3 * 1000 * 2 * 480 / 2 / 3)
    one = context_ring_bytes(COUNTS, layout(context_parallel=4, tensor_parallel=1), col(2), col(1000))
    assert one[0] == pytest.approx(3 * 3 * 1000 * 2 * 480 / 3)


def test_tokens_leave_for_their_experts() -> None:
    exchanges = expert_exchanges(COUNTS, layout(), col(3))
    assert exchanges.tolist() == [3 * 2 * 6 / 3]
    # a thousand tokens over four ranks, 100 elements of two bytes each
    assert expert_token_bytes(COUNTS, col(1000), col(4)).tolist() == [1000 / 4 * 2 * 100]


def test_a_token_goes_once_to_each_that_has_an_expert_of_it() -> None:
    assert copies_sent(col(1, 2), 8).tolist() == [0, pytest.approx(1 - 1 / 2**8)]
    # one expert: it is elsewhere in seven cases of eight; never more copies than experts, nor than others
    assert copies_sent(col(8), 1)[0] == pytest.approx(7 / 8)
    sent = copies_sent(col(2, 8, 64, 512), 8)
    assert (np.diff(sent) > 0).all() and (sent < np.minimum(col(2, 8, 64, 512) - 1, 8)).all()


def test_a_ring_over_machines_uses_the_cards_of_all_its_ranks() -> None:
    # two tensor ranks: four of the ring in a machine of eight, 4 * 50 GB/s; alone, the links inside
    assert ring_bytes_per_s(col(64, 64), col(2, 2), FAR, MACHINE).tolist() == [400e9, 200e9]
    assert ring_bytes_per_s(col(64, 64), col(16, 16), FAR, MACHINE).tolist() == [400e9, 50e9]
    assert ring_bytes_per_s(col(2, 2), col(2, 2), FAR, MACHINE).tolist() == [400e9, 100e9]
    quick: Any = row(scale_up_bytes_per_s=col(150e9), network_bytes_per_s=col(50e9), scale_up_accelerators=col(8))
    assert ring_bytes_per_s(col(64), col(1), np.array([True]), quick).tolist() == [150e9]


def test_what_zero_sends() -> None:
    """Weights of 2 bytes and gradients of 2, or 4 where they are kept wide; seven of eight come from others."""
    recipe = COUNTS.recipe
    wide = {"fp32_gradients": True}
    each = sharding_bytes(col(8), col(1e6), col(0.5e6), layout(), recipe)
    assert each[0] == pytest.approx(7 / 8 * (2 * 1e6 * 2 + 0.5e6 * 2))
    assert sharding_bytes(col(8), col(1e6), col(0.5e6), layout(**wide), recipe)[0] == pytest.approx(
        7 / 8 * (2 * 1e6 * 2 + 0.5e6 * 4)
    )
    again = sharding_bytes(col(8), col(1e6), col(0.5e6), layout(gathers_to_recompute=True), recipe)
    assert (again - each)[0] == pytest.approx(7 / 8 * 1e6 * 2)
    assert synchronization_bytes(col(8), col(1e6), layout(), recipe)[0] == pytest.approx(7 / 8 * 1e6 * (2 + 2))
    assert synchronization_bytes(col(8), col(1e6), layout(**wide), recipe)[0] == pytest.approx(7 / 8 * 1e6 * (4 + 2))
    whole = layout(zero_stage=0, **wide)
    assert synchronization_bytes(col(8), col(1e6), whole, recipe)[0] == pytest.approx(7 / 8 * 1e6 * (4 + 4))
    other = replace(recipe, gathered_bytes_per_param=0.5)
    assert sharding_bytes(col(8), col(1e6), col(0), layout(), other)[0] == pytest.approx(7 / 8 * 2 * 1e6 * 0.5)
    assert sharding_s(FAR, col(8e9, 8e9), col(4e9, 4e9)).tolist() == [0, 2]
    assert synchronization_s(FAR, col(8e9, 8e9), col(4e9, 4e9)).tolist() == [2, 0]
