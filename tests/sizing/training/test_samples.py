"""What a micro-batch of samples computes, moves and keeps."""

from __future__ import annotations

from dataclasses import replace

from app.sizing.training.samples import (
    sample_activation_bytes,
    sample_elementwise_bytes,
    sample_flops,
    sample_grouped_bytes,
    sample_matrix_bytes,
    sample_operations,
    working_sample_bytes,
)
from tests.sizing.training.counted import COUNTS, layout

SAMPLE = replace(
    COUNTS,
    in_samples=True,
    sample_forward_flops=2e12,
    sample_matrix_bytes=5.0,
    sample_grouped_bytes=2.0,
    sample_grouped_taps=1.0,
    sample_elementwise_bytes=7.0,
    sample_operations=50.0,
    sample_kept_bytes=70.0,
    sample_working_bytes=11.0,
    sample_score_pairs=4.0,
)


def test_a_step_is_three_forwards_of_two_samples() -> None:
    plans = layout(flash_attention=True)
    assert sample_flops(SAMPLE, plans).tolist() == [3 * 2e12 * 2]
    assert sample_matrix_bytes(SAMPLE, plans).tolist() == [3 * 5 * 2]
    assert sample_grouped_bytes(SAMPLE, plans).tolist() == [3 * (2 + 1) * 2]


def test_fused_kernels_move_half_of_what_lies_between_and_are_half_as_many() -> None:
    eager, fused = (layout(flash_attention=True, fused_kernels=fused) for fused in (False, True))
    assert sample_elementwise_bytes(SAMPLE, eager).tolist() == [3 * 7 * 2]
    assert sample_elementwise_bytes(SAMPLE, fused).tolist() == [3 * 3.5 * 2]
    assert (sample_operations(SAMPLE, eager).tolist(), sample_operations(SAMPLE, fused).tolist()) == ([50], [25])
    assert sample_operations(replace(SAMPLE, sample_operations=0.0), eager).tolist() == [1]


def test_stored_scores_are_moved_and_kept() -> None:
    plans = layout(flash_attention=False, fused_kernels=False)
    assert sample_elementwise_bytes(SAMPLE, plans).tolist() == [3 * (7 + 40) * 2]
    assert sample_activation_bytes(SAMPLE, plans).tolist() == [2 * (70 + 24)]
    assert sample_activation_bytes(SAMPLE, layout(flash_attention=True)).tolist() == [140]


def test_backward_holds_gradients_and_kept_activations() -> None:
    assert working_sample_bytes(SAMPLE, layout()).tolist() == [2 * 11]
