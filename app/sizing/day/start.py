"""How long a fresh replica takes to its first request: machine, image, weights and engine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, Mask
from app.sizing.formula import formula

MANY = 10.0  # replicas of the case that is told beside a single start


@dataclass(frozen=True, slots=True)
class Starting:
    """What a start of a replica moves, and over what, of one deployment or of many by columns. `stands`: its machine is
    kept, with image and weights on its disk; else it comes fresh and fetches both.
    """

    stands: Mask | bool
    image_bytes: Column | float
    stored_bytes: Column | float  # weights of a replica
    device_bytes: Column | float  # of them, on each accelerator
    nodes_per_replica: Column | float
    replicas_per_node: Column | float
    network_bytes_per_s: Column | float  # of a machine
    slot_bytes_per_s: Column | float  # of an accelerator; infinite where the host's memory is its own


@formula(unit="machines")
def machines_starting(at_once: float, nodes_per_replica: Column | float, replicas_per_node: Column | float) -> Column:
    """Machines that so many replicas start on.

    Source: counted.
    Limits: replicas fill their machines.
    Check:
        >>> float(machines_starting(10.0, 1.0, 4.0))
        3.0
    """
    machines: Column = np.ceil(at_once / replicas_per_node) * nodes_per_replica
    return machines


@formula(unit="s")
def image_s(
    image_bytes: Column | float, machines_starting: Column, network_bytes_per_s: Column, assumed: Assumptions
) -> Column:
    """Fetching and unpacking an image, once on every machine.

    Source: counted; the rates are assumptions.
    Limits: no layer is there before; the registry feeds all machines alike.
    Check: 12 GB at 0.2 GB/s; a hundred at once share 5 GB/s.
        >>> [float(image_s(12e9, machines, 12.5e9, Assumptions())) for machines in (1.0, 100.0)]
        [60.0, 240.0]
    """
    shared = np.minimum(network_bytes_per_s, assumed.registry_gb_per_s * 1e9 / machines_starting)
    taken: Column = image_bytes / np.minimum(assumed.image_pull_gb_per_s * 1e9, shared)
    return taken


@formula(unit="s")
def weights_read_s(
    stored_bytes: Column | float,
    nodes_per_replica: Column | float,
    machines_starting: Column,
    network_bytes_per_s: Column,
    store_bytes_per_s: Column,
    assumed: Assumptions,
) -> Column:
    """Reading weights, once on every machine, of a replica over several its share.

    Source: counted; the rates are assumptions.
    Limits: replicas of one machine read together; the store feeds all machines alike.
    Check: 140 GB at 2 GB/s; a hundred machines at once share 12.5 GB/s.
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
    """Copying an accelerator's weights to it over its slot.

    Source: counted.
    Limits: accelerators copy side by side, after reading; nothing where memory is shared.
    Check:
        >>> round(float(weights_to_device_s(35e9, 63e9, Assumptions())), 3)
        0.794
    """
    return device_bytes / (slot_bytes_per_s * assumed.host_link_fraction)


@formula(unit="replicas/s")
def fed_per_s(
    image_bytes: Column | float,
    stored_bytes: Column | float,
    nodes_per_replica: Column | float,
    replicas_per_node: Column | float,
    store_bytes_per_s: Column,
    assumed: Assumptions,
) -> Column:
    """Replicas for which a registry and a store have bytes enough, however many start.

    Source: counted.
    Limits: at their full rate.
    Check: images of 12 GB at 5 GB/s, weights of 140 at 12.5.
        >>> round(float(fed_per_s(12e9, 140e9, 1.0, 1.0, 12.5e9, Assumptions())), 4)
        0.0893
    """
    by_store = store_bytes_per_s / np.maximum(stored_bytes, 1.0)
    by_registry = assumed.registry_gb_per_s * 1e9 / (image_bytes * nodes_per_replica)
    fed: Column = replicas_per_node * np.minimum(by_store, by_registry)
    return fed


def image_bytes(small: Mask | bool, large: Mask | bool, assumed: Assumptions) -> Column:
    """Compressed size of an engine's image, by the size of its runtime.

    Check:
        >>> small, large = np.array([False, False, True]), np.array([False, True, False])
        >>> (image_bytes(small, large, Assumptions()) / 1e9).tolist()
        [12.0, 16.2, 2.5]
    """
    gigabytes = np.where(small, assumed.small_image_gb, np.where(large, assumed.large_image_gb, assumed.image_gb))
    return gigabytes * 1e9


def store_bytes_per_s(start: Starting, assumed: Assumptions) -> Column:
    """What the storage of weights gives to all at once; own disks are shared by nobody."""
    return np.where(start.stands, np.inf, assumed.weight_store_gb_per_s * 1e9)


def parts_s(start: Starting, at_once: float, assumed: Assumptions) -> dict[str, Column]:
    """The seconds of a start, part by part, where so many replicas start at once."""
    machines = machines_starting(at_once, start.nodes_per_replica, start.replicas_per_node)
    network = np.where(start.stands, np.inf, start.network_bytes_per_s)
    read = (start.stored_bytes, start.nodes_per_replica, machines, network, store_bytes_per_s(start, assumed))
    copied = weights_to_device_s(start.device_bytes, start.slot_bytes_per_s, assumed)
    return {
        "machine": np.where(start.stands, 0.0, assumed.machine_start_s),
        "image": np.where(start.stands, 0.0, image_s(start.image_bytes, machines, network, assumed)),
        "weights_read": np.asarray(weights_read_s(*read, assumed)),
        "weights_to_device": np.asarray(copied),
        "engine_start": np.asarray(assumed.engine_start_s),
    }


def starts_s(start: Starting, at_once: float, assumed: Assumptions) -> Column:
    """Seconds from the order of so many replicas until the last of them answers, of every deployment."""
    taken: Column = np.sum(np.broadcast_arrays(*parts_s(start, at_once, assumed).values()), axis=0)
    return taken


def start_s(start: Starting, at_once: float, assumed: Assumptions) -> float:
    """The same of one."""
    return float(starts_s(start, at_once, assumed))


def restart_s(start: Starting, assumed: Assumptions) -> float:
    """Seconds of a replica that starts again where it was: its machine and image are there, and its weights are read
    anew.
    """
    parts = parts_s(start, 1.0, assumed)
    return float(sum(parts[name] for name in ("weights_read", "weights_to_device", "engine_start")))


def supply_per_s(start: Starting, assumed: Assumptions) -> Column:
    """Replicas per second that come up however many are ordered; unbounded where machines stand."""
    moved = (start.image_bytes, start.stored_bytes, start.nodes_per_replica, start.replicas_per_node)
    fed = fed_per_s(*moved, store_bytes_per_s(start, assumed), assumed)
    return np.where(start.stands, np.inf, fed)
