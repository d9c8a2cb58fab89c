"""Traffic of layers and of states over the links of the small run, worked by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.sizing.training.traffic import Traffic, layer_traffic, state_traffic
from tests.examples import col, row
from tests.sizing.training.counted import COUNTS
from tests.sizing.training.test_compute import table

# A rank of 1000 tokens: 200 kB of hidden states; machines of eight, 400 GB/s inside and 50 GB/s between.
HIDDEN = 1000 * 2 * 100.0


def shown(found: Traffic) -> list[float]:
    columns = (found.scale_up_s, found.network_s, found.scale_up_messages, found.network_messages)
    return [float(v[0]) for v in columns]


def layers(**columns: Any) -> Any:
    return layer_traffic(COUNTS, table(**columns), col(1000), col(4), col(2))


def test_traffic_of_layers() -> None:
    """Four tensor ranks and eight of the context inside a machine; twenty-four of the pipeline beyond it."""
    found = layers()
    tensor = 2 * 2 * 4 * 2 * 3 / 4 * HIDDEN
    assert shown(found.tensor) == pytest.approx([tensor / 400e9, 0, 2 * 2 * 4, 0])
    ring = 3 * 1 * 1000 * 2 * 480 / 2 / 3
    assert shown(found.context) == pytest.approx([ring / 400e9, 0, 4 * 3 * 1, 0])
    assert shown(found.pipeline) == pytest.approx([0, 4 * HIDDEN / 4 / 50e9, 0, 4])
    exchanges = 2 * 2 * 6 / 3
    # two experts a token: each of seven others has one with the chance 1 - (7/8)^2
    tokens = exchanges * HIDDEN / 4 * 7 * (1 - (7 / 8) ** 2)
    assert shown(found.expert) == pytest.approx([tokens / 400e9, 0, exchanges, 0])


def test_groups_of_one_say_nothing() -> None:
    found = layers(tensor_parallel=1, context_parallel=1, expert_parallel=1, pipeline_parallel=1)
    for silent in (found.tensor, found.context, found.expert, found.pipeline):
        assert shown(silent) == [0, 0, 0, 0]
    two = layers(tensor_parallel=2, context_parallel=2, expert_parallel=2, pipeline_parallel=2)
    for heard in (two.tensor, two.context, two.expert, two.pipeline):
        assert heard.scale_up_s[0] > 0
        assert heard.scale_up_messages[0] > 0


def test_groups_beyond_a_machine_cross_the_network() -> None:
    assert layers(tensor_parallel=16, context_parallel=1).tensor.network_messages.tolist() == [16]
    assert layers(context_parallel=4).context.network_messages.tolist() == [4 * 3 * 3]
    # thirty-two ranks of experts in four machines: a token goes once to each rank, and once to each machine
    far = layers(expert_parallel=32).expert
    ranks, machines = 31 * (1 - (31 / 32) ** 2), 3 * (1 - (3 / 4) ** 2)
    tokens = 8 * HIDDEN / 4
    assert shown(far) == pytest.approx([tokens * ranks / 400e9, tokens * machines / 50e9, 0, 8])


def states(counts: Any = COUNTS, data_group: float = 16, expert_group: float = 2, **columns: Any) -> Any:
    rank: Any = row(dense=col(3e6), routed=col(2e6), trained_dense=col(1e6), trained_routed=col(0.5e6))
    rank.expert_shards = col(2)
    plans = table(**{"tensor_parallel": 4, **columns})
    whole = plans.tensor_parallel * plans.pipeline_parallel * data_group
    spread: Any = row(data_group=col(data_group), expert_group=col(expert_group), accelerators=whole)
    return state_traffic(counts, plans, rank, spread)


def test_states_are_synchronised_once() -> None:
    """Sixteen replicas of four ranks reach beyond the machine, two groups of two experts' ranks do not."""
    found = states(zero_stage=1)
    # two rings of a machine's cards: 2 * 50 GB/s; gradients of two bytes, and weights of two gathered
    outside, inside = 15 / 16 * 1e6 * 4 / 100e9, 1 / 2 * 0.5e6 * 4 / 400e9
    assert shown(found.synchronized) == pytest.approx([inside, outside, 0, 4])
    assert shown(found.sharded) == [0, 0, 0, 0]


def test_sharded_states_travel_with_every_micro_batch() -> None:
    found = states(zero_stage=3)
    outside = 15 / 16 * (2 * 3e6 * 2 + 1e6 * 2) / 100e9
    inside = 1 / 2 * (2 * 2e6 * 2 + 0.5e6 * 2) / 400e9
    assert shown(found.sharded) == pytest.approx([inside, outside, 0, 12])
    assert shown(found.synchronized) == [0, 0, 0, 0]


def test_stages_in_a_machine_move_its_replicas_to_other_machines() -> None:
    """Eight replicas fill a machine, but two stages of each need a second one: four replicas in each."""
    dense, alone = replace(COUNTS, routed_params=0.0), {"tensor_parallel": 1, "context_parallel": 1, "zero_stage": 1}
    one, two = (states(dense, data_group=8, pipeline_parallel=stages, **alone).synchronized for stages in (1, 2))
    assert shown(one) == pytest.approx([7 / 8 * 1e6 * 4 / 400e9, 0, 12, 0])
    assert shown(two) == pytest.approx([0, 7 / 8 * 1e6 * 4 / (4 * 50e9), 0, 6])


def test_states_within_a_machine() -> None:
    dense = replace(COUNTS, routed_params=0.0)
    near = states(dense, data_group=2, zero_stage=1)
    assert shown(near.synchronized) == pytest.approx([1 / 2 * 1e6 * 4 / 400e9, 0, 4, 0])
    assert shown(states(dense, data_group=2, zero_stage=3).sharded)[2:] == [12, 0]
    assert shown(states(dense, data_group=1, zero_stage=1).synchronized) == [0, 0, 0, 0]
    assert shown(states(dense, data_group=1, zero_stage=3).sharded) == [0, 0, 0, 0]
    # experts alone beyond the machine
    assert shown(states(data_group=2, expert_group=8, zero_stage=1).synchronized)[2:] == [0, 4]
