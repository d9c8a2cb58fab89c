"""What one accelerator computes and moves in a step, worked by hand on the small run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.sizing.training.work import (
    attention_flops,
    dequantized_bytes,
    elementwise_bytes_per_token,
    elementwise_bytes_per_token_layer,
    expert_flops,
    head_flops,
    matrix_flops,
    matrix_passes,
    micro_batch_work,
    optimizer_at_rates_s,
    state_work,
)
from tests.examples import col, row
from tests.sizing.training.counted import COUNTS, layout

NONE, SELECTIVE, FULL = 0, 1, 2
RECIPE = replace(COUNTS.recipe, products_per_param=3.0, conversion_bytes_per_input=0.0)
RATES: dict[str, Any] = {
    "pcie": np.array([False]),
    "peak_flops_per_s": col(1e15),
    "unquantised_flops_per_s": col(5e14),
    "memory_bytes_per_s": col(2e12),
    "scale_up_bytes_per_s": col(400e9),
    "network_bytes_per_s": col(50e9),
    "scale_up_accelerators": col(8),
}


class Table:
    """A layout that knows how many rows it has."""

    def __init__(self, **columns: Any) -> None:
        self.__dict__.update(vars(layout(**columns)))
        self.machine = row(**RATES)
        self.accelerators_per_node = col(8)
        for part in ("optimizer_offload", "parameter_offload", "activation_offload"):
            setattr(self, part, np.array([bool(columns.get(part))]))

    def __len__(self) -> int:
        return 1


def table(**columns: Any) -> Any:
    return Table(**columns)


def test_matrices_are_passed_three_times_and_once_more_where_recomputed() -> None:
    assert [matrix_passes(layout(activation_checkpointing=c), RECIPE)[0] for c in (NONE, SELECTIVE, FULL)] == [3, 3, 4]
    # 5 M dense parameters and 0.3 MFLOP of adapters on a twelfth of the ranks, 1000 tokens
    assert matrix_flops(COUNTS, layout(), col(1000), col(3))[0] == pytest.approx(1000 * (6 * 5e6 + 0.3e6) / 12)
    assert head_flops(COUNTS, layout(), col(1000), RECIPE)[0] == pytest.approx(1000 * 6 * 0.7e6 / 12)
    assert expert_flops(COUNTS, layout(), col(1000), col(4))[0] == pytest.approx(1000 * 8 * 1e6 / 12)


@pytest.mark.parametrize(
    ("flash", "checkpointing", "passes"),
    [
        (True, NONE, 3.5),
        (True, SELECTIVE, 3.5),
        (True, FULL, 4.5),
        (False, NONE, 3),
        (False, SELECTIVE, 4),
        (False, FULL, 4),
    ],
)
def test_attention_forms_its_scores_again(flash: bool, checkpointing: int, passes: float) -> None:
    plans = layout(flash_attention=flash, activation_checkpointing=checkpointing)
    per_token = passes * 8e6 + 3 * 0.5e6
    assert attention_flops(COUNTS, plans, col(1000))[0] == pytest.approx(1000 * per_token / 12)


def test_elementwise_bytes_of_the_other_operators() -> None:
    """24h + 1000 of attention + 6f: 2400 + 1000 + 2400; a byte more for each of 2h + 120 + f inputs."""
    assert elementwise_bytes_per_token_layer(COUNTS, RECIPE) == 5800
    assert elementwise_bytes_per_token_layer(COUNTS, replace(RECIPE, conversion_bytes_per_input=1.0)) == 5800 + 720
    # norms over the ranks of a split sequence, the rest over the tensor group; experts' copies 6h for two in six layers
    layer, permuted, loss = 3400 / 4 + 2400 / 2, 6 * 100 * 2 * 6, 5000 * 22 / 4
    plain = elementwise_bytes_per_token(COUNTS, layout(), 5800, 10700, col(2))
    assert plain[0] == pytest.approx((12 * layer * 3 + permuted + loss) / 3)
    again = elementwise_bytes_per_token(COUNTS, layout(activation_checkpointing=SELECTIVE), 5800, 10700, col(2))
    assert again[0] == pytest.approx((12 * layer * 4 + permuted + loss) / 3)
    stored = elementwise_bytes_per_token(COUNTS, layout(flash_attention=False), 5800, 10700, col(2))
    assert stored[0] == pytest.approx((12 * (layer + 10 * 10 * 1000 / 4) * 3 + permuted + loss) / 3)
    wide = replace(RECIPE, dequantised_bytes_per_param=4.5)
    assert dequantized_bytes(COUNTS, layout(), wide)[0] == pytest.approx(9e6 / 12 * 2 * 4.5)
    full = layout(activation_checkpointing=FULL)
    assert dequantized_bytes(COUNTS, full, wide)[0] == pytest.approx(9e6 / 12 * 3 * 4.5)


def test_the_optimizer_moves_its_bytes_and_multiplies_its_momentum() -> None:
    recipe = replace(RECIPE, optimizer_moved_bytes_per_param=30.0, optimizer_flops_per_param_width=20.0)
    machine: Any = row(**RATES)
    here = optimizer_at_rates_s(col(1e9), 100.0, recipe, machine, np.array([False]))
    assert here[0] == pytest.approx(1e9 * 30 / 2e12 + 1e9 * 20 * 100 / 5e14)
    assert optimizer_at_rates_s(col(1e9), 100.0, recipe, machine, np.array([True])).tolist() == [0]


def test_work_of_tokens_at_the_rates_of_a_machine() -> None:
    """1000 tokens on one rank of the context group; the head and attention at the 16-bit rate, half the peak."""
    counts = replace(COUNTS, recipe=replace(RECIPE, dequantised_bytes_per_param=4.0, frozen=False))
    found = micro_batch_work(counts, table())
    assert (found.stages.tolist(), found.virtual_pipeline.tolist()) == ([3], [4])
    work = found.compute
    assert work.matrix_s[0] == pytest.approx(1000 * (6 * 5e6 + 0.3e6) / 12 / 1e15)
    assert work.head_s[0] == pytest.approx(1000 * 6 * 0.7e6 / 12 / 5e14)
    assert work.expert_s[0] == pytest.approx(1000 * 6 * 1e6 / 12 / 1e15)
    assert work.attention_s[0] == pytest.approx(1000 * (3.5 * 8e6 + 1.5e6) / 12 / 5e14)
    bytes_ = elementwise_bytes_per_token(counts, layout(), 5800, 10700, col(4))[0]
    assert work.elementwise_s[0] == pytest.approx(1000 * bytes_ / 2e12)
    assert work.dequantization_s[0] == pytest.approx(9e6 / 12 * 2 * 4 / 2e12)
    assert [v[0] for v in (work.layers, work.expert_layers, work.adapted_layers)] == [4, 2, 0]
    frozen = replace(counts, recipe=replace(counts.recipe, frozen=True), routed_matmul_params=0.0)
    again = micro_batch_work(frozen, table(activation_checkpointing=FULL)).compute
    assert again.layers[0] == pytest.approx(4 * 4 / 3)
    assert (again.adapted_layers.tolist(), again.expert_s.tolist()) == ([4], [0])
    plain = replace(counts, recipe=replace(RECIPE, dequantised_bytes_per_param=0.0))
    assert micro_batch_work(plain, table()).compute.dequantization_s.tolist() == [0]


def test_work_of_samples() -> None:
    counts = replace(
        COUNTS,
        in_samples=True,
        sample_forward_flops=2e12,
        sample_matrix_bytes=5e9,
        sample_grouped_bytes=2e9,
        sample_grouped_taps=1e9,
        sample_elementwise_bytes=7e9,
        sample_score_pairs=1e8,
        sample_operations=50.0,
    )
    eager = table(fused_kernels=False, flash_attention=True)
    found = micro_batch_work(counts, eager)
    assert found.compute.matrix_s[0] == pytest.approx(12e12 / 1e15)
    assert found.compute.matrix_moved_s[0] == pytest.approx(30e9 / 2e12)
    assert found.compute.grouped_s[0] == pytest.approx(18e9 / 2e12)
    assert found.compute.elementwise_s[0] == pytest.approx(42e9 / 2e12)
    assert found.compute.layers.tolist() == [50]
    fused = micro_batch_work(counts, table(fused_kernels=True, flash_attention=True)).compute
    assert fused.elementwise_s[0] == pytest.approx(21e9 / 2e12)
    assert fused.layers.tolist() == [25]
    for none in (found.traffic.tensor, found.traffic.context, found.traffic.expert, found.traffic.pipeline):
        assert [v.tolist() for v in (none.scale_up_s, none.network_s, none.scale_up_messages)] == [[0], [0], [0]]
        assert none.network_messages.tolist() == [0]


def test_work_of_a_step_outside_its_micro_batches() -> None:
    """Twenty accelerators in machines of eight: three machines; offloaded, four bytes cross to the host."""
    rank: Any = row(dense=col(1e6), routed=col(0), trained_dense=col(1e6), trained_routed=col(0), expert_shards=col(8))
    spread: Any = row(
        accelerators=col(20), micro_batches=col(5), data_group=col(4), expert_group=col(2), updated_params=col(1e9)
    )
    here = state_work(COUNTS, table(), rank, spread)
    assert (here.micro_batches.tolist(), here.machines.tolist()) == ([5], [3])
    assert here.optimizer_at_rates_s[0] == pytest.approx(1e9 * 30 / 2e12)
    assert (here.offload_s.tolist(), here.host_params.tolist()) == ([0], [0])
    away = state_work(COUNTS, table(optimizer_offload=True), rank, spread)
    assert away.optimizer_at_rates_s.tolist() == [0]
    assert away.offload_s[0] == pytest.approx(1e9 * 4 / 32e9)
    assert away.host_params.tolist() == [8e9]
    spread.accelerators = col(2)
    assert state_work(COUNTS, table(optimizer_offload=True), rank, spread).host_params.tolist() == [2e9]
