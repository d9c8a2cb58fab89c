"""What users may be kept waiting: the limits asked for, or the usual ones of the work."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from app.sizing.assumptions import Assumed, Assumptions
from app.sizing.formula import formula
from app.sizing.model.architecture import ModelArchitecture, ModelKind


class Load(StrEnum):
    """How requests arrive."""

    OPEN = "open"  # a rate, whatever the service does
    CLOSED = "closed"  # a fixed number in flight
    BATCH = "batch"  # a static batch that starts together
    OFFLINE = "offline"  # everything queued at once


@dataclass(frozen=True, slots=True)
class Slo:
    """Limits in seconds that `percentile` of requests must meet; None: no limit."""

    ttft_s: float | None
    tpot_s: float | None
    e2e_s: float | None
    percentile: float


@dataclass(frozen=True, slots=True)
class Limits:
    """What was asked for of an Slo; None is chosen, or no limit where another is given."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None
    percentile: float | None = None

    @property
    def any_time(self) -> bool:
        """Whether a time was asked for."""
        return bool(self.ttft_s or self.tpot_s or self.e2e_s)


@formula(unit="s", source="MLPerf Inference, server limits")
def usual_ttft_s(prompt_tokens: float, assumed: Assumptions) -> float:
    """Longest wait for a first token where nobody says: longer for a long prompt.

    Source: Llama 2 70B may take 2 s, Llama 3.1 405B 6 s at prompts of about 9,400 tokens.
    Limits: the mean prompt; what is cached of it counts as well.
    Check: a chat, and a report.
        >>> usual_ttft_s(1024, Assumptions()), round(usual_ttft_s(9400, Assumptions()), 2)
        (2.0, 6.02)
    """
    return float(np.maximum(assumed.default_ttft_ms, assumed.default_ttft_ms_per_prompt_token * prompt_tokens)) / 1e3


def usual_e2e_s(model: ModelArchitecture, assumed: Assumptions) -> float:
    """Longest wait for a whole answer in one piece: a picture, a clip, what was spoken, or anything quicker."""
    work = model.sample
    if work is None or work.passes <= 1:
        return assumed.default_e2e_ms / 1e3
    if work.decodes:
        return work.passes * assumed.default_tpot_ms / 1e3
    if model.law is not None and model.law.frames > 1:
        return assumed.default_clip_e2e_ms / 1e3
    return assumed.default_picture_e2e_ms / 1e3


def slo_of(
    asked: Limits, model: ModelArchitecture, load: Load, prompt_tokens: float, assumed: Assumptions, *, personal: bool
) -> Slo:
    """The limits asked for, or the usual ones where people wait; offline and batch work has none.

    One person's own machine need write no faster than is read.
    """
    percentile = assumed.default_percentile if asked.percentile is None else asked.percentile
    if asked.any_time:
        return Slo(asked.ttft_s, asked.tpot_s, asked.e2e_s, percentile)
    if load in (Load.BATCH, Load.OFFLINE):
        return Slo(None, None, None, percentile)
    if model.kind is not ModelKind.DECODER:
        return Slo(None, None, usual_e2e_s(model, assumed), percentile)
    ttft_s = usual_ttft_s(prompt_tokens, assumed)
    if personal:
        return Slo(max(ttft_s, assumed.personal_ttft_ms / 1e3), assumed.personal_tpot_ms / 1e3, None, percentile)
    return Slo(ttft_s, assumed.default_tpot_ms / 1e3, None, percentile)


def limits_told(asked: Limits, slo: Slo, *, personal: bool) -> tuple[Assumed, ...]:
    """The limits as an answer shows them."""
    first, token = ("personal_ttft_ms", "personal_tpot_ms") if personal else ("default_ttft_ms", "default_tpot_ms")
    times = (
        ("slo.ttft_ms", slo.ttft_s, "to the first token", f"{first}, more for long prompts", first),
        ("slo.tpot_ms", slo.tpot_s, "per output token", token, token),
        ("slo.e2e_ms", slo.e2e_s, "of a whole request", "usual for such work", "default_e2e_ms"),
    )
    told = tuple(
        Assumed(name, limit_s * 1e3, "ms", f"limit {of}", source, Assumptions.bounds(bounded), asked=asked.any_time)
        for name, limit_s, of, source, bounded in times
        if limit_s is not None
    )
    if not told:
        return ()
    share = Assumed(
        "slo.percentile",
        slo.percentile,
        "%",
        "of requests that must meet the limits",
        "default_percentile",
        Assumptions.bounds("default_percentile"),
        asked=asked.percentile is not None,
    )
    return (*told, share)
