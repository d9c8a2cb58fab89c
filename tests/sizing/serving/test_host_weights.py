"""Weights in the host's memory, worked by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.sizing.columns import column_names, one
from app.sizing.serving.host_weights import (
    HostMemory,
    HostOffload,
    HostStep,
    expert_share_on_host,
    host_flops_share,
    host_pass_s,
    host_prompt,
    host_prompt_s,
    host_sequences,
    host_step,
    host_weights_bytes,
    host_work_s,
    layer_share_on_host,
    remaining_on_accelerators,
    with_host_part_s,
)
from tests.examples import col
from tests.sizing.serving.given import DENSE, MIXTURE


def test_experts_go_before_layers_where_an_engine_tells_them_apart() -> None:
    # 100 bytes of which 80 are experts: 40 %, 80 %, 90 % and all of them away
    share, weights, experts, yes = col(0.4, 0.8, 0.9, 1.0), np.full(4, 100.0), np.full(4, 80.0), np.ones(4, bool)
    assert expert_share_on_host(share, weights, experts, yes).tolist() == pytest.approx([0.5, 1, 1, 1])
    assert layer_share_on_host(share, weights, experts, yes).tolist() == pytest.approx([0, 0, 0.5, 1])
    # whole layers take their experts with them
    assert expert_share_on_host(share, weights, experts, ~yes).tolist() == share.tolist()
    assert layer_share_on_host(share, weights, experts, ~yes).tolist() == share.tolist()


def test_a_dense_model_has_only_layers() -> None:
    assert one(expert_share_on_host(col(0.3), col(100), col(0), np.array([True]))) == 0
    assert one(layer_share_on_host(col(0.3), col(100), col(0), np.array([True]))) == pytest.approx(0.3)


@pytest.mark.parametrize("share", [0.0, 0.2, 0.85, 1.0])
@pytest.mark.parametrize("first", [True, False])
def test_what_lies_with_the_host_is_the_share_of_all(share: float, first: bool) -> None:
    given: Any = (col(share), col(100), col(80), np.array([first]))
    there = host_weights_bytes(expert_share_on_host(*given), layer_share_on_host(*given), col(100), col(80))
    assert one(there) == pytest.approx(100 * share)


def test_what_stays_is_the_rest() -> None:
    assert remaining_on_accelerators(col(100, 100), col(0, 0.25)).tolist() == [100, 75]


def test_a_host_multiplies_the_part_that_it_holds() -> None:
    routed, whole = MIXTURE.routed_matmul_params, MIXTURE.matmul_params
    assert one(host_flops_share(MIXTURE, col(1), col(0))) == pytest.approx(routed / whole)
    assert one(host_flops_share(MIXTURE, col(1), col(1))) == pytest.approx(1)
    assert one(host_flops_share(DENSE, col(0), col(0.25))) == pytest.approx(0.25)


def on_host(**changed: float) -> HostOffload:
    """A host that reads at 100 bytes, computes at 1000 and moves at 20 a second."""
    known = {
        "weights_share": 0.5,
        "layers_share": 0.25,
        "experts_share": 1.0,
        "weights_bytes": 50.0,
        "dense_bytes": 5.0,
        "routed_bytes": 40.0,
        "room_bytes": 70.0,
        "bytes_per_s": 100.0,
        "socket_bytes_per_s": 200.0,
        "flops_per_s": 1000.0,
        "link_bytes_per_s": 20.0,
    }
    columns: dict[str, Any] = {name: col(value) for name, value in (known | changed).items()}
    return HostOffload(**columns)


def test_nothing_on_a_host_takes_no_time_and_leaves_everything() -> None:
    none = HostOffload.without_offload(2)
    assert all(np.isfinite(getattr(none, name)).all() for name in column_names(HostOffload))
    step = host_step(DENSE, none, col(1e9, 1e9))
    assert host_pass_s(step, col(1, 8), col(1, 1), col(1, 8), col(1, 8)).tolist() == [0, 0]
    assert none.distinct_placements[0] == 1
    assert none.distinct_placements[1].tolist() == [0, 0]


def test_hosts_of_one_kind_are_those_that_replicas_read_alike() -> None:
    two = HostOffload(
        *(np.concatenate([getattr(on_host(), n), getattr(on_host(), n)]) for n in column_names(HostOffload))
    )
    assert two.distinct_placements[1].tolist() == [1, 1]
    two.room_bytes[1] = 71.0
    count, which = two.distinct_placements
    assert which[0] != which[1]
    assert count == 3


def test_a_step_reads_the_experts_that_are_touched_and_the_cache_of_each_sequence() -> None:
    step = host_step(DENSE, on_host(), col(80))  # of 80 bytes of cache a quarter
    assert one(step.host_dense_s) == pytest.approx(0.05)
    assert one(step.host_experts_s) == pytest.approx(0.4)
    assert one(step.host_cache_slope_s) == pytest.approx(0.2)
    assert one(step.host_multiply_slope_s) == pytest.approx(2 * DENSE.matmul_params * 0.25 / 1000)


def test_reading_or_multiplying_whichever_takes_longer_once_for_every_micro_batch() -> None:
    step = HostStep(col(0.1), col(0.3), col(1.0), col(0.01))
    # 2 tokens: 0.2 s to multiply, 0.3 + half of the experts to read, two caches
    assert one(host_pass_s(step, col(2), col(0.5), col(2), col(2))) == pytest.approx(0.8 + 0.02)
    # 20 tokens: 2 s to multiply; two micro-batches of a pipeline pass one after another
    assert one(host_pass_s(step, col(20), col(0.5), col(20), col(40))) == pytest.approx(2 * (2.0 + 0.2))


def test_prompts_are_computed_where_the_weights_lie_or_these_are_moved() -> None:
    prompt = host_prompt(on_host(), col(3000.0))
    assert one(prompt.host_multiply_s) == pytest.approx(3)
    assert (one(prompt.moved_dense_s), one(prompt.moved_experts_s)) == pytest.approx((0.25, 2.0))
    # on the host 3 s of multiplying; moved 2.25 s
    assert one(host_prompt_s(prompt, col(1), col(1))) == pytest.approx(2.25)
    # a tenth of a prompt: 0.45 s of reading on the host
    assert one(host_prompt_s(prompt, col(0.1), col(1))) == pytest.approx(0.45)
    slow = replace(prompt, moved_multiply_s=col(5))
    assert one(host_prompt_s(slow, col(1), col(1))) == pytest.approx(3)


def test_the_parts_follow_one_another() -> None:
    assert one(with_host_part_s(col(0.2), col(0.3))) == pytest.approx(0.5)
    assert one(host_work_s(col(10), col(4))) == pytest.approx(2.5)


def test_the_cache_of_layers_shares_host_memory_with_the_weights() -> None:
    assert one(host_sequences(col(70), col(50), col(6))) == 3
    assert one(host_sequences(col(50), col(70), col(6))) == 1
    assert one(host_sequences(col(50), col(40), col(0))) == np.inf
    assert HostMemory(col(50, 50), col(20, 21), col(70, 70)).fits.tolist() == [True, False]


def test_no_host_is_better_than_its_memory_at_full_rate() -> None:
    best = on_host().at_full_rate()
    step = host_step(DENSE, best, col(80))
    assert one(step.host_experts_s) == pytest.approx(0.2)
    assert one(step.host_multiply_slope_s) == 0
