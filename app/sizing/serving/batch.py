"""Time of one batch of single-pass work: embeddings, vision, speech, diffusion.

A batch of b samples takes passes * max(FLOPs, weights and activations moved) plus launch overheads, or as long as
the host needs to prepare the next batch.
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
from app.sizing.serving.host import HostWork
from app.sizing.serving.plans import Plans
from app.sizing.serving.roofline import smooth_maximum
from app.sizing.workload import InferenceWorkload

# Matrix rates relative to the 16-bit rate: above the first the computation is in 8 bits, below the second in 32.
FASTER_RATE_RATIO, SLOWER_RATE_RATIO = 1.2, 0.9


@dataclass(frozen=True, slots=True)
class BatchTerms(Columns):
    """Times of a batch in seconds; a `slope` is per sample. `once_s` reads the weights that no pass repeats, such as
    encoders and tables.
    """

    flops_slope_s: Column  # time to multiply one sample in one pass, s
    bytes_slope_s: Column  # time to move one sample's activations in one pass, s
    host_slope_s: Column  # host time per decoded token, s
    weights_s: Column  # time to read the weights of one pass, s
    once_s: Column  # time to read the weights that no pass repeats, s
    launch_s: Column  # time to launch the layers of one pass, s
    extra_slope_s: Column  # time to multiply what runs once per sample, s
    exponent: Column  # sharpness of the roofline's knee
    request_s: Column  # fixed time per batch, s
    passes: float  # passes per sample
    host_work: HostWork  # host work per request, and the cores for it

    @property
    def without_host_work(self) -> BatchTerms:
        """The same terms without host work."""
        return replace(self, host_work=HostWork.without_host_work(len(self)))


def request_sample_work(workload: InferenceWorkload) -> SampleWork:
    """One request as a sample: an encoder's pass over its tokens, or the model's own sample work.

    In serving, an encoder holds the live tensors of one layer, not of all layers.
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


@formula(unit="s/sample", source="roofline model (Williams et al. 2009)")
def flops_slope_s(
    work: SampleWork, linear_flops_per_s: Column, achieved_fraction: Column, padding_factor: Column
) -> Column:
    """Time to multiply one sample in one pass.

    Parameters:
        work: work of one sample.
        linear_flops_per_s: data-sheet matrix rate, FLOP/s.
        achieved_fraction: fraction of that rate that is achieved.
        padding_factor: computed tokens divided by sent tokens.
    Limits: large batches.
    Check:
        >>> round(8.18e9 / (312e12 * 0.28) * 1e6, 1)  # ResNet-50 at 0.28 of an A100's rate, us per image
        93.6
    """
    return work.flops * padding_factor / (linear_flops_per_s * achieved_fraction)


@formula(unit="s/sample", source="roofline model (Williams et al. 2009)")
def extra_slope_s(work: SampleWork, linear_flops_per_s: Column, achieved_fraction: Column) -> Column:
    """Time to multiply what runs once per sample, such as text encoders and the image decoder.

    Parameters:
        work: work of one sample.
        linear_flops_per_s: data-sheet matrix rate, FLOP/s.
        achieved_fraction: fraction of that rate that is achieved.
    Limits: large batches.
    Check: 2.5 TFLOP at half of 500 TFLOP/s.
        >>> extra_slope_s(row(extra_flops=2.5e12), 500e12, 0.5)
        0.01
    """
    return work.extra_flops / (linear_flops_per_s * achieved_fraction)


