"""The four moments of a training step at which an accelerator may hold most, and which of them is the peak.

Forward ends with every activation and the loss; backward begins with a layer recomputed, and ends with all gradients;
the optimizer's step has these and what it copies.
Source: traced steps of PyTorch 2.15 on fake tensors, 311 setups.
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
class HeldBytes(Columns):
    """What one accelerator holds, counted; nothing here depends on a fitted factor."""

    weights_bytes: Column
    optimizer_bytes: Column
    host_bytes: Column
    gradient_bytes: Column  # all of them
    lasting_gradient_bytes: Column  # those that are there while forward runs
    head_gradient_bytes: Column
    kept_bytes: Column  # activations of all micro-batches in flight
    logits_bytes: Column  # and what comes of them, beyond what is kept
    last_norm_bytes: Column
    working_bytes: Column  # of the first layer of backward
    last_bytes: Column  # beside the gradients at the end of backward
    loss_gathered_bytes: Column  # weights on their way from other ranks, and 16-bit copies of those in 32 bit
    backward_gathered_bytes: Column
    update_bytes: Column  # temporaries of the optimizer's step
    communicators: Column  # groups of ranks that it talks in


@dataclass(frozen=True, slots=True)
class Moments(Columns):
    """Gradients and activations together at each moment."""

    loss_bytes: Column
    backward_bytes: Column
    gradients_bytes: Column
    update_bytes: Column


@dataclass(frozen=True, slots=True)
class ActivationParts(Columns):
    """What activations consist of at the peak."""

    kept_bytes: Column
    working_bytes: Column
    logits_bytes: Column
    gathered_bytes: Column
    update_bytes: Column


@dataclass(frozen=True, slots=True)
class Peak(Columns):
    """What differs at the peak moment, and which one it is: a place in MOMENTS."""

    gradient_bytes: Column
    activation_bytes: Column
    overhead_bytes: Column
    moment: Codes


@formula(unit="B", source="counted")
def at_loss_bytes(held: HeldBytes) -> Column:
    """Gradients and activations at the end of forward.

    Source: traced steps of PyTorch 2.15.
    """
    loss = held.logits_bytes + held.last_norm_bytes + held.loss_gathered_bytes
    return held.lasting_gradient_bytes + held.kept_bytes + loss


@formula(unit="B", source="counted")
def in_backward_bytes(held: HeldBytes) -> Column:
    """Gradients and activations in the first layer of backward: nothing is let go yet, and the layer is recomputed.

    Source: traced steps of PyTorch 2.15.
    """
    gradients = held.lasting_gradient_bytes + held.head_gradient_bytes
    return gradients + held.kept_bytes + held.working_bytes + held.backward_gathered_bytes


@formula(unit="B", source="counted")
def at_gradients_bytes(held: HeldBytes) -> Column:
    """Gradients and what is left of activations at the end of backward.

    Source: traced steps of PyTorch 2.15.
    """
    return held.gradient_bytes + held.last_bytes


@formula(unit="B", source="counted")
def in_update_bytes(held: HeldBytes) -> Column:
    """Gradients and temporaries in the optimizer's step.

    Source: traced steps of PyTorch 2.15.
    """
    return held.gradient_bytes + held.update_bytes


@formula(unit="B", source="definition")
def peak_bytes(
    at_loss_bytes: Column, in_backward_bytes: Column, at_gradients_bytes: Column, in_update_bytes: Column
) -> Column:
    """Gradients and activations at the highest of the four moments.

    Source: definition.
    """
    forward = np.maximum(at_loss_bytes, in_backward_bytes)
    return np.maximum(forward, np.maximum(at_gradients_bytes, in_update_bytes))


@formula(unit="B", source="definition")
def activations_at_peak_bytes(peak_bytes: Column, gradients_at_peak_bytes: Column) -> Column:
    """Of the peak what are not gradients.

    Source: definition.
    """
    return peak_bytes - gradients_at_peak_bytes


@formula(unit="B", source="NCCL: 342 to 392 MB of a communicator, as AIConfigurator's tables have it")
def collective_buffer_bytes(held: HeldBytes, factors: TrainingMemoryFactors) -> Column:
    """Buffers of collectives: those of one communicator for each group of ranks.

    Source: AIConfigurator's memory tables (0, 342, 392 MB of one group of 1, 2 and 4 or 8).
    """
    return held.communicators * factors.training_collective_bytes


@formula(unit="B", source="counted; the allocator's part is fitted")
def overhead_bytes(peak_bytes: Column, collective_buffer_bytes: Column, factors: TrainingMemoryFactors) -> Column:
    """Runtime context, buffers of collectives, and what the allocator keeps beyond what comes and goes.

    Source: fitted to published peaks.
    """
    slack = factors.training_fragmentation_fraction * peak_bytes
    return factors.training_context_bytes + collective_buffer_bytes + slack


def moments_of(held: HeldBytes) -> Moments:
    """Gradients and activations at each of the four moments."""
    return Moments(at_loss_bytes(held), in_backward_bytes(held), at_gradients_bytes(held), in_update_bytes(held))


def gradients_at(held: HeldBytes, moment: Codes) -> Column:
    """Gradients that are there at a moment of each row."""
    lasting = held.lasting_gradient_bytes
    begun = np.where(moment == BACKWARD, lasting + held.head_gradient_bytes, lasting)
    return np.where(moment >= GRADIENTS, held.gradient_bytes, begun)


def parts_at(held: HeldBytes, moment: Codes) -> ActivationParts:
    """What activations consist of at a moment of each row."""
    forward = moment <= BACKWARD
    working = np.where(moment == LOSS, held.last_norm_bytes, np.where(forward, held.working_bytes, held.last_bytes))
    gathered = np.where(moment == LOSS, held.loss_gathered_bytes, held.backward_gathered_bytes)
    return ActivationParts(
        kept_bytes=np.where(forward, held.kept_bytes, 0.0),
        working_bytes=np.where(moment == UPDATE, 0.0, working),
        logits_bytes=np.where(moment == LOSS, held.logits_bytes, 0.0),
        gathered_bytes=np.where(forward, gathered, 0.0),
        update_bytes=np.where(moment == UPDATE, held.update_bytes, 0.0),
    )


def whole_moments(held: HeldBytes, factors: TrainingMemoryFactors) -> Moments:
    """Everything on an accelerator at each of the four moments, context and slack among it."""
    states, found = held.weights_bytes + held.optimizer_bytes, moments_of(held)
    each = (found.loss_bytes, found.backward_bytes, found.gradients_bytes, found.update_bytes)
    buffers = collective_buffer_bytes(held, factors)
    return Moments(*(states + m + overhead_bytes(m, buffers, factors) for m in each))


def peak_of(held: HeldBytes, factors: TrainingMemoryFactors) -> Peak:
    """The highest of the four moments, and what there is then."""
    moments = moments_of(held)
    every = (moments.loss_bytes, moments.backward_bytes, moments.gradients_bytes, moments.update_bytes)
    highest = peak_bytes(*every)
    late = np.where(highest == every[GRADIENTS], GRADIENTS, UPDATE)
    moment = np.where(highest == every[LOSS], LOSS, np.where(highest == every[BACKWARD], BACKWARD, late))
    gradients = gradients_at(held, moment)
    return Peak(
        gradient_bytes=gradients,
        activation_bytes=activations_at_peak_bytes(highest, gradients),
        overhead_bytes=overhead_bytes(highest, collective_buffer_bytes(held, factors), factors),
        moment=moment,
    )
