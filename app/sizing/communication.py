"""Collectives and transfers: latency plus bytes over an achieved bandwidth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Codes, Column
from app.sizing.hardware import Link
from app.sizing.market import LINKS, Market


@dataclass(frozen=True, slots=True)
class LinkRates:
    """Latency and achieved bytes per second of each kind of link."""

    latency_s: Column
    bandwidth_fraction: Column
    network_latency_s: float
    network_fraction: float


def link_rates(market: Market) -> LinkRates:
    """The catalogue's collective coefficients, in the order of LINKS."""
    value = market.coefficients.value
    kinds = ["scale_up" if link is Link.SCALE_UP else "pcie" for link in LINKS]
    return LinkRates(
        latency_s=np.array([value("collective_latency_s", format_class=k) for k in kinds]),
        bandwidth_fraction=np.array([value("collective_bandwidth_fraction", format_class=k) for k in kinds]),
        network_latency_s=value("collective_latency_s", format_class="network"),
        network_fraction=value("collective_bandwidth_fraction", format_class="network"),
    )


def achieved_bytes_per_s(link: Codes, link_bytes_per_s: Column, rates: LinkRates) -> Column:
    """Bandwidth a collective achieves inside a machine; a lone device never asks."""
    return np.where(link_bytes_per_s > 0, link_bytes_per_s * rates.bandwidth_fraction[link], np.inf)


def all_reduce_s(message_bytes: Column, ranks: Column, bytes_per_s: Column, latency_s: Column) -> Column:
    """Ring all-reduce: 2 (n - 1) / n of the message crosses each link.

    Source: Patarasuk and Yuan 2009; NCCL's bus-bandwidth convention.
    Check: 1 MB over 8 ranks at 337.5 GB/s and 12 us: 12e-6 + 1.75e6 / 337.5e9 = 17.2 us.
    """
    return np.where(ranks > 1, latency_s + 2 * (ranks - 1) / ranks * message_bytes / bytes_per_s, 0.0)
