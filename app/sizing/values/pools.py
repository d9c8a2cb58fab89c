"""Prefill and decode in pools of their own: how full each is, and what it takes to hand a prompt's cache over."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PoolLoad:
    """How full one pool is at the load, and what it carries within its limits."""

    utilization: float | None
    requests_per_s_capacity: float


@dataclass(frozen=True, slots=True)
class Transfer:
    """The cache of a mean prompt on its way from one pool to the other."""

    request_bytes: float
    seconds: float
    link: str  # "network", or "scale_up" where both pools share a domain
    bytes_per_s: float  # of all accelerators of a replica that send or receive side by side
    requests_per_s_capacity: float
    utilization: float | None


@dataclass(frozen=True, slots=True)
class Split:
    """Both pools and what lies between them."""

    prefill: PoolLoad
    decode: PoolLoad
    transfer: Transfer
