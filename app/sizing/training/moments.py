"""The four moments of a training step at which an accelerator may hold the most memory, and which one is the peak.

Forward ends with all activations and the loss. Backward begins with the recomputation of a layer, and ends with all
gradients. The optimizer's update holds all gradients and its temporary copies. The parts come from traced steps of
PyTorch 2.15 on fake tensors in 311 setups.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Codes, Column, Columns
from app.sizing.formula import formula
from app.sizing.hardware.achieved import TrainingMemoryFactors

MOMENTS = ("loss", "backward", "gradients", "update")
LOSS, BACKWARD, GRADIENTS, UPDATE = range(4)


@dataclass(frozen=True, slots=True)
class MemoryParts(Columns):
    """Memory parts of one accelerator, bytes; none of them depends on a fitted factor."""

    weights_bytes: Column  # weights, B
    optimizer_bytes: Column  # optimizer states, B
    host_bytes: Column  # states, weights and activations in host memory, B per machine
    gradient_bytes: Column  # all gradients and their buckets, B
    lasting_gradient_bytes: Column  # gradients that exist during forward, B
    head_gradient_bytes: Column  # gradient of the head's weights where gradients do not persist, B
    kept_bytes: Column  # activations of all micro-batches in flight, B
    logits_bytes: Column  # logits and loss beyond the kept activations, B
    last_norm_bytes: Column  # input and output of the final norm, B
    working_bytes: Column  # additional memory of the first layer of backward, B
    last_bytes: Column  # memory in addition to the gradients at the end of backward, B
    loss_gathered_bytes: Column  # gathered weights and 16-bit copies at the loss, B
    backward_gathered_bytes: Column  # gathered weights and 16-bit copies in backward, B
    update_bytes: Column  # temporary memory of the optimizer's update, B
    communicators: Column  # groups of ranks in which the accelerator communicates


@dataclass(frozen=True, slots=True)
class Moments(Columns):
    """Gradients and activations together at each moment, bytes."""

    loss_bytes: Column  # at the end of forward, B
    backward_bytes: Column  # in the first layer of backward, B
    gradients_bytes: Column  # at the end of backward, B
    update_bytes: Column  # in the optimizer's update, B


@dataclass(frozen=True, slots=True)
class ActivationParts(Columns):
    """Parts of the activations at the peak, bytes."""

    kept_bytes: Column  # activations kept for backward, B
    working_bytes: Column  # memory of the layer or norm at work, B
    logits_bytes: Column  # logits and loss, B
    gathered_bytes: Column  # gathered weights and 16-bit copies, B
    update_bytes: Column  # temporary memory of the optimizer's update, B


@dataclass(frozen=True, slots=True)
class Peak(Columns):
    """Memory parts that depend on the peak moment, and the moment itself as an index into MOMENTS."""

    gradient_bytes: Column  # gradients at the peak, B
    activation_bytes: Column  # activations at the peak, B
    overhead_bytes: Column  # context, collective buffers and fragmentation, B
    moment: Codes  # index into MOMENTS


@formula(unit="B", source="traced steps of PyTorch 2.15")
def at_loss_bytes(parts: MemoryParts) -> Column:
    """Gradients and activations at the end of forward.

    Parameters:
        parts: memory parts of one accelerator (`MemoryParts`).
    Check: 1 GB of persistent gradients, 10 GB of activations, 4 GB of loss.
        >>> lasting = row(lasting_gradient_bytes=col(1e9), kept_bytes=col(10e9), logits_bytes=col(3e9))
        >>> at_loss_bytes(row(**vars(lasting), last_norm_bytes=0.2e9, loss_gathered_bytes=0.8e9)).tolist()
        [15000000000.0]
    """
    loss = parts.logits_bytes + parts.last_norm_bytes + parts.loss_gathered_bytes
    return parts.lasting_gradient_bytes + parts.kept_bytes + loss


@formula(unit="B", source="traced steps of PyTorch 2.15")
def in_backward_bytes(parts: MemoryParts) -> Column:
    """Gradients and activations in the first layer of backward: nothing is freed yet, and the layer is recomputed.

    Parameters:
        parts: memory parts of one accelerator (`MemoryParts`).
    Check: 1 GB of persistent gradients, 1 GB of the head's, 10 GB of activations, 2 GB of the layer.
        >>> gradients = row(lasting_gradient_bytes=col(1e9), head_gradient_bytes=col(1e9))
        >>> parts = row(**vars(gradients), kept_bytes=col(10e9), working_bytes=col(2e9), backward_gathered_bytes=0)
        >>> in_backward_bytes(parts).tolist()
        [14000000000.0]
    """
    gradients = parts.lasting_gradient_bytes + parts.head_gradient_bytes
    return gradients + parts.kept_bytes + parts.working_bytes + parts.backward_gathered_bytes


@formula(unit="B", source="traced steps of PyTorch 2.15")
def at_gradients_bytes(parts: MemoryParts) -> Column:
    """Gradients and remaining activations at the end of backward.

    Parameters:
        parts: memory parts of one accelerator (`MemoryParts`).
    Check: 16 GB of gradients, 1 GB of the first layer.
        >>> at_gradients_bytes(row(gradient_bytes=col(16e9), last_bytes=col(1e9))).tolist()
        [17000000000.0]
    """
    return parts.gradient_bytes + parts.last_bytes


@formula(unit="B", source="traced steps of PyTorch 2.15")
def in_update_bytes(parts: MemoryParts) -> Column:
    """Gradients and temporary copies in the optimizer's update.

    Parameters:
        parts: memory parts of one accelerator (`MemoryParts`).
    Check: 16 GB of gradients, 4 GB of copies.
        >>> in_update_bytes(row(gradient_bytes=col(16e9), update_bytes=col(4e9))).tolist()
        [20000000000.0]
    """
    return parts.gradient_bytes + parts.update_bytes


@formula(unit="B", source="definition")
def peak_bytes(
    at_loss_bytes: Column, in_backward_bytes: Column, at_gradients_bytes: Column, in_update_bytes: Column
) -> Column:
    """Gradients and activations at the highest of the four moments.

    Parameters:
        at_loss_bytes: at the end of forward, bytes.
        in_backward_bytes: in the first layer of backward, bytes.
        at_gradients_bytes: at the end of backward, bytes.
        in_update_bytes: in the optimizer's update, bytes.
    Check: 15, 14, 17 and 20 GB.
        >>> peak_bytes(col(15e9), col(14e9), col(17e9), col(20e9)).tolist()
        [20000000000.0]
    """
    forward = np.maximum(at_loss_bytes, in_backward_bytes)
    return np.maximum(forward, np.maximum(at_gradients_bytes, in_update_bytes))


@formula(unit="B", source="definition")
def activations_at_peak_bytes(peak_bytes: Column, gradients_at_peak_bytes: Column) -> Column:
    """Part of the peak that is not gradients.

    Parameters:
        peak_bytes: gradients and activations at the peak, bytes.
        gradients_at_peak_bytes: gradients at the peak, bytes.
    Check: a peak of 20 GB with 16 GB of gradients.
        >>> activations_at_peak_bytes(col(20e9), col(16e9)).tolist()
        [4000000000.0]
    """
    return peak_bytes - gradients_at_peak_bytes


@formula(unit="B", source="AIConfigurator's memory tables: 342 to 392 MB per NCCL communicator")
def collective_buffer_bytes(parts: MemoryParts, factors: TrainingMemoryFactors) -> Column:
    """Buffers of collectives: one communicator per group of ranks.

    AIConfigurator's tables have 0, 342 and 392 MB for one group of 1, 2, and 4 or 8 ranks.

    Parameters:
        parts: memory parts of one accelerator (`MemoryParts`).
        factors: fitted memory factors (`TrainingMemoryFactors`).
    Check: three groups of 392 MB.
        >>> collective_buffer_bytes(row(communicators=col(3)), row(training_collective_bytes=392e6)).tolist()
        [1176000000.0]
    """
    return parts.communicators * factors.training_collective_bytes


@formula(unit="B", source="definition; the allocator's share is fitted to published peaks")
def overhead_bytes(peak_bytes: Column, collective_buffer_bytes: Column, factors: TrainingMemoryFactors) -> Column:
    """Runtime context, collective buffers and allocator fragmentation; the fragmentation is fitted to published peaks.

    Parameters:
        peak_bytes: gradients and activations at the peak, bytes.
        collective_buffer_bytes: buffers of collectives, bytes.
        factors: fitted memory factors (`TrainingMemoryFactors`).
    Check: 1 GB of context, 0.4 GB of buffers and 5 % of 20 GB.
        >>> fitted = row(training_context_bytes=1e9, training_fragmentation_fraction=0.05)
        >>> overhead_bytes(col(20e9), col(0.4e9), fitted).tolist()
        [2400000000.0]
    """
    slack = factors.training_fragmentation_fraction * peak_bytes
    return factors.training_context_bytes + collective_buffer_bytes + slack


def bytes_at_moments(parts: MemoryParts) -> Moments:
    """Return gradients and activations at each of the four moments."""
    return Moments(at_loss_bytes(parts), in_backward_bytes(parts), at_gradients_bytes(parts), in_update_bytes(parts))


def gradient_bytes_at(parts: MemoryParts, moment: Codes) -> Column:
    """Return the gradients that exist at the moment of each row, bytes."""
    lasting = parts.lasting_gradient_bytes
    begun = np.where(moment == BACKWARD, lasting + parts.head_gradient_bytes, lasting)
    return np.where(moment >= GRADIENTS, parts.gradient_bytes, begun)


def activation_parts_at(parts: MemoryParts, moment: Codes) -> ActivationParts:
    """Return the parts of the activations at the moment of each row."""
    forward = moment <= BACKWARD
    working = np.where(moment == LOSS, parts.last_norm_bytes, np.where(forward, parts.working_bytes, parts.last_bytes))
    gathered = np.where(moment == LOSS, parts.loss_gathered_bytes, parts.backward_gathered_bytes)
    return ActivationParts(
        kept_bytes=np.where(forward, parts.kept_bytes, 0.0),
        working_bytes=np.where(moment == UPDATE, 0.0, working),
        logits_bytes=np.where(moment == LOSS, parts.logits_bytes, 0.0),
        gathered_bytes=np.where(forward, gathered, 0.0),
        update_bytes=np.where(moment == UPDATE, parts.update_bytes, 0.0),
    )


def total_bytes_at_moments(parts: MemoryParts, factors: TrainingMemoryFactors) -> Moments:
    """Return the whole memory of an accelerator at each of the four moments, context and fragmentation included."""
    states, moments = parts.weights_bytes + parts.optimizer_bytes, bytes_at_moments(parts)
    each = (moments.loss_bytes, moments.backward_bytes, moments.gradients_bytes, moments.update_bytes)
    buffers = collective_buffer_bytes(parts, factors)
    return Moments(*(states + m + overhead_bytes(m, buffers, factors) for m in each))


def find_peak(parts: MemoryParts, factors: TrainingMemoryFactors) -> Peak:
    """Return the highest of the four moments and its memory parts."""
    moments = bytes_at_moments(parts)
    every = (moments.loss_bytes, moments.backward_bytes, moments.gradients_bytes, moments.update_bytes)
    highest = peak_bytes(*every)
    late = np.where(highest == every[GRADIENTS], GRADIENTS, UPDATE)
    moment = np.where(highest == every[LOSS], LOSS, np.where(highest == every[BACKWARD], BACKWARD, late))
    gradients = gradient_bytes_at(parts, moment)
    return Peak(
        gradient_bytes=gradients,
        activation_bytes=activations_at_peak_bytes(highest, gradients),
        overhead_bytes=overhead_bytes(highest, collective_buffer_bytes(parts, factors), factors),
        moment=moment,
    )
