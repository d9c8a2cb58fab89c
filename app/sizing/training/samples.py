"""Training on samples: what one micro-batch of images, audio or diffusion samples computes, moves and keeps."""

from __future__ import annotations

import numpy as np

from app.sizing.columns import Column
from app.sizing.formula import formula
from app.sizing.training.counts import Counts
from app.sizing.training.plans import TrainingPlans

# Bytes per attention score, where scores are stored: moved in the forward pass, and kept for backward.
SCORE_BYTES_MOVED, SCORE_BYTES_KEPT = 10.0, 6.0
# Fused norm, activation and sum: three passes over a convolution's output instead of five to eight.
FUSED_SHARE = 0.5
TAP_BYTES = 1.0  # memory traffic that takes as long as one product outside the matrix units, at any precision


@formula(unit="FLOP", source="FLOPs of the forward pass, counted, times three")
def sample_flops(counts: Counts, plans: TrainingPlans) -> Column:
    """FLOPs of one micro-batch of samples: a forward pass, and a backward pass of twice its work.

    Check: ResNet-50 at 8.2 GFLOP per forward pass, 32 images.
        >>> sample_flops(row(sample_forward_flops=8.2e9), row(micro_batch_sequences=col(32))).tolist()
        [787200000000.0]
    """
    return 3 * counts.sample_forward_flops * plans.micro_batch_sequences


@formula(unit="B", source="inputs and outputs of matrices, counted, times three")
def sample_matrix_bytes(counts: Counts, plans: TrainingPlans) -> Column:
    """Bytes that convolutions and matrices of one micro-batch read and write, forward and backward.

    Check: 50 MB per forward pass, 32 images.
        >>> sample_matrix_bytes(row(sample_matrix_bytes=50e6), row(micro_batch_sequences=col(32))).tolist()
        [4800000000.0]
    """
    return 3 * counts.sample_matrix_bytes * plans.micro_batch_sequences


@formula(
    unit="B",
    source="inputs and outputs of grouped convolutions, counted, times three; fitted to EfficientNets of timm",
)
def sample_grouped_bytes(counts: Counts, plans: TrainingPlans) -> Column:
    """Bytes that grouped and depthwise convolutions of one micro-batch move, forward and backward.

    Their products do not run on matrix units; each counts as one byte of memory traffic, fitted to EfficientNets of
    timm.

    Check: 10 MB and 5e6 products per forward pass, 32 images.
        >>> grouped = row(sample_grouped_bytes=10e6, sample_grouped_taps=5e6)
        >>> sample_grouped_bytes(grouped, row(micro_batch_sequences=col(32))).tolist()
        [1440000000.0]
    """
    again = TAP_BYTES * counts.sample_grouped_taps
    return 3 * (counts.sample_grouped_bytes + again) * plans.micro_batch_sequences


@formula(unit="B", source="reads and writes of norms, activations, sums and pools, counted, times three")
def sample_elementwise_bytes(counts: Counts, plans: TrainingPlans) -> Column:
    """Bytes that operators between matrices of one micro-batch move, forward and backward.

    These are norms, activations, sums and pools. Stored attention scores are included.

    Check: 60 MB per forward pass, 32 images, eager and fused kernels.
        >>> fused, flash = np.array([False, True]), np.array([True, True])
        >>> plans = row(micro_batch_sequences=col(32, 32), fused_kernels=fused, flash_attention=flash)
        >>> sample_elementwise_bytes(row(sample_elementwise_bytes=60e6, sample_score_pairs=0), plans).tolist()
        [5760000000.0, 2880000000.0]
    """
    scores = np.where(plans.flash_attention, 0.0, SCORE_BYTES_MOVED * counts.sample_score_pairs)
    share = np.where(plans.fused_kernels, FUSED_SHARE, 1.0)
    return 3 * (counts.sample_elementwise_bytes * share + scores) * plans.micro_batch_sequences


@formula(unit="kernels", source="operators of the forward pass, counted")
def sample_operations(counts: Counts, plans: TrainingPlans) -> Column:
    """Kernels launched per forward pass; half as many where norms, activations and sums are fused.

    Check: 160 operators, eager and fused.
        >>> sample_operations(row(sample_operations=160), row(fused_kernels=np.array([False, True]))).tolist()
        [160.0, 80.0]
    """
    return np.maximum(1.0, counts.sample_operations * np.where(plans.fused_kernels, FUSED_SHARE, 1.0))


@formula(unit="B", source="counted operator by operator; equal to traces of torchvision and timm")
def sample_activation_bytes(counts: Counts, plans: TrainingPlans) -> Column:
    """Activations that a micro-batch of samples keeps for backward, in the width of its precision.

    Check: 90 MB per image, 32 images.
        >>> plans = row(micro_batch_sequences=col(32), flash_attention=np.array([True]))
        >>> sample_activation_bytes(row(sample_kept_bytes=90e6, sample_score_pairs=0), plans).tolist()
        [2880000000.0]
    """
    scores = np.where(plans.flash_attention, 0.0, SCORE_BYTES_KEPT * counts.sample_score_pairs)
    return plans.micro_batch_sequences * (counts.sample_kept_bytes + scores)


@formula(
    unit="B",
    source="gradients of a layer's output and input, counted; largest batches of 100 timm networks in 24 GB",
)
def working_sample_bytes(counts: Counts, plans: TrainingPlans) -> Column:
    """Gradients that backward holds in addition to kept activations, at the layer where the sum is largest.

    Check: 12 MB per image, 32 images.
        >>> working_sample_bytes(row(sample_working_bytes=12e6), row(micro_batch_sequences=col(32))).tolist()
        [384000000.0]
    """
    return plans.micro_batch_sequences * counts.sample_working_bytes
