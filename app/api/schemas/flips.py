"""GET /recommendations/{id}/sensitivity on the wire."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from app.api.flips import First, Flip, Hold
from app.api.patterns import Saving
from app.api.schemas.base import Shown, present


class FlipShown(Shown):
    """A change that makes another type first. Every one was asked."""

    knob: str = Field(
        description="load, input_tokens, output_tokens, ttft_ms, tpot_ms, e2e_ms, confidence, price, weight_formats, "
        "or a field of a run."
    )
    text: str
    first: str = Field(description="Type that is first then; nothing where none does what is asked.")
    request: dict[str, Any] = Field(description="Merged into the request (RFC 7396) it gives that answer.")
    now: float | None = None
    value: float | None = Field(None, description="The nearest found that turns the answer, within 1 to 5 %.")
    unit: str | None = None


class HoldShown(Shown):
    """A number that was moved from low to high in a few steps while the same type stayed first."""

    knob: str
    text: str
    low: float
    high: float


class SavingShown(Shown):
    """A pattern that costs less and that the request left open. Every one was asked."""

    pattern: str = Field(
        description="smaller_model, quantise, quantise_cache, spot, commit, lora or qlora.",
    )
    text: str
    owes: str = Field(description="What it takes beside the money.")
    first: str = Field(description="Type that is first then.")
    usd: float = Field(description="Of a run in all; of a service per hour, in the mean of its day.")
    saves_share: float
    request: dict[str, Any] = Field(description="Merged into the request (RFC 7396) it gives that answer.")


class SensitivityShown(Shown):
    """What would make another type of accelerator first, and what would cost less, on today's catalogue."""

    id: str
    catalog: dict[str, str]
    first: str
    flips: list[FlipShown]
    holds: list[HoldShown]
    savings: list[SavingShown]
    asked: int = Field(description="Requests that were answered to find this.")


def sensitivity_json(first: First, flips: list[Flip], holds: list[Hold], savings: list[Saving]) -> dict[str, Any]:
    """What turns the answer, what does not, and what costs less."""
    return {
        "first": first.type,
        "flips": [
            {
                "knob": f.knob,
                "text": f.text,
                "first": f.first,
                "request": f.request,
                **present(now=f.now, value=f.value, unit=f.unit or None),
            }
            for f in flips
        ],
        "savings": [
            {
                "pattern": s.pattern.name,
                "text": f"{s.pattern.text}: saves {s.saves_share:.0%}; owes {s.pattern.owes}.",
                "owes": s.pattern.owes,
                "first": s.first,
                **present(usd=s.usd, saves_share=s.saves_share),
                "request": s.pattern.patch,
            }
            for s in savings
        ],
        "holds": [{"knob": h.knob, "text": h.text, **present(low=h.low, high=h.high)} for h in holds],
    }
