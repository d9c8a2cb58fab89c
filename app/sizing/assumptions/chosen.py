"""How a chosen number is written down: value, plausible range, unit, reason, source and date."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


def assumption(value: float, *, low: float, high: float, unit: str, reason: str, source: str, as_of: str) -> Any:
    """A chosen number. `low` and `high` are what an override may be; `reason` says what it is and is echoed in
    every answer that rests on it: keep it to a few words. `source` is what was read, or "chosen" and why; `as_of` is
    the year and month of either.
    """
    facts = {"low": low, "high": high, "unit": unit, "reason": reason, "source": source, "as_of": as_of}
    return field(default=value, metadata=facts)


@dataclass(frozen=True, slots=True)
class Assumed:
    """One figure as it is echoed. `asked`: the caller gave it; else `source` says where it is from.

    `bounds` are the least and the most it may be; None of a text.
    """

    name: str
    value: float | str
    unit: str
    reason: str
    source: str
    bounds: tuple[float, float] | None = None
    asked: bool = False
