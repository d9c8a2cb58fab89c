"""Schemas of several traffic classes on one service, and of the comparison with separate services."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, model_validator

from app.api.schemas.base import Name, RequestModel, ResponseModel, round_value, rounded_fields, with_examples
from app.api.schemas.lengths import LengthSpec, PromptSpec
from app.api.schemas.slo import SloSpec
from app.sizing.values.classes import SharedFleet
from app.sizing.values.latencies import ClassLatencies, Percentiles

LENGTHS = "A number is a mean; the assumption length_p95_to_mean gives the spread."
DIGITS = 4


class Users(RequestModel):
    """A number of users instead of a rate; the busy-hour rule converts it to peak requests per second."""

    count: Annotated[float, Field(gt=0, le=1e9)]
    requests_per_hour_each: Annotated[float, Field(gt=0, le=1e5)]


class TrafficClassSpec(RequestModel):
    """One class of requests; its rate is peak_requests_per_s or users."""

    model_config = with_examples(
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
    burstiness: Annotated[float, Field(ge=0, le=20)] = Field(
        1.0, description="Coefficient of variation of inter-arrival times; 1 is Poisson."
    )
    input_tokens: PromptSpec | None = Field(None, description=LENGTHS)
    output_tokens: LengthSpec | None = Field(None, description=LENGTHS)
    slo: SloSpec | None = Field(None, description="Latency limits of this class. Default: typical limits for the task.")

    @model_validator(mode="after")
    def _check_rate(self) -> TrafficClassSpec:
        if (self.peak_requests_per_s is None) == (self.users is None):
            raise ValueError("set exactly one of peak_requests_per_s and users in each class")
        peak, average = self.peak_requests_per_s, self.average_requests_per_s
        if peak is not None and average is not None and average > peak:
            raise ValueError("average_requests_per_s must not exceed the peak")
        return self

    def traffic_fields(self) -> dict[str, Any]:
        """The fields that the request set for this class, without name and limits."""
        return {name: getattr(self, name) for name in self.model_fields_set - {"name", "slo"}}


class TimesShown(ResponseModel):
    """Latencies in milliseconds; null if the queue never empties."""

    p50: float | None
    p95: float | None


class ClassShown(ResponseModel):
    """One traffic class on the shared service."""

    name: str
    ttft_ms: TimesShown
    tpot_ms: TimesShown
    e2e_ms: TimesShown
    limits_met: bool = Field(
        description="True if the predicted latencies meet the limits of the class at its percentile."
    )
    within_requests_per_s: float = Field(
        description="Load of all classes together up to which the service meets the limits of this class."
    )


class TogetherShown(ResponseModel):
    """This deployment: one shared service for all classes."""

    replicas: int
    usd_per_hour: float | None
    by_class: list[ClassShown]


class ApartShown(ResponseModel):
    """The best separate service for one class under the same constraints; null if there is none."""

    name: str
    accelerator: str | None
    replicas: int | None
    usd_per_hour: float | None


class SharedShown(ResponseModel):
    """One shared service compared with a separate service per class."""

    together: TogetherShown
    apart: list[ApartShown]
    cheaper: str | None = Field(description="together or apart; null if a price is unknown.")
    saving_usd_per_hour: float | None
    why: str


def shared_json(fleet: SharedFleet) -> dict[str, Any]:
    """Both variants and which of them costs less, as JSON."""
    return {
        "together": {
            "replicas": fleet.replicas,
            "usd_per_hour": round_value(fleet.usd_per_hour),
            "by_class": [_class_json(each, fleet.replicas) for each in fleet.by_class],
        },
        "apart": [
            {
                "name": each.name,
                "accelerator": each.accelerator,
                "replicas": each.replicas,
                "usd_per_hour": round_value(each.usd_per_hour),
            }
            for each in fleet.separate_services
        ],
        "cheaper": fleet.cheaper,
        "saving_usd_per_hour": round_value(fleet.saving_usd_per_hour),
        "why": fleet.why,
    }


def _class_json(waits: ClassLatencies, replicas: int) -> dict[str, Any]:
    return {
        "name": waits.name,
        **{f"{name}_ms": _times_json(getattr(waits, name)) for name in ("ttft", "tpot", "e2e")},
        "limits_met": waits.limits_met,
        **rounded_fields(within_requests_per_s=replicas * waits.within_per_s),
    }


def _times_json(times: Percentiles) -> dict[str, float | None]:
    shown = {"p50": times.p50_s, "p95": times.p95_s}
    return {name: None if s is None else round_value(s * 1e3, DIGITS) for name, s in shown.items()}
