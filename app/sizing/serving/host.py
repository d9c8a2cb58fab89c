"""What the host does for every request of single-pass work: tokens, pictures, sound, HTTP; and the cores it has for it.

A device waits for nothing that is being read, so the slower of the two sets the pace; where the device is the host's
own processor, both take their time in turn.
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
class Hosting(Columns):
    """Host work of one request, and the cores that a replica has for it."""

    host_s: Column  # on one core
    host_cores: Column
    serial_s: Column  # of that work, what no two cores share
    in_turn: Mask  # the cores are the device

    @classmethod
    def none(cls, count: int) -> Hosting:
        """Requests that need nothing of a host."""
        return cls(np.zeros(count), np.ones(count), np.zeros(count), np.zeros(count, dtype=bool))


@formula(unit="s/request", source="throughput of tokenisers on one core")
def tokenising_s(prompt_tokens: float, assumed: Assumptions) -> float:
    """Text into tokens.

    Source: published tables of tokenisers, by thread.
    Limits: one rate for all vocabularies and languages.
    Check: 600 tokens at 600,000 a second.
        >>> tokenising_s(600, Assumptions())
        0.001
    """
    return prompt_tokens / assumed.tokeniser_tokens_per_s


@formula(unit="s/request", source="throughput of image decoders on one core")
def picturing_s(work: SampleWork, assumed: Assumptions) -> float:
    """A picture unpacked, resized and normalised, or packed.

    Source: published tables of JPEG decoders, by thread.
    Limits: a request names what the network reads; what is sent is larger.
    """
    pixels = np.maximum(work.pixels, assumed.sent_image_megapixels * MEGA)
    return float(pixels / (assumed.image_megapixels_per_s * MEGA))


@formula(unit="s/request", source="throughput of audio features on one core")
def hearing_s(work: SampleWork, assumed: Assumptions) -> float:
    """Sound unpacked and turned into a spectrogram.

    Source: timings of feature extractors.
    Limits: engines that do it on the device need less of the host.
    """
    return work.audio_s / assumed.audio_s_per_s


@formula(unit="s/request", source="reading it, and the server's own work")
def host_s(reading_s: float, assumed: Assumptions) -> float:
    """One request on one core of the host.

    Source: sum of the parts.
    Limits: of what clients send ready made, `host_work_share` is less.
    """
    return assumed.host_work_share * (reading_s + assumed.server_request_ms / 1e3)


@formula(unit="s/request", source="one thread of a server hands out every request")
def serial_s(assumed: Assumptions) -> float:
    """Batching and answering one request, which a replica does one after another.

    Source: speeds of small networks on one device, which stop growing. Limits: one server for each replica.
    Check:
        >>> round(1 / serial_s(Assumptions()))  # requests a second that no replica exceeds
        50000
    """
    return assumed.host_work_share * assumed.server_serial_us / 1e6


@formula(unit="cores", source="threads of the machine, shared evenly")
def host_cores(vcpus: Column, accelerators_per_replica: Column, assumed: Assumptions) -> Column:
    """Cores that a replica has of its host, by the threads beside each accelerator.

    Source: definition.
    Limits: accelerators of a machine share it evenly, also where some stay idle.
    """
    return vcpus * accelerators_per_replica * assumed.cores_per_vcpu


def hosting_s(hosting: Hosting, batch: Column) -> Column:
    """What a host takes to make a batch ready: by its cores, or by the thread that hands out requests."""
    return batch * np.maximum(hosting.host_s / hosting.host_cores, hosting.serial_s)


def reading_s(workload: InferenceWorkload, work: SampleWork, assumed: Assumptions) -> float:
    """One request made ready for the network, on one core: whatever its model takes."""
    if workload.model.kind is ModelKind.ENCODER:
        return tokenising_s(workload.input_tokens.mean, assumed)
    picture = picturing_s(work, assumed) if work.pixels else 0.0
    return picture + (hearing_s(work, assumed) if work.audio_s else 0.0)


def vcpus_of(plans: Plans, assumed: Assumptions) -> Column:
    """Threads of the host beside each accelerator: as listed, else as many as are usual."""
    usual = np.where(plans.is_processor, assumed.socket_vcpus, assumed.vcpus_per_accelerator)
    listed = plans.vcpus / plans.accelerators_per_node
    return np.where(np.isnan(listed), usual, listed)


def hosting(workload: InferenceWorkload, work: SampleWork, plans: Plans, assumed: Assumptions) -> Hosting:
    """What every plan's host does for a request, and with what."""
    needed = float(host_s(reading_s(workload, work, assumed), assumed))
    cores = host_cores(vcpus_of(plans, assumed), plans.accelerators_per_replica, assumed)
    serial = np.full(len(plans), float(serial_s(assumed)))
    return Hosting(np.full(len(plans), needed), cores, serial, plans.is_processor)
