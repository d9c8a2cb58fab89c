"""Training on samples: what one micro-batch of images, speech or pictures computes, moves and keeps."""

from __future__ import annotations

import numpy as np

from app.sizing.columns import Column
from app.sizing.formula import formula
from app.sizing.training.counts import Counts
from app.sizing.training.plans import TrainingPlans

# Attention that stores its scores moves each ten bytes forward and keeps six of them, as in language models.
SCORE_BYTES_MOVED, SCORE_BYTES_KEPT = 10.0, 6.0
# Norm, activation and sum in one kernel: three passes over a convolution's output in place of five to eight.
FUSED_SHARE = 0.5
TAP_BYTES = 1.0  # of memory's bandwidth that a product outside the matrix units is worth, whatever the precision


@formula(unit="FLOP", source="counted: three forwards")
def sample_flops(counts: Counts, plans: TrainingPlans) -> Column:
    """FLOPs of one micro-batch of samples: a forward, and a backward of twice its work.

    Source: counted.
    """
    return 3 * counts.sample_forward_flops * plans.micro_batch_sequences


@formula(unit="B", source="counted: inputs and outputs of matrices, three times")
def sample_matrix_bytes(counts: Counts, plans: TrainingPlans) -> Column:
    """Bytes that convolutions and matrices of one micro-batch read and write.

    Source: counted.
    """
    return 3 * counts.sample_matrix_bytes * plans.micro_batch_sequences


@formula(unit="B", source="counted: inputs and outputs of grouped convolutions, three times")
def sample_grouped_bytes(counts: Counts, plans: TrainingPlans) -> Column:
    """Bytes that convolutions of one micro-batch move which keep channels, or groups of them, apart, and what their
    products are worth, which no matrix unit forms.

    Source: counted; what a product is worth from EfficientNets of timm.
    """
    again = TAP_BYTES * counts.sample_grouped_taps
    return 3 * (counts.sample_grouped_bytes + again) * plans.micro_batch_sequences


@formula(unit="B", source="counted: norms, activations, sums and pools, three times")
def sample_elementwise_bytes(counts: Counts, plans: TrainingPlans) -> Column:
    """Bytes that everything between the matrices of one micro-batch reads and writes, stored scores among it.

    Source: counted.
    """
    scores = np.where(plans.flash_attention, 0.0, SCORE_BYTES_MOVED * counts.sample_score_pairs)
    share = np.where(plans.fused_kernels, FUSED_SHARE, 1.0)
    return 3 * (counts.sample_elementwise_bytes * share + scores) * plans.micro_batch_sequences


@formula(unit="kernels", source="counted")
def sample_operations(counts: Counts, plans: TrainingPlans) -> Column:
    """Kernels that are launched for a forward: fewer where norms, activations and sums are one.

    Source: counted.
    """
    return np.maximum(1.0, counts.sample_operations * np.where(plans.fused_kernels, FUSED_SHARE, 1.0))


@formula(unit="B", source="counted operation by operation")
def sample_activation_bytes(counts: Counts, plans: TrainingPlans) -> Column:
    """Activations that a micro-batch of samples keeps for backward, in the width of its precision.

    Source: counted from the network's operations; equal to traces of torchvision and timm.
    """
    scores = np.where(plans.flash_attention, 0.0, SCORE_BYTES_KEPT * counts.sample_score_pairs)
    return plans.micro_batch_sequences * (counts.sample_kept_bytes + scores)


@formula(unit="B", source="counted: gradients of a layer's output and input")
def working_sample_bytes(counts: Counts, plans: TrainingPlans) -> Column:
    """Gradients that backward holds beside what is kept, at the layer where both are most.

    Source: counted; batches that just fit 24 GB, of a hundred networks of timm.
    """
    return plans.micro_batch_sequences * counts.sample_working_bytes
