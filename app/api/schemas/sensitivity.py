"""Schemas of GET /recommendations/{id}/sensitivity."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from app.api.schemas.origins import ADDED, EMPTY, WHOLE, From, ResultModel
from app.sizing.whatif.breakpoints import Breakpoint, Saving, Sensitivity, StableRange
from app.sizing.words import percent


class FlipShown(ResultModel, of=Breakpoint):
    """A change that ranks another accelerator type first. The service computed an answer for each change."""

    knob: Annotated[str, From("parameter")] = Field(
        description="What changes: load, input_tokens, output_tokens, ttft_ms, tpot_ms, e2e_ms, confidence, price, "
        "weight_formats, or a field of a run."
    )
    text: str
    first: str = Field(description="Accelerator type that ranks first then; empty if none meets the requirements.")
    request: dict[str, Any] = Field(description="Merge this into the request (RFC 7396) to get that answer.")
    now: float | None = None
    value: float | None = Field(None, description="Closest value computed that changes the first rank.")
    unchanged: float | None = Field(
        None, description="Closest value computed that does not; the change lies between the two, usually within 5 %."
    )
    unit: Annotated[str | None, From(omit=EMPTY)] = None


class HoldShown(ResultModel, of=StableRange):
    """A number that was varied from low to high in a few steps while the same type stayed first."""

    knob: Annotated[str, From("parameter")]
    text: str
    low: float
    high: float


def _saving_text(s: Saving) -> str:
    return f"{s.pattern.text}: saves {percent(s.saves_share)}. Trade-off: {s.pattern.owes}."


class SavingShown(ResultModel, of=Saving):
    """A cheaper option that the request left open. The service computed an answer for each option."""

    pattern: Annotated[str, From("pattern.name")] = Field(
        description="Kind of saving: smaller_model, quantise, quantise_cache, cache_prefixes, defer_bulk, spot, "
        "commit, lora or qlora.",
    )
    text: Annotated[str, From(WHOLE, convert=_saving_text)]
    owes: Annotated[str, From("pattern.owes")] = Field(description="Trade-off: what the saving requires.")
    first: str = Field(description="Accelerator type that ranks first then.")
    usd: float = Field(description="Total cost of a run, or mean hourly cost of a service over its day.")
    saves_share: float
    request: Annotated[dict[str, Any], From("pattern.patch")] = Field(
        description="Merge this into the request (RFC 7396) to get that answer."
    )


class SensitivityShown(ResultModel, of=Sensitivity):
    """Changes that would rank another accelerator type first, and options that would cost less, in today's catalog."""

    id: Annotated[str, ADDED]
    catalog: Annotated[dict[str, str], ADDED]
    first: Annotated[str, From("first.type")]
    flips: Annotated[list[FlipShown], From("breakpoints")]
    holds: Annotated[list[HoldShown], From("stable_ranges")]
    savings: list[SavingShown]
    asked: Annotated[int, From("questions")] = Field(
        description="Number of recommendations that the service computed for this."
    )
    next: int | None = Field(
        None,
        description="Where this call stopped. Send it as `start` to examine the rest; none if nothing is left. For "
        "an expensive request the next call may go on within the same subject.",
    )
