"""Splits the requests in flight between prefill pool, transfer and decode pool so that throughputs balance."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from app.sizing.columns import Column
from app.sizing.result import Estimate, Performance
from app.sizing.workload import InferenceWorkload

HALVINGS = 40


def balance_pools(
    workload: InferenceWorkload, prefill: Estimate, decode: Estimate, transfer_s: float
) -> tuple[InferenceWorkload, InferenceWorkload, float]:
    """Workloads of the prefill and the decode pool with their requests in flight, and the joint throughput in
    requests/s.
    """
    assert prefill.performance is not None and decode.performance is not None
    reading, writing = throughput_curve(prefill.performance), throughput_curve(decode.performance)
    in_flight_by_pool = split_in_flight(workload.in_flight, reading, writing, transfer_s)
    first, second = (replace(workload, in_flight=count, most_personal_in_flight=0.0) for count in in_flight_by_pool)
    return first, second, float(np.interp(in_flight_by_pool[1], *writing))


def throughput_curve(performance: Performance) -> tuple[Column, Column]:
    """Requests in flight in a pool and its throughput in requests/s at each, starting at zero."""
    assert performance.load_curve is not None
    points = performance.load_curve.points
    loads = [point.in_flight or 0.0 for point in points]
    return np.array([0.0, *loads]), np.array([0.0, *(point.requests_per_s for point in points)])


def split_in_flight(
    in_flight: float, reading: tuple[Column, Column], writing: tuple[Column, Column], transfer_s: float
) -> tuple[float, float]:
    """Requests in flight in the prefill pool and in the decode pool, found by bisection.

    Check: the prefill pool completes 1 request/s per request in flight, the decode pool a third of that; no
    transfer.
        >>> [round(held, 3) for held in split_in_flight(8, (col(0, 9), col(0, 9)), (col(0, 9), col(0, 3)), 0.0)]
        [2.0, 6.0]
    """
    low, high = 0.0, in_flight
    for _ in range(HALVINGS):
        decode_load = (low + high) / 2
        written = float(np.interp(decode_load, *writing))
        prefill_load = max(in_flight - decode_load - written * transfer_s, 0.0)
        low, high = (decode_load, high) if float(np.interp(prefill_load, *reading)) > written else (low, decode_load)
    return in_flight - low - float(np.interp(low, *writing)) * transfer_s, low
