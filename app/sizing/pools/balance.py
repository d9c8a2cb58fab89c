"""Requests in flight, parted between two pools and the way between them: as many leave each as come to it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from app.sizing.columns import Column
from app.sizing.result import Estimate, Performance
from app.sizing.workload import InferenceWorkload

HALVINGS = 40


def balanced(
    workload: InferenceWorkload, prefill: Estimate, decode: Estimate, transfer_s: float
) -> tuple[InferenceWorkload, InferenceWorkload, float]:
    """The workload with the requests in flight that each pool holds, and what both answer per second."""
    assert prefill.performance is not None and decode.performance is not None
    reading, writing = answered_by(prefill.performance), answered_by(decode.performance)
    held = parted(workload.in_flight, reading, writing, transfer_s)
    first, second = (replace(workload, in_flight=count, most_personal_in_flight=0.0) for count in held)
    return first, second, float(np.interp(held[1], *writing))


def answered_by(performance: Performance) -> tuple[Column, Column]:
    """Requests in flight in a pool and what it answers of them per second, from none on."""
    assert performance.load_curve is not None
    points = performance.load_curve.points
    held = [point.in_flight or 0.0 for point in points]
    return np.array([0.0, *held]), np.array([0.0, *(point.requests_per_s for point in points)])


def parted(
    in_flight: float, reading: tuple[Column, Column], writing: tuple[Column, Column], transfer_s: float
) -> tuple[float, float]:
    """What each pool holds of so many in flight, by halving.

    Check: a pool that reads one a second for each in flight, one that writes a third of that; without a way between.
        >>> [round(held, 3) for held in parted(8, (col(0, 9), col(0, 9)), (col(0, 9), col(0, 3)), 0.0)]
        [2.0, 6.0]
    """
    low, high = 0.0, in_flight
    for _ in range(HALVINGS):
        held = (low + high) / 2
        written = float(np.interp(held, *writing))
        left = max(in_flight - held - written * transfer_s, 0.0)
        low, high = (held, high) if float(np.interp(left, *reading)) > written else (low, held)
    return in_flight - low - float(np.interp(low, *writing)) * transfer_s, low
