"""How sentences write numbers and counts: three significant digits, no exponents, one thing in the singular."""

from __future__ import annotations

import math

LARGE = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"))
DIGITS = 3


def figure(value: float) -> str:
    """A number as a person writes it: whole with thousands separators from a hundred on, else three digits."""
    if abs(value) >= 100 or value == 0:
        return f"{value:,.0f}"
    places = max(0, DIGITS - 1 - math.floor(math.log10(abs(value))))
    return f"{value:.{places}f}".rstrip("0").rstrip(".") if places else f"{value:.0f}"


def large(value: float) -> str:
    """A number that may be very large, in millions, billions or trillions."""
    for size, name in LARGE:
        if value >= size:
            return f"{figure(value / size)} {name}"
    return figure(value)


def counted(count: float, thing: str) -> str:
    """So many of a thing: "1 machine", "1,024 machines"."""
    return f"{count:,.0f} {thing if count == 1 else f'{thing}s'}"


def at_least(value: float) -> float:
    """The number of three significant digits that is next to a positive value and no smaller: a limit that does."""
    if value <= 0:
        return 0.0
    step = 10.0 ** (math.floor(math.log10(value)) - DIGITS + 1)
    return float(f"{math.ceil(value / step * (1 - 1e-12)) * step:.12g}")
