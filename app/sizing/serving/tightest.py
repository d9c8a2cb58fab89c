"""Latency limits that a prediction must meet, for one kind of traffic or for several classes on one service."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Column, Columns
from app.sizing.serving.margins import Margins
from app.sizing.workload import InferenceWorkload


@dataclass(frozen=True, slots=True)
class TightestLimits(Columns):
    """Tightest limits of all traffic classes on every plan.

    TPOT takes the smallest limit of all classes. TTFT takes the class with the least time left after its unloaded
    long prompt.
    """

    unloaded_ttft_s: Column  # unloaded TTFT of the long prompt of the class with the least time left, in seconds
    tpot_s: Column  # smallest TPOT limit of all classes, in seconds
    ttft_s: Column  # TTFT limit of the class with the least time left, in seconds


def prediction_limits(workload: InferenceWorkload, unloaded_ttft_s: Column, margins: Margins) -> tuple[Column, Column]:
    """TPOT and TTFT that median predictions must meet so that the limits hold with the margins, in seconds.

    A limit on end-to-end latency is converted into limits on both.
    """
    slo = workload.slo
    tpot = np.full(len(unloaded_ttft_s), np.inf if slo.tpot_s is None else slo.tpot_s)
    ttft = np.full(len(unloaded_ttft_s), np.inf if slo.ttft_s is None else slo.ttft_s)
    if slo.e2e_s is not None:
        tokens = max(1.0, workload.long_answer(slo.percentile))
        tpot = np.minimum(tpot, np.maximum(slo.e2e_s - unloaded_ttft_s * margins.ttft, 1e-9) / tokens)
        ttft = np.minimum(ttft, slo.e2e_s)
    return tpot / margins.tpot, ttft / margins.ttft


def tightest_limits(workload: InferenceWorkload, unloaded_ttft_s: Sequence[Column]) -> TightestLimits | None:
    """Tightest limits of a workload's traffic classes; None if there are no classes.

    `quickest` holds the unloaded TTFT of each class's long prompt, in seconds.
    """
    if not workload.classes:
        return None
    none = Margins.without_margin(len(unloaded_ttft_s[0]))
    limits = [
        prediction_limits(workload.single_class_workload(c), alone_s, none)
        for c, alone_s in zip(workload.classes, unloaded_ttft_s, strict=True)
    ]
    tpot, ttft = (np.stack(found) for found in zip(*limits, strict=True))
    unloaded = np.stack(unloaded_ttft_s)
    least = np.argmin(ttft - unloaded, axis=0), np.arange(unloaded.shape[1])
    return TightestLimits(unloaded[least], tpot.min(axis=0), ttft[least])


def limits_with_margins(
    workload: InferenceWorkload, tightest: TightestLimits | None, unloaded_ttft_s: Column, margins: Margins
) -> tuple[Column, Column]:
    """TPOT and TTFT limits with margins, of the classes or of the workload, in seconds."""
    if tightest is None:
        return prediction_limits(workload, unloaded_ttft_s, margins)
    return tightest.tpot_s / margins.tpot, tightest.ttft_s / margins.ttft
