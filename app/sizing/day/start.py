"""Time from the start of a new replica to its first request: machine, image, weights and engine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, Mask
from app.sizing.formula import formula

BULK_START_REPLICAS = 10.0  # replicas of the bulk start that is shown next to a single start


@dataclass(frozen=True, slots=True)
class StartProfile:
    """Data that a replica start moves, and the links it uses, for one deployment or as columns for many.

    `machine_kept` means that the machine stays, with image and weights on its disk; otherwise a new machine fetches
    both.
    """

    machine_kept: Mask | bool  # whether the machine is kept
    image_bytes: Column | float  # compressed size of the container image, bytes
    stored_bytes: Column | float  # weights of one replica, bytes
    device_bytes: Column | float  # weights on each accelerator, bytes
    nodes_per_replica: Column | float  # machines that one replica spans
    replicas_per_node: Column | float  # replicas that one machine holds
    network_bytes_per_s: Column | float  # network bandwidth of one machine, bytes/s
    slot_bytes_per_s: Column | float  # slot bandwidth of one accelerator, bytes/s; infinite with shared memory


@formula(unit="machines")
def machines_starting(
    replicas_starting: float, nodes_per_replica: Column | float, replicas_per_node: Column | float
) -> Column:
    """Machines on which replicas start at the same time.

    Parameters:
        replicas_starting: replicas that start at the same time.
        nodes_per_replica: machines that one replica spans.
        replicas_per_node: replicas that one machine holds.
    Limits: replicas fill their machines.
    Check:
        >>> float(machines_starting(10.0, 1.0, 4.0))
        3.0
    """
    machines: Column = np.ceil(replicas_starting / replicas_per_node) * nodes_per_replica
    return machines


@formula(unit="s", source="definition; the rates are assumptions")
def image_pull_s(
    image_bytes: Column | float, machines_starting: Column, network_bytes_per_s: Column, assumed: Assumptions
) -> Column:
    """Time to pull and unpack a container image, once on every machine.

    Parameters:
        image_bytes: compressed image size, bytes.
        machines_starting: machines that pull at the same time.
        network_bytes_per_s: network bandwidth of one machine, bytes/s.
        assumed: assumptions: rates of one pull and of the registry.
    Limits: no layer is cached; the registry serves all machines equally.
    Check: 12 GB at 0.2 GB/s; a hundred machines share 5 GB/s.
        >>> [float(image_pull_s(12e9, machines, 12.5e9, Assumptions())) for machines in (1.0, 100.0)]
        [60.0, 240.0]
    """
    shared = np.minimum(network_bytes_per_s, assumed.registry_gb_per_s * 1e9 / machines_starting)
    taken: Column = image_bytes / np.minimum(assumed.image_pull_gb_per_s * 1e9, shared)
    return taken


@formula(unit="s", source="definition; the rates are assumptions")
def weights_read_s(
    stored_bytes: Column | float,
    nodes_per_replica: Column | float,
    machines_starting: Column,
    network_bytes_per_s: Column,
    store_bytes_per_s: Column,
    assumed: Assumptions,
) -> Column:
    """Time to read the weights, once on every machine; each machine of a multi-node replica reads its share.

    Parameters:
        stored_bytes: weights of one replica, bytes.
        nodes_per_replica: machines that one replica spans.
        machines_starting: machines that read at the same time.
        network_bytes_per_s: network bandwidth of one machine, bytes/s.
        store_bytes_per_s: bandwidth of the weight store, bytes/s.
        assumed: assumptions: rate at which one machine loads weights.
    Limits: replicas on one machine read together; the store serves all machines equally.
    Check: 140 GB at 2 GB/s; a hundred machines share 12.5 GB/s.
        >>> [float(weights_read_s(140e9, 1.0, n, 12.5e9, 12.5e9, Assumptions())) for n in (1.0, 100.0)]
        [70.0, 1120.0]
    """
    shared = np.minimum(network_bytes_per_s, store_bytes_per_s / machines_starting)
    taken: Column = stored_bytes / nodes_per_replica / np.minimum(assumed.model_load_gb_per_s * 1e9, shared)
    return taken


@formula(unit="s")
def weights_to_device_s(
    device_bytes: Column | float, slot_bytes_per_s: Column | float, assumed: Assumptions
) -> Column | float:
    """Time to copy an accelerator's weights to it over its PCIe slot.

    Parameters:
        device_bytes: weights on one accelerator, bytes.
        slot_bytes_per_s: bandwidth of the accelerator's slot, bytes/s; infinite where host and device share memory.
        assumed: assumptions: achieved share of the slot's bandwidth.
    Limits: accelerators copy in parallel, after the weights are read.
    Check:
        >>> round(float(weights_to_device_s(35e9, 63e9, Assumptions())), 3)
        0.794
    """
    return device_bytes / (slot_bytes_per_s * assumed.host_link_fraction)


@formula(unit="replicas/s")
def transfer_limit_per_s(
    image_bytes: Column | float,
    stored_bytes: Column | float,
    nodes_per_replica: Column | float,
    replicas_per_node: Column | float,
    store_bytes_per_s: Column,
    assumed: Assumptions,
) -> Column:
    """Replicas per second that the image registry and the weight store can supply, however many start.

    Parameters:
        image_bytes: compressed image size, bytes.
        stored_bytes: weights of one replica, bytes.
        nodes_per_replica: machines that one replica spans.
        replicas_per_node: replicas that one machine holds.
        store_bytes_per_s: bandwidth of the weight store, bytes/s.
        assumed: assumptions: bandwidth of the registry.
    Limits: registry and store run at their full rate.
    Check: images of 12 GB at 5 GB/s, weights of 140 GB at 12.5 GB/s.
        >>> round(float(transfer_limit_per_s(12e9, 140e9, 1.0, 1.0, 12.5e9, Assumptions())), 4)
        0.0893
    """
    by_store = store_bytes_per_s / np.maximum(stored_bytes, 1.0)
    by_registry = assumed.registry_gb_per_s * 1e9 / (image_bytes * nodes_per_replica)
    fed: Column = replicas_per_node * np.minimum(by_store, by_registry)
    return fed


def image_bytes(small: Mask | bool, large: Mask | bool, assumed: Assumptions) -> Column:
    """Compressed size of an engine's container image, by the size of its runtime.

    Check:
        >>> small, large = np.array([False, False, True]), np.array([False, True, False])
        >>> (image_bytes(small, large, Assumptions()) / 1e9).tolist()
        [12.0, 16.2, 2.5]
    """
    gigabytes = np.where(small, assumed.small_image_gb, np.where(large, assumed.large_image_gb, assumed.image_gb))
    return gigabytes * 1e9


def store_bytes_per_s(start: StartProfile, assumed: Assumptions) -> Column:
    """Total bandwidth of the weight store, bytes/s; infinite for machines that read from their own disks."""
    return np.where(start.machine_kept, np.inf, assumed.weight_store_gb_per_s * 1e9)


def start_phases_s(start: StartProfile, at_once: float, assumed: Assumptions) -> dict[str, Column]:
    """Seconds of each phase of a start when `at_once` replicas start at the same time."""
    machines = machines_starting(at_once, start.nodes_per_replica, start.replicas_per_node)
    network = np.where(start.machine_kept, np.inf, start.network_bytes_per_s)
    read = (start.stored_bytes, start.nodes_per_replica, machines, network, store_bytes_per_s(start, assumed))
    copied = weights_to_device_s(start.device_bytes, start.slot_bytes_per_s, assumed)
    return {
        "machine": np.where(start.machine_kept, 0.0, assumed.machine_start_s),
        "image": np.where(start.machine_kept, 0.0, image_pull_s(start.image_bytes, machines, network, assumed)),
        "weights_read": np.asarray(weights_read_s(*read, assumed)),
        "weights_to_device": np.asarray(copied),
        "engine_start": np.asarray(assumed.engine_start_s),
    }


def start_times_s(start: StartProfile, at_once: float, assumed: Assumptions) -> Column:
    """Seconds from ordering `at_once` replicas until the last one answers, for every deployment."""
    taken: Column = np.sum(np.broadcast_arrays(*start_phases_s(start, at_once, assumed).values()), axis=0)
    return taken


def start_time_s(start: StartProfile, at_once: float, assumed: Assumptions) -> float:
    """Seconds from ordering `at_once` replicas until the last one answers, for one deployment."""
    return float(start_times_s(start, at_once, assumed))


def restart_s(start: StartProfile, assumed: Assumptions) -> float:
    """Seconds to restart a replica in place: machine and image are present, and the weights are read again."""
    parts = start_phases_s(start, 1.0, assumed)
    return float(sum(parts[name] for name in ("weights_read", "weights_to_device", "engine_start")))


def supply_per_s(start: StartProfile, assumed: Assumptions) -> Column:
    """Replicas per second that become ready however many are ordered; infinite where machines are kept."""
    moved = (start.image_bytes, start.stored_bytes, start.nodes_per_replica, start.replicas_per_node)
    fed = transfer_limit_per_s(*moved, store_bytes_per_s(start, assumed), assumed)
    return np.where(start.machine_kept, np.inf, fed)
