"""Numbers as people type them: 1,000; 70b; 1 trillion; 1e9; 80 %. The command line takes them; the API names them."""

from __future__ import annotations

import re

POWERS = {"k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
NUMBER = re.compile(r"^\s*([+-]?\d[\d,_ ]*(?:\.\d+)?(?:e[+-]?\d+)?)\s*([a-z]*|%)\s*$", re.IGNORECASE)


def read_number(text: str, unit: str = "") -> float | int | None:
    """Returns the number that a text states, or None.

    Parameters:
        unit: the unit of the value, as the end of a field's name ("ms" of `ttft_ms`), which may follow the number.

    Check:
        >>> read_number("1,000,000"), read_number("1.5b"), read_number("1 trillion"), read_number("2e9")
        (1000000, 1500000000, 1000000000000, 2000000000)
        >>> read_number("80 %"), read_number("800 ms", "ms"), read_number("0.8 s", "ms")
        (0.8, 800, None)
    """
    match = NUMBER.match(text)
    suffix = match[2].lower() if match else ""
    if match is None or suffix not in {"", "%", unit.lower(), *POWERS}:
        return None
    digits = float(re.sub(r"[,_ ]", "", match[1]))
    value = digits / 100 if suffix == "%" else digits if suffix == unit.lower() else digits * POWERS.get(suffix, 1.0)
    return int(value) if value.is_integer() else value