@formula(unit="s/sample", source="roofline model (Williams et al. 2009)")
def bytes_slope_s(
    work: SampleWork,
    linear_flops_per_s: Column,
    bit16_flops_per_s: Column,
    bytes_per_s: Column,
    achieved_memory_fraction: Column,
    padding_factor: Column,
) -> Column:
    """Time to write and read the activations of one sample, at the width of the computation.

    Parameters:
        work: work of one sample.
        linear_flops_per_s: data-sheet matrix rate, FLOP/s; its ratio to the 16-bit rate gives the width.
        bit16_flops_per_s: data-sheet 16-bit matrix rate, FLOP/s.
        bytes_per_s: data-sheet memory bandwidth, B/s.
        achieved_memory_fraction: fraction of that bandwidth that is achieved.
        padding_factor: computed tokens divided by sent tokens.
    Limits: each layer's activations pass through device memory.
    Check: 80 MB in 16 bit at 0.8 of 2 TB/s, us.
        >>> round(float(bytes_slope_s(row(moved_bytes=80e6), 312e12, 312e12, 2e12, 0.8, 1.0)) * 1e6, 3)
        50.0
    """
    ratio = linear_flops_per_s / bit16_flops_per_s
    width = np.where(ratio > FASTER_RATE_RATIO, 0.5, np.where(ratio < SLOWER_RATE_RATIO, 2.0, 1.0))
    return work.moved_bytes * padding_factor * width / (bytes_per_s * achieved_memory_fraction)


@formula(unit="s", source="roofline model (Williams et al. 2009)")
def weights_s(streamed_bytes: Column, bytes_per_s: Column, achieved: Achieved) -> Column:
    """Time to read the weights of a pass.

    Parameters:
        streamed_bytes: weights that every pass reads, B.
        bytes_per_s: data-sheet memory bandwidth, B/s.
        achieved: fitted efficiency coefficients.
    Limits: no weights stay in on-chip memory.
    Check: 1 GB at 0.8 of 2 TB/s, us.
        >>> round(weights_s(1e9, 2e12, row(linear_memory_fraction=0.8)) * 1e6, 3)
        625.0
    """
    return streamed_bytes / (bytes_per_s * achieved.linear_memory_fraction)


@formula(unit="s", source="roofline model (Williams et al. 2009)")
def once_s(weights_bytes: Column, streamed_bytes: Column, bytes_per_s: Column, achieved: Achieved) -> Column:
    """Time to read the weights that no pass repeats.

    Parameters:
        weights_bytes: all weights, B.
        streamed_bytes: weights that every pass reads, B.
        bytes_per_s: data-sheet memory bandwidth, B/s.
        achieved: fitted efficiency coefficients.
    Limits: no weights stay in on-chip memory.
    Check: 1.4 GB of which 1 GB is read by every pass, at 0.8 of 2 TB/s, us.
        >>> round(once_s(1.4e9, 1e9, 2e12, row(linear_memory_fraction=0.8)) * 1e6, 3)
        250.0
    """
    return (weights_bytes - streamed_bytes) / (bytes_per_s * achieved.linear_memory_fraction)


@formula(unit="s", source="fitted to benchmark measurements of decode steps")
def launch_s(work: SampleWork, achieved: Achieved) -> Column:
    """Time to launch the layers of a pass: half of a decode step's, because nothing is scheduled between passes.

    Parameters:
        work: work of one sample.
        achieved: fitted overheads.
    Limits: one value per engine.
    Check: 32 layers at 5 us, halved.
        >>> round(launch_s(row(layers=32), row(layer_overhead_s=5e-6)), 9)
        8e-05
    """
    return work.layers * achieved.layer_overhead_s / 2


@formula(unit="1", source="definition: a batch is padded to its longest text")
def padding_factor(long_tokens: float, mean_tokens: float, packs: Mask, assumed: Assumptions) -> Column:
    """Tokens that a batch computes divided by the tokens sent, if shorter texts are padded to the longest.

    Parameters:
        long_tokens: tokens of a long text.
        mean_tokens: tokens of a mean text.
        packs: whether the engine packs texts without padding.
        assumed: assumptions: `padded_share`, how far a batch's longest text lies between a mean and a long one.
    Check: engines that pack texts compute no padding.
        >>> padding_factor(600, 200, np.array([False, True]), Assumptions()).tolist()
        [2.0, 1.0]
    """
    return np.where(packs, 1.0, 1 + assumed.padded_share * (long_tokens / mean_tokens - 1))


def plan_padding_factors(workload: InferenceWorkload, plans: Plans, assumed: Assumptions) -> Column:
    """Padding factor of every plan; 1 for texts of one length and for other samples."""
    texts = workload.input_tokens
    if workload.model.kind is not ModelKind.ENCODER or not texts.sigma:
        return np.ones(len(plans))
    return padding_factor(max(texts.mean, workload.long_prompt(95.0)), texts.mean, plans.packs_batches, assumed)


