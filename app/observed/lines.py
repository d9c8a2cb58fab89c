"""A pasted log as lines: without colours, progress bars each for itself, none longer than is looked at."""

from __future__ import annotations

import re

COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
BREAK = re.compile(r"[\r\n]+")
LONGEST = 2000


def lines_of(text: str) -> list[str]:
    """Lines that say something."""
    return [line for raw in BREAK.split(COLOUR.sub("", text)) if (line := raw[:LONGEST].strip())]
