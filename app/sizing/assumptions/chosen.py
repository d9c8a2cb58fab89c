"""Declaration of an assumption: value, plausible range, unit, reason, source and date."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

REVIEWED = "2026-11"


def assumption(
    value: float, *, low: float, high: float, reason: str, source: str, unit: str = "1", as_of: str = REVIEWED
) -> Any:
    """A dataclass field for an assumption.

    Parameters:
        value: default value.
        low, high: range that an override may set.
        reason: meaning of the value in at most 60 characters; every answer that uses the assumption shows it.
        source: what was read, or "assumed" and the basis.
        unit: unit of the value; by default it is a ratio.
        as_of: year and month of the source or of the assumption; by default the month of the last review of all.
    """
    facts = {"low": low, "high": high, "unit": unit, "reason": reason, "source": source, "as_of": as_of}
    return field(default=value, metadata=facts)


@dataclass(frozen=True, slots=True)
class Assumed:
    """One figure as an answer shows it: an assumption, or a value derived from the request.

    `asked` is true if the request sets the figure; otherwise `source` says where it comes from. `bounds` are the
    smallest and largest accepted value, None for a text.
    """

    name: str
    value: float | str
    unit: str
    reason: str
    source: str
    bounds: tuple[float, float] | None = None
    asked: bool = False

    def relaxed(self, times: float) -> Assumed:
        """An assumed limit that is a number of times the usual one."""
        return replace(self, value=float(self.value) * times, reason=f"{self.reason}, {times:g} times the usual")
