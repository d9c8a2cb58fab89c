"""Several classes of traffic on one service: how a request says them, and how an answer holds them against services
apart.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, model_validator

from app.api.schemas.base import Name, Shown, Wire, present, rounded, shown_as
from app.api.schemas.lengths import LengthSpec, PromptSpec
from app.api.schemas.slo import SloSpec
from app.sizing.values.classes import SharedFleet
from app.sizing.values.latencies import ClassWaits, Percentiles

LENGTHS = "A number is a mean, about which lengths spread as the assumption length_p95_to_mean says."
DIGITS = 4


class Users(Wire):
    """People rather than a rate; turned into peak requests by the busy-hour rule."""

    count: Annotated[float, Field(gt=0, le=1e9)]
    requests_per_hour_each: Annotated[float, Field(gt=0, le=1e5)]


class TrafficClassSpec(Wire):
    """One class of requests: its rate is peak_requests_per_s or users."""

    model_config = shown_as(
        {
            "name": "interactive",
            "peak_requests_per_s": 8,
            "input_tokens": 800,
            "output_tokens": 200,
            "slo": {"ttft_ms": 500, "tpot_ms": 40},
        }
    )

    name: Annotated[Name, Field(max_length=40)]
    peak_requests_per_s: Annotated[float, Field(gt=0, le=1e6)] | None = None
    users: Users | None = None
    average_requests_per_s: Annotated[float, Field(gt=0, le=1e6)] | None = None
    burstiness: Annotated[float, Field(ge=0, le=20)] = Field(1.0, description="As of any traffic.")
    input_tokens: PromptSpec | None = Field(None, description=LENGTHS)
    output_tokens: LengthSpec | None = Field(None, description=LENGTHS)
    slo: SloSpec | None = Field(None, description="Its own limits, at its own percentile; default: the usual ones.")

    @model_validator(mode="after")
    def _one_rate(self) -> TrafficClassSpec:
        if (self.peak_requests_per_s is None) == (self.users is None):
            raise ValueError("each class has exactly one of peak_requests_per_s and users")
        peak, average = self.peak_requests_per_s, self.average_requests_per_s
        if peak is not None and average is not None and average > peak:
            raise ValueError("average_requests_per_s must not exceed the peak")
        return self

    def traffic(self) -> dict[str, Any]:
        """What was said of it beside its name and limits, as traffic of its own."""
        return {name: getattr(self, name) for name in self.model_fields_set - {"name", "slo"}}


class TimesShown(Shown):
    """Milliseconds; null where the queue never empties."""

    p50: float | None
    p95: float | None


class ClassShown(Shown):
    """One class on the service that all share."""

    name: str
    ttft_ms: TimesShown
    tpot_ms: TimesShown
    e2e_ms: TimesShown
    limits_met: bool = Field(description="Its own limits at its own percentile, as predicted.")
    within_requests_per_s: float = Field(
        description="Of all classes together, what the service carries before this one's limits are passed."
    )


class TogetherShown(Shown):
    """This deployment: one service for all classes."""

    replicas: int
    usd_per_hour: float | None
    by_class: list[ClassShown]


class ApartShown(Shown):
    """The best service for one class alone, within the same constraints; null where there is none."""

    name: str
    accelerator: str | None
    replicas: int | None
    usd_per_hour: float | None


class SharedShown(Shown):
    """One service for all classes against one for each."""

    together: TogetherShown
    apart: list[ApartShown]
    cheaper: str | None = Field(description="together or apart; null where a price is not known.")
    saving_usd_per_hour: float | None
    why: str


def shared_json(found: SharedFleet) -> dict[str, Any]:
    """Both ways and which of them costs less."""
    return {
        "together": {
            "replicas": found.replicas,
            "usd_per_hour": rounded(found.usd_per_hour),
            "by_class": [_class_json(each, found.replicas) for each in found.by_class],
        },
        "apart": [
            {
                "name": each.name,
                "accelerator": each.accelerator,
                "replicas": each.replicas,
                "usd_per_hour": rounded(each.usd_per_hour),
            }
            for each in found.apart
        ],
        "cheaper": found.cheaper,
        "saving_usd_per_hour": rounded(found.saving_usd_per_hour),
        "why": found.why,
    }


def _class_json(waits: ClassWaits, replicas: int) -> dict[str, Any]:
    return {
        "name": waits.name,
        **{f"{name}_ms": _times_json(getattr(waits, name)) for name in ("ttft", "tpot", "e2e")},
        "limits_met": waits.limits_met,
        **present(within_requests_per_s=replicas * waits.within_per_s),
    }


def _times_json(times: Percentiles) -> dict[str, float | None]:
    shown = {"p50": times.p50_s, "p95": times.p95_s}
    return {name: None if s is None else rounded(s * 1e3, DIGITS) for name, s in shown.items()}
