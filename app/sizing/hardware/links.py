"""How accelerators reach one another: links inside a machine, networks between them, collectives over both."""

from __future__ import annotations

from enum import StrEnum

from app.sizing.columns import Column
from app.sizing.hardware.parts import Accelerator


class Link(StrEnum):
    """How the accelerators of one machine reach one another."""

    SCALE_UP = "scale_up"  # NVLink, xGMI, ICI, NeuronLink, HCCS, ...
    PCIE = "pcie"
    NONE = "none"  # a single accelerator


LINKS = (Link.NONE, Link.PCIE, Link.SCALE_UP)


# One direction of a x16 slot of generation 4, and of 5, which these families have.
PCIE_BYTES_PER_S = 32e9

PCIE_5 = ("nvidia_hopper", "nvidia_blackwell", "nvidia_blackwell_consumer", "amd_cdna3", "amd_cdna4", "gaudi")


def link_of(accelerator: Accelerator, *, count: float, topology: str) -> tuple[Link, float, float]:
    """The link inside a machine: its kind, bytes per second each way, and how many share it.

    A bridge joins the accelerator's own domain size; a rack-scale domain reaches beyond one
    machine; anything not known to be linked talks over PCIe.
    """
    scale_up = accelerator.scaleup_link not in ("none", "Thunderbolt") and accelerator.scaleup_bytes_per_s > 0
    by_the_chip = accelerator.form_factor == "pod_chip" and not topology  # sold singly, wired as a slice
    beyond = by_the_chip or "domain" in topology or "part of" in topology or "torus" in topology
    if count <= 1 and not beyond:
        return Link.NONE, 0.0, 1.0
    bridged = "bridge" in accelerator.scaleup_link
    linked = topology and not topology.startswith(("PCIe", "single", "vGPU", "sockets"))
    boards = accelerator.form_factor in ("SXM", "OAM", "superchip", "pod_chip") and not topology
    if not scale_up or not (linked or boards) or (bridged and not topology):
        slot = PCIE_BYTES_PER_S * (2 if accelerator.family in PCIE_5 else 1)
        return (Link.PCIE, slot, count) if accelerator.kind != "cpu" else (Link.PCIE, 50e9, count)
    domain = float(accelerator.scaleup_domain_size)
    return Link.SCALE_UP, accelerator.scaleup_bytes_per_s, domain if beyond else min(count, domain)


# Of one accelerator between machines whose network the catalogue does not know: 100 Gbit/s, usual in nodes of eight.
UNKNOWN_NETWORK_BYTES_PER_S = 12.5e9


def all_reduce_s(message_bytes: Column, ranks: Column, bytes_per_s: Column) -> Column:
    """Bytes of a ring all-reduce over the link: 2 (n - 1) / n of the message crosses it; latency comes on top.

    Source: Patarasuk and Yuan 2009; NCCL's bus-bandwidth convention.
    Check: 1 MB over 8 ranks at 337.5 GB/s: 1.75e6 / 337.5e9 = 5.2 us.
    """
    return 2 * (ranks - 1) / ranks * message_bytes / bytes_per_s
