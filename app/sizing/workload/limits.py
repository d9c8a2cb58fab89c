"""Latency limits of a service: those of a request, and the usual ones where it names none."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from app.sizing.assumptions import Assumed, Assumptions
from app.sizing.formula import formula
from app.sizing.model.architecture import ModelArchitecture, ModelKind


class Load(StrEnum):
    """How requests arrive."""

    OPEN = "open"  # a rate that does not depend on the service
    CLOSED = "closed"  # a fixed number of requests in flight
    BATCH = "batch"  # a static batch that starts together
    OFFLINE = "offline"  # all requests queued at the start


@dataclass(frozen=True, slots=True)
class Slo:
    """Limits in seconds that `percentile` % of requests must meet; None means no limit."""

    ttft_s: float | None  # time to first token, s
    tpot_s: float | None  # time per output token, s
    e2e_s: float | None  # end-to-end latency, s
    percentile: float  # share of requests that must meet the limits, %
    assumed_times: float | None = None  # how many times the usual limits these are; None: the request sets limits

    def relaxed(self, times: float) -> Slo:
        """Limits that are a number of times as long."""
        ttft_s, tpot_s, e2e_s = (None if s is None else s * times for s in (self.ttft_s, self.tpot_s, self.e2e_s))
        return Slo(ttft_s, tpot_s, e2e_s, self.percentile, times)


RELAXED_LIMITS = (1.5, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0, 30.0, 50.0)  # times the usual limits, tried if none meets them
LIMIT_NAMES = ("slo.ttft_ms", "slo.tpot_ms", "slo.e2e_ms")


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the request. None means the default, or no limit if another limit is given."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None
    percentile: float | None = None

    @property
    def has_latency_limit(self) -> bool:
        """True if the request sets a latency limit."""
        return bool(self.ttft_s or self.tpot_s or self.e2e_s)


@formula(unit="s", source="MLPerf Inference, latency limits of the server scenario")
def usual_ttft_s(prompt_tokens: float, assumed: Assumptions) -> float:
    """Default TTFT limit, longer for long prompts.

    MLPerf allows Llama 2 70B 2 s, and Llama 3.1 405B 6 s at prompts of about 9,400 tokens.

    Parameters:
        prompt_tokens: mean prompt length, tokens.
        assumed: assumptions; `default_ttft_ms` and `default_ttft_ms_per_prompt_token`.
    Limits: based on the mean prompt; cached prompt tokens count as well.
    Check: a chat prompt of 1,024 tokens and a report of 9,400 tokens.
        >>> usual_ttft_s(1024, Assumptions()), round(usual_ttft_s(9400, Assumptions()), 2)
        (2.0, 6.02)
    """
    return float(np.maximum(assumed.default_ttft_ms, assumed.default_ttft_ms_per_prompt_token * prompt_tokens)) / 1e3


def usual_e2e_s(model: ModelArchitecture, assumed: Assumptions) -> float:
    """Default end-to-end limit for an answer in one piece: a picture, a clip, a transcript or a faster result."""
    work = model.sample
    if work is None or work.passes <= 1:
        return assumed.default_e2e_ms / 1e3
    if work.decodes:
        return max(work.passes * assumed.default_tpot_ms / 1e3, assumed.default_real_time_factor * work.audio_s)
    if model.law is not None and model.law.frames > 1:
        return assumed.default_clip_e2e_ms / 1e3
    return assumed.default_picture_e2e_ms / 1e3


def build_slo(
    requested: Limits,
    model: ModelArchitecture,
    load: Load,
    prompt_tokens: float,
    assumed: Assumptions,
    *,
    personal: bool,
) -> Slo:
    """The requested limits, or defaults for interactive work. Offline and batch work has no limits.

    For personal use the defaults only require output at reading speed.
    """
    percentile = assumed.default_percentile if requested.percentile is None else requested.percentile
    if requested.has_latency_limit:
        return Slo(requested.ttft_s, requested.tpot_s, requested.e2e_s, percentile)
    if load in (Load.BATCH, Load.OFFLINE):
        return Slo(None, None, None, percentile)
    if model.kind is not ModelKind.DECODER:
        return Slo(None, None, usual_e2e_s(model, assumed), percentile, 1.0)
    ttft_s = usual_ttft_s(prompt_tokens, assumed)
    if personal:
        return Slo(max(ttft_s, assumed.personal_ttft_ms / 1e3), assumed.personal_tpot_ms / 1e3, None, percentile, 1.0)
    return Slo(ttft_s, assumed.default_tpot_ms / 1e3, None, percentile, 1.0)


def limit_assumptions(requested: Limits, slo: Slo, *, personal: bool) -> tuple[Assumed, ...]:
    """The limits as an answer lists them."""
    first, token = ("personal_ttft_ms", "personal_tpot_ms") if personal else ("default_ttft_ms", "default_tpot_ms")
    ttft_ms, tpot_ms, e2e_ms = LIMIT_NAMES
    times = (
        (ttft_ms, slo.ttft_s, "for the time to first token", f"{first}, more for long prompts", first),
        (tpot_ms, slo.tpot_s, "for the time per output token", token, token),
        (e2e_ms, slo.e2e_s, "for the whole request", "usual for this kind of work", "default_e2e_ms"),
    )
    assumptions = tuple(
        Assumed(
            name,
            limit_s * 1e3,
            "ms",
            f"limit {of}",
            source,
            Assumptions.allowed_range(bounded),
            asked=requested.has_latency_limit,
        )
        for name, limit_s, of, source, bounded in times
        if limit_s is not None
    )
    if not assumptions:
        return ()
    share = Assumed(
        "slo.percentile",
        slo.percentile,
        "%",
        "share of requests that must meet the limits",
        "default_percentile",
        Assumptions.allowed_range("default_percentile"),
        asked=requested.percentile is not None,
    )
    return (*assumptions, share)
