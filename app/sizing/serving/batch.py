"""Seconds of one batch of single-pass work: embeddings, vision, speech, diffusion.

A batch of b samples takes passes * max(FLOPs, weights and activations moved) plus launch overheads, or as long as the
host needs to make the next one ready.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, Columns, Mask
from app.sizing.formula import formula
from app.sizing.hardware.achieved import Achieved
from app.sizing.model.architecture import ModelKind
from app.sizing.model.sample import SampleWork
from app.sizing.serving.host import Hosting
from app.sizing.serving.plans import Plans
from app.sizing.serving.roofline import smooth_maximum
from app.sizing.workload import InferenceWorkload

WIDER, NARROWER = 1.2, 0.9  # of the 16-bit rate: what is multiplied in fewer bits, or in 32


@dataclass(frozen=True, slots=True)
class BatchTerms(Columns):
    """Seconds of one pass: per sample and per batch; `once_s` reads the weights that no pass repeats (encoders,
    tables).
    """

    flops_slope_s: Column
    bytes_slope_s: Column
    host_slope_s: Column  # of each decoded token
    weights_s: Column
    once_s: Column
    launch_s: Column
    extra_slope_s: Column
    exponent: Column
    request_s: Column
    passes: float
    hosting: Hosting

    @property
    def unhosted(self) -> BatchTerms:
        """The same where requests need nothing of a host."""
        return replace(self, hosting=Hosting.none(len(self)))


def work_of(workload: InferenceWorkload) -> SampleWork:
    """One request as a sample: an encoder's pass over its tokens, or the model's own facts.

    Activations of an encoder in serving are one layer's live tensors, not all layers'.
    """
    model = workload.model
    if model.sample is not None:
        return model.sample
    tokens = max(1.0, workload.input_tokens.mean)
    flops = 2 * model.matmul_params * tokens + model.prefill_attention_flops(tokens)
    live = tokens * 2.0 * (6 * model.hidden_size + 2 * model.mlp_width)
    return SampleWork(
        flops=flops, moved_bytes=2 * live * model.num_layers, live_bytes=live, layers=model.num_layers, unit="request"
    )


@formula(unit="s/sample", source="roofline")
def flops_slope_s(work: SampleWork, linear_flops_per_s: Column, achieved_fraction: Column, padding: Column) -> Column:
    """Multiplying one sample in one pass.

    Source: Williams et al. 2009. Limits: large batches.
    Check:
        >>> round(8.18e9 / (312e12 * 0.28) * 1e6, 1)  # ResNet-50 on 0.28 of an A100, us an image
        93.6
    """
    return work.flops * padding / (linear_flops_per_s * achieved_fraction)


@formula(unit="s/sample", source="roofline")
def extra_slope_s(work: SampleWork, linear_flops_per_s: Column, achieved_fraction: Column) -> Column:
    """Multiplying what comes once per sample: text encoders, image decoder. Source: as above. Limits: as above."""
    return work.extra_flops / (linear_flops_per_s * achieved_fraction)


@formula(unit="s/sample", source="roofline")
def bytes_slope_s(
    work: SampleWork,
    linear_flops_per_s: Column,
    bit16_flops_per_s: Column,
    bytes_per_s: Column,
    achieved_memory_fraction: Column,
    padding: Column,
) -> Column:
    """Writing and reading activations of one sample, as wide as what is multiplied.

    Source: Williams et al. 2009. Limits: each layer's activations pass through memory.
    """
    ratio = linear_flops_per_s / bit16_flops_per_s
    width = np.where(ratio > WIDER, 0.5, np.where(ratio < NARROWER, 2.0, 1.0))
    return work.moved_bytes * padding * width / (bytes_per_s * achieved_memory_fraction)


@formula(unit="s", source="roofline")
def weights_s(streamed_bytes: Column, bytes_per_s: Column, achieved: Achieved) -> Column:
    """Reading the weights of a pass. Source: Williams et al. 2009. Limits: nothing stays in on-chip memory."""
    return streamed_bytes / (bytes_per_s * achieved.linear_memory_fraction)


@formula(unit="s", source="roofline")
def once_s(weights_bytes: Column, streamed_bytes: Column, bytes_per_s: Column, achieved: Achieved) -> Column:
    """Reading the weights that no pass repeats. Source: Williams et al. 2009. Limits: as above."""
    return (weights_bytes - streamed_bytes) / (bytes_per_s * achieved.linear_memory_fraction)


@formula(unit="s", source="half of a decode step's: no scheduling between passes")
def launch_s(work: SampleWork, achieved: Achieved) -> Column:
    """Launching the layers of a pass. Source: calibration. Limits: one value per engine."""
    return work.layers * achieved.layer_overhead_s / 2


@formula(unit="1", source="a batch is as long as its longest")
def padding(long_tokens: float, mean_tokens: float, packs: Mask, assumed: Assumptions) -> Column:
    """Tokens that a batch computes over those it was sent, where shorter texts are padded.

    Source: definition. Limits: by how far batches reach from a mean text to a long one.
    Check: engines that pack texts compute none.
        >>> padding(600, 200, np.array([False, True]), Assumptions()).tolist()
        [2.0, 1.0]
    """
    return np.where(packs, 1.0, 1 + assumed.padded_share * (long_tokens / mean_tokens - 1))


def padding_of(workload: InferenceWorkload, plans: Plans, assumed: Assumptions) -> Column:
    """Of every plan; texts of one length and samples need none."""
    texts = workload.input_tokens
    if workload.model.kind is not ModelKind.ENCODER or not texts.sigma:
        return np.ones(len(plans))
    return padding(max(texts.mean, workload.long_prompt(95.0)), texts.mean, plans.packs, assumed)


@formula(unit="1", source="base coefficients")
def matrix_fraction(achieved: Achieved) -> Column:
    """Matrices of a single pass, of the matrix rate. Source: calibration. Limits: one value per family and engine."""
    return achieved.linear_compute_fraction * achieved.sample_linear_fraction


def batch_terms(
    work: SampleWork,
    plans: Plans,
    achieved: Achieved | None = None,
    padding: Column | None = None,
    host: Hosting | None = None,
) -> BatchTerms:
    """Terms of a batch's time, by what is achieved of the hardware: where not given, by the plans' stacks. Nothing is
    padded and a host does nothing where not given.
    """
    s = plans.achieved if achieved is None else achieved
    longer = np.ones(len(plans)) if padding is None else padding
    rate, memory = plans.linear_flops_per_s, plans.bytes_per_s
    fraction = s.sample_compute_fraction if work.convolutional else matrix_fraction(s)
    read = s.attention_memory_fraction if work.decodes else s.linear_memory_fraction
    return BatchTerms(
        flops_slope_s=flops_slope_s(work, rate, fraction, longer),
        bytes_slope_s=bytes_slope_s(work, rate, plans.bit16_flops_per_s, memory, read, longer),
        host_slope_s=s.sequence_overhead_s * work.decodes,
        weights_s=weights_s(plans.streamed_bytes, memory, s),
        once_s=once_s(plans.weights_bytes, plans.streamed_bytes, memory, s),
        launch_s=launch_s(work, s),
        extra_slope_s=extra_slope_s(work, rate, fraction),
        exponent=s.roofline_exponent,
        request_s=s.sample_batch_s,
        passes=work.passes,
        hosting=Hosting.none(len(plans)) if host is None else host,
    )


@formula(unit="s", source="roofline with a rounded knee")
def sample_pass_s(batch: Column, terms: BatchTerms) -> Column:
    """One pass over a batch. Source: Williams et al. 2009. Limits: reads overlap with computing."""
    moved = terms.weights_s + batch * terms.bytes_slope_s
    return (
        smooth_maximum(batch * terms.flops_slope_s, moved, terms.exponent) + terms.launch_s + batch * terms.host_slope_s
    )


@formula(unit="s", source="sum of the parts")
def batch_s(sample_pass_s: Column, batch: Column, terms: BatchTerms) -> Column:
    """Seconds a batch occupies the device. Source: counted. Limits: batches do not overlap."""
    return terms.passes * sample_pass_s + batch * terms.extra_slope_s + terms.once_s + terms.request_s


@formula(unit="s", source="the host makes one batch ready while the device runs another")
def cycle_s(batch_s: Column, batch: Column, hosting: Hosting) -> Column:
    """From one batch to the next: the slower of device and host, or both where they are the same cores.

    Source: a pipeline of two stages. Limits: cores share the requests of a batch evenly.
    """
    ready_s = batch * hosting.host_s / hosting.host_cores
    paced_s = np.where(hosting.in_turn, batch_s + ready_s, np.maximum(batch_s, ready_s))
    return np.maximum(paced_s, batch * hosting.serial_s)


def of_batch_s(terms: BatchTerms, batch: Column) -> Column:
    """Seconds from one batch to the next, from its terms."""
    return cycle_s(batch_s(sample_pass_s(batch, terms), batch, terms), batch, terms.hosting)
