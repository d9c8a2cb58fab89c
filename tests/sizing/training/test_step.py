"""Time of a training step from its work, worked by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.training.step import (
    StepTime,
    bubble_micro_batches,
    compute_s,
    exposed_communication_s,
    exposed_s,
    layer_exposed_s,
    micro_batch_compute_s,
    micro_batch_time,
    optimizer_s,
    pipeline_bubble_s,
    sample_batch_compute_s,
    sample_batch_time,
    sample_collective_s,
    sample_optimizer_s,
    sample_step_time,
    step_time,
)
from tests.examples import col, row

ASSUMED = Assumptions()
WORK: Any = row(
    matrix_s=col(0.4),
    head_s=col(0.1),
    expert_s=col(0.2),
    attention_s=col(0.06),
    elementwise_s=col(0.05),
    dequantization_s=col(0.03),
    layers=col(12),
    expert_layers=col(6),
    adapted_layers=col(3),
    matrix_moved_s=col(0.04),
    grouped_s=col(0.2),
)


def test_computation_is_work_over_what_is_achieved_and_launches() -> None:
    achieved: Any = row(
        training_compute_fraction=col(0.5),
        training_expert_fraction=col(0.8),
        training_attention_fraction=col(0.6),
        training_elementwise_fraction=col(0.4),
        expert_imbalance_share=col(0.25),
        training_layer_s=col(1e-3),
        training_expert_layer_s=col(2e-3),
        adapter_layer_s=col(4e-3),
    )
    matrices, experts = 0.5 / 0.5, 0.2 / (0.5 * 0.8) * 1.25
    launches = 12e-3 + 6 * 2e-3 + 3 * 4e-3
    assert micro_batch_compute_s(WORK, achieved)[0] == pytest.approx(
        matrices + experts + 0.06 / 0.6 + 0.08 / 0.4 + launches
    )


def test_a_transfer_sticks_out_of_what_hides_it() -> None:
    # (1 + 2^4)^(1/4) - 1 of three quarters, and a quarter whole
    assert exposed_s(col(1), col(2), col(0.75), ASSUMED)[0] == pytest.approx(0.25 * 2 + 0.75 * (17**0.25 - 1))
    assert exposed_s(col(2), col(1), col(1), ASSUMED)[0] == pytest.approx(17**0.25 - 2)
    assert exposed_s(col(0), col(3), col(1), ASSUMED)[0] == pytest.approx(3)
    assert exposed_s(col(3), col(0), col(1), ASSUMED)[0] == pytest.approx(0)
    assert exposed_s(col(0), col(0), col(1), ASSUMED)[0] == 0
    square = Assumptions(overlap_exponent=2.0)
    assert exposed_s(col(3), col(4), col(1), square)[0] == pytest.approx(2)


def test_a_pipeline_idles_while_it_fills() -> None:
    assert bubble_micro_batches(col(4), col(2)).tolist() == [1.5]
    assert pipeline_bubble_s(col(1.5), col(8), col(1), col(0.4), col(0.1)).tolist() == pytest.approx([0.75])
    # and while stages wait for one that is a quarter fuller, with each of eight micro-batches
    assert pipeline_bubble_s(col(1.5), col(8), col(1.25), col(0.4), col(0.1)).tolist() == pytest.approx([1.75])
    half: Any = row(tensor_overlap_share=col(0.4))
    assert layer_exposed_s(col(0.2), col(0.5), half).tolist() == pytest.approx([0.2 + 0.5 * 0.6])


def test_communication_of_a_step() -> None:
    """Eight micro-batches; sharding with each, synchronisation once, and a percent for every doubling of machines."""
    assert compute_s(col(8), col(0.4)).tolist() == [3.2]
    found = exposed_communication_s(col(8), col(0.1), col(0.02), col(0.3), col(0.01), col(16), col(0.4))
    assert found[0] == pytest.approx(8 * (0.1 + 0.02) + 0.3 + 0.01 * 4 * 8 * 0.4)


def test_the_optimizer_runs_at_the_memorys_rate_or_on_the_host() -> None:
    state: Any = row(optimizer_at_rates_s=col(0.2), offload_s=col(0.6), host_params=col(3e9))
    achieved: Any = row(training_elementwise_fraction=col(0.4), host_optimizer_params_per_s=col(1.5e9))
    share = ASSUMED.pcie_copy_fraction
    assert optimizer_s(state, achieved, ASSUMED)[0] == pytest.approx(0.2 / 0.4 + 0.6 / share + 2)


def test_the_parts_of_a_step_sum_to_it() -> None:
    step = StepTime(col(1), col(0.2), col(0.03), col(0.004), col(0.0005))
    assert step.step_s.tolist() == pytest.approx([1.2345])


def test_samples() -> None:
    achieved: Any = row(
        sample_training_fraction=col(0.1),
        sample_elementwise_fraction=col(0.04 / 3),
        sample_grouped_fraction=col(0.5),
        sample_operation_s=col(1e-3),
        sample_collective_fraction=col(0.5),
    )
    # 4 and 3 s in quadrature, 0.05 s of bytes between at the same rate, grouped ones at theirs
    assert sample_batch_compute_s(WORK, achieved)[0] == pytest.approx(5 + 0.05 * 75 + 0.4 + 12e-3)
    traffic: Any = row(scale_up_s=col(0.3), network_s=col(0.2))
    assert sample_collective_s(traffic, achieved).tolist() == [1]
    state: Any = row(optimizer_at_rates_s=col(0.2))
    other: Any = row(sample_elementwise_fraction=col(0.4))
    assert sample_optimizer_s(state, other).tolist() == pytest.approx([0.5])


def test_step_times_of_rows_stay_apart() -> None:
    two = StepTime(col(1, 2), col(0, 0), col(0, 0), col(0, 0), col(0, 0))
    assert replace(two, input_s=col(1, 1)).take(np.array([1])).step_s.tolist() == [3]


FRACTIONS = (
    "training_compute",
    "training_expert",
    "training_attention",
    "training_elementwise",
    "collective_pcie",
    "collective_scale_up",
    "collective_network",
    "sample_collective",
    "sample_elementwise",
)


def test_a_micro_batch_hides_what_its_layers_say() -> None:
    """0.5 s of matrices; 0.4, 0.3 and 0.2 s of links inside, 0.1 s from stage to stage; half may overlap."""
    one = col(1)
    nothing = {"training_layer_s": col(0), "training_expert_layer_s": col(0), "adapter_layer_s": col(0)}
    shares = {f"{n}_fraction": one for n in FRACTIONS}
    waits = {"collective_latency_s": col(0), "collective_network_latency_s": col(0)}
    achieved: Any = row(**nothing, **shares, **waits, expert_imbalance_share=col(0), tensor_overlap_share=col(0.5))

    def sent(seconds: float) -> Any:
        return row(scale_up_s=col(seconds), network_s=col(0), scale_up_messages=col(0), network_messages=col(0))

    traffic = row(tensor=sent(0.4), context=sent(0.3), expert=sent(0.2), pipeline=sent(0.1))
    work: Any = row(
        compute=row(**{n: col(0) for n in vars(WORK)} | {"matrix_s": col(0.5)}),
        traffic=traffic,
        pcie=np.array([False]),
        stages=col(4),
        virtual_pipeline=col(2),
        stage_slowdown=col(1.1),
        copied_s=col(0),
    )
    found = micro_batch_time(work, achieved, ASSUMED)
    assert found.compute_s.tolist() == [0.5]
    assert found.exposed_s[0] == pytest.approx(0.5 * 0.9 + 0.5 * ((0.5**4 + 0.9**4) ** 0.25 - 0.5) + 0.1 * 0.5)
    assert found.bubble_micro_batches.tolist() == [1.5]
    assert found.pcie is work.pcie and found.stage_slowdown is work.stage_slowdown
    work.copied_s = col(0.35)  # half a second at 0.7 of PCIe's rate, as long as computation
    copied = micro_batch_time(work, achieved, ASSUMED).exposed_s - found.exposed_s
    assert copied.tolist() == pytest.approx([0.5 * (2**0.25 - 1)])


def sums() -> tuple[Any, Any, Any]:
    """(micro-batch, work outside micro-batches, achieved): eight micro-batches of 0.4 s on sixteen machines."""

    def sent(seconds: float) -> Any:
        return row(scale_up_s=col(seconds), network_s=col(0), scale_up_messages=col(0), network_messages=col(0))

    micro = row(
        compute_s=col(0.4),
        exposed_s=col(0.1),
        bubble_micro_batches=col(1.5),
        pcie=np.array([False]),
        stage_slowdown=col(1),
    )
    state = row(
        micro_batches=col(8),
        accelerators=col(128),
        machines=col(16),
        traffic=row(sharded=sent(0.2), synchronized=sent(0.6)),
        optimizer_at_rates_s=col(0.2),
        copied_s=col(0),
        offload_s=col(0),
        host_params=col(0),
    )
    achieved = row(
        **{f"{n}_fraction": col(1) for n in FRACTIONS},
        collective_latency_s=col(0),
        collective_network_latency_s=col(0),
        data_overlap_share=col(0.5),
        sample_overlap_share=col(0.5),
        straggler_share=col(0.01),
        host_optimizer_params_per_s=col(1e9),
        training_step_s=col(0.003),
        sample_step_s=col(0.007),
    )
    return micro, state, achieved


def knee(computation: float, transfer: float) -> float:
    """Half of a transfer whole, half of it behind computation."""
    beyond: float = (computation**4 + transfer**4) ** 0.25 - computation
    return 0.5 * transfer + 0.5 * beyond


def test_a_step_of_tokens_is_put_together() -> None:
    found = step_time(*sums(), ASSUMED)
    assert found.compute_s.tolist() == [8 * 0.4]
    waiting = 0.01 * 4 * 8 * 0.4
    # sharding behind the computation of each micro-batch, synchronisation once behind one with its traffic
    assert found.exposed_communication_s[0] == pytest.approx(8 * (0.1 + knee(0.4, 0.2)) + knee(0.5, 0.6) + waiting)
    assert found.pipeline_bubble_s.tolist() == [1.5 * 0.5]
    assert found.optimizer_s.tolist() == [0.2]
    assert found.input_s.tolist() == [0.003 * (1 + 7)]


def test_a_step_of_samples_is_put_together() -> None:
    micro, state, achieved = sums()
    micro.bubble_micro_batches = micro.exposed_s = col(0)
    found = sample_step_time(micro, state, achieved, ASSUMED)
    assert found.compute_s.tolist() == [8 * 0.4]
    assert found.exposed_communication_s[0] == pytest.approx(8 * knee(0.4, 0.2) + knee(0.4, 0.6))
    assert found.pipeline_bubble_s.tolist() == [0]
    assert (found.optimizer_s.tolist(), found.input_s.tolist()) == ([0.2], [0.007])


def test_a_micro_batch_of_samples_only_computes() -> None:
    achieved: Any = row(
        sample_training_fraction=col(1),
        sample_elementwise_fraction=col(1),
        sample_grouped_fraction=col(1),
        sample_operation_s=col(0),
    )
    work: Any = row(
        compute=row(matrix_s=col(3), matrix_moved_s=col(4), elementwise_s=col(0), grouped_s=col(0), layers=col(1)),
        pcie=np.array([True]),
        stage_slowdown=col(1),
    )
    found = sample_batch_time(work, achieved)
    assert (found.compute_s.tolist(), found.exposed_s.tolist(), found.bubble_micro_batches.tolist()) == ([5], [0], [0])
    assert found.pcie is work.pcie