@formula(unit="1", source="fitted to benchmark measurements")
def matrix_fraction(achieved: Achieved) -> Column:
    """Fraction of the matrix rate that the matrices of a single pass achieve.

    Parameters:
        achieved: fitted efficiency coefficients.
    Limits: one value per accelerator family and engine.
    Check:
        >>> round(matrix_fraction(row(linear_compute_fraction=0.8, sample_linear_fraction=0.7)), 6)
        0.56
    """
    return achieved.linear_compute_fraction * achieved.sample_linear_fraction


def batch_terms(
    work: SampleWork,
    plans: Plans,
    achieved: Achieved | None = None,
    padding_factor: Column | None = None,
    host: HostWork | None = None,
) -> BatchTerms:
    """Times of a batch on every plan.

    Without `achieved` the coefficients of the plans' software stacks apply. Without `padding_factor` nothing is
    padded. Without `host` there is no host work.
    """
    s = plans.achieved_rates if achieved is None else achieved
    longer = np.ones(len(plans)) if padding_factor is None else padding_factor
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
        host_work=HostWork.without_host_work(len(plans)) if host is None else host,
    )


@formula(unit="s", source="roofline model (Williams et al. 2009) with a rounded knee")
def sample_pass_s(batch: Column, terms: BatchTerms) -> Column:
    """Time of one pass over a batch.

    Parameters:
        batch: samples in the batch.
        terms: times of a batch.
    Limits: compute and reads overlap.
    Check: 32 samples at 0.1 ms of compute, 2 ms of weights and 0.03 ms of activations per sample, 0.2 ms of
    launches.
        >>> slopes = dict(flops_slope_s=1e-4, bytes_slope_s=3e-5, host_slope_s=0.0)
        >>> round(float(sample_pass_s(32, row(weights_s=0.002, launch_s=0.0002, exponent=2.0, **slopes))), 6)
        0.004559
    """
    moved = terms.weights_s + batch * terms.bytes_slope_s
    return (
        smooth_maximum(batch * terms.flops_slope_s, moved, terms.exponent) + terms.launch_s + batch * terms.host_slope_s
    )


@formula(unit="s", source="sum of the parts")
def batch_s(sample_pass_s: Column, batch: Column, terms: BatchTerms) -> Column:
    """Time that a batch occupies the device.

    Parameters:
        sample_pass_s: time of one pass, s.
        batch: samples in the batch.
        terms: times of a batch.
    Limits: batches do not overlap.
    Check: 30 passes of 40 ms, 4 samples with 5 ms of encoders each, and 10 ms once.
        >>> round(batch_s(0.04, 4, row(passes=30.0, extra_slope_s=0.005, once_s=0.01, request_s=0.0)), 6)
        1.23
    """
    return terms.passes * sample_pass_s + batch * terms.extra_slope_s + terms.once_s + terms.request_s


@formula(unit="s", source="two-stage pipeline: the host prepares one batch while the device runs another")
def cycle_s(batch_s: Column, batch: Column, host_work: HostWork) -> Column:
    """Time from one batch to the next: the slower of device and host, or their sum if they are the same cores.

    Parameters:
        batch_s: time that a batch occupies the device, s.
        batch: samples in the batch.
        host_work: host work of one request, and the cores for it.
    Limits: cores share the requests of a batch evenly.
    Check: 20 ms on the device, and 32 requests of 8 ms on 8 cores.
        >>> host = row(host_s=0.008, host_cores=8, in_turn=False, serial_s=20e-6)
        >>> float(cycle_s(0.02, 32, host))
        0.032
    """
    ready_s = batch * host_work.host_s / host_work.host_cores
    paced_s = np.where(host_work.in_turn, batch_s + ready_s, np.maximum(batch_s, ready_s))
    return np.maximum(paced_s, batch * host_work.serial_s)


def batch_cycle_s(terms: BatchTerms, batch: Column) -> Column:
    """Time from one batch to the next, s."""
    return cycle_s(batch_s(sample_pass_s(batch, terms), batch, terms), batch, terms.host_work)
