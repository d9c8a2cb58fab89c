"""Host work per request of single-pass serving: tokenization, image and audio preprocessing, HTTP, and the cores for
it.

The host prepares one batch while the device runs another, so the slower of the two limits throughput. If the device
is the host's own processor, the two run one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, Columns, Mask
from app.sizing.formula import formula
from app.sizing.model.architecture import ModelKind
from app.sizing.model.sample import SampleWork
from app.sizing.serving.plans import Plans
from app.sizing.units import MEGA
from app.sizing.workload import InferenceWorkload


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
