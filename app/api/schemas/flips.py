"""Schemas of GET /recommendations/{id}/sensitivity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from app.api.schemas.base import ResponseModel
from app.api.schemas.origins import EMPTY, WHOLE, From, ResultModel
from app.sizing.words import percent


@dataclass(frozen=True, slots=True)
class TopOption:
    """First-ranked option: accelerator type (or a pair of pools, or nothing), its name and its price as text."""

    type: str
    name: str
    price: str


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """A change of the request that makes another type rank first. `value` is None if no number changes."""

    parameter: str
    text: str
    first: str
    request: dict[str, Any]
    now: float | None = None
    value: float | None = None
    unit: str = ""


@dataclass(frozen=True, slots=True)
class StableRange:
    """A range of one parameter within which the same type stays first."""

    parameter: str
    text: str
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Pattern:
    """A change of the request that lowers cost, and its trade-off."""

    name: str
    text: str
    owes: str
    patch: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Saving:
    """The result of a pattern: first-ranked type, its cost in USD, and the share of the cost that it saves."""

    pattern: Pattern
    first: str
    usd: float
    saves_share: float


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
    value: float | None = Field(None, description="Closest value that changes the first rank, within 1 to 5 %.")
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
        description="Kind of saving: smaller_model, quantise, quantise_cache, spot, commit, lora or qlora.",
    )
    text: Annotated[str, From(WHOLE, convert=_saving_text)]
    owes: Annotated[str, From("pattern.owes")] = Field(description="Trade-off: what the saving requires.")
    first: str = Field(description="Accelerator type that ranks first then.")
    usd: float = Field(description="Total cost of a run, or mean hourly cost of a service over its day.")
    saves_share: float
    request: Annotated[dict[str, Any], From("pattern.patch")] = Field(
        description="Merge this into the request (RFC 7396) to get that answer."
    )


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
        "flips": [FlipShown.as_json(f) for f in flips],
        "savings": [SavingShown.as_json(s) for s in savings],
        "holds": [HoldShown.as_json(h) for h in holds],
    }
