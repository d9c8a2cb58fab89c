"""Schemas of GET /recommendations/{id}/sensitivity."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from app.api.flips import Breakpoint, StableRange, TopOption
from app.api.patterns import Saving
from app.api.schemas.base import ResponseModel, rounded_fields
from app.sizing.words import percent


class FlipShown(ResponseModel):
    """A change that ranks another accelerator type first. The service computed an answer for each change."""

    knob: str = Field(
        description="What changes: load, input_tokens, output_tokens, ttft_ms, tpot_ms, e2e_ms, confidence, price, "
        "weight_formats, or a field of a run."
    )
    text: str
    first: str = Field(description="Accelerator type that ranks first then; empty if none meets the requirements.")
    request: dict[str, Any] = Field(description="Merge this into the request (RFC 7396) to get that answer.")
    now: float | None = None
    value: float | None = Field(None, description="Closest value that changes the first rank, within 1 to 5 %.")
    unit: str | None = None


class HoldShown(ResponseModel):
    """A number that was varied from low to high in a few steps while the same type stayed first."""

    knob: str
    text: str
    low: float
    high: float


class SavingShown(ResponseModel):
    """A cheaper option that the request left open. The service computed an answer for each option."""

    pattern: str = Field(
        description="Kind of saving: smaller_model, quantise, quantise_cache, spot, commit, lora or qlora.",
    )
    text: str
    owes: str = Field(description="Trade-off: what the saving requires.")
    first: str = Field(description="Accelerator type that ranks first then.")
    usd: float = Field(description="Total cost of a run, or mean hourly cost of a service over its day.")
    saves_share: float
    request: dict[str, Any] = Field(description="Merge this into the request (RFC 7396) to get that answer.")


class SensitivityShown(ResponseModel):
    """Changes that would rank another accelerator type first, and options that would cost less, in today's catalog."""

    id: str
    catalog: dict[str, str]
    first: str
    flips: list[FlipShown]
    holds: list[HoldShown]
    savings: list[SavingShown]
    asked: int = Field(description="Number of requests that the service computed for this.")


def sensitivity_json(
    first: TopOption, flips: list[Breakpoint], holds: list[StableRange], savings: list[Saving]
) -> dict[str, Any]:
    """Changes that alter the first rank, ranges that do not, and savings, as JSON."""
    return {
        "first": first.type,
        "flips": [
            {
                "knob": f.parameter,
                "text": f.text,
                "first": f.first,
                "request": f.request,
                **rounded_fields(now=f.now, value=f.value, unit=f.unit or None),
            }
            for f in flips
        ],
        "savings": [
            {
                "pattern": s.pattern.name,
                "text": f"{s.pattern.text}: saves {percent(s.saves_share)}. Trade-off: {s.pattern.owes}.",
                "owes": s.pattern.owes,
                "first": s.first,
                **rounded_fields(usd=s.usd, saves_share=s.saves_share),
                "request": s.pattern.patch,
            }
            for s in savings
        ],
        "holds": [{"knob": h.parameter, "text": h.text, **rounded_fields(low=h.low, high=h.high)} for h in holds],
    }
