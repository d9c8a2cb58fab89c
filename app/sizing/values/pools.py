"""Disaggregated prefill and decode pools: their utilization, and the KV cache transfer between them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PoolLoad:
    """Utilization of one pool at the load, and its capacity within its limits."""

    utilization: float | None  # load over capacity
    requests_per_s_capacity: float  # capacity within the limits, requests/s


@dataclass(frozen=True, slots=True)
class Transfer:
    """Transfer of the KV cache of a mean prompt from the prefill pool to the decode pool."""

    request_bytes: float  # KV cache of a mean prompt, bytes
    seconds: float  # transfer time
    link: str  # "network", or "scale_up" if both pools share a scale-up domain
    bytes_per_s: float  # total transfer rate of the accelerators of a replica that send or receive in parallel
    requests_per_s_capacity: float
    utilization: float | None


@dataclass(frozen=True, slots=True)
class PoolSplit:
    """Both pools and the transfer between them."""

    prefill: PoolLoad
    decode: PoolLoad
    transfer: Transfer
