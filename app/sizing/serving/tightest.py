"""Limits that a prediction must meet: of one kind of traffic, or the tightest of several classes on one service."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Column, Columns
from app.sizing.serving.margins import Margins
from app.sizing.workload import InferenceWorkload


@dataclass(frozen=True, slots=True)
class Tightest(Columns):
    """What the limits of all classes come to on every plan: the least time per token, and the long prompt and the
    limit of the class that has the least room to its first token.
    """

    quickest_s: Column
    tpot_s: Column
    ttft_s: Column


def limits_of(workload: InferenceWorkload, quickest: Column, margins: Margins) -> tuple[Column, Column]:
    """Limits that predictions of TPOT and TTFT must meet for the margins to hold, those that follow of a whole
    request's included.
    """
    slo = workload.slo
    tpot = np.full(len(quickest), np.inf if slo.tpot_s is None else slo.tpot_s)
    ttft = np.full(len(quickest), np.inf if slo.ttft_s is None else slo.ttft_s)
    if slo.e2e_s is not None:
        tokens = max(1.0, workload.long_answer(slo.percentile))
        tpot = np.minimum(tpot, np.maximum(slo.e2e_s - quickest * margins.ttft, 1e-9) / tokens)
        ttft = np.minimum(ttft, slo.e2e_s)
    return tpot / margins.tpot, ttft / margins.ttft


def tightest_of(workload: InferenceWorkload, quickest: Sequence[Column]) -> Tightest | None:
    """The tightest of a workload's classes, whose long prompts take so long alone; None of one kind of traffic."""
    if not workload.classes:
        return None
    none = Margins.none(len(quickest[0]))
    limits = [
        limits_of(workload.alone(c), alone_s, none) for c, alone_s in zip(workload.classes, quickest, strict=True)
    ]
    tpot, ttft = (np.stack(found) for found in zip(*limits, strict=True))
    alone = np.stack(quickest)
    least = np.argmin(ttft - alone, axis=0), np.arange(alone.shape[1])
    return Tightest(alone[least], tpot.min(axis=0), ttft[least])


def limits_by(
    workload: InferenceWorkload, tightest: Tightest | None, quickest: Column, margins: Margins
) -> tuple[Column, Column]:
    """Limits less a margin, whichever they are."""
    if tightest is None:
        return limits_of(workload, quickest, margins)
    return tightest.tpot_s / margins.tpot, tightest.ttft_s / margins.ttft
