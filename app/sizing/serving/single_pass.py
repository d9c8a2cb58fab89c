"""Serving of single-pass work (embeddings, vision, speech, diffusion): its batches, host work and latency.

The host prepares one batch while the device runs another, so the slower of the two limits throughput. If the device
is the host's own processor, the two run one after the other.

A batch of b samples takes passes * max(FLOPs, weights and activations moved) plus launch overheads, or as long as
the host needs to prepare the next batch.

A request waits for the running batch and leaves with the next one, so the slowest request takes two batch times.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import GIB, MEGA, TINY, Column, Columns, Mask
from app.sizing.formula import formula, suspend_recording, trace_label
from app.sizing.hardware.achieved import Achieved
from app.sizing.model.architecture import ModelKind
from app.sizing.model.sample import SampleWork
from app.sizing.serving.interfaces import (
    QUANTILES,
    Memory,
    OperatingPoint,
    Settings,
    Speed,
    UnloadedLatency,
    bisect_largest,
)
from app.sizing.serving.margins import Margins
from app.sizing.serving.plans import Plans
from app.sizing.serving.step import smooth_maximum
from app.sizing.workload import InferenceWorkload, Load, z_score


@dataclass(frozen=True, slots=True)
class HostWork(Columns):
    """Host work of one request, and the cores that a replica has for it."""

    host_s: Column  # host time of one request on one core, s
    host_cores: Column  # host cores of a replica
    serial_s: Column  # part of that time that cores cannot share, s
    in_turn: Mask  # whether the host cores are the device, so that both work one after the other

    @classmethod
    def without_host_work(cls, count: int) -> HostWork:
        """Requests that need no host work, for `count` plans."""
        return cls(np.zeros(count), np.ones(count), np.zeros(count), np.zeros(count, dtype=bool))


@formula(unit="s/request", source="published throughput of tokenizers, per thread")
def text_tokenize_s(prompt_tokens: float, assumed: Assumptions) -> float:
    """Time to tokenize a text on one core.

    Parameters:
        prompt_tokens: tokens of the text.
        assumed: assumptions: `tokeniser_tokens_per_s`.
    Limits: one rate for all vocabularies and languages.
    Check: 600 tokens at 600,000 tokens/s.
        >>> text_tokenize_s(600, Assumptions())
        0.001
    """
    return prompt_tokens / assumed.tokeniser_tokens_per_s


@formula(unit="s/request", source="published throughput of JPEG decoders, per thread")
def image_decode_s(work: SampleWork, assumed: Assumptions) -> float:
    """Time to decode, resize and normalize an image on one core, or to encode one.

    Parameters:
        work: work of one sample, which gives the pixels that the network reads.
        assumed: assumptions: `sent_image_megapixels`, `image_megapixels_per_s`.
    Limits: clients send at least `sent_image_megapixels`, even if the network reads fewer pixels.
    Check: 3 megapixels at 60 megapixels/s.
        >>> image_decode_s(row(pixels=3e6), row(sent_image_megapixels=0.2, image_megapixels_per_s=60.0))
        0.05
    """
    pixels = np.maximum(work.pixels, assumed.sent_image_megapixels * MEGA)
    return float(pixels / (assumed.image_megapixels_per_s * MEGA))


@formula(unit="s/request", source="measured feature extractors on one core")
def audio_preprocess_s(work: SampleWork, assumed: Assumptions) -> float:
    """Time to decode audio and compute its spectrogram on one core.

    Parameters:
        work: work of one sample, which gives the seconds of audio.
        assumed: assumptions: `audio_s_per_s`.
    Limits: engines that compute features on the device need less host time.
    Check: 30 s of audio at 1,000 s per second.
        >>> audio_preprocess_s(row(audio_s=30.0), row(audio_s_per_s=1000.0))
        0.03
    """
    return work.audio_s / assumed.audio_s_per_s


@formula(unit="s/request", source="sum of preprocessing and server time")
def host_s(preprocess_s: float, assumed: Assumptions) -> float:
    """Host time of one request on one core.

    Parameters:
        preprocess_s: time to prepare the input, s.
        assumed: assumptions: `host_work_share`, `server_request_ms`.
    Limits: if clients send preprocessed inputs, lower `host_work_share`.
    Check: 1 ms of preprocessing and 0.2 ms of server work.
        >>> round(host_s(0.001, row(host_work_share=1.0, server_request_ms=0.2)), 6)
        0.0012
    """
    return assumed.host_work_share * (preprocess_s + assumed.server_request_ms / 1e3)


@formula(unit="s/request", source="throughput of small networks on one device, where one server thread limits it")
def serial_s(assumed: Assumptions) -> float:
    """Serial time to batch and answer one request, which a replica cannot spread over cores.

    Parameters:
        assumed: assumptions: `host_work_share`, `server_serial_us`.
    Limits: one server per replica.
    Check:
        >>> round(1 / serial_s(Assumptions()))  # requests/s that no replica exceeds
        50000
    """
    return assumed.host_work_share * assumed.server_serial_us / 1e6


@formula(unit="cores", source="definition")
def host_cores(vcpus: Column, accelerators_per_replica: Column, assumed: Assumptions) -> Column:
    """Host cores of a replica.

    Parameters:
        vcpus: host threads per accelerator.
        accelerators_per_replica: accelerators of a replica.
        assumed: assumptions: `cores_per_vcpu`.
    Limits: the accelerators of a machine share its threads evenly, even if some are idle.
    Check: 24 threads per accelerator, two accelerators, 0.6 cores per thread.
        >>> round(host_cores(24, 2, row(cores_per_vcpu=0.6)), 6)
        28.8
    """
    return vcpus * accelerators_per_replica * assumed.cores_per_vcpu


def host_batch_s(host_work: HostWork, batch: Column) -> Column:
    """Time that a host takes to prepare a batch, limited by its cores or by the serial server thread, s."""
    return batch * np.maximum(host_work.host_s / host_work.host_cores, host_work.serial_s)


def preprocess_s(workload: InferenceWorkload, work: SampleWork, assumed: Assumptions) -> float:
    """Time to prepare one request for the network on one core, by what the model reads, s."""
    if workload.model.kind is ModelKind.ENCODER:
        return text_tokenize_s(workload.input_tokens.mean, assumed)
    image_s = image_decode_s(work, assumed) if work.pixels else 0.0
    return image_s + (audio_preprocess_s(work, assumed) if work.audio_s else 0.0)


def plan_vcpus_per_accelerator(plans: Plans, assumed: Assumptions) -> Column:
    """Host threads per accelerator: as listed, or the usual number."""
    usual = np.where(plans.is_processor, assumed.socket_vcpus, assumed.vcpus_per_accelerator)
    listed = plans.vcpus / plans.accelerators_per_node
    return np.where(np.isnan(listed), usual, listed)


def estimate_host_work(workload: InferenceWorkload, work: SampleWork, plans: Plans, assumed: Assumptions) -> HostWork:
    """Host work per request, and the cores for it, on every plan."""
    needed = float(host_s(preprocess_s(workload, work, assumed), assumed))
    cores = host_cores(plan_vcpus_per_accelerator(plans, assumed), plans.accelerators_per_replica, assumed)
    serial = np.full(len(plans), float(serial_s(assumed)))
    return HostWork(np.full(len(plans), needed), cores, serial, plans.is_processor)


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
        padding_factor: computed tokens, of every beam too, divided by sent tokens.
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
        padding_factor: computed tokens, of every beam too, divided by sent tokens.
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

    A pass that decodes a token also chooses it, which engines without captured graphs do on the host.

    Parameters:
        work: work of one sample.
        achieved: fitted overheads.
    Limits: one value per engine.
    Check: 32 layers at 5 us, halved, and decoded at 0.8 ms each.
        >>> engine = row(layer_overhead_s=5e-6, sample_decode_layer_s=0.0008)
        >>> [round(launch_s(row(layers=32, decodes=decodes), engine), 9) for decodes in (False, True)]
        [8e-05, 0.0256]
    """
    return work.layers * (achieved.sample_decode_layer_s if work.decodes else achieved.layer_overhead_s / 2)


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
    """Times of a batch on every plan. An engine that decodes with several beams runs each as a sequence of its own.

    Without `achieved` the coefficients of the plans' software stacks apply. Without `padding_factor` nothing is
    padded. Without `host` there is no host work.
    """
    s = plans.achieved_rates if achieved is None else achieved
    sequences = plans.beams if work.decodes else np.ones(len(plans))
    longer = sequences if padding_factor is None else sequences * padding_factor
    rate, memory = plans.linear_flops_per_s, plans.bytes_per_s
    fraction = s.sample_compute_fraction if work.convolutional else matrix_fraction(s)
    read = s.attention_memory_fraction * s.cross_attention_fraction if work.decodes else s.linear_memory_fraction
    return BatchTerms(
        flops_slope_s=flops_slope_s(work, rate, fraction, longer),
        bytes_slope_s=bytes_slope_s(work, rate, plans.bit16_flops_per_s, memory, read, longer),
        host_slope_s=sequences * s.sequence_overhead_s * work.decodes,
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


@dataclass(frozen=True, slots=True)
class UnloadedBatch(UnloadedLatency):
    """Latency of one sample on an idle device, and the time of its batch."""

    terms: BatchTerms  # times of a batch
    fastest_e2e_s: Column  # end-to-end latency without other load, s
    e2e_limit_s: Column  # end-to-end limit reduced by the margins, s


@dataclass(frozen=True, slots=True)
class BatchSpeed(Speed):
    """Throughput of one device on samples."""

    unloaded: UnloadedBatch

    @property
    def terms(self) -> BatchTerms:
        return self.unloaded.terms


@formula(unit="B", source="counted from the model configuration; start-up logs for the load overhead")
def loaded_weights_bytes(weights_bytes: Column, assumed: Assumptions) -> Column:
    """Weights of a device after loading.

    Parameters:
        weights_bytes: weights of the model, B.
        assumed: assumptions: `weights_load_overhead`.
    Limits: one device per replica.
    Check:
        >>> round(loaded_weights_bytes(2e9, row(weights_load_overhead=1.005)))
        2010000000
    """
    return weights_bytes * assumed.weights_load_overhead


@formula(unit="B/sample", source="live tensors, counted from the model configuration")
def sample_activation_bytes(work: SampleWork, assumed: Assumptions) -> float:
    """Workspace of one sample.

    Parameters:
        work: work of one sample, which gives its live tensors.
        assumed: assumptions: `activation_workspace_factor`.
    Limits: engines plan this memory once per graph.
    Check:
        >>> sample_activation_bytes(row(live_bytes=40e6), row(activation_workspace_factor=1.5))
        60000000.0
    """
    return work.live_bytes * assumed.activation_workspace_factor


@formula(unit="B", source="assumption")
def runtime_bytes(memory_bytes: Column, assumed: Assumptions) -> Column:
    """Runtime memory of a compiled engine.

    Parameters:
        memory_bytes: device memory, B.
        assumed: assumptions: `small_runtime_overhead_gib`, `overhead_memory_fraction_limit`.
    Limits: the overhead is capped at a share of a small device.
    Check: 0.4 GiB on a device of 24 GB.
        >>> sizes = row(small_runtime_overhead_gib=0.4, overhead_memory_fraction_limit=0.1)
        >>> round(float(runtime_bytes(24e9, sizes)) / GIB, 6)
        0.4
    """
    return np.minimum(assumed.small_runtime_overhead_gib * GIB, assumed.overhead_memory_fraction_limit * memory_bytes)


@formula(unit="B", source="assumption")
def usable_sample_bytes(memory_bytes: Column, memory_fraction: Column) -> Column:
    """Memory of a device that single-pass serving uses.

    Parameters:
        memory_bytes: device memory, B.
        memory_fraction: share of it that the engine takes.
    Limits: no other process runs on the device.
    Check:
        >>> usable_sample_bytes(24e9, 0.9)
        21600000000.0
    """
    return memory_bytes * memory_fraction


@formula(unit="samples", source="counted, up to the largest batch that is tried")
def max_batch_samples(
    usable_sample_bytes: Column,
    loaded_weights_bytes: Column,
    runtime_bytes: Column,
    sample_activation_bytes: Column,
    assumed: Assumptions,
) -> Column:
    """Samples of the largest batch that fits next to the weights.

    Parameters:
        usable_sample_bytes: memory that the engine uses, B.
        loaded_weights_bytes: weights after loading, B.
        runtime_bytes: runtime memory, B.
        sample_activation_bytes: workspace of one sample, B.
        assumed: assumptions: `max_samples`, the largest batch that is tried.
    Limits: batches above `max_samples` are not considered.
    Check: 19 GB free at 0.5 GB per sample.
        >>> float(max_batch_samples(21.6e9, 2e9, 0.6e9, 0.5e9, row(max_samples=512.0)))
        38.0
    """
    free = usable_sample_bytes - loaded_weights_bytes - runtime_bytes
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.clip(
            np.floor(np.where(sample_activation_bytes > 0, free / sample_activation_bytes, assumed.max_samples)),
            1.0,
            assumed.max_samples,
        )


def batch_memory(
    work: SampleWork,
    plans: Plans,
    assumed: Assumptions,
    settings: Settings,
    unforeseen_share: Column | None = None,
) -> Memory:
    """Memory of every plan: weights, runtime, and the activations of as many samples as fit.

    `unforeseen_share` of a device is reserved in addition.
    """
    share = settings.memory_fraction
    if share is None:
        share = np.where(plans.has_unified_memory, assumed.unified_memory_fraction, assumed.batch_memory_fraction)
    weights = loaded_weights_bytes(plans.weights_bytes, assumed)
    activations = np.full(len(plans), sample_activation_bytes(work, assumed))
    runtime = runtime_bytes(plans.memory_bytes, assumed)
    usable = usable_sample_bytes(plans.memory_bytes, share)
    needed = weights + activations + runtime
    if unforeseen_share is None:
        most = max_batch_samples(usable, weights, runtime, activations, assumed)
    else:
        unforeseen = unforeseen_share * plans.memory_bytes
        most, needed = (
            max_batch_samples(usable - unforeseen, weights, runtime, activations, assumed),
            needed + unforeseen,
        )
    return Memory(
        weights_bytes=weights,
        activation_bytes=activations,
        overhead_bytes=runtime,
        capacity_bytes=plans.memory_bytes,
        usable_bytes=usable,
        needed_bytes=needed,
        memory_fraction=share,
        sequences=most if settings.max_sequences is None else np.fmin(most, settings.max_sequences),
    )


@formula(unit="samples/s", source="definition")
def batches_per_s(batch: Column, cycle_s: Column) -> Column:
    """Samples per second of batches that run one after another.

    Parameters:
        batch: samples in a batch.
        cycle_s: time from one batch to the next, s.
    Limits: full batches.
    Check:
        >>> batches_per_s(32, 0.25)
        128.0
    """
    return batch / cycle_s


@formula(unit="samples/s", source="Little's law (Little 1961) for clients that wait for each answer")
def closed_loop_samples_per_s(batches_per_s: Column, in_flight: Column, cycle_s: Column, host_s: Column) -> Column:
    """Samples per second at a fixed concurrency, where each client waits for its answer.

    Parameters:
        batches_per_s: samples per second of full batches.
        in_flight: requests in flight.
        cycle_s: time from one batch to the next, s.
        host_s: host time of one request, s.
    Limits: each client sends its next request at once.
    Check: 16 in flight, 0.25 s per batch and no host time.
        >>> float(closed_loop_samples_per_s(128.0, 16, 0.25, 0.0))
        64.0
    """
    return np.minimum(batches_per_s, in_flight / (host_s + cycle_s))


@dataclass(frozen=True, slots=True)
class TwoBatchesWithinLimit(Columns):
    """Tests whether two batches fit into the end-to-end limit: a request waits for one and leaves with the next."""

    terms: BatchTerms
    e2e_limit_s: Column

    def holds(self, batch: Column) -> Mask:
        """Whether the limit is met at this batch size."""
        within: Mask = 2 * batch_cycle_s(self.terms, batch) + self.terms.host_work.host_s <= self.e2e_limit_s
        return within


@dataclass(frozen=True, slots=True)
class ArrivalsFillBatch(Columns):
    """Tests whether at least as many samples arrive during a batch as it holds."""

    terms: BatchTerms
    rate_per_s: Column

    def holds(self, batch: Column) -> Mask:
        """Whether arrivals fill a batch of this size."""
        filled: Mask = batch <= self.rate_per_s * batch_cycle_s(self.terms, batch)
        return filled


def unloaded_single_pass(
    workload: InferenceWorkload,
    plans: Plans,
    work: SampleWork,
    assumed: Assumptions,
    margins: Margins | None = None,
) -> UnloadedBatch:
    """Unloaded latency of a request on every plan, and the end-to-end limit reduced by the margins."""
    margins = Margins.without_margin(len(plans)) if margins is None else margins
    terms = batch_terms(
        work,
        plans,
        padding_factor=plan_padding_factors(workload, plans, assumed),
        host=estimate_host_work(workload, work, plans, assumed),
    )
    with suspend_recording():
        fastest = batch_cycle_s(terms, np.ones(len(plans))) * (2 if workload.load is Load.OPEN else 1)
        fastest = fastest + terms.host_work.host_s
    return UnloadedBatch(margins, terms, fastest, e2e_limit_s(workload, margins))


def e2e_limit_s(workload: InferenceWorkload, margins: Margins) -> Column:
    """End-to-end limit divided by the margin on rates, s; infinite without a limit."""
    slo_s = workload.slo.e2e_s
    return np.full(len(margins), np.inf if slo_s is None else slo_s) / margins.rate


def single_pass_speed(workload: InferenceWorkload, memory: Memory, unloaded: UnloadedBatch) -> BatchSpeed:
    """Capacity of a device: its rate at the largest batch of which two fit into the end-to-end limit."""
    terms, peak, most = unloaded.terms, memory.sequences, memory.sequences
    if workload.load not in (Load.OFFLINE, Load.BATCH):
        with suspend_recording():
            batch = bisect_largest(np.ones(len(memory)), most, TwoBatchesWithinLimit(terms, unloaded.e2e_limit_s))
        peak = np.maximum(1.0, np.floor(batch + 1e-6))
    capacity = batches_per_s(peak, batch_cycle_s(terms, peak)) / unloaded.margins.rate
    with trace_label("largest batch"):
        saturation = batches_per_s(most, batch_cycle_s(terms, most))
    return BatchSpeed(unloaded=unloaded, slo_batch=peak, capacity_per_s=capacity, saturation_per_s=saturation)


@formula(unit="samples", source="normal approximation of a Poisson count of arrivals")
def batch_at_percentile(batch: Column, z: float, burstiness: float, sequences: Column) -> Column:
    """Samples in a batch at a percentile of the load.

    Parameters:
        batch: mean samples in a batch.
        z: standard score of the percentile.
        burstiness: burstiness of arrivals; 1 is Poisson.
        sequences: largest batch that fits.
    Limits: normal approximation of the count.
    Check: a mean of 16 samples at a score of 1.645.
        >>> round(float(batch_at_percentile(16.0, 1.645, 1.0, 64.0)), 2)
        22.58
    """
    return np.minimum(np.maximum(batch + z * burstiness * np.sqrt(batch), 1.0), sequences)


@formula(unit="1", source="renewal theory: the rest of the running batch is uniformly distributed")
def waiting_share(percentile: float, rate_per_s: Column, saturation_per_s: Column) -> Column:
    """Share of a batch time that a request waits for the running batch.

    Parameters:
        percentile: percentile of the wait, in percent.
        rate_per_s: requests per second of a replica.
        saturation_per_s: rate at which the queue grows without bound, requests/s.
    Limits: batches of one size.
    Check: the 95th percentile at half of the saturation rate.
        >>> float(waiting_share(95.0, 50.0, 100.0))
        0.475
    """
    return percentile / 100 * np.minimum(rate_per_s / np.maximum(saturation_per_s, TINY), 1.0)


@formula(unit="s", source="sum of host time, wait and batch time")
def sample_e2e_s(cycle_s: Column, waiting_share: Column | float, host_s: Column, overloaded: Mask) -> Column:
    """End-to-end latency of a request at a percentile; infinite above saturation.

    Parameters:
        cycle_s: time from one batch to the next, s.
        waiting_share: share of that time that the request waits.
        host_s: host time of one request, s.
        overloaded: whether the load exceeds the saturation rate.
    Limits: network transfers are not counted.
    Check: 2 ms on the host, and 1.5 batch times of 20 ms.
        >>> round(float(sample_e2e_s(0.02, 0.5, 0.002, False)), 6)
        0.032
    """
    return np.where(overloaded, np.inf, host_s + cycle_s * (1 + waiting_share))


def single_pass_operating_point(
    workload: InferenceWorkload, memory: Memory, speed: BatchSpeed, replicas: Column
) -> OperatingPoint:
    """Batch and latencies of a device if `replicas` devices share the load.

    A request waits for the rest of the running batch, then runs: the q-quantile is (1 + q) batch times. Burstiness
    above Poisson increases it.
    """
    terms, most, ones = speed.terms, memory.sequences, np.ones(len(replicas))
    is_open = workload.load is Load.OPEN
    if is_open:
        rate = workload.peak_per_s / replicas
        with suspend_recording():
            batch = bisect_largest(ones * 0.0, most, ArrivalsFillBatch(terms, rate))
        overloaded = rate > speed.saturation_per_s
        used = rate / np.maximum(speed.capacity_per_s, TINY)
    else:
        in_flight = np.maximum(np.ceil(workload.in_flight / replicas) if workload.in_flight else most, 1.0)
        batch = np.minimum(in_flight, most)
        with trace_label("at the load"):
            cycle = batch_cycle_s(terms, batch)
            rate = batches_per_s(batch, cycle)
            if workload.load is Load.CLOSED:
                rate = closed_loop_samples_per_s(rate, in_flight, cycle, terms.host_work.host_s)
        overloaded = np.zeros(len(replicas), dtype=bool)
        used = in_flight / np.maximum(speed.slo_batch, 1.0)
    values: dict[str, Column] = {}
    for q in QUANTILES:
        with trace_label(f"p{q:.0f}"):
            filled, waits = np.maximum(batch, 1.0), 0.0 * ones
            if is_open:
                filled = batch_at_percentile(batch, max(0.0, z_score(q)), workload.burstiness, most)
                waits = waiting_share(q, rate, speed.saturation_per_s)
            values[f"e2e_p{q:.0f}_s"] = sample_e2e_s(
                batch_cycle_s(terms, filled), waits, terms.host_work.host_s, overloaded
            )
    mean = values["e2e_p50_s"]  # the rest of a batch is uniformly distributed: its mean is its median
    return OperatingPoint(batch=np.maximum(batch, 1.0), rate_per_s=rate, utilization=used, e2e_mean_s=mean, **values)
